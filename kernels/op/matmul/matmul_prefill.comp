// Matrix product on any device: tiles of results, weights unpacked into shared memory.
//
// Y[t, n] = sum_k W[n, k] X[t, k], by lib gemm_tile. W is a band of rows in its packed layout, X is
// [T][X_STRIDE] and Y is [T][Y_STRIDE] in f32.
//
// Layout: work group x covers ROWS rows, y covers TOKENS tokens. Each invocation has THREAD_ROWS x
// THREAD_TOKENS results. Steps of 16 columns of K are unpacked into shared memory.
//
// Choice: PREFER 10. On GPUs with 32 compute units or more, kernels with a higher rank are chosen
// if they fit into the registers (matmul_prefill_wide: 20).
//
// TUNEs: THREAD_ROWS and THREAD_TOKENS set the results per invocation: more results reuse loads,
// but need more registers. BIG allows 8 x 8. ROWS and TOKENS set the tile: larger tiles read
// weights fewer times, but leave fewer groups.
//
// One H200 (driver 580), q4_k, 512 tokens, 2026-11-21, `build/tests/test_kernels_matmul bench
// prefill q4_k none POST K N 512`, in GMAC/s:
//     tile        2048 x 3072   2048 x 2048   2048 x 16384   8192 x 2048
//     64 x 128          9,800        11,000         11,400        11,900
//     64 x 64          10,300         9,700         10,200        10,400
//     64 x 32           7,900         7,400          6,800         7,700
// f16 weights are 2% faster. With a bias, 8 tokens per invocation are slow there. The 24 qkv
// products of gpt-oss-20b:mxfp4 (bf16, K x N = 2880 x 5120) took 293 ms with 8, and take 26 ms with
// 4 and tiles of 64 x 32 (`dopplergl bench --profile`).
//
// Utilisation: the rows of a router (8 of Mixtral, 32 of GPT-OSS) fill an eighth of a tile at
// worst. Such a product is about 1/10,000 of the work of a layer, so a special tile would not be
// noticed.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Tiles of 4 x 4 per invocation
// spill 4:4 to 5:5 on V3D 4.2, 5:50 to 8:60 on Mali G52, and 87:228 on T860. The tiles that
// REGISTERS selects spill none on V3D (2 x 2; 2 x 4 spills 13:15 with f32), none on G52 (2 x 4),
// and 55:99 on T860 (4 x 2). Midgard's compiler never ends on a tile of 2 x 2 with bf16, a bias and
// K = 112, so such devices get 4 x 2. LLVM 15 spilled 394 to 669 registers with 4 x 4 and K up to
// 112. With lib loop_end it spills none (96 registers).
//
//! NAME matmul_prefill
//! OP matmul
//! VARIANT baseline tiled gemm
//! WHEN phase prefill
//! WHEN weight any
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
