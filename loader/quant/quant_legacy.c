/* Formats of 32 values with one f16 scale: q4_0, q4_1, q5_0, q5_1, q8_0. The encoders try a few
 * scales and keep the one with the smallest error. */
#include <math.h>
#include <string.h>

#include "loader/quant/quant.h"
#include "loader/quant/quant_block.h"

/* Code i of 16 bytes: the low nibbles, then the high ones. */
static unsigned nibble_at(const uint8_t *bytes, unsigned i)
{
    return i < 16 ? bytes[i] & 15u : (unsigned)bytes[i - 16] >> 4;
}

/* Code i of 4 bytes with the fifth bits, then 16 bytes with the lower four. */
static unsigned five_bits_at(const uint8_t *bytes, unsigned i)
{
    return nibble_at(bytes + 4, i) | ((unsigned)bytes[i / 8] >> i % 8 & 1u) << 4;
}

void q4_0_decode(const uint8_t *src, float *dst)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned i = 0; i < LEGACY_VALUES; i++)
        dst[i] = d * (float)((int)nibble_at(src + 2, i) - 8);
}

void q4_1_decode(const uint8_t *src, float *dst)
{
    float d = dgl_f16_to_f32(load_u16(src)), m = dgl_f16_to_f32(load_u16(src + 2));
    for (unsigned i = 0; i < LEGACY_VALUES; i++)
        dst[i] = d * (float)nibble_at(src + 4, i) + m;
}

void q5_0_decode(const uint8_t *src, float *dst)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned i = 0; i < LEGACY_VALUES; i++)
        dst[i] = d * (float)((int)five_bits_at(src + 2, i) - 16);
}

void q5_1_decode(const uint8_t *src, float *dst)
{
    float d = dgl_f16_to_f32(load_u16(src)), m = dgl_f16_to_f32(load_u16(src + 2));
    for (unsigned i = 0; i < LEGACY_VALUES; i++)
        dst[i] = d * (float)five_bits_at(src + 4, i) + m;
}

void q8_0_decode(const uint8_t *src, float *dst)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (int i = 0; i < LEGACY_VALUES; i++)
        dst[i] = d * (float)(int8_t)src[2 + i];
}

/* ---- encoders ---- */

/* A format w = d * q with q in low..high, and divisors that turn the largest magnitude into
 * candidates for d. */
struct levels {
    int low, high;
    size_t num_divisors;
    double divisors[12];
};

/* -128 is never written, as in ggml: the range is symmetric. The largest value may be up to half a
 * step beyond the last level, because a finer step is better for the other values. */
static const struct levels q8_0_levels = {-127, 127, 4, {127.0, 127.15, 127.3, 127.45}};
/* Either sign, because one end of the range has one more level. */
static const struct levels q4_0_levels = {
    -8, 7, 12, {-8, 8, -7.5, 7.5, -8.4, 8.4, -7, 7, -8.8, 8.8, -9.3, 9.3}};

static const struct levels q5_0_levels = {
    -16, 15, 12, {-16, 16, -15.5, 15.5, -16.4, 16.4, -15, 15, -16.8, 16.8, -17.3, 17.3}};

/* Returns the nearest level, ties to even. NaN gives the lowest level. */
static inline double nearest_level(const struct levels *l, double t)
{
    const double magic = 0x1.8p52; /* adding it removes all fraction bits */
    t = t > l->low ? t : l->low;
    t = t < l->high ? t : l->high;
    return (t + magic) - magic;
}

/* Finds codes for scale `d` and returns their squared error. Sets *fit to the best scale for these
 * codes. */
static double codes_for(const struct levels *l, const float *x, size_t count, float d,
                        int8_t q[LEGACY_VALUES], double *fit)
{
    double err = 0, xq = 0, qq = 0, inverse = d != 0 ? 1 / (double)d : 0;
    for (size_t i = 0; i < count; i++) {
        double level = nearest_level(l, (double)x[i] * inverse);
        double rest = (double)x[i] - level * (double)d;
        q[i] = (int8_t)level;
        err += rest * rest;
        xq += (double)x[i] * level;
        qq += level * level;
    }
    *fit = qq > 0 ? xq / qq : 0;
    return err;
}

/* Finds the codes with the smallest error and returns the bits of their scale. */
static uint16_t levels_search(const struct levels *l, const float *x, size_t count,
                              enum quant_effort effort, int8_t best_q[LEGACY_VALUES])
{
    double amax = 0, best = INFINITY;
    size_t tries = effort == QUANT_FAST ? 1 : 2 * l->num_divisors;
    uint16_t best_bits = 0;
    for (size_t i = 0; i < count; i++)
        amax = fmax(amax, fabs((double)x[i]));
    memset(best_q, 0, LEGACY_VALUES);
    for (size_t c = 0; c < tries && amax > 0; c++) {
        static const float f16_max = 65504;
        double wanted = amax / l->divisors[c / 2], fit;
        int8_t q[LEGACY_VALUES] = {0};
        if (c % 2) /* second try: the least-squares scale for the codes of the first */
            codes_for(l, x, count, (float)wanted, q, &wanted);
        uint16_t bits = dgl_f32_to_f16(fmaxf(fminf((float)wanted, f16_max), -f16_max));
        double err = codes_for(l, x, count, dgl_f16_to_f32(bits), q, &fit);
        if (err >= best)
            continue;
        best = err;
        best_bits = bits;
        memcpy(best_q, q, sizeof(q));
    }
    return best_bits;
}

