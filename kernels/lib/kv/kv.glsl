// Rows of the KV cache. A cached number is an f16 (rounded to nearest even here, in integers: the
// rounding of packHalf2x16 is the driver's) or an f32. One layer is keys, then values, each
// [KV_HEADS][CONTEXT][HEAD_DIM].

// Bits of the f16 nearest to x: ties to even, beyond 65519 infinity, NaN stays NaN.
uint kv_half(float x)
{
    uint bits = floatBitsToUint(x);
    uint mag = bits & 0x7fffffffu;
    uint normal = (mag - 0x38000000u + 0x0fffu + ((mag >> 13) & 1u)) >> 13;
    // Below 2^-14 the f16 is a multiple of 2^-24; below 2^-25 it is zero, whatever the shift makes
    // of it.
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

uint kv_pack(vec2 x)
{
    return kv_half(x.x) | (kv_half(x.y) << 16);
}

// What the cache will give back for x.
vec4 kv_round(vec4 x)
{
#if KV_f16
    return vec4(unpackHalf2x16(kv_pack(x.xy)), unpackHalf2x16(kv_pack(x.zw)));
#else
    return x;
#endif
}
