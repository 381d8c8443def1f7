/* Formats of one to three bits a value: points of a grid with signs (iq1, iq2, iq3), ternary values
 * (tq1_0, tq2_0), and codes without a table (q1_0, q2_0). */
#include <pthread.h>

#include "loader/quant/quant.h"
#include "loader/quant/quant_block.h"
#include "loader/quant/quant_grid_sets.h"

#define GRID_GROUP 16 /* values that share a scale, at least */

/* A block of up to 256 values: value i is scale[i / GRID_GROUP] * q[i]. */
struct grid_values {
    float scale[K_VALUES / GRID_GROUP];
    int8_t q[K_VALUES];
};

/* ---- grids ---- */

static int8_t iq1_s_grid[2048][8], iq2_xxs_grid[256][8], iq2_xs_grid[512][8], iq2_s_grid[1024][8];
static int8_t iq3_xxs_grid[256][4], iq3_s_grid[512][4];

/* Writes the points of a set in the order of their numbers. The digits of a number, the lowest
 * first, are the coordinates' places in the list of levels. */
static void grid_fill(const uint64_t *set, size_t count, const int8_t *levels, unsigned num_levels,
                      unsigned coordinates, int8_t *point)
{
    for (unsigned number = 0; count > 0; number++) {
        if ((set[number / 64] >> number % 64 & 1) == 0)
            continue;
        for (unsigned i = 0, digits = number; i < coordinates; i++, digits /= num_levels)
            *point++ = levels[digits % num_levels];
        count--;
    }
}

static void grids_fill(void)
{
    static const int8_t iq1[] = {-1, 0, 1}, iq2[] = {8, 25, 43};
    static const int8_t iq3_xxs[] = {4, 12, 20, 28, 36, 44, 52, 62};
    static const int8_t iq3_s[] = {1, 3, 5, 7, 9, 11, 13, 15};
    grid_fill(iq1_s_set, 2048, iq1, 3, 8, iq1_s_grid[0]);
    grid_fill(iq2_xxs_set, 256, iq2, 3, 8, iq2_xxs_grid[0]);
    grid_fill(iq2_xs_set, 512, iq2, 3, 8, iq2_xs_grid[0]);
    grid_fill(iq2_s_set, 1024, iq2, 3, 8, iq2_s_grid[0]);
    grid_fill(iq3_xxs_set, 256, iq3_xxs, 8, 4, iq3_xxs_grid[0]);
    grid_fill(iq3_s_set, 512, iq3_s, 8, 4, iq3_s_grid[0]);
}

static pthread_once_t grids_once = PTHREAD_ONCE_INIT;

static void grids_need(void)
{
    pthread_once(&grids_once, grids_fill);
}

/* Bit i of `signs` is set if coordinate i is negative. */
static void point_put(const int8_t *point, unsigned coordinates, unsigned signs, int8_t *q)
{
    for (unsigned i = 0; i < coordinates; i++)
        q[i] = (int8_t)(signs >> i & 1 ? -point[i] : point[i]);
}

/* Returns eight signs from seven stored ones. The eighth makes the number of negative values
 * even. */
static unsigned even_signs(uint32_t code)
{
    return (code & 127u) | (unsigned)__builtin_parity(code & 127u) << 7;
}

static unsigned nibble_at(const uint8_t *bytes, unsigned i)
{
    return (unsigned)bytes[i / 2] >> i % 2 * 4 & 15u;
}

static uint32_t load_u32(const uint8_t *p)
{
    return load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

/* ---- iq2 and iq3: f16 d, then the codes ---- */

/* For 32 values each: 4 bytes of points; 4 bytes with 4 groups of seven signs, and the scale. */
static void iq2_xxs_values(const uint8_t *src, struct grid_values *out)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned s = 0; s < K_VALUES / 32; s++) {
        const uint8_t *points = src + 2 + 8 * s;
        uint32_t word = load_u32(points + 4);
        for (unsigned j = 0; j < 4; j++)
            point_put(iq2_xxs_grid[points[j]], 8, even_signs(word >> 7 * j),
                      out->q + 32 * s + 8 * j);
        out->scale[2 * s] = out->scale[2 * s + 1] = d * (0.5f + (float)(word >> 28)) * 0.25f;
    }
}

