// Matrix-vector product that first adds the previous block's result to the residual stream.
//
// x = X + R * rsqrt(mean(R^2) + eps) * G. With pre=join, y[n] = sum_k W[n, k] x[k] for one token.
// With pre=join_norm, the RMS norm of x, with weight A, replaces x in that sum. X is the residual
// stream, R the result of the previous block, G the weight of its norm. W is a band of rows in its
// packed layout, and all vectors are f32. The libs are matmul_join for x, and gemv and gemv_rows as
// in matmul_decode.
//
// Layout: as in matmul_decode, a work group computes ROWS rows with ROW_THREADS invocations per
// row. Each group computes all of x, which costs one more barrier and the reads of R, and saves a
// dispatch. Group 0 stores x as the new stream.
//
// Choice: PREFER 10 (-10 on software renderers). matmul_join_subgroup (30) is chosen if the device
// has subgroups.
//
// TUNEs: as in matmul_decode. More ROW_THREADS suit long rows. More THREAD_ROWS reuse x. A larger
// BK needs fewer barriers, but more shared memory. WG_SIZE is the group size.
//
//! NAME matmul_join
//! OP matmul
//! VARIANT baseline gemv
//! WHEN phase decode
//! WHEN weight any
//! WHEN pre join join_norm
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uint W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read vec4 A
//! BIND read vec4 R
//! BIND read vec4 G
//! BIND write vec4 STREAM
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float eps
//! PARAM float out_scale
//! PARAM float softcap
//! CONST K W_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE WG_SIZE = SOFTWARE ? 64 : 128 in 32 64 128 256
//! TUNE ROW_THREADS = K >= 1024 ? 32 : K >= 256 ? 16 : 8 in 4 8 16 32
//! TUNE THREAD_ROWS = 2 in 1 2 4 8
//! TUNE BK = 2048 in 512 1024 2048
//! LET ROWS = WG_SIZE / ROW_THREADS * THREAD_ROWS
//! LET NORMED = PRE_join_norm
//! LET W_WIDTH = 1
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, ROWS)
//! ACTIVE ceildiv(BAND, THREAD_ROWS) * ROW_THREADS
//! REQUIRE ROWS % 2 == 0
//! PREFER SOFTWARE ? -10 : 10
//! LIB weight_words
//! LIB weight_{weight}
//! LIB matmul_join
//! LIB activations
//! LIB matmul_result
//! LIB gemv
//! LIB gemv_rows

bool join_stores;

vec4 gemv_x(uint i)
{
    return join_source(i, join_stores, gemv_square);
}

void body(uvec3 group)
{
    join_stores = group.x == 0u;
    join_begin(gl_LocalInvocationID.x);
    gemv_rows(gl_LocalInvocationID.x, group.x * uint(ROWS));
}
