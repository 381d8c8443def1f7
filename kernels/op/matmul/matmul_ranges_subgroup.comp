// Matrix product for 4 and 8 tokens with subgroups: a slice of x stays, rows of a range pass by.
//
// Y[t, n] = sum_k X[t, k] W[n, k] for COLUMNS tokens. W is a band of N rows in its packed layout, X
// is [T][X_STRIDE] and Y is [T][Y_STRIDE] in f32. COLUMNS counts tokens; other columns are columns
// of W. With pre=norm, X is multiplied by the norm's weight when it is staged. Squares of a slice
// are added up like its sums, and the norm's factor is applied at the end.
//
// Layout: there are as many work groups as compute units: RANGES ranges of rows times SLICES slices
// of K. A group stages its slice of X in shared memory once, SLICE units of 16 columns per lane.
// matmul_columns_subgroup stages X for every chunk of K instead, and waits each time. The SETS
// subgroups of the group then process THREAD_ROWS rows of the range at a time. While these are
// multiplied, the next weights are loaded. Sums of a slice are stored in SUMS. The last group of a
// range adds them up in the order of the slices. So the result depends neither on timing nor on the
// number of tokens.
//
// Choice: PREFER is 35 for the measured sizes of q4_k at which the kernel was faster (LONG, DEEP),
// and 5 otherwise. matmul_columns_subgroup has 30. Other weight types and larger models were not
// measured.
//
// TUNEs: THREAD_ROWS is the number of rows that reuse a loaded vec4 of X: more need more registers.
// SETS is the number of subgroups that share a slice. A longer SLICE needs more shared memory, and
// leaves fewer sums to add. UNIT_GROUPS is the number of groups per compute unit. SUBGROUP is
// always the device's SUBGROUP_SIZE.
//
// One H200 (driver 580), q4_k, whole steps of Llama 3.2 1B, 2026-11-23, in us with about 3 for the
// timer. The first number of a pair is matmul_columns_subgroup, the second this kernel (SETS 16;
// THREAD_ROWS 4, or 2 in brackets):
//     K x N               4             8
//     2048 x 16384   40.9   31.8   42.4   41.2 (2: 41.0)
//     2048 x 128256   252    140    243    210 (2: 219)
//     8192 x 2048    22.6   20.9   30.7   27.2 (2: 26.1)
//     2048 x 2048    11.4   15.7   13.9   18.1 (2: 15.6)
//     2048 x 3072    15.8   18.0   18.7   21.3 (2: 19.2)
// The same rows with SETS 8: 31.3, 145, 21.4, 15.9, 18.4 (4 tokens) and 43.2, 218, 29.0, 17.9, 22.4
// (8). Two groups per unit, 2048 x 16384: 36.6 and 49.9. Half of SLICE, 8 tokens: 51.5.
//
// Utilisation: if a range has fewer groups of THREAD_ROWS rows than SETS, some subgroups have no
// rows (the 8 rows of a router are two quads). If K has fewer units than a slice, some lanes have
// no columns.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Groups of 1024 invocations on
// AMD spill 83 to 221 registers on vega10 and 9 to 32 on navi31. Groups of 256, which REGISTERS
// selects, spill none.
//
//! NAME matmul_ranges_subgroup
//! OP matmul
//! VARIANT subgroup ranges
//! WHEN phase prefill
//! WHEN columns 4 8
//! WHEN weight any
//! WHEN pre none norm
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! BIND coherent float SUMS
//! BIND coherent uint ARRIVED
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float eps
//! PARAM float out_scale
//! PARAM float softcap
//! CONST N K COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SUM_ROWS = 0
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE THREAD_ROWS = COLUMNS == 8 && N < 65536 ? 2 : 4 in 2 4 8
//! TUNE SETS = MAX_INVOCATIONS >= 16 * SUBGROUP && REGISTERS > 200 ? 16 : 4 in 4 8 16
//! TUNE SLICE = 1024 * SUBGROUP + 128 * COLUMNS + 1024 <= SHARED_BYTES ? 16 / COLUMNS : 1 in 1 2 4
//! TUNE UNIT_GROUPS = 1 in 1 2 4
//! LET UNITS = SLICE * SUBGROUP // of 16 columns, of a group
//! LET SLICES = ceildiv(K, 16 * UNITS)
//! LET RANGES = min(256, max(1, UNIT_GROUPS * max(16, COMPUTE_UNITS) / SLICES)) // ARRIVED has 256
//! LET WG_SIZE = SUBGROUP * SETS
//! LET UNIT_STRIDE = UNITS + 2 // lanes that store x meet different banks
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS RANGES * SLICES
//! ACTIVE min(RANGES * SETS, ceildiv(BAND, THREAD_ROWS)) * SLICES * min(SUBGROUP, K / 16)
//! SHARED vec4 xs[COLUMNS * 4 * UNIT_STRIDE]
//! SHARED float squares[PRE_norm ? COLUMNS * SETS : 0]
//! SHARED float factor[PRE_norm ? COLUMNS : 0]
//! SHARED uint arrived
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0
//! REQUIRE (N + RANGES) * COLUMNS * SLICES <= SUM_ROWS * 256
//! LET LONG = N > 8192 && K <= 2048 // fixed: sizes that were measured
//! LET DEEP = N <= 2048 && K > 4096 && K <= 8192 // fixed: sizes that were measured
//! LET FULL = K % (16 * UNITS) == 0 // fixed: a unit is 16; all lanes have columns
//! LET BETTER = WEIGHT_q4_k && COMPUTE_UNITS >= 64 && FULL && (LONG || DEEP)
//! PREFER SOFTWARE ? 0 : BETTER ? 35 : 5 // matmul_columns_subgroup: 30
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB gemv_block
//! LIB arrival

