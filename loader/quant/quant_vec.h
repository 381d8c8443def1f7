/* Vectors of four lanes for the searches. The number is the same on every processor, so that sums
 * are added in the same order and packs have the same bytes. Inside loader/ only. */
#ifndef DGL_LOADER_QUANT_VEC_H
#define DGL_LOADER_QUANT_VEC_H

#include <math.h>
#include <stdint.h>

#include "loader/quant/quant.h"

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));

static inline f32x4 splat(float v)
{
    return (f32x4){v, v, v, v};
}

static inline float lanes_sum(f32x4 v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

/* Returns a where `mask` is set (comparisons give all ones), b elsewhere. */
static inline f32x4 pick(i32x4 mask, f32x4 a, f32x4 b)
{
    return (f32x4)(((i32x4)a & mask) | ((i32x4)b & ~mask));
}

/* Returns the nearest integer, ties to even, of a magnitude up to 2^22: adding 1.5 * 2^23 removes
 * all fraction bits. */
static inline f32x4 round_level(f32x4 t)
{
    const f32x4 magic = splat(12582912.0f);
    return (t + magic) - magic;
}

/* Returns the nearest integer in low..high. NaN gives low. */
static inline f32x4 level_of(f32x4 t, float low, float high)
{
    t = pick(t > splat(low), t, splat(low));
    return round_level(pick(t < splat(high), t, splat(high)));
}

/* Returns 1 / a, or 0 if a is 0. */
static inline float reciprocal(float a)
{
    return a != 0.0f ? 1.0f / a : 0.0f;
}

/* Returns the exponent of a power of two that scales magnitudes up to `amax` to at most 1, so that
 * squares of tiny or huge values are finite. The power and its inverse are floats. */
static inline int unit_exponent(float amax)
{
    int exponent = 0;
    frexpf(amax, &exponent);
    return exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
}

/* Rounds value * unit to an f16 and returns it in units. A value that is not zero does not become
 * zero. */
static inline float round_super(float value, float unit)
{
    static const float f16_max = 65504.0f, f16_min = 0x1p-24f;
    float real = fminf(fmaxf(value * unit, -f16_max), f16_max);
    if (value != 0.0f && fabsf(real) < f16_min)
        real = copysignf(f16_min, value);
    return dgl_f16_to_f32(dgl_f32_to_f16(real)) / unit;
}

#endif
