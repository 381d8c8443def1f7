/* The weights of a model: every matrix and vector that the description names, in the order of use.
 */
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/plan/weights.h"

struct lister {
    const struct model_desc *desc;
    const struct tensor_source *tensors;
    struct model_weights *w;
};

/* ---- matrices and vectors -------------------------------------------------------------------- */

/* Rows of a tensor: all dimensions but the last. */
static uint64_t tensor_rows(const struct lister *l, long tensor)
{
    const struct tensor_info *info = tensor_source_at(l->tensors, (size_t)tensor);
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < info->rank; i++)
        rows *= info->shape[i];
    return rows;
}

static uint64_t tensor_values(const struct lister *l, long tensor)
{
    const struct tensor_info *info = tensor_source_at(l->tensors, (size_t)tensor);
    return tensor_rows(l, tensor) * info->shape[info->rank - 1];
}

/* Opens a matrix; the slices that follow are its own. */
static void add_matrix(struct lister *l, struct weight *weight)
{
    struct model_weights *w = l->w;
    *weight = (struct weight){
        .id = (uint32_t)w->num_matrices, .first_slice = w->num_slices, .band_bias = TENSOR_NONE};
    if (!dgl_grow((void **)&w->matrices, &w->cap_matrices, w->num_matrices + 1,
                  sizeof(struct weight *))) {
        w->failed = true;
        return;
    }
    w->matrices[w->num_matrices++] = weight;
}

/* Rows [from, from + count) of a tensor, as rows to, to + step ... of the matrix opened last. */
static void add_slice(struct lister *l, struct weight_slice slice)
{
    struct model_weights *w = l->w;
    if (w->failed ||
        !dgl_grow((void **)&w->slices, &w->cap_slices, w->num_slices + 1, sizeof(*w->slices))) {
        w->failed = true;
        return;
    }
    struct weight *weight = w->matrices[w->num_matrices - 1];
    const struct tensor_info *info = tensor_source_at(l->tensors, (size_t)slice.tensor);
    weight->cols = info->shape[info->rank - 1];
    weight->rows += slice.count;
    weight->num_slices++;
    w->slices[w->num_slices++] = slice;
}

/* All of a tensor as rows to, to + step ... */
static void add_rows(struct lister *l, long tensor, uint64_t to, uint32_t step)
{
    add_slice(l, (struct weight_slice){tensor, 0, tensor_rows(l, tensor), to, step});
}

static void add_plain(struct lister *l, struct weight *weight, long tensor)
{
    add_matrix(l, weight);
    add_rows(l, tensor, 0, 1);
}

/* Opens a vector; the slices that follow are its own. */
static void add_vector(struct lister *l, uint32_t *id)
{
    struct model_weights *w = l->w;
    if (!dgl_grow((void **)&w->vectors, &w->cap_vectors, w->num_vectors + 1, sizeof(*w->vectors))) {
        w->failed = true;
        return;
    }
    *id = (uint32_t)w->num_vectors;
    w->vectors[w->num_vectors++] = (struct weight_vector){.first_slice = w->num_vector_slices};
}

/* Kernels read four at a time. */
static void grow_vector(struct lister *l, uint64_t count)
{
    struct weight_vector *v = &l->w->vectors[l->w->num_vectors - 1];
    count = (count + 3) / 4 * 4;
    v->count = count > v->count ? count : v->count;
}

/* Adds one slice to the vector opened last, if the tensor exists. */
static void add_vector_slice(struct lister *l, struct weight_vector_slice slice)
{
    struct model_weights *w = l->w;
    if (slice.tensor == TENSOR_NONE || w->failed)
        return;
    if (!dgl_grow((void **)&w->vector_slices, &w->cap_vector_slices, w->num_vector_slices + 1,
                  sizeof(*w->vector_slices))) {
        w->failed = true;
        return;
    }
    slice.count = tensor_values(l, slice.tensor);
    w->vector_slices[w->num_vector_slices++] = slice;
    w->vectors[w->num_vectors - 1].num_slices++;
    grow_vector(l, slice.at + slice.count * slice.step);
}

/* The weight of a norm at float `at` of the vector opened last. */
static void add_norm_weight(struct lister *l, long tensor, uint64_t at, double scale)
{
    add_vector_slice(l, (struct weight_vector_slice){.tensor = tensor,
                                                     .at = at,
                                                     .step = 1,
                                                     .add = l->desc->norm_plus_one ? 1 : 0,
                                                     .scale = scale});
}

/* The weight of a norm that is applied before its result is added to the residual stream. */
static void add_post_norm(struct lister *l, uint32_t *id, long tensor)
{
    if (tensor == TENSOR_NONE)
        return;
    add_vector(l, id);
    add_norm_weight(l, tensor, 0, l->desc->residual_scale);
}

