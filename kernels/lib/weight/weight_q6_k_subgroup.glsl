// Weights of type q6_k (layout `split`) for kernels with subgroups.
//
// A lane has 32 columns of a slice. Its 16 bytes have 16 columns in their low nibbles and the
// columns 64 further on in their high nibbles. Both groups have scales of their own. W is uvec4.
// Needs lib weight_subgroup.
#define LANE_RAW     16
#define LANE_GROUPS  2
#define LANE_CENTRE  32.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xzyw

uint lane_codes, lane_upper, lane_scales, lane_d; // elements of a row
uint lane_bits, lane_shift;                       // of the upper bits, and of the scales
bool lane_pair;                                   // the scales are in the latter half of theirs
uint lane_word, lane_half;                        // of d in its element

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane / 8u * 64u + (lane & 4u) * 8u + (lane & 3u) * 4u + (i & 3u) + (i >> 2) * 16u;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    const uint BLOCKS = uint(W_STRIDE * 2 / 105);
    uint block = min(first / 8u + lane / 8u, BLOCKS - 1u), b = block * 13u;
    lane_one = LANE_ONE(zero);
    lane_codes = b + (lane & 7u);
    lane_upper = b + 8u + (lane / 2u & 2u) + (lane & 1u);
    lane_scales = b + 12u;
    lane_d = BLOCKS * 13u + block / 8u;
    lane_bits = lane & 2u;
    lane_pair = (lane & 4u) != 0u;
    lane_shift = 24u - 8u * (lane & 3u);
    lane_word = block / 2u & 3u;
    lane_half = block % 2u * 16u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_upper])
    LANE_RAW4(8, W[row + lane_scales])
    LANE_RAW4(12, W[row + lane_d])
}

#define LANE_TABLES
#define LANE_READY(raw, row) LANE_SHIFT4(raw, (row) + 4, lane_bits)
#define LANE_QUAD(raw, row, i) \
    LANE_BYTES(((raw)[(row) + (i)] & 0x0F0F0F0Fu) | \
               (((raw)[(row) + (i) + 4] & 0x03030303u) << 4))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    LANE_BYTES((((raw)[(row) + (i)] >> 4) & 0x0F0F0F0Fu) | \
               ((raw)[(row) + (i) + 4] & 0x30303030u))

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    uvec2 codes = lane_pair ? uvec2(raw[10], raw[11]) : uvec2(raw[8], raw[9]);
    float d = unpackHalf2x16(lane_pick(LANE_FOUR(12), lane_word) >> lane_half).x;
    scale = d * vec2(ivec2(codes << lane_shift) >> 24);
    least = vec2(0.0);
}
