/* The parts of a model description that the loader reads and the engine does not compute: one line
 * each, so that such a model is refused instead of answered wrongly. A line goes when its part is
 * computed. */
#include "core/model_support.h"

#include "core/base/status.h"
#include "core/oplist_moe.h"

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
