// Drops tokens before the draw, in place: a dropped token's logit becomes -infinity.
//
// LOGITS is [T][VOCAB] f32. ADJUST (libs adjust and filter) has the parameters. docs/formats.md has
// the arithmetic of each stage. In this order: ids that must not be chosen yet (min_tokens), top-n
// sigma, top-k, typical, top-p, min-p, XTC. A last stage keeps only the best token, for greedy
// choice.
//
// A token is live if its exponent is not NEVER. Stages see live tokens only. All sums are of
// integers, so they do not depend on the order. A cut keeps the first tokens in order of a value,
// with ties in order of ids, until their mass reaches a target. A radix search finds the value of
// the last one, 8 bits at a time. Then each invocation walks a run of neighbouring ids.
//
// Layout: y is a row; each row has one work group. Rows without filters have no work.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size. Smaller groups are not offered: llvmpipe ends all loops of an
// invocation after 65,535 rounds in total, and every stage reads the whole vocabulary. All stages
// together read it 38 times, which REQUIRE compares with that limit.
//
// Utilisation: a stage reads all logits of a row two to seven times. Only runs with such a stage
// have this operation.
//
//! NAME sample_filter
//! OP sample_filter
//! VARIANT baseline
//! BIND coherent uint LOGITS
//! BIND read uint ADJUST
//! CONST VOCAB
//! STEP read
//! TUNE WG_SIZE = MAX_INVOCATIONS >= 512 ? 512 : 128 in 128 256 512
//! LOCAL WG_SIZE
//! GROUPS 1 T
//! ACTIVE T * min(WG_SIZE, VOCAB)
//! SHARED uint bin_low[256] // fixed: values of a digit of 8 bits
//! SHARED uint bin_high[256] // fixed: values of a digit of 8 bits
//! SHARED uvec4 part[LOCAL_X]
//! SHARED uint least
//! SHARED uint most
//! REQUIRE VOCAB < 524288
//! REQUIRE !LLVMPIPE || 38 * ceildiv(VOCAB, WG_SIZE) + 12 * WG_SIZE + 6000 < 65536
//! LIB uint64
//! LIB sample
//! LIB philox
//! LIB adjust
//! LIB filter

const uint DROPPED = 0xff800000u; // -infinity

uint tid, first, best; // best: key of the best logit
uint stage;
uint centre;    // typical: mean exponent; sigma: mean
uvec2 smallest; // XTC: smallest weight of a likely token
uint edge_e;    // XTC: exponent of the least likely one of these

uint filter_word(uint i)
{
    return adjust_word(FILTERS + i);
}

uint key_at(uint id)
{
    return sample_key(LOGITS[first + id]);
}

void drop(uint id)
{
    LOGITS[first + id] = DROPPED;
}

// floor(a / b), b > 0.
uvec2 u64_divide(uvec2 a, uvec2 b)
{
    uvec2 rest = uvec2(0u), result = uvec2(0u);
    for (uint i = 0u, bits = 64u * min(b.x | b.y, 1u); i < bits; i++) {
        rest = uvec2((rest.x << 1) | (a.y >> 31), (rest.y << 1) | (rest.x >> 31));
        a = uvec2(a.x << 1, (a.y << 1) | (a.x >> 31));
        result = uvec2(result.x << 1, (result.y << 1) | (result.x >> 31));
        if (!u64_less(rest, b)) {
            rest = u64_sub(rest, b);
            result.x |= 1u;
        }
    }
    return result;
}

// floor(sqrt(x)), x < 2^62.
uint u64_root(uvec2 x)
{
    uint root = 0u;
    for (uint bit = 0x40000000u * min(x.x | x.y, 1u); bit > 0u; bit >>= 1)
        if (!u64_less(x, u64_mul(root | bit, root | bit)))
            root |= bit;
    return root;
}

// The value by which a cut orders tokens.
uint value_of(uint key, uint exponent)
{
    if (stage == STAGE_TOP_K || stage == STAGE_BEST)
        return ~key;
    if (stage == STAGE_TYPICAL)
        return exponent > centre ? exponent - centre : centre - exponent;
    return exponent;
}

// The mass of a token in a cut.
uvec2 mass_of(uint exponent)
{
    return stage == STAGE_TOP_K || stage == STAGE_BEST ? uvec2(1u, 0u) : sample_weight(exponent);
}

