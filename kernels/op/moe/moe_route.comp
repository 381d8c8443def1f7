// The experts of each token and their weights, one work group per token.
//
// An expert's rank is the number of experts that beat it: more logit, or as much and a lower id.
// Every thread counts that for its experts over all E keys in shared memory; an expert with a rank
// below TOP_K is chosen, and the rank is its place. Keys are logits mapped to integers of the same
// order, so that ranks are a permutation whatever the logits are. softmax_topk_norm is computed as
// topk_softmax, which is equal: the sum over all experts cancels. Groups: a token each.
//
//! NAME moe_route
//! OP moe_route
//! VARIANT baseline
//! WHEN scoring topk_softmax softmax_topk softmax_topk_norm
//! BIND read float LOGITS
//! BIND write uvec2 ROUTE
//! CONST E TOP_K L_STRIDE
//! TUNE WG_SIZE = E > 64 ? 128 : E > 32 ? 64 : 32 in 32 64 128
//! LOCAL WG_SIZE
//! GROUPS T
//! SHARED uint keys[E]
//! SHARED uint ids[TOP_K] // by rank
//! SHARED float chosen[TOP_K] // their logits
//! SHARED float part[WG_SIZE]
//! REQUIRE E <= 512 && TOP_K <= E && TOP_K >= 1
//! PREFER 10
//! STEP read

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
    uint mine = keys[e], rank = 0u;
    for (uint i = 0u; i < uint(E); i++) {
        uint other = keys[i];
        rank += other > mine || (other == mine && i < e) ? 1u : 0u;
    }
    return rank;
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, t = min(group.x, pass_rows - 1u);
    for (uint e = tid; e < uint(E); e += uint(WG_SIZE))
        keys[e] = key_of(LOGITS[t * uint(L_STRIDE) + e]);
    memoryBarrierShared(); barrier();
    for (uint e = tid; e < uint(E); e += uint(WG_SIZE)) {
        uint rank = rank_of(e);
        if (rank < uint(TOP_K)) {
            ids[rank] = e;
            chosen[rank] = logit_of(keys[e]);
        }
    }
    memoryBarrierShared(); barrier();
    float max_logit = chosen[0], sum = 0.0;
#if SCORING_softmax_topk
    for (uint e = tid; e < uint(E); e += uint(WG_SIZE))
        sum += exp(logit_of(keys[e]) - max_logit);
#else
    for (uint s = tid; s < uint(TOP_K); s += uint(WG_SIZE))
        sum += exp(chosen[s] - max_logit);
#endif
    part[tid] = sum;
    memoryBarrierShared(); barrier();
    sum = 0.0;
    for (uint i = 0u; i < uint(WG_SIZE); i++)
        sum += part[i];
    for (uint s = tid; s < uint(TOP_K); s += uint(WG_SIZE))
        ROUTE[t * uint(TOP_K) + s] =
            uvec2(ids[s], floatBitsToUint(exp(chosen[s] - max_logit) / sum));
}
