/* A decoder layer by layer in doubles. All tokens go through a layer together, so that each stored
 * row is read and decoded once. */
#include "tests/support/ref_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/thread.h"
#include "loader/desc/rope_freq.h"
#include "loader/quant/quant.h"
#include "tests/support/ref_ops.h"

enum { ROWS_PER_ITEM = 64 };

/* Rows of activations, one per token. */
struct pass {
    const struct dgl_log *log;
    const struct ref_model_params *p;
    const struct model_desc *d;
    size_t count;
    size_t q_dim, kv_dim;        /* values of all heads */
    double *x, *normed, *out;    /* [count, hidden]; the residual stream first */
    double *q, *k, *v, *att;     /* [count, q_dim], [count, kv_dim] x2, [count, q_dim] */
    double *gate, *up;           /* [count, intermediate] */
    double *scores;              /* [count] */
    double *inv_freq[ROPE_SETS]; /* [dims/2] */
    double *vector;              /* a norm's gain or a bias, [longest] */
};

/* ---- stored tensors -------------------------------------------------------------------------- */

/* Decodes `rows` rows of a matrix from `row0` on. */
static enum dgl_status read_rows(const struct pass *s, long tensor, uint64_t row0, uint64_t rows,
                                 uint64_t cols, float *values)
{
    const struct tensor_info *t = tensor_source_at(s->p->tensors, (size_t)tensor);
    uint64_t row_bytes;
    if (!dgl_dtype_row_bytes(t->dtype, cols, &row_bytes))
        return dgl_fail(s->log, DGL_ERR_FORMAT, "%s: too many columns", t->name);
    unsigned char *bytes = dgl_calloc(rows, row_bytes);
    if (!bytes)
        return dgl_fail_memory(s->log, t->name, rows * row_bytes);
    enum dgl_status status = tensor_source_read(s->log, s->p->tensors, (size_t)tensor,
                                                row0 * row_bytes, bytes, rows * row_bytes);
    for (uint64_t r = 0; r < rows && status == DGL_OK; r++)
        if (!dgl_row_decode(t->dtype, bytes + r * row_bytes, cols, values + r * cols))
            status = dgl_fail(s->log, DGL_ERR_UNSUPPORTED, "%s: no decoder for %s", t->name,
                              dgl_dtype_get(t->dtype)->name);
    free(bytes);
    return status;
}

static enum dgl_status read_vector(const struct pass *s, long tensor, size_t count)
{
    float *values = dgl_new_array(float, count);
    if (!values)
        return dgl_fail_memory(s->log, "vector", count * sizeof(float));
    enum dgl_status status = read_rows(s, tensor, 0, 1, count, values);
    for (size_t i = 0; i < count; i++)
        s->vector[i] = values[i];
    free(values);
    return status;
}

/* ---- products -------------------------------------------------------------------------------- */

/* y[t, n] = sum_k w[row0 + n, k] x[t, k] */
struct product {
    const struct pass *s;
    long tensor;
    uint64_t row0, rows, cols;
    const double *x;
    double *y;
};