// Two sums over the live tokens for round `round` of the stage: x, y and z, w. Sets `least` to the
// smallest exponent, and `most` to a maximum of XTC.
uvec4 sums(uint round)
{
    uvec2 a = uvec2(0u), b = uvec2(0u);
    uint low = NEVER;
    if (tid == 0u) {
        least = NEVER;
        most = 0u;
    }
    memoryBarrierShared(); barrier();
    for (uint i = tid; i < uint(VOCAB); i += uint(LOCAL_X)) {
        uint e = sample_exponent(key_at(i), best);
        if (e == NEVER)
            continue;
        low = min(low, e);
        uvec2 weight = sample_weight(e);
        if (stage == STAGE_SIGMA) {
            uint u = e >> 9, off = u > centre ? u - centre : centre - u;
            a = u64_add(a, uvec2(1u, 0u));
            b = u64_add(b, round == 0u ? uvec2(u, 0u) : u64_mul(off, off));
        } else if (round > 0u) {
            if (u64_less(weight, smallest))
                continue;
            a = u64_add(a, uvec2(1u, 0u));
            if (round == 1u)
                atomicMax(most, e);
            else if (e == edge_e)
                atomicMax(most, i);
        } else {
            a = u64_add(a, mass_of(e));
            uvec2 product = u64_mul((weight.x >> 14) | (weight.y << 18), e);
            b = u64_add(b, uvec2((product.x >> 10) | (product.y << 22), product.y >> 10));
        }
    }
    atomicMin(least, low);
    part[tid] = uvec4(a, b);
    memoryBarrierShared(); barrier();
    a = uvec2(0u);
    b = uvec2(0u);
    for (uint l = 0u; l < uint(LOCAL_X); l++) {
        a = u64_add(a, part[l].xy);
        b = u64_add(b, part[l].zw);
    }
    memoryBarrierShared(); barrier();
    return uvec4(a, b);
}

// Keeps the first tokens in order of value_of(), then of ids, until their mass reaches the target,
// which is at most that of all.
void cut(uvec2 target)
{
    uint edge = 0u, known = 0u;
    uvec2 before = uvec2(0u);
    for (int shift = 24, step = target == uvec2(0u) ? 32 : 8; shift >= 0; shift -= step) {
        for (uint i = tid; i < 256u; i += uint(LOCAL_X)) {
            bin_low[i] = 0u;
            bin_high[i] = 0u;
        }
        memoryBarrierShared(); barrier();
        for (uint i = tid; i < uint(VOCAB); i += uint(LOCAL_X)) {
            uint key = key_at(i), e = sample_exponent(key, best), value = value_of(key, e);
            if (e == NEVER || (value & known) != edge)
                continue;
            uvec2 mass = mass_of(e);
            uint bin = (value >> shift) & 255u;
            uint old = atomicAdd(bin_low[bin], mass.x);
            atomicAdd(bin_high[bin], mass.y + (old + mass.x < old ? 1u : 0u));
        }
        memoryBarrierShared(); barrier();
        uint bin = 0u;
        for (; bin < 255u; bin++) {
            uvec2 next = u64_add(before, uvec2(bin_low[bin], bin_high[bin]));
            if (!u64_less(next, target))
                break;
            before = next;
        }
        edge |= bin << shift;
        known |= 255u << shift;
        memoryBarrierShared(); barrier();
    }

    // Tokens on the edge stay while the mass before them is below the target.
    uint run = (uint(VOCAB) + uint(LOCAL_X) - 1u) / uint(LOCAL_X);
    uint begin = min(tid * run, uint(VOCAB)), end = min(begin + run, uint(VOCAB));
    uvec2 own = uvec2(0u);
    for (uint i = begin; i < end; i++) {
        uint key = key_at(i), e = sample_exponent(key, best);
        if (e != NEVER && value_of(key, e) == edge)
            own = u64_add(own, mass_of(e));
    }
    part[tid] = uvec4(own, 0u, 0u);
    memoryBarrierShared(); barrier();
    for (uint l = 0u; l < tid; l++)
        before = u64_add(before, part[l].xy);
    for (uint i = begin; i < end; i++) {
        uint key = key_at(i), e = sample_exponent(key, best);
        uint value = value_of(key, e);
        if (e == NEVER || value < edge)
            continue;
        if (value > edge || !u64_less(before, target))
            drop(i);
        else
            before = u64_add(before, mass_of(e));
    }
    memoryBarrierShared(); barrier();
}

