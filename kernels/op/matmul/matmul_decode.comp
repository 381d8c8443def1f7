// Matrix-vector product on any device: several threads per row, sums meet in shared memory.
//
// y[n] = sum_k W[n, k] x[k] for one token, by the libs gemv and gemv_rows. W is a band of rows in
// its packed layout, x and y are rows of f32. The prologue (pre) is applied when x is loaded. After
// the last columns, one invocation per row adds the partial sums and applies the epilogue.
//
// Layout: a work group computes ROWS rows. ROW_THREADS invocations share a row and read
// neighbouring weights. Each invocation has THREAD_ROWS rows. BK columns of x at a time are in
// shared memory.
//
// Choice: PREFER 10. matmul_decode_subgroup (30) is chosen if the device has subgroups.
//
// TUNEs: more ROW_THREADS suit long rows, but add more partial sums. More THREAD_ROWS reuse x, but
// leave fewer groups. A larger BK needs fewer barriers, but more shared memory. WG_SIZE is the
// group size.
//
//! NAME matmul_decode
//! OP matmul
//! VARIANT baseline gemv
//! WHEN phase decode
//! WHEN weight any
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
//! LET NORMED = PRE_norm
//! LET W_WIDTH = 1
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, ROWS)
//! ACTIVE ceildiv(BAND, THREAD_ROWS) * ROW_THREADS
//! REQUIRE ROWS % 2 == 0
//! PREFER 10
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}
//! LIB matmul_source
//! LIB activations
//! LIB matmul_result
//! LIB gemv
//! LIB gemv_rows

vec4 gemv_x(uint i)
{
    return source(i, gemv_square);
}

void body(uvec3 group)
{
    gemv_rows(gl_LocalInvocationID.x, group.x * uint(ROWS));
}
