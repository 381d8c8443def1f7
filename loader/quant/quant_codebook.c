/* Formats whose 4-bit codes are indices into a fixed table: mxfp4, iq4_nl, iq4_xs. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "loader/quant/quant.h"
#include "loader/quant/quant_block.h"

#define SUB 32 /* values: 16 bytes, low nibbles first */

#define MXFP4_TOP 252 /* the largest exponent with which every entry is a float */

/* E2M1 values, doubled. */
static const int8_t mxfp4_table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

static void sub_decode(const int8_t table[16], float d, const uint8_t *src, float *dst)
{
    for (int i = 0; i < SUB / 2; i++) {
        dst[i] = d * (float)table[src[i] & 15];
        dst[i + SUB / 2] = d * (float)table[src[i] >> 4];
    }
}

/* Returns 2^(exponent - 128), half of the value in E8M0, because the table is doubled. The two
 * smallest are subnormal. */
static float e8m0_half(uint8_t exponent)
{
    uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

void mxfp4_decode(const uint8_t *src, float *dst)
{
    sub_decode(mxfp4_table, e8m0_half(src[0]), src + 1, dst);
}

/* Returns the entry nearest to t, which is in units of the table. Both zeros are entry 0. */
static uint8_t mxfp4_nearest(double t)
{
    static const double middles[] = {0.5, 1.5, 2.5, 3.5, 5, 7, 10};
    uint8_t code = 0;
    for (size_t i = 0; i < sizeof(middles) / sizeof(middles[0]); i++)
        code += fabs(t) > middles[i];
    return code > 0 && t < 0 ? code | 8 : code;
}

static double mxfp4_codes(const float *x, size_t count, int exponent, uint8_t codes[SUB])
{
    double d = (double)e8m0_half((uint8_t)exponent), err = 0;
    for (size_t i = 0; i < count; i++) {
        codes[i] = mxfp4_nearest((double)x[i] / d);
        double rest = (double)x[i] - d * mxfp4_table[codes[i]];
        err += rest * rest;
    }
    return err;
}

/* The exponent of the OCP specification maps the largest value to at most 8, but cuts off values
 * between 6 and 8. The next exponent is better if there are many such values; the previous one is
 * better if the largest value is a single outlier. */
void mxfp4_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    float amax = 0;
    double best = INFINITY;
    int usual = 0;
    for (size_t i = 0; i < count; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    memset(dst, 0, 1 + SUB / 2);
    if (!(amax > 0))
        return;
    frexpf(fminf(amax, FLT_MAX), &usual);
    int reach = effort == QUANT_FAST ? 0 : 1;
    for (int exponent = usual + 124 - reach; exponent <= usual + 124 + reach; exponent++) {
        uint8_t codes[SUB] = {0};
        if (exponent < 0 || exponent > MXFP4_TOP)
            continue;
        double err = mxfp4_codes(x, count, exponent, codes);
        if (!(err < best) && best < INFINITY)
            continue;
        best = err;
        dst[0] = (uint8_t)exponent;
        for (int i = 0; i < SUB / 2; i++)
            dst[1 + i] = (uint8_t)(codes[i] | codes[i + SUB / 2] << 4);
    }
}

/* ---- iq4: a table without 0, and scales of either sign ---- */

/* Returns the nearest entry, by four comparisons with the middles between entries. */
static inline uint8_t iq4_nearest(double t)
{
    static const double middles[15] = {-115.5, -93.5, -74,  -57,  -42, -28.5, -16, -4.5,
                                       7,      19,    31.5, 45.5, 61,  79,    101};
    unsigned code = t > middles[7] ? 8 : 0;
    code += t > middles[code + 3] ? 4 : 0;
    code += t > middles[code + 1] ? 2 : 0;
    code += t > middles[code] ? 1 : 0;
    return (uint8_t)code;
}

/* Sums over the best codes of a scale. */
struct iq4_sums {
    double err, xt, tt; /* squared error; sums of x * entry and of entry * entry */
};

/* Finds the codes of up to 32 values for scale `d`. `codes` may be NULL. */
static struct iq4_sums iq4_codes(const float *x, size_t count, double d, uint8_t codes[SUB])
{
    struct iq4_sums sums = {0};
    const double inverse = d != 0 ? 1 / d : 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t code = iq4_nearest((double)x[i] * inverse);
        const double entry = iq4_table[code], rest = (double)x[i] - d * entry;
        sums.err += rest * rest;
        sums.xt += (double)x[i] * entry;
        sums.tt += entry * entry;
        if (codes)
            codes[i] = code;
    }
    return sums;
}

/* Finds the scale with the smallest error for up to 32 values. Each candidate gives the largest
 * magnitude one of the outer entries, and is refined by least squares. */
static double iq4_scale(const float *x, size_t count, enum quant_effort effort)
{
    static const double entries[] = {-127, 113,  -120, -134, 105, 122,
                                     -113, -141, 98,   -104, 131, 89};
    const size_t tries = effort == QUANT_FAST ? 1 : sizeof(entries) / sizeof(entries[0]);
    double largest = 0, best = INFINITY, found = 0;
    for (size_t i = 0; i < count; i++)
        largest = fabs((double)x[i]) > fabs(largest) ? (double)x[i] : largest;
    for (size_t c = 0; c < tries && largest != 0; c++) {
        double d = largest / entries[c];
        for (int step = 0; step < (effort == QUANT_FAST ? 2 : 3); step++) {
            const struct iq4_sums sums = iq4_codes(x, count, d, NULL);
            if (sums.err < best) {
                best = sums.err;
                found = d;
            }
            d = sums.tt > 0 ? sums.xt / sums.tt : 0;
        }
    }
    return found;
}

