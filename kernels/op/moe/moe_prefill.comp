// The experts of many tokens on any device: tiles of results, weights unpacked into shared memory.
//
// Each expert multiplies its weights with the rows of its tokens, by lib gemm_tile. A pair is a
// token with one of its TOP_K chosen experts. With post=glu, X is [T][X_STRIDE], with post=store [T
// * TOP_K][X_STRIDE]. Y is [T * TOP_K][Y_STRIDE], both in f32. W has one band of the rows of all
// experts, in its packed layout. Rows of other bands are not stored.
//
// Layout: a tile has ROWS rows of one expert and TOKENS pairs of that expert. These pairs need not
// be neighbours: shared memory has their numbers. Work group x counts the row tiles of an expert,
// then the tiles of pairs. Groups beyond the last tile end at once. Each invocation has THREAD_ROWS
// x THREAD_TOKENS results.
//
// Choice: PREFER 10. moe_prefill_wide (20) is chosen on GPUs with 32 compute units or more if it
// fits into the registers.
//
// TUNEs: THREAD_ROWS and THREAD_TOKENS set the results per invocation: more results reuse loads,
// but need more registers. BIG allows 8 x 8. ROWS and TOKENS set the tile: larger tiles read
// weights fewer times, but fill the last tile of each expert less.
//
// One H200 (driver 580), 512 tokens, 2026-11-21, `dopplergl bench --shape SHAPE --kernel-hints`:
//     ROWS x TOKENS (THREAD_TOKENS)          64 x 32 (4)  64 x 64 (8)  128 x 64 (8)  64 x 128 (8)
//     gpt-oss-20b:mxfp4, gate_up + down, ms         125          117           105
//     qwen3-30b-a3b:q4_k, tokens/s                 2444         2801          2986          2783
//     mixtral-8x7b:q4_k, tokens/s                   519          630           683           693
//
// Utilisation: only the device has the number of pairs per expert, so there are groups for the
// worst case, E tiles more than the pairs fill. ACTIVE counts pairs without gaps; the last tile of
// each expert is filled in part.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Tiles of 4 x 4 per invocation
// spill 23:24 to 66:42 on V3D 4.2 and 17:111 to 29:151 on Mali G52. Tiles of 2 x 4 spill 11:13 to
// 24:14 and 1:17 to 5:42. Tiles of 2 x 2, which REGISTERS selects there, spill none. LLVM 15
// spilled 136 to 413 with 4 x 4 and K up to 112; with lib loop_end it spills none.
//
//! NAME moe_prefill
//! OP moe_matmul
//! VARIANT baseline tiled gemm
//! WHEN phase prefill
//! WHEN weight any
//! WHEN post glu store
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uint W
//! BIND read vec4 X
//! BIND write float Y
//! BIND read uint LIST
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS E TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE BIG = COMPUTE_UNITS >= 32 && !SOFTWARE && REGISTERS >= 148 in 0 1
//! TUNE THREAD_ROWS = BIG ? 8 : REGISTERS >= 68 ? 4 : 2 in 2 4 8
//! TUNE THREAD_TOKENS = THREAD_ROWS in 2 4 8
//! TUNE ROWS = SOFTWARE || THREAD_ROWS == 2 ? 32 : THREAD_ROWS == 8 ? 128 : 64 in 16 32 64 128
//! TUNE TOKENS = THREAD_ROWS == 8 ? 64 : THREAD_ROWS == 4 ? 32 : 16 in 16 32 64 128
//! LET WG_SIZE = ROWS / THREAD_ROWS * (TOKENS / THREAD_TOKENS)
//! LET ROW_TILES = ceildiv(EXPERT_ROWS, ROWS)
//! LET W_WIDTH = 1
//! LOCAL WG_SIZE
//! GROUPS ROW_TILES * min(T * TOP_K, ceildiv(T * TOP_K, TOKENS) + E)
//! ACTIVE ceildiv(EXPERT_ROWS, THREAD_ROWS) * ceildiv(T * TOP_K, THREAD_TOKENS)
//! SHARED uint pairs[TOKENS]
//! SHARED uvec3 found
//! REQUIRE THREAD_ROWS <= ROWS && THREAD_TOKENS <= TOKENS
//! REGISTERS THREAD_ROWS * THREAD_TOKENS + 4 * (THREAD_ROWS + THREAD_TOKENS) + 20
//! PREFER 10
//! TOLERANCE 3e-12
//! LIB weight_words
//! LIB weight_{weight}
//! LIB moe_glu
//! LIB moe_rows
//! LIB moe_tile
//! LIB loop_end
//! LIB gemm_tile

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

// Computes the tile of the `count` pairs in `pairs`.
void multiply_tile(uint tid, uint count)
{
    uint thread_n = tid % uint(THREADS_N), thread_t = tid / uint(THREADS_N);
    // The sums begin with the bias. Added at the end instead, with THREAD_TOKENS = 8, it made the
    // whole product take three times as long on that H200.
    for (int i = 0; i < THREAD_ROWS * THREAD_TOKENS; i++)
        acc[i] = band_bias(band_row(expert, row1 + TILE_ROW(thread_n, i % THREAD_ROWS)));
    gemm_tile(tid);
    for (int t = 0; t < THREAD_TOKENS; t++) {
        uint i = thread_t * uint(THREAD_TOKENS) + uint(t);
        if (i >= count)
            continue;
        uint y = pairs[i] * uint(Y_STRIDE);
#if POST_glu
        for (int i = 0; i < THREAD_ROWS; i += 2) {
            uint r = row1 + TILE_ROW(thread_n, i);
            if (band_row(expert, r) < rows)
                Y[y + r / 2u] = glu(acc[t * THREAD_ROWS + i], acc[t * THREAD_ROWS + i + 1]);
        }
#else
        for (int i = 0; i < THREAD_ROWS; i++) {
            uint r = row1 + TILE_ROW(thread_n, i);
            if (band_row(expert, r) < rows)
                Y[y + r] = acc[t * THREAD_ROWS + i];
        }
#endif
    }
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