// Runs a stage whose parameter is not 0.
void run_stage(uint param)
{
    uint rounds = stage == STAGE_SIGMA ? 2u : stage == STAGE_XTC ? 3u : 1u;
    uint farthest = NEVER, last = 0u;
    uvec2 target = uvec2(0u), lightest = uvec2(0u), likely = uvec2(0u);
    centre = 0u;
    smallest = uvec2(0u);
    edge_e = 0u;
    for (uint round = 0u; round < rounds; round++) {
        uvec4 sum = sums(round);
        if (stage == STAGE_SIGMA && round == 0u) {
            centre = u64_divide(sum.zw, sum.xy).x;
        } else if (stage == STAGE_SIGMA) {
            uvec2 variance = u64_divide(sum.zw, sum.xy);
            uvec2 far = u64_mul(u64_root(uvec2(variance.x << 18,
                                               (variance.y << 18) | (variance.x >> 14))), param);
            farthest = far.y >= 0x8000u ? NEVER : min((far.x >> 16) | (far.y << 16), NEVER);
        } else if (stage == STAGE_TOP_K || stage == STAGE_BEST) {
            target = uvec2(min(param, sum.x), 0u);
        } else if (stage == STAGE_TYPICAL) {
            centre = u64_divide(sum.zw, uvec2((sum.x >> 24) | (sum.y << 8), sum.y >> 24)).x;
            target = u64_add(u64_fraction(sum.xy, param), uvec2(1u, 0u));
        } else if (stage == STAGE_TOP_P) {
            target = sample_target(sum.xy, param);
        } else if (stage == STAGE_MIN_P) {
            lightest = u64_fraction(sample_weight(least), param);
        } else if (round == 0u) {
            smallest = u64_fraction(sum.xy, filter_word(FILTER_XTC_THRESHOLD));
        } else if (round == 1u) {
            likely = sum.xy;
            edge_e = most;
        } else {
            last = most;
        }
        memoryBarrierShared(); barrier();
    }
    bool xtc = stage == STAGE_XTC && likely.x >= 2u;
    if (stage == STAGE_TOP_K || stage == STAGE_TYPICAL || stage == STAGE_TOP_P ||
        stage == STAGE_BEST)
        cut(target);
    else
        for (uint i = tid; i < uint(VOCAB); i += uint(LOCAL_X)) {
            uint e = sample_exponent(key_at(i), best);
            uvec2 weight = sample_weight(e);
            bool gone = e > farthest || u64_less(weight, lightest) ||
                        (xtc && !u64_less(weight, smallest) && !(e == edge_e && i == last));
            if (e != NEVER && gone)
                drop(i);
        }
    memoryBarrierBuffer(); barrier();
}

void body(uvec3 group)
{
    step_row = group.y;
    tid = gl_LocalInvocationID.x;
    first = step_row * uint(VOCAB);
    bool idle = step_stopped != 0u || group.x != 0u || adjust_word(ADJUST_FILTERS) == 0u;
    uint bans = idle || step_pos + step_tokens >= filter_word(FILTER_BAN_UNTIL)
                    ? 0u : min(filter_word(FILTER_NUM_BANS), 240u);
    for (uint i = tid; i < bans; i += uint(LOCAL_X))
        if (filter_word(FILTER_BANS + i) < uint(VOCAB))
            drop(filter_word(FILTER_BANS + i));
    memoryBarrierBuffer(); barrier();

    uint key = 0u;
    for (uint i = tid; i < (idle ? 0u : uint(VOCAB)); i += uint(LOCAL_X))
        key = max(key, key_at(i));
    if (tid == 0u)
        most = 0u;
    memoryBarrierShared(); barrier();
    atomicMax(most, key);
    memoryBarrierShared(); barrier();
    best = most;
    memoryBarrierShared(); barrier();
    // If all logits are -infinity or NaN, every token stays.
    uint stages = idle || best <= ~DROPPED ? 0u : NUM_STAGES;
    uvec4 random = philox(uvec4(step_draws, 0u, 0u, 0u), uvec2(step_seed_lo, step_seed_hi));
    for (stage = 0u; stage < stages; stage++) {
        uint param = filter_word(FILTER_STAGES + stage);
        if (param != 0u && !(stage == STAGE_XTC && random.z > param))
            run_stage(param);
    }
}
