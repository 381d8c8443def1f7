// Weights of type iq4_xs (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros, and weight_iq4_xs.glsl for the words hx and hy of a block.
// Needs lib weight_llvmpipe.
#define XS_GROUP(g, i) \
    { \
        uvec4 q = W[row + uint(g)]; \
        uint sc = ((hy >> (4 * (i))) & 15u) | (((hx >> (16 + 2 * (i))) & 3u) << 4); \
        GROUP(g, d * (float(sc) - 32.0), 0.0) \
        IQ4_HALF(32 * (g), 0) IQ4_HALF(32 * (g) + 16, 4) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) \
    { \
        uint hx = ROW_WORD((K + 255) / 256 * 32 + 2 * (n)); \
        uint hy = ROW_WORD((K + 255) / 256 * 32 + 2 * (n) + 1); \
        float d = unpackHalf2x16(hx).x; \
        XS_GROUP(8 * (n), 0) XS_GROUP(8 * (n) + 1, 1) \
        XS_GROUP(8 * (n) + 2, 2) XS_GROUP(8 * (n) + 3, 3) \
        XS_GROUP(8 * (n) + 4, 4) XS_GROUP(8 * (n) + 5, 5) \
        XS_GROUP(8 * (n) + 6, 6) XS_GROUP(8 * (n) + 7, 7) \
    }
