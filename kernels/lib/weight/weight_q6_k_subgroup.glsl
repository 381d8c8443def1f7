// q6_k (layout `split`) for kernels with subgroups, where a lane has 32 columns of a slice (32
// columns for each lane of a subgroup of SUBGROUP lanes): the 16 bytes of a lane hold 16 columns in
// their low nibbles and those 64 further on in their high nibbles; both groups have scales of their
// own. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW 4

// Which vec4 of x meets part i of the lane.
uint lane_vec4(uint slice, uint lane, uint i)
{
    uint block = slice * uint(SUBGROUP / 8) + lane / 8u;
    return block * 64u + (lane & 4u) * 8u + (lane & 3u) * 4u + (i & 3u) + (i >> 2) * 16u;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    const uint BLOCKS = uint(W_STRIDE * 2 / 105);
    uint block = min(slice * uint(SUBGROUP / 8) + lane / 8u, BLOCKS - 1u), b = row + block * 13u;
    raw[0] = W[b + (lane & 7u)];
    raw[1] = W[b + 8u + (lane / 2u & 2u) + (lane & 1u)];
    raw[2] = W[b + 12u];
    raw[3] = W[row + BLOCKS * 13u + block / 8u]; // eight d
}

// A code in the mantissa of 1.0, see weight_q4_k_subgroup.glsl: 1 + q / 256. The 1 and the offset
// of 32 come off together, exactly.
#define LANE_BYTE(s, xl, xh) \
    low += (uintBitsToFloat(((ql s) & 0x001F8000u) | one) - 1.125) * (xl); \
    high += (uintBitsToFloat(((qh s) & 0x001F8000u) | one) - 1.125) * (xh);
#define LANE_WORD(word, upper, i) \
    ql = ((word) & 0x0F0F0F0Fu) | ((((upper) >> bits) & 0x03030303u) << 4); \
    qh = (((word) >> 4) & 0x0F0F0F0Fu) | (((upper) >> bits) & 0x30303030u); \
    LANE_BYTE(<< 15, x[i].x, x[i + 4].x) \
    LANE_BYTE(<< 7, x[i].y, x[i + 4].y) \
    LANE_BYTE(>> 1, x[i].z, x[i + 4].z) \
    LANE_BYTE(>> 9, x[i].w, x[i + 4].w)

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    float low = 0.0, high = 0.0;
    uint ql, qh, bits = lane & 2u;
    LANE_WORD(raw[0].x, raw[1].x, 0)
    LANE_WORD(raw[0].y, raw[1].y, 1)
    LANE_WORD(raw[0].z, raw[1].z, 2)
    LANE_WORD(raw[0].w, raw[1].w, 3)
    uint block = slice * uint(SUBGROUP / 8) + lane / 8u;
    uvec2 scales = (lane & 4u) == 0u ? raw[2].xy : raw[2].zw;
    ivec2 sc = ivec2(scales << (24u - 8u * (lane & 3u))) >> 24;
    return half_of(raw[3], block) * 256.0 * (float(sc.x) * low + float(sc.y) * high);
}
