// f16 in uint words. Packing rounds to nearest even in integers: packHalf2x16 may round as the
// driver likes, and the same key must get the same bits everywhere. Unpacking is exact, so the
// built-in does.
uint half_bits(float value)
{
    uint u = floatBitsToUint(value);
    uint sign = (u >> 16) & 0x8000u;
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u)
        return sign | 0x7E00u; // NaN
    if (u >= 0x47800000u)
        return sign | 0x7C00u; // 65536 and more; what rounds up to it gets there below
    if (u >= 0x38800000u) {
        u -= 0x38000000u;
        return sign | ((u + 0xFFFu + ((u >> 13) & 1u)) >> 13);
    }
    if (u < 0x33000000u)
        return sign; // below half of the smallest subnormal
    uint shift = 126u - (u >> 23), mantissa = (u & 0x7FFFFFu) | 0x800000u;
    uint low = mantissa & ((1u << shift) - 1u), middle = 1u << (shift - 1u);
    uint bits = mantissa >> shift;
    if (low > middle || (low == middle && (bits & 1u) != 0u))
        bits++;
    return sign | bits;
}

uint half_pack(vec2 v)
{
    return half_bits(v.x) | (half_bits(v.y) << 16);
}

vec2 half_unpack(uint word)
{
    return unpackHalf2x16(word);
}
