// Mass of each slice at the wanted temperature, after top-p and min-p: of the tokens before the
// edge of top-p; and how many lie on it.
//
//! NAME sample_mass
//! OP sample_mass
//! VARIANT baseline
//! BIND read uint LOGITS
//! BIND readwrite uint CAND
//! CONST VOCAB
//! STEP read
//! LOCAL SOFTWARE ? 32 : 128
//! GROUPS ceildiv(VOCAB, 2048)
//! SHARED uvec4 part[LOCAL_X]
//! REQUIRE VOCAB < 524288
//! LIB fixed
//! LIB sample
//! LIB nucleus
//! LIB kept

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x;
    uint best = nucleus_best(lane);
    uint edge = nucleus_find(lane, 3u, step_top_p_q).edge;
    uint begin = group.x * SLICE, end = min(begin + SLICE, uint(VOCAB));
    uvec2 mass = uvec2(0u);
    uint ties = 0u;
    for (uint i = begin + lane; i < end; i += uint(LOCAL_X)) {
        uint exponent = sample_exponent(sample_key(LOGITS[i]), best);
        mass = u64_add(mass, kept_before(exponent, edge));
        ties += exponent == edge && edge != NEVER ? 1u : 0u;
    }
    part[lane] = uvec4(ties, mass, 0u);
    memoryBarrierShared(); barrier();
    if (lane != 0u || step_stopped != 0u || begin >= uint(VOCAB))
        return;
    for (uint l = 1u; l < uint(LOCAL_X); l++) {
        ties += part[l].x;
        mass = u64_add(mass, part[l].yz);
    }
    uint at = CAND_MASS + 4u * group.x;
    CAND[at] = ties;
    CAND[at + 1u] = mass.x;
    CAND[at + 2u] = mass.y;
    CAND[at + 3u] = 0u;
}
