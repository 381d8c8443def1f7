// DST = sums of SRC by work group, to measure the speed of reading.
//
// DST[g] is the sum, modulo 2^32, of the words that work group g reads. SRC has `rows` elements of
// 16 bytes (uvec4).
//
// Layout: group g reads UNITS elements from g * UNITS on. Each invocation starts EACH loads before
// its first addition. Neighbouring invocations read neighbouring addresses.
//
// Choice: it is the only kernel of this operation. `dopplergl devices -v` runs it.
//
// TUNEs: a larger EACH keeps more loads in flight per invocation. WG_SIZE is the group size.
//
//! NAME read_words
//! OP read
//! VARIANT baseline
//! BIND read uvec4 SRC
//! BIND write uint DST
//! PARAM uint rows
//! TUNE EACH = SOFTWARE ? 16 : 8 in 1 2 4 8 16
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256
//! LET UNITS = WG_SIZE * EACH
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, UNITS)
//! ACTIVE ceildiv(BAND, EACH)
//! SHARED uint read_sum

void body(uvec3 group)
{
    uint from = group.x * uint(UNITS) + gl_LocalInvocationID.x, sum = 0u;
    uvec4 units[EACH];
    for (int i = 0; i < EACH; i++)
        units[i] = SRC[min(from + uint(LOCAL_X * i), rows - 1u)];
    for (int i = 0; i < EACH; i++)
        if (from + uint(LOCAL_X * i) < rows)
            sum += units[i].x + units[i].y + units[i].z + units[i].w;
    if (gl_LocalInvocationID.x == 0u)
        read_sum = 0u;
    memoryBarrierShared(); barrier();
    atomicAdd(read_sum, sum);
    memoryBarrierShared(); barrier();
    if (gl_LocalInvocationID.x == 0u && group.x * uint(UNITS) < rows)
        DST[group.x] = read_sum;
}
