// Top-p, min-p, temperature and draw among the top_k best, at most 128: ranks and running masses
// are found by comparison with all of them. Needs libs uint64, sample and philox, the step state
// and lib step_end. Empty unless the kind is topk.
//
//! SHARED uvec4 chosen[KIND_topk ? 128 : 0] // key, id, weight at temperature 1
//! SHARED uint exponents[KIND_topk ? 128 : 0]
//! SHARED uvec2 tempered[KIND_topk ? 128 : 0]
//! SHARED uint picked

#if KIND_topk
// Mass before token i in order of exponents, ties in order of ids, is below the target of top-p.
bool within_top_p(uint i, uint wanted, uvec2 target)
{
    uvec2 before = uvec2(0u);
    for (uint j = 0u; j < wanted; j++) {
        bool tie = exponents[j] == exponents[i] && chosen[j].y < chosen[i].y;
        if (exponents[j] < exponents[i] || tie)
            before = u64_add(before, chosen[j].zw);
    }
    return u64_less(before, target);
}

// The id drawn from chosen[0 .. wanted), whose keys and ids are there; all invocations call it.
uint topk_draw(uint tid, uint wanted)
{
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
    uvec2 target = sample_target(sum, step_top_p_q);
    uvec2 least = sample_min_weight(step_min_p_q);
    for (uint i = tid; i < wanted; i += uint(LOCAL_X)) {
        bool keep = step_top_p_q == 0u || within_top_p(i, wanted, target);
        keep = keep && !u64_less(chosen[i].zw, least);
        uint exponent = sample_tempered(exponents[i], floatBitsToUint(step_inv_temp));
        tempered[i] = keep ? sample_weight(exponent) : uvec2(0u);
    }
    memoryBarrierShared(); barrier();

    sum = uvec2(0u);
    for (uint j = 0u; j < wanted; j++)
        sum = u64_add(sum, tempered[j]);
    uvec2 bits = draw_bits(step_draws, step_seed_lo, step_seed_hi);
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
