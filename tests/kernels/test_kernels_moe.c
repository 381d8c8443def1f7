/*
 * Every kernel of moe_matmul that this device can run, on every weight format, against sums in
 * doubles: odd sizes, experts cut by bands, all tokens on one expert, experts without tokens, NaN
 * where results go, guard words around all buffers.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/oracle_ops.h"
#include "kernels/format/kernel_format.h"
#include "tests/support/kernel_walk.h"
#include "core/oracle/ref_ops.h"
#include "core/oracle/ref_ops.h"

#define ALPHA 1.702f
#define LIMIT 0.6f /* low: about half of what the tests compute meets it */

/* Who is chosen: experts in turn, or always the first top_k but one left out. */
enum choices { SPREAD, SAME };

/* What is asked, apart from the weight's format. */
struct shape {
    const char *phase, *post, *act, *bias;
    uint32_t k, n, experts, top_k, tokens; /* n: rows of one expert */
    enum choices choices;
    uint32_t cuts[3]; /* rows of the matrix at which a band ends, 0 = none */
    uint32_t x_pad, y_pad;
    const char *formats; /* weight formats to try */
};

static const struct shape shapes[] = {
    {"decode", "glu", "silu", "none", .k = 4, .n = 2, .experts = 1, .top_k = 1, .tokens = 1,
     .formats = "f32 f16"},
    {"decode", "glu", "silu", "none", .k = 64, .n = 224, .experts = 8, .top_k = 2, .tokens = 1,
     .x_pad = 4, .formats = "f32 bf16 q4_k mxfp4"},
    {"decode", "glu", "swiglu_clamp", "row", .k = 96, .n = 34, .experts = 5, .top_k = 5,
     .tokens = 1, .cuts = {36, 102}, .y_pad = 3, .formats = "bf16 q8_0 q6_k mxfp4 affine"},
    {"decode", "glu", "silu", "row", .k = 260, .n = 130, .experts = 3, .top_k = 2, .tokens = 1,
     .cuts = {130}, .formats = "f32 q4_k q5_k q4_0"},
    {"decode", "glu", "silu", "none", .k = 2056, .n = 18, .experts = 4, .top_k = 2, .tokens = 1,
     .formats = "f16 q8_0 q6_k"},
    {"decode", "combine", "none", "none", .k = 112, .n = 64, .experts = 8, .top_k = 2, .tokens = 1,
     .formats = "f32 f16 bf16 q4_0"},
    {"decode", "combine", "none", "row", .k = 68, .n = 97, .experts = 5, .top_k = 4, .tokens = 1,
     .cuts = {50, 291}, .x_pad = 8, .y_pad = 4, .formats = "f32 bf16 q8_0 mxfp4 affine"},
    {"decode", "combine", "none", "none", .k = 512, .n = 70, .experts = 6, .top_k = 4, .tokens = 1,
     .cuts = {256}, .formats = "q4_k q6_k"},
    {"decode", "combine", "none", "none", .k = 768, .n = 256, .experts = 6, .top_k = 6, .tokens = 1,
     .formats = "bf16 q5_k affine"},
    {"decode", "combine", "none", "row", .k = 4352, .n = 20, .experts = 3, .top_k = 2, .tokens = 1,
     .formats = "f16 q4_k mxfp4"},
    {"prefill", "glu", "silu", "none", .k = 4, .n = 2, .experts = 1, .top_k = 1, .tokens = 1,
     .formats = "f32 f16"},
    {"prefill", "glu", "silu", "none", .k = 64, .n = 224, .experts = 8, .top_k = 2, .tokens = 7,
     .x_pad = 4, .formats = "f32 bf16 q6_k"},
    {"prefill", "glu", "swiglu_clamp", "row", .k = 96, .n = 34, .experts = 5, .top_k = 5,
     .tokens = 33, .cuts = {36, 102}, .y_pad = 3, .formats = "bf16 q8_0 mxfp4 affine"},
    {"prefill", "glu", "silu", "row", .k = 256, .n = 258, .experts = 7, .top_k = 3, .tokens = 100,
     .choices = SAME, .cuts = {900}, .formats = "q8_0 q4_k"},
    {"prefill", "store", "none", "none", .k = 112, .n = 64, .experts = 8, .top_k = 2, .tokens = 65,
     .formats = "f32 f16 q4_0"},
    {"prefill", "store", "none", "row", .k = 68, .n = 97, .experts = 5, .top_k = 4, .tokens = 9,
     .cuts = {50, 291}, .x_pad = 8, .y_pad = 4, .formats = "f32 bf16 mxfp4 affine"},
    {"prefill", "store", "none", "row", .k = 260, .n = 33, .experts = 100, .top_k = 2, .tokens = 5,
     .cuts = {33, 34, 1000}, .formats = "bf16 q5_k"},
    {"prefill", "store", "none", "none", .k = 1152, .n = 40, .experts = 4, .top_k = 1,
     .tokens = 130, .choices = SAME, .formats = "f16 q8_0 q4_k"},
};
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct row {
    const char *name;
    struct shape shape;
    enum dgl_dtype weight;
};

