// q8_0 (layout `split`) for kernels with subgroups, where a lane has 32 neighbouring columns: one
// scale. W is uvec4.
#define LANE_RAW 3

uint lane_vec4(uint slice, uint lane, uint i)
{
    return (slice * uint(SUBGROUP) + lane) * 8u + i;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    // uvec4 of codes; the scales follow, eight to a uvec4
    const uint CODES = uint(W_STRIDE / 17 * 4);
    uint block = min(slice * uint(SUBGROUP) + lane, CODES / 2u - 1u);
    raw[0] = W[row + 2u * block];
    raw[1] = W[row + 2u * block + 1u];
    raw[2] = W[row + CODES + block / 8u];
}

// A code plus 128 in the lowest bits of 2^23 is a float without a conversion instruction; both
// offsets come off exactly. `one` is 1.0 in a register that the compiler cannot see through, see
// weight_q4_k_subgroup.glsl; 2^23 is 0x4B000000.
#define LANE_BYTE(q, xx) sum += (uintBitsToFloat(((q) & 255u) | magic) - 8388736.0) * (xx);
#define LANE_WORD(word, i) \
    q = (word) ^ 0x80808080u; \
    LANE_BYTE(q, x[i].x) \
    LANE_BYTE(q >> 8, x[i].y) \
    LANE_BYTE(q >> 16, x[i].z) \
    LANE_BYTE(q >> 24, x[i].w)

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    uint q, magic = one + 0x0B800000u;
    float sum = 0.0;
    LANE_WORD(raw[0].x, 0)
    LANE_WORD(raw[0].y, 1)
    LANE_WORD(raw[0].z, 2)
    LANE_WORD(raw[0].w, 3)
    LANE_WORD(raw[1].x, 4)
    LANE_WORD(raw[1].y, 5)
    LANE_WORD(raw[1].z, 6)
    LANE_WORD(raw[1].w, 7)
    uvec2 two = (lane & 4u) == 0u ? raw[2].xy : raw[2].zw;
    vec2 d = unpackHalf2x16((lane & 2u) == 0u ? two.x : two.y);
    return ((lane & 1u) == 0u ? d.x : d.y) * sum;
}
