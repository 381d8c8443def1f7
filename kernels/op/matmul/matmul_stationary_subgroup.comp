// Matrix product for 8 tokens with subgroups, q4_k: x stays in registers, rows of W pass by.
//
// Y[t, n] = sum_k X[t, k] W[n, k] for 8 tokens. W is a band of N rows of q4_k in its packed layout,
// X is [T][X_STRIDE] and Y is [T][Y_STRIDE] in f32. With pre=norm, x is the norm's weight times X,
// and the norm's factor is applied at the end.
//
// Layout: there are RANGES ranges of rows times SLICES slices of K, one work group each. A lane
// loads one unit of 16 columns of X for all 8 tokens, 128 registers, once. The rows of its range
// are then loaded, AHEAD at a time, while as many are multiplied. A lane multiplies each of its 16
// codes of a row with 8 tokens, so X is not loaded again. Codes are not shifted within their words;
// instead x is scaled down by a power of two, which is as exact.
//
// Scale and minimum of 32 columns are unpacked to shared memory for a batch of rows. They are
// applied to the sum of the two lanes that have these columns. The 8 sums of a row are added up
// over the lanes by halving: each lane orders its tokens so that it keeps the lower half of its
// sums and passes on the upper half. The subgroups of a group have SETS parts of the slice. Their
// sums meet every BATCH rows in shared memory. If K is longer than a slice, sums of a slice are
// stored in SUMS. The last group of a range adds them up in the order of the slices, so the result
// does not depend on timing.
//
// Choice: PREFER 40 on GPUs with 64 compute units or more if K and N are at least 4096, else 5.
// matmul_columns_subgroup has 30.
//
// TUNEs: SETS is the number of subgroups per group, and so the length of a slice. A larger BATCH
// needs fewer barriers, but more shared memory. WAVES is the number of groups per compute unit.
// SUBGROUP is always the device's SUBGROUP_SIZE.
//
// One H200 (driver 580), `kernels bench`, 2026-11-24, in us: matmul_columns_subgroup and this
// kernel.
//     4096 x 28672   113   86     14336 x 4096    65   52     4096 x 128256  443  320
//     4096 x 28672   121   88 (pre=norm)          4096 x 6144    35   28
//     4096 x 4096   22.6 22.2     2048 x 16384  35.6 31.8     2048 x 2048   11.9 14.3
// BATCH 8 takes 100 (4096 x 28672). docs/perf-log.md, "Prefill and small batches", lists what was
// tried and left out.
//
// Utilisation: lanes and subgroups beyond the end of K have no columns.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). navi31 with LLVM 15 spills 102
// to 130, so REGISTERS excludes the kernel there. ACO spills none.
//
//! NAME matmul_stationary_subgroup
//! OP matmul
//! VARIANT stationary
//! WHEN phase prefill
//! WHEN columns 8
//! WHEN weight q4_k
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
//! TUNE SETS = K % (128 * SUBGROUP) ? 4 : 8 in 2 4 8
//! TUNE BATCH = 16 in 8 16
//! TUNE WAVES = SETS == 4 ? 2 : 1 in 1 2 3 4 // groups per compute unit
//! LET AHEAD = 4 // rows
//! LET UNITS = SUBGROUP * SETS // of 16 columns, of a group
//! LET HEADS = UNITS / 16 // of scales, of a row
//! LET SLICES = ceildiv(K, 16 * UNITS)
//! LET RANGES = min(256, max(1, WAVES * max(16, COMPUTE_UNITS) / SLICES)) // ARRIVED has 256
//! LET WG_SIZE = SUBGROUP * SETS
//! LET W_WIDTH = 4
//! LET WIDE = POST_glu ? 2 : 1 // rows of a result
//! LOCAL WG_SIZE
//! GROUPS RANGES * SLICES
//! ACTIVE min(RANGES, ceildiv(BAND, 2)) * min(K / 16, UNITS * SLICES)
//! SHARED float parts[2 * BATCH * SETS * COLUMNS]
//! SHARED vec4 scales[2 * BATCH * HEADS * 4] // two batches; [row][pair of groups of 32]
//! SHARED float squares[PRE_norm ? SETS * COLUMNS : 0]
//! SHARED float factor[PRE_norm ? COLUMNS : 0]
//! SHARED uint arrived[SLICES > 1 ? 1 : 0]
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0 && UNITS % 16 == 0 && BATCH * HEADS <= WG_SIZE
//! REQUIRE SLICES == 1 || !PRE_norm && N * SLICES * COLUMNS <= SUM_ROWS * 256
//! REGISTERS 32 * 4 + 16 * AHEAD + 8
//! LET LARGE = K >= 4096 && N >= 4096 // fixed: sizes that were measured
//! PREFER SOFTWARE || COMPUTE_UNITS < 64 ? 0 : LARGE ? 40 : 5 // matmul_columns_subgroup: 30
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB arrival

