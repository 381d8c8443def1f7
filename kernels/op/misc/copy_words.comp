// DST = SRC: the plain copy to which `bench` compares the speed of other kernels.
//
// DST[i] = SRC[i] for i < rows. An element is a uvec4 of 16 bytes.
//
// Layout: work group x copies WG_SIZE * EACH elements. Each invocation issues EACH loads, then as
// many stores. Neighbouring invocations use neighbouring addresses.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: EACH is the number of loads per invocation, WG_SIZE the group size.
//
// One H200 (driver 580), 2026-11-22, 128 MB from buffers that are in no cache, read plus written,
// by `build/tests/test_kernels_matmul list`: 3,950 GB/s with EACH 1, 3,110 with 4, 2,390 with 8. If
// each store directly follows its load, 4 reaches 1,880.
//
//! NAME copy_words
//! OP copy
//! VARIANT baseline
//! BIND read uvec4 SRC
//! BIND write uvec4 DST
//! PARAM uint rows
//! TUNE EACH = SOFTWARE ? 4 : 1 in 1 2 4 8
//! TUNE WG_SIZE = 128 in 32 64 128 256
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, WG_SIZE * EACH)
//! ACTIVE ceildiv(BAND, EACH)

void body(uvec3 group)
{
    uint from = group.x * uint(LOCAL_X * EACH) + gl_LocalInvocationID.x;
    uvec4 units[EACH];
    // The compiler may not move a store before a load of another buffer, or the other way round. So
    // all loads come first, and overlap.
    for (int i = 0; i < EACH; i++)
        units[i] = SRC[min(from + uint(LOCAL_X * i), rows - 1u)];
    for (int i = 0; i < EACH; i++)
        if (from + uint(LOCAL_X * i) < rows)
            DST[from + uint(LOCAL_X * i)] = units[i];
}
