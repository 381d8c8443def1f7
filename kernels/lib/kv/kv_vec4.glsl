// Reads four neighbouring numbers of a KV row at a time, from `uvec2 KV[]`.
//
// HEAD_DIM is a multiple of 4. A `row` is a result of kv_row(). Vector i of a row is the numbers 4
// i to 4 i + 3. Needs lib kv.
//
//! LET KV_ROW = HEAD_DIM / 4 * (KV_K_f16 ? 1 : 2)

vec4 kv_load_vec4(uint row, uint i)
{
#if KV_K_f16
    uvec2 words = KV[row + i];
    return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
#else
    return vec4(uintBitsToFloat(KV[row + 2u * i]), uintBitsToFloat(KV[row + 2u * i + 1u]));
#endif
}