static struct kernel_bench *bench;
enum { SHARE = 4 }; /* of the rows in a sample */

static struct kernel_walk experts = {.op = "moe_matmul", .excuses = WALK_DEVICE_LACKS};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* ---- one problem ------------------------------------------------------------------------- */

struct problem {
    struct shape s;
    struct ref_matrix w;
    uint32_t pairs, x_rows, x_stride;
    float scale;
    float *x;
    float *bias; /* [experts * n] */
    uint32_t *ids, *route, *list;
    float *share; /* the weights in `route` */
    struct walk_rows y;
};

static bool is_decode(const struct problem *p)
{
    return is(p->s.phase, "decode");
}

static void fill_route(struct problem *p, uint64_t *seed)
{
    const struct shape *s = &p->s;
    for (uint32_t i = 0; i < p->pairs; i++) {
        uint32_t first = s->choices == SAME ? 1 : (uint32_t)(i / s->top_k * 7);
        p->ids[i] = (first + i % s->top_k) % s->experts;
        p->share[i] = 0.1f + fabsf(test_rand_float(seed));
        p->route[2 * i] = p->ids[i];
        memcpy(&p->route[2 * i + 1], &p->share[i], sizeof(p->share[i]));
    }
    ref_moe_group(p->ids, s->tokens, s->top_k, s->experts, p->list);
}

/* Row `r` of expert `e` with the x that belongs to a pair. */
static double product(const struct problem *p, uint32_t pair, uint32_t e, uint32_t r)
{
    const struct shape *s = &p->s;
    bool shared = is(s->post, "glu");
    const float *x = p->x + (size_t)(shared ? pair / s->top_k : pair) * p->x_stride;
    const double *w = p->w.values + (size_t)(e * s->n + r) * s->k;
    double sum = is(s->bias, "row") ? (double)p->bias[e * s->n + r] : 0.0;
    for (uint32_t k = 0; k < s->k; k++)
        sum += w[k] * x[k];
    return sum;
}

static void ref_result(struct problem *p)
{
    const struct shape *s = &p->s;
    for (uint32_t y = 0; y < p->y.rows; y++)
        for (uint32_t i = 0; i < p->y.cols; i++) {
            double *want = &p->y.want[y * p->y.cols + i];
            uint32_t e = p->ids[y];
            if (is(s->post, "glu"))
                *want = oracle_glu(is(s->act, "silu") ? MODEL_ACT_SILU : MODEL_ACT_SWIGLU_CLAMP,
                                   product(p, y, e, 2 * i), product(p, y, e, 2 * i + 1),
                                   (double)ALPHA, (double)LIMIT);
            else if (is(s->post, "store"))
                *want = product(p, y, e, i);
            else
                *want = p->y.before[i];
            for (uint32_t c = 0; c < s->top_k && is(s->post, "combine"); c++)
                *want += (double)p->scale * p->share[c] * product(p, c, p->ids[c], i);
        }
}

