// Matrix product on any device: tiles of results, weights unpacked into shared memory.
//
// Y[t, n] = sum_k W[n, k] X[t, k]. A group walks K in steps of 16: every lane fetches 16 columns of
// a row of W and its share of X for the next step into registers, computes on the current step from
// shared memory, then stores what it fetched. A lane owns LANE_ROWS x LANE_TOKENS results. In
// shared memory a row's step is four vec4 along K and one of padding, so that lanes reading
// different rows meet different banks. Groups: x covers the rows, y the tokens.
//
// One H200 (driver 580), q4_k, 512 tokens, 2026-11-21, `build/tests/test_kernels_matmul bench
// prefill q4_k none POST K N 512`, GMAC/s with tiles of 64 x 128 (64 x 64, 64 x 32): K x N = 2048 x
// 3072 9,800 (10,300, 7,900), 2048 x 2048 11,000 (9,700, 7,400), 2048 x 16384 11,400 (10,200,
// 6,800), 8192 x 2048 11,900 (10,400, 7,700). f16 weights are 2% faster.
// With a bias, 8 tokens per lane are another matter there: the 24 qkv of gpt-oss-20b:mxfp4 (bf16, K
// x N = 2880 x 5120) took 293 ms, with 4 and tiles of 64 x 32 they take 26 (`dopplergl bench
// --profile`).
//
//! NAME matmul_prefill
//! OP matmul
//! VARIANT baseline tiled gemm
//! WHEN phase prefill
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN pre none
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uint W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE LANE_ROWS = COMPUTE_UNITS >= 32 && !SOFTWARE ? 8 : 4 in 2 4 8
//! TUNE LANE_TOKENS = COMPUTE_UNITS >= 32 && !SOFTWARE && !BIAS_row ? 8 : 4 in 2 4 8
//! TUNE ROWS = SOFTWARE ? 32 : 64 in 16 32 64 128
//! TUNE TOKENS = COMPUTE_UNITS >= 32 && !SOFTWARE && !BIAS_row ? 128 : 32 in 16 32 64 128
//! LOCAL ROWS / LANE_ROWS * (TOKENS / LANE_TOKENS)
//! GROUPS ceildiv(BAND, ROWS) ceildiv(T, TOKENS)
//! SHARED vec4 ws[5 * ROWS]
//! SHARED vec4 xs[5 * TOKENS]
//! REQUIRE LANE_ROWS <= ROWS && LANE_TOKENS <= TOKENS
//! PREFER 10
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_{weight}
//! LIB smooth
//! LIB matmul_result

#define STEPS       uint((K + 15) / 16)
#define ACROSS      (ROWS / LANE_ROWS) // lanes side by side along the rows
#define ROW_RUNS    ((ROWS + LOCAL_X - 1) / LOCAL_X)
#define TOKEN_QUADS ((4 * TOKENS + LOCAL_X - 1) / LOCAL_X)

// With post=glu a lane owns whole pairs of rows.
#if POST_glu
#define TILE_ROW(lane, i) (2u * (lane) + uint(i) % 2u + uint(i) / 2u * uint(2 * ACROSS))
#else
#define TILE_ROW(lane, i) ((lane) + uint(i) * uint(ACROSS))
#endif

// What a lane holds of the next step.
uvec4 next_w[ROW_RUNS * WEIGHT_RAW];
vec4 next_x[TOKEN_QUADS];

void fetch(uint lane, uint row1, uint token1, uint step)
{
    for (int i = 0; i < ROW_RUNS; i++) {
        uint r = lane + uint(i * LOCAL_X);
        uvec4 raw[WEIGHT_RAW];
        if (r < uint(ROWS)) {
            weight_fetch16(min(row1 + r, rows - 1u) * uint(W_STRIDE), 16u * step, raw);
            for (int j = 0; j < WEIGHT_RAW; j++)
                next_w[i * WEIGHT_RAW + j] = raw[j];
        }
    }
    for (int i = 0; i < TOKEN_QUADS; i++) {
        uint q = lane + uint(i * LOCAL_X), k = 4u * step + q % 4u;
        next_x[i] = vec4(0.0);
        if (q < uint(4 * TOKENS) && k < uint(K / 4))
            next_x[i] = X[min(token1 + q / 4u, step_tokens - 1u) * uint(X_STRIDE / 4) + k];
    }
}

void stash(uint lane, uint step)
{
    for (int i = 0; i < ROW_RUNS; i++) {
        uint r = lane + uint(i * LOCAL_X);
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
    for (int i = 0; i < TOKEN_QUADS; i++) {
        uint q = lane + uint(i * LOCAL_X);
        if (q < uint(4 * TOKENS))
            xs[q / 4u * 5u + q % 4u] = next_x[i];
    }
}

float acc[LANE_ROWS * LANE_TOKENS];

void multiply(uint lane_r, uint lane_t)
{
    for (uint j = 0u; j < 4u; j++) {
        vec4 w[LANE_ROWS], x[LANE_TOKENS];
        for (int i = 0; i < LANE_ROWS; i++)
            w[i] = ws[5u * TILE_ROW(lane_r, i) + j];
        for (int i = 0; i < LANE_TOKENS; i++)
            x[i] = xs[5u * (lane_t * uint(LANE_TOKENS) + uint(i)) + j];
        for (int t = 0; t < LANE_TOKENS; t++)
            for (int i = 0; i < LANE_ROWS; i++) {
                float sum = acc[t * LANE_ROWS + i];
                sum = sum + w[i].x * x[t].x;
                sum = sum + w[i].y * x[t].y;
                sum = sum + w[i].z * x[t].z;
                acc[t * LANE_ROWS + i] = sum + w[i].w * x[t].w;
            }
    }
}

// Results of the lane's t-th token.
void store(uint lane_r, uint row1, uint token, int t)
{
    uint y = token * uint(Y_STRIDE);
#if POST_glu
    for (int i = 0; i < LANE_ROWS; i += 2) {
        uint r = row1 + TILE_ROW(lane_r, i);
        float gate = acc[t * LANE_ROWS + i], up = acc[t * LANE_ROWS + i + 1];
        if (r < rows)
            Y[y + (row0 + r) / 2u] = glu(gate, up, row0 + r);
    }
#else
    for (int i = 0; i < LANE_ROWS; i++) {
        uint r = row1 + TILE_ROW(lane_r, i);
        if (r < rows) {
            float value = result(acc[t * LANE_ROWS + i], row0 + r);
#if POST_add
            value += Y[y + row0 + r];
#endif
            Y[y + row0 + r] = value;
        }
    }
#endif
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, lane_r = lane % uint(ACROSS), lane_t = lane / uint(ACROSS);
    uint row1 = group.x * uint(ROWS), token1 = group.y * uint(TOKENS);
    for (int i = 0; i < LANE_ROWS * LANE_TOKENS; i++)
        acc[i] = 0.0;
    fetch(lane, row1, token1, 0u);
    for (uint step = 0u; step < STEPS; step++) {
        stash(lane, step);
        memoryBarrierShared(); barrier();
        if (step + 1u < STEPS)
            fetch(lane, row1, token1, step + 1u);
        multiply(lane_r, lane_t);
        memoryBarrierShared(); barrier();
    }
    for (int t = 0; t < LANE_TOKENS; t++) {
        uint token = token1 + lane_t * uint(LANE_TOKENS) + uint(t);
        if (token < step_tokens)
            store(lane_r, row1, token, t);
    }
}
