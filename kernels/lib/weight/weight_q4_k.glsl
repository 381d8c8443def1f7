// q4_k as in the file, in `uint W[]`: blocks of 256 columns in 36 words. Word 0: f16 d and dmin;
// words 1 to 3: 6-bit codes sc and m of eight groups of 32; words 4 to 35: four runs of 32 bytes
// whose low nibbles are one group and whose high nibbles the next. A weight is d * sc * q - dmin *
// m. `row` is the word a row starts at.
#define WEIGHT_RAW 2

// (d * sc, dmin * m) of group j from words 0 to 3 of the block.
vec2 weight_scales(uvec4 head, uint j)
{
    uint s = 8u * (j & 3u);
    uint low = (head.y >> s) & 0xFFu, mid = (head.z >> s) & 0xFFu, high = (head.w >> s) & 0xFFu;
    uint sc = j < 4u ? low & 63u : (high & 15u) | ((low >> 6) << 4);
    uint m = j < 4u ? mid & 63u : (high >> 4) | ((mid >> 6) << 4);
    return unpackHalf2x16(head.x) * vec2(float(sc), float(m));
}

vec4 weight_nibbles(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 15u);
}

// First word of the nibbles of column k.
uint weight_word(uint row, uint k)
{
    return row + k / 256u * 36u + 4u + (k / 64u & 3u) * 8u + (k & 31u) / 4u;
}

uvec4 weight_head(uint row, uint k)
{
    uint b = row + k / 256u * 36u;
    return uvec4(W[b], W[b + 1u], W[b + 2u], W[b + 3u]);
}

float weight_at(uint row, uint k)
{
    vec2 scales = weight_scales(weight_head(row, k), k / 32u & 7u);
    uint q = W[weight_word(row, k)] >> (8u * (k & 3u) + (k / 32u & 1u) * 4u);
    return scales.x * float(q & 15u) - scales.y;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = weight_word(row, k);
    raw[0] = uvec4(W[w], W[w + 1u], W[w + 2u], W[w + 3u]);
    raw[1] = weight_head(row, k);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 scales = weight_scales(raw[1], k / 32u & 7u);
    uvec4 q = raw[0] >> (k / 32u & 1u) * 4u;
    w[0] = scales.x * weight_nibbles(q.x) - scales.y;
    w[1] = scales.x * weight_nibbles(q.y) - scales.y;
    w[2] = scales.x * weight_nibbles(q.z) - scales.y;
    w[3] = scales.x * weight_nibbles(q.w) - scales.y;
}