/* Biases of a matrix's parts, by the row that each begins at. */
struct bias_part {
    long tensor;
    uint64_t at;
};

/* The vector of the matrix opened last: the weight of the norm before it, and its biases, `step`
 * rows apart. A part without a bias gets zeros. */
static void add_matrix_vector(struct lister *l, struct weight *weight, long norm_weight,
                              const struct bias_part *parts, size_t count, uint32_t step)
{
    uint64_t start = 0;
    for (size_t i = 0; i < count; i++)
        weight->has_bias |= parts[i].tensor != TENSOR_NONE;
    weight->has_norm = norm_weight != TENSOR_NONE;
    if (!weight->has_norm && !weight->has_bias)
        return;
    add_vector(l, &weight->vector);
    add_norm_weight(l, norm_weight, 0, 1);
    if (weight->has_norm)
        start = ((uint64_t)l->desc->hidden + 3) / 4 * 4;
    for (size_t i = 0; i < count; i++)
        add_vector_slice(
            l, (struct weight_vector_slice){
                   .tensor = parts[i].tensor, .at = start + parts[i].at, .step = step, .scale = 1});
    if (weight->has_bias && !l->w->failed)
        grow_vector(l, start + weight->rows);
}

/* ---- the parts of a layer -------------------------------------------------------------------- */

/* Adds rows [from, from + heads * head_dim) of q or k as rows to, to + 1 ... of the matrix opened
 * last. Kernels rotate multiples of 4 numbers. If a head rotates R = 2 mod 4 numbers, they rotate R
 * + 2, the last pair by an angle of 0 (rope_table.h). So number R becomes the last of the first
 * half. q and k are permuted alike, so the scores do not change. */
static void add_rotated_rows(struct lister *l, long tensor, uint64_t from, int32_t heads,
                             uint64_t to)
{
    uint64_t dim = (uint64_t)l->desc->head_dim, rotated = (uint64_t)l->desc->rope[ROPE_GLOBAL].dims;
    if (rotated % 4 == 0) {
        add_slice(l, (struct weight_slice){tensor, from, (uint64_t)heads * dim, to, 1});
        return;
    }
    uint64_t half = rotated / 2;
    for (int32_t h = 0; h < heads; h++, from += dim, to += dim) {
        add_slice(l, (struct weight_slice){tensor, from, half, to, 1});
        add_slice(l, (struct weight_slice){tensor, from + rotated, 1, to + half, 1});
        add_slice(l, (struct weight_slice){tensor, from + half, half, to + half + 1, 1});
        add_slice(l, (struct weight_slice){tensor, from + rotated + 1, dim - rotated - 1,
                                           to + rotated + 1, 1});
    }
}

static void list_attention(struct lister *l, const struct layer_desc *layer,
                           struct layer_weights *w)
{
    const struct model_desc *d = l->desc;
    uint64_t q_rows = (uint64_t)d->heads * (uint64_t)d->head_dim;
    uint64_t kv_rows = (uint64_t)d->kv_heads * (uint64_t)d->head_dim;
    bool fused = layer->qkv != TENSOR_NONE;
    add_matrix(l, &w->qkv);
    add_rotated_rows(l, fused ? layer->qkv : layer->q, 0, d->heads, 0);
    add_rotated_rows(l, fused ? layer->qkv : layer->k, fused ? q_rows : 0, d->kv_heads, q_rows);
    add_slice(l, (struct weight_slice){fused ? layer->qkv : layer->v, fused ? q_rows + kv_rows : 0,
                                       kv_rows, q_rows + kv_rows, 1});
    const struct bias_part qkv[] = {
        {layer->q_bias, 0}, {layer->k_bias, q_rows}, {layer->v_bias, q_rows + kv_rows}};
    add_matrix_vector(l, &w->qkv, layer->attn_norm, qkv, 3, 1);
    if (layer->q_norm != TENSOR_NONE) {
        add_vector(l, &w->qk_norm);
        add_norm_weight(l, layer->q_norm, 0, 1);
        add_norm_weight(l, layer->k_norm, tensor_values(l, layer->q_norm), 1);
    }
    if (layer->sinks != TENSOR_NONE) {
        add_vector(l, &w->sinks);
        add_vector_slice(
            l, (struct weight_vector_slice){.tensor = layer->sinks, .step = 1, .scale = 1});
    }
    add_plain(l, &w->o, layer->o);
    add_matrix_vector(l, &w->o, TENSOR_NONE, &(struct bias_part){layer->o_bias, 0}, 1, 1);
    add_post_norm(l, &w->attn_post_norm, layer->attn_post_norm);
}

