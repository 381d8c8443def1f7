/*
 * The search for q6_k codes: w = (d * sc) * q, squared error, no weighting. As in quant_k_search.c:
 *
 * 1. Every sub-block alone: the scale that suits it best, with the curvature of its error.
 * 2. The block: d from a grid, judged by how far the int8 scales push each sub-block off its own.
 * 3. The best few for real: scales next to the ideal ones with exact errors, then d by least
 *    squares, until nothing improves.
 */
#include <string.h>

#include "loader/quant/quant_block.h"
#include "loader/quant/quant_vec.h"

#define SUBS     (K_VALUES / 16)
#define SUB_VECS 4
#define MIN_Q    (-32.0f)
#define MAX_Q    31.0f
#define GRID     32
#define STARTS   4

/* How much of each step is done. */
struct plan {
    size_t cuts;
    int grid, starts, steps;
};

static const struct plan plans[] = {
    [QUANT_SEARCH] = {8, GRID, STARTS, 5},
    [QUANT_FAST] = {1, 1, 1, 0},
};

struct sub {
    f32x4 x[SUB_VECS]; /* padding is 0 and costs nothing */
    float a, qq;       /* the best scale, and the sum of q*q there: the curvature around it */
};

struct block {
    struct sub sub[SUBS];
    float unit; /* real value = unit * x, a power of two */
    const struct plan *plan;
};

struct attempt {
    float d; /* in units of the block; f16 once multiplied by it */
    float sc[SUBS];
    float err;
};

/* Squared error of scale `a` with its best codes; the sums for least squares. */
static float scale_error(const struct sub *s, float a, float *xq, float *qq)
{
    const f32x4 va = splat(a), inv = splat(reciprocal(a));
    f32x4 err = {0}, sxq = {0}, sqq = {0};
    for (int i = 0; i < SUB_VECS; i++) {
        f32x4 q = signed_level_of(s->x[i] * inv, MIN_Q, MAX_Q), rest = s->x[i] - va * q;
        err += rest * rest;
        sxq += s->x[i] * q;
        sqq += q * q;
    }
    *xq = lanes_sum(sxq);
    *qq = lanes_sum(sqq);
    return lanes_sum(err);
}

/* Tries scales that give the largest magnitude a code around either end of the range, each followed
 * by a least-squares step. */
static void sub_fit(struct sub *s, const struct plan *plan)
{
    static const float codes[] = {-32.0f, -31.5f, -32.6f, -31.0f, 31.0f, -30.4f, 30.5f, 31.6f};
    float largest = 0.0f, best = INFINITY, xq, qq;
    for (int i = 0; i < 4 * SUB_VECS; i++) {
        float x = s->x[i / 4][i % 4];
        largest = fabsf(x) > fabsf(largest) ? x : largest;
    }
    s->a = s->qq = 0.0f;
    for (size_t c = 0; c < plan->cuts && largest != 0.0f; c++) {
        float a = largest / codes[c];
        scale_error(s, a, &xq, &qq);
        a = qq > 0.0f ? xq / qq : a;
        float err = scale_error(s, a, &xq, &qq);
        if (err < best) {
            best = err;
            s->a = a;
            s->qq = qq;
        }
    }
}

/* Scales next to the ideal ones and what they cost by curvature. */
static void block_price(const struct block *b, struct attempt *t)
{
    t->err = 0.0f;
    for (int i = 0; i < SUBS; i++) {
        const struct sub *s = &b->sub[i];
        t->sc[i] = signed_level_of(splat(s->a * reciprocal(t->d)), -128.0f, 127.0f)[0];
        float off = t->d * t->sc[i] - s->a;
        t->err += s->qq * off * off;
    }
}

