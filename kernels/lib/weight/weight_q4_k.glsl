// Weights of type q4_k in the layout `split` of W.
//
// A row has groups of 32 columns, four words each, then a head of four words for every 256 columns.
// Byte j of a group has column j in its low nibble and column j + 16 in its high nibble. The words
// of a head are:
//   - Word 0: f16 d and dmin.
//   - Words 1 and 2: a byte per group, 6 bits sc and above them the lower two bits of m.
//   - Word 3: the upper four bits of m, of groups 0 to 3 in the low nibbles of its bytes and of
//     groups 4 to 7 in the high nibbles.
//
// A weight is d * sc * q - dmin * m. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint(W_STRIDE / 36 * 32) // words of codes; an eighth as many are heads

// (d * sc, dmin * m) of group j from words 0 to 3 of the head.
vec2 weight_scales(uvec4 head, uint j)
{
    uint s = 8u * (j & 3u), codes = (j < 4u ? head.y : head.z) >> s;
    uint m = ((codes >> 6) & 3u) | (((head.w >> (s + (j & 4u))) & 15u) << 2);
    return unpackHalf2x16(head.x) * vec2(float(codes & 63u), float(m));
}

vec4 weight_nibbles(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 15u);
}

uvec4 weight_head(uint row, uint k)
{
    uint b = row + WEIGHT_CODES + k / 256u * 4u;
    return weight_load4(b);
}

float weight_at(uint row, uint k)
{
    vec2 scales = weight_scales(weight_head(row, k), k / 32u & 7u);
    uint q = weight_load(row + k / 32u * 4u + (k & 15u) / 4u);
    q >>= 8u * (k & 3u) + (k / 16u & 1u) * 4u;
    return scales.x * float(q & 15u) - scales.y;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = row + k / 32u * 4u;
    raw[0] = weight_load4(w);
    raw[1] = weight_head(row, k);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 scales = weight_scales(raw[1], k / 32u & 7u);
    uvec4 q = raw[0] >> (k / 16u & 1u) * 4u;
    w[0] = scales.x * weight_nibbles(q.x) - scales.y;
    w[1] = scales.x * weight_nibbles(q.y) - scales.y;
    w[2] = scales.x * weight_nibbles(q.z) - scales.y;
    w[3] = scales.x * weight_nibbles(q.w) - scales.y;
}