vec4 w[4 * THREAD_ROWS];

uint gemv_row(uint r)
{
    return min(r, rows - 1u) * uint(W_STRIDE);
}

// Unpacks the fetched unit, so that the next one may be fetched.
void unpack(uint unit)
{
    uint k = unit < uint(K / 16) ? 16u * unit : 0u;
    uvec4 raw[WEIGHT_RAW];
    vec4 one[4];
    UNPACK_ROWS
}

// Multiplies with unit `at` of the slice of x.
void multiply(uint at)
{
    vec4 x;
    MULTIPLY_ROWS
}

// The sum of a value over the slices.
float total(uint row, uint t)
{
    float y = 0.0;
    for (uint s = 0u; s < uint(SLICES); s++)
        y += SUMS[(s * rows + row) * uint(COLUMNS) + t];
#if PRE_norm
    y *= factor[t];
#endif
    return y;
}

void body(uvec3 group)
{
    uint lane = gl_SubgroupInvocationID, set = gl_SubgroupID;
    uint tid = set * uint(SUBGROUP) + lane, slice = group.x % uint(SLICES);
    uint range = group.x / uint(SLICES), unit0 = slice * uint(UNITS);
    uint quads = (rows + uint(THREAD_ROWS - 1)) / uint(THREAD_ROWS);
    if (range >= uint(RANGES))
        return; // the whole group
    uint quad = range * quads / uint(RANGES) + set, end = (range + 1u) * quads / uint(RANGES);
    uint first = range * quads / uint(RANGES) * uint(THREAD_ROWS);
    uint last = min(end * uint(THREAD_ROWS), rows);
    gemv_fetch(quad * uint(THREAD_ROWS), unit0 + lane);
#if FULL && 4 * UNITS <= WG_SIZE
    // Loads come first and without a condition. Otherwise each load would be a branch that waits
    // for it.
    vec4 all_x[COLUMNS];
    for (int c = 0; c < COLUMNS; c++)
        all_x[c] = X[min(uint(c), pass_rows - 1u) * uint(X_STRIDE / 4) + 4u * unit0 +
                     tid % uint(4 * UNITS)];
#endif
    for (int c = 0; c < COLUMNS; c++) {
        uint row = min(uint(c), pass_rows - 1u) * uint(X_STRIDE / 4);
        float square = 0.0;
        for (uint v = tid; v < uint(4 * UNITS); v += uint(WG_SIZE)) {
#if FULL && 4 * UNITS <= WG_SIZE
            vec4 x = all_x[c];
#else
            vec4 x = 4u * unit0 + v < uint(K / 4) ? X[row + 4u * unit0 + v] : vec4(0.0);
#endif
#if PRE_norm
            if (4u * unit0 + v < uint(K / 4)) {
                square += dot(x, x);
                x *= A[4u * unit0 + v];
            }
#endif
            xs[(4u * uint(c) + v % 4u) * uint(UNIT_STRIDE) + v / 4u] = x;
        }
#if PRE_norm
        for (uint across = uint(SUBGROUP / 2); across > 0u; across /= 2u)
            square += subgroupShuffleXor(square, across);
        if (lane == 0u)
            squares[uint(c * SETS) + set] = square;
#endif
    }
    memoryBarrierShared(); barrier();
#if PRE_norm
    uint norms = uint(SLICES) * rows * uint(COLUMNS) + range * uint(SLICES * COLUMNS);
    if (tid < uint(COLUMNS)) {
        float sum = 0.0;
        for (uint i = 0u; i < uint(SETS); i++)
            sum += squares[tid * uint(SETS) + i];
        SUMS[norms + slice * uint(COLUMNS) + tid] = sum;
    }
#endif
    for (; quad < end; quad += uint(SETS)) {
        ZERO_ROWS
        for (uint i = 0u; i < uint(SLICE); i++) {
            uint at = i * uint(SUBGROUP) + lane;
            unpack(unit0 + at);
            gemv_fetch((i + 1u < uint(SLICE) ? quad : quad + uint(SETS)) * uint(THREAD_ROWS),
                       unit0 + (i + 1u < uint(SLICE) ? at + uint(SUBGROUP) : lane));
            multiply(at);
        }
        gemv_reduce(lane);
        for (int i = 0; i < OWN_VALUES; i++) {
            uint value = VALUES >= SUBGROUP ? lane * uint(OWN_VALUES) + uint(i)
                                            : lane / uint(max(SUBGROUP / VALUES, 1));
            uint row = quad * uint(THREAD_ROWS) + value / uint(COLUMNS);
            if (row < rows)
                SUMS[(slice * rows + row) * uint(COLUMNS) + value % uint(COLUMNS)] = acc[i];
        }
    }
    memoryBarrierBuffer(); barrier();
    if (tid == 0u)
        arrived = arrive(range, uint(SLICES));
    memoryBarrierShared(); barrier();
    memoryBarrierBuffer();
    if (arrived != uint(SLICES - 1))
        return; // the whole group
#if PRE_norm
    if (tid < uint(COLUMNS)) {
        float sum = 0.0;
        for (uint s = 0u; s < uint(SLICES); s++)
            sum += SUMS[norms + s * uint(COLUMNS) + tid];
        factor[tid] = inversesqrt(sum / float(K) + eps);
    }
    memoryBarrierShared(); barrier();
#endif
#if POST_glu
    uint pairs = (last - first) / 2u;
    for (uint i = tid; i < pairs * uint(COLUMNS); i += uint(WG_SIZE)) {
        uint row = first + i % pairs * 2u, t = i / pairs;
        if (t < pass_rows)
            Y[t * uint(Y_STRIDE) + (row0 + row) / 2u] =
                glu(total(row, t), total(row + 1u, t), row0 + row);
    }
#else
    uint count = last - first;
    for (uint i = tid; i < count * uint(COLUMNS); i += uint(WG_SIZE)) {
        uint row = first + i % count, t = i / count;
        if (t < pass_rows) {
            float y = result(total(row, t), row0 + row);
            uint to = t * uint(Y_STRIDE) + row0 + row;
#if POST_add
            y += Y[to];
#endif
            Y[to] = y;
        }
    }
#endif
}
