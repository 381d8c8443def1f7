/*
 * The search for codes of q2_k to q6_k: w = (d * sc) * q - (dmin * m), squared error, no weighting.
 * q3_k and q6_k have no minimum: m is 0, and their scales and codes have a sign.
 *
 * 1. Every sub-block alone: the line w = a*q - b with the smallest error, and the curvature of that
 *    error (fit_line, fit_scale).
 * 2. The block: d and then dmin from grids. The curvature prices how far the rounded codes push
 *    each sub-block off its line, without reading a value (block_scales).
 * 3. The best few pairs with exact errors: codes next to the ideal ones, then d and dmin by least
 *    squares for these codes, until the error stops falling (block_descend).
 */
#include <math.h>
#include <string.h>

#include "loader/quant/quant.h"
#include "loader/quant/quant_block.h"
#include "loader/quant/quant_vec.h"

#define MAX_SUB_VECS (K_SUB / 4)
#define STARTS       4 /* pairs that step 3 tries at most */

/* Amount of work per step. */
struct plan {
    size_t first_cut, num_cuts;
    int grid, starts, steps; /* steps: maximum of a descent; it usually stops after 3 */
};

static const struct plan line_plans[] = {
    [QUANT_SEARCH] = {0, 4, 24, 3, 6}, [QUANT_FAST] = {1, 1, 1, 1, 0}};
static const struct plan scale_plans[] = {
    [QUANT_SEARCH] = {0, 8, 32, 4, 5}, [QUANT_FAST] = {0, 1, 1, 1, 0}};

static const struct format {
    int subs, vecs; /* sub-blocks of a block, vectors of a sub-block */
    float min_q, max_q, min_sc, max_sc;
    float max_m;   /* 0: the format has no minimum */
    float near[3]; /* offsets of the scales that step 3 tries; the first of equal errors is used */
    float top, step;          /* grid point i gives the largest value code `top` - i * `step` */
    const struct plan *plans; /* by effort */
    float codes[8]; /* without a minimum: codes of the largest magnitude that fit_scale() tries */
} formats[] = {
    [K_Q2] = {K_MAX_SUBS, 4, 0, 3, 0, 15, 15, {-1, 0, 1}, 15.5f, 7.0f / 23, line_plans, {0}},
    [K_Q3] = {K_MAX_SUBS,
              4,
              -4,
              3,
              -32,
              31,
              0,
              {0, -1, 1},
              32,
              14.0f / 32,
              scale_plans,
              {-4.0f, -3.6f, -4.4f, -3.2f, 3.0f, -2.8f, 2.6f, 3.4f}},
    [K_Q4] = {K_SUBS, 8, 0, 15, 0, 63, 63, {-1, 0, 1}, 63.5f, 18.5f / 23, line_plans, {0}},
    [K_Q5] = {K_SUBS, 8, 0, 31, 0, 63, 63, {-1, 0, 1}, 63.5f, 18.5f / 23, line_plans, {0}},
    [K_Q6] = {K_MAX_SUBS,
              4,
              -32,
              31,
              -128,
              127,
              0,
              {0, -1, 1},
              128,
              48.0f / 32,
              scale_plans,
              {-32.0f, -31.5f, -32.6f, -31.0f, 31.0f, -30.4f, 30.5f, 31.6f}},
};

struct sub {
    f32x4 x[MAX_SUB_VECS];
    f32x4 w[MAX_SUB_VECS]; /* 1, or 0 for padding */
    float n, sx, sxx;      /* sums of w, w*x, w*x*x */
};

struct block {
    const struct format *f;
    const struct plan *plan;
    float unit; /* real value = unit * x, a power of two */
    struct sub sub[K_MAX_SUBS];
    /* The best line of each sub-block, and the curvature of its error: the sums of w, w*q and w*q*q
     * of the codes on the line. */
    float a[K_MAX_SUBS], b[K_MAX_SUBS], n[K_MAX_SUBS], sq[K_MAX_SUBS], sqq[K_MAX_SUBS];
};

/* A pair of super-scales with the codes chosen for it. */
struct attempt {
    float d, dmin; /* in units of the block; f16 after multiplying by it */
    float sc[K_MAX_SUBS], m[K_MAX_SUBS];
    float err;
};

struct moments {
    float q, qq, xq;
};

/* Returns the squared error of the line a*q - b with the best codes on it. */
static float line_error(const struct format *f, const struct sub *s, float a, float b)
{
    const f32x4 va = splat(a), vb = splat(b), inv = splat(reciprocal(a));
    f32x4 sum = {0};
    for (int i = 0; i < f->vecs; i++) {
        f32x4 t = s->x[i] + vb;
        f32x4 rest = t - va * level_of(t * inv, f->min_q, f->max_q);
        sum += s->w[i] * (rest * rest);
    }
    return lanes_sum(sum);
}

