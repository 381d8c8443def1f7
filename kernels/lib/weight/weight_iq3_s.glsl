// Weights of type iq3_s in the layout `split` of W.
//
// A row has three planes. For each block of 256 columns they have:
// - 16 words: the lower eight bits of the points, one byte for 4 columns.
// - 11 words. Words 0 and 1: the ninth bits of the points. Words 2 to 9: the signs, one bit per
//   column. Word 10: scales sc of 32 columns each, four bits.
// - The f16 d, two to a word.
//
// A weight is d * (2 * sc + 1) * p with the column's sign, where p is 2 c + 1 for the 3-bit code c
// of the point. `row` is the first word of a row.
//
// A point of the grid has 3 bits for each of 4 columns, the first column in the lowest bits. A word
// of the table has two points (tools/dev/make_grids.py).
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  32 // columns around k for which weight_fetch16() reads everything
#define WEIGHT_BLOCKS uint((K + 255) / 256)

const uint WEIGHT_GRID[256] = uint[256](
    0x10000u, 0x50002u, 0x80007u, 0xa0009u, 0xe000cu, 0x110010u, 0x1b0015u, 0x220020u, 0x270025u,
    0x2b0029u, 0x320030u, 0x3c0039u, 0x40003fu, 0x420041u, 0x480044u, 0x4d0049u, 0x530050u,
    0x590057u, 0x64005du, 0x750071u, 0x80007au, 0x850081u, 0x880087u, 0x8e008bu, 0x950091u,
    0x9c0098u, 0xa500a2u, 0xa900a7u, 0xb800abu, 0xc300bbu, 0xcd00c9u, 0xd200d0u, 0xdb00d9u,
    0xe400deu, 0xea00e8u, 0xf900f7u, 0x10000fdu, 0x10f010bu, 0x1140111u, 0x120011au, 0x1290123u,
    0x1420138u, 0x1500144u, 0x1560152u, 0x161015bu, 0x1670165u, 0x17b0176u, 0x1890186u, 0x199018bu,
    0x1b901aau, 0x1c201c0u, 0x1d001c4u, 0x1d601d2u, 0x1e801dbu, 0x20001ecu, 0x2020201u, 0x2080204u,
    0x20b0209u, 0x20f020du, 0x2120210u, 0x21c0219u, 0x22c021eu, 0x231022eu, 0x240023au, 0x2430241u,
    0x2480246u, 0x251024cu, 0x25b0258u, 0x2680261u, 0x278026au, 0x280027eu, 0x28d028au, 0x290028fu,
    0x29a0294u, 0x2a302a0u, 0x2b002adu, 0x2c102bau, 0x2c702c4u, 0x2cb02c8u, 0x2d702d1u, 0x2dc02d8u,
    0x2f202e1u, 0x30302f8u, 0x30a0305u, 0x319030cu, 0x322031bu, 0x3280326u, 0x341032cu, 0x34b0348u,
    0x3580351u, 0x369035au, 0x3940390u, 0x3a40397u, 0x3c103a6u, 0x3c803c3u, 0x3d103cau, 0x3e103ddu,
    0x3f803f2u, 0x4010400u, 0x4050403u, 0x4080407u, 0x40c040au, 0x411040eu, 0x4170413u, 0x41a0418u,
    0x4230421u, 0x4280425u, 0x437042au, 0x43b0438u, 0x440043du, 0x4480442u, 0x44f044bu, 0x4550452u,
    0x45c0459u, 0x4690462u, 0x4840481u, 0x4910487u, 0x4980493u, 0x4a1049fu, 0x4af04abu, 0x4bc04b9u,
    0x4c204c0u, 0x4c904c5u, 0x4d404d2u, 0x4db04d9u, 0x4e804e2u, 0x50104f6u, 0x5100507u, 0x51a0513u,
    0x521051du, 0x53d053au, 0x5490544u, 0x55f0552u, 0x56b0560u, 0x5800578u, 0x5870582u, 0x5ad0591u,
    0x5c505b1u, 0x5d605c9u, 0x5e305d8u, 0x60205e8u, 0x60b0609u, 0x60f060du, 0x6190612u, 0x61d061bu,
    0x6240622u, 0x6290627u, 0x6390633u, 0x6430641u, 0x64c0645u, 0x6530651u, 0x6700660u, 0x67e067au,
    0x68a0680u, 0x69a0690u, 0x6a8069cu, 0x6c806c1u, 0x6d106ccu, 0x6d706d3u, 0x6e106d8u, 0x6e706e3u,
    0x6fb06edu, 0x7090703u, 0x712070eu, 0x72a0719u, 0x7340730u, 0x7480741u, 0x755074au, 0x764075au,
    0x77b076eu, 0x7a1078eu, 0x7c307c1u, 0x7d207d0u, 0x80007ddu, 0x80a0804u, 0x8140810u, 0x81a0817u,
    0x8280821u, 0x8420838u, 0x8490847u, 0x852084bu, 0x85d0858u, 0x8690863u, 0x881086du, 0x8880883u,
    0x891088du, 0x8a0089bu, 0x8b208afu, 0x8c408b8u, 0x8cb08c9u, 0x8d208d0u, 0x8dd08d9u, 0x9020900u,
    0x91f0914u, 0x9390920u, 0x9470945u, 0x9720951u, 0x99c098bu, 0x9c809b0u, 0x9d809cdu, 0x9e909e3u,
    0xa080a02u, 0xa120a0cu, 0xa240a20u, 0xa2a0a27u, 0xa3c0a36u, 0xa430a41u, 0xa4a0a45u, 0xa5a0a51u,
    0xa800a7au, 0xa930a89u, 0xa9e0a98u, 0xac20aabu, 0xac80ac7u, 0xae40ad7u, 0xaf50ae9u, 0xb010afbu,
    0xb100b04u, 0xb260b1au, 0xb560b4au, 0xb6b0b69u, 0xbc20ba2u, 0xbd20bc4u, 0xc0b0c09u, 0xc190c0du,
    0xc300c1bu, 0xc500c40u, 0xc740c57u, 0xc9c0c8au, 0xcad0ca2u, 0xcb80cb2u, 0xccc0cc0u, 0xce00cd1u,
    0xd230d15u, 0xd400d32u, 0xd5c0d43u, 0xd850d70u, 0xdc90da0u, 0xe000dcbu, 0xe070e04u, 0xe120e10u,
    0xe200e1eu, 0xe320e2cu, 0xe490e42u, 0xe630e54u, 0xe810e65u, 0xe880e84u, 0xe910e8eu, 0xea90e98u,
    0xeda0ec2u, 0xeeb0eddu, 0xf050f01u, 0xf100f0bu, 0xf520f28u, 0xf820f62u, 0xfc00f99u);

