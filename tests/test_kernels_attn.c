/*
 * Every rope_kv, attn_prefill and attn_decode kernel that this device can run, for both
 * types of cache: any ratio of heads to KV heads, odd head sizes, partial rotary, strides with NaN
 * between, a cache that is NaN where nothing was written. Turned keys and cached numbers are
 * compared bit for bit, so that decode and prefill agree.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/support/kernel_bench.h"
#include "tests/support/ref_attn.h"
#include "tests/support/ref_ops.h"

#define MAX_KERNELS 16

struct shape {
    uint32_t heads, kv_heads, head_dim, rope_dims, tokens, pos, splits;
    uint32_t pad; /* columns between rows, prefill */
    float loud;   /* what q is multiplied by; 0 counts as 1 */
    bool louder;  /* rope_scale 1.25 instead of 1 */
};

/* tokens = 0: decode. */
static const struct shape shapes[] = {
    {4, 2, 64, 64, .pos = 0, .splits = 1},
    {4, 2, 64, 64, .pos = 200, .splits = 1},
    {4, 2, 64, 64, .pos = 7, .splits = 16},
    {5, 5, 80, 80, .pos = 33, .splits = 3},
    {5, 5, 80, 20, .pos = 1, .splits = 1},
    {8, 1, 16, 16, .pos = 255, .splits = 2},
    {7, 1, 32, 32, .pos = 256, .splits = 4},
    {3, 1, 96, 96, .pos = 70, .splits = 1, .loud = 30},
    {2, 2, 256, 256, .pos = 40, .splits = 2},
    {6, 2, 128, 64, .pos = 65, .splits = 64, .louder = true},
    {12, 2, 20, 20, .pos = 19, .splits = 2},
    {32, 8, 64, 64, .pos = 3000, .splits = 16},
    {4, 2, 64, 64, .tokens = 1, .pos = 0},
    {4, 2, 64, 64, .tokens = 64, .pos = 0, .pad = 4},
    {4, 2, 64, 64, .tokens = 7, .pos = 2000},
    {5, 5, 80, 80, .tokens = 33, .pos = 5, .pad = 8},
    {5, 5, 80, 20, .tokens = 2, .pos = 3},
    {8, 1, 16, 16, .tokens = 33, .pos = 250},
    {7, 1, 32, 32, .tokens = 7, .pos = 511},
    {3, 1, 96, 96, .tokens = 20, .pos = 0, .loud = 30},
    {2, 2, 256, 256, .tokens = 17, .pos = 3},
    {6, 2, 128, 64, .tokens = 17, .pos = 100, .louder = true},
    {12, 2, 20, 20, .tokens = 7, .pos = 19, .pad = 4},
    {32, 8, 64, 64, .tokens = 2, .pos = 5},
};
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct row {
    const char *name;
    struct shape shape;
    bool kv_f16, limits_min;
};

struct coverage {
    const char *op;
    bool ran[MAX_KERNELS];
    char why[MAX_KERNELS][BENCH_WHY]; /* last reason not to run what it serves */
};
static struct coverage coverage[] = {
    {.op = "rope_kv"}, {.op = "attn_prefill"}, {.op = "attn_decode"}};
enum { ROPE_KV, PREFILL, DECODE };

static struct kernel_bench *benches[2]; /* the device as it is, and clamped to the minimums */

/* ---- one problem ----------------------------------------------------------------------------- */

struct problem {
    struct shape s;
    struct ref_attn ref;
    struct kernel_bench *bench;
    uint32_t tokens, qkv_stride, o_stride;
    float *qkv, *turned; /* [tokens][qkv_stride]: before and after rope */
    size_t qkv_words, kv_words;
    uint32_t *kv_before, *kv_after;
};

static void *checked(void *p)
{
    assert_non_null(p);
    return p;
}

/* Rows of random numbers, NaN between them. */
static void fill_rows(struct problem *p, uint64_t *seed)
{
    uint32_t width = ref_attn_row(&p->ref);
    float loud = p->s.loud != 0 ? p->s.loud : 1;
    for (size_t i = 0; i < p->qkv_words; i++) {
        uint32_t column = (uint32_t)(i % p->qkv_stride);
        p->qkv[i] = column < width ? test_rand_float(seed) : NAN;
        if (column < p->ref.heads * p->ref.head_dim)
            p->qkv[i] *= loud;
    }
    memcpy(p->turned, p->qkv, p->qkv_words * sizeof(*p->qkv));
}

