// q5_k for kernels with subgroups, where a lane has 32 columns of a slice, as
// weight_q4_k_subgroup.glsl: 16 bytes of nibbles for 16 columns of two neighbouring groups, and the
// 16 bytes with their fifth bits. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW 3

// Which vec4 of x meets part i of the lane.
uint lane_vec4(uint slice, uint lane, uint i)
{
    uint block = slice * uint(SUBGROUP / 8) + lane / 8u;
    return block * 64u + (lane / 2u & 3u) * 16u + (lane & 1u) * 4u + (i & 3u) + (i >> 2) * 8u;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    uint b = row + min(slice * uint(SUBGROUP / 8) + lane / 8u, uint(W_STRIDE / 44 - 1)) * 11u;
    raw[0] = W[b + 3u + (lane & 7u)];
    raw[1] = W[b];
    raw[2] = W[b + 1u + (lane & 1u)];
}

// A code in the mantissa of 1.0: 1 + q / 256, see weight_q4_k_subgroup.glsl.
#define LANE_BYTE(s, xl, xh) \
    low += (uintBitsToFloat(((ql s) & 0x000F8000u) | one) - 1.0) * (xl); \
    high += (uintBitsToFloat(((qh s) & 0x000F8000u) | one) - 1.0) * (xh);
#define LANE_WORD(word, fifths, i) \
    ql = ((word) & 0x0F0F0F0Fu) | ((((fifths) >> bit) & 0x01010101u) << 4); \
    qh = (((word) >> 4) & 0x0F0F0F0Fu) | ((((fifths) >> bit) & 0x02020202u) << 3); \
    LANE_BYTE(<< 15, x[i].x, x[i + 4].x) \
    LANE_BYTE(<< 7, x[i].y, x[i + 4].y) \
    LANE_BYTE(>> 1, x[i].z, x[i + 4].z) \
    LANE_BYTE(>> 9, x[i].w, x[i + 4].w)

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    vec4 sl = x[0] + x[1] + x[2] + x[3], sh = x[4] + x[5] + x[6] + x[7];
    float sum_low = sl.x + sl.y + sl.z + sl.w, sum_high = sh.x + sh.y + sh.z + sh.w;
    float low = 0.0, high = 0.0;
    uint ql, qh, bit = lane & 6u;
    LANE_WORD(raw[0].x, raw[2].x, 0)
    LANE_WORD(raw[0].y, raw[2].y, 1)
    LANE_WORD(raw[0].z, raw[2].z, 2)
    LANE_WORD(raw[0].w, raw[2].w, 3)
    vec4 codes = k_codes(raw[1], lane);
    vec2 d = unpackHalf2x16(raw[1].x);
    return d.x * 256.0 * (codes.x * low + codes.y * high) -
           d.y * (codes.z * sum_low + codes.w * sum_high);
}