// d of columns k .. k + 255 from the word that holds it.
float weight_d(uint word, uint k)
{
    vec2 pair = unpackHalf2x16(word);
    return (k & 256u) == 0u ? pair.x : pair.y;
}

// Point n of the grid, negative in the columns whose bit of `signs` is set.
vec4 weight_point(uint n, uint signs)
{
    uint p = weight_grid(n / 2u) >> 16u * (n & 1u);
    vec4 v = vec4(uvec4(p, p >> 3, p >> 6, p >> 9) & 7u) * 2.0 + 1.0;
    uvec4 s = uvec4(signs << 31, signs << 30, signs << 29, signs << 28) & 0x80000000u;
    return uintBitsToFloat(floatBitsToUint(v) ^ s);
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint g = k / 32u & 7u, b = row + WEIGHT_BLOCKS * 16u + k / 256u * 11u;
    raw[0] = uvec4(weight_load2(row + k / 32u * 2u), weight_load(b + g / 4u),
                   weight_load(b + 2u + g));
    raw[1] = uvec4(weight_load(b + 10u), weight_load(row + WEIGHT_BLOCKS * 27u + k / 512u), 0u, 0u);
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    uint g = k / 32u & 7u, h = k / 16u & 1u;
    uint points = h == 0u ? raw[0].x : raw[0].y, upper = raw[0].z >> 8u * (g & 3u) + 4u * h;
    uint signs = raw[0].w >> 16u * h;
    float d = weight_d(raw[1].y, k) * float(2u * (raw[1].x >> 4u * g & 15u) + 1u);
    w[0] = d * weight_point((points & 255u) | (upper & 1u) << 8, signs);
    w[1] = d * weight_point((points >> 8 & 255u) | (upper & 2u) << 7, signs >> 4);
    w[2] = d * weight_point((points >> 16 & 255u) | (upper & 4u) << 6, signs >> 8);
    w[3] = d * weight_point(points >> 24 | (upper & 8u) << 5, signs >> 12);
}

float weight_at(uint row, uint k)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k & ~15u, raw);
    weight_decode16(raw, k & ~15u, w);
    return w[(k & 15u) / 4u][k & 3u];
}
