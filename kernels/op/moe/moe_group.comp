// Which tokens each expert gets: one work group per expert, all of which read every choice.
//
// Each lane takes a run of neighbouring pairs and counts those of lower experts and those of its
// own; the lanes' counts, added up in order, say where the expert's pairs begin and where the
// lane's go among them. So the list is sorted without any atomic, and is always the same.
//
//! NAME moe_group
//! OP moe_group
//! VARIANT baseline
//! BIND read uvec2 ROUTE
//! BIND write uint LIST
//! CONST E TOP_K
//! TUNE LANES = SOFTWARE ? 32 : 128 in 32 64 128
//! LOCAL LANES
//! GROUPS E
//! SHARED uint lower[LANES] // pairs of lower experts in each lane's run
//! SHARED uint owned[LANES] // pairs of this one
//! PREFER 10
//! STEP read

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, e = min(group.x, uint(E - 1));
    uint pairs = step_tokens * uint(TOP_K), run = (pairs + uint(LANES) - 1u) / uint(LANES);
    uint first = min(lane * run, pairs), end = min(first + run, pairs);
    uint below = 0u, own = 0u;
    for (uint p = first; p < end; p++) {
        uint id = ROUTE[p].x;
        below += id < e ? 1u : 0u;
        own += id == e ? 1u : 0u;
    }
    lower[lane] = below;
    owned[lane] = own;
    memoryBarrierShared(); barrier();
    uint offset = 0u, place = 0u;
    for (uint i = 0u; i < uint(LANES); i++) {
        offset += lower[i];
        place += i < lane ? owned[i] : 0u;
    }
    if (group.x < uint(E) && lane == 0u) {
        LIST[e] = offset;
        if (e == uint(E - 1))
            LIST[E] = pairs;
    }
    place += uint(E + 1) + offset;
    for (uint p = first; p < end && group.x < uint(E); p++)
        if (ROUTE[p].x == e)
            LIST[place++] = p;
}
