/* Every matmul kernel that this device can run, on every weight format, compared with sums in
 * doubles: odd sizes, bands of rows, strides longer than the row with NaN in the gaps, NaN in the
 * result buffer, guard words around all buffers. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/op_problem.h"
#include "core/oracle/ref_ops.h"
#include "kernels/format/kernel_format.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/kernel_walk.h"

/* A request, without the weight's format. */
struct shape {
    const char *phase, *pre, *post;
    uint32_t k, n, tokens;
    uint32_t bands;        /* dispatches that share the rows; 0 counts as 1 */
    uint32_t x_pad, y_pad; /* columns between rows */
    bool x_last;
    const char *formats; /* weight formats to try; NULL = all */
    const char *act;     /* with post=glu; NULL = silu */
    bool bias, gain;     /* A contains a gain, also if the kernel does not apply it */
    bool scaled;         /* out_scale */
};

/* Types that represent similar ones, for expensive shapes. */
#define SOME "f32 f16 bf16 q8_0 q4_k"
/* Types of which only some shapes are tried. */
#define NEW "q5_0 q4_1 q5_1 q2_k q3_k iq4_nl iq4_xs"

static const struct shape shapes[] = {
    {"decode", "none", "store", .k = 4, .n = 1, .tokens = 1, .y_pad = 4, .formats = SOME},
    {"decode", "none", "add", .k = 36, .n = 3, .tokens = 1, .x_pad = 8},
    {"decode", "norm", "store", .k = 96, .n = 5, .tokens = 1, .bands = 2, .formats = SOME},
    {"decode", "norm", "glu", .k = 80, .n = 10, .tokens = 1, .bands = 2},
    {"decode", "none", "add", .k = 256, .n = 257, .tokens = 4, .x_last = true, .x_pad = 4,
     .y_pad = 12, .formats = "q8_0"},
    {"decode", "norm", "glu", .k = 260, .n = 64, .tokens = 1, .formats = "f32 q4_k"},
    {"decode", "norm", "store", .k = 256, .n = 1000, .tokens = 7, .x_last = true, .bands = 3,
     .formats = "f16 q4_k"},
    {"decode", "none", "add", .k = 768, .n = 130, .tokens = 1,
     .formats = "q8_0 q4_k q4_0 q5_k q6_k mxfp4 " NEW},
    {"decode", "none", "add", .k = 256, .n = 64, .tokens = 1, .formats = "q4_k"},
    {"decode", "none", "store", .k = 96, .n = 33, .tokens = 1, .formats = SOME},
    {"decode", "none", "store", .k = 1152, .n = 257, .tokens = 1, .bands = 2},
    {"decode", "norm", "glu", .k = 2048, .n = 64, .tokens = 1, .formats = SOME},
    {"decode", "norm", "store", .k = 4352, .n = 70, .tokens = 1},
    {"decode", "none", "add", .k = 14336, .n = 20, .tokens = 1}, /* x staged in rounds */
    {"decode", "join_norm", "store", .k = 4, .n = 1, .tokens = 1, .formats = SOME},
    {"decode", "join_norm", "glu", .k = 260, .n = 66, .tokens = 1, .bands = 2, .act = "gelu"},
    {"decode", "join", "store", .k = 1152, .n = 257, .tokens = 1, .formats = "q4_k q8_0"},
    {"decode", "join", "store", .k = 96, .n = 33, .tokens = 1, .bias = true, .formats = "bf16"},
    {"decode", "join_norm", "store", .k = 4352, .n = 70, .tokens = 1, .bias = true,
     .formats = "f16 q4_k q6_k"},
    {"prefill", "none", "store", .k = 4, .n = 1, .tokens = 1, .y_pad = 4, .formats = SOME},
    {"prefill", "none", "add", .k = 36, .n = 3, .tokens = 2, .x_pad = 8, .formats = SOME},
    {"prefill", "none", "glu", .k = 80, .n = 10, .tokens = 3, .bands = 2},
    {"prefill", "none", "store", .k = 96, .n = 5, .tokens = 7, .x_pad = 4, .y_pad = 8,
     .formats = SOME},
    {"prefill", "none", "add", .k = 256, .n = 64, .tokens = 16, .x_pad = 4, .formats = "q4_k"},
    {"prefill", "none", "glu", .k = 256, .n = 258, .tokens = 33, .bands = 2, .y_pad = 3,
     .formats = "q8_0 q4_k"},
    {"prefill", "none", "store", .k = 260, .n = 257, .tokens = 64, .bands = 2, .formats = "q4_k"},
    {"prefill", "none", "add", .k = 768, .n = 132, .tokens = 9, .formats = "q4_k q6_k mxfp4 " NEW},
    {"prefill", "none", "store", .k = 1152, .n = 257, .tokens = 7},
    {"prefill", "none", "glu", .k = 2048, .n = 1000, .tokens = 3, .bands = 2, .formats = SOME},
    {"prefill", "none", "store", .k = 260, .n = 67, .tokens = 2, .x_pad = 4},
    {"prefill", "none", "glu", .k = 1152, .n = 34, .tokens = 3, .bands = 2, .y_pad = 3},
    {"prefill", "none", "store", .k = 512, .n = 301, .tokens = 4},
    {"prefill", "none", "add", .k = 768, .n = 33, .tokens = 5, .bias = true},
    {"prefill", "none", "add", .k = 2304, .n = 71, .tokens = 8, .bands = 2},
    {"decode", "norm", "store", .k = 80, .n = 70, .tokens = 1, .bands = 2, .bias = true,
     .formats = "f32 q4_k"},
    {"decode", "none", "add", .k = 112, .n = 33, .tokens = 1, .bias = true, .scaled = true,
     .formats = "f16 bf16"},
    {"decode", "none", "add", .k = 96, .n = 64, .tokens = 1, .scaled = true, .formats = "q8_0"},
    {"decode", "norm", "glu", .k = 96, .n = 36, .tokens = 1, .act = "gelu", .formats = "bf16 q8_0"},
    {"decode", "norm", "glu", .k = 36, .n = 10, .tokens = 1, .bands = 2, .bias = true,
     .act = "gelu", .formats = "f32"},
    {"decode", "norm", "softcap", .k = 72, .n = 320, .tokens = 3, .x_last = true, .bands = 2,
     .scaled = true, .formats = "bf16"},
    {"decode", "norm", "softcap", .k = 4096, .n = 34, .tokens = 1, .bias = true, .formats = "q4_k"},
    {"prefill", "none", "store", .k = 80, .n = 67, .tokens = 9, .bands = 2, .bias = true,
     .gain = true, .formats = "f32 q4_k"},
    {"prefill", "none", "add", .k = 112, .n = 33, .tokens = 5, .bias = true, .scaled = true,
     .y_pad = 4, .formats = "f16 bf16"},
    {"prefill", "none", "glu", .k = 96, .n = 36, .tokens = 7, .bias = true, .gain = true,
     .bands = 2, .formats = "q8_0"},
    {"prefill", "none", "glu", .k = 160, .n = 130, .tokens = 7, .act = "gelu",
     .formats = "bf16 q4_k"},
    {"prefill", "none", "softcap", .k = 72, .n = 320, .tokens = 6, .scaled = true,
     .formats = "bf16"},
};
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct row {
    const char *name;
    struct shape shape;
    enum dgl_dtype weight;
};

