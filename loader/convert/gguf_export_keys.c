/* Writes the keys of a GGUF file from a model description. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/log.h"
#include "loader/convert/gguf_export.h"
#include "loader/gguf/gguf_keys.h"
#include "loader/gguf/gguf_sampling.h"

void gguf_export_u32(const struct gguf_exporter *k, const char *suffix, int64_t value)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_u32(k->w, gguf_arch_key(k->arch, suffix, key), (uint32_t)value);
}

void gguf_export_f32(const struct gguf_exporter *k, const char *suffix, double value)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_f32(k->w, gguf_arch_key(k->arch, suffix, key), value);
}

static bool has_window(const struct gguf_exporter *k, int32_t layer)
{
    return k->model->desc.layer[layer].window > 0;
}

/* Lists the layers for which `is` returns `value`: "2, 5, 8, ... (12 in all)". */
static void list_layers(const struct gguf_exporter *k,
                        bool (*is)(const struct gguf_exporter *k, int32_t layer), bool value,
                        struct dgl_buf *out)
{
    enum { SHOWN = 8 };
    int32_t count = 0;
    for (int32_t i = 0; i < k->model->desc.layers; i++) {
        if (is(k, i) != value)
            continue;
        if (count++ < SHOWN)
            dgl_buf_printf(out, "%s%" PRId32, count > 1 ? ", " : "", i);
    }
    if (count > SHOWN)
        dgl_buf_printf(out, ", ... (%" PRId32 " in all)", count);
    if (count == 0)
        dgl_buf_puts(out, "none");
}

static enum dgl_status put_windows(const struct gguf_exporter *k)
{
    int32_t window = 0, period = k->arch->window_period;
    char key[GGUF_ARCH_KEY_TEXT];
    for (int32_t i = 0; i < k->model->desc.layers; i++)
        window = k->model->desc.layer[i].window > window ? k->model->desc.layer[i].window : window;
    if (window == 0)
        return DGL_OK;
    /* True if the windows are in the layers where readers of this architecture expect them. */
    bool usual = true, alternates = period > 0;
    for (int32_t i = 0; i < k->model->desc.layers; i++)
        usual &=
            (!alternates || i % period < period - 1) == (k->model->desc.layer[i].window == window);
    bool said = gguf_arch_uses(k->arch, "attention.sliding_window");
    if (!said || (!usual && !alternates)) {
        struct dgl_buf layers = {0};
        list_layers(k, has_window, true, &layers);
        enum dgl_status status =
            dgl_fail(k->log, DGL_ERR_UNSUPPORTED,
                     "%s: sliding_window is %" PRId32 " in layers %s of %" PRId32
                     ", but a GGUF file of architecture %s has it in %s; " GGUF_AS_PACK,
                     k->model->path, window, layers.p ? layers.p : "?", k->model->desc.layers,
                     k->arch->name, said ? "all or none" : "none");
        dgl_buf_finish(&layers);
        return status;
    }
    gguf_export_u32(k, "attention.sliding_window", window);
    if (!usual) {
        gguf_put_array(k->w, gguf_arch_key(k->arch, "attention.sliding_window_pattern", key),
                       GGUF_BOOL, (uint64_t)k->model->desc.layers);
        for (int32_t i = 0; i < k->model->desc.layers; i++)
            gguf_add_bool(k->w, k->model->desc.layer[i].window == window);
    }
    if (!alternates)
        dgl_warn(k->log,
                 "%s: its sliding window of %" PRId32 " is written, but llama.cpp does without one "
                 "in architecture %s",
                 k->model->path, window, k->arch->name);
    return DGL_OK;
}

static enum dgl_status put_experts(const struct gguf_exporter *k)
{
    const struct moe_desc *moe = &k->model->desc.moe;
    gguf_export_u32(k, "expert_count", moe->experts);
    gguf_export_u32(k, "expert_used_count", moe->top_k);
    gguf_export_u32(k, "expert_feed_forward_length", moe->intermediate);
    if (k->arch->family != GGUF_QWEN3_MOE)
        return DGL_OK;
    char key[GGUF_ARCH_KEY_TEXT];
    bool norm = moe->scoring == MOE_SOFTMAX_TOPK_NORM;
    gguf_put_bool(k->w, gguf_arch_key(k->arch, "expert_weights_norm", key), norm);
    if (!norm)
        dgl_warn(k->log,
                 "%s: its norm_topk_prob is false, which llama.cpp does not read for architecture "
                 "%s",
                 k->model->path, k->arch->name);
    for (int32_t i = 0; i < k->model->desc.layers; i++) {
        if (!k->model->desc.layer[i].sparse)
            return dgl_fail(k->log, DGL_ERR_UNSUPPORTED,
                            "%s: layer %" PRId32 " has no experts (decoder_sparse_step or "
                            "mlp_only_layers), but in a GGUF file of architecture %s all layers "
                            "have them; " GGUF_AS_PACK,
                            k->model->path, i, k->arch->name);
    }
    return DGL_OK;
}

/* In GGUF files of SmolLM3 the rotated layers are fixed. */
static bool rotates_there(const struct gguf_exporter *k, int32_t layer)
{
    return k->arch->family != GGUF_SMOLLM3 || (layer + 1) % GGUF_NO_ROPE_INTERVAL != 0;
}

