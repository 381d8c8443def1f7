/*
 * Problems of moe_matmul, moe_route, moe_router, moe_group and moe_combine: experts cut by bands,
 * all tokens on one expert, experts without tokens, ties, logits that are no numbers.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/oracle/op_problem.h"
#include "core/oracle/oracle_ops.h"
#include "core/oracle/ref_ops.h"

#define ALPHA         1.702f
#define LIMIT         0.6f /* low: about half of the computed values reach it */
#define SCALE         0.7f
#define EPS           1e-5f
#define ARRIVED_WORDS 64

static uint32_t number(const struct kernel_request *q, const char *name)
{
    return (uint32_t)request_const(q, name, 0);
}

/* ---- moe_matmul ------------------------------------------------------------------------------ */

/* First expert of a token: spread over all experts, or always the second. */
enum { EXPERTS_SPREAD, EXPERTS_SAME };

struct experts {
    const struct kernel_request *q;
    uint32_t k, n, experts, top_k, tokens, pairs, row0, rows; /* n: rows of one expert */
    size_t x_stride, y_rows, y_cols, y_stride;
    float *x, *bias, *share, *before;
    uint32_t *ids;
    struct op_weights w;
};

static bool settle_matmul(struct kernel_case *c)
{
    struct kernel_request *q = &c->request;
    const bool glu = request_is(q, "post", "glu"), decode = request_is(q, "phase", "decode");
    const uint32_t n = request_size(q, "EXPERT_ROWS", 64), experts = request_size(q, "E", 4);
    request_default(q, "TOP_K", 2);
    if (request_is(q, "post", "combine") != (decode && !glu) ||
        request_is(q, "post", "store") != (!decode && !glu))
        return false;
    if (glu) {
        if (request_is(q, "act", "none"))
            return false;
        request_set_const(q, "EXPERT_ROWS", (n + 1) / 2 * 2);
    } else
        request_set(q, "act", NULL);
    request_set_const(q, "N", experts * request_const(q, "EXPERT_ROWS", 0));
    request_set(q, "columns", NULL);
    if (decode) {
        c->tokens = 1;
        return true;
    }
    request_set(q, "columns", c->tokens > 64 ? "256" : "64");
    request_set_const(q, "COLUMNS", c->tokens > 64 ? 256 : 64);
    return true;
}

/* The end of one expert and the beginning of the next. */
static void narrow_matmul(struct kernel_case *c)
{
    const struct kernel_request *q = &c->request;
    const uint32_t n = number(q, "EXPERT_ROWS"), columns = number(q, "COLUMNS");
    const uint32_t all = n * number(q, "E"), before = n < 20 ? n : 20 - n % 2;
    c->row0 = all > n ? n - before : n > 40 ? (n - 40) / 2 * 2 : 0;
    c->rows = all - c->row0 < 40 ? all - c->row0 : 40;
    c->tokens = columns > 21 ? 21 : columns ? columns : 1;
}

/* ROUTE of `pairs` pairs. */
static uint32_t *make_route_words(struct problem *p, size_t pairs, const uint32_t *ids,
                                  const float *share)
{
    uint32_t *route = problem_new(p, uint32_t, 2 * pairs);
    for (size_t i = 0; i < pairs && !p->failed; i++) {
        route[2 * i] = ids ? ids[i] : UINT32_MAX;
        route[2 * i + 1] = PROBLEM_POISON;
        if (share)
            memcpy(&route[2 * i + 1], &share[i], 4);
    }
    return route;
}

static bool in_band(const struct experts *e, uint32_t expert, uint32_t r)
{
    const uint64_t row = (uint64_t)expert * e->n + r;
    return row >= e->row0 && row < (uint64_t)e->row0 + e->rows;
}

/* Row `r` of an expert with the x that belongs to a pair. */
static double product(const struct experts *e, uint32_t pair, uint32_t expert, uint32_t r)
{
    const bool shared = request_is(e->q, "post", "glu");
    const float *x = e->x + (shared ? pair / e->top_k : pair) * e->x_stride;
    const size_t row = (size_t)expert * e->n + r;
    const double *w = e->w.values + (row - e->row0) * e->k;
    double sum = request_is(e->q, "bias", "row") ? (double)e->bias[row] : 0.0;
    for (uint32_t k = 0; k < e->k; k++)
        sum += w[k] * (double)x[k];
    return sum;
}

