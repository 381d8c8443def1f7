// Code that several weight_*_subgroup libs share.
//
// The interface to lib gemv_subgroup: a slice has 32 * SUBGROUP columns, of which a lane of the
// subgroup has 32. lane_begin() finds the columns of the lane in a row; `width` lanes have columns
// of the slice, whose first column is 32 * `first`. lane_vec4() returns the index of the vec4 of
// the slice's x for part i of the lane. lane_fetch() reads the LANE_RAW words of a row.
// lane_prepare() computes the sums of x for lane_dot(), which multiplies. W is uvec4. Lanes beyond
// the end of the row read its last columns; their x is 0.

// 1.0 in a register that the compiler cannot see through: with two literals NVIDIA needs two
// instructions for (word & mask) | one. `zero` is 0 where no compiler can know it.
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

// Those four again, for lane_dot(). What lane_fetch() reads is chosen from there: a choice in
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
#define weight_grid(i)  lane_grid[i]

// The lane's columns of x. No function takes them as an array: NVIDIA's compiler copied it.
vec4 lane_x[8];

// Sum of sixteen of them, lane_x[at] to lane_x[at + 3].
#define LANE_SUM16(at) \
    (dot(lane_x[at] + lane_x[(at) + 1], vec4(1.0)) + \
     dot(lane_x[(at) + 2] + lane_x[(at) + 3], vec4(1.0)))

// Adds the products of four codes, the bytes of q without bits outside of `mask`, with four columns
// of x. A code in the mantissa of 1.0 is 1 + code / 256, so the sum is 1/256 of the products. `one`
// is what comes off: 1.0, plus 1/256 of the format's offset. That is exact.
#define LANE_TIMES(sum, bits, mask, one, xx) \
    sum += (uintBitsToFloat(((bits) & uint((mask) << 15)) | lane_one) - (one)) * (xx);
#define LANE_TIMES4(sum, q, mask, one, xx) \
    LANE_TIMES(sum, (q) << 15, mask, one, (xx).x) LANE_TIMES(sum, (q) << 7, mask, one, (xx).y) \
    LANE_TIMES(sum, (q) >> 1, mask, one, (xx).z) LANE_TIMES(sum, (q) >> 9, mask, one, (xx).w)

// Word i of the 16 bytes of nibbles of a group, with the fifth bits of all codes as q5_0 and q5_1
// have them: their bytes are codes of columns 4 i to 4 i + 3, and those 16 further on.
#define LANE_FIVE(sum, word, fifths, i, one) \
    q = ((word) & 0x0F0F0F0Fu) | (((fifths) << (4 - (i))) & 0x10101010u); \
    LANE_TIMES4(sum, q, 31, one, lane_x[i]) \
    q = (((word) >> 4) & 0x0F0F0F0Fu) | (((fifths) >> (i)) & 0x10101010u); \
    LANE_TIMES4(sum, q, 31, one, lane_x[(i) + 4])

// Codes (sc, sc, m, m), six bits each, of two neighbouring groups of a q5_k block, from words 1 to
// 3 of the block: the groups' bits of a word begin at `shift`.
vec4 lane_k_codes(uvec3 head, uint shift, bool upper)
{
    head >>= shift;
    uint sc = upper ? (head.z & 0x0F0Fu) | ((head.x >> 2) & 0x3030u) : head.x & 0x3F3Fu;
    uint m = upper ? ((head.z >> 4) & 0x0F0Fu) | ((head.y >> 2) & 0x3030u) : head.y & 0x3F3Fu;
    return vec4(uvec4(sc, sc >> 8, m, m >> 8) & 63u);
}

// Products of 32 nibbles with x, where byte j of the 16 has column j in its low half and column j +
// 16 in its high half. A nibble in the mantissa of 1.0 is a float, and a shift serves three of
// them: bits 11 to 14 give 1 + n / 4096, 15 to 18 1 + n / 256, 19 to 22 1 + n / 16. The 1 is taken
// off before multiplying, exactly; of the last, where that costs 4 bits of the sum, by starting at
// minus the sum of the x that they meet, nibble_sum16.
float nibble_sum, nibble_sum16;

void nibble_prepare()
{
    vec4 low = (lane_x[0] + lane_x[1]) + (lane_x[2] + lane_x[3]);
    vec4 high = (lane_x[4] + lane_x[5]) + (lane_x[6] + lane_x[7]);
    nibble_sum = ((low.x + low.y) + (low.z + low.w)) + ((high.x + high.y) + (high.z + high.w));
    nibble_sum16 = low.y + (high.z + high.w);
}

#define NIBBLE_4096(s, xx) \
    c += (uintBitsToFloat(((s) & 0x00007800u) | lane_one) - 1.0) * (xx);
