/*
 * Every matmul kernel that this device can run, on every weight format, against sums in doubles:
 * odd sizes, bands of rows, strides promoted than the row with NaN between, NaN where results go,
 * guard words around all buffers. `PROGRAM bench PHASE WEIGHT PRE POST K N T [HINTS]` times them
 * instead; `PROGRAM list FILE [KERNEL-DIR [CACHE-DIR]]` times what the lines of a file say, each on
 * weights that no cache holds.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/memory/repack.h"
#include "core/oracle/oracle_ops.h"
#include "kernels/format/kernel_format.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/kernel_walk.h"
#include "core/oracle/ref_ops.h"

#define EPS     1e-5
#define SOFTCAP 1.5 /* well within the range of the sums */

/* What is asked, apart from the weight's format. */
struct shape {
    const char *phase, *pre, *post;
    uint32_t k, n, tokens;
    uint32_t bands;        /* dispatches that share the rows; 0 counts as 1 */
    uint32_t x_pad, y_pad; /* columns between rows */
    bool x_last;
    const char *formats; /* weight formats to try; NULL = all */
    const char *act;     /* with post=glu; NULL = silu */
    bool bias, gain;     /* A holds a gain also where it is not applied */
    float scale;         /* out_scale; 0 = none */
};

/* Those that stand for their likes where a shape is expensive. */
#define SOME "f32 f16 bf16 q8_0 q4_k"

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
     .formats = "q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine"},
    {"decode", "none", "add", .k = 256, .n = 64, .tokens = 1, .formats = "q4_k"},
    {"decode", "none", "store", .k = 96, .n = 33, .tokens = 1, .formats = SOME},
    {"decode", "none", "store", .k = 1152, .n = 257, .tokens = 1, .bands = 2},
    {"decode", "norm", "glu", .k = 2048, .n = 64, .tokens = 1, .formats = SOME},
    {"decode", "norm", "store", .k = 4352, .n = 70, .tokens = 1},
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
    {"prefill", "none", "add", .k = 768, .n = 132, .tokens = 9,
     .formats = "q4_k q6_k mxfp4 affine"},
    {"prefill", "none", "store", .k = 1152, .n = 257, .tokens = 7},
    {"prefill", "none", "glu", .k = 2048, .n = 1000, .tokens = 3, .bands = 2, .formats = SOME},
    {"decode", "norm", "store", .k = 80, .n = 70, .tokens = 1, .bands = 2, .bias = true,
     .formats = "f32 q4_k"},
    {"decode", "none", "add", .k = 112, .n = 33, .tokens = 1, .bias = true, .scale = 0.22f,
     .formats = "f16 bf16"},
    {"decode", "none", "add", .k = 96, .n = 64, .tokens = 1, .scale = 3, .formats = "q8_0"},
    {"decode", "norm", "glu", .k = 96, .n = 36, .tokens = 1, .act = "gelu", .formats = "bf16 q8_0"},
    {"decode", "norm", "glu", .k = 36, .n = 10, .tokens = 1, .bands = 2, .bias = true,
     .act = "gelu", .formats = "f32"},
    {"decode", "norm", "softcap", .k = 72, .n = 320, .tokens = 3, .x_last = true, .bands = 2,
     .scale = 2, .formats = "bf16"},
    {"decode", "norm", "softcap", .k = 4096, .n = 34, .tokens = 1, .bias = true, .formats = "q4_k"},
    {"prefill", "none", "store", .k = 80, .n = 67, .tokens = 9, .bands = 2, .bias = true,
     .gain = true, .formats = "f32 q4_k"},
    {"prefill", "none", "add", .k = 112, .n = 33, .tokens = 5, .bias = true, .scale = 0.22f,
     .y_pad = 4, .formats = "f16 bf16"},
    {"prefill", "none", "glu", .k = 96, .n = 36, .tokens = 7, .bias = true, .gain = true,
     .bands = 2, .formats = "q8_0"},
    {"prefill", "none", "glu", .k = 160, .n = 130, .tokens = 7, .act = "gelu",
     .formats = "bf16 q4_k"},
    {"prefill", "none", "softcap", .k = 72, .n = 320, .tokens = 6, .scale = 2, .formats = "bf16"},
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

