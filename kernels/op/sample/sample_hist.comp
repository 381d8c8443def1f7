// Mass per digit of the exponent, for top-p over a whole vocabulary: level LEVEL of three.
//
// LOGITS is [T][VOCAB] f32. The kernel adds to 1024 bins of 64 bits at CAND_HIST + 2048 LEVEL of
// CAND, which sample_max has cleared. The exponent of a token has 29 bits. Level 0 counts every
// token by the first 10 of them. Levels 1 and 2 count only tokens whose earlier digits are those of
// the edge found so far.
//
// Layout: work group x is a slice of 2048 tokens, y the row. Masses are 64-bit integers. They are
// summed per group in shared memory, and then added with atomics, low word first. The old value of
// the low word shows whether it overflowed.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size.
//
//! NAME sample_hist
//! OP sample_hist
//! VARIANT baseline
//! BIND read uint LOGITS
//! BIND coherent uint CAND
//! BIND coherent uint ARRIVED
//! CONST VOCAB LEVEL
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS ceildiv(VOCAB, 2048) T // fixed: a slice of docs/operations.md
//! ACTIVE T * min(ceildiv(VOCAB, 2048) * WG_SIZE, VOCAB)
//! SHARED uint mass_low[1024] // fixed: bins of a digit of 10 bits
//! SHARED uint mass_high[1024] // fixed: bins of a digit of 10 bits
//! REQUIRE VOCAB < 524288 && LEVEL >= 0 && LEVEL <= 2
//! LIB uint64
//! LIB sample
//! LIB nucleus
//! LIB nucleus_step
//! LIB arrival
//! LIB last_group

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x;
    // The bound is not a constant, because unrolled loops take long to compile: see "Loops" of
    // docs/kernels.md.
    uint bins = step_top_p_q == 0u ? 0u : 1024u;
    for (uint i = tid; i < bins; i += uint(LOCAL_X)) {
        mass_low[i] = 0u;
        mass_high[i] = 0u;
    }
    nucleus n = nucleus_load();
    uint begin = group.x * SLICE, end = min(begin + SLICE, uint(VOCAB));
    if (!sample_runs(SAMPLE_FULL) || step_top_p_q == 0u || begin >= uint(VOCAB))
        return;
    if (n.best == 0u)
        end = begin;
    memoryBarrierShared(); barrier();
    uint shift = nucleus_shift(uint(LEVEL));
    for (uint i = begin + tid; i < end; i += uint(LOCAL_X)) {
        uint exponent = sample_exponent(sample_key(LOGITS[logit_at(i)]), n.best);
        uvec2 weight = sample_weight(exponent);
#if LEVEL > 0
        uint above = nucleus_shift(uint(LEVEL - 1));
        if ((exponent >> above) != (n.edge >> above))
            weight = uvec2(0u);
#endif
        if (weight != uvec2(0u)) {
            uint bin = (exponent >> shift) & 1023u;
#if LEVEL == 2
            bin &= 511u;
#endif
            uint old = atomicAdd(mass_low[bin], weight.x);
            uint carry = old + weight.x < old ? 1u : 0u;
            if (weight.y + carry != 0u)
                atomicAdd(mass_high[bin], weight.y + carry);
        }
    }
    memoryBarrierShared(); barrier();
    for (uint i = tid; i < bins; i += uint(LOCAL_X)) {
        uvec2 mass = uvec2(mass_low[i], mass_high[i]);
        if (mass != uvec2(0u)) {
            uint at = CAND_HIST + 2048u * uint(LEVEL) + 2u * i;
            uint old = atomicAdd(CAND[at], mass.x);
            uint carry = old + mass.x < old ? 1u : 0u;
            if (mass.y + carry != 0u)
                atomicAdd(CAND[at + 1u], mass.y + carry);
        }
    }
    if (last_group(step_row, SLICES))
        nucleus_step(tid, uint(LEVEL), step_top_p_q);
}
