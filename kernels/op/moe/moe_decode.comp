// The experts of one token on any device: teams of lanes share rows, as in matmul_decode.
//
// A slab of x (at most SLAB columns) lies in shared memory; the lanes of a team take the units of a
// row in turn. post=glu: group.y is the choice, x the same for all. post=combine: a group walks
// through the choices of its rows, x being scaled with the expert's weight when it is loaded, so
// that one sum holds what all experts add. Rows that another band holds count as 0. Groups: x
// covers an expert's rows, LANES / TEAM * ROWS each, y with post=glu the choices.
//
//! NAME moe_decode
//! OP moe_matmul
//! VARIANT baseline gemv
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN post glu combine
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uint W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read uvec2 ROUTE
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float scale
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE LANES = SOFTWARE ? 64 : 128 in 32 64 128 256
//! TUNE TEAM = K >= 1024 ? 32 : K >= 256 ? 16 : 8 in 4 8 16 32
//! TUNE ROWS = 2 in 1 2 4 8
//! TUNE SLAB = 2048 in 512 1024 2048
//! LOCAL LANES
//! GROUPS ceildiv(EXPERT_ROWS, LANES / TEAM * ROWS) POST_glu ? TOP_K : 1
//! SHARED vec4 xs[SLAB / 4]
//! SHARED float part[LANES * ROWS] // [row of the group][lane of the team]
//! REQUIRE LANES / TEAM * ROWS % 2 == 0
//! PREFER 10
//! LIB weight_{weight}
//! LIB moe_glu

#define TEAMS      (LANES / TEAM)
#define GROUP_ROWS (TEAMS * ROWS)
#define SLAB_UNITS uint(SLAB / 16)

// Row r of choice s in this band; `rows` or more: it is elsewhere.
uint band_row(uint s, uint r)
{
    return ROUTE[s].x * uint(EXPERT_ROWS) + r - row0;
}

// Loads columns SLAB * slab .. of x of choice s; zero beyond K.
void stage(uint lane, uint s, uint slab)
{
    uint first = slab * uint(SLAB / 4);
    uint count = min(uint((K + 15) / 16 * 4) - first, uint(SLAB / 4));
#if POST_combine
    float factor = scale * uintBitsToFloat(ROUTE[s].y);
    uint x = s * uint(X_STRIDE / 4);
#else
    float factor = 1.0;
    uint x = 0u;
#endif
    for (uint i = lane; i < count; i += uint(LANES))
        xs[i] = first + i < uint(K / 4) ? factor * X[x + first + i] : vec4(0.0);
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

// Sum of row `r` of the group.
float row_sum(uint r)
{
    float y = 0.0;
    for (uint i = 0u; i < uint(TEAM); i++)
        y += part[r * uint(TEAM) + i];
    return y;
}

// Bias of band row `row`.
float bias_of(uint row)
{
#if BIAS_row
    return row < rows ? uintBitsToFloat(W[rows * uint(W_STRIDE) + row]) : 0.0;
#else
    return 0.0;
#endif
}

void store(uint lane, uint first, uint s)
{
#if POST_glu
    uint gate_row = band_row(s, first + 2u * lane);
    if (lane < uint(GROUP_ROWS / 2) && first + 2u * lane < uint(EXPERT_ROWS) && gate_row < rows)
        Y[s * uint(Y_STRIDE) + first / 2u + lane] =
            glu(row_sum(2u * lane) + bias_of(gate_row),
                row_sum(2u * lane + 1u) + bias_of(gate_row + 1u));
#else
    for (uint r = lane; r < uint(GROUP_ROWS) && first + r < uint(EXPERT_ROWS); r += uint(LANES)) {
        float y = row_sum(r);
#if BIAS_row
        for (uint i = 0u; i < uint(TOP_K); i++)
            y += scale * uintBitsToFloat(ROUTE[i].y) * bias_of(band_row(i, first + r));
#endif
        Y[first + r] += y;
    }
#endif
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, member = lane % uint(TEAM), team = lane / uint(TEAM);
    uint first = group.x * uint(GROUP_ROWS);
#if POST_glu
    uint s0 = min(group.y, uint(TOP_K - 1)), s1 = s0 + 1u;
#else
    uint s0 = 0u, s1 = uint(TOP_K);
#endif
    float sum[ROWS];
    for (int i = 0; i < ROWS; i++)
        sum[i] = 0.0;
    for (uint s = s0; s < s1; s++)
        for (uint slab = 0u; slab * uint(SLAB) < uint(K); slab++) {
            stage(lane, s, slab);
            memoryBarrierShared(); barrier();
            uint units = min(uint((K + 15) / 16) - slab * SLAB_UNITS, SLAB_UNITS);
            for (int i = 0; i < ROWS; i++) {
                uint r = first + team * uint(ROWS) + uint(i), row = band_row(s, r);
                if (r < uint(EXPERT_ROWS) && row < rows)
                    for (uint unit = member; unit < units; unit += uint(TEAM))
                        sum[i] += unit_dot(row * uint(W_STRIDE), slab, unit);
            }
            memoryBarrierShared(); barrier();
        }
    for (int i = 0; i < ROWS; i++)
        part[(team * uint(ROWS) + uint(i)) * uint(TEAM) + member] = sum[i];
    memoryBarrierShared(); barrier();
    store(lane, first, s0);
}
