// Matrix product for 16 and 32 tokens with subgroups, q4_k: codes and x are in shared memory.
//
// Y[t, n] = sum_k X[t, k] W[n, k] for COLUMNS tokens. W is a band of N rows of q4_k in its packed
// layout, X is [T][X_STRIDE] and Y is [T][Y_STRIDE] in f32. COLUMNS counts tokens; "columns of K"
// are columns of W.
//
// Layout: a subgroup computes ROWS rows for all tokens. Its lanes form a grid of LANES_N along the
// rows and LANES_T along the tokens. Each lane has THREAD_ROWS x THREAD_COLUMNS results in
// registers. Each of the K_PARTS subgroups of a group processes every K_PARTS-th block of 32
// columns of K. A lane fetches codes and scales of its rows and vec4s of X ahead. It unpacks codes
// to registers, THREAD_ROWS rows by 4 columns of K at a time, and multiplies them with
// THREAD_COLUMNS vec4s of X. With 8 x 16 results per lane, it loads about half as much from shared
// memory per multiply-add as a kernel with unpacked weights there and 8 x 8 results.
//
// Work group x covers the rows. If there are fewer row tiles than compute units, K is cut into
// SPLITS parts. The last group of a tile adds up the parts in a fixed order. So the result depends
// neither on timing nor on the number of tokens (as in lib matmul_tile). The K_PARTS sums of a
// group are added up in rounds of ROUND tokens.
//
// Choice: PREFER is 35 for 16 tokens (matmul_strips_subgroup has 36 on large GPUs). For 32
// tokens it is 29 for sizes that were faster (LONG), and 10 otherwise. matmul_outer has 28,
// matmul_columns_subgroup 15 or 30. On software renderers and on devices with fewer than 32
// compute units PREFER is 0.
//
// TUNEs: THREAD_ROWS and THREAD_COLUMNS set the results per lane: more results reuse loads, but
// need more registers. More K_PARTS fill a device that has few row tiles. CUT is the number of
// parts of K: 0 does not cut, and 1 cuts into as many parts as fill the device. SUBGROUP is always
// the device's SUBGROUP_SIZE.
//
// Times of single products in whole steps of Llama 3.2 1B with 32 tokens (one H200, driver 580,
// 2026-11-23), in us. Each includes about 8 us for the timer. The first number is
// matmul_prefill_wide, the second this kernel (for matmul_outer see docs/perf-log.md):
//     2048 x 16384    95.9   85.7     2048 x 3072     31.4   38.5
//     8192 x 2048     71.1   56.5     2048 x 128256    640    551
//     2048 x 2048     28.5   31.7
// 16 tokens by `kernels bench`, in us: matmul_columns_subgroup, matmul_prefill_wide, and this
// kernel with THREAD_ROWS 4:
//     2048 x 16384    67.9   96.7   56.7     4096 x 28672   237   298   181 (K_PARTS 4: 164)
//     8192 x 2048     64.2   69.7   35.7     14336 x 4096   134   210    94
//     2048 x 2048     20.6   25.6   18.7     4096 x 4096     42    68    36
//     2048 x 3072     25.4   30.7   23.4
// K_PARTS is 4 if there are more than 192 (16 tokens) or 320 (32 tokens) rows per compute unit.
// With 32 tokens, 2048 x 16384 takes 86 us with K_PARTS 8 and 96 with K_PARTS 4. 2048 x 128256
// takes 595 us with K_PARTS 8 and 551 with K_PARTS 4. With 8 x 8 results per lane, 2048 x 16384
// takes 101 us. With subgroupBarrier() instead of barrier() it takes 93 us, because that driver
// compiles subgroupBarrier() to a fence for the whole device.
//
// Utilisation: the few rows of a router fill only a part of one tile, so most lanes are idle. A
// router is a small part of the work.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). With LLVM 15 navi21 spills 32 to
// 131 registers and navi31 328 to 468, so the kernel is not chosen there. ACO on polaris12 and
// vega10 spills none.
//
//! NAME matmul_lanes_subgroup
//! OP matmul
//! VARIANT lanes
//! WHEN phase prefill
//! WHEN columns 16 32
//! WHEN weight q4_k
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
//! CONST N K COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SUM_ROWS = 0
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE THREAD_ROWS = COLUMNS == 16 ? 4 : 8 in 4 8
//! TUNE THREAD_COLUMNS = 16 in 8 16
//! TUNE K_PARTS = SOFTWARE ? 2 : N > (COLUMNS * 8 + 64) * COMPUTE_UNITS ? 4 : 8 in 1 2 4 8
//! TUNE CUT = 1 in 0 1 2 4 8 // 1: as many parts as fill the device
//! LET WG_SIZE = SUBGROUP * K_PARTS
//! LET LANES_T = COLUMNS / THREAD_COLUMNS
//! LET LANES_N = max(1, SUBGROUP / LANES_T)
//! LET ROWS = LANES_N * THREAD_ROWS
//! LET ROW_LOADS = max(1, ROWS / SUBGROUP)
//! LET X_STEP = COLUMNS + 2 // vec4s of four columns of K
//! LET X_LOADS = COLUMNS * 4 / SUBGROUP
//! LET ROUND = max(LANES_T, min(COLUMNS, ROWS > 64 ? 4 : 16)) // columns
//! LET KEPT = max(4 * X_STEP, ROUND * ROWS / 4)
//! LET MOST = min(K / 32 / K_PARTS, SUM_ROWS * 256 / COLUMNS / N)
//! LET SPLITS = max(1, min(MOST, CUT > 1 ? CUT : CUT * COMPUTE_UNITS / ceildiv(N, ROWS)))
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, ROWS) * SPLITS 1
//! SHARED vec4 kept[K_PARTS * KEPT]
//! SHARED uint codes[K_PARTS * 4 * ROWS]
//! SHARED float scale[K_PARTS * ROWS]
//! SHARED float least[K_PARTS * ROWS]
//! LET SUM_VECS = COLUMNS * ROWS / 4 // of a part of a tile
//! SHARED uint arrived[SPLITS > 1 ? 1 : 0]
//! EXTENSION GL_KHR_shader_subgroup_basic
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8 && LANES_T <= SUBGROUP
//! REQUIRE ROWS % SUBGROUP == 0 && ROUND % LANES_T == 0 && COLUMNS * 4 % SUBGROUP == 0
//! REQUIRE W_STRIDE % 4 == 0 && K % 16 == 0
//! REGISTERS THREAD_ROWS * THREAD_COLUMNS + 72
//! LET LONG = N > 64 * COMPUTE_UNITS || K > 4096 && N <= 32 * COMPUTE_UNITS
//! LET RANK = COLUMNS == 16 ? 35 : LONG ? 29 : 10 // matmul_outer: 28, matmul_columns_subgroup: 30
//! PREFER SOFTWARE || COMPUTE_UNITS < 32 ? 0 : RANK
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB activations
//! LIB matmul_result
//! LIB arrival

