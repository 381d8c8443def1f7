// Pieces that several weight_*_subgroup libs share.

// Number i & 7 of eight f16.
float half_of(uvec4 eight, uint i)
{
    uvec2 two = (i & 4u) == 0u ? eight.xy : eight.zw;
    vec2 d = unpackHalf2x16((i & 2u) == 0u ? two.x : two.y);
    return (i & 1u) == 0u ? d.x : d.y;
}

// 6-bit codes (sc, sc, m, m) of the lane's two groups of a q4_k or q5_k block, from the block's
// head. The groups are neighbours, so that sc and m are two bytes each.
vec4 k_codes(uvec4 head, uint lane)
{
    uint s = (lane & 2u) * 8u, a = head.y >> s, b = head.z >> s, c = head.w >> s;
    bool upper = (lane & 4u) != 0u;
    uint sc = upper ? (c & 0x0F0Fu) | ((a >> 2) & 0x3030u) : a & 0x3F3Fu;
    uint m = upper ? ((c >> 4) & 0x0F0Fu) | ((b >> 2) & 0x3030u) : b & 0x3F3Fu;
    return vec4(uvec4(sc, sc >> 8, m, m >> 8) & 63u);
}

// INT8_PRODUCTS adds the products of the four int8 codes in a word and x[i] to `sum`. A code plus
// 128 in the lowest bits of 2^23 is a float without a conversion instruction; both offsets come off
// exactly. The caller has uint q and magic = INT8_MAGIC, which is 2^23, 0x4B000000, made of `one`,
// 1.0 in a register that the compiler cannot see through, see weight_q4_k_subgroup.glsl.
#define INT8_MAGIC          (one + 0x0B800000u)
#define INT8_PRODUCT(q, xx) sum += (uintBitsToFloat(((q) & 255u) | magic) - 8388736.0) * (xx);
#define INT8_PRODUCTS(word, i) \
    q = (word) ^ 0x80808080u; \
    INT8_PRODUCT(q, x[i].x) \
    INT8_PRODUCT(q >> 8, x[i].y) \
    INT8_PRODUCT(q >> 16, x[i].z) \
    INT8_PRODUCT(q >> 24, x[i].w)
