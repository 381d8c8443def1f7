// The top_k best logits of each slice of 2048: keys and ids, ties to the lowest id, in no order of
// rank.
//
//! NAME sample_topk
//! OP sample_topk
//! VARIANT baseline
//! WHEN kind topk
//! BIND read uint LOGITS
//! BIND write uint CAND
//! CONST VOCAB
//! STEP read
//! LOCAL SOFTWARE ? 32 : min(256, MAX_INVOCATIONS)
//! GROUPS ceildiv(VOCAB, 2048)
//! LIB fixed
//! LIB sample
//! LIB select

// What select_key() and select_take() refer to: the slice, and whether the step is still running.
uint slice;
bool live;

uint select_key(uint i)
{
    return sample_key(LOGITS[slice * SLICE + i]);
}

void select_take(uint slot, uint i)
{
    uint at = CAND_FIRST + 2u * (slice * 128u + slot);
    if (live) {
        CAND[at] = select_key(i);
        CAND[at + 1u] = slice * SLICE + i;
    }
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x;
    live = step_stopped == 0u && group.x < SLICES;
    slice = min(group.x, SLICES - 1u);
    uint count = min(SLICE, uint(VOCAB) - slice * SLICE);
    uint wanted = clamp(step_top_k, 1u, 128u);
    uint k = min(wanted, count);
    select_best(lane, count, k);
    for (uint i = k + lane; i < wanted; i += uint(LOCAL_X)) {
        uint at = CAND_FIRST + 2u * (slice * 128u + i);
        if (live) {
            CAND[at] = 0u;
            CAND[at + 1u] = 0xffffffffu;
        }
    }
}
