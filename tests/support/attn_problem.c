/* Attention kernels by themselves, against doubles. */
#include "tests/support/attn_problem.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/ref_ops.h"
#include "tests/support/test.h"

/* Rows of random numbers, NaN between them. */
static void fill_rows(struct attn_problem *p, uint64_t *seed)
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

/* Gains near 1, and the rows of `turned` normed by them. */
static void norm_rows(struct attn_problem *p, uint64_t *seed)
{
    const struct ref_attn *a = &p->ref;
    uint32_t units = a->heads + a->kv_heads, all = p->s.norm == ATTN_NORM_ALL;
    p->gain_words = (size_t)(all ? units : 2) * a->head_dim;
    p->gain = checked(dgl_new_array(float, p->gain_words));
    for (size_t i = 0; i < p->gain_words; i++)
        p->gain[i] = 1 + 0.1f * test_rand_float(seed);
    double *x = checked(dgl_new_array(double, (size_t)units * a->head_dim)), *g, *y;
    g = checked(dgl_new_array(double, (size_t)units * a->head_dim));
    y = checked(dgl_new_array(double, (size_t)units * a->head_dim));
    for (uint32_t t = 0; t < p->tokens; t++)
        for (uint32_t unit = 0; unit < (all ? 2 : units); unit++) {
            bool key = unit >= (all ? 1 : a->heads);
            uint32_t count = all ? (key ? a->kv_heads : a->heads) * a->head_dim : a->head_dim;
            uint32_t first = all && key ? a->heads * a->head_dim : unit * a->head_dim;
            const float *gain = p->gain + (all ? first : key * a->head_dim);
            float *row = p->turned + (size_t)t * p->qkv_stride + first;
            for (uint32_t i = 0; i < count; i++) {
                x[i] = row[i];
                g[i] = gain[i];
            }
            ref_norm(x, g, count, ATTN_NORM_EPS, y);
            for (uint32_t i = 0; i < count; i++)
                row[i] = (float)y[i];
        }
    free(x);
    free(g);
    free(y);
}

/* NaN where nothing was stored; what the pass stores is in kv_after only. */
static void fill_cache(struct attn_problem *p, uint64_t *seed)
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
        ref_attn_rotate(&p->ref, p->turned + (size_t)t * p->qkv_stride, p->s.pos + t);
        ref_attn_store(&p->ref, p->turned + (size_t)t * p->qkv_stride, p->s.pos + t, p->kv_after);
    }
}

void attn_problem_init(struct attn_problem *p, const struct attn_row *row,
                       struct kernel_bench *bench)
{
    const struct attn_shape *s = &row->shape;
    uint64_t seed = 7919 * s->head_dim + s->pos;
    *p = (struct attn_problem){.s = *s,
                               .bench = bench,
                               .tokens = s->tokens ? s->tokens : 1,
                               .ref = {.heads = s->heads,
                                       .kv_heads = s->kv_heads,
                                       .head_dim = s->head_dim,
                                       .rope_dims = s->rope_dims,
                                       .kv_f16 = row->kv_f16,
                                       .scale = 1 / sqrtf((float)s->head_dim),
                                       .rope_scale = s->louder ? 1.25f : 1,
                                       .window = s->window,
                                       .softcap = s->softcap,
                                       .sinks = s->sinks ? p->sinks : NULL}};
    for (uint32_t h = 0; h < ATTN_MAX_HEADS; h++)
        p->sinks[h] = 3 * test_rand_float(&seed);
    /* Few different ones, so that cases share programs. */
    p->ref.context = s->pos + p->tokens < 320 ? 320 : s->pos + p->tokens + 3;
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
    if (s->norm)
        norm_rows(p, &seed);
    fill_cache(p, &seed);
}

void attn_problem_finish(struct attn_problem *p)
{
    ref_attn_finish(&p->ref);
    free(p->gain);
    free(p->qkv);
    free(p->turned);
    free(p->kv_before);
    free(p->kv_after);
}

/* ---- running it ------------------------------------------------------------------------------ */

