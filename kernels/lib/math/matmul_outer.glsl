// Matrix product for many tokens by outer products: columns of W times columns of X.
//
// Y[t, n] = sum_k X[t, k] W[n, k], with the epilogue of lib matmul_result. A tile is ROWS rows by
// TOKENS tokens; an invocation has THREAD_ROWS x THREAD_COLUMNS results in registers. Shared memory
// contains two steps of STEP columns of K. Each column has the tile's rows and the tile's tokens.
// So a column of K needs only a few loads of 16 bytes per invocation, and no sum waits for the one
// before it. While one step is multiplied, the next one, which was fetched to registers before, is
// unpacked to the other half. There is one barrier per step. K_PARTS sets of invocations have all
// results each, for a part of the columns of each step. At the end these are added up through
// shared memory, in rounds of tokens. The columns of THREAD_COLUMNS and of results are tokens, too.
//
// LANES invocations share loads: LANES_N along the rows, LANES_T along the tokens. On NVIDIA the
// pattern of a load of 16 bytes matters: invocations 2 i and 2 i + 1 should load different rows,
// and 4 i and 4 i + 2 different tokens. The load then needs half the time (one H200: 2.3 cycles
// instead of 4.3). Results are only indexed by constants that the text contains; otherwise they
// would move to memory.
//
// If SPLITS is above 1, row tiles from WHOLE on are cut along K into that many parts, with a group
// for each part. The last group of a tile adds up the parts in a fixed order, so the result does
// not depend on timing. The number of tokens does not decide which tiles are cut. If a pass has
// more tiles than SUMS or ARRIVED has room for, no tile is cut. Work group x covers the rows, y the
// tokens.
//
// With HALVES, W and X are pairs of 16-bit floats along K, and X is multiplied by X_SCALE. FLUSH
// columns are summed in pairs of such floats, and these sums in 32 bits. The sums of a part of K
// are stored in SUMS as 16-bit floats, because the group that joins the parts reads through one
// unit what all others wrote. With NATIVE the pairs are f16vec2 of GL_NV_gpu_shader5. Otherwise
// they are mediump, which a driver may compute in 32 bits.
//
// An invocation unpacks UNIT columns of a row at a time. UNIT is 32 for types that store the codes
// of 32 columns together, so that their scale is unpacked once.
//
// With pre=norm, the invocations that store X multiply it by the norm's weight and add up its
// squares. Results are multiplied by the norm's factor at the end. If a tile is cut, the squares of
// a part are stored after its sums. With HALVES, X is rounded before the factor is known. So each
// token is scaled by a power of two, by which the largest element of a sample (STEP columns, in
// fours spread over K) becomes 1/4 to 1/2. Elements of up to 2^17 times that do not overflow.
//
// Needs the libs weight_words, weight_*, matmul_result and arrival, `vec4 X[]`, `float Y[]`,
// `coherent vec4 SUMS[]`, STEP read, the parameters row0, rows and eps, the constants K, W_STRIDE,
// X_STRIDE and Y_STRIDE, and WHEN post. The names above are TUNEs or LETs. So is TOKEN_SETS, the
// number of sets of LANES invocations along the tokens, with THREAD_COLUMNS x LANES_T tokens each.
//
//! LET X_STEP = TOKENS + 4 // threads that store x meet different banks
//! LET ROUND = max(1, 4 * K_PARTS / THREAD_ROWS) * LANES_T * TOKEN_SETS // columns of a round
//! LET WS = max(2 * STEP / (HALVES + 1), K_PARTS > 1 ? K_PARTS * ROUND : 0) * ROWS
//! SHARED float ws[WS]
//! SHARED float xs[2 * STEP / (HALVES + 1) * X_STEP]
//! SHARED float token_factor[PRE_norm ? TOKENS : 0]

#define X_SCALE 0.0625 // room for sums
#if PRE_norm
#define SCALE_OF(i) x_scale[i]
#else
#define SCALE_OF(i) X_SCALE
#endif

#define TIMES_2(F, i, a)  F((i), a) F((i) + 1, a)
#define TIMES_4(F, i, a)  TIMES_2(F, i, a) TIMES_2(F, (i) + 2, a)
#define TIMES_8(F, i, a)  TIMES_4(F, i, a) TIMES_4(F, (i) + 4, a)
#define ROW_QUADS (THREAD_ROWS / 4)
#if THREAD_ROWS == 4
#define EACH_QUAD(F, a) F(0, a)
#else
#define EACH_QUAD(F, a) F(0, a) F(1, a)
#endif
#if THREAD_COLUMNS == 8
#define EACH_COLUMN(F, a) TIMES_8(F, 0, a)
#define EACH_X(F, a)      TIMES_2(F, 0, a)
#else
#define EACH_COLUMN(F, a) TIMES_8(F, 0, a) TIMES_8(F, 8, a)
#define EACH_X(F, a)      TIMES_4(F, 0, a)
#endif

