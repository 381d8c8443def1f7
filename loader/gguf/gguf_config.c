/* Config fields of each GGUF family and the keys that they come from. */
#include "loader/gguf/gguf_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/gguf/gguf_keys.h"
#include "loader/gguf/gguf_rope.h"

enum { MAX_SIZE = 1 << 27 };
/* Range of the attention scale: 1 / square roots of the accepted query_pre_attn_scalar. */
#define MIN_SCALE 1e-4
#define MAX_SCALE 1e4

/* Value of GPT-OSS that GGUF has no key for. */
#define GPT_OSS_SWIGLU_LIMIT 7.0
/* Layers of the Gemma models whose attention is scaled by hidden / heads instead of head_dim:
 * gemma-2-27b and gemma-3-27b, of which GGUF does not say so (llama.cpp goes by layers too). */
enum { GEMMA2_27B_LAYERS = 46, GEMMA3_27B_LAYERS = 62 };

struct composer {
    const struct dgl_log *log;
    const struct gguf_model *m;
    struct fields *out;
    char key[GGUF_ARCH_KEY_TEXT];
};

/* Key of the file after the name of the architecture. */
static const char *key_of(struct composer *c, const char *suffix)
{
    return gguf_arch_key(c->m->arch, suffix, c->key);
}

static bool has_tensor(const struct gguf_model *m, const char *name)
{
    return tensor_source_find(m->raw, name) >= 0;
}

/* A required size. */
static enum dgl_status copy_size(struct composer *c, const char *path, const char *suffix)
{
    int64_t value = 0;
    enum dgl_status status = gguf_arch_need_i64(c->log, c->m, suffix, MAX_SIZE, &value);
    fields_set(c->out, path, field_i64(value), key_of(c, suffix));
    return status;
}

/* An optional float. */
static enum dgl_status copy_f64(struct composer *c, const char *path, const char *suffix)
{
    double value = 0;
    enum dgl_status status = gguf_arch_f64(c->log, c->m, suffix, &value);
    if (gguf_arch_find_key(c->m, suffix))
        fields_set(c->out, path, field_f64(value), key_of(c, suffix));
    return status;
}

/* Sets a field that GGUF files of the architecture have no key for. */
static void set_unsaid(struct composer *c, const char *path, struct field value)
{
    fields_set(c->out, path, value, NULL);
}

static enum dgl_status put_sizes(struct composer *c)
{
    const struct gguf_model *m = c->m;
    bool experts_only = (m->arch->family & GGUF_GPT_OSS) != 0;
    const struct {
        const char *path, *suffix;
        int32_t value;
    } sizes[] = {{"num_hidden_layers", "block_count", m->layers},
                 {"num_attention_heads", "attention.head_count", m->heads},
                 {"num_key_value_heads", "attention.head_count_kv", m->kv_heads},
                 {"head_dim", "attention.key_length", m->head_dim}};
    fields_set(c->out, "model_type", field_str(m->arch->model_type), "general.architecture");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        fields_set(c->out, sizes[i].path, field_i64(sizes[i].value), key_of(c, sizes[i].suffix));
    set_unsaid(c, "tie_word_embeddings", field_bool(!has_tensor(m, "output.weight")));
    enum dgl_status status;
    TRY(copy_size(c, "hidden_size", "embedding_length"));
    /* The vocabulary size is the number of rows of the embedding table. */
    long index = tensor_source_find(m->raw, "token_embd.weight");
    if (index < 0)
        return dgl_fail(
            c->log, DGL_ERR_FORMAT,
            "%s: tensor token_embd.weight is missing, the embedding with a row of %s values "
            "per token",
            m->file->name, key_of(c, "embedding_length"));
    const struct tensor_info *t = tensor_source_at(m->raw, (size_t)index);
    if (t->rank != 2 || t->shape[0] > MAX_SIZE)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: tensor token_embd.weight has %" PRIu32 " dimensions, %" PRIu64
                        " rows; wanted a matrix of at most %d rows",
                        m->file->name, t->rank, t->shape[0], MAX_SIZE);
    int64_t rows = (int64_t)t->shape[0], said = rows;
    fields_set(c->out, "vocab_size", field_i64(rows), "rows of token_embd.weight");
    if (gguf_arch_find_key(m, "vocab_size"))
        TRY(gguf_arch_need_i64(c->log, m, "vocab_size", MAX_SIZE, &said));
    if (said != rows)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s is %" PRId64 ", but token_embd.weight has %" PRId64
                        " rows: the file was put together from different models, convert it again",
                        m->file->name, key_of(c, "vocab_size"), said, rows);
    TRY(copy_size(c, "intermediate_size",
                  experts_only ? "expert_feed_forward_length" : "feed_forward_length"));
    TRY(copy_size(c, "max_position_embeddings", "context_length"));
    if (!gguf_arch_find_key(m, "attention.layer_norm_rms_epsilon"))
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s.attention.layer_norm_rms_epsilon is missing; if you know it, "
                        "--override-kv KEY=float:VALUE adds it",
                        m->file->name, m->arch->name);
    TRY(copy_f64(c, "rms_norm_eps", "attention.layer_norm_rms_epsilon"));
