// Weights of type iq2_xxs in the layout `split` of W.
//
// A row has blocks of 256 columns in 16 words, then the f16 d of all blocks, two to a word. The
// words of a block are:
// - Word 2 g: the points of group g of 32 columns, one byte for 8 columns.
// - Word 2 g + 1: seven signs for each of the four points, and the scale sc in the upper four bits.
//
// A weight is d * (sc + 1/2) / 4 * p with the column's sign, where p is the point's value: 8, 25
// or 43 for the 2-bit codes 0, 1, 2. `row` is the first word of a row.
//
// A point of the grid has 2 bits for each of 8 columns, the first column in the lowest bits. A word
// of the table has two points (tools/dev/make_grids.py).
#define WEIGHT_RAW   1  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 255) / 256 * 16) // words before the d

const uint WEIGHT_GRID[128] = uint[128](
    0x20000u, 0x80005u, 0x11000au, 0x200014u, 0x280022u, 0x41002au, 0x500044u, 0x610058u, 0x800064u,
    0x8a0082u, 0x10100a2u, 0x1100104u, 0x1400115u, 0x1980184u, 0x2020200u, 0x2820222u, 0x4040401u,
    0x4210410u, 0x4400424u, 0x4480442u, 0x4810460u, 0x4900484u, 0x50004a4u, 0x5080502u, 0x5460520u,
    0x5800569u, 0x6090591u, 0x6400610u, 0x6a40684u, 0x8050800u, 0x8140808u, 0x8410828u, 0x8500844u,
    0x8880852u, 0x9400904u, 0xa140a02u, 0x10041001u, 0x10211010u, 0x10601040u, 0x10901084u,
    0x11001095u, 0x11201108u, 0x115a1150u, 0x12241180u, 0x14001245u, 0x14201408u, 0x14491425u,
    0x15181480u, 0x16001562u, 0x18011616u, 0x18101804u, 0x18811840u, 0x19051900u, 0x1a5119a0u,
    0x20022000u, 0x2044200au, 0x20802061u, 0x21292082u, 0x22002148u, 0x24012202u, 0x24102404u,
    0x24562440u, 0x25412500u, 0x26902564u, 0x28202808u, 0x2a442894u, 0x40044001u, 0x40184010u,
    0x40244021u, 0x40484040u, 0x40604056u, 0x40844081u, 0x41004090u, 0x41614120u, 0x41854180u,
    0x42104201u, 0x42564248u, 0x44004268u, 0x44204408u, 0x44994480u, 0x45244512u, 0x48014600u,
    0x48104804u, 0x48454840u, 0x49584900u, 0x49824961u, 0x4a904a45u, 0x50085000u, 0x50195011u,
    0x50805020u, 0x51045088u, 0x51a45142u, 0x54905291u, 0x550a5492u, 0x56545601u, 0x58115800u,
    0x58645819u, 0x5a085940u, 0x60106004u, 0x60686040u, 0x61556100u, 0x62606218u, 0x64056400u,
    0x65126510u, 0x68426584u, 0x80028000u, 0x8041800au, 0x81048082u, 0x81408118u, 0x84018211u,
    0x84108404u, 0x84408415u, 0x85008460u, 0x85948546u, 0x86408609u, 0x88028660u, 0x8a118904u,
    0x90109004u, 0x90409024u, 0x911690a1u, 0x92459180u, 0x94229400u, 0x95519444u, 0x99209881u,
    0xa050a002u, 0xa109a085u, 0xa418a200u, 0xa904a850u);

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

// Four columns of a point, negative where the bit of `signs` is set.
vec4 weight_half_point(uint p, uint signs)
{
    uvec4 l = uvec4(p, p >> 2, p >> 4, p >> 6) & 3u;
    uvec4 s = uvec4(signs << 31, signs << 30, signs << 29, signs << 28) & 0x80000000u;
    return uintBitsToFloat(floatBitsToUint(vec4(l * 17u + (l >> 1u) + 8u)) ^ s);
}

// d times point n of the grid.
void weight_point(uint n, uint signs, float d, out vec4 a, out vec4 b)
{
    uint p = weight_grid(n / 2u) >> 16u * (n & 1u);
    a = d * weight_half_point(p, signs);
    b = d * weight_half_point(p >> 8, signs >> 4);
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    raw[0] = uvec4(weight_load2(row + k / 32u * 2u), weight_load(row + WEIGHT_CODES + k / 512u),
                   0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    uint h = k / 16u & 1u, points = raw[0].x >> 16u * h, signs = raw[0].y >> 14u * h;
    float d = weight_d(raw[0].z, k) * (float(raw[0].y >> 28) * 0.25 + 0.125);
    weight_point(points & 255u, weight_signs(signs), d, w[0], w[1]);
    weight_point(points >> 8 & 255u, weight_signs(signs >> 7), d, w[2], w[3]);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
