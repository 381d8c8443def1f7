/* The kernels of embed, norm, qk_norm and synth compared with doubles, under the same conditions as
 * those of matmul. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/op_problem.h"
#include "loader/quant/dtype.h"
#include "tests/support/kernel_walk.h"

struct embed_row {
    const char *name;
    enum dgl_dtype type;
    uint32_t vocab, hidden, x_pad, pos, tokens;
    uint32_t cut; /* the table has two bands, split here; 0 = one band */
};

static const struct embed_row embed_rows[] = {
    {"embed_f32_h4_one_token", DGL_F32, 3, 4, 0, 0, 1, 0},
    {"embed_f32_h1152_bands", DGL_F32, 50, 1152, 4, 3, 16, 20},
    {"embed_f16_h36", DGL_F16, 257, 36, 0, 1, 33, 0},
    {"embed_f16_h256_bands", DGL_F16, 100, 256, 8, 60, 64, 99},
    {"embed_bf16_h80", DGL_BF16, 64, 80, 4, 2, 7, 1},
    {"embed_q8_0_h36", DGL_Q8_0, 64, 36, 0, 5, 3, 0},
    {"embed_q8_0_h256_bands", DGL_Q8_0, 1000, 256, 0, 0, 64, 500},
    {"embed_q4_k_h96", DGL_Q4_K, 40, 96, 0, 9, 5, 0},
    {"embed_q4_k_h260", DGL_Q4_K, 40, 260, 4, 9, 16, 7},
    {"embed_q4_k_h2048_bands", DGL_Q4_K, 65, 2048, 0, 0, 2, 64},
    {"embed_q4_0_h36", DGL_Q4_0, 64, 36, 0, 5, 3, 0},
    {"embed_q4_0_h1152_bands", DGL_Q4_0, 65, 1152, 4, 0, 2, 64},
    {"embed_q5_0_h36", DGL_Q5_0, 64, 36, 0, 5, 3, 0},
    {"embed_q5_0_h1152_bands", DGL_Q5_0, 65, 1152, 4, 0, 2, 64},
    {"embed_q5_k_h260", DGL_Q5_K, 40, 260, 4, 9, 16, 7},
    {"embed_q6_k_h96", DGL_Q6_K, 40, 96, 0, 9, 5, 0},
    {"embed_q6_k_h1152_bands", DGL_Q6_K, 65, 1152, 0, 0, 2, 64},
    {"embed_q6_k_h5120", DGL_Q6_K, 9, 5120, 0, 0, 2, 0},
    {"embed_mxfp4_h80", DGL_MXFP4, 40, 80, 0, 9, 5, 0},
    {"embed_mxfp4_h2880_bands", DGL_MXFP4, 65, 2880, 4, 0, 2, 64},
    {"embed_q4_1_h36", DGL_Q4_1, 64, 36, 0, 5, 3, 0},
    {"embed_q5_1_h1152_bands", DGL_Q5_1, 65, 1152, 4, 0, 2, 64},
    {"embed_iq4_nl_h80", DGL_IQ4_NL, 40, 80, 0, 9, 5, 0},
    {"embed_iq4_xs_h2880_bands", DGL_IQ4_XS, 65, 2880, 4, 0, 2, 64},
    {"embed_q2_k_h260", DGL_Q2_K, 40, 260, 4, 9, 16, 7},
    {"embed_q3_k_h260", DGL_Q3_K, 40, 260, 4, 9, 16, 7},
    {"embed_iq3_s_h260", DGL_IQ3_S, 40, 260, 4, 9, 16, 7},
    {"embed_iq2_xs_h1152_bands", DGL_IQ2_XS, 65, 1152, 0, 0, 2, 64},
    {"embed_iq1_m_h800", DGL_IQ1_M, 40, 800, 0, 9, 5, 0},
    {"embed_tq1_0_h512", DGL_TQ1_0, 40, 512, 0, 9, 5, 0},
    {"embed_q1_0_h384", DGL_Q1_0, 40, 384, 0, 9, 5, 0},
};

struct norm_row {
    const char *name;
    uint32_t hidden, x_pad, y_pad, tokens;
    bool add;
};

