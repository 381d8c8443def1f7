/* config.json of a GGUF model: which fields each family has, and where their values come from. */
#include "loader/gguf/gguf_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/gguf/gguf_keys.h"
#include "loader/gguf/gguf_rope.h"

enum { MAX_SIZE = 1 << 27 };
/* What scores may be scaled by: square roots of what query_pre_attn_scalar may be. */
#define MIN_SCALE 1e-4
#define MAX_SCALE 1e4

/* One GPT-OSS value that GGUF leaves to the reader. */
#define GPT_OSS_SWIGLU_LIMIT 7.0
/* Layers of the Gemma models whose attention is scaled by hidden / heads instead of head_dim:
 * gemma-2-27b and gemma-3-27b, of which GGUF does not say so (llama.cpp goes by layers too). */
enum { GEMMA2_27B_LAYERS = 46, GEMMA3_27B_LAYERS = 62 };

struct composer {
    const struct dgl_log *log;
    const struct gguf_model *m;
    struct dgl_json_writer *w;
};

static void put_i64(struct composer *c, const char *key, int64_t value)
{
    dgl_jw_key(c->w, key);
    dgl_jw_i64(c->w, value);
}

static void put_f64(struct composer *c, const char *key, double value)
{
    dgl_jw_key(c->w, key);
    dgl_jw_f64(c->w, value);
}

static void put_bool(struct composer *c, const char *key, bool value)
{
    dgl_jw_key(c->w, key);
    dgl_jw_bool(c->w, value);
}

static void put_null(struct composer *c, const char *key)
{
    dgl_jw_key(c->w, key);
    dgl_jw_null(c->w);
}

static bool has_tensor(const struct gguf_model *m, const char *name)
{
    return tensor_source_find(m->raw, name) >= 0;
}

/* A required size of the metadata under its Hugging Face name. */
static enum dgl_status copy_size(struct composer *c, const char *key, const char *suffix)
{
    int64_t value = 0;
    enum dgl_status st = gguf_arch_need_i64(c->log, c->m, suffix, MAX_SIZE, &value);
    put_i64(c, key, value);
    return st;
}

/* An optional float under its Hugging Face name; left out when absent. */
static enum dgl_status copy_f64(struct composer *c, const char *key, const char *suffix)
{
    double value = 0;
    enum dgl_status st = gguf_arch_f64(c->log, c->m, suffix, &value);
    if (gguf_arch_find_key(c->m, suffix))
        put_f64(c, key, value);
    return st;
}

/* The vocabulary is what the embedding table has rows for. */
static enum dgl_status put_vocab(struct composer *c)
{
    long index = tensor_source_find(c->m->raw, "token_embd.weight");
    char key[GGUF_ARCH_KEY_TEXT];
    if (index < 0)
        return dgl_fail(
            c->log, DGL_ERR_FORMAT,
            "%s: tensor token_embd.weight is missing, the embedding with a row of %s values "
            "per token",
            c->m->file->name, gguf_arch_key(c->m->arch, "embedding_length", key));
    const struct tensor_info *t = tensor_source_at(c->m->raw, (size_t)index);
    if (t->rank != 2 || t->shape[0] > MAX_SIZE)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: tensor token_embd.weight has %" PRIu32 " dimensions, %" PRIu64
                        " rows; wanted a matrix of at most %d rows",
                        c->m->file->name, t->rank, t->shape[0], MAX_SIZE);
    put_i64(c, "vocab_size", (int64_t)t->shape[0]);
    return DGL_OK;
}

