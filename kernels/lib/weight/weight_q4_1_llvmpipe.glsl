// Weights of type q4_1 (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros. Needs lib weight_llvmpipe.
#define Q41_HALF(c, s) \
    NIBBLE_CODES(c, q.x, s) NIBBLE_CODES(c + 4, q.y, s) \
    NIBBLE_CODES(c + 8, q.z, s) NIBBLE_CODES(c + 12, q.w, s)
#define Q41_GROUP(g, scales) \
    if (32 * (g) < K) { \
        uvec4 q = W[row + uint(g)]; \
        vec2 d = unpackHalf2x16(scales); \
        GROUP(g, d.x, -d.y) \
        Q41_HALF(32 * (g), 0) Q41_HALF(32 * (g) + 16, 4) \
        GROUP_END(g) \
    }
#define Q41_FOUR(g) \
    if (32 * (g) < K) { \
        uvec4 h = W[row + uint((K + 31) / 32 + (g) / 4)]; \
        Q41_GROUP(g, h.x) Q41_GROUP(g + 1, h.y) Q41_GROUP(g + 2, h.z) Q41_GROUP(g + 3, h.w) \
    }
#define ROW_BLOCK(n) Q41_FOUR(8 * (n)) Q41_FOUR(8 * (n) + 4)
