// Weights of type q4_0 (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW     8
#define LANE_GROUPS  1
#define LANE_CENTRE  8.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_DOWN_UP(4)
#define LANE_ORDER(x) (x).xzyw

uint lane_codes, lane_scale, lane_word, lane_at; // elements of a row; which half of an element

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    // uvec4 of codes, one per block; the scales follow, eight to a uvec4
    const uint CODES = uint((K + 31) / 32);
    uint block = min(first + lane, CODES - 1u);
    lane_one = LANE_ONE(zero);
    lane_codes = block;
    lane_scale = CODES + block / 8u;
    lane_word = block / 2u & 3u;
    lane_at = block & 1u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_scale])
}

#define LANE_TABLES
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) NIBBLE_QUAD((raw)[(row) + (i)])
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) NIBBLE_LATER((raw)[(row) + (i)])

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    scale = vec2(unpackHalf2x16(lane_pick(LANE_FOUR(4), lane_word) >> 16u * lane_at).x);
    least = vec2(0.0);
}
