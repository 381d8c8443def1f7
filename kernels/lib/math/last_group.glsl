// Finds the work group that arrives last. Only that group may read the writes of all groups.
//
// No group waits for another, so any number of groups may be resident. Needs lib arrival.
//
//! SHARED uint last_group_before

// True in the last of `groups` work groups that say so to the counter, in all of its invocations.
// They call it together; what they wrote before is visible to the last one after it.
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

// The same where the last one reads only what invocation 0 of each has written: nobody else is
// waited for.
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
