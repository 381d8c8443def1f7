// Matrix-vector product for llvmpipe: a lane owns a row, x is read at constant addresses.
//
// llvmpipe reads shared memory at a constant address, outside of loops and branches, as one scalar
// broadcast (2 cycles); any other load runs lane by lane (30 cycles and more for 8 lanes). So x
// lies in shared memory, with the prologue applied, and the sum over K is written out by macros.
// Only the weights are gathered, four words at a time. Groups: LANES rows each. One barrier, and a
// second one with post=glu, which is nearly free.
//
// Processor time of a dispatch, of both cores together (2 cores of an AMD EPYC at 2.6 GHz, Mesa
// 22.3.6, q4_k, 2026-11-21): K x N = 256 x 512 norm 59 us, 256 x 1536 norm glu 140 us, 768 x 256 80
// us: 2.2 to 2.8 weights per nanosecond and core. The baseline kernel manages 0.07.
// `build/tests/test_kernels_matmul bench decode q4_k norm glu 256 1536 1` times it.
//
//! NAME matmul_decode_row
//! OP matmul
//! VARIANT row
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN pre none norm
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float eps
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K W_STRIDE X_STRIDE
//! CONST X_LAST = 0
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE LANES = 128 in 32 64 128
//! LOCAL LANES
//! GROUPS ceildiv(BAND, LANES)
//! LET SLABS = ceildiv(K, 256)
//! LET KP = 256 * SLABS
//! SHARED float xs[KP] // x, zero beyond K
//! SHARED float sums[KP / 4] // of four neighbouring x
//! SHARED float squares[KP / 4] // for pre=norm
//! SHARED float pair[POST_glu ? LANES : 0]
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! STEP read
//! LIB weight_{weight}_row
//! LIB matmul_source
//! LIB smooth
//! LIB matmul_result

void stage(uint lane)
{
    for (uint i = lane; i < uint(KP / 4); i += uint(LANES)) {
        vec4 v = vec4(0.0);
        float square = 0.0;
        if (i < uint(K / 4))
            v = source(i, square);
        xs[4u * i] = v.x;
        xs[4u * i + 1u] = v.y;
        xs[4u * i + 2u] = v.z;
        xs[4u * i + 3u] = v.w;
        sums[i] = (v.x + v.y) + (v.z + v.w);
        squares[i] = square;
    }
}

#define SUM4(a, i)  ((a[i] + a[(i) + 1]) + (a[(i) + 2] + a[(i) + 3]))
#define SUM8(a, i)  (SUM4(a, i) + SUM4(a, (i) + 4))
#define SUM32(a, i) ((SUM8(a, i) + SUM8(a, (i) + 8)) + (SUM8(a, (i) + 16) + SUM8(a, (i) + 24)))
#define SUM64(a, i) (SUM32(a, i) + SUM32(a, (i) + 32))

#define GROUP(g, d, m) \
    { \
        float gd = d, gm = m, even = 0.0, odd = 0.0;
#define CODE(c, v) \
        if ((c) % 2 == 0) even += (v) * xs[c]; else odd += (v) * xs[c];
#define GROUP_END(g) \
        acc += gd * (even + odd) - gm * SUM8(sums, 8 * (g)); \
    }

float row_product(uint row)
{
    float acc = 0.0;
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
    return acc;
}

float norm_scale()
{
    float square = SUM64(squares, 0);
#if SLABS > 1
    square += SUM64(squares, 64);
#endif
#if SLABS > 2
    square += SUM64(squares, 128);
#endif
#if SLABS > 3
    square += SUM64(squares, 192);
#endif
    return inversesqrt(square / float(K) + eps);
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, r = group.x * uint(LANES) + lane;
    stage(lane);
    memoryBarrierShared(); barrier();
    float y = row_product(min(r, rows - 1u) * uint(W_STRIDE / 4));
#if PRE_norm
    y *= norm_scale();
#endif
#if POST_glu
    pair[lane] = y;
    memoryBarrierShared(); barrier();
    uint i = group.x * uint(LANES / 2) + lane;
    if (lane < uint(LANES / 2) && 2u * i < rows) {
        Y[row0 / 2u + i] = glu(pair[2u * lane], pair[2u * lane + 1u], row0 + 2u * i);
    }
#else
    if (r < rows) {
        y = result(y, row0 + r);
#if POST_add
        y += Y[row0 + r];
#endif
        Y[row0 + r] = y;
    }
#endif
}
