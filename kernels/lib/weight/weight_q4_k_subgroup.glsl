// q4_k for kernels with subgroups, where a lane has 32 columns of a slice (32 columns for each lane
// of a subgroup of SUBGROUP lanes): the 16 bytes of a lane hold 16 columns in their low nibbles and
// those 32 further on in their high nibbles. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW 2

// Which vec4 of x meets part i of the lane.
uint lane_vec4(uint slice, uint lane, uint i)
{
    uint block = slice * uint(SUBGROUP / 8) + lane / 8u;
    return block * 64u + (lane / 2u & 3u) * 16u + (lane & 1u) * 4u + (i & 3u) + (i >> 2) * 8u;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    uint b = row + min(slice * uint(SUBGROUP / 8) + lane / 8u, uint(W_STRIDE / 36 - 1)) * 9u;
    raw[0] = W[b + 1u + (lane & 7u)];
    raw[1] = W[b];
}

// A nibble becomes a float by putting it into the mantissa of 1.0, which needs no conversion
// instruction. Low nibbles land on bits 15 to 18: 1 + n / 256, and the 1 is taken off before
// multiplying, exactly. High nibbles land on bits 19 to 22: 1 + n / 16, and the sum of x, times 1,
// is taken off at the start: that costs 4 bits of the sum, not 8. `one` is 1.0 in a register that
// the compiler cannot see through: with two literals NVIDIA needs two instructions.
#define LANE_BYTE(word, s, xl, xh) \
    q = word s; \
    low += (uintBitsToFloat((q & 0x00078000u) | one) - 1.0) * (xl); \
    high += uintBitsToFloat((q & 0x00780000u) | one) * (xh);
#define LANE_WORD(word, i) \
    LANE_BYTE(word, << 15, x[i].x, x[i + 4].x) \
    LANE_BYTE(word, << 7, x[i].y, x[i + 4].y) \
    LANE_BYTE(word, >> 1, x[i].z, x[i + 4].z) \
    LANE_BYTE(word, >> 9, x[i].w, x[i + 4].w)

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    vec4 sl = x[0] + x[1] + x[2] + x[3], sh = x[4] + x[5] + x[6] + x[7];
    float sum_low = sl.x + sl.y + sl.z + sl.w, sum_high = sh.x + sh.y + sh.z + sh.w;
    float low = 0.0, high = -sum_high;
    uint q;
    LANE_WORD(raw[0].x, 0)
    LANE_WORD(raw[0].y, 1)
    LANE_WORD(raw[0].z, 2)
    LANE_WORD(raw[0].w, 3)
    vec4 codes = k_codes(raw[1], lane);
    vec2 d = unpackHalf2x16(raw[1].x);
    return d.x * (codes.x * (low * 256.0) + codes.y * (high * 16.0)) -
           d.y * (codes.z * sum_low + codes.w * sum_high);
}
