// Writes to the KV cache, `uvec4 KV[]`. Needs lib kv.

// Four neighbouring numbers; quad i is half of octet i / 2.
void kv_store_quad(uint quad, vec4 x)
{
#if KV_f16
    uvec2 two = uvec2(kv_pack(x.xy), kv_pack(x.zw));
    if (quad % 2u == 0u)
        KV[quad / 2u].xy = two;
    else
        KV[quad / 2u].zw = two;
#else
    KV[quad] = floatBitsToUint(x);
#endif
}
