// Barrier between all work groups of a dispatch, and the tests that decide if it may be used.
//
// Groups of one dispatch may only wait for each other while all of them are resident. OpenGL ES
// does not guarantee that, and it depends on the program's registers and shared memory. So the host
// runs a poll of this program (Sorensen et al., OOPSLA 2016: the poll is open, groups join, the
// poll closes), and every wait ends. A group that has read the counter `max_spins` times in vain
// aborts the dispatch. Bit 30 of the counter then makes every group return, also groups that start
// later. No group passes a barrier at which some group has not arrived. So an aborted dispatch has
// computed whole phases only, and its tokens can be computed again.
//
// There is one counter, which only increases. Barrier i is passed when it reaches i times the
// number of groups. The comparison uses a signed difference. The host zeroes the counter before the
// first of several dispatches; each dispatch continues from the barriers before it. A waiting group
// reads the counter by atomics, because a compiler may move a load out of the loop.
//
// One invocation releases the writes of its group before the barrier(). A fence in every invocation
// takes 0.1 us longer, and a fence after the wait 0.2 us, because it waits for weights that are
// being loaded. OpenGL ES does not guarantee that this suffices; phase_test() checks it. Buffers
// through which groups exchange data are `coherent`, because a multiprocessor may cache plain
// loads. On one NVIDIA H200 (driver 580) plain, `volatile` and `restrict` blocks nearly always
// returned stale values with any barriers, and `coherent` blocks never did. A barrier of 132 groups
// takes 0.9 us.
//
// The program defines:
//   - CONTROL[] (kernels/phase_control.h, words CONTROL_name) and STATE[], both coherent uint
//   - phase_ids_at and phase_step_at, the elements of STATE where IDS and the step table begin
//   - PHASE_GROUP and PHASE_GROUPS, the number of this group and the count of groups
//   - PHASE_LOCAL, the number of invocations of a group
//   - SCRATCH_FLOAT[] and SCRATCH_VEC4[], two views of scratch that is free from float
//     phase_scratch_at on for PHASE_TEST_FLOATS
//   - PHASE_PASSED, which is 0u if the counter is zeroed before each dispatch, else
//     phase_passed_before()
//! SHARED uint phase_word

const uint PHASE_ABORT = 0x40000000u;
const uint PHASE_CLOSED = 0x80000000u;

uint phase_passed; // barriers

// Returns the number of barriers of earlier dispatches. Some groups of this dispatch may have
// arrived at its first barrier already, but not all: this group has not.
uint phase_passed_before()
{
    return (CONTROL[CONTROL_arrived] & (PHASE_ABORT - 1u)) / PHASE_GROUPS;
}

// The first half of a barrier: makes the writes of the group visible to all groups. Until the
// second half, the group may do work that involves no other group.
void device_arrive()
{
    barrier();
    phase_passed++;
    if (gl_LocalInvocationIndex == 0u) {
        memoryBarrierBuffer();
        atomicAdd(CONTROL[CONTROL_arrived], 1u);
    }
}

// The second half. If it returns false, which it then does in every group, leave the dispatch by
// phase_leave().
bool device_wait()
{
    if (gl_LocalInvocationIndex == 0u) {
        uint goal = phase_passed * PHASE_GROUPS, seen = atomicAdd(CONTROL[CONTROL_arrived], 0u);
        for (uint left = CONTROL[CONTROL_max_spins]; int(seen - goal) < 0 && left > 0u; left--)
            seen = atomicAdd(CONTROL[CONTROL_arrived], 0u);
        if (int(seen - goal) < 0) {
            CONTROL[CONTROL_aborted] = 1u;
            atomicOr(CONTROL[CONTROL_arrived], PHASE_ABORT);
            seen = PHASE_ABORT;
        }
        phase_word = seen & PHASE_ABORT;
    }
    memoryBarrierShared();
    barrier();
    return phase_word == 0u;
}

bool device_barrier()
{
    device_arrive();
    return device_wait();
}

// Reports the end to the host through the ids, which the host reads in every case. `pos` is the
// position at which the dispatch began.
void phase_leave(uint pos)
{
    if (PHASE_GROUP != 0u)
        return;
    uint last = min(pos + CONTROL[CONTROL_steps], STATE[phase_step_at + STEP_WORD_context]);
    for (uint i = pos + 1u + gl_LocalInvocationIndex; i <= last; i += PHASE_LOCAL)
        STATE[phase_ids_at + i] = PHASE_ABORTED_ID;
}

// Counts the groups that run at the same time: all groups that join until no group has joined
// during `max_spins` reads of the counter.
void phase_count()
{
    if (gl_LocalInvocationIndex != 0u)
        return;
    uint known = atomicAdd(CONTROL[CONTROL_joined], 1u) + 1u, left = CONTROL[CONTROL_max_spins];
    bool closed = known > PHASE_CLOSED;
    while (!closed && left > 0u) {
        uint seen = atomicAdd(CONTROL[CONTROL_joined], 0u);
        closed = seen >= PHASE_CLOSED;
        left = seen > known ? CONTROL[CONTROL_max_spins] : left - 1u;
        known = seen;
    }
    uint seen = closed ? PHASE_CLOSED : atomicOr(CONTROL[CONTROL_joined], PHASE_CLOSED);
    if (seen < PHASE_CLOSED)
        CONTROL[CONTROL_resident] = seen;
}

// In each round, the groups write their shares of the scratch through one view. Then each group
// reads all of it through the other view.
void phase_test()
{
    uint wrong = 0u;
    for (uint r = 0u; r < PHASE_TEST_ROUNDS; r++) {
        uint first = PHASE_GROUP * PHASE_LOCAL + gl_LocalInvocationIndex;
        for (uint i = first; i < PHASE_TEST_FLOATS; i += PHASE_GROUPS * PHASE_LOCAL)
            SCRATCH_FLOAT[phase_scratch_at + i] = float(i * 3u + r);
        if (!device_barrier())
            return;
        for (uint i = gl_LocalInvocationIndex; i < PHASE_TEST_FLOATS / 4u; i += PHASE_LOCAL) {
            uvec4 wanted = i * 12u + r + uvec4(0u, 3u, 6u, 9u);
            if (SCRATCH_VEC4[phase_scratch_at / 4u + i] != vec4(wanted))
                wrong++;
        }
        if (!device_barrier())
            return;
    }
    if (wrong > 0u)
        atomicAdd(CONTROL[CONTROL_errors], wrong);
}

// Called first. `pos` becomes the position of the first step. Returns false if there is no step to
// run.
bool phase_enter(out uint pos)
{
    phase_passed = PHASE_PASSED;
    if (gl_LocalInvocationIndex == 0u)
        phase_word = CONTROL[CONTROL_aborted] != 0u ? PHASE_ABORT : CONTROL[CONTROL_mode];
    memoryBarrierShared();
    barrier();
    uint mode = phase_word;
    barrier();
    pos = STATE[phase_step_at + STEP_WORD_pos];
    if (mode == PHASE_COUNT)
        phase_count();
    else if (mode == PHASE_TEST)
        phase_test();
    else if (mode == PHASE_ABORT)
        phase_leave(pos);
    return mode == PHASE_RUN;
}