// The units of UNIT columns of W and vec4s of X in a step. If there are enough invocations, some
// fetch W and the others fetch X.
#define W_UNITS   (ROWS * STEP / UNIT)
#define X_UNITS   (TOKENS * STEP / 4)
#define APART     (WG_SIZE >= 2 * W_UNITS)
#define X_THREADS (APART ? WG_SIZE - W_UNITS : WG_SIZE)
#define W_FETCHES ((W_UNITS + WG_SIZE - 1) / WG_SIZE)
#define X_FETCHES ((X_UNITS + X_THREADS - 1) / X_THREADS)
#if APART
#define NEXT_X 0
#define X_TID  (tid - uint(W_UNITS))
#define FOR_UNITS(of_w, of_x) \
    if (tid < uint(W_UNITS)) { of_w; } else { of_x; }
uvec4 next[max(W_FETCHES * WEIGHT_RAW, X_FETCHES)];
#else
#define NEXT_X (W_FETCHES * WEIGHT_RAW)
#define X_TID  tid
#define FOR_UNITS(of_w, of_x) \
    of_w; \
    of_x;
uvec4 next[W_FETCHES * WEIGHT_RAW + X_FETCHES];
#endif
#define HAS_W(u) (W_UNITS % WG_SIZE == 0 || APART || (u) < uint(W_UNITS))
#define HAS_X(v) (X_UNITS % X_THREADS == 0 || (v) < uint(X_UNITS))
#define X_TOKEN(v) ((v) / uint(STEP / 4)) // of unit v
#define X_VEC(v)   ((v) % uint(STEP / 4))

uint row_at[W_FETCHES]; // word of W at which the row of a unit begins
uint x_at[X_FETCHES];   // vec4 of X of a unit in step 0
#if PRE_norm
// ROWS is a multiple of 8, and X_THREADS a multiple of STEP / 4. So all units of an invocation have
// the same columns.
vec4 next_gain;              // the norm's weight for the units of X on their way
float square_sum[X_FETCHES]; // of X, of a unit's columns
#endif
#if PRE_norm && HALVES
float x_scale[X_FETCHES]; // of a unit's token
#endif

vec4 acc[ROW_QUADS * THREAD_COLUMNS]; // [column][rows]

// A head of q4_k is for 256 columns. It is fetched for the first of them, and in the `first` step.
// With a norm, there are not enough registers for that, except in f16 with 64 tokens. On one H100
// with 32 tokens and a norm, 2048 x 16384 rose from 61 to 73 us.
#define HEAD_ONCE (WEIGHT_q4_k && (!PRE_norm || HALVES && TOKENS > 32))

void outer_fetch_w(uint tid, uint k, bool first)
{
    if (STEP < WEIGHT_SPAN && k % uint(WEIGHT_SPAN) != 0u)
        return; // what was fetched for the step before serves this one, too
    for (int i = 0; i < W_FETCHES; i++) {
        uint u = tid + uint(i * WG_SIZE), at = k + u / uint(ROWS) * uint(UNIT);
        at = K % STEP == 0 || at < uint(K) ? at : 0u;
        if (HAS_W(u)) {
#if HEAD_ONCE
            next[i * WEIGHT_RAW] = weight_load4(row_at[i] + at / 32u * 4u);
            if (first || k % 256u == 0u)
                next[i * WEIGHT_RAW + 1] = weight_head(row_at[i], at);
#else
            uvec4 raw[WEIGHT_RAW];
            weight_fetch16(row_at[i], at, raw);
            for (int j = 0; j < WEIGHT_RAW; j++)
                next[i * WEIGHT_RAW + j] = raw[j];
#endif
        }
    }
}

#if WEIGHT_q4_k
#define DECODE(raw, k, high, w) outer_decode16(raw[0], scales, high, w)

// Unpacks 16 columns of a row, from the low or the high nibbles. The nibbles are masked in place,
// and their scales are smaller instead. This is as exact as shifting them, and saves one
// instruction of four. (In weight_decode16() it made matmul_columns_subgroup slower.)
void outer_decode16(uvec4 q, vec2 scales, uint high, out vec4 w[4])
{
    const uvec4 NIBBLES = uvec4(15u, 15u << 8, 15u << 16, 15u << 24);
    vec4 s = scales.x * vec4(1.0, 1.0 / 256.0, 1.0 / 65536.0, 1.0 / 16777216.0);
    q >>= high * 4u;
    w[0] = s * vec4(q.x & NIBBLES) - scales.y;
    w[1] = s * vec4(q.y & NIBBLES) - scales.y;
    w[2] = s * vec4(q.z & NIBBLES) - scales.y;
    w[3] = s * vec4(q.w & NIBBLES) - scales.y;
}
#else
#define DECODE(raw, k, high, w) weight_decode16(raw, k, w)
#endif

