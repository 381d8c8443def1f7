// Weights of type q1_0 in the layout `split` of W.
//
// A row has blocks of 128 columns, one bit each in four words. Then it has an f16 d per block, two
// to a word. A weight is d if its bit is set, else -d. `row` is the first word of a row.
#define WEIGHT_RAW   1  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 127) / 128 * 4) // words of bits

vec4 weight_bits(uint bits, float d)
{
    return mix(vec4(-d), vec4(d), notEqual(uvec4(bits) & uvec4(1u, 2u, 4u, 8u), uvec4(0u)));
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = uvec4(weight_load(row + k / 32u), weight_load(row + WEIGHT_CODES + k / 256u), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 pair = unpackHalf2x16(raw[0].y);
    float d = (k & 128u) == 0u ? pair.x : pair.y;
    uint bits = raw[0].x >> (k & 16u);
    w[0] = weight_bits(bits, d);
    w[1] = weight_bits(bits >> 4, d);
    w[2] = weight_bits(bits >> 8, d);
    w[3] = weight_bits(bits >> 12, d);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