static void iq4_put(const uint8_t codes[SUB], uint8_t *dst)
{
    for (int i = 0; i < SUB / 2; i++)
        dst[i] = (uint8_t)(codes[i] | codes[i + SUB / 2] << 4);
}

/* Bits of the nearest half, which is finite. */
static uint16_t finite_half(double value)
{
    const double f16_max = 65504;
    return dgl_f32_to_f16((float)fmax(fmin(value, f16_max), -f16_max));
}

void iq4_nl_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    uint8_t codes[SUB] = {0};
    const uint16_t d = finite_half(iq4_scale(x, count, effort));
    iq4_codes(x, count, (double)dgl_f16_to_f32(d), codes);
    store_u16(dst, d);
    iq4_put(codes, dst + 2);
}

void iq4_nl_decode(const uint8_t *src, float *dst)
{
    sub_decode(iq4_table, dgl_f16_to_f32(load_u16(src)), src + 2, dst);
}

/* f16 d, 2 bytes with the top two bits of eight 6-bit scales less 32, 4 bytes with their low four,
 * 128 bytes of codes. */
static float iq4_xs_scale(const uint8_t *src, unsigned s)
{
    unsigned low = (unsigned)src[4 + s / 2] >> s % 2 * 4 & 15u;
    unsigned high = (unsigned)load_u16(src + 2) >> 2 * s & 3u;
    return dgl_f16_to_f32(load_u16(src)) * (float)((int)(low | high << 4) - 32);
}

void iq4_xs_decode(const uint8_t *src, float *dst)
{
    for (unsigned s = 0; s < K_VALUES / SUB; s++)
        sub_decode(iq4_table, iq4_xs_scale(src, s), src + 8 + SUB / 2 * s, dst + SUB * s);
}

#define IQ4_SUBS (K_VALUES / SUB)
#define IQ4_HALF 32 /* scales are stored with 32 added */

/* Scales of the sub-blocks of a block for one d. */
struct iq4_block {
    double d, err;
    int scale[IQ4_SUBS];
};

static size_t sub_count(size_t count, size_t s)
{
    return count <= s * SUB ? 0 : count - s * SUB < SUB ? count - s * SUB : SUB;
}

/* Chooses each scale among `reach` neighbours of the ideal one, by the exact error. Sets *fit to
 * the best d for these scales and codes. */
static void iq4_try(const float *x, size_t count, const double ideal[IQ4_SUBS], int reach,
                    struct iq4_block *b, double *fit)
{
    double xt = 0, tt = 0;
    b->err = 0;
    for (size_t s = 0; s < IQ4_SUBS; s++) {
        const int middle = b->d != 0 ? (int)fmax(fmin(rint(ideal[s] / b->d), 31), -32) : 0;
        struct iq4_sums best = {.err = INFINITY};
        for (int l = middle - reach; l <= middle + reach; l++) {
            if (l < -IQ4_HALF || l >= IQ4_HALF)
                continue;
            const struct iq4_sums sums =
                iq4_codes(x + s * SUB, sub_count(count, s), b->d * l, NULL);
            if (!(sums.err < best.err))
                continue;
            best = sums;
            b->scale[s] = l;
        }
        b->err += best.err;
        xt += best.xt * b->scale[s];
        tt += best.tt * b->scale[s] * b->scale[s];
    }
    *fit = tt > 0 ? xt / tt : 0;
}

void iq4_xs_encode(const float *x, size_t count, enum quant_effort effort, uint8_t *dst)
{
    /* the largest scale becomes one of these */
    static const double levels[] = {-32, 31, -31, 30, -29.5, 28.5, -28, 27, -26, 25};
    const bool fast = effort == QUANT_FAST;
    const size_t tries = fast ? 1 : sizeof(levels) / sizeof(levels[0]);
    struct iq4_block best = {.err = INFINITY};
    double ideal[IQ4_SUBS], largest = 0;
    for (size_t s = 0; s < IQ4_SUBS; s++) {
        ideal[s] = iq4_scale(x + s * SUB, sub_count(count, s), effort);
        largest = fabs(ideal[s]) > fabs(largest) ? ideal[s] : largest;
    }
    for (size_t c = 0; c < tries; c++) {
        double d = largest / levels[c];
        for (int step = 0; step < (fast ? 1 : 2); step++) {
            struct iq4_block b = {.d = (double)dgl_f16_to_f32(finite_half(d))};
            iq4_try(x, count, ideal, fast ? 0 : 1, &b, &d);
            if (b.err < best.err)
                best = b;
        }
    }
    unsigned high = 0;
    memset(dst, 0, 8);
    for (size_t s = 0; s < IQ4_SUBS; s++) {
        uint8_t codes[SUB] = {0};
        const unsigned stored = (unsigned)(best.scale[s] + IQ4_HALF);
        iq4_codes(x + s * SUB, sub_count(count, s), best.d * best.scale[s], codes);
        iq4_put(codes, dst + 8 + SUB / 2 * s);
        dst[4 + s / 2] |= (uint8_t)((stored & 15u) << s % 2 * 4);
        high |= stored >> 4 << 2 * s;
    }
    store_u16(dst, dgl_f32_to_f16((float)best.d));
    store_u16(dst + 2, (uint16_t)high);
}
