// Matrix product for few columns with subgroups: each weight is unpacked once for TOKENS columns,
// at most 8, and scales are applied once per 32 columns of K.
//
// A subgroup has a strip of LANES_N * THREAD_ROWS rows: LANES_N lanes are side by side along the
// rows, LANES_K along K. A lane has THREAD_ROWS rows, all columns, and a unit of 32 columns of K at
// a time. Lib weight_*_subgroup unpacks half a unit at a time as codes. Each code is multiplied by
// all columns of x, which are in shared memory. The sums of a unit are multiplied by its scale. Its
// minimum, and the code of weight 0, are multiplied by the sum of the unit's x, which is computed
// once when x is staged. Lanes that are side by side along the rows read the same x.
//
// K_PARTS subgroups share a strip along K, and a set is ROW_SETS strips; other subgroups only stage
// x. There is one group per set, but at most GROUPS_MOST. Strips are shared out evenly, and a group
// computes its sets one after the other. A slice is LANES_K units; SLICES of them fit into shared
// memory. If all of x fits, it is staged once; otherwise CHUNK_STEPS steps of K are staged at a
// time, for every set again.
//
// The next weights are loaded while the present ones are multiplied. With pre=norm x is staged
// times the norm's weight, and the norm's factor of a token is applied to its sums.
//
// With HALVES, codes and x are 16-bit floats, and two columns are one f16vec2. Products of a unit
// (or of half a unit, if halves have their own scales) are summed in f16. These sums are added in
// f32. x is multiplied by X_SCALE. With a norm, x is rounded before the norm's factor is known. So
// each token is scaled by a power of two, by which the largest element of a sample of 4 * SUBGROUP
// columns becomes 1/32 to 1/16.
//
//! LET LANES_N = STRIP / THREAD_ROWS
//! LET LANES_K = SUBGROUP / LANES_N
//! LET VALUES = THREAD_ROWS * TOKENS // of a lane
//! LET VECS = max(1, TOKENS / 4) // of all columns; two are one vec2
//! LET DOTS = HALVES ? TOKENS / 2 : VECS // sums of a row and a unit
//! LET OWN_VALUES = max(1, VALUES / LANES_K) // after they are added up
//! LET ROWS = ROW_SETS * STRIP
//! LET UNIT_STRIDE = 8 * TOKENS / (HALVES + 1) + 1 // vec4s of x; odd: units on different banks
//! LET LEFT = SHARED_BYTES - 4 * TOKENS * (STRIP * SUBGROUPS + SUBGROUPS + 1 + HALVES)
//! LET SLICES = max(1, LEFT / ((16 * UNIT_STRIDE + 8 * TOKENS) * LANES_K)) // that fit
//! LET K_MOST = min(SUBGROUPS / ROW_SETS, min(SLICES, ceildiv(K, 32 * LANES_K)))
//! LET K_PARTS = K_MOST >= 8 ? 8 : K_MOST >= 4 ? 4 : K_MOST >= 2 ? 2 : 1
//! LET STEP = K_PARTS * LANES_K // units
//! LET STEPS = ceildiv(K, 32 * STEP)
//! LET CHUNK_STEPS = ceildiv(STEPS, ceildiv(STEPS, SLICES / K_PARTS))
//! LET STAGE_VECS = 8 * CHUNK_STEPS * STEP // of a column
//! LET STAGE_LOADS = ceildiv(STAGE_VECS, WG_SIZE)
//! SHARED vec4 xs[CHUNK_STEPS * STEP * UNIT_STRIDE]
//! SHARED float xsum[CHUNK_STEPS * STEP * 2 * TOKENS]
//! SHARED float part[K_PARTS * ROWS * TOKENS]
//! SHARED float squares[PRE_norm ? TOKENS * SUBGROUPS : 0]
//! SHARED float factor[PRE_norm ? TOKENS : 0]
//! SHARED float x_scale[PRE_norm && HALVES ? TOKENS : 0]
// Needs libs weight_*_subgroup and matmul_result, STEP read, the parameters row0, rows and eps, the
// constants K, W_STRIDE, X_STRIDE and Y_STRIDE, WHEN pre and post, the tunables SUBGROUP, SUBGROUPS
// and THREAD_ROWS, the LETs WG_SIZE, HALVES, STRIP (rows), ROW_SETS and GROUPS_MOST.

