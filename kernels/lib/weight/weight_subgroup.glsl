// Code that several weight_*_subgroup libs share, and their interface to libs lane_dot,
// gemv_subgroup and matmul_strips.
//
// A slice has 32 * SUBGROUP columns, of which a lane of the subgroup has 32. lane_begin() finds the
// columns of the lane in a row; `width` lanes have columns of the slice, which begins at column
// 32 * `first`. lane_vec4() returns the index of the vec4 of the slice's x for part i of the lane.
// lane_fetch() reads the LANE_RAW words of a row. W is uvec4. Lanes beyond the end of the row read
// its last columns; their x is 0.
//
// A lane's columns are unpacked half by half, in four parts of four columns. LANE_TABLES fills
// tables in shared memory in all invocations of the group, and ends with a barrier if there are
// any. matmul_strips does not call it. LANE_READY(raw, row) prepares the words of the row in
// raw[row] and on. LANE_QUAD(raw, row, i) is part i of the first half as floats, and
// LANE_LATER(raw, row, i) part i of the second half. LANE_TURN(raw, row) is called between the
// halves; formats of matmul_strips do nothing there. The columns of a part are those of
// lane_vec4(), in the order of LANE_ORDER(). A weight is
//     scale * (up * part - LANE_CENTRE) - least,
// where `up` is LANE_UP in the first half and LANE_LATER_UP in the second half. Kernels multiply x
// by it.
// lane_affine() returns scale and least of both halves, which are equal if LANE_GROUPS is 1; call
// it before LANE_READY. `least` is 0 without LANE_MINIMUM, and `scale` is 1 without LANE_SCALED.
// matmul_strips calls lane_begin() for its next step after LANE_READY, so LANE_QUAD and LANE_LATER
// of its formats use no variable that lane_begin() sets. Kernels declare HALVES and TINY, which are
// explained below.

// The bits of 1.0 in a register that the compiler cannot see through, to make other constants from:
// with two literals NVIDIA needs two instructions for (word & mask) | constant. `zero` is 0 where
// no compiler can know it.
uint lane_one;
#define LANE_ONE(zero) (0x3F800000u | (zero))

// A code in the lowest bits of 2^23 is a float without a conversion instruction.
#define LANE_MAGIC      (lane_one + 0x0B800000u)
#define LANE_UINT(code) (uintBitsToFloat((code) | LANE_MAGIC) - 8388608.0)

// Puts four words at raw[at].
#define LANE_RAW4(at, four) \
    v4 = four; \
    raw[at] = v4.x; \
    raw[(at) + 1] = v4.y; \
    raw[(at) + 2] = v4.z; \
    raw[(at) + 3] = v4.w;

// Those four again. lane_affine() and LANE_READY select words from them: a selection in
// lane_fetch() would wait for the load at once, with nothing in between.
#define LANE_FOUR(at) uvec4(raw[at], raw[(at) + 1], raw[(at) + 2], raw[(at) + 3])

// Word `at` of four. W[i][at] with an index that is not constant reads four words into memory of
// its own on NVIDIA, which takes several times as long as the rest.
uint lane_pick(uvec4 four, uint at)
{
    uvec2 two = at < 2u ? four.xy : four.zw;
    return (at & 1u) == 0u ? two.x : two.y;
}

// For lib weight_columns_subgroup, see lib weight_words.
#define weight_load(i)  lane_pick(W[(i) / 4u], (i) % 4u)
#define weight_load2(i) (((i) & 2u) == 0u ? W[(i) / 4u].xy : W[(i) / 4u].zw)
#define weight_load4(i) W[(i) / 4u]
#define weight_grid(i)  lane_table[i]

// The lane's columns of x, which lane_prepare() reorders and scales. No function takes them as an
// array: NVIDIA's compiler copied it.
vec4 lane_x[8];

// Sum of sixteen of them, lane_x[at] to lane_x[at + 3].
#define LANE_SUM16(at) \
    (dot(lane_x[at] + lane_x[(at) + 1], vec4(1.0)) + \
     dot(lane_x[(at) + 2] + lane_x[(at) + 3], vec4(1.0)))

// Codes (sc, sc, m, m), six bits each, of two neighbouring groups of a q5_k block, from words 1 to
// 3 of the block: the groups' bits of a word begin at `shift`.
vec4 lane_k_codes(uvec3 head, uint shift, bool upper)
{
    head >>= shift;
    uint sc = upper ? (head.z & 0x0F0Fu) | ((head.x >> 2) & 0x3030u) : head.x & 0x3F3Fu;
    uint m = upper ? ((head.z >> 4) & 0x0F0Fu) | ((head.y >> 2) & 0x3030u) : head.y & 0x3F3Fu;
    return vec4(uvec4(sc, sc >> 8, m, m >> 8) & 63u);
}

// Integer codes as parts. With HALVES, a part is f16vec4, and LANE_UP and LANE_CENTRE are within
// it, which is exact: a code in the lowest bits of 1024.0 is a half without a conversion. With
// TINY, codes are halves below 2^-14: codes times 2^-24, exact if the device keeps subnormal
// halves. Else a code in the lowest bits of 2^23 is a float.
#if HALVES
#define LANE_PART           f16vec4
#define LANE_CODE_UP        1.0
#define LANE_CODES(q, mask) (unpackFloat2x16(((q) & (mask)) | (lane_one + 0x24806400u)) - \
                             f16vec2(1024.0 + LANE_CENTRE))
#elif TINY
#define LANE_PART           vec4
#define LANE_CODE_UP        16777216.0
#define LANE_CODES(q, mask) unpackHalf2x16((q) & (mask))
#else
#define LANE_PART           vec4
#define LANE_CODE_UP        1.0
#define LANE_CODES(q, mask) \
    vec2(LANE_UINT((q) & ((mask) & 255u)), LANE_UINT(((q) >> 16) & ((mask) & 255u)))
#endif
// Four codes in the bytes of a word.
#define LANE_BYTES(q) LANE_PART(LANE_CODES(q, 0x00FF00FFu), LANE_CODES((q) >> 8, 0x00FF00FFu))
// The same of their lower nibbles.
#define NIBBLE_QUAD(q) LANE_PART(LANE_CODES(q, 0x000F000Fu), LANE_CODES((q) >> 8, 0x000F000Fu))

// Codes of the second half, `bits` above those of the first. They stay there, as 2^bits times the
// codes, and x of that half is divided by 2^bits. 16-bit x would lose accuracy, so HALVES shifts
// the codes down.
#if HALVES
#define LANE_DOWN(q, bits)  ((q) >> (bits))
#define LANE_DOWN_UP(bits)  LANE_CODE_UP
#define NIBBLE_LATER(q)     NIBBLE_QUAD((q) >> 4)
#else
#define LANE_DOWN(q, bits)  (q)
#define LANE_DOWN_UP(bits)  (LANE_CODE_UP / float(1 << (bits)))
#define NIBBLE_LATER(q)     LANE_PART(LANE_CODES(q, 0x00F000F0u), LANE_CODES((q) >> 8, 0x00F000F0u))
#endif

#define LANE_SHIFT4(raw, at, bits) \
    raw[at] >>= bits; \
    raw[(at) + 1] >>= bits; \
    raw[(at) + 2] >>= bits; \
    raw[(at) + 3] >>= bits;
