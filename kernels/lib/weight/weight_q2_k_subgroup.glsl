// Weights of type q2_k (layout `split`) for kernels with subgroups.
//
// A lane has 32 columns of a slice. 16 bytes of codes have 16 columns of each of four groups, and a
// lane uses two of these groups. Each 16 columns have their own scale and minimum. W is uvec4.
// Needs lib weight_subgroup. See weight_q2_k.glsl for the words of a block.
#define LANE_RAW     12
#define LANE_GROUPS  2
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM true
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_DOWN_UP(2)
#define LANE_ORDER(x) (x).xzyw

// Indices of the lane's uvec4 of codes, of scales and of d, from the start of the row.
uint lane_codes, lane_scales, lane_d;
// lane_bits: shift of the lane's codes in their bytes. lane_shift: shift of its scales in their
// word.
uint lane_bits, lane_shift;
// Indices of the lane's word of scales and of its word of d in their uvec4.
uint lane_word, lane_d_word;

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane / 8u * 64u + (lane & 4u) * 8u + (lane & 2u) * 8u + (lane & 1u) * 4u + (i & 3u) +
           (i >> 2) * 8u;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    const uint BLOCKS = uint((K + 255) / 256);
    uint block = min(first / 8u + lane / 8u, BLOCKS - 1u);
    lane_one = LANE_ONE(zero);
    lane_codes = block * 4u + (lane & 4u) / 2u + (lane & 1u);
    lane_scales = BLOCKS * 4u + block;
    lane_d = BLOCKS * 5u + block / 4u;
    lane_bits = (lane & 2u) * 2u;
    lane_shift = (lane & 1u) * 8u;
    lane_word = lane / 2u & 3u;
    lane_d_word = block & 3u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_scales])
    LANE_RAW4(8, W[row + lane_d])
}

#define LANE_TABLES
#define LANE_READY(raw, row) LANE_SHIFT4(raw, row, lane_bits)
#define LANE_QUAD(raw, row, i) LANE_BYTES((raw)[(row) + (i)] & 0x03030303u)
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    LANE_BYTES(LANE_DOWN((raw)[(row) + (i)] & 0x0C0C0C0Cu, 2))

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    uint codes = lane_pick(LANE_FOUR(4), lane_word) >> lane_shift;
    vec2 d = unpackHalf2x16(lane_pick(LANE_FOUR(8), lane_d_word));
    scale = d.x * vec2(LANE_UINT(codes & 15u), LANE_UINT(codes >> 16 & 15u));
    least = d.y * vec2(LANE_UINT(codes >> 4 & 15u), LANE_UINT(codes >> 20 & 15u));
}
