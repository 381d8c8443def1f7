// Mass of each slice at the requested temperature, after top-p and min-p.
//
// LOGITS is [T][VOCAB] f32. The result of slice s of 2048 tokens is stored at CAND_MASS + 4 s of
// CAND. It has the number of tokens whose exponent is the edge of top-p, and the 64-bit mass (low,
// high) of those below the edge.
//
// Layout: work group x is slice x, y the row. The sums are integers, so they do not depend on the
// order.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size. WIDE selects 256 invocations for devices with subgroups of 64
// and few registers.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). navi31 with LLVM 15 spills 18
// registers with 128 invocations, and none with 256.
//
//! NAME sample_mass
//! OP sample_mass
//! VARIANT baseline
//! BIND read uint LOGITS
//! BIND readwrite uint CAND
//! CONST VOCAB
//! STEP read
//! TUNE WIDE = SUBGROUP_SIZE == 64 && REGISTERS <= 93 in 0 1
//! TUNE WG_SIZE = SOFTWARE ? 32 : WIDE ? 256 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS ceildiv(VOCAB, 2048) T // fixed: a slice of docs/operations.md
//! ACTIVE T * min(ceildiv(VOCAB, 2048) * WG_SIZE, VOCAB)
//! SHARED uvec4 part[LOCAL_X]
//! REQUIRE VOCAB < 524288
//! LIB uint64
//! LIB sample
//! LIB nucleus
//! LIB top_p_mass

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x;
    nucleus n = nucleus_load();
    uint best = n.best, edge = n.edge;
    uint begin = group.x * SLICE, end = min(begin + SLICE, uint(VOCAB));
    uvec2 mass = uvec2(0u);
    uint ties = 0u;
    for (uint i = begin + tid; i < end; i += uint(LOCAL_X)) {
        uint exponent = sample_exponent(sample_key(LOGITS[logit_at(i)]), best);
        mass = u64_add(mass, top_p_weight(exponent, edge));
        ties += exponent == edge && edge != NEVER ? 1u : 0u;
    }
    part[tid] = uvec4(ties, mass, 0u);
    memoryBarrierShared(); barrier();
    if (tid != 0u || !sample_runs(SAMPLE_FULL) || begin >= uint(VOCAB))
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
