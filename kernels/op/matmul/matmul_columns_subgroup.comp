// Matrix product for 2 to 16 tokens with subgroups: weights unpacked once for all of them.
//
// Y[t, n] = sum_k W[n, k] X[t, k] for COLUMNS tokens, 2 to 16, by lib gemv_columns, then the
// epilogue of lib matmul_result. W is a band of N rows in its packed layout, X is [T][X_STRIDE] and
// Y is [T][Y_STRIDE] in f32. COLUMNS counts tokens; "columns of K" are columns of W. With pre=norm,
// X is multiplied by the norm's weight when it is staged in shared memory. The norm's factor of
// each token is applied to its sums.
//
// Layout: a work group computes SETS * THREAD_ROWS rows for all tokens. K_PARTS subgroups are next
// to each other along K; SETS such sets have THREAD_ROWS rows each. An invocation unpacks 16
// columns of its rows at a time and multiplies them with all tokens.
//
// Choice: PREFER 30, and 15 for 16 tokens unless a q4_k product was measured to be faster
// (FAST_16). matmul_prefill_wide has 20.
//
// TUNEs: THREAD_ROWS is the number of rows that reuse a loaded vec4 of X: more rows need more
// registers. K_PARTS splits the columns of K, SETS the rows of a group: more of them need larger
// groups. NARROW selects two rows per invocation, FULL means that there are more groups than
// compute units, LONG and ONE select K_PARTS 1, and MANY allows more subgroups per group. SUBGROUP
// is always the device's SUBGROUP_SIZE.
//
// One H200 (driver 580), q4_k, weights in no cache, 2026-11-22 (`build/tests/test_kernels_matmul
// bench prefill q4_k none POST K N T`). Times in us for 2, 4 and 8 tokens, and in column 1 those of
// the kernel for one token. The last column is the time of the tile kernels for 2 to 8 tokens.
//     K x N             1      2      4      8    tiles, 2 to 8
//     2048 x 16384    14.4   20.8   31.4   48.8    370
//     2048 x 2048      6.5    7.1    7.6   13.2    190
//     8192 x 2048     10.2   15.4   18.8   34.7    720
//
// Whole steps of 8 sequences of Llama 3.2 1B (2026-11-23, in us per product, with about 8 for the
// timer):
//     SETS   THREAD_ROWS   gate and up   down    qkv      o   head
//        4                        64.5   38.2   25.9   17.8    411
//        8             4          54.6   43.2   21.6   19.0    342
//        8             2          61.9   31.5   22.1   14.1    410
// With 4 columns down took 1.35 times as long. Other weight types were not measured in this way.
// docs/perf-log.md describes LONG, and sums by multiply-adds of one component each.
//
// Utilisation: if rows are shorter than a chunk (K = 1,024: 64 of 128 units), some subgroups along
// K have no columns. The 8 rows of a router fill two of four sets.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). AMD has 65536 registers for a
// group. With 1024 invocations polaris12 spills 21 to 59 registers, and navi21 with LLVM 15 spills
// 8 to 83. Groups of 256 (K_PARTS 1, SETS 4) spill none with ACO. With LLVM and 7 chunks of K
// (3,584) they spilled 59 to 229 registers while the loop over the chunks was unrolled. With lib
// loop_end, 2 x 8 and 4 x 4 results spill none (72 with bf16 and 8 tokens, 3 with 4 x 8). navi31
// spills 10 to 108 in most cases, so the kernel is not chosen there.
//
//! NAME matmul_columns_subgroup
//! OP matmul
//! VARIANT subgroup columns
//! WHEN phase prefill
//! WHEN columns 2 4 8 16
//! WHEN weight any
//! WHEN pre none norm
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float eps
//! PARAM float out_scale
//! PARAM float softcap
//! CONST N K COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE MANY = WEIGHT_q4_k && COLUMNS >= 8 && MAX_INVOCATIONS >= 512 in 0 1 // subgroups
//! TUNE NARROW = MANY && N < 3072 || COLUMNS >= 8 && REGISTERS <= 93 in 0 1
//! TUNE THREAD_ROWS = NARROW ? 2 : 4 in 2 4 8
//! TUNE FULL = COLUMNS == 16 || N > 32 * COMPUTE_UNITS in 0 1 // more groups than units
//! TUNE LONG = MANY && THREAD_ROWS == 4 && FULL in 0 1
//! TUNE ONE = LONG || REGISTERS <= 200 in 0 1
//! TUNE K_PARTS = ONE ? 1 : min(4, max(1, SHARED_BYTES / 144 / COLUMNS / SUBGROUP * 2)) in 1 2 4 8
//! TUNE SETS = MANY && SUBGROUP * K_PARTS <= 64 && REGISTERS > 200 ? 8 : 4 in 1 2 4 8
//! LET WG_SIZE = SUBGROUP * K_PARTS * SETS
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, SETS * THREAD_ROWS)
//! ACTIVE ceildiv(BAND, THREAD_ROWS) * min(SUBGROUP * K_PARTS, K / 16)
//! SHARED float squares[PRE_norm ? COLUMNS * K_PARTS * SETS : 0]
//! SHARED float factor[PRE_norm ? COLUMNS : 0]
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0
//! REGISTERS THREAD_ROWS * COLUMNS + 61 + 32 * (WEIGHT_bf16 && COLUMNS >= 8)
//! LET FAST_16 = WEIGHT_q4_k && N >= 3072 && !PRE_norm
//! PREFER SOFTWARE ? 5 : COLUMNS < 16 || FAST_16 ? 30 : 15 // matmul_prefill_wide: 20
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB gemv_block
//! LIB loop_end
//! LIB gemv_columns

