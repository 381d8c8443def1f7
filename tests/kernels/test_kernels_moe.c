/* Every kernel of moe_matmul that this device can run, on every weight format, compared with sums
 * in doubles: odd sizes, experts split by bands, all tokens on one expert, experts without tokens,
 * NaN in the result buffer, guard words around all buffers. */
#include "tests/support/test.h"

#include "core/oracle/ref_ops.h"
#include "kernels/format/kernel_format.h"
#include "tests/support/kernel_walk.h"

/* The chosen experts (kernel_case.variant): in turn, or always the second and those after it. */
enum choices { SPREAD, SAME };

/* A request, without the weight's format. */
struct shape {
    const char *phase, *post, *act, *bias;
    uint32_t k, n, experts, top_k, tokens; /* n: rows of one expert */
    enum choices choices;
    uint32_t cuts[3]; /* rows of the matrix at which a band ends, 0 = no band */
    uint32_t x_pad, y_pad;
    const char *formats; /* weight formats to try */
};

static const struct shape shapes[] = {
    {"decode", "glu", "silu", "none", .k = 4, .n = 2, .experts = 1, .top_k = 1, .tokens = 1,
     .formats = "f32 f16"},
    {"decode", "glu", "silu", "none", .k = 64, .n = 224, .experts = 8, .top_k = 2, .tokens = 1,
     .x_pad = 4, .formats = "f32 bf16 q4_k mxfp4"},
    {"decode", "glu", "swiglu_clamp", "row", .k = 96, .n = 34, .experts = 5, .top_k = 5,
     .tokens = 1, .cuts = {36, 102}, .y_pad = 3,
     .formats = "bf16 q8_0 q6_k mxfp4 q5_0 q4_1 q2_k iq4_xs"},
    {"decode", "glu", "silu", "row", .k = 260, .n = 130, .experts = 3, .top_k = 2, .tokens = 1,
     .cuts = {130}, .formats = "f32 q4_k q5_k q4_0"},
    {"decode", "glu", "silu", "none", .k = 2056, .n = 18, .experts = 4, .top_k = 2, .tokens = 1,
     .formats = "f16 q8_0 q6_k"},
    {"decode", "combine", "none", "none", .k = 112, .n = 64, .experts = 8, .top_k = 2, .tokens = 1,
     .formats = "f32 f16 bf16 q4_0"},
    {"decode", "combine", "none", "row", .k = 68, .n = 97, .experts = 5, .top_k = 4, .tokens = 1,
     .cuts = {50, 291}, .x_pad = 8, .y_pad = 4, .formats = "f32 bf16 q8_0 mxfp4 q5_1 q3_k iq4_nl"},
    {"decode", "combine", "none", "none", .k = 512, .n = 70, .experts = 6, .top_k = 4, .tokens = 1,
     .cuts = {256}, .formats = "q4_k q6_k iq3_s iq2_xxs q2_0"},
    {"decode", "combine", "none", "none", .k = 768, .n = 256, .experts = 6, .top_k = 6, .tokens = 1,
     .formats = "bf16 q5_k q5_1 q3_k iq4_nl"},
    {"decode", "combine", "none", "row", .k = 4352, .n = 20, .experts = 3, .top_k = 2, .tokens = 1,
     .formats = "f16 q4_k mxfp4"},
    {"prefill", "glu", "silu", "none", .k = 4, .n = 2, .experts = 1, .top_k = 1, .tokens = 1,
     .formats = "f32 f16"},
    {"prefill", "glu", "silu", "none", .k = 64, .n = 224, .experts = 8, .top_k = 2, .tokens = 7,
     .x_pad = 4, .formats = "f32 bf16 q6_k"},
    {"prefill", "glu", "swiglu_clamp", "row", .k = 96, .n = 34, .experts = 5, .top_k = 5,
     .tokens = 33, .cuts = {36, 102}, .y_pad = 3, .formats = "bf16 q8_0 mxfp4 q5_1 q3_k iq4_nl"},
    {"prefill", "glu", "silu", "row", .k = 256, .n = 258, .experts = 7, .top_k = 3, .tokens = 100,
     .choices = SAME, .cuts = {900}, .formats = "q8_0 q4_k"},
    {"prefill", "store", "none", "none", .k = 112, .n = 64, .experts = 8, .top_k = 2, .tokens = 65,
     .formats = "f32 f16 q4_0"},
    {"prefill", "store", "none", "row", .k = 68, .n = 97, .experts = 5, .top_k = 4, .tokens = 9,
     .cuts = {50, 291}, .x_pad = 8, .y_pad = 4, .formats = "f32 bf16 mxfp4 q5_1 q3_k iq4_nl"},
    {"prefill", "store", "none", "row", .k = 260, .n = 33, .experts = 100, .top_k = 2, .tokens = 5,
     .cuts = {33, 34, 1000}, .formats = "bf16 q5_k"},
    {"prefill", "store", "none", "none", .k = 1152, .n = 40, .experts = 4, .top_k = 1,
     .tokens = 130, .choices = SAME, .formats = "f16 q8_0 q4_k iq3_xxs tq2_0"},
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

static void experts_agree_with_doubles(void **state)
{
    const struct row *row = *state;
    const struct shape *s = &row->shape;
    const uint32_t cols = is(s->post, "glu") ? s->n / 2 : s->n;
    struct kernel_case c = {.request.op = "moe_matmul",
                            .tokens = s->tokens,
                            .cuts = {s->cuts[0], s->cuts[1], s->cuts[2]},
                            .variant = s->choices,
                            .seed = 1000003u * s->k + s->n};
    request_set(&c.request, "weight", dgl_dtype_get(row->weight)->name);
    request_set(&c.request, "phase", s->phase);
    request_set(&c.request, "post", s->post);
    request_set(&c.request, "act", s->act);
    request_set(&c.request, "bias", s->bias);
    request_set_const(&c.request, "K", s->k);
    request_set_const(&c.request, "EXPERT_ROWS", s->n);
    request_set_const(&c.request, "E", s->experts);
    request_set_const(&c.request, "TOP_K", s->top_k);
    request_set_const(&c.request, "X_STRIDE", s->k + s->x_pad);
    request_set_const(&c.request, "Y_STRIDE", cols + s->y_pad);
    kernel_walk_judge(&experts, bench, row->name, &c);
}

/* ---- names ------------------------------------------------------------------------------- */

static char names[NUM_SHAPES * REF_MOST_TYPES][96];
static struct row rows[NUM_SHAPES * REF_MOST_TYPES];

/* Fills `rows` and returns their number. If `bands_only` is set, only some rows with bands, for the
 * smallest device that GLES 3.1 allows. */
static size_t name_rows(bool bands_only)
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_SHAPES * ref_types(); i++) {
        const struct shape *s = &shapes[i / ref_types()];
        const char *format = dgl_dtype_get(ref_type(i % ref_types()))->name;
        if (!kernel_word_in(s->formats, format) ||
            (bands_only && !(s->cuts[0] && kernel_word_in("bf16 mxfp4", format))))
            continue;
        snprintf(names[count], sizeof(names[0]), "%s%s_%s_%s_%s_k%u_n%u_%uof%u_t%u",
                 bands_only ? "floor_" : "", s->phase, format, s->post, s->act, s->k, s->n,
                 s->top_k, s->experts, s->tokens);
        rows[count] = (struct row){names[count], *s, ref_type(i % ref_types())};
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
