// Matrix product of 32 and more tokens on GPUs: outer products of columns of W and of X.
//
// Y[t, n] = sum_k X[t, k] W[n, k] by lib matmul_outer, with the epilogue of lib matmul_result. W is
// a band of N rows in its packed layout, X is [T][X_STRIDE] and Y is [T][Y_STRIDE] in f32. COLUMNS
// and THREAD_COLUMNS count tokens; "columns of K" are columns of W.
//
// Layout: work group x covers tiles of ROWS rows, y tiles of TOKENS tokens. A tile has up to 128
// rows and 128 tokens (64 or 32 if the pass has at most as many), and a group has 256 invocations.
// Each invocation has THREAD_ROWS x THREAD_COLUMNS results. If the last row tiles, from WHOLE on,
// leave more than 15% of the device idle, each of them is cut along K into SPLITS parts. So the
// REST last tiles become groups for one, two or three WAVES over the device. All passes of more
// than 128 tokens are planned as if they had 512.
//
// Choice: PREFER 28, or 15 for 32 tokens of other types than q4_k with K <= 4096, on devices with
// 32 compute units or more. The ranks follow the measured sizes. matmul_prefill_wide has 20.
//
// TUNEs: LANES is the number of invocations that share loads. THREAD_ROWS and THREAD_COLUMNS set
// the results per invocation: more results reuse loads, but need more registers. TOKENS, TOKEN_SETS
// and ROW_SETS set the tile. K_PARTS divides the columns of a step between sets of invocations, for
// tiles that are too few. STEP is the number of columns of K per barrier, UNIT the number that is
// unpacked at once. CUT is the number of parts of K: 0 does not cut, and 1 lets the kernel choose.
//
// One H200 (driver 580), `kernels bench`, weights in no cache, 2026-11-24, in us. The first number
// of each pair is matmul_prefill_wide (512, 128, 32 tokens) or matmul_lanes_subgroup (64), the
// second is this kernel:
//     q4_k, K x N        512            128           64            32
//     4096 x 28672  3,067  3,076    949   869    515   500    294   282
//     14336 x 4096  1,525  1,459    458   393    253   228    198   156 (_lanes_subgroup 136)
//     4096 x 4096     479    433    153   129     83    77     65    52
//     4096 x 6144     750    678    260   233          136     90    93
//     2048 x 16384    861    846    242   226    136   131     91    89 (_lanes_subgroup 77)
//     8192 x 2048     494    448    155   131     83    78     66    54 (_lanes_subgroup 50)
//     2048 x 3072     216    205     69    68     47    41     30    29
//     2048 x 2048     151    128     58    54     34    33     26    23
// 2048 x 16384 of other types, matmul_prefill_wide and this kernel:
//                512           64
//     q8_0     927   915   239  155
//     q6_k     946   924   235  175
//     f16      835   830   158  125
//     mxfp4    886   862   167  143
// With 32 tokens of q8_0, this kernel is slower for 2048 x 16384 (126 instead of 103 us) and faster
// for 8192 x 2048 (67 instead of 79).
//
// With parts of the kernel removed, 64 tokens of 2048 x 16384 take 111 us without decoding and
// storing W, 104 without fetching, and 57 without multiplying. They take 15 us with neither
// fetching nor multiplying. See docs/perf-log.md, "Prefill and small batches".
//
// Utilisation: the few rows of a router fill only a part of one tile. A router is a small part of
// the work.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Intel Arc (dg2) spills 102:221
// (8 x 8 results) to 825:1066 (8 x 16), navi21 with LLVM 15 spills 70 to 122 registers. Neither
// chooses this kernel. ACO on polaris12 and vega10 spills none.
//
//! NAME matmul_outer
//! OP matmul
//! VARIANT outer
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
//! TUNE THREAD_ROWS = SOFTWARE ? 4 : 8 in 4 8
//! TUNE THREAD_COLUMNS = SOFTWARE || COLUMNS == 32 || COLUMNS > 128 && N >= 4096 ? 8 : 16 in 8 16
//! TUNE K_PARTS = SOFTWARE ? 2 : 16 * THREAD_COLUMNS / TOKENS in 1 2 4
//! TUNE ROW_SETS = SOFTWARE || SHARED_BYTES < 49152 ? 1 : 8 / (TOKEN_SETS * K_PARTS) in 1 2 4
//! TUNE STEP = 16 in 16 32
//! TUNE UNIT = 16 in 16 32
//! TUNE CUT = !SOFTWARE in 0 1 2 3 4 6 8 12
//! LET HALVES = 0
//! LET NATIVE = 0
//! LET LANES_T = TOKENS / TOKEN_SETS / THREAD_COLUMNS
//! LET LANES_N = max(1, LANES / max(1, LANES_T))
//! LET ROWS = LANES_N * THREAD_ROWS * ROW_SETS
//! LET WG_SIZE = LANES * ROW_SETS * TOKEN_SETS * K_PARTS
//! LET W_WIDTH = 4
//! LET UNITS = SOFTWARE ? 3 : COMPUTE_UNITS
//! LET TOKEN_TILES = ceildiv(COLUMNS > 128 ? 512 : COLUMNS, TOKENS)
//! LET ROW_TILES = ceildiv(N, ROWS)
//! LET WHOLE = ROW_TILES * TOKEN_TILES / UNITS * UNITS / TOKEN_TILES
//! LET REST = max(1, (ROW_TILES - WHOLE) * TOKEN_TILES)
//! LET WAVES = UNITS % REST * 20 <= 3 * UNITS ? 1 : 2 * UNITS % REST * 20 <= 6 * UNITS ? 2 : 3
//! LET ROOM = SUM_ROWS / (ROWS + PRE_norm) // tiles, in SUMS
//! LET MOST = min(ROOM / max(1, ROW_TILES - WHOLE), K / (SOFTWARE ? 4 * STEP : 64))
//! LET SPLITS = CUT == 0 ? 1 : max(1, min(CUT > 1 ? CUT : WAVES * UNITS / REST, MOST))
//! LET KEPT = WHOLE * (SPLITS - 1)
//! LOCAL WG_SIZE
//! GROUPS max(ceildiv(BAND, ROWS), ceildiv(BAND, ROWS) * SPLITS - KEPT) ceildiv(T, TOKENS)
//! ACTIVE max(BAND, BAND * SPLITS - KEPT * ROWS) * T * K_PARTS / (THREAD_ROWS * THREAD_COLUMNS)
//! REQUIRE LANES_T >= 1 && LANES_T * 2 <= LANES && LANES_T * THREAD_COLUMNS * TOKEN_SETS == TOKENS
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0 && STEP >= 4 * K_PARTS
//! REQUIRE UNIT == 16 || STEP == 32 && (WEIGHT_q4_k || WEIGHT_q4_0 || WEIGHT_mxfp4)
//! REGISTERS THREAD_ROWS * THREAD_COLUMNS + 2 * (THREAD_ROWS + THREAD_COLUMNS) + 40
//! PREFER SOFTWARE || COMPUTE_UNITS < 32 ? 0 : COLUMNS == 32 && !WEIGHT_q4_k && K <= 4096 ? 15 : 28
//! TOLERANCE 3e-12
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
