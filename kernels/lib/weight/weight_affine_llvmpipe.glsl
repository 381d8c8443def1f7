// Weights of type affine for llvmpipe, one invocation per row. See lib row_llvmpipe for the macros.
#define AFFINE_WORD(c, q, sc, mn) \
    CODES(c, sc * float(int(q << 24) >> 24) - mn, sc * float(int(q << 16) >> 24) - mn, \
          sc * float(int(q << 8) >> 24) - mn, sc * float(int(q) >> 24) - mn)
#define AFFINE_VEC16(c, q, sc, mn) \
    AFFINE_WORD(c, q.x, sc, mn) AFFINE_WORD(c + 4, q.y, sc, mn) \
    AFFINE_WORD(c + 8, q.z, sc, mn) AFFINE_WORD(c + 12, q.w, sc, mn)
#define AFFINE_GROUP(g) \
    if (32 * (g) < K) { \
        uint b = row + uint(3 * (g)); \
        uvec4 qa = W[b], qb = W[b + 1u]; \
        vec4 s = uintBitsToFloat(W[b + 2u]); \
        GROUP(g, 1.0, 0.0) \
        AFFINE_VEC16(32 * (g), qa, s.x, s.y) AFFINE_VEC16(32 * (g) + 16, qb, s.z, s.w) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) \
    AFFINE_GROUP(8 * (n)) AFFINE_GROUP(8 * (n) + 1) \
    AFFINE_GROUP(8 * (n) + 2) AFFINE_GROUP(8 * (n) + 3) \
    AFFINE_GROUP(8 * (n) + 4) AFFINE_GROUP(8 * (n) + 5) \
    AFFINE_GROUP(8 * (n) + 6) AFFINE_GROUP(8 * (n) + 7)
