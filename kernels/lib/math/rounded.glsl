// Rounding of a product before the sum that it is part of. GLSL ES 3.1 has no `precise`, so that a
// driver may fuse the two; it cannot through an atomic operation. Needs the shared array
// `rounded_slot` of LOCAL_X words.

float rounded(float x)
{
    uint slot = gl_LocalInvocationID.x;
    atomicExchange(rounded_slot[slot], floatBitsToUint(x));
    return uintBitsToFloat(atomicAdd(rounded_slot[slot], 0u));
}
