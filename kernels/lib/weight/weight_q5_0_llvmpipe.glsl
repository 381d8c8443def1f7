// Weights of type q5_0 (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros. The offset of the codes is the group's minimum: a weight is
// d * q - 16 d. Needs lib weight_llvmpipe.
#define Q50_GROUP(g, scale) \
    if (32 * (g) < K) { \
        uvec4 q = W[row + uint(g)]; \
        uint f = ROW_WORD((K + 31) / 32 * 4 + (g)); \
        vec2 dd = unpackHalf2x16(scale); \
        float d = (g) % 2 == 0 ? dd.x : dd.y; \
        GROUP(g, d, 16.0 * d) \
        FIVE_CODES(32 * (g)) \
        GROUP_END(g) \
    }
#define Q50_PAIR(g) \
    Q50_GROUP(g, ROW_WORD((K + 31) / 32 * 5 + (g) / 2)) \
    Q50_GROUP((g) + 1, ROW_WORD((K + 31) / 32 * 5 + (g) / 2))
#define ROW_BLOCK(n) \
    Q50_PAIR(8 * (n)) Q50_PAIR(8 * (n) + 2) Q50_PAIR(8 * (n) + 4) Q50_PAIR(8 * (n) + 6)