void outer_store_w(uint tid, uint k, uint buf)
{
    for (int i = 0; i < W_FETCHES; i++) {
        uint u = tid + uint(i * WG_SIZE), k0 = u / uint(ROWS) * uint(UNIT), at = k + k0;
        uint to = (buf * uint(STEP) + k0) / uint(HALVES + 1) * uint(ROWS) + u % uint(ROWS);
        uvec4 raw[WEIGHT_RAW];
        vec4 w[4];
        if (HAS_W(u)) {
            for (int j = 0; j < WEIGHT_RAW; j++)
                raw[j] = next[i * WEIGHT_RAW + j];
            at = K % STEP == 0 || at < uint(K) ? at : 0u;
#if WEIGHT_q4_k
            vec2 scales = weight_scales(raw[1], at / 32u & 7u);
#endif
            for (int part = 0; part < UNIT / 16; part++) {
                DECODE(raw, at + uint(16 * part), UNIT == 16 ? at / 16u & 1u : uint(part), w);
                for (int j = 0; j < 4; j++) {
#if HALVES
                    ws[to + uint(2 * j * ROWS)] = uintBitsToFloat(packHalf2x16(w[j].xy));
                    ws[to + uint((2 * j + 1) * ROWS)] = uintBitsToFloat(packHalf2x16(w[j].zw));
#else
                    ws[to + uint(4 * j * ROWS)] = w[j].x;
                    ws[to + uint((4 * j + 1) * ROWS)] = w[j].y;
                    ws[to + uint((4 * j + 2) * ROWS)] = w[j].z;
                    ws[to + uint((4 * j + 3) * ROWS)] = w[j].w;
#endif
                }
                to += uint(16 / (HALVES + 1) * ROWS);
            }
        }
    }
}

void outer_fetch_x(uint tid, uint k)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS);
        if (HAS_X(v)) {
            bool inside = K % STEP == 0 || k / 4u + X_VEC(v) < uint(K / 4);
            next[NEXT_X + i] = floatBitsToUint(inside ? X[x_at[i] + k / 4u] : vec4(0.0));
        }
    }
#if PRE_norm
    next_gain = A[min(k / 4u + X_VEC(tid), uint(K / 4 - 1))];
#endif
}

// `counted` is 0 for a step that was stored before; its squares are then not added to the sums.
void outer_store_x(uint tid, uint buf, float counted)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS);
        uint to = (buf * uint(STEP) + X_VEC(v) * 4u) / uint(HALVES + 1) * uint(X_STEP) + X_TOKEN(v);
        if (HAS_X(v)) {
            vec4 x = uintBitsToFloat(next[NEXT_X + i]);
#if PRE_norm
            square_sum[i] += counted * dot(x, x);
            x *= next_gain;
#endif
#if HALVES
            x *= SCALE_OF(i);
            xs[to] = uintBitsToFloat(packHalf2x16(x.xy));
            xs[to + uint(X_STEP)] = uintBitsToFloat(packHalf2x16(x.zw));
#else
            xs[to] = x.x;
            xs[to + uint(X_STEP)] = x.y;
            xs[to + uint(2 * X_STEP)] = x.z;
            xs[to + uint(3 * X_STEP)] = x.w;
#endif
        }
    }
}

#if PRE_norm
#if HALVES
// Computes the scales of the tokens from a sample of X. Their reciprocals are stored in
// token_factor.
void outer_scale_x(uint tid)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS), at = X_VEC(v) * uint(K / STEP);
        if (HAS_X(v)) {
            vec4 x = abs(X[x_at[i] - X_VEC(v) + at] * A[at]);
            xs[v] = max(max(x.x, x.y), max(x.z, x.w));
        }
    }
}

void outer_take_scales(uint tid)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS);
        if (HAS_X(v)) {
            float most = 0.0;
            for (uint j = 0u; j < uint(STEP / 4); j++)
                most = max(most, xs[X_TOKEN(v) * uint(STEP / 4) + j]);
            uint exponent = clamp(floatBitsToUint(most) >> 23, 67u, 187u);
            x_scale[i] = uintBitsToFloat((252u - exponent) << 23); // `most` becomes 1/4 to 1/2
            if (X_VEC(v) == 0u)
                token_factor[X_TOKEN(v)] = uintBitsToFloat((exponent + 2u) << 23);
        }
    }
}
#endif

