// The end of a step: writes the chosen id and advances the step state.
//
// Needs `uint STOPS[]`, `uint IDS[]`, `uint STEP[]` with STEP readwrite, and WHEN kind.
//
//! SHARED uint stop_ids[33] // fixed: STOPS

const uint NOBODY = 0xffffffffu; // no logit is a number

// All invocations load the stop ids early; a barrier before step_end() makes them visible. Their
// number is limited here, and not at the end of the loop: see "Loops" of docs/kernels.md.
void stop_ids_fetch(uint tid)
{
    for (uint i = tid; i < 33u; i += uint(LOCAL_X))
        stop_ids[i] = i == 0u ? min(STOPS[0], 32u) : STOPS[i];
}

// Called by one invocation. Returns true if the sequence has stopped.
bool step_end(uint id)
{
    uint pos = step_pos + step_tokens;
    uint stopped = pos >= step_context ? 2u : 0u;
    for (uint i = 0u; i < stop_ids[0]; i++)
        if (stop_ids[1u + i] == id && (step_flags & 1u) == 0u)
            stopped = 1u;
    stopped = id == NOBODY ? 3u : stopped;
    IDS[row_ids(step_row) + pos] = id; // NOBODY is no id: the host sees that something is wrong
    STEP[STEP_pos] = pos;
    STEP[STEP_tokens] = 1u;
#if !KIND_greedy
    STEP[STEP_draws] = step_draws + 1u;
#endif
    STEP[STEP_stopped] = stopped;
    return stopped != 0u;
}
