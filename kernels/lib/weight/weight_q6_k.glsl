// Weights of type q6_k in the layout `split` of W.
//
// A row has blocks of 256 columns in 52 words, then the f16 d of all blocks, two to a word. The
// words of a block are:
//   - Words 0 to 31: the low four bits. Byte 64 n + i has column 128 n + i, and in its high nibble
//     the column 64 further on.
//   - Words 32 to 47: the upper two bits. Byte 32 n + i has column 128 n + i, and those 32, 64 and
//     96 further on.
//   - Words 48 to 51: int8 scales of 16 columns each.
//
// A weight is d * sc * (q - 32). `row` is the first word of a row.
#define WEIGHT_RAW   3  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint(W_STRIDE * 2 / 105 * 52) // words before the d

vec4 weight_bytes(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 255u) - 32.0;
}

// First word of the low bits of column k, and of the upper ones.
uint weight_word(uint row, uint k)
{
    return row + k / 256u * 52u + (k / 128u & 1u) * 16u + (k & 63u) / 4u;
}

uint weight_upper(uint row, uint k)
{
    return row + k / 256u * 52u + 32u + (k / 128u & 1u) * 8u + (k & 31u) / 4u;
}

// d * sc of columns k .. k + 15 from the words that hold them.
float weight_scale(uint scales, uint pair, uint k)
{
    vec2 d = unpackHalf2x16(pair);
    int sc = int(scales << (24u - 8u * (k / 16u & 3u))) >> 24;
    return ((k & 256u) == 0u ? d.x : d.y) * float(sc);
}

uint weight_scale_word(uint row, uint k)
{
    return row + k / 256u * 52u + 48u + (k / 64u & 3u);
}

float weight_at(uint row, uint k)
{
    uint s = 8u * (k & 3u), low = weight_load(weight_word(row, k)) >> (s + (k / 64u & 1u) * 4u);
    uint high = weight_load(weight_upper(row, k)) >> (s + (k / 32u & 3u) * 2u);
    uint code = weight_load(weight_scale_word(row, k));
    float scale = weight_scale(code, weight_load(row + WEIGHT_CODES + k / 512u), k);
    return scale * (float((low & 15u) | ((high & 3u) << 4)) - 32.0);
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = weight_word(row, k), u = weight_upper(row, k);
    raw[0] = weight_load4(w);
    raw[1] = weight_load4(u);
    raw[2].x = weight_load(weight_scale_word(row, k));
    raw[2].yzw = uvec3(weight_load(row + WEIGHT_CODES + k / 512u), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_scale(raw[2].x, raw[2].y, k);
    uvec4 q = ((raw[0] >> (k / 64u & 1u) * 4u) & 0x0F0F0F0Fu) |
              (((raw[1] >> (k / 32u & 3u) * 2u) & 0x03030303u) << 4);
    w[0] = d * weight_bytes(q.x);
    w[1] = d * weight_bytes(q.y);
    w[2] = d * weight_bytes(q.z);
    w[3] = d * weight_bytes(q.w);
}