static void problem_fill(struct problem *p, uint64_t *seed)
{
    const struct shape *s = &p->s;
    float size = is(s->post, "glu") ? 0.1f : 1.0f; /* silu makes relative errors of absolute ones */
    for (size_t i = 0; i < (size_t)p->x_rows * p->x_stride; i++)
        p->x[i] = i % p->x_stride < s->k ? size * test_rand_float(seed) : NAN;
    walk_rows_init(&p->y, is(s->post, "combine"), seed);
    ref_fill(p->bias, (size_t)s->experts * s->n, seed);
    fill_route(p, seed);
}

static void problem_init(struct problem *p, const struct row *row)
{
    const struct shape *s = &row->shape;
    uint64_t seed = 1000003u * s->k + s->n;
    bool glu = is(s->post, "glu");
    *p = (struct problem){.s = *s, .pairs = s->tokens * s->top_k, .scale = 0.7f};
    p->x_rows = glu ? s->tokens : p->pairs;
    p->x_stride = s->k + s->x_pad;
    p->y.rows = is(s->post, "combine") ? 1 : p->pairs;
    p->y.cols = glu ? s->n / 2 : s->n;
    p->y.stride = p->y.cols + s->y_pad;
    assert_true(ref_matrix_init(&p->w, row->weight, NULL, (uint64_t)s->experts * s->n, s->k, seed));
    p->x = checked(dgl_new_array(float, (size_t)p->x_rows * p->x_stride));
    p->bias = checked(dgl_new_array(float, (size_t)s->experts * s->n));
    p->ids = checked(dgl_new_array(uint32_t, p->pairs));
    p->share = checked(dgl_new_array(float, p->pairs));
    p->route = checked(dgl_new_array(uint32_t, 2ull * p->pairs));
    p->list = checked(dgl_new_array(uint32_t, s->experts + 1ull + p->pairs));
    problem_fill(p, &seed);
    ref_result(p);
}

static void problem_finish(struct problem *p)
{
    ref_matrix_finish(&p->w);
    free(p->x);
    free(p->bias);
    free(p->ids);
    free(p->share);
    free(p->route);
    free(p->list);
    walk_rows_finish(&p->y);
}

/* ---- running it -------------------------------------------------------------------------- */

static void describe(const struct problem *p, struct bench_case *c)
{
    const struct shape *s = &p->s;
    *c = (struct bench_case){.request.op = "moe_matmul", .step.tokens = s->tokens};
    bench_attr(c, "weight", dgl_dtype_get(p->w.type)->name);
    bench_attr(c, "phase", s->phase);
    bench_attr(c, "post", s->post);
    bench_attr(c, "act", s->act);
    bench_attr(c, "bias", s->bias);
    if (is(s->phase, "prefill")) {
        bench_attr(c, "columns", s->tokens > 64 ? "256" : "64");
        bench_const(c, "COLUMNS", s->tokens > 64 ? 256 : 64);
    }
    bench_const(c, "K", s->k);
    bench_const(c, "N", (int64_t)p->w.rows);
    bench_const(c, "EXPERT_ROWS", s->n);
    bench_const(c, "E", s->experts);
    bench_const(c, "TOP_K", s->top_k);
    bench_const(c, "W_STRIDE", (int64_t)p->w.row_words);
    bench_const(c, "X_STRIDE", p->x_stride);
    bench_const(c, "Y_STRIDE", (int64_t)p->y.stride);
    bench_float(c, "scale", p->scale);
    bench_float(c, "act_alpha", ALPHA);
    bench_float(c, "act_limit", LIMIT);
}

/* Rows [row0, row0 + rows) with their biases behind them, in whole vec4s. */
static uint32_t *band_words(const struct problem *p, uint32_t row0, uint32_t rows, size_t *words)
{
    size_t matrix = (size_t)rows * p->w.row_words, bias = is(p->s.bias, "row") ? rows : 0;
    *words = (matrix + bias + 3) / 4 * 4;
    uint32_t *band = checked(dgl_new_array(uint32_t, *words));
    memcpy(band, p->w.packed + row0 * p->w.row_words, 4 * matrix);
    memcpy(band + matrix, p->bias + row0, 4 * bias);
    return band;
}