static struct kernel_bench *bench;
enum { SHARE = 6 }; /* of the rows in a sample */

static struct kernel_walk products = {.op = "matmul", .excuses = WALK_DEVICE_LACKS};

/* ---- cases ----------------------------------------------------------------------------------- */

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool joins(const struct shape *s)
{
    return strncmp(s->pre, "join", 4) == 0;
}

static void describe(const struct row *row, struct kernel_case *c)
{
    const struct shape *s = &row->shape;
    const uint32_t cols = is(s->post, "glu") ? s->n / 2 : s->n;
    *c = (struct kernel_case){.request.op = "matmul",
                              .tokens = s->tokens,
                              .bands = s->bands,
                              .seed = 1000003u * s->k + s->n};
    request_set(&c->request, "weight", dgl_dtype_get(row->weight)->name);
    request_set(&c->request, "phase", s->phase);
    request_set(&c->request, "pre", s->pre);
    request_set(&c->request, "post", s->post);
    if (is(s->post, "glu"))
        request_set(&c->request, "act", s->act ? s->act : "silu");
    request_set(&c->request, "bias", s->bias ? "row" : "none");
    request_set_const(&c->request, "K", s->k);
    request_set_const(&c->request, "N", s->n);
    request_set_const(&c->request, "X_STRIDE", s->k + s->x_pad);
    request_set_const(&c->request, "Y_STRIDE", cols + s->y_pad);
    request_set_const(&c->request, "X_LAST", s->x_last);
    request_set_const(&c->request, "SCALED", s->scaled);
    if (s->gain)
        request_set_const(&c->request, "BIAS_AT", (s->k + 3) / 4 * 4);
}

