// Weights of type iq4_nl (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros. Needs lib weight_llvmpipe.
#define IQ4_GROUP(g, d) \
    if (32 * (g) < K) { \
        uvec4 q = W[row + uint(g)]; \
        GROUP(g, d, 0.0) \
        IQ4_HALF(32 * (g), 0) IQ4_HALF(32 * (g) + 16, 4) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) SCALED_BLOCK(n, (K + 31) / 32 + (n), IQ4_GROUP)
