// Reads eight neighbouring numbers of a KV row at a time, from `uvec4 KV[]`.
//
// HEAD_DIM is a multiple of 8. A `row` is a result of kv_row(). Vector i of a row is the numbers 8
// i to 8 i + 7. Needs lib kv.
//
//! LET KV_ROW = HEAD_DIM / 8 * (KV_K_f16 ? 1 : 2)

const int KV_VEC8 = 2 - KV_K_f16; // uvec4s of a vector

// A vector as it is stored. It can be loaded before it is needed, and it occupies as few registers
// as in the cache.
struct kv_vec8 {
    uvec4 lo;
#if !KV_K_f16
    uvec4 hi;
#endif
};

// Conversion to uvec4s and back, for values that are kept between functions. A persistent program
// can only end the life of variables of built-in types.
uvec4 kv_vec8_part(kv_vec8 x, int i)
{
#if KV_K_f16
    return x.lo;
#else
    return i == 0 ? x.lo : x.hi;
#endif
}

kv_vec8 kv_vec8_of(uvec4 lo, uvec4 hi)
{
#if KV_K_f16
    return kv_vec8(lo);
#else
    return kv_vec8(lo, hi);
#endif
}

kv_vec8 kv_fetch_vec8(uint row, uint i)
{
#if KV_K_f16
    return kv_vec8(KV[row + i]);
#else
    return kv_vec8(KV[row + 2u * i], KV[row + 2u * i + 1u]);
#endif
}

void kv_unpack_vec8(kv_vec8 x, out vec4 a, out vec4 b)
{
#if KV_K_f16
    a = vec4(unpackHalf2x16(x.lo.x), unpackHalf2x16(x.lo.y));
    b = vec4(unpackHalf2x16(x.lo.z), unpackHalf2x16(x.lo.w));
#else
    a = uintBitsToFloat(x.lo);
    b = uintBitsToFloat(x.hi);
#endif
}

void kv_load_vec8(uint row, uint i, out vec4 a, out vec4 b)
{
    kv_unpack_vec8(kv_fetch_vec8(row, i), a, b);
}
