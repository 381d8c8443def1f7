// f32 for kernels whose lanes own a row each; weight_q4_k_row.glsl explains the macros.
#define F32_QUAD(c) \
    if ((c) < K) { \
        vec4 q = uintBitsToFloat(W[row + uint((c) / 4)]); \
        CODE(c, q.x) CODE(c + 1, q.y) CODE(c + 2, q.z) CODE(c + 3, q.w) \
    }
#define F32_GROUP(g) \
    GROUP(g, 1.0, 0.0) \
    F32_QUAD(32 * (g)) F32_QUAD(32 * (g) + 4) F32_QUAD(32 * (g) + 8) F32_QUAD(32 * (g) + 12) \
    F32_QUAD(32 * (g) + 16) F32_QUAD(32 * (g) + 20) \
    F32_QUAD(32 * (g) + 24) F32_QUAD(32 * (g) + 28) \
    GROUP_END(g)
#define ROW_SLAB(s) \
    F32_GROUP(8 * (s)) F32_GROUP(8 * (s) + 1) F32_GROUP(8 * (s) + 2) F32_GROUP(8 * (s) + 3) \
    F32_GROUP(8 * (s) + 4) F32_GROUP(8 * (s) + 5) F32_GROUP(8 * (s) + 6) F32_GROUP(8 * (s) + 7)
