/* What a model's weights consist of: every matrix and vector that the description names, in the
 * order of use. weights_place.c and weights_upload.c do the rest. */
#include "core/memory/weights.h"
#include "core/base/mem.h"
#include "core/memory/weights_builder.h"
#include "loader/quant/quant.h"

#include <stdlib.h>

/* ---- listing --------------------------------------------------------------------------------- */

/* Opens a matrix; the strips that follow are its own. */
static struct matrix_item *add_matrix(struct builder *b, struct weight *weight)
{
    if (!dgl_grow((void **)&b->matrices, &b->cap_matrices, b->num_matrices + 1,
                  sizeof(*b->matrices))) {
        b->failed = true;
        return NULL;
    }
    struct matrix_item *m = &b->matrices[b->num_matrices++];
    *m = (struct matrix_item){.weight = weight, .first_strip = b->num_strips, .bias = TENSOR_NONE};
    return m;
}

/* One more strip of the matrix opened last. */
static void add_strip(struct builder *b, struct strip strip)
{
    if (b->failed ||
        !dgl_grow((void **)&b->strips, &b->cap_strips, b->num_strips + 1, sizeof(*b->strips))) {
        b->failed = true;
        return;
    }
    b->strips[b->num_strips++] = strip;
    b->matrices[b->num_matrices - 1].num_strips++;
}

/* Rows of a tensor: all dimensions but the last. */
static uint64_t tensor_rows(const struct builder *b, long tensor)
{
    const struct tensor_info *info = builder_tensor(b, tensor);
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < info->rank; i++)
        rows *= info->shape[i];
    return rows;
}

/* Values of a vector. */
static uint64_t tensor_values(const struct builder *b, long tensor)
{
    const struct tensor_info *info = builder_tensor(b, tensor);
    return tensor_rows(b, tensor) * info->shape[info->rank - 1];
}

/* All of a tensor as rows to, to + step ... */
static void add_rows(struct builder *b, long tensor, uint64_t to, uint32_t step)
{
    add_strip(b, (struct strip){tensor, 0, tensor_rows(b, tensor), to, step});
}

static void add_plain(struct builder *b, struct weight *weight, long tensor)
{
    if (add_matrix(b, weight))
        add_rows(b, tensor, 0, 1);
}

static void add_vector(struct builder *b, struct gl_range *range)
{
    if (!dgl_grow((void **)&b->vectors, &b->cap_vectors, b->num_vectors + 1, sizeof(*b->vectors))) {
        b->failed = true;
        return;
    }
    b->vectors[b->num_vectors++] =
        (struct vector_item){.range = range, .first_piece = b->num_pieces};
}

/* Kernels read four at a time. */
static void grow_vector(struct vector_item *v, uint64_t count)
{
    count = (count + 3) / 4 * 4;
    v->count = count > v->count ? count : v->count;
}

/* One more piece of the vector opened last; nothing when there is no such tensor. */
static void add_piece(struct builder *b, struct piece piece)
{
    if (piece.tensor == TENSOR_NONE || b->failed)
        return;
    if (!dgl_grow((void **)&b->pieces, &b->cap_pieces, b->num_pieces + 1, sizeof(*b->pieces))) {
        b->failed = true;
        return;
    }
    struct vector_item *v = &b->vectors[b->num_vectors - 1];
    piece.count = tensor_values(b, piece.tensor);
    b->pieces[b->num_pieces++] = piece;
    v->num_pieces++;
    grow_vector(v, piece.at + piece.count * piece.step);
}

static struct piece gain_piece(const struct model_desc *d, long tensor, uint64_t at, double scale)
{
    return (struct piece){
        .tensor = tensor, .at = at, .step = 1, .add = d->norm_plus_one ? 1 : 0, .scale = scale};
}

static void add_gain(struct builder *b, struct gl_range *range, long tensor, double scale)
{
    if (tensor == TENSOR_NONE)
        return;
    add_vector(b, range);
    add_piece(b, gain_piece(b->p->desc, tensor, 0, scale));
}

/* Biases of a matrix's parts, by the row that each begins at. */
struct bias_part {
    long tensor;
    uint64_t at;
};

/* The vectors of the weight whose matrix was opened last: the gain of the norm before it, and its
 * biases, rows in turn with `step` 2. A part without a bias gets zeros. */
