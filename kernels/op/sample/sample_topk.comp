// The top_k best logits of each slice of 2048: keys and ids in no order, ties to the lowest id.
//
// LOGITS is [T][VOCAB] f32. The result of slice s is stored at CAND_FIRST + 256 s of CAND as up to
// 128 pairs (key, id). If a slice has fewer logits than top_k, it is padded with key 0.
//
// Layout: work group x is slice x, y the row.
//
// Choice: it is the only kernel of this operation. On GPUs, sample_next replaces the operation if
// it can run.
//
// TUNEs: WG_SIZE is the group size.
//
//! NAME sample_topk
//! OP sample_topk
//! VARIANT baseline
//! WHEN kind topk
//! BIND read uint LOGITS
//! BIND write uint CAND
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : MAX_INVOCATIONS >= 256 ? 256 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS ceildiv(VOCAB, 2048) T // fixed: a slice of docs/operations.md
//! ACTIVE T * min(ceildiv(VOCAB, 2048) * WG_SIZE, VOCAB)
//! LIB uint64
//! LIB sample
//! LIB radix_topk

// For radix_topk_key() and radix_topk_take(): the slice, and whether the step is still running.
uint slice;
bool live;

uint radix_topk_key(uint i)
{
    return sample_key(LOGITS[logit_at(slice * SLICE + i)]);
}

void radix_topk_take(uint slot, uint i)
{
    uint at = CAND_FIRST + 2u * (slice * 128u + slot);
    if (live) {
        CAND[at] = radix_topk_key(i);
        CAND[at + 1u] = slice * SLICE + i;
    }
}

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x;
    live = sample_runs(SAMPLE_TOPK) && group.x < SLICES;
    slice = min(group.x, SLICES - 1u);
    uint count = min(SLICE, uint(VOCAB) - slice * SLICE);
    uint wanted = clamp(step_top_k, 1u, 128u);
    uint k = min(wanted, count);
    radix_topk(tid, count, k);
    for (uint i = k + tid; i < wanted; i += uint(LOCAL_X)) {
        uint at = CAND_FIRST + 2u * (slice * 128u + i);
        if (live) {
            CAND[at] = 0u;
            CAND[at + 1u] = 0xffffffffu;
        }
    }
}
