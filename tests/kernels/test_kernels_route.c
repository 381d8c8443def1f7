/*
 * The kernels of moe_route, moe_router, moe_group and moe_combine against plain C: expert counts
 * that are no power of two, every expert chosen, ties, logits that are no numbers, all tokens to
 * one expert; NaN where results go, guard words around all buffers.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/oracle_ops.h"
#include "tests/support/kernel_walk.h"
#include "core/oracle/ref_ops.h"
#include "core/oracle/ref_ops.h"

static struct kernel_bench *bench;
static struct kernel_walk walks[] = {{.op = "moe_route"},
                                     {.op = "moe_group"},
                                     {.op = "moe_combine"},
                                     {.op = "moe_router", .excuses = WALK_DEVICE_LACKS}};
enum { ROUTE, GROUP, COMBINE, ROUTER };

/* ---- moe_route --------------------------------------------------------------------------- */

enum logits { RANDOM, EQUAL, COARSE, STEEP, FAR, ZEROS, NOT_NUMBERS };

struct route_row {
    const char *name;
    enum logits kind;
    uint32_t experts, top_k, tokens, pad;
};

static const struct route_row routes[] = {
    {"one_of_one", RANDOM, 1, 1, 3, 3},        {"two_of_eight", RANDOM, 8, 2, 64, 0},
    {"four_of_sixteen", RANDOM, 16, 4, 7, 4},  {"all_of_five", RANDOM, 5, 5, 9, 3},
    {"eight_of_128", RANDOM, 128, 8, 33, 0},   {"eight_of_100", RANDOM, 100, 8, 5, 4},
    {"all_of_67", RANDOM, 67, 67, 3, 1},       {"ten_of_512", RANDOM, 512, 10, 2, 0},
    {"all_of_512", RANDOM, 512, 512, 2, 8},    {"equal_logits", EQUAL, 12, 4, 3, 0},
    {"many_ties", COARSE, 60, 7, 40, 0},       {"steep", STEEP, 32, 4, 10, 0},
    {"far_from_zero", FAR, 24, 4, 10, 4},      {"both_zeros", ZEROS, 9, 3, 4, 3},
    {"not_numbers", NOT_NUMBERS, 16, 5, 6, 0},
};

static float logit_at(enum logits kind, uint32_t token, uint32_t e, uint64_t *seed)
{
    float r = test_rand_float(seed);
    switch (kind) {
    case EQUAL:
        return -0.75f;
    case COARSE:
        return floorf(r * 2.0f) / 2.0f;
    case STEEP:
        return r * 60.0f;
    case FAR:
        return r + (token % 2 ? 3000.0f : -3000.0f);
    case ZEROS:
        return e % 2 ? 0.0f : -0.0f;
    case NOT_NUMBERS:
        return e % 3 == token % 3 ? NAN : e % 5 == 0 ? INFINITY : r;
    default:
        return r;
    }
}

static const char *const scorings[] = {[MOE_TOPK_SOFTMAX] = "topk_softmax",
                                       [MOE_SOFTMAX_TOPK] = "softmax_topk",
                                       [MOE_SOFTMAX_TOPK_NORM] = "softmax_topk_norm"};

static void check_route(const struct route_row *row, enum moe_scoring scoring, const float *logits,
                        const uint32_t *route)
{
    uint32_t stride = row->experts + row->pad, k = row->top_k;
    uint32_t *ids = checked(dgl_new_array(uint32_t, k));
    double *weights = checked(dgl_new_array(double, k));
    float *got = checked(dgl_new_array(float, k));
    double *z = checked(dgl_new_array(double, row->experts));
    for (uint32_t t = 0; t < row->tokens; t++) {
        for (uint32_t e = 0; e < row->experts; e++)
            z[e] = logits[(size_t)t * stride + e];
        oracle_route(z, row->experts, k, scoring, ids, weights);
        for (uint32_t s = 0; s < k; s++) {
            const uint32_t *chosen = route + 2 * ((size_t)t * k + s);
            if (chosen[0] != ids[s])
                fail_msg("%s: token %u, choice %u: expert %u, expected %u", scorings[scoring], t, s,
                         chosen[0], ids[s]);
            memcpy(&got[s], chosen + 1, sizeof(got[s]));
        }
        double nmse = row->kind == NOT_NUMBERS ? 0.0 : test_nmse(got, weights, k);
        if (!(nmse <= 1e-12))
            fail_msg("%s: token %u: NMSE of weights %.3g; first %.9g, expected %.17g",
                     scorings[scoring], t, nmse, (double)got[0], weights[0]);
    }
    free(ids);
    free(weights);
    free(got);
    free(z);
}

