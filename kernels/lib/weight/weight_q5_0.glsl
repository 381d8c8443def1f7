// Weights of type q5_0 in the layout `split` of W.
//
// A row has blocks of 32 columns, four words of nibbles each. Byte j of a block has column j in its
// low nibble and column j + 16 in its high nibble. Then it has a word of fifth bits per block. Bit
// 8 b + w is the fifth bit of column 4 w + b. Then it has an f16 scale per block, two to a word. A
// weight is d * (q - 16). `row` is the first word of a row.
#define WEIGHT_RAW    2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN   32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_BLOCKS uint((K + 31) / 32)

vec4 weight_bytes(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 255u) - 16.0;
}

// Scale of columns k .. k + 31 from the word that holds it.
float weight_scale(uint word, uint k)
{
    vec2 pair = unpackHalf2x16(word);
    return (k & 32u) == 0u ? pair.x : pair.y;
}

float weight_at(uint row, uint k)
{
    uint q = weight_load(row + k / 32u * 4u + (k & 15u) / 4u) >> 8u * (k & 3u);
    uint fifths = weight_load(row + WEIGHT_BLOCKS * 4u + k / 32u);
    q = ((q >> (k & 16u) / 4u) & 15u) | ((fifths >> (8u * (k & 3u) + (k & 31u) / 4u) & 1u) << 4);
    float d = weight_scale(weight_load(row + WEIGHT_BLOCKS * 5u + k / 64u), k);
    return d * (float(q) - 16.0);
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = weight_load4(row + k / 32u * 4u);
    raw[1] = uvec4(weight_load(row + WEIGHT_BLOCKS * 4u + k / 32u),
                   weight_load(row + WEIGHT_BLOCKS * 5u + k / 64u), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_scale(raw[1].y, k);
    uint upper = (k & 16u) / 4u, fifths = raw[1].x >> upper;
    uvec4 q = ((raw[0] >> upper) & 0x0F0F0F0Fu) |
              ((uvec4(fifths << 4, fifths << 3, fifths << 2, fifths << 1)) & 0x10101010u);
    w[0] = d * weight_bytes(q.x);
    w[1] = d * weight_bytes(q.y);
    w[2] = d * weight_bytes(q.z);
    w[3] = d * weight_bytes(q.w);
}
