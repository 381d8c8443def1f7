// Writes four neighbouring numbers to KV rows in `uvec4 KV[]`. Needs libs half, kv, kv_round and
// kv_vec8.

// Numbers 4 i to 4 i + 3 of a row.
void kv_store_words(uint row, uint i, kv_words words)
{
#if KV_K_f16
    if (i % 2u == 0u)
        KV[row + i / 2u].xy = words;
    else
        KV[row + i / 2u].zw = words;
#else
    KV[row + i] = words;
#endif
}

void kv_store_vec4(uint row, uint i, vec4 x)
{
    kv_store_words(row, i, kv_pack(x));
}