struct scores {
    const struct route_row *row;
    uint32_t stride;
    float *values;
};

static enum bench_result route_on(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct scores *scores = ctx;
    const struct route_row *row = scores->row;
    size_t words = 2ull * row->tokens * row->top_k;
    uint32_t *route = checked(dgl_new_array(uint32_t, words));
    enum bench_result result = BENCH_RAN;
    for (size_t s = 0; s < 3 && result == BENCH_RAN; s++) {
        struct bench_case c = {.request.op = "moe_route", .step.tokens = row->tokens};
        bench_attr(&c, "scoring", scorings[s]);
        bench_const(&c, "E", row->experts);
        bench_const(&c, "TOP_K", row->top_k);
        bench_const(&c, "L_STRIDE", scores->stride);
        bench_in(&c, "LOGITS", scores->values, (size_t)row->tokens * scores->stride);
        bench_out(&c, "ROUTE", route, words);
        result = kernel_bench_run(bench, kernel, &c, why);
        if (result == BENCH_RAN)
            check_route(row, (enum moe_scoring)s, scores->values, route);
    }
    free(route);
    return result;
}

static void experts_are_the_best(void **state)
{
    const struct route_row *row = *state;
    struct scores scores = {row, row->experts + row->pad, NULL};
    uint64_t seed = row->experts * 31u + row->top_k;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    scores.values = checked(dgl_new_array(float, (size_t)row->tokens *scores.stride));
    for (uint32_t i = 0; i < row->tokens * scores.stride; i++)
        scores.values[i] = i % scores.stride < row->experts
                               ? logit_at(row->kind, i / scores.stride, i % scores.stride, &seed)
                               : NAN;
    kernel_walk_case(&walks[ROUTE], bench, row->name, route_on, &scores);
    free(scores.values);
}

/* ---- moe_router -------------------------------------------------------------------------- */

struct router_row {
    const char *name;
    enum dgl_dtype weight;
    uint32_t k, experts, top_k;
    bool norm, bias;
    enum moe_scoring scoring;
};

static const struct router_row routers[] = {
    {"smallest", DGL_F32, 4, 1, 1, true, false, MOE_TOPK_SOFTMAX},
    {"plain", DGL_F16, 36, 8, 2, false, false, MOE_TOPK_SOFTMAX},
    {"normed", DGL_F32, 260, 12, 3, true, false, MOE_SOFTMAX_TOPK_NORM},
    {"biased", DGL_BF16, 2880, 32, 4, true, true, MOE_TOPK_SOFTMAX},
    {"bias without norm", DGL_F32, 100, 5, 5, false, true, MOE_SOFTMAX_TOPK},
    {"many experts", DGL_F32, 64, 512, 10, true, false, MOE_SOFTMAX_TOPK},
    {"wide", DGL_Q8_0, 4096, 8, 2, true, false, MOE_SOFTMAX_TOPK_NORM},
    {"blocks", DGL_Q4_K, 512, 16, 2, true, false, MOE_TOPK_SOFTMAX},
};
#define ROUTER_EPS 1e-5

struct routing {
    const struct router_row *row;
    struct ref_matrix w;
    size_t bias_at, a_words;
    float *x, *a;
    double *normed, *logits;
};

