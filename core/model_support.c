/* The parts of a model description that the loader reads and the engine does not compute: one line
 * each, so that such a model is refused instead of answered wrongly. A line goes when its part is
 * computed. */
#include "core/model_support.h"

#include "core/base/status.h"

/* Whether a description has a part; `l` is one of its layers. */
typedef bool (*part_fn)(const struct model_desc *d, const struct layer_desc *l);

static bool has(long tensor)
{
    return tensor != TENSOR_NONE;
}

static bool has_experts(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return has(l->router);
}

static bool has_bias(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return has(l->q_bias) || has(l->k_bias) || has(l->v_bias) || has(l->o_bias) ||
           has(l->gate_bias) || has(l->up_bias) || has(l->down_bias);
}

static bool has_head_norms(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return has(l->q_norm);
}

static bool has_sinks(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return has(l->sinks);
}

static bool has_other_norms(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return !has(l->attn_norm) || !has(l->ffn_norm) || has(l->attn_post_norm) ||
           has(l->ffn_post_norm);
}

static bool has_fused_parts(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return has(l->qkv) || has(l->gate_up);
}

static bool has_window(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return l->window > 0;
}

static bool has_other_positions(const struct model_desc *d, const struct layer_desc *l)
{
    return l->rope != ROPE_GLOBAL || d->rope[ROPE_GLOBAL].kind != ROPE_DEFAULT;
}

static bool has_offset_norms(const struct model_desc *d, const struct layer_desc *l)
{
    (void)l;
    return d->norm_plus_one;
}

static bool has_softcap(const struct model_desc *d, const struct layer_desc *l)
{
    (void)l;
    return d->attn_softcap != 0.0 || d->logit_softcap != 0.0;
}

static bool has_scales(const struct model_desc *d, const struct layer_desc *l)
{
    (void)l;
    return d->embed_scale != 1.0 || d->residual_scale != 1.0 || d->logit_scale != 1.0;
}

static bool has_other_act(const struct model_desc *d, const struct layer_desc *l)
{
    (void)l;
    return d->act != MODEL_ACT_SILU;
}

struct part {
    part_fn present;
    const char *name;
};

static const struct part parts[] = {
    {has_experts, "a mixture of experts"},
    {has_bias, "biases"},
    {has_head_norms, "norms of queries and keys"},
    {has_sinks, "attention sinks"},
    {has_other_norms, "norms in other places"},
    {has_fused_parts, "fused matrices"},
    {has_window, "a sliding window"},
    {has_other_positions, "positions of another kind"},
    {has_offset_norms, "norms of 1 + weight"},
    {has_softcap, "soft caps"},
    {has_scales, "multipliers"},
    {has_other_act, "another activation than silu"},
};

enum dgl_status model_check_supported(const struct dgl_log *log, const char *path,
                                      const struct model_desc *desc)
{
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (int32_t layer = 0; layer < desc->layers; layer++) {
            if (parts[i].present(desc, &desc->layer[layer]))
                return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                                "%s: layer %d of this %s model has %s, which the engine does not "
                                "compute yet; supported: models without",
                                path, (int)layer, desc->family, parts[i].name);
        }
    }
    return DGL_OK;
}
