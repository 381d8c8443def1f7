// Repetition, presence and frequency penalties of the ids among the last tokens, in place.
//
// LOGITS is [T][VOCAB] f32, IDS the ids of the sequence. Positive logits are multiplied by 1 /
// penalty (rounded once on the host, since GLSL's division is not exact), others by the penalty;
// then frequency * occurrences + presence (ADJUST, lib adjust) is subtracted, each step rounded.
//
// A group per row. COUNTS is scratch of a word per id; only those of the window are cleared,
// counted and taken, so that the cost does not depend on the vocabulary. The invocation that takes
// a count acts for all that saw the id. Utilisation: as many invocations have work as the window
// has ids.
//
//! NAME sample_penalty
//! OP sample_penalty
//! VARIANT baseline
//! BIND readwrite uint LOGITS
//! BIND read uint IDS
//! BIND read uint ADJUST
//! BIND readwrite uint COUNTS
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1 T
//! SHARED uint rounded_slot[LOCAL_X]
//! LIB adjust
//! LIB rounded

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x, first = step_row * uint(VOCAB);
    uint end = row_ids(step_row) + step_pos + step_tokens;
    uint count = min(step_repeat_last_n, step_pos + step_tokens);
    if (step_stopped != 0u || group.x != 0u)
        count = 0u;
    for (uint i = tid; i < count; i += uint(LOCAL_X))
        if (IDS[end - 1u - i] < uint(VOCAB))
            atomicExchange(COUNTS[first + IDS[end - 1u - i]], 0u);
    memoryBarrierBuffer(); barrier();
    for (uint i = tid; i < count; i += uint(LOCAL_X))
        if (IDS[end - 1u - i] < uint(VOCAB))
            atomicAdd(COUNTS[first + IDS[end - 1u - i]], 1u);
    memoryBarrierBuffer(); barrier();
    float presence = uintBitsToFloat(adjust_word(ADJUST_PRESENCE));
    float frequency = uintBitsToFloat(adjust_word(ADJUST_FREQUENCY));
    for (uint i = tid; i < count; i += uint(LOCAL_X)) {
        uint id = IDS[end - 1u - i];
        uint times = id < uint(VOCAB) ? atomicExchange(COUNTS[first + id], 0u) : 0u;
        if (times != 0u) {
            float x = uintBitsToFloat(LOGITS[first + id]);
            x = rounded(x * (x > 0.0 ? step_repeat_inverse : step_repeat_penalty));
            float cost = rounded(float(times) * frequency) + presence;
            LOGITS[first + id] = floatBitsToUint(x - cost);
        }
    }
}
