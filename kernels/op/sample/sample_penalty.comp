// Repetition penalty: multiplies the logit of every distinct id among the last repeat_last_n
// tokens, in place.
//
// LOGITS is [VOCAB] f32, IDS the ids of the sequence, of which at most 1024 count. Positive logits
// are multiplied by 1 / penalty (rounded once on the host, since GLSL's division is not exact),
// others by the penalty. One group; a hash table of ids in shared memory (open addressing, at most
// half full) makes the first invocation that meets an id act for all.
//
//! NAME sample_penalty
//! OP sample_penalty
//! VARIANT baseline
//! BIND readwrite uint LOGITS
//! BIND read uint IDS
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256
//! LOCAL WG_SIZE
//! GROUPS 1
//! LET SLOTS = 2048
//! SHARED uint seen[SLOTS]

const uint FREE = 0xffffffffu;

// Whether this call is the first for `id` in its group.
bool first_sight(uint id)
{
    uint slot = (id * 2654435761u) >> 21;
    for (uint tries = 0u; tries < uint(SLOTS); tries++) {
        uint found = atomicCompSwap(seen[slot], FREE, id);
        if (found == FREE)
            return true;
        if (found == id)
            return false;
        slot = (slot + 1u) % uint(SLOTS);
    }
    return false;
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    for (uint i = tid; i < uint(SLOTS); i += uint(LOCAL_X))
        seen[i] = FREE;
    memoryBarrierShared(); barrier();
    uint end = step_pos + step_tokens;
    uint count = min(min(step_repeat_last_n, 1024u), end);
    if (step_stopped != 0u || group.x != 0u)
        count = 0u;
    for (uint i = tid; i < count; i += uint(LOCAL_X)) {
        uint id = IDS[end - 1u - i];
        if (id < uint(VOCAB) && first_sight(id)) {
            float x = uintBitsToFloat(LOGITS[id]);
            LOGITS[id] = floatBitsToUint(x * (x > 0.0 ? step_repeat_inverse : step_repeat_penalty));
        }
    }
}
