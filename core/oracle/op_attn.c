/*
 * Problems of rope_kv, qk_norm, attn_prefill, attn_decode, attn_token, attn_merge: random rows, and
 * a cache that is NaN in all positions that were not written. Rotated keys and cached numbers are
 * compared bit for bit, so that decode and prefill agree.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/oracle/op_problem.h"
#include "core/oracle/ref_attn.h"
#include "core/oracle/ref_ops.h"

#define EPS           1e-5f
#define ARRIVED_WORDS 64
#define EMPTY_MAX     (-1e30f)
#define FIRST_PAGE    5 /* entry of the page table */
#define GAIN_SEED     29

/* One case. Numbers of rows are per token: HEADS and 2 KV_HEADS heads, QKV_STRIDE words apart. */
struct attn {
    struct kernel_request q;
    struct ref_attn ref;
    uint32_t tokens, pos, splits;
    size_t stride, o_stride, qkv_words, kv_words, width;
    float *qkv, *rotated; /* [tokens][stride]: normed and rotated */
    float *sinks, *gain;
    size_t gain_words;
    uint32_t *kv_before, *kv_after;
    bool normed; /* a cached key may then round to the next number: norms are not exact */
    float scale, rope_scale, softcap;
};

static size_t number(const struct attn *a, const char *name)
{
    return (size_t)request_const(&a->q, name, 0);
}

/* Gains near 1 of qk_norm, and q and k of all rows normed by them: [tokens][stride]. */
static void norm_rows(struct problem *p, struct attn *a, const char *key, double *out)
{
    const struct ref_attn *r = &a->ref;
    const bool all = request_is(&a->q, key, "all");
    const uint32_t units = r->heads + r->kv_heads;
    a->gain_words = (size_t)(all ? units : 2) * r->head_dim;
    const uint64_t seed = p->seed; /* of the row: gains are those of all */
    p->seed = GAIN_SEED;
    a->gain = problem_floats(p, a->gain_words, 0.1f);
    p->seed = seed;
    if (p->failed)
        return;
    for (size_t i = 0; i < a->gain_words; i++)
        a->gain[i] += 1;
    for (uint32_t t = 0; t < a->tokens; t++)
        for (uint32_t unit = 0; unit < (all ? 2 : units); unit++) {
            const bool is_key = unit >= (all ? 1 : r->heads);
            const uint32_t count =
                all ? (is_key ? r->kv_heads : r->heads) * r->head_dim : r->head_dim;
            const uint32_t first = all && is_key ? r->heads * r->head_dim : unit * r->head_dim;
            const float *gain = a->gain + (all ? first : is_key * r->head_dim);
            const size_t at = t * a->stride + first;
            ref_norm_floats(a->qkv + at, gain, count, (double)EPS, out + at);
        }
}

/* a->rotated from normed rows. */
static void norm_to_floats(struct problem *p, struct attn *a)
{
    const size_t cols = (size_t)(a->ref.heads + a->ref.kv_heads) * a->ref.head_dim;
    double *normed = problem_new(p, double, a->qkv_words);
    if (!p->failed)
        norm_rows(p, a, "norm", normed);
    for (size_t i = 0; i < a->qkv_words && !p->failed; i++)
        if (i % a->stride < cols)
            a->rotated[i] = (float)normed[i];
}

/* Bits of kernel_case.variant: factor on the queries (0 counts as 1); rope_scale 1.25; the soft cap
 * (0 counts as 5). */
#define VARIANT_LOUD(variant)   ((variant)&0xff)
#define VARIANT_SCALED(variant) ((variant) >> 8 & 1)
#define VARIANT_CAP(variant)    ((variant) >> 16)

/* Gives the values the type of the keys: no plan has a cache with different types. */
static bool settle_types(struct kernel_case *c)
{
    request_set(&c->request, "kv_v", request_is(&c->request, "kv_k", "f16") ? "f16" : "f32");
    return true;
}

