// Matrix product of many tokens by pairs of 16-bit floats, where computePrecision asks for it.
//
// Y[t, n] = sum_k X[t, k] W[n, k] by lib matmul_outer with HALVES. W is a band of N rows in its
// packed layout, X is [T][X_STRIDE] and Y is [T][Y_STRIDE] in f32. W and X / 16 are rounded to 16
// bits. With a norm within the product, X is scaled by a power of two of its token instead. FLUSH
// columns of K are summed in pairs of 16-bit floats, one for even and one for odd columns. These
// sums are added in 32 bits. An element of X, or a sum of FLUSH products, overflows if it exceeds a
// million. See docs/kernels.md, "16-bit arithmetic".
//
// Layout: as in matmul_outer. Work group x covers tiles of ROWS rows, y tiles of TOKENS tokens; the
// last row tiles are cut along K.
//
// Choice: PREFER 40, or 39 for large products with a norm; other kernels have up to 35. The kernel
// is used if computePrecision is f16 and the language has f16vec2.
//
// TUNEs: those of matmul_outer. FLUSH is the number of columns that are summed in 16 bits: more
// columns are faster, and less exact. SMALL uses smaller tiles, in four parts along K, for matrices
// of up to 2048 x 2048 and 32 tokens. WIDE uses four row sets.
//
// One H200 (driver 580), `kernels bench`, q4_k, weights in no cache, 2026-11-24, in us: FLUSH 32,
// FLUSH 64, and matmul_outer.
//     K x N          512                        K x N          512
//     4096 x 28672  2,307  2,212  3,076         2048 x 16384  693  635  846
//     14336 x 4096  1,164  1,039  1,459         8192 x 2048   351  335  448
//     4096 x 4096     347    310    433         2048 x 3072   162  152  205
//     4096 x 6144     673    490    678         2048 x 2048   105  102  128
// 2048 x 16384 with FLUSH 32: 128 tokens 176 (matmul_outer 226), 64 tokens 111 (131).
//
// One H100 (driver 580), 2026-11-28, q4_k, in us. With 32 tokens, each invocation has 4 x 8
// results, a group has 256 invocations, and a unit has two groups. With 64 tokens, 8 x 8 results,
// 128 invocations and two groups per unit. The columns of the table are three versions of the
// kernel. The first one unpacks 16 columns at a time, with FLUSH 64 and parts of K in f32. The
// second one unpacks 32 columns, with FLUSH 128 and a head fetched for each 32 columns. The third
// one is the current version, with SMALL where it is set (22 and 21.5 without it):
//     K x N               32              64         K x N             32              64
//     2048 x 16384    66   57       106   93        4096 x 28672  216  197  192   348  319
//     8192 x 2048     43   38   37   63   58   56   14336 x 4096  115  100   98   178  161
//     2048 x 128256  522  358  342  762  656  647   4096 x 4096    42   37   36    62   57
//     2048 x 2048          22   20        30   28
// The last two versions with a norm:
//     K x N            32         64
//     2048 x 16384     62   60    96   92
//     2048 x 3072      27   26    37   37
// With 512 tokens of 2048 x 16384, the three versions take 632, 609 and 585 us. docs/perf-log.md,
// "Prefill and small batches", describes the limits of the kernel.
//
// Utilisation: the few rows of a router fill only a part of one tile. A router is a small part of
// the work.
//
//! NAME matmul_outer_f16
//! OP matmul
//! PRECISION f16
//! VARIANT f16
//! WHEN phase prefill
//! WHEN columns 32 64 128 256
//! WHEN weight any
//! WHEN pre none norm
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
//! PARAM float eps
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K N COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SUM_ROWS = 0
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE LANES = 32 in 32 64
//! TUNE TOKENS = min(COLUMNS, SHARED_BYTES < 49152 ? 64 : 128) in 32 64 128
//! TUNE TOKEN_SETS = max(1, TOKENS / 64) in 1 2
//! TUNE STEP = 32 in 16 32
//! TUNE UNIT = STEP == 32 && WEIGHT_q4_k && (COLUMNS <= 64 || !SOFTWARE) ? 32 : 16 in 16 32
//! TUNE THREAD_ROWS = SOFTWARE || UNIT == 32 && TOKENS == 32 ? 4 : 8 in 4 8
//! TUNE THREAD_COLUMNS = 8 in 8
//! TUNE SMALL = TOKENS == 32 && THREAD_ROWS == 4 && !PRE_norm && K * N <= 2048 * 2048 in 0 1
//! TUNE K_PARTS = TOKENS >= 64 && !SOFTWARE ? 128 / TOKENS : SMALL ? 4 : THREAD_ROWS / 2 in 1 2 4
//! TUNE WIDE = TOKENS == 64 ? PRE_norm : TOKENS == 32 && THREAD_ROWS == 4 && !SMALL in 0 1
//! TUNE ROW_SETS = SHARED_BYTES < 49152 ? 1 : WIDE ? 4 : SMALL ? 2 : 4 / K_PARTS in 1 2 4
//! TUNE FLUSH = TOKENS <= 64 ? 128 : 64 in 16 32 64 128
//! TUNE CUT = !SOFTWARE in 0 1 2 3 4 6 8 12
//! LET HALVES = 1
//! LET NATIVE = 1 // f16vec2
//! LET LANES_T = TOKENS / TOKEN_SETS / THREAD_COLUMNS
//! LET LANES_N = max(1, LANES / max(1, LANES_T))
//! LET ROWS = LANES_N * THREAD_ROWS * ROW_SETS
//! LET WG_SIZE = LANES * ROW_SETS * TOKEN_SETS * K_PARTS
//! LET W_WIDTH = 4
//! LET UNITS = SOFTWARE ? 3 : COMPUTE_UNITS * (WG_SIZE * THREAD_ROWS > 1024 ? 1 : 2)
//! LET TOKEN_TILES = ceildiv(COLUMNS > 128 ? 512 : COLUMNS, TOKENS)
//! LET ROW_TILES = ceildiv(N, ROWS)
//! LET WHOLE = ROW_TILES * TOKEN_TILES / UNITS * UNITS / TOKEN_TILES
//! LET REST = max(1, (ROW_TILES - WHOLE) * TOKEN_TILES)
//! LET WAVES = UNITS % REST * 20 <= 3 * UNITS ? 1 : 2 * UNITS % REST * 20 <= 6 * UNITS ? 2 : 3
//! LET ROOM = SUM_ROWS * max(1, 256 / COLUMNS) / (ROWS + PRE_norm) // tiles of TOKENS, in SUMS
//! LET MOST = min(ROOM / max(1, ROW_TILES - WHOLE), K / (SOFTWARE ? 4 * STEP : 64))
//! LET SPLITS = CUT == 0 ? 1 : max(1, min(CUT > 1 ? CUT : WAVES * UNITS / REST, MOST))
//! LET KEPT = WHOLE * (SPLITS - 1)
//! LOCAL WG_SIZE
//! GROUPS max(ceildiv(BAND, ROWS), ceildiv(BAND, ROWS) * SPLITS - KEPT) ceildiv(T, TOKENS)
//! ACTIVE max(BAND, BAND * SPLITS - KEPT * ROWS) * T * K_PARTS / (THREAD_ROWS * THREAD_COLUMNS)
//! EXTENSION GL_NV_gpu_shader5
//! REQUIRE LANES_T >= 1 && LANES_T * 2 <= LANES && LANES_T * THREAD_COLUMNS * TOKEN_SETS == TOKENS
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0 && STEP >= 4 * K_PARTS
//! REQUIRE UNIT == 16 || STEP == 32 && (WEIGHT_q4_k || WEIGHT_q4_0 || WEIGHT_mxfp4)
//! PREFER PRE_norm && K * N > 2048 * 32768 ? 39 : 40 // the others: up to 35
//! TOLERANCE 1e-5
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB arrival
//! LIB matmul_outer

void body(uvec3 group)
{
    matmul_outer(group);
}
