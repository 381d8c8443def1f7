// Unsigned 64-bit numbers as uvec2(low, high).
//
// Sums of weights must not depend on their order or on the driver, so they are sums of integers.

uvec2 u64_add(uvec2 a, uvec2 b)
{
    uint carry;
    uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 u64_sub(uvec2 a, uvec2 b)
{
    return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1u : 0u));
}

bool u64_less(uvec2 a, uvec2 b)
{
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

uvec2 u64_mul(uint a, uint b)
{
    uint high, low;
    umulExtended(a, b, high, low);
    return uvec2(low, high);
}

// a * b where the product fits.
uvec2 u64_scale(uvec2 a, uint b)
{
    uvec2 low = u64_mul(a.x, b);
    return uvec2(low.x, low.y + a.y * b);
}

// floor(a * b / 2^32)
uvec2 u64_fraction(uvec2 a, uint b)
{
    return u64_add(u64_mul(a.y, b), uvec2(u64_mul(a.x, b).y, 0u));
}

// floor(a * b / 2^64)
uvec2 u64_mul_high(uvec2 a, uvec2 b)
{
    uvec2 low = u64_add(u64_mul(a.x, b.y), uvec2(u64_mul(a.x, b.x).y, 0u));
    uvec2 middle = u64_add(u64_mul(a.y, b.x), uvec2(low.x, 0u));
    return u64_add(u64_mul(a.y, b.y), u64_add(uvec2(low.y, 0u), uvec2(middle.y, 0u)));
}
