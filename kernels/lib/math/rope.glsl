// Rotary position embedding of pairs of numbers.
//
// Number i < ROPE_DIMS / 2 of a head is rotated together with number i + ROPE_DIMS / 2. `vec4
// ROPE[]` is (cos, sin)[256 + ceil(context / 256)][ROPE_DIMS / 2]. Its first 256 rows are for the
// angles lo * f with lo in 0 .. 255, the others for 256 * hi * f. The rotation by a position is the
// product of two rows. Needs the parameter rope_scale.
//
// Keys must have the same bits in every kernel that writes them, but compilers may fuse a * b + c
// differently in each. So an OR with the bits of sin(0) separates every product from its sum;
// sin(0) is zero, but unknown to the compiler. rope_begin() loads these bits and must be called
// first.

uint rope_zero;

void rope_begin()
{
    rope_zero = floatBitsToUint(ROPE[0].y);
}

vec4 rope_pin(vec4 product)
{
    return uintBitsToFloat(floatBitsToUint(product) | uvec4(rope_zero));
}

// (cos, sin) of frequencies 2 i and 2 i + 1 at a position.
vec4 rope_angles(uint pos, uint i)
{
    vec4 lo = ROPE[(pos & 255u) * uint(ROPE_DIMS / 4) + i];
    vec4 hi = ROPE[(256u + (pos >> 8)) * uint(ROPE_DIMS / 4) + i];
    vec4 a = rope_pin(lo * hi.xxzz);
    vec4 b = rope_pin(lo.yxwz * hi.yyww);
    return rope_pin((a + vec4(-b.x, b.y, -b.z, b.w)) * rope_scale);
}

// Two neighbouring numbers each of a head's first half (x, y) and second half (z, w), rotated.
vec4 rope_rotate(vec4 pairs, vec4 angles)
{
    vec4 a = rope_pin(pairs * angles.xzxz);
    vec4 b = rope_pin(pairs.zwxy * angles.ywyw);
    return a + vec4(-b.xy, b.zw);
}
