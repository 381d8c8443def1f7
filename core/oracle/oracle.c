/* A decoder block by block in doubles. All tokens go through a block together, so that each stored
 * row is read and decoded once. */
#include "core/oracle/oracle.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/thread.h"
#include "core/oracle/oracle_ops.h"
#include "loader/desc/rope_freq.h"
#include "loader/quant/quant.h"

enum { ROWS_PER_ITEM = 64 };

/* The last chosen expert leads the first that was not by so little, relative to the largest router
 * logit, that rounding to f32 decides. */
#define TIE 1e-5

/* Rows of activations, one per token. */
struct oracle {
    const struct dgl_log *log;
    struct oracle_params p;
    const struct model_desc *d;
    size_t count;
    size_t q_dim, kv_dim;        /* values of all heads */
    double *x, *normed, *out;    /* [count, hidden]; the residual stream first */
    double *q, *k, *v, *att;     /* [count, q_dim], [count, kv_dim] x2, [count, q_dim] */
    double *gate, *up;           /* [count, longest intermediate]; of experts, side by side */
    double *scores;              /* [count] */
    double *inv_freq[ROPE_SETS]; /* [dims/2] */
    double *vector;              /* a norm's weight, a bias or sinks, [longest] */
    /* Mixture of experts. */
    double *router;         /* [count, experts] */
    double *weight;         /* [count, top_k] */
    uint32_t *expert;       /* [count, top_k] */
    bool *tie;              /* [count] */
    double *rows, *results; /* [count, hidden]: of the tokens that one expert gets */
    long zero_weight;       /* first tensor of zeros, or TENSOR_NONE */
};

/* ---- stored tensors -------------------------------------------------------------------------- */

/* Decodes `rows` rows of a matrix from `row0` on. */
static enum dgl_status read_rows(struct oracle *s, long tensor, uint64_t row0, uint64_t rows,
                                 uint64_t cols, float *values)
{
    const struct tensor_info *t = tensor_source_at(s->p.tensors, (size_t)tensor);
    uint64_t row_bytes;
    if (!dgl_dtype_row_bytes(t->dtype, cols, &row_bytes))
        return dgl_fail(s->log, DGL_ERR_FORMAT, "%s: too many columns", t->name);
    unsigned char *bytes = dgl_calloc(rows, row_bytes);
    if (!bytes)
        return dgl_fail_memory(s->log, t->name, rows * row_bytes);
    enum dgl_status status = tensor_source_read(s->log, s->p.tensors, (size_t)tensor,
                                                row0 * row_bytes, bytes, rows * row_bytes);
    for (uint64_t r = 0; r < rows && status == DGL_OK; r++)
        if (!dgl_row_decode(t->dtype, bytes + r * row_bytes, cols, values + r * cols))
            status = dgl_fail(s->log, DGL_ERR_UNSUPPORTED, "%s: no decoder for %s", t->name,
                              dgl_dtype_get(t->dtype)->name);
    free(bytes);
    return status;
}

/* Row `row` of `count` values to s->vector. */
static enum dgl_status read_vector(struct oracle *s, long tensor, uint64_t row, size_t count)
{
    float *values = dgl_new_array(float, count);
    if (!values)
        return dgl_fail_memory(s->log, "vector", count * sizeof(float));
    enum dgl_status status = read_rows(s, tensor, row, 1, count, values);
    for (size_t i = 0; i < count; i++)
        s->vector[i] = values[i];
    free(values);
    return status;
}

/* ---- products -------------------------------------------------------------------------------- */

/* y[t, n] = sum_k w[row0 + n, k] x[t, k] */
struct product {
    long tensor;
    uint64_t row0, rows, cols;
    size_t count;    /* rows of x; 0 for one per token */
    const double *x; /* [count, cols] */
    double *y;       /* [count, rows] */
    struct oracle *s;
    atomic_bool not_zero; /* some weight is not */
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
    struct product *m = ctx;
    uint64_t first = (uint64_t)index * ROWS_PER_ITEM;
    uint64_t rows = m->rows - first < ROWS_PER_ITEM ? m->rows - first : ROWS_PER_ITEM;
    bool not_zero = false;
    float *w = dgl_calloc(rows, m->cols * sizeof(float));
    if (!w)
        return dgl_fail_memory(m->s->log, "rows of a matrix", rows * m->cols * sizeof(float));
    enum dgl_status status = read_rows(m->s, m->tensor, m->row0 + first, rows, m->cols, w);
    for (uint64_t i = 0; i < rows * m->cols && !not_zero; i++)
        not_zero = w[i] != 0.0f;
    if (not_zero)
        atomic_store(&m->not_zero, true);
    for (uint64_t r = 0; r < rows && status == DGL_OK; r++)
        for (size_t t = 0; t < m->count; t++)
            m->y[t * m->rows + first + r] = dot(w + r * m->cols, m->x + t * m->cols, m->cols);
    free(w);
    return status;
}

