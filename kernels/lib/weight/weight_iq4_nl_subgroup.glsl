// Weights of type iq4_nl (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW 8

uint lane_codes, lane_scale, lane_word, lane_half; // elements of a row; the scale in its element

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    // uvec4 of codes, one per block; the scales follow, eight to a uvec4
    const uint BLOCKS = uint((K + 31) / 32);
    uint block = min(first + lane, BLOCKS - 1u);
    lane_one = LANE_ONE(zero);
    lane_codes = block;
    lane_scale = BLOCKS + block / 8u;
    lane_word = block / 2u & 3u;
    lane_half = block % 2u * 16u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_scale])
}

void lane_prepare()
{
}

float lane_dot(uint raw[LANE_RAW])
{
    uint scale = lane_pick(LANE_FOUR(4), lane_word);
    return unpackHalf2x16(scale >> lane_half).x * iq4_dot(uvec4(raw[0], raw[1], raw[2], raw[3]));
}
