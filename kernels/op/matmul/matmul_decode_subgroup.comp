// Matrix-vector product with subgroups: lanes keep their part of x in registers and read 16 bytes.
//
// y[n] = sum_k W[n, k] x[k] for one token, by the libs gemv_subgroup and gemv_rows_subgroup. W is a
// band of N rows in its packed layout, x and y are rows of f32. x is multiplied by the norm's
// weight when it is staged in shared memory. The norm's factor is applied to the sums.
//
// Layout: each invocation keeps 32 columns of x in registers. Subgroups that cover a row together
// walk over the rows of their work group. Each group has LEAST rows or more, and there are at most
// UNIT_GROUPS groups per compute unit. The rows are divided evenly between the groups, in pairs for
// post=glu.
//
// Choice: PREFER 30 (5 on software renderers), above matmul_decode (10).
//
// TUNEs: UNROLL is the number of rows that are computed together: more rows hide more latency, but
// need more registers. It is 4 on GPUs that are like the measured one (LARGE), for types with few
// words (LIGHT), if a subgroup has many rows (LONG). TINY lets lib weight_subgroup convert codes as
// subnormal halves. Set it to 0 for a device that flushes subnormal halves
// to 0; mxfp4 needs them with any value. LEAST and UNIT_GROUPS set the number of groups: fewer
// groups stage x fewer times. HALF is set if the second slice of a row is the last one and at most
// half full. TAIL then lets fewer subgroups process these ends of rows; WIDE restricts TAIL to
// large N. WG_SIZE is the group size. SUBGROUP is always the device's SUBGROUP_SIZE.
//
// One H200 (driver 580), one dispatch of many in a submit, barrier included, weights in no cache,
// 2026-11-22, before lib lane_dot, `build/tests/test_kernels_matmul list FILE`. Time in us, and
// GB/s of weights:
//     K x N            q4_k          q8_0          f16
//     2048 x 3072       6.7   530     7.2   930     8.3  1510
//     2048 x 2048       5.4   440     5.9   760     6.6  1280
//     2048 x 16384     13.0  1450    16.0  2240    22.0  3050
//     8192 x 2048       9.7   980    11.3  1580    13.6  2470
//     2048 x 128256    56.9  2600    81.5  3430
//     4096 x 28672     31.0  2130
//     14336 x 4096     22.2  1490
// One row of 256 columns takes 3.8 us there, two rows of 2048 take 4.4 us.
//
// Time there in us, without and with TAIL:
//     K x N             q4_k          q8_0
//     1152 x 13824     11.4   10.1   12.6   11.5
//     1152 x 131072    69.9   59.6   80.9   59.0
//     1536 x 17920     13.2   12.6
// TAIL is slower for few rows and for three slices, and no faster for f16. 1152 x 13824 in q5_0,
// `kernels bench`, 2026-11-29: 16.8 us without and 15.4 us with TAIL.
//
// 2048 x 16384 by type, `kernels bench`, 2026-11-29, us. Each time includes about 3 us of
// submission.
//     q4_0  q4_1  q4_k  q5_0  q5_1  q5_k  q6_k  q8_0  q2_k  q3_k  iq4_nl  iq4_xs  mxfp4   f16
//     15.4  15.5  16.3  18.3  16.8  18.5  17.7  18.5  16.8  17.9    18.0    19.0   16.7  24.7
// 4096 x 28672 in q4_k takes 38.0 us, and 32.6 us with UNROLL 4.
//
// In a persistent program (Llama 3.2 1B q4_k, us): 2048 x 3072 2.7, 2048 x 2048 1.9, 2048 x 16384
// 7.4, 8192 x 2048 4.8, the head (2048 x 128256) 50.6.
//
// Utilisation: a matrix of few rows is divided between all groups first, so some subgroups of each
// group have no row (1,024 x 2,048: half of them). Fewer groups with more rows, LEAST = 8, take as
// long: 4.78 us each on one H200 (driver 580, 2026-11-23, `dopplergl tune`, 2,048 x 2,048 q4_k).
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). LLVM 15 spilled 2 to 7 registers
// for rows of 8,192 columns and more. It spills none since x is staged two vec4s at a time (lib
// gemv_subgroup).
//
//! NAME matmul_decode_subgroup
//! OP matmul
//! VARIANT subgroup gemv_subgroup
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
//! CONST K N W_STRIDE X_STRIDE
//! CONST X_LAST = 0
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE WG_SIZE = SOFTWARE ? 64 : min(512, MAX_INVOCATIONS) in 64 96 128 256 384 448 512 768 1024
//! TUNE LARGE = COMPUTE_UNITS >= 64 && REGISTERS > 200 in 0 1
//! TUNE TINY = LARGE in 0 1
//! TUNE LIGHT = WEIGHT_q4_k || WEIGHT_q4_0 || WEIGHT_q4_1 in 0 1
//! TUNE LONG = N * ceildiv(K, 32 * SUBGROUP) >= 12 * COMPUTE_UNITS * (WG_SIZE / SUBGROUP) in 0 1
//! TUNE UNROLL = WEIGHT_f32 ? 1 : LARGE && LIGHT && LONG ? 4 : 2 in 1 2 4
//! TUNE HALF = K > 32 * SUBGROUP && K <= 48 * SUBGROUP && SUBGROUP == 32 in 0 1
//! TUNE WIDE = N >= 64 * COMPUTE_UNITS && SHARED_BYTES > 24576 in 0 1
//! TUNE TAIL = HALF && WIDE && !(WEIGHT_f32 || WEIGHT_f16 || WEIGHT_bf16) in 0 1
//! TUNE LEAST = 4 in 2 4 8 16 32
//! TUNE UNIT_GROUPS = 1 in 1 2 3 4 6 8 12 16
//! LET SLICES = ceildiv(K, 32 * SUBGROUP)
//! LET GROUPS_MOST = UNIT_GROUPS * max(COMPUTE_UNITS, 16)
//! LET ROW_STEP = POST_glu ? 2 : 1
//! LET GROUP_ROWS = max(LEAST, ROW_STEP * ceildiv(N, ROW_STEP * GROUPS_MOST))
//! LET NORMED = PRE_norm
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
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_subgroup
//! LIB lane_iq4
//! LIB weight_{weight}_subgroup weight_{weight}
//! LIB weight_{weight}_subgroup weight_columns_subgroup
//! LIB lane_dot
//! LIB matmul_source
//! LIB activations
//! LIB matmul_result
//! LIB loop_end
//! LIB gemv_subgroup
//! LIB gemv_rows_subgroup

void rows_begin(uint tid)
{
}

vec4 rows_x(uint i, inout float square)
{
    return source(i, square);
}

void begin(uvec3 group)
{
    gemv_rows_begin(group.x);
}

void body(uvec3 group)
{
    gemv_rows(gl_LocalInvocationID.x);
}