void q8_0_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    int8_t q[LEGACY_VALUES];
    store_u16(dst, levels_search(&q8_0_levels, x, count, effort, q));
    memcpy(dst + 2, q, sizeof(q));
}

void q4_0_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    int8_t q[LEGACY_VALUES];
    store_u16(dst, levels_search(&q4_0_levels, x, count, effort, q));
    for (int i = 0; i < LEGACY_VALUES / 2; i++)
        dst[2 + i] = (uint8_t)((q[i] + 8) | (q[i + 16] + 8) << 4);
}

/* ---- q4_1, q5_1: w = d * q + m with q in 0..top ---- */

/* A line d * q + m, and sums over its codes. */
struct line {
    double d, m, err;
    uint8_t q[LEGACY_VALUES];
};

/* Finds the codes for d and m, and their squared error. */
static void line_codes(struct line *l, const float *x, size_t count, int top)
{
    const struct levels range = {.low = 0, .high = top};
    const double inverse = l->d > 0 ? 1 / l->d : 0;
    l->err = 0;
    memset(l->q, 0, sizeof(l->q));
    for (size_t i = 0; i < count; i++) {
        const double level = nearest_level(&range, ((double)x[i] - l->m) * inverse);
        const double rest = (double)x[i] - (l->d * level + l->m);
        l->q[i] = (uint8_t)level;
        l->err += rest * rest;
    }
}

/* Sets d and m by least squares for the codes. */
static void line_fit(struct line *l, const float *x, size_t count)
{
    double n = (double)count, sq = 0, sqq = 0, sx = 0, sxq = 0;
    for (size_t i = 0; i < count; i++) {
        sq += l->q[i];
        sqq += (double)l->q[i] * l->q[i];
        sx += (double)x[i];
        sxq += (double)x[i] * l->q[i];
    }
    const double det = n * sqq - sq * sq;
    if (det <= 0)
        return;
    l->d = (n * sxq - sx * sq) / det;
    l->m = (sx - l->d * sq) / n;
}

static double as_f16(double value)
{
    const double f16_max = 65504;
    return (double)dgl_f16_to_f32(dgl_f32_to_f16((float)fmax(fmin(value, f16_max), -f16_max)));
}

/* Tries lines that leave out some of the range at either end, each refined by least squares. */
static void line_search(int top, const float *x, size_t count, enum quant_effort effort,
                        struct line *best)
{
    static const double cuts[] = {0.0, -0.4, 0.4, 0.8}; /* in steps of the line */
    const size_t num = effort == QUANT_FAST ? 1 : sizeof(cuts) / sizeof(cuts[0]);
    const int fits = effort == QUANT_FAST ? 0 : 3;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, (double)x[i]);
        high = fmax(high, (double)x[i]);
    }
    best->err = INFINITY;
    for (size_t c = 0; c < num * num; c++) {
        struct line l = {.d = (high - low) / (top + cuts[c / num] + cuts[c % num])};
        l.m = low + cuts[c / num] * l.d;
        for (int step = 0; step <= fits; step++) {
            struct line rounded = {.d = as_f16(l.d), .m = as_f16(l.m)};
            line_codes(&rounded, x, count, top);
            if (rounded.err < best->err)
                *best = rounded;
            memcpy(l.q, rounded.q, sizeof(l.q));
            line_fit(&l, x, count);
        }
    }
}

/* Writes d, m and `bytes` of fifth bits, then the nibbles. */
static void line_put(const struct line *l, unsigned fifth_bytes, uint8_t *dst)
{
    store_u16(dst, dgl_f32_to_f16((float)l->d));
    store_u16(dst + 2, dgl_f32_to_f16((float)l->m));
    memset(dst + 4, 0, fifth_bytes);
    for (unsigned i = 0; i < LEGACY_VALUES && fifth_bytes; i++)
        dst[4 + i / 8] |= (uint8_t)(l->q[i] >> 4 << i % 8);
    for (unsigned i = 0; i < LEGACY_VALUES / 2; i++)
        dst[4 + fifth_bytes + i] = (uint8_t)((l->q[i] & 15) | (l->q[i + 16] & 15) << 4);
}

void q4_1_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    struct line l;
    line_search(15, x, count, effort, &l);
    line_put(&l, 0, dst);
}

void q5_1_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    struct line l;
    line_search(31, x, count, effort, &l);
    line_put(&l, LEGACY_VALUES / 8, dst);
}

void q5_0_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    int8_t q[LEGACY_VALUES];
    store_u16(dst, levels_search(&q5_0_levels, x, count, effort, q));
    memset(dst + 2, 0, LEGACY_VALUES / 8);
    for (int i = 0; i < LEGACY_VALUES; i++)
        dst[2 + i / 8] |= (uint8_t)((q[i] + 16) >> 4 << i % 8);
    for (int i = 0; i < LEGACY_VALUES / 2; i++)
        dst[6 + i] = (uint8_t)(((q[i] + 16) & 15) | ((q[i + 16] + 16) & 15) << 4);
}
