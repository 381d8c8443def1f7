// Weights of type q8_0 (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros. Needs lib weight_llvmpipe.
#define Q8_WORD(c, q) \
    CODES(c, float(int(q << 24) >> 24), float(int(q << 16) >> 24), float(int(q << 8) >> 24), \
          float(int(q) >> 24))
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
#define ROW_BLOCK(n) SCALED_BLOCK(n, (K + 31) / 32 * 2 + (n), Q8_GROUP)
