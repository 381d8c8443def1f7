// Weights of type iq4_xs in the layout `split` of W.
//
// A row has blocks of 256 columns in groups of 32, four words each. Byte j of a group has column j
// in its low nibble and column j + 16 in its high nibble. Then it has two words per block: f16 d
// and the upper two bits of eight scales, then their lower four bits. A weight is d * (sc - 32) *
// t[q] with IQ4's table. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 255) / 256 * 32) // words of codes

// Scale of columns k .. k + 31 from the two words of the block.
float weight_scale(uvec2 head, uint k)
{
    uint g = k / 32u & 7u;
    uint sc = ((head.y >> 4u * g) & 15u) | (((head.x >> (16u + 2u * g)) & 3u) << 4);
    return unpackHalf2x16(head.x).x * (float(sc) - 32.0);
}

uvec2 weight_head(uint row, uint k)
{
    uint at = row + WEIGHT_CODES + k / 256u * 2u;
    return uvec2(weight_load(at), weight_load(at + 1u));
}

vec4 weight_entries(uint word)
{
    return iq4_entries(uvec4(word, word >> 8, word >> 16, word >> 24));
}

float weight_at(uint row, uint k)
{
    uint q = weight_load(row + k / 32u * 4u + (k & 15u) / 4u);
    q >>= 8u * (k & 3u) + (k / 16u & 1u) * 4u;
    return weight_scale(weight_head(row, k), k) * iq4_entries(uvec4(q)).x;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = weight_load4(row + k / 32u * 4u);
    raw[1] = uvec4(weight_head(row, k), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    float d = weight_scale(raw[1].xy, k);
    uvec4 q = raw[0] >> (k / 16u & 1u) * 4u;
    w[0] = d * weight_entries(q.x);
    w[1] = d * weight_entries(q.y);
    w[2] = d * weight_entries(q.z);
    w[3] = d * weight_entries(q.w);
}
