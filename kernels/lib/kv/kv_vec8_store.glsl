// Writes to KV rows in `uvec4 KV[]`. Needs libs half, kv and kv_vec8.

// Numbers 4 i to 4 i + 3 of a row.
void kv_store_vec4(uint row, uint i, vec4 x)
{
#if KV_f16
    uvec2 words = uvec2(half_pack(x.xy), half_pack(x.zw));
    if (i % 2u == 0u)
        KV[row + i / 2u].xy = words;
    else
        KV[row + i / 2u].zw = words;
#else
    KV[row + i] = floatBitsToUint(x);
#endif
}
