// DRY penalty: subtracts from the logit of every id that would prolong a repeat, in place.
//
// A repeat is the longest end of IDS that also stands further left in the window; the id after that
// earlier place would prolong it. Its logit loses ADJUST_DRY[length - allowed] (multiplier *
// base^(length - allowed), rounded on the host), by the longest repeat that it would prolong. No
// repeat reaches over a sequence breaker: marks have bit 0 for ids that break by themselves, which
// are not penalised, and bit 1 for ids that begin a sequence of several (id, number of ids after
// it, these ids).
//
// A group per row; each invocation compares its places with the end, id by id, at most allowed plus
// the table's length. COUNTS is scratch of a word per id: the longest repeat before it, for ids of
// the window. Utilisation: as many invocations have work as the window has places.
//
//! NAME sample_dry
//! OP sample_dry
//! VARIANT baseline
//! BIND readwrite uint LOGITS
//! BIND read uint IDS
//! BIND read uint ADJUST
//! BIND readwrite uint COUNTS
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1 T
//! SHARED uint nearest
//! LIB adjust

const uint NO_SEQUENCE = 31u;

uint end;

// The id `back` places before the last one.
uint behind(uint back)
{
    return IDS[row_ids(step_row) + end - 1u - back];
}

uint marks(uint id)
{
    return id < uint(VOCAB) ? (adjust_word(ADJUST_MARKS + id / 16u) >> (2u * (id % 16u))) & 3u : 0u;
}

// Ids after the first of the longest breaker that begins `back` places before the last id.
uint breaker_tail(uint back)
{
    uint id = behind(back), mark = marks(id);
    uint longest = (mark & 1u) != 0u ? 0u : NO_SEQUENCE;
    uint limit = ADJUST_SEQUENCES + ((mark & 2u) != 0u ? adjust_word(ADJUST_SEQUENCE_WORDS) : 0u);
    for (uint at = ADJUST_SEQUENCES; at < limit; at += 2u + adjust_word(at + 1u)) {
        uint tail = adjust_word(at + 1u), same = 0u;
        if (adjust_word(at) != id || tail > back)
            continue;
        while (same < tail && adjust_word(at + 2u + same) == behind(back - 1u - same))
            same++;
        if (same == tail && (longest == NO_SEQUENCE || tail > longest))
            longest = tail;
    }
    return longest;
}

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x, first = step_row * uint(VOCAB);
    uint allowed = adjust_word(ADJUST_DRY_ALLOWED), lengths = adjust_word(ADJUST_DRY_LENGTHS);
    end = step_pos + step_tokens;
    uint window = min(adjust_word(ADJUST_DRY_LAST_N), end);
    if (step_stopped != 0u || group.x != 0u || window <= allowed || lengths == 0u)
        window = 0u;
    uint most = allowed + lengths - 1u; // longer repeats cost no more

    // The nearest breaker: at most 20 ids after its first one.
    if (tid == 0u)
        nearest = 0xffffffffu;
    memoryBarrierShared(); barrier();
    for (uint i = tid; i < min(window, most + 21u); i += uint(LOCAL_X)) {
        uint tail = breaker_tail(i);
        if (tail != NO_SEQUENCE)
            atomicMin(nearest, i * 32u + 31u - tail);
    }
    memoryBarrierShared(); barrier();
    if (nearest != 0xffffffffu)
        most = min(most, nearest / 32u - (31u - nearest % 32u));
    if (most < allowed)
        window = 0u;

    for (uint k = 1u + tid; k < window; k += uint(LOCAL_X))
        if (behind(k - 1u) < uint(VOCAB))
            atomicExchange(COUNTS[first + behind(k - 1u)], 0u);
    memoryBarrierBuffer(); barrier();
    for (uint k = 1u + tid; k < window; k += uint(LOCAL_X)) {
        uint length = 0u, next = behind(k - 1u);
        while (length < most && length + k < window && behind(length) == behind(length + k))
            length++;
        if (length >= allowed && next < uint(VOCAB) && (marks(next) & 1u) == 0u)
            atomicMax(COUNTS[first + next], length);
    }
    memoryBarrierBuffer(); barrier();
    for (uint k = 1u + tid; k < window; k += uint(LOCAL_X)) {
        uint id = behind(k - 1u);
        uint length = id < uint(VOCAB) ? atomicExchange(COUNTS[first + id], 0u) : 0u;
        if (length != 0u) {
            float cost = uintBitsToFloat(adjust_word(ADJUST_DRY + length - allowed));
            LOGITS[first + id] = floatBitsToUint(uintBitsToFloat(LOGITS[first + id]) - cost);
        }
    }
}
