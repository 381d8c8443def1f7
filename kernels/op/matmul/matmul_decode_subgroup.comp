// Matrix-vector product with subgroups: lanes keep their part of x in registers and read 16 bytes.
//
// y = W x for one token: lib gemv_subgroup. x is staged times the norm's weight; the norm's factor
// is applied to the sums. Groups: as many as there are rows for, LEAST each, but at most
// UNIT_GROUPS for each compute unit; the rows are shared out evenly, in pairs for post=glu.
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
//! LOCAL WG_SIZE
//! GROUPS min(ceildiv(BAND, LEAST), GROUPS_MOST)
//! SHARED float squares[PRE_norm ? 8 * SLICES : 0]
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

uint first; // first row of the work group within the band

uint gemv_slice(uint slice)
{
    return slice;
}

uint gemv_row(uint r)
{
    return (first + r) * uint(W_STRIDE / 4);
}

bool gemv_has(uint slice, uint r)
{
    return true;
}

// The squares of a subgroup's elements of x are one sum, whatever subgroup it is.
vec4 gemv_x(uint slice, uint i)
{
    uint v = slice * uint(8 * SUBGROUP) + i;
    float square = 0.0;
    vec4 x = v < uint(K / 4) ? source(v, square) : vec4(0.0);
#if PRE_norm
    for (uint across = uint(SUBGROUP / 2); across > 0u; across /= 2u)
        square += subgroupShuffleXor(square, across);
    if (gemv_lane == 0u && slice < uint(SLICES))
        squares[v / uint(SUBGROUP)] = square;
#endif
    return x;
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, groups = min((rows + uint(LEAST - 1)) / uint(LEAST),
                                                    uint(GROUPS_MOST));
    uint share = rows / uint(ROW_STEP) / groups, rest = rows / uint(ROW_STEP) % groups;
    uint count = uint(ROW_STEP) * (share + (group.x < rest ? 1u : 0u)), zero = rows >> 31;
    if (group.x >= groups)
        return;
    first = uint(ROW_STEP) * (group.x * share + min(group.x, rest));
    gemv_begin(count, zero);
    for (uint chunk = 0u; chunk < count; chunk += uint(CHUNK)) {
        uint n = min(count - chunk, uint(CHUNK)), row = row0 + first + chunk;
#if POST_add
        float before = tid < n ? Y[row + tid] : 0.0;
#endif
        gemv_chunk(chunk, n, zero);
        float scale = 1.0;
#if PRE_norm
        float square = 0.0;
        for (uint i = 0u; i < uint(8 * SLICES); i++)
            square += squares[i];
        scale = inversesqrt(square / float(K) + eps);
#endif
#if POST_glu
        if (tid < n / 2u)
            Y[row / 2u + tid] = glu(scale * gemv_sum(2u * tid), scale * gemv_sum(2u * tid + 1u),
                                    row + 2u * tid);
#else
        if (tid < n) {
            float y = result(scale * gemv_sum(tid), row + tid);
#if POST_add
            y += before;
#endif
            Y[row + tid] = y;
        }
#endif
        if (chunk + uint(CHUNK) < count) {
            memoryBarrierShared(); barrier(); // `part` has been read
        }
    }
}
