/* A mixture of experts as operations: docs/operations.md, "Mixture of experts". */
#include "core/plan/oplist_moe.h"

#include "core/plan/fusion.h"

int32_t moe_logits_stride(const struct moe_desc *moe)
{
    return (moe->experts + 3) / 4 * 4;
}

/* The router and the experts both read the normed stream, so the norm is computed once, also in
 * decode. */
static enum plan_buffer add_norm(struct oplist *list, const struct oplist_params *p,
                                 enum dgl_phase phase, int32_t layer, enum plan_buffer stream)
{
    const struct weight *router = &p->weights->layer[layer].router;
    if (!router->has_norm)
        return stream;
    oplist_norm(list, p,
                &(struct oplist_norm){.phase = phase,
                                      .layer = layer,
                                      .label = "ffn_norm",
                                      .post = "store",
                                      .norm_weight = router->vector,
                                      .x = stream,
                                      .y = BUF_NORMED});
    return BUF_NORMED;
}

static void add_router(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                       int32_t layer, enum plan_buffer x)
{
    oplist_matmul(list, p,
                  &(struct oplist_matmul){.phase = phase,
                                          .layer = layer,
                                          .label = "router",
                                          .pre = "none",
                                          .post = "store",
                                          .weight = &p->weights->layer[layer].router,
                                          .x = x,
                                          .y = BUF_ROUTER,
                                          .x_stride = p->desc->hidden,
                                          .y_stride = moe_logits_stride(&p->desc->moe),
                                          .scale = 1.0});
}

static const char *scoring_word(const struct moe_desc *moe)
{
    static const char *const words[] = {[MOE_TOPK_SOFTMAX] = "topk_softmax",
                                        [MOE_SOFTMAX_TOPK] = "softmax_topk",
                                        [MOE_SOFTMAX_TOPK_NORM] = "softmax_topk_norm"};
    return words[moe->scoring];
}

static void add_route(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                      int32_t layer)
{
    const struct moe_desc *moe = &p->desc->moe;
    struct op *op = oplist_append(list, phase, layer, "moe_route", "moe_route");
    op_attr(op, "scoring", scoring_word(moe));
    op_const(op, "E", moe->experts);
    op_const(op, "TOP_K", moe->top_k);
    op_const(op, "L_STRIDE", moe_logits_stride(moe));
    op_bind_buffer(op, "LOGITS", BUF_ROUTER);
    op_bind_buffer(op, "ROUTE", BUF_ROUTE);
}

/* Adds norm, router and route of one token as one operation. */
static void add_fused_router(struct oplist *list, const struct oplist_params *p, int32_t layer,
                             enum plan_buffer stream)
{
    const struct moe_desc *moe = &p->desc->moe;
    const struct weight *router = &p->weights->layer[layer].router;
    const struct weight_band *band = &router->bands[0];
    struct op *op = oplist_append(list, DGL_PHASE_DECODE, layer, "router", "moe_router");
    op_attr(op, "weight", dgl_dtype_get(band->dtype)->name);
    if (band->layout)
        op_attr(op, "layout", band->layout->name);
    op_attr(op, "pre", router->has_norm ? "norm" : "none");
    op_attr(op, "bias", router->has_bias ? "row" : "none");
    op_attr(op, "scoring", scoring_word(moe));
    op_const(op, "K", (int64_t)router->cols);
    op_const(op, "E", moe->experts);
    op_const(op, "TOP_K", moe->top_k);
    op_const(op, "W_STRIDE", band->row_words);
    op_const(op, "BIAS_AT", router->has_norm ? (int64_t)(router->cols + 3) / 4 * 4 : 0);
    op_float(op, "eps", p->desc->norm_eps);
    op_bind_band(op, "W", router, 0);
    op_bind_buffer(op, "X", stream);
    if (router->has_norm || router->has_bias)
        op_bind_vector(op, "A", router->vector);
    else
        op_bind_buffer(op, "A", stream);
    op_bind_buffer(op, "NORMED", BUF_NORMED);
    op_bind_buffer(op, "LOGITS", BUF_ROUTER);
    op_bind_buffer(op, "ARRIVED", BUF_ARRIVED);
    op_bind_buffer(op, "ROUTE", BUF_ROUTE);
    op->bytes = band->place.size;
}

static void add_group(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = oplist_append(list, DGL_PHASE_PREFILL, layer, "moe_group", "moe_group");
    op_const(op, "E", p->desc->moe.experts);
    op_const(op, "TOP_K", p->desc->moe.top_k);
    op_bind_buffer(op, "ROUTE", BUF_ROUTE);
    op_bind_buffer(op, "LIST", BUF_EXPERT_ROWS);
}

/* Parameters of one product with experts. */
struct expert_matmul {
    enum dgl_phase phase;
    int32_t layer;
    const char *label, *post, *act;
    const struct weight *weight;
    enum plan_buffer x, y;
    int32_t x_stride, y_stride;
};