static void list_mlp(struct lister *l, const struct layer_desc *layer, struct layer_weights *w)
{
    const struct bias_part gate_up[] = {{layer->gate_bias, 0}, {layer->up_bias, 1}};
    add_matrix(l, &w->gate_up);
    w->gate_up.row_pairs = true;
    if (layer->gate_up != TENSOR_NONE) {
        uint64_t half = tensor_rows(l, layer->gate_up) / 2;
        add_slice(l, (struct weight_slice){layer->gate_up, 0, half, 0, 2});
        add_slice(l, (struct weight_slice){layer->gate_up, half, half, 1, 2});
    } else {
        add_rows(l, layer->gate, 0, 2);
        add_rows(l, layer->up, 1, 2);
    }
    add_matrix_vector(l, &w->gate_up, layer->ffn_norm, gate_up, 2, 2);
    add_plain(l, &w->down, layer->down);
    add_matrix_vector(l, &w->down, TENSOR_NONE, &(struct bias_part){layer->down_bias, 0}, 1, 1);
}

/* One matrix of every expert, stacked, with rows `step` apart from row `to` on. */
static void add_expert_rows(struct lister *l, const struct expert_tensors *t, uint64_t to,
                            uint32_t step)
{
    if (!t->each) {
        add_rows(l, t->stacked, to, step);
        return;
    }
    for (int32_t e = 0; e < l->desc->moe.experts; e++) {
        add_rows(l, t->each[e], to, step);
        to += tensor_rows(l, t->each[e]) * step;
    }
}

static void list_experts(struct lister *l, const struct layer_desc *layer, struct layer_weights *w)
{
    const struct expert_tensors *fused = &layer->expert_gate_up;
    add_plain(l, &w->router, layer->router);
    add_matrix_vector(l, &w->router, layer->ffn_norm, &(struct bias_part){layer->router_bias, 0}, 1,
                      1);
    add_matrix(l, &w->expert_gate_up);
    w->expert_gate_up.row_pairs = true;
    w->expert_gate_up.of_experts = true;
    w->expert_gate_up.band_bias = layer->expert_gate_up_bias;
    if (fused->each || fused->stacked != TENSOR_NONE) {
        add_expert_rows(l, fused, 0, 1);
    } else {
        add_expert_rows(l, &layer->expert_gate, 0, 2);
        add_expert_rows(l, &layer->expert_up, 1, 2);
    }
    add_matrix(l, &w->expert_down);
    w->expert_down.of_experts = true;
    w->expert_down.band_bias = layer->expert_down_bias;
    add_expert_rows(l, &layer->expert_down, 0, 1);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* In the order of use, so that a token walks through memory forwards. */
enum dgl_status weights_list(const struct dgl_log *log, const struct model_desc *desc,
                             const struct tensor_source *tensors, struct model_weights *out)
{
    struct lister l = {.desc = desc, .tensors = tensors, .w = out};
    uint32_t none = VECTOR_NONE;
    *out = (struct model_weights){.num_layers = (uint32_t)desc->layers};
    out->layer = dgl_new_array(struct layer_weights, out->num_layers);
    if (!out->layer)
        goto error;
    add_vector(&l, &none); /* VECTOR_NONE */
    add_plain(&l, &out->embed, desc->embed);
    for (uint32_t i = 0; i < out->num_layers; i++) {
        const struct layer_desc *layer = &desc->layer[i];
        list_attention(&l, layer, &out->layer[i]);
        if (layer->router != TENSOR_NONE)
            list_experts(&l, layer, &out->layer[i]);
        else
            list_mlp(&l, layer, &out->layer[i]);
        add_post_norm(&l, &out->layer[i].ffn_post_norm, layer->ffn_post_norm);
    }
    out->head = out->embed;
    if (desc->head != desc->embed)
        add_plain(&l, &out->head, desc->head);
    add_matrix_vector(&l, &out->head, desc->final_norm, NULL, 0, 1);
    if (!out->failed)
        return DGL_OK;
error:
    weights_finish(out);
    return dgl_fail_memory(log, "weight table", (size_t)desc->layers * sizeof(*out->layer));
}

void weights_finish(struct model_weights *weights)
{
    for (size_t i = 0; i < weights->num_matrices; i++)
        free(weights->matrices[i]->bands);
    free(weights->layer);
    free(weights->matrices);
    free(weights->slices);
    free(weights->vectors);
    free(weights->vector_slices);
    free(weights->buffer_bytes);
    *weights = (struct model_weights){0};
}
