// The experts of one token with subgroups: lanes keep their part of x in registers, read 16 bytes.
//
// As matmul_decode_subgroup. post=glu: group.y is the choice. post=combine: the rows of the chosen
// experts that meet in one result are taken for one row, TOP_K times as long, whose x is weighted
// when it is loaded; its slices are shared out among the subgroups like those of any other row. A
// row that another band holds is read from this band's first row and counts as 0. Groups: x covers
// an expert's rows, ROWS each, y with post=glu the choices. LONG: rows that twice the lanes share.
//
// One H200 (driver 580), all layers of a token, 2026-11-21, `dopplergl bench --shape SHAPE
// --profile --kernel-hints ...`; us and GB/s of weights, of gate_up and then of down:
//     LANES, ROWS             128, 8              256, 8              128, 16 (gate_up)
//     gpt-oss-20b:mxfp4      1058  855   870 520   1156  782   795 569   1160  780
//     mixtral-8x7b:q4_k      2517 1680  2302 918   3476 1216  2511 842   2605 1623
//     qwen3-30b-a3b:q4_k     1016  669  1007 338   1155  588   889 382   1070  635
// Four rows at a time are slower. An empty dispatch with its barrier is 3 us of each, per layer.
//
//! NAME moe_decode_subgroup
//! OP moe_matmul
//! VARIANT subgroup gemv_subgroup
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
//! WHEN post glu combine
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read uvec2 ROUTE
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float scale
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE LONG = POST_combine && K * TOP_K > 128 * SUBGROUP && K * TOP_K < 512 * SUBGROUP in 0 1
//! TUNE LANES = LONG && MAX_INVOCATIONS >= 256 ? 256 : 128 in 64 96 128 192 256 512
//! TUNE UNROLL = WEIGHT_f32 ? 1 : 2 in 1 2 4
//! TUNE ROWS = 8 in 8 16 32 64
//! LOCAL LANES
//! GROUPS ceildiv(EXPERT_ROWS, ROWS) POST_glu ? TOP_K : 1
//! LET SUBGROUPS = LANES / SUBGROUP
//! LET ROW_SLICES = ceildiv(K, 32 * SUBGROUP) // of one expert's row
//! LET SLICES = ROW_SLICES * (POST_glu ? 1 : TOP_K)
//! LET SLOTS = min(SLICES, SUBGROUPS)
//! SHARED float part[ROWS * SLOTS]
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE LANES % SUBGROUP == 0 && ROWS <= LANES && ROWS % UNROLL == 0 && UNROLL <= SUBGROUP
//! PREFER SOFTWARE ? 5 : 30
//! LIB weight_{weight}_lane
//! LIB moe_glu

#define TEAMS (SUBGROUPS / SLOTS)
#define HELD  (UNROLL * LANE_RAW)

uvec4 next[HELD]; // the rows in flight

// Row r of choice s in this band; `rows` or more: it is elsewhere, or there is none.
uint band_row(uint s, uint r)
{
    return r < uint(EXPERT_ROWS) ? ROUTE[s].x * uint(EXPERT_ROWS) + r - row0 : rows;
}

// Asks for rows r .. r + UNROLL - 1 of the expert.
void fetch(uint s, uint r, uint slice, uint lane)
{
    for (int i = 0; i < UNROLL; i++) {
        uint at = band_row(s, r + uint(i));
        uvec4 raw[LANE_RAW];
        lane_fetch((at < rows ? at : 0u) * uint(W_STRIDE / 4), slice, lane, raw);
        for (int j = 0; j < LANE_RAW; j++)
            next[i * LANE_RAW + j] = raw[j];
    }
}

// Sums UNROLL values over the subgroup; lane SUBGROUP / UNROLL * i ends up with the sum of y[i].
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

// Slice `slice` of the rows of one team; s is the choice that it belongs to.
void slice_products(uint first, uint slot, uint team, uint slice, uint s, uint lane, uint one)
{
    uint within = slice % uint(ROW_SLICES);
    vec4 x[8];
    fetch(s, first + team * uint(UNROLL), within, lane);
#if POST_combine
    float factor = scale * uintBitsToFloat(ROUTE[s].y);
    uint x0 = s * uint(X_STRIDE / 4);
#else
    float factor = 1.0;
    uint x0 = 0u;
#endif
    for (uint i = 0u; i < 8u; i++) {
        uint quad = lane_quad(within, lane, i);
        x[i] = quad < uint(K / 4) ? factor * X[x0 + quad] : vec4(0.0);
    }
    for (uint r = team * uint(UNROLL); r < uint(ROWS); r += uint(TEAMS * UNROLL)) {
        uvec4 now[HELD];
        float y[UNROLL];
        for (int i = 0; i < HELD; i++)
            now[i] = next[i];
        if (r + uint(TEAMS * UNROLL) < uint(ROWS))
            fetch(s, first + r + uint(TEAMS * UNROLL), within, lane);
        for (int i = 0; i < UNROLL; i++) {
            uvec4 raw[LANE_RAW];
            for (int j = 0; j < LANE_RAW; j++)
                raw[j] = now[i * LANE_RAW + j];
            y[i] = lane_dot(raw, within, lane, x, one);
        }
        float sum = spread_sums(y, lane);
        if (lane % uint(SUBGROUP / UNROLL) == 0u) {
            uint mine = r + lane / uint(SUBGROUP / UNROLL), p = mine * uint(SLOTS) + slot;
            sum = band_row(s, first + mine) < rows ? sum : 0.0;
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

// Bias of band row `row`.
float bias_of(uint row)
{
#if BIAS_row
    uint i = rows * uint(W_STRIDE) + row;
    return row < rows ? uintBitsToFloat(W[i / 4u][i % 4u]) : 0.0;
#else
    return 0.0;
#endif
}

void body(uvec3 group)
{
    uint lane = gl_SubgroupInvocationID, slot = gl_SubgroupID % uint(SLOTS);
    uint team = gl_SubgroupID / uint(SLOTS), first = group.x * uint(ROWS);
    uint r = gl_LocalInvocationID.x, one = 0x3F800000u | (rows >> 31);
#if POST_glu
    uint choice = min(group.y, uint(TOP_K - 1));
#else
    float before = r < uint(ROWS) && first + r < uint(EXPERT_ROWS) ? Y[first + r] : 0.0;
#endif
    if (team < uint(TEAMS))
        for (uint slice = slot; slice < uint(SLICES); slice += uint(SLOTS)) {
#if POST_combine
            uint choice = slice / uint(ROW_SLICES);
#endif
            slice_products(first, slot, team, slice, choice, lane, one);
        }
    memoryBarrierShared(); barrier();
#if POST_glu
    uint gate = band_row(choice, first + 2u * r);
    if (r < uint(ROWS / 2) && gate < rows)
        Y[choice * uint(Y_STRIDE) + first / 2u + r] =
            glu(row_sum(2u * r) + bias_of(gate), row_sum(2u * r + 1u) + bias_of(gate + 1u));
#else
    if (r < uint(ROWS) && first + r < uint(EXPERT_ROWS)) {
        float y = before + row_sum(r);
#if BIAS_row
        for (uint s = 0u; s < uint(TOP_K); s++)
            y += scale * uintBitsToFloat(ROUTE[s].y) * bias_of(band_row(s, first + r));
#endif
        Y[first + r] = y;
    }
#endif
}
