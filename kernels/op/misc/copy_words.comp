// DST = SRC: the plain copy whose speed `bench` holds other kernels against.
//
// DST[i] = SRC[i] for i < rows, 16 bytes each. Group x copies WG_SIZE * EACH of them: EACH loads
// per invocation, neighbouring invocations at neighbouring addresses.
//
//! NAME copy_words
//! OP copy
//! VARIANT baseline
//! BIND read uvec4 SRC
//! BIND write uvec4 DST
//! PARAM uint rows
//! TUNE EACH = 4 in 1 2 4 8
//! TUNE WG_SIZE = 128 in 32 64 128 256
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, WG_SIZE * EACH)

void body(uvec3 group)
{
    uint from = group.x * uint(LOCAL_X * EACH) + gl_LocalInvocationID.x;
    for (int i = 0; i < EACH; i++) {
        uint at = from + uint(LOCAL_X * i);
        if (at < rows)
            DST[at] = SRC[at];
    }
}
