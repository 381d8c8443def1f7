// The chosen token's id, and the step state advanced by it: position, draws, stop ids, a full
// context.
//
// kind=greedy: the best of the slices' best. kind=topk: the top_k best of the slices' candidates,
// then top-p, min-p, temperature and draw among them; ranks and running masses are found by
// comparison with all of them, at most 128. kind=full: the id that sample_find left in CAND[0].
// STOPS is a count and as many ids. One group.
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
//! STEP write
//! TUNE WG_SIZE = SOFTWARE ? 32 : KIND_topk && MAX_INVOCATIONS >= 512 ? 512 : 128 in 32 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1
//! SHARED uvec4 chosen[KIND_topk ? 128 : 0] // key, id, weight at temperature 1
//! SHARED uint exponents[KIND_topk ? 128 : 0]
//! SHARED uvec2 tempered[KIND_topk ? 128 : 0]
//! SHARED uint picked
//! SHARED uvec2 part[KIND_greedy ? LOCAL_X : 0]
//! LIB uint64
//! LIB sample
//! LIB philox
//! LIB radix_topk

const uint NOBODY = 0xffffffffu;

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

// Mass before token i in order of exponents, ties in order of ids, is below the target of top-p.
bool within_top_p(uint i, uvec2 target)
{
    uvec2 before = uvec2(0u);
    for (uint j = 0u; j < wanted; j++) {
        bool tie = exponents[j] == exponents[i] && chosen[j].y < chosen[i].y;
        if (exponents[j] < exponents[i] || tie)
            before = u64_add(before, chosen[j].zw);
    }
    return u64_less(before, target);
}

uint choose(uint tid)
{
    radix_topk(tid, SLICES * wanted, wanted);
    uint best = 0u;
    for (uint j = 0u; j < wanted; j++)
        best = max(best, chosen[j].x);
    memoryBarrierShared(); barrier();
    for (uint i = tid; i < wanted; i += uint(LOCAL_X)) {
        exponents[i] = sample_exponent(chosen[i].x, best);
        chosen[i].zw = sample_weight(exponents[i]);
    }
    if (tid == 0u)
        picked = NOBODY;
    memoryBarrierShared(); barrier();

    uvec2 sum = uvec2(0u);
    for (uint j = 0u; j < wanted; j++)
        sum = u64_add(sum, chosen[j].zw);
    uvec2 target = sample_target(sum, STEP[STEP_top_p_q]);
    uvec2 least = sample_min_weight(STEP[STEP_min_p_q]);
    for (uint i = tid; i < wanted; i += uint(LOCAL_X)) {
        bool keep = STEP[STEP_top_p_q] == 0u || within_top_p(i, target);
        keep = keep && !u64_less(chosen[i].zw, least);
        uint exponent = sample_tempered(exponents[i], STEP[STEP_inv_temp]);
        tempered[i] = keep ? sample_weight(exponent) : uvec2(0u);
    }
    memoryBarrierShared(); barrier();

    sum = uvec2(0u);
    for (uint j = 0u; j < wanted; j++)
        sum = u64_add(sum, tempered[j]);
    uvec2 bits = draw_bits(STEP[STEP_draws], STEP[STEP_seed_lo], STEP[STEP_seed_hi]);
    uvec2 draw = u64_mul_high(bits, sum);
    for (uint i = tid; i < wanted; i += uint(LOCAL_X)) {
        uvec2 before = uvec2(0u);
        for (uint j = 0u; j < wanted; j++)
            if (chosen[j].y < chosen[i].y)
                before = u64_add(before, tempered[j]);
        if (best != 0u && !u64_less(draw, before) && u64_less(draw, u64_add(before, tempered[i])))
            picked = chosen[i].y;
    }
    memoryBarrierShared(); barrier();
    return picked;
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
    for (uint l = 0u; l < uint(LOCAL_X); l++)
        if (part[l].x > best.x || (part[l].x == best.x && part[l].y < best.y))
            best = part[l];
    return best.y;
}
#endif

#if KIND_full
uint choose(uint tid)
{
    return CAND[0];
}
#endif

// The step's end: `id` is NOBODY when no logit was a number.
void advance(uint id)
{
    uint pos = STEP[STEP_pos] + STEP[STEP_tokens];
    uint stopped = pos >= STEP[STEP_context] ? 2u : 0u;
    for (uint i = 0u; i < min(STOPS[0], 32u); i++)
        if (STOPS[1u + i] == id && STEP[STEP_ignore_eos] == 0u)
            stopped = 1u;
    IDS[pos] = id; // NOBODY is no id: the host sees that something is wrong
    STEP[STEP_pos] = pos;
    STEP[STEP_tokens] = 1u;
#if !KIND_greedy
    STEP[STEP_draws]++;
#endif
    STEP[STEP_stopped] = id == NOBODY ? 3u : stopped;
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
#if KIND_topk
    wanted = clamp(STEP[STEP_top_k], 1u, 128u);
#endif
    bool running = STEP[STEP_stopped] == 0u && group.x == 0u;
    uint id = choose(tid);
    memoryBarrierShared(); barrier(); // everyone has read STEP
    if (running && tid == 0u)
        advance(id);
}