/* The pages of the sequence, out of order; page 0 is another's. */
static void add_pages(struct problem *p, struct ref_attn *r)
{
    const uint32_t count = (r->context + DGL_KV_PAGE - 1) / DGL_KV_PAGE;
    uint16_t *pages = problem_new(p, uint16_t, count);
    if (p->entry + FIRST_PAGE + count > DGL_KV_TABLE_PAGES)
        problem_refuse(p, "a page table has no room for so many positions");
    if (p->failed)
        return;
    r->num_pages = count + 1;
    for (uint32_t i = 0; i < count; i++) /* 2 4 .. 1 3 .. */
        pages[i] = (uint16_t)(2 * i + 2 <= count ? 2 * i + 2 : 2 * (i - count / 2) + 1);
    r->pages = pages;
    p->pages = pages;
    p->num_pages = count;
}

/* Sets omitted constants, sizes and random numbers. Returns NULL if memory runs out. */
static struct attn *attn_init(struct problem *p, const struct kernel_case *c)
{
    struct attn *a = problem_new(p, struct attn, 1);
    if (!a)
        return NULL;
    struct kernel_request *q = &a->q;
    struct ref_attn *r = &a->ref;
    *q = c->request;
    *r = (struct ref_attn){.heads = request_size(q, "HEADS", 4)};
    r->kv_heads = request_size(q, "KV_HEADS", r->heads);
    r->head_dim = request_size(q, "HEAD_DIM", 64);
    r->rope_dims = request_size(q, "ROPE_DIMS", r->head_dim);
    r->window = (uint32_t)number(a, "WINDOW");
    r->kv_f16 = request_is(q, "kv_k", "f16");
    a->splits = request_size(q, "SPLITS", 1);
    if (r->heads % r->kv_heads != 0)
        problem_refuse(p, "HEADS % KV_HEADS is not 0");
    else if (r->rope_dims > r->head_dim || r->rope_dims % 2 != 0 || r->head_dim % 2 != 0)
        problem_refuse(p, "ROPE_DIMS is odd, or more than HEAD_DIM");
    if (p->failed)
        return NULL;
    a->stride = request_size(q, "QKV_STRIDE", ref_attn_row(r));
    a->o_stride = request_size(q, "O_STRIDE", (int64_t)r->heads * r->head_dim);
    a->tokens = c->tokens ? c->tokens : 1;
    a->pos = c->pos;
    a->width = (size_t)r->heads * r->head_dim;
    a->scale = r->scale = 1 / sqrtf((float)r->head_dim);
    a->rope_scale = r->rope_scale = VARIANT_SCALED(c->variant) ? 1.25f : 1;
    a->softcap = VARIANT_CAP(c->variant) ? (float)VARIANT_CAP(c->variant) : 5;
    r->softcap = number(a, "SOFTCAP") ? a->softcap : 0;
    a->sinks = problem_floats(p, r->heads, 3);
    r->sinks = request_is(q, "sinks", "head") ? a->sinks : NULL;
    problem_begin_row(p, c);
    /* Few different ones, so that cases share programs. */
    r->context = a->pos + a->tokens < 320 ? 320 : a->pos + a->tokens + 3;
    r->context = c->context ? c->context : r->context;
    r->rope = problem_new(p, float, ref_attn_rope_words(r));
    if (r->rope)
        ref_attn_fill_rope(r);
    p->entry = number(a, "KV_ENTRY");
    add_pages(p, r);
    a->kv_words = ref_attn_kv_words(r);
    a->qkv_words = a->tokens * a->stride;
    a->qkv = problem_new(p, float, a->qkv_words);
    a->rotated = problem_new(p, float, a->qkv_words);
    if (p->failed)
        return NULL;
    p->step = (struct dgl_step){
        .pos = a->pos, .tokens = a->tokens, .context = r->context, .kv_first = FIRST_PAGE};
    const float loud = VARIANT_LOUD(c->variant) ? (float)VARIANT_LOUD(c->variant) : 1;
    for (size_t i = 0; i < a->qkv_words; i++) {
        const size_t column = i % a->stride;
        a->qkv[i] = column < ref_attn_row(r) ? ref_rand_float(&p->seed) : NAN;
        if (column < a->width)
            a->qkv[i] *= loud;
    }
    memcpy(a->rotated, a->qkv, 4 * a->qkv_words);
    p->priv = a;
    return a;
}

