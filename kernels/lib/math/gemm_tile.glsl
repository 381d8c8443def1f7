// Matrix product by tiles: ROWS rows of weights times TOKENS columns, in steps of 16 along K.
//
// Each invocation fetches 16 columns of a row of W and its share of X for the next step into
// registers. It computes the current step from shared memory, then stores what it fetched. An
// invocation has THREAD_ROWS x THREAD_TOKENS results. In shared memory, the step of a row is four
// vec4s along K and one vec4 of padding, so that invocations with different rows read different
// banks.
//
//! LET THREADS_N = ROWS / THREAD_ROWS
//! LET W_FETCHES = ceildiv(ROWS, WG_SIZE)
//! LET X_FETCHES = ceildiv(4 * TOKENS, WG_SIZE)
//! SHARED vec4 ws[5 * ROWS]
//! SHARED vec4 xs[5 * TOKENS]
//! LIB loop_end
// Needs libs weight_*, `vec4 X[]`, the parameter rows, the constant K, the tunables
// THREAD_ROWS, THREAD_TOKENS, ROWS and TOKENS, the LET WG_SIZE, the attribute post, and two
// functions of the kernel:
uint gemm_row(uint r);   // word of W at which row r of the tile starts; of any row without one
uint gemm_token(uint t); // element of X at which column t of the tile starts

// The row of the tile that is row i of the invocations with the number thread_n along the rows.
// With post=glu an invocation has whole pairs of rows.
#if POST_glu
#define TILE_ROW(thread_n, i) \
    (2u * (thread_n) + uint(i) % 2u + uint(i) / 2u * uint(2 * THREADS_N))
#else
#define TILE_ROW(thread_n, i) ((thread_n) + uint(i) * uint(THREADS_N))
#endif

// This invocation's share of the next step.
uvec4 next_w[W_FETCHES * WEIGHT_RAW];
vec4 next_x[X_FETCHES];

// The invocation's results, [token][row]. The kernel sets their initial values.
float acc[THREAD_ROWS * THREAD_TOKENS];

void gemm_fetch(uint tid, uint step)
{
    for (int i = 0; i < W_FETCHES; i++) {
        uint r = tid + uint(i * WG_SIZE);
        uvec4 raw[WEIGHT_RAW];
        if (r < uint(ROWS)) {
            weight_fetch16(gemm_row(r), 16u * step, raw);
            for (int j = 0; j < WEIGHT_RAW; j++)
                next_w[i * WEIGHT_RAW + j] = raw[j];
        }
    }
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * WG_SIZE), k = 4u * step + v % 4u;
        next_x[i] = vec4(0.0);
        if (v < uint(4 * TOKENS) && k < uint(K / 4))
            next_x[i] = X[gemm_token(v / 4u) + k];
    }
}

void gemm_store_shared(uint tid, uint step)
{
    for (int i = 0; i < W_FETCHES; i++) {
        uint r = tid + uint(i * WG_SIZE);
        uvec4 raw[WEIGHT_RAW];
        vec4 w[4];
        if (r < uint(ROWS)) {
            for (int j = 0; j < WEIGHT_RAW; j++)
                raw[j] = next_w[i * WEIGHT_RAW + j];
            weight_decode16(raw, 16u * step, w);
            for (uint j = 0u; j < 4u; j++)
                ws[5u * r + j] = w[j];
        }
    }
    for (int i = 0; i < X_FETCHES; i++) {
        uint v = tid + uint(i * WG_SIZE);
        if (v < uint(4 * TOKENS))
            xs[v / 4u * 5u + v % 4u] = next_x[i];
    }
}

void gemm_multiply(uint thread_n, uint thread_t)
{
    for (uint j = 0u; j < 4u; j++) {
        vec4 w[THREAD_ROWS], x[THREAD_TOKENS];
        for (int i = 0; i < THREAD_ROWS; i++)
            w[i] = ws[5u * TILE_ROW(thread_n, i) + j];
        for (int i = 0; i < THREAD_TOKENS; i++)
            x[i] = xs[5u * (thread_t * uint(THREAD_TOKENS) + uint(i)) + j];
        for (int t = 0; t < THREAD_TOKENS; t++)
            for (int i = 0; i < THREAD_ROWS; i++) {
                float sum = acc[t * THREAD_ROWS + i];
                sum = sum + w[i].x * x[t].x;
                sum = sum + w[i].y * x[t].y;
                sum = sum + w[i].z * x[t].z;
                acc[t * THREAD_ROWS + i] = sum + w[i].w * x[t].w;
            }
    }
}

// Adds the whole product to the invocation's results.
void gemm_tile(uint tid)
{
    const uint STEPS = uint((K + 15) / 16);
    gemm_fetch(tid, 0u);
    for (uint step = 0u; step < LOOP_END(STEPS, rows); step++) {
        gemm_store_shared(tid, step);
        memoryBarrierShared(); barrier();
        if (step + 1u < STEPS)
            gemm_fetch(tid, step + 1u);
        gemm_multiply(tid % uint(THREADS_N), tid / uint(THREADS_N));
        memoryBarrierShared(); barrier();
    }
}
