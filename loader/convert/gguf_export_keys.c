/* Writes the keys of a GGUF file from a model description. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/log.h"
#include "loader/convert/gguf_export.h"
#include "loader/gguf/gguf_keys.h"

struct keys {
    const struct dgl_log *log;
    const struct dgl_model_file *model;
    const struct model_desc *desc;
    const struct gguf_arch *arch;
    struct gguf_writer *w;
};

static void put_u32(struct keys *k, const char *suffix, int64_t value)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_u32(k->w, gguf_arch_key(k->arch, suffix, key), (uint32_t)value);
}

static void put_f32(struct keys *k, const char *suffix, double value)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_f32(k->w, gguf_arch_key(k->arch, suffix, key), value);
}

/* Returns true if the windows are in the layers where readers of this architecture expect them. */
static bool windows_are_usual(const struct keys *k, int32_t window)
{
    int32_t period = k->arch->window_period;
    for (int32_t i = 0; i < k->desc->layers; i++) {
        bool usual = period == 0 || i % period < period - 1;
        if (usual != (k->desc->layer[i].window == window))
            return false;
    }
    return true;
}

static void put_pattern(struct keys *k, int32_t window)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_array(k->w, gguf_arch_key(k->arch, "attention.sliding_window_pattern", key), GGUF_BOOL,
                   (uint64_t)k->desc->layers);
    for (int32_t i = 0; i < k->desc->layers; i++)
        gguf_add_bool(k->w, k->desc->layer[i].window == window);
}

static bool has_window(const struct keys *k, int32_t layer)
{
    return k->desc->layer[layer].window > 0;
}