// Private arrays stay in registers only if every index is a constant. A compiler may keep loops, so
// loops over rows are written out.
#if THREAD_ROWS == 1
#define EACH_ROW(F, i) F(0, i)
#elif THREAD_ROWS == 2
#define EACH_ROW(F, i) F(0, i) F(1, i)
#elif THREAD_ROWS == 4
#define EACH_ROW(F, i) F(0, i) F(1, i) F(2, i) F(3, i)
#else
#define EACH_ROW(F, i) F(0, i) F(1, i) F(2, i) F(3, i) F(4, i) F(5, i) F(6, i) F(7, i)
#endif

// The columns of x as vectors.
#if TOKENS == 2
#define COLUMN_VEC vec2
#else
#define COLUMN_VEC vec4
#endif

uint strip_lane, strip_k, strip_n;  // the lane; the subgroup's place along K, and among strips
uint strip_first, strip_end;        // strips of the group
uint strip_token;                   // its first column
uint next[THREAD_ROWS * LANE_RAW];  // weights under way
float fold[TOKENS];

#define HAS_STRIP (K_PARTS * ROW_SETS == SUBGROUPS || strip_n < uint(ROW_SETS))

// Loads the lane's part of a strip for step `step` of K into `next`.
void strips_fetch(uint strip, uint step, uint zero)
{
    uint unit = step * uint(STEP) + strip_k * uint(LANES_K);
    uint row = strip * uint(STRIP) + strip_lane % uint(LANES_N);
    lane_begin(unit, strip_lane / uint(LANES_N), uint(LANES_K), zero);
    for (int r = 0; r < THREAD_ROWS; r++) {
        uint raw[LANE_RAW];
        lane_fetch(min(row + uint(r * LANES_N), rows - 1u) * uint(W_STRIDE / 4), raw);
        for (int j = 0; j < LANE_RAW; j++)
            next[r * LANE_RAW + j] = raw[j];
    }
}

// Call from begin(). Selects the group's strips and starts loading the first weights.
void strips_begin(uvec3 group)
{
    uint strips = (rows + uint(STRIP - 1)) / uint(STRIP);
    uint groups = min((strips + uint(ROW_SETS - 1)) / uint(ROW_SETS), uint(GROUPS_MOST));
    strip_lane = gl_SubgroupInvocationID;
    strip_k = gl_SubgroupID % uint(K_PARTS);
    strip_n = gl_SubgroupID / uint(K_PARTS);
    strip_token = group.y * uint(TOKENS);
    strip_first = 0u;
    strip_end = 0u;
    if (group.x < groups) {
        strip_first = group.x * strips / groups;
        strip_end = (group.x + 1u) * strips / groups;
        if (HAS_STRIP)
            strips_fetch(min(strip_first + strip_n, strip_end - 1u), 0u, rows >> 31);
    }
}

// Sums fold[] over four neighbouring lanes. Each exchange passes half of the values to the other
// lane. A last value is added to that of the other lane, and both lanes keep the sum. At the end a
// lane has max(1, TOKENS / 4) sums, from column fold_column() on.
void fold_quad()
{
    bool upper = (strip_lane & 1u) != 0u;
    for (int i = 0; i < TOKENS / 2; i++) {
        float give = upper ? fold[i] : fold[i + TOKENS / 2];
        fold[i] = (upper ? fold[i + TOKENS / 2] : fold[i]) + subgroupShuffleXor(give, 1u);
    }
#if TOKENS >= 4
    upper = (strip_lane & 2u) != 0u;
    for (int i = 0; i < TOKENS / 4; i++) {
        float give = upper ? fold[i] : fold[i + TOKENS / 4];
        fold[i] = (upper ? fold[i + TOKENS / 4] : fold[i]) + subgroupShuffleXor(give, 2u);
    }
#else
    fold[0] += subgroupShuffleXor(fold[0], 2u);
#endif
}

uint fold_column()
{
    return (strip_lane & 1u) * uint(TOKENS / 2) + (strip_lane / 2u & 1u) * uint(TOKENS / 4);
}

// Continues fold_quad() over eight lanes. Then a lane has one sum, of column fold_column() +
// fold_half().
void fold_octet()
{
#if TOKENS == 8
    bool upper = (strip_lane & 4u) != 0u;
    float give = upper ? fold[0] : fold[1];
    fold[0] = (upper ? fold[1] : fold[0]) + subgroupShuffleXor(give, 4u);
#else
    fold[0] += subgroupShuffleXor(fold[0], 4u);
#endif
}

