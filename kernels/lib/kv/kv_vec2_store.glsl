// Writes two neighbouring numbers to KV rows in `uint KV[]`. Needs libs half and kv.
//
//! LET KV_ROW = HEAD_DIM / 2 * (KV_K_f16 ? 1 : 2)

// Numbers 2 i and 2 i + 1 of a row, which is kv_row()'s.
void kv_store_vec2(uint row, uint i, vec2 x)
{
#if KV_K_f16
    KV[row + i] = half_pack(x);
#else
    KV[row + 2u * i] = floatBitsToUint(x.x);
    KV[row + 2u * i + 1u] = floatBitsToUint(x.y);
#endif
}
