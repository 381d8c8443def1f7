/* The kernels of embed, norm, qk_norm and synth against doubles, under the same conditions as those
 * of matmul. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/support/kernel_walk.h"
#include "core/oracle/ref_ops.h"

#define MAX_TOKENS 64

struct embed_row {
    const char *name;
    enum dgl_dtype type;
    uint32_t vocab, hidden, x_pad, pos, tokens;
    uint32_t cut; /* the table comes in two bands, cut here; 0 = one */
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
    {"embed_q5_k_h260", DGL_Q5_K, 40, 260, 4, 9, 16, 7},
    {"embed_q6_k_h96", DGL_Q6_K, 40, 96, 0, 9, 5, 0},
    {"embed_q6_k_h1152_bands", DGL_Q6_K, 65, 1152, 0, 0, 2, 64},
    {"embed_q6_k_h5120", DGL_Q6_K, 9, 5120, 0, 0, 2, 0},
    {"embed_mxfp4_h80", DGL_MXFP4, 40, 80, 0, 9, 5, 0},
    {"embed_mxfp4_h2880_bands", DGL_MXFP4, 65, 2880, 4, 0, 2, 64},
    {"embed_affine_h80", DGL_AFFINE, 40, 80, 0, 9, 5, 0},
    {"embed_affine_h2880_bands", DGL_AFFINE, 65, 2880, 4, 0, 2, 64},
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

static float *nan_array(size_t count)
{
    float *values = checked(dgl_new_array(float, count));
    for (size_t i = 0; i < count; i++)
        values[i] = NAN;
    return values;
}

/* ---- embed ------------------------------------------------------------------------------- */

struct embed {
    const struct embed_row *row;
    struct ref_matrix table;
    uint32_t ids[MAX_TOKENS + 64];
};

static enum bench_result embed_band(const struct embed *e, const char *kernel, uint32_t row0,
                                    uint32_t rows, float *x, char why[BENCH_WHY])
{
    const struct embed_row *row = e->row;
    struct bench_case c = {.request.op = "embed", .band = rows};
    size_t stride = row->hidden + row->x_pad;
    bench_attr(&c, "weight", dgl_dtype_get(row->type)->name);
    bench_attr(&c, "phase", row->tokens == 1 ? "decode" : "prefill");
    bench_const(&c, "H", row->hidden);
    bench_const(&c, "X_STRIDE", (int64_t)stride);
    bench_const(&c, "W_STRIDE", (int64_t)e->table.row_words);
    bench_uint(&c, "row0", row0);
    bench_uint(&c, "rows", rows);
    bench_float(&c, "scale", 0.75f);
    bench_in(&c, "IDS", e->ids, row->pos + row->tokens);
    bench_in(&c, "W", e->table.packed + row0 * e->table.row_words, rows * e->table.row_words);
    bench_inout(&c, "X", x, x, row->tokens * stride);
    c.step.pos = row->pos;
    c.step.tokens = row->tokens;
    return kernel_bench_run(bench, kernel, &c, why);
}

static enum bench_result embed_one(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct embed *e = ctx;
    const struct embed_row *row = e->row;
    size_t stride = row->hidden + row->x_pad, count = (size_t)row->tokens * row->hidden;
    float *x = nan_array(row->tokens * stride), *before = nan_array(row->tokens * stride);
    double *want = checked(dgl_new_array(double, count));
    enum bench_result result = BENCH_RAN;
    if (row->cut)
        result = embed_band(e, kernel, 0, row->cut, x, why);
    if (result == BENCH_RAN)
        result = embed_band(e, kernel, row->cut, row->vocab - row->cut, x, why);
    if (result == BENCH_RAN) {
        for (size_t i = 0; i < count; i++)
            want[i] =
                0.75 *
                e->table.values[e->ids[row->pos + i / row->hidden] * row->hidden + i % row->hidden];
        walk_rows_check(&(struct walk_rows){row->tokens, row->hidden, stride, before, x, want},
                        bench, kernel);
    }
    free(x);
    free(before);
    free(want);
    return result;
}

static void embed_looks_rows_up(void **state)
{
    struct embed e = {.row = *state};
    uint64_t seed = e.row->hidden;
    if (!bench)
        SKIP("%s: no GLES device", e.row->name);
    assert_true(ref_matrix_init(&e.table, e.row->type, NULL, e.row->vocab, e.row->hidden, seed));
    for (uint32_t i = 0; i < e.row->pos + e.row->tokens; i++)
        e.ids[i] = (uint32_t)(test_rand(&seed) % e.row->vocab);
    e.ids[e.row->pos] = e.row->vocab - 1;
    e.ids[e.row->pos + e.row->tokens - 1] = e.row->cut ? e.row->cut : e.row->vocab - 1;
    kernel_walk_case(&walks[EMBED], bench, e.row->name, embed_one, &e);
    ref_matrix_finish(&e.table);
}

