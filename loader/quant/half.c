/* Converts IEEE half and bfloat16 to and from float with integers: the same bits on every compiler
 * and processor. */
#include <string.h>

#include "loader/quant/quant.h"

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Rounds value / 2^shift to the nearest integer, ties to even; shift is 1 to 31. */
static uint32_t shift_round(uint32_t value, uint32_t shift)
{
    uint32_t kept = value >> shift;
    uint32_t rest = value & ((1u << shift) - 1), half = 1u << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t dgl_f32_to_f16(float value)
{
    uint32_t bits = float_bits(value), sign = (bits >> 16) & 0x8000u, mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) /* NaN: the top bits of the payload, made quiet */
        return (uint16_t)(sign | 0x7e00u | ((mag >> 13) & 0x3ffu));
    if (mag >= 0x47800000u) /* 65536 and above */
        return (uint16_t)(sign | 0x7c00u);
    if (mag >= 0x38800000u) /* normal; a carry out of the mantissa is correct */
        return (uint16_t)(sign | shift_round(mag - (112u << 23), 13));
    uint32_t shift = 126 - (mag >> 23); /* subnormal: units of 2^-24 */
    if (shift > 24)
        return (uint16_t)sign;
    return (uint16_t)(sign | shift_round((mag & 0x7fffffu) | 0x800000u, shift));
}

float dgl_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exp = (bits >> 10) & 31u, man = bits & 0x3ffu;
    if (exp == 31) /* infinity, or a NaN made quiet */
        return bits_float(sign | 0x7f800000u | man << 13 | (man ? 0x400000u : 0));
    if (exp > 0)
        return bits_float(sign | (exp + 112) << 23 | man << 13);
    float value = (float)man * 0x1p-24f;
    return sign ? -value : value;
}

uint16_t dgl_f32_to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float dgl_bf16_to_f32(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}
