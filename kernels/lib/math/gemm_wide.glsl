// Matrix product by large tiles, for GPUs: ROWS rows of weights times TOKENS columns, in steps of
// STEP along K.
//
// Every thread has THREAD_ROWS x THREAD_TOKENS results in registers. Shared memory holds two steps,
// by column of K: rows of W side by side, then tokens of X side by side, so that a thread reads its
// rows and tokens as vec4s. While one step is multiplied, the next is on its way: fetched into
// registers before, and unpacked into the other half of shared memory after; one barrier per step.
// With PARTS above 1 that many sets of threads have all results of the tile each, for a part of
// every step's columns, and add them up in the end: for tiles that are too few to fill the device.
// STEP is at least 4 PARTS.
// Results are only ever indexed by constants, as text: a loop that the compiler leaves rolled would
// move them to memory.
//
//! LET THREADS_N = ROWS / THREAD_ROWS
//! LET THREADS_T = TOKENS / THREAD_TOKENS
//! LET THREADS = THREADS_N * THREADS_T // of a part
//! LET LANES_N = THREADS_N % 4 == 0 ? 4 : THREADS_N % 2 == 0 ? 2 : 1
//! LET W_UNITS = ROWS * STEP / 16
//! LET SPLIT = PARTS > 1 && WG_SIZE >= 2 * W_UNITS
//! LET X_THREADS = SPLIT ? WG_SIZE - W_UNITS : WG_SIZE
//! LET W_FETCHES = ceildiv(W_UNITS, WG_SIZE)
//! LET X_ALL = TOKENS * STEP / 4 // vec4s of a step
//! LET X_FETCHES = ceildiv(X_ALL, X_THREADS)
//! LET ROW_QUADS = THREAD_ROWS / 4
//! LET JOINED = PARTS > 1 ? ROWS * TOKENS / 2 : 0 // numbers of a part, half of its results
//! SHARED float staged[max(2 * STEP * (ROWS + TOKENS), JOINED)]
//
// Needs libs weight_words and weight_*, `vec4 X[]`, the constant K, the tunables THREAD_ROWS (4, 8
// or 16), THREAD_TOKENS (4 or 8), ROWS, TOKENS, STEP (16 or 32) and PARTS, the LET WG_SIZE, and two
// functions of the kernel:
uint gemm_row(uint r);   // word of W at which row r of the tile starts; of any row without one
uint gemm_token(uint t); // element of X at which column t of the tile starts

#define X_TILE  uint(2 * STEP * ROWS)
#define X_WIDTH uint(TOKENS)

// Quads of tokens are stored elsewhere for every vec4 of a step, so that banks differ.
#define SWIZZLE (128 / STEP)

// Row and column of the tile that are row i and token t of a thread.
#define TILE_ROW(thread_n, i) \
    (4u * (thread_n) + uint((i) % 4) + uint((i) / 4 * 4 * THREADS_N))
#define TILE_TOKEN(thread_t, t) \
    (4u * (thread_t) + uint((t) % 4) + uint((t) / 4 * 4 * THREADS_T))

// The thread's results: four rows of a token each.
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
#else
#define EACH_LOW_TOKEN(F)  F(0) F(1) F(2) F(3)
#define EACH_HIGH_TOKEN(F) F(4) F(5) F(6) F(7)
#endif
#define EACH_TOKEN(F) EACH_LOW_TOKEN(F) EACH_HIGH_TOKEN(F)

// What the thread has fetched: units of 16 columns of W, as stored, then vec4s of X; with SPLIT a
// thread has either.
#if SPLIT
#define X_NEXT 0
uvec4 next[max(W_FETCHES * WEIGHT_RAW, X_FETCHES)];
#else
#define X_NEXT (W_FETCHES * WEIGHT_RAW)
uvec4 next[W_FETCHES * WEIGHT_RAW + X_FETCHES];
#endif
#define NEXT_X(i) next[X_NEXT + (i)]

// The thread's place in the tile: along the rows, along the tokens, part.
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

