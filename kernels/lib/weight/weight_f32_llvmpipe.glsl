// Weights of type f32 for llvmpipe, one invocation per row. See lib row_llvmpipe for the macros.
#define F32_VEC4(c) \
    if ((c) < K) { \
        vec4 q = uintBitsToFloat(W[row + uint((c) / 4)]); \
        CODES(c, q.x, q.y, q.z, q.w) \
    }
#define F32_GROUP(g) \
    GROUP(g, 1.0, 0.0) \
    F32_VEC4(32 * (g)) F32_VEC4(32 * (g) + 4) F32_VEC4(32 * (g) + 8) F32_VEC4(32 * (g) + 12) \
    F32_VEC4(32 * (g) + 16) F32_VEC4(32 * (g) + 20) \
    F32_VEC4(32 * (g) + 24) F32_VEC4(32 * (g) + 28) \
    GROUP_END(g)
#define ROW_BLOCK(n) \
    F32_GROUP(8 * (n)) F32_GROUP(8 * (n) + 1) F32_GROUP(8 * (n) + 2) F32_GROUP(8 * (n) + 3) \
    F32_GROUP(8 * (n) + 4) F32_GROUP(8 * (n) + 5) F32_GROUP(8 * (n) + 6) F32_GROUP(8 * (n) + 7)