#define NIBBLE_256(s, xx) b += (uintBitsToFloat(((s) & 0x00078000u) | lane_one) - 1.0) * (xx);
#define NIBBLE_16(s, xx)  a += uintBitsToFloat(((s) & 0x00780000u) | lane_one) * (xx);
#define NIBBLE_WORD(q, i) \
    s0 = (q) << 11; \
    s1 = (q) >> 1; \
    s2 = (q) >> 9; \
    NIBBLE_4096(s0, lane_x[i].x) NIBBLE_256(s0, lane_x[i + 4].x) NIBBLE_16(s0, lane_x[i].y) \
    NIBBLE_4096(s1, lane_x[i + 4].y) NIBBLE_256(s1, lane_x[i].z) NIBBLE_16(s1, lane_x[i + 4].z) \
    NIBBLE_256(s2, lane_x[i].w) NIBBLE_16(s2, lane_x[i + 4].w)

float nibble_dot(uvec4 q)
{
    float a = -nibble_sum16, b = 0.0, c = 0.0;
    uint s0, s1, s2;
    NIBBLE_WORD(q.x, 0)
    NIBBLE_WORD(q.y, 1)
    NIBBLE_WORD(q.z, 2)
    NIBBLE_WORD(q.w, 3)
    return a * 16.0 + b * 256.0 + c * 4096.0;
}

// Sum of the products of 32 nibbles, in the order of nibble_dot(), as entries of IQ4's table with
// x. A nibble in the mantissa of 1.0 is 1 + n / 16. A polynomial in that number is within 0.45 of
// the entry. Adding it to 2^23 + 128 rounds it to the entry. `zero` is 0 where no compiler can know
// it: Mesa would combine the addition with the subtraction.
#define LANE_IQ4(bits, xx) \
    v = uintBitsToFloat(((bits) & 0x00780000u) | lane_one); \
    v = (((103.593 * v - 286.218) * v - 114.775) * v + 1060.82) * v + 8387846.0; \
    sum += (uintBitsToFloat(floatBitsToUint(v) | zero) - 8388736.0) * (xx);
#define LANE_IQ4_WORD(q, i) \
    LANE_IQ4((q) << 19, lane_x[i].x) LANE_IQ4((q) << 15, lane_x[i + 4].x) \
    LANE_IQ4((q) << 11, lane_x[i].y) LANE_IQ4((q) << 7, lane_x[i + 4].y) \
    LANE_IQ4((q) << 3, lane_x[i].z) LANE_IQ4((q) >> 1, lane_x[i + 4].z) \
    LANE_IQ4((q) >> 5, lane_x[i].w) LANE_IQ4((q) >> 9, lane_x[i + 4].w)

float iq4_dot(uvec4 q)
{
    uint zero = lane_one - 0x3F800000u;
    float sum = 0.0, v;
    LANE_IQ4_WORD(q.x, 0)
    LANE_IQ4_WORD(q.y, 1)
    LANE_IQ4_WORD(q.z, 2)
    LANE_IQ4_WORD(q.w, 3)
    return sum;
}

// Interface to lib matmul_strips, which multiplies a lane's 32 columns of a row with several
// columns of x. It unpacks half of them at a time, in four parts of four columns. LANE_QUAD(raw,
// row, i) is part i as floats, from the words of the row in raw[row] and on. LANE_NEXT(raw, row)
// moves the bits of the second half to the place of the first. The columns of a part are those of
// lane_vec4(), in the order of LANE_ORDER(). A weight is
//     scale * (LANE_UP * part - LANE_CENTRE) - least.
// lane_affine() returns scale and least of both halves, which are equal if LANE_GROUPS is 1.
// `least` is 0 without LANE_MINIMUM, and `scale` is 1 without LANE_SCALED. LANE_QUAD does not
// change if lane_begin() is called for a slice that begins a multiple of 256 columns further.

// With HALVES, a part is f16vec4. Types with integer codes then have LANE_UP and LANE_CENTRE within
// the part, which is exact: a code in the lowest bits of 1024.0 is a half without a conversion.
#if HALVES
#define LANE_PART           f16vec4
#define LANE_CODES(q, mask) (unpackFloat2x16(((q) & (mask)) | (lane_one + 0x24806400u)) - \
                             f16vec2(1024.0 + LANE_CENTRE))
#else
// Halves below 2^-14: codes times 2^-24, exact.
#define LANE_PART           vec4
#define LANE_CODES(q, mask) unpackHalf2x16((q) & (mask))
#endif
// Four codes in the bytes of a word.
#define LANE_BYTES(q) LANE_PART(LANE_CODES(q, 0x00FF00FFu), LANE_CODES((q) >> 8, 0x00FF00FFu))
// The same of their lower nibbles.
#define NIBBLE_QUAD(q) LANE_PART(LANE_CODES(q, 0x000F000Fu), LANE_CODES((q) >> 8, 0x000F000Fu))

#define LANE_SHIFT4(raw, at, bits) \
    raw[at] >>= bits; \
    raw[(at) + 1] >>= bits; \
    raw[(at) + 2] >>= bits; \
    raw[(at) + 3] >>= bits;
#define LANE_DOWN4(raw, at, words) \
    raw[at] = raw[(at) + (words)]; \
    raw[(at) + 1] = raw[(at) + (words) + 1]; \
    raw[(at) + 2] = raw[(at) + (words) + 2]; \
    raw[(at) + 3] = raw[(at) + (words) + 3];