/* ---- one problem ------------------------------------------------------------------------- */

struct problem {
    struct shape s;
    uint32_t x_stride;
    size_t x_words, a_words, bias_at;
    struct ref_matrix w;
    float *x, *a;
    float *r, *g, *stream; /* pre=join and join_norm: what joins x, through which norm; the sum */
    double *joined;        /* what the sum should be */
    struct walk_rows y;
};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static const char *act_of(const struct shape *s)
{
    return s->act ? s->act : "silu";
}

/* Rows of x that the product sees. */
static uint32_t out_tokens(const struct shape *s)
{
    return is(s->phase, "decode") ? 1 : s->tokens;
}

/* Small for post=glu: silu turns absolute errors of large gates into relative ones. */
static void fill_x(struct problem *p, float scale, uint64_t *seed)
{
    for (size_t i = 0; i < p->x_words; i++)
        p->x[i] = i % p->x_stride < p->s.k ? scale * test_rand_float(seed) : NAN;
}

static bool joins(const struct shape *s)
{
    return strncmp(s->pre, "join", 4) == 0;
}

/* x as the product sees it, after the prologue. */
static void ref_source(const struct problem *p, uint32_t token, double *x)
{
    const float *row = p->x + (size_t)(p->s.x_last ? p->s.tokens - 1 : token) * p->x_stride;
    double *plain = checked(dgl_new_array(double, 2u * p->s.k));
    for (uint32_t k = 0; joins(&p->s) && k < p->s.k; k++) {
        plain[k] = p->r[k];
        plain[p->s.k + k] = p->g[k];
    }
    if (joins(&p->s))
        ref_norm(plain, plain + p->s.k, p->s.k, EPS, p->joined);
    for (uint32_t k = 0; k < p->s.k; k++) {
        x[k] = row[k];
        if (joins(&p->s))
            x[k] = p->joined[k] += x[k];
    }
    if (!is(p->s.pre, "norm") && !is(p->s.pre, "join_norm")) {
        free(plain);
        return;
    }
    for (uint32_t k = 0; k < p->s.k; k++) {
        plain[k] = x[k];
        plain[p->s.k + k] = p->a[k]; /* gains, which a has only for pre=norm */
    }
    ref_norm(plain, plain + p->s.k, p->s.k, EPS, x);
    free(plain);
}

static void ref_result(struct problem *p)
{
    double *x = checked(dgl_new_array(double, p->s.k));
    double *y = checked(dgl_new_array(double, p->s.n));
    for (uint32_t t = 0; t < out_tokens(&p->s); t++) {
        ref_source(p, t, x);
        ref_matmul(&p->w, x, 1, y);
        for (uint32_t i = 0; p->s.bias && i < p->s.n; i++)
            y[i] += p->a[p->bias_at + i];
        for (size_t i = 0; i < p->y.cols; i++) {
            double value = p->s.scale != 0 ? y[i] * (double)p->s.scale : y[i];
            if (is(p->s.post, "glu"))
                value = (is(act_of(&p->s), "gelu") ? oracle_gelu : oracle_silu)(y[2 * i]) *
                        y[2 * i + 1];
            if (is(p->s.post, "softcap"))
                value = oracle_softcap(value, SOFTCAP);
            if (is(p->s.post, "add"))
                value += p->y.before[t * p->y.stride + i];
            p->y.want[t * p->y.cols + i] = value;
        }
    }
    free(x);
    free(y);
}

/* Columns of Y. */
static uint32_t out_cols(const struct shape *s)
{
    return is(s->post, "glu") ? s->n / 2 : s->n;
}

