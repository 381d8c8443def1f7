/* Experts: how many, how they are chosen, and in which layers they are. */
#include <inttypes.h>
#include <stdio.h>

#include "loader/desc/model_config.h"

enum { MAX_EXPERTS = 4096, MAX_EXPERT_WIDTH = 1 << 20, WIDTH_MULTIPLE = 4 };

static enum dgl_status read_scoring(const struct config *c, const struct config_family *family,
                                    struct model_desc *out)
{
    bool norm = false;
    out->moe.scoring = family->scoring;
    if (family->scoring != MOE_SOFTMAX_TOPK)
        return DGL_OK;
    enum dgl_status st = config_opt_bool(c, "norm_topk_prob", &norm);
    if (norm)
        out->moe.scoring = MOE_SOFTMAX_TOPK_NORM;
    return st;
}

enum dgl_status config_moe_read(const struct config *c, const struct config_family *family,
                                struct model_desc *out)
{
    int64_t experts = family->experts, top_k = family->top_k, width = family->moe_intermediate;
    if (family->experts == 0)
        return DGL_OK;
    enum dgl_status st = config_opt_i64(c, "num_experts", 1, MAX_EXPERTS, &experts);
    if (st == DGL_OK)
        st = config_opt_i64(c, "num_experts_per_tok", 1, MAX_EXPERTS, &top_k);
    if (st == DGL_OK && width > 0)
        st = config_opt_i64(c, "moe_intermediate_size", 4, MAX_EXPERT_WIDTH, &width);
    if (st == DGL_OK)
        st = read_scoring(c, family, out);
    if (st != DGL_OK)
        return st;
    if (top_k > experts)
        return dgl_fail(c->r.log, DGL_ERR_FORMAT, "%s: %s is %" PRId64 ", but %s is %" PRId64,
                        dgl_json_name(c->r.doc), config_shown(c, "num_experts_per_tok").text, top_k,
                        config_shown(c, "num_experts").text, experts);
    if (width % WIDTH_MULTIPLE != 0)
        return dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is %" PRId64 "; supported: multiples of %d",
                        dgl_json_name(c->r.doc), config_shown(c, "moe_intermediate_size").text,
                        width, WIDTH_MULTIPLE);
    out->moe.experts = (int32_t)experts;
    out->moe.top_k = (int32_t)top_k;
    out->moe.intermediate = width > 0 ? (int32_t)width : out->intermediate;
    return DGL_OK;
}

/* mlp_only_layers: the listed ones are dense whatever decoder_sparse_step says. */
static enum dgl_status read_dense_layers(const struct config *c, struct model_desc *out)
{
    const struct dgl_json *list;
    enum dgl_status st = dgl_json_opt(c->r, c->root, "mlp_only_layers", DGL_JSON_ARRAY, &list);
    if (st != DGL_OK)
        return st;
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        int64_t layer;
        if (!dgl_json_i64(v, &layer) || layer < 0 || layer >= out->layers)
            return dgl_json_fail(c->r, v, "not a layer below %s %" PRId32,
                                 config_shown(c, "num_hidden_layers").text, out->layers);
        out->layer[layer].sparse = false;
    }
    return DGL_OK;
}

enum dgl_status config_sparse_read(const struct config *c, const struct config_family *family,
                                   struct model_desc *out)
{
    int64_t step = 1;
    bool some_dense = (family->bit & FAMILY_QWEN3_MOE) != 0;
    enum dgl_status st = DGL_OK;
    if (family->experts == 0)
        return DGL_OK;
    if (some_dense)
        st = config_opt_i64(c, "decoder_sparse_step", 1, INT32_MAX, &step);
    for (int32_t i = 0; i < out->layers; i++)
        out->layer[i].sparse = (i + 1) % step == 0;
    return st == DGL_OK && some_dense ? read_dense_layers(c, out) : st;
}
