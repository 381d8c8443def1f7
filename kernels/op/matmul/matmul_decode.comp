// Matrix-vector product on any device: several threads per row, sums meet in shared memory.
//
// y = W x for one token: lib gemv, with the prologue applied as x is loaded. After the last columns
// one thread per row adds the partial sums and applies the epilogue. Groups: ROWS rows each.
//
//! NAME matmul_decode
//! OP matmul
//! VARIANT baseline gemv
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN pre none norm
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uint W
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
//! TUNE WG_SIZE = SOFTWARE ? 64 : 128 in 32 64 128 256
//! TUNE ROW_THREADS = K >= 1024 ? 32 : K >= 256 ? 16 : 8 in 4 8 16 32
//! TUNE THREAD_ROWS = 2 in 1 2 4 8
//! TUNE BK = 2048 in 512 1024 2048
//! LET ROWS = WG_SIZE / ROW_THREADS * THREAD_ROWS
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, ROWS)
//! SHARED float squares[PRE_norm ? WG_SIZE : 0]
//! REQUIRE ROWS % 2 == 0
//! PREFER 10
//! STEP read
//! LIB weight_{weight}
//! LIB matmul_source
//! LIB activations
//! LIB matmul_result
//! LIB gemv

uint first;   // first row of the work group within the band
float square; // sum of squares of the elements of x that this thread loads, for pre=norm

uint gemv_row(uint r)
{
    return min(first + r, rows - 1u) * uint(W_STRIDE);
}

bool gemv_has(uint r)
{
    return true; // rows beyond the band are not stored
}

vec4 gemv_x(uint i)
{
    return source(i, square);
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    float sum[THREAD_ROWS];
    for (int i = 0; i < THREAD_ROWS; i++)
        sum[i] = 0.0;
    first = group.x * uint(ROWS);
    square = 0.0;
    gemv_add(tid, sum);
    gemv_share(tid, sum);
#if PRE_norm
    squares[tid] = square;
#endif
    memoryBarrierShared(); barrier();

    float scale = 1.0;
#if PRE_norm
    square = 0.0;
    for (uint i = 0u; i < uint(WG_SIZE); i++)
        square += squares[i];
    scale = inversesqrt(square / float(K) + eps);
#endif
#if POST_glu
    uint out_row = (row0 + first) / 2u + tid;
    if (tid < uint(ROWS / 2) && first + 2u * tid < rows) {
        float gate = scale * gemv_sum(2u * tid), up = scale * gemv_sum(2u * tid + 1u);
        Y[out_row] = glu(gate, up, 2u * out_row);
    }
#else
    for (uint r = tid; r < uint(ROWS) && first + r < rows; r += uint(WG_SIZE)) {
        float y = result(scale * gemv_sum(r), row0 + first + r);
#if POST_add
        y += Y[row0 + first + r];
#endif
        Y[row0 + first + r] = y;
    }
#endif
}
