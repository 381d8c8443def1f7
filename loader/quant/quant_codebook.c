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
