// Lists of pairs (token, choice) by expert, one work group per expert, each reading every choice.
//
// A counting sort without atomics, so that the order is always the same. Each thread has a run of
// neighbouring pairs and counts those of lower experts and those of its group's expert; a prefix
// sum over the threads' counts gives the places where the expert's pairs and the thread's begin.
//
// Utilisation: passes of few tokens have fewer pairs than a group has threads, and finding where an
// expert's begin takes all of them in any case.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). navi31 with LLVM 15 spills 6 of
// 128 invocations, none of 64.
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