uint fold_half()
{
    return TOKENS == 8 ? strip_lane / 4u & 1u : 0u;
}

// CENTRE is the code of weight 0, or 0 if LANE_CODES() already subtracts it. FIRST_DOT(j) is the
// initial value of a unit's sum.
#if HALVES
#define CENTRE       0.0
#define FIRST_DOT(j) f16vec2(0.0)
#else
#define CENTRE       LANE_CENTRE
#define FIRST_DOT(j) -LANE_CENTRE * sum[j]
#endif

#if HALVES && PRE_norm
// Computes the scales of the tokens from a sample of x.
void strips_scale_x()
{
    uint v = strip_lane * uint(K / 4) / uint(SUBGROUP);
    vec4 gain = A[v];
    for (uint c = gl_SubgroupID; c < uint(TOKENS); c += uint(SUBGROUPS)) {
        vec4 x = abs(X[min(strip_token + c, pass_rows - 1u) * uint(X_STRIDE / 4) + v] * gain);
        float most = max(max(x.x, x.y), max(x.z, x.w));
        for (uint across = 1u; across < uint(SUBGROUP); across *= 2u)
            most = max(most, subgroupShuffleXor(most, across));
        uint exponent = clamp(floatBitsToUint(most) >> 23, 67u, 187u);
        if (strip_lane == 0u)
            x_scale[c] = uintBitsToFloat((249u - exponent) << 23);
    }
}
#endif

// The scale by which x of column c is multiplied before it is rounded.
#if !HALVES
#define X_SCALE(c) 1.0
#elif PRE_norm
#define X_SCALE(c) x_scale[c]
#else
#define X_SCALE(c) 0.015625 // room for sums of codes
#endif

// Puts a chunk of x, from step `step` on, into shared memory: xs[unit][element of a part][part],
// with the columns of x side by side. `square` is this lane's share of the squares of column
// fold_column() + fold_half().
void strips_stage(uint tid, uint step, inout float square)
{
    for (int n = 0; n < STAGE_LOADS; n++) {
        uint at = tid + uint(n * WG_SIZE), unit = at / 8u, i = at & 7u;
        uint v = 8u * (step * uint(STEP) + unit / uint(LANES_K) * uint(LANES_K)) +
                 lane_vec4(unit % uint(LANES_K), i, uint(LANES_K));
        bool inside = v < uint(K / 4) && at < uint(STAGE_VECS);
        v = min(v, uint(K / 4 - 1));
        vec4 x[TOKENS];
        for (int c = 0; c < TOKENS; c++)
            x[c] = X[min(strip_token + uint(c), pass_rows - 1u) * uint(X_STRIDE / 4) + v];
#if PRE_norm
        vec4 gain = A[v];
#endif
        for (int c = 0; c < TOKENS; c++)
            x[c] = inside ? x[c] : vec4(0.0);
#if PRE_norm
        for (int c = 0; c < TOKENS; c++) {
            fold[c] = dot(x[c], x[c]);
            x[c] *= gain;
        }
        fold_quad();
        fold_octet();
        for (uint across = 8u; across < uint(SUBGROUP); across *= 2u)
            fold[0] += subgroupShuffleXor(fold[0], across);
        square += fold[0];
#endif
#if HALVES
        for (int c = 0; c < TOKENS; c++)
            x[c] *= X_SCALE(c);
#endif
        if (CENTRE != 0.0 || LANE_MINIMUM) {
            for (int c = 0; c < TOKENS; c++)
                fold[c] = (x[c].x + x[c].y) + (x[c].z + x[c].w);
            fold_quad();
            uint to = unit * uint(LANE_GROUPS * TOKENS) + fold_column();
            if (LANE_GROUPS == 1) {
                fold_octet();
                if (at < uint(STAGE_VECS))
                    xsum[to + fold_half()] = fold[0];
            } else if (at < uint(STAGE_VECS)) {
                to += i / 4u * uint(TOKENS);
                xsum[to] = fold[0];
#if TOKENS == 8
                xsum[to + 1u] = fold[1];
#endif
            }
        }
        if (at < uint(STAGE_VECS)) {
            uint to = unit * uint(UNIT_STRIDE) + i;
            for (int c = 0; c < TOKENS; c++)
                x[c] = LANE_ORDER(x[c]);
#if HALVES
#define PAIR(c, e) uintBitsToFloat(packHalf2x16(vec2(x[c].e, x[(c) + 1].e)))
#if TOKENS == 2
            xs[to] = vec4(PAIR(0, x), PAIR(0, y), PAIR(0, z), PAIR(0, w));
#elif TOKENS == 4
            xs[to] = vec4(PAIR(0, x), PAIR(2, x), PAIR(0, y), PAIR(2, y));
            xs[to + 8u] = vec4(PAIR(0, z), PAIR(2, z), PAIR(0, w), PAIR(2, w));
#else
            xs[to] = vec4(PAIR(0, x), PAIR(2, x), PAIR(4, x), PAIR(6, x));
            xs[to + 8u] = vec4(PAIR(0, y), PAIR(2, y), PAIR(4, y), PAIR(6, y));
            xs[to + 16u] = vec4(PAIR(0, z), PAIR(2, z), PAIR(4, z), PAIR(6, z));
            xs[to + 24u] = vec4(PAIR(0, w), PAIR(2, w), PAIR(4, w), PAIR(6, w));
#endif
#else
            for (int c = 0; c < TOKENS; c++)
                x[c] *= i < 4u ? LANE_UP : LANE_LATER_UP;
#if TOKENS == 2
            xs[to] = vec4(x[0].x, x[1].x, x[0].y, x[1].y);
            xs[to + 8u] = vec4(x[0].z, x[1].z, x[0].w, x[1].w);
#else
            for (int j = 0; j < VECS; j++) {
                xs[to + uint(8 * j)] = vec4(x[4 * j].x, x[4 * j + 1].x, x[4 * j + 2].x,
                                            x[4 * j + 3].x);
                xs[to + uint(8 * (VECS + j))] = vec4(x[4 * j].y, x[4 * j + 1].y, x[4 * j + 2].y,
                                                     x[4 * j + 3].y);
                xs[to + uint(8 * (2 * VECS + j))] = vec4(x[4 * j].z, x[4 * j + 1].z,
                                                         x[4 * j + 2].z, x[4 * j + 3].z);
                xs[to + uint(8 * (3 * VECS + j))] = vec4(x[4 * j].w, x[4 * j + 1].w,
                                                         x[4 * j + 2].w, x[4 * j + 3].w);
            }
#endif
#endif
        }
    }
}

