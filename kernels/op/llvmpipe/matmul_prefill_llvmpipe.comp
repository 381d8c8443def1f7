// Matrix product for llvmpipe: a thread per row and TOKENS tokens, x at constant addresses.
//
// Y[t, n] = sum_k W[n, k] X[t, k], by lib gemm_llvmpipe. W is a band of rows in its packed layout,
// X and Y are rows of f32.
//
// Layout: a work group computes a tile of WG_SIZE rows x TOKENS tokens, one row per invocation.
// Group x counts the row tiles first, then the token tiles.
//
// Choice: PREFER 50 on llvmpipe, -10 on other software renderers; REQUIRE excludes GPUs and K above
// 1024.
//
// TUNEs: more TOKENS reuse each unpacked weight, but take longer to compile. A larger WG_SIZE
// reuses the staged X for more rows.
//
// Speed in GMAC/s, from processor time (512 tokens, q4_k, 2 cores of an AMD EPYC at 2.6 GHz, Mesa
// 22.3.6, 2026-11-21). K x N = 256 x 512 reaches 20 with WG_SIZE 256, 19 with 128 and 16 with 64.
// It reaches 16 with TOKENS 4 and 23 with TOKENS 16. 256 x 1536 with glu reaches 17. 768 x 256
// reaches 13, and 22 with TOKENS 8. The baseline kernel reaches 2. Compiling takes 0.45 s for 256
// columns and 8 tokens, 0.28 s for 256 columns and 4 tokens, and 1.2 s for 768 columns and 4
// tokens. So TOKENS is smaller for long rows, and for matrices of few rows, whose share of the work
// is small.
//
//! NAME matmul_prefill_llvmpipe
//! OP matmul
//! VARIANT llvmpipe row
//! WHEN phase prefill
//! WHEN weight any
//! WHEN pre none
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K N W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE TOKENS = K <= 512 && N >= 1024 ? 8 : 4 in 4 8 16
//! TUNE WG_SIZE = N >= 256 && MAX_INVOCATIONS >= 256 ? 256 : 64 in 32 64 128 256
//! LET BLOCKS = ceildiv(K, 256)
//! LET X_ROWS = TOKENS
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, WG_SIZE) * ceildiv(T, TOKENS)
//! ACTIVE BAND * ceildiv(T, TOKENS)
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! STEP read
//! LIB weight_llvmpipe
//! LIB weight_{weight}_llvmpipe weight_{weight}
//! LIB weight_{weight}_llvmpipe weight_columns_llvmpipe
//! LIB activations
//! LIB matmul_result
//! LIB row_llvmpipe
//! LIB gemm_llvmpipe

uint token1; // first token of the tile

uint gemm_token(uint t)
{
    return min(token1 + t, pass_rows - 1u) * uint(X_STRIDE / 4);
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    uint row_tiles = (rows + uint(WG_SIZE) - 1u) / uint(WG_SIZE);
    uint row1 = group.x % row_tiles * uint(WG_SIZE);
    uint row = min(row1 + tid, rows - 1u) * uint(W_STRIDE / 4);
    vec4 acc[TOKENS / 4];
    for (int t = 0; t < TOKENS / 4; t++)
        acc[t] = vec4(0.0);
    token1 = group.x / row_tiles * uint(TOKENS);
    gemm_stage(tid);
    memoryBarrierShared(); barrier();
    ROW_BLOCKS
    uint count = min(max(pass_rows, token1) - token1, uint(TOKENS));
#if POST_glu
    gemm_exchange(tid, acc);
    uint i = row1 / 2u + tid;
    if (tid < uint(WG_SIZE / 2) && 2u * i < rows)
        for (uint t = 0u; t < count; t++) {
            uint pair = t / 4u * uint(WG_SIZE) + 2u * tid;
            Y[(token1 + t) * uint(Y_STRIDE) + row0 / 2u + i] =
                glu(xs[pair][t % 4u], xs[pair + 1u][t % 4u], row0 + 2u * i);
        }
#else
    if (row1 + tid < rows)
        for (uint t = 0u; t < uint(TOKENS); t++)
            if (t < count) {
                uint y = (token1 + t) * uint(Y_STRIDE) + row0 + row1 + tid;
                float value = result(acc[t / 4u][t % 4u], row0 + row1 + tid);
#if POST_add
                value += Y[y];
#endif
                Y[y] = value;
            }
#endif
}