/* NaN where nothing was stored; what the pass stores is in kv_after only. */
static void fill_cache(struct problem *p, uint64_t *seed)
{
    float *row = checked(dgl_new_array(float, ref_attn_row(&p->ref)));
    for (size_t i = 0; i < p->kv_words; i++)
        p->kv_before[i] = p->ref.kv_f16 ? 0x7e007e00 : 0x7fc00000;
    for (uint32_t j = 0; j < p->s.pos; j++) {
        ref_fill(row, ref_attn_row(&p->ref), seed);
        ref_attn_store(&p->ref, row, j, p->kv_before);
    }
    free(row);
    memcpy(p->kv_after, p->kv_before, 4 * p->kv_words);
    for (uint32_t t = 0; t < p->tokens; t++) {
        ref_attn_turn(&p->ref, p->turned + (size_t)t * p->qkv_stride, p->s.pos + t);
        ref_attn_store(&p->ref, p->turned + (size_t)t * p->qkv_stride, p->s.pos + t, p->kv_after);
    }
}

static void problem_init(struct problem *p, const struct row *row)
{
    const struct shape *s = &row->shape;
    uint64_t seed = 7919 * s->head_dim + s->pos;
    *p = (struct problem){.s = *s,
                          .bench = benches[row->limits_min],
                          .tokens = s->tokens ? s->tokens : 1,
                          .ref = {.heads = s->heads,
                                  .kv_heads = s->kv_heads,
                                  .head_dim = s->head_dim,
                                  .rope_dims = s->rope_dims,
                                  .kv_f16 = row->kv_f16,
                                  .scale = 1 / sqrtf((float)s->head_dim),
                                  .rope_scale = s->louder ? 1.25f : 1}};
    p->ref.context = s->pos + p->tokens + 3;
    ref_attn_init(&p->ref);
    p->qkv_stride = ref_attn_row(&p->ref) + s->pad;
    p->o_stride = s->heads * s->head_dim + s->pad;
    p->qkv_words = (size_t)p->tokens * p->qkv_stride;
    p->kv_words = ref_attn_kv_words(&p->ref);
    p->qkv = checked(dgl_new_array(float, p->qkv_words));
    p->turned = checked(dgl_new_array(float, p->qkv_words));
    p->kv_before = checked(dgl_new_array(uint32_t, p->kv_words));
    p->kv_after = checked(dgl_new_array(uint32_t, p->kv_words));
    fill_rows(p, &seed);
    fill_cache(p, &seed);
}

static void problem_finish(struct problem *p)
{
    ref_attn_finish(&p->ref);
    free(p->qkv);
    free(p->turned);
    free(p->kv_before);
    free(p->kv_after);
}

/* ---- running it ------------------------------------------------------------------------------ */

static void describe(const struct problem *p, const char *op, struct bench_case *c)
{
    *c = (struct bench_case){.request.op = op, .step = {.pos = p->s.pos, .tokens = p->tokens}};
    bench_attr(c, "kv", p->ref.kv_f16 ? "f16" : "f32");
    bench_const(c, "HEADS", p->s.heads);
    bench_const(c, "KV_HEADS", p->s.kv_heads);
    bench_const(c, "HEAD_DIM", p->s.head_dim);
    bench_const(c, "ROPE_DIMS", p->s.rope_dims);
    bench_const(c, "QKV_STRIDE", p->qkv_stride);
    bench_const(c, "O_STRIDE", p->o_stride);
    bench_const(c, "CONTEXT", p->ref.context);
    bench_const(c, "SPLITS", p->s.splits);
    bench_float(c, "scale", p->ref.scale);
    bench_float(c, "rope_scale", p->ref.rope_scale);
    bench_in(c, "ROPE", p->ref.rope, p->ref.rope_words);
}

static void compare_words(const char *kernel, const char *what, const void *got, const void *want,
                          size_t words)
{
    const uint32_t *a = got, *b = want;
    for (size_t i = 0; i < words; i++)
        if (a[i] != b[i])
            fail_msg("%s: %s: word %zu of %zu is %08x, expected %08x", kernel, what, i, words, a[i],
                     b[i]);
}

static void compare_values(const struct problem *p, const char *kernel, const float *got,
                           const double *want, size_t count)
{
    const struct kernel *k = kernel_set_find(kernel_bench_set(p->bench), kernel);
    double nmse = test_nmse(got, want, count);
    if (!(nmse <= k->tolerance))
        fail_msg("%s: NMSE %.3g, at most %.3g allowed; first value %.9g, expected %.17g", kernel,
                 nmse, k->tolerance, (double)got[0], want[0]);
}