static const struct norm_row norm_rows[] = {
    {"norm_h4_t1", 4, 0, 0, 1, false},       {"norm_h36_t2_strided", 36, 4, 8, 2, false},
    {"norm_h80_t3", 80, 0, 0, 3, false},     {"norm_h256_t64", 256, 0, 0, 64, false},
    {"norm_h260_t7", 260, 12, 0, 7, false},  {"norm_h1152_t33_strided", 1152, 4, 4, 33, false},
    {"norm_h2048_t1", 2048, 0, 0, 1, false}, {"norm_h5120_t2", 5120, 0, 0, 2, false},
    {"norm_add_h72_t1", 72, 0, 0, 1, true},  {"norm_add_h96_t33_strided", 96, 4, 8, 33, true},
};

struct qk_row {
    const char *name;
    uint32_t heads, kv_heads, head_dim, pad, tokens;
    bool all; /* one norm over all heads */
};

static const struct qk_row qk_rows[] = {
    {"qk_norm_h4_2_d16_t1", 4, 2, 16, 0, 1, false},
    {"qk_norm_h5_5_d80_t7_strided", 5, 5, 80, 4, 7, false},
    {"qk_norm_h2_1_d256_t33", 2, 1, 256, 0, 33, false},
    {"qk_norm_h32_8_d128_t2", 32, 8, 128, 0, 2, false},
    {"qk_norm_h3_1_d20_t64", 3, 1, 20, 8, 64, false},
    {"qk_norm_all_h4_4_d16_t1", 4, 4, 16, 0, 1, true},
    {"qk_norm_all_h5_1_d36_t33_strided", 5, 1, 36, 12, 33, true},
    {"qk_norm_all_h16_4_d128_t3", 16, 4, 128, 0, 3, true},
};

struct synth_row {
    const char *name;
    enum dgl_dtype type;
    uint32_t rows, cols;
};

static const struct synth_row synth_rows[] = {
    {"synth_f32", DGL_F32, 64, 1152},         {"synth_f16", DGL_F16, 100, 260},
    {"synth_bf16", DGL_BF16, 64, 256},        {"synth_q8_0", DGL_Q8_0, 64, 1152},
    {"synth_q8_0_padded", DGL_Q8_0, 200, 36}, {"synth_q4_k", DGL_Q4_K, 64, 2048},
    {"synth_q4_k_padded", DGL_Q4_K, 300, 80}, {"synth_q4_0", DGL_Q4_0, 64, 1152},
    {"synth_q5_k", DGL_Q5_K, 64, 2048},       {"synth_q6_k", DGL_Q6_K, 64, 1152},
    {"synth_mxfp4", DGL_MXFP4, 64, 2880},     {"synth_q4_0_padded", DGL_Q4_0, 300, 80},
};

static struct kernel_bench *bench;
static struct kernel_walk walks[] = {
    {.op = "embed"}, {.op = "norm"}, {.op = "qk_norm"}, {.op = "synth"}};
enum { EMBED, NORM, QK_NORM, SYNTH };

static void embed_looks_rows_up(void **state)
{
    const struct embed_row *row = *state;
    struct kernel_case c = {.request.op = "embed",
                            .tokens = row->tokens,
                            .pos = row->pos,
                            .rows = row->vocab,
                            .cuts = {row->cut},
                            .seed = row->hidden};
    request_set(&c.request, "weight", dgl_dtype_get(row->type)->name);
    request_set(&c.request, "phase", row->tokens == 1 ? "decode" : "prefill");
    request_set_const(&c.request, "H", row->hidden);
    request_set_const(&c.request, "X_STRIDE", row->hidden + row->x_pad);
    kernel_walk_judge(&walks[EMBED], bench, row->name, &c);
}

static void norm_divides_by_the_root_mean_square(void **state)
{
    const struct norm_row *row = *state;
    struct kernel_case c = {.request.op = "norm", .tokens = row->tokens, .seed = row->hidden};
    request_set(&c.request, "post", row->add ? "add" : "store");
    request_set_const(&c.request, "H", row->hidden);
    request_set_const(&c.request, "X_STRIDE", row->hidden + row->x_pad);
    request_set_const(&c.request, "Y_STRIDE", row->hidden + row->y_pad);
    kernel_walk_judge(&walks[NORM], bench, row->name, &c);
}

static void qk_norm_leaves_values_alone(void **state)
{
    const struct qk_row *row = *state;
    const uint32_t width = (row->heads + 2 * row->kv_heads) * row->head_dim;
    struct kernel_case c = {.request.op = "qk_norm", .tokens = row->tokens, .seed = width};
    request_set(&c.request, "span", row->all ? "all" : "head");
    request_set_const(&c.request, "HEADS", row->heads);
    request_set_const(&c.request, "KV_HEADS", row->kv_heads);
    request_set_const(&c.request, "HEAD_DIM", row->head_dim);
    request_set_const(&c.request, "QKV_STRIDE", width + row->pad);
    kernel_walk_judge(&walks[QK_NORM], bench, row->name, &c);
}

