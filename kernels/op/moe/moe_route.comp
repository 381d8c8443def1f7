// The experts of each token and their weights, one work group per token.
//
// An expert's rank is the number of experts that beat it: more logit, or as much and a lower id.
// Every lane counts that for its experts over all E keys in shared memory; whoever has a rank below
// TOP_K is chosen and knows its place. Keys are logits mapped to integers of the same order, so
// that ranks are a permutation whatever the logits are. softmax_topk_norm is computed as
// topk_softmax, which it is: the sum over all experts cancels.
//
//! NAME moe_route
//! OP moe_route
//! VARIANT baseline
//! WHEN scoring topk_softmax softmax_topk softmax_topk_norm
//! BIND read float LOGITS
//! BIND write uvec2 ROUTE
//! CONST E TOP_K L_STRIDE
//! TUNE LANES = E > 64 ? 128 : E > 32 ? 64 : 32 in 32 64 128
//! LOCAL LANES
//! GROUPS T
//! SHARED uint keys[E]
//! SHARED uint ids[TOP_K] // by rank
//! SHARED float chosen[TOP_K] // their logits
//! SHARED float part[LANES]
//! REQUIRE E <= 512 && TOP_K <= E && TOP_K >= 1
//! PREFER 10
//! STEP read

// Larger logits have larger keys; equal ones, -0 and 0 among them, the same.
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
    uint lane = gl_LocalInvocationID.x, t = min(group.x, step_tokens - 1u);
    for (uint e = lane; e < uint(E); e += uint(LANES))
        keys[e] = key_of(LOGITS[t * uint(L_STRIDE) + e]);
    memoryBarrierShared(); barrier();
    for (uint e = lane; e < uint(E); e += uint(LANES)) {
        uint rank = rank_of(e);
        if (rank < uint(TOP_K)) {
            ids[rank] = e;
            chosen[rank] = logit_of(keys[e]);
        }
    }
    memoryBarrierShared(); barrier();
    float top = chosen[0], sum = 0.0;
#if SCORING_softmax_topk
    for (uint e = lane; e < uint(E); e += uint(LANES))
        sum += exp(logit_of(keys[e]) - top);
#else
    for (uint s = lane; s < uint(TOP_K); s += uint(LANES))
        sum += exp(chosen[s] - top);
#endif
    part[lane] = sum;
    memoryBarrierShared(); barrier();
    sum = 0.0;
    for (uint i = 0u; i < uint(LANES); i++)
        sum += part[i];
    for (uint s = lane; s < uint(TOP_K); s += uint(LANES))
        ROUTE[t * uint(TOP_K) + s] = uvec2(ids[s], floatBitsToUint(exp(chosen[s] - top) / sum));
}
