// The edge of top-p from the histograms of sample_hist.
//
// A histogram has the mass by exponent, with 1024 bins per level. The 29 bits of an exponent are
// digits of 10, 10 and 9 bits. The last group of sample_max and of each sample_hist stores its
// result in CAND, so that it is computed once. Needs libs uint64 and sample. Every invocation of
// the group calls these functions.
//
//! SHARED uvec2 nucleus_part[LOCAL_X]

struct nucleus {
    uint best;    // key of the best logit; 0 when no logit is a number
    uint edge;    // digits found so far; NEVER with top-p off: everything lies before it
    uvec2 before; // mass of the exponents below the edge
    uvec2 target;
};

nucleus nucleus_load()
{
    return nucleus(CAND[CAND_NUCLEUS], CAND[CAND_NUCLEUS + 1u],
                   uvec2(CAND[CAND_NUCLEUS + 2u], CAND[CAND_NUCLEUS + 3u]),
                   uvec2(CAND[CAND_NUCLEUS + 4u], CAND[CAND_NUCLEUS + 5u]));
}
