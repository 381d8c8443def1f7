// The best of (key, id) pairs, larger keys first, then lower ids: an order without ties.
//
// The lib finds the k best of many pairs. First, each invocation finds its best pair. The edge is
// the k-th best of these pairs. All of the k best are at or before the edge, and few other pairs
// are. All pairs at or before the edge are put into a list. A pair's rank is the number of better
// pairs in the list.
//
//! LET PAIRS_MOST = KIND_topk ? 2048 : 0
//! SHARED uvec2 pairs_best[LOCAL_X]
//! SHARED uvec2 pairs[KIND_topk ? PAIRS_MOST + 8 : 0]
//! SHARED uint pairs_count
//! SHARED uvec2 pairs_edge

const uvec2 NO_PAIR = uvec2(0u, 0xffffffffu); // behind every other

// Returns 1 if a is better than b, else 0, without a branch.
uint ahead(uvec2 a, uvec2 b)
{
    return uint(a.x > b.x) | (uint(a.x == b.x) & uint(a.y < b.y));
}

bool better(uvec2 a, uvec2 b)
{
    return ahead(a, b) != 0u;
}

// Returns the best of all pairs, one per invocation.
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
// Eight at a time: their loads do not wait for one another.
#define PAIRS_AHEAD(list, i) \
    (ahead(list[i], pair) + ahead(list[(i) + 1u], pair) + ahead(list[(i) + 2u], pair) + \
     ahead(list[(i) + 3u], pair) + ahead(list[(i) + 4u], pair) + ahead(list[(i) + 5u], pair) + \
     ahead(list[(i) + 6u], pair) + ahead(list[(i) + 7u], pair))

// Empties the list and returns the edge: the k-th best of all pairs, one per invocation. 1 <= k <=
// LOCAL_X. If there are fewer than k pairs, the edge is NO_PAIR.
uvec2 pairs_begin(uint tid, uvec2 pair, uint k)
{
    pairs_best[tid] = pair;
    if (tid == 0u) {
        pairs_edge = NO_PAIR;
        pairs_count = 0u;
    }
    memoryBarrierShared(); barrier();
    uint rank = 0u;
    for (uint i = 0u; i < uint(LOCAL_X); i += 8u)
        rank += PAIRS_AHEAD(pairs_best, i);
    if (rank == k - 1u && pair != NO_PAIR)
        pairs_edge = pair;
    memoryBarrierShared(); barrier();
    return pairs_edge;
}

// Returns 1 if the pair belongs in the list, else 0.
uint pairs_wants(uvec2 pair, uvec2 edge)
{
    return uint(pair.y != NO_PAIR.y) & (ahead(edge, pair) ^ 1u);
}

// Reserves `count` places of the list for the invocation and returns the first one.
uint pairs_reserve(uint count)
{
    return atomicAdd(pairs_count, count);
}

void pairs_put(uint slot, uvec2 pair)
{
    if (slot < uint(PAIRS_MOST))
        pairs[slot] = pair;
}

// Closes the list: pads it with pairs that are worse than all others.
void pairs_end(uint tid)
{
    memoryBarrierShared(); barrier();
    if (tid < 8u)
        pairs[min(pairs_count, uint(PAIRS_MOST)) + tid] = NO_PAIR;
    memoryBarrierShared(); barrier();
}

// Returns the number of better pairs in the list.
uint pairs_rank(uvec2 pair, uint count)
{
    uint rank = 0u;
    for (uint i = 0u; i < count; i += 8u)
        rank += PAIRS_AHEAD(pairs, i);
    return rank;
}
#endif