/* Makes the rows (normed, if the operation does it, and rotated) and the cache. */
static void attn_fill(struct problem *p, struct attn *a)
{
    a->normed = !request_is(&a->q, "norm", "none");
    a->kv_before = problem_new(p, uint32_t, a->kv_words);
    a->kv_after = problem_new(p, uint32_t, a->kv_words);
    if (a->normed)
        norm_to_floats(p, a);
    float *row = problem_new(p, float, ref_attn_row(&a->ref));
    if (p->failed)
        return;
    /* Unwritten positions are NaN. Rows that the pass stores are only in kv_after. */
    for (size_t i = 0; i < a->kv_words; i++)
        a->kv_before[i] = a->ref.kv_f16 ? 0x7e007e00 : 0x7fc00000;
    for (uint32_t j = 0; j < a->pos; j++) {
        for (uint32_t i = 0; i < ref_attn_row(&a->ref); i++)
            row[i] = ref_rand_float(&p->seed);
        ref_attn_store(&a->ref, row, j, a->kv_before);
    }
    memcpy(a->kv_after, a->kv_before, 4 * a->kv_words);
    for (uint32_t t = 0; t < a->tokens; t++) {
        float *rotated = a->rotated + t * a->stride;
        ref_attn_rotate(&a->ref, rotated, a->pos + t);
        ref_attn_store(&a->ref, rotated, a->pos + t, a->kv_after);
    }
}

static void attn_stage(struct problem *p, const struct attn *a)
{
    struct problem_stage *stage = problem_stage(p, &a->q);
    stage_float(stage, "scale", a->scale);
    stage_float(stage, "rope_scale", a->rope_scale);
    stage_float(stage, "softcap", a->softcap);
    stage_float(stage, "eps", EPS);
    problem_in(p, "ROPE", a->ref.rope, ref_attn_rope_words(&a->ref));
}

/* Sets the least number of bytes and of floating-point operations, and the terms of the longest
 * sum. */
static void attn_costs(struct problem *p, const struct attn *a)
{
    uint64_t keys = a->pos + (uint64_t)a->tokens, seen = keys;
    if (a->ref.window && seen > a->ref.window)
        seen = a->ref.window + a->tokens - 1ull < keys ? a->ref.window + a->tokens - 1ull : keys;
    p->bytes = seen * 2 * a->ref.kv_heads * a->ref.head_dim * (a->ref.kv_f16 ? 2 : 4) +
               4ull * a->tokens * (a->stride + a->width);
    p->terms = seen;
    uint64_t pairs = 0;
    for (uint32_t t = 0; t < a->tokens; t++) {
        uint64_t own = a->pos + t + 1ull;
        pairs += a->ref.window && own > a->ref.window ? a->ref.window : own;
    }
    p->flops = 4ull * a->ref.heads * a->ref.head_dim * pairs;
}

/* ---- rope_kv, qk_norm ---------------------------------------------------------------------- */

/* If a page of the cache is larger than this, a narrow case uses two pages. */
#define WIDE_PAGE_BYTES (768u << 10)

/* Returns true if the model's heads make pages so large that few of them must do. Their number is
 * compiled into the program, so only positions can be left out. */
static bool is_wide(const struct kernel_request *q)
{
    const int64_t numbers = request_const(q, "KV_HEADS", request_const(q, "HEADS", 0)) *
                            request_const(q, "HEAD_DIM", 0) * 2 * DGL_KV_PAGE;
    return numbers * (request_is(q, "kv_k", "f16") ? 2 : 4) > WIDE_PAGE_BYTES;
}

