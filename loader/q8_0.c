/* Q8_0: 32 values share an f16 scale. The encoder tries a few scales and keeps the one with the
 * least error. */
#include "loader/quant_block.h"

#include <math.h>
#include <string.h>

#include "loader/quant.h"

#define LEVELS 127 /* -128 is never written: the range stays symmetric, as ggml writes it */

void q8_0_row_decode(const uint8_t *src, uint64_t cols, float *dst)
{
    for (uint64_t i = 0; i < cols; i++) {
        const uint8_t *block = src + i / Q8_0_VALUES * Q8_0_BYTES;
        dst[i] = dgl_f16_to_f32(load_u16(block)) * (float)(int8_t)block[2 + i % Q8_0_VALUES];
    }
}

/* The nearest of the levels -127..127, ties to even; NaN gives -127. */
static inline double level_of(double t)
{
    const double magic = 0x1.8p52; /* adding it leaves no fraction bits */
    t = t > -LEVELS ? t : -LEVELS;
    t = t < LEVELS ? t : LEVELS;
    return (t + magic) - magic;
}

/* Codes for scale `d` and their squared error; *fit is the scale that suits these codes best. */
static double codes_for(const float *x, size_t count, float d, int8_t q[Q8_0_VALUES], double *fit)
{
    double err = 0, xq = 0, qq = 0, inverse = d > 0 ? 1 / (double)d : 0;
    for (size_t i = 0; i < count; i++) {
        double level = level_of((double)x[i] * inverse);
        double rest = (double)x[i] - level * (double)d;
        q[i] = (int8_t)level;
        err += rest * rest;
        xq += (double)x[i] * level;
        qq += level * level;
    }
    *fit = qq > 0 ? xq / qq : 0;
    return err;
}

static void block_encode(const float *x, size_t count, uint8_t *dst)
{
    /* The largest value may land up to half a step beyond the last level: a finer step serves
     * the others. */
    static const double divisors[] = {127.0, 127.15, 127.3, 127.45};
    double amax = 0, best = INFINITY;
    for (size_t i = 0; i < count; i++)
        amax = fmax(amax, fabs((double)x[i]));
    memset(dst, 0, Q8_0_BYTES);
    for (size_t c = 0; c < 2 * sizeof(divisors) / sizeof(divisors[0]); c++) {
        static const float f16_max = 65504;
        double wanted = amax / divisors[c / 2], fit;
        int8_t q[Q8_0_VALUES] = {0};
        if (c % 2) /* second try: the least-squares scale for the codes of the first */
            codes_for(x, count, (float)wanted, q, &wanted);
        uint16_t bits = dgl_f32_to_f16(fminf((float)wanted, f16_max));
        double err = codes_for(x, count, dgl_f16_to_f32(bits), q, &fit);
        if (err >= best)
            continue;
        best = err;
        store_u16(dst, bits);
        memcpy(dst + 2, q, sizeof(q));
    }
}

void q8_0_row_encode(const float *src, uint64_t cols, uint8_t *dst)
{
    for (uint64_t i = 0; i < cols; i += Q8_0_VALUES, dst += Q8_0_BYTES)
        block_encode(src + i, cols - i < Q8_0_VALUES ? (size_t)(cols - i) : Q8_0_VALUES, dst);
}