// Part i of row r, 0 to 7.
#define STRIP_PART(r, i) \
    ((i) < 4 ? LANE_QUAD(raw, (r) * LANE_RAW, (i) & 3) : LANE_LATER(raw, (r) * LANE_RAW, (i) & 3))

// LOAD_X(i) loads x of part i of a unit, for all columns. X_AT(e) is a vec4 of it.
#define X_AT(e) xs[from + uint(e)]
#if HALVES
#define DOT     f16vec2
#define DOT_OF(r, j) vec4(vec2(dots[(r) * DOTS + 2 * (j)]), vec2(dots[(r) * DOTS + 2 * (j) + 1]))
#define TIMES(r, j, e, pair) \
    dots[(r) * DOTS + (j)] = f16vec2(w.e) * unpackFloat2x16(floatBitsToUint(pair)) + \
                             dots[(r) * DOTS + (j)];
#if TOKENS == 2
#undef DOT_OF
#define DOT_OF(r, j) vec2(dots[r])
#define LOADED vec4 x0;
#define LOAD_X(i) x0 = X_AT(i);
#define MULTIPLY_ROW(r, i) \
    w = STRIP_PART(r, i); \
    TIMES(r, 0, x, x0.x) TIMES(r, 0, y, x0.y) TIMES(r, 0, z, x0.z) TIMES(r, 0, w, x0.w)
#elif TOKENS == 4
#define LOADED vec4 x0, x1;
#define LOAD_X(i) x0 = X_AT(i); x1 = X_AT(8 + (i));
#define MULTIPLY_ROW(r, i) \
    w = STRIP_PART(r, i); \
    TIMES(r, 0, x, x0.x) TIMES(r, 1, x, x0.y) TIMES(r, 0, y, x0.z) TIMES(r, 1, y, x0.w) \
    TIMES(r, 0, z, x1.x) TIMES(r, 1, z, x1.y) TIMES(r, 0, w, x1.z) TIMES(r, 1, w, x1.w)
