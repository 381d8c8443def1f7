// Matrix product by large tiles, for GPUs: ROWS rows of weights times TOKENS columns.
//
// K is processed in steps of STEP columns. Each invocation has THREAD_ROWS x THREAD_TOKENS results
// in registers. Shared memory contains two steps. A step has the columns of each row of W, then
// those of each token of X, as vec4s. Neighbouring rows order their vec4s differently, so that
// banks differ. While one step is multiplied, the next is fetched into registers, and then unpacked
// into the other half of shared memory. There is one barrier per step.
//
// If PARTS is above 1, that many sets of invocations each have all results of the tile, for a part
// of every step's columns. At the end, the sets add up these results. This is for tiles that are
// too few to fill the device. STEP is at least 4 PARTS.
//
// Results are only indexed by constants that the text contains. A loop that the compiler does not
// unroll would move them to memory.
//
//! LET THREADS_N = ROWS / THREAD_ROWS
//! LET THREADS_T = TOKENS / THREAD_TOKENS
//! LET THREADS = THREADS_N * THREADS_T // of a part
//! LET VECS = STEP / 4 // vec4s of a row or token
//! SHARED vec4 staged[max(2 * VECS * (ROWS + TOKENS), PARTS > 1 ? ROWS * TOKENS / 8 : 0)]
//
// Needs libs weight_words and weight_*, `vec4 X[]`, the constant K, the tunables THREAD_ROWS (4, 8
// or 16), THREAD_TOKENS (4 or 8), ROWS (THREAD_ROWS times a multiple of 4), TOKENS (THREAD_TOKENS
// times a multiple of 8: all of a thread's rows or tokens have one order), STEP (16 or 32) and
// PARTS, the LET WG_SIZE, and two functions of the kernel:
uint gemm_row(uint r);   // word of W at which row r of the tile starts; of any row without one
uint gemm_token(uint t); // element of X at which column t of the tile starts

// The units of 16 columns of W and vec4s of X in a step, and the numbers of them that each
// invocation fetches. With SPLIT an invocation fetches either W or X.
#define W_UNITS   (ROWS * STEP / 16)
#define X_UNITS   (TOKENS * VECS)
#define SPLIT     (WG_SIZE >= 2 * W_UNITS)
#define X_THREADS (SPLIT ? WG_SIZE - W_UNITS : WG_SIZE)
#define W_FETCHES ((W_UNITS + WG_SIZE - 1) / WG_SIZE)
#define X_FETCHES ((X_UNITS + X_THREADS - 1) / X_THREADS)

#define ROW_QUADS  (THREAD_ROWS / 4)
#define GEMM_STEPS uint((K + STEP - 1) / STEP)
#define X_TILE     uint(2 * VECS * ROWS)

// The place of vec4 j of row or token r, in an order that avoids bank conflicts.
#if STEP == 16
#define VEC_ORDER(r) ((r) >> 1 & 3u)
#else
#define VEC_ORDER(r) ((r) & 7u)
#endif

// The row and the column of the tile that are row i and token t of an invocation.
#define TILE_ROW(thread_n, i) \
    (2u * (thread_n) + uint((i) % 2) + uint((i) / 2 * 2 * THREADS_N))
#define TILE_TOKEN(thread_t, t) ((thread_t) + uint((t) * THREADS_T))

// The invocation's results: four rows of a token each.
vec4 acc[ROW_QUADS * THREAD_TOKENS];
#define ACC(t, i) acc[(t) * ROW_QUADS + (i) / 4][(i) % 4]

#if ROW_QUADS == 1
#define EACH_QUAD(F, t) F(t, 0)
#elif ROW_QUADS == 2
#define EACH_QUAD(F, t) F(t, 0) F(t, 1)
#else
#define EACH_QUAD(F, t) F(t, 0) F(t, 1) F(t, 2) F(t, 3)
#endif
#if THREAD_TOKENS == 4
#define EACH_LOW_TOKEN(F)  F(0) F(1)
#define EACH_HIGH_TOKEN(F) F(2) F(3)
#define EACH_TOKEN_OF(F, i, c) F(0, i, c) F(1, i, c) F(2, i, c) F(3, i, c)
#else
#define EACH_LOW_TOKEN(F)  F(0) F(1) F(2) F(3)
#define EACH_HIGH_TOKEN(F) F(4) F(5) F(6) F(7)
#define EACH_TOKEN_OF(F, i, c) \
    F(0, i, c) F(1, i, c) F(2, i, c) F(3, i, c) F(4, i, c) F(5, i, c) F(6, i, c) F(7, i, c)
#endif
#define EACH_TOKEN(F) EACH_LOW_TOKEN(F) EACH_HIGH_TOKEN(F)

