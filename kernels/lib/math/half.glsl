// f16 numbers in uint words.
//
// Packing rounds to nearest even with integer operations, because packHalf2x16 may round as the
// driver chooses, and the same number must get the same bits everywhere. Unpacking is exact, so it
// uses the built-in function.

// Bits of the f16 nearest to x: ties to even, beyond 65519 infinity, NaN stays NaN.
uint half_bits(float x)
{
    uint bits = floatBitsToUint(x);
    uint mag = bits & 0x7fffffffu;
    uint normal = (mag - 0x38000000u + 0x0fffu + ((mag >> 13) & 1u)) >> 13;
    // Below 2^-14 the f16 is a multiple of 2^-24; below 2^-25 it is zero whatever the shift yields.
    uint shift = 126u - clamp(mag >> 23, 102u, 112u);
    uint mant = (mag & 0x007fffffu) | 0x00800000u;
    uint low = mant >> shift;
    uint rest = mant & ((1u << shift) - 1u);
    uint tie = 1u << (shift - 1u);
    low += (rest > tie || (rest == tie && (low & 1u) == 1u)) ? 1u : 0u;
    low = mag < 0x33000000u ? 0u : low;
    uint h = mag < 0x38800000u ? low : normal;
    h = mag >= 0x47800000u ? 0x7c00u : h;
    h = mag > 0x7f800000u ? 0x7e00u : h;
    return h | ((bits >> 16) & 0x8000u);
}

uint half_pack(vec2 v)
{
    return half_bits(v.x) | (half_bits(v.y) << 16);
}

vec2 half_unpack(uint word)
{
    return unpackHalf2x16(word);
}
