// Zeroes the group counts of all later dispatches of the plan after a stop.
//
// ARGS is [count][3] uint, the group counts of glDispatchComputeIndirect.
//
// Layout: one work group, which writes only after the sequence has stopped.
//
// Choice: it is the only kernel of this operation. On GPUs, sample_next replaces the operation if
// it can run, except with kind=full.
//
// TUNEs: WG_SIZE is the group size.
//
// Utilisation: no invocation has work until the sequence stops.
//
//! NAME sample_args
//! OP sample_args
//! VARIANT baseline
//! BIND write uint ARGS
//! PARAM uint count
//! STEP read
//! TUNE WG_SIZE = 64 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1

void body(uvec3 group)
{
    if (step_stopped != 0u && group.x == 0u)
        for (uint i = gl_LocalInvocationID.x; i < 3u * count; i += uint(LOCAL_X))
            ARGS[i] = 0u;
}
