// As matmul_join with subgroups: first adds the previous block's result to the residual stream.
//
// x = X + R * rsqrt(mean(R^2) + eps) * G. With pre=join, y[n] = sum_k W[n, k] x[k] for one token.
// With pre=join_norm, the RMS norm of x, with weight A, replaces x in that sum. X is the residual
// stream, R the result of the previous block, G the weight of its norm. W is a band of rows in its
// packed layout, and all vectors are f32. The libs are matmul_join for x, and gemv_subgroup and
// gemv_rows_subgroup as in matmul_decode_subgroup.
//
// Layout: as in matmul_decode_subgroup, each invocation keeps 32 columns of x in registers, and
// groups divide the rows evenly. Each group computes all of x, which costs one more barrier and the
// reads of R, and saves a dispatch. The first weights are loaded before that. Group 0 stores x as
// the new stream.
//
// Choice: PREFER 30 (5 on software renderers), above matmul_join (10).
//
// TUNEs: as in matmul_decode_subgroup, without WIDE.
//
// Utilisation: as in matmul_decode_subgroup.comp.
//
//! NAME matmul_join_subgroup
//! OP matmul
//! VARIANT subgroup gemv_subgroup
//! WHEN phase decode
//! WHEN weight any
//! WHEN pre join join_norm
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uvec4 W
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
//! CONST K N W_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE WG_SIZE = SOFTWARE ? 64 : min(512, MAX_INVOCATIONS) in 64 96 128 256 384 448 512 768 1024
//! TUNE TINY = COMPUTE_UNITS >= 64 && REGISTERS > 200 in 0 1
//! TUNE UNROLL = WEIGHT_f32 ? 1 : 2 in 1 2 4
//! TUNE HALF = K > 32 * SUBGROUP && K <= 48 * SUBGROUP && SUBGROUP == 32 in 0 1
//! TUNE TAIL = HALF && SHARED_BYTES > 24576 && !(WEIGHT_f32 || WEIGHT_f16 || WEIGHT_bf16) in 0 1
//! TUNE LEAST = 4 in 2 4 8 16 32
//! TUNE UNIT_GROUPS = 1 in 1 2 3 4 6 8 12 16
//! LET SLICES = ceildiv(K, 32 * SUBGROUP)
//! LET GROUPS_MOST = UNIT_GROUPS * max(COMPUTE_UNITS, 16)
//! LET ROW_STEP = POST_glu ? 2 : 1
//! LET GROUP_ROWS = max(LEAST, ROW_STEP * ceildiv(N, ROW_STEP * GROUPS_MOST))
//! LET NORMED = PRE_join_norm
//! LET ROW_SETS = max(1, WG_SIZE / (SLICES * SUBGROUP))
//! LET ROW_LANES = min(WG_SIZE, ceildiv(K, 32))
//! LET HALVES = 0
//! LOCAL WG_SIZE
//! GROUPS min(ceildiv(BAND, LEAST), GROUPS_MOST)
//! ACTIVE min(min(ceildiv(BAND, LEAST), GROUPS_MOST) * ROW_SETS, ceildiv(BAND, UNROLL)) * ROW_LANES
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE !TAIL || SLICES * SUBGROUP * 144 <= SHARED_BYTES - 13312 && ceildiv(K, 32) <= WG_SIZE
//! REQUIRE !TAIL || SUBGROUP >= 32
//! REQUIRE WG_SIZE % SUBGROUP == 0 && UNROLL <= SUBGROUP
//! PREFER SOFTWARE ? 5 : 30
//! LIB weight_subgroup
//! LIB lane_iq4
//! LIB weight_{weight}_subgroup weight_{weight}
//! LIB weight_{weight}_subgroup weight_columns_subgroup
//! LIB lane_dot
//! LIB matmul_join
//! LIB activations
//! LIB matmul_result
//! LIB loop_end
//! LIB gemv_subgroup
//! LIB gemv_rows_subgroup

bool join_stores;

void rows_begin(uint tid)
{
    join_begin(tid);
}

vec4 rows_x(uint i, inout float square)
{
    return join_source(i, join_stores, square);
}

void begin(uvec3 group)
{
    gemv_rows_begin(group.x);
}

void body(uvec3 group)
{
    join_stores = group.x == 0u;
    gemv_rows(gl_LocalInvocationID.x);
}