static void products_agree_with_doubles(void **state)
{
    const struct row *row = *state;
    struct kernel_case c;
    describe(row, &c);
    kernel_walk_judge(&products, bench, row->name, &c);
}

/* ---- names ------------------------------------------------------------------------------- */

static char names[NUM_SHAPES * REF_MOST_TYPES][96];
static struct row rows[NUM_SHAPES * REF_MOST_TYPES];

/* Fills `rows` and returns their number. If `only_k` is not 0, only rows of that K, for the
 * smallest device that GLES 3.1 allows. */
static size_t name_rows(uint32_t only_k)
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_SHAPES * ref_types(); i++) {
        const struct shape *s = &shapes[i / ref_types()];
        const char *format = dgl_dtype_get(ref_type(i % ref_types()))->name;
        if ((s->formats && !kernel_word_in(s->formats, format)) ||
            (only_k && (s->k != only_k || joins(s))))
            continue;
        snprintf(names[count], sizeof(names[0]), "%s%s_%s_%s_%s%s%s%s_k%u_n%u_t%u",
                 only_k ? "floor_" : "", s->phase, format, s->pre, s->post, s->act ? "_gelu" : "",
                 s->bias ? "_bias" : "", s->scaled ? "_scaled" : "", s->k, s->n, s->tokens);
        rows[count] = (struct row){names[count], *s, ref_type(i % ref_types())};
        count++;
    }
    return count;
}

/* ---- the floor: no device needed --------------------------------------------------------- */

static void the_smallest_device_runs_every_product(void **state)
{
    static const char *const kinds[][2] = {
        {"decode", "none"}, {"decode", "norm"}, {"prefill", "none"}};
    static const char *const posts[] = {"store", "add", "glu", "softcap"};
    static const struct kernel_var consts[] = {
        {"K", 1152}, {"N", 257}, {"W_STRIDE", 180}, {"X_STRIDE", 1152}, {"Y_STRIDE", 9},
    };
    struct kernel_set *set = loaded_set(NULL);
    (void)state;
    for (size_t i = 0; i < ref_types() * 3 * 4; i++) {
        const char *phase = kinds[i % 3][0], *pre = kinds[i % 3][1], *post = posts[i / 3 % 4];
        struct kernel_choice choice;
        struct kernel_request request = {
            .op = "matmul",
            .attrs = {{"weight", dgl_dtype_get(ref_type(i / 12))->name},
                      {"phase", phase},
                      {"pre", pre},
                      {"post", post},
                      {"act", is(post, "glu") ? "gelu" : "none"},
                      {"bias", "row"}},
            .num_attrs = 6,
            .num_consts = sizeof(consts) / sizeof(consts[0]),
        };
        memcpy(request.consts, consts, sizeof(consts));
        if (kernel_choose(NULL, set, &request, NULL, 0, &choice) != DGL_OK)
            fail_msg("nothing runs %s %s %s %s", phase, request.attrs[0].word, pre, post);
    }
    kernel_set_destroy(&set);
}

/* ---- sums that depend only on the numbers ------------------------------------------------- */

#define TUNED "matmul_decode_subgroup"

static const struct shape tuned_shapes[] = {
    {"decode", "norm", "store", .k = 2304, .n = 70, .tokens = 1, .formats = SOME " q6_k"},
    {"decode", "none", "glu", .k = 1152, .n = 258, .tokens = 1, .bands = 2,
     .formats = "q4_k mxfp4"},
    {"decode", "norm", "add", .k = 1088, .n = 600, .tokens = 1, .formats = SOME " q4_0 q5_0 q6_k"},
};

/* One subgroup or many, one row at a time or four, one pass or several, few groups or many. Only
 * the tunable TAIL changes the order of a sum. */
static const struct {
    int wg_size, unroll, least, unit_groups;
} tunings[] = {{64, 1, 2, 16}, {128, 4, 32, 1}, {96, 2, 8, 2}};

