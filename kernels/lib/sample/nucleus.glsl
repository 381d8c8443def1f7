// The edge of top-p from the histograms of sample_hist: mass by exponent, 1024 bins a level, 29
// bits of exponent as digits of 10, 10 and 9 bits. Needs libs uint64 and sample. Every invocation
// of the group calls these.
//
//! SHARED uvec2 nucleus_part[LOCAL_X]

struct nucleus {
    uint edge;   // digits found so far
    uvec2 before; // mass of the exponents below the edge
    uvec2 target;
};

uint nucleus_shift(uint level)
{
    return level == 0u ? 19u : level == 1u ? 9u : 0u;
}

uvec2 nucleus_bin(uint level, uint bin)
{
    uint at = CAND_HIST + 2048u * level + 2u * bin;
    return uvec2(CAND[at], CAND[at + 1u]);
}

// Finds the next digit: the first bin at which the mass up to and with it reaches the target.
void nucleus_step(uint tid, uint level, uint top_p_q, inout nucleus n)
{
    const uint SHARE = 1024u / uint(LOCAL_X);
    uvec2 sum = uvec2(0u);
    for (uint i = 0u; i < SHARE; i++)
        sum = u64_add(sum, nucleus_bin(level, tid * SHARE + i));
    nucleus_part[tid] = sum;
    memoryBarrierShared(); barrier();
    if (level == 0u) {
        sum = uvec2(0u);
        for (uint l = 0u; l < uint(LOCAL_X); l++)
            sum = u64_add(sum, nucleus_part[l]);
        n.target = sample_target(sum, top_p_q);
    }
    uint l = 0u;
    uvec2 next = u64_add(n.before, nucleus_part[0]);
    while (l + 1u < uint(LOCAL_X) && u64_less(next, n.target)) {
        n.before = next;
        l++;
        next = u64_add(next, nucleus_part[l]);
    }
    uint bin = l * SHARE;
    next = u64_add(n.before, nucleus_bin(level, bin));
    while (bin + 1u < (l + 1u) * SHARE && u64_less(next, n.target)) {
        n.before = next;
        bin++;
        next = u64_add(next, nucleus_bin(level, bin));
    }
    n.edge |= bin << nucleus_shift(level);
    memoryBarrierShared(); barrier();
}

// The edge after `levels` levels; with top-p off everything lies before it.
nucleus nucleus_find(uint tid, uint levels, uint top_p_q)
{
    nucleus n = nucleus(top_p_q == 0u ? NEVER : 0u, uvec2(0u), uvec2(0u));
    if (top_p_q != 0u)
        for (uint level = 0u; level < levels; level++)
            nucleus_step(tid, level, top_p_q, n);
    return n;
}

// The best key of all slices, as sample_max left them; 0 when no logit is a number.
uint nucleus_best(uint tid)
{
    uint best = 0u;
    for (uint s = tid; s < SLICES; s += uint(LOCAL_X))
        best = max(best, CAND[CAND_FIRST + 2u * s]);
    nucleus_part[tid] = uvec2(best, 0u);
    memoryBarrierShared(); barrier();
    for (uint l = 0u; l < uint(LOCAL_X); l++)
        best = max(best, nucleus_part[l].x);
    memoryBarrierShared(); barrier();
    return best;
}