static struct moments line_moments(const struct format *f, const struct sub *s, float a, float b)
{
    const f32x4 vb = splat(b), inv = splat(reciprocal(a));
    f32x4 sq = {0}, sqq = {0}, sxq = {0};
    for (int i = 0; i < f->vecs; i++) {
        f32x4 q = level_of((s->x[i] + vb) * inv, f->min_q, f->max_q), wq = s->w[i] * q;
        sq += wq;
        sqq += wq * q;
        sxq += wq * s->x[i];
    }
    return (struct moments){lanes_sum(sq), lanes_sum(sqq), lanes_sum(sxq)};
}

/* Finds the best line for these codes, with a and b not negative. */
static void line_solve(const struct sub *s, struct moments q, float *a, float *b)
{
    float det = s->n * q.qq - q.q * q.q;
    if (det > 0.0f) {
        *a = (s->n * q.xq - s->sx * q.q) / det;
        *b = (*a * q.q - s->sx) / s->n;
        if (*a >= 0.0f && *b >= 0.0f)
            return;
    }
    *b = 0.0f;
    *a = q.qq > 0.0f && q.xq > 0.0f ? q.xq / q.qq : 0.0f;
    if (s->sx < 0.0f) { /* one level, below zero */
        *a = 0.0f;
        *b = -s->sx / s->n;
    }
}

/* Tries lines that leave out some of the range at either end, each followed by a least-squares
 * step, and descends from the best of them. */
static void fit_line(struct block *b, int at)
{
    static const float cuts[] = {-0.4f, 0.0f, 0.4f, 0.8f}; /* in steps of the line */
    const struct sub *s = &b->sub[at];
    const struct plan *plan = b->plan;
    float lo = 0.0f; /* b may not be negative: the lowest level is at most 0 */
    float hi = -INFINITY, best = INFINITY, best_a = 0.0f, best_b = 0.0f;
    for (int i = 0; i < 4 * b->f->vecs; i++) {
        if (s->w[i / 4][i % 4] <= 0.0f)
            continue;
        lo = fminf(lo, s->x[i / 4][i % 4]);
        hi = fmaxf(hi, s->x[i / 4][i % 4]);
    }
    for (size_t c = 0; c < plan->num_cuts * plan->num_cuts && s->n > 0.0f; c++) {
        float low = cuts[plan->first_cut + c / plan->num_cuts];
        float high = cuts[plan->first_cut + c % plan->num_cuts];
        float a = (hi - lo) / (b->f->max_q + low + high), min = fmaxf(-lo - low * a, 0.0f);
        struct moments q = line_moments(b->f, s, a, min);
        line_solve(s, q, &a, &min);
        float err = s->sxx - a * q.xq + min * s->sx; /* left by least squares for these codes */
        if (err < best) {
            best = err;
            best_a = a;
            best_b = min;
        }
    }
    best = line_error(b->f, s, best_a, best_b);
    for (int step = 0; step <= plan->steps; step++) {
        struct moments q = line_moments(b->f, s, best_a, best_b);
        b->a[at] = best_a;
        b->b[at] = best_b;
        b->sq[at] = q.q;
        b->sqq[at] = q.qq;
        line_solve(s, q, &best_a, &best_b);
        float err = line_error(b->f, s, best_a, best_b);
        if (!(err < best))
            break;
        best = err;
    }
    b->n[at] = s->n;
}

/* The same without a minimum. Tries scales that give the largest magnitude a code near either end
 * of the range, each followed by a least-squares step. */
static void fit_scale(struct block *b, int at)
{
    const struct sub *s = &b->sub[at];
    float largest = 0.0f, best = INFINITY;
    for (int i = 0; i < 4 * b->f->vecs; i++) {
        float x = s->x[i / 4][i % 4];
        largest = fabsf(x) > fabsf(largest) ? x : largest;
    }
    for (size_t c = 0; c < b->plan->num_cuts && largest != 0.0f; c++) {
        float a = largest / b->f->codes[c];
        struct moments q = line_moments(b->f, s, a, 0.0f);
        a = q.qq > 0.0f ? q.xq / q.qq : a;
        float err = line_error(b->f, s, a, 0.0f);
        if (err < best) {
            best = err;
            b->a[at] = a;
            b->sqq[at] = line_moments(b->f, s, a, 0.0f).qq;
        }
    }
}