/* Lists the layers for which `is` returns `value`: "2, 5, 8, ... (12 in all)". */
static void list_layers(const struct keys *k, bool (*is)(const struct keys *k, int32_t layer),
                        bool value, struct dgl_buf *out)
{
    enum { SHOWN = 8 };
    int32_t count = 0;
    for (int32_t i = 0; i < k->desc->layers; i++) {
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

static enum dgl_status put_windows(struct keys *k)
{
    int32_t window = 0;
    for (int32_t i = 0; i < k->desc->layers; i++)
        window = k->desc->layer[i].window > window ? k->desc->layer[i].window : window;
    if (window == 0)
        return DGL_OK;
    bool usual = windows_are_usual(k, window);
    bool alternates = k->arch->window_period > 0;
    bool said = gguf_arch_uses(k->arch, "attention.sliding_window");
    if (!said || (!usual && !alternates)) {
        struct dgl_buf layers = {0};
        list_layers(k, has_window, true, &layers);
        enum dgl_status status =
            dgl_fail(k->log, DGL_ERR_UNSUPPORTED,
                     "%s: sliding_window is %" PRId32 " in layers %s of %" PRId32
                     ", but a GGUF file of architecture %s has it in %s; " GGUF_AS_PACK,
                     k->model->path, window, layers.p ? layers.p : "?", k->desc->layers,
                     k->arch->name, said ? "all or none" : "none");
        dgl_buf_finish(&layers);
        return status;
    }
    put_u32(k, "attention.sliding_window", window);
    if (!usual)
        put_pattern(k, window);
    if (!alternates)
        dgl_warn(k->log,
                 "%s: its sliding window of %" PRId32 " is written, but llama.cpp does without one "
                 "in architecture %s",
                 k->model->path, window, k->arch->name);
    return DGL_OK;
}

/* llama.cpp reads no key for the attention scale of Gemma. It uses key_length, or hidden / heads
 * for models of 27 billion parameters. */
static void put_gemma(struct keys *k)
{
    const struct model_desc *d = k->desc;
    if (d->attn_softcap > 0)
        put_f32(k, "attn_logit_softcapping", d->attn_softcap);
    if (d->logit_softcap > 0)
        put_f32(k, "final_logit_softcapping", d->logit_softcap);
    if (fabs(d->attn_scale * sqrt((double)d->head_dim) - 1) < 1e-6)
        return;
    put_f32(k, "attention.scale", d->attn_scale);
    dgl_warn(k->log,
             "%s: its query_pre_attn_scalar is written as %s.attention.scale, which llama.cpp does "
             "not read",
             k->model->path, k->arch->name);
}

static enum dgl_status put_experts(struct keys *k)
{
    const struct moe_desc *moe = &k->desc->moe;
    put_u32(k, "expert_count", moe->experts);
    put_u32(k, "expert_used_count", moe->top_k);
    put_u32(k, "expert_feed_forward_length", moe->intermediate);
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
    for (int32_t i = 0; i < k->desc->layers; i++) {
        if (!k->desc->layer[i].sparse)
            return dgl_fail(k->log, DGL_ERR_UNSUPPORTED,
                            "%s: layer %" PRId32 " has no experts (decoder_sparse_step or "
                            "mlp_only_layers), but in a GGUF file of architecture %s all layers "
                            "have them; " GGUF_AS_PACK,
                            k->model->path, i, k->arch->name);
    }
    return DGL_OK;
}

/* In GGUF files of SmolLM3 the rotated layers are fixed. */
static bool rotates_there(const struct keys *k, int32_t layer)
{
    return k->arch->family != GGUF_SMOLLM3 || (layer + 1) % GGUF_NO_ROPE_INTERVAL != 0;
}

static bool rotates_here(const struct keys *k, int32_t layer)
{
    return k->desc->layer[layer].rope != ROPE_NONE;
}

static enum dgl_status check_rotated(struct keys *k)
{
    struct dgl_buf here = {0}, there = {0};
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < k->desc->layers; i++) {
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

static void check_biases(const struct keys *k)
{
    bool attention = (k->desc->parts & PART_O_BIAS) != 0;
    bool any = (k->desc->parts & (PART_O_BIAS | PART_MLP_BIAS)) != 0;
    bool wanted = k->arch->family == GGUF_GPT_OSS;
    bool either = (k->arch->family & OPTIONAL_BIASES) != 0;
    if (either || (wanted ? attention : !any))
        return;
    dgl_warn(k->log, "%s: it has %s, so llama.cpp will not load it as architecture %s",
             k->model->path, wanted ? "no biases of attention" : "biases", k->arch->name);
}

enum dgl_status gguf_export_keys(const struct dgl_log *log, const struct dgl_model_file *model,
                                 const struct gguf_arch *arch, struct gguf_writer *w)
{
    struct keys k = {.log = log, .model = model, .desc = &model->desc, .arch = arch, .w = w};
    const struct model_desc *d = k.desc;
    gguf_put_str(w, "general.architecture", dgl_str_of(arch->name));
    gguf_put_str(w, "general.type", DGL_STR("model"));
    gguf_put_str(w, "general.name", dgl_str_of(model->name));
    gguf_put_u32(w, "general.quantization_version", 2); /* of ggml's block formats */
    put_u32(&k, "vocab_size", d->vocab);
    put_u32(&k, "context_length", d->context_max);
    put_u32(&k, "embedding_length", d->hidden);
    put_u32(&k, "block_count", d->layers);
    put_u32(&k, "feed_forward_length", d->intermediate);
    put_u32(&k, "attention.head_count", d->heads);
    put_u32(&k, "attention.head_count_kv", d->kv_heads);
    put_u32(&k, "attention.key_length", d->head_dim);
    put_u32(&k, "attention.value_length", d->head_dim);
    put_f32(&k, "attention.layer_norm_rms_epsilon", d->norm_eps);
    enum dgl_status status;
    TRY(put_windows(&k));
    TRY(check_rotated(&k));
    TRY(gguf_export_rope(log, model, arch, w));
    if (d->moe.experts > 0)
        TRY(put_experts(&k));
    if (arch->family & (GGUF_GEMMA2 | GGUF_GEMMA3))
        put_gemma(&k);
    if (arch->family == GGUF_GRANITE) {
        put_f32(&k, "attention.scale", d->attn_scale);
        put_f32(&k, "embedding_scale", d->embed_scale);
        put_f32(&k, "residual_scale", d->residual_scale);
        put_f32(&k, "logit_scale", 1 / d->logit_scale); /* a divisor in GGUF */
    }
    check_biases(&k);
done:
    return status;
}
