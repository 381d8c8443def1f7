// Weights of type tq2_0 in the layout `split` of W.
//
// A row has blocks of 256 columns in 16 words, then the f16 d of all blocks, two to a word. Byte
// 32 n + i has the 2-bit codes q of columns 128 n + i, 128 n + i + 32, + 64 and + 96, from the
// lowest bits on. A weight is d * (q - 1). `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 255) / 256 * 16) // words before the d

// d of columns k .. k + 255 from the word that holds it.
float weight_d(uint word, uint k)
{
    vec2 pair = unpackHalf2x16(word);
    return (k & 256u) == 0u ? pair.x : pair.y;
}

vec4 weight_codes(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 3u) - 1.0;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = weight_load4(row + k / 128u * 8u + (k & 31u) / 4u);
    raw[1] = uvec4(weight_load(row + WEIGHT_CODES + k / 512u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_d(raw[1].x, k);
    uvec4 q = raw[0] >> (k / 32u & 3u) * 2u;
    w[0] = d * weight_codes(q.x);
    w[1] = d * weight_codes(q.y);
    w[2] = d * weight_codes(q.z);
    w[3] = d * weight_codes(q.w);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