/* ---- synth ------------------------------------------------------------------------------- */

/* The words that a kernel fills the matrix with. */
static enum bench_result synth_fill(const struct synth_row *row, const char *kernel, uint32_t seed,
                                    uint32_t **words, size_t *count, char why[BENCH_WHY])
{
    const struct op_rule *rule = op_rule_find("synth");
    struct kernel_case c = {.request.op = "synth", .rows = row->rows};
    struct problem p = {.seed = 1};
    request_set(&c.request, "weight", dgl_dtype_get(row->type)->name);
    request_set_const(&c.request, "K", row->cols);
    rule->make(&p, &c);
    assert_false(p.failed);
    for (uint32_t i = 0; i < p.stages[0].num_params; i++)
        if (strcmp(p.stages[0].params[i].name, "seed") == 0)
            p.stages[0].params[i].u = seed;
    enum bench_result result = kernel_bench_solve(bench, kernel, &p, why);
    const struct problem_buffer *w = problem_buffer(&p, "W");
    *count = w->words;
    *words = checked(dgl_new_array(uint32_t, w->words));
    memcpy(*words, w->after, 4 * w->words);
    problem_finish(&p);
    return result;
}

/* Equal seeds produce equal numbers, and other seeds other numbers. */
static enum bench_result synth_again(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    static const uint32_t seeds[] = {1, 1, 2};
    uint32_t *words[3] = {NULL};
    size_t count = 0;
    enum bench_result result = BENCH_RAN;
    for (size_t i = 0; i < 3 && result == BENCH_RAN; i++)
        result = synth_fill(ctx, kernel, seeds[i], &words[i], &count, why);
    if (result == BENCH_RAN) {
        assert_memory_equal(words[0], words[1], 4 * count);
        assert_memory_not_equal(words[0], words[2], 4 * count);
    }
    for (size_t i = 0; i < 3; i++)
        free(words[i]);
    return result;
}

static void synth_makes_plausible_weights(void **state)
{
    const struct synth_row *row = *state;
    struct kernel_case c = {.request.op = "synth", .rows = row->rows};
    request_set(&c.request, "weight", dgl_dtype_get(row->type)->name);
    request_set_const(&c.request, "K", row->cols);
    kernel_walk_judge(&walks[SYNTH], bench, row->name, &c);
    kernel_walk_case(&walks[SYNTH], bench, row->name, synth_again, *state);
}

static void every_kernel_was_tested(void **state)
{
    (void)state;
    for (size_t op = 0; op < sizeof(walks) / sizeof(walks[0]); op++)
        kernel_walk_check(&walks[op], bench);
}

/* Groups as wide as those of a program for all of a step; several items per invocation. */
static const char wide_hints[] =
    "{\"tunes\": {\"norm_rms.WG_SIZE\": 512, \"qk_norm.WG_SIZE\": 512, \"embed_rows.EACH\": 4, "
    "\"embed_rows.WG_SIZE\": 32, \"synth_rows.GROUPS_MOST\": 64}}";

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(every_kernel_was_tested)};
    bench = kernel_bench_create(false);
    int failures = test_run_table("embed", embed_looks_rows_up, embed_rows);
    failures += test_run_table("norm", norm_divides_by_the_root_mean_square, norm_rows);
    failures += test_run_table("qk_norm", qk_norm_leaves_values_alone, qk_rows);
    failures += test_run_table("synth", synth_makes_plausible_weights, synth_rows);
    failures += cmocka_run_group_tests_name("kernels", others, NULL, NULL);
    if (bench && kernel_bench_caps(bench)->limits.max_invocations >= 512) {
        if (!kernel_bench_hint(bench, wide_hints))
            return 1;
        failures += test_run_table("embed_each", embed_looks_rows_up, embed_rows);
        failures += test_run_table("synth_each", synth_makes_plausible_weights, synth_rows);
        failures += test_run_table("wide_norm", norm_divides_by_the_root_mean_square, norm_rows);
        failures += test_run_table("wide_qk_norm", qk_norm_leaves_values_alone, qk_rows);
    }
    kernel_bench_destroy(&bench);
    return failures;
}