static void add_vectors(struct builder *b, struct weight *w, long gain,
                        const struct bias_part *parts, size_t count, uint32_t step)
{
    const struct model_desc *d = b->p->desc;
    uint64_t start = 0;
    for (size_t i = 0; i < count; i++)
        w->has_bias |= parts[i].tensor != TENSOR_NONE;
    w->has_gain = gain != TENSOR_NONE;
    if (!w->has_gain && !w->has_bias)
        return;
    add_vector(b, &w->vectors);
    add_piece(b, gain_piece(d, gain, 0, 1));
    if (w->has_gain)
        start = ((uint64_t)d->hidden + 3) / 4 * 4;
    for (size_t i = 0; i < count; i++)
        add_piece(
            b, (struct piece){
                   .tensor = parts[i].tensor, .at = start + parts[i].at, .step = step, .scale = 1});
    if (b->failed || !w->has_bias)
        return;
    const struct matrix_item *m = &b->matrices[b->num_matrices - 1];
    for (size_t i = 0; i < m->num_strips; i++)
        start += b->strips[m->first_strip + i].count;
    grow_vector(&b->vectors[b->num_vectors - 1], start);
}

/* ---- the parts of a layer -------------------------------------------------------------------- */

static void list_attention(struct builder *b, const struct layer_desc *l, struct layer_weights *w)
{
    const struct model_desc *d = b->p->desc;
    uint64_t q_rows = (uint64_t)d->heads * (uint64_t)d->head_dim;
    uint64_t kv_rows = (uint64_t)d->kv_heads * (uint64_t)d->head_dim;
    if (l->qkv != TENSOR_NONE) {
        add_plain(b, &w->qkv, l->qkv);
    } else if (add_matrix(b, &w->qkv)) {
        add_rows(b, l->q, 0, 1);
        add_rows(b, l->k, q_rows, 1);
        add_rows(b, l->v, q_rows + kv_rows, 1);
    }
    const struct bias_part qkv[] = {
        {l->q_bias, 0}, {l->k_bias, q_rows}, {l->v_bias, q_rows + kv_rows}};
    add_vectors(b, &w->qkv, l->attn_norm, qkv, 3, 1);
    if (l->q_norm != TENSOR_NONE) {
        add_gain(b, &w->qk_norm, l->q_norm, 1);
        add_piece(b, gain_piece(d, l->k_norm, tensor_values(b, l->q_norm), 1));
    }
    if (l->sinks != TENSOR_NONE) {
        add_vector(b, &w->sinks);
        add_piece(b, (struct piece){.tensor = l->sinks, .step = 1, .scale = 1});
    }
    add_plain(b, &w->o, l->o);
    add_vectors(b, &w->o, TENSOR_NONE, &(struct bias_part){l->o_bias, 0}, 1, 1);
    add_gain(b, &w->attn_post_norm, l->attn_post_norm, d->residual_scale);
}

static void list_mlp(struct builder *b, const struct layer_desc *l, struct layer_weights *w)
{
    const struct bias_part gate_up[] = {{l->gate_bias, 0}, {l->up_bias, 1}};
    struct matrix_item *m = add_matrix(b, &w->gate_up);
    if (!m)
        return;
    m->pairs = true;
    if (l->gate_up != TENSOR_NONE) {
        uint64_t half = tensor_rows(b, l->gate_up) / 2;
        add_strip(b, (struct strip){l->gate_up, 0, half, 0, 2});
        add_strip(b, (struct strip){l->gate_up, half, half, 1, 2});
    } else {
        add_rows(b, l->gate, 0, 2);
        add_rows(b, l->up, 1, 2);
    }
    add_vectors(b, &w->gate_up, l->ffn_norm, gate_up, 2, 2);
    add_plain(b, &w->down, l->down);
    add_vectors(b, &w->down, TENSOR_NONE, &(struct bias_part){l->down_bias, 0}, 1, 1);
}

/* The same matrix of every expert, one below the other, its rows `step` apart from row `to` on. */
static void add_expert_rows(struct builder *b, const struct expert_tensors *t, uint64_t to,
                            uint32_t step)
{
    if (!t->each) {
        add_rows(b, t->stacked, to, step);
        return;
    }
    for (int32_t e = 0; e < b->p->desc->moe.experts; e++) {
        add_rows(b, t->each[e], to, step);
        to += tensor_rows(b, t->each[e]) * step;
    }
}

static bool has_experts(const struct expert_tensors *t)
{
    return t->each || t->stacked != TENSOR_NONE;
}

static void list_experts(struct builder *b, const struct layer_desc *l, struct layer_weights *w)
{
    add_plain(b, &w->router, l->router);
    add_vectors(b, &w->router, l->ffn_norm, &(struct bias_part){l->router_bias, 0}, 1, 1);
    struct matrix_item *m = add_matrix(b, &w->expert_gate_up);
    if (!m)
        return;
    m->pairs = true;
    m->bias = l->expert_gate_up_bias;
    if (has_experts(&l->expert_gate_up)) {
        add_expert_rows(b, &l->expert_gate_up, 0, 1);
    } else {
        add_expert_rows(b, &l->expert_gate, 0, 2);
        add_expert_rows(b, &l->expert_up, 1, 2);
    }
    m = add_matrix(b, &w->expert_down);
    if (!m)
        return;
    m->bias = l->expert_down_bias;
    add_expert_rows(b, &l->expert_down, 0, 1);
}

