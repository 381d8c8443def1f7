// The steps that prepare lib nucleus, each by one work group.

void nucleus_store(nucleus n)
{
    CAND[CAND_NUCLEUS] = n.best;
    CAND[CAND_NUCLEUS + 1u] = n.edge;
    CAND[CAND_NUCLEUS + 2u] = n.before.x;
    CAND[CAND_NUCLEUS + 3u] = n.before.y;
    CAND[CAND_NUCLEUS + 4u] = n.target.x;
    CAND[CAND_NUCLEUS + 5u] = n.target.y;
}

uint nucleus_shift(uint level)
{
    return level == 0u ? 19u : level == 1u ? 9u : 0u;
}

// Begins with the best key of each slice.
void nucleus_begin(uint tid, uint top_p_q)
{
    uint best = 0u;
    for (uint s = tid; s < SLICES; s += uint(LOCAL_X))
        best = max(best, CAND[CAND_FIRST + 2u * s]);
    nucleus_part[tid] = uvec2(best, 0u);
    memoryBarrierShared(); barrier();
    for (uint l = 0u; l < uint(LOCAL_X); l++)
        best = max(best, nucleus_part[l].x);
    if (tid == 0u)
        nucleus_store(nucleus(best, top_p_q == 0u ? NEVER : 0u, uvec2(0u), uvec2(0u)));
}

const int SHARE = 1024 / LOCAL_X; // bins of an invocation

// Finds the next digit: the first bin at which the mass of all bins up to this one reaches the
// target, or the last bin if none does. Each invocation has neighbouring bins; the invocation that
// has this bin stores the digit.
void nucleus_step(uint tid, uint level, uint top_p_q)
{
    nucleus n = nucleus_load();
    uvec2 bins[SHARE], sum = uvec2(0u);
    for (int i = 0; i < SHARE; i++) {
        uint at = CAND_HIST + 2048u * level + 2u * (tid * uint(SHARE) + uint(i));
        bins[i] = uvec2(CAND[at], CAND[at + 1u]);
        sum = u64_add(sum, bins[i]);
    }
    nucleus_part[tid] = sum;
    memoryBarrierShared(); barrier();
    uvec2 all = uvec2(0u), start = n.before;
    for (uint l8 = 0u; l8 < uint(LOCAL_X); l8 += 8u)
        for (uint l = l8; l < l8 + 8u; l++) {
            uvec2 part = nucleus_part[l];
            all = u64_add(all, part);
            start = u64_add(start, uint(l < tid) * part);
        }
    if (level == 0u)
        n.target = sample_target(all, top_p_q);
    // The mass before this invocation's bins is below the target. The mass after them reaches it,
    // except in the last invocation.
    bool below = tid == 0u || u64_less(start, n.target);
    if (below && (tid == uint(LOCAL_X) - 1u || !u64_less(u64_add(start, sum), n.target))) {
        uint bin = 0u;
        bool found = false;
        for (int i = 0; i < SHARE; i++) {
            uvec2 next = u64_add(start, bins[i]);
            found = found || i + 1 == SHARE || !u64_less(next, n.target);
            bin += found ? 0u : 1u;
            start = found ? start : next;
        }
        n.before = start;
        n.edge |= (tid * uint(SHARE) + bin) << nucleus_shift(level);
        nucleus_store(n);
    }
}
