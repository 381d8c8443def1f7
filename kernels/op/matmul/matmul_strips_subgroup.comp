// Matrix product for 2 to 8 tokens with subgroups: strips of rows, each weight unpacked once.
//
// Lib matmul_strips. A group has SUBGROUPS subgroups. With fewer strips per compute unit than that,
// the others divide K.
//
// One H200 (driver 580), `kernels bench`, q4_k, us for 2, 4 and 8 tokens, 2026-11-29. The time has
// 3 us more than a dispatch among others in one submit:
//     2048 x 16384   17.5  21.4  29.4     2048 x 128256  73   101   173
//     8192 x 2048    14.1  17.1  24.0     4096 x 28672   41.6  54.3  93.6
//     2048 x 2048     9.5  10.0  12.1     14336 x 4096   26.7  35.9  54
//     2048 x 3072    10.4  11.1  13.4
// 2048 x 16384 by matmul_columns_subgroup: 26.8, 31.0, 34.1; by matmul_ranges_subgroup: 25.0 (4)
// and 35.1 (8). Steps of Llama 3.2 1B by single dispatches, tok/s before and after: 2 sequences
// 1,379 and 2,113, 4 sequences 2,968 and 3,406. With 8 columns a persistent program with
// matmul_columns_subgroup is faster than single dispatches with this kernel, so it is not chosen
// there. Groups of 512 invocations spill with 8 columns and 4 rows: 39 us (2048 x 16384). Other
// types of weights were not measured.
//
// Utilisation: subgroups beyond ROW_SETS * K_PARTS only stage x (3 row sets of 16 subgroups: 4).
//
//! NAME matmul_strips_subgroup
//! OP matmul
//! VARIANT subgroup strips
//! WHEN phase prefill
//! WHEN columns 2 4 8
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
//! CONST N K COLUMNS W_STRIDE X_STRIDE Y_STRIDE
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE MANY = MAX_INVOCATIONS >= 512 && SUBGROUP <= 32 && REGISTERS > 200 in 0 1
//! TUNE SUBGROUPS = MANY ? (COLUMNS == 8 && N > 32 * COMPUTE_UNITS ? 8 : 16) : 4 in 1 2 4 8 16
//! TUNE LIGHT = WEIGHT_q4_k || WEIGHT_q4_0 || WEIGHT_mxfp4 in 0 1 // few words for 32 columns
//! TUNE TALL = LIGHT && N > 32 * COMPUTE_UNITS && COLUMNS * SUBGROUPS <= 64 in 0 1
//! TUNE THREAD_ROWS = TALL ? 4 : 2 in 1 2 4 8
//! TUNE UNIT_GROUPS = 1 in 1 2 3 4 8
//! LET WG_SIZE = SUBGROUP * SUBGROUPS
//! LET GROUPS_MOST = UNIT_GROUPS * max(16, COMPUTE_UNITS)
//! LET STRIP = min(4, SUBGROUP / 8) * THREAD_ROWS // rows
//! LET ROW_SETS = min(SUBGROUPS, ceildiv(N, STRIP * GROUPS_MOST))
//! LET HALVES = 0
//! LOCAL WG_SIZE
//! GROUPS min(ceildiv(BAND, STRIP * ROW_SETS), GROUPS_MOST)
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REGISTERS THREAD_ROWS * (2 * COLUMNS + 8 + 12 * (2 - LIGHT)) + 45
//! LET LARGE = COMPUTE_UNITS >= 64 // fixed: GPUs that are like the measured one
//! LET FASTER = MANY && WEIGHT_q4_k && COLUMNS < 8 && LARGE
//! PREFER SOFTWARE ? 0 : FASTER ? 36 : 4 // matmul_ranges_subgroup: 35
//! TOLERANCE 3e-12
//! STEP read
//! LIB weight_subgroup
//! LIB weight_{weight}_subgroup
//! LIB activations
//! LIB matmul_result
//! LIB matmul_strips

void begin(uvec3 group)
{
    strips_begin(group.x);
}

void body(uvec3 group)
{
    strips(gl_SubgroupID * uint(SUBGROUP) + gl_SubgroupInvocationID);
}
