// f32 for kernels with subgroups, where a lane has 32 columns of a slice: eight runs of four, so
// that a subgroup reads in one piece. W is uvec4.
#define LANE_RAW 8

uint lane_vec4(uint slice, uint lane, uint i)
{
    return (slice * 8u + i) * uint(SUBGROUP) + lane;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    for (uint i = 0u; i < 8u; i++)
        raw[i] = W[row + min((slice * 8u + i) * uint(SUBGROUP) + lane, uint(W_STRIDE / 4 - 1))];
}

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    float sum = 0.0;
    for (int i = 0; i < 8; i++)
        sum += dot(uintBitsToFloat(raw[i]), x[i]);
    return sum;
}
