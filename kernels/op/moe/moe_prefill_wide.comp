// The experts of many tokens on GPUs: large tiles of results, weights unpacked into shared memory.
//
// Each expert multiplies its weights with the rows of its tokens, by lib gemm_wide. A pair is a
// token with one of its TOP_K chosen experts. With post=glu, X is [T][X_STRIDE], with post=store [T
// * TOP_K][X_STRIDE]. Y is [T * TOP_K][Y_STRIDE], both in f32. W has one band of the rows of all
// experts, in its packed layout. Rows of other bands are not stored.
//
// Layout: a tile has ROWS rows of one expert and TOKENS pairs of that expert. These pairs need not
// be neighbours: shared memory has their numbers. Work group x counts the row tiles of an expert,
// then the tiles of pairs. Groups beyond the last tile end at once. Each invocation has THREAD_ROWS
// x THREAD_TOKENS results.
//
// Choice: PREFER 20 on GPUs with 32 compute units or more, 1 elsewhere. moe_prefill has 10.
//
// TUNEs: ROWS and TOKENS set the tile: larger tiles read weights fewer times, but fill the last
// tile of each expert less. STEP is the number of columns of K per barrier. THREAD_ROWS and
// THREAD_TOKENS set the results per invocation; more need more registers. PARTS is the number of
// sets of invocations that share a step, for small tiles.
//
// Utilisation: only the device has the number of pairs per expert, so there are groups for the
// worst case, E tiles more than the pairs fill. ACTIVE counts pairs without gaps; the last tile of
// each expert is filled in part.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Intel Arc (dg2) spills 187:461,
// navi21 with LLVM 15 spills 179 registers. There moe_prefill is chosen, which spills none.
//
//! NAME moe_prefill_wide
//! OP moe_matmul
//! VARIANT wide
//! WHEN phase prefill
//! WHEN weight any
//! WHEN post glu store
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND write float Y
//! BIND read uint LIST
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K COLUMNS EXPERT_ROWS E TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE TOKENS = SOFTWARE || COLUMNS <= 64 ? 32 : 4 * TOP_K >= E ? 128 : 64 in 32 64 128
//! TUNE ROWS = SOFTWARE ? 32 : 128 in 16 32 64 96 128 256
//! TUNE STEP = 16 in 16 32
//! TUNE THREAD_ROWS = SOFTWARE ? 4 : 8 in 4 8 16
//! TUNE THREAD_TOKENS = TOKENS == 32 ? 4 : 8 in 4 8
//! TUNE PARTS = SOFTWARE || TOKENS == 128 ? 1 : 2 in 1 2 4 8
//! LET WG_SIZE = ROWS / THREAD_ROWS * (TOKENS / THREAD_TOKENS) * PARTS
//! LET ROW_TILES = ceildiv(EXPERT_ROWS, ROWS)
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS ROW_TILES * min(T * TOP_K, ceildiv(T * TOP_K, TOKENS) + E)
//! ACTIVE ceildiv(EXPERT_ROWS, THREAD_ROWS) * ceildiv(T * TOP_K, THREAD_TOKENS) * PARTS
//! SHARED uint pairs[TOKENS]
//! SHARED uvec3 found
//! REQUIRE ROWS / THREAD_ROWS % 4 == 0 && TOKENS / THREAD_TOKENS % 8 == 0 && 4 * PARTS <= STEP
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0
//! REGISTERS THREAD_ROWS * THREAD_TOKENS + 4 * THREAD_TOKENS + 62
//! PREFER COMPUTE_UNITS >= 32 && !SOFTWARE ? 20 : 1
//! TOLERANCE 3e-12
//! LIB weight_words
//! LIB weight_{weight}
//! LIB moe_glu
//! LIB moe_rows
//! LIB moe_tile
//! LIB gemm_wide

uint expert; // of the tile
uint row1;   // first row of the tile within the expert

uint gemm_row(uint r)
{
    uint row = band_row(expert, row1 + r);
    return (row < rows ? row : 0u) * uint(W_STRIDE);
}

uint gemm_token(uint t)
{
#if POST_glu
    return pairs[t] / uint(TOP_K) * uint(X_STRIDE / 4);
#else
    return pairs[t] * uint(X_STRIDE / 4);
#endif
}

// The sums of part 0 begin with the bias.
#define BEGIN_QUAD(t, h) acc[(t) * ROW_QUADS + (h)] = bias[h];
#define BEGIN_TOKEN(t)   EACH_QUAD(BEGIN_QUAD, t)
#define BIAS_QUAD(t, h) \
    r = row1 + TILE_ROW(place.x, 4 * (h)); \
    i = row1 + TILE_ROW(place.x, 4 * (h) + 2); \
    bias[h] = vec4(row_bias(r), row_bias(r + 1u), row_bias(i), row_bias(i + 1u));

float row_bias(uint r)
{
    return band_bias(band_row(expert, r));
}

// Stores two neighbouring rows i, i + 1 of a pair whose row of Y starts at y.
#if POST_glu
#define STORE_PAIR(t, i) \
    r = row1 + TILE_ROW(place.x, i); \
    if (band_row(expert, r) < rows) \
        Y[y + r / 2u] = glu(ACC(t, i), ACC(t, (i) + 1));
#else
#define STORE_PAIR(t, i) \
    r = row1 + TILE_ROW(place.x, i); \
    if (band_row(expert, r) < rows) \
        Y[y + r] = ACC(t, i); \
    if (band_row(expert, r + 1u) < rows) \
        Y[y + r + 1u] = ACC(t, (i) + 1);
#endif
#define STORE_QUAD(t, h) STORE_PAIR(t, 4 * (h)) STORE_PAIR(t, 4 * (h) + 2)
#define STORE_TOKEN(t) \
    i = TILE_TOKEN(place.y, t); \
    if (i < count) { \
        y = pairs[i] * uint(Y_STRIDE); \
        EACH_QUAD(STORE_QUAD, t) \
    }

// Computes the tile of the `count` pairs in `pairs`.
void multiply_tile(uint tid, uint count)
{
    uint i, y, r;
    uvec3 place = gemm_place(tid);
    vec4 bias[ROW_QUADS];
    EACH_QUAD(BIAS_QUAD, 0)
#if PARTS > 1
    if (place.z > 0u)
        for (int h = 0; h < ROW_QUADS; h++)
            bias[h] = vec4(0.0);
#endif
    EACH_TOKEN(BEGIN_TOKEN)
    gemm_tile(tid, place, 0u, GEMM_STEPS);
    // No second `if (place.z == 0u)`: see "Repeated conditions" of docs/kernels.md.
    count = place.z == 0u ? count : 0u;
    EACH_TOKEN(STORE_TOKEN)
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    row1 = group.x % uint(ROW_TILES) * uint(ROWS);
    uvec3 tile = find_tile(group.x / uint(ROW_TILES), tid == 0u);
    if (tid == 0u)
        found = tile;
    memoryBarrierShared(); barrier();
    tile = found;
    expert = tile.x;
    uint first = expert * uint(EXPERT_ROWS) + row1 - row0;
    if (int(first) >= int(rows) || int(first) + ROWS <= 0)
        tile.z = 0u; // nothing of the tile is in this band
    for (uint i = tid; i < uint(TOKENS) && tile.z > 0u; i += uint(WG_SIZE))
        pairs[i] = LIST[tile.y + min(i, tile.z - 1u)];
    memoryBarrierShared(); barrier();
    if (tile.z > 0u)
        multiply_tile(tid, tile.z);
}
