// A product for many tokens as a tile of lib gemm_wide, with its epilogue.
//
// Work group x covers the rows, y the tokens. If SPLITS is above 1, each row tile from WHOLE on is
// divided between that many groups. Each of them has a part of K, and the parts of a tile are
// neighbours along x. This is for tiles that do not fill the device. The last of these groups adds
// up the parts in a fixed order, so the result does not depend on timing. The number of tokens does
// not decide which tiles are cut. If a pass has more tiles than SUMS or ARRIVED has room for, no
// tile is cut, because such a pass fills the device.
//
// Needs the libs matmul_result and gemm_wide, `float Y[]`, STEP read, the parameters row0 and rows,
// the constants W_STRIDE, X_STRIDE and Y_STRIDE, WHEN post, and the LETs SPLITS and WHOLE. With
// SPLITS above 1 it also needs lib arrival and `coherent vec4 SUMS[]`.

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

// Stores two neighbouring rows i, i + 1 of a token whose row of Y starts at y.
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
    if (token < columns) { \
        EACH_QUAD(STORE_QUAD, t) \
    }

#if SPLITS > 1
// The place of the parts of the sums of tile `tile`. Parts follow each other, each with the results
// of all invocations.
#define SUM_AT(part, t, h) \
    ((tile * uint(SPLITS) + (part)) * uint(ROWS * TOKENS / 4) + \
     uint((t) * ROW_QUADS + (h)) * uint(THREADS) + id)
#define KEEP_QUAD(t, h)  SUMS[SUM_AT(part, t, h)] = acc[(t) * ROW_QUADS + (h)];
#define KEEP_TOKEN(t)    EACH_QUAD(KEEP_QUAD, t)
#define BEGIN_QUAD(t, h) acc[(t) * ROW_QUADS + (h)] = SUMS[SUM_AT(0u, t, h)];
#define BEGIN_TOKEN(t)   EACH_QUAD(BEGIN_QUAD, t)
#define JOIN_QUAD(t, h)  acc[(t) * ROW_QUADS + (h)] += SUMS[SUM_AT(other, t, h)];
#define JOIN_TOKEN(t)    EACH_QUAD(JOIN_QUAD, t)

// Stores part `part` of the sums of a tile in SUMS. Returns true in the group that is the last one
// of the tile to do so. Its results are then the sums of all parts, added in their order.
bool matmul_join_parts(uvec3 place, uint id, uint tile, uint part)
{
    if (place.z == 0u) {
        EACH_TOKEN(KEEP_TOKEN)
    }
    // As in lib last_group, but the word for all invocations is in shared memory that is no longer
    // used.
    memoryBarrierBuffer(); barrier();
    if (gl_LocalInvocationIndex == 0u)
        staged[0] = vec4(float(arrive(tile, uint(SPLITS))));
    memoryBarrierShared(); barrier();
    memoryBarrierBuffer();
    bool last = staged[0].x == float(SPLITS - 1);
    if (last && place.z == 0u) {
        EACH_TOKEN(BEGIN_TOKEN)
        for (uint other = 1u; other < uint(SPLITS); other++) {
            EACH_TOKEN(JOIN_TOKEN)
        }
    }
    return last;
}
#endif

void matmul_tile(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, token, y, r, begin = 0u, end = GEMM_STEPS;
    uvec3 place = gemm_place(tid);
    bool stores = true;
#if SPLITS > 1
    uint row_tiles = (rows + uint(ROWS - 1)) / uint(ROWS), whole = min(row_tiles, uint(WHOLE));
    uint row_tile = group.x, part = 0u, tile = 0u;
    bool cut = false;
    if (row_tile >= whole) {
        uint rest = max(row_tiles - whole, 1u);
        uint tiles = rest * ((pass_rows - 1u) / uint(TOKENS) + 1u);
        cut = tiles <= uint(ARRIVED.length()) &&
              tiles * uint(SPLITS * ROWS * TOKENS / 4) <= uint(SUMS.length());
        part = (row_tile - whole) / rest;
        row_tile = whole + (row_tile - whole) % rest;
        tile = group.y * rest + row_tile - whole;
    }
    if (row_tile >= row_tiles || part >= (cut ? uint(SPLITS) : 1u))
        return; // the whole group
    if (cut) {
        begin = part * GEMM_STEPS / uint(SPLITS) / 2u * 2u;
        end = part + 1u < uint(SPLITS) ? (part + 1u) * GEMM_STEPS / uint(SPLITS) / 2u * 2u : end;
    }
    row1 = row_tile * uint(ROWS);
#else
    row1 = group.x * uint(ROWS);
#endif
    token1 = group.y * uint(TOKENS);
    EACH_TOKEN(ZERO_TOKEN)
    gemm_tile(tid, place, begin, end);
#if SPLITS > 1
    if (cut)
        stores = matmul_join_parts(place, tid % uint(THREADS), tile, part);
#endif
    // No second `if (place.z == 0u)`: see "Repeated conditions" of docs/kernels.md.
    uint columns = stores && place.z == 0u ? pass_rows : 0u;
    EACH_TOKEN(STORE_TOKEN)
}
