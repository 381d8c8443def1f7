// The chosen token's id, and the step state advanced by it: position, draws, stop ids, the end.
//
// With kind=greedy, the id is the best of the slices' best. With kind=topk, it is drawn from the
// top_k best of the slices' candidates after top-p, min-p and temperature. Ranks and running masses
// are found by comparison with all candidates, at most 128. With kind=full, it is the id that
// sample_find left in CAND[0]. STOPS is a count, then as many ids.
//
// Layout: y is a row; each row has one work group.
//
// Choice: it is the only kernel of this operation. On GPUs, sample_next replaces the operation if
// it can run, except with kind=full.
//
// TUNEs: WG_SIZE is the group size.
//
// Utilisation: kind=greedy has one number per 2,048 ids, kind=full one id. One group of 32 takes as
// long as one of 128 (3.06 and 3.00 us, one H200, driver 580, 2026-11-23).
//
//! NAME sample_pick
//! OP sample_pick
//! VARIANT baseline
//! WHEN kind greedy topk full
//! BIND read uint CAND
//! BIND read uint STOPS
//! BIND write uint IDS
//! BIND readwrite uint STEP
//! CONST VOCAB
//! STEP readwrite
//! TUNE WG_SIZE = SOFTWARE ? 32 : KIND_topk && MAX_INVOCATIONS >= 512 ? 512 : 128 in 32 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1 T
//! ACTIVE T * (KIND_greedy ? min(WG_SIZE, ceildiv(VOCAB, 2048)) : KIND_full ? 1 : WG_SIZE)
//! SHARED uvec2 part[KIND_greedy ? LOCAL_X : 0]
//! LIB uint64
//! LIB sample
//! LIB philox
//! LIB step_end
//! LIB topk_draw
//! LIB radix_topk

#if KIND_topk
uint wanted;

uint slot_of(uint i)
{
    return CAND_FIRST + 2u * (i / wanted * 128u + i % wanted);
}

uint radix_topk_key(uint i)
{
    return CAND[slot_of(i)];
}

void radix_topk_take(uint slot, uint i)
{
    chosen[slot] = uvec4(CAND[slot_of(i)], CAND[slot_of(i) + 1u], 0u, 0u);
}

uint choose(uint tid)
{
    radix_topk(tid, SLICES * wanted, wanted);
    return topk_draw(tid, wanted);
}
#endif

#if KIND_greedy

uint choose(uint tid)
{
    uvec2 best = uvec2(0u, NOBODY);
    for (uint s = tid; s < SLICES; s += uint(LOCAL_X)) {
        uvec2 other = uvec2(CAND[CAND_FIRST + 2u * s], CAND[CAND_FIRST + 2u * s + 1u]);
        if (other.x > best.x)
            best = other;
    }
    part[tid] = best;
    memoryBarrierShared(); barrier();
    for (uint l = 0u; l < min(uint(LOCAL_X), SLICES); l++) // those that had a slice
        if (part[l].x > best.x || (part[l].x == best.x && part[l].y < best.y))
            best = part[l];
    return best.y;
}
#endif

#if KIND_full
uint choose(uint tid)
{
    return CAND[CAND_ROW];
}
#endif

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x;
#if KIND_topk
    wanted = clamp(step_top_k, 1u, 128u);
#endif
    bool running = group.x == 0u && sample_runs(KIND_greedy != 0 ? SAMPLE_GREEDY
                                              : KIND_topk != 0 ? SAMPLE_TOPK
                                                               : SAMPLE_FULL);
    stop_ids_fetch(tid);
    uint id = choose(tid);
    memoryBarrierShared(); barrier();
    if (running && tid == 0u)
        step_end(id);
}
