// Matrix product on any device: tiles of results, weights unpacked into shared memory.
//
// Y[t, n] = sum_k W[n, k] X[t, k], by lib gemm_tile. Groups: x covers the rows, ROWS each, y the
// tokens, TOKENS each.
//
// One H200 (driver 580), q4_k, 512 tokens, 2026-11-21, `build/tests/test_kernels_matmul bench
// prefill q4_k none POST K N 512`, GMAC/s with tiles of 64 x 128 (64 x 64, 64 x 32): K x N = 2048 x
// 3072 9,800 (10,300, 7,900), 2048 x 2048 11,000 (9,700, 7,400), 2048 x 16384 11,400 (10,200,
// 6,800), 8192 x 2048 11,900 (10,400, 7,700). f16 weights are 2% faster.
// With a bias, 8 tokens per thread are slow there: the 24 qkv of gpt-oss-20b:mxfp4 (bf16, K x N =
// 2880 x 5120) took 293 ms, with 4 and tiles of 64 x 32 they take 26 (`dopplergl bench --profile`).
//
// Utilisation: a router's rows (8 of Mixtral, 32 of GPT-OSS) fill part of a tile's, an eighth at
// worst. Such a product is 1 of 10,000 of a layer's: a tile of its own would not be noticed.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Tiles of 4 x 4 per thread: V3D
// 4.2 4:4 to 5:5, Mali G52 5:50 to 8:60, T860 87:228. The tiles that REGISTERS selects: V3D none
// (2 x 2; 2 x 4 13:15 with f32), G52 none (2 x 4), T860 55:99 (4 x 2). Midgard's compiler never
// ends on a tile of 2 x 2 with bf16, a bias and K = 112, so such devices get 4 x 2. LLVM 15 spilled
// 394 to 669 of 4 x 4 with K up to 112, with lib loop_end none (96 registers).
//
//! NAME matmul_prefill
//! OP matmul
//! VARIANT baseline tiled gemm
//! WHEN phase prefill
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN pre none
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uint W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE BIG = COMPUTE_UNITS >= 32 && !SOFTWARE && REGISTERS >= 148 in 0 1
//! TUNE THREAD_ROWS = BIG ? 8 : REGISTERS >= 68 || REGISTERS < 40 ? 4 : 2 in 2 4 8
//! TUNE THREAD_TOKENS = THREAD_ROWS == 8 && !BIAS_row ? 8 : REGISTERS < 60 ? 2 : 4 in 2 4 8
//! TUNE ROWS = SOFTWARE || THREAD_ROWS == 2 ? 32 : 64 in 16 32 64 128
//! TUNE TOKENS = THREAD_TOKENS == 8 ? 128 : THREAD_TOKENS == 4 ? 32 : 16 in 16 32 64 128
//! LET WG_SIZE = ROWS / THREAD_ROWS * (TOKENS / THREAD_TOKENS)
//! LET W_WIDTH = 1
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, ROWS) ceildiv(T, TOKENS)
//! ACTIVE ceildiv(BAND, THREAD_ROWS) * ceildiv(T, THREAD_TOKENS)
//! REQUIRE THREAD_ROWS <= ROWS && THREAD_TOKENS <= TOKENS
//! REGISTERS THREAD_ROWS * THREAD_TOKENS + 4 * (THREAD_ROWS + THREAD_TOKENS) + 20
//! PREFER 10
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB loop_end
//! LIB gemm_tile

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

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, thread_n = tid % uint(THREADS_N);
    uint thread_t = tid / uint(THREADS_N);
    row1 = group.x * uint(ROWS);
    token1 = group.y * uint(TOKENS);
    for (int i = 0; i < THREAD_ROWS * THREAD_TOKENS; i++)
        acc[i] = 0.0;
    gemm_tile(tid);
    for (int t = 0; t < THREAD_TOKENS; t++) {
        uint token = token1 + thread_t * uint(THREAD_TOKENS) + uint(t), y = token * uint(Y_STRIDE);
        if (token >= pass_rows)
            continue;
#if POST_glu
        for (int i = 0; i < THREAD_ROWS; i += 2) {
            uint r = row1 + TILE_ROW(thread_n, i);
            float gate = acc[t * THREAD_ROWS + i], up = acc[t * THREAD_ROWS + i + 1];
            if (r < rows)
                Y[y + (row0 + r) / 2u] = glu(gate, up, row0 + r);
        }
#else
        for (int i = 0; i < THREAD_ROWS; i++) {
            uint r = row1 + TILE_ROW(thread_n, i);
            if (r < rows) {
                float value = result(acc[t * THREAD_ROWS + i], row0 + r);
#if POST_add
                value += Y[y + row0 + r];
#endif
                Y[y + row0 + r] = value;
            }
        }
#endif
    }
}
