// Weights of type tq1_0 in the layout `split` of W.
//
// A row has blocks of 256 columns in 13 words, then the f16 d of all blocks, two to a word. Byte b
// stores the fraction b / 256, whose base-3 digits are codes q; digit 0 is the first after the
// point. Digit i of byte j is the code of
// - column 32 i + j if j < 32,
// - column 160 + 16 i + j - 32 if 32 <= j < 48,
// - column 240 + 4 i + j - 48 if 48 <= j < 52.
//
// A weight is d * (q - 1). `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 255) / 256 * 13) // words before the d

// d of columns k .. k + 255 from the word that holds it.
float weight_d(uint word, uint k)
{
    vec2 pair = unpackHalf2x16(word);
    return (k & 256u) == 0u ? pair.x : pair.y;
}

// 3^i for i up to 4.
uint weight_power(uint i)
{
    return (0x1B090301u >> 8u * (i & 3u) & 255u) * (i < 4u ? 1u : 81u);
}

// Returns digit i of the four bytes of a word, minus 1. `power` is 3^i.
vec4 weight_digits(uint word, uint power)
{
    uvec4 digits = (uvec4(word, word >> 8, word >> 16, word >> 24) & 255u) * power & 255u;
    return vec4(digits * 3u >> 8u) - 1.0;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint b = row + k / 256u * 13u, i = k & 255u;
    uint first = b + (i < 160u ? i / 4u & 7u : i < 240u ? 8u : 12u);
    raw[0].x = weight_load(first);
    if (i < 240u)
        raw[0].yzw = uvec3(weight_load(first + 1u), weight_load(first + 2u),
                           weight_load(first + 3u));
    else
        raw[0].yzw = raw[0].xxx;
    raw[1] = uvec4(weight_load(row + WEIGHT_CODES + k / 512u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_d(raw[1].x, k);
    uint i = k & 255u, digit = i < 160u ? i / 32u : i < 240u ? i / 16u - 10u : 0u;
    uvec4 power = uvec4(weight_power(digit));
    if (i >= 240u)
        power = uvec4(1u, 3u, 9u, 27u);
    w[0] = d * weight_digits(raw[0].x, power.x);
    w[1] = d * weight_digits(raw[0].y, power.y);
    w[2] = d * weight_digits(raw[0].z, power.z);
    w[3] = d * weight_digits(raw[0].w, power.w);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
