// Weights of type q5_k in W, as in the file.
//
// Blocks of 256 columns occupy 44 words:
//   - Word 0: f16 d and dmin.
//   - Words 1 to 3: 6-bit codes sc and m of eight groups of 32 columns.
//   - Words 4 to 11: the fifth bits, bit j of byte i for column i of group j.
//   - Words 12 to 43: four runs of 32 bytes. The low nibbles of a run are one group, the high
//     nibbles the next group.
//
// A weight is d * sc * q - dmin * m. `row` is the first word of a row.
#define WEIGHT_RAW   3  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything

// (d * sc, dmin * m) of group j from words 0 to 3 of the block.
vec2 weight_scales(uvec4 head, uint j)
{
    uint s = 8u * (j & 3u);
    uint low = (head.y >> s) & 0xFFu, mid = (head.z >> s) & 0xFFu, high = (head.w >> s) & 0xFFu;
    uint sc = j < 4u ? low & 63u : (high & 15u) | ((low >> 6) << 4);
    uint m = j < 4u ? mid & 63u : (high >> 4) | ((mid >> 6) << 4);
    return unpackHalf2x16(head.x) * vec2(float(sc), float(m));
}

vec4 weight_bytes(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 255u);
}

// Words of the block's head, and of fifth bits and nibbles of column k.
uint weight_block(uint row, uint k)
{
    return row + k / 256u * 44u;
}

uint weight_fifths(uint row, uint k)
{
    return weight_block(row, k) + 4u + (k & 31u) / 4u;
}

uint weight_word(uint row, uint k)
{
    return weight_block(row, k) + 12u + (k / 64u & 3u) * 8u + (k & 31u) / 4u;
}

uvec4 weight_head(uint row, uint k)
{
    uint b = weight_block(row, k);
    return weight_load4(b);
}

float weight_at(uint row, uint k)
{
    vec2 scales = weight_scales(weight_head(row, k), k / 32u & 7u);
    uint s = 8u * (k & 3u), q = weight_load(weight_word(row, k)) >> (s + (k / 32u & 1u) * 4u);
    uint fifth = weight_load(weight_fifths(row, k)) >> (s + (k / 32u & 7u));
    return scales.x * float((q & 15u) | ((fifth & 1u) << 4)) - scales.y;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = weight_word(row, k), f = weight_fifths(row, k);
    raw[0] = weight_load4(w);
    raw[1] = weight_head(row, k);
    raw[2] = weight_load4(f);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    vec2 scales = weight_scales(raw[1], k / 32u & 7u);
    uvec4 q = ((raw[0] >> (k / 32u & 1u) * 4u) & 0x0F0F0F0Fu) |
              (((raw[2] >> (k / 32u & 7u)) & 0x01010101u) << 4);
    w[0] = scales.x * weight_bytes(q.x) - scales.y;
    w[1] = scales.x * weight_bytes(q.y) - scales.y;
    w[2] = scales.x * weight_bytes(q.z) - scales.y;
    w[3] = scales.x * weight_bytes(q.w) - scales.y;
}