static enum dgl_status put_sizes(struct composer *c)
{
    const struct gguf_model *m = c->m;
    bool experts_only = (m->arch->family & GGUF_GPT_OSS) != 0;
    dgl_jw_key(c->w, "model_type");
    dgl_jw_cstr(c->w, m->arch->model_type);
    put_i64(c, "num_hidden_layers", m->layers);
    put_i64(c, "num_attention_heads", m->heads);
    put_i64(c, "num_key_value_heads", m->kv_heads);
    put_i64(c, "head_dim", m->head_dim);
    put_bool(c, "tie_word_embeddings", !has_tensor(m, "output.weight"));
    enum dgl_status st = copy_size(c, "hidden_size", "embedding_length");
    if (st == DGL_OK)
        st = put_vocab(c);
    if (st == DGL_OK)
        st = copy_size(c, "intermediate_size",
                       experts_only ? "expert_feed_forward_length" : "feed_forward_length");
    if (st == DGL_OK)
        st = copy_size(c, "max_position_embeddings", "context_length");
    if (st == DGL_OK && !gguf_arch_find_key(m, "attention.layer_norm_rms_epsilon"))
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s.attention.layer_norm_rms_epsilon is missing", m->file->name,
                        m->arch->name);
    return st == DGL_OK ? copy_f64(c, "rms_norm_eps", "attention.layer_norm_rms_epsilon") : st;
}

/* How often a layer sees everything, when the file names a period; 0 = it lists the layers. */
static enum dgl_status window_layers(struct composer *c, bool *windowed)
{
    const struct gguf_model *m = c->m;
    char key[GGUF_ARCH_KEY_TEXT];
    const char *name = gguf_arch_key(m->arch, "attention.sliding_window_pattern", key);
    const struct gguf_kv *kv = gguf_find(m->file, name);
    int64_t period = m->arch->window_period, value;
    if (kv && kv->is_array) {
        for (int32_t i = 0; i < m->layers; i++) {
            if (!gguf_int_at(kv, (uint64_t)i, &value))
                return dgl_fail(c->log, DGL_ERR_FORMAT,
                                "%s: %s has %" PRIu64 " elements of %s, wanted %" PRId32 " bools",
                                m->file->name, name, kv->count, gguf_type_name(kv->type),
                                m->layers);
            windowed[i] = value != 0;
        }
        return DGL_OK;
    }
    enum dgl_status st =
        gguf_arch_i64(c->log, m, "attention.sliding_window_pattern", MAX_SIZE, &period);
    for (int32_t i = 0; i < m->layers; i++)
        windowed[i] = period == 0 || i % period < period - 1;
    return st;
}

/* layer_types of the families that alternate. */
static enum dgl_status put_layer_types(struct composer *c)
{
    bool *windowed = dgl_new_array(bool, (size_t)c->m->layers);
    if (!windowed)
        return dgl_fail_memory(c->log, "layer list", (uint64_t)c->m->layers);
    enum dgl_status st = window_layers(c, windowed);
    dgl_jw_key(c->w, "layer_types");
    dgl_jw_array(c->w);
    for (int32_t i = 0; i < c->m->layers; i++)
        dgl_jw_cstr(c->w, windowed[i] ? "sliding_attention" : "full_attention");
    dgl_jw_end_array(c->w);
    free(windowed);
    return st;
}

/* sliding_window; null where there is none, because in some families silence means one. */
static enum dgl_status put_window(struct composer *c)
{
    int64_t window = 0;
    enum dgl_status st = gguf_arch_i64(c->log, c->m, "attention.sliding_window", MAX_SIZE, &window);
    if (window > 0)
        put_i64(c, "sliding_window", window);
    else
        put_null(c, "sliding_window");
    if (st == DGL_OK && window > 0 && c->m->arch->window_period > 0)
        st = put_layer_types(c);
    return st;
}

