// Matrix product for 2 to 16 tokens by pairs of 16-bit floats, if computePrecision is f16.
//
// Lib matmul_strips with HALVES, for types of weights with integer codes. X is multiplied by 1/64,
// so an element of X, or a sum of 32 products with codes, overflows above four million. If the
// product includes a norm, each token of X is multiplied by its own power of two instead of 1/64.
// See docs/kernels.md, "16-bit arithmetic".
//
// Choice: PREFER 41. Kernels of f32 have up to 40. The kernel is used if computePrecision is f16
// and the language has f16vec2 and subgroups. A step of 16 tokens of Llama 3.2 1B Q4_K_M takes
// 2.44 ms (one H200, 2026-11-30), and 3.77 with the f32 kernels that were used before.
//
// TUNEs: those of matmul_strips_subgroup.
//
// One H200 (driver 580), `kernels bench`, 2026-11-29, us for 2, 4 and 8 tokens. TALL is 1 for
// 4 tokens.
//             2048 x 16384        8192 x 2048
//     q4_k    16.3  18.7  23.4    13.0  14.8  20.2
//     q6_k    18.8  21.0  26.4    14.5  17.0  21.2
// 8 tokens of q4_k, 2048 x 16384, us by THREAD_ROWS and SUBGROUPS:
//     4 and 8    4 and 16    2 and 8
//        24.4        28.2       25.7
//
// Utilisation: subgroups beyond ROW_SETS * K_PARTS only stage x. For example, with SUBGROUPS 16,
// ROW_SETS 3 and K_PARTS 4, four subgroups only stage x.
//
//! NAME matmul_strips_f16
//! OP matmul
//! PRECISION f16
//! VARIANT f16 strips
//! WHEN phase prefill
//! WHEN columns 2 4 8 16
//! WHEN weight q8_0 q4_k q4_0 q4_1 q5_0 q5_1 q2_k q3_k q5_k q6_k
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
//! TUNE SUBGROUPS = MANY ? 16 : 4 in 1 2 4 8 16
//! TUNE LIGHT = WEIGHT_q4_k || WEIGHT_q4_0 || WEIGHT_q4_1 || WEIGHT_q5_1 in 0 1
//! TUNE TALL = LIGHT && COLUMNS == 2 && N > 32 * COMPUTE_UNITS in 0 1
//! TUNE THREAD_ROWS = TALL ? 4 : 2 in 1 2 4 8
//! TUNE UNIT_GROUPS = 1 in 1 2 3 4 8
//! LET TOKENS = min(COLUMNS, 8)
//! LET WG_SIZE = SUBGROUP * SUBGROUPS
//! LET GROUPS_MOST = UNIT_GROUPS * max(16, COMPUTE_UNITS)
//! LET STRIP = min(4, SUBGROUP / 8) * THREAD_ROWS // rows
//! LET ROW_SETS = min(SUBGROUPS, ceildiv(N, STRIP * GROUPS_MOST))
//! LET HALVES = 1
//! LET TINY = 0
//! LOCAL WG_SIZE
//! GROUPS min(ceildiv(BAND, STRIP * ROW_SETS), GROUPS_MOST) ceildiv(T, TOKENS)
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! EXTENSION GL_NV_gpu_shader5
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE !POST_glu || STRIP % 2 == 0
//! REGISTERS THREAD_ROWS * (2 * TOKENS + 8 + 12 * (2 - LIGHT)) + 45
//! PREFER SOFTWARE ? 0 : 41 // f32 kernels: up to 40
//! TOLERANCE 1e-5
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
