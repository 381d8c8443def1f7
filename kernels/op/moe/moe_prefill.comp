// The experts of many tokens on any device: tiles of results, weights unpacked into shared memory.
//
// As matmul_prefill, but the TOKENS columns of a tile are pairs of one expert, which need not be
// neighbours: their numbers lie in shared memory. Rows of a tile that the band does not hold are
// not stored. Groups: x counts the row tiles of an expert, then the tiles of pairs; those beyond
// the last tile end at once.
//
// One H200 (driver 580), 512 tokens, 2026-11-21, `dopplergl bench --shape SHAPE --kernel-hints`:
//     ROWS x TOKENS (LANE_TOKENS)            64 x 32 (4)  64 x 64 (8)  128 x 64 (8)  64 x 128 (8)
//     gpt-oss-20b:mxfp4, gate_up + down, ms         125          117           105
//     qwen3-30b-a3b:q4_k, tokens/s                 2444         2801          2986          2783
//     mixtral-8x7b:q4_k, tokens/s                   519          630           683           693
//
//! NAME moe_prefill
//! OP moe_matmul
//! VARIANT baseline tiled gemm
//! WHEN phase prefill
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN post glu store
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uint W
//! BIND read vec4 X
//! BIND write float Y
//! BIND read uint LIST
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS E TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE LANE_ROWS = COMPUTE_UNITS >= 32 && !SOFTWARE ? 8 : 4 in 2 4 8
//! TUNE LANE_TOKENS = COMPUTE_UNITS >= 32 && !SOFTWARE ? 8 : 4 in 2 4 8
//! TUNE ROWS = SOFTWARE ? 32 : COMPUTE_UNITS >= 32 ? 128 : 64 in 16 32 64 128
//! TUNE TOKENS = COMPUTE_UNITS >= 32 && !SOFTWARE ? 64 : 32 in 16 32 64 128
//! LOCAL ROWS / LANE_ROWS * (TOKENS / LANE_TOKENS)
//! GROUPS ceildiv(EXPERT_ROWS, ROWS) * min(T * TOP_K, ceildiv(T * TOP_K, TOKENS) + E)
//! SHARED vec4 ws[5 * ROWS]
//! SHARED vec4 xs[5 * TOKENS]
//! SHARED uint pairs[TOKENS]
//! SHARED uvec3 found // by lane 0
//! REQUIRE LANE_ROWS <= ROWS && LANE_TOKENS <= TOKENS
//! PREFER 10
//! TOLERANCE 3e-12
//! LIB weight_{weight}
//! LIB moe_glu
//! LIB moe_tile

#define STEPS       uint((K + 15) / 16)
#define ROW_TILES   uint((EXPERT_ROWS + ROWS - 1) / ROWS)
#define ACROSS      (ROWS / LANE_ROWS) // lanes side by side along the rows
#define ROW_RUNS    ((ROWS + LOCAL_X - 1) / LOCAL_X)
#define TOKEN_QUADS ((4 * TOKENS + LOCAL_X - 1) / LOCAL_X)

// With post=glu a lane owns whole pairs of rows.
#if POST_glu
#define TILE_ROW(lane, i) (2u * (lane) + uint(i) % 2u + uint(i) / 2u * uint(2 * ACROSS))
#else
#define TILE_ROW(lane, i) ((lane) + uint(i) * uint(ACROSS))
#endif

// Where the tile lies: its first row within the expert, and what turns such a row into the band's.
uint row1;
uint band1;

// What a lane holds of the next step.
uvec4 next_w[ROW_RUNS * WEIGHT_RAW];
vec4 next_x[TOKEN_QUADS];

// Row r of the tile in this band; `rows` or more: it is elsewhere, or the expert has no such row.
uint band_row(uint r)
{
    return row1 + r < uint(EXPERT_ROWS) ? band1 + r : rows;
}

void fetch(uint lane, uint step)
{
    for (int i = 0; i < ROW_RUNS; i++) {
        uint r = lane + uint(i * LOCAL_X), row = band_row(r);
        uvec4 raw[WEIGHT_RAW];
        if (r < uint(ROWS)) {
            weight_fetch16((row < rows ? row : 0u) * uint(W_STRIDE), 16u * step, raw);
            for (int j = 0; j < WEIGHT_RAW; j++)
                next_w[i * WEIGHT_RAW + j] = raw[j];
        }
    }
    for (int i = 0; i < TOKEN_QUADS; i++) {
        uint q = lane + uint(i * LOCAL_X), k = 4u * step + q % 4u;
        next_x[i] = vec4(0.0);
        if (q < uint(4 * TOKENS) && k < uint(K / 4)) {
#if POST_glu
            uint x = pairs[q / 4u] / uint(TOP_K);
#else
            uint x = pairs[q / 4u];
#endif
            next_x[i] = X[x * uint(X_STRIDE / 4) + k];
        }
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

// What the sums of a row begin with: its bias. Added at the end instead, with LANE_TOKENS = 8, it
// made the whole product take three times as long on that H200.
float start(uint row)
{
#if BIAS_row
    return row < rows ? uintBitsToFloat(W[rows * uint(W_STRIDE) + row]) : 0.0;
#else
    return 0.0;
#endif
}

// Results of the lane's t-th pair.
void store(uint lane_r, uint pair, int t)
{
    uint y = pair * uint(Y_STRIDE);
#if POST_glu
    for (int i = 0; i < LANE_ROWS; i += 2) {
        uint r = TILE_ROW(lane_r, i), row = band_row(r);
        if (row < rows)
            Y[y + (row1 + r) / 2u] = glu(acc[t * LANE_ROWS + i], acc[t * LANE_ROWS + i + 1]);
    }
#else
    for (int i = 0; i < LANE_ROWS; i++) {
        uint r = TILE_ROW(lane_r, i), row = band_row(r);
        if (row < rows)
            Y[y + row1 + r] = acc[t * LANE_ROWS + i];
    }
#endif
}

// The tile of `count` pairs that is in `pairs`.
void multiply_tile(uint lane, uint count)
{
    uint lane_r = lane % uint(ACROSS), lane_t = lane / uint(ACROSS);
    for (int i = 0; i < LANE_ROWS * LANE_TOKENS; i++)
        acc[i] = start(band_row(TILE_ROW(lane_r, i % LANE_ROWS)));
    fetch(lane, 0u);
    for (uint step = 0u; step < STEPS; step++) {
        stash(lane, step);
        memoryBarrierShared(); barrier();
        if (step + 1u < STEPS)
            fetch(lane, step + 1u);
        multiply(lane_r, lane_t);
        memoryBarrierShared(); barrier();
    }
    for (int t = 0; t < LANE_TOKENS; t++) {
        uint i = lane_t * uint(LANE_TOKENS) + uint(t);
        if (i < count)
            store(lane_r, pairs[i], t);
    }
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x;
    row1 = group.x % ROW_TILES * uint(ROWS);
    uvec3 tile = find_tile(group.x / ROW_TILES, lane == 0u);
    if (lane == 0u)
        found = tile;
    memoryBarrierShared(); barrier();
    tile = found;
    band1 = tile.x * uint(EXPERT_ROWS) + row1 - row0;
    if (int(band1) >= int(rows) || int(band1) + ROWS <= 0)
        tile.z = 0u; // nothing of the tile is in this band
    for (uint i = lane; i < uint(TOKENS) && tile.z > 0u; i += uint(LOCAL_X))
        pairs[i] = LIST[tile.y + min(i, tile.z - 1u)];
    memoryBarrierShared(); barrier();
    if (tile.z > 0u)
        multiply_tile(lane, tile.z);
}