static f32x4 load4(const float *p)
{
    return (f32x4){p[0], p[1], p[2], p[3]};
}

/* Sets t->err to the price, by curvature, of replacing the lines by multiples of d and dmin. Sets
 * t->sc and t->m to the codes. If dmin < 0, b is free. */
static void block_price(const struct block *b, struct attempt *t)
{
    f32x4 sum = {0}, dmin = splat(t->dmin), d = splat(t->d);
    t->err = 0.0f;
    for (int s = 0; s < b->f->subs && b->f->max_m <= 0.0f; s++) {
        t->sc[s] = level_of(splat(b->a[s] * reciprocal(t->d)), b->f->min_sc, b->f->max_sc)[0];
        float off = t->d * t->sc[s] - b->a[s];
        t->err += b->sqq[s] * off * off;
    }
    for (int s = 0; s < b->f->subs && b->f->max_m > 0.0f; s += 4) {
        f32x4 a = load4(b->a + s), min = load4(b->b + s), sq = load4(b->sq + s);
        f32x4 sqq = load4(b->sqq + s), n = load4(b->n + s), sc = {0}, m = {0};
        f32x4 ideal = a * splat(reciprocal(t->d)), best = splat(INFINITY);
        f32x4 slope = sq / pick(n > 0.0f, n, splat(1.0f));
        for (int up = 0; up < 2; up++) { /* the better of the two codes around a/d */
            f32x4 mcode = {0},
                  code = level_of(ideal + splat(up ? 0.5f : -0.5f), 0.0f, b->f->max_sc);
            f32x4 da = d * code - a, db = da * slope;
            if (t->dmin >= 0.0f) {
                mcode = level_of((min + db) * splat(reciprocal(t->dmin)), 0.0f, b->f->max_m);
                db = dmin * mcode - min;
            }
            f32x4 price = sqq * da * da - splat(2.0f) * sq * da * db + n * db * db;
            i32x4 less = price < best;
            best = pick(less, price, best);
            sc = pick(less, code, sc);
            m = pick(less, mcode, m);
        }
        sum += best;
        memcpy(t->sc + s, &sc, sizeof(sc));
        memcpy(t->m + s, &m, sizeof(m));
    }
    if (b->f->max_m > 0.0f)
        t->err = lanes_sum(sum);
}

/* Returns the step of grid point i, of either sign if scales have one. Later points use fewer
 * codes, which may fit all sub-blocks better. */
static float grid_step(const struct block *b, float largest, int i)
{
    float code = b->f->top - b->f->step * (float)i;
    return round_super(largest / (b->f->min_sc < 0.0f && i % 2 == 0 ? -code : code), b->unit);
}

/* Finds the cheapest attempts, best first. */
static void block_scales(const struct block *b, struct attempt best[STARTS])
{
    float largest = 0.0f, bmax = 0.0f;
    for (int s = 0; s < b->f->subs; s++) {
        largest = fabsf(b->a[s]) > fabsf(largest) ? b->a[s] : largest;
        bmax = fmaxf(bmax, b->b[s]);
    }
    for (int i = 0; i < STARTS; i++)
        best[i] = (struct attempt){.err = INFINITY};
    for (int i = 0; i < b->plan->grid; i++) {
        struct attempt t = {.d = grid_step(b, largest, i)};
        t.dmin = b->f->max_m > 0.0f ? -1.0f : 0.0f;
        block_price(b, &t);
        int at = STARTS;
        while (at > 0 && t.err < best[at - 1].err)
            at--;
        if (at == STARTS)
            continue;
        memmove(best + at + 1, best + at, (size_t)(STARTS - at - 1) * sizeof(*best));
        best[at] = t;
    }
    for (int i = 0; i < b->plan->starts && b->f->max_m > 0.0f; i++) {
        struct attempt t = {.d = best[i].d};
        best[i].err = INFINITY;
        for (int j = 0; j < b->plan->grid; j++) {
            t.dmin = grid_step(b, bmax, j);
            block_price(b, &t);
            if (t.err < best[i].err)
                best[i] = t;
        }
    }
}

/* For each sub-block, tries the scales and minimums next to those of `t` and keeps the pair with
 * the smallest exact error. Sets t->sc, t->m and t->err. */