/* 32 times 9 bits of point and seven signs; 8 bytes with the scales of 16 values each. */
static void iq2_xs_values(const uint8_t *src, struct grid_values *out)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned j = 0; j < 32; j++) {
        unsigned code = load_u16(src + 2 + 2 * j);
        point_put(iq2_xs_grid[code & 511u], 8, even_signs(code >> 9), out->q + 8 * j);
    }
    for (unsigned s = 0; s < K_VALUES / 16; s++)
        out->scale[s] = d * (0.5f + (float)nibble_at(src + 66, s)) * 0.25f;
}

/* 32 bytes of points, 32 of signs, 8 with the upper two bits of the points, 8 with the scales of 16
 * values each. */
static void iq2_s_values(const uint8_t *src, struct grid_values *out)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned j = 0; j < 32; j++) {
        unsigned upper = (unsigned)src[66 + j / 4] >> j % 4 * 2 & 3u;
        point_put(iq2_s_grid[src[2 + j] | upper << 8], 8, src[34 + j], out->q + 8 * j);
    }
    for (unsigned s = 0; s < K_VALUES / 16; s++)
        out->scale[s] = d * (0.5f + (float)nibble_at(src + 74, s)) * 0.25f;
}

/* 64 bytes of points; for 32 values each 4 bytes with 4 groups of seven signs, and the scale. */
static void iq3_xxs_values(const uint8_t *src, struct grid_values *out)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned s = 0; s < K_VALUES / 32; s++) {
        uint32_t word = load_u32(src + 66 + 4 * s);
        for (unsigned j = 0; j < 8; j++)
            point_put(iq3_xxs_grid[src[2 + 8 * s + j]], 4,
                      even_signs(word >> j / 2 * 7) >> j % 2 * 4, out->q + 32 * s + 4 * j);
        out->scale[2 * s] = out->scale[2 * s + 1] = d * (0.5f + (float)(word >> 28)) * 0.5f;
    }
}

/* 64 bytes of points, 8 with their upper bits, 32 of signs, 4 with the scales of 32 values each. */
static void iq3_s_values(const uint8_t *src, struct grid_values *out)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned j = 0; j < 64; j++) {
        unsigned upper = (unsigned)src[66 + j / 8] >> j % 8 & 1u;
        point_put(iq3_s_grid[src[2 + j] | upper << 8], 4, (unsigned)src[74 + j / 2] >> j % 2 * 4,
                  out->q + 4 * j);
    }
    for (unsigned s = 0; s < K_VALUES / 16; s++)
        out->scale[s] = d * (1.0f + 2.0f * (float)nibble_at(src + 106, s / 2));
}

/* ---- iq1: d * (2 * scale + 1) * (coordinate +- 1/8) ---- */

/* Returns an eighth of the scale. iq1_put() multiplies the values by 8, so that they are integers.
 * Powers of two do not change the product's bits. */
static float iq1_scale(float d, unsigned scale)
{
    return d * (2.0f * (float)(scale & 7u) + 1.0f) * 0.125f;
}

static void iq1_put(unsigned point, bool minus, int8_t *q)
{
    for (unsigned i = 0; i < 8; i++)
        q[i] = (int8_t)(8 * iq1_s_grid[point & 2047u][i] + (minus ? -1 : 1));
}

/* f16 d; 32 bytes of points; then a 16-bit half per 32 values: upper three bits of four points,
 * scale, sign of the 1/8. */
static void iq1_s_values(const uint8_t *src, struct grid_values *out)
{
    float d = dgl_f16_to_f32(load_u16(src));
    for (unsigned j = 0; j < 32; j++) {
        unsigned upper = load_u16(src + 34 + j / 4 * 2);
        iq1_put(src[2 + j] | (upper >> j % 4 * 3 & 7u) << 8, upper >> 15 != 0, out->q + 8 * j);
        out->scale[j / 2] = iq1_scale(d, upper >> 12);
    }
}

/* 32 bytes of points. 16 bytes of nibbles: upper three bits of a point and sign of the 1/8. Four
 * halves: four scales of 16 values each, and four bits of the f16 d. */
