// Weights of type q8_0 in the layout `split` of W.
//
// A row has blocks of 32 columns: int8 codes, four to a word. Then it has an f16 scale per block,
// two to a word. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 31) / 32 * 8) // words of codes; a sixteenth as many hold scales

vec4 weight_codes(uint word)
{
    return vec4(ivec4(uvec4(word << 24, word << 16, word << 8, word)) >> 24);
}

// Scale of columns k .. k + 31 from the word that holds it.
float weight_scale(uint word, uint k)
{
    vec2 pair = unpackHalf2x16(word);
    return (k & 32u) == 0u ? pair.x : pair.y;
}

float weight_at(uint row, uint k)
{
    uint shifted = weight_load(row + k / 4u) << (24u - 8u * (k & 3u));
    return weight_scale(weight_load(row + WEIGHT_CODES + k / 64u), k) * float(int(shifted) >> 24);
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = row + k / 4u;
    raw[0] = weight_load4(w);
    raw[1] = uvec4(weight_load(row + WEIGHT_CODES + k / 64u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_scale(raw[1].x, k);
    w[0] = d * weight_codes(raw[0].x);
    w[1] = d * weight_codes(raw[0].y);
    w[2] = d * weight_codes(raw[0].z);
    w[3] = d * weight_codes(raw[0].w);
}