static void problem_init(struct problem *p, const struct row *row)
{
    uint64_t seed = 1000003u * row->shape.k + row->shape.n;
    const struct shape *s = &row->shape;
    float scale = is(s->post, "glu") ? 0.1f : 1.0f;
    *p = (struct problem){.s = *s, .x_stride = s->k + s->x_pad};
    p->y = (struct walk_rows){out_tokens(s), out_cols(s), .stride = out_cols(s) + s->y_pad};
    p->x_words = (size_t)s->tokens * p->x_stride;
    bool gain = s->gain || is(s->pre, "norm") || is(s->pre, "join_norm");
    p->bias_at = gain ? (s->k + 3) / 4 * 4 : 0;
    p->a_words = p->bias_at + (s->n + 3) / 4 * 4;
    assert_true(ref_matrix_init(&p->w, row->weight, NULL, s->n, s->k, seed));
    p->x = checked(dgl_new_array(float, p->x_words));
    p->a = checked(dgl_new_array(float, p->a_words));
    p->r = checked(dgl_new_array(float, s->k));
    p->g = checked(dgl_new_array(float, s->k));
    p->stream = checked(dgl_new_array(float, s->k));
    p->joined = checked(dgl_new_array(double, s->k));
    fill_x(p, scale, &seed);
    ref_fill(p->r, s->k, &seed);
    ref_fill(p->g, s->k, &seed);
    ref_fill(p->a, p->a_words, &seed);
    for (size_t i = 0; i < p->a_words; i++)
        p->a[i] *= scale;
    walk_rows_init(&p->y, is(s->post, "add"), &seed);
    ref_result(p);
}

static void problem_finish(struct problem *p)
{
    ref_matrix_finish(&p->w);
    free(p->x);
    free(p->a);
    free(p->r);
    free(p->g);
    free(p->stream);
    free(p->joined);
    walk_rows_finish(&p->y);
}

/* ---- running it -------------------------------------------------------------------------- */

static void describe(const struct problem *p, struct bench_case *c)
{
    const struct shape *s = &p->s;
    *c = (struct bench_case){.request.op = "matmul"};
    bench_attr(c, "weight", dgl_dtype_get(p->w.type)->name);
    bench_attr(c, "phase", s->phase);
    bench_attr(c, "pre", s->pre);
    if (is(s->phase, "prefill")) {
        static const char *const words[] = {"2", "4", "8", "16", "32", "64", "128", "256"};
        size_t i = 0;
        while (i < 7 && 2u << i < s->tokens)
            i++;
        bench_attr(c, "columns", words[i]);
        bench_const(c, "COLUMNS", 2 << i);
    }
    bench_attr(c, "post", s->post);
    if (is(s->post, "glu"))
        bench_attr(c, "act", act_of(s));
    bench_attr(c, "bias", s->bias ? "row" : "none");
    bench_const(c, "K", s->k);
    bench_const(c, "N", s->n);
    bench_const(c, "W_STRIDE", (int64_t)p->w.row_words);
    bench_const(c, "X_STRIDE", p->x_stride);
    bench_const(c, "Y_STRIDE", (int64_t)p->y.stride);
    bench_const(c, "X_LAST", s->x_last);
    bench_const(c, "BIAS_AT", (int64_t)p->bias_at);
    bench_const(c, "SCALED", s->scale != 0);
    bench_float(c, "eps", (float)EPS);
    bench_float(c, "out_scale", s->scale);
    bench_float(c, "softcap", (float)SOFTCAP);
    c->step.tokens = s->tokens;
}