static void sums_do_not_depend_on_tunables(void **state)
{
    const size_t count = sizeof(tunings) / sizeof(tunings[0]);
    const struct op_rule *rule = op_rule_find("matmul");
    enum bench_result result = BENCH_RAN;
    char hint[256], why[BENCH_WHY] = "";
    (void)state;
    if (!bench)
        SKIP("no GLES device");
    struct kernel_bench *tuned = checked(kernel_bench_create(false));
    for (size_t i = 0; i < sizeof(tuned_shapes) / sizeof(tuned_shapes[0]) * ref_types(); i++) {
        struct row row = {"tuned", tuned_shapes[i / ref_types()], ref_type(i % ref_types())};
        struct kernel_case c;
        if (!kernel_word_in(row.shape.formats, dgl_dtype_get(row.weight)->name))
            continue;
        describe(&row, &c);
        struct problem p = {.seed = c.seed};
        rule->make(&p, &c);
        assert_false(p.failed);
        const struct problem_buffer *y = problem_buffer(&p, "Y");
        uint32_t *first = checked(dgl_new_array(uint32_t, y->words));
        bool has_first = false;
        for (size_t both = 0; both < 2 * count && result == BENCH_RAN; both++) {
            size_t t = both % count;
            has_first &= t > 0;
            snprintf(hint, sizeof(hint),
                     "{\"tunes\": {\"" TUNED ".WG_SIZE\": %d, \"" TUNED ".UNROLL\": %d, \"" TUNED
                     ".LEAST\": %d, \"" TUNED ".UNIT_GROUPS\": %d, \"" TUNED ".TAIL\": %d}}",
                     tunings[t].wg_size, tunings[t].unroll, tunings[t].least,
                     tunings[t].unit_groups, both >= count && row.weight != DGL_Q6_K);
            assert_true(kernel_bench_hint(tuned, hint));
            result = kernel_bench_solve(tuned, TUNED, &p, why);
            if (both >= count && result == BENCH_CANNOT) { /* needs all of x at once */
                result = BENCH_RAN;
                continue;
            }
            if (result != BENCH_RAN)
                break;
            double worst = 0;
            if (!problem_check(&p, 1e-12, &worst, why))
                fail_msg("%s: %s", hint, why);
            if (!has_first)
                memcpy(first, y->after, 4 * y->words);
            has_first = true;
            for (size_t j = 0; j < y->words; j++)
                if (first[j] != y->after[j])
                    fail_msg("%s %s: word %zu of Y is %08x, with %s %08x", row.shape.post,
                             dgl_dtype_get(row.weight)->name, j, first[j], hint, y->after[j]);
        }
        free(first);
        problem_finish(&p);
    }
    kernel_bench_destroy(&tuned);
    if (result == BENCH_FAILED)
        fail_msg("%s", why);
    if (result == BENCH_CANNOT)
        SKIP("%s", why); /* every_kernel_was_tested judges the reason */
}

/* ---- parts of K ---------------------------------------------------------------------------- */

/* Kernels that split K, their columns, the tunable for the number of parts (few and many), and two
 * numbers of tokens. The results are the same with a norm, whose weights are stored after x. */
struct cut_case {
    const char *name, *columns, *tune;
    int whole, parts;
    uint32_t tokens, fewer;
    const char *pre;
    double tolerance;
};
static const struct cut_case cuts[] = {
    {"matmul_prefill_wide", "256", "CUT", 0, 3, 40, 23, "none", 3e-12},
    {"matmul_outer", "256", "CUT", 0, 3, 40, 23, "none", 3e-12},
    {"matmul_outer", "64", "CUT", 0, 3, 40, 40, "norm", 3e-12},
    {"matmul_outer", "32", "CUT", 0, 12, 30, 30, "norm", 3e-12},
    {"matmul_outer_mediump", "64", "CUT", 0, 6, 40, 40, "norm", 1e-5},
    {"matmul_outer_mediump", "32", "CUT", 0, 6, 30, 23, "none", 1e-5},
    {"matmul_outer_mediump", "256", "CUT", 0, 3, 40, 23, "none", 1e-5},
    {"matmul_lanes_subgroup", "32", "CUT", 0, 4, 30, 23, "none", 3e-12},
    {"matmul_ranges_subgroup", "8", "SLICE", 4, 1, 8, 5, "none", 3e-12},
    {"matmul_ranges_subgroup", "4", "SLICE", 4, 1, 4, 3, "none", 3e-12},
};

