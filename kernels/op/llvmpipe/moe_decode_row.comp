// The experts of one token for llvmpipe: a lane owns a row, x is read at constant addresses.
//
// As matmul_decode_row. post=glu: group.y is the choice. post=combine: a lane's sum runs through
// its row in each of the chosen experts, as straight-line code; x of all choices lies in shared
// memory, unweighted. A row that another band holds is read from this band's first row and counts
// as 0. Groups: x covers an expert's rows, LANES each, y with post=glu the choices.
//
//! NAME moe_decode_row
//! OP moe_matmul
//! VARIANT row
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN post glu combine
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read uvec2 ROUTE
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float scale
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE LANES = 128 in 32 64 128
//! LOCAL LANES
//! GROUPS ceildiv(EXPERT_ROWS, LANES) POST_glu ? TOP_K : 1
//! LET SLABS = ceildiv(K, 256)
//! LET KP = 256 * SLABS
//! LET SEGMENTS = POST_glu ? 1 : TOP_K
//! SHARED float xs[SEGMENTS * KP] // x of each choice, zero beyond K
//! SHARED float sums[SEGMENTS * KP / 4] // of four neighbouring x
//! SHARED float pair[POST_glu ? LANES : 0]
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024 && (POST_glu || ceildiv(K, 256) * TOP_K <= 8)
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! LIB weight_{weight}_row
//! LIB moe_glu

void stage(uint lane)
{
    for (uint i = lane; i < uint(SEGMENTS * KP / 4); i += uint(LANES)) {
        uint s = i / uint(KP / 4), c = i % uint(KP / 4);
        vec4 v = c < uint(K / 4) ? X[s * uint(X_STRIDE / 4) + c] : vec4(0.0);
        xs[4u * i] = v.x;
        xs[4u * i + 1u] = v.y;
        xs[4u * i + 2u] = v.z;
        xs[4u * i + 3u] = v.w;
        sums[i] = (v.x + v.y) + (v.z + v.w);
    }
}

// SEGMENT is the choice whose x the code meets.
#define SUM4(a, i) ((a[i] + a[(i) + 1]) + (a[(i) + 2] + a[(i) + 3]))
#define SUM8(a, i) (SUM4(a, i) + SUM4(a, (i) + 4))
#define GROUP(g, d, m) \
    { \
        float gd = d, gm = m, even = 0.0, odd = 0.0;
#define CODE(c, v) \
        if ((c) % 2 == 0) \
            even += (v) * xs[SEGMENT * KP + (c)]; \
        else \
            odd += (v) * xs[SEGMENT * KP + (c)];
#define GROUP_END(g) \
        acc += gd * (even + odd) - gm * SUM8(sums, SEGMENT * KP / 4 + 8 * (g)); \
    }
#if SLABS == 1
#define SLABS_OF_ROW ROW_SLAB(0)
#elif SLABS == 2
#define SLABS_OF_ROW ROW_SLAB(0) ROW_SLAB(1)
#elif SLABS == 3
#define SLABS_OF_ROW ROW_SLAB(0) ROW_SLAB(1) ROW_SLAB(2)
#else
#define SLABS_OF_ROW ROW_SLAB(0) ROW_SLAB(1) ROW_SLAB(2) ROW_SLAB(3)
#endif

// Row r of choice s in this band; `rows` or more: it is elsewhere, or there is none.
uint band_row(uint s, uint r)
{
    return r < uint(EXPERT_ROWS) ? ROUTE[s].x * uint(EXPERT_ROWS) + r - row0 : rows;
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

// The lane's row of choice s, in segment SEGMENT: adds its product, times the factor, to y.
#define CHOICE(s, factor) \
    { \
        uint at = band_row(s, r), row = (at < rows ? at : 0u) * uint(W_STRIDE / 4); \
        float acc = 0.0; \
        SLABS_OF_ROW \
        if (at < rows) \
            y += (factor) * (acc + bias_of(at)); \
    }
#define SHARE(s) (scale * uintBitsToFloat(ROUTE[s].y))

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, r = group.x * uint(LANES) + lane;
    float y = 0.0;
    stage(lane);
    memoryBarrierShared(); barrier();
#if POST_glu
    uint s = min(group.y, uint(TOP_K - 1));
#define SEGMENT 0
    CHOICE(s, 1.0)
    pair[lane] = y;
    memoryBarrierShared(); barrier();
    uint i = group.x * uint(LANES / 2) + lane;
    if (lane < uint(LANES / 2) && band_row(s, 2u * i) < rows)
        Y[s * uint(Y_STRIDE) + i] = glu(pair[2u * lane], pair[2u * lane + 1u]);
#else
#define SEGMENT 0
    CHOICE(0u, SHARE(0u))
#undef SEGMENT
#if TOP_K > 1
#define SEGMENT 1
    CHOICE(1u, SHARE(1u))
#undef SEGMENT
#endif
#if TOP_K > 2
#define SEGMENT 2
    CHOICE(2u, SHARE(2u))
#undef SEGMENT
#endif
#if TOP_K > 3
#define SEGMENT 3
    CHOICE(3u, SHARE(3u))
#undef SEGMENT
#endif
#if TOP_K > 4
#define SEGMENT 4
    CHOICE(4u, SHARE(4u))
#undef SEGMENT
#endif
#if TOP_K > 5
#define SEGMENT 5
    CHOICE(5u, SHARE(5u))
#undef SEGMENT
#endif
#if TOP_K > 6
#define SEGMENT 6
    CHOICE(6u, SHARE(6u))
#undef SEGMENT
#endif
#if TOP_K > 7
#define SEGMENT 7
    CHOICE(7u, SHARE(7u))
#undef SEGMENT
#endif
    if (r < uint(EXPERT_ROWS))
        Y[r] += y;
#endif
}