// Private arrays are kept in registers only if every index is a constant, and compilers may leave
// loops rolled.
#define TIMES_1(F, i, a)  F((i), a)
#define TIMES_2(F, i, a)  TIMES_1(F, i, a) TIMES_1(F, (i) + 1, a)
#define TIMES_4(F, i, a)  TIMES_2(F, i, a) TIMES_2(F, (i) + 2, a)
#define TIMES_8(F, i, a)  TIMES_4(F, i, a) TIMES_4(F, (i) + 4, a)
#define TIMES_16(F, i, a) TIMES_8(F, i, a) TIMES_8(F, (i) + 8, a)
#define TIMES_32(F, i, a) TIMES_16(F, i, a) TIMES_16(F, (i) + 16, a)
#define ROW_QUADS (THREAD_ROWS / 4)
#if THREAD_ROWS == 4
#define EACH_QUAD(F, a) F(0, a)
#else
#define EACH_QUAD(F, a) F(0, a) F(1, a)
#endif
#if THREAD_COLUMNS == 8
#define EACH_COLUMN(F, a) TIMES_8(F, 0, a)
#else
#define EACH_COLUMN(F, a) TIMES_16(F, 0, a)
#endif
#if X_LOADS == 1
#define EACH_LOAD(F, a) TIMES_1(F, 0, a)
#elif X_LOADS == 2
#define EACH_LOAD(F, a) TIMES_2(F, 0, a)
#elif X_LOADS == 4
#define EACH_LOAD(F, a) TIMES_4(F, 0, a)
#elif X_LOADS == 8
#define EACH_LOAD(F, a) TIMES_8(F, 0, a)
#elif X_LOADS == 16
#define EACH_LOAD(F, a) TIMES_16(F, 0, a)
#else
#define EACH_LOAD(F, a) TIMES_32(F, 0, a)
#endif
#if ROW_LOADS == 1
#define EACH_FETCH(F, a) TIMES_1(F, 0, a)
#elif ROW_LOADS == 2
#define EACH_FETCH(F, a) TIMES_2(F, 0, a)
#elif ROW_LOADS == 4
#define EACH_FETCH(F, a) TIMES_4(F, 0, a)
#else
#define EACH_FETCH(F, a) TIMES_8(F, 0, a)
#endif

