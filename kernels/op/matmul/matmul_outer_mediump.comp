// Matrix product of many tokens in mediump, where computePrecision asks for it.
//
// Y[t, n] = sum_k X[t, k] W[n, k] by lib matmul_outer with HALVES, for devices whose GLSL has no
// 16-bit floats. The driver chooses 16 or 32 bits for mediump; those of Mali and Adreno use pairs
// of 16 bits. W is a band of N rows in its packed layout, X is [T][X_STRIDE] and Y is [T][Y_STRIDE]
// in f32. W and X / 16 are rounded to 16 bits. With a norm within the product, X is scaled by a
// power of two of its token instead. FLUSH columns of K are summed in pairs of 16-bit floats, one
// for even and one for odd columns. These sums are added in 32 bits. An element of X, or a sum of
// FLUSH products, overflows if it exceeds a million.
//
// Layout: as in matmul_outer. Work group x covers tiles of ROWS rows, y tiles of TOKENS tokens; the
// last row tiles are cut along K.
//
// Choice: PREFER 36, or 35 for large products with a norm. matmul_outer_f16 has 40. The kernel is
// used if computePrecision is f16.
//
// TUNEs: those of matmul_outer. FLUSH is the number of columns that are summed in 16 bits: more
// columns are faster, and less exact. WIDE uses four row sets.
//
// Utilisation: the few rows of a router fill only a part of one tile. A router is a small part of
// the work.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Adreno 630 spills 20:27 to 22:30
// with 4 x 8 results. V3D, Mali G52 and G610 do not finish compiling 8 x 8 within 15 s. REGISTERS
// excludes the kernel on all of these.
//
//! NAME matmul_outer_mediump
//! OP matmul
//! PRECISION f16
//! VARIANT mediump
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
//! TUNE K_PARTS = SOFTWARE || TOKENS == 64 ? 2 : TOKENS == 128 ? 1 : THREAD_ROWS / 2 in 1 2 4
//! TUNE WIDE = TOKENS == 64 ? PRE_norm : TOKENS == 32 && THREAD_ROWS == 4 in 0 1
//! TUNE ROW_SETS = SHARED_BYTES < 49152 ? 1 : WIDE ? 4 : 4 / K_PARTS in 1 2 4
//! TUNE FLUSH = TOKENS <= 64 ? 128 : 64 in 16 32 64 128
//! TUNE CUT = !SOFTWARE in 0 1 2 3 4 6 8 12
//! LET HALVES = 1
//! LET NATIVE = 0 // mediump
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
//! REQUIRE LANES_T >= 1 && LANES_T * 2 <= LANES && LANES_T * THREAD_COLUMNS * TOKEN_SETS == TOKENS
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0 && STEP >= 4 * K_PARTS
//! REQUIRE UNIT == 16 || STEP == 32 && (WEIGHT_q4_k || WEIGHT_q4_0 || WEIGHT_mxfp4)
//! REGISTERS 2 * THREAD_ROWS * THREAD_COLUMNS + 2 * (THREAD_ROWS + THREAD_COLUMNS) + 40
//! PREFER PRE_norm && K * N > 2048 * 32768 ? 35 : 36 // matmul_outer_f16: 40
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
