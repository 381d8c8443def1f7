// Weights for llvmpipe, one invocation per row, of formats that have no lib weight_*_llvmpipe of
// their own.
//
// See lib row_llvmpipe for the macros. Lib weight_* reads and converts the columns. Needs libs
// weight_llvmpipe and weight_*.
#define COLUMNS16(c) \
    if ((c) < K) { \
        uvec4 raw[WEIGHT_RAW]; \
        vec4 w[4]; \
        weight_fetch16(4u * row, uint(c), raw); \
        weight_decode16(raw, uint(c), w); \
        CODES(c, w[0].x, w[0].y, w[0].z, w[0].w) \
        CODES((c) + 4, w[1].x, w[1].y, w[1].z, w[1].w) \
        CODES((c) + 8, w[2].x, w[2].y, w[2].z, w[2].w) \
        CODES((c) + 12, w[3].x, w[3].y, w[3].z, w[3].w) \
    }
#define COLUMNS_GROUP(g) \
    GROUP(g, 1.0, 0.0) \
    COLUMNS16(32 * (g)) COLUMNS16(32 * (g) + 16) \
    GROUP_END(g)
#define ROW_BLOCK(n) \
    COLUMNS_GROUP(8 * (n)) COLUMNS_GROUP(8 * (n) + 1) COLUMNS_GROUP(8 * (n) + 2) \
    COLUMNS_GROUP(8 * (n) + 3) COLUMNS_GROUP(8 * (n) + 4) COLUMNS_GROUP(8 * (n) + 5) \
    COLUMNS_GROUP(8 * (n) + 6) COLUMNS_GROUP(8 * (n) + 7)