void gemm_fetch_w(uint tid, uint k0)
{
    for (int i = 0; i < W_FETCHES; i++) {
        uint unit = tid + uint(i * WG_SIZE), k = k0 + unit / uint(ROWS) * 16u;
        uvec4 raw[WEIGHT_RAW];
        if (W_UNITS % WG_SIZE == 0 || unit < uint(W_UNITS)) {
            weight_fetch16(gemm_row(unit % uint(ROWS)), K % STEP == 0 || k < uint(K) ? k : 0u, raw);
            for (int j = 0; j < WEIGHT_RAW; j++)
                next[i * WEIGHT_RAW + j] = raw[j];
        }
    }
}

void gemm_store_w(uint tid, uint k0, uint buf)
{
    for (int i = 0; i < W_FETCHES; i++) {
        uint unit = tid + uint(i * WG_SIZE), k = k0 + unit / uint(ROWS) * 16u;
        uvec4 raw[WEIGHT_RAW];
        vec4 w[4];
        if (W_UNITS % WG_SIZE == 0 || unit < uint(W_UNITS)) {
            for (int j = 0; j < WEIGHT_RAW; j++)
                raw[j] = next[i * WEIGHT_RAW + j];
            weight_decode16(raw, K % STEP == 0 || k < uint(K) ? k : 0u, w);
            uint to = unit % uint(ROWS);
            to += (buf * uint(STEP) + unit / uint(ROWS) * 16u) * uint(ROWS);
            for (int j = 0; j < 4; j++) {
                staged[to + uint(4 * j * ROWS)] = w[j].x;
                staged[to + uint((4 * j + 1) * ROWS)] = w[j].y;
                staged[to + uint((4 * j + 2) * ROWS)] = w[j].z;
                staged[to + uint((4 * j + 3) * ROWS)] = w[j].w;
            }
        }
    }
}


// Unit i of the thread: vec4 `q` of the step, of token (pair of tokens) `t`.
#define X_UNIT(tid, i, q, t) \
    uint v = (tid) + uint((i) * X_THREADS), q = v % uint(STEP / 4), t = v / uint(STEP / 4);

vec4 gemm_load_x(uint t, uint k)
{
    return K % STEP == 0 || k < uint(K / 4) ? X[gemm_token(t) + k] : vec4(0.0);
}

void gemm_fetch_x(uint tid, uint k0)
{
    for (int i = 0; i < X_FETCHES; i++) {
        X_UNIT(tid, i, q, t)
        if (X_ALL % X_THREADS == 0 || v < uint(X_ALL)) {
            NEXT_X(i) = floatBitsToUint(gemm_load_x(t, k0 / 4u + q));
        }
    }
}

void gemm_store_x(uint tid, uint buf)
{
    for (int i = 0; i < X_FETCHES; i++) {
        X_UNIT(tid, i, q, t)
        uint to = X_TILE + (buf * uint(STEP) + 4u * q) * X_WIDTH +
                  (t ^ (q * uint(SWIZZLE) & (X_WIDTH - 1u)));
        if (X_ALL % X_THREADS == 0 || v < uint(X_ALL)) {
            vec4 x = uintBitsToFloat(NEXT_X(i));
            staged[to] = x.x;
            staged[to + X_WIDTH] = x.y;
            staged[to + 2u * X_WIDTH] = x.z;
            staged[to + 3u * X_WIDTH] = x.w;
        }
    }
}

void gemm_fetch(uint tid, uint k0)
{
#if SPLIT
    if (tid < uint(W_UNITS))
        gemm_fetch_w(tid, k0);
    else
        gemm_fetch_x(tid - uint(W_UNITS), k0);
#else
    gemm_fetch_w(tid, k0);
    gemm_fetch_x(tid, k0);
#endif
}

void gemm_store(uint tid, uint k0, uint buf)
{
#if SPLIT
    if (tid < uint(W_UNITS))
        gemm_store_w(tid, k0, buf);
    else
        gemm_store_x(tid - uint(W_UNITS), buf);
#else
    gemm_store_w(tid, k0, buf);
    gemm_store_x(tid, buf);
#endif
}

