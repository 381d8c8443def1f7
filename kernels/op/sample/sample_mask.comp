// Drops the tokens that a constraint does not allow, in place.
//
// The logit of a dropped token becomes -infinity.
// LOGITS is [T][VOCAB] f32. ADJUST has a mask per sequence: token i is allowed if bit i % 32 of
// word i / 32 is set. The host writes the mask of a row before each of its tokens
// (generation_write_mask() in core/seq/generate.c).
//
// Layout: x covers the vocabulary, a run of WG_SIZE * EACH tokens per group; y is a row.
// Neighbouring invocations have neighbouring tokens. Rows without a constraint have no work.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size. EACH is the number of tokens per invocation.
//
// Utilisation: each invocation of a row with a constraint has EACH tokens. Only runs of such rows
// have this operation.
//
//! NAME sample_mask
//! OP sample_mask
//! VARIANT baseline
//! BIND coherent uint LOGITS
//! BIND read uint ADJUST
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256 512
//! TUNE EACH = SOFTWARE ? 64 : 4 in 1 2 4 8 16 32 64
//! LOCAL WG_SIZE
//! GROUPS ceildiv(VOCAB, WG_SIZE * EACH) T
//! ACTIVE T * VOCAB / EACH
//! LIB adjust
//! LIB filter

const uint DROPPED = 0xff800000u; // -infinity

void body(uvec3 group)
{
    step_row = group.y;
    if (step_stopped != 0u || adjust_word(ADJUST_MASKED) == 0u)
        return;
    uint first = group.x * uint(LOCAL_X * EACH) + gl_LocalInvocationID.x;
    for (uint e = 0u; e < uint(EACH); e++) {
        uint id = first + e * uint(LOCAL_X);
        if (id < uint(VOCAB) && (adjust_word(MASK + id / 32u) >> (id % 32u) & 1u) == 0u)
            LOGITS[step_row * uint(VOCAB) + id] = DROPPED;
    }
}
