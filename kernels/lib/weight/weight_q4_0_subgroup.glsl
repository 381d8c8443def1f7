// q4_0 (layout `split`) for kernels with subgroups, where a lane has 32 neighbouring columns: one
// block. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW 2

uint lane_vec4(uint slice, uint lane, uint i)
{
    return (slice * uint(SUBGROUP) + lane) * 8u + i;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    // uvec4 of codes, one per block; the scales follow, eight to a uvec4
    const uint CODES = uint(W_STRIDE / 9 * 2);
    uint block = min(slice * uint(SUBGROUP) + lane, CODES - 1u);
    raw[0] = W[row + block];
    raw[1] = W[row + CODES + block / 8u];
}

// A nibble in the mantissa of 1.0, see weight_q4_k_subgroup.glsl: low ones give 1 + n / 256, high
// ones 1 + n / 16. The 1 and the offset of 8 come off together, exactly.
#define LANE_BYTE(word, s, xl, xh) \
    q = word s; \
    low += (uintBitsToFloat((q & 0x00078000u) | one) - 1.03125) * (xl); \
    high += (uintBitsToFloat((q & 0x00780000u) | one) - 1.5) * (xh);
#define LANE_WORD(word, i) \
    LANE_BYTE(word, << 15, x[i].x, x[i + 4].x) \
    LANE_BYTE(word, << 7, x[i].y, x[i + 4].y) \
    LANE_BYTE(word, >> 1, x[i].z, x[i + 4].z) \
    LANE_BYTE(word, >> 9, x[i].w, x[i + 4].w)

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    float low = 0.0, high = 0.0;
    uint q;
    LANE_WORD(raw[0].x, 0)
    LANE_WORD(raw[0].y, 1)
    LANE_WORD(raw[0].z, 2)
    LANE_WORD(raw[0].w, 3)
    return half_of(raw[1], lane) * (low * 256.0 + high * 16.0);
}