static double dot(const float *w, const double *x, uint64_t count)
{
    double sum[4] = {0};
    uint64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        sum[0] += w[i] * x[i];
        sum[1] += w[i + 1] * x[i + 1];
        sum[2] += w[i + 2] * x[i + 2];
        sum[3] += w[i + 3] * x[i + 3];
    }
    for (; i < count; i++)
        sum[0] += w[i] * x[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static enum dgl_status product_item(void *ctx, size_t index)
{
    const struct product *m = ctx;
    uint64_t first = (uint64_t)index * ROWS_PER_ITEM;
    uint64_t rows = m->rows - first < ROWS_PER_ITEM ? m->rows - first : ROWS_PER_ITEM;
    float *w = dgl_calloc(rows, m->cols * sizeof(float));
    if (!w)
        return dgl_fail_memory(m->s->log, "rows of a matrix", rows * m->cols * sizeof(float));
    enum dgl_status status = read_rows(m->s, m->tensor, m->row0 + first, rows, m->cols, w);
    for (uint64_t r = 0; r < rows && status == DGL_OK; r++)
        for (size_t t = 0; t < m->s->count; t++)
            m->y[t * m->rows + first + r] = dot(w + r * m->cols, m->x + t * m->cols, m->cols);
    free(w);
    return status;
}

/* With a bias [rows] unless that is TENSOR_NONE. */
static enum dgl_status multiply(struct product m, long bias)
{
    size_t items = (size_t)((m.rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM);
    enum dgl_status status = dgl_parallel_for(m.s->p->threads, items, product_item, &m);
    if (status != DGL_OK || bias == TENSOR_NONE)
        return status;
    status = read_vector(m.s, bias, m.rows);
    for (size_t i = 0; i < m.s->count * m.rows && status == DGL_OK; i++)
        m.y[i] += m.s->vector[i % m.rows];
    return status;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* y = x / sqrt(mean(x^2) + eps) * gain for every run of `span` values of x, which may be y. The
 * gain is [span]. */
static enum dgl_status norm(const struct pass *s, long gain, const double *x, size_t span,
                            size_t runs, double *y)
{
    enum dgl_status status = read_vector(s, gain, span);
    for (size_t i = 0; i < span; i++)
        s->vector[i] += s->d->norm_plus_one ? 1.0 : 0.0;
    for (size_t r = 0; r < runs && status == DGL_OK; r++) {
        double sum = 0.0;
        for (size_t i = 0; i < span; i++)
            sum += x[r * span + i] * x[r * span + i];
        double scale = 1.0 / sqrt(sum / (double)span + s->d->norm_eps);
        for (size_t i = 0; i < span; i++)
            y[r * span + i] = x[r * span + i] * scale * s->vector[i];
    }
    return status;
}

/* The stream behind a norm that may be absent, to s->normed. */
static enum dgl_status norm_stream(const struct pass *s, long gain)
{
    size_t hidden = (size_t)s->d->hidden;
    if (gain != TENSOR_NONE)
        return norm(s, gain, s->x, hidden, s->count, s->normed);
    memcpy(s->normed, s->x, s->count * hidden * sizeof(double));
    return DGL_OK;
}

/* x += scale * norm(out), the norm as far as there is one. */
static enum dgl_status add_to_stream(const struct pass *s, long gain)
{
    size_t hidden = (size_t)s->d->hidden;
    enum dgl_status status = DGL_OK;
    if (gain != TENSOR_NONE)
        status = norm(s, gain, s->out, hidden, s->count, s->out);
    for (size_t i = 0; i < s->count * hidden && status == DGL_OK; i++)
        s->x[i] += s->d->residual_scale * s->out[i];
    return status;
}

/* Queries or keys: each head on its own, or all heads of a token at once. */
static enum dgl_status norm_heads(const struct pass *s, long gain, double *x, size_t dim)
{
    if (gain == TENSOR_NONE)
        return DGL_OK;
    size_t span = (size_t)tensor_source_at(s->p->tensors, (size_t)gain)->shape[0];
    return norm(s, gain, x, span, s->count * dim / span, x);
}

/* ---- attention ------------------------------------------------------------------------------- */

static void rotate(const struct pass *s, int32_t set, double *x, size_t heads)
{
    const struct rope_desc *rope = &s->d->rope[set];
    size_t half = (size_t)rope->dims / 2;
    for (size_t row = 0; row < s->count * heads; row++) {
        double *head = x + row * (size_t)s->d->head_dim;
        for (size_t i = 0; i < half; i++) {
            double angle = (double)(row / heads) * s->inv_freq[set][i];
            double c = cos(angle) * rope->scale, n = sin(angle) * rope->scale;
            double a = head[i], b = head[i + half];
            head[i] = a * c - b * n;
            head[i + half] = b * c + a * n;
        }
    }
}

/* One head of one token over the keys that it sees. */
static void attend(const struct pass *s, int32_t window, size_t token, size_t head)
{
    const struct model_desc *d = s->d;
    size_t dim = (size_t)d->head_dim, group = head / (size_t)(d->heads / d->kv_heads);
    size_t first = window > 0 && token + 1 > (size_t)window ? token + 1 - (size_t)window : 0;
    const double *q = s->q + token * s->q_dim + head * dim;
    double *out = s->att + token * s->q_dim + head * dim, largest = -INFINITY, sum = 0.0;
    for (size_t t = first; t <= token; t++) {
        double score = 0.0;
        for (size_t i = 0; i < dim; i++)
            score += q[i] * s->k[t * s->kv_dim + group * dim + i];
        score *= d->attn_scale;
        s->scores[t] = d->attn_softcap != 0.0 ? ref_softcap(score, d->attn_softcap) : score;
        largest = fmax(largest, s->scores[t]);
    }
    memset(out, 0, dim * sizeof(double));
    for (size_t t = first; t <= token; t++) {
        double weight = exp(s->scores[t] - largest);
        sum += weight;
        for (size_t i = 0; i < dim; i++)
            out[i] += weight * s->v[t * s->kv_dim + group * dim + i];
    }
    for (size_t i = 0; i < dim; i++)
        out[i] /= sum;
}

static enum dgl_status project_qkv(const struct pass *s, const struct layer_desc *l)
{
    struct part {
        long own, bias;
        uint64_t row0, rows;
        double *y;
    } parts[] = {
        {l->q, l->q_bias, 0, s->q_dim, s->q},
        {l->k, l->k_bias, s->q_dim, s->kv_dim, s->k},
        {l->v, l->v_bias, s->q_dim + s->kv_dim, s->kv_dim, s->v},
    };
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < 3 && status == DGL_OK; i++) {
        bool fused = l->qkv != TENSOR_NONE;
        status = multiply((struct product){.s = s,
                                           .tensor = fused ? l->qkv : parts[i].own,
                                           .row0 = fused ? parts[i].row0 : 0,
                                           .rows = parts[i].rows,
                                           .cols = (uint64_t)s->d->hidden,
                                           .x = s->normed,
                                           .y = parts[i].y},
                          parts[i].bias);
    }
    return status;
}

static enum dgl_status attention_block(const struct pass *s, const struct layer_desc *l)
{
    enum dgl_status status = norm_stream(s, l->attn_norm);
    if (status == DGL_OK)
        status = project_qkv(s, l);
    if (status == DGL_OK)
        status = norm_heads(s, l->q_norm, s->q, s->q_dim);
    if (status == DGL_OK)
        status = norm_heads(s, l->k_norm, s->k, s->kv_dim);
    if (status != DGL_OK)
        return status;
    if (l->rope != ROPE_NONE) {
        rotate(s, l->rope, s->q, (size_t)s->d->heads);
        rotate(s, l->rope, s->k, (size_t)s->d->kv_heads);
    }
    for (size_t token = 0; token < s->count; token++)
        for (size_t head = 0; head < (size_t)s->d->heads; head++)
            attend(s, l->window, token, head);
    status = multiply((struct product){.s = s,
                                       .tensor = l->o,
                                       .rows = (uint64_t)s->d->hidden,
                                       .cols = s->q_dim,
                                       .x = s->att,
                                       .y = s->out},
                      l->o_bias);
    return status == DGL_OK ? add_to_stream(s, l->attn_post_norm) : status;
}

/* ---- the rest of a layer --------------------------------------------------------------------- */

static enum dgl_status mlp_block(const struct pass *s, const struct layer_desc *l)
{
    uint64_t inner = (uint64_t)s->d->intermediate, hidden = (uint64_t)s->d->hidden;
    bool fused = l->gate_up != TENSOR_NONE, gelu = s->d->act == MODEL_ACT_GELU_TANH;
    struct product m = {.s = s, .rows = inner, .cols = hidden, .x = s->normed, .y = s->gate};
    enum dgl_status status = norm_stream(s, l->ffn_norm);
    m.tensor = fused ? l->gate_up : l->gate;
    if (status == DGL_OK)
        status = multiply(m, l->gate_bias);
    m.tensor = fused ? l->gate_up : l->up;
    m.row0 = fused ? inner : 0;
    m.y = s->up;
    if (status == DGL_OK)
        status = multiply(m, l->up_bias);
    for (size_t i = 0; i < s->count * inner && status == DGL_OK; i++)
        s->gate[i] = (gelu ? ref_gelu(s->gate[i]) : ref_silu(s->gate[i])) * s->up[i];
    if (status == DGL_OK)
        status = multiply((struct product){.s = s,
                                           .tensor = l->down,
                                           .rows = hidden,
                                           .cols = inner,
                                           .x = s->gate,
                                           .y = s->out},
                          l->down_bias);
    return status == DGL_OK ? add_to_stream(s, l->ffn_post_norm) : status;
}

/* ---- the model ------------------------------------------------------------------------------- */

static enum dgl_status embed(const struct pass *s)
{
    size_t hidden = (size_t)s->d->hidden;
    float *row = dgl_new_array(float, hidden);
    enum dgl_status status = row ? DGL_OK : dgl_fail_memory(s->log, "embedding", hidden);
    for (size_t t = 0; t < s->count && status == DGL_OK; t++) {
        status = read_rows(s, s->d->embed, (uint64_t)s->p->ids[t], 1, hidden, row);
        for (size_t i = 0; i < hidden; i++)
            s->x[t * hidden + i] = row[i] * s->d->embed_scale;
    }
    free(row);
    return status;
}

static enum dgl_status compute_logits(const struct pass *s, double *logits)
{
    const struct model_desc *d = s->d;
    enum dgl_status status = norm_stream(s, d->final_norm);
    if (status == DGL_OK)
        status = multiply((struct product){.s = s,
                                           .tensor = d->head,
                                           .rows = (uint64_t)d->vocab,
                                           .cols = (uint64_t)d->hidden,
                                           .x = s->normed,
                                           .y = logits},
                          TENSOR_NONE);
    for (size_t i = 0; i < s->count * (size_t)d->vocab && status == DGL_OK; i++) {
        logits[i] *= d->logit_scale;
        if (d->logit_softcap != 0.0)
            logits[i] = ref_softcap(logits[i], d->logit_softcap);
    }
    return status;
}

static enum dgl_status check_dense(const struct dgl_log *log, const struct model_desc *d)
{
    for (int32_t i = 0; i < d->layers; i++)
        if (d->layer[i].router != TENSOR_NONE || d->layer[i].sinks != TENSOR_NONE)
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "layer %d has experts or sinks; the reference knows dense models",
                            (int)i);
    return DGL_OK;
}

static void pass_finish(struct pass *s)
{
    double *const all[] = {s->x,           s->normed,      s->out,   s->q,    s->k,
                           s->v,           s->att,         s->up,    s->gate, s->scores,
                           s->inv_freq[0], s->inv_freq[1], s->vector};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static enum dgl_status pass_init(struct pass *s)
{
    const struct model_desc *d = s->d;
    size_t n = s->count, hidden = (size_t)d->hidden, inner = (size_t)d->intermediate;
    size_t longest = inner > hidden ? inner : hidden;
    s->q_dim = (size_t)d->heads * (size_t)d->head_dim;
    s->kv_dim = (size_t)d->kv_heads * (size_t)d->head_dim;
    longest = longest > s->q_dim ? longest : s->q_dim;
    struct {
        double **to;
        size_t count;
    } arrays[] = {
        {&s->x, n * hidden},
        {&s->normed, n * hidden},
        {&s->out, n * hidden},
        {&s->q, n * s->q_dim},
        {&s->k, n * s->kv_dim},
        {&s->v, n * s->kv_dim},
        {&s->att, n * s->q_dim},
        {&s->gate, n * inner},
        {&s->up, n * inner},
        {&s->scores, n},
        {&s->vector, longest},
        {&s->inv_freq[0], (size_t)d->head_dim},
        {&s->inv_freq[1], (size_t)d->head_dim},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        *arrays[i].to = dgl_new_array(double, arrays[i].count);
        if (!*arrays[i].to)
            return dgl_fail_memory(s->log, "activations", arrays[i].count * sizeof(double));
    }
    for (int32_t i = 0; i < d->layers; i++)
        if (d->layer[i].rope != ROPE_NONE)
            rope_inv_freq(&d->rope[d->layer[i].rope], (int64_t)n, s->inv_freq[d->layer[i].rope]);
    return DGL_OK;
}

enum dgl_status ref_model_logits(const struct dgl_log *log, const struct ref_model_params *p,
                                 double *logits)
{
    struct pass s = {.log = log, .p = p, .d = p->desc, .count = p->count};
    enum dgl_status status = check_dense(log, p->desc);
    if (status == DGL_OK)
        status = pass_init(&s);
    if (status == DGL_OK)
        status = embed(&s);
    for (int32_t i = 0; i < p->desc->layers && status == DGL_OK; i++) {
        status = attention_block(&s, &p->desc->layer[i]);
        if (status == DGL_OK)
            status = mlp_block(&s, &p->desc->layer[i]);
    }
    if (status == DGL_OK)
        status = compute_logits(&s, logits);
    pass_finish(&s);
    return status;
}
