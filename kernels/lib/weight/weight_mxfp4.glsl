// Weights of type mxfp4 in the layout `split` of W.
//
// A row has blocks of 32 columns, four words each. Then it has an exponent byte per block, four to
// a word. Byte j of a block has column j in its low
// nibble and column j + 16 in its high nibble. A weight is 2^(e - 127) times 0, 0.5, 1, 1.5, 2, 3,
// 4 or 6. Bit 3 of the code is the sign. `row` is the first word of a row.
//
// A code becomes an f16 by moving its bits. Its exponent and mantissa bits become the lowest
// exponent bits and the highest mantissa bit. The result is 2^-14 of the value, subnormals
// included. The factor of 2^14 is in the scale.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 31) / 32 * 4) // words of codes; a sixteenth as many hold exponents

// The codes in bits 0 to 3 and 16 to 19, times 2^-14.
vec2 weight_pair(uint word)
{
    return unpackHalf2x16(((word & 0x00070007u) << 9) | ((word & 0x00080008u) << 12));
}

vec4 weight_nibbles(uint word)
{
    return vec4(weight_pair(word), weight_pair(word >> 8)).xzyw;
}

// 2^14 times the scale of columns k .. k + 31, from the word that holds its exponent. Weights
// beyond 2^113 come out smaller.
float weight_scale(uint word, uint k)
{
    uint e = (word >> (k / 32u & 3u) * 8u) & 255u;
    return uintBitsToFloat(min(e + 14u, 254u) << 23);
}

float weight_at(uint row, uint k)
{
    uint q = weight_load(row + k / 32u * 4u + (k & 15u) / 4u);
    q >>= 8u * (k & 3u) + (k / 16u & 1u) * 4u;
    return weight_scale(weight_load(row + WEIGHT_CODES + k / 128u), k) * weight_pair(q & 15u).x;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = row + k / 32u * 4u;
    raw[0] = weight_load4(w);
    raw[1] = uvec4(weight_load(row + WEIGHT_CODES + k / 128u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_scale(raw[1].x, k);
    uvec4 q = raw[0] >> (k / 16u & 1u) * 4u;
    w[0] = d * weight_nibbles(q.x);
    w[1] = d * weight_nibbles(q.y);
    w[2] = d * weight_nibbles(q.z);
    w[3] = d * weight_nibbles(q.w);
}
