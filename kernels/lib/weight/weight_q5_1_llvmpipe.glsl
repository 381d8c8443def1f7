// Weights of type q5_1 (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros. Needs lib weight_llvmpipe.
#define Q51_GROUP(g, scales, fifths) \
    if (32 * (g) < K) { \
        uvec4 q = W[row + uint(g)]; \
        uint f = fifths; \
        vec2 d = unpackHalf2x16(scales); \
        GROUP(g, d.x, -d.y) \
        FIVE_CODES(32 * (g)) \
        GROUP_END(g) \
    }
#define Q51_PAIR(g) \
    if (32 * (g) < K) { \
        uvec4 h = W[row + uint((K + 31) / 32 + (g) / 2)]; \
        Q51_GROUP(g, h.x, h.y) Q51_GROUP(g + 1, h.z, h.w) \
    }
#define ROW_BLOCK(n) \
    Q51_PAIR(8 * (n)) Q51_PAIR(8 * (n) + 2) Q51_PAIR(8 * (n) + 4) Q51_PAIR(8 * (n) + 6)
