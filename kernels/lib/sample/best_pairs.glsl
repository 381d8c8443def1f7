// The best of (key, id) pairs, larger keys first, then lower ids: an order without ties.
//
// To find the k best of many: the k-th best of one pair per invocation, each the best that the
// invocation has, is an edge that none of the k best lies behind, and few others lie before. So
// what is not behind it goes to a list, and its rank there is the number of pairs that are better.
//
//! LET PAIRS_MOST = KIND_topk ? 2048 : 0
//! SHARED uvec2 pairs_best[LOCAL_X]
//! SHARED uvec2 pairs[PAIRS_MOST]
//! SHARED uint pairs_count
//! SHARED uvec2 pairs_edge

const uvec2 NO_PAIR = uvec2(0u, 0xffffffffu); // behind every other

bool better(uvec2 a, uvec2 b)
{
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

// The best of one pair per invocation.
uvec2 pairs_max(uint tid, uvec2 mine)
{
    pairs_best[tid] = mine;
    memoryBarrierShared(); barrier();
    for (uint span = uint(LOCAL_X) / 2u; span > 0u; span /= 2u) {
        if (tid < span && better(pairs_best[tid + span], pairs_best[tid]))
            pairs_best[tid] = pairs_best[tid + span];
        memoryBarrierShared(); barrier();
    }
    return pairs_best[0];
}

#if KIND_topk
// Empties the list and finds the k-th best of one pair per invocation, 1 <= k <= LOCAL_X.
uvec2 pairs_begin(uint tid, uvec2 mine, uint k)
{
    pairs_best[tid] = mine;
    if (tid == 0u) {
        pairs_edge = NO_PAIR;
        pairs_count = 0u;
    }
    memoryBarrierShared(); barrier();
    uint rank = 0u;
    for (uint i = 0u; i < uint(LOCAL_X); i++)
        rank += better(pairs_best[i], mine) ? 1u : 0u;
    if (rank == k - 1u && mine != NO_PAIR)
        pairs_edge = mine;
    memoryBarrierShared(); barrier();
    return pairs_edge;
}

void pairs_add(uvec2 pair, uvec2 edge)
{
    if (pair.y != NO_PAIR.y && !better(edge, pair)) {
        uint slot = atomicAdd(pairs_count, 1u);
        if (slot < uint(PAIRS_MOST))
            pairs[slot] = pair;
    }
}

// After a barrier: how many pairs of the list of `count` are better. Four at a time: their loads do
// not wait for one another.
uint pairs_rank(uvec2 pair, uint count)
{
    uint rank = 0u;
    for (uint i = 0u; i < count; i += 4u)
        for (uint n = i; n < i + 4u; n++)
            rank += n < count && better(pairs[n], pair) ? 1u : 0u;
    return rank;
}
#endif