void outer_keep_squares(uint tid)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS);
        if (HAS_X(v))
            xs[v] = square_sum[i];
    }
}

float token_squares(uint token)
{
    float squares = 0.0;
    for (uint j = 0u; j < uint(STEP / 4); j++)
        squares += xs[token * uint(STEP / 4) + j];
    return squares;
}

// The norm's factors of four tokens. With HALVES they also undo the scales.
void outer_set_factors(uint token, vec4 squares)
{
    vec4 f = inversesqrt(squares / float(K) + eps);
    token_factor[token] *= f.x;
    token_factor[token + 1u] *= f.y;
    token_factor[token + 2u] *= f.z;
    token_factor[token + 3u] *= f.w;
}
#define BY_FACTOR(token) *token_factor[token]
#elif HALVES
#define BY_FACTOR(token) *(1.0 / X_SCALE)
#else
#define BY_FACTOR(token)
#endif

// Four neighbouring floats of shared memory, as one load.
#define QUAD_OF(a, i) vec4(a[i], a[(i) + 1u], a[(i) + 2u], a[(i) + 3u])
#define LOAD_W(h, a)  w[h] = QUAD_OF(ws, w_at + uint((h) * 4 * LANES_N));
#define LOAD_X(j, a)  x[j] = QUAD_OF(xs, at + uint((j) * 4 * LANES_T));
#if HALVES
#if NATIVE
#define half2 f16vec2
#define NO_PAIR f16vec2(0.0)
#define half2_of(f) unpackFloat2x16(floatBitsToUint(f))
#else
#define half2 mediump vec2
#define NO_PAIR vec2(0.0)
#define half2_of(f) unpackHalf2x16(floatBitsToUint(f))
#endif
half2 pair_sum[THREAD_ROWS * THREAD_COLUMNS]; // [column][row], of even and odd columns of K
#define PAIR(c, r) pair_sum[(c) * THREAD_ROWS + (r)]
#define SPLIT_W(h, a) \
    w2[4 * (h)] = half2_of(w[h].x); \
    w2[4 * (h) + 1] = half2_of(w[h].y); \
    w2[4 * (h) + 2] = half2_of(w[h].z); \
    w2[4 * (h) + 3] = half2_of(w[h].w);
#define MULTIPLY_QUAD(h, c) \
    PAIR(c, 4 * (h)) = w2[4 * (h)] * x2 + PAIR(c, 4 * (h)); \
    PAIR(c, 4 * (h) + 1) = w2[4 * (h) + 1] * x2 + PAIR(c, 4 * (h) + 1); \
    PAIR(c, 4 * (h) + 2) = w2[4 * (h) + 2] * x2 + PAIR(c, 4 * (h) + 2); \
    PAIR(c, 4 * (h) + 3) = w2[4 * (h) + 3] * x2 + PAIR(c, 4 * (h) + 3);
#define MULTIPLY_COLUMN(c, a) \
    x2 = half2_of(x[(c) / 4][(c) % 4]); \
    EACH_QUAD(MULTIPLY_QUAD, c)
#define FLUSH_ROW(c, r, e) \
    v = vec2(PAIR(c, r)); \
    acc[(c) * ROW_QUADS + (r) / 4].e += v.x; \
    acc[(c) * ROW_QUADS + (r) / 4].e += v.y; \
    PAIR(c, r) = NO_PAIR;
#define FLUSH_QUAD(h, c) \
    FLUSH_ROW(c, 4 * (h), x) FLUSH_ROW(c, 4 * (h) + 1, y) \
    FLUSH_ROW(c, 4 * (h) + 2, z) FLUSH_ROW(c, 4 * (h) + 3, w)
#define FLUSH_COLUMN(c, a) EACH_QUAD(FLUSH_QUAD, c)
#define MULTIPLY_K \
    EACH_QUAD(LOAD_W, 0) \
    EACH_X(LOAD_X, 0) \
    EACH_QUAD(SPLIT_W, 0) \
    EACH_COLUMN(MULTIPLY_COLUMN, 0) \
    w_at += uint(ROWS); \
    at += uint(X_STEP);
#else
#define MULTIPLY_QUAD(h, c)   acc[(c) * ROW_QUADS + (h)] += w[h] * x[(c) / 4][(c) % 4];
#define MULTIPLY_COLUMN(c, a) EACH_QUAD(MULTIPLY_QUAD, c)
#define MULTIPLY_K \
    EACH_QUAD(LOAD_W, 0) \
    EACH_X(LOAD_X, 0) \
    EACH_COLUMN(MULTIPLY_COLUMN, 0) \
    w_at += uint(ROWS); \
    at += uint(X_STEP);