done:
    return status;
}

/* Sets sliding_window, or null without a window: in some families an absent field means a window.
 * Sets layer_types of families that alternate windows. The file has a list of layers or a period:
 * every layer at a multiple of the period has no window, and 0 means that all layers have one. */
static enum dgl_status put_window(struct composer *c)
{
    static const char suffix[] = "attention.sliding_window_pattern";
    const struct gguf_model *m = c->m;
    const struct gguf_kv *kv = gguf_arch_find_key(m, suffix);
    int64_t window = 0, period = m->arch->window_period;
    bool listed = kv && kv->is_array;
    enum dgl_status status;
    TRY(gguf_arch_i64(c->log, m, "attention.sliding_window", MAX_SIZE, &window));
    fields_set(c->out, "sliding_window",
               window > 0 ? field_i64(window) : (struct field){.kind = FIELD_NULL},
               key_of(c, "attention.sliding_window"));
    if (window == 0 || period == 0)
        return DGL_OK;
    if (!listed)
        TRY(gguf_arch_i64(c->log, m, suffix, MAX_SIZE, &period));
    struct field *types =
        fields_set_list(c->out, "layer_types", (size_t)m->layers, key_of(c, suffix));
    for (int32_t i = 0; i < m->layers && types; i++) {
        int64_t windowed = period == 0 || i % period < period - 1;
        if (listed && !gguf_int_at(kv, (uint64_t)i, &windowed))
            return dgl_fail(c->log, DGL_ERR_FORMAT,
                            "%s: %s has %" PRIu64 " elements of %s, wanted %" PRId32 " bools",
                            m->file->name, key_of(c, suffix), kv->count, gguf_type_name(kv->type),
                            m->layers);
        types[i] = field_str(windowed ? "sliding_attention" : "full_attention");
    }
done:
    return status;
}

static enum dgl_status put_gemma(struct composer *c)
{
    const struct gguf_model *m = c->m;
    bool second = m->arch->family == GGUF_GEMMA2;
    int32_t big_layers = second ? GEMMA2_27B_LAYERS : GEMMA3_27B_LAYERS;
    int64_t hidden = 0;
    double scale = 0;
    enum dgl_status status;
    set_unsaid(c, "hidden_activation", field_str("gelu_pytorch_tanh"));
    TRY(gguf_arch_need_i64(c->log, m, "embedding_length", MAX_SIZE, &hidden));
    TRY(gguf_arch_f64(c->log, m, "attention.scale", &scale));
    if (scale != 0 && !(scale >= MIN_SCALE && scale <= MAX_SCALE))
        return dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s is %g, wanted a number from %g to %g",
                        m->file->name, key_of(c, "attention.scale"), scale, MIN_SCALE, MAX_SCALE);
    /* Scores are scaled by query_pre_attn_scalar to the power -1/2. */
    double scalar = m->layers == big_layers ? (double)(hidden / m->heads) : m->head_dim;
    fields_set(c->out, "query_pre_attn_scalar", field_f64(scale > 0 ? 1 / (scale * scale) : scalar),
               key_of(c, "attention.scale"));
    if (second)
        TRY(copy_f64(c, "attn_logit_softcapping", "attn_logit_softcapping"));
    if (gguf_arch_find_key(m, "final_logit_softcapping"))
        TRY(copy_f64(c, "final_logit_softcapping", "final_logit_softcapping"));
    else if (!second)
        fields_set(c->out, "final_logit_softcapping", (struct field){.kind = FIELD_NULL},
                   key_of(c, "final_logit_softcapping"));
    TRY(put_window(c));
done:
    return status;
}

static enum dgl_status put_experts(struct composer *c, const char *count_name)
{
    fields_set(c->out, count_name, field_i64(c->m->experts), key_of(c, "expert_count"));
    return copy_size(c, "num_experts_per_tok", "expert_used_count");
}

/* Families whose config has a field for biases. GGUF has no key for it: the tensors decide. */
#define ATTENTION_BIAS                                                                             \
    (MLP_BIAS | GGUF_QWEN3 | GGUF_QWEN3_MOE | GGUF_GEMMA2 | GGUF_GEMMA3 | GGUF_GPT_OSS | GGUF_OLMO2)
#define MLP_BIAS (GGUF_LLAMA | GGUF_SMOLLM3 | GGUF_GRANITE)

