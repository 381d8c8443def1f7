// The experts of many tokens for llvmpipe: a lane owns a row and some pairs of one expert.
//
// As matmul_prefill_row, with the tiles of pairs of moe_prefill. A group beyond the last tile does
// the work of an empty one: a branch around the straight-line code would cost more. Rows that the
// band does not hold are read from its first row and not stored. Groups: row tiles of an expert,
// then the tiles of pairs.
//
//! NAME moe_prefill_row
//! OP moe_matmul
//! VARIANT row
//! WHEN phase prefill
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN post glu store
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND write float Y
//! BIND read uint LIST
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS E TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE TOKENS = K <= 512 ? 8 : 4 in 4 8 16
//! TUNE LANES = EXPERT_ROWS >= 256 && MAX_INVOCATIONS >= 256 ? 256 : 64 in 32 64 128 256
//! LOCAL LANES
//! GROUPS ceildiv(EXPERT_ROWS, LANES) * min(T * TOP_K, ceildiv(T * TOP_K, TOKENS) + E)
//! LET SLABS = ceildiv(K, 256)
//! LET KP = 256 * SLABS
//! SHARED float xs[TOKENS * KP] // [pair][column], zero beyond K; then [pair][row] for post=glu
//! SHARED uint pairs[TOKENS]
//! SHARED uvec3 found // by lane 0
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! LIB weight_{weight}_row
//! LIB moe_glu
//! LIB moe_tile

#define ROW_TILES uint((EXPERT_ROWS + LANES - 1) / LANES)

void stage(uint lane)
{
    for (uint i = lane; i < uint(TOKENS * KP / 4); i += uint(LANES)) {
        uint x = pairs[i / uint(KP / 4)], c = i % uint(KP / 4);
#if POST_glu
        x /= uint(TOP_K);
#endif
        vec4 v = c < uint(K / 4) ? X[x * uint(X_STRIDE / 4) + c] : vec4(0.0);
        xs[4u * i] = v.x;
        xs[4u * i + 1u] = v.y;
        xs[4u * i + 2u] = v.z;
        xs[4u * i + 3u] = v.w;
    }
}

#define MAC(t, c)  acc[t] += w * xs[KP * (t) + (c)];
#define MAC4(t, c) MAC(t, c) MAC((t) + 1, c) MAC((t) + 2, c) MAC((t) + 3, c)
#if TOKENS == 4
#define MACS(c) MAC4(0, c)
#elif TOKENS == 8
#define MACS(c) MAC4(0, c) MAC4(4, c)
#else
#define MACS(c) MAC4(0, c) MAC4(4, c) MAC4(8, c) MAC4(12, c)
#endif
#define GROUP(g, d, m) \
    { \
        float gd = d, gm = m;
#define CODE(c, v) \
        { \
            float w = gd * (v) - gm; \
            MACS(c) \
        }
#define GROUP_END(g) \
    }

float bias_of(uint row)
{
#if BIAS_row
    uint i = rows * uint(W_STRIDE) + row;
    return uintBitsToFloat(W[i / 4u][i % 4u]);
#else
    return 0.0;
#endif
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, r = group.x % ROW_TILES * uint(LANES) + lane;
    uvec3 tile = find_tile(group.x / ROW_TILES, lane == 0u);
    if (lane == 0u)
        found = tile;
    memoryBarrierShared(); barrier();
    tile = found;
    if (lane < uint(TOKENS))
        pairs[lane] = tile.z > 0u ? LIST[tile.y + min(lane, tile.z - 1u)] : 0u;
    memoryBarrierShared(); barrier();
    stage(lane);
    memoryBarrierShared(); barrier();
    uint at = r < uint(EXPERT_ROWS) ? tile.x * uint(EXPERT_ROWS) + r - row0 : rows;
    uint row = (at < rows ? at : 0u) * uint(W_STRIDE / 4);
    float acc[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        acc[t] = 0.0;
    ROW_SLAB(0)
#if SLABS > 1
    ROW_SLAB(1)
#endif
#if SLABS > 2
    ROW_SLAB(2)
#endif
#if SLABS > 3
    ROW_SLAB(3)
#endif
    float bias = at < rows ? bias_of(at) : 0.0;
#if POST_glu
    memoryBarrierShared(); barrier();
    for (uint t = 0u; t < uint(TOKENS); t++)
        xs[t * uint(LANES) + lane] = acc[t] + bias;
    memoryBarrierShared(); barrier();
    uint gate = group.x % ROW_TILES * uint(LANES) + 2u * lane;
    uint gate_at = tile.x * uint(EXPERT_ROWS) + gate - row0;
    if (lane < uint(LANES / 2) && gate < uint(EXPERT_ROWS) && gate_at < rows)
        for (uint t = 0u; t < tile.z; t++)
            Y[pairs[t] * uint(Y_STRIDE) + gate / 2u] =
                glu(xs[t * uint(LANES) + 2u * lane], xs[t * uint(LANES) + 2u * lane + 1u]);
#else
    if (at < rows)
        for (uint t = 0u; t < uint(TOKENS); t++)
            if (t < tile.z)
                Y[pairs[t] * uint(Y_STRIDE) + r] = acc[t] + bias;
#endif
}
