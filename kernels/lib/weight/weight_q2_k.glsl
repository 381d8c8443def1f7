// Weights of type q2_k in the layout `split` of W.
//
// A row has blocks of 256 columns in 16 words. Byte 32 n + i has the 2-bit codes q of columns
// 128 n + i, 128 n + i + 32, + 64 and + 96, from the lowest bits on. Then the row has four words
// per block: a byte for each 16 columns, with sc in the low nibble and m in the high one. Then it
// has a word per block: f16 d and dmin. A weight is d * sc * q - dmin * m. `row` is the first word
// of a row.
#define WEIGHT_RAW    2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN   16 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_BLOCKS uint((K + 255) / 256)

vec4 weight_codes(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 3u);
}

uint weight_word(uint row, uint k)
{
    return row + k / 256u * 16u + (k / 128u & 1u) * 8u + (k & 31u) / 4u;
}

// The words with scale and minimum of columns k .. k + 15, and with d and dmin.
uvec2 weight_head(uint row, uint k)
{
    return uvec2(weight_load(row + WEIGHT_BLOCKS * 16u + k / 64u),
                 weight_load(row + WEIGHT_BLOCKS * 20u + k / 256u));
}

// (d * sc, dmin * m) of these columns.
vec2 weight_scales(uvec2 head, uint k)
{
    uint codes = head.x >> 8u * (k / 16u & 3u);
    return unpackHalf2x16(head.y) * vec2(float(codes & 15u), float(codes >> 4 & 15u));
}

float weight_at(uint row, uint k)
{
    uint q = weight_load(weight_word(row, k)) >> (8u * (k & 3u) + (k / 32u & 3u) * 2u);
    vec2 scales = weight_scales(weight_head(row, k), k);
    return scales.x * float(q & 3u) - scales.y;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = weight_word(row, k);
    raw[0] = weight_load4(w);
    raw[1] = uvec4(weight_head(row, k), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 scales = weight_scales(raw[1].xy, k);
    uvec4 q = raw[0] >> (k / 32u & 3u) * 2u;
    w[0] = scales.x * weight_codes(q.x) - scales.y;
    w[1] = scales.x * weight_codes(q.y) - scales.y;
    w[2] = scales.x * weight_codes(q.z) - scales.y;
    w[3] = scales.x * weight_codes(q.w) - scales.y;
}