uint k_end;                            // of the group's part of K
uint row_at[ROW_LOADS];                // words of W
uint x_at[X_LOADS];                    // elements of X
uvec4 next[ROW_LOADS], head[ROW_LOADS];
vec4 next_x[X_LOADS];
vec4 acc[ROW_QUADS * THREAD_COLUMNS];  // [column][rows]

#define FETCH_ROW(i, a) \
    next[i] = weight_load4(row_at[i] + k / 8u); \
    head[i] = weight_head(row_at[i], k);
#define FETCH_X(n, a) \
    next_x[n] = k + lane % 4u * 4u < k_end ? X[x_at[n] + k / 4u] : vec4(0.0);
#define STORE_X(n, a) \
    kept[base + lane % 4u * uint(X_STEP) + (lane + uint((n) * SUBGROUP)) / 4u] = next_x[n];
#define STORE_ROW(i, a) \
    two = weight_scales(head[i], k / 32u & 7u); \
    to = lane + uint((i) * SUBGROUP); \
    scale[part * uint(ROWS) + to] = two.x; \
    least[part * uint(ROWS) + to] = two.y; \
    to += part * uint(4 * ROWS); \
    codes[to] = next[i].x; \
    codes[to + uint(ROWS)] = next[i].y; \
    codes[to + uint(2 * ROWS)] = next[i].z; \
    codes[to + uint(3 * ROWS)] = next[i].w;

void fetch_w(uint k)
{
    k = k < k_end ? k : 0u;
    EACH_FETCH(FETCH_ROW, 0)
}

void fetch_x(uint lane, uint k)
{
    EACH_LOAD(FETCH_X, 0)
}

void store_x(uint lane, uint base)
{
    EACH_LOAD(STORE_X, 0)
}

void store_w(uint lane, uint part, uint k)
{
    vec2 two;
    uint to;
    EACH_FETCH(STORE_ROW, 0)
}

#define SCALE_QUAD(h, a) \
    at = part * uint(ROWS) + (uint((h) * LANES_N) + place.x) * 4u; \
    s[h] = vec4(scale[at], scale[at + 1u], scale[at + 2u], scale[at + 3u]); \
    m[h] = vec4(least[at], least[at + 1u], least[at + 2u], least[at + 3u]);
