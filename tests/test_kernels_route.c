/*
 * The kernels of moe_route, moe_group and moe_combine against plain C: expert counts that are no
 * power of two, every expert chosen, ties, logits that are no numbers, all tokens to one expert;
 * NaN where results go, guard words around all buffers.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/support/kernel_bench.h"
#include "tests/support/ref_moe.h"
#include "tests/support/ref_ops.h"

#define MAX_KERNELS 16

static struct {
    struct kernel_bench *bench;
    char ran[MAX_KERNELS][64]; /* names of kernels */
    size_t num_ran;
} all;

static void *checked(void *p)
{
    assert_non_null(p);
    return p;
}

static bool has_run(const char *kernel)
{
    for (size_t i = 0; i < all.num_ran; i++)
        if (strcmp(all.ran[i], kernel) == 0)
            return true;
    return false;
}

static void run_on(const char *kernel, struct bench_case *c)
{
    char why[BENCH_WHY];
    if (kernel_bench_run(all.bench, kernel, c, why) != BENCH_RAN)
        fail_msg("%s: %s", kernel, why);
    if (!has_run(kernel)) {
        assert_true(all.num_ran < MAX_KERNELS);
        snprintf(all.ran[all.num_ran++], sizeof(all.ran[0]), "%s", kernel);
    }
}

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

static void route_on(const struct route_row *row, const char *kernel, const char *scoring,
                     const float *logits)
{
    uint32_t stride = row->experts + row->pad, k = row->top_k;
    uint32_t *route = checked(dgl_new_array(uint32_t, 2ull * row->tokens * k));
    uint32_t *ids = checked(dgl_new_array(uint32_t, k));
    double *weights = checked(dgl_new_array(double, k));
    float *got = checked(dgl_new_array(float, k));
    struct bench_case c = {.request.op = "moe_route", .step.tokens = row->tokens};
    bench_attr(&c, "scoring", scoring);
    bench_const(&c, "E", row->experts);
    bench_const(&c, "TOP_K", k);
    bench_const(&c, "L_STRIDE", stride);
    bench_in(&c, "LOGITS", logits, (size_t)row->tokens * stride);
    bench_out(&c, "ROUTE", route, 2ull * row->tokens * k);
    run_on(kernel, &c);
    for (uint32_t t = 0; t < row->tokens; t++) {
        ref_moe_route(logits + (size_t)t * stride, row->experts, k, scoring, ids, weights);
        for (uint32_t s = 0; s < k; s++) {
            const uint32_t *chosen = route + 2 * ((size_t)t * k + s);
            if (chosen[0] != ids[s])
                fail_msg("%s %s: token %u, choice %u: expert %u, expected %u", kernel, scoring, t,
                         s, chosen[0], ids[s]);
            memcpy(&got[s], chosen + 1, sizeof(got[s]));
        }
        double nmse = row->kind == NOT_NUMBERS ? 0.0 : test_nmse(got, weights, k);
        if (!(nmse <= 1e-12))
            fail_msg("%s %s: token %u: NMSE of weights %.3g; first %.9g, expected %.17g", kernel,
                     scoring, t, nmse, got[0], weights[0]);
    }
    free(route);
    free(ids);
    free(weights);
    free(got);
}

