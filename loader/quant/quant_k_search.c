/*
 * The search for codes of q4_k and q5_k: w = (d * sc) * q - (dmin * m), squared error, no
 * weighting.
 *
 * 1. Every sub-block alone: the line w = a*q - b that suits it best, with the curvature of its
 *    error (sub_fit).
 * 2. The block: d and then dmin from grids, judged by how far the 6-bit codes push each sub-block
 *    off its line; the curvature gives the price of that without looking at a value
 *    (block_scales).
 * 3. The best few pairs for real: codes next to the ideal ones with exact errors, then d and dmin
 *    by least squares for these codes, until nothing improves (block_descend).
 */
#include <math.h>
#include <string.h>

#include "loader/quant/quant.h"
#include "loader/quant/quant_block.h"
#include "loader/quant/quant_vec.h"

#define MAX_CODE 63.0f
#define SUB_VECS (K_SUB / 4)
#define GRID     24 /* steps of d, and of dmin, that step 2 looks at */
#define STARTS   3  /* pairs that step 3 tries */

/* How much of each step is done. */
struct plan {
    size_t first_cut, num_cuts;
    int grid, starts, steps; /* steps: at most, of a descent; it usually stops after 3 */
};

static const struct plan plans[] = {
    [QUANT_SEARCH] = {0, 4, GRID, STARTS, 6},
    [QUANT_FAST] = {1, 1, 1, 1, 0},
};

struct sub {
    f32x4 x[SUB_VECS];
    f32x4 w[SUB_VECS]; /* 1, or 0 for padding */
    float n, sx, sxx;  /* sums of w, w*x, w*x*x */
    float max_q;       /* the largest code */
};

/* The best line of each sub-block, and the sums of w*q and w*q*q of the codes on it: the
 * curvature around it. */
struct lines {
    float a[K_SUBS], b[K_SUBS], sq[K_SUBS], sqq[K_SUBS], n[K_SUBS];
};

struct block {
    struct sub sub[K_SUBS];
    struct lines lines;
    float unit; /* real value = unit * x, a power of two */
    const struct plan *plan;
};

/* A pair of super-scales with the codes chosen for it. */
struct attempt {
    float d, dmin; /* in units of the block; f16 once multiplied by it */
    float sc[K_SUBS], m[K_SUBS];
    float err;
};

struct moments {
    float q, qq, xq;
};

/* Squared error of the line a*q - b with the best codes on it. */
static float line_error(const struct sub *s, float a, float b)
{
    const f32x4 va = splat(a), vb = splat(b), inv = splat(reciprocal(a));
    f32x4 sum = {0};
    for (int i = 0; i < SUB_VECS; i++) {
        f32x4 t = s->x[i] + vb;
        f32x4 rest = t - va * level_of(t * inv, s->max_q);
        sum += s->w[i] * (rest * rest);
    }
    return lanes_sum(sum);
}

static struct moments line_moments(const struct sub *s, float a, float b)
{
    const f32x4 vb = splat(b), inv = splat(reciprocal(a));
    f32x4 sq = {0}, sqq = {0}, sxq = {0};
    for (int i = 0; i < SUB_VECS; i++) {
        f32x4 q = level_of((s->x[i] + vb) * inv, s->max_q), wq = s->w[i] * q;
        sq += wq;
        sqq += wq * q;
        sxq += wq * s->x[i];
    }
    return (struct moments){lanes_sum(sq), lanes_sum(sqq), lanes_sum(sxq)};
}

/* The line that suits these codes best, with a and b not negative. */
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

static void sub_range(const struct sub *s, float *lo, float *hi)
{
    *lo = 0.0f; /* b may not be negative: the lowest level is at most 0 */
    *hi = -INFINITY;
    for (int i = 0; i < K_SUB; i++) {
        if (s->w[i / 4][i % 4] <= 0.0f)
            continue;
        *lo = fminf(*lo, s->x[i / 4][i % 4]);
        *hi = fmaxf(*hi, s->x[i / 4][i % 4]);
    }
}

/* Tries lines that leave out some of the range at either end, each followed by a least-squares
 * step, and descends from the best of them. */
