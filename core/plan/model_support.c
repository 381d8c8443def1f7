/* Sizes and parts of a model description that the loader reads but the engine does not compute.
 * Such models are refused, because their answers would be wrong. Each part has one line, which is
 * removed once the engine computes it. */
#include "core/plan/model_support.h"

#include "core/base/status.h"
#include "core/plan/oplist_moe.h"

/* Returns true if a description has a part. `l` is one of its layers. */
typedef bool (*part_fn)(const struct model_desc *d, const struct layer_desc *l);

static bool has_norm_behind_experts(const struct model_desc *d, const struct layer_desc *l)
{
    (void)d;
    return l->router != TENSOR_NONE && l->ffn_post_norm != TENSOR_NONE;
}

static bool has_gelu_experts(const struct model_desc *d, const struct layer_desc *l)
{
    return l->router != TENSOR_NONE && d->act == MODEL_ACT_GELU_TANH;
}

static bool has_many_experts(const struct model_desc *d, const struct layer_desc *l)
{
    return l->router != TENSOR_NONE && d->moe.experts > MOE_MAX_EXPERTS;
}

struct part {
    part_fn present;
    const char *name;
};

static const struct part parts[] = {
    {has_norm_behind_experts, "a norm behind a mixture of experts"},
    {has_gelu_experts, "experts with gelu"},
    {has_many_experts, "more than 512 experts"},
};

/* Limits of a head: one vec4 per invocation, in work groups of the 128 that every device has. */
enum { HEAD_VEC4 = 4, HEAD_MAX = 512 };

/* Kernels rotate multiples of 4; for 2 mod 4 the rows of q and k are rearranged (weight_list.c),
 * which is not done for vectors, nor for two sets that differ, nor undone by a scale of 0. */
static enum dgl_status check_rotated(const struct dgl_log *log, const char *path,
                                     const struct model_desc *desc)
{
    const struct rope_desc *global = &desc->rope[ROPE_GLOBAL], *local = &desc->rope[ROPE_LOCAL];
    const char *reason = NULL; /* local->dims is 0 if no layer uses the set */
    if (global->dims % HEAD_VEC4 == 0 && local->dims % HEAD_VEC4 == 0)
        return DGL_OK;
    if (global->dims % 2 || local->dims % 2)
        reason = "an odd number";
    else if (local->dims && local->dims != global->dims)
        reason = "layers differ";
    else if (global->scale == 0.0)
        reason = "the attention factor is 0";
    for (int32_t i = 0; i < desc->layers && !reason; i++) {
        const struct layer_desc *l = &desc->layer[i];
        if (l->q_norm != TENSOR_NONE || l->q_bias != TENSOR_NONE || l->k_bias != TENSOR_NONE)
            reason = "q and k have norms or biases";
    }
    if (!reason)
        return DGL_OK;
    return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                    "%s: partial_rotary_factor rotates %d (local: %d) of the %d numbers of a head, "
                    "and %s; the engine then computes multiples of %d",
                    path, (int)global->dims, (int)local->dims, (int)desc->head_dim, reason,
                    HEAD_VEC4);
}

enum dgl_status model_check_supported(const struct dgl_log *log, const char *path,
                                      const struct model_desc *desc)
{
    if (desc->head_dim % HEAD_VEC4 != 0 || desc->head_dim > HEAD_MAX)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: head_dim is %d; the engine computes multiples of %d up to %d", path,
                        (int)desc->head_dim, HEAD_VEC4, HEAD_MAX);
    enum dgl_status status = check_rotated(log, path, desc);
    if (status != DGL_OK)
        return status;
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