/* `before` is NaN in results that are stored without an addition. */
static void expect_matmul(const struct experts *e, double *want)
{
    const bool glu = request_is(e->q, "post", "glu"), combine = request_is(e->q, "post", "combine");
    const enum model_act act =
        request_is(e->q, "act", "silu") ? MODEL_ACT_SILU : MODEL_ACT_SWIGLU_CLAMP;
    for (size_t y = 0; y < e->y_rows; y++)
        for (uint32_t i = 0; i < e->y_cols; i++) {
            float *before = &e->before[y * e->y_stride + i];
            double *out = &want[y * e->y_cols + i];
            const uint32_t pair = (uint32_t)y, expert = e->ids[y], r = glu ? 2 * i : i;
            *out = (double)*before;
            for (uint32_t s = 0; s < e->top_k && combine; s++)
                if (in_band(e, e->ids[s], i))
                    *out += (double)SCALE * (double)e->share[s] * product(e, s, e->ids[s], i);
            if (combine || !in_band(e, expert, r))
                continue;
            *before = NAN;
            *out = product(e, pair, expert, r);
            if (glu)
                *out = oracle_glu(act, *out, product(e, pair, expert, r + 1), (double)ALPHA,
                                  (double)LIMIT);
        }
}

/* Each dispatch has its rows, followed by their biases, in whole vec4s. */
static void add_bands(struct problem *p, const struct kernel_case *c, const struct experts *e)
{
    uint32_t first = 0;
    const uint32_t bands = c->bands ? c->bands : 1, step = e->rows / bands / 2 * 2;
    for (uint32_t i = 0; first < e->rows && !p->failed; i++) {
        uint32_t end = i + 1 < bands ? first + step : e->rows;
        if (c->cuts[0])
            end = i < 3 && c->cuts[i] ? c->cuts[i] : e->rows;
        const uint32_t rows = end - first;
        struct problem_stage *stage = op_band(p, e->q, &e->w, e->row0, first, rows);
        stage_float(stage, "scale", SCALE);
        stage_float(stage, "act_alpha", ALPHA);
        stage_float(stage, "act_limit", LIMIT);
        const size_t matrix = rows * e->w.row_words;
        const size_t bias = request_is(e->q, "bias", "row") ? rows : 0;
        const size_t words = (matrix + bias + 3) / 4 * 4;
        if (c->timing) {
            problem_bits(p, "W", NULL, words);
            return;
        }
        uint32_t *own = problem_new(p, uint32_t, words);
        if (!own)
            return;
        memcpy(own, e->w.packed + first * e->w.row_words, 4 * matrix);
        if (bias)
            memcpy(own + matrix, e->bias + e->row0 + first, 4 * bias);
        stage->own = own;
        stage->own_words = words;
        first = end;
    }
}