/* ---- norm -------------------------------------------------------------------------------- */

static enum bench_result norm_one(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct norm_row *row = ctx;
    size_t x_stride = row->hidden + row->x_pad, y_stride = row->hidden + row->y_pad;
    uint64_t seed = row->hidden;
    float *x = nan_array(row->tokens * x_stride), *y = nan_array(row->tokens * y_stride);
    float *before = nan_array(row->tokens * y_stride), *gain = nan_array(row->hidden);
    double *want = checked(dgl_new_array(double, (size_t)row->tokens * row->hidden));
    double *wide = checked(dgl_new_array(double, 2u * row->hidden));
    ref_fill(gain, row->hidden, &seed);
    for (uint32_t t = 0; t < row->tokens; t++) {
        float *token = x + t * x_stride;
        ref_fill(token, row->hidden, &seed);
        for (uint32_t i = 0; i < row->hidden; i++) {
            token[i] *= t % 3 == 2 ? 1e-3f : 3.0f; /* also where eps matters */
            wide[i] = token[i];
            wide[row->hidden + i] = gain[i];
        }
        ref_norm(wide, wide + row->hidden, row->hidden, 1e-5, want + t * row->hidden);
        if (row->add)
            ref_fill(y + t * y_stride, row->hidden, &seed);
        for (uint32_t i = 0; row->add && i < row->hidden; i++)
            want[t * row->hidden + i] += y[t * y_stride + i];
    }
    struct bench_case c = {.request.op = "norm", .step.tokens = row->tokens};
    bench_attr(&c, "post", row->add ? "add" : "store");
    bench_const(&c, "H", row->hidden);
    bench_const(&c, "X_STRIDE", (int64_t)x_stride);
    bench_const(&c, "Y_STRIDE", (int64_t)y_stride);
    bench_float(&c, "eps", 1e-5f);
    bench_in(&c, "X", x, row->tokens * x_stride);
    bench_in(&c, "G", gain, row->hidden);
    bench_inout(&c, "Y", y, y, row->tokens * y_stride);
    enum bench_result result = kernel_bench_run(bench, kernel, &c, why);
    if (result == BENCH_RAN)
        walk_rows_check(&(struct walk_rows){row->tokens, row->hidden, y_stride, before, y, want},
                        bench, kernel);
    float *const floats[] = {x, y, before, gain};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        free(floats[i]);
    free(want);
    free(wide);
    return result;
}

static void norm_divides_by_the_root_mean_square(void **state)
{
    const struct norm_row *row = *state;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    kernel_walk_case(&walks[NORM], bench, row->name, norm_one, *state);
}

/* ---- qk_norm ----------------------------------------------------------------------------- */

/* Units of a row of QKV one after the other: heads of q and k, or all of q and all of k. */
static void ref_qk_norm(const struct qk_row *row, const float *gain, const float *qkv, double *want)
{
    uint32_t units = row->all ? 2 : row->heads + row->kv_heads, at = 0;
    double *wide = checked(dgl_new_array(double, 2u * row->heads * row->head_dim));
    for (uint32_t u = 0; u < units; u++) {
        bool is_q = u < (row->all ? 1 : row->heads);
        uint32_t heads = !row->all ? 1 : is_q ? row->heads : row->kv_heads;
        uint32_t count = heads * row->head_dim;
        const float *g = gain + (is_q ? 0 : (row->all ? row->heads : 1) * row->head_dim);
        for (uint32_t i = 0; i < count; i++) {
            wide[i] = qkv[at + i];
            wide[count + i] = g[i];
        }
        ref_norm(wide, wide + count, count, 1e-5, want + at);
        at += count;
    }
    free(wide);
}