#endif

// Multiplies the invocation's part of a step. Four columns of K, or pairs of columns, are written
// out.
#define OWN (STEP / K_PARTS / (HALVES + 1))
void outer_multiply(uint w_at, uint at)
{
    vec4 w[ROW_QUADS], x[THREAD_COLUMNS / 4];
#if HALVES
    half2 w2[THREAD_ROWS], x2;
#endif
#if OWN % 4 == 0
    for (int i = 0; i < OWN; i += 4) {
        MULTIPLY_K MULTIPLY_K MULTIPLY_K MULTIPLY_K
    }
#else
    for (int i = 0; i < OWN; i++) {
        MULTIPLY_K
    }
#endif
}

#define ZERO_QUAD(h, c)   acc[(c) * ROW_QUADS + (h)] = vec4(0.0);
#define ZERO_COLUMN(c, a) EACH_QUAD(ZERO_QUAD, c)
#define CLEAR_QUAD(h, c) \
    PAIR(c, 4 * (h)) = NO_PAIR; \
    PAIR(c, 4 * (h) + 1) = NO_PAIR; \
    PAIR(c, 4 * (h) + 2) = NO_PAIR; \
    PAIR(c, 4 * (h) + 3) = NO_PAIR;
#define CLEAR_COLUMN(c, a) EACH_QUAD(CLEAR_QUAD, c)

// Sums of four rows of a token each. An invocation has SUMS_OWN of them: its results, or one per
// round if K is in parts.
#define SUMS_OWN (THREAD_ROWS * THREAD_COLUMNS / 4 / K_PARTS)
#define PER      (ROUND / LANES_T / TOKEN_SETS) // columns of a thread in a round
#define PUT_QUAD(h, c) \
    at = (part * uint(ROUND) + (uint((c) % PER * LANES_T) + place.y) * uint(TOKEN_SETS) + \
          token_set) * uint(ROWS) + row + uint((h) * 4 * LANES_N); \
    y = acc[(c) * ROW_QUADS + (h)]; \
    ws[at] = y.x; \
    ws[at + 1u] = y.y; \
    ws[at + 2u] = y.z; \
    ws[at + 3u] = y.w;
#define PUT_COLUMN(c, r) \
    if (uint((c) / PER) == (r)) { \
        EACH_QUAD(PUT_QUAD, c) \
    }
#if SUMS_OWN == 2
#define EACH_SUM(F, a) TIMES_2(F, 0, a)
#elif SUMS_OWN == 4
#define EACH_SUM(F, a) TIMES_4(F, 0, a)
#elif SUMS_OWN == 8
#define EACH_SUM(F, a) TIMES_8(F, 0, a)
#elif SUMS_OWN == 16
#define EACH_SUM(F, a) TIMES_8(F, 0, a) TIMES_8(F, 8, a)
#else
#define EACH_SUM(F, a) TIMES_8(F, 0, a) TIMES_8(F, 8, a) TIMES_8(F, 16, a) TIMES_8(F, 24, a)
#endif
#if SUMS_OWN <= 8
#define EACH_STORE(F, G, a) EACH_SUM(F, a) EACH_SUM(G, a)
#elif SUMS_OWN == 16
#define EACH_STORE(F, G, a) \
    TIMES_8(F, 0, a) TIMES_8(G, 0, a) TIMES_8(F, 8, a) TIMES_8(G, 8, a)
#else
#define EACH_STORE(F, G, a) \
    TIMES_8(F, 0, a) TIMES_8(G, 0, a) TIMES_8(F, 8, a) TIMES_8(G, 8, a) \
    TIMES_8(F, 16, a) TIMES_8(G, 16, a) TIMES_8(F, 24, a) TIMES_8(G, 24, a)
#endif
#if K_PARTS == 1
#define SUM_ROW(n) (row + uint((n) % ROW_QUADS * 4 * LANES_N))
#define SUM_TOKEN(n) \
    (token_set * uint(TOKENS / TOKEN_SETS) + \
     (uint((n) / ROW_QUADS / 4 * LANES_T) + place.y) * 4u + uint((n) / ROW_QUADS % 4))
#else
#define SUM_ROW(n)   (tid % uint(ROWS / 4) * 4u)
#define SUM_TOKEN(n) sum_token(tid / uint(ROWS / 4), uint(n))

