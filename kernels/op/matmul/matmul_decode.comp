// Matrix-vector product on any device: teams of lanes share rows, sums meet in shared memory.
//
// y = W x for one token. A slab of x (at most SLAB columns, with the prologue applied) lies in
// shared memory; the lanes of a team take the units of a row in turn, so that neighbouring lanes
// read neighbouring weights. After the last slab one lane per row adds the team's partial sums and
// applies the epilogue. Groups: LANES / TEAM * ROWS rows each.
//
//! NAME matmul_decode
//! OP matmul
//! VARIANT baseline gemv
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN pre none norm
//! WHEN post store add glu softcap
//! WHEN act none silu gelu
//! WHEN bias none row
//! BIND read uint W
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
//! TUNE LANES = SOFTWARE ? 64 : 128 in 32 64 128 256
//! TUNE TEAM = K >= 1024 ? 32 : K >= 256 ? 16 : 8 in 4 8 16 32
//! TUNE ROWS = 2 in 1 2 4 8
//! TUNE SLAB = 2048 in 512 1024 2048
//! LOCAL LANES
//! GROUPS ceildiv(BAND, LANES / TEAM * ROWS)
//! SHARED vec4 xs[SLAB / 4]
//! SHARED float part[LANES * ROWS] // [row of the group][lane of the team]
//! SHARED float squares[LANES]
//! REQUIRE LANES / TEAM * ROWS % 2 == 0
//! PREFER 10
//! STEP read
//! LIB weight_{weight}
//! LIB matmul_source
//! LIB smooth
//! LIB matmul_result

#define TEAMS      (LANES / TEAM)
#define GROUP_ROWS (TEAMS * ROWS)
#define SLAB_UNITS uint(SLAB / 16)

// Loads columns SLAB * slab .. of x; zero beyond K.
void stage(uint lane, uint slab, inout float square)
{
    uint first = slab * uint(SLAB / 4);
    uint count = min(uint((K + 15) / 16 * 4) - first, uint(SLAB / 4));
    for (uint i = lane; i < count; i += uint(LANES))
        xs[i] = first + i < uint(K / 4) ? source(first + i, square) : vec4(0.0);
}

// The part of a row's sum in unit `unit` of the slab.
float unit_dot(uint row, uint slab, uint unit)
{
    uint k = (slab * SLAB_UNITS + unit) * 16u;
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k, raw);
    weight_decode16(raw, k, w);
    return (dot(w[0], xs[4u * unit]) + dot(w[1], xs[4u * unit + 1u])) +
           (dot(w[2], xs[4u * unit + 2u]) + dot(w[3], xs[4u * unit + 3u]));
}

float row_sum(uint r)
{
    float y = 0.0;
    for (uint i = 0u; i < uint(TEAM); i++)
        y += part[r * uint(TEAM) + i];
    return y;
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, member = lane % uint(TEAM), team = lane / uint(TEAM);
    uint first = group.x * uint(GROUP_ROWS);
    float sum[ROWS], square = 0.0;
    for (int i = 0; i < ROWS; i++)
        sum[i] = 0.0;
    for (uint slab = 0u; slab * uint(SLAB) < uint(K); slab++) {
        stage(lane, slab, square);
        memoryBarrierShared(); barrier();
        uint units = min(uint((K + 15) / 16) - slab * SLAB_UNITS, SLAB_UNITS);
        for (int i = 0; i < ROWS; i++) {
            uint row = min(first + team * uint(ROWS) + uint(i), rows - 1u) * uint(W_STRIDE);
            for (uint unit = member; unit < units; unit += uint(TEAM))
                sum[i] += unit_dot(row, slab, unit);
        }
        memoryBarrierShared(); barrier();
    }
    for (int i = 0; i < ROWS; i++)
        part[(team * uint(ROWS) + uint(i)) * uint(TEAM) + member] = sum[i];
    squares[lane] = square;
    memoryBarrierShared(); barrier();

    float scale = 1.0;
#if PRE_norm
    square = 0.0;
    for (uint i = 0u; i < uint(LANES); i++)
        square += squares[i];
    scale = inversesqrt(square / float(K) + eps);
#endif
#if POST_glu
    uint out_row = (row0 + first) / 2u + lane;
    if (lane < uint(GROUP_ROWS / 2) && first + 2u * lane < rows) {
        float gate = scale * row_sum(2u * lane), up = scale * row_sum(2u * lane + 1u);
        Y[out_row] = glu(gate, up, 2u * out_row);
    }
#else
    for (uint r = lane; r < uint(GROUP_ROWS) && first + r < rows; r += uint(LANES)) {
        float y = result(scale * row_sum(r), row0 + first + r);
#if POST_add
        y += Y[row0 + first + r];
#endif
        Y[row0 + first + r] = y;
    }
#endif
}
