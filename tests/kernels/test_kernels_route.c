/* The kernels of moe_route, moe_router, moe_group and moe_combine compared with plain C: expert
 * counts that are no power of two, every expert chosen, ties, NaN logits, all tokens on one expert;
 * NaN in the result buffer, guard words around all buffers. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/op_problem.h"
#include "loader/desc/model_desc.h"
#include "tests/support/kernel_walk.h"

static struct kernel_bench *bench;
static struct kernel_walk walks[] = {{.op = "moe_route"},
                                     {.op = "moe_group"},
                                     {.op = "moe_combine"},
                                     {.op = "moe_router", .excuses = WALK_DEVICE_LACKS}};
enum { ROUTE, GROUP, COMBINE, ROUTER };

/* ---- moe_route --------------------------------------------------------------------------- */

/* kernel_case.variant */
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

static const char *const scorings[] = {[MOE_TOPK_SOFTMAX] = "topk_softmax",
                                       [MOE_SOFTMAX_TOPK] = "softmax_topk",
                                       [MOE_SOFTMAX_TOPK_NORM] = "softmax_topk_norm"};

static void experts_are_the_best(void **state)
{
    const struct route_row *row = *state;
    for (size_t s = 0; s < 3; s++) {
        struct kernel_case c = {.request.op = "moe_route",
                                .tokens = row->tokens,
                                .variant = row->kind,
                                .seed = row->experts * 31u + row->top_k};
        request_set(&c.request, "scoring", scorings[s]);
        request_set_const(&c.request, "E", row->experts);
        request_set_const(&c.request, "TOP_K", row->top_k);
        request_set_const(&c.request, "L_STRIDE", row->experts + row->pad);
        kernel_walk_judge(&walks[ROUTE], bench, row->name, &c);
    }
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

static struct kernel_case router_case(const struct router_row *row)
{
    struct kernel_case c = {.request.op = "moe_router", .seed = row->k + row->experts};
    request_set(&c.request, "weight", dgl_dtype_get(row->weight)->name);
    request_set(&c.request, "pre", row->norm ? "norm" : "none");
    request_set(&c.request, "bias", row->bias ? "row" : "none");
    request_set(&c.request, "scoring", scorings[row->scoring]);
    request_set_const(&c.request, "K", row->k);
    request_set_const(&c.request, "E", row->experts);
    request_set_const(&c.request, "TOP_K", row->top_k);
    return c;
}

static void router_chooses(void **state)
{
    const struct router_row *row = *state;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    const struct kernel_case c = router_case(row);
    kernel_walk_judge_some(&walks[ROUTER], bench, &c);
}

/* The same bits for any number of invocations: a program of phases has more of them, and another
 * choice of experts changes tokens. */
static void router_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"LOGITS", "NORMED", "ROUTE"};
    static const int sizes[] = {32, 64, 128, 256, 512};
    const struct op_rule *rule = op_rule_find("moe_router");
    char hint[64], why[BENCH_WHY] = "";
    if (!bench)
        SKIP("no GLES device");
    struct kernel_bench *tuned = checked(kernel_bench_create(false));
    for (size_t i = 0; i < sizeof(routers) / sizeof(routers[0]); i++) {
        const struct kernel_case c = router_case(&routers[i]);
        struct problem p = {.seed = c.seed};
        uint32_t *first[3] = {NULL};
        rule->make(&p, &c);
        assert_false(p.failed);
        for (size_t t = 0; t < sizeof(sizes) / sizeof(sizes[0]); t++) {
            snprintf(hint, sizeof(hint), "{\"tunes\": {\"moe_router.WG_SIZE\": %d}}", sizes[t]);
            assert_true(kernel_bench_hint(tuned, hint));
            if (kernel_bench_solve(tuned, "moe_router", &p, why) != BENCH_RAN)
                fail_msg("%s, %s: %s", routers[i].name, hint, why);
            for (int n = 0; n < 3; n++) {
                const struct problem_buffer *out = problem_buffer(&p, names[n]);
                if (t == 0 && out) {
                    first[n] = checked(dgl_new_array(uint32_t, out->words));
                    memcpy(first[n], out->after, 4 * out->words);
                }
                for (size_t j = 0; out && j < out->words; j++)
                    if (first[n][j] != out->after[j])
                        fail_msg("%s: word %zu of %s is %08x by %d invocations, %08x by %d",
                                 routers[i].name, j, names[n], first[n][j], sizes[0], out->after[j],
                                 sizes[t]);
            }
        }
        for (int n = 0; n < 3; n++)
            free(first[n]);
        problem_finish(&p);
    }
    kernel_bench_destroy(&tuned);
}

/* ---- moe_group --------------------------------------------------------------------------- */

enum choices { SPREAD, ONE_EXPERT, LAST_EXPERT }; /* kernel_case.variant */

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
    {"every_expert", SPREAD, 5, 5, 31},
};

static void pairs_are_sorted(void **state)
{
    const struct group_row *row = *state;
    struct kernel_case c = {.request.op = "moe_group",
                            .tokens = row->tokens,
                            .variant = row->kind,
                            .seed = row->tokens};
    request_set_const(&c.request, "E", row->experts);
    request_set_const(&c.request, "TOP_K", row->top_k);
    kernel_walk_judge(&walks[GROUP], bench, row->name, &c);
}

/* ---- moe_combine ------------------------------------------------------------------------- */

struct combine_row {
    const char *name;
    uint32_t hidden, top_k, tokens, x_pad, y_pad;
};

static const struct combine_row combines[] = {
    {"smallest", 4, 1, 1, 0, 0},
    {"odd_sizes", 36, 3, 5, 4, 8},
    {"wide", 2880, 4, 9, 0, 0},
    {"many_choices", 132, 67, 2, 8, 4},
};

static void choices_are_added_up(void **state)
{
    const struct combine_row *row = *state;
    struct kernel_case c = {
        .request.op = "moe_combine", .tokens = row->tokens, .seed = row->hidden};
    request_set_const(&c.request, "H", row->hidden);
    request_set_const(&c.request, "TOP_K", row->top_k);
    request_set_const(&c.request, "X_STRIDE", row->hidden + row->x_pad);
    request_set_const(&c.request, "Y_STRIDE", row->hidden + row->y_pad);
    kernel_walk_judge(&walks[COMBINE], bench, row->name, &c);
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
    const struct CMUnitTest others[] = {cmocka_unit_test(router_bits),
                                        cmocka_unit_test(every_kernel_was_tested)};
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