static void routing_init(struct routing *r, const struct router_row *row)
{
    uint64_t seed = row->k + row->experts;
    *r = (struct routing){.row = row, .bias_at = row->norm ? (row->k + 3) / 4 * 4 : 0};
    r->a_words = r->bias_at + (row->experts + 3) / 4 * 4;
    assert_true(ref_matrix_init(&r->w, row->weight, NULL, row->experts, row->k, seed));
    r->x = checked(dgl_new_array(float, row->k));
    r->a = checked(dgl_new_array(float, r->a_words));
    r->normed = checked(dgl_new_array(double, row->k));
    r->logits = checked(dgl_new_array(double, row->experts));
    double *x = checked(dgl_new_array(double, 2 * (size_t)row->k));
    ref_fill(r->x, row->k, &seed);
    ref_fill(r->a, r->a_words, &seed);
    for (uint32_t k = 0; k < row->k; k++) {
        r->normed[k] = x[k] = r->x[k];
        x[row->k + k] = r->a[row->norm ? k : 0];
    }
    if (row->norm)
        ref_norm(x, x + row->k, row->k, ROUTER_EPS, r->normed);
    ref_matmul(&r->w, r->normed, 1, r->logits);
    for (uint32_t e = 0; row->bias && e < row->experts; e++)
        r->logits[e] += r->a[r->bias_at + e];
    free(x);
}

static void routing_finish(struct routing *r)
{
    ref_matrix_finish(&r->w);
    free(r->x);
    free(r->a);
    free(r->normed);
    free(r->logits);
}

/* Logits and the normed row within the tolerance; the choice must be that of the kernel's own
 * logits. Repeated, since the counter of groups has to be left as it was. */
static enum bench_result router_on(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    struct routing *r = ctx;
    const struct router_row *row = r->row;
    float *normed = checked(dgl_new_array(float, row->k));
    float *logits = checked(dgl_new_array(float, row->experts));
    uint32_t *route = checked(dgl_new_array(uint32_t, 2 * row->top_k)), arrived = 0;
    struct bench_case c = {.request.op = "moe_router", .step.tokens = 1, .repeats = 2};
    bench_attr(&c, "weight", dgl_dtype_get(row->weight)->name);
    bench_attr(&c, "pre", row->norm ? "norm" : "none");
    bench_attr(&c, "bias", row->bias ? "row" : "none");
    bench_attr(&c, "scoring", scorings[row->scoring]);
    bench_const(&c, "K", row->k);
    bench_const(&c, "E", row->experts);
    bench_const(&c, "TOP_K", row->top_k);
    bench_const(&c, "W_STRIDE", (int64_t)r->w.row_words);
    bench_const(&c, "BIAS_AT", (int64_t)r->bias_at);
    bench_float(&c, "eps", (float)ROUTER_EPS);
    bench_in(&c, "W", r->w.packed, row->experts * r->w.row_words);
    bench_in(&c, "X", r->x, row->k);
    bench_in(&c, "A", r->a, r->a_words);
    bench_out(&c, "NORMED", normed, row->k);
    bench_out(&c, "LOGITS", logits, row->experts);
    bench_inout(&c, "ARRIVED", &arrived, &arrived, 1);
    bench_out(&c, "ROUTE", route, 2 * row->top_k);
    enum bench_result result = kernel_bench_run(bench, kernel, &c, why);
    if (result == BENCH_RAN) {
        const struct route_row choice = {row->name, RANDOM, row->experts, row->top_k, 1, 0};
        walk_values_check(bench, kernel, logits, r->logits, row->experts);
        if (row->norm)
            walk_values_check(bench, kernel, normed, r->normed, row->k);
        check_route(&choice, row->scoring, logits, route);
        if (arrived != 0)
            fail_msg("%s: the counter of groups is left at %u, expected 0", kernel, arrived);
    }
    free(normed);
    free(logits);
    free(route);
    return result;
}

static void router_chooses(void **state)
{
    const struct router_row *row = *state;
    struct routing r;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    routing_init(&r, row);
    kernel_walk_run(&walks[ROUTER], bench, router_on, &r);
    routing_finish(&r);
}

/* ---- moe_group --------------------------------------------------------------------------- */

enum choices { SPREAD, ONE_EXPERT, LAST_EXPERT, EVERY_EXPERT };

struct group_row {
    const char *name;
    enum choices kind;
    uint32_t experts, top_k, tokens;
};

