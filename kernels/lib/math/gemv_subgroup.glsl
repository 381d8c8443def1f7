// Matrix-vector product with subgroups: a lane keeps its part of x in registers, reads 16 bytes.
//
// A subgroup covers a slice of 32 * SUBGROUP columns. SUBGROUPS_K subgroups are side by side along
// the columns of a row, as many as there are slices or at most all; SUBGROUPS_N such sets share the
// ROWS rows of the group, UNROLL rows at a time with the next UNROLL in flight: weights do not
// depend on x, so the first ones are asked for before x is. A row's slice is summed over the
// subgroup; the slices of a row meet in `part`.
//
//! LET SUBGROUPS_K = min(SLICES, WG_SIZE / SUBGROUP)
//! LET SUBGROUPS_N = WG_SIZE / SUBGROUP / SUBGROUPS_K
//! SHARED float part[ROWS * SUBGROUPS_K]
//
// Needs lib weight_*_subgroup, the constant K, the tunables WG_SIZE, SUBGROUP, UNROLL and ROWS, the
// LET SLICES (the slices that make one result), and three functions of the kernel:
uint gemv_row(uint r); // element of W at which row r of the group starts; of some row without one
bool gemv_has(uint r); // false: the row that was read for row r adds nothing
vec4 gemv_x(uint i);   // elements 4 i .. 4 i + 3 of x; called once for each i below K / 4

uvec4 next[UNROLL * LANE_RAW]; // the rows in flight

// Asks for rows r .. r + UNROLL - 1 of the group.
void gemv_fetch(uint r, uint slice, uint lane)
{
    for (int i = 0; i < UNROLL; i++) {
        uvec4 raw[LANE_RAW];
        lane_fetch(gemv_row(r + uint(i)), slice, lane, raw);
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

// Products of slice `slice` of the rows that this subgroup, (sg_k, sg_n) of the grid, has. `again`:
// the subgroup has been here with other slices of these results. `one` is 1.0, see
// weight_q4_k_subgroup.glsl.
void gemv_slice(uint slice, uint sg_k, uint sg_n, bool again, uint lane, uint one)
{
    vec4 x[8];
    gemv_fetch(sg_n * uint(UNROLL), slice, lane);
    for (uint i = 0u; i < 8u; i++) {
        uint column = lane_vec4(slice, lane, i);
        x[i] = column < uint(K / 4) ? gemv_x(column) : vec4(0.0);
    }
    for (uint r = sg_n * uint(UNROLL); r < uint(ROWS); r += uint(SUBGROUPS_N * UNROLL)) {
        uvec4 now[UNROLL * LANE_RAW];
        float y[UNROLL];
        for (int i = 0; i < UNROLL * LANE_RAW; i++)
            now[i] = next[i];
        if (r + uint(SUBGROUPS_N * UNROLL) < uint(ROWS))
            gemv_fetch(r + uint(SUBGROUPS_N * UNROLL), slice, lane);
        for (int i = 0; i < UNROLL; i++) {
            uvec4 raw[LANE_RAW];
            for (int j = 0; j < LANE_RAW; j++)
                raw[j] = now[i * LANE_RAW + j];
            y[i] = lane_dot(raw, slice, lane, x, one);
        }
        float sum = spread_sums(y, lane);
        if (lane % uint(SUBGROUP / UNROLL) == 0u) {
            uint mine = r + lane / uint(SUBGROUP / UNROLL), p = mine * uint(SUBGROUPS_K) + sg_k;
            sum = gemv_has(mine) ? sum : 0.0;
#if SLICES > SUBGROUPS_K
            if (again)
                sum += part[p];
#endif
            part[p] = sum;
        }
    }
}

// Sum of row r of the group; after a barrier.
float gemv_sum(uint r)
{
    float y = 0.0;
    for (uint i = 0u; i < uint(SUBGROUPS_K); i++)
        y += part[r * uint(SUBGROUPS_K) + i];
    return y;
}
