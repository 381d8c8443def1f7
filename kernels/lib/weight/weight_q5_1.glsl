// Weights of type q5_1 in the layout `split` of W.
//
// A row has blocks of 32 columns, four words of nibbles each. Byte j of a block has column j in its
// low nibble and column j + 16 in its high nibble. Then it has two words per block: f16 d and m,
// and the fifth bits. Bit 8 b + w of these is the fifth bit of column 4 w + b. A weight is d * q +
// m. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 31) / 32 * 4) // words of nibbles

vec4 weight_bytes(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 255u);
}

float weight_at(uint row, uint k)
{
    uint q = weight_load(row + k / 32u * 4u + (k & 15u) / 4u) >> 8u * (k & 3u);
    uint at = row + WEIGHT_CODES + k / 32u * 2u, fifths = weight_load(at + 1u);
    q = ((q >> (k & 16u) / 4u) & 15u) | ((fifths >> (8u * (k & 3u) + (k & 31u) / 4u) & 1u) << 4);
    vec2 d = unpackHalf2x16(weight_load(at));
    return d.x * float(q) + d.y;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint at = row + WEIGHT_CODES + k / 32u * 2u;
    raw[0] = weight_load4(row + k / 32u * 4u);
    raw[1] = uvec4(weight_load(at), weight_load(at + 1u), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 d = unpackHalf2x16(raw[1].x);
    uint upper = (k & 16u) / 4u, fifths = raw[1].y >> upper;
    uvec4 q = ((raw[0] >> upper) & 0x0F0F0F0Fu) |
              (uvec4(fifths << 4, fifths << 3, fifths << 2, fifths << 1) & 0x10101010u);
    w[0] = d.x * weight_bytes(q.x) + d.y;
    w[1] = d.x * weight_bytes(q.y) + d.y;
    w[2] = d.x * weight_bytes(q.z) + d.y;
    w[3] = d.x * weight_bytes(q.w) + d.y;
}
