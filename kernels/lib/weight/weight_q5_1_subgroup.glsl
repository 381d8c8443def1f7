// Weights of type q5_1 (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs lib weight_subgroup. See
// weight_q5_1.glsl for the order of the fifth bits.
#define LANE_RAW 8

uint lane_codes, lane_scales; // elements of a row
bool lane_upper;              // scales and fifth bits are in the latter half of their element
float lane_sum;               // of x

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    // uvec4 of codes, one per block; scales and fifth bits follow, two blocks to a uvec4
    const uint BLOCKS = uint((K + 31) / 32);
    uint block = min(first + lane, BLOCKS - 1u);
    lane_one = LANE_ONE(zero);
    lane_codes = block;
    lane_scales = BLOCKS + block / 2u;
    lane_upper = (block & 1u) != 0u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_scales])
}

void lane_prepare()
{
    lane_sum = LANE_SUM16(0) + LANE_SUM16(4);
}

float lane_dot(uint raw[LANE_RAW])
{
    float sum = 0.0;
    uvec2 own = lane_upper ? uvec2(raw[6], raw[7]) : uvec2(raw[4], raw[5]);
    uint q;
    LANE_FIVE(sum, raw[0], own.y, 0, 1.0)
    LANE_FIVE(sum, raw[1], own.y, 1, 1.0)
    LANE_FIVE(sum, raw[2], own.y, 2, 1.0)
    LANE_FIVE(sum, raw[3], own.y, 3, 1.0)
    vec2 d = unpackHalf2x16(own.x);
    return d.x * 256.0 * sum + d.y * lane_sum;
}
