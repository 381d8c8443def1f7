// A product for many tokens as a tile of lib gemm_wide, with its epilogue. Needs the libs
// matmul_result and gemm_wide, `float Y[]`, STEP read, the parameters row0 and rows, the constants
// W_STRIDE, X_STRIDE and Y_STRIDE, WHEN post. Groups: x covers the rows, y the tokens.

uint row1;   // first row of the tile within the band
uint token1; // first token of the tile

uint gemm_row(uint r)
{
    return min(row1 + r, rows - 1u) * uint(W_STRIDE);
}

uint gemm_token(uint t)
{
    return min(token1 + t, pass_rows - 1u) * uint(X_STRIDE / 4);
}

#define ZERO_QUAD(t, h) acc[(t) * ROW_QUADS + (h)] = vec4(0.0);
#define ZERO_TOKEN(t)   EACH_QUAD(ZERO_QUAD, t)

// Two neighbouring rows i, i + 1 of a token whose row of Y starts at y.
#if POST_glu
#define STORE_PAIR(t, i) \
    r = row1 + TILE_ROW(place.x, i); \
    if (r < rows) \
        Y[y + (row0 + r) / 2u] = glu(ACC(t, i), ACC(t, (i) + 1), row0 + r);
#elif POST_add
#define STORE_PAIR(t, i) \
    r = row1 + TILE_ROW(place.x, i); \
    if (r < rows) \
        Y[y + row0 + r] += result(ACC(t, i), row0 + r); \
    if (r + 1u < rows) \
        Y[y + row0 + r + 1u] += result(ACC(t, (i) + 1), row0 + r + 1u);
#else
#define STORE_PAIR(t, i) \
    r = row1 + TILE_ROW(place.x, i); \
    if (r < rows) \
        Y[y + row0 + r] = result(ACC(t, i), row0 + r); \
    if (r + 1u < rows) \
        Y[y + row0 + r + 1u] = result(ACC(t, (i) + 1), row0 + r + 1u);
#endif
#define STORE_QUAD(t, h) STORE_PAIR(t, 4 * (h)) STORE_PAIR(t, 4 * (h) + 2)
#define STORE_TOKEN(t) \
    token = token1 + TILE_TOKEN(place.y, t); \
    y = token * uint(Y_STRIDE); \
    if (token < pass_rows) { \
        EACH_QUAD(STORE_QUAD, t) \
    }

void matmul_tile(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, token, y, r;
    uvec3 place = gemm_place(tid);
    row1 = group.x * uint(ROWS);
    token1 = group.y * uint(TOKENS);
    EACH_TOKEN(ZERO_TOKEN)
    gemm_tile(tid, place);
    if (place.z == 0u) {
        EACH_TOKEN(STORE_TOKEN)
    }
}
