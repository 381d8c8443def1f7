// Rounds a product before it is added to a sum.
//
// GLSL ES 3.1 has no `precise`, so a driver may fuse product and sum. It cannot fuse them through
// an atomic operation. Needs the shared array `rounded_slot` of LOCAL_X words.

float rounded(float x)
{
    uint slot = gl_LocalInvocationID.x;
    atomicExchange(rounded_slot[slot], floatBitsToUint(x));
    return uintBitsToFloat(atomicAdd(rounded_slot[slot], 0u));
}
