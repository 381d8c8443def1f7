/* The sizes and parts of a model description that the loader reads and the engine does not compute:
 * one line for each part, so that such a model is refused instead of answered wrongly. A line goes
 * when its part is computed. */
#include "core/plan/model_support.h"

#include "core/base/status.h"
#include "core/plan/oplist_moe.h"

/* Whether a description has a part; `l` is one of its layers. */
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

static enum dgl_status check_head(const struct dgl_log *log, const char *path,
                                  const struct model_desc *desc)
{
    if (desc->head_dim % HEAD_VEC4 == 0 && desc->head_dim <= HEAD_MAX)
        return DGL_OK;
    return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                    "%s: head_dim is %d; the engine computes multiples of %d up to %d", path,
                    (int)desc->head_dim, HEAD_VEC4, HEAD_MAX);
}

static enum dgl_status check_rotated(const struct dgl_log *log, const char *path,
                                     const struct model_desc *desc)
{
    for (int32_t i = 0; i < ROPE_SETS; i++) {
        int32_t dims = desc->rope[i].dims; /* 0: no layer names the set */
        if (dims % HEAD_VEC4 != 0)
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "%s: partial_rotary_factor %g of head_dim %d rotates %d numbers of a "
                            "head; the engine computes multiples of %d",
                            path, (double)dims / desc->head_dim, (int)desc->head_dim, (int)dims,
                            HEAD_VEC4);
    }
    return DGL_OK;
}

enum dgl_status model_check_supported(const struct dgl_log *log, const char *path,
                                      const struct model_desc *desc)
{
    enum dgl_status status = check_head(log, path, desc);
    if (status == DGL_OK)
        status = check_rotated(log, path, desc);
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
