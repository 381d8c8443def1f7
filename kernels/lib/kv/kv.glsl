// Addresses of rows of the KV cache. Only the libs of this folder compute such addresses.
//
// A layer's cache is pages of KV_PAGE positions. The page table (kernels/step.h) lists the pages of
// a sequence from entry KV_ENTRY + kv_first on, in the order of its positions. KV_ENTRY is the
// first entry of the layer's group. A page contains keys, then values, both
// [KV_HEADS][KV_PAGE][HEAD_DIM] numbers, f16 or f32. KV_K_f16 is used for both, so kernels with
// this lib require KV_K_f16 == KV_V_f16. A row is the numbers of one head at one position.
//
// The libs kv_vec8*, kv_vec4* and kv_vec2* read and write rows in `KV[]` of uvec4, uvec2 and uint.
// A kernel uses those of one element type. They define KV_ROW, the elements of KV per row. A vector
// of 8, 4 or 2 numbers is KV_VEC elements.
//
//! LET KV_VEC = KV_K_f16 ? 1 : 2

// The keys or the values of one head of one sequence. Compute it before a loop over positions.
struct kv_rows {
    uint first;   // element of a page: the row of its first position
    uint entries; // of the page table before the sequence's
};

kv_rows kv_keys(uint seq, uint head)
{
    return kv_rows(head * uint(KV_PAGE * KV_ROW), step_table[seq].kv_first + uint(KV_ENTRY));
}

kv_rows kv_values(uint seq, uint head)
{
    return kv_keys(seq, uint(KV_HEADS) + head);
}

// The same rows without their first `count` vectors.
kv_rows kv_skip(kv_rows rows, uint count)
{
    return kv_rows(rows.first + count * uint(KV_VEC), rows.entries);
}

// First element of those rows in the page of a position. The result is the same for all positions
// from `pos` up to kv_page_end(pos).
uint kv_page_rows(kv_rows rows, uint pos)
{
    uint page = kv_page(rows.entries + pos / uint(KV_PAGE));
    return page * uint(2 * KV_HEADS * KV_PAGE * KV_ROW) + rows.first;
}

uint kv_page_end(uint pos)
{
    return (pos / uint(KV_PAGE) + 1u) * uint(KV_PAGE);
}

// The row of a position in its page, for the functions of the libs kv_vec8*, kv_vec4* and kv_vec2*.
uint kv_page_row(uint page_rows, uint pos)
{
    return page_rows + pos % uint(KV_PAGE) * uint(KV_ROW);
}

// The row that is the given number of positions later, in the same page.
uint kv_row_behind(uint row, uint count)
{
    return row + count * uint(KV_ROW);
}

// From a key's row to that of the value of the same head and position.
const uint KV_TO_VALUE = uint(KV_HEADS * KV_PAGE * KV_ROW);

// Positions of a page, for the lengths of loops.
const int KV_RUN = KV_PAGE;

// Pages of a run of positions that begins at a multiple of its length, a power of two.
#define KV_RUN_PAGES(count) max(1, (count) / KV_PAGE)

// The first position of a page.
uint kv_page_begin(uint pos)
{
    return pos - pos % uint(KV_PAGE);
}

// The same as kv_page_row(), of any page.
uint kv_row(kv_rows rows, uint pos)
{
    return kv_page_row(kv_page_rows(rows, pos), pos);
}