static void narrow_prefill(struct kernel_case *c)
{
    const bool wide = is_wide(&c->request);
    c->tokens = 21;
    c->pos = wide ? DGL_KV_PAGE - 9 : 240; /* across the rows of the rotary table */
    c->context = wide ? 2 * DGL_KV_PAGE : 0;
}

static void make_rope_kv(struct problem *p, const struct kernel_case *c)
{
    struct attn *a = attn_init(p, c);
    if (a)
        attn_fill(p, a);
    if (p->failed)
        return;
    attn_stage(p, a);
    float *want = problem_new(p, float, a->qkv_words);
    if (p->failed)
        return;
    memcpy(want, a->qkv, 4 * a->qkv_words); /* k and v of QKV stay as they were */
    for (uint32_t t = 0; t < a->tokens && !request_const(&a->q, "KEYS_ONLY", 0); t++)
        memcpy(want + t * a->stride, a->rotated + t * a->stride, 4 * a->width);
    problem_exact(p, "QKV", a->qkv, want, a->qkv_words);
    problem_exact(p, "KV", a->kv_before, a->kv_after, a->kv_words);
    p->bytes = 4ull * a->tokens * (a->stride + a->width) +
               2ull * a->tokens * a->ref.kv_heads * a->ref.head_dim * (a->ref.kv_f16 ? 2 : 4);
    p->flops = 6ull * a->tokens * (a->ref.heads + a->ref.kv_heads) * (a->ref.rope_dims / 2);
}

static void make_qk_norm(struct problem *p, const struct kernel_case *c)
{
    struct attn *a = attn_init(p, c);
    double *normed = a ? problem_new(p, double, a->qkv_words) : NULL;
    if (!p->failed)
        norm_rows(p, a, "span", normed);
    if (p->failed)
        return;
    const size_t cols = (size_t)(a->ref.heads + a->ref.kv_heads) * a->ref.head_dim;
    attn_stage(p, a);
    problem_out(p, "QKV", a->qkv, a->qkv_words);
    problem_in(p, "G", a->gain, a->gain_words);
    p->bytes = 8ull * a->tokens * cols;
    p->flops = 4ull * a->tokens * cols;
    struct problem_result *result = problem_result(p, "QKV", 0, a->tokens, cols, a->stride);
    for (size_t i = 0; !p->failed && i < a->tokens * cols; i++)
        result->want[i] = normed[i / cols * a->stride + i % cols];
}

/* ---- attention ------------------------------------------------------------------------------ */

static void attend(struct problem *p, const struct attn *a, struct problem_result *result)
{
    for (uint32_t t = 0; t < a->tokens && !p->failed; t++)
        p->failed |= !ref_attention(&a->ref, a->rotated + t * a->stride, a->pos + t, a->kv_after,
                                    result->want + t * a->width);
}

static void make_prefill(struct problem *p, const struct kernel_case *c)
{
    struct attn *a = attn_init(p, c);
    if (a && !c->timing)
        attn_fill(p, a);
    float *o = a ? problem_floats(p, a->tokens * a->o_stride, 1) : NULL;
    if (p->failed)
        return;
    problem_nan(o, a->tokens * a->o_stride, a->o_stride, 0, a->width);
    attn_stage(p, a);
    attn_costs(p, a);
    problem_in(p, "QKV", a->rotated, a->qkv_words);
    problem_bits(p, "KV", a->kv_after, a->kv_words);
    problem_out(p, "O", o, a->tokens * a->o_stride);
    problem_in_if(p, a->ref.sinks, "S", a->sinks, a->ref.heads);
    if (c->timing)
        return;
    attend(p, a, problem_result(p, "O", 0, a->tokens, a->width, a->o_stride));
}