// Private arrays are kept in registers only if every index is a constant.
#define EACH_TOKEN(F, j) \
    F(0, j) F(1, j) F(2, j) F(3, j) F(4, j) F(5, j) F(6, j) F(7, j)
#define EACH_ROW(F, r) F(0, r) F(1, r) F(2, r) F(3, r)

vec4 x[32];            // [token][16 columns]
float x_sum[4];        // of the group of 32 columns, of the tokens that are kept first
uvec4 codes[AHEAD];    // of rows on their way
uvec4 now[AHEAD];      // of the rows that are multiplied
float sum[8 * AHEAD];  // [row][token]
uvec4 head;            // of the next batch
uint first;            // row of the range
uint k_unit;           // first column of the lane's unit
uint order;            // a lane's token i is token i ^ order

// Sums over the lanes of values of 8 tokens, once those of two neighbours are added up times a
// scale, less a minimum times x_sum: of token `order`. Written out: a loop would not let the
// compiler mix rows.
float over_lanes(float s0, float s1, float s2, float s3, float s4, float s5, float s6, float s7,
                 vec2 scale)
{
    s0 += subgroupShuffleXor(s4, 1u);
    s1 += subgroupShuffleXor(s5, 1u);
    s2 += subgroupShuffleXor(s6, 1u);
    s3 += subgroupShuffleXor(s7, 1u);
    s0 = scale.x * s0 - scale.y * x_sum[0];
    s1 = scale.x * s1 - scale.y * x_sum[1];
    s2 = scale.x * s2 - scale.y * x_sum[2];
    s3 = scale.x * s3 - scale.y * x_sum[3];
    s0 += subgroupShuffleXor(s2, 2u);
    s1 += subgroupShuffleXor(s3, 2u);
    s0 += subgroupShuffleXor(s1, 4u);
#if SUBGROUP >= 16
    s0 += subgroupShuffleXor(s0, 8u);
#endif
#if SUBGROUP >= 32
    s0 += subgroupShuffleXor(s0, 16u);
#endif
#if SUBGROUP >= 64
    s0 += subgroupShuffleXor(s0, 32u);
#endif
#if SUBGROUP >= 128
    s0 += subgroupShuffleXor(s0, 64u);
#endif
    return s0;
}

#define LOAD_X(c, j) \
    at = min(uint(c) ^ order, pass_rows - 1u) * uint(X_STRIDE / 4) + k_unit / 4u; \
    x[4 * (c)] = X[at]; \
    x[4 * (c) + 1] = X[at + 1u]; \
    x[4 * (c) + 2] = X[at + 2u]; \
    x[4 * (c) + 3] = X[at + 3u];
#define CLEAR_X(c, j) \
    x[4 * (c)] = x[4 * (c) + 1] = x[4 * (c) + 2] = x[4 * (c) + 3] = vec4(0.0);
#define SQUARE_X(c, j) \
    part[c] = dot(x[4 * (c)], x[4 * (c)]) + dot(x[4 * (c) + 1], x[4 * (c) + 1]) + \
              dot(x[4 * (c) + 2], x[4 * (c) + 2]) + dot(x[4 * (c) + 3], x[4 * (c) + 3]);
#define WEIGH_X(c, j) \
    x[4 * (c)] *= A[k_unit / 4u]; \
    x[4 * (c) + 1] *= A[k_unit / 4u + 1u]; \
    x[4 * (c) + 2] *= A[k_unit / 4u + 2u]; \
    x[4 * (c) + 3] *= A[k_unit / 4u + 3u];
#define SUM_X(c, j) \
    part[c] = dot(x[4 * (c)] + x[4 * (c) + 1] + x[4 * (c) + 2] + x[4 * (c) + 3], vec4(1.0));
#define SCALE_X(c, j) \
    x[4 * (c)] *= SMALLER; \
    x[4 * (c) + 1] *= SMALLER; \
    x[4 * (c) + 2] *= SMALLER; \
    x[4 * (c) + 3] *= SMALLER;

