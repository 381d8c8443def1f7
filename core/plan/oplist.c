/* The decoder as operations: one function per operation of docs/operations.md, and the order they
 * run in. */
#include "core/plan/oplist.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/fusion.h"
#include "core/plan/oplist_moe.h"
#include "core/plan/rope_table.h"

void oplist_finish(struct oplist *list)
{
    free(list->ops);
    *list = (struct oplist){0};
}

/* ---- building one operation ------------------------------------------------------------------ */

struct op *oplist_append(struct oplist *list, enum dgl_phase phase, int32_t layer,
                         const char *label, const char *op)
{
    struct op *o = &list->discard;
    if (dgl_grow((void **)&list->ops, &list->cap, list->count + 1, sizeof(*list->ops)))
        o = &list->ops[list->count++];
    else
        list->failed = true;
    *o = (struct op){.phase = phase, .layer = layer, .label = label, .request.op = op};
    return o;
}

static void add_bind(struct op *op, const char *name, struct ref ref)
{
    assert(op->num_binds < OP_MAX_BINDS);
    op->binds[op->num_binds++] = (struct op_bind){name, ref};
}

void op_bind_buffer(struct op *op, const char *name, enum plan_buffer buffer)
{
    enum ref_kind kind = buffer < BUF_STATE_COUNT ? REF_STATE : REF_ACT;
    add_bind(op, name, (struct ref){.kind = kind, .id = buffer});
}

void op_bind_band(struct op *op, const char *name, const struct weight *weight, uint32_t band)
{
    add_bind(op, name, (struct ref){.kind = REF_WEIGHT, .id = weight->id, .part = band});
}

void op_bind_vector(struct op *op, const char *name, uint32_t vector)
{
    assert(vector != VECTOR_NONE);
    add_bind(op, name, (struct ref){.kind = REF_VECTOR, .id = vector});
}

void op_attr(struct op *op, const char *key, const char *word)
{
    assert(op->request.num_attrs < KERNEL_MAX_ATTRS);
    op->request.attrs[op->request.num_attrs++] = (struct kernel_attr){key, word};
}

void op_const(struct op *op, const char *name, int64_t value)
{
    assert(op->request.num_consts < KERNEL_MAX_CONSTS);
    op->request.consts[op->request.num_consts++] = (struct kernel_var){name, value};
}

static void op_param_add(struct op *op, struct op_param param)
{
    assert(op->num_params < OP_MAX_PARAMS);
    op->params[op->num_params++] = param;
}

void op_uint(struct op *op, const char *name, uint32_t value)
{
    op_param_add(op, (struct op_param){.name = name, .u = value});
}

void op_float(struct op *op, const char *name, double value)
{
    op_param_add(op, (struct op_param){.name = name, .is_float = true, .f = (float)value});
}

void op_op_count(struct op *op, const char *name)
{
    op_param_add(op, (struct op_param){.name = name, .is_op_count = true});
}

/* Swaps two activation buffers in the bindings of an operation. */
static void op_swap_buffers(struct op *op, enum plan_buffer a, enum plan_buffer b)
{
    for (uint32_t i = 0; i < op->num_binds; i++) {
        struct ref *ref = &op->binds[i].ref;
        if (ref->kind == REF_ACT && (ref->id == a || ref->id == b))
            ref->id = ref->id == a ? b : a;
    }
}

const struct op_bind *op_find_bind(const struct op *op, const char *name)
{
    for (uint32_t i = 0; i < op->num_binds; i++)
        if (strcmp(op->binds[i].name, name) == 0)
            return &op->binds[i];
    return NULL;
}

const struct op_param *op_find_param(const struct op *op, const char *name)
{
    for (uint32_t i = 0; i < op->num_params; i++)
        if (strcmp(op->params[i].name, name) == 0)
            return &op->params[i];
    return NULL;
}

uint32_t op_weight_rows(const struct op *op)
{
    const struct op_param *rows = op_find_param(op, "rows");
    return rows ? rows->u : 0;
}

void op_columns(struct op *op, const struct oplist_params *p)
{
    static const char *const words[] = {"2", "4", "8", "16", "32", "64", "128", "256"};
    int32_t columns = p->columns ? p->columns : 256, i = 0;
    while (2 << i < columns)
        i++;
    assert(2 << i == columns && i < (int32_t)(sizeof(words) / sizeof(words[0])));
    op_attr(op, "columns", words[i]);
    op_const(op, "COLUMNS", columns);
}

