// Adjusts logits before they are ranked, in place: biases, then penalties, then DRY.
//
// LOGITS is [T][VOCAB] f32, IDS the ids of the sequence. ADJUST (lib adjust) has the parameters.
// Each part has work only if ADJUST or the step table requests it.
//
// Bias: the caller's numbers are added to the logits of single ids. ADJUST has pairs of id and f32,
// each id once.
//
// Penalties apply to the ids among the last step_repeat_last_n tokens. Positive logits are
// multiplied by 1 / penalty, others by the penalty. The host rounds 1 / penalty once, because
// GLSL's division is not exact. Then frequency * occurrences + presence is subtracted. Each step is
// rounded. COUNTS is scratch with a word per id. Only the words of the window are cleared, counted
// and taken, so the time does not depend on the vocabulary. The invocation that takes a count acts
// for all occurrences of the id.
//
// DRY subtracts from the logit of every id that would prolong a repeat. A repeat is the longest end
// of IDS that also occurs earlier in the window; the id after that earlier place would prolong it.
// Its logit loses ADJUST_DRY[length - allowed], which is multiplier * base^(length - allowed),
// rounded on the host. The length is that of the longest repeat that the id would prolong. No
// repeat extends over a sequence breaker. Bit 0 of a mark is set for ids that break by themselves,
// which are not penalised. Bit 1 is set for ids that begin a breaker of several ids (id, number of
// ids after it, these ids). Each invocation compares its places with the end, id by id, at most
// allowed plus the table's length. COUNTS has the longest repeat before each id of the window.
//
// Layout: y is a row; each row has one work group. Groups of `idle` rows have no work. The parts
// share LOGITS and COUNTS, so barriers separate them.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size.
//
// Utilisation: as many invocations have work as there are biases, 1,024 at most, and ids in the
// windows.
//
//! NAME sample_adjust
//! OP sample_adjust
//! VARIANT baseline
//! BIND coherent uint LOGITS
//! BIND read uint IDS
//! BIND read uint ADJUST
//! BIND coherent uint COUNTS
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1 T
//! SHARED uint nearest
//! SHARED uint rounded_slot[LOCAL_X]
//! LIB adjust
//! LIB rounded

const uint NO_SEQUENCE = 31u;

uint end; // number of ids of the row's sequence

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

void add_biases(uint first, bool idle)
{
    uint count = idle ? 0u : min(adjust_word(ADJUST_NUM_BIASES), 1024u);
    for (uint i = gl_LocalInvocationID.x; i < count; i += uint(LOCAL_X)) {
        uint id = adjust_word(ADJUST_BIASES + 2u * i);
        float bias = uintBitsToFloat(adjust_word(ADJUST_BIASES + 2u * i + 1u));
        if (id < uint(VOCAB))
            LOGITS[first + id] = floatBitsToUint(uintBitsToFloat(LOGITS[first + id]) + bias);
    }
}

void penalise(uint first, bool idle)
{
    uint tid = gl_LocalInvocationID.x;
    uint count = idle ? 0u : min(step_repeat_last_n, end);
    for (uint i = tid; i < count; i += uint(LOCAL_X))
        if (behind(i) < uint(VOCAB))
            atomicExchange(COUNTS[first + behind(i)], 0u);
    memoryBarrierBuffer(); barrier();
    for (uint i = tid; i < count; i += uint(LOCAL_X))
        if (behind(i) < uint(VOCAB))
            atomicAdd(COUNTS[first + behind(i)], 1u);
    memoryBarrierBuffer(); barrier();
    float presence = uintBitsToFloat(adjust_word(ADJUST_PRESENCE));
    float frequency = uintBitsToFloat(adjust_word(ADJUST_FREQUENCY));
    for (uint i = tid; i < count; i += uint(LOCAL_X)) {
        uint id = behind(i);
        uint times = id < uint(VOCAB) ? atomicExchange(COUNTS[first + id], 0u) : 0u;
        if (times != 0u) {
            float x = uintBitsToFloat(LOGITS[first + id]);
            x = rounded(x * (x > 0.0 ? step_repeat_inverse : step_repeat_penalty));
            float cost = rounded(float(times) * frequency) + presence;
            LOGITS[first + id] = floatBitsToUint(x - cost);
        }
    }
}

void penalise_repeats(uint first, bool idle)
{
    uint tid = gl_LocalInvocationID.x;
    uint allowed = adjust_word(ADJUST_DRY_ALLOWED), lengths = adjust_word(ADJUST_DRY_LENGTHS);
    uint window = min(adjust_word(ADJUST_DRY_LAST_N), end);
    if (idle || window <= allowed || lengths == 0u)
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

void body(uvec3 group)
{
    step_row = group.y;
    end = step_pos + step_tokens;
    uint first = step_row * uint(VOCAB);
    bool idle = step_stopped != 0u || group.x != 0u;
    add_biases(first, idle);
    memoryBarrierBuffer(); barrier();
    penalise(first, idle);
    memoryBarrierBuffer(); barrier();
    penalise_repeats(first, idle);
}
