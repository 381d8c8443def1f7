// Fills rows of weights with repeatable random values in their packed layout: deviation 0.02.
//
// W is [rows][W_STRIDE] words. A value depends on the seed, on its row in the band and on its
// column. For f32, f16 and bf16 it is the centred sum of four bytes of a hash. For block formats,
// codes are random, and scales have a fixed mean. Minima of the same mean centre the values. In
// formats without minima, scales alternate in sign. A mean other than zero would add the same
// amount to all results, and more from layer to layer.
//
// Layout: one invocation per word. Work group x covers the words of a row. y covers the rows: a
// group computes every GROUPS_MOST-th row.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size. GROUPS_MOST limits the number of groups in y.
//
//! NAME synth_rows
//! OP synth
//! VARIANT rows
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4
//! BIND write uint W
//! PARAM uint rows
//! PARAM uint seed
//! CONST K W_STRIDE
//! TUNE WG_SIZE = 64 in 32 64 128 256
//! TUNE GROUPS_MOST = 16384 in 64 1024 4096 16384 65535
//! LOCAL WG_SIZE
//! GROUPS ceildiv(W_STRIDE, WG_SIZE) min(BAND, GROUPS_MOST)
//! ACTIVE W_STRIDE * min(BAND, GROUPS_MOST)
//! PREFER 10
//! LIB half

// Multiply-xorshift finaliser: every output bit depends on every input bit.
uint scramble(uint x)
{
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

#if WEIGHT_f32 || WEIGHT_f16 || WEIGHT_bf16
// Deviation of the sum of four bytes: 148.
float value(uint h)
{
    uint sum = (h & 255u) + ((h >> 8) & 255u) + ((h >> 16) & 255u) + (h >> 24);
    return (float(sum) - 510.0) * (0.02 / 148.0);
}
#endif

const uint BLOCKS = uint((K + 31) / 32);

uint word(uint w, uint h)
{
#if WEIGHT_f32
    return floatBitsToUint(value(h));
#elif WEIGHT_f16
    return half_pack(vec2(value(h), value(scramble(h + 1u))));
#elif WEIGHT_bf16
    return (floatBitsToUint(value(h)) >> 16) |
           (floatBitsToUint(value(scramble(h + 1u))) & 0xFFFF0000u);
#elif WEIGHT_q8_0
    return w < BLOCKS * 8u ? h : 0x0C6F0C6Fu; // 2.7e-4 twice: codes deviate by 74
#elif WEIGHT_q4_0
    // 4.3e-3 and its negative: codes deviate by 4.6 from -0.5
    return w < BLOCKS * 4u ? h : 0x9C721C72u;
#elif WEIGHT_mxfp4
    return w < BLOCKS * 4u ? h : 0x78787878u; // 2^-7: codes deviate by 2.9
#elif WEIGHT_q6_k
    if (w >= uint(W_STRIDE * 2 / 105 * 52))
        return 0x04700470u; // d = 6.8e-5 twice: codes deviate by 18.5 from -0.5, times sc
    return w % 52u < 48u ? h : 0xF010F010u; // sc: 16 and -16 in turn
#elif WEIGHT_q5_k
    if (w % 44u == 0u)
        return 0x141B043Eu; // d = 6.5e-5, dmin = 15.5 d: codes deviate by 9.2 from 15.5, times sc
    if (w % 44u < 3u)
        return 0xA0A0A0A0u | (h & 0x03030303u); // groups 0 to 3: 32 to 35; upper bits of 4 to 7
    return w % 44u == 3u ? h & 0x33333333u : h; // lower bits of groups 4 to 7; codes
#else
    uint at = w - uint(W_STRIDE / 36 * 32); // of the heads
    if (w < uint(W_STRIDE / 36 * 32))
        return h;
    if (at % 4u == 0u)
        return 0x13F5083Eu; // d = 1.3e-4, dmin = 7.5 d: codes deviate by 4.6 from 7.5, times sc
    return at % 4u == 3u ? 0x88888888u : 0x20202020u | (h & 0xC3C3C3C3u); // sc and m 32 to 35
#endif
}

void body(uvec3 group)
{
    uint w = group.x * uint(LOCAL_X) + gl_LocalInvocationID.x;
    if (w >= uint(W_STRIDE))
        return;
    for (uint row = group.y; row < rows; row += min(rows, uint(GROUPS_MOST)))
        W[row * uint(W_STRIDE) + w] = word(w, scramble(scramble(seed + row) + w));
}
