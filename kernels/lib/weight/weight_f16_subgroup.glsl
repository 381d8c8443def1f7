// f16 for kernels with subgroups, where a lane has 32 columns of a slice: four runs of eight, so
// that a subgroup reads in one piece. W is uvec4.
#define LANE_RAW 4

uint lane_vec4(uint slice, uint lane, uint i)
{
    return ((slice * 4u + i / 2u) * uint(SUBGROUP) + lane) * 2u + (i & 1u);
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    for (uint i = 0u; i < 4u; i++)
        raw[i] = W[row + min((slice * 4u + i) * uint(SUBGROUP) + lane, uint(W_STRIDE / 4 - 1))];
}

vec2 lane_pair(uint word)
{
    return unpackHalf2x16(word);
}

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    float sum = 0.0;
    for (int i = 0; i < 4; i++)
        sum += dot(vec4(lane_pair(raw[i].x), lane_pair(raw[i].y)), x[2 * i]) +
               dot(vec4(lane_pair(raw[i].z), lane_pair(raw[i].w)), x[2 * i + 1]);
    return sum;
}
