// DST = SRC: the plain copy whose speed `bench` holds other kernels against.
//
// 16 bytes per load, EACH loads per lane, neighbouring lanes at neighbouring addresses.
//
//! NAME copy_words
//! OP copy
//! VARIANT baseline
//! BIND read uvec4 SRC
//! BIND write uvec4 DST
//! PARAM uint rows
//! TUNE EACH = 4 in 1 2 4 8
//! LOCAL 128
//! GROUPS ceildiv(BAND, 128 * EACH)

void body(uvec3 group)
{
    uint from = group.x * uint(128 * EACH) + gl_LocalInvocationID.x;
    for (int i = 0; i < EACH; i++) {
        uint at = from + uint(128 * i);
        if (at < rows)
            DST[at] = SRC[at];
    }
}