/* With row `bias_row` of a bias [.., rows] unless that is TENSOR_NONE. */
static enum dgl_status multiply(struct oracle *s, struct product m, long bias, uint64_t bias_row)
{
    size_t items = (size_t)((m.rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM);
    m.s = s;
    m.count = m.count ? m.count : s->count;
    enum dgl_status status;
    TRY(dgl_parallel_for(s->p.threads, items, product_item, &m));
    if (!m.not_zero && s->zero_weight == TENSOR_NONE)
        s->zero_weight = m.tensor;
    if (bias != TENSOR_NONE)
        TRY(read_vector(s, bias, bias_row, m.rows));
    for (size_t i = 0; i < m.count * m.rows && bias != TENSOR_NONE; i++)
        m.y[i] += s->vector[i % m.rows];
done:
    return status;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* y = x / sqrt(mean(x^2) + eps) * gain for every run of `span` values of x, which may be y. The
 * gain is [span]. */
static enum dgl_status norm(struct oracle *s, long gain, const double *x, size_t span, size_t runs,
                            double *y)
{
    enum dgl_status status = read_vector(s, gain, 0, span);
    bool not_zero = s->d->norm_plus_one; /* zero is a valid weight */
    for (size_t i = 0; i < span; i++) {
        not_zero = not_zero || s->vector[i] != 0.0;
        s->vector[i] += s->d->norm_plus_one ? 1.0 : 0.0;
    }
    if (status == DGL_OK && !not_zero && s->zero_weight == TENSOR_NONE)
        s->zero_weight = gain;
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

/* Applies a norm, if there is one, to the stream. The result is in s->normed. */
static enum dgl_status norm_stream(struct oracle *s, long gain)
{
    size_t hidden = (size_t)s->d->hidden;
    if (gain != TENSOR_NONE)
        return norm(s, gain, s->x, hidden, s->count, s->normed);
    memcpy(s->normed, s->x, s->count * hidden * sizeof(double));
    return DGL_OK;
}

/* x += scale * norm(out); without the norm if there is no weight. */
static enum dgl_status add_to_stream(struct oracle *s, long gain)
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
static enum dgl_status norm_heads(struct oracle *s, long gain, double *x, size_t dim)
{
    if (gain == TENSOR_NONE)
        return DGL_OK;
    size_t span = (size_t)tensor_source_at(s->p.tensors, (size_t)gain)->shape[0];
    return norm(s, gain, x, span, s->count * dim / span, x);
}

/* ---- attention ------------------------------------------------------------------------------- */

static void rotate(struct oracle *s, int32_t set, double *x, size_t heads)
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

/* Attention of one head of one token over the keys in its window. `sink` is one more term of the
 * softmax without a value, or -INFINITY. */
static void attend(struct oracle *s, int32_t window, size_t token, size_t head, double sink)
{
    const struct model_desc *d = s->d;
    size_t dim = (size_t)d->head_dim, group = head / (size_t)(d->heads / d->kv_heads);
    size_t first = window > 0 && token + 1 > (size_t)window ? token + 1 - (size_t)window : 0;
    const double *q = s->q + token * s->q_dim + head * dim;
    double *out = s->att + token * s->q_dim + head * dim, largest = sink, sum = 0.0;
    for (size_t t = first; t <= token; t++) {
        double score = 0.0;
        for (size_t i = 0; i < dim; i++)
            score += q[i] * s->k[t * s->kv_dim + group * dim + i];
        score *= d->attn_scale;
        s->scores[t] = d->attn_softcap != 0.0 ? oracle_softcap(score, d->attn_softcap) : score;
        largest = fmax(largest, s->scores[t]);
    }
    sum = isinf(sink) ? 0.0 : exp(sink - largest);
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

static enum dgl_status attention_block(struct oracle *s, const struct layer_desc *l)
{
    const struct part {
        long own, bias;
        uint64_t row0, rows;
        double *y;
    } parts[] = {
        {l->q, l->q_bias, 0, s->q_dim, s->q},
        {l->k, l->k_bias, s->q_dim, s->kv_dim, s->k},
        {l->v, l->v_bias, s->q_dim + s->kv_dim, s->kv_dim, s->v},
    };
    const bool fused = l->qkv != TENSOR_NONE;
    enum dgl_status status;
    TRY(norm_stream(s, l->attn_norm));
    for (size_t i = 0; i < 3; i++)
        TRY(multiply(s,
                     (struct product){.tensor = fused ? l->qkv : parts[i].own,
                                      .row0 = fused ? parts[i].row0 : 0,
                                      .rows = parts[i].rows,
                                      .cols = (uint64_t)s->d->hidden,
                                      .x = s->normed,
                                      .y = parts[i].y},
                     parts[i].bias, 0));
    TRY(norm_heads(s, l->q_norm, s->q, s->q_dim));
    TRY(norm_heads(s, l->k_norm, s->k, s->kv_dim));
    if (l->rope != ROPE_NONE) {
        rotate(s, l->rope, s->q, (size_t)s->d->heads);
        rotate(s, l->rope, s->k, (size_t)s->d->kv_heads);
    }
    if (l->sinks != TENSOR_NONE)
        TRY(read_vector(s, l->sinks, 0, (size_t)s->d->heads));
    for (size_t token = 0; token < s->count; token++)
        for (size_t head = 0; head < (size_t)s->d->heads; head++)
            attend(s, l->window, token, head,
                   l->sinks != TENSOR_NONE ? s->vector[head] : -INFINITY);
    TRY(multiply(s,
                 (struct product){.tensor = l->o,
                                  .rows = (uint64_t)s->d->hidden,
                                  .cols = s->q_dim,
                                  .x = s->att,
                                  .y = s->out},
                 l->o_bias, 0));
    status = add_to_stream(s, l->attn_post_norm);
done:
    return status;
}

/* ---- feed-forward ---------------------------------------------------------------------------- */

static enum dgl_status mlp_block(struct oracle *s, const struct layer_desc *l)
{
    const struct model_desc *d = s->d;
    uint64_t inner = (uint64_t)d->intermediate, hidden = (uint64_t)d->hidden;
    bool fused = l->gate_up != TENSOR_NONE;
    enum dgl_status status;
    TRY(norm_stream(s, l->ffn_norm));
    TRY(multiply(s,
                 (struct product){.tensor = fused ? l->gate_up : l->gate,
                                  .rows = inner,
                                  .cols = hidden,
                                  .x = s->normed,
                                  .y = s->gate},
                 l->gate_bias, 0));
    TRY(multiply(s,
                 (struct product){.tensor = fused ? l->gate_up : l->up,
                                  .row0 = fused ? inner : 0,
                                  .rows = inner,
                                  .cols = hidden,
                                  .x = s->normed,
                                  .y = s->up},
                 l->up_bias, 0));
    for (size_t i = 0; i < s->count * inner; i++)
        s->gate[i] = oracle_glu(d->act, s->gate[i], s->up[i], d->act_alpha, d->act_limit);
    TRY(multiply(s,
                 (struct product){
                     .tensor = l->down, .rows = hidden, .cols = inner, .x = s->gate, .y = s->out},
                 l->down_bias, 0));
    status = add_to_stream(s, l->ffn_post_norm);
done:
    return status;
}

/* Chooses the experts of each token, and marks close choices. */
static void route(struct oracle *s)
{
    size_t experts = (size_t)s->d->moe.experts, top_k = (size_t)s->d->moe.top_k;
    for (size_t t = 0; t < s->count; t++) {
        const double *logits = s->router + t * experts;
        uint32_t *chosen = s->expert + t * top_k;
        double largest = 0.0, next = -INFINITY;
        oracle_route(logits, (uint32_t)experts, (uint32_t)top_k, s->d->moe.scoring, chosen,
                     s->weight + t * top_k);
        for (size_t e = 0; e < experts; e++) {
            bool taken = false;
            for (size_t i = 0; i < top_k && !taken; i++)
                taken = chosen[i] == e;
            largest = fmax(largest, fabs(logits[e]));
            next = taken ? next : fmax(next, logits[e]);
        }
        s->tie[t] = logits[chosen[top_k - 1]] - next <= TIE * largest;
    }
}

/* A matrix of expert `e`, [rows, cols]. */
static struct product expert_product(const struct expert_tensors *t, size_t e, uint64_t rows,
                                     uint64_t cols)
{
    bool stacked = t->stacked != TENSOR_NONE;
    return (struct product){.tensor = stacked ? t->stacked : t->each[e],
                            .row0 = stacked ? e * rows : 0,
                            .rows = rows,
                            .cols = cols};
}

/* Adds the weighted output of expert `e` to s->out, for all tokens that chose it. */
static enum dgl_status add_expert(struct oracle *s, const struct layer_desc *l, size_t e)
{
    const struct model_desc *d = s->d;
    size_t hidden = (size_t)d->hidden, inner = (size_t)d->moe.intermediate, count = 0;
    size_t top_k = (size_t)d->moe.top_k;
    bool fused = l->expert_gate_up.stacked != TENSOR_NONE || l->expert_gate_up.each;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < s->count * top_k; i++)
        if (s->expert[i] == e)
            memcpy(s->rows + count++ * hidden, s->normed + i / top_k * hidden,
                   hidden * sizeof(double));
    if (count == 0)
        return DGL_OK;
    if (fused) {
        struct product m = expert_product(&l->expert_gate_up, e, 2 * inner, hidden);
        m.count = count, m.x = s->rows, m.y = s->gate;
        TRY(multiply(s, m, l->expert_gate_up_bias, e));
    } else {
        struct product gate = expert_product(&l->expert_gate, e, inner, hidden);
        struct product up = expert_product(&l->expert_up, e, inner, hidden);
        gate.count = up.count = count, gate.x = up.x = s->rows;
        gate.y = s->gate, up.y = s->up;
        TRY(multiply(s, gate, TENSOR_NONE, 0));
        TRY(multiply(s, up, TENSOR_NONE, 0));
    }
    /* Fused: rows 2i and 2i + 1 are gate and up of feature i. No result overtakes its operands. */
    for (size_t i = 0; i < count * inner; i++)
        s->gate[i] = fused ? oracle_glu(d->act, s->gate[2 * i], s->gate[2 * i + 1], d->act_alpha,
                                        d->act_limit)
                           : oracle_glu(d->act, s->gate[i], s->up[i], d->act_alpha, d->act_limit);
    struct product down = expert_product(&l->expert_down, e, hidden, inner);
    down.count = count, down.x = s->gate, down.y = s->results;
    TRY(multiply(s, down, l->expert_down_bias, e));
    count = 0;
    for (size_t i = 0; i < s->count * top_k; i++) {
        if (s->expert[i] != e)
            continue;
        for (size_t j = 0; j < hidden; j++)
            s->out[i / top_k * hidden + j] += s->weight[i] * s->results[count * hidden + j];
        count++;
    }
done:
    return status;
}

static enum dgl_status moe_block(struct oracle *s, const struct layer_desc *l)
{
    size_t hidden = (size_t)s->d->hidden;
    enum dgl_status status;
    TRY(norm_stream(s, l->ffn_norm));
    TRY(multiply(s,
                 (struct product){.tensor = l->router,
                                  .rows = (uint64_t)s->d->moe.experts,
                                  .cols = hidden,
                                  .x = s->normed,
                                  .y = s->router},
                 l->router_bias, 0));
    route(s);
    memset(s->out, 0, s->count * hidden * sizeof(double));
    for (size_t e = 0; e < (size_t)s->d->moe.experts; e++)
        TRY(add_expert(s, l, e));
    status = add_to_stream(s, l->ffn_post_norm);
done:
    return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

enum dgl_status oracle_create(const struct dgl_log *log, const struct oracle_params *params,
                              struct oracle **out)
{
    const struct model_desc *d = params->desc;
    struct oracle *s = dgl_new(struct oracle);
    *out = NULL;
    if (!s)
        return dgl_fail_memory(log, "oracle", sizeof(*s));
    size_t n = params->count, hidden = (size_t)d->hidden;
    size_t expert_inner = 2 * (size_t)d->moe.intermediate;
    size_t inner = (size_t)d->intermediate > expert_inner ? (size_t)d->intermediate : expert_inner;
    size_t pairs = n * (size_t)d->moe.top_k, experts = (size_t)d->moe.experts;
    s->log = log;
    s->p = *params;
    s->d = d;
    s->count = n;
    s->zero_weight = TENSOR_NONE;
    s->q_dim = (size_t)d->heads * (size_t)d->head_dim;
    s->kv_dim = (size_t)d->kv_heads * (size_t)d->head_dim;
    const size_t lengths[] = {hidden, inner, s->q_dim, s->kv_dim, (size_t)d->heads, experts};
    size_t longest = 0;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        longest = lengths[i] > longest ? lengths[i] : longest;
    const struct {
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
        {&s->router, n * experts},
        {&s->weight, pairs},
        {&s->rows, experts ? n * hidden : 0},
        {&s->results, experts ? n * hidden : 0},
    };
    s->expert = dgl_new_array(uint32_t, pairs);
    s->tie = dgl_new_array(bool, n);
    bool complete = s->expert && s->tie;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]) && complete; i++) {
        *arrays[i].to = dgl_new_array(double, arrays[i].count);
        complete = *arrays[i].to != NULL;
    }
    if (!complete) {
        oracle_destroy(&s);
        return dgl_fail_memory(log, "activations", n * (hidden + inner) * sizeof(double));
    }
    for (int32_t i = 0; i < d->layers; i++)
        if (d->layer[i].rope != ROPE_NONE)
            rope_inv_freq(&d->rope[d->layer[i].rope], (int64_t)n, s->inv_freq[d->layer[i].rope]);
    *out = s;
    return DGL_OK;
}

void oracle_destroy(struct oracle **oracle)
{
    struct oracle *s = *oracle;
    *oracle = NULL;
    if (!s)
        return;
    void *const all[] = {s->x,      s->normed,      s->out,         s->q,      s->k,
                         s->v,      s->att,         s->gate,        s->up,     s->scores,
                         s->vector, s->inv_freq[0], s->inv_freq[1], s->router, s->weight,
                         s->rows,   s->results,     s->expert,      s->tie};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    free(s);
}

double *oracle_stream(struct oracle *oracle)
{
    return oracle->x;
}

enum dgl_status oracle_embed(struct oracle *s, const int32_t *ids)
{
    size_t hidden = (size_t)s->d->hidden;
    float *row = dgl_new_array(float, hidden);
    enum dgl_status status =
        row ? DGL_OK : dgl_fail_memory(s->log, "embedding", hidden * sizeof(float));
    for (size_t t = 0; t < s->count && status == DGL_OK; t++) {
        status = read_rows(s, s->d->embed, (uint64_t)ids[t], 1, hidden, row);
        for (size_t i = 0; i < hidden; i++)
            s->x[t * hidden + i] = row[i] * s->d->embed_scale;
    }
    free(row);
    return status;
}

enum dgl_status oracle_add(struct oracle *s, int32_t layer, enum oracle_block block)
{
    const struct layer_desc *l = &s->d->layer[layer];
    if (block == ORACLE_ATTENTION)
        return attention_block(s, l);
    return l->router != TENSOR_NONE ? moe_block(s, l) : mlp_block(s, l);
}

enum dgl_status oracle_head(struct oracle *s, double *logits)
{
    const struct model_desc *d = s->d;
    enum dgl_status status;
    TRY(norm_stream(s, d->final_norm));
    TRY(multiply(s,
                 (struct product){.tensor = d->head,
                                  .rows = (uint64_t)d->vocab,
                                  .cols = (uint64_t)d->hidden,
                                  .x = s->normed,
                                  .y = logits},
                 TENSOR_NONE, 0));
    for (size_t i = 0; i < s->count * (size_t)d->vocab; i++) {
        logits[i] *= d->logit_scale;
        if (d->logit_softcap != 0.0)
            logits[i] = oracle_softcap(logits[i], d->logit_softcap);
    }
done:
    return status;
}

bool oracle_is_tie(const struct oracle *oracle, size_t token)
{
    return oracle->tie[token];
}

const char *oracle_zero_weight(const struct oracle *oracle)
{
    if (oracle->zero_weight == TENSOR_NONE)
        return NULL;
    return tensor_source_at(oracle->p.tensors, (size_t)oracle->zero_weight)->name;
}

enum dgl_status oracle_evaluate(const struct dgl_log *log, const struct oracle_params *params,
                                const int32_t *ids, double *logits)
{
    struct oracle *s = NULL;
    enum dgl_status status;
    TRY(oracle_create(log, params, &s));
    TRY(oracle_embed(s, ids));
    for (int32_t i = 0; i < params->desc->layers; i++) {
        TRY(oracle_add(s, i, ORACLE_ATTENTION));
        TRY(oracle_add(s, i, ORACLE_FFN));
    }
    TRY(oracle_head(s, logits));
done:
    oracle_destroy(&s);
    return status;
}