static void experts_are_the_best(void **state)
{
    static const char *const scorings[] = {"topk_softmax", "softmax_topk", "softmax_topk_norm"};
    const struct route_row *row = *state;
    uint32_t stride = row->experts + row->pad;
    uint64_t seed = row->experts * 31u + row->top_k;
    const char *kernel;
    if (!all.bench)
        SKIP("%s: no GLES device", row->name);
    float *logits = checked(dgl_new_array(float, (size_t)row->tokens *stride));
    for (uint32_t i = 0; i < row->tokens * stride; i++)
        logits[i] =
            i % stride < row->experts ? logit_at(row->kind, i / stride, i % stride, &seed) : NAN;
    for (size_t i = 0; (kernel = kernel_bench_name(all.bench, "moe_route", i)) != NULL; i++)
        for (size_t s = 0; s < 3; s++)
            route_on(row, kernel, scorings[s], logits);
    free(logits);
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

static void pairs_are_sorted(void **state)
{
    const struct group_row *row = *state;
    uint32_t pairs = row->tokens * row->top_k, words = row->experts + 1 + pairs;
    uint64_t seed = row->tokens;
    const char *kernel;
    if (!all.bench)
        SKIP("%s: no GLES device", row->name);
    uint32_t *ids = checked(dgl_new_array(uint32_t, pairs));
    uint32_t *route = checked(dgl_new_array(uint32_t, 2ull * pairs));
    uint32_t *want = checked(dgl_new_array(uint32_t, words));
    uint32_t *got = checked(dgl_new_array(uint32_t, words));
    for (uint32_t t = 0; t < row->tokens; t++)
        choose(row, t, ids + (size_t)t * row->top_k, &seed);
    for (uint32_t p = 0; p < pairs; p++) {
        route[2 * p] = ids[p];
        route[2 * p + 1] = 0x7FC00000; /* weights do not matter here */
    }
    ref_moe_group(ids, row->tokens, row->top_k, row->experts, want);
    for (size_t i = 0; (kernel = kernel_bench_name(all.bench, "moe_group", i)) != NULL; i++) {
        struct bench_case c = {.request.op = "moe_group", .step.tokens = row->tokens};
        bench_const(&c, "E", row->experts);
        bench_const(&c, "TOP_K", row->top_k);
        bench_in(&c, "ROUTE", route, 2ull * pairs);
        bench_out(&c, "LIST", got, words);
        run_on(kernel, &c);
        for (uint32_t w = 0; w < words; w++)
            if (got[w] != want[w])
                fail_msg("%s: word %u of LIST is %u, expected %u", kernel, w, got[w], want[w]);
    }
    free(ids);
    free(route);
    free(want);
    free(got);
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

static void combine_on(const struct combine_row *row, const char *kernel)
{
    uint32_t xs = row->hidden + row->x_pad, ys = row->hidden + row->y_pad;
    size_t pairs = (size_t)row->tokens * row->top_k, x_words = (size_t)row->tokens * xs;
    uint64_t seed = row->hidden;
    float *y = checked(dgl_new_array(float, pairs *ys));
    float *x = checked(dgl_new_array(float, x_words));
    float *out = checked(dgl_new_array(float, x_words));
    uint32_t *route = checked(dgl_new_array(uint32_t, 2 * pairs));
    double *want = checked(dgl_new_array(double, row->hidden));
    ref_fill(x, x_words, &seed);
    for (size_t i = 0; i < pairs * ys; i++)
        y[i] = i % ys < row->hidden ? test_rand_float(&seed) : NAN;
    for (size_t p = 0; p < pairs; p++) {
        float weight = test_rand_float(&seed);
        route[2 * p] = 0xFFFFFFFF; /* ids do not matter here */
        memcpy(&route[2 * p + 1], &weight, sizeof(weight));
    }
    struct bench_case c = {.request.op = "moe_combine", .step.tokens = row->tokens};
    bench_const(&c, "H", row->hidden);
    bench_const(&c, "TOP_K", row->top_k);
    bench_const(&c, "X_STRIDE", xs);
    bench_const(&c, "Y_STRIDE", ys);
    bench_float(&c, "scale", row->scale);
    bench_in(&c, "Y", y, pairs * ys);
    bench_in(&c, "ROUTE", route, 2 * pairs);
    bench_inout(&c, "X", x, out, x_words);
    run_on(kernel, &c);
    for (uint32_t t = 0; t < row->tokens; t++) {
        for (uint32_t i = 0; i < row->hidden; i++) {
            want[i] = x[t * xs + i];
            for (size_t p = (size_t)t * row->top_k; p < (size_t)(t + 1) * row->top_k; p++) {
                float weight;
                memcpy(&weight, &route[2 * p + 1], sizeof(weight));
                want[i] += (double)row->scale * weight * y[p * ys + i];
            }
        }
        assert_at_most(test_nmse(out + (size_t)t * xs, want, row->hidden), 1e-12);
        assert_memory_equal(out + t * xs + row->hidden, x + t * xs + row->hidden, 4 * row->x_pad);
    }
    free(y);
    free(x);
    free(out);
    free(route);
    free(want);
}

static void choices_are_added_up(void **state)
{
    const struct combine_row *row = *state;
    const char *kernel;
    if (!all.bench)
        SKIP("%s: no GLES device", row->name);
    for (size_t i = 0; (kernel = kernel_bench_name(all.bench, "moe_combine", i)) != NULL; i++)
        combine_on(row, kernel);
}

/* ---- all of them ------------------------------------------------------------------------- */

static void every_kernel_was_tested(void **state)
{
    static const char *const ops[] = {"moe_route", "moe_group", "moe_combine"};
    const char *kernel;
    (void)state;
    if (!all.bench)
        SKIP("every_kernel_was_tested: no GLES device");
    for (size_t op = 0; op < sizeof(ops) / sizeof(ops[0]); op++) {
        assert_non_null(kernel_bench_name(all.bench, ops[op], 0));
        for (size_t i = 0; (kernel = kernel_bench_name(all.bench, ops[op], i)) != NULL; i++)
            if (!has_run(kernel))
                fail_msg("no case ran %s (%s)", kernel, ops[op]);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(every_kernel_was_tested)};
    int failures = 0;
    for (int floor = 0; floor < 2; floor++) {
        all.bench = kernel_bench_create(floor == 1);
        failures += test_run_table(floor ? "route_floor" : "route", experts_are_the_best, routes);
        failures += test_run_table(floor ? "group_floor" : "group", pairs_are_sorted, groups);
        failures +=
            test_run_table(floor ? "combine_floor" : "combine", choices_are_added_up, combines);
        if (floor == 0)
            failures += cmocka_run_group_tests_name("kernels", others, NULL, NULL);
        kernel_bench_destroy(&all.bench);
    }
    return failures;
}
