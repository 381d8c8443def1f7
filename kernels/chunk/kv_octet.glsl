// Eight neighbouring numbers of the KV cache, in `uvec4 KV[]`. An octet's number is its first
// element's divided by 8.

void kv_octet(uint octet, out vec4 a, out vec4 b)
{
#if KV_f16
    uvec4 w = KV[octet];
    a = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    b = vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w));
#else
    a = uintBitsToFloat(KV[2u * octet]);
    b = uintBitsToFloat(KV[2u * octet + 1u]);
#endif
}
