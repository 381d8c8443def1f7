// Matrix-vector product with subgroups: lanes keep their part of x in registers and read 16 bytes.
//
// y = W x for one token: lib gemv_subgroup, with one barrier. The norm's factor is applied after
// it: x in registers is x times the norm's weight. Groups: ROWS rows each.
//
// One H200 (driver 580), a dispatch among others in one submit, barrier included, weights not in
// any cache, 2026-11-21, `build/tests/test_kernels_matmul bench decode WEIGHT PRE POST K N 1`; us,
// and GB/s of weights:
//     K x N            q4_k          q8_0          f16           baseline kernel, q4_k
//     2048 x 3072       7.7   460     9.3   720     8.7  1450     10.8
//     2048 x 2048       6.3   370     7.0   630     7.3  1150      8.3
//     2048 x 16384     14.8  1280    17.8  2000    23.5  2850     35.3
//     8192 x 2048      10.1   930    12.1  1480    13.4  2510     27.1
//     2048 x 128256    68.4  2160    91.9  3040   131    4000    216
// An empty dispatch with its barrier takes 3.2 us there. More rows per group read x less often,
// fewer fill the device: 8 rows are best for small N, 32 for large. Four rows at a time instead of
// two: 6% faster for large N, slower else.
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
//! CONST K N W_STRIDE X_STRIDE
//! CONST X_LAST = 0
//! CONST SCALED = 0
//! CONST BIAS_AT = 0
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE WG_SIZE = K > 128 * SUBGROUP && MAX_INVOCATIONS >= 256 ? 256 : 128 in 64 128 256 512 1024
//! TUNE UNROLL = WEIGHT_f32 ? 1 : WEIGHT_q4_k && N >= 64 * COMPUTE_UNITS ? 4 : 2 in 1 2 4
//! TUNE ROWS = N >= 64 * COMPUTE_UNITS ? 32 : 8 in 8 16 32 64 128
//! LET SLICES = ceildiv(K, 32 * SUBGROUP)
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, ROWS)
//! SHARED float squares[PRE_norm ? WG_SIZE / SUBGROUP : 0]
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE WG_SIZE % SUBGROUP == 0 && ROWS <= WG_SIZE && ROWS % UNROLL == 0 && UNROLL <= SUBGROUP
//! PREFER SOFTWARE ? 5 : 30
//! STEP read
//! LIB weight_subgroup
//! LIB weight_{weight}_subgroup
//! LIB matmul_source
//! LIB activations
//! LIB matmul_result
//! LIB gemv_subgroup

uint first;   // first row of the work group within the band
float square; // sum of squares of the lane's part of x, for pre=norm

uint gemv_row(uint r)
{
    return min(first + r, rows - 1u) * uint(W_STRIDE / 4);
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
    uint lane = gl_SubgroupInvocationID, r = gl_LocalInvocationID.x;
    uint sg_k = gl_SubgroupID % uint(SUBGROUPS_K), sg_n = gl_SubgroupID / uint(SUBGROUPS_K);
    uint one = 0x3F800000u | (rows >> 31);
    first = group.x * uint(ROWS);
    square = 0.0;
#if POST_add
    float before = r < uint(ROWS) && first + r < rows ? Y[row0 + first + r] : 0.0;
#endif
    if (sg_n < uint(SUBGROUPS_N))
        for (uint slice = sg_k; slice < uint(SLICES); slice += uint(SUBGROUPS_K))
            gemv_slice(slice, sg_k, sg_n, slice >= uint(SUBGROUPS_K), lane, one);
#if PRE_norm
    for (uint across = uint(SUBGROUP / 2); across > 0u; across /= 2u)
        square += subgroupShuffleXor(square, across);
    if (lane == 0u)
        squares[gl_SubgroupID] = square;
#endif
    memoryBarrierShared(); barrier();

    float scale = 1.0;
#if PRE_norm
    square = 0.0;
    for (uint i = 0u; i < uint(SUBGROUPS_K); i++)
        square += squares[i]; // those with sg_n 0 have all of x
    scale = inversesqrt(square / float(K) + eps);
#endif
#if POST_glu
    if (r < uint(ROWS / 2) && first + 2u * r < rows) {
        float gate = scale * gemv_sum(2u * r), up = scale * gemv_sum(2u * r + 1u);
        Y[(row0 + first) / 2u + r] = glu(gate, up, row0 + first + 2u * r);
    }
#else
    if (r < uint(ROWS) && first + r < rows) {
        float y = result(scale * gemv_sum(r), row0 + first + r);
#if POST_add
        y += before;
#endif
        Y[row0 + first + r] = y;
    }
#endif
}
