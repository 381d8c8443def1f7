// After a stop, zeroes the group counts of all later dispatches of the plan.
//
//! NAME sample_args
//! OP sample_args
//! VARIANT baseline
//! BIND write uint ARGS
//! PARAM uint count
//! STEP read
//! LOCAL 64
//! GROUPS 1

void body(uvec3 group)
{
    if (step_stopped != 0u && group.x == 0u)
        for (uint i = gl_LocalInvocationID.x; i < 3u * count; i += uint(LOCAL_X))
            ARGS[i] = 0u;
}
