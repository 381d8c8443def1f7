// The experts of one token and their weights, by all invocations of a group (docs/operations.md,
// moe_route).
//
// The rank of an expert is the number of experts that beat it: those with a larger logit, or with
// the same logit and a lower id. Every invocation computes the ranks of its experts by comparison
// with all E keys in shared memory. An expert with a rank below TOP_K is chosen, and the rank is
// its place. Keys are logits mapped to integers of the same order. Integers are always comparable,
// so ranks are unique even if a logit is NaN.
//
// softmax_topk_norm needs no code of its own: its normalization cancels the sum over all experts,
// so it equals topk_softmax.
//
// Keys are stored in fours. An invocation compares with four at a time, so that no comparison waits
// for the one before it. No sum depends on the number of invocations.
//
//! SHARED uvec4 rank_keys[ceildiv(E, 4)]
//! SHARED uint rank_ids[TOP_K] // by rank
//! SHARED float rank_logits[TOP_K] // logits of the chosen experts, by rank
//! SHARED float rank_part[SCORING_softmax_topk ? 16 : 0] // fixed: the order of a sum
//
// Needs `uvec2 ROUTE[]`, WHEN scoring, the constants E and TOP_K, and a function of the kernel:
float rank_logit(uint e); // of expert e

// A larger logit has a larger key. Equal logits, such as -0 and 0, have equal keys.
uint key_of(float logit)
{
    uint bits = floatBitsToUint(logit == 0.0 ? 0.0 : logit);
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

float logit_of(uint key)
{
    return uintBitsToFloat((key & 0x80000000u) != 0u ? key & 0x7FFFFFFFu : ~key);
}

uint rank_key(uint e)
{
    return rank_keys[e / 4u][e % 4u];
}

uint rank_of(uint e)
{
    uint mine = rank_key(e);
    uvec4 ranks = uvec4(0u);
    for (int i = 0; i < (E + 3) / 4; i++) {
        uvec4 keys = rank_keys[i], ids = uint(4 * i) + uvec4(0u, 1u, 2u, 3u);
        ranks += uvec4(greaterThan(keys, uvec4(mine)));
        ranks += uvec4(equal(keys, uvec4(mine))) * uvec4(lessThan(ids, uvec4(e)));
    }
    return ranks.x + ranks.y + (ranks.z + ranks.w);
}

// Places beyond the experts have the least key, which beats no expert.
uint key_at(uint e)
{
    return e < uint(E) ? key_of(rank_logit(e)) : 0u;
}

// Writes ROUTE of token t.
void rank_experts(uint tid, uint t)
{
    for (uint i = tid; i < uint(E + 3) / 4u; i += uint(LOCAL_X))
        rank_keys[i] = uvec4(key_at(4u * i), key_at(4u * i + 1u), key_at(4u * i + 2u),
                             key_at(4u * i + 3u));
    memoryBarrierShared(); barrier();
    for (uint e = tid; e < uint(E); e += uint(LOCAL_X)) {
        uint rank = rank_of(e);
        if (rank < uint(TOP_K)) {
            rank_ids[rank] = e;
            rank_logits[rank] = logit_of(rank_key(e));
        }
    }
    memoryBarrierShared(); barrier();
    float max_logit = rank_logits[0], sum = 0.0;
#if SCORING_softmax_topk
    // `end` is not a constant, so that compilers do not unroll the loop (up to 32 rounds): see
    // "Loops" of docs/kernels.md.
    uint end = tid < 16u ? uint(E) : 0u;
    for (uint e = tid; e < end; e += 16u) // fixed: the order of the sum
        sum += exp(logit_of(rank_key(e)) - max_logit);
    if (tid < 16u)
        rank_part[tid] = sum;
    memoryBarrierShared(); barrier();
    sum = 0.0;
    for (int i = 0; i < 16; i++)
        sum += rank_part[i];
#else
    for (int s = 0; s < TOP_K; s++)
        sum += exp(rank_logits[s] - max_logit);
#endif
    for (uint s = tid; s < uint(TOP_K); s += uint(LOCAL_X))
        ROUTE[t * uint(TOP_K) + s] =
            uvec2(rank_ids[s], floatBitsToUint(exp(rank_logits[s] - max_logit) / sum));
}