static void make_matmul(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request *q = problem_new(p, struct kernel_request, 1);
    if (!q)
        return;
    *q = c->request;
    const bool glu = request_is(q, "post", "glu"), decode = request_is(q, "phase", "decode");
    struct experts e = {.q = q,
                        .k = request_size(q, "K", 256),
                        .n = number(q, "EXPERT_ROWS"),
                        .experts = number(q, "E"),
                        .top_k = number(q, "TOP_K"),
                        .tokens = c->tokens && !decode ? c->tokens : 1,
                        .row0 = c->row0,
                        .rows = c->rows ? c->rows : number(q, "E") * number(q, "EXPERT_ROWS")};
    if (e.top_k > e.experts || e.top_k == 0) {
        problem_refuse(p, "TOP_K is not from 1 to E");
        return;
    }
    e.pairs = e.tokens * e.top_k;
    const size_t x_rows = glu ? e.tokens : e.pairs;
    e.y_rows = request_is(q, "post", "combine") ? 1 : e.pairs;
    e.y_cols = glu ? e.n / 2 : e.n;
    request_default(q, "N", (int64_t)e.experts * e.n);
    e.x_stride = request_size(q, "X_STRIDE", e.k);
    e.y_stride = request_size(q, "Y_STRIDE", (int64_t)e.y_cols);
    if (!op_weights_make(p, q, e.rows, e.k, c->timing, &e.w))
        return;
    e.x = problem_floats(p, x_rows * e.x_stride, glu ? 0.1f : 1.0f);
    e.before = problem_floats(p, e.y_rows * e.y_stride, 1);
    e.bias = problem_floats(p, (size_t)e.experts * e.n, 1);
    e.ids = problem_new(p, uint32_t, e.pairs);
    e.share = problem_new(p, float, e.pairs);
    uint32_t *list = problem_new(p, uint32_t, e.experts + 1ull + e.pairs);
    if (p->failed)
        return;
    for (uint32_t i = 0; i < e.pairs; i++) {
        const uint32_t first = c->variant == EXPERTS_SAME ? 1 : i / e.top_k * 7;
        e.ids[i] = (first + i % e.top_k) % e.experts;
        e.share[i] = 0.1f + fabsf(ref_rand_float(&p->seed));
    }
    ref_moe_group(e.ids, e.tokens, e.top_k, e.experts, list);
    problem_nan(e.x, x_rows * e.x_stride, e.x_stride, e.k, e.x_stride);
    p->step.tokens = e.tokens;
    problem_in(p, "X", e.x, x_rows * e.x_stride);
    if (decode)
        problem_in(p, "ROUTE", make_route_words(p, e.pairs, e.ids, e.share), 2ull * e.pairs);
    else
        problem_in(p, "LIST", list, e.experts + 1ull + e.pairs);
    add_bands(p, c, &e);
    /* Each expert's rows once, as far as it is chosen and they are here. */
    const uint32_t used = e.pairs < e.experts ? e.pairs : e.experts;
    const uint64_t rows = (uint64_t)used * e.n < e.rows ? (uint64_t)used * e.n : e.rows;
    p->bytes = 4ull * (rows * e.w.row_words + x_rows * e.k + e.y_rows * e.y_cols);
    p->flops = 2ull * e.pairs * e.n * e.k;
    p->terms = e.k;
    problem_out(p, "Y", e.before, e.y_rows * e.y_stride);
    if (c->timing)
        return;
    struct problem_result *result = problem_result(p, "Y", 0, e.y_rows, e.y_cols, e.y_stride);
    if (!p->failed)
        expect_matmul(&e, result->want);
}

/* ---- moe_route, moe_router ------------------------------------------------------------------- */

enum {
    LOGITS_RANDOM,
    LOGITS_EQUAL,
    LOGITS_COARSE,
    LOGITS_STEEP,
    LOGITS_FAR,
    LOGITS_ZEROS,
    LOGITS_NAN
};

static float logit_at(uint32_t kind, uint32_t token, uint32_t e, float r)
{
    switch (kind) {
    case LOGITS_EQUAL:
        return -0.75f;
    case LOGITS_COARSE:
        return floorf(r * 2.0f) / 2.0f;
    case LOGITS_STEEP:
        return r * 60.0f;
    case LOGITS_FAR:
        return r + (token % 2 ? 3000.0f : -3000.0f);
    case LOGITS_ZEROS:
        return e % 2 ? 0.0f : -0.0f;
    case LOGITS_NAN:
        return e % 3 == token % 3 ? NAN : e % 5 == 0 ? INFINITY : r;
    default:
        return r;
    }
}

static enum moe_scoring scoring_of(const struct kernel_request *q)
{
    return request_is(q, "scoring", "softmax_topk")        ? MOE_SOFTMAX_TOPK
           : request_is(q, "scoring", "softmax_topk_norm") ? MOE_SOFTMAX_TOPK_NORM
                                                           : MOE_TOPK_SOFTMAX;
}

/* Expected choice of experts. It is checked against the logits of the kernel itself
 * (moe_router). */
struct routing {
    uint32_t experts, top_k, tokens, kind;
    size_t stride;
    enum moe_scoring scoring;
    const float *logits; /* if NULL, the logits that the kernel wrote to LOGITS */
};