#define DECODE_QUAD(h, a) \
    at = code + uint((h) * 4 * LANES_N); \
    q = uvec4(codes[at], codes[at + 1u], codes[at + 2u], codes[at + 3u]) >> shift & 0x0f0f0f0fu; \
    w0[h] = s[h] * vec4(q & 255u) - m[h]; \
    w1[h] = s[h] * vec4(q >> 8 & 255u) - m[h]; \
    w2[h] = s[h] * vec4(q >> 16 & 255u) - m[h]; \
    w3[h] = s[h] * vec4(q >> 24) - m[h];
#define MULTIPLY_X(h, c) acc[(c) * ROW_QUADS + (h)] += w0[h] * x.x;
#define MULTIPLY_Y(h, c) acc[(c) * ROW_QUADS + (h)] += w1[h] * x.y;
#define MULTIPLY_Z(h, c) acc[(c) * ROW_QUADS + (h)] += w2[h] * x.z;
#define MULTIPLY_W(h, c) acc[(c) * ROW_QUADS + (h)] += w3[h] * x.w;
#define MULTIPLY_COLUMN(c, a) \
    x = kept[from + uint((c) * LANES_T)]; \
    EACH_QUAD(MULTIPLY_X, c) \
    EACH_QUAD(MULTIPLY_Y, c) \
    EACH_QUAD(MULTIPLY_Z, c) \
    EACH_QUAD(MULTIPLY_W, c)

// Multiplies 16 columns of K: the low or the high nibbles of the codes.
void multiply(uvec2 place, uint part, uint shift)
{
    vec4 s[ROW_QUADS], m[ROW_QUADS], w0[ROW_QUADS], w1[ROW_QUADS], w2[ROW_QUADS], w3[ROW_QUADS], x;
    uint at, code = part * uint(4 * ROWS) + place.x * 4u, from = part * uint(KEPT) + place.y;
    uvec4 q;
    EACH_QUAD(SCALE_QUAD, 0)
    for (uint i = 0u; i < 4u; i++) {
        EACH_QUAD(DECODE_QUAD, 0)
        EACH_COLUMN(MULTIPLY_COLUMN, 0)
        code += uint(ROWS);
        from += uint(X_STEP);
    }
}

#define ROW_AT(i, a) \
    row_at[i] = min(first + lane + uint((i) * SUBGROUP), rows - 1u) * uint(W_STRIDE);
#define X_AT(n, a) \
    x_at[n] = min((lane + uint((n) * SUBGROUP)) / 4u, pass_rows - 1u) * uint(X_STRIDE / 4) + \
        lane % 4u;
#define ZERO_QUAD(h, c)   acc[(c) * ROW_QUADS + (h)] = vec4(0.0);
#define ZERO_COLUMN(c, a) EACH_QUAD(ZERO_QUAD, c)

// The sums of the K_PARTS subgroups are added up in shared memory, ROUND tokens at a time.
#define PUT_QUAD(h, c) \
    kept[base + (uint((c) * LANES_T % ROUND) + place.y) * uint(ROWS / 4) + \
         uint((h) * LANES_N) + place.x] = acc[(c) * ROW_QUADS + (h)];
#define PUT_COLUMN(c, c0) \
    if (uint((c) * LANES_T / ROUND) == round) { \
        EACH_QUAD(PUT_QUAD, c) \
    }

void store(uint t, uint row, vec4 y)
{
    uint to = t * uint(Y_STRIDE) + row0 + row;
#if POST_glu
    to = t * uint(Y_STRIDE) + (row0 + row) / 2u;
    if (row < rows)
        Y[to] = glu(y.x, y.y, row0 + row);
    if (row + 2u < rows)
        Y[to + 1u] = glu(y.z, y.w, row0 + row + 2u);
#else
    y = vec4(result(y.x, row0 + row), result(y.y, row0 + row + 1u), result(y.z, row0 + row + 2u),
             result(y.w, row0 + row + 3u));
#if POST_add
#define PUT(i, e) if (row + uint(i) < rows) Y[to + uint(i)] += y.e;
#else
#define PUT(i, e) if (row + uint(i) < rows) Y[to + uint(i)] = y.e;
#endif
    PUT(0, x)
    PUT(1, y)
    PUT(2, z)
    PUT(3, w)
#endif
}

