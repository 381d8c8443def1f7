// bf16 for kernels whose lanes own a row each; weight_q4_k_row.glsl explains the macros.
#define HALF_WORD(c, q) \
    CODE(c, uintBitsToFloat(q << 16)) \
    CODE(c + 1, uintBitsToFloat(q & 0xFFFF0000u))
#define HALF_OCTET(c) \
    if ((c) < K) { \
        uvec4 q = W[row + uint((c) / 8)]; \
        HALF_WORD(c, q.x) HALF_WORD(c + 2, q.y) HALF_WORD(c + 4, q.z) HALF_WORD(c + 6, q.w) \
    }
#define HALF_GROUP(g) \
    GROUP(g, 1.0, 0.0) \
    HALF_OCTET(32 * (g)) HALF_OCTET(32 * (g) + 8) \
    HALF_OCTET(32 * (g) + 16) HALF_OCTET(32 * (g) + 24) \
    GROUP_END(g)
#define ROW_SLAB(s) \
    HALF_GROUP(8 * (s)) HALF_GROUP(8 * (s) + 1) HALF_GROUP(8 * (s) + 2) HALF_GROUP(8 * (s) + 3) \
    HALF_GROUP(8 * (s) + 4) HALF_GROUP(8 * (s) + 5) HALF_GROUP(8 * (s) + 6) HALF_GROUP(8 * (s) + 7)