/* Ids word by word; weights are left to the comparison of values. */
static bool settle_route(struct problem *p, char why[512])
{
    const struct routing *r = p->priv;
    const struct problem_buffer *route = problem_buffer(p, "ROUTE");
    const float *logits = r->logits ? r->logits : (const float *)problem_buffer(p, "LOGITS")->after;
    uint32_t *ids = problem_new(p, uint32_t, r->top_k);
    double *weights = problem_new(p, double, r->top_k), *z = problem_new(p, double, r->experts);
    double *want = NULL;
    for (uint32_t i = 0; i < p->num_results; i++)
        if (strcmp(p->results[i].buffer, "ROUTE") == 0)
            want = p->results[i].want;
    if (p->failed) {
        snprintf(why, 512, "out of memory");
        return false;
    }
    for (uint32_t t = 0; t < r->tokens; t++) {
        for (uint32_t e = 0; e < r->experts; e++)
            z[e] = (double)logits[t * r->stride + e];
        oracle_route(z, r->experts, r->top_k, r->scoring, ids, weights);
        for (uint32_t s = 0; s < r->top_k; s++) {
            const size_t pair = (size_t)t * r->top_k + s;
            if (route->after[2 * pair] != ids[s]) {
                snprintf(why, 512, "choice %u of token %u in ROUTE is expert %u, wanted %u",
                         (unsigned)s, (unsigned)t, (unsigned)route->after[2 * pair],
                         (unsigned)ids[s]);
                return false;
            }
            if (want)
                want[pair] = weights[s];
        }
    }
    return true;
}

/* Adds an empty ROUTE, and the weights that settle_route() computes. For NaN logits the weights are
 * not compared. */
static void add_route(struct problem *p, const struct routing *r)
{
    const size_t pairs = (size_t)r->tokens * r->top_k;
    problem_out(p, "ROUTE", NULL, 2 * pairs)->free = true;
    if (r->kind != LOGITS_NAN)
        problem_result(p, "ROUTE", 1, pairs, 1, 2);
}

static bool settle_route_case(struct kernel_case *c)
{
    request_default(&c->request, "E", 8);
    request_default(&c->request, "TOP_K", 2);
    request_default(&c->request, "L_STRIDE", (request_const(&c->request, "E", 0) + 3) / 4 * 4);
    return true;
}

static void narrow_tokens(struct kernel_case *c)
{
    c->tokens = 5;
}

static void make_route(struct problem *p, const struct kernel_case *c)
{
    struct kernel_case settled = *c;
    (void)settle_route_case(&settled);
    const struct kernel_request *q = &settled.request;
    struct routing *r = problem_new(p, struct routing, 1);
    if (number(q, "TOP_K") > number(q, "E") || number(q, "L_STRIDE") < number(q, "E"))
        problem_refuse(p, "TOP_K is more than E");
    if (p->failed)
        return;
    *r = (struct routing){number(q, "E"),
                          number(q, "TOP_K"),
                          c->tokens ? c->tokens : 1,
                          c->variant,
                          number(q, "L_STRIDE"),
                          scoring_of(q),
                          NULL};
    float *logits = problem_new(p, float, r->tokens * r->stride);
    if (!logits)
        return;
    for (size_t i = 0; i < r->tokens * r->stride; i++)
        logits[i] = i % r->stride < r->experts
                        ? logit_at(r->kind, (uint32_t)(i / r->stride), (uint32_t)(i % r->stride),
                                   ref_rand_float(&p->seed))
                        : NAN;
    r->logits = logits;
    p->step.tokens = r->tokens;
    problem_in(p, "LOGITS", logits, r->tokens * r->stride);
    (void)problem_stage(p, q);
    p->bytes = 4ull * r->tokens * (r->experts + 2ull * r->top_k);
    p->flops = (uint64_t)r->tokens * r->experts;
    p->priv = r;
    p->settle = settle_route;
    add_route(p, r);
}

