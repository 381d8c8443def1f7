// Weights of type iq4_xs (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one group. W is uvec4. Needs libs weight_subgroup and
// lane_iq4. See weight_iq4_xs.glsl for the two words of a block.
#define LANE_RAW     8
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      1.0
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xyzw

// Indices of the uvec4 with the lane's codes and with the two words of its block, from the start of
// the row.
uint lane_codes, lane_head;
uint lane_group; // index of the lane's group in the block
bool lane_upper; // true if the block's two words are the upper half of their uvec4

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    const uint ROW_GROUPS = uint((K + 255) / 256 * 8);
    uint g = min(first + lane, ROW_GROUPS - 1u);
    lane_one = LANE_ONE(zero);
    lane_codes = g;
    lane_head = ROW_GROUPS + g / 16u;
    lane_group = g & 7u;
    lane_upper = (g & 8u) != 0u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_head])
}

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    uvec2 head = lane_upper ? uvec2(raw[6], raw[7]) : uvec2(raw[4], raw[5]);
    uint low = head.y >> 4u * lane_group & 15u, high = head.x >> (16u + 2u * lane_group) & 3u;
    scale = vec2(unpackHalf2x16(head.x).x * (LANE_UINT(low | high << 4) - 32.0));
    least = vec2(0.0);
}