/* The i-th of the shape's bands; the cuts are even, as post=glu wants them. */
static enum bench_result run_band(struct problem *p, const char *kernel, uint32_t i,
                                  char why[BENCH_WHY])
{
    struct bench_case c;
    uint32_t bands = p->s.bands ? p->s.bands : 1, step = p->s.n / bands / 2 * 2;
    uint32_t row0 = i * step, rows = i + 1 < bands ? step : p->s.n - row0;
    describe(p, &c);
    bench_uint(&c, "row0", row0);
    bench_uint(&c, "rows", rows);
    bench_in(&c, "W", p->w.packed + row0 * p->w.row_words, rows * p->w.row_words);
    bench_in(&c, "X", p->x, p->x_words);
    bench_inout(&c, "Y", p->y.after, p->y.after, p->y.rows * p->y.stride);
    if (!is(p->s.pre, "none") || p->s.bias)
        bench_in(&c, "A", p->a, p->s.bias ? p->a_words : p->s.k);
    if (joins(&p->s)) {
        bench_in(&c, "R", p->r, p->s.k);
        bench_in(&c, "G", p->g, p->s.k);
        bench_out(&c, "STREAM", p->stream, p->s.k);
    }
    c.band = rows;
    enum bench_result result = kernel_bench_run(bench, kernel, &c, why);
    if (result == BENCH_RAN && joins(&p->s))
        walk_values_check(bench, kernel, p->stream, p->joined, p->s.k);
    return result;
}

static enum bench_result try_kernel(void *ctx, const char *name, char why[BENCH_WHY])
{
    struct problem *p = ctx;
    memcpy(p->y.after, p->y.before, p->y.rows * p->y.stride * sizeof(*p->y.after));
    for (uint32_t i = 0; i < (p->s.bands ? p->s.bands : 1); i++) {
        enum bench_result result = run_band(p, name, i, why);
        if (result != BENCH_RAN)
            return result;
    }
    walk_rows_check(&p->y, bench, name);
    return BENCH_RAN;
}

static void products_agree_with_doubles(void **state)
{
    const struct row *row = *state;
    struct problem p;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    problem_init(&p, row);
    kernel_walk_case(&products, bench, row->name, try_kernel, &p);
    problem_finish(&p);
}

/* ---- names ------------------------------------------------------------------------------- */

static char names[NUM_SHAPES * REF_TYPES][96];
static struct row rows[NUM_SHAPES * REF_TYPES];

/* Fills `rows` and returns how many there are; `only_k` not 0: those of that K, for the smallest
 * device that GLES 3.1 allows. */