static const struct group_row groups[] = {
    {"one_token", SPREAD, 8, 2, 1},
    {"seven_tokens", SPREAD, 8, 2, 7},
    {"not_a_power_of_two", SPREAD, 13, 3, 65},
    {"many_experts", SPREAD, 512, 8, 64},
    {"many_tokens", SPREAD, 32, 4, 512},
    {"all_to_one", ONE_EXPERT, 8, 1, 200},
    {"all_to_the_last", LAST_EXPERT, 6, 1, 33},
    {"every_expert", EVERY_EXPERT, 5, 5, 31},
};

/* Experts of one token, no two the same. */
static void choose(const struct group_row *row, uint32_t token, uint32_t *ids, uint64_t *seed)
{
    uint32_t first = (uint32_t)(test_rand(seed) % row->experts);
    /* A step that meets top_k different experts before it comes round. */
    uint32_t step = row->experts / row->top_k > 1 ? 1 + token % (row->experts / row->top_k) : 1;
    if (row->kind == ONE_EXPERT)
        first = 2;
    if (row->kind == LAST_EXPERT)
        first = row->experts - 1;
    for (uint32_t s = 0; s < row->top_k; s++)
        ids[s] = (first + s * step) % row->experts;
}

struct sorting {
    const struct group_row *row;
    uint32_t pairs, words;
    uint32_t *route, *want; /* of the pairs; LIST as it should be */
};

static enum bench_result group_on(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct sorting *s = ctx;
    uint32_t *got = checked(dgl_new_array(uint32_t, s->words));
    struct bench_case c = {.request.op = "moe_group", .step.tokens = s->row->tokens};
    bench_const(&c, "E", s->row->experts);
    bench_const(&c, "TOP_K", s->row->top_k);
    bench_in(&c, "ROUTE", s->route, 2ull * s->pairs);
    bench_out(&c, "LIST", got, s->words);
    enum bench_result result = kernel_bench_run(bench, kernel, &c, why);
    for (uint32_t w = 0; result == BENCH_RAN && w < s->words; w++)
        if (got[w] != s->want[w])
            fail_msg("%s: word %u of LIST is %u, expected %u", kernel, w, got[w], s->want[w]);
    free(got);
    return result;
}

static void pairs_are_sorted(void **state)
{
    const struct group_row *row = *state;
    struct sorting s = {.row = row, .pairs = row->tokens * row->top_k};
    uint64_t seed = row->tokens;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    s.words = row->experts + 1 + s.pairs;
    uint32_t *ids = checked(dgl_new_array(uint32_t, s.pairs));
    s.route = checked(dgl_new_array(uint32_t, 2ull * s.pairs));
    s.want = checked(dgl_new_array(uint32_t, s.words));
    for (uint32_t t = 0; t < row->tokens; t++)
        choose(row, t, ids + (size_t)t * row->top_k, &seed);
    for (uint32_t p = 0; p < s.pairs; p++) {
        s.route[2 * p] = ids[p];
        s.route[2 * p + 1] = 0x7FC00000; /* weights do not matter here */
    }
    ref_moe_group(ids, row->tokens, row->top_k, row->experts, s.want);
    kernel_walk_case(&walks[GROUP], bench, row->name, group_on, &s);
    free(ids);
    free(s.route);
    free(s.want);
}

/* ---- moe_combine ------------------------------------------------------------------------- */

struct combine_row {
    const char *name;
    uint32_t hidden, top_k, tokens, x_pad, y_pad;
    float scale;
};

static const struct combine_row combines[] = {
    {"smallest", 4, 1, 1, 0, 0, 1.0f},
    {"odd_sizes", 36, 3, 5, 4, 8, 0.5f},
    {"wide", 2880, 4, 9, 0, 0, 1.0f},
    {"many_choices", 132, 67, 2, 8, 4, 0.22f},
};

struct mixture {
    const struct combine_row *row;
    size_t xs, ys, pairs; /* strides of X and Y */
    float *y, *x;
    uint32_t *route;
};