/* One of the names, which end with NULL, is enough; model_bind() reports those that are missing. */
static bool has_any(const struct gguf_model *m, const char *const *names)
{
    while (*names && !has_tensor(m, *names))
        names++;
    return *names != NULL;
}

static enum dgl_status put_family(struct composer *c)
{
    enum dgl_status status = DGL_OK;
    bool norm = true; /* the default of llama.cpp */
    struct field *rotates;
    switch (c->m->arch->family) {
    case GGUF_LLAMA:
        return strcmp(c->m->arch->model_type, "mistral") == 0 ? put_window(c) : DGL_OK;
    case GGUF_MIXTRAL:
        TRY(put_experts(c, "num_local_experts"));
        return put_window(c);
    case GGUF_QWEN2:
    case GGUF_QWEN3:
        set_unsaid(c, "use_sliding_window", field_bool(false));
        break;
    case GGUF_QWEN3_MOE:
        TRY(put_experts(c, "num_experts"));
        TRY(copy_size(c, "moe_intermediate_size", "expert_feed_forward_length"));
        TRY(gguf_opt_bool((struct gguf_reader){.log = c->log, .file = c->m->file},
                          key_of(c, "expert_weights_norm"), &norm));
        fields_set(c->out, "norm_topk_prob", field_bool(norm), key_of(c, "expert_weights_norm"));
        set_unsaid(c, "decoder_sparse_step", field_i64(1));
        set_unsaid(c, "use_sliding_window", field_bool(false));
        break;
    case GGUF_GEMMA2:
    case GGUF_GEMMA3:
        return put_gemma(c);
    case GGUF_PHI3:
        return put_window(c);
    case GGUF_GPT_OSS:
        TRY(put_experts(c, "num_local_experts"));
        set_unsaid(c, "swiglu_limit", field_f64(GPT_OSS_SWIGLU_LIMIT));
        return put_window(c);
    case GGUF_OLMO2:
        break;
    case GGUF_SMOLLM3:
        set_unsaid(c, "use_sliding_window", field_bool(false));
        set_unsaid(c, "no_rope_layer_interval", field_i64(GGUF_NO_ROPE_INTERVAL));
        rotates = fields_set_list(c->out, "no_rope_layers", (size_t)c->m->layers, NULL);
        for (int32_t i = 0; rotates && i < c->m->layers; i++) /* 1 = rotated */
            rotates[i] = field_i64((i + 1) % GGUF_NO_ROPE_INTERVAL != 0);
        break;
    case GGUF_GRANITE:
        TRY(copy_f64(c, "embedding_multiplier", "embedding_scale"));
        TRY(copy_f64(c, "attention_multiplier", "attention.scale"));
        TRY(copy_f64(c, "residual_multiplier", "residual_scale"));
        TRY(copy_f64(c, "logits_scaling", "logit_scale"));
        break;
    }
done:
    return status;
}

enum dgl_status gguf_config_read(const struct dgl_log *log, const struct gguf_model *model,
                                 const struct gguf_config_ids *ids, struct fields *out)
{
    static const char *const attention[] = {"blk.0.attn_q.bias", "blk.0.attn_k.bias",
                                            "blk.0.attn_v.bias", "blk.0.attn_output.bias", NULL};
    static const char *const mlp[] = {"blk.0.ffn_gate.bias", "blk.0.ffn_up.bias",
                                      "blk.0.ffn_down.bias", NULL};
    struct composer c = {.log = log, .m = model, .out = out};
    bool mistral = strcmp(model->arch->model_type, "mistral") == 0;
    enum dgl_status status;
    TRY(put_sizes(&c));
    TRY(gguf_rope_read(log, model, out));
    TRY(put_family(&c));
    if ((model->arch->family & ATTENTION_BIAS) && !mistral)
        set_unsaid(&c, "attention_bias", field_bool(has_any(model, attention)));
    if ((model->arch->family & MLP_BIAS) && !mistral)
        set_unsaid(&c, "mlp_bias", field_bool(has_any(model, mlp)));
    if (ids->bos_id >= 0)
        fields_set(out, "bos_token_id", field_i64(ids->bos_id), "tokenizer.ggml.bos_token_id");
    struct field *eos =
        fields_set_list(out, "eos_token_id", ids->num_stop_ids, "tokenizer.ggml.eos_token_id");
    for (size_t i = 0; eos && i < ids->num_stop_ids; i++) {
        eos[i] = field_i64(ids->stop_ids[i].id);
        eos[i].origin = ids->stop_ids[i].origin;
    }
    if (out->failed)
        status = dgl_fail_memory(log, "model description", out->count * sizeof(*eos));
done:
    return status;
}