/* Everything in the order of use, so that a token walks through memory forwards. */
static enum dgl_status list_items(struct builder *b)
{
    const struct model_desc *d = b->p->desc;
    struct model_weights *w = b->w;
    size_t layers = (size_t)d->layers;
    w->layer = dgl_new_array(struct layer_weights, layers);
    if (!w->layer)
        return dgl_fail_memory(builder_log(b), "weight table", layers * sizeof(*w->layer));
    w->num_layers = (uint32_t)layers;
    add_plain(b, &w->embed, d->embed);
    for (size_t i = 0; i < layers; i++) {
        const struct layer_desc *l = &d->layer[i];
        list_attention(b, l, &w->layer[i]);
        if (l->router != TENSOR_NONE)
            list_experts(b, l, &w->layer[i]);
        else
            list_mlp(b, l, &w->layer[i]);
        add_gain(b, &w->layer[i].ffn_post_norm, l->ffn_post_norm, d->residual_scale);
    }
    if (!d->tied_head)
        add_plain(b, &w->head, d->head);
    add_vectors(b, &w->head, d->final_norm, NULL, 0, 1);
    return b->failed ? dgl_fail_memory(builder_log(b), "weight table", layers) : DGL_OK;
}

enum dgl_dtype weights_device_dtype(const struct weight_layouts *layouts, enum dgl_dtype q4_k_as,
                                    enum dgl_dtype stored)
{
    enum dgl_dtype dtype = stored == DGL_Q4_K ? q4_k_as : stored, wider;
    if (layouts->name[dtype][0])
        return dtype;
    return dgl_dtype_wider(dtype, &wider) && layouts->name[wider][0] ? wider : DGL_F16;
}

/* ---- the passes ------------------------------------------------------------------------------ */

static void builder_finish(struct builder *b)
{
    free(b->matrices);
    free(b->strips);
    free(b->vectors);
    free(b->pieces);
    free(b);
}

static struct builder *builder_create(const struct weights_params *params,
                                      struct model_weights *out)
{
    struct builder *b = dgl_new(struct builder);
    *out = (struct model_weights){0};
    if (b) {
        b->p = params;
        b->w = out;
    }
    return b;
}

static void weight_finish(struct weight *w)
{
    free(w->bands);
    *w = (struct weight){0};
}

static void release_host(struct model_weights *w)
{
    if (w->head.bands != w->embed.bands)
        weight_finish(&w->head);
    weight_finish(&w->embed);
    for (uint32_t i = 0; w->layer && i < w->num_layers; i++) {
        struct layer_weights *l = &w->layer[i];
        struct weight *const all[] = {
            &l->qkv, &l->o, &l->gate_up, &l->down, &l->router, &l->expert_gate_up, &l->expert_down};
        for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++)
            weight_finish(all[j]);
    }
    free(w->layer);
}

enum dgl_status weights_estimate(const struct weights_params *params, uint64_t *bytes)
{
    struct model_weights w;
    struct builder *b = builder_create(params, &w);
    if (!b)
        return dgl_fail_memory(params->dev->log, "weight table", sizeof(*b));
    enum dgl_status st = list_items(b);
    if (st == DGL_OK)
        st = weights_place(b);
    *bytes = w.bytes;
    builder_finish(b);
    release_host(&w);
    return st;
}

/* The embedding table as the head: its bands, the head's own vectors. */
static void tie_head(struct model_weights *w)
{
    w->head.rows = w->embed.rows;
    w->head.cols = w->embed.cols;
    w->head.bands = w->embed.bands;
    w->head.num_bands = w->embed.num_bands;
}

enum dgl_status weights_create(const struct weights_params *params, struct model_weights *out)
{
    struct builder *b = builder_create(params, out);
    if (!b)
        return dgl_fail_memory(params->dev->log, "weight table", sizeof(*b));
    enum dgl_status st = list_items(b);
    if (st == DGL_OK)
        st = weights_place(b);
    if (st == DGL_OK)
        st = weights_create_buffers(b);
    if (st == DGL_OK)
        st = weights_upload(b);
    builder_finish(b);
    if (st != DGL_OK)
        weights_finish(params->dev, out);
    else if (params->desc->tied_head)
        tie_head(out);
    return st;
}

void weights_finish(struct dgl_device *dev, struct model_weights *weights)
{
    release_host(weights);
    for (uint32_t i = 0; i < weights->num_buffers; i++)
        gl_buffer_destroy(dev->gl, &weights->buffers[i]);
    free(weights->buffers);
    *weights = (struct model_weights){0};
}