static void mixture_init(struct mixture *m, const struct combine_row *row)
{
    uint64_t seed = row->hidden;
    size_t x_words = row->tokens * (size_t)(row->hidden + row->x_pad);
    *m = (struct mixture){.row = row, .xs = row->hidden + row->x_pad};
    m->ys = row->hidden + row->y_pad;
    m->pairs = (size_t)row->tokens * row->top_k;
    m->y = checked(dgl_new_array(float, m->pairs * m->ys));
    m->x = checked(dgl_new_array(float, x_words));
    m->route = checked(dgl_new_array(uint32_t, 2 * m->pairs));
    ref_fill(m->x, x_words, &seed);
    for (size_t i = 0; i < m->pairs * m->ys; i++)
        m->y[i] = i % m->ys < row->hidden ? test_rand_float(&seed) : NAN;
    for (size_t p = 0; p < m->pairs; p++) {
        float weight = test_rand_float(&seed);
        m->route[2 * p] = 0xFFFFFFFF; /* ids do not matter here */
        memcpy(&m->route[2 * p + 1], &weight, sizeof(weight));
    }
}

static void mixture_finish(struct mixture *m)
{
    free(m->y);
    free(m->x);
    free(m->route);
}

/* Row `t` of X with the choices of its token. */
static void ref_combine(const struct mixture *m, uint32_t t, double *want)
{
    for (uint32_t i = 0; i < m->row->hidden; i++) {
        want[i] = m->x[t * m->xs + i];
        for (size_t p = (size_t)t * m->row->top_k; p < (size_t)(t + 1) * m->row->top_k; p++) {
            float weight;
            memcpy(&weight, &m->route[2 * p + 1], sizeof(weight));
            want[i] += (double)m->row->scale * weight * m->y[p * m->ys + i];
        }
    }
}

static enum bench_result combine_on(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    struct mixture *m = ctx;
    const struct combine_row *row = m->row;
    size_t x_words = row->tokens * m->xs;
    float *out = checked(dgl_new_array(float, x_words));
    double *want = checked(dgl_new_array(double, row->hidden));
    struct bench_case c = {.request.op = "moe_combine", .step.tokens = row->tokens};
    bench_const(&c, "H", row->hidden);
    bench_const(&c, "TOP_K", row->top_k);
    bench_const(&c, "X_STRIDE", (int64_t)m->xs);
    bench_const(&c, "Y_STRIDE", (int64_t)m->ys);
    bench_float(&c, "scale", row->scale);
    bench_in(&c, "Y", m->y, m->pairs * m->ys);
    bench_in(&c, "ROUTE", m->route, 2 * m->pairs);
    bench_inout(&c, "X", m->x, out, x_words);
    enum bench_result result = kernel_bench_run(bench, kernel, &c, why);
    for (uint32_t t = 0; result == BENCH_RAN && t < row->tokens; t++) {
        ref_combine(m, t, want);
        walk_rows_check(
            &(struct walk_rows){1, row->hidden, m->xs, m->x + t * m->xs, out + t * m->xs, want},
            bench, kernel);
    }
    free(out);
    free(want);
    return result;
}

static void choices_are_added_up(void **state)
{
    const struct combine_row *row = *state;
    struct mixture m;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    mixture_init(&m, row);
    kernel_walk_case(&walks[COMBINE], bench, row->name, combine_on, &m);
    mixture_finish(&m);
}

/* ---- all of them ------------------------------------------------------------------------- */

static void every_kernel_was_tested(void **state)
{
    (void)state;
    for (size_t op = 0; op < sizeof(walks) / sizeof(walks[0]); op++)
        kernel_walk_check(&walks[op], bench);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(every_kernel_was_tested)};
    int failures = 0;
    for (int floor = 0; floor < 2; floor++) {
        bench = kernel_bench_create(floor == 1);
        failures += test_run_table(floor ? "route_floor" : "route", experts_are_the_best, routes);
        failures += test_run_table(floor ? "router_floor" : "router", router_chooses, routers);
        failures += test_run_table(floor ? "group_floor" : "group", pairs_are_sorted, groups);
        failures +=
            test_run_table(floor ? "combine_floor" : "combine", choices_are_added_up, combines);
        if (floor == 0)
            failures += cmocka_run_group_tests_name("kernels", others, NULL, NULL);
        kernel_bench_destroy(&bench);
    }
    return failures;
}
