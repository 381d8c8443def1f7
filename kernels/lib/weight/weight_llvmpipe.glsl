// Code that several weight_*_llvmpipe libs share. See lib row_llvmpipe for GROUP and CODES.

// For lib weight_columns_llvmpipe, see lib weight_words.
#define weight_load(i)  W[(i) / 4u][(i) % 4u]
#define weight_load2(i) (((i) & 2u) == 0u ? W[(i) / 4u].xy : W[(i) / 4u].zw)
#define weight_load4(i) W[(i) / 4u]
#define weight_grid(i)  WEIGHT_GRID[i]

// Four codes of four bits: those at bit s of each byte of q.
#define NIBBLE_CODES(c, q, s) \
    CODES(c, float((q >> (s)) & 15u), float((q >> (s + 8)) & 15u), \
          float((q >> (s + 16)) & 15u), float((q >> (s + 24)) & 15u))

// Four codes of eight bits: the bytes of q.
#define BYTE_CODES(c, q) \
    CODES(c, float((q) & 255u), float(((q) >> 8) & 255u), float(((q) >> 16) & 255u), \
          float((q) >> 24))

// The 32 codes of five bits of a group, with nibbles q and fifth bits f.
#define FIVE_LOW(c, q, i) BYTE_CODES(c, ((q) & 0x0F0F0F0Fu) | ((f << (4 - (i))) & 0x10101010u))
#define FIVE_HIGH(c, q, i) BYTE_CODES(c, (((q) >> 4) & 0x0F0F0F0Fu) | ((f >> (i)) & 0x10101010u))
#define FIVE_CODES(c) \
    FIVE_LOW(c, q.x, 0) FIVE_LOW(c + 4, q.y, 1) FIVE_LOW(c + 8, q.z, 2) FIVE_LOW(c + 12, q.w, 3) \
    FIVE_HIGH(c + 16, q.x, 0) FIVE_HIGH(c + 20, q.y, 1) FIVE_HIGH(c + 24, q.z, 2) \
    FIVE_HIGH(c + 28, q.w, 3)

// Four codes of eight bits, times sc, minus mn.
#define SCALED_CODES(c, q, sc, mn) \
    CODES(c, (sc) * float((q) & 255u) - (mn), (sc) * float(((q) >> 8) & 255u) - (mn), \
          (sc) * float(((q) >> 16) & 255u) - (mn), (sc) * float((q) >> 24) - (mn))

// Word `at` of the row, a constant.
#define ROW_WORD(at) W[row + uint((at) / 4)][(at) % 4]

// Block n where W[row + at] has an f16 scale per group: G(g, d) for each group.
#define SCALED_BLOCK(n, at, G) \
    { \
        uvec4 h = W[row + uint(at)]; \
        vec2 da = unpackHalf2x16(h.x), db = unpackHalf2x16(h.y); \
        vec2 dc = unpackHalf2x16(h.z), de = unpackHalf2x16(h.w); \
        G(8 * (n), da.x) G(8 * (n) + 1, da.y) G(8 * (n) + 2, db.x) G(8 * (n) + 3, db.y) \
        G(8 * (n) + 4, dc.x) G(8 * (n) + 5, dc.y) G(8 * (n) + 6, de.x) G(8 * (n) + 7, de.y) \
    }

// Block n of 16-bit floats: WORDS(c, p, q) has the four of words p and q.
#define FLOAT16_VEC8(c, WORDS) \
    if ((c) < K) { \
        uvec4 q = W[row + uint((c) / 8)]; \
        WORDS(c, q.x, q.y) WORDS(c + 4, q.z, q.w) \
    }
#define FLOAT16_GROUP(g, WORDS) \
    GROUP(g, 1.0, 0.0) \
    FLOAT16_VEC8(32 * (g), WORDS) FLOAT16_VEC8(32 * (g) + 8, WORDS) \
    FLOAT16_VEC8(32 * (g) + 16, WORDS) FLOAT16_VEC8(32 * (g) + 24, WORDS) \
    GROUP_END(g)
#define FLOAT16_BLOCK(n, WORDS) \
    FLOAT16_GROUP(8 * (n), WORDS) FLOAT16_GROUP(8 * (n) + 1, WORDS) \
    FLOAT16_GROUP(8 * (n) + 2, WORDS) FLOAT16_GROUP(8 * (n) + 3, WORDS) \
    FLOAT16_GROUP(8 * (n) + 4, WORDS) FLOAT16_GROUP(8 * (n) + 5, WORDS) \
    FLOAT16_GROUP(8 * (n) + 6, WORDS) FLOAT16_GROUP(8 * (n) + 7, WORDS)

// Entries of IQ4's table, -127 to 113, for codes in the lowest four bits: a polynomial in 1 + q /
// 16 that is within 0.45 of the entries.
vec4 iq4_entries(uvec4 q)
{
    vec4 t = uintBitsToFloat(((q & 15u) << 19) | 0x3F800000u);
    t = (((103.593 * t - 286.218) * t - 114.775) * t + 1060.82) * t - 890.0;
    return floor(t + 0.5);
}

// The 16 codes in the low nibbles (s 0) or the high ones (s 4) of q, as entries of that table.
#define IQ4_WORD(c, q, s) \
    { \
        vec4 v = iq4_entries(uvec4(q, (q) >> 8, (q) >> 16, (q) >> 24) >> (s)); \
        CODES(c, v.x, v.y, v.z, v.w) \
    }
#define IQ4_HALF(c, s) \
    IQ4_WORD(c, q.x, s) IQ4_WORD(c + 4, q.y, s) IQ4_WORD(c + 8, q.z, s) IQ4_WORD(c + 12, q.w, s)