// The token of the tile that is column `column` of a round.
uint sum_token(uint column, uint round)
{
    uint set = column % uint(TOKEN_SETS), c = round * uint(PER);
    column /= uint(TOKEN_SETS);
    c += column / uint(LANES_T);
    return set * uint(TOKENS / TOKEN_SETS) +
           (c / 4u * uint(LANES_T) + column % uint(LANES_T)) * 4u + c % 4u;
}
#endif
// An invocation's sums in SUMS. With HALVES two of them are a vec4 of 16-bit floats, without the
// factor.
#define OWN_VECS      (SUMS_OWN / (HALVES + 1))
#define VEC_OF(n)     ((n) / (HALVES + 1))
#define SUM_VECS      (TOKENS * ROWS / 4 / (HALVES + 1)) // of a part of a tile
#define PART_VECS     (SUM_VECS + PRE_norm * TOKENS / 4)
#define SUMS_AT(n, i) SUMS[at + uint((n) * WG_SIZE + (i) * PART_VECS)]
#if HALVES
#define TWO_SUMS(a, b) \
    uintBitsToFloat(uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), \
                          packHalf2x16(b.zw)))
#define SUM_OF(n, v) \
    vec4(unpackHalf2x16(floatBitsToUint(v[(n) % 2 * 2])), \
         unpackHalf2x16(floatBitsToUint(v[(n) % 2 * 2 + 1])))
#define KEEP(n, a) \
    if ((n) % 2 == 1) \
        SUMS[sums + uint(VEC_OF(n) * WG_SIZE)] = TWO_SUMS(acc[(n) / 2 * 2], acc[n]);
#else
#define SUM_OF(n, v) v
#define KEEP(n, a)   SUMS[sums + uint((n) * WG_SIZE)] = acc[n];
#endif
#define CLEAR(n, a)  acc[n] = vec4(0.0);
#define FACTOR(n, a) acc[n] = acc[n] BY_FACTOR(SUM_TOKEN(n));
// The number of parts that are loaded at a time, because single loads would wait for each other.
// With more parts, or with squares of many parts in pairs, NVIDIA's compiler moves registers to
// shared memory, and fewer groups share a unit.
#define FEW_PARTS (!PRE_norm || SPLITS <= 8)
#if !HALVES && THREAD_ROWS == 8 || OWN_VECS > 4
#define PARTS_AHEAD 1
#elif OWN_VECS > 2 || !FEW_PARTS
#define PARTS_AHEAD 2
#else
#define PARTS_AHEAD 4
#endif
#define SQUARES(i)  SUMS[at + uint(SUM_VECS) + min(i, uint(SPLITS - 1)) * uint(PART_VECS)]
#define FETCH_PART(n, i) \
    if ((n) % (HALVES + 1) == 0) \
        ahead[(i) * OWN_VECS + VEC_OF(n)] = SUMS_AT(VEC_OF(n), i);
#define ADD_PART(n, i) acc[n] += SUM_OF(n, ahead[(i) * OWN_VECS + VEC_OF(n)]);
#if PARTS_AHEAD == 4
#define EACH_PART(F) EACH_SUM(F, 0) EACH_SUM(F, 1) EACH_SUM(F, 2) EACH_SUM(F, 3)
#elif PARTS_AHEAD == 2
#define EACH_PART(F) EACH_SUM(F, 0) EACH_SUM(F, 1)
#else
#define EACH_PART(F) EACH_SUM(F, 0)
#endif

// With post=add, loads the numbers in Y. All loads come before the first store, because they would
// wait for it.
#if POST_add
#define OLD_AT(n, i) \
    at = min(token1 + SUM_TOKEN(n), pass_rows - 1u) * uint(Y_STRIDE) + row0; \
    r = first + SUM_ROW(n); \
    old[i] = vec4(Y[at + min(r, rows - 1u)], Y[at + min(r + 1u, rows - 1u)], \
                  Y[at + min(r + 2u, rows - 1u)], Y[at + min(r + 3u, rows - 1u)]);
#else
#define OLD_AT(n, i) old[i] = vec4(0.0);
#endif
#define OLD(n, a) OLD_AT(n, (n) % 8)
#define STORE(n, a) \
    t = token1 + SUM_TOKEN(n); \
    if (t < pass_rows) \
        outer_store(t, first + SUM_ROW(n), acc[n], old[(n) % 8]);

void outer_store(uint t, uint row, vec4 y, vec4 old)
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
             result(y.w, row0 + row + 3u)) + old;
    if (row < rows)
        Y[to] = y.x;
    if (row + 1u < rows)
        Y[to + 1u] = y.y;
    if (row + 2u < rows)
        Y[to + 2u] = y.z;
    if (row + 3u < rows)
        Y[to + 3u] = y.w;
#endif
}

