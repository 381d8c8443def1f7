// Weights of type q2_0 in the layout `split` of W.
//
// A row has blocks of 64 columns, two bits each in four words. Then it has an f16 d per block, two
// to a word. A weight is d * (q - 1). `row` is the first word of a row.
#define WEIGHT_RAW   1  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 63) / 64 * 4) // words of codes

vec4 weight_codes(uint codes)
{
    return vec4(uvec4(codes, codes >> 2, codes >> 4, codes >> 6) & 3u) - 1.0;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = uvec4(weight_load2(row + k / 32u * 2u), weight_load(row + WEIGHT_CODES + k / 128u),
                   0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 pair = unpackHalf2x16(raw[0].z);
    float d = (k & 64u) == 0u ? pair.x : pair.y;
    uint codes = (k & 16u) == 0u ? raw[0].x : raw[0].y;
    w[0] = d * weight_codes(codes);
    w[1] = d * weight_codes(codes >> 8);
    w[2] = d * weight_codes(codes >> 16);
    w[3] = d * weight_codes(codes >> 24);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