/* Steps of d for which the largest scale gets code -128 down to 80, of either sign. */
static void block_scales(const struct block *b, struct attempt best[STARTS])
{
    float largest = 0.0f;
    for (int i = 0; i < SUBS; i++)
        largest = fabsf(b->sub[i].a) > fabsf(largest) ? b->sub[i].a : largest;
    for (int i = 0; i < STARTS; i++)
        best[i] = (struct attempt){.err = INFINITY};
    for (int i = 0; i < b->plan->grid; i++) {
        float code = 128.0f - 48.0f / GRID * (float)i;
        struct attempt t = {.d = round_super(largest / (i % 2 ? code : -code), b->unit)};
        block_price(b, &t);
        int at = STARTS;
        while (at > 0 && t.err < best[at - 1].err)
            at--;
        if (at == STARTS)
            continue;
        memmove(best + at + 1, best + at, (size_t)(STARTS - at - 1) * sizeof(*best));
        best[at] = t;
    }
}

/* The best scales next to those of `t`, by exact errors; *d is the best d for them. */
static void block_codes(const struct block *b, struct attempt *t, float *d)
{
    float xu = 0.0f, uu = 0.0f;
    t->err = 0.0f;
    for (int i = 0; i < SUBS; i++) {
        float middle = t->sc[i], best = INFINITY, best_xq = 0.0f, best_qq = 0.0f, xq, qq;
        for (int c = 0; c < 3; c++) {
            static const float off[] = {0.0f, -1.0f, 1.0f}; /* equal errors: as it was */
            float sc = fminf(fmaxf(middle + off[c], -128.0f), 127.0f);
            float err = scale_error(&b->sub[i], t->d * sc, &xq, &qq);
            if (err < best) {
                best = err;
                best_xq = xq;
                best_qq = qq;
                t->sc[i] = sc;
            }
        }
        t->err += best;
        xu += t->sc[i] * best_xq;
        uu += t->sc[i] * t->sc[i] * best_qq;
    }
    *d = uu > 0.0f ? xu / uu : t->d;
}

static void block_descend(const struct block *b, struct attempt *t)
{
    float d;
    block_codes(b, t, &d);
    for (int step = 0; step < b->plan->steps; step++) {
        struct attempt next = *t;
        next.d = round_super(d, b->unit);
        block_codes(b, &next, &d);
        if (!(next.err < t->err))
            break;
        *t = next;
    }
}

static void block_init(struct block *b, const float *x, size_t count)
{
    float amax = 0.0f;
    for (size_t i = 0; i < count; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    int exponent = unit_exponent(amax);
    float scale = ldexpf(1.0f, -exponent);
    b->unit = ldexpf(1.0f, exponent);
    for (size_t i = 0; i < K_VALUES; i++)
        b->sub[i / 16].x[i % 16 / 4][i % 4] = i < count ? x[i] * scale : 0.0f;
    for (int i = 0; i < SUBS; i++)
        sub_fit(&b->sub[i], b->plan);
}

static void attempt_store(const struct block *b, const struct attempt *t, struct q6_k_codes *codes)
{
    codes->d = t->d != 0.0f ? dgl_f32_to_f16(t->d * b->unit) : 0; /* no negative zero */
    for (int i = 0; i < SUBS; i++) {
        f32x4 inv = splat(reciprocal(t->d * t->sc[i]));
        codes->sc[i] = (int8_t)t->sc[i];
        for (int v = 0; v < SUB_VECS; v++) {
            f32x4 q = signed_level_of(b->sub[i].x[v] * inv, MIN_Q, MAX_Q);
            for (int l = 0; l < 4; l++)
                codes->q[16 * i + 4 * v + l] = (int8_t)q[l];
        }
    }
}

void q6_k_search(const float x[K_VALUES], size_t count, enum quant_effort effort,
                 struct q6_k_codes *codes)
{
    struct block b = {.plan = &plans[effort]};
    struct attempt starts[STARTS];
    block_init(&b, x, count);
    block_scales(&b, starts);
    for (int i = 0; i < b.plan->starts && b.plan->steps > 0; i++) {
        block_descend(&b, &starts[i]);
        if (starts[i].err < starts[0].err)
            starts[0] = starts[i];
    }
    attempt_store(&b, &starts[0], codes);
}