static void iq1_m_values(const uint8_t *src, struct grid_values *out)
{
    unsigned half = 0;
    for (unsigned i = 0; i < 4; i++)
        half |= (unsigned)load_u16(src + 48 + 2 * i) >> 12 << 4 * i;
    float d = dgl_f16_to_f32((uint16_t)half);
    for (unsigned j = 0; j < 32; j++) {
        unsigned upper = nibble_at(src + 32, j);
        iq1_put(src[j] | (upper & 7u) << 8, upper >> 3 != 0, out->q + 8 * j);
        out->scale[j / 2] = iq1_scale(d, (unsigned)load_u16(src + 48 + j / 8 * 2) >> j / 2 % 4 * 3);
    }
}

/* ---- one f16 d: d * (code - 1), or +-d ---- */

static void one_scale(const uint8_t *d, struct grid_values *out)
{
    for (unsigned s = 0; s < K_VALUES / 16; s++)
        out->scale[s] = dgl_f16_to_f32(load_u16(d));
}

/* 48 bytes with five base-3 digits each, 4 bytes with four, f16 d. A byte is the fraction whose
 * digits are the codes: digit n is the integer part of 3 * frac(byte / 256 * 3^n). The bytes come
 * in groups of 32, 16 and 4. In a group, the values of digit n of all bytes come before those of
 * digit n + 1. */
static void tq1_0_values(const uint8_t *src, struct grid_values *out)
{
    static const struct {
        unsigned bytes, digits;
    } groups[] = {{32, 5}, {16, 5}, {4, 4}};
    const uint8_t *group = src;
    int8_t *q = out->q;
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        unsigned power = 1;
        for (unsigned n = 0; n < groups[g].digits; n++, power *= 3)
            for (unsigned i = 0; i < groups[g].bytes; i++)
                *q++ = (int8_t)((int)((group[i] * power & 255u) * 3 >> 8) - 1);
        group += groups[g].bytes;
    }
    one_scale(src + 52, out);
}

/* 64 bytes of codes in the order of q2_k, f16 d. */
static void tq2_0_values(const uint8_t *src, struct grid_values *out)
{
    for (unsigned i = 0; i < K_VALUES; i++)
        out->q[i] = (int8_t)((src[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) - 1);
    one_scale(src + 64, out);
}

/* f16 d, 16 bytes of signs: set means positive. */
static void q1_0_values(const uint8_t *src, struct grid_values *out)
{
    for (unsigned i = 0; i < 128; i++)
        out->q[i] = src[2 + i / 8] >> i % 8 & 1 ? 1 : -1;
    one_scale(src, out);
}

/* f16 d, 16 bytes of codes, four neighbours to a byte. */
static void q2_0_values(const uint8_t *src, struct grid_values *out)
{
    for (unsigned i = 0; i < 64; i++)
        out->q[i] = (int8_t)((src[2 + i / 4] >> i % 4 * 2 & 3) - 1);
    one_scale(src, out);
}

/* ---- the codecs ---- */

/* Defines NAME_decode() from NAME_values(). */
#define GRID_CODEC(name, count)                                                                    \
    void name##_decode(const uint8_t *src, float *dst)                                             \
    {                                                                                              \
        struct grid_values values;                                                                 \
        grids_need();                                                                              \
        name##_values(src, &values);                                                               \
        for (unsigned i = 0; i < (count); i++)                                                     \
            dst[i] = values.scale[i / GRID_GROUP] * (float)values.q[i];                            \
    }
GRID_CODEC(iq1_s, K_VALUES)
GRID_CODEC(iq1_m, K_VALUES)
GRID_CODEC(iq2_xxs, K_VALUES)
GRID_CODEC(iq2_xs, K_VALUES)
GRID_CODEC(iq2_s, K_VALUES)
GRID_CODEC(iq3_xxs, K_VALUES)
GRID_CODEC(iq3_s, K_VALUES)
GRID_CODEC(tq1_0, K_VALUES)
GRID_CODEC(tq2_0, K_VALUES)
GRID_CODEC(q1_0, 128)
GRID_CODEC(q2_0, 64)
