// Matrix product of many tokens on GPUs: large tiles, weights unpacked into shared memory.
//
// Y[t, n] = sum_k W[n, k] X[t, k], by lib matmul_tile. W is a band of N rows in its packed layout,
// X is [T][X_STRIDE] and Y is [T][Y_STRIDE] in f32.
//
// Layout: work group x covers tiles of ROWS rows, y tiles of TOKENS tokens. Each invocation has
// THREAD_ROWS x THREAD_TOKENS results. If the last row tiles, from WHOLE on, leave more than 15% of
// the device idle, each of them is cut along K into SPLITS parts, with a group for each part. So
// the REST last tiles become groups for one, two or three WAVES over the device. Tiles of 32 rows
// use two or three, because a compute unit runs several of these groups at a time. All passes of
// more than 128 tokens are planned as if they had 512.
//
// Choice: PREFER 20 on GPUs with 32 compute units or more, 1 elsewhere. matmul_prefill has 10,
// matmul_outer up to 28.
//
// TUNEs: ROWS and TOKENS set the tile: larger tiles read weights fewer times, but leave fewer
// groups. THREAD_ROWS and THREAD_TOKENS set the results per invocation; more need more registers.
// STEP is the number of columns of K per barrier. PARTS is the number of sets of invocations that
// share a step, for small tiles; LEAST is the least group size. FEW, MANY, LONG and SHORT select
// tiles by tokens, registers and size of W. CUT is the number of parts of K: 0 does not cut, and 1
// lets the kernel choose.
//
// One H200 (driver 580), q4_k, weights in no cache, 2026-11-23, in us (with TFLOP/s for 512
// tokens). "before" is the time of 2026-11-22, when tiles were not cut along K:
//     K x N            512            before    128  before   64  before   32
//     4096 x 28672   3,073   39.1    3,428     952     945   495     603  299
//     14336 x 4096   1,535   39.2    1,655     461   1,630   285          286
//     4096 x 4096      483   35.6      488     154            96           88
//     4096 x 6144      750*  34.4      781     259     260   159     151   95
//     2048 x 16384     861   39.9      870     242     239   175     156   91
//     8192 x 2048      497   34.6      526     154     507    96     234   87
//     2048 x 3072      217   29.7      246      70     240    49      62   30
//     2048 x 2048      151   28.4      137      59     137    42      70   30
// In whole steps of 32 sequences of Llama 3.2 1B, tiles of 32 rows take 31.5 us in one wave and
// 28.4 in two for 2048 x 2048. For 8192 x 2048 they take 88.9 us in one wave and 71.4 in two. Each
// time includes 8 us for the timer.
// * With tiles of 128 x 128 cut in two, set by hand; 878 with tiles of 128 x 256 cut in four. The
// multiply-adds alone, without fetching, storing and barriers, reach 43 to 48 TFLOP/s
// (docs/perf-log.md).
//
// Utilisation: the rows of a router (8 of Mixtral, 32 of GPT-OSS) fill only a part of one tile. A
// router is a small part of the work.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Radeon RX 6000 (navi21) with
// LLVM 15 spills 247 registers with 4 x 4 results, bf16 and K = 256. navi31 spills 140 to 149 with
// larger tiles. With LLVM matmul_prefill is chosen. ACO on polaris12 and vega10, and Intel (4 x 4),
// spill none.
//
//! NAME matmul_prefill_wide
//! OP matmul
//! VARIANT wide
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
//! BIND coherent vec4 SUMS
//! BIND coherent uint ARRIVED
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K N COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SUM_ROWS = 0
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE FEW = SOFTWARE || COLUMNS <= 64 in 0 1
//! TUNE MANY = COLUMNS > 128 && SHARED_BYTES >= 49152 && REGISTERS >= 222 in 0 1
//! TUNE LONG = MANY && (N > 64 * COMPUTE_UNITS || K > 4095 && N <= 32 * COMPUTE_UNITS) in 0 1
//! TUNE SHORT = N <= (FEW ? 96 : LONG ? 0 : 16) * COMPUTE_UNITS in 0 1
//! TUNE TOKENS = SOFTWARE || COLUMNS <= 32 ? 32 : FEW ? 64 : LONG ? 256 : 128 in 32 64 128 256
//! TUNE ROWS = TOKENS > 32 ? SHORT ? 64 : 128 : N / 32 < COMPUTE_UNITS ? 32 : 64 in 32 64 128
//! TUNE STEP = ROWS <= 64 && SHARED_BYTES >= 256 * (ROWS + TOKENS) ? 32 : 16 in 16 32
//! TUNE THREAD_ROWS = ROWS + TOKENS <= 64 ? 4 : LONG ? 16 : 8 in 4 8 16
//! TUNE THREAD_TOKENS = TOKENS == 32 ? 4 : 8 in 4 8
//! TUNE LEAST = SOFTWARE ? 1 : FEW && ROWS > 64 ? 128 : 256 in 1 128 256
//! TUNE PARTS = max(1, LEAST * THREAD_ROWS * THREAD_TOKENS / ROWS / TOKENS) in 1 2 4 8
//! TUNE CUT = !SOFTWARE in 0 1 2 3 4 6 8
//! LET WG_SIZE = ROWS / THREAD_ROWS * (TOKENS / THREAD_TOKENS) * PARTS
//! LET W_WIDTH = 4
//! LET UNITS = SOFTWARE ? 3 : COMPUTE_UNITS
//! LET TOKEN_TILES = ceildiv(COLUMNS > 128 ? 512 : COLUMNS, TOKENS)
//! LET ROW_TILES = ceildiv(N, ROWS)
//! LET WHOLE = ROW_TILES * TOKEN_TILES / UNITS * UNITS / TOKEN_TILES
//! LET REST = max(1, (ROW_TILES - WHOLE) * TOKEN_TILES)
//! LET ONE = ROWS > 32 && UNITS % REST * 20 <= 3 * UNITS
//! LET WAVES = ONE ? 1 : 2 * UNITS % REST * 20 <= 6 * UNITS ? 2 : 3
//! LET MOST = min(SUM_ROWS / ROWS / max(1, ROW_TILES - WHOLE), K / (SOFTWARE ? 4 * STEP : 256))
//! LET SPLITS = CUT == 0 ? 1 : max(1, min(CUT > 1 ? CUT : WAVES * UNITS / REST, MOST))
//! LET KEPT = WHOLE * (SPLITS - 1)
//! LOCAL WG_SIZE
//! GROUPS max(ceildiv(BAND, ROWS), ceildiv(BAND, ROWS) * SPLITS - KEPT) ceildiv(T, TOKENS)
//! ACTIVE ceildiv(BAND, THREAD_ROWS) * ceildiv(T, THREAD_TOKENS) * PARTS
//! REQUIRE ROWS / THREAD_ROWS % 4 == 0 && TOKENS / THREAD_TOKENS % 8 == 0 && 4 * PARTS <= STEP
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0
//! REGISTERS THREAD_ROWS * THREAD_TOKENS + 4 * THREAD_TOKENS + 62
//! PREFER COMPUTE_UNITS >= 32 && !SOFTWARE ? 20 : 1
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB gemm_wide
//! LIB arrival
//! LIB matmul_tile

void body(uvec3 group)
{
    matmul_tile(group);
}
