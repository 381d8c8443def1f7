// Matrix-vector product for llvmpipe: a thread per row, x is read at constant addresses.
//
// y[n] = sum_k W[n, k] x[k] for one token, by lib gemv_llvmpipe. W is a band of rows in its packed
// layout, x and y are rows of f32. With pre=norm, x is multiplied by the norm's weight when it is
// loaded, and the product by the norm's factor at the end.
//
// Layout: a work group computes WG_SIZE rows, one row per invocation. There is one barrier. With
// post=glu there is a second; it costs almost nothing.
//
// Choice: PREFER 50 on llvmpipe, -10 on other software renderers; REQUIRE excludes GPUs and K above
// 1024.
//
// TUNEs: WG_SIZE is the number of rows that share the staged x.
//
// Processor time of one dispatch, summed over both cores (AMD EPYC at 2.6 GHz, Mesa 22.3.6, q4_k,
// 2026-11-21): K x N = 256 x 512 with norm 59 us, 256 x 1536 with norm and glu 140 us, 768 x 256 80
// us. This is 2.2 to 2.8 weights per nanosecond and core. The baseline kernel reaches 0.07.
// `dopplergl kernels bench matmul_decode_llvmpipe --shape weight=q4_k,K=256,N=1536` times it.
//
//! NAME matmul_decode_llvmpipe
//! OP matmul
//! VARIANT llvmpipe row
//! WHEN phase decode
//! WHEN weight any
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
//! TUNE WG_SIZE = 128 in 32 64 128
//! LET BLOCKS = ceildiv(K, 256)
//! LET X_ROWS = 1
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, WG_SIZE)
//! ACTIVE BAND
//! SHARED float squares[PRE_norm ? 64 * BLOCKS : 0] // fixed: vec4s of a block
//! SHARED float pair[POST_glu ? WG_SIZE : 0]
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_llvmpipe
//! LIB weight_{weight}_llvmpipe weight_{weight}
//! LIB weight_{weight}_llvmpipe weight_columns_llvmpipe
//! LIB matmul_source
//! LIB activations
//! LIB matmul_result
//! LIB row_llvmpipe
//! LIB gemv_llvmpipe

vec4 gemv_x(uint s, uint i)
{
    vec4 x = vec4(0.0);
    float square = 0.0;
    if (i < uint(K / 4))
        x = source(i, square);
#if PRE_norm
    squares[i] = square;
#endif
    return x;
}

float row_product(uint row)
{
    const int x_row = 0;
    float acc = 0.0;
    ROW_BLOCKS
    return acc;
}

#if PRE_norm
#define SUM32(a, i) ((SUM8(a, i) + SUM8(a, (i) + 8)) + (SUM8(a, (i) + 16) + SUM8(a, (i) + 24)))
#define SUM64(a, i) (SUM32(a, i) + SUM32(a, (i) + 32))

float norm_scale()
{
    float square = SUM64(squares, 0);
#if BLOCKS > 1
    square += SUM64(squares, 64);
#endif
#if BLOCKS > 2
    square += SUM64(squares, 128);
#endif
#if BLOCKS > 3
    square += SUM64(squares, 192);
#endif
    return inversesqrt(square / float(K) + eps);
}
#endif

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, r = group.x * uint(WG_SIZE) + tid;
    gemv_stage(tid);
    memoryBarrierShared(); barrier();
    float y = row_product(min(r, rows - 1u) * uint(W_STRIDE / 4));
#if PRE_norm
    y *= norm_scale();
#endif
#if POST_glu
    pair[tid] = y;
    memoryBarrierShared(); barrier();
    uint i = group.x * uint(WG_SIZE / 2) + tid;
    if (tid < uint(WG_SIZE / 2) && 2u * i < rows)
        Y[row0 / 2u + i] = glu(pair[2u * tid], pair[2u * tid + 1u], row0 + 2u * i);
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
