// q8_0 (layout `split`) for llvmpipe, a thread per row; lib row_llvmpipe explains the macros.
#define Q8_WORD(c, q) \
    CODE(c, float(int(q << 24) >> 24)) \
    CODE(c + 1, float(int(q << 16) >> 24)) \
    CODE(c + 2, float(int(q << 8) >> 24)) \
    CODE(c + 3, float(int(q) >> 24))
#define Q8_VEC16(c) \
    { \
        uvec4 q = W[row + uint((c) / 16)]; \
        Q8_WORD(c, q.x) Q8_WORD(c + 4, q.y) Q8_WORD(c + 8, q.z) Q8_WORD(c + 12, q.w) \
    }
#define Q8_GROUP(g, d) \
    if (32 * (g) < K) { \
        GROUP(g, d, 0.0) \
        Q8_VEC16(32 * (g)) Q8_VEC16(32 * (g) + 16) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) \
    { \
        uvec4 h = W[row + uint(W_STRIDE / 17 * 4 + (n))]; \
        vec2 da = unpackHalf2x16(h.x), db = unpackHalf2x16(h.y); \
        vec2 dc = unpackHalf2x16(h.z), de = unpackHalf2x16(h.w); \
        Q8_GROUP(8 * (n), da.x) Q8_GROUP(8 * (n) + 1, da.y) \
        Q8_GROUP(8 * (n) + 2, db.x) Q8_GROUP(8 * (n) + 3, db.y) \
        Q8_GROUP(8 * (n) + 4, dc.x) Q8_GROUP(8 * (n) + 5, dc.y) \
        Q8_GROUP(8 * (n) + 6, de.x) Q8_GROUP(8 * (n) + 7, de.y) \
    }
