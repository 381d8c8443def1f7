// Draws a token of a whole vocabulary after top-p and min-p.
//
// LOGITS is [T][VOCAB] f32. The draw is a number below the whole mass. The drawn id is the first
// one at which the running mass, in order of ids, exceeds the draw. Tokens on the edge of top-p
// share one exponent; only the first `room` of them, by id, remain.
//
// Layout: work group x is a slice of 2048 tokens, y the row. Every group adds up the masses of the
// slices before its own (sample_mass). The group whose slice contains the draw writes the id to
// CAND[0].
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size.
//
//! NAME sample_find
//! OP sample_find
//! VARIANT baseline
//! BIND read uint LOGITS
//! BIND readwrite uint CAND
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS ceildiv(VOCAB, 2048) T // fixed: a slice of docs/operations.md
//! ACTIVE T * min(ceildiv(VOCAB, 2048) * WG_SIZE, VOCAB)
//! SHARED uvec4 part[LOCAL_X] // tokens on the edge, mass
//! REQUIRE VOCAB < 524288
//! LIB uint64
//! LIB sample
//! LIB philox
//! LIB nucleus
//! LIB top_p_mass

// Running state of a walk over tokens or slices in order of ids.
struct walk {
    uint room;  // tokens on the edge that may still stay
    uvec2 mass; // so far
};

void walk_on(inout walk w, uint ties, uvec2 mass, uvec2 tie_weight)
{
    uint taken = min(ties, w.room);
    w.room -= taken;
    w.mass = u64_add(w.mass, u64_add(mass, u64_scale(tie_weight, taken)));
}

// Returns the number of tokens on the edge that top-p keeps: the fewest whose mass brings `before`
// to the target.
uint tie_room(nucleus n)
{
    if (n.edge == NEVER)
        return 0u;
    uvec2 weight = sample_weight(n.edge);
    uint room = 0u;
    uvec2 wanted = u64_sub(n.target, n.before);
    for (uint bit = 1u << 18; bit > 0u; bit >>= 1)
        if (u64_less(u64_scale(weight, room | bit), wanted))
            room |= bit;
    return room + 1u;
}

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x;
    nucleus n = nucleus_load();
    uint best = n.best;
    uvec2 tie_weight = n.edge == NEVER ? uvec2(0u) : min_p_weight(n.edge);
    walk whole = walk(tie_room(n), uvec2(0u));
    walk start = whole;
    for (uint s = 0u; s < SLICES; s++) {
        if (s == group.x)
            start = whole;
        uint at = CAND_MASS + 4u * s;
        walk_on(whole, CAND[at], uvec2(CAND[at + 1u], CAND[at + 2u]), tie_weight);
    }
    uvec2 draw = u64_mul_high(draw_bits(step_draws, step_seed_lo, step_seed_hi), whole.mass);

    // Walks this slice. Each invocation has a run of neighbouring tokens.
    const uint RUN = SLICE / uint(LOCAL_X);
    uint begin = min(group.x * SLICE + tid * RUN, uint(VOCAB));
    uint end = min(begin + RUN, uint(VOCAB));
    uvec4 own = uvec4(0u);
    for (uint i = begin; i < end; i++) {
        uint exponent = sample_exponent(sample_key(LOGITS[logit_at(i)]), best);
        own.x += exponent == n.edge && n.edge != NEVER ? 1u : 0u;
        own.yz = u64_add(own.yz, top_p_weight(exponent, n.edge));
    }
    part[tid] = own;
    memoryBarrierShared(); barrier();
    if (!sample_runs(SAMPLE_FULL))
        return;
    for (uint l = 0u; l < tid; l++)
        walk_on(start, part[l].x, part[l].yz, tie_weight);
    for (uint i = begin; i < end; i++) {
        uint exponent = sample_exponent(sample_key(LOGITS[logit_at(i)]), best);
        uvec2 before = start.mass;
        uint ties = exponent == n.edge && n.edge != NEVER ? 1u : 0u;
        walk_on(start, ties, top_p_weight(exponent, n.edge), tie_weight);
        if (best != 0u && !u64_less(draw, before) && u64_less(draw, start.mass))
            CAND[CAND_ROW] = i;
    }
    if (best == 0u && group.x == 0u && tid == 0u)
        CAND[CAND_ROW] = 0xffffffffu;
}