#else
#define LOADED vec4 x0, x1, x2, x3;
#define LOAD_X(i) x0 = X_AT(i); x1 = X_AT(8 + (i)); x2 = X_AT(16 + (i)); x3 = X_AT(24 + (i));
#define TIMES_4(r, e, four) \
    TIMES(r, 0, e, four.x) TIMES(r, 1, e, four.y) TIMES(r, 2, e, four.z) TIMES(r, 3, e, four.w)
#define MULTIPLY_ROW(r, i) \
    w = STRIP_PART(r, i); \
    TIMES_4(r, x, x0) TIMES_4(r, y, x1) TIMES_4(r, z, x2) TIMES_4(r, w, x3)
#endif
#else
#define DOT          COLUMN_VEC
#define DOT_OF(r, j) dots[(r) * VECS + (j)]
#if TOKENS == 2
#define LOAD_X(i) x0 = X_AT(i); x1 = X_AT(8 + (i));
#define LOADED vec4 x0, x1;
#define MULTIPLY_ROW(r, i) \
    w = STRIP_PART(r, i); \
    dots[r] += w.x * x0.xy; dots[r] += w.y * x0.zw; \
    dots[r] += w.z * x1.xy; dots[r] += w.w * x1.zw;
#elif TOKENS == 4
#define LOADED vec4 x0, x1, x2, x3;
#define LOAD_X(i) x0 = X_AT(i); x1 = X_AT(8 + (i)); x2 = X_AT(16 + (i)); x3 = X_AT(24 + (i));
#define MULTIPLY_ROW(r, i) \
    w = STRIP_PART(r, i); \
    dots[r] += w.x * x0; dots[r] += w.y * x1; dots[r] += w.z * x2; dots[r] += w.w * x3;
#else
#define LOADED vec4 x0, x1, x2, x3, x4, x5, x6, x7;
#define LOAD_X(i) \
    x0 = X_AT(i); x1 = X_AT(8 + (i)); x2 = X_AT(16 + (i)); x3 = X_AT(24 + (i)); \
    x4 = X_AT(32 + (i)); x5 = X_AT(40 + (i)); x6 = X_AT(48 + (i)); x7 = X_AT(56 + (i));
#define MULTIPLY_ROW(r, i) \
    w = STRIP_PART(r, i); \
    dots[2 * (r)] += w.x * x0; dots[2 * (r) + 1] += w.x * x1; \
    dots[2 * (r)] += w.y * x2; dots[2 * (r) + 1] += w.y * x3; \
    dots[2 * (r)] += w.z * x4; dots[2 * (r) + 1] += w.z * x5; \
    dots[2 * (r)] += w.w * x6; dots[2 * (r) + 1] += w.w * x7;
#endif
#endif
#define MULTIPLY_PART(i) LOAD_X(i) EACH_ROW(MULTIPLY_ROW, i)

// The sums of a unit's x, or of half of it.
#if TOKENS == 2
#define SUM_OF(at, j) vec2(xsum[at], xsum[(at) + 1u])
#else
#define SUM_OF(at, j) vec4(xsum[(at) + uint(4 * (j))], xsum[(at) + uint(4 * (j) + 1)], \
                           xsum[(at) + uint(4 * (j) + 2)], xsum[(at) + uint(4 * (j) + 3)])
#endif