static enum bench_result run_band(struct problem *p, const char *kernel, uint32_t row0,
                                  uint32_t rows, char why[BENCH_WHY])
{
    struct bench_case c;
    size_t words;
    uint32_t *band = band_words(p, row0, rows, &words);
    describe(p, &c);
    bench_uint(&c, "row0", row0);
    bench_uint(&c, "rows", rows);
    bench_in(&c, "W", band, words);
    bench_in(&c, "X", p->x, (size_t)p->x_rows * p->x_stride);
    bench_inout(&c, "Y", p->y.after, p->y.after, p->y.rows * p->y.stride);
    if (is_decode(p))
        bench_in(&c, "ROUTE", p->route, 2ull * p->pairs);
    else
        bench_in(&c, "LIST", p->list, p->s.experts + 1ull + p->pairs);
    c.band = rows;
    enum bench_result result = kernel_bench_run(bench, kernel, &c, why);
    free(band);
    return result;
}

static enum bench_result try_kernel(void *ctx, const char *name, char why[BENCH_WHY])
{
    struct problem *p = ctx;
    uint32_t row0 = 0, last = (uint32_t)p->w.rows;
    memcpy(p->y.after, p->y.before, p->y.rows * p->y.stride * sizeof(*p->y.after));
    for (uint32_t i = 0; row0 < last; i++) {
        uint32_t end = i < 3 && p->s.cuts[i] ? p->s.cuts[i] : last;
        enum bench_result result = run_band(p, name, row0, end - row0, why);
        if (result != BENCH_RAN)
            return result;
        row0 = end;
    }
    walk_rows_check(&p->y, bench, name);
    return BENCH_RAN;
}

static void experts_agree_with_doubles(void **state)
{
    const struct row *row = *state;
    struct problem p;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    problem_init(&p, row);
    kernel_walk_case(&experts, bench, row->name, try_kernel, &p);
    problem_finish(&p);
}

/* ---- names ------------------------------------------------------------------------------- */

static char names[NUM_SHAPES * REF_TYPES][96];
static struct row rows[NUM_SHAPES * REF_TYPES];

/* Fills `rows` and returns how many there are; `bands_only`: some that are cut, for the smallest
 * device that GLES 3.1 allows. */
static size_t name_rows(bool bands_only)
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_SHAPES * REF_TYPES; i++) {
        const struct shape *s = &shapes[i / REF_TYPES];
        const char *format = dgl_dtype_get(ref_types[i % REF_TYPES])->name;
        if (!kernel_word_in(s->formats, format) ||
            (bands_only && !(s->cuts[0] && kernel_word_in("bf16 mxfp4", format))))
            continue;
        snprintf(names[count], sizeof(names[0]), "%s%s_%s_%s_%s_k%u_n%u_%uof%u_t%u",
                 bands_only ? "floor_" : "", s->phase, format, s->post, s->act, s->k, s->n,
                 s->top_k, s->experts, s->tokens);
        rows[count] = (struct row){names[count], *s, ref_types[i % REF_TYPES]};
        count++;
    }
    return count;
}

static void every_kernel_was_tested(void **state)
{
    (void)state;
    kernel_walk_complete(
        &experts, 1, bench,
        &(struct walk_table){experts_agree_with_doubles, rows, name_rows(false), sizeof(rows[0])});
    kernel_walk_check(&experts, bench);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(every_kernel_was_tested)};
    bench = kernel_bench_create(false);
    size_t count = name_rows(false);
    int failures = test_run_rows_sample("moe_matmul", experts_agree_with_doubles, rows, count,
                                        sizeof(rows[0]), SHARE);
    failures += cmocka_run_group_tests_name("kernels", others, NULL, NULL);
    kernel_bench_destroy(&bench);
    bench = kernel_bench_create(true);
    count = name_rows(true);
    failures += test_run_rows_sample("floor", experts_agree_with_doubles, rows, count,
                                     sizeof(rows[0]), SHARE);
    kernel_bench_destroy(&bench);
    return failures;
}
