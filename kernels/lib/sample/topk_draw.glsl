// Top-p, min-p, temperature and draw among the top_k best logits, at most 128.
//
// Ranks and running masses are found by comparison with all candidates. Needs libs uint64, sample
// and philox, the step state and lib step_end. The lib is empty unless the kind is topk.
//
//! LET TOPK_AT_ONCE = SOFTWARE ? 1 : 8
//! SHARED uvec4 chosen[KIND_topk ? 128 : 0] // fixed: largest top_k; key, id, weight
//! SHARED uint exponents[KIND_topk ? 128 : 0] // fixed: largest top_k
//! SHARED uvec2 tempered[KIND_topk ? 128 : 0] // fixed: largest top_k
//! SHARED uint picked

#if KIND_topk
// Runs `body` for all elements of chosen, eight at a time, so that their loads do not wait for each
// other. Elements beyond `wanted` have weight 0. In software this is not faster, and the text would
// cost 80 ms of compiling (llvmpipe of Mesa 22.3.6).
#if TOPK_AT_ONCE == 8
#define TOPK_EACH(body) \
    for (uint j8 = 0u; j8 < wanted; j8 += 8u) { \
        body(j8) body(j8 + 1u) body(j8 + 2u) body(j8 + 3u) \
        body(j8 + 4u) body(j8 + 5u) body(j8 + 6u) body(j8 + 7u) \
    }
#else
#define TOPK_EACH(body) \
    for (uint j = 0u; j < wanted; j++) { \
        body(j) \
    }
#endif
#define TOPK_BEST(j) best = max(best, chosen[j].x);
// The mass before a token (exponent, id) in order of exponents, with ties in order of ids, and the
// whole mass.
#define TOPK_MASS(j) \
    { \
        uvec4 other = chosen[j]; \
        uint power = exponents[j]; \
        uint first = uint(power < exponent) | (uint(power == exponent) & uint(other.y < id)); \
        sum = u64_add(sum, other.zw); \
        before = u64_add(before, first * other.zw); \
    }
// The same of tempered weights in order of ids.
#define TOPK_TEMPERED(j) \
    { \
        uvec2 mass = tempered[j]; \
        sum = u64_add(sum, mass); \
        before = u64_add(before, uint(chosen[j].y < id) * mass); \
    }

// Returns the id drawn from chosen[0 .. wanted). Their keys and ids must be stored before. All
// invocations call it.
uint topk_draw(uint tid, uint wanted)
{
    uint best = 0u;
    if (tid == 0u)
        picked = NOBODY;
    for (uint i = tid; i < 128u; i += uint(LOCAL_X)) {
        if (i >= wanted)
            chosen[i] = uvec4(0u, NOBODY, 0u, 0u);
        exponents[i] = NEVER;
        tempered[i] = uvec2(0u);
    }
    memoryBarrierShared(); barrier();
    TOPK_EACH(TOPK_BEST)
    for (uint i = tid; i < wanted; i += uint(LOCAL_X)) {
        exponents[i] = sample_exponent(chosen[i].x, best);
        chosen[i].zw = sample_weight(exponents[i]);
    }
    memoryBarrierShared(); barrier();

    for (uint i = tid; i < wanted; i += uint(LOCAL_X)) {
        uint id = chosen[i].y, exponent = exponents[i];
        uvec2 sum = uvec2(0u), before = uvec2(0u);
        TOPK_EACH(TOPK_MASS)
        bool keep = step_top_p_q == 0u || u64_less(before, sample_target(sum, step_top_p_q));
        keep = keep && !u64_less(chosen[i].zw, sample_min_weight(step_min_p_q));
        if (keep)
            tempered[i] =
                sample_weight(sample_tempered(exponent, floatBitsToUint(step_inv_temp)));
    }
    memoryBarrierShared(); barrier();

    uvec2 bits = draw_bits(step_draws, step_seed_lo, step_seed_hi);
    for (uint i = tid; i < wanted; i += uint(LOCAL_X)) {
        uint id = chosen[i].y;
        uvec2 sum = uvec2(0u), before = uvec2(0u);
        TOPK_EACH(TOPK_TEMPERED)
        uvec2 draw = u64_mul_high(bits, sum);
        if (best != 0u && !u64_less(draw, before) &&
            u64_less(draw, u64_add(before, tempered[i])))
            picked = id;
    }
    memoryBarrierShared(); barrier();
    return picked;
}
#endif