static void make_router(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const uint32_t k = request_size(&q, "K", 256), experts = request_size(&q, "E", 8);
    const uint32_t top_k = request_size(&q, "TOP_K", 2);
    const bool norm = request_is(&q, "pre", "norm"), bias = request_is(&q, "bias", "row");
    const size_t bias_at = request_size(&q, "BIAS_AT", norm ? (k + 3) / 4 * 4 : 0);
    if (top_k > experts) {
        problem_refuse(p, "TOP_K is more than E");
        return;
    }
    const size_t a_words = (bias_at ? bias_at : (k + 3) / 4 * 4) + (experts + 3) / 4 * 4;
    struct op_weights w;
    struct routing *r = problem_new(p, struct routing, 1);
    if (!op_weights_make(p, &q, experts, k, c->timing, &w) || !r)
        return;
    *r = (struct routing){experts, top_k, 1, 0, experts, scoring_of(&q), NULL};
    float *x = problem_floats(p, k, 1), *a = problem_floats(p, a_words, 1);
    uint32_t *arrived = problem_new(p, uint32_t, ARRIVED_WORDS);
    double *plain = problem_new(p, double, k);
    if (p->failed)
        return;
    p->step.tokens = 1;
    problem_in(p, "X", x, k);
    problem_in(p, "A", a, a_words);
    problem_bits(p, "W", w.packed, experts * w.row_words);
    problem_out(p, "NORMED", NULL, k);
    problem_out(p, "LOGITS", NULL, experts);
    problem_exact(p, "ARRIVED", arrived, arrived, ARRIVED_WORDS);
    stage_float(problem_stage(p, &q), "eps", EPS);
    p->repeats = 2;
    p->bytes = 4ull * (experts * w.row_words + 2ull * k);
    p->flops = 2ull * experts * k;
    p->terms = k;
    p->priv = r;
    p->settle = settle_route;
    add_route(p, r);
    if (c->timing)
        return;
    double *logits = problem_result(p, "LOGITS", 0, 1, experts, 0)->want;
    double *normed = norm ? problem_result(p, "NORMED", 0, 1, k, 0)->want : plain;
    if (p->failed)
        return;
    for (uint32_t i = 0; i < k && !norm; i++)
        normed[i] = (double)x[i];
    if (norm)
        ref_norm_floats(x, a, k, (double)EPS, normed);
    for (uint32_t e = 0; e < experts; e++) {
        logits[e] = bias ? (double)a[bias_at + e] : 0.0;
        for (uint32_t i = 0; i < k; i++)
            logits[e] += w.values[(size_t)e * k + i] * normed[i];
    }
}

/* ---- moe_group, moe_combine ------------------------------------------------------------------ */

enum { CHOICES_SPREAD, CHOICES_ONE_EXPERT, CHOICES_LAST_EXPERT };

static void make_group(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const uint32_t experts = request_size(&q, "E", 8), top_k = request_size(&q, "TOP_K", 2);
    const uint32_t tokens = c->tokens ? c->tokens : 1, pairs = tokens * top_k;
    const size_t words = experts + 1ull + pairs;
    if (top_k > experts)
        problem_refuse(p, "TOP_K is more than E");
    uint32_t *ids = problem_new(p, uint32_t, pairs);
    uint32_t *want = problem_new(p, uint32_t, words);
    if (p->failed)
        return;
    for (uint32_t t = 0; t < tokens; t++) {
        uint32_t first = (uint32_t)(ref_rand(&p->seed) % experts);
        /* A step that meets top_k different experts before it comes round. */
        const uint32_t step = experts / top_k > 1 ? 1 + t % (experts / top_k) : 1;
        if (c->variant == CHOICES_ONE_EXPERT)
            first = 2 % experts;
        if (c->variant == CHOICES_LAST_EXPERT)
            first = experts - 1;
        for (uint32_t s = 0; s < top_k; s++)
            ids[t * top_k + s] = (first + s * step) % experts;
    }
    ref_moe_group(ids, tokens, top_k, experts, want);
    p->step.tokens = tokens;
    problem_in(p, "ROUTE", make_route_words(p, pairs, ids, NULL), 2ull * pairs);
    problem_exact(p, "LIST", NULL, want, words);
    (void)problem_stage(p, &q);
    p->bytes = 4ull * (2ull * pairs + words);
}

