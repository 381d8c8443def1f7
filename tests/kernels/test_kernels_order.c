/* The kernels of a decode step compute the same bits with every number of invocations (WG_SIZE)
 * that a program of phases may use. Both executors therefore sum in the same order and generate the
 * same tokens. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/oracle/op_problem.h"
#include "kernels/set/kernel_fit.h"
#include "tests/support/attn_case.h"

#define MOST_WORDS 4096

/* Constants and words of a request, and the position of attention. */
struct order_case {
    const char *name, *op;
    struct kernel_attr attrs[6];
    struct kernel_var consts[5];
    const struct attn_row *attn; /* instead */
    /* Only this kernel of the suitable ones: in products without subgroups, WG_SIZE determines the
     * sum of the squares of a norm's row. */
    const char *only;
};

static const struct attn_row one = {"one", {6, 2, 64, 64, .pos = 700, .splits = 8}, true, false};
static const struct attn_row all = {
    "all", {8, 2, 64, 64, .pos = 150, .splits = 8, .norm = ATTN_NORM_ALL}, true, false};
static const struct attn_row head = {
    "head",
    {4, 1, 128, 128, .pos = 300, .splits = 6, .sinks = true, .norm = ATTN_NORM_HEAD},
    true,
    false};

#define PRODUCT(weight, pre, post, act)                                                            \
    {                                                                                              \
        {"weight", weight}, {"phase", "decode"}, {"pre", pre}, {"post", post},                     \
        {                                                                                          \
            "act", act                                                                             \
        }                                                                                          \
    }
#define SIZES(k, n)                                                                                \
    {                                                                                              \
        {"K", k},                                                                                  \
        {                                                                                          \
            "N", n                                                                                 \
        }                                                                                          \
    }
#define EXPERT(post, act)                                                                          \
    {                                                                                              \
        {"weight", "q4_k"}, {"phase", "decode"}, {"post", post},                                   \
        {                                                                                          \
            "act", act                                                                             \
        }                                                                                          \
    }
#define EXPERTS(k, rows, top_k)                                                                    \
    {                                                                                              \
        {"K", k}, {"EXPERT_ROWS", rows}, {"E", 6},                                                 \
        {                                                                                          \
            "TOP_K", top_k                                                                         \
        }                                                                                          \
    }
static const struct order_case cases[] = {
    {"norm", "norm", .attrs = {{"post", "store"}}, .consts = {{"H", 1156}}},
    {"matmul", "matmul", .attrs = PRODUCT("f16", "none", "add", "none"), .consts = SIZES(1160, 66)},
    {"matmul q4_k", "matmul", .attrs = PRODUCT("q4_k", "norm", "store", "none"),
     .consts = SIZES(1536, 66), .only = "matmul_decode_subgroup"},
    {"matmul q4_k, x in rounds or passes", "matmul",
     .attrs = PRODUCT("q4_k", "none", "store", "none"), .consts = SIZES(14336, 34),
     .only = "matmul_decode_subgroup"},
    {"matmul q8_0", "matmul", .attrs = PRODUCT("q8_0", "norm", "glu", "silu"),
     .consts = SIZES(1152, 66), .only = "matmul_decode_subgroup"},
    {"join", "matmul", .attrs = PRODUCT("q4_k", "join_norm", "store", "none"),
     .consts = SIZES(1536, 66), .only = "matmul_join_subgroup"},
    {"attention", "attn_decode", .attn = &one},
    {"attention, whole", "attn_token", .attn = &one},
    {"attention, norm of all heads", "attn_token", .attn = &all},
    {"attention, norms and sinks", "attn_token", .attn = &head},
    {"merge", "attn_merge", .attrs = {{"sinks", "head"}},
     .consts = {{"HEADS", 3}, {"HEAD_DIM", 96}, {"SPLITS", 7}}},
    {"experts glu", "moe_matmul", .attrs = EXPERT("glu", "silu"), .consts = EXPERTS(512, 64, 2)},
    {"experts combine", "moe_matmul", .attrs = EXPERT("combine", "none"),
     .consts = EXPERTS(768, 48, 4)},
    {"route", "moe_route", .attrs = {{"scoring", "softmax_topk"}},
     .consts = {{"E", 100}, {"TOP_K", 8}}},
    {"router", "moe_router",
     .attrs = {{"weight", "f32"}, {"pre", "norm"}, {"scoring", "softmax_topk"}},
     .consts = {{"K", 2880}, {"E", 32}, {"TOP_K", 4}}},
};

