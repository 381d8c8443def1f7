// The experts of one token and their weights, by all invocations of a group (docs/operations.md,
// moe_route).
//
// An expert's rank is the number of experts that beat it: more logit, or as much and a lower id.
// Every invocation counts that for its experts over all E keys in shared memory; an expert with a
// rank below TOP_K is chosen, and the rank is its place. Keys are logits mapped to integers of the
// same order, so that ranks are a permutation whatever the logits are. softmax_topk_norm is
// computed as topk_softmax, which is equal: the sum over all experts cancels.
//
//! SHARED uint rank_keys[E]
//! SHARED uint rank_ids[TOP_K] // by rank
//! SHARED float rank_logits[TOP_K] // of those chosen
//! SHARED float rank_part[LOCAL_X]
//
// Needs `uvec2 ROUTE[]`, WHEN scoring, the constants E and TOP_K, and a function of the kernel:
float rank_logit(uint e); // of expert e

// Larger logits have larger keys; equal ones, such as -0 and 0, equal keys.
uint key_of(float logit)
{
    uint bits = floatBitsToUint(logit == 0.0 ? 0.0 : logit);
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

float logit_of(uint key)
{
    return uintBitsToFloat((key & 0x80000000u) != 0u ? key & 0x7FFFFFFFu : ~key);
}

uint rank_of(uint e)
{
    uint mine = rank_keys[e], rank = 0u;
    for (uint i = 0u; i < uint(E); i++) {
        uint other = rank_keys[i];
        rank += other > mine || (other == mine && i < e) ? 1u : 0u;
    }
    return rank;
}

// Writes ROUTE of token t.
void rank_experts(uint tid, uint t)
{
    for (uint e = tid; e < uint(E); e += uint(LOCAL_X))
        rank_keys[e] = key_of(rank_logit(e));
    memoryBarrierShared(); barrier();
    for (uint e = tid; e < uint(E); e += uint(LOCAL_X)) {
        uint rank = rank_of(e);
        if (rank < uint(TOP_K)) {
            rank_ids[rank] = e;
            rank_logits[rank] = logit_of(rank_keys[e]);
        }
    }
    memoryBarrierShared(); barrier();
    float max_logit = rank_logits[0], sum = 0.0;
#if SCORING_softmax_topk
    for (uint e = tid; e < uint(E); e += uint(LOCAL_X))
        sum += exp(logit_of(rank_keys[e]) - max_logit);
#else
    for (uint s = tid; s < uint(TOP_K); s += uint(LOCAL_X))
        sum += exp(rank_logits[s] - max_logit);
#endif
    rank_part[tid] = sum;
    memoryBarrierShared(); barrier();
    sum = 0.0;
    for (uint i = 0u; i < uint(LOCAL_X); i++)
        sum += rank_part[i];
    for (uint s = tid; s < uint(TOP_K); s += uint(LOCAL_X))
        ROUTE[t * uint(TOP_K) + s] =
            uvec2(rank_ids[s], floatBitsToUint(exp(rank_logits[s] - max_logit) / sum));
}