void attn_describe(const struct attn_problem *p, const char *op, struct bench_case *c)
{
    *c = (struct bench_case){
        .request.op = op,
        .step = {.pos = p->s.pos, .tokens = p->tokens, .context = p->ref.context}};
    bench_attr(c, "kv", p->ref.kv_f16 ? "f16" : "f32");
    bench_const(c, "HEADS", p->s.heads);
    bench_const(c, "KV_HEADS", p->s.kv_heads);
    bench_const(c, "HEAD_DIM", p->s.head_dim);
    bench_const(c, "ROPE_DIMS", p->s.rope_dims);
    bench_const(c, "QKV_STRIDE", p->qkv_stride);
    bench_const(c, "O_STRIDE", p->o_stride);
    bench_const(c, "SPLITS", p->s.splits);
    bench_float(c, "scale", p->ref.scale);
    bench_const(c, "WINDOW", p->ref.window);
    bench_const(c, "SOFTCAP", p->ref.softcap != 0);
    bench_float(c, "rope_scale", p->ref.rope_scale);
    bench_float(c, "softcap", p->ref.softcap);
    bench_float(c, "eps", ATTN_NORM_EPS);
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

enum bench_result attn_run_rope_kv(struct attn_problem *p, const char *kernel, char why[BENCH_WHY])
{
    struct bench_case c;
    float *qkv = checked(dgl_new_array(float, p->qkv_words));
    uint32_t *kv = checked(dgl_new_array(uint32_t, p->kv_words));
    size_t q_bytes = (size_t)4 * p->s.heads * p->s.head_dim;
    attn_describe(p, "rope_kv", &c);
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

enum bench_result attn_run_prefill(struct attn_problem *p, const char *kernel, char why[BENCH_WHY])
{
    struct bench_case c;
    size_t width = (size_t)p->s.heads * p->s.head_dim, words = (size_t)p->tokens * p->o_stride;
    float *o = checked(dgl_new_array(float, words)), *got = checked(dgl_new_array(float, words));
    double *want = checked(dgl_new_array(double, words));
    for (size_t i = 0; i < words; i++)
        o[i] = NAN;
    attn_describe(p, "attn_prefill", &c);
    bench_attr(&c, "sinks", p->ref.sinks ? "head" : "none");
    if (p->ref.sinks)
        bench_in(&c, "S", p->sinks, p->s.heads);
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
        walk_values_check(p->bench, kernel, got, want, p->tokens * width);
    }
    free(o);
    free(got);
    free(want);
    return result;
}

/* Cached numbers; a normed key may round to the next one, since norms are not pinned to the bit. */
static void compare_cache(const struct attn_problem *p, const char *kernel, const uint32_t *got)
{
    if (!p->s.norm) {
        compare_words(kernel, "KV", got, p->kv_after, p->kv_words);
        return;
    }
    for (size_t i = 0; i < p->kv_words; i++) {
        const uint32_t a = got[i], b = p->kv_after[i];
        int32_t low = (int32_t)(a & 0xffff) - (int32_t)(b & 0xffff);
        int32_t high = (int32_t)(a >> 16) - (int32_t)(b >> 16), all = (int32_t)(a - b);
        bool near = p->ref.kv_f16 ? abs(low) <= 1 && abs(high) <= 1 : abs(all) <= 16;
        if (!near)
            fail_msg("%s: KV: word %zu of %zu is %08x, expected %08x", kernel, i, p->kv_words, a,
                     b);
    }
}

/* The kernel's parts, merged here; with one split the result itself. */
static enum bench_result run_parts(struct attn_problem *p, const char *kernel, struct bench_case *c,
                                   float *got, char why[BENCH_WHY])
{
    size_t width = (size_t)p->s.heads * p->s.head_dim, splits = p->s.splits;
    size_t words = splits == 1 ? width : width * splits + 2 * p->s.heads * splits;
    float *out = checked(dgl_new_array(float, words));
    double *merged = checked(dgl_new_array(double, width));
    bench_out(c, "P", out, words);
    enum bench_result result = kernel_bench_run(p->bench, kernel, c, why);
    if (result == BENCH_RAN) {
        for (size_t i = 0; i < words; i++)
            assert_false(isnan(out[i]));
        if (splits > 1)
            ref_merge(out, p->s.heads, splits, p->s.head_dim, NULL, merged);
        for (size_t i = 0; i < width; i++)
            got[i] = splits > 1 ? (float)merged[i] : out[i];
    }
    free(out);
    free(merged);
    return result;
}

/* The result of all splits, merged by the kernel; again and again, which must change nothing. */
static enum bench_result run_whole(struct attn_problem *p, const char *kernel, struct bench_case *c,
                                   float *got, char why[BENCH_WHY])
{
    static const char *const norm[] = {"none", "head", "all"};
    size_t width = (size_t)p->s.heads * p->s.head_dim, splits = p->s.splits;
    uint32_t arrived[ATTN_MAX_HEADS] = {0};
    bench_attr(c, "norm", norm[p->s.norm]);
    bench_attr(c, "sinks", p->s.sinks ? "head" : "none");
    bench_out(c, "PARTS", NULL, (width * splits + 2 * p->s.heads * splits + 3) / 4 * 4);
    bench_inout(c, "ARRIVED", arrived, arrived, ATTN_MAX_HEADS);
    bench_out(c, "O", got, width);
    if (p->s.sinks)
        bench_in(c, "S", p->sinks, p->s.heads);
    if (p->s.norm)
        bench_in(c, "G", p->gain, p->gain_words);
    c->repeats = 1;
    enum bench_result result = kernel_bench_run(p->bench, kernel, c, why);
    for (uint32_t i = 0; result == BENCH_RAN && i < ATTN_MAX_HEADS; i++)
        if (arrived[i] != 0)
            fail_msg("%s: counter %u is left at %u, expected 0", kernel, i, arrived[i]);
    return result;
}

static enum bench_result run_decode(struct attn_problem *p, const char *op, const char *kernel,
                                    char why[BENCH_WHY])
{
    struct bench_case c;
    size_t width = (size_t)p->s.heads * p->s.head_dim;
    bool whole = strcmp(op, "attn_token") == 0;
    float *got = checked(dgl_new_array(float, width));
    double *want = checked(dgl_new_array(double, width));
    uint32_t *kv = checked(dgl_new_array(uint32_t, p->kv_words));
    attn_describe(p, op, &c);
    bench_in(&c, "QKV", p->qkv, p->qkv_words);
    bench_inout(&c, "KV", p->kv_before, kv, p->kv_words);
    enum bench_result result = (whole ? run_whole : run_parts)(p, kernel, &c, got, why);
    if (result == BENCH_RAN) {
        ref_attention(&p->ref, p->turned, p->s.pos, p->kv_after, want);
        compare_cache(p, kernel, kv);
        walk_values_check(p->bench, kernel, got, want, width);
    }
    free(got);
    free(want);
    free(kv);
    return result;
}

enum bench_result attn_run_decode(struct attn_problem *p, const char *kernel, char why[BENCH_WHY])
{
    assert_false(p->s.sinks || p->s.norm);
    return run_decode(p, "attn_decode", kernel, why);
}

enum bench_result attn_run_token(struct attn_problem *p, const char *kernel, char why[BENCH_WHY])
{
    return run_decode(p, "attn_token", kernel, why);
}

struct attempt {
    const struct attn_row *row;
    struct kernel_bench *bench;
    attn_run_fn run;
};

/* On a problem of its own: running changes it. */
static enum bench_result attempt(void *ctx, const char *kernel, char why[BENCH_WHY])
{
    const struct attempt *a = ctx;
    struct attn_problem p;
    attn_problem_init(&p, a->row, a->bench);
    enum bench_result result = a->run(&p, kernel, why);
    attn_problem_finish(&p);
    return result;
}

size_t attn_run_some(const struct attn_row *row, struct kernel_bench *bench,
                     struct kernel_walk *walk, attn_run_fn run)
{
    return kernel_walk_run(walk, bench, attempt, &(struct attempt){row, bench, run});
}

void attn_run_all(const struct attn_row *row, struct kernel_bench *bench, struct kernel_walk *walk,
                  attn_run_fn run)
{
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    if (attn_run_some(row, bench, walk, run) == 0)
        fail_msg("no kernel of %s runs %s", walk->op, row->name);
}