static bool rotates_here(const struct gguf_exporter *k, int32_t layer)
{
    return k->model->desc.layer[layer].rope != ROPE_NONE;
}

static enum dgl_status check_rotated(const struct gguf_exporter *k)
{
    struct dgl_buf here = {0}, there = {0};
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < k->model->desc.layers; i++) {
        if (rotates_there(k, i) == rotates_here(k, i))
            continue;
        list_layers(k, rotates_here, false, &here);
        list_layers(k, rotates_there, false, &there);
        status =
            dgl_fail(k->log, DGL_ERR_UNSUPPORTED,
                     "%s: no_rope_layers: the layers without rotation are %s, but in a GGUF file "
                     "of architecture %s, which has no key for them, they are %s; " GGUF_AS_PACK,
                     k->model->path, here.p ? here.p : "?", k->arch->name, there.p ? there.p : "?");
        break;
    }
    dgl_buf_finish(&here);
    dgl_buf_finish(&there);
    return status;
}

/* Families whose biases are optional in llama.cpp; in Hugging Face the config decides. */
#define OPTIONAL_BIASES (GGUF_LLAMA | GGUF_GRANITE)

enum dgl_status gguf_export_keys(const struct dgl_log *log, const struct dgl_model_file *model,
                                 const struct gguf_arch *arch, struct gguf_writer *w)
{
    const struct gguf_exporter k = {.log = log, .model = model, .arch = arch, .w = w};
    const struct model_desc *d = &model->desc;
    gguf_put_str(w, "general.architecture", dgl_str_of(arch->name));
    gguf_put_str(w, "general.type", DGL_STR("model"));
    gguf_put_str(w, "general.name", dgl_str_of(model->name));
    gguf_put_u32(w, "general.quantization_version", 2); /* of ggml's block formats */
    enum dgl_status status;
    if (model->generation_config_json)
        TRY(gguf_sampling_write(log, model->path, model->generation_config_json,
                                model->generation_config_len, w));
    gguf_export_u32(&k, "vocab_size", d->vocab);
    gguf_export_u32(&k, "context_length", d->context_max);
    gguf_export_u32(&k, "embedding_length", d->hidden);
    gguf_export_u32(&k, "block_count", d->layers);
    gguf_export_u32(&k, "feed_forward_length", d->intermediate);
    gguf_export_u32(&k, "attention.head_count", d->heads);
    gguf_export_u32(&k, "attention.head_count_kv", d->kv_heads);
    gguf_export_u32(&k, "attention.key_length", d->head_dim);
    gguf_export_u32(&k, "attention.value_length", d->head_dim);
    gguf_export_f32(&k, "attention.layer_norm_rms_epsilon", d->norm_eps);
    TRY(put_windows(&k));
    TRY(check_rotated(&k));
    TRY(gguf_export_rope(&k));
    if (d->moe.experts > 0)
        TRY(put_experts(&k));
    if (arch->family & (GGUF_GEMMA2 | GGUF_GEMMA3)) {
        if (d->attn_softcap > 0)
            gguf_export_f32(&k, "attn_logit_softcapping", d->attn_softcap);
        if (d->logit_softcap > 0)
            gguf_export_f32(&k, "final_logit_softcapping", d->logit_softcap);
        /* llama.cpp reads no key for the attention scale of Gemma. It uses key_length, or hidden /
         * heads for models of 27 billion parameters. */
        if (fabs(d->attn_scale * sqrt((double)d->head_dim) - 1) >= 1e-6) {
            gguf_export_f32(&k, "attention.scale", d->attn_scale);
            dgl_warn(log,
                     "%s: its query_pre_attn_scalar is written as %s.attention.scale, which "
                     "llama.cpp does not read",
                     model->path, arch->name);
        }
    }
    if (arch->family == GGUF_GRANITE) {
        gguf_export_f32(&k, "attention.scale", d->attn_scale);
        gguf_export_f32(&k, "embedding_scale", d->embed_scale);
        gguf_export_f32(&k, "residual_scale", d->residual_scale);
        gguf_export_f32(&k, "logit_scale", 1 / d->logit_scale); /* a divisor in GGUF */
    }
    if (model->pooling.origin[0]) {
        const int64_t type = modules_gguf_type(model->pooling.pooling);
        if (type > MODULES_GGUF_NONE)
            gguf_export_u32(&k, "pooling_type", type);
        if (!model->pooling.normalize)
            dgl_warn(log,
                     "%s: its embeddings are not normalised; those of the GGUF file will be, "
                     "because llama.cpp normalises all",
                     model->path);
    }
    if (model->pooling.fault[0])
        dgl_warn(log, "%s: %s; the GGUF file does not have it", model->path, model->pooling.fault);
    if (d->no_head)
        dgl_warn(
            log,
            "%s: it has no lm_head.weight; readers of the GGUF file will use token_embd.weight "
            "as its head, so only its embeddings are meaningful",
            model->path);
    bool attention = (d->parts & PART_O_BIAS) != 0, wanted = arch->family == GGUF_GPT_OSS;
    bool any = (d->parts & (PART_O_BIAS | PART_MLP_BIAS)) != 0;
    if (!(arch->family & OPTIONAL_BIASES) && (wanted ? !attention : any))
        dgl_warn(log, "%s: it has %s, so llama.cpp will not load it as architecture %s",
                 model->path, wanted ? "no biases of attention" : "biases", arch->name);
done:
    return status;
}
