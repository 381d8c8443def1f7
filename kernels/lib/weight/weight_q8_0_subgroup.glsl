// Weights of type q8_0 (layout `split`) for kernels with subgroups.
//
// A lane has 16 columns of the slice's first half and 16 columns of its second half, so that the
// loads of a subgroup are contiguous. It has two scales. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW     16
#define LANE_GROUPS  2
#define LANE_CENTRE  128.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xzyw

uint lane_codes0, lane_codes1, lane_scale0, lane_scale1; // elements of a row
uint lane_word0, lane_word1, lane_shift0, lane_shift1;   // the scales in their elements

uint lane_vec4(uint lane, uint i, uint width)
{
    return (i / 4u * width + lane) * 4u + (i & 3u);
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    // uvec4 of codes, two per block; the scales follow, eight to a uvec4
    const uint CODES = uint((K + 31) / 32 * 2);
    lane_one = LANE_ONE(zero);
    lane_codes0 = min(2u * first + lane, CODES - 1u);
    lane_codes1 = min(lane_codes0 + width, CODES - 1u);
    lane_scale0 = CODES + lane_codes0 / 16u;
    lane_scale1 = CODES + lane_codes1 / 16u;
    lane_word0 = lane_codes0 / 4u & 3u;
    lane_word1 = lane_codes1 / 4u & 3u;
    lane_shift0 = lane_codes0 / 2u % 2u * 16u;
    lane_shift1 = lane_codes1 / 2u % 2u * 16u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes0])
    LANE_RAW4(4, W[row + lane_codes1])
    LANE_RAW4(8, W[row + lane_scale0])
    LANE_RAW4(12, W[row + lane_scale1])
}

#define LANE_TABLES
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) LANE_BYTES((raw)[(row) + (i)] ^ 0x80808080u)
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) LANE_QUAD(raw, (row) + 4, i)

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    uint word0 = lane_pick(LANE_FOUR(8), lane_word0), word1 = lane_pick(LANE_FOUR(12), lane_word1);
    scale = vec2(unpackHalf2x16(word0 >> lane_shift0).x, unpackHalf2x16(word1 >> lane_shift1).x);
    least = vec2(0.0);
}
