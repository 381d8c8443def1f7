// Weights of type q4_0 (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros. The offset of the codes is the group's minimum: d * q - 8 d.
// Needs lib weight_llvmpipe.
#define Q4_HALF(c, s) \
    NIBBLE_CODES(c, q.x, s) NIBBLE_CODES(c + 4, q.y, s) \
    NIBBLE_CODES(c + 8, q.z, s) NIBBLE_CODES(c + 12, q.w, s)
#define Q4_GROUP(g, d) \
    if (32 * (g) < K) { \
        uvec4 q = W[row + uint(g)]; \
        GROUP(g, d, 8.0 * (d)) \
        Q4_HALF(32 * (g), 0) Q4_HALF(32 * (g) + 16, 4) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) SCALED_BLOCK(n, (K + 31) / 32 + (n), Q4_GROUP)
