// Weights of type iq4_nl in the layout `split` of W.
//
// A row has blocks of 32 columns, four words each. Byte j of a block has column j in its low nibble
// and column j + 16 in its high nibble. Then it has an f16 scale per block, two to a word. A weight
// is d * t[q] with IQ4's table. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 31) / 32 * 4) // words of codes

// Scale of columns k .. k + 31 from the word that holds it.
float weight_scale(uint word, uint k)
{
    vec2 pair = unpackHalf2x16(word);
    return (k & 32u) == 0u ? pair.x : pair.y;
}

vec4 weight_entries(uint word)
{
    return iq4_entries(uvec4(word, word >> 8, word >> 16, word >> 24));
}

float weight_at(uint row, uint k)
{
    uint q = weight_load(row + k / 32u * 4u + (k & 15u) / 4u);
    q >>= 8u * (k & 3u) + (k / 16u & 1u) * 4u;
    return weight_scale(weight_load(row + WEIGHT_CODES + k / 64u), k) * iq4_entries(uvec4(q)).x;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = weight_load4(row + k / 32u * 4u);
    raw[1] = uvec4(weight_load(row + WEIGHT_CODES + k / 64u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_scale(raw[1].x, k);
    uvec4 q = raw[0] >> (k / 16u & 1u) * 4u;
    w[0] = d * weight_entries(q.x);
    w[1] = d * weight_entries(q.y);
    w[2] = d * weight_entries(q.z);
    w[3] = d * weight_entries(q.w);
}
