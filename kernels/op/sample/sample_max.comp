// The best logit of each slice of 2048: key and id, ties to the lowest id.
//
// LOGITS is [T][VOCAB] f32. The result of slice s is stored at CAND_FIRST + 2 s of CAND as (key,
// id). Keys order logits as unsigned integers (lib sample).
//
// Layout: work group x is slice x, y the row. Each invocation reads every WG_SIZE-th logit. Then
// every invocation finds the best of all their results in shared memory. With kind=full, all groups
// together also clear the histograms of sample_hist, and the last group initializes lib nucleus.
//
// Choice: it is the only kernel of this operation. On GPUs, sample_next replaces the operation if
// it can run, except with kind=full.
//
// TUNEs: WG_SIZE is the group size. WIDE selects 256 invocations for devices with subgroups of 64
// and few registers.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). LLVM 15 unrolls the loop over
// 128 invocations and spills 8 (navi21) to 138 (navi31) registers. With 256 invocations it keeps
// the loop and spills none.
//
//! NAME sample_max
//! OP sample_max
//! VARIANT baseline
//! WHEN kind greedy full
//! BIND read uint LOGITS
//! BIND coherent uint CAND
//! BIND coherent uint ARRIVED
//! CONST VOCAB
//! STEP read
//! TUNE WIDE = SUBGROUP_SIZE == 64 && REGISTERS <= 93 in 0 1
//! TUNE WG_SIZE = SOFTWARE ? 32 : WIDE ? 256 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS ceildiv(VOCAB, 2048) T // fixed: a slice of docs/operations.md
//! ACTIVE T * min(ceildiv(VOCAB, 2048) * WG_SIZE, VOCAB)
//! SHARED uvec2 best[LOCAL_X]
//! LIB uint64
//! LIB sample
//! LIB nucleus
//! LIB nucleus_step
//! LIB arrival
//! LIB last_group

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x;
    uint begin = group.x * SLICE, end = min(begin + SLICE, uint(VOCAB));
    uint key = 0u, id = begin;
    for (uint i = begin + tid; i < end; i += uint(LOCAL_X)) {
        uint other = sample_key(LOGITS[logit_at(i)]);
        id = other > key ? i : id;
        key = max(key, other);
    }
    best[tid] = uvec2(key, id);
    memoryBarrierShared(); barrier();
    // Every invocation runs this loop, not only the first: on llvmpipe, a load in a branch becomes
    // a loop over the invocations.
    for (uint l = 0u; l < uint(LOCAL_X); l++) {
        uvec2 other = best[l];
        bool better = other.x > key || (other.x == key && key != 0u && other.y < id);
        key = better ? other.x : key;
        id = better ? other.y : id;
    }
    if (!sample_runs(KIND_full != 0 ? SAMPLE_FULL : SAMPLE_GREEDY) || begin >= uint(VOCAB))
        return;
    if (tid == 0u) {
        CAND[CAND_FIRST + 2u * group.x] = key;
        CAND[CAND_FIRST + 2u * group.x + 1u] = id;
    }
#if KIND_full
    for (uint i = group.x * uint(LOCAL_X) + tid; i < 6144u; i += SLICES * uint(LOCAL_X))
        CAND[CAND_HIST + i] = 0u;
    if (last_group(step_row, SLICES))
        nucleus_begin(tid, step_top_p_q);
#endif
}
