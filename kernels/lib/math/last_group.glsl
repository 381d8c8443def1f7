// Finds the work group that arrives last. Only that group may read the writes of all groups.
//
// No group waits for another, so any number of groups may be resident. Needs lib arrival.
//
//! SHARED uint last_group_before

// Returns true in the last of `groups` work groups that call it with this counter, in all its
// invocations. All invocations of a group call it together. The last group can then read all that
// the groups wrote before their calls.
bool last_group(uint counter, uint groups)
{
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0u)
        last_group_before = arrive(counter, groups);
    memoryBarrierShared(); barrier();
    memoryBarrierBuffer();
    return last_group_before + 1u == groups;
}

// The same, if the last group reads only writes of invocation 0 of each group. It does not wait for
// other invocations.
bool last_group_of_first(uint counter, uint groups)
{
    if (gl_LocalInvocationIndex == 0u) {
        memoryBarrierBuffer();
        last_group_before = arrive(counter, groups);
    }
    memoryBarrierShared(); barrier();
    memoryBarrierBuffer();
    return last_group_before + 1u == groups;
}