static void add_experts(struct oplist *list, const struct oplist_params *p,
                        const struct expert_matmul *m)
{
    const struct model_desc *d = p->desc;
    uint64_t experts = (uint64_t)d->moe.experts, rows = m->weight->rows / experts;
    bool prefill = m->phase == DGL_PHASE_PREFILL;
    for (uint32_t i = 0; i < m->weight->num_bands; i++) {
        const struct weight_band *band = &m->weight->bands[i];
        struct op *op = oplist_append(list, m->phase, m->layer, m->label, "moe_matmul");
        op_attr(op, "weight", dgl_dtype_get(band->dtype)->name);
        if (band->layout)
            op_attr(op, "layout", band->layout->name);
        op_attr(op, "phase", prefill ? "prefill" : "decode");
        op_attr(op, "post", m->post);
        if (prefill)
            op_columns(op, p);
        op_attr(op, "act", m->act);
        op_attr(op, "bias", m->weight->band_bias != TENSOR_NONE ? "row" : "none");
        op_const(op, "K", (int64_t)m->weight->cols);
        op_const(op, "N", (int64_t)m->weight->rows);
        op_const(op, "EXPERT_ROWS", (int64_t)rows);
        op_const(op, "E", d->moe.experts);
        op_const(op, "TOP_K", d->moe.top_k);
        op_const(op, "W_STRIDE", band->row_words);
        op_const(op, "X_STRIDE", m->x_stride);
        op_const(op, "Y_STRIDE", m->y_stride);
        op_uint(op, "row0", band->row0);
        op_uint(op, "rows", band->rows);
        op_float(op, "scale", d->residual_scale);
        op_float(op, "act_alpha", d->act_alpha);
        op_float(op, "act_limit", d->act_limit);
        op_bind_band(op, "W", m->weight, i);
        op_bind_buffer(op, "X", m->x);
        op_bind_buffer(op, "Y", m->y);
        op_bind_buffer(op, prefill ? "LIST" : "ROUTE", prefill ? BUF_EXPERT_ROWS : BUF_ROUTE);
        op->bytes = band->place.size;
        if (!prefill) /* of the experts that a token uses, averaged over the bands */
            op->bytes = op->bytes / experts * (uint64_t)d->moe.top_k;
    }
}

static void add_combine(struct oplist *list, const struct oplist_params *p, int32_t layer,
                        enum plan_buffer stream)
{
    struct op *op = oplist_append(list, DGL_PHASE_PREFILL, layer, "moe_combine", "moe_combine");
    op_const(op, "H", p->desc->hidden);
    op_const(op, "TOP_K", p->desc->moe.top_k);
    op_const(op, "X_STRIDE", p->desc->hidden);
    op_const(op, "Y_STRIDE", p->desc->hidden);
    op_float(op, "scale", p->desc->residual_scale);
    op_bind_buffer(op, "Y", BUF_EXPERTS);
    op_bind_buffer(op, "ROUTE", BUF_ROUTE);
    op_bind_buffer(op, "X", stream);
}

void oplist_moe(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                int32_t layer, enum plan_buffer stream)
{
    const struct model_desc *d = p->desc;
    const struct layer_weights *w = &p->weights->layer[layer];
    bool prefill = phase == DGL_PHASE_PREFILL;
    size_t fused = list->count;
    if (!prefill && w->router.num_bands == 1)
        add_fused_router(list, p, layer, stream);
    size_t separate = list->count;
    enum plan_buffer x = add_norm(list, p, phase, layer, stream);
    add_router(list, p, phase, layer, x);
    add_route(list, p, phase, layer);
    if (separate > fused)
        fusion_keep(p->fusion, list, fused, separate);
    if (prefill)
        add_group(list, p, layer);
    add_experts(
        list, p,
        &(struct expert_matmul){.phase = phase,
                                .layer = layer,
                                .label = "experts_gate_up",
                                .post = "glu",
                                .act = d->act == MODEL_ACT_SWIGLU_CLAMP ? "swiglu_clamp" : "silu",
                                .weight = &w->expert_gate_up,
                                .x = x,
                                .y = BUF_ACT,
                                .x_stride = d->hidden,
                                .y_stride = d->moe.intermediate});
    add_experts(list, p,
                &(struct expert_matmul){.phase = phase,
                                        .layer = layer,
                                        .label = "experts_down",
                                        .post = prefill ? "store" : "combine",
                                        .act = "none",
                                        .weight = &w->expert_down,
                                        .x = BUF_ACT,
                                        .y = prefill ? BUF_EXPERTS : stream,
                                        .x_stride = d->moe.intermediate,
                                        .y_stride = d->hidden});
    if (prefill)
        add_combine(list, p, layer, stream);
}
