// Rows of the KV cache: their addresses. The texts of this folder are the only ones that know them.
//
// A layer's cache holds sequence after sequence, each as keys, then values, both
// [KV_HEADS][capacity][HEAD_DIM] numbers, f16 or f32; the capacity is the positions that the step
// table grants the sequence, and kv_first the positions of those before it. A row is one head's
// numbers at one position. kv_vec8, kv_vec4 and kv_vec2 read and write rows in `KV[]` of uvec4,
// uvec2 and uint: one of them goes with this text and says how many elements of KV a row takes,
// KV_ROW. A vector of theirs (8, 4 or 2 numbers) takes KV_VEC of them.
//
//! LET KV_VEC = KV_f16 ? 1 : 2

// The keys or the values of one head of one sequence. Loops over positions want it outside.
struct kv_rows {
    uint first; // element of KV: the row of position 0
};

kv_rows kv_keys(uint seq, uint head)
{
    uint rows = step_table[seq].kv_first * uint(2 * KV_HEADS) + head * step_table[seq].context;
    return kv_rows(rows * uint(KV_ROW));
}

kv_rows kv_values(uint seq, uint head)
{
    return kv_keys(seq, uint(KV_HEADS) + head);
}

// The same rows without their first `count` vectors.
kv_rows kv_skip(kv_rows rows, uint count)
{
    return kv_rows(rows.first + count * uint(KV_VEC));
}

// The row of a position, for the functions of kv_vec8, kv_vec4 and kv_vec2.
uint kv_row(kv_rows rows, uint pos)
{
    return rows.first + pos * uint(KV_ROW);
}
