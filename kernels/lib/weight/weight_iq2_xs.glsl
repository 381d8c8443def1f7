// Weights of type iq2_xs in the layout `split` of W.
//
// A row has blocks of 256 columns in 18 words, then the f16 d of all blocks, two to a word. The
// words of a block are:
// - Words 0 to 15: a 16-bit half for each 8 columns, two to a word: nine bits of a point, then
//   seven signs.
// - Words 16 and 17: the scales sc of 16 columns, four bits each.
//
// A weight is d * (sc + 1/2) / 4 * p with the column's sign, where p is the point's value: 8, 25
// or 43 for the 2-bit codes 0, 1, 2. `row` is the first word of a row.
//
// A point of the grid has 2 bits for each of 8 columns, the first column in the lowest bits. A word
// of the table has two points (tools/dev/make_grids.py).
#define WEIGHT_RAW   1  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_CODES uint((K + 255) / 256 * 18) // words before the d

const uint WEIGHT_GRID[256] = uint[256](
    0x20000u, 0x80005u, 0x11000au, 0x160014u, 0x200019u, 0x250022u, 0x410028u, 0x460044u, 0x500049u,
    0x550052u, 0x610058u, 0x800064u, 0x850082u, 0x910088u, 0x990094u, 0x10100a0u, 0x1060104u,
    0x1100109u, 0x1150112u, 0x11a0118u, 0x1240121u, 0x1420140u, 0x1480145u, 0x1540151u, 0x1680160u,
    0x1840181u, 0x2000190u, 0x2050202u, 0x2110208u, 0x2200214u, 0x2440241u, 0x2550250u, 0x28a0280u,
    0x4040401u, 0x4090406u, 0x4120410u, 0x4180415u, 0x4240421u, 0x4420440u, 0x4480445u, 0x4540451u,
    0x4600456u, 0x4840481u, 0x5000490u, 0x5050502u, 0x5110508u, 0x5200514u, 0x5440541u, 0x5610550u,
    0x6010580u, 0x6100604u, 0x6400626u, 0x6840642u, 0x8020800u, 0x8080805u, 0x811080au, 0x8200814u,
    0x8410825u, 0x8500844u, 0x8800858u, 0x8aa08a0u, 0x9040901u, 0x9400910u, 0x9890981u, 0xa200a00u,
    0xa960a28u, 0x10010aa0u, 0x10061004u, 0x10101009u, 0x10151012u, 0x10211018u, 0x10401024u,
    0x10451042u, 0x10511048u, 0x10601054u, 0x1081106au, 0x10901084u, 0x11021100u, 0x11081105u,
    0x11141111u, 0x11411120u, 0x11501144u, 0x11941180u, 0x12011196u, 0x12061204u, 0x12401210u,
    0x14001260u, 0x14051402u, 0x14111408u, 0x14201414u, 0x14441441u, 0x14501449u, 0x14801464u,
    0x15041501u, 0x15401510u, 0x16141600u, 0x18011649u, 0x18101804u, 0x18401812u, 0x18861854u,
    0x19051900u, 0x1a511966u, 0x20001aa9u, 0x20052002u, 0x200a2008u, 0x20142011u, 0x20412020u,
    0x20502044u, 0x20a02080u, 0x21042101u, 0x21402110u, 0x21652148u, 0x22222200u, 0x22a82280u,
    0x24042401u, 0x24292410u, 0x25002440u, 0x25522541u, 0x26012599u, 0x26a6261au, 0x28082800u,
    0x2820280au, 0x28882855u, 0x296828a2u, 0x2a082990u, 0x2a822a20u, 0x2a8a2a88u, 0x40044001u,
    0x40094006u, 0x40124010u, 0x40184015u, 0x40244021u, 0x40424040u, 0x40484045u, 0x4051404au,
    0x40604054u, 0x40814065u, 0x40904084u, 0x41024100u, 0x41084105u, 0x41144111u, 0x41414120u,
    0x41504144u, 0x41854180u, 0x420141a2u, 0x42104204u, 0x42294212u, 0x44004240u, 0x44054402u,
    0x44114408u, 0x44194414u, 0x44414420u, 0x44504444u, 0x44944480u, 0x45044501u, 0x45244510u,
    0x459a4540u, 0x460a4600u, 0x46504644u, 0x48044801u, 0x48404810u, 0x48544845u, 0x49004862u,
    0x49444911u, 0x49694950u, 0x50004a04u, 0x50055002u, 0x50115008u, 0x50205014u, 0x50415028u,
    0x50505044u, 0x51015080u, 0x51105104u, 0x51405115u, 0x52005142u, 0x52aa5244u, 0x54045401u,
    0x54215410u, 0x54605440u, 0x54a15481u, 0x55085500u, 0x55885580u, 0x56685621u, 0x580056a1u,
    0x58415814u, 0x58995850u, 0x5940591au, 0x5a855942u, 0x60046001u, 0x60406010u, 0x60626054u,
    0x60a96086u, 0x62246100u, 0x6292624au, 0x64166400u, 0x65406510u, 0x65a46545u, 0x686a6801u,
    0x6a066925u, 0x6a626a54u, 0x80028000u, 0x80088005u, 0x80148011u, 0x802a8020u, 0x80448041u,
    0x80808050u, 0x80a88082u, 0x810180aau, 0x81068104u, 0x81408110u, 0x81598151u, 0x82208200u,
    0x82828280u, 0x82a882a0u, 0x84048401u, 0x84128410u, 0x84408415u, 0x84898460u, 0x85448500u,
    0x861885a5u, 0x8800866au, 0x88258808u, 0x8880885au, 0x88a88882u, 0x8a228906u, 0x8a888a80u,
    0x8aa88a96u, 0x90049001u, 0x90409010u, 0x90849056u, 0x91229100u, 0x92569164u, 0x94009289u,
    0x94449405u, 0x94589450u, 0x95909529u, 0x96419592u, 0x98a69851u, 0x9a159949u, 0xa0009a60u,
    0xa008a002u, 0xa020a00au, 0xa0a0a02au, 0xa159a151u, 0xa200a1a6u, 0xa208a202u, 0xa280a22au,
    0xa440a2a0u, 0xa665a495u, 0xa80aa698u, 0xa822a820u, 0xa8a0a828u, 0xa904a8a8u, 0xa986a984u,
    0xaa2aaa28u, 0xaaaaaa91u);

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
    uint b = row + k / 256u * 18u, g = k / 32u & 7u;
    raw[0] = uvec4(weight_load2(b + 2u * g), weight_load(b + 16u + g / 4u),
                   weight_load(row + WEIGHT_CODES + k / 512u));
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    uint s = k / 16u & 7u, codes = (s & 1u) == 0u ? raw[0].x : raw[0].y;
    float d = weight_d(raw[0].w, k) * (float(raw[0].z >> 4u * s & 15u) * 0.25 + 0.125);
    weight_point(codes & 511u, weight_signs(codes >> 9), d, w[0], w[1]);
    weight_point(codes >> 16 & 511u, weight_signs(codes >> 25), d, w[2], w[3]);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