static struct kernel_case case_of(const struct order_case *o)
{
    struct kernel_case c = {.request.op = o->op, .tokens = 1, .seed = 5};
    if (o->attn)
        return attn_case(o->attn, o->op);
    for (size_t i = 0; i < 6 && o->attrs[i].key; i++)
        request_set(&c.request, o->attrs[i].key, o->attrs[i].word);
    for (size_t i = 0; i < 5 && o->consts[i].name; i++)
        request_set_const(&c.request, o->consts[i].name, o->consts[i].value);
    return c;
}

/* Runs the kernel with `size` invocations and keeps only its results. Returns the number of words,
 * or 0 if it cannot run. */
static size_t compute(const struct order_case *o, const struct kernel *kernel, int64_t size,
                      uint32_t words[MOST_WORDS])
{
    char hint[128], why[BENCH_WHY];
    struct kernel_bench *bench = checked(kernel_bench_create(false));
    struct kernel_case c = case_of(o);
    struct problem p = {.seed = 5};
    const struct op_rule *rule = op_rule_find(o->op);
    size_t count = 0;
    snprintf(hint, sizeof(hint), "{\"tunes.%s.WG_SIZE\": %d}", kernel->name, (int)size);
    assert_true(kernel_bench_hint(bench, hint));
    if (rule->settle && !rule->settle(&c))
        fail_msg("%s: there is no such case", o->name);
    const char *weight = kernel_request_word(&c.request, "weight");
    if (strcmp(weight, "none") != 0)
        request_set(&c.request, "layout", kernel_layout(kernel, weight));
    rule->make(&p, &c);
    if (p.failed)
        fail_msg("%s: %s", o->name, p.unfit ? p.unfit : "out of memory");
    const enum bench_result result = kernel_bench_solve(bench, kernel->name, &p, why);
    if (result == BENCH_FAILED)
        fail_msg("%s, %s with %d invocations: %s", o->name, kernel->name, (int)size, why);
    if (result == BENCH_CANNOT)
        printf("# %s with %d invocations: %s\n", kernel->name, (int)size, why);
    for (uint32_t r = 0; r < p.num_results && result == BENCH_RAN; r++) {
        const struct problem_result *want = &p.results[r];
        const struct problem_buffer *b = problem_buffer(&p, want->buffer);
        for (size_t i = 0; i < want->rows; i++, count += want->cols) {
            assert_true(count + want->cols <= MOST_WORDS);
            memcpy(words + count, b->after + want->at + i * want->stride, 4 * want->cols);
        }
    }
    problem_finish(&p);
    kernel_bench_destroy(&bench);
    return count;
}

static void test_order(void **state)
{
    const struct order_case *o = *state;
    static uint32_t first[MOST_WORDS], words[MOST_WORDS];
    struct kernel_bench *bench = kernel_bench_create(false);
    const char *name;
    if (!bench)
        SKIP("no GLES device");
    for (size_t k = 0; (name = kernel_bench_name(bench, o->op, k)) != NULL; k++) {
        const struct kernel *kernel = kernel_set_find(kernel_bench_set(bench), name);
        const struct kernel_case c = case_of(o);
        if ((o->only && strcmp(o->only, name) != 0) || !kernel_serves(kernel, &c.request))
            continue;
        const struct kernel_tune *tune = NULL;
        size_t count = 0;
        for (uint32_t t = 0; t < kernel->num_tunes; t++)
            tune = strcmp(kernel->tunes[t].name, "WG_SIZE") == 0 ? &kernel->tunes[t] : tune;
        for (uint32_t s = tune ? tune->num_choices : 0; s > 0; s--) {
            const int64_t size = tune->choices[s - 1];
            if (size > 512 || size < 32 || (size & (size - 1)) != 0)
                continue;
            const size_t now = compute(o, kernel, size, count ? words : first);
            for (size_t i = 0; i < now && count; i++)
                if (words[i] != first[i])
                    fail_msg("%s, %s: word %zu is %08x with %d invocations, %08x with more",
                             o->name, name, i, words[i], (int)size, first[i]);
            count = count ? count : now;
        }
        printf("# %s: %zu words of %s\n", o->name, count, name);
    }
    kernel_bench_destroy(&bench);
}

int main(void)
{
    return test_run_table("order", test_order, cases);
}
