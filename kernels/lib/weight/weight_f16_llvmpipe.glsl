// f16 for llvmpipe, a thread per row; lib row_llvmpipe explains the macros.
#define HALF_WORD(c, q) { vec2 p = unpackHalf2x16(q); CODE(c, p.x) CODE(c + 1, p.y) }
#define HALF_VEC8(c) \
    if ((c) < K) { \
        uvec4 q = W[row + uint((c) / 8)]; \
        HALF_WORD(c, q.x) HALF_WORD(c + 2, q.y) HALF_WORD(c + 4, q.z) HALF_WORD(c + 6, q.w) \
    }
#define HALF_GROUP(g) \
    GROUP(g, 1.0, 0.0) \
    HALF_VEC8(32 * (g)) HALF_VEC8(32 * (g) + 8) \
    HALF_VEC8(32 * (g) + 16) HALF_VEC8(32 * (g) + 24) \
    GROUP_END(g)
#define ROW_BLOCK(n) \
    HALF_GROUP(8 * (n)) HALF_GROUP(8 * (n) + 1) HALF_GROUP(8 * (n) + 2) HALF_GROUP(8 * (n) + 3) \
    HALF_GROUP(8 * (n) + 4) HALF_GROUP(8 * (n) + 5) HALF_GROUP(8 * (n) + 6) HALF_GROUP(8 * (n) + 7)