static enum bench_result run_rope_kv(struct problem *p, const char *kernel, char why[BENCH_WHY])
{
    struct bench_case c;
    float *qkv = checked(dgl_new_array(float, p->qkv_words));
    uint32_t *kv = checked(dgl_new_array(uint32_t, p->kv_words));
    size_t q_bytes = (size_t)4 * p->s.heads * p->s.head_dim;
    describe(p, "rope_kv", &c);
    bench_inout(&c, "QKV", p->qkv, qkv, p->qkv_words);
    bench_inout(&c, "KV", p->kv_before, kv, p->kv_words);
    enum bench_result result = kernel_bench_run(p->bench, kernel, &c, why);
    if (result == BENCH_RAN) {
        /* k and v of QKV stay as they were. */
        for (uint32_t t = 0; t < p->tokens; t++)
            memcpy(p->qkv + (size_t)t * p->qkv_stride, p->turned + (size_t)t * p->qkv_stride,
                   q_bytes);
        compare_words(kernel, "QKV", qkv, p->qkv, p->qkv_words);
        compare_words(kernel, "KV", kv, p->kv_after, p->kv_words);
    }
    free(qkv);
    free(kv);
    return result;
}

static enum bench_result run_prefill(struct problem *p, const char *kernel, char why[BENCH_WHY])
{
    struct bench_case c;
    size_t width = (size_t)p->s.heads * p->s.head_dim, words = (size_t)p->tokens * p->o_stride;
    float *o = checked(dgl_new_array(float, words)), *got = checked(dgl_new_array(float, words));
    double *want = checked(dgl_new_array(double, words));
    for (size_t i = 0; i < words; i++)
        o[i] = NAN;
    describe(p, "attn_prefill", &c);
    bench_in(&c, "QKV", p->turned, p->qkv_words);
    bench_in(&c, "KV", p->kv_after, p->kv_words);
    bench_inout(&c, "O", o, o, words);
    enum bench_result result = kernel_bench_run(p->bench, kernel, &c, why);
    if (result == BENCH_RAN) {
        for (uint32_t t = 0; t < p->tokens; t++) {
            memcpy(got + t * width, o + (size_t)t * p->o_stride, 4 * width);
            ref_attention(&p->ref, p->turned + (size_t)t * p->qkv_stride, p->s.pos + t, p->kv_after,
                          want + t * width);
            for (uint32_t i = (uint32_t)width; i < p->o_stride; i++)
                assert_true(isnan(o[(size_t)t * p->o_stride + i]));
        }
        compare_values(p, kernel, got, want, p->tokens * width);
    }
    free(o);
    free(got);
    free(want);
    return result;
}

static enum bench_result run_decode(struct problem *p, const char *kernel, char why[BENCH_WHY])
{
    struct bench_case c;
    size_t width = (size_t)p->s.heads * p->s.head_dim, splits = p->s.splits;
    size_t words = splits == 1 ? width : width * splits + 2 * p->s.heads * splits;
    float *out = checked(dgl_new_array(float, words)), *got = checked(dgl_new_array(float, width));
    double *want = checked(dgl_new_array(double, width));
    double *merged = checked(dgl_new_array(double, width));
    uint32_t *kv = checked(dgl_new_array(uint32_t, p->kv_words));
    describe(p, "attn_decode", &c);
    bench_in(&c, "QKV", p->qkv, p->qkv_words);
    bench_inout(&c, "KV", p->kv_before, kv, p->kv_words);
    bench_out(&c, "P", out, words);
    enum bench_result result = kernel_bench_run(p->bench, kernel, &c, why);
    if (result == BENCH_RAN) {
        for (size_t i = 0; i < words; i++)
            assert_false(isnan(out[i]));
        if (splits > 1)
            ref_merge(out, p->s.heads, splits, p->s.head_dim, merged);
        for (size_t i = 0; i < width; i++)
            got[i] = splits > 1 ? (float)merged[i] : out[i];
        ref_attention(&p->ref, p->turned, p->s.pos, p->kv_after, want);
        compare_words(kernel, "KV", kv, p->kv_after, p->kv_words);
        compare_values(p, kernel, got, want, width);
    }
    free(out);
    free(got);
    free(want);
    free(merged);
    free(kv);
    return result;
}

typedef enum bench_result (*run_fn)(struct problem *p, const char *kernel, char why[BENCH_WHY]);

/* Every kernel of an operation; at least one must run. */
static void run_all(const struct row *row, struct coverage *cover, run_fn run)
{
    const char *name;
    int ran = 0;
    if (!benches[row->limits_min])
        SKIP("%s: no GLES device", row->name);
    for (size_t i = 0; (name = kernel_bench_name(benches[0], cover->op, i)) != NULL; i++) {
        struct problem p;
        char why[BENCH_WHY];
        assert_true(i < MAX_KERNELS);
        problem_init(&p, row);
        enum bench_result result = run(&p, name, why);
        problem_finish(&p);
        if (result == BENCH_FAILED)
            fail_msg("%s: %s", name, why);
        if (result == BENCH_RAN)
            cover->ran[i] = true;
        else
            memcpy(cover->why[i], why, sizeof(why));
        ran += result == BENCH_RAN;
    }
    if (ran == 0)
        fail_msg("no kernel runs %s", row->name);
}

