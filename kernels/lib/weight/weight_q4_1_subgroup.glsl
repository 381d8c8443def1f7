// Weights of type q4_1 (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW     8
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM true
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_DOWN_UP(4)
#define LANE_ORDER(x) (x).xzyw

// lane_codes, lane_scales: indices of the uvec4 with the lane's codes and with its d and m, from
// the start of the row. lane_word: index of the word of d and m in its uvec4.
uint lane_codes, lane_scales, lane_word;

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    // uvec4 of codes, one per block; the scales follow, four blocks to a uvec4
    const uint BLOCKS = uint((K + 31) / 32);
    uint block = min(first + lane, BLOCKS - 1u);
    lane_one = LANE_ONE(zero);
    lane_codes = block;
    lane_scales = BLOCKS + block / 4u;
    lane_word = block & 3u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_scales])
}

#define LANE_TABLES
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) NIBBLE_QUAD((raw)[(row) + (i)])
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) NIBBLE_LATER((raw)[(row) + (i)])

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    vec2 d = unpackHalf2x16(lane_pick(LANE_FOUR(4), lane_word));
    scale = d.xx;
    least = -d.yy;
}