static void sub_fit(const struct sub *s, const struct plan *plan, struct lines *out, int at)
{
    static const float cuts[] = {-0.4f, 0.0f, 0.4f, 0.8f}; /* in steps of the line */
    float lo, hi, best = INFINITY, best_a = 0.0f, best_b = 0.0f;
    sub_range(s, &lo, &hi);
    for (size_t c = 0; c < plan->num_cuts * plan->num_cuts && s->n > 0.0f; c++) {
        float low = cuts[plan->first_cut + c / plan->num_cuts];
        float high = cuts[plan->first_cut + c % plan->num_cuts];
        float a = (hi - lo) / (s->max_q + low + high), b = fmaxf(-lo - low * a, 0.0f);
        struct moments q = line_moments(s, a, b);
        line_solve(s, q, &a, &b);
        float err = s->sxx - a * q.xq + b * s->sx; /* what least squares leaves for these codes */
        if (err < best) {
            best = err;
            best_a = a;
            best_b = b;
        }
    }
    best = line_error(s, best_a, best_b);
    for (int step = 0; step <= plan->steps; step++) {
        struct moments q = line_moments(s, best_a, best_b);
        out->a[at] = best_a;
        out->b[at] = best_b;
        out->sq[at] = q.q;
        out->sqq[at] = q.qq;
        line_solve(s, q, &best_a, &best_b);
        float err = line_error(s, best_a, best_b);
        if (!(err < best))
            break;
        best = err;
    }
    out->n[at] = s->n;
}

static f32x4 load4(const float *p)
{
    return (f32x4){p[0], p[1], p[2], p[3]};
}

/* What it costs, by curvature, to replace the lines of four sub-blocks by multiples of d and
 * dmin. dmin < 0: b is free. The price is that of the better of the two codes around a/d. The
 * codes are left in sc and m. */
static f32x4 price4(const struct lines *all, int at, float d, float dmin, f32x4 *sc, f32x4 *m)
{
    f32x4 a = load4(all->a + at), b = load4(all->b + at), sq = load4(all->sq + at);
    f32x4 sqq = load4(all->sqq + at), n = load4(all->n + at);
    f32x4 ideal = a * splat(reciprocal(d)), best = splat(INFINITY);
    f32x4 slope = sq / pick(n > 0.0f, n, splat(1.0f));
    for (int up = 0; up < 2; up++) {
        f32x4 code = level_of(ideal + splat(up ? 0.5f : -0.5f), MAX_CODE), mcode = {0};
        f32x4 da = splat(d) * code - a, db = da * slope;
        if (dmin >= 0.0f) {
            mcode = level_of((b + db) * splat(reciprocal(dmin)), MAX_CODE);
            db = splat(dmin) * mcode - b;
        }
        f32x4 price = sqq * da * da - splat(2.0f) * sq * da * db + n * db * db;
        i32x4 less = price < best;
        best = pick(less, price, best);
        *sc = pick(less, code, *sc);
        *m = pick(less, mcode, *m);
    }
    return best;
}

static void block_price(const struct block *b, struct attempt *t)
{
    f32x4 sum = {0};
    for (int s = 0; s < K_SUBS; s += 4) {
        f32x4 sc = {0}, m = {0};
        sum += price4(&b->lines, s, t->d, t->dmin, &sc, &m);
        memcpy(t->sc + s, &sc, sizeof(sc));
        memcpy(t->m + s, &m, sizeof(m));
    }
    t->err = lanes_sum(sum);
}

/* Inserts into the list of the cheapest attempts, best first. */
static void keep_best(struct attempt best[STARTS], const struct attempt *t)
{
    int at = STARTS;
    while (at > 0 && t->err < best[at - 1].err)
        at--;
    if (at == STARTS)
        return;
    memmove(best + at + 1, best + at, (size_t)(STARTS - at - 1) * sizeof(*best));
    best[at] = *t;
}

/* Steps for which the largest value gets code 63.5 down to 45: fewer codes, which may fit all
 * eight better. */
static float grid_step(float largest, int i)
{
    return largest / (63.5f - 18.5f / (GRID - 1) * (float)i);
}

static void block_scales(const struct block *b, struct attempt best[STARTS])
{
    float amax = 0.0f, bmax = 0.0f;
    for (int s = 0; s < K_SUBS; s++) {
        amax = fmaxf(amax, b->lines.a[s]);
        bmax = fmaxf(bmax, b->lines.b[s]);
    }
    for (int i = 0; i < STARTS; i++)
        best[i] = (struct attempt){.err = INFINITY};
    for (int i = 0; i < b->plan->grid; i++) {
        struct attempt t = {.d = round_super(grid_step(amax, i), b->unit), .dmin = -1.0f};
        block_price(b, &t);
        keep_best(best, &t);
    }
    for (int i = 0; i < b->plan->starts; i++) {
        struct attempt t = {.d = best[i].d};
        best[i].err = INFINITY;
        for (int j = 0; j < b->plan->grid; j++) {
            t.dmin = round_super(grid_step(bmax, j), b->unit);
            block_price(b, &t);
            if (t.err < best[i].err)
                best[i] = t;
        }
    }
}