// Multiplies the loaded weights by unit `unit` of the chunk of x. First starts the loads of the
// next step, if there is one. The branch keeps these loads in front: NVIDIA's compiler moves
// unconditional loads to their first use.
void strips_multiply(uint unit, bool more, uint next_strip, uint next_step, uint zero,
                     inout COLUMN_VEC sums[THREAD_ROWS * VECS])
{
    uint raw[THREAD_ROWS * LANE_RAW];
    vec2 scale[THREAD_ROWS], least[THREAD_ROWS];
    COLUMN_VEC sum[VECS];
    DOT dots[THREAD_ROWS * DOTS];
    LOADED
    LANE_PART w;
    for (int r = 0; r < THREAD_ROWS; r++) {
        uint one[LANE_RAW];
        for (int j = 0; j < LANE_RAW; j++)
            one[j] = raw[r * LANE_RAW + j] = next[r * LANE_RAW + j];
        lane_affine(one, scale[r], least[r]);
        LANE_READY(raw, r * LANE_RAW)
    }
    if (more)
        strips_fetch(next_strip, next_step, zero);
    uint from = unit * uint(UNIT_STRIDE), at = unit * uint(LANE_GROUPS * TOKENS);
    for (int h = 0; h < 2; h++) { // halves of the unit
        if (LANE_GROUPS == 2 || h == 0) {
            for (int j = 0; j < VECS; j++) {
                sum[j] = COLUMN_VEC(0.0);
                if (CENTRE != 0.0 || LANE_MINIMUM)
                    sum[j] = SUM_OF(at, j);
            }
            for (int r = 0; r < THREAD_ROWS; r++)
                for (int j = 0; j < DOTS; j++)
                    dots[r * DOTS + j] = FIRST_DOT(j);
        }
        MULTIPLY_PART(4 * h)
        MULTIPLY_PART(4 * h + 1)
        MULTIPLY_PART(4 * h + 2)
        MULTIPLY_PART(4 * h + 3)
        if (LANE_GROUPS == 2 || h == 1)
            for (int r = 0; r < THREAD_ROWS; r++) {
                for (int j = 0; j < VECS; j++) {
                    sums[r * VECS + j] += LANE_SCALED ? scale[r].x * DOT_OF(r, j) : DOT_OF(r, j);
                    if (LANE_MINIMUM)
                        sums[r * VECS + j] -= least[r].x * sum[j];
                }
                scale[r] = scale[r].yx;
                least[r] = least[r].yx;
            }
        at += uint(TOKENS);
    }
}

// Sums over the lanes along K, and writes the results to `part`. Afterwards the lane has OWN_VALUES
// values, from index `strip_value` on. Value c * THREAD_ROWS + r is that of row r and column c.
float strip_values[VALUES];
uint strip_value;

void strips_reduce(COLUMN_VEC sums[THREAD_ROWS * VECS])
{
    bool upper;
    strip_value = 0u;
    for (int r = 0; r < THREAD_ROWS; r++) {
#if TOKENS == 2
        strip_values[r] = sums[r].x;
        strip_values[THREAD_ROWS + r] = sums[r].y;
#else
        for (int j = 0; j < VECS; j++) {
            strip_values[4 * j * THREAD_ROWS + r] = sums[r * VECS + j].x;
            strip_values[(4 * j + 1) * THREAD_ROWS + r] = sums[r * VECS + j].y;
            strip_values[(4 * j + 2) * THREAD_ROWS + r] = sums[r * VECS + j].z;
            strip_values[(4 * j + 3) * THREAD_ROWS + r] = sums[r * VECS + j].w;
        }
#endif
    }
#define FOLD_VALUE(i, count, across) \
    float give = upper ? strip_values[i] : strip_values[(i) + (count)]; \
    strip_values[i] = (upper ? strip_values[(i) + (count)] : strip_values[i]) + \
                      subgroupShuffleXor(give, uint(across));
    upper = (strip_lane & uint(SUBGROUP / 2)) != 0u;
    strip_value += upper ? uint(VALUES / 2) : 0u;
    for (int i = 0; i < VALUES / 2; i++) {
        FOLD_VALUE(i, VALUES / 2, SUBGROUP / 2)
    }
#if VALUES >= 4
    upper = (strip_lane & uint(SUBGROUP / 4)) != 0u;
    strip_value += upper ? uint(VALUES / 4) : 0u;
    for (int i = 0; i < VALUES / 4; i++) {
        FOLD_VALUE(i, VALUES / 4, SUBGROUP / 4)
    }
#endif
#if VALUES >= 8
    upper = (strip_lane & uint(SUBGROUP / 8)) != 0u;
    strip_value += upper ? uint(VALUES / 8) : 0u;
    for (int i = 0; i < VALUES / 8; i++) {
        FOLD_VALUE(i, VALUES / 8, SUBGROUP / 8)
    }
#endif
#if VALUES >= 16 && LANES_K >= 16
    upper = (strip_lane & uint(SUBGROUP / 16)) != 0u;
    strip_value += upper ? uint(VALUES / 16) : 0u;
    for (int i = 0; i < VALUES / 16; i++) {
        FOLD_VALUE(i, VALUES / 16, SUBGROUP / 16)
    }
#endif
#if VALUES >= 32 && LANES_K >= 32
    upper = (strip_lane & uint(SUBGROUP / 32)) != 0u;
    strip_value += upper ? uint(VALUES / 32) : 0u;
    for (int i = 0; i < VALUES / 32; i++) {
        FOLD_VALUE(i, VALUES / 32, SUBGROUP / 32)
    }
#endif
    for (uint across = uint(SUBGROUP / VALUES / 2); across >= uint(LANES_N); across /= 2u)
        strip_values[0] += subgroupShuffleXor(strip_values[0], across);
    uint to = (strip_n * uint(K_PARTS) + strip_k) * uint(VALUES * LANES_N) +
              strip_lane % uint(LANES_N);
    for (int i = 0; i < OWN_VALUES; i++)
        if (HAS_STRIP)
            part[to + (strip_value + uint(i)) * uint(LANES_N)] = strip_values[i];
}

