// Writes four neighbouring numbers to KV rows in `uvec2 KV[]`. Needs libs half, kv and kv_vec4.

// Numbers 4 i to 4 i + 3 of a row.
void kv_store_vec4(uint row, uint i, vec4 x)
{
#if KV_K_f16
    KV[row + i] = uvec2(half_pack(x.xy), half_pack(x.zw));
#else
    KV[row + 2u * i] = floatBitsToUint(x.xy);
    KV[row + 2u * i + 1u] = floatBitsToUint(x.zw);
#endif
}