static size_t name_rows(uint32_t only_k)
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_SHAPES * REF_TYPES; i++) {
        const struct shape *s = &shapes[i / REF_TYPES];
        const char *format = dgl_dtype_get(ref_types[i % REF_TYPES])->name;
        if ((s->formats && !kernel_word_in(s->formats, format)) ||
            (only_k && (s->k != only_k || joins(s))))
            continue;
        snprintf(names[count], sizeof(names[0]), "%s%s_%s_%s_%s%s%s%s_k%u_n%u_t%u",
                 only_k ? "floor_" : "", s->phase, format, s->pre, s->post, s->act ? "_gelu" : "",
                 s->bias ? "_bias" : "", s->scale != 0 ? "_scaled" : "", s->k, s->n, s->tokens);
        rows[count] = (struct row){names[count], *s, ref_types[i % REF_TYPES]};
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
    for (size_t i = 0; i < REF_TYPES * 3 * 4; i++) {
        const char *phase = kinds[i % 3][0], *pre = kinds[i % 3][1], *post = posts[i / 3 % 4];
        struct kernel_choice choice;
        struct kernel_request request = {
            .op = "matmul",
            .attrs = {{"weight", dgl_dtype_get(ref_types[i / 12])->name},
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

/* ---- timing: PROGRAM bench PHASE WEIGHT PRE POST K N T [HINTS] --------------------------- */

static void time_kernel(const char *kernel, const struct row *row, const struct ref_matrix *w,
                        float *numbers)
{
    char why[BENCH_WHY];
    struct problem p = {.s = row->shape, .w = *w, .x_stride = row->shape.k};
    struct bench_case c;
    p.y.stride = out_cols(&row->shape);
    describe(&p, &c);
    bench_uint(&c, "row0", 0);
    bench_uint(&c, "rows", row->shape.n);
    bench_in(&c, "W", w->packed, w->rows * w->row_words);
    bench_in(&c, "X", numbers, (size_t)row->shape.tokens * row->shape.k);
    bench_inout(&c, "Y", numbers, NULL, row->shape.tokens * p.y.stride);
    bench_in(&c, "A", numbers, row->shape.k);
    c.band = row->shape.n;
    c.repeats = row->shape.tokens > 1 ? 10 : 50;
    if (kernel_bench_run(bench, kernel, &c, why) != BENCH_RAN) {
        printf("%-28s %s\n", kernel, why);
        return;
    }
    double macs = (double)row->shape.n * row->shape.k * row->shape.tokens;
    printf("%-24s alone %9.1f us (best %.1f, device %.1f), in a row %9.1f us: %8.1f GMAC/s, %7.1f "
           "GB/s\n",
           kernel, c.median_us, c.best_us, c.gpu_us, c.stream_us, macs / c.stream_us * 1e-3,
           (double)(w->rows * w->row_words) * 4e-3 / c.stream_us);
}

/* One of ref_types; DGL_DTYPE_COUNT = none of them. */
static enum dgl_dtype weight_named(const char *name)
{
    for (size_t i = 0; i < REF_TYPES; i++)
        if (is(dgl_dtype_get(ref_types[i])->name, name))
            return ref_types[i];
    return DGL_DTYPE_COUNT;
}

static int bench_main(char **args, int count)
{
    enum dgl_dtype weight = count < 7 ? DGL_DTYPE_COUNT : weight_named(args[1]);
    const char *name;
    if (weight == DGL_DTYPE_COUNT)
        return 2;
    struct row row = {"bench",
                      {args[0], args[2], args[3], .k = (uint32_t)atoi(args[4]),
                       .n = (uint32_t)atoi(args[5]), .tokens = (uint32_t)atoi(args[6])},
                      weight};
    struct ref_matrix w = {.type = weight, .rows = row.shape.n, .cols = row.shape.k};
    size_t words = 0, numbers = (size_t)row.shape.tokens * (row.shape.k + row.shape.n);
    uint64_t seed = 1;
    assert_true(
        weight_layout_stride(weight_layout_find(weight, ref_layout(weight)), w.cols, &w.row_words));
    words = (size_t)(w.rows * w.row_words);
    w.packed = checked(dgl_new_array(uint32_t, words));
    float *x = checked(dgl_new_array(float, numbers));
    for (size_t i = 0; i < words; i++) /* bits that are finite and not subnormal in every format */
        w.packed[i] = (uint32_t)test_rand(&seed) & 0x2BFF2BFFu;
    ref_fill(x, numbers, &seed);
    for (int i = 7; i < count; i++)
        kernel_bench_hint(bench, args[i]);
    for (size_t i = 0; (name = kernel_bench_name(bench, "matmul", i)) != NULL; i++)
        if (kernel_word_in(kernel_set_find(kernel_bench_set(bench), name)->when[0].words, args[0]))
            time_kernel(name, &row, &w, x);
    free(w.packed);
    free(x);
    return 0;
}

/* ---- timing: PROGRAM list FILE [KERNEL-DIR [CACHE-DIR]] ---------------------------------- */

struct measured {
    char kernel[64], weight[16], pre[16], post[16], tunes[256];
    unsigned k, n, block_words; /* of 256 columns; padded as layouts `split` are */
    bool hot;
};

/* "KERNEL WEIGHT BLOCK-WORDS PRE POST K N [TUNABLE=VALUE...] [HOT]"; what lines leave out of the
 * tunables is as the line before of the same kernel had it. False: a line of another kind. WEIGHT
 * `none`: a kernel that copies N units; PRE a number: the kernel of so many experts, N rows in all.
 */
static bool read_measured(char *line, struct measured *m)
{
    char *save = NULL, *word;
    struct dgl_buf json = {0};
    int at = 0;
    *m = (struct measured){.hot = false};
    if (sscanf(line, "%63s %15s %u %15s %15s %u %u %n", m->kernel, m->weight, &m->block_words,
               m->pre, m->post, &m->k, &m->n, &at) < 7 ||
        (weight_named(m->weight) == DGL_DTYPE_COUNT && !is(m->weight, "none")))
        return false;
    snprintf(m->tunes, sizeof(m->tunes), "%s", line + at);
    m->tunes[strcspn(m->tunes, "\n")] = '\0';
    dgl_buf_puts(&json, "{\"tunes\":{");
    for (word = strtok_r(line + at, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
        char *value = strchr(word, '=');
        m->hot |= is(word, "HOT");
        if (value)
            dgl_buf_printf(&json, "%s\"%s.%.*s\":%s", json.p[json.len - 1] == '{' ? "" : ",",
                           m->kernel, (int)(value - word), word, value + 1);
    }
    dgl_buf_puts(&json, "}}");
    bool ok = kernel_bench_hint(bench, json.p);
    dgl_buf_finish(&json);
    return ok;
}

/* Experts 0 to 11, which weigh 1. */
static const uint32_t route[24] = {0, 1065353216, 1, 1065353216, 2,  1065353216, 3,  1065353216,
                                   4, 1065353216, 5, 1065353216, 6,  1065353216, 7,  1065353216,
                                   8, 1065353216, 9, 1065353216, 10, 1065353216, 11, 1065353216};

static void describe_measured(const struct measured *m, float *numbers, struct bench_case *c)
{
    if (is(m->weight, "none")) { /* a copy of N units of 16 bytes */
        *c = (struct bench_case){.request.op = "copy", .band = m->n, .repeats = 20};
        bench_in(c, "SRC", NULL, 4ull * m->n);
        bench_out(c, "DST", NULL, 4ull * m->n);
        bench_uint(c, "rows", m->n);
        return;
    }
    uint64_t top_k = strtoul(m->pre, NULL, 10);
    if (top_k > 0) { /* experts, as many as are chosen */
        uint64_t row_words = ((m->k + 255) / 256 * m->block_words + 3) / 4 * 4;
        bool glu = is(m->post, "glu");
        *c = (struct bench_case){.request.op = "moe_matmul", .band = m->n, .repeats = 100};
        bench_attr(c, "weight", m->weight);
        bench_attr(c, "phase", "decode");
        bench_attr(c, "post", m->post);
        bench_attr(c, "act", glu ? "silu" : "none");
        bench_attr(c, "bias", "none");
        bench_const(c, "K", m->k);
        bench_const(c, "N", m->n);
        bench_const(c, "EXPERT_ROWS", (int64_t)(m->n / top_k));
        bench_const(c, "E", (int64_t)top_k);
        bench_const(c, "TOP_K", (int64_t)top_k);
        bench_const(c, "W_STRIDE", (int64_t)row_words);
        bench_const(c, "X_STRIDE", m->k);
        bench_const(c, "Y_STRIDE", glu ? (int64_t)(m->n / top_k / 2) : (int64_t)(m->n / top_k));
        bench_float(c, "scale", 1);
        bench_float(c, "act_alpha", 1);
        bench_float(c, "act_limit", 7);
        bench_uint(c, "row0", 0);
        bench_uint(c, "rows", m->n);
        bench_in(c, "W", NULL, m->n * row_words);
        bench_in(c, "X", numbers, top_k * m->k);
        bench_inout(c, "Y", numbers, NULL, m->n);
        bench_in(c, "ROUTE", route, 2 * top_k);
        return;
    }
    struct problem p = {
        .s = {"decode", m->pre, m->post, .k = m->k, .n = m->n, .tokens = 1},
        .x_stride = m->k,
        .w = {.type = weight_named(m->weight), .rows = m->n, .cols = m->k},
    };
    p.w.row_words = ((m->k + 255) / 256 * m->block_words + 3) / 4 * 4;
    p.y.stride = out_cols(&p.s);
    describe(&p, c);
    bench_uint(c, "row0", 0);
    bench_uint(c, "rows", m->n);
    bench_in(c, "W", NULL, m->n * p.w.row_words);
    bench_in(c, "X", numbers, m->k);
    bench_inout(c, "Y", numbers, NULL, m->n);
    bench_in(c, "A", numbers, m->k);
    c->band = m->n;
    c->repeats = m->n > 60000 ? 40 : 200;
}

enum { LIST_WORDS = 1 << 22, LIST_NUMBERS = 1 << 18, LIST_MOST = 2048 };

static int list_main(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512], why[BENCH_WHY];
    uint32_t *words = checked(dgl_new_array(uint32_t, LIST_WORDS));
    float *numbers = checked(dgl_new_array(float, LIST_NUMBERS));
    char **sources = checked(dgl_new_array(char *, LIST_MOST));
    size_t num_sources = 0;
    uint64_t seed = 1;
    struct measured m;
    struct bench_case c;
    if (!file)
        return 2;
    for (size_t i = 0; i < LIST_WORDS; i++) /* finite and not subnormal in every format */
        words[i] = (uint32_t)test_rand(&seed) & 0x2BFF2BFFu;
    ref_fill(numbers, LIST_NUMBERS, &seed);
    const struct bench_stream stream = {"W", words, LIST_WORDS, false};
    while (num_sources < LIST_MOST && fgets(line, sizeof(line), file)) {
        if (!read_measured(line, &m))
            continue;
        describe_measured(&m, numbers, &c);
        char *source = kernel_bench_source(bench, m.kernel, &c.request, why);
        for (size_t i = 0; i < num_sources && source; i++)
            if (is(sources[i], source)) {
                free(source);
                source = NULL;
            }
        if (source)
            sources[num_sources++] = source;
    }
    bool ok = kernel_bench_compile(bench, sources, num_sources);
    rewind(file);
    while (ok && fgets(line, sizeof(line), file)) {
        if (!read_measured(line, &m))
            continue;
        describe_measured(&m, numbers, &c);
        struct bench_stream s = stream;
        s.hot = m.hot;
        s.name = c.binds[0].name;
        size_t bytes = 4 * c.binds[0].words;
        double us = kernel_bench_stream(bench, m.kernel, &c, &s, why);
        printf("%-24s %-6s %-5s %-8s %5u %6u ", m.kernel, m.weight, m.pre, m.post, m.k, m.n);
        if (us < 0)
            printf("%s  %s\n", m.tunes, why);
        else
            printf("%8.2f us %7.0f GB/s %6.3f e12 weights/s  %s\n", us, (double)bytes * 1e-3 / us,
                   (double)m.k * m.n * 1e-6 / us, m.tunes);
        fflush(stdout);
    }
    fclose(file);
    for (size_t i = 0; i < num_sources; i++)
        free(sources[i]);
    free(sources);
    free(words);
    free(numbers);
    return ok ? 0 : 1;
}

/* ---- sums that depend on nothing but the numbers ----------------------------------------- */

#define TUNED "matmul_decode_subgroup"

static const struct shape tuned_shapes[] = {
    {"decode", "norm", "store", .k = 2304, .n = 70, .tokens = 1, .formats = SOME " q6_k"},
    {"decode", "none", "glu", .k = 1152, .n = 258, .tokens = 1, .bands = 2,
     .formats = "q4_k mxfp4"},
    {"decode", "norm", "add", .k = 1088, .n = 600, .tokens = 1,
     .formats = SOME " q4_0 affine q6_k"},
};

/* One subgroup or many, a row at a time or four, one pass or several, few groups or many. Of the
 * tunables TAIL alone changes the order of a sum. */
static const struct {
    int wg_size, unroll, least, unit_groups;
} tunings[] = {{64, 1, 2, 16}, {128, 4, 32, 1}, {96, 2, 8, 2}};

static void sums_do_not_depend_on_tunables(void **state)
{
    struct kernel_bench *others = bench;
    char hint[256], why[BENCH_WHY] = "";
    enum bench_result result = BENCH_RAN;
    (void)state;
    if (!bench)
        SKIP("no GLES device");
    bench = checked(kernel_bench_create(false));
    for (size_t i = 0; i < sizeof(tuned_shapes) / sizeof(tuned_shapes[0]) * REF_TYPES; i++) {
        struct row row = {"tuned", tuned_shapes[i / REF_TYPES], ref_types[i % REF_TYPES]};
        struct problem p;
        if (!kernel_word_in(row.shape.formats, dgl_dtype_get(row.weight)->name))
            continue;
        problem_init(&p, &row);
        size_t bytes = p.y.rows * p.y.stride * sizeof(float);
        float *first = checked(malloc(bytes));
        const size_t count = sizeof(tunings) / sizeof(tunings[0]);
        bool has_first = false;
        for (size_t both = 0; both < 2 * count && result == BENCH_RAN; both++) {
            size_t t = both % count;
            has_first &= t > 0;
            snprintf(hint, sizeof(hint),
                     "{\"tunes\": {\"" TUNED ".WG_SIZE\": %d, \"" TUNED ".UNROLL\": %d, \"" TUNED
                     ".LEAST\": %d, \"" TUNED ".UNIT_GROUPS\": %d, \"" TUNED ".TAIL\": %d}}",
                     tunings[t].wg_size, tunings[t].unroll, tunings[t].least,
                     tunings[t].unit_groups, both >= count && row.weight != DGL_Q6_K);
            assert_true(kernel_bench_hint(bench, hint));
            result = try_kernel(&p, TUNED, why);
            if (both >= count && result == BENCH_CANNOT) { /* needs all of x at once */
                result = BENCH_RAN;
                continue;
            }
            if (!has_first)
                memcpy(first, p.y.after, bytes);
            has_first = true;
            for (size_t j = 0; j < bytes / sizeof(float) && result == BENCH_RAN; j++)
                if (memcmp(&first[j], &p.y.after[j], sizeof(float)) != 0)
                    fail_msg("%s %s: y[%zu] is %.9g, with %s %.9g", row.shape.post,
                             dgl_dtype_get(row.weight)->name, j, (double)first[j], hint,
                             (double)p.y.after[j]);
        }
        free(first);
        problem_finish(&p);
    }
    kernel_bench_destroy(&bench);
    bench = others;
    if (result == BENCH_FAILED)
        fail_msg("%s", why);
    if (result == BENCH_CANNOT)
        SKIP("%s", why); /* every_kernel_was_tested judges the reason */
}

static void every_kernel_was_tested(void **state)
{
    (void)state;
    kernel_walk_complete(
        &products, 1, bench,
        &(struct walk_table){products_agree_with_doubles, rows, name_rows(0), sizeof(rows[0])});
    kernel_walk_check(&products, bench);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(every_kernel_was_tested),
        cmocka_unit_test(the_smallest_device_runs_every_product),
        cmocka_unit_test(sums_do_not_depend_on_tunables),
    };
    int failures;
    if (argc > 2 && is(argv[1], "list")) {
        bench = kernel_bench_create_measuring(argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : "");
        failures = bench ? list_main(argv[2]) : 1;
        kernel_bench_destroy(&bench);
        return failures;
    }
    bench = kernel_bench_create(false);
    if (argc > 2 && is(argv[1], "bench") && bench) {
        failures = bench_main(argv + 2, argc - 2);
        kernel_bench_destroy(&bench);
        return failures;
    }
    size_t count = name_rows(0);
    failures = test_run_rows_sample("matmul", products_agree_with_doubles, rows, count,
                                    sizeof(rows[0]), SHARE);
    failures += cmocka_run_group_tests_name("kernels", others, NULL, NULL);
    kernel_bench_destroy(&bench);
    bench = kernel_bench_create(true);
    count = name_rows(1152);
    failures += test_run_rows_sample("floor", products_agree_with_doubles, rows, count,
                                     sizeof(rows[0]), SHARE);
    kernel_bench_destroy(&bench);
    return failures;
}
