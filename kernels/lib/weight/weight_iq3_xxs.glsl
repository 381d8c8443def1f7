// Weights of type iq3_xxs in the layout `split` of W.
//
// A row has blocks of 256 columns in 24 words, then the f16 d of all blocks, two to a word. The
// words of a block are:
// - Words 0 to 15: the points, one byte for 4 columns.
// - Words 16 to 23: one for each 32 columns: seven signs for each 8 columns, and the scale sc in
//   the upper four bits.
//
// A weight is d * (sc + 1/2) / 2 * p with the column's sign, where p is the point's value: 4, 12,
// 20, 28, 36, 44, 52 or 62 for the 3-bit codes 0 to 7. `row` is the first word of a row.
//
// A point of the grid has 3 bits for each of 4 columns, the first column in the lowest bits. A word
// of the table has two points (tools/dev/make_grids.py).
#define WEIGHT_RAW   1  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 255) / 256 * 24) // words before the d

const uint WEIGHT_GRID[128] = uint[128](
    0x20000u, 0x90004u, 0xf000bu, 0x120010u, 0x220019u, 0x3d003bu, 0x430041u, 0x4a0048u, 0x550051u,
    0x5a0058u, 0x6c0061u, 0x800078u, 0x840082u, 0x900089u, 0x990092u, 0x9f009bu, 0xaf00a9u,
    0xc100bdu, 0xc800c7u, 0xd500cau, 0x10b00f8u, 0x124011fu, 0x13b012fu, 0x141013du, 0x15a0147u,
    0x19d016au, 0x1c801b4u, 0x1ce01ccu, 0x1f101e3u, 0x2030201u, 0x20a0208u, 0x2130211u, 0x21a0218u,
    0x227021cu, 0x2400228u, 0x2490242u, 0x2520250u, 0x2830281u, 0x28a0288u, 0x2980291u, 0x2c002bau,
    0x2d002c2u, 0x2e602d9u, 0x30102f6u, 0x3280305u, 0x3540350u, 0x3790366u, 0x3d20385u, 0x40003e0u,
    0x4090402u, 0x410040bu, 0x4160412u, 0x4220419u, 0x4430441u, 0x4480445u, 0x451044au, 0x4730458u,
    0x4780477u, 0x4820480u, 0x48f0489u, 0x4920490u, 0x4a0049fu, 0x4c104adu, 0x4cc04c8u, 0x4fc04f8u,
    0x52b051du, 0x5570543u, 0x57c0561u, 0x5c305c1u, 0x5e505ceu, 0x6080601u, 0x611060au, 0x6280613u,
    0x63a0635u, 0x6420640u, 0x6590650u, 0x6660664u, 0x6830681u, 0x6950688u, 0x6ba06aau, 0x6db06c9u,
    0x7270718u, 0x740073au, 0x7520746u, 0x78c076du, 0x7b3079eu, 0x7f007dbu, 0x80f0804u, 0x81f081du,
    0x82f082bu, 0x890087cu, 0x8a0089fu, 0x8b608b0u, 0x8e508c7u, 0x9290904u, 0x9550934u, 0x9780963u,
    0x9c809c5u, 0x9d809cau, 0xa210a0au, 0xa400a38u, 0xa560a46u, 0xa8c0a6du, 0xaba0a9au, 0xaeb0ac2u,
    0xb130b08u, 0xb3a0b17u, 0xb590b42u, 0xbd40ba8u, 0xc140be2u, 0xc260c24u, 0xc510c34u, 0xc8f0c71u,
    0xcd80cb4u, 0xd240cdeu, 0xd6a0d45u, 0xdc30d9bu, 0xe030dd1u, 0xe070e05u, 0xe1a0e08u, 0xe560e2au,
    0xe8a0e60u, 0xeaa0ea5u, 0xecd0ec0u, 0xef00edbu, 0xf210f11u, 0xf420f40u, 0xf980f54u);

// d of columns k .. k + 255 from the word that holds it.
float weight_d(uint word, uint k)
{
    vec2 pair = unpackHalf2x16(word);
    return (k & 256u) == 0u ? pair.x : pair.y;
}

// Returns eight signs from the seven stored ones: the eighth sign makes the number of negative
// columns even.
uint weight_signs(uint code)
{
    code &= 127u;
    return code | (uint(bitCount(code)) & 1u) << 7;
}

// Point n of the grid, negative in the columns whose bit of `signs` is set.
vec4 weight_point(uint n, uint signs)
{
    uint p = weight_grid(n / 2u) >> 16u * (n & 1u);
    uvec4 l = uvec4(p, p >> 3, p >> 6, p >> 9) & 7u;
    vec4 v = vec4(l * 8u + (l + 1u) / 8u * 2u + 4u);
    uvec4 s = uvec4(signs << 31, signs << 30, signs << 29, signs << 28) & 0x80000000u;
    return uintBitsToFloat(floatBitsToUint(v) ^ s);
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint b = row + k / 256u * 24u, g = k / 32u & 7u;
    raw[0] = uvec4(weight_load2(b + 2u * g), weight_load(b + 16u + g),
                   weight_load(row + WEIGHT_CODES + k / 512u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    uint h = k / 16u & 1u, points = h == 0u ? raw[0].x : raw[0].y;
    uint a = weight_signs(raw[0].z >> 14u * h), b = weight_signs(raw[0].z >> 14u * h + 7u);
    float d = weight_d(raw[0].w, k) * (float(raw[0].z >> 28) * 0.5 + 0.25);
    w[0] = d * weight_point(points & 255u, a);
    w[1] = d * weight_point(points >> 8 & 255u, a >> 4);
    w[2] = d * weight_point(points >> 16 & 255u, b);
    w[3] = d * weight_point(points >> 24, b >> 4);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
