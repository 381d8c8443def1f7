// Logit bias: adds numbers of the caller's to the logits of single ids, in place.
//
// LOGITS is [T][VOCAB] f32. ADJUST (lib adjust) has pairs of id and f32, each id once. A group per
// row.
// Utilisation: as many invocations have work as there are biases, 1,024 at most.
//
//! NAME sample_bias
//! OP sample_bias
//! VARIANT baseline
//! BIND readwrite uint LOGITS
//! BIND read uint ADJUST
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1 T
//! LIB adjust

void body(uvec3 group)
{
    step_row = group.y;
    uint count = min(adjust_word(ADJUST_NUM_BIASES), 1024u), first = step_row * uint(VOCAB);
    if (step_stopped != 0u || group.x != 0u)
        count = 0u;
    for (uint i = gl_LocalInvocationID.x; i < count; i += uint(LOCAL_X)) {
        uint id = adjust_word(ADJUST_BIASES + 2u * i);
        float bias = uintBitsToFloat(adjust_word(ADJUST_BIASES + 2u * i + 1u));
        if (id < uint(VOCAB))
            LOGITS[first + id] = floatBitsToUint(uintBitsToFloat(LOGITS[first + id]) + bias);
    }
}
