// The experts of many tokens for llvmpipe: a thread per row and TOKENS pairs of one expert.
//
// Each expert multiplies its weights with the rows of its tokens, by lib gemm_llvmpipe. A pair is a
// token with one of its TOP_K chosen experts. The tiles of pairs are those of moe_prefill. With
// post=glu, X is [T][X_STRIDE], with post=store [T * TOP_K][X_STRIDE]. Y is [T * TOP_K][Y_STRIDE],
// both in f32.
//
// W has one band of the rows of all experts, in its packed layout. If a row is in another band, the
// invocation reads row 0 of W instead and does not store the product.
//
// Layout: work group x counts the row tiles of an expert, then the tiles of pairs. An invocation
// has one row and TOKENS pairs of one expert. A group beyond the last tile computes an empty tile:
// a branch around the straight-line code would take longer.
//
// Choice: PREFER 50 on llvmpipe, -10 on other software renderers; REQUIRE excludes GPUs and K above
// 1024.
//
// TUNEs: as in matmul_prefill_llvmpipe. More TOKENS reuse each unpacked weight, but take longer to
// compile. WG_SIZE is the number of rows that share the staged x.
//
// Utilisation: only the device has the number of pairs per expert, so there are groups for the
// worst case, E tiles more than the pairs fill. ACTIVE counts pairs without gaps; the last tile of
// each expert is filled in part.
//
//! NAME moe_prefill_llvmpipe
//! OP moe_matmul
//! VARIANT llvmpipe row
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
//! CONST K EXPERT_ROWS E TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE TOKENS = K <= 512 ? 8 : 4 in 4 8 16
//! TUNE WG_SIZE = EXPERT_ROWS >= 256 && MAX_INVOCATIONS >= 256 ? 256 : 64 in 32 64 128 256
//! LET BLOCKS = ceildiv(K, 256)
//! LET X_ROWS = TOKENS
//! LET ROW_TILES = ceildiv(EXPERT_ROWS, WG_SIZE)
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS ROW_TILES * min(T * TOP_K, ceildiv(T * TOP_K, TOKENS) + E)
//! ACTIVE EXPERT_ROWS * ceildiv(T * TOP_K, TOKENS)
//! SHARED uint pairs[TOKENS]
//! SHARED uvec3 found
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! LIB weight_llvmpipe
//! LIB weight_{weight}_llvmpipe weight_{weight}
//! LIB weight_{weight}_llvmpipe weight_columns_llvmpipe
//! LIB moe_glu
//! LIB moe_rows
//! LIB moe_tile
//! LIB row_llvmpipe
//! LIB gemm_llvmpipe

uint gemm_token(uint t)
{
#if POST_glu
    return pairs[t] / uint(TOP_K) * uint(X_STRIDE / 4);
#else
    return pairs[t] * uint(X_STRIDE / 4);
#endif
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, r = group.x % uint(ROW_TILES) * uint(WG_SIZE) + tid;
    uvec3 tile = find_tile(group.x / uint(ROW_TILES), tid == 0u);
    if (tid == 0u)
        found = tile;
    memoryBarrierShared(); barrier();
    tile = found;
    if (tid < uint(TOKENS))
        pairs[tid] = tile.z > 0u ? LIST[tile.y + min(tid, tile.z - 1u)] : 0u;
    memoryBarrierShared(); barrier();
    gemm_stage(tid);
    memoryBarrierShared(); barrier();
    uint at = band_row(tile.x, r), row = (at < rows ? at : 0u) * uint(W_STRIDE / 4);
    vec4 acc[TOKENS / 4];
    float bias = band_bias(at);
    for (int t = 0; t < TOKENS / 4; t++)
        acc[t] = vec4(0.0);
    ROW_BLOCKS
    for (int t = 0; t < TOKENS / 4; t++)
        acc[t] += bias;
#if POST_glu
    gemm_exchange(tid, acc);
    uint gate = r + tid;
    if (tid < uint(WG_SIZE / 2) && band_row(tile.x, gate) < rows)
        for (uint t = 0u; t < tile.z; t++) {
            uint pair = t / 4u * uint(WG_SIZE) + 2u * tid;
            Y[pairs[t] * uint(Y_STRIDE) + gate / 2u] =
                glu(xs[pair][t % 4u], xs[pair + 1u][t % 4u]);
        }
#else
    if (at < rows)
        for (uint t = 0u; t < uint(TOKENS); t++)
            if (t < tile.z)
                Y[pairs[t] * uint(Y_STRIDE) + r] = acc[t / 4u][t % 4u];
#endif
}
