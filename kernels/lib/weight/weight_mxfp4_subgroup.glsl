// mxfp4 (layout `split`) for kernels with subgroups, where a lane has 32 neighbouring columns: one
// block. W is uvec4. weight_mxfp4.glsl explains how a code becomes a number.
#define LANE_RAW 2

uint lane_vec4(uint slice, uint lane, uint i)
{
    return (slice * uint(SUBGROUP) + lane) * 8u + i;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    // uvec4 of codes, one per block; the exponents follow, sixteen to a uvec4
    const uint CODES = uint(W_STRIDE / 34 * 8);
    uint block = min(slice * uint(SUBGROUP) + lane, CODES - 1u);
    raw[0] = W[row + block];
    raw[1] = W[row + CODES + block / 16u];
}

#define LANE_PAIR(word, xa, xb) \
    q = word; \
    pair = unpackHalf2x16(((q & 0x00070007u) << 9) | ((q & 0x00080008u) << 12)); \
    sum += pair.x * (xa) + pair.y * (xb);
#define LANE_WORD(word, i) \
    LANE_PAIR(word, x[i].x, x[i].z) \
    LANE_PAIR(word >> 8, x[i].y, x[i].w) \
    LANE_PAIR(word >> 4, x[i + 4].x, x[i + 4].z) \
    LANE_PAIR(word >> 12, x[i + 4].y, x[i + 4].w)

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    float sum = 0.0;
    vec2 pair;
    uint q;
    LANE_WORD(raw[0].x, 0)
    LANE_WORD(raw[0].y, 1)
    LANE_WORD(raw[0].z, 2)
    LANE_WORD(raw[0].w, 3)
    uint block = slice * uint(SUBGROUP) + lane;
    uvec2 two = (block & 8u) == 0u ? raw[1].xy : raw[1].zw;
    uint e = (((block & 4u) == 0u ? two.x : two.y) >> (block & 3u) * 8u) & 255u;
    return uintBitsToFloat(min(e + 14u, 254u) << 23) * sum;
}
