// Weights of type q2_k (layout `split`) for kernels with subgroups.
//
// A lane has 32 columns of a slice. 16 bytes of codes have 16 columns of each of four groups, and a
// lane uses two of these groups. Each 16 columns have their own scale and minimum. W is uvec4.
// Needs lib weight_subgroup. See weight_q2_k.glsl for the words of a block.
#define LANE_RAW 12

// Indices of the lane's uvec4 of codes, of scales and of d, from the start of the row.
uint lane_codes, lane_scales, lane_d;
// lane_bits: shift of the lane's codes in their bytes. lane_shift: shift of its scales in their
// word.
uint lane_bits, lane_shift;
// Indices of the lane's word of scales and of its word of d in their uvec4.
uint lane_word, lane_d_word;
// Sums of x over the lane's 16 columns of the first and of the second group.
float lane_sum0, lane_sum1;

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

void lane_prepare()
{
    lane_sum0 = LANE_SUM16(0);
    lane_sum1 = LANE_SUM16(4);
}

// The second group's codes are four times as large.
#define LANE_WORD(word, i) \
    q = (word) >> lane_bits; \
    LANE_TIMES4(low, q, 3, 1.0, lane_x[i]) \
    LANE_TIMES4(high, q, 12, 1.0, lane_x[(i) + 4])

float lane_dot(uint raw[LANE_RAW])
{
    float low = 0.0, high = 0.0;
    uint q;
    LANE_WORD(raw[0], 0)
    LANE_WORD(raw[1], 1)
    LANE_WORD(raw[2], 2)
    LANE_WORD(raw[3], 3)
    uint codes = lane_pick(LANE_FOUR(4), lane_word) >> lane_shift;
    vec2 d = unpackHalf2x16(lane_pick(LANE_FOUR(8), lane_d_word));
    float sc0 = LANE_UINT(codes & 15u), sc1 = LANE_UINT(codes >> 16 & 15u);
    float m0 = LANE_UINT(codes >> 4 & 15u), m1 = LANE_UINT(codes >> 20 & 15u);
    return d.x * (256.0 * sc0 * low + 64.0 * sc1 * high) - d.y * (m0 * lane_sum0 + m1 * lane_sum1);
}
