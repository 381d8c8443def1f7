// Matrix product for llvmpipe: a lane owns a row and some tokens, x is read at constant addresses.
//
// As matmul_decode_row: x of TOKENS tokens lies in shared memory and the sum over K is
// straight-line code, so that a multiply-add costs a broadcast, a multiplication and an addition
// for 8 rows; a weight is unpacked once per TOKENS tokens. One barrier: the same code with a
// barrier per 256 columns ran at a third of the speed. Groups: tiles of LANES rows x TOKENS tokens,
// rows first.
//
// 512 tokens, q4_k, from processor time (2 cores of an AMD EPYC at 2.6 GHz, Mesa 22.3.6,
// 2026-11-21), GMAC/s: K x N = 256 x 512 20 with LANES = 256 (128: 19, 64: 16; TOKENS = 4: 16, 16:
// 23), 256 x 1536 glu 17, 768 x 256 13 (TOKENS = 8: 22). The baseline kernel manages 2. Compiling
// takes 0.5 s for 256 columns and 8 tokens, 1 s for 768 and 4, and grows with both: that is why
// long rows take fewer tokens.
//
//! NAME matmul_prefill_row
//! OP matmul
//! VARIANT row
//! WHEN phase prefill
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN pre none
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K N W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE TOKENS = K <= 512 ? 8 : 4 in 4 8 16
//! TUNE LANES = N >= 256 && MAX_INVOCATIONS >= 256 ? 256 : 64 in 32 64 128 256
//! LOCAL LANES
//! GROUPS ceildiv(BAND, LANES) * ceildiv(T, TOKENS)
//! LET SLABS = ceildiv(K, 256)
//! LET KP = 256 * SLABS
//! SHARED float xs[TOKENS * KP] // [token][column], zero beyond K; then [token][row] for post=glu
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! STEP read
//! LIB weight_{weight}_row
//! LIB smooth
//! LIB matmul_result

void stage(uint lane, uint token0)
{
    for (uint i = lane; i < uint(TOKENS * KP / 4); i += uint(LANES)) {
        uint t = min(token0 + i / uint(KP / 4), step_tokens - 1u), c = i % uint(KP / 4);
        vec4 v = vec4(0.0);
        if (c < uint(K / 4))
            v = X[t * uint(X_STRIDE / 4) + c];
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

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x;
    uint row_tiles = (rows + uint(LANES) - 1u) / uint(LANES);
    uint row1 = group.x % row_tiles * uint(LANES), token0 = group.x / row_tiles * uint(TOKENS);
    uint row = min(row1 + lane, rows - 1u) * uint(W_STRIDE / 4);
    float acc[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        acc[t] = 0.0;
    stage(lane, token0);
    memoryBarrierShared(); barrier();
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
    uint count = min(max(step_tokens, token0) - token0, uint(TOKENS));
#if POST_glu
    memoryBarrierShared(); barrier();
    for (uint t = 0u; t < uint(TOKENS); t++)
        xs[t * uint(LANES) + lane] = acc[t];
    memoryBarrierShared(); barrier();
    uint i = row1 / 2u + lane;
    if (lane < uint(LANES / 2) && 2u * i < rows)
        for (uint t = 0u; t < count; t++) {
            float gate = xs[t * uint(LANES) + 2u * lane], up = xs[t * uint(LANES) + 2u * lane + 1u];
            Y[(token0 + t) * uint(Y_STRIDE) + row0 / 2u + i] = glu(gate, up, row0 + 2u * i);
        }
#else
    if (row1 + lane < rows)
        for (uint t = 0u; t < uint(TOKENS); t++)
            if (t < count) {
                uint y = (token0 + t) * uint(Y_STRIDE) + row0 + row1 + lane;
                float value = result(acc[t], row0 + row1 + lane);
#if POST_add
                value += Y[y];
#endif
                Y[y] = value;
            }
#endif
}