// The sum of row r of the group's set of strips and column c.
float strips_sum(uint r, uint c)
{
    uint at = r / uint(STRIP) * uint(K_PARTS * VALUES * LANES_N) +
              c * uint(THREAD_ROWS * LANES_N) + r % uint(STRIP);
    float y = 0.0;
    for (uint p = 0u; p < uint(K_PARTS); p++)
        y += part[at + p * uint(VALUES * LANES_N)];
#if PRE_norm
    y *= factor[c];
#else
    y /= X_SCALE(c);
#endif
    return y;
}

void strips(uint tid)
{
    uint zero = rows >> 31;
    float square = 0.0;
    COLUMN_VEC sums[THREAD_ROWS * VECS]; // of the lane's part of K
#if HALVES && PRE_norm
    strips_scale_x(); // a barrier follows
#endif
    for (uint set = strip_first; set < strip_end; set += uint(ROW_SETS)) {
        uint strip = min(set + strip_n, strip_end - 1u);
        uint after = min(set + uint(ROW_SETS) + strip_n, strip_end - 1u);
        for (int i = 0; i < THREAD_ROWS * VECS; i++)
            sums[i] = COLUMN_VEC(0.0);
        for (uint step = 0u; step < uint(STEPS) + zero; step++) {
            if (step % uint(CHUNK_STEPS) == 0u && (STEPS > CHUNK_STEPS || set == strip_first)) {
                float add = 0.0;
                memoryBarrierShared(); barrier(); // the previous chunk has been read
                strips_stage(tid, step, add);
                memoryBarrierShared(); barrier();
                square += set == strip_first ? add : 0.0;
            }
            bool more = step + 1u < uint(STEPS);
            if (HAS_STRIP)
                strips_multiply(step % uint(CHUNK_STEPS) * uint(STEP) + strip_k * uint(LANES_K) +
                                    strip_lane / uint(LANES_N),
                                more || set + uint(ROW_SETS) < strip_end, more ? strip : after,
                                more ? step + 1u : 0u, zero, sums);
        }
        strips_reduce(sums);
#if PRE_norm
        if (strip_lane < 8u)
            squares[(fold_column() + fold_half()) * uint(SUBGROUPS) + gl_SubgroupID] =
                square;
        memoryBarrierShared(); barrier();
        if (tid < uint(TOKENS)) {
            float sum = 0.0;
            for (uint i = 0u; i < uint(SUBGROUPS); i++)
                sum += squares[tid * uint(SUBGROUPS) + i];
            factor[tid] = inversesqrt(sum / float(K) + eps) / X_SCALE(tid);
        }
#endif
        memoryBarrierShared(); barrier();
        uint first = set * uint(STRIP), last = min(min(set + uint(ROW_SETS), strip_end) *
                                                       uint(STRIP), rows);
#if POST_glu
        for (uint i = tid; i < uint(ROWS / 2 * TOKENS); i += uint(WG_SIZE)) {
            uint r = i % uint(ROWS / 2) * 2u, c = i / uint(ROWS / 2), t = strip_token + c;
            if (first + r < last && t < pass_rows)
                Y[t * uint(Y_STRIDE) + (row0 + first + r) / 2u] =
                    glu(strips_sum(r, c), strips_sum(r + 1u, c), row0 + first + r);
        }
#else
        for (uint i = tid; i < uint(ROWS * TOKENS); i += uint(WG_SIZE)) {
            uint r = i % uint(ROWS), c = i / uint(ROWS), t = strip_token + c;
            if (first + r < last && t < pass_rows) {
                float y = result(strips_sum(r, c), row0 + first + r);
                uint to = t * uint(Y_STRIDE) + row0 + first + r;
#if POST_add
                y += Y[to];
#endif
                Y[to] = y;
            }
        }
#endif
        if (set + uint(ROW_SETS) < strip_end) {
            memoryBarrierShared(); barrier(); // `part` has been read
        }
    }
}
