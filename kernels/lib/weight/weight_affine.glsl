// Weights of type affine in W.
//
// Blocks of 32 columns occupy 12 words. Words 0 to 7 are int8 codes. Words 8 to 11 are the f32
// scale and minimum of the first 16 columns, then those of the other columns. A weight is scale * q
// - min, which is exact except for the last rounding. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns that a fetch serves

vec4 weight_codes(uint word)
{
    return vec4(ivec4(uvec4(word << 24, word << 16, word << 8, word)) >> 24);
}

// Words of the codes from column k on, and of the scale of k's group.
uint weight_word(uint row, uint k)
{
    return row + k / 32u * 12u + (k & 31u) / 4u;
}

uint weight_scale(uint row, uint k)
{
    return row + k / 32u * 12u + 8u + (k & 16u) / 8u;
}

float weight_at(uint row, uint k)
{
    uint shifted = weight_load(weight_word(row, k)) << (24u - 8u * (k & 3u));
    uint s = weight_scale(row, k);
    float d = uintBitsToFloat(weight_load(s)), m = uintBitsToFloat(weight_load(s + 1u));
    return d * float(int(shifted) >> 24) - m;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = weight_word(row, k), s = weight_scale(row, k);
    raw[0] = weight_load4(w);
    raw[1] = uvec4(weight_load(s), weight_load(s + 1u), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 s = uintBitsToFloat(raw[1].xy);
    w[0] = s.x * weight_codes(raw[0].x) - s.y;
    w[1] = s.x * weight_codes(raw[0].y) - s.y;
    w[2] = s.x * weight_codes(raw[0].z) - s.y;
    w[3] = s.x * weight_codes(raw[0].w) - s.y;
}
