// Eight neighbouring numbers of the KV cache, in `uvec4 KV[]`. An octet's number is its first
// element's divided by 8.

// From its one (f16) or two (f32) vectors.
void kv_unpack(uvec4 lo, uvec4 hi, out vec4 a, out vec4 b)
{
#if KV_f16
    a = vec4(unpackHalf2x16(lo.x), unpackHalf2x16(lo.y));
    b = vec4(unpackHalf2x16(lo.z), unpackHalf2x16(lo.w));
#else
    a = uintBitsToFloat(lo);
    b = uintBitsToFloat(hi);
#endif
}

void kv_octet(uint octet, out vec4 a, out vec4 b)
{
#if KV_f16
    uvec4 words = KV[octet];
    kv_unpack(words, words, a, b);
#else
    kv_unpack(KV[2u * octet], KV[2u * octet + 1u], a, b);
#endif
}