static void block_codes(const struct block *b, struct attempt *t)
{
    const struct format *f = b->f;
    t->err = 0.0f;
    for (int s = 0; s < f->subs; s++) {
        float sc0 = t->sc[s], m0 = t->m[s], best = INFINITY;
        for (int c = 0; c < 3; c++) {
            float sc = fminf(fmaxf(sc0 + f->near[c], f->min_sc), f->max_sc);
            for (float m = fmaxf(m0 - 1.0f, 0.0f); m <= fminf(m0 + 1.0f, f->max_m); m++) {
                float err = line_error(f, &b->sub[s], t->d * sc, t->dmin * m);
                if (err < best) {
                    best = err;
                    t->sc[s] = sc;
                    t->m[s] = m;
                }
            }
        }
        t->err += best;
    }
}

/* Sets d and dmin by least squares for the codes of `t`, rounded. */
static void block_solve(const struct block *b, struct attempt *t)
{
    double uu = 0, uv = 0, vv = 0, xu = 0, xv = 0;
    float scale_uu = 0.0f, scale_xu = 0.0f; /* q6_k adds up in floats */
    for (int i = 0; i < b->f->subs; i++) {
        const struct sub *s = &b->sub[i];
        float sc = t->sc[i], m = t->m[i];
        struct moments q = line_moments(b->f, s, t->d * sc, t->dmin * m);
        scale_xu += sc * q.xq;
        scale_uu += sc * sc * q.qq;
        uu += (double)(sc * sc * q.qq);
        uv += (double)(sc * m * q.q);
        vv += (double)(m * m * s->n);
        xu += (double)(sc * q.xq);
        xv += (double)(m * s->sx);
    }
    if (b->f->max_m <= 0.0f) {
        t->d = round_super(scale_uu > 0.0f ? scale_xu / scale_uu : t->d, b->unit);
        return;
    }
    double det = uu * vv - uv * uv;
    double d = det > 0 ? (xu * vv - xv * uv) / det : -1;
    double dmin = det > 0 ? (xu * uv - xv * uu) / det : -1;
    if (d < 0 || dmin < 0) {
        d = uu > 0 ? xu / uu : 0;
        dmin = uu > 0 || vv <= 0 ? 0 : -xv / vv;
    }
    t->d = round_super((float)fmax(d, 0), b->unit);
    t->dmin = round_super((float)fmax(dmin, 0), b->unit);
}

static void block_descend(const struct block *b, struct attempt *t)
{
    block_codes(b, t);
    for (int step = 0; step < b->plan->steps; step++) {
        struct attempt next = *t;
        block_solve(b, &next);
        block_codes(b, &next);
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
    for (int at = 0; at < b->f->subs; at++) {
        struct sub *s = &b->sub[at];
        f32x4 n = {0}, sx = {0}, sxx = {0};
        for (int i = 0; i < b->f->vecs; i++) {
            for (int l = 0; l < 4; l++) {
                size_t value = (size_t)(4 * (b->f->vecs * at + i) + l);
                s->x[i][l] = value < count ? x[value] * scale : 0.0f;
                s->w[i][l] = value < count ? 1.0f : 0.0f;
            }
            n += s->w[i];
            sx += s->x[i];
            sxx += s->x[i] * s->x[i];
        }
        s->n = lanes_sum(n);
        s->sx = lanes_sum(sx);
        s->sxx = lanes_sum(sxx);
        if (b->f->max_m > 0.0f)
            fit_line(b, at);
        else
            fit_scale(b, at);
    }
}

void quant_k_search(enum k_type type, const float x[K_VALUES], size_t count,
                    enum quant_effort effort, struct k_codes *codes)
{
    const struct format *f = &formats[type];
    struct block b = {.f = f, .plan = &f->plans[effort]};
    struct attempt starts[STARTS], *t = &starts[0];
    block_init(&b, x, count);
    block_scales(&b, starts);
    for (int i = 0; i < b.plan->starts && b.plan->steps > 0; i++) {
        block_descend(&b, &starts[i]);
        if (starts[i].err < t->err)
            *t = starts[i];
    }
    codes->d = t->d != 0.0f ? dgl_f32_to_f16(t->d * b.unit) : 0; /* no negative zero */
    codes->dmin = dgl_f32_to_f16(t->dmin * b.unit);
    for (int i = 0; i < f->subs; i++) {
        f32x4 inv = splat(reciprocal(t->d * t->sc[i])), bias = splat(t->dmin * t->m[i]);
        codes->sc[i] = (int8_t)t->sc[i];
        codes->m[i] = (int8_t)t->m[i];
        for (int v = 0; v < f->vecs; v++) {
            f32x4 q = level_of((b.sub[i].x[v] + bias) * inv, f->min_q, f->max_q);
            for (int l = 0; l < 4; l++)
                codes->q[4 * (f->vecs * i + v) + l] = (int8_t)q[l];
        }
    }
}
