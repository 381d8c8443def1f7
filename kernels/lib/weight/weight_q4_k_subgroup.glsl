// Weights of type q4_k (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one group, with a scale and a minimum of its own. W is uvec4.
// Needs lib weight_subgroup. See weight_q4_k.glsl for the head of a block.
#define LANE_RAW     8
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM true
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_DOWN_UP(4)
#define LANE_ORDER(x) (x).xzyw

uint lane_codes, lane_head;   // elements of a row
uint lane_shift, lane_nibble; // of the group's byte and of its nibble
bool lane_upper;              // groups 4 to 7 of a block

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    const uint ROW_GROUPS = uint(W_STRIDE / 36 * 8);
    uint g = min(first + lane, ROW_GROUPS - 1u);
    lane_one = LANE_ONE(zero);
    lane_codes = g;
    lane_head = ROW_GROUPS + g / 8u;
    lane_shift = 8u * (g & 3u);
    lane_nibble = lane_shift + (g & 4u);
    lane_upper = (g & 4u) != 0u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_head])
}

#define LANE_TABLES
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) NIBBLE_QUAD((raw)[(row) + (i)])
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) NIBBLE_LATER((raw)[(row) + (i)])

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    uint codes = (lane_upper ? raw[6] : raw[5]) >> lane_shift, upper = raw[7] >> lane_nibble;
    // 64 times the lower bits of the minimum's code, and its upper bits
    float low = LANE_UINT(codes & 192u), high = LANE_UINT(upper & 15u);
    vec2 d = unpackHalf2x16(raw[4]);
    scale = vec2(d.x * LANE_UINT(codes & 63u));
    least = vec2(d.y * (low * 0.015625 + high * 4.0));
}