static void attention_agrees_with_doubles(void **state)
{
    const struct row *row = *state;
    if (row->shape.tokens == 0)
        run_all(row, &coverage[DECODE], run_decode);
    else
        run_all(row, &coverage[PREFILL], run_prefill);
}

static void rope_and_cache_agree_bit_for_bit(void **state)
{
    run_all(*state, &coverage[ROPE_KV], run_rope_kv);
}

static void every_kernel_was_tested(void **state)
{
    (void)state;
    int missing = 0;
    if (!benches[0])
        SKIP("every_kernel_was_tested: no GLES device");
    for (size_t op = 0; op < sizeof(coverage) / sizeof(coverage[0]); op++) {
        const struct coverage *cover = &coverage[op];
        for (size_t i = 0; kernel_bench_name(benches[0], cover->op, i); i++) {
            if (cover->ran[i])
                continue;
            printf("# skip: %s\n", cover->why[i]);
            missing += !strstr(cover->why[i], "EXTENSION") && !strstr(cover->why[i], "SUBGROUP");
        }
    }
    assert_int_equal(missing, 0);
}

/* ---- rounding to f16 ------------------------------------------------------------------------- */

/* Numbers around every kind of boundary, through the cache of a model with one head and no turning
 * to speak of. */
static void rounding_to_half_is_to_nearest_even(void **state)
{
    (void)state;
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x00000001, 0x33000000, 0x33000001, 0x32ffffff, 0x33800000,
        0x33c00000, 0x33bfffff, 0x387fc000, 0x387fe000, 0x387fffff, 0x38800000, 0x38801000,
        0x38803000, 0x3f801000, 0x3f801001, 0x3f803000, 0xbf802fff, 0x477fefff, 0x477ff000,
        0x477fe000, 0x47800000, 0xff800000, 0x7f7fffff, 0x3555ffff, 0xb4a01234, 0x34400000};
    enum { COUNT = sizeof(bits) / sizeof(bits[0]) };
    struct row row = {"rounding", {1, 1, 2 * COUNT - COUNT % 2 * 2, 4, .tokens = 1}, true, false};
    struct problem p;
    char why[BENCH_WHY];
    if (!benches[0])
        SKIP("rounding_to_half_is_to_nearest_even: no GLES device");
    row.shape.head_dim = (COUNT + 3) / 4 * 4;
    problem_init(&p, &row);
    memcpy(p.qkv + 2 * row.shape.head_dim, bits, sizeof(bits));
    memcpy(p.turned + 2 * row.shape.head_dim, bits, sizeof(bits));
    ref_attn_store(&p.ref, p.turned, 0, p.kv_after);
    if (run_rope_kv(&p, "rope_kv", why) != BENCH_RAN)
        fail_msg("%s", why);
    problem_finish(&p);
}

/* ---- names ----------------------------------------------------------------------------------- */

static char names[NUM_SHAPES * 3][96];
static struct row rows[NUM_SHAPES * 3];

/* An f16 cache for every shape, f32 for every other one, the minimal device where heads are turned
 * in part. Not all of it: every program costs a driver that compiles on the CPU a second. */
static size_t name_rows(void)
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_SHAPES * 3; i++) {
        const struct shape *s = &shapes[i / 3];
        bool kv_f16 = i % 3 != 1, limits_min = i % 3 == 2;
        if ((!kv_f16 && i / 3 % 2 == 0) || (limits_min && s->rope_dims == s->head_dim))
            continue;
        snprintf(names[count], sizeof(names[0]), "%s_%s_h%u_%u_d%u_r%u_t%u_pos%u_s%u%s",
                 s->tokens ? "prefill" : "decode", kv_f16 ? "f16" : "f32", s->heads, s->kv_heads,
                 s->head_dim, s->rope_dims, s->tokens ? s->tokens : 1, s->pos, s->splits,
                 limits_min ? "_limits_min" : "");
        rows[count] = (struct row){names[count], *s, kv_f16, limits_min};
        count++;
    }
    return count;
}

int main(void)
{
    const struct CMUnitTest last[] = {cmocka_unit_test(rounding_to_half_is_to_nearest_even),
                                      cmocka_unit_test(every_kernel_was_tested)};
    size_t count = name_rows();
    benches[0] = kernel_bench_create(false);
    benches[1] = kernel_bench_create(true);
    int failures =
        test_run_rows("attention", attention_agrees_with_doubles, rows, count, sizeof(rows[0]));
    failures +=
        test_run_rows("rope", rope_and_cache_agree_bit_for_bit, rows, count, sizeof(rows[0]));
    failures += cmocka_run_group_tests_name("coverage", last, NULL, NULL);
    kernel_bench_destroy(&benches[0]);
    kernel_bench_destroy(&benches[1]);
    return failures;
}