/* The best codes next to those of `t`, by exact errors; sets t->err. */
static void block_codes(const struct block *b, struct attempt *t)
{
    t->err = 0.0f;
    for (int s = 0; s < K_SUBS; s++) {
        float sc0 = t->sc[s], m0 = t->m[s], best = INFINITY;
        for (float sc = fmaxf(sc0 - 1.0f, 0.0f); sc <= fminf(sc0 + 1.0f, MAX_CODE); sc++) {
            for (float m = fmaxf(m0 - 1.0f, 0.0f); m <= fminf(m0 + 1.0f, MAX_CODE); m++) {
                float err = line_error(&b->sub[s], t->d * sc, t->dmin * m);
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

/* d and dmin by least squares for the codes of `t`, rounded. */
static void block_solve(const struct block *b, struct attempt *t)
{
    double uu = 0, uv = 0, vv = 0, xu = 0, xv = 0;
    for (int i = 0; i < K_SUBS; i++) {
        const struct sub *s = &b->sub[i];
        float sc = t->sc[i], m = t->m[i];
        struct moments q = line_moments(s, t->d * sc, t->dmin * m);
        uu += (double)(sc * sc * q.qq);
        uv += (double)(sc * m * q.q);
        vv += (double)(m * m * s->n);
        xu += (double)(sc * q.xq);
        xv += (double)(m * s->sx);
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

static void sub_init(struct sub *s, const float *x, size_t count, float scale, float max_q)
{
    f32x4 n = {0}, sx = {0}, sxx = {0};
    for (int i = 0; i < SUB_VECS; i++) {
        for (int l = 0; l < 4; l++) {
            bool used = (size_t)(4 * i + l) < count;
            s->x[i][l] = used ? x[4 * i + l] * scale : 0.0f;
            s->w[i][l] = used ? 1.0f : 0.0f;
        }
        n += s->w[i];
        sx += s->x[i];
        sxx += s->x[i] * s->x[i];
    }
    s->n = lanes_sum(n);
    s->sx = lanes_sum(sx);
    s->sxx = lanes_sum(sxx);
    s->max_q = max_q;
}

static void block_init(struct block *b, const float *x, size_t count, float max_q)
{
    float amax = 0.0f;
    for (size_t i = 0; i < count; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    int exponent = unit_exponent(amax);
    b->unit = ldexpf(1.0f, exponent);
    for (size_t s = 0; s < K_SUBS; s++) {
        size_t before = s * K_SUB;
        sub_init(&b->sub[s], x + before, count > before ? count - before : 0,
                 ldexpf(1.0f, -exponent), max_q);
        sub_fit(&b->sub[s], b->plan, &b->lines, (int)s);
    }
}

static void attempt_store(const struct block *b, const struct attempt *t, struct k_codes *codes)
{
    codes->d = dgl_f32_to_f16(t->d * b->unit);
    codes->dmin = dgl_f32_to_f16(t->dmin * b->unit);
    for (int i = 0; i < K_SUBS; i++) {
        codes->sc[i] = (uint8_t)t->sc[i];
        codes->m[i] = (uint8_t)t->m[i];
        f32x4 inv = splat(reciprocal(t->d * t->sc[i])), bias = splat(t->dmin * t->m[i]);
        for (int v = 0; v < SUB_VECS; v++) {
            f32x4 q = level_of((b->sub[i].x[v] + bias) * inv, b->sub[i].max_q);
            for (int l = 0; l < 4; l++)
                codes->q[K_SUB * i + 4 * v + l] = (uint8_t)q[l];
        }
    }
}

void quant_k_search(const float x[K_VALUES], size_t count, int max_q, enum quant_effort effort,
                    struct k_codes *codes)
{
    struct block b = {.plan = &plans[effort]};
    struct attempt starts[STARTS];
    block_init(&b, x, count, (float)max_q);
    block_scales(&b, starts);
    for (int i = 0; i < b.plan->starts && b.plan->steps > 0; i++) {
        block_descend(&b, &starts[i]);
        if (starts[i].err < starts[0].err)
            starts[0] = starts[i];
    }
    attempt_store(&b, &starts[0], codes);
}
