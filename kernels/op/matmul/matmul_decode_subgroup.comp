// Matrix-vector product with subgroups: lanes keep their part of x in registers and read 16 bytes.
//
// y = W x for one token: libs gemv_subgroup and gemv_rows_subgroup. x is staged times the norm's
// weight; the norm's factor is applied to the sums. Groups: as many as there are rows for, LEAST
// each, but at most UNIT_GROUPS for each compute unit; the rows are shared out evenly, in pairs for
// post=glu.
//
// One H200 (driver 580), a dispatch among others in one submit, barrier included, weights not in
// any cache, 2026-11-22, `build/tests/test_kernels_matmul list FILE`; us, and GB/s of weights:
//     K x N            q4_k
//     2048 x 3072       6.7   530
//     2048 x 2048       5.4   440
//     2048 x 16384     13.0  1450
//     8192 x 2048       9.7   980
//     2048 x 128256    56.9  2600
//
//! NAME matmul_decode_subgroup
//! OP matmul
//! VARIANT subgroup gemv_subgroup
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
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE WG_SIZE = SOFTWARE ? 64 : min(512, MAX_INVOCATIONS) in 64 96 128 256 384 448 512 768 1024
//! TUNE UNROLL = WEIGHT_f32 ? 1 : 2 in 1 2 4
//! TUNE LEAST = 4 in 2 4 8 16 32
//! TUNE UNIT_GROUPS = 1 in 1 2 3 4 6 8 12 16
//! LET SLICES = ceildiv(K, 32 * SUBGROUP)
//! LET GROUPS_MOST = UNIT_GROUPS * max(COMPUTE_UNITS, 16)
//! LET ROW_STEP = POST_glu ? 2 : 1
//! LET NORMED = PRE_norm
//! LOCAL WG_SIZE
//! GROUPS min(ceildiv(BAND, LEAST), GROUPS_MOST)
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE WG_SIZE % SUBGROUP == 0 && UNROLL <= SUBGROUP
//! PREFER SOFTWARE ? 5 : 30
//! STEP read
//! LIB weight_subgroup
//! LIB weight_{weight}_subgroup
//! LIB matmul_source
//! LIB activations
//! LIB matmul_result
//! LIB gemv_subgroup
//! LIB gemv_rows_subgroup

void rows_begin(uint tid)
{
}

vec4 rows_x(uint i, inout float square)
{
    return source(i, square);
}

void body(uvec3 group)
{
    gemv_rows(gl_LocalInvocationID.x, group.x);
}