/* Gemma: scores are scaled by query_pre_attn_scalar to the power -1/2. */
static enum dgl_status put_query_scalar(struct composer *c, int32_t big_layers)
{
    const struct gguf_model *m = c->m;
    int64_t hidden = 0;
    double scale = 0;
    char key[GGUF_ARCH_KEY_TEXT];
    enum dgl_status st = gguf_arch_need_i64(c->log, m, "embedding_length", MAX_SIZE, &hidden);
    if (st == DGL_OK)
        st = gguf_arch_f64(c->log, m, "attention.scale", &scale);
    if (st == DGL_OK && scale != 0 && !(scale >= MIN_SCALE && scale <= MAX_SCALE))
        return dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s is %g, wanted a number from %g to %g",
                        m->file->name, gguf_arch_key(m->arch, "attention.scale", key), scale,
                        MIN_SCALE, MAX_SCALE);
    double scalar = m->layers == big_layers ? (double)(hidden / m->heads) : m->head_dim;
    put_f64(c, "query_pre_attn_scalar", scale > 0 ? 1 / (scale * scale) : scalar);
    return st;
}

static enum dgl_status put_gemma(struct composer *c)
{
    bool second = c->m->arch->family == GGUF_GEMMA2;
    dgl_jw_key(c->w, "hidden_activation");
    dgl_jw_cstr(c->w, "gelu_pytorch_tanh");
    enum dgl_status st = put_query_scalar(c, second ? GEMMA2_27B_LAYERS : GEMMA3_27B_LAYERS);
    if (st == DGL_OK && second)
        st = copy_f64(c, "attn_logit_softcapping", "attn_logit_softcapping");
    if (st == DGL_OK && gguf_arch_find_key(c->m, "final_logit_softcapping"))
        st = copy_f64(c, "final_logit_softcapping", "final_logit_softcapping");
    else if (!second)
        put_null(c, "final_logit_softcapping");
    if (st == DGL_OK)
        st = put_window(c);
    return st;
}

static enum dgl_status put_experts(struct composer *c, const char *count_name)
{
    put_i64(c, count_name, c->m->experts);
    return copy_size(c, "num_experts_per_tok", "expert_used_count");
}

static enum dgl_status put_qwen3_moe(struct composer *c)
{
    bool norm = true; /* as llama.cpp does it for this architecture */
    char key[GGUF_ARCH_KEY_TEXT];
    enum dgl_status st = put_experts(c, "num_experts");
    if (st == DGL_OK)
        st = copy_size(c, "moe_intermediate_size", "expert_feed_forward_length");
    if (st == DGL_OK)
        st = gguf_opt_bool((struct gguf_reader){c->log, c->m->file},
                           gguf_arch_key(c->m->arch, "expert_weights_norm", key), &norm);
    put_bool(c, "norm_topk_prob", norm);
    put_i64(c, "decoder_sparse_step", 1);
    put_bool(c, "use_sliding_window", false);
    return st;
}

static enum dgl_status put_gpt_oss(struct composer *c)
{
    enum dgl_status st = put_experts(c, "num_local_experts");
    put_f64(c, "swiglu_limit", GPT_OSS_SWIGLU_LIMIT);
    return st == DGL_OK ? put_window(c) : st;
}

static enum dgl_status put_granite(struct composer *c)
{
    enum dgl_status st = copy_f64(c, "embedding_multiplier", "embedding_scale");
    if (st == DGL_OK)
        st = copy_f64(c, "attention_multiplier", "attention.scale");
    if (st == DGL_OK)
        st = copy_f64(c, "residual_multiplier", "residual_scale");
    if (st == DGL_OK)
        st = copy_f64(c, "logits_scaling", "logit_scale");
    return st;
}

static void put_smollm3(struct composer *c)
{
    put_bool(c, "use_sliding_window", false);
    put_i64(c, "no_rope_layer_interval", GGUF_NO_ROPE_INTERVAL);
    dgl_jw_key(c->w, "no_rope_layers"); /* 1 = rotated */
    dgl_jw_array(c->w);
    for (int32_t i = 0; i < c->m->layers; i++)
        dgl_jw_i64(c->w, (i + 1) % GGUF_NO_ROPE_INTERVAL != 0);
    dgl_jw_end_array(c->w);
}

