// Weights of type q5_1 (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs lib weight_subgroup. See
// weight_q5_1.glsl for the order of the fifth bits.
#define LANE_RAW     8
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM true
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xzyw

uint lane_codes, lane_scales; // elements of a row
bool lane_upper;              // scales and fifth bits are in the latter half of their element

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

#define LANE_TABLES
#define LANE_READY(raw, row) raw[(row) + 5] = lane_upper ? raw[(row) + 7] : raw[(row) + 5];
#define LANE_QUAD(raw, row, i) \
    LANE_BYTES(((raw)[(row) + (i)] & 0x0F0F0F0Fu) | \
               ((((raw)[(row) + 5] >> (i)) & 0x01010101u) << 4))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    LANE_BYTES((((raw)[(row) + (i)] >> 4) & 0x0F0F0F0Fu) | \
               (((raw)[(row) + 5] >> (i)) & 0x10101010u))

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    vec2 d = unpackHalf2x16(lane_upper ? raw[6] : raw[4]);
    scale = d.xx;
    least = -d.yy;
}