static enum bench_result qk_one(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct qk_row *row = ctx;
    size_t turned = (size_t)(row->heads + row->kv_heads) * row->head_dim;
    size_t stride = turned + (size_t)row->kv_heads * row->head_dim + row->pad;
    size_t gains = (size_t)(row->all ? row->heads + row->kv_heads : 2) * row->head_dim;
    uint64_t seed = turned;
    float *qkv = nan_array(row->tokens * stride), *before = nan_array(row->tokens * stride);
    float *gain = nan_array(gains);
    double *want = checked(dgl_new_array(double, row->tokens *turned));
    ref_fill(gain, gains, &seed);
    for (uint32_t t = 0; t < row->tokens; t++) {
        ref_fill(qkv + t * stride, turned, &seed);
        ref_qk_norm(row, gain, qkv + t * stride, want + t * turned);
    }
    memcpy(before, qkv, row->tokens * stride * sizeof(*qkv));
    struct bench_case c = {.request.op = "qk_norm", .step.tokens = row->tokens};
    bench_attr(&c, "span", row->all ? "all" : "head");
    bench_const(&c, "HEADS", row->heads);
    bench_const(&c, "KV_HEADS", row->kv_heads);
    bench_const(&c, "HEAD_DIM", row->head_dim);
    bench_const(&c, "QKV_STRIDE", (int64_t)stride);
    bench_float(&c, "eps", 1e-5f);
    bench_in(&c, "G", gain, gains);
    bench_inout(&c, "QKV", qkv, qkv, row->tokens * stride);
    enum bench_result result = kernel_bench_run(bench, kernel, &c, why);
    if (result == BENCH_RAN)
        walk_rows_check(&(struct walk_rows){row->tokens, turned, stride, before, qkv, want}, bench,
                        kernel);
    free(qkv);
    free(before);
    free(gain);
    free(want);
    return result;
}

static void qk_norm_leaves_values_alone(void **state)
{
    const struct qk_row *row = *state;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    kernel_walk_case(&walks[QK_NORM], bench, row->name, qk_one, *state);
}

/* ---- synth ------------------------------------------------------------------------------- */

static enum bench_result synth_fill(const struct synth_row *row, const char *kernel, uint32_t seed,
                                    const struct ref_matrix *shape, uint32_t *words,
                                    char why[BENCH_WHY])
{
    struct bench_case c = {.request.op = "synth", .band = row->rows, .step.tokens = 1};
    bench_attr(&c, "weight", dgl_dtype_get(row->type)->name);
    bench_const(&c, "K", row->cols);
    bench_const(&c, "W_STRIDE", (int64_t)shape->row_words);
    bench_uint(&c, "rows", row->rows);
    bench_uint(&c, "seed", seed);
    bench_out(&c, "W", words, row->rows * shape->row_words);
    return kernel_bench_run(bench, kernel, &c, why);
}

/* Mean and deviation of one column block of 32 and of all: no block may be constant, none may be
 * shifted. */
static void check_spread(const struct synth_row *row, const double *values)
{
    double sum = 0.0, squares = 0.0, count = (double)row->rows * row->cols;
    for (size_t i = 0; i < (size_t)row->rows * row->cols; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    assert_near(sum / count, 0.0, 0.002);
    assert_near(sqrt(squares / count), 0.02, 0.004);
    for (size_t b = 0; b + 32 <= row->cols; b += 32) {
        double block = 0.0;
        for (size_t r = 0; r < row->rows; r++)
            for (size_t i = 0; i < 32; i++)
                block += values[r * row->cols + b + i] * values[r * row->cols + b + i];
        assert_near(sqrt(block / (32.0 * row->rows)), 0.02, 0.006);
    }
}

static enum bench_result synth_one(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct synth_row *row = ctx;
    struct ref_matrix m;
    assert_true(ref_matrix_init(&m, row->type, NULL, row->rows, row->cols, 1));
    size_t words = row->rows * m.row_words;
    uint32_t *again = checked(dgl_new_array(uint32_t, words));
    uint32_t *other = checked(dgl_new_array(uint32_t, words));
    enum bench_result result = synth_fill(row, kernel, 1, &m, m.packed, why);
    if (result == BENCH_RAN)
        result = synth_fill(row, kernel, 1, &m, again, why);
    if (result == BENCH_RAN)
        result = synth_fill(row, kernel, 2, &m, other, why);
    if (result == BENCH_RAN) {
        assert_memory_equal(m.packed, again, 4 * words);
        assert_memory_not_equal(m.packed, other, 4 * words);
        assert_true(ref_matrix_decode_packed(&m));
        check_spread(row, m.values);
    }
    free(again);
    free(other);
    ref_matrix_finish(&m);
    return result;
}

static void synth_makes_plausible_weights(void **state)
{
    const struct synth_row *row = *state;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    kernel_walk_case(&walks[SYNTH], bench, row->name, synth_one, *state);
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