void load_x(uint set, uint lane, bool inside)
{
    const vec4 SMALLER = vec4(1.0, 1.0 / 256.0, 1.0 / 65536.0, 1.0 / 16777216.0);
    float part[8];
    uint at;
    EACH_TOKEN(LOAD_X, 0)
#if K % (16 * UNITS)
    // The loads have no condition: each would become a branch that waits.
    if (!inside) {
        EACH_TOKEN(CLEAR_X, 0)
    }
#endif
#if PRE_norm
    EACH_TOKEN(SQUARE_X, 0)
    for (int i = 0; i < 4; i++)
        x_sum[i] = 0.0;
    float square = over_lanes(part[0], part[1], part[2], part[3], part[4], part[5], part[6],
                              part[7], vec2(1.0, 0.0));
    if (lane < uint(COLUMNS))
        squares[set * uint(COLUMNS) + order] = square;
    EACH_TOKEN(WEIGH_X, 0)
#endif
    EACH_TOKEN(SUM_X, 0)
    EACH_TOKEN(SCALE_X, 0)
    for (int i = 0; i < 4; i++)
        x_sum[i] = part[i] + subgroupShuffleXor(part[i + 4], 1u);
}

uint row_word(uint row)
{
    return min(first + row, rows - 1u) * uint(W_STRIDE);
}

// The head of scales that an invocation has of the batch from `row` on.
void fetch_head(uint tid, uint slice, uint row)
{
    uint k = (slice * uint(HEADS) + tid % uint(HEADS)) * 256u;
    bool inside = K % (16 * UNITS) == 0 || k < uint(K);
    head = weight_head(row_word(row + tid / uint(HEADS)), inside ? k : 0u);
}

void store_head(uint tid, uint buf)
{
    if (BATCH * HEADS == WG_SIZE || tid < uint(BATCH * HEADS)) {
        for (int i = 0; i < 4; i++)
            scales[(buf * uint(BATCH * HEADS) + tid) * 4u + uint(i)] =
                vec4(weight_scales(head, uint(2 * i)), weight_scales(head, uint(2 * i + 1)));
    }
}

#define FETCH_ROW(i, r) \
    codes[i] = weight_load4(row_word((r) + uint(i)) + k_unit / 32u * 4u);

#define NIBBLES         uvec4(15u, 15u << 8, 15u << 16, 15u << 24)
#define SUM(c, i)       sum[8 * (i) + (c)]
#define FIRST(c, i)     SUM(c, i) = w[0].x * x[4 * (c)].x;
#define MUL(c, i, j, e) SUM(c, i) += w[j].e * x[4 * (c) + (j)].e;
#define MUL_COLUMN(i, j, e) \
    MUL(0, i, j, e) MUL(1, i, j, e) MUL(2, i, j, e) MUL(3, i, j, e) \
    MUL(4, i, j, e) MUL(5, i, j, e) MUL(6, i, j, e) MUL(7, i, j, e)
#define MUL_FOUR(i, j) \
    MUL_COLUMN(i, j, x) MUL_COLUMN(i, j, y) MUL_COLUMN(i, j, z) MUL_COLUMN(i, j, w)

// Multiplies row i of the current rows, and stores the subgroup's sums in `parts`.
#define MULTIPLY_ROW(i, r) \
    w[0] = vec4(now[i].x & NIBBLES); \
    w[1] = vec4(now[i].y & NIBBLES); \
    w[2] = vec4(now[i].z & NIBBLES); \
    w[3] = vec4(now[i].w & NIBBLES); \
    EACH_TOKEN(FIRST, i) \
    MUL_COLUMN(i, 0, y) MUL_COLUMN(i, 0, z) MUL_COLUMN(i, 0, w) \
    MUL_FOUR(i, 1) MUL_FOUR(i, 2) MUL_FOUR(i, 3) \
    two = scales[scale + uint((i) * HEADS * 4)]; \
    y = over_lanes(SUM(0, i), SUM(1, i), SUM(2, i), SUM(3, i), SUM(4, i), SUM(5, i), SUM(6, i), \
                   SUM(7, i), (tid & 2u) == 0u ? two.xy : two.zw); \
    if (lane < uint(COLUMNS)) \
        parts[to + uint((i) * COLUMNS)] = y;

// Returns the number in Y for post=add, else 0.
float old(uint row, uint t)
{
#if POST_add
    return Y[min(t, pass_rows - 1u) * uint(Y_STRIDE) + row0 + row];
#else
    return 0.0;
#endif
}

// Stores the result of a row, or with post=glu of this row and the next.
void store(uint row, uint t, vec2 y, float before)
{
    if (t >= pass_rows)
        return;
#if POST_glu
    Y[t * uint(Y_STRIDE) + (row0 + row) / 2u] = glu(y.x, y.y, row0 + row);
#else
    Y[t * uint(Y_STRIDE) + row0 + row] = result(y.x, row0 + row) + before;
#endif
}