static void narrow_decode(struct kernel_case *c)
{
    const bool wide = is_wide(&c->request);
    c->tokens = 1;
    c->pos = wide ? DGL_KV_PAGE + 20 : 300;
    c->context = wide ? 2 * DGL_KV_PAGE : 0;
}

/* Each row sees a different part of the keys, possibly zero keys. */
static bool member_decode(struct kernel_case *c, uint32_t row)
{
    if (c->context == 0)
        c->context = c->pos + 1 < 320 ? 320 : c->pos + 4;
    c->pos = row == 0 ? c->pos : c->pos * (row * 5 % 7) / 7;
    return true;
}

/* Compares the cache after a step. Normed keys may differ by one f16 step, or by rounding. */
static bool cache_is_near(const struct problem *p, const struct attn *a, char why[512])
{
    const uint32_t *got = problem_buffer((struct problem *)(uintptr_t)p, "KV")->after;
    const size_t cols = a->ref.head_dim;
    float slack = 0.0f;
    for (size_t i = 0; i < a->kv_words; i++) {
        const uint32_t x = got[i], y = a->kv_after[i];
        int32_t low = (int32_t)(x & 0xffff) - (int32_t)(y & 0xffff);
        int32_t high = (int32_t)(x >> 16) - (int32_t)(y >> 16);
        float given, wanted;
        memcpy(&given, &x, sizeof(given));
        memcpy(&wanted, &y, sizeof(wanted));
        /* A rotation subtracts products of the size of the row's largest number, even if the
         * difference is small. */
        if (!a->ref.kv_f16 && i % cols == 0) {
            slack = 0.0f;
            for (size_t k = 0; k < cols; k++)
                slack = fmaxf(slack, 0x1p-20f * fabsf(((const float *)a->kv_after)[i + k]));
        }
        if (a->ref.kv_f16 ? abs(low) <= 1 && abs(high) <= 1
                          : x == y || fabsf(given - wanted) <= slack)
            continue;
        snprintf(why, 512, "word %zu of %zu of KV is %08x, wanted %08x", i, a->kv_words,
                 (unsigned)x, (unsigned)y);
        return false;
    }
    return true;
}

/* The parts that the kernel cut the keys into, merged in doubles. */
static bool settle_decode(struct problem *p, char why[512])
{
    struct attn *a = p->priv;
    struct problem_buffer *parts = problem_buffer(p, "P");
    if (a->normed && !cache_is_near(p, a, why))
        return false;
    if (a->normed) { /* keys that rounded to their neighbours are those that were attended to */
        memcpy(a->kv_after, problem_buffer(p, "KV")->after, 4 * a->kv_words);
        attend(p, a, &p->results[0]);
    }
    if (!parts || a->splits == 1)
        return true;
    const float *values = (const float *)parts->after;
    for (size_t i = 0; i < parts->words; i++)
        if (isnan(values[i])) {
            snprintf(why, 512, "P[%zu] of %zu is no number", i, parts->words);
            return false;
        }
    double *merged = problem_new(p, double, a->width);
    if (!merged) {
        snprintf(why, 512, "out of memory");
        return false;
    }
    ref_merge(values, a->ref.heads, a->splits, a->ref.head_dim, NULL, merged);
    float *out = (float *)problem_buffer(p, "merged P")->after;
    for (size_t i = 0; i < a->width; i++)
        out[i] = (float)merged[i];
    return true;
}