// The data that the invocation has fetched: units of W as stored, then vec4s of X. `next_at` has
// their addresses for column 0.
#if SPLIT
#define X_NEXT    0
#define X_NEXT_AT 0
uvec4 next[max(W_FETCHES * WEIGHT_RAW, X_FETCHES)];
uint next_at[max(W_FETCHES, X_FETCHES)];
#else
#define X_NEXT    (W_FETCHES * WEIGHT_RAW)
#define X_NEXT_AT W_FETCHES
uvec4 next[W_FETCHES * WEIGHT_RAW + X_FETCHES];
uint next_at[W_FETCHES + X_FETCHES];
#endif
#define NEXT_X(i) next[X_NEXT + (i)]

#if THREADS_N % 4 == 0
#define LANES_N 4
#elif THREADS_N % 2 == 0
#define LANES_N 2
#else
#define LANES_N 1
#endif

// The invocation's place in the tile: along the rows, along the tokens, part.
uvec3 gemm_place(uint tid)
{
    const uint LANES_T = uint(32 / LANES_N);
    uint id = tid % uint(THREADS), part = tid / uint(THREADS);
#if THREADS % 32 == 0 && THREADS_T * LANES_N % 32 == 0
    uint block = id / 32u, lane = id % 32u, blocks_n = uint(THREADS_N / LANES_N);
#if LANES_N == 4
    uint n = (lane & 1u) | (lane >> 3 & 2u), t = lane >> 1 & 7u;
#else
    uint n = lane % uint(LANES_N), t = lane / uint(LANES_N);
#endif
    return uvec3(block % blocks_n * uint(LANES_N) + n, block / blocks_n * LANES_T + t, part);
#else
    return uvec3(id % uint(THREADS_N), id / uint(THREADS_N), part);
#endif
}

// W_COLUMN is the column of unit `unit` of the step that begins at column k0. HAS_W_UNIT is true if
// the step has such a unit.
#define W_COLUMN(unit, k0) ((k0) + (unit) / uint(ROWS) * 16u)
#define HAS_W_UNIT(unit)   (W_UNITS % WG_SIZE == 0 || SPLIT || (unit) < uint(W_UNITS))

void gemm_fetch_w(uint tid, uint k0)
{
    if (STEP < WEIGHT_SPAN && k0 % uint(WEIGHT_SPAN) != 0u)
        return; // what was fetched for the step before serves this one, too
    for (int i = 0; i < W_FETCHES; i++) {
        uint unit = tid + uint(i * WG_SIZE), k = W_COLUMN(unit, k0);
        uvec4 raw[WEIGHT_RAW];
        if (HAS_W_UNIT(unit)) {
            weight_fetch16(next_at[i], K % STEP == 0 || k < uint(K) ? k : 0u, raw);
            for (int j = 0; j < WEIGHT_RAW; j++)
                next[i * WEIGHT_RAW + j] = raw[j];
        }
    }
}

void gemm_store_w(uint tid, uint k0, uint buf)
{
    for (int i = 0; i < W_FETCHES; i++) {
        uint unit = tid + uint(i * WG_SIZE), k = W_COLUMN(unit, k0);
        uvec4 raw[WEIGHT_RAW];
        vec4 w[4];
        if (HAS_W_UNIT(unit)) {
            for (int j = 0; j < WEIGHT_RAW; j++)
                raw[j] = next[i * WEIGHT_RAW + j];
            weight_decode16(raw, K % STEP == 0 || k < uint(K) ? k : 0u, w);
            uint r = unit % uint(ROWS), j0 = unit / uint(ROWS) * 4u;
            uint to = (buf * uint(ROWS) + r) * uint(VECS);
            for (uint j = 0u; j < 4u; j++)
                staged[to + ((j0 + j) ^ VEC_ORDER(r))] = w[j];
        }
    }
}

// vec4 q of token t of the step is unit v of the tile.
#define HAS_X_UNIT(v) (X_UNITS % X_THREADS == 0 || (v) < uint(X_UNITS))

void gemm_fetch_x(uint tid, uint k0)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS);
        if (HAS_X_UNIT(v)) {
            bool inside = K % STEP == 0 || k0 / 4u + v % uint(VECS) < uint(K / 4);
            NEXT_X(i) = floatBitsToUint(inside ? X[next_at[X_NEXT_AT + i] + k0 / 4u] : vec4(0.0));
        }
    }
}

void gemm_store_x(uint tid, uint buf)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS), q = v % uint(VECS), t = v / uint(VECS);
        uint to = X_TILE + (buf * uint(TOKENS) + t) * uint(VECS) + (q ^ VEC_ORDER(t));
        if (HAS_X_UNIT(v))
            staged[to] = uintBitsToFloat(NEXT_X(i));
    }
}

void gemm_begin_w(uint tid)
{
    for (int i = 0; i < W_FETCHES; i++)
        next_at[i] = gemm_row((tid + uint(i * WG_SIZE)) % uint(ROWS));
}

void gemm_begin_x(uint tid)
{
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * X_THREADS);
        next_at[X_NEXT_AT + i] = gemm_token(min(v / uint(VECS), uint(TOKENS - 1))) + v % uint(VECS);
    }
}

#if SPLIT
#define FOR_UNITS(of_w, of_x) \
    if (tid < uint(W_UNITS)) { of_w; } else { of_x; }