// Adds up the subgroups' parts of a batch of rows, of which `left` are rows of the range.
void add_up(uint tid, uint buf, uint slice, uint row1, uint left)
{
    for (uint i = tid; i < uint(BATCH / WIDE * COLUMNS); i += uint(WG_SIZE)) {
        uint r = i / uint(COLUMNS) * uint(WIDE), t = i % uint(COLUMNS);
        uint at = (buf * uint(SETS * BATCH) + r) * uint(COLUMNS) + t;
        vec2 y = vec2(0.0);
        for (int s = 0; s < SETS; s++) {
            y.x += parts[at];
#if POST_glu
            y.y += parts[at + uint(COLUMNS)];
#endif
            at += uint(BATCH * COLUMNS);
        }
#if PRE_norm
        y *= factor[t];
#endif
        if (r < left) {
#if SLICES == 1
            store(row1 + r, t, y, old(row1 + r, t));
#else
            at = (slice * uint(COLUMNS) + t) * rows + row1 + r;
            SUMS[at] = y.x;
#if POST_glu
            SUMS[at + 1u] = y.y;
#endif
#endif
        }
    }
}

#if SLICES > 1
// Adds up the slices' sums of `count` rows. An invocation loads four results at a time, because
// later loads would wait for earlier stores.
void join(uint tid, uint count)
{
    uint per = count / uint(WIDE), items = per * uint(COLUMNS);
    for (uint i = tid; i < items; i += 4u * uint(WG_SIZE)) {
        vec2 y[4];
        float before[4];
        for (int j = 0; j < 4; j++) {
            uint item = min(i + uint(j * WG_SIZE), items - 1u);
            uint row = first + item % per * uint(WIDE), t = item / per;
            y[j] = vec2(0.0);
            for (int s = 0; s < SLICES; s++) {
                uint at = (uint(s * COLUMNS) + t) * rows + row;
                y[j].x += SUMS[at];
#if POST_glu
                y[j].y += SUMS[at + 1u];
#endif
            }
            before[j] = old(row, t);
        }
        for (int j = 0; j < 4; j++) {
            uint item = i + uint(j * WG_SIZE);
            if (item < items)
                store(first + item % per * uint(WIDE), item / per, y[j], before[j]);
        }
    }
}
#endif

void body(uvec3 group)
{
    uint lane = gl_SubgroupInvocationID, set = gl_SubgroupID;
    uint tid = set * uint(SUBGROUP) + lane, slice = group.x % uint(SLICES);
    uint range = group.x / uint(SLICES), pairs = (rows + 1u) / 2u, buf = 0u;
    uint unit = slice * uint(UNITS) + tid, shift = (tid & 1u) * 4u;
    bool inside = unit < uint(K / 16);
    vec4 w[4], two;
    float y;
    if (range >= uint(RANGES))
        return; // the whole group
    first = range * pairs / uint(RANGES) * 2u;
    uint count = min((range + 1u) * pairs / uint(RANGES) * 2u, rows) - first;
    order = (lane & 1u) << 2 | (lane & 2u) | (lane >> 2 & 1u);
    k_unit = inside ? 16u * unit : 0u;
    fetch_head(tid, slice, 0u);
    EACH_ROW(FETCH_ROW, 0u)
    load_x(set, lane, inside);
    store_head(tid, 0u);
    fetch_head(tid, slice, uint(BATCH));
    memoryBarrierShared(); barrier();
#if PRE_norm
    if (tid < uint(COLUMNS)) { // others read it behind the next barrier
        float square = 0.0;
        for (int s = 0; s < SETS; s++)
            square += squares[uint(s * COLUMNS) + tid];
        factor[tid] = inversesqrt(square / float(K) + eps);
    }
#endif
    for (uint r0 = 0u; r0 < count; r0 += uint(BATCH)) {
        uint to = (buf * uint(SETS) + set) * uint(BATCH * COLUMNS) + order;
        uint scale = buf * uint(BATCH * HEADS * 4) + tid / 4u;
        store_head(tid, 1u - buf);
        for (uint r = r0; r < r0 + uint(BATCH); r += uint(AHEAD)) {
            for (int i = 0; i < AHEAD; i++)
                now[i] = codes[i] >> shift;
            EACH_ROW(FETCH_ROW, r + uint(AHEAD))
            // This is placed here because NVIDIA's compiler waits for all pending loads where it
            // waits for these.
            if (r == r0)
                fetch_head(tid, slice, r0 + uint(2 * BATCH));
            EACH_ROW(MULTIPLY_ROW, r)
            to += uint(AHEAD * COLUMNS);
            scale += uint(AHEAD * HEADS * 4);
        }
        memoryBarrierShared(); barrier();
        add_up(tid, buf, slice, first + r0, count - r0);
        buf = 1u - buf;
    }
#if SLICES > 1
    memoryBarrierBuffer(); barrier();
    if (tid == 0u)
        arrived[0] = arrive(range, uint(SLICES));
    memoryBarrierShared(); barrier();
    memoryBarrierBuffer();
    if (arrived[0] == uint(SLICES - 1))
        join(tid, count);
#endif
}