#define FLUSH_STEPS max(1, FLUSH * K_PARTS / STEP)

// Computes steps `begin` up to `end`; `begin` is even.
void outer_product(uint tid, uint begin, uint end, uint w_at, uint at)
{
    uint k = begin * uint(STEP), last = (end - 1u) * uint(STEP);
    FOR_UNITS(outer_fetch_w(tid, k, true), outer_fetch_x(X_TID, k))
#if PRE_norm && HALVES
    FOR_UNITS(, outer_scale_x(X_TID))
    memoryBarrierShared(); barrier();
    FOR_UNITS(, outer_take_scales(X_TID))
    memoryBarrierShared(); barrier();
#endif
    FOR_UNITS(outer_store_w(tid, k, 0u), outer_store_x(X_TID, 0u, 1.0))
    k = min(k + uint(STEP), last);
    FOR_UNITS(outer_fetch_w(tid, k, false), outer_fetch_x(X_TID, k))
    memoryBarrierShared(); barrier();
    for (uint step = begin; step < end; step++) {
        uint buf = step & 1u, from = buf * uint(STEP / (HALVES + 1));
        float counted = step + 1u < end ? 1.0 : 0.0;
        FOR_UNITS(outer_store_w(tid, k, 1u - buf), outer_store_x(X_TID, 1u - buf, counted))
        k = min(k + uint(STEP), last);
        FOR_UNITS(outer_fetch_w(tid, k, false), outer_fetch_x(X_TID, k))
        outer_multiply(from * uint(ROWS) + w_at, from * uint(X_STEP) + at);
#if HALVES
        if ((step + 1u) % uint(FLUSH_STEPS) == 0u || step + 1u == end) {
            vec2 v;
            EACH_COLUMN(FLUSH_COLUMN, 0)
        }
#endif
        memoryBarrierShared(); barrier();
    }
}

void matmul_outer(uvec3 group)
{
    const uint STEPS = uint((K + STEP - 1) / STEP);
    uint tid = gl_LocalInvocationIndex, lane = tid % uint(LANES), set = tid / uint(LANES);
    uint part = set / uint(ROW_SETS * TOKEN_SETS);
    uint token_set = set / uint(ROW_SETS) % uint(TOKEN_SETS);
    uint begin = 0u, end = STEPS, sums = 0u, at, r, t;
    uint row_tiles = (rows + uint(ROWS - 1)) / uint(ROWS), row_tile = group.x, token_tile = group.y;
    uvec2 place = uvec2((lane & 1u) | (lane >> 2) % uint(max(1, LANES_N / 2)) * 2u,
                        (lane >> 1 & 1u) | lane / uint(2 * LANES_N) * 2u);
    uint row = set % uint(ROW_SETS) * uint(ROWS / ROW_SETS) + place.x * 4u;
    vec4 y, old[8];
    bool cut = false;
#if SPLITS > 1
    // Groups start in order of their numbers: whole tiles first, then first parts, then second
    // parts.
    uint whole = min(row_tiles, uint(WHOLE)), rest = max(row_tiles - whole, 1u), split = 0u;
    uint token_tiles = (pass_rows - 1u) / uint(TOKENS) + 1u, tiles = rest * token_tiles;
    uint width = whole + (row_tiles - whole) * uint(SPLITS), tile = group.y * width + group.x;
    if (group.x >= width)
        return; // the whole group
    if (tile < whole * token_tiles) {
        row_tile = tile % whole;
        token_tile = tile / whole;
    } else {
        cut = tiles <= uint(ARRIVED.length()) &&
              tiles * uint(SPLITS * PART_VECS) <= uint(SUMS.length());
        tile -= whole * token_tiles;
        split = tile / tiles;
        tile %= tiles;
        row_tile = whole + tile % rest;
        token_tile = tile / rest;
    }
    if (row_tile >= row_tiles || split >= (cut ? uint(SPLITS) : 1u))
        return; // the whole group
    if (cut) {
        begin = split * STEPS / uint(SPLITS) / 2u * 2u;
        end = split + 1u < uint(SPLITS) ? (split + 1u) * STEPS / uint(SPLITS) / 2u * 2u : STEPS;
        sums = (tile * uint(SPLITS) + split) * uint(PART_VECS) + tid;
    }
#endif
    uint token1 = token_tile * uint(TOKENS);
    uint first = row_tile * uint(ROWS);
    for (int i = 0; i < W_FETCHES; i++)
        row_at[i] = min(first + (tid + uint(i * WG_SIZE)) % uint(ROWS), rows - 1u) * uint(W_STRIDE);
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = min(X_TID + uint(i * X_THREADS), uint(X_UNITS - 1));
        x_at[i] = min(token1 + X_TOKEN(v), pass_rows - 1u) * uint(X_STRIDE / 4) + X_VEC(v);
    }
    EACH_COLUMN(ZERO_COLUMN, 0)