/* Returns Y of a case, computed with the kernel's tunable set to `cut`. Transferred. Returns NULL
 * if the kernel cannot run here, with the reason. */
static uint32_t *solve_cut(struct kernel_bench *cutting, const struct cut_case *kernel,
                           const struct shape *shape, int cut, char why[BENCH_WHY])
{
    const struct row row = {"cut", *shape, DGL_Q4_K};
    struct kernel_case c;
    char hint[96];
    describe(&row, &c);
    c.seed = 17;
    request_set(&c.request, "columns", kernel->columns);
    request_set_const(&c.request, "COLUMNS", atoi(kernel->columns));
    struct problem p = {.seed = c.seed};
    op_rule_find("matmul")->make(&p, &c);
    assert_false(p.failed);
    snprintf(hint, sizeof(hint), "{\"tunes\": {\"%s.%s\": %d}}", kernel->name, kernel->tune, cut);
    assert_true(kernel_bench_hint(cutting, hint));
    enum bench_result result = kernel_bench_solve(cutting, kernel->name, &p, why);
    uint32_t *y = NULL;
    if (result == BENCH_FAILED)
        fail_msg("%s", why);
    if (result == BENCH_RAN) {
        const struct problem_buffer *out = problem_buffer(&p, "Y");
        double worst = 0;
        if (!problem_check(&p, kernel->tolerance, &worst, why))
            fail_msg("%s, %u tokens: %s", hint, shape->tokens, why);
        y = checked(dgl_new_array(uint32_t, out->words));
        memcpy(y, out->after, 4 * out->words);
    }
    problem_finish(&p);
    return y;
}

/* The last row of tiles is cut, the others are complete. A token's results equal those of a pass
 * over fewer tokens, for any order of arrival. */
static void parts_of_k_are_joined(void **state)
{
    const struct cut_case *kernel = *state;
    const struct shape all = {"prefill", kernel->pre, "store",
                              .k = 768,  .n = 490,    .tokens = kernel->tokens};
    struct shape few = all;
    char why[BENCH_WHY] = "";
    size_t differ = 0;
    if (!bench)
        SKIP("no GLES device");
    few.tokens = kernel->fewer;
    struct kernel_bench *cutting = checked(kernel_bench_create(false));
    uint32_t *whole = solve_cut(cutting, kernel, &all, kernel->whole, why);
    uint32_t *cut = whole ? solve_cut(cutting, kernel, &all, kernel->parts, why) : NULL;
    uint32_t *again = cut ? solve_cut(cutting, kernel, &few, kernel->parts, why) : NULL;
    kernel_bench_destroy(&cutting);
    for (size_t j = 0; again && j < (size_t)all.n * all.tokens; j++)
        differ += whole[j] != cut[j];
    for (size_t j = 0; again && j < (size_t)all.n * few.tokens; j++)
        if (cut[j] != again[j])
            fail_msg("word %zu of Y is %08x, of fewer tokens %08x", j, cut[j], again[j]);
    if (again && differ == 0)
        fail_msg("no sum was cut");
    bool ran = again != NULL;
    free(whole);
    free(cut);
    free(again);
    if (!ran)
        SKIP("%s", why);
}

static void every_kernel_was_tested(void **state)
{
    (void)state;
    kernel_walk_complete(
        &products, 1, bench,
        &(struct walk_table){products_agree_with_doubles, rows, name_rows(0), sizeof(rows[0])});
    kernel_walk_check(&products, bench);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(every_kernel_was_tested),
        cmocka_unit_test(the_smallest_device_runs_every_product),
        cmocka_unit_test(sums_do_not_depend_on_tunables),
    };
    bench = kernel_bench_create(false);
    size_t count = name_rows(0);
    int failures = test_run_rows_sample("matmul", products_agree_with_doubles, rows, count,
                                        sizeof(rows[0]), SHARE);
    failures += cmocka_run_group_tests_name("kernels", others, NULL, NULL);
    failures += test_run_table("cut", parts_of_k_are_joined, cuts);
    kernel_bench_destroy(&bench);
    bench = kernel_bench_create(true);
    count = name_rows(1152);
    failures += test_run_rows_sample("floor", products_agree_with_doubles, rows, count,
                                     sizeof(rows[0]), SHARE);
    kernel_bench_destroy(&bench);
    return failures;
}
