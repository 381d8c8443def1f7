// Matrix product of many tokens on GPUs: large tiles, weights unpacked into shared memory.
//
// Lib gemm_wide. Groups: x covers the rows, ROWS each, y the tokens, TOKENS each.
//
// One H200 (driver 580), q4_k, 512 tokens, weights not in any cache, 2026-11-22, us and TFLOP/s,
// and those of matmul_prefill:
//     K x N           tile       parts
//     2048 x 16384    128 x 256    1     854   40.3    1404   24.5
//     2048 x 3072      64 x 128    2     255   25.3     331   19.5
//     2048 x 2048      64 x 128    2     137   31.4     191   22.5
//     8192 x 2048      64 x 128    2     517   33.2     727   23.7
// The first in tiles of 256 x 128: 37.4, 128 x 128: 36.3 (8 x 8 results per thread), 34.6 (16 x 8).
// Of 36.3 the multiply-adds and loads from shared memory alone reach 48.3; the rest is fetching
// and unpacking. A barrier without memoryBarrierShared(), loads of the next column ahead of the
// multiply-adds of this one, and f16 pairs (37.5 with sums of 8 columns) gain nothing.
// 32 and 64 tokens: 91 and 160 us (2048 x 16384), 37 and 63 (2048 x 2048).
//
// Utilisation: a router's rows (8 of Mixtral, 32 of GPT-OSS) fill part of a tile's, as in
// matmul_prefill.comp, and are as small a part of the work.
//
//! NAME matmul_prefill_wide
//! OP matmul
//! VARIANT wide
//! WHEN phase prefill
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
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
//! CONST K N COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE LONG = COLUMNS == 256 && N >= 64 * COMPUTE_UNITS && SHARED_BYTES >= 49152 in 0 1
//! TUNE SHORT = ceildiv(N, 16 * COMPUTE_UNITS) * 3 < ceildiv(N, 32 * COMPUTE_UNITS) * 5 in 0 1
//! TUNE FEW = SOFTWARE || COLUMNS <= 64 in 0 1
//! TUNE TOKENS = SOFTWARE || COLUMNS <= 32 ? 32 : FEW ? 64 : LONG ? 256 : 128 in 16 32 64 128 256
//! TUNE ROWS = FEW && N / 32 < COMPUTE_UNITS ? 32 : FEW || SHORT ? 64 : 128 in 32 64 128
//! TUNE STEP = ROWS <= 64 && SHARED_BYTES >= 256 * (ROWS + TOKENS) ? 32 : 16 in 16 32
//! TUNE THREAD_ROWS = ROWS + TOKENS <= 64 ? 4 : LONG ? 16 : 8 in 4 8 16
//! TUNE THREAD_TOKENS = TOKENS == 32 ? 4 : 8 in 4 8
//! TUNE PARTS = SOFTWARE ? 1 : 256 * THREAD_ROWS * THREAD_TOKENS / ROWS / TOKENS in 1 2 4 8
//! LET WG_SIZE = ROWS / THREAD_ROWS * (TOKENS / THREAD_TOKENS) * PARTS
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, ROWS) ceildiv(T, TOKENS)
//! ACTIVE ceildiv(BAND, THREAD_ROWS) * ceildiv(T, THREAD_TOKENS) * PARTS
//! REQUIRE THREAD_ROWS <= ROWS && THREAD_TOKENS <= TOKENS && 4 * PARTS <= STEP
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0
//! PREFER COMPUTE_UNITS >= 32 && !SOFTWARE ? 20 : 1
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB gemm_wide
//! LIB matmul_tile

void body(uvec3 group)
{
    matmul_tile(group);
}