#if HALVES
    EACH_COLUMN(CLEAR_COLUMN, 0)
#endif
#if PRE_norm
    for (int i = 0; i < X_FETCHES; i++)
        square_sum[i] = 0.0;
#if !HALVES
    for (uint i = tid; i < uint(TOKENS); i += uint(WG_SIZE))
        token_factor[i] = 1.0;
#endif
#endif
    outer_product(tid, begin, end, part * uint(OWN * ROWS) + row,
                  part * uint(OWN * X_STEP) + token_set * uint(TOKENS / TOKEN_SETS) + place.y * 4u);
#if PRE_norm
    FOR_UNITS(, outer_keep_squares(X_TID))
    memoryBarrierShared(); barrier();
    if (tid < uint(TOKENS / 4)) {
        vec4 squares = vec4(token_squares(tid * 4u), token_squares(tid * 4u + 1u),
                            token_squares(tid * 4u + 2u), token_squares(tid * 4u + 3u));
#if SPLITS > 1
        if (cut)
            SUMS[sums + uint(SUM_VECS)] = squares;
        else
#endif
            outer_set_factors(tid * 4u, squares);
    }
    memoryBarrierShared(); barrier();
#endif
#if K_PARTS > 1
    vec4 even = vec4(0.0); // of two rounds, the first one's
    for (uint round = 0u; round < uint(SUMS_OWN); round++) {
        if (!cut) {
            OLD_AT(round, 0)
        }
        EACH_COLUMN(PUT_COLUMN, round)
        memoryBarrierShared(); barrier();
        at = tid / uint(ROWS / 4) * uint(ROWS) + SUM_ROW(round);
        y = vec4(0.0);
        for (uint p = 0u; p < uint(K_PARTS); p++) {
            y += QUAD_OF(ws, at);
            at += uint(ROUND * ROWS);
        }
        t = token1 + SUM_TOKEN(round);
#if SPLITS > 1 && HALVES
        if (cut && round % 2u == 1u)
            SUMS[sums + round / 2u * uint(WG_SIZE)] = TWO_SUMS(even, y);
        even = y;
#elif SPLITS > 1
        if (cut)
            SUMS[sums + round * uint(WG_SIZE)] = y;
#endif
        y = y BY_FACTOR(SUM_TOKEN(round));
        if (!cut && t < pass_rows)
            outer_store(t, first + SUM_ROW(round), y, old[0]);
        memoryBarrierShared(); barrier();
    }
#endif
#if SPLITS > 1
    if (cut) {
#if K_PARTS == 1
        EACH_SUM(KEEP, 0)
#endif
        memoryBarrierBuffer(); barrier();
        if (tid == 0u)
            xs[0] = float(arrive(tile, uint(SPLITS)));
        memoryBarrierShared(); barrier();
        memoryBarrierBuffer();
        if (xs[0] != float(SPLITS - 1))
            return; // the whole group
        EACH_SUM(CLEAR, 0)
        at = tile * uint(SPLITS * PART_VECS) + tid;
#if PRE_norm
        if (tid < uint(TOKENS / 4)) {
            vec4 squares = vec4(0.0);
#if FEW_PARTS
            for (uint i = 0u; i < uint(SPLITS); i += 2u) {
                vec4 a = SQUARES(i), b = SQUARES(i + 1u);
                squares += a;
                squares += i + 1u < uint(SPLITS) ? b : vec4(0.0);
            }
#else
            for (uint i = 0u; i < uint(SPLITS); i++)
                squares += SQUARES(i);
#endif
            outer_set_factors(tid * 4u, squares);
        }
#endif
        vec4 ahead[PARTS_AHEAD * OWN_VECS];
        uint s = 0u;
        for (; s + uint(PARTS_AHEAD) <= uint(SPLITS); s += uint(PARTS_AHEAD)) {
            EACH_PART(FETCH_PART)
            EACH_PART(ADD_PART)
            at += uint(PARTS_AHEAD * PART_VECS);
        }
        for (; s < uint(SPLITS); s++) {
            EACH_SUM(FETCH_PART, 0)
            EACH_SUM(ADD_PART, 0)
            at += uint(PART_VECS);
        }
#if PRE_norm
        memoryBarrierShared(); barrier();
#endif
    }
#endif
    if (cut || K_PARTS == 1) {
        EACH_SUM(FACTOR, 0)
        EACH_STORE(OLD, STORE, 0)
    }
}
