// Lists of pairs (token, choice) by expert, with one work group per expert.
//
// A pair is a token with one of its TOP_K chosen experts. The kernel sorts the numbers of all pairs
// by expert. ROUTE is [T][TOP_K] pairs of id and weight. LIST has E + 1 offsets, then the sorted
// numbers. It is a counting sort without atomics, so the order is always the same.
//
// Layout: work group x is an expert. Every group reads the choices of all tokens. Each invocation
// has a run of neighbouring pairs. It counts the pairs of lower experts and those of its group's
// expert. A prefix sum over these counts yields the first places of the expert's pairs and of the
// invocation's.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size.
//
// Utilisation: a pass of few tokens has fewer pairs than a group has invocations. Finding the first
// place of an expert always needs all pairs.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). navi31 with LLVM 15 spills 6
// registers with 128 invocations, and none with 64.
//
//! NAME moe_group
//! OP moe_group
//! VARIANT baseline
//! BIND read uvec2 ROUTE
//! BIND write uint LIST
//! CONST E TOP_K
//! TUNE WG_SIZE = SOFTWARE ? 32 : SUBGROUP_SIZE == 64 && REGISTERS <= 93 ? 64 : 128 in 32 64 128
//! LOCAL WG_SIZE
//! GROUPS E
//! ACTIVE E * min(WG_SIZE, T * TOP_K)
//! SHARED uint lower[WG_SIZE] // pairs of lower experts in each thread's run
//! SHARED uint owned[WG_SIZE] // pairs of this one
//! PREFER 10
//! STEP read

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, e = min(group.x, uint(E - 1));
    uint pairs = pass_rows * uint(TOP_K), run = (pairs + uint(WG_SIZE) - 1u) / uint(WG_SIZE);
    uint first = min(tid * run, pairs), end = min(first + run, pairs);
    uint below = 0u, own = 0u;
    for (uint p = first; p < end; p++) {
        uint id = ROUTE[p].x;
        below += id < e ? 1u : 0u;
        own += id == e ? 1u : 0u;
    }
    lower[tid] = below;
    owned[tid] = own;
    memoryBarrierShared(); barrier();
    uint offset = 0u, place = 0u;
    for (uint i = 0u; i < uint(WG_SIZE); i++) {
        offset += lower[i];
        place += i < tid ? owned[i] : 0u;
    }
    if (group.x < uint(E) && tid == 0u) {
        LIST[e] = offset;
        if (e == uint(E - 1))
            LIST[E] = pairs;
    }
    place += uint(E + 1) + offset;
    for (uint p = first; p < end && group.x < uint(E); p++)
        if (ROUTE[p].x == e)
            LIST[place++] = p;
}
