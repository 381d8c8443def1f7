// Rotary position embedding. ROPE is vec2[256 + ceil(CONTEXT / 256)][ROPE_DIMS / 2]: (cos, sin) of
// lo * f for lo in 0..255, then of 256 * hi * f. The rotation by a position is the product of its
// two rows. Number i < ROPE_DIMS / 2 of a head is turned together with number i + ROPE_DIMS / 2.
// Needs the parameter rope_scale.
//
// Keys must have the same bits whichever kernel writes them, and compilers may fuse a * b + c
// differently in each. So every product is pinned: an OR with the bits of sin(0), zero in truth but
// unknown to the compiler, stands between product and sum. rope_begin() loads them, before anything
// else here is called.

uint rope_zero;

void rope_begin()
{
    rope_zero = floatBitsToUint(ROPE[0].y);
}

vec4 rope_pin(vec4 product)
{
    return uintBitsToFloat(floatBitsToUint(product) | uvec4(rope_zero));
}

// (cos, sin) of two neighbouring frequencies, from the table's rows for the low and the high part
// of the position.
vec4 rope_angles(vec4 lo, vec4 hi)
{
    vec4 a = rope_pin(lo * hi.xxzz);
    vec4 b = rope_pin(lo.yxwz * hi.yyww);
    return rope_pin((a + vec4(-b.x, b.y, -b.z, b.w)) * rope_scale);
}

// Two neighbouring numbers each of a head's first half (x, y) and second half (z, w), turned.
vec4 rope_turn(vec4 pairs, vec4 angles)
{
    vec4 a = rope_pin(pairs * angles.xzxz);
    vec4 b = rope_pin(pairs.zwxy * angles.ywyw);
    return a + vec4(-b.xy, b.zw);
}