uint first;           // first row of the group within the band
float square[COLUMNS]; // of this invocation's part of x, for pre=norm; column c has c + side's

uint gemv_row(uint r)
{
    return min(first + r, rows - 1u) * uint(W_STRIDE);
}

vec4 gemv_x(uint column, uint side, uint i)
{
    vec4 x = X[min(column + side, pass_rows - 1u) * uint(X_STRIDE / 4) + i];
#if PRE_norm
    square[column] += dot(x, x);
    x *= A[i];
#endif
    return x;
}

void body(uvec3 group)
{
    uint lane = gl_SubgroupInvocationID, tid = gl_SubgroupID * uint(SUBGROUP) + lane;
    uint part_k = gl_SubgroupID % uint(K_PARTS), set = gl_SubgroupID / uint(K_PARTS);
    first = group.x * uint(ROWS);
    for (int c = 0; c < COLUMNS; c++)
        square[c] = 0.0;
    gemv_columns(tid, lane, part_k, set);
#if PRE_norm
    for (int c = 0; c < COLUMNS; c++) {
        for (uint across = uint(SUBGROUP / 2); across > 0u; across /= 2u)
            square[c] += subgroupShuffleXor(square[c], across);
        uint to = (uint(c) + gl_SubgroupID / uint(4 * K_PARTS)) % uint(COLUMNS);
        if (lane == 0u)
            squares[to * uint(K_PARTS * SETS) + gl_SubgroupID] = square[c];
    }
    memoryBarrierShared(); barrier();
    if (tid < uint(COLUMNS)) {
        float sum = 0.0;
        for (uint i = 0u; i < uint(K_PARTS * SETS); i++)
            sum += squares[tid * uint(K_PARTS * SETS) + i];
        factor[tid] = inversesqrt(sum / float(K) + eps);
    }
#endif
    memoryBarrierShared(); barrier();
#if POST_glu
    for (uint i = tid; i < uint(ROWS / 2 * COLUMNS); i += uint(WG_SIZE)) {
        uint r = i % uint(ROWS / 2) * 2u, t = i / uint(ROWS / 2);
        if (first + r < rows && t < pass_rows) {
            float gate = gemv_sum(r, t), up = gemv_sum(r + 1u, t);
#if PRE_norm
            gate *= factor[t];
            up *= factor[t];
#endif
            Y[t * uint(Y_STRIDE) + (row0 + first + r) / 2u] = glu(gate, up, row0 + first + r);
        }
    }
#else
    for (uint i = tid; i < uint(ROWS * COLUMNS); i += uint(WG_SIZE)) {
        uint r = i % uint(ROWS), t = i / uint(ROWS);
        if (first + r < rows && t < pass_rows) {
            float y = gemv_sum(r, t);
#if PRE_norm
            y *= factor[t];
#endif
            y = result(y, row0 + first + r);
            uint to = t * uint(Y_STRIDE) + row0 + first + r;
#if POST_add
            y += Y[to];
#endif
            Y[to] = y;
        }
    }
#endif
}