static const char *phase_word(enum dgl_phase phase)
{
    return phase == DGL_PHASE_PREFILL ? "prefill" : "decode";
}

/* ---- operations ------------------------------------------------------------------------------ */

static void add_embed(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase)
{
    for (uint32_t i = 0; i < p->weights->embed.num_bands; i++) {
        const struct weight *weight = &p->weights->embed;
        const struct weight_band *band = &weight->bands[i];
        struct op *op = oplist_append(list, phase, -1, "embed", "embed");
        op_attr(op, "weight", dgl_dtype_get(band->dtype)->name);
        op_attr(op, "phase", phase_word(phase));
        if (band->layout)
            op_attr(op, "layout", band->layout->name);
        op_const(op, "H", p->desc->hidden);
        op_const(op, "X_STRIDE", p->desc->hidden);
        op_const(op, "W_STRIDE", band->row_words);
        op_uint(op, "row0", band->row0);
        op_uint(op, "rows", band->rows);
        op_float(op, "scale", p->desc->embed_scale);
        op_bind_buffer(op, "IDS", BUF_IDS);
        op_bind_band(op, "W", weight, i);
        op_bind_buffer(op, "X", BUF_X);
        op->bytes = band->row_words * 4ull;
    }
}

void oplist_norm(struct oplist *list, const struct oplist_params *p, const struct oplist_norm *n)
{
    struct op *op = oplist_append(list, n->phase, n->layer, n->label, "norm");
    op_attr(op, "post", n->post);
    op_const(op, "H", p->desc->hidden);
    op_const(op, "X_STRIDE", p->desc->hidden);
    op_const(op, "Y_STRIDE", p->desc->hidden);
    op_float(op, "eps", p->desc->norm_eps);
    op_bind_buffer(op, "X", n->x);
    op_bind_vector(op, "G", n->norm_weight);
    op_bind_buffer(op, "Y", n->y);
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* One kernel may serve pre "none" and "norm", with and without a bias. It then declares the buffer
 * and the parameters of all of them, so A, BIAS_AT and eps are always set. R, G and STREAM are only
 * declared by kernels of pre "join" and "join_norm". */
static void add_vectors(struct op *op, const struct oplist_params *p, const struct oplist_matmul *m)
{
    const struct weight *w = m->weight;
    bool join_norm = is(m->pre, "join_norm"), join = join_norm || is(m->pre, "join");
    bool norm = join_norm || is(m->pre, "norm");
    op_attr(op, "bias", w->has_bias ? "row" : "none");
    op_const(op, "BIAS_AT", w->has_bias && w->has_norm ? (int64_t)(w->cols + 3) / 4 * 4 : 0);
    op_float(op, "eps", norm || join ? p->desc->norm_eps : 0.0);
    if (join) {
        op_bind_buffer(op, "R", BUF_NORMED);
        op_bind_vector(op, "G", m->join_norm);
        op_bind_buffer(op, "STREAM", m->stream);
    }
    if (norm || w->has_bias)
        op_bind_vector(op, "A", w->vector);
    else
        op_bind_buffer(op, "A", m->x);
}

void oplist_matmul(struct oplist *list, const struct oplist_params *p,
                   const struct oplist_matmul *m)
{
    for (uint32_t i = 0; i < m->weight->num_bands; i++) {
        const struct weight_band *band = &m->weight->bands[i];
        struct op *op = oplist_append(list, m->phase, m->layer, m->label, "matmul");
        op_attr(op, "weight", dgl_dtype_get(band->dtype)->name);
        if (band->layout)
            op_attr(op, "layout", band->layout->name);
        /* One row of x is a matrix-vector product in every phase. */
        op_attr(op, "phase", m->last_row ? "decode" : phase_word(m->phase));
        op_attr(op, "pre", m->pre);
        if (m->phase == DGL_PHASE_PREFILL && !m->last_row) {
            op_columns(op, p);
            op_const(op, "SUM_ROWS", p->sum_rows);
            op_bind_buffer(op, "SUMS", BUF_SUMS);
            op_bind_buffer(op, "ARRIVED", BUF_ARRIVED);
        }
        op_const(op, "K", (int64_t)m->weight->cols);
        op_const(op, "N", (int64_t)m->weight->rows);
        op_const(op, "W_STRIDE", band->row_words);
        op_const(op, "X_STRIDE", m->x_stride);
        op_const(op, "Y_STRIDE", m->y_stride);
        op_const(op, "X_LAST", m->last_row);
        op_uint(op, "row0", band->row0);
        op_uint(op, "rows", band->rows);
        op_bind_band(op, "W", m->weight, i);
        op_bind_buffer(op, "X", m->x);
        op_bind_buffer(op, "Y", m->y);
        add_vectors(op, p, m);
        op_attr(op, "post", m->post);
        if (is(m->post, "glu"))
            op_attr(op, "act", m->act);
        op_const(op, "SCALED", m->scale != 1.0);
        op_float(op, "out_scale", m->scale);
        op_float(op, "softcap", is(m->post, "softcap") ? p->desc->logit_softcap : 0.0);
        op->bytes = band->place.size;
    }
}

static int32_t qkv_dim(const struct model_desc *d)
{
    return (d->heads + 2 * d->kv_heads) * d->head_dim;
}

static void add_heads(struct op *op, const struct model_desc *d)
{
    op_const(op, "HEADS", d->heads);
    op_const(op, "KV_HEADS", d->kv_heads);
    op_const(op, "HEAD_DIM", d->head_dim);
    op_const(op, "QKV_STRIDE", qkv_dim(d));
}

/* A gain as long as all heads together: one norm over them. */
static const char *qk_norm_span(const struct oplist_params *p, const struct layer_weights *w)
{
    uint64_t count = p->weights->vectors[w->qk_norm].count;
    return count > 2 * (uint64_t)p->desc->head_dim ? "all" : "head";
}

static void add_qk_norm(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                        int32_t layer)
{
    const struct model_desc *d = p->desc;
    const struct layer_weights *w = &p->weights->layer[layer];
    struct op *op = oplist_append(list, phase, layer, "qk_norm", "qk_norm");
    op_attr(op, "span", qk_norm_span(p, w));
    add_heads(op, d);
    op_float(op, "eps", d->norm_eps);
    op_bind_buffer(op, "QKV", BUF_QKV);
    op_bind_vector(op, "G", w->qk_norm);
}

static struct op *append_attention(struct oplist *list, const struct oplist_params *p,
                                   enum dgl_phase phase, int32_t layer, const char *op_name)
{
    static const char *const kv_types[] = {"f16", "f32"};
    const struct model_desc *d = p->desc;
    const struct kv_place at = kv_layout_find(p->kv, d, layer);
    const struct kv_group *group = &p->kv->group[at.group];
    struct op *op = oplist_append(list, phase, layer, op_name, op_name);
    op_attr(op, "kv_k", kv_types[group->type[KV_KEYS]]);
    op_attr(op, "kv_v", kv_types[group->type[KV_VALUES]]);
    add_heads(op, d);
    if (at.group > 0)
        op_const(op, "KV_ENTRY", at.group * kv_layout_entries(p->kv));
    op_bind_buffer(op, "QKV", BUF_QKV);
    add_bind(op, "KV", (struct ref){.kind = REF_KV, .id = at.layer, .part = at.group});
    return op;
}

/* A layer without positions does not read its table, so any table can be bound. */
static void add_rope(struct op *op, const struct model_desc *d, int32_t layer)
{
    int32_t set = d->layer[layer].rope;
    op_const(op, "ROPE_DIMS", set == ROPE_NONE ? 0 : rope_table_dims(&d->rope[set]));
    op_float(op, "rope_scale", set == ROPE_NONE ? 1.0 : d->rope[set].scale);
    op_bind_buffer(op, "ROPE", set == ROPE_LOCAL ? BUF_ROPE_LOCAL : BUF_ROPE_GLOBAL);
}

static void add_scores(struct op *op, const struct model_desc *d, int32_t layer)
{
    op_const(op, "WINDOW", d->layer[layer].window);
    op_const(op, "SOFTCAP", d->attn_softcap != 0.0);
    op_float(op, "scale", d->attn_scale);
    op_float(op, "softcap", d->attn_softcap);
}

/* An operation without sinks binds `other` instead. */
static void add_sinks(struct op *op, const struct layer_weights *w, enum plan_buffer other)
{
    op_attr(op, "sinks", w->sinks != VECTOR_NONE ? "head" : "none");
    if (w->sinks != VECTOR_NONE)
        op_bind_vector(op, "S", w->sinks);
    else
        op_bind_buffer(op, "S", other);
}

static void add_attn_prefill(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = append_attention(list, p, DGL_PHASE_PREFILL, layer, "attn_prefill");
    op_const(op, "O_STRIDE", p->desc->heads * p->desc->head_dim);
    op_bind_buffer(op, "O", BUF_ATT);
    add_scores(op, p->desc, layer);
    add_sinks(op, &p->weights->layer[layer], BUF_QKV);
}

static void add_attn_decode(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = append_attention(list, p, DGL_PHASE_DECODE, layer, "attn_decode");
    op_const(op, "SPLITS", p->splits);
    op_bind_buffer(op, "P", BUF_ATT);
    add_rope(op, p->desc, layer);
    add_scores(op, p->desc, layer);
}

static void add_attn_merge(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = oplist_append(list, DGL_PHASE_DECODE, layer, "attn_merge", "attn_merge");
    op_const(op, "HEADS", p->desc->heads);
    op_const(op, "HEAD_DIM", p->desc->head_dim);
    op_const(op, "SPLITS", p->splits);
    op_bind_buffer(op, "P", BUF_ATT);
    op_bind_buffer(op, "O", BUF_MERGED);
    add_sinks(op, &p->weights->layer[layer], BUF_ATT);
}

/* qk_norm, attn_decode and attn_merge in one. */
static void add_attn_token(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    const struct layer_weights *w = &p->weights->layer[layer];
    struct op *op = append_attention(list, p, DGL_PHASE_DECODE, layer, "attn_token");
    const bool norm = w->qk_norm != VECTOR_NONE && !p->mixed;
    op_attr(op, "norm", norm ? qk_norm_span(p, w) : "none");
    op_const(op, "SPLITS", p->token_splits);
    op_float(op, "eps", p->desc->norm_eps);
    op_bind_buffer(op, "PARTS", BUF_ATT);
    op_bind_buffer(op, "ARRIVED", BUF_ARRIVED);
    op_bind_buffer(op, "O", BUF_MERGED);
    add_rope(op, p->desc, layer);
    add_scores(op, p->desc, layer);
    add_sinks(op, w, BUF_QKV);
    if (norm)
        op_bind_vector(op, "G", w->qk_norm);
    else
        op_bind_buffer(op, "G", BUF_QKV);
}

/* Attention of one token from q, k and v, or of each row of a pass over several sequences. Returns
 * the buffer of the result. */
static enum plan_buffer add_decode_attention(struct oplist *list, const struct oplist_params *p,
                                             enum dgl_phase phase, int32_t layer)
{
    size_t fused = list->count;
    add_attn_token(list, p, layer);
    size_t separate = list->count;
    if (p->weights->layer[layer].qk_norm != VECTOR_NONE && !p->mixed)
        add_qk_norm(list, p, phase, layer);
    add_attn_decode(list, p, layer);
    if (p->splits > 1)
        add_attn_merge(list, p, layer);
    bool kept = fusion_keep(p->fusion, list, fused, separate);
    return kept || p->splits > 1 ? BUF_MERGED : BUF_ATT;
}

/* ---- the model ------------------------------------------------------------------------------- */

static struct oplist_matmul layer_matmul(const struct oplist_params *p, enum dgl_phase phase,
                                         int32_t layer, const char *label)
{
    return (struct oplist_matmul){.phase = phase,
                                  .layer = layer,
                                  .label = label,
                                  .pre = "none",
                                  .post = "store",
                                  .x_stride = p->desc->hidden,
                                  .y_stride = p->desc->hidden,
                                  .scale = 1.0};
}

/* The residual stream while a body is listed. */
struct stream {
    enum plan_buffer x; /* X, or in decode X2 */
    /* Norm weights with which NORMED is still to be added to the stream, or VECTOR_NONE. */
    uint32_t norm;
    const char *label; /* of that norm */
    int32_t layer;
};

/* If the norm of NORMED is still to be added to the stream, adds it now as a separate operation. */
static void settle(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                   struct stream *stream)
{
    if (stream->norm == VECTOR_NONE)
        return;
    oplist_norm(list, p,
                &(struct oplist_norm){.phase = phase,
                                      .layer = stream->layer,
                                      .label = stream->label,
                                      .post = "add",
                                      .norm_weight = stream->norm,
                                      .x = BUF_NORMED,
                                      .y = stream->x});
    stream->norm = VECTOR_NONE;
}

/* Adds a product of the residual stream, normalised if its weight has a norm. Decode computes the
 * norm in the product, once per work group, which is cheaper than a dispatch. Passes over a few
 * tokens do the same if a kernel supports it. Otherwise prefill computes the norm once per
 * token. */
static void read_normed(struct oplist *list, const struct oplist_params *p, struct oplist_matmul *m,
                        const char *norm_label)
{
    const bool norm = m->weight->has_norm, prefill = m->phase == DGL_PHASE_PREFILL;
    size_t fused = list->count;
    if (norm && (!prefill || (p->columns && p->columns <= OPLIST_NORM_COLUMNS))) {
        m->pre = "norm";
        oplist_matmul(list, p, m);
    }
    if (norm && !prefill)
        return;
    size_t separate = list->count;
    if (norm) {
        oplist_norm(list, p,
                    &(struct oplist_norm){.phase = m->phase,
                                          .layer = m->layer,
                                          .label = norm_label,
                                          .post = "store",
                                          .norm_weight = m->weight->vector,
                                          .x = m->x,
                                          .y = BUF_NORMED});
        m->x = BUF_NORMED;
        m->pre = "none";
    }
    oplist_matmul(list, p, m);
    if (separate > fused)
        fusion_keep(p->fusion, list, fused, separate);
}

/* Like read_normed(), after a block that ends with a norm. In decode its result is added to the
 * stream inside of the product, if a kernel supports it. All work groups read the stream, so the
 * sum is written to a second buffer. */
static void read_stream(struct oplist *list, const struct oplist_params *p, struct oplist_matmul *m,
                        const char *norm_label, struct stream *stream)
{
    size_t fused = list->count;
    bool join = stream->norm != VECTOR_NONE && m->phase == DGL_PHASE_DECODE;
    m->x = stream->x;
    if (join) {
        struct oplist_matmul joining = *m;
        joining.pre = m->weight->has_norm ? "join_norm" : "join";
        joining.join_norm = stream->norm;
        joining.stream = stream->x == BUF_X ? BUF_X2 : BUF_X;
        oplist_matmul(list, p, &joining);
    }
    size_t separate = list->count;
    settle(list, p, m->phase, stream);
    read_normed(list, p, m, norm_label);
    if (join && fusion_keep(p->fusion, list, fused, separate))
        stream->x = stream->x == BUF_X ? BUF_X2 : BUF_X;
}

/* Adds a product to the residual stream, after a norm of its result if the layer has one. */
static void add_to_stream(struct oplist *list, const struct oplist_params *p,
                          struct oplist_matmul *m, const char *norm_label, uint32_t norm_weight,
                          struct stream *stream)
{
    if (norm_weight == VECTOR_NONE) {
        m->post = "add";
        m->y = stream->x;
        m->scale = p->desc->residual_scale;
        oplist_matmul(list, p, m);
        return;
    }
    m->y = BUF_NORMED;
    oplist_matmul(list, p, m);
    stream->norm = norm_weight;
    stream->label = norm_label;
    stream->layer = m->layer;
    if (m->phase == DGL_PHASE_PREFILL)
        settle(list, p, m->phase, stream);
}

/* x -> x + o(attention(qkv(norm x))). */
static void add_attention_block(struct oplist *list, const struct oplist_params *p,
                                enum dgl_phase phase, int32_t layer, struct stream *stream)
{
    const struct layer_weights *w = &p->weights->layer[layer];
    struct oplist_matmul o = layer_matmul(p, phase, layer, "o");
    struct oplist_matmul qkv = layer_matmul(p, phase, layer, "qkv");
    qkv.weight = &w->qkv;
    qkv.y = BUF_QKV;
    qkv.y_stride = qkv_dim(p->desc);
    read_stream(list, p, &qkv, "attn_norm", stream);
    const bool tiles = phase == DGL_PHASE_PREFILL && !p->batch;
    if (tiles || p->mixed) {
        if (w->qk_norm != VECTOR_NONE)
            add_qk_norm(list, p, phase, layer);
        struct op *rope_kv = append_attention(list, p, DGL_PHASE_PREFILL, layer, "rope_kv");
        add_rope(rope_kv, p->desc, layer);
        if (p->mixed)
            op_const(rope_kv, "KEYS_ONLY", 1);
    }
    if (tiles)
        add_attn_prefill(list, p, layer);
    o.x = tiles ? BUF_ATT : add_decode_attention(list, p, phase, layer);
    o.weight = &w->o;
    o.x_stride = p->desc->heads * p->desc->head_dim;
    add_to_stream(list, p, &o, "attn_post_norm", w->attn_post_norm, stream);
}

/* x -> x + down(act(gate) * up), gate and up of norm x. */
static void add_mlp_block(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                          int32_t layer, struct stream *stream)
{
    const struct layer_weights *w = &p->weights->layer[layer];
    struct oplist_matmul gate_up = layer_matmul(p, phase, layer, "gate_up");
    gate_up.post = "glu";
    gate_up.act = p->desc->act == MODEL_ACT_GELU_TANH ? "gelu" : "silu";
    gate_up.weight = &w->gate_up;
    gate_up.y = BUF_ACT;
    gate_up.y_stride = p->desc->intermediate;
    read_stream(list, p, &gate_up, "ffn_norm", stream);
    struct oplist_matmul down = layer_matmul(p, phase, layer, "down");
    down.weight = &w->down;
    down.x = BUF_ACT;
    down.x_stride = p->desc->intermediate;
    add_to_stream(list, p, &down, "ffn_post_norm", w->ffn_post_norm, stream);
}

/* Lists a body with its result in X. */
static void add_body(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase)
{
    struct stream stream = {.x = BUF_X, .norm = VECTOR_NONE};
    size_t first = list->count;
    add_embed(list, p, phase);
    for (int32_t layer = 0; layer < p->desc->layers; layer++) {
        add_attention_block(list, p, phase, layer, &stream);
        if (!p->weights->layer[layer].router.rows) {
            add_mlp_block(list, p, phase, layer, &stream);
            continue;
        }
        settle(list, p, phase, &stream);
        oplist_moe(list, p, phase, layer, stream.x);
    }
    settle(list, p, phase, &stream);
    for (size_t i = first; stream.x == BUF_X2 && i < list->count; i++)
        op_swap_buffers(&list->ops[i], BUF_X, BUF_X2);
}

void oplist_prefill_body(struct oplist *list, const struct oplist_params *p)
{
    add_body(list, p, DGL_PHASE_PREFILL);
}

void oplist_decode_body(struct oplist *list, const struct oplist_params *p)
{
    add_body(list, p, DGL_PHASE_DECODE);
}

/* Computes logits from the stream after the final norm, to `y`. */
static struct oplist_matmul head_matmul(const struct oplist_params *p, enum dgl_phase phase,
                                        const char *label, enum plan_buffer y)
{
    struct oplist_matmul head = layer_matmul(p, phase, -1, label);
    head.weight = &p->weights->head;
    head.post = p->desc->logit_softcap != 0.0 ? "softcap" : "store";
    head.scale = p->desc->logit_scale;
    head.y = y;
    head.y_stride = p->desc->vocab;
    return head;
}

void oplist_head(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase)
{
    struct oplist_matmul head = head_matmul(p, phase, "head", BUF_LOGITS);
    head.pre = "norm";
    head.x = BUF_X;
    head.last_row = true;
    oplist_matmul(list, p, &head);
}

void oplist_batch_body(struct oplist *list, const struct oplist_params *p)
{
    assert(p->batch && p->columns > 0);
    add_body(list, p, DGL_PHASE_PREFILL);
    struct oplist_matmul head = head_matmul(p, DGL_PHASE_PREFILL, "head", BUF_LOGITS);
    head.x = BUF_X;
    read_normed(list, p, &head, "final_norm");
}

void oplist_report(struct oplist *list)
{
    struct op *op = oplist_append(list, DGL_PHASE_SAMPLE, -1, "report", "batch_report");
    op_bind_buffer(op, "IDS", BUF_IDS);
    op_bind_buffer(op, "REPORT", BUF_REPORT);
}

void oplist_hidden(struct oplist *list, const struct oplist_params *p)
{
    assert(p->weights->head.has_norm);
    oplist_norm(list, p,
                &(struct oplist_norm){.phase = DGL_PHASE_PREFILL,
                                      .layer = -1,
                                      .label = "final_norm",
                                      .post = "store",
                                      .norm_weight = p->weights->head.vector,
                                      .x = BUF_X,
                                      .y = BUF_NORMED});
}

void oplist_score(struct oplist *list, const struct oplist_params *p)
{
    struct oplist_matmul head = head_matmul(p, DGL_PHASE_PREFILL, "head_all", BUF_ALL_LOGITS);
    head.x = BUF_NORMED;
    oplist_matmul(list, p, &head);
}