static void make_combine(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const uint32_t h = request_size(&q, "H", 64), top_k = request_size(&q, "TOP_K", 2);
    const uint32_t tokens = c->tokens ? c->tokens : 1;
    const size_t xs = request_size(&q, "X_STRIDE", h), ys = request_size(&q, "Y_STRIDE", h);
    const size_t pairs = (size_t)tokens * top_k;
    float *x = problem_floats(p, tokens * xs, 1), *y = problem_floats(p, pairs * ys, 1);
    float *share = problem_floats(p, pairs, 1);
    if (p->failed)
        return;
    problem_nan(y, pairs * ys, ys, h, ys);
    p->step.tokens = tokens;
    problem_in(p, "Y", y, pairs * ys);
    problem_in(p, "ROUTE", make_route_words(p, pairs, NULL, share), 2 * pairs);
    problem_out(p, "X", x, tokens * xs);
    stage_float(problem_stage(p, &q), "scale", SCALE);
    p->bytes = 4ull * h * (pairs + 2ull * tokens);
    p->flops = 2ull * h * pairs;
    if (c->timing)
        return;
    struct problem_result *result = problem_result(p, "X", 0, tokens, h, xs);
    result->each_row = true;
    for (size_t t = 0; t < tokens && !p->failed; t++)
        for (uint32_t i = 0; i < h; i++) {
            double *want = &result->want[t * h + i];
            *want = (double)x[t * xs + i];
            for (size_t s = t * top_k; s < (t + 1) * top_k; s++)
                *want += (double)SCALE * (double)share[s] * (double)y[s * ys + i];
        }
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* clang-format breaks the braces of a macro into lines of their own. */
/* clang-format off */
#define EXPERTS(k, n, e, chosen) {"K", k}, {"EXPERT_ROWS", n}, {"E", e}, {"TOP_K", chosen}
#define SCORINGS                 {"scoring", {"topk_softmax", "softmax_topk", "softmax_topk_norm"}}
/* clang-format on */

static const struct op_shape matmul_shapes[] = {
    {{EXPERTS(96, 34, 5, 5), {"X_STRIDE", 100}, {"Y_STRIDE", 37}}, 33, 0, 3, EXPERTS_SPREAD},
    {{EXPERTS(260, 130, 3, 2)}, 9, 0, 2, EXPERTS_SPREAD},
    {{EXPERTS(64, 224, 8, 2), {"X_STRIDE", 68}}, 7, 0, 0, EXPERTS_SPREAD},
    {{EXPERTS(68, 97, 5, 4), {"Y_STRIDE", 104}}, 9, 0, 3, EXPERTS_SPREAD},
    {{EXPERTS(512, 70, 6, 4)}, 5, 0, 2, EXPERTS_SPREAD},
    {{EXPERTS(1152, 40, 4, 1)}, 130, 0, 0, EXPERTS_SAME},
    {{EXPERTS(4, 2, 1, 1)}, 1, 0, 0, EXPERTS_SPREAD},
    {{EXPERTS(256, 66, 7, 3)}, 100, 0, 2, EXPERTS_SAME},
};

static const struct op_shape route_shapes[] = {
    {{{"E", 5}, {"TOP_K", 5}, {"L_STRIDE", 8}}, 9, 0, 0, LOGITS_RANDOM},
    {{{"E", 60}, {"TOP_K", 7}}, 40, 0, 0, LOGITS_COARSE},
    {{{"E", 100}, {"TOP_K", 8}, {"L_STRIDE", 104}}, 5, 0, 0, LOGITS_RANDOM},
    {{{"E", 12}, {"TOP_K", 4}}, 3, 0, 0, LOGITS_EQUAL},
    {{{"E", 512}, {"TOP_K", 10}}, 2, 0, 0, LOGITS_RANDOM},
    {{{"E", 24}, {"TOP_K", 4}}, 10, 0, 0, LOGITS_FAR},
    {{{"E", 16}, {"TOP_K", 5}}, 6, 0, 0, LOGITS_NAN},
    {{{"E", 9}, {"TOP_K", 3}}, 4, 0, 0, LOGITS_ZEROS},
    {{{"E", 32}, {"TOP_K", 4}}, 10, 0, 0, LOGITS_STEEP},
    {{{"E", 1}, {"TOP_K", 1}}, 3, 0, 0, LOGITS_RANDOM},
};

static const struct op_shape router_shapes[] = {
    {{{"K", 260}, {"E", 12}, {"TOP_K", 3}}, 1, 0, 0, 0},
    {{{"K", 2880}, {"E", 32}, {"TOP_K", 4}}, 1, 0, 0, 0},
    {{{"K", 100}, {"E", 5}, {"TOP_K", 5}}, 1, 0, 0, 0},
    {{{"K", 64}, {"E", 512}, {"TOP_K", 10}}, 1, 0, 0, 0},
    {{{"K", 4}, {"E", 1}, {"TOP_K", 1}}, 1, 0, 0, 0},
};

static const struct op_shape group_shapes[] = {
    {{{"E", 13}, {"TOP_K", 3}}, 65, 0, 0, CHOICES_SPREAD},
    {{{"E", 512}, {"TOP_K", 8}}, 64, 0, 0, CHOICES_SPREAD},
    {{{"E", 6}, {"TOP_K", 1}}, 33, 0, 0, CHOICES_LAST_EXPERT},
    {{{"E", 5}, {"TOP_K", 5}}, 31, 0, 0, CHOICES_SPREAD},
    {{{"E", 8}, {"TOP_K", 1}}, 200, 0, 0, CHOICES_ONE_EXPERT},
    {{{"E", 8}, {"TOP_K", 2}}, 1, 0, 0, CHOICES_SPREAD},
};

static const struct op_shape combine_shapes[] = {
    {{{"H", 36}, {"TOP_K", 3}, {"X_STRIDE", 40}, {"Y_STRIDE", 44}}, 5, 0, 0, 0},
    {{{"H", 2880}, {"TOP_K", 4}}, 9, 0, 0, 0},
    {{{"H", 132}, {"TOP_K", 67}, {"X_STRIDE", 140}}, 2, 0, 0, 0},
    {{{"H", 4}, {"TOP_K", 1}}, 1, 0, 0, 0},
};

const struct op_rule op_rule_moe_matmul = {
    .op = "moe_matmul",
    .attrs = {{"phase", {"decode", "prefill"}},
              OP_WEIGHTS,
              {"post", {"glu", "combine", "store"}},
              {"act", {"silu", "swiglu_clamp"}},
              {"bias", {"none", "row"}}},
    OP_SHAPES(matmul_shapes),
    .settle = settle_matmul,
    .narrow = narrow_matmul,
    .typical = {{EXPERTS(2048, 768, 64, 8)}, 256, 0, 0, EXPERTS_SPREAD},
    .make = make_matmul,
    .streamed = "W",
};

const struct op_rule op_rule_moe_route = {
    .op = "moe_route",
    .attrs = {SCORINGS},
    OP_SHAPES(route_shapes),
    .settle = settle_route_case,
    .narrow = narrow_tokens,
    .typical = {{{"E", 128}, {"TOP_K", 8}}, 1, 0, 0, LOGITS_RANDOM},
    .make = make_route};

const struct op_rule op_rule_moe_router = {
    .op = "moe_router",
    .attrs = {OP_WEIGHTS, {"pre", {"none", "norm"}}, {"bias", {"none", "row"}}, SCORINGS},
    OP_SHAPES(router_shapes),
    .typical = {{{"K", 2048}, {"E", 128}, {"TOP_K", 8}}, 1, 0, 0, 0},
    .make = make_router,
    .streamed = "W"};

const struct op_rule op_rule_moe_group = {
    .op = "moe_group",
    OP_SHAPES(group_shapes),
    .narrow = narrow_tokens,
    .typical = {{{"E", 128}, {"TOP_K", 8}}, 256, 0, 0, CHOICES_SPREAD},
    .make = make_group};

const struct op_rule op_rule_moe_combine = {.op = "moe_combine",
                                            OP_SHAPES(combine_shapes),
                                            .narrow = narrow_tokens,
                                            .typical = {{{"H", 2048}, {"TOP_K", 8}}, 256, 0, 0, 0},
                                            .make = make_combine};