/* Families whose config says whether there are biases: a matter of the checkpoint, which GGUF says
 * by the tensors alone. */
#define ATTENTION_BIAS                                                                             \
    (MLP_BIAS | GGUF_QWEN3 | GGUF_QWEN3_MOE | GGUF_GEMMA2 | GGUF_GEMMA3 | GGUF_GPT_OSS | GGUF_OLMO2)
#define MLP_BIAS (GGUF_LLAMA | GGUF_SMOLLM3 | GGUF_GRANITE)

/* Any of them promises all: what is missing then is named by model_bind(). */
static bool has_any(const struct gguf_model *m, const char *const *names, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any = any || has_tensor(m, names[i]);
    return any;
}

static void put_biases(struct composer *c)
{
    static const char *const attention[] = {"blk.0.attn_q.bias", "blk.0.attn_k.bias",
                                            "blk.0.attn_v.bias", "blk.0.attn_output.bias"};
    static const char *const mlp[] = {"blk.0.ffn_gate.bias", "blk.0.ffn_up.bias",
                                      "blk.0.ffn_down.bias"};
    const struct gguf_arch *arch = c->m->arch;
    if (strcmp(arch->model_type, "mistral") == 0)
        return;
    if (arch->family & ATTENTION_BIAS)
        put_bool(c, "attention_bias",
                 has_any(c->m, attention, sizeof(attention) / sizeof(attention[0])));
    if (arch->family & MLP_BIAS)
        put_bool(c, "mlp_bias", has_any(c->m, mlp, sizeof(mlp) / sizeof(mlp[0])));
}

static enum dgl_status put_family(struct composer *c)
{
    switch (c->m->arch->family) {
    case GGUF_LLAMA:
        if (strcmp(c->m->arch->model_type, "mistral") == 0)
            return put_window(c);
        return DGL_OK;
    case GGUF_MIXTRAL: {
        enum dgl_status st = put_experts(c, "num_local_experts");
        return st == DGL_OK ? put_window(c) : st;
    }
    case GGUF_QWEN2:
    case GGUF_QWEN3:
        put_bool(c, "use_sliding_window", false);
        return DGL_OK;
    case GGUF_QWEN3_MOE:
        return put_qwen3_moe(c);
    case GGUF_GEMMA2:
    case GGUF_GEMMA3:
        return put_gemma(c);
    case GGUF_PHI3:
        return put_window(c);
    case GGUF_GPT_OSS:
        return put_gpt_oss(c);
    case GGUF_OLMO2:
        return DGL_OK;
    case GGUF_SMOLLM3:
        put_smollm3(c);
        return DGL_OK;
    case GGUF_GRANITE:
        return put_granite(c);
    }
    return DGL_OK;
}

static void put_ids(struct composer *c, const struct gguf_config_ids *ids)
{
    if (ids->bos_id >= 0)
        put_i64(c, "bos_token_id", ids->bos_id);
    dgl_jw_key(c->w, "eos_token_id");
    dgl_jw_array(c->w);
    for (size_t i = 0; i < ids->num_stop_ids; i++)
        dgl_jw_i64(c->w, ids->stop_ids[i].id);
    dgl_jw_end_array(c->w);
}

enum dgl_status gguf_config_write(const struct dgl_log *log, const struct gguf_model *model,
                                  const struct gguf_config_ids *ids, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 2);
    struct composer c = {.log = log, .m = model, .w = &w};
    dgl_jw_object(&w);
    enum dgl_status st = put_sizes(&c);
    if (st == DGL_OK)
        st = gguf_rope_write(log, model, &w);
    if (st == DGL_OK)
        st = put_family(&c);
    put_biases(&c);
    put_ids(&c, ids);
    dgl_jw_end_object(&w);
    dgl_buf_putc(out, '\n');
    if (st == DGL_OK && out->failed)
        st = dgl_fail_memory(log, "config.json", out->len);
    return st;
}
