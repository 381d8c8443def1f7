// Matrix product for 2 to 16 tokens with subgroups: weights are unpacked once for up to 8 tokens.
//
// Lib matmul_strips. A group has SUBGROUPS subgroups. If a group has fewer strips than subgroups,
// several subgroups share a strip, each with a part of K. With 16 tokens, groups with y = 0 have
// the first 8 and groups with y = 1 the others: both read the weights, the second time mostly from
// the cache.
//
// Choice: PREFER 36 for quantised types on large GPUs (LARGE, which needs MANY). Otherwise 4, and 0
// on software renderers. matmul_columns_subgroup has 30, matmul_ranges_subgroup 5 or 35. Steps of
// 16 tokens in Q4_K_M (one H200, 2026-11-30): 3.19 ms with this kernel and 3.73 with
// matmul_lanes_subgroup (35) in Llama 3.2 1B, 14.5 and 16.1 ms in Llama 3.1 8B.
//
// TUNEs: THREAD_ROWS is the number of rows that reuse a loaded vec4 of X. TALL selects four, which
// needs too many registers in a persistent program with more than 2 tokens. SUBGROUPS is the number
// of subgroups per group. With 8 tokens there are 8: a persistent program with 16 has 128 registers
// per invocation, which are too few. Steps of 8 tokens of Llama 3.2 1B Q4_K_M in persistent
// programs (one H200, 2026-11-29): 1.67 ms with 8 subgroups, 1.74 with 16 and one row, 1.91 with
// 16, two rows and other kernels for q4_k. LIGHT is set for types with few words for 32 columns.
// TINY is explained in matmul_decode_subgroup. UNIT_GROUPS is the number of groups per compute
// unit. SUBGROUP is always the device's SUBGROUP_SIZE.
//
// One H200 (driver 580), `kernels bench`, 2026-11-29, us for 2, 4 and 8 tokens: this kernel, then
// matmul_columns_subgroup. Each time includes about 3 us of submission, which a dispatch among
// others in one submit does not have. The figures for 8 tokens are those with 8 subgroups per
// group. matmul_columns_subgroup with q4_k and 8192 x 2048 was measured on 2026-11-22.
//             2048 x 16384                             8192 x 2048
//     q4_k    17.5  21.1  29.6    26.8  31.0  34.1     14.3  17.1  26.6    15.4  18.8  34.7
//     q5_k    21.1  25.2  36.6    28.2  32.5  47.9     16.4  19.7  29.8    16.7  18.9  26.8
//     q6_k    20.5  24.4  36.9    45.5  47.9  85.2     16.1  19.3  29.0    25.2  27.3  42.5
//     q8_0    22.2  27.1  39.0    38.4  41.7  70.2     17.9  20.5  30.1    21.5  23.0  37.8
//     f16     28.0  31.1  45.9    25.1  32.5  46.2     21.2  24.7  36.4    19.0  21.3  26.0
// 8 tokens of 2048 x 16384, us by THREAD_ROWS and SUBGROUPS:
//             2 and 8    2 and 16    4 and 8    4 and 16
//     q4_k       31.7        30.6       29.6        39.9
//     q6_k       37.0        33.5       37.1        99.5
//     q8_0       38.9        38.0       36.6        91.9
//
// Utilisation: subgroups beyond ROW_SETS * K_PARTS only stage x. For example, with SUBGROUPS 16,
// ROW_SETS 3 and K_PARTS 4, four subgroups only stage x.
//
//! NAME matmul_strips_subgroup
//! OP matmul
//! VARIANT subgroup strips
//! WHEN phase prefill
//! WHEN columns 2 4 8 16
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q4_1 q5_0 q5_1 q2_k q3_k q5_k q6_k mxfp4
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
//! CONST N K COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE MANY = MAX_INVOCATIONS >= 512 && SUBGROUP <= 32 && REGISTERS > 200 in 0 1
//! TUNE SUBGROUPS = !MANY ? 4 : COLUMNS >= 8 ? 8 : 16 in 1 2 4 8 16
//! TUNE TINY = COMPUTE_UNITS >= 64 && REGISTERS > 200 in 0 1
//! TUNE LIGHT = WEIGHT_q4_k || WEIGHT_q4_0 || WEIGHT_q4_1 || WEIGHT_q5_1 || WEIGHT_mxfp4 in 0 1
//! TUNE TALL = LIGHT && COLUMNS == 2 && N > 32 * COMPUTE_UNITS in 0 1
//! TUNE THREAD_ROWS = TALL ? 4 : 2 in 1 2 4 8
//! TUNE UNIT_GROUPS = 1 in 1 2 3 4 8
//! LET TOKENS = min(COLUMNS, 8)
//! LET WG_SIZE = SUBGROUP * SUBGROUPS
//! LET GROUPS_MOST = UNIT_GROUPS * max(16, COMPUTE_UNITS)
//! LET STRIP = min(4, SUBGROUP / 8) * THREAD_ROWS // rows
//! LET ROW_SETS = min(SUBGROUPS, ceildiv(N, STRIP * GROUPS_MOST))
//! LET HALVES = 0
//! LOCAL WG_SIZE
//! GROUPS min(ceildiv(BAND, STRIP * ROW_SETS), GROUPS_MOST) ceildiv(T, TOKENS)
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE !POST_glu || STRIP % 2 == 0
//! REGISTERS THREAD_ROWS * (2 * TOKENS + 8 + 12 * (2 - LIGHT)) + 45
//! LET FLOATS = WEIGHT_f32 || WEIGHT_f16 || WEIGHT_bf16
//! LET LARGE = MANY && COMPUTE_UNITS >= 64 // fixed: GPUs that are like the measured one
//! PREFER SOFTWARE ? 0 : LARGE && !FLOATS ? 36 : 4
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_subgroup
//! LIB weight_{weight}_subgroup
//! LIB activations
//! LIB matmul_result
//! LIB matmul_strips

void begin(uvec3 group)
{
    strips_begin(group);
}

void body(uvec3 group)
{
    strips(gl_SubgroupID * uint(SUBGROUP) + gl_SubgroupInvocationID);
}
