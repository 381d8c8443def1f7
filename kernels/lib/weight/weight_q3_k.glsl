// Weights of type q3_k in the layout `split` of W.
//
// A row has blocks of 256 columns in 28 words:
//   - Words 0 to 15: the low two bits of the codes q. Byte 32 n + i has those of columns 128 n + i,
//     128 n + i + 32, + 64 and + 96, from the lowest bits on.
//   - Words 16 to 23: the third bits, bit j of byte i for column i of group j of 32 columns.
//   - Words 24 to 26: 6-bit scales of 16 columns each, as in the file.
//   - Word 27: f16 d.
//
// A weight is d * (sc - 32) * (q - 4). `row` is the first word of a row.
#define WEIGHT_RAW   3  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything

vec4 weight_bytes(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 255u) - 4.0;
}

// d * (sc - 32) of columns k .. k + 15 from words 24 to 27 of the block.
float weight_scale(uvec4 head, uint k)
{
    uint j = k / 16u & 15u, low = (j & 4u) == 0u ? head.x : head.y;
    low = (low >> (8u * (j & 3u) + j / 8u * 4u)) & 15u;
    uint sc = low | ((head.z >> (8u * (j & 3u) + j / 4u * 2u)) & 3u) << 4;
    return unpackHalf2x16(head.w).x * (float(sc) - 32.0);
}

// First words of the block, of the low two bits of column k, and of its third bit.
uint weight_block(uint row, uint k)
{
    return row + k / 256u * 28u;
}

uint weight_low(uint row, uint k)
{
    return weight_block(row, k) + (k / 128u & 1u) * 8u + (k & 31u) / 4u;
}

uint weight_third(uint row, uint k)
{
    return weight_block(row, k) + 16u + (k & 31u) / 4u;
}

uvec4 weight_head(uint row, uint k)
{
    uint b = weight_block(row, k) + 24u;
    return weight_load4(b);
}

float weight_at(uint row, uint k)
{
    uint s = 8u * (k & 3u), low = weight_load(weight_low(row, k)) >> (s + (k / 32u & 3u) * 2u);
    uint third = weight_load(weight_third(row, k)) >> (s + (k / 32u & 7u));
    float q = float((low & 3u) | ((third & 1u) << 2)) - 4.0;
    return weight_scale(weight_head(row, k), k) * q;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = weight_low(row, k), t = weight_third(row, k);
    raw[0] = weight_load4(w);
    raw[1] = weight_load4(t);
    raw[2] = weight_head(row, k);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_scale(raw[2], k);
    uvec4 q = ((raw[0] >> (k / 32u & 3u) * 2u) & 0x03030303u) |
              (((raw[1] >> (k / 32u & 7u)) & 0x01010101u) << 2);
    w[0] = d * weight_bytes(q.x);
    w[1] = d * weight_bytes(q.y);
    w[2] = d * weight_bytes(q.z);
    w[3] = d * weight_bytes(q.w);
}
