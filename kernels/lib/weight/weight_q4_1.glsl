// Weights of type q4_1 in the layout `split` of W.
//
// A row has blocks of 32 columns, four words each. Byte j of a block has column j in its low nibble
// and column j + 16 in its high nibble. Then it has a word per block: f16 d and m. A weight is d *
// q + m. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 31) / 32 * 4) // words of codes

vec4 weight_nibbles(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 15u);
}

float weight_at(uint row, uint k)
{
    uint q = weight_load(row + k / 32u * 4u + (k & 15u) / 4u);
    q >>= 8u * (k & 3u) + (k / 16u & 1u) * 4u;
    vec2 d = unpackHalf2x16(weight_load(row + WEIGHT_CODES + k / 32u));
    return d.x * float(q & 15u) + d.y;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = weight_load4(row + k / 32u * 4u);
    raw[1] = uvec4(weight_load(row + WEIGHT_CODES + k / 32u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 d = unpackHalf2x16(raw[1].x);
    uvec4 q = raw[0] >> (k / 16u & 1u) * 4u;
    w[0] = d.x * weight_nibbles(q.x) + d.y;
    w[1] = d.x * weight_nibbles(q.y) + d.y;
    w[2] = d.x * weight_nibbles(q.z) + d.y;
    w[3] = d.x * weight_nibbles(q.w) + d.y;
}
