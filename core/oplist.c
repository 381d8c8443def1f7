/* The decoder as operations: one function per operation of docs/operations.md, and the order they
 * run in. */
#include "core/oplist.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

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

void op_bind_slot(struct op *op, const char *name, enum op_slot slot)
{
    op->binds[op->num_binds++] = (struct op_bind){.name = name, .slot = slot, .index = op->layer};
}

void op_bind_fixed(struct op *op, const char *name, struct gl_range range)
{
    op->binds[op->num_binds++] = (struct op_bind){.name = name, .fixed = range};
}

void op_attr(struct op *op, const char *key, const char *word)
{
    op->request.attrs[op->request.num_attrs++] = (struct kernel_attr){key, word};
}

void op_const(struct op *op, const char *name, int64_t value)
{
    op->request.consts[op->request.num_consts++] = (struct kernel_var){name, value};
}

void op_uint(struct op *op, const char *name, uint32_t value)
{
    op->params[op->num_params++] = (struct op_param){.name = name, .u = value};
}

void op_float(struct op *op, const char *name, double value)
{
    op->params[op->num_params++] =
        (struct op_param){.name = name, .is_float = true, .f = (float)value};
}

void op_run_count(struct op *op, const char *name)
{
    op->params[op->num_params++] = (struct op_param){.name = name, .is_run_count = true};
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

static const char *phase_word(enum dgl_phase phase)
{
    return phase == DGL_PHASE_PREFILL ? "prefill" : "decode";
}

/* ---- operations ------------------------------------------------------------------------------ */

static void add_embed(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase)
{
    for (uint32_t i = 0; i < p->weights->embed.num_bands; i++) {
        const struct weight_band *band = &p->weights->embed.bands[i];
        struct op *op = oplist_append(list, phase, -1, "embed", "embed");
        op_attr(op, "weight", dgl_dtype_get(band->dtype)->name);
        op_attr(op, "phase", phase_word(phase));
        op_attr(op, "layout", p->layouts->name[band->dtype]);
        op_const(op, "H", p->desc->hidden);
        op_const(op, "X_STRIDE", p->desc->hidden);
        op_const(op, "W_STRIDE", band->row_words);
        op_uint(op, "row0", band->row0);
        op_uint(op, "rows", band->rows);
        op_float(op, "scale", 1.0);
        op_bind_slot(op, "IDS", SLOT_IDS);
        op_bind_fixed(op, "W", band->range);
        op_bind_slot(op, "X", SLOT_X);
        op->bytes = band->row_words * 4ull;
    }
}

static void add_norm(struct oplist *list, const struct oplist_params *p, int32_t layer,
                     const char *label, struct gl_range gain)
{
    struct op *op = oplist_append(list, DGL_PHASE_PREFILL, layer, label, "norm");
    op_const(op, "H", p->desc->hidden);
    op_const(op, "X_STRIDE", p->desc->hidden);
    op_const(op, "Y_STRIDE", p->desc->hidden);
    op_float(op, "eps", p->desc->norm_eps);
    op_bind_slot(op, "X", SLOT_X);
    op_bind_fixed(op, "G", gain);
    op_bind_slot(op, "Y", SLOT_NORMED);
}

/* Everything that tells one matrix product of the model from another. */
struct matmul {
    enum dgl_phase phase;
    int32_t layer;
    const char *label, *pre, *post;
    const struct weight *weight;
    enum op_slot x, y;
    int32_t x_stride, y_stride;
    struct gl_range gain; /* pre=norm */
    bool last_row;        /* x is the last token's row */
};

/* A kernel that serves several prologues declares A and eps whether it reads them or not: they are
 * always there. */
static void bind_prologue(struct op *op, const struct oplist_params *p, const struct matmul *m)
{
    bool norm = strcmp(m->pre, "norm") == 0;
    op_float(op, "eps", norm ? p->desc->norm_eps : 0.0);
    if (norm)
        op_bind_fixed(op, "A", m->gain);
    else
        op_bind_slot(op, "A", m->x);
}

static void add_matmul(struct oplist *list, const struct oplist_params *p, const struct matmul *m)
{
    for (uint32_t i = 0; i < m->weight->num_bands; i++) {
        const struct weight_band *band = &m->weight->bands[i];
        struct op *op = oplist_append(list, m->phase, m->layer, m->label, "matmul");
        op_attr(op, "weight", dgl_dtype_get(band->dtype)->name);
        op_attr(op, "layout", p->layouts->name[band->dtype]);
        /* One row of x is a matrix-vector product whatever the phase. */
        op_attr(op, "phase", m->last_row ? "decode" : phase_word(m->phase));
        op_attr(op, "pre", m->pre);
        op_attr(op, "post", m->post);
        if (strcmp(m->post, "glu") == 0)
            op_attr(op, "act", "silu");
        op_const(op, "K", (int64_t)m->weight->cols);
        op_const(op, "N", (int64_t)m->weight->rows);
        op_const(op, "W_STRIDE", band->row_words);
        op_const(op, "X_STRIDE", m->x_stride);
        op_const(op, "Y_STRIDE", m->y_stride);
        op_const(op, "X_LAST", m->last_row);
        op_uint(op, "row0", band->row0);
        op_uint(op, "rows", band->rows);
        op_bind_fixed(op, "W", band->range);
        op_bind_slot(op, "X", m->x);
        op_bind_slot(op, "Y", m->y);
        bind_prologue(op, p, m);
        op->bytes = band->range.size;
    }
}

static int32_t qkv_dim(const struct model_desc *d)
{
    return (d->heads + 2 * d->kv_heads) * d->head_dim;
}

static struct op *append_attention(struct oplist *list, const struct oplist_params *p,
                                   enum dgl_phase phase, int32_t layer, const char *op_name)
{
    const struct model_desc *d = p->desc;
    struct op *op = oplist_append(list, phase, layer, op_name, op_name);
    op_attr(op, "kv", p->kv_type == DGL_KV_F32 ? "f32" : "f16");
    op_const(op, "HEADS", d->heads);
    op_const(op, "KV_HEADS", d->kv_heads);
    op_const(op, "HEAD_DIM", d->head_dim);
    op_const(op, "ROPE_DIMS", d->rope[ROPE_GLOBAL].dims);
    op_const(op, "QKV_STRIDE", qkv_dim(d));
    op_const(op, "CONTEXT", p->context);
    op_bind_slot(op, "QKV", SLOT_QKV);
    op_bind_slot(op, "KV", SLOT_KV);
    return op;
}

static void add_rope_kv(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = append_attention(list, p, DGL_PHASE_PREFILL, layer, "rope_kv");
    op_float(op, "rope_scale", p->desc->rope[ROPE_GLOBAL].scale);
    op_bind_fixed(op, "ROPE", p->rope);
}

static void add_attn_prefill(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = append_attention(list, p, DGL_PHASE_PREFILL, layer, "attn_prefill");
    op_const(op, "O_STRIDE", p->desc->heads * p->desc->head_dim);
    op_float(op, "scale", p->desc->attn_scale);
    op_bind_slot(op, "O", SLOT_ATT);
}

static void add_attn_decode(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = append_attention(list, p, DGL_PHASE_DECODE, layer, "attn_decode");
    op_const(op, "SPLITS", p->splits);
    op_float(op, "scale", p->desc->attn_scale);
    op_float(op, "rope_scale", p->desc->rope[ROPE_GLOBAL].scale);
    op_bind_fixed(op, "ROPE", p->rope);
    op_bind_slot(op, "P", SLOT_ATT);
}

static void add_attn_merge(struct oplist *list, const struct oplist_params *p, int32_t layer)
{
    struct op *op = oplist_append(list, DGL_PHASE_DECODE, layer, "attn_merge", "attn_merge");
    op_const(op, "HEADS", p->desc->heads);
    op_const(op, "HEAD_DIM", p->desc->head_dim);
    op_const(op, "SPLITS", p->splits);
    op_bind_slot(op, "P", SLOT_ATT);
    op_bind_slot(op, "O", SLOT_MERGED);
}

/* ---- the model ------------------------------------------------------------------------------- */

static struct matmul layer_matmul(const struct oplist_params *p, enum dgl_phase phase,
                                  int32_t layer, const char *label)
{
    return (struct matmul){.phase = phase,
                           .layer = layer,
                           .label = label,
                           .pre = "none",
                           .post = "store",
                           .x_stride = p->desc->hidden,
                           .y_stride = p->desc->hidden};
}

/* x -> x + o(attention(qkv(norm x))). In decode the norm is computed by its consumer, once per work
 * group: cheaper than a dispatch. In prefill it is computed once per token. */
static void add_attention_block(struct oplist *list, const struct oplist_params *p,
                                enum dgl_phase phase, int32_t layer)
{
    const struct layer_weights *w = &p->weights->layer[layer];
    bool prefill = phase == DGL_PHASE_PREFILL;
    if (prefill)
        add_norm(list, p, layer, "attn_norm", w->attn_norm);
    struct matmul qkv = layer_matmul(p, phase, layer, "qkv");
    qkv.pre = prefill ? "none" : "norm";
    qkv.weight = &w->qkv;
    qkv.gain = w->attn_norm;
    qkv.x = prefill ? SLOT_NORMED : SLOT_X;
    qkv.y = SLOT_QKV;
    qkv.y_stride = qkv_dim(p->desc);
    add_matmul(list, p, &qkv);
    if (prefill) {
        add_rope_kv(list, p, layer);
        add_attn_prefill(list, p, layer);
    } else {
        add_attn_decode(list, p, layer);
        if (p->splits > 1)
            add_attn_merge(list, p, layer);
    }
    struct matmul o = layer_matmul(p, phase, layer, "o");
    o.post = "add";
    o.weight = &w->o;
    o.x = !prefill && p->splits > 1 ? SLOT_MERGED : SLOT_ATT;
    o.x_stride = p->desc->heads * p->desc->head_dim;
    o.y = SLOT_X;
    add_matmul(list, p, &o);
}

/* x -> x + down(act(gate) * up), gate and up of norm x. */
static void add_mlp_block(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase,
                          int32_t layer)
{
    const struct layer_weights *w = &p->weights->layer[layer];
    bool prefill = phase == DGL_PHASE_PREFILL;
    if (prefill)
        add_norm(list, p, layer, "ffn_norm", w->ffn_norm);
    struct matmul gate_up = layer_matmul(p, phase, layer, "gate_up");
    gate_up.pre = prefill ? "none" : "norm";
    gate_up.post = "glu";
    gate_up.weight = &w->gate_up;
    gate_up.gain = w->ffn_norm;
    gate_up.x = prefill ? SLOT_NORMED : SLOT_X;
    gate_up.y = SLOT_ACT;
    gate_up.y_stride = p->desc->intermediate;
    add_matmul(list, p, &gate_up);
    struct matmul down = layer_matmul(p, phase, layer, "down");
    down.post = "add";
    down.weight = &w->down;
    down.x = SLOT_ACT;
    down.x_stride = p->desc->intermediate;
    down.y = SLOT_X;
    add_matmul(list, p, &down);
}

static void add_body(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase)
{
    add_embed(list, p, phase);
    for (int32_t layer = 0; layer < p->desc->layers; layer++) {
        add_attention_block(list, p, phase, layer);
        add_mlp_block(list, p, phase, layer);
    }
}

void oplist_prefill_body(struct oplist *list, const struct oplist_params *p)
{
    add_body(list, p, DGL_PHASE_PREFILL);
}

void oplist_decode_body(struct oplist *list, const struct oplist_params *p)
{
    add_body(list, p, DGL_PHASE_DECODE);
}

void oplist_head(struct oplist *list, const struct oplist_params *p, enum dgl_phase phase)
{
    struct matmul head = layer_matmul(p, phase, -1, "head");
    head.pre = "norm";
    head.weight = &p->weights->head;
    head.gain = p->weights->final_norm;
    head.x = SLOT_X;
    head.y = SLOT_LOGITS;
    head.y_stride = p->desc->vocab;
    head.last_row = true;
    add_matmul(list, p, &head);
}

void oplist_score(struct oplist *list, const struct oplist_params *p)
{
    add_norm(list, p, -1, "final_norm", p->weights->final_norm);
    struct matmul head = layer_matmul(p, DGL_PHASE_PREFILL, -1, "head_all");
    head.weight = &p->weights->head;
    head.x = SLOT_NORMED;
    head.y = SLOT_ALL_LOGITS;
    head.y_stride = p->desc->vocab;
    add_matmul(list, p, &head);
}