#define X_TID (tid - uint(W_UNITS))
#else
#define FOR_UNITS(of_w, of_x) \
    of_w; \
    of_x;
#define X_TID tid
#endif

// Multiplies one vec4 of K: x has the invocation's tokens, w one of its rows.
#define LOAD_X(t, i, c)   x[t] = staged[xq + uint((t) * THREADS_T * VECS)];
#define FMA_TOKEN(t, i, c) ACC(t, i) += w.c * x[t].c;
#define FMA_ROW(i) \
    w = staged[((i) % 2 == 0 ? wq0 : wq1) + uint((i) / 2 * 2 * THREADS_N * VECS)]; \
    EACH_TOKEN_OF(FMA_TOKEN, i, x) \
    EACH_TOKEN_OF(FMA_TOKEN, i, y) \
    EACH_TOKEN_OF(FMA_TOKEN, i, z) \
    EACH_TOKEN_OF(FMA_TOKEN, i, w)
#define FMA_QUAD(t, h) \
    FMA_ROW(4 * (h)) FMA_ROW(4 * (h) + 1) FMA_ROW(4 * (h) + 2) FMA_ROW(4 * (h) + 3)

// Multiplies vec4s `from` up to `to` of the invocation's part of a step.
void gemm_multiply(uvec3 place, uint buf, int from, int to)
{
    uint row = 2u * place.x, j = place.z * uint(VECS / PARTS) + uint(from);
    uint w_at = (buf * uint(ROWS) + row) * uint(VECS);
    uint x_at = X_TILE + (buf * uint(TOKENS) + place.y) * uint(VECS);
    for (int n = from; n < to; n++) {
        vec4 w, x[THREAD_TOKENS];
        uint wq0 = w_at + (j ^ VEC_ORDER(row)), wq1 = w_at + uint(VECS) + (j ^ VEC_ORDER(row + 1u));
        uint xq = x_at + (j ^ VEC_ORDER(place.y));
        EACH_TOKEN_OF(LOAD_X, 0, x)
        EACH_QUAD(FMA_QUAD, 0)
        j++;
    }
}

#define PUT_QUAD(t, h) \
    staged[uint((t) % (THREAD_TOKENS / 2) * ROW_QUADS + (h)) * uint(THREADS) + id] = \
        acc[(t) * ROW_QUADS + (h)];
#define ADD_QUAD(t, h) \
    acc[(t) * ROW_QUADS + (h)] += \
        staged[uint((t) % (THREAD_TOKENS / 2) * ROW_QUADS + (h)) * uint(THREADS) + id];
#define PUT_TOKEN(t) EACH_QUAD(PUT_QUAD, t)
#define ADD_TOKEN(t) EACH_QUAD(ADD_QUAD, t)

// Adds the product of steps `first` up to `end`, of GEMM_STEPS, to the results of part 0. The
// results of the other parts must be zeros at first. `first` is even and below `end`. After the
// last step, that step is fetched and stored again, and not used.
void gemm_tile(uint tid, uvec3 place, uint first, uint end)
{
    const int PART_VECS = VECS / PARTS;
    uint k = first * uint(STEP), last = (end - 1u) * uint(STEP);
    FOR_UNITS(gemm_begin_w(tid), gemm_begin_x(X_TID))
    FOR_UNITS(gemm_fetch_w(tid, k), gemm_fetch_x(X_TID, k))
    FOR_UNITS(gemm_store_w(tid, k, 0u), gemm_store_x(X_TID, 0u))
    k = min(k + uint(STEP), last);
    FOR_UNITS(gemm_fetch_w(tid, k), gemm_fetch_x(X_TID, k))
    memoryBarrierShared(); barrier();
    for (uint i = first; i < end; i++) {
        uint next_buf = (i + 1u) & 1u;
        gemm_multiply(place, i & 1u, 0, PART_VECS / 2);
        FOR_UNITS(gemm_store_w(tid, k, next_buf), gemm_store_x(X_TID, next_buf))
        gemm_multiply(place, i & 1u, PART_VECS / 2, PART_VECS);
        k = min(k + uint(STEP), last);
        FOR_UNITS(gemm_fetch_w(tid, k), gemm_fetch_x(X_TID, k))
        memoryBarrierShared(); barrier();
    }
#if PARTS > 1
    uint id = tid % uint(THREADS);
    for (uint part = 1u; part < uint(PARTS); part++) {
        if (place.z == part) {
            EACH_LOW_TOKEN(PUT_TOKEN)
        }
        memoryBarrierShared(); barrier();
        if (place.z == 0u) {
            EACH_LOW_TOKEN(ADD_TOKEN)
        }
        memoryBarrierShared(); barrier();
        if (place.z == part) {
            EACH_HIGH_TOKEN(PUT_TOKEN)
        }
        memoryBarrierShared(); barrier();
        if (place.z == 0u) {
            EACH_HIGH_TOKEN(ADD_TOKEN)
        }
        memoryBarrierShared(); barrier();
    }
#endif
}
