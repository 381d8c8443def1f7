// q4_0 (layout `split`) for llvmpipe, a thread per row; lib row_llvmpipe explains the macros. The
// offset of the codes is the group's minimum: d * q - 8 d.
#define Q4_WORD(c, q, s) \
    CODE(c, float((q >> (s)) & 15u)) \
    CODE(c + 1, float((q >> (s + 8)) & 15u)) \
    CODE(c + 2, float((q >> (s + 16)) & 15u)) \
    CODE(c + 3, float((q >> (s + 24)) & 15u))
#define Q4_HALF(c, s) \
    Q4_WORD(c, q.x, s) Q4_WORD(c + 4, q.y, s) Q4_WORD(c + 8, q.z, s) Q4_WORD(c + 12, q.w, s)
#define Q4_GROUP(g, d) \
    if (32 * (g) < K) { \
        uvec4 q = W[row + uint(g)]; \
        GROUP(g, d, 8.0 * (d)) \
        Q4_HALF(32 * (g), 0) Q4_HALF(32 * (g) + 16, 4) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) \
    { \
        uvec4 h = W[row + uint(W_STRIDE / 9 * 2 + (n))]; \
        vec2 da = unpackHalf2x16(h.x), db = unpackHalf2x16(h.y); \
        vec2 dc = unpackHalf2x16(h.z), de = unpackHalf2x16(h.w); \
        Q4_GROUP(8 * (n), da.x) Q4_GROUP(8 * (n) + 1, da.y) \
        Q4_GROUP(8 * (n) + 2, db.x) Q4_GROUP(8 * (n) + 3, db.y) \
        Q4_GROUP(8 * (n) + 4, dc.x) Q4_GROUP(8 * (n) + 5, dc.y) \
        Q4_GROUP(8 * (n) + 6, de.x) Q4_GROUP(8 * (n) + 7, de.y) \
    }
