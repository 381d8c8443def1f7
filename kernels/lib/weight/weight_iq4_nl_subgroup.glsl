// Weights of type iq4_nl (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs libs weight_subgroup and
// lane_iq4.
#define LANE_RAW     8
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      1.0
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xyzw

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

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    scale = vec2(unpackHalf2x16(lane_pick(LANE_FOUR(4), lane_word) >> lane_half).x);
    least = vec2(0.0);
}
