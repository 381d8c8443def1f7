// Matrix-vector product with subgroups: lanes keep their part of x in registers and read 16 bytes.
//
// A subgroup covers a slice of 32 * SUBGROUP columns; as many subgroups as there are slices (at
// most all) make a team, and the teams share the ROWS rows of the group, UNROLL at a time with the
// next UNROLL in flight: weights do not depend on x, so the first ones are asked for before x is.
// Each row's slice is summed over the subgroup, the slices meet in shared memory behind the only
// barrier. The norm's factor is applied there: x in registers is x * gain.
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
//! TUNE LANES = K > 128 * SUBGROUP && MAX_INVOCATIONS >= 256 ? 256 : 128 in 64 128 256 512 1024
//! TUNE UNROLL = WEIGHT_f32 ? 1 : WEIGHT_q4_k && N >= 64 * COMPUTE_UNITS ? 4 : 2 in 1 2 4
//! TUNE ROWS = N >= 64 * COMPUTE_UNITS ? 32 : 8 in 8 16 32 64 128
//! LOCAL LANES
//! GROUPS ceildiv(BAND, ROWS)
//! LET SUBGROUPS = LANES / SUBGROUP
//! LET SLICES = ceildiv(K, 32 * SUBGROUP)
//! LET SLOTS = min(SLICES, SUBGROUPS)
//! SHARED float part[ROWS * SLOTS]
//! SHARED float squares[SUBGROUPS]
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE LANES % SUBGROUP == 0 && ROWS <= LANES && ROWS % UNROLL == 0 && UNROLL <= SUBGROUP
//! PREFER SOFTWARE ? 5 : 30
//! STEP read
//! LIB weight_{weight}_lane
//! LIB matmul_source
//! LIB smooth
//! LIB matmul_result

#define TEAMS (SUBGROUPS / SLOTS)
#define HELD  (UNROLL * LANE_RAW)

uvec4 next[HELD]; // the rows in flight

// Asks for rows r .. r + UNROLL - 1 of the group; rows beyond the band are read from its last one.
void fetch(uint first, uint r, uint slice, uint lane)
{
    for (int i = 0; i < UNROLL; i++) {
        uvec4 raw[LANE_RAW];
        lane_fetch(min(first + r + uint(i), rows - 1u) * uint(W_STRIDE / 4), slice, lane, raw);
        for (int j = 0; j < LANE_RAW; j++)
            next[i * LANE_RAW + j] = raw[j];
    }
}

// Sums UNROLL values over the subgroup in little more steps than one: at first a lane gives away
// half of what it has. Lane SUBGROUP / UNROLL * i ends up with the sum of y[i]. Written out: as
// loops it took 20% longer.
float spread_sums(float y[UNROLL], uint lane)
{
#if UNROLL == 1
    float sum = y[0];
#else
    bool upper = (lane & uint(SUBGROUP / 2)) != 0u;
#if UNROLL == 2
    float sum = (upper ? y[1] : y[0]) + subgroupShuffleXor(upper ? y[0] : y[1], uint(SUBGROUP / 2));
#else
    float a = (upper ? y[2] : y[0]) + subgroupShuffleXor(upper ? y[0] : y[2], uint(SUBGROUP / 2));
    float b = (upper ? y[3] : y[1]) + subgroupShuffleXor(upper ? y[1] : y[3], uint(SUBGROUP / 2));
    upper = (lane & uint(SUBGROUP / 4)) != 0u;
    float sum = (upper ? b : a) + subgroupShuffleXor(upper ? a : b, uint(SUBGROUP / 4));
#endif
#endif
    for (uint across = uint(SUBGROUP / UNROLL / 2); across > 0u; across /= 2u)
        sum += subgroupShuffleXor(sum, across);
    return sum;
}

// One slice of the rows of one team.
void slice_products(uint first, uint slot, uint team, uint slice, uint lane, uint one,
                    inout float square)
{
    vec4 x[8];
    fetch(first, team * uint(UNROLL), slice, lane);
    for (uint i = 0u; i < 8u; i++) {
        uint quad = lane_quad(slice, lane, i);
        x[i] = quad < uint(K / 4) ? source(quad, square) : vec4(0.0);
    }
    for (uint r = team * uint(UNROLL); r < uint(ROWS); r += uint(TEAMS * UNROLL)) {
        uvec4 now[HELD];
        float y[UNROLL];
        for (int i = 0; i < HELD; i++)
            now[i] = next[i];
        if (r + uint(TEAMS * UNROLL) < uint(ROWS))
            fetch(first, r + uint(TEAMS * UNROLL), slice, lane);
        for (int i = 0; i < UNROLL; i++) {
            uvec4 raw[LANE_RAW];
            for (int j = 0; j < LANE_RAW; j++)
                raw[j] = now[i * LANE_RAW + j];
            y[i] = lane_dot(raw, slice, lane, x, one);
        }
        float sum = spread_sums(y, lane);
        if (lane % uint(SUBGROUP / UNROLL) == 0u) {
            uint p = (r + lane / uint(SUBGROUP / UNROLL)) * uint(SLOTS) + slot;
#if SLICES > SLOTS
            if (slice >= uint(SLOTS))
                sum += part[p];
#endif
            part[p] = sum;
        }
    }
}

float row_sum(uint r)
{
    float y = 0.0;
    for (uint i = 0u; i < uint(SLOTS); i++)
        y += part[r * uint(SLOTS) + i];
    return y;
}

void body(uvec3 group)
{
    uint lane = gl_SubgroupInvocationID, slot = gl_SubgroupID % uint(SLOTS);
    uint team = gl_SubgroupID / uint(SLOTS), first = group.x * uint(ROWS);
    uint r = gl_LocalInvocationID.x;
#if POST_add
    float before = r < uint(ROWS) && first + r < rows ? Y[row0 + first + r] : 0.0;
#endif
    uint one = 0x3F800000u | (rows >> 31);
    float square = 0.0;
    if (team < uint(TEAMS))
        for (uint slice = slot; slice < uint(SLICES); slice += uint(SLOTS))
            slice_products(first, slot, team, slice, lane, one, square);
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
    for (uint i = 0u; i < uint(SLOTS); i++)
        square += squares[i]; // the first team's
    scale = inversesqrt(square / float(K) + eps);
#endif
#if POST_glu
    if (r < uint(ROWS / 2) && first + 2u * r < rows) {
        float gate = scale * row_sum(2u * r), up = scale * row_sum(2u * r + 1u);
        Y[(row0 + first) / 2u + r] = glu(gate, up, row0 + first + 2u * r);
    }
#else
    if (r < uint(ROWS) && first + r < rows) {
        float y = result(scale * row_sum(r), row0 + first + r);
#if POST_add
        y += before;
#endif
        Y[row0 + first + r] = y;
    }
#endif
}