void body(uvec3 group)
{
    const uint BLOCKS = uint((K + 31) / 32);
    uint lane = gl_SubgroupInvocationID, part = gl_SubgroupID;
    uint tid = part * uint(SUBGROUP) + lane, base = part * uint(KEPT);
    uint row_tiles = (rows + uint(ROWS - 1)) / uint(ROWS), split = group.x / row_tiles;
    uint tile = group.x % row_tiles, first = tile * uint(ROWS), sums = 0u;
    uint begin = 0u, end = BLOCKS;
    uvec2 place = uvec2(lane / uint(LANES_T), lane % uint(LANES_T));
    bool cut = false;
#if SPLITS > 1
    cut = row_tiles <= uint(ARRIVED.length()) &&
          row_tiles * uint(SPLITS * SUM_VECS) <= uint(SUMS.length());
#endif
    if (split >= (cut ? uint(SPLITS) : 1u))
        return; // the whole group
    if (cut) {
        begin = split * BLOCKS / uint(SPLITS);
        end = (split + 1u) * BLOCKS / uint(SPLITS);
        sums = (tile * uint(SPLITS) + split) * uint(SUM_VECS);
    }
    k_end = min(end * 32u, uint(K));
    EACH_FETCH(ROW_AT, 0)
    EACH_LOAD(X_AT, 0)
    EACH_COLUMN(ZERO_COLUMN, 0)
    uint k = (begin + part) * 32u;
    fetch_w(k);
    fetch_x(lane, k);
    for (uint step = begin; step < end; step += uint(K_PARTS)) {
        store_w(lane, part, k);
        store_x(lane, base);
        fetch_x(lane, k + 16u);
        fetch_w(k + uint(32 * K_PARTS));
        memoryBarrierShared(); barrier();
        multiply(place, part, 0u);
        barrier();
        store_x(lane, base);
        k += uint(32 * K_PARTS);
        fetch_x(lane, k);
        memoryBarrierShared(); barrier();
        multiply(place, part, 4u);
        barrier();
    }
    for (uint round = 0u; round < uint(COLUMNS / ROUND); round++) {
        memoryBarrierShared(); barrier();
        EACH_COLUMN(PUT_COLUMN, 0)
        memoryBarrierShared(); barrier();
        for (uint i = tid; i < uint(ROUND * ROWS / 4); i += uint(WG_SIZE)) {
            uint t = round * uint(ROUND) + i / uint(ROWS / 4);
            vec4 y = kept[i];
            for (uint p = 1u; p < uint(K_PARTS); p++)
                y += kept[i + p * uint(KEPT)];
#if SPLITS > 1
            if (cut)
                SUMS[sums + round * uint(ROUND * ROWS / 4) + i] = y;
            else
#endif
            if (t < pass_rows)
                store(t, first + i % uint(ROWS / 4) * 4u, y);
        }
    }
#if SPLITS > 1
    if (cut) {
        memoryBarrierBuffer(); barrier();
        if (tid == 0u)
            arrived[0] = arrive(tile, uint(SPLITS));
        memoryBarrierShared(); barrier();
        memoryBarrierBuffer();
        if (arrived[0] == uint(SPLITS - 1)) {
            sums = tile * uint(SPLITS * SUM_VECS);
            for (uint i = tid; i < uint(COLUMNS * ROWS / 4); i += uint(WG_SIZE)) {
                uint t = i / uint(ROWS / 4);
                vec4 y = vec4(0.0);
                for (uint s = 0u; s < uint(SPLITS); s++)
                    y += SUMS[sums + s * uint(SUM_VECS) + i];
                if (t < pass_rows)
                    store(t, first + i % uint(ROWS / 4) * 4u, y);
            }
        }
    }
#endif
}