static void make_decode(struct problem *p, const struct kernel_case *c)
{
    struct attn *a = attn_init(p, c);
    const bool whole = strcmp(c->request.op, "attn_token") == 0;
    if (a && !c->timing)
        attn_fill(p, a);
    else if (a && !request_is(&a->q, "norm", "none"))
        norm_to_floats(p, a);
    if (p->failed)
        return;
    attn_stage(p, a);
    attn_costs(p, a);
    problem_in(p, "QKV", a->qkv, a->qkv_words);
    if (c->timing)
        problem_bits(p, "KV", NULL, a->kv_words);
    else if (a->normed)
        problem_out(p, "KV", a->kv_before, a->kv_words);
    else
        problem_exact(p, "KV", a->kv_before, a->kv_after, a->kv_words);
    const size_t parts = a->width * a->splits + 2ull * a->ref.heads * a->splits;
    if (whole) {
        uint32_t *arrived = problem_new(p, uint32_t, ARRIVED_WORDS + a->ref.heads);
        problem_out(p, "PARTS", NULL, (parts + 3) / 4 * 4);
        problem_exact(p, "ARRIVED", arrived, arrived, ARRIVED_WORDS + a->ref.heads);
        problem_out(p, "O", NULL, a->width);
        problem_in_if(p, a->ref.sinks, "S", a->sinks, a->ref.heads);
        problem_in_if(p, a->gain, "G", a->gain, a->gain_words);
        p->repeats = c->timing ? 0 : 2;
    } else {
        problem_out(p, "P", NULL, a->splits == 1 ? a->width : parts);
        if (a->splits > 1)
            problem_out(p, "merged P", NULL, a->width);
    }
    if (c->timing)
        return;
    p->settle = settle_decode;
    const char *out = whole ? "O" : a->splits > 1 ? "merged P" : "P";
    attend(p, a, problem_result(p, out, 0, 1, a->width, 0));
}

/* ---- attn_merge ------------------------------------------------------------------------------ */

enum { MERGE_FULL, MERGE_SOME_EMPTY, MERGE_ONE_LEFT };

/* P as attn_decode writes it. Scores of even heads are about 500, of odd heads about -500. Scores
 * of every third split are so low that its weight is 0. Sinks are about as high as the highest
 * score of their head, so that both the sink and the keys have weight. */
