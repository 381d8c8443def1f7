// Weights of type mxfp4 (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros, and weight_mxfp4.glsl for the conversion of codes.
#define MX_PAIR(q) unpackHalf2x16((((q) & 0x00070007u) << 9) | (((q) & 0x00080008u) << 12))
#define MX_WORD(c, q, s) \
    { \
        vec2 a = MX_PAIR(q >> (s)), b = MX_PAIR(q >> (s + 8)); \
        CODES(c, a.x, b.x, a.y, b.y) \
    }
#define MX_HALF(c, s) \
    MX_WORD(c, q.x, s) MX_WORD(c + 4, q.y, s) MX_WORD(c + 8, q.z, s) MX_WORD(c + 12, q.w, s)
#define MX_GROUP(g, e, s) \
    if (32 * (g) < K) { \
        uvec4 q = W[row + uint(g)]; \
        GROUP(g, uintBitsToFloat(min(((e >> (s)) & 255u) + 14u, 254u) << 23), 0.0) \
        MX_HALF(32 * (g), 0) MX_HALF(32 * (g) + 16, 4) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) \
    { \
        uvec4 h = W[row + uint((K + 31) / 32 + (n) / 2)]; \
        uvec2 e = (n) % 2 == 0 ? h.xy : h.zw; \
        MX_GROUP(8 * (n), e.x, 0) MX_GROUP(8 * (n) + 1, e.x, 8) \
        MX_GROUP(8 * (n) + 2, e.x, 16) MX_GROUP(8 * (n) + 3, e.x, 24) \
        MX_GROUP(8 * (n) + 4, e.y, 0) MX_GROUP(8 * (n) + 5, e.y, 8) \
        MX_GROUP(8 * (n) + 6, e.y, 16) MX_GROUP(8 * (n) + 7, e.y, 24) \
    }