vec4 staged_vec4(uint i)
{
    i *= 4u;
    return vec4(staged[i], staged[i + 1u], staged[i + 2u], staged[i + 3u]);
}

// One column of K: w holds the thread's rows, x its tokens.
#define LOAD_QUAD(c, h) w[h] = staged_vec4(wq + uint((c) * ROWS / 4 + (h) * THREADS_N));
#define FMA_QUAD(t, h)  acc[(t) * ROW_QUADS + (h)] += w[h] * x[(t) / 4][(t) % 4];
#define FMA_TOKEN(t)    EACH_QUAD(FMA_QUAD, t)
#if THREAD_TOKENS == 4
#define LOAD_X(c) x[0] = staged_vec4(xq + uint((c) * TOKENS / 4) + x0);
#else
#define LOAD_X(c) \
    x[0] = staged_vec4(xq + uint((c) * TOKENS / 4) + x0); \
    x[1] = staged_vec4(xq + uint((c) * TOKENS / 4) + x1);
#endif
#define MULTIPLY(c) EACH_QUAD(LOAD_QUAD, c) LOAD_X(c) EACH_TOKEN(FMA_TOKEN)

void gemm_multiply(uvec3 place, uint buf)
{
    uint k = buf * uint(STEP) + place.z * uint(STEP / PARTS);
    uint wq = k * uint(ROWS / 4) + place.x, xq = X_TILE / 4u + k * uint(TOKENS / 4);
    uint q = place.z * uint(STEP / PARTS / 4);
    for (int j = 0; j < STEP / PARTS / 4; j++) {
        vec4 w[ROW_QUADS], x[THREAD_TOKENS / 4];
        uint s = (q * uint(SWIZZLE) & uint(TOKENS - 1)) / 4u;
        uint x0 = place.y ^ s, x1 = (place.y + uint(THREADS_T)) ^ s;
        MULTIPLY(0)
        MULTIPLY(1)
        MULTIPLY(2)
        MULTIPLY(3)
        wq += uint(ROWS);
        xq += uint(TOKENS);
        q++;
    }
}

#define PUT(i, v) \
    staged[i] = (v).x; \
    staged[(i) + 1u] = (v).y; \
    staged[(i) + 2u] = (v).z; \
    staged[(i) + 3u] = (v).w;
#define GET(i) staged_vec4(i)

#define PUT_QUAD(t, h) \
    to = 4u * (uint((t) % (THREAD_TOKENS / 2) * ROW_QUADS + (h)) * uint(THREADS) + id); \
    PUT(to, acc[(t) * ROW_QUADS + (h)])
#define ADD_QUAD(t, h) \
    to = uint((t) % (THREAD_TOKENS / 2) * ROW_QUADS + (h)) * uint(THREADS) + id; \
    acc[(t) * ROW_QUADS + (h)] += GET(to);
#define PUT_TOKEN(t) EACH_QUAD(PUT_QUAD, t)
#define ADD_TOKEN(t) EACH_QUAD(ADD_QUAD, t)

// Adds the product to the results of part 0; the other parts must have begun with zeros.
void gemm_tile(uint tid, uvec3 place)
{
    const uint STEPS = uint((K + STEP - 1) / STEP);
    gemm_fetch(tid, 0u);
    gemm_store(tid, 0u, 0u);
    memoryBarrierShared(); barrier();
    for (uint i = 0u; i < STEPS; i++) {
        uint k0 = (i + 1u) * uint(STEP);
        if (i + 1u < STEPS)
            gemm_fetch(tid, k0);
        gemm_multiply(place, i & 1u);
        if (i + 1u < STEPS)
            gemm_store(tid, k0, (i + 1u) & 1u);
        memoryBarrierShared(); barrier();
    }
#if PARTS > 1
    uint id = tid % uint(THREADS), to;
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