static void make_merge(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const uint32_t heads = request_size(&q, "HEADS", 4), dim = request_size(&q, "HEAD_DIM", 64);
    const uint32_t splits = request_size(&q, "SPLITS", 2);
    const size_t count = (size_t)heads * splits, words = count * (dim + 2);
    const bool has_sinks = request_is(&q, "sinks", "head");
    float *parts = problem_floats(p, words, 1), *clean = problem_new(p, float, words);
    float *sinks = problem_floats(p, heads, 2);
    if (p->failed)
        return;
    for (size_t i = 0; i < count; i++) {
        const uint32_t head = (uint32_t)(i / splits), split = (uint32_t)(i % splits);
        float *ml = parts + count * dim + 2 * i;
        ml[0] += (head % 2 ? -500.0f : 500.0f) - (split % 3 == 2 ? 200.0f : 0.0f);
        ml[1] = 1.0f + fabsf(ml[1]);
        if (!(c->variant == MERGE_SOME_EMPTY && (head + split) % 2 == 1) &&
            !(c->variant == MERGE_ONE_LEFT && split != (head + 1) % splits))
            continue;
        ml[0] = EMPTY_MAX;
        ml[1] = 0.0f;
        for (uint32_t d = 0; d < dim; d++)
            parts[i * dim + d] = NAN;
    }
    for (uint32_t h = 0; h < heads; h++) {
        float top = EMPTY_MAX;
        for (uint32_t s = 0; s < splits; s++)
            top = fmaxf(top, parts[count * dim + 2 * ((size_t)h * splits + s)]);
        sinks[h] += top;
    }
    for (size_t i = 0; i < words; i++) /* doubles take an empty part for zeros */
        clean[i] = isnan(parts[i]) ? 0.0f : parts[i];
    p->step.tokens = 1;
    problem_in(p, "P", parts, words);
    problem_in_if(p, has_sinks, "S", sinks, heads);
    problem_out(p, "O", NULL, (size_t)heads * dim);
    (void)problem_stage(p, &q);
    p->bytes = 4ull * (words + (uint64_t)heads * dim);
    p->flops = 2ull * count * dim;
    if (c->timing)
        return;
    struct problem_result *result = problem_result(p, "O", 0, heads, dim, 0);
    result->each_row = true;
    if (!p->failed)
        ref_merge(clean, heads, splits, dim, has_sinks ? sinks : NULL, result->want);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* clang-format breaks the braces of a macro into lines of their own. */
/* clang-format off */
#define HEADS(h, kv, dim, rope) \
    {"HEADS", h}, {"KV_HEADS", kv}, {"HEAD_DIM", dim}, {"ROPE_DIMS", rope}
#define TYPICAL  {"HEADS", 32}, {"KV_HEADS", 8}, {"HEAD_DIM", 128} /* ROPE_DIMS follows */
#define KV_WORDS {"kv_k", {"f16", "f32"}}, {"kv_v", {"f16", "f32"}}
/* clang-format on */
#define LOUD(times) (times)
#define SCALED      (1 << 8)
#define CAP(value)  ((value) << 16)

static const struct op_shape prefill_shapes[] = {
    {{HEADS(5, 5, 80, 20), {"QKV_STRIDE", 1208}, {"O_STRIDE", 408}}, 33, 5, 0, 0},
    {{HEADS(4, 2, 64, 64)}, 5, 1500, 0, 0},
    {{HEADS(4, 2, 64, 64), {"WINDOW", 24}, {"KV_ENTRY", 4096}}, 70, 3, 0, 0},
    {{HEADS(3, 1, 96, 96), {"SOFTCAP", 1}, {"WINDOW", 33}}, 20, 30, 0, LOUD(100) | CAP(30)},
    {{HEADS(8, 1, 16, 16)}, 33, 250, 0, 0},
    {{HEADS(6, 2, 128, 64)}, 17, 100, 0, SCALED},
    {{HEADS(2, 1, 256, 256), {"WINDOW", 24}}, 33, 30, 0, 0},
    {{HEADS(12, 2, 20, 20), {"QKV_STRIDE", 324}, {"O_STRIDE", 244}}, 7, 19, 0, 0},
    {{HEADS(4, 2, 64, 0)}, 9, 20, 0, 0},
    {{HEADS(4, 2, 32, 32), {"SOFTCAP", 1}}, 40, 10, 0, LOUD(30)},
    {{HEADS(4, 2, 64, 64)}, 1, 0, 0, 0},
    {{HEADS(6, 2, 64, 32), {"KEYS_ONLY", 1}}, 8, 60, 0, 0}, /* of rope_kv */
};

static const struct op_shape decode_shapes[] = {
    {{HEADS(5, 5, 80, 80), {"SPLITS", 3}}, 1, 33, 0, 0},
    {{HEADS(4, 2, 64, 64), {"SPLITS", 4}}, 1, 1100, 0, 0},
    {{HEADS(4, 2, 64, 64), {"SPLITS", 1}, {"WINDOW", 24}, {"KV_ENTRY", 4096}}, 1, 200, 0, 0},
    {{HEADS(8, 1, 16, 16), {"SPLITS", 16}}, 1, 7, 0, 0},
    {{HEADS(6, 2, 128, 64), {"SPLITS", 64}}, 1, 65, 0, SCALED},
    {{HEADS(3, 1, 96, 96), {"SPLITS", 1}, {"SOFTCAP", 1}, {"WINDOW", 33}},
     1,
     70,
     0,
     LOUD(100) | CAP(30)},
    {{HEADS(2, 2, 256, 256), {"SPLITS", 2}}, 1, 256, 0, 0},
    {{HEADS(12, 2, 20, 20), {"SPLITS", 2}}, 1, 19, 0, 0},
    {{HEADS(16, 2, 40, 16), {"SPLITS", 2}}, 1, 400, 0, 0},
    {{HEADS(4, 2, 64, 0), {"SPLITS", 4}}, 1, 300, 0, 0},
    {{HEADS(4, 2, 32, 32), {"SPLITS", 2}, {"SOFTCAP", 1}}, 1, 90, 0, LOUD(30)},
    {{HEADS(4, 2, 64, 64), {"SPLITS", 1}}, 1, 0, 0, 0},
};

static const struct op_shape merge_shapes[] = {
    {{{"HEADS", 5}, {"HEAD_DIM", 80}, {"SPLITS", 3}}, 1, 0, 0, MERGE_SOME_EMPTY},
    {{{"HEADS", 32}, {"HEAD_DIM", 64}, {"SPLITS", 32}}, 1, 0, 0, MERGE_FULL},
    {{{"HEADS", 1}, {"HEAD_DIM", 16}, {"SPLITS", 2}}, 1, 0, 0, MERGE_ONE_LEFT},
    {{{"HEADS", 4}, {"HEAD_DIM", 256}, {"SPLITS", 8}}, 1, 0, 0, MERGE_ONE_LEFT},
};

static const struct op_shape qk_shapes[] = {
    {{HEADS(5, 5, 80, 80), {"QKV_STRIDE", 1204}}, 7, 0, 0, 0},
    {{HEADS(2, 1, 256, 256)}, 33, 0, 0, 0},
    {{HEADS(3, 1, 20, 20), {"QKV_STRIDE", 108}}, 64, 0, 0, 0},
    {{HEADS(32, 8, 128, 128)}, 2, 0, 0, 0},
    {{HEADS(4, 2, 16, 16)}, 1, 0, 0, 0},
};

const struct op_rule op_rule_rope_kv = {.op = "rope_kv",
                                        .attrs = {KV_WORDS},
                                        .settle = settle_types,
                                        OP_SHAPES(prefill_shapes),
                                        .narrow = narrow_prefill,
                                        .typical = {{TYPICAL}, 256, 0, 0, 0},
                                        .make = make_rope_kv};

const struct op_rule op_rule_qk_norm = {.op = "qk_norm",
                                        .attrs = {{"span", {"head", "all"}}},
                                        OP_SHAPES(qk_shapes),
                                        .narrow = narrow_prefill,
                                        .typical = {{TYPICAL}, 1, 0, 0, 0},
                                        .make = make_qk_norm};

const struct op_rule op_rule_attn_prefill = {.op = "attn_prefill",
                                             .attrs = {KV_WORDS, {"sinks", {"none", "head"}}},
                                             .settle = settle_types,
                                             OP_SHAPES(prefill_shapes),
                                             .narrow = narrow_prefill,
                                             .typical = {{TYPICAL}, 256, 1024, 0, 0},
                                             .make = make_prefill,
                                             .streamed = "KV"};

const struct op_rule op_rule_attn_decode = {.op = "attn_decode",
                                            .attrs = {KV_WORDS},
                                            .settle = settle_types,
                                            OP_SHAPES(decode_shapes),
                                            .narrow = narrow_decode,
                                            .member = member_decode,
                                            .typical = {{TYPICAL, {"SPLITS", 16}}, 1, 4096, 0, 0},
                                            .make = make_decode,
                                            .streamed = "KV"};

const struct op_rule op_rule_attn_token = {
    .op = "attn_token",
    .attrs = {KV_WORDS, {"norm", {"none", "head", "all"}}, {"sinks", {"none", "head"}}},
    .settle = settle_types,
    OP_SHAPES(decode_shapes),
    .narrow = narrow_decode,
    .member = member_decode,
    .typical = {{TYPICAL, {"SPLITS", 16}}, 1, 4096, 0, 0},
    .make = make_decode,
    .streamed = "KV"};

const struct op_rule op_rule_attn_merge = {
    .op = "attn_merge",
    .attrs = {{"sinks", {"none", "head"}}},
    OP_SHAPES(merge_shapes),
    .typical = {{{"HEADS", 32}, {"HEAD_DIM", 128}, {"SPLITS", 16}}, 1, 0, 0, 0},
    .make = make_merge};
