// The next token from the logits in one dispatch: every group reads a slice, the last one chooses.
//
// LOGITS is [T][VOCAB] f32. With kind=greedy, the token is that of the best logit. With kind=topk,
// it is drawn from the top_k best logits (lib topk_draw). Slices are those of sample_max and
// sample_topk.
//
// Layout: work group x is a slice of 2048 logits, y the row. With kind=greedy, a group stores the
// best of its slice in CAND. With kind=topk, it stores the top_k best in order of rank. To find
// these, the group orders the best logits of its invocations. At least top_k logits are at or
// before the top_k-th of them, the edge (lib best_pairs). Only these, about 50 for a top_k of 40,
// are ranked.
//
// The group that arrives last merges the slices in the same way, then draws and ends the step (lib
// step_end). Let m be ceil(top_k / SLICES). The group orders the m-th best logits of all slices.
// The ceil(top_k / m)-th of them is the edge. Only logits at or before the edge are ranked. If
// there are more than 2048 of these, the radix search of sample_pick is used instead.
//
// After a stop, the `count` triples of group counts in ARGS (indirect dispatches) are zeroed. All
// other buffers remain as they are.
//
// Choice: with PREFER 10, the plan uses this kernel instead of sample_max or sample_topk,
// sample_pick and sample_args. On software renderers PREFER is -10.
//
// TUNEs: WG_SIZE is the group size. LARGE selects 256 invocations for vocabularies of more than
// 262144 ids, and for devices with few registers.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). With 128 invocations V3D 7.1
// spills 5:23 and Mali G52 4:50 to 4:57. With 256 both spill none.
//
//! NAME sample_next
//! OP sample_next
//! VARIANT baseline
//! WHEN kind greedy topk
//! BIND read uint LOGITS
//! BIND coherent uvec2 CAND // pairs of key and id
//! BIND coherent uint ARRIVED
//! BIND read uint STOPS
//! BIND write uint IDS
//! BIND readwrite uint STEP
//! BIND write uint ARGS
//! PARAM uint count
//! CONST VOCAB
//! STEP readwrite
//! TUNE LARGE = VOCAB > 262144 || REGISTERS < 68 in 0 1
//! TUNE WG_SIZE = LARGE && MAX_INVOCATIONS >= 256 ? 256 : 128 in 128 256 512
//! LOCAL WG_SIZE
//! GROUPS ceildiv(VOCAB, 2048) T // fixed: a slice of docs/operations.md
//! ACTIVE T * min(ceildiv(VOCAB, 2048) * WG_SIZE, VOCAB)
//! SHARED uint ended
//! SHARED uint deeper
//! REQUIRE VOCAB <= 2048 * WG_SIZE
//! PREFER SOFTWARE ? -10 : 10
//! LIB uint64
//! LIB sample
//! LIB philox
//! LIB step_end
//! LIB topk_draw
//! LIB radix_topk
//! LIB best_pairs
//! LIB arrival
//! LIB last_group

const int SHARE = int(SLICE) / LOCAL_X; // logits of an invocation
const int RUNS = (8 * int(SLICES) + LOCAL_X - 1) / LOCAL_X;

uvec2 pair_of(uint key, uint id)
{
    return id < uint(VOCAB) ? uvec2(key, id) : NO_PAIR;
}

#if KIND_topk
uint wanted;

uint slot_of(uint slice, uint i)
{
    return CAND_FIRST / 2u + slice * 128u + i;
}

uint radix_topk_key(uint i)
{
    return CAND[slot_of(i / wanted, i % wanted)].x;
}

void radix_topk_take(uint slot, uint i)
{
    chosen[slot] = uvec4(CAND[slot_of(i / wanted, i % wanted)], 0u, 0u);
}

void rank_slice(uint tid, uint slice, uint keys[SHARE], uvec2 best)
{
    uvec2 edge = pairs_begin(tid, best, wanted);
    uint first = slice * SLICE + tid, mine = 0u;
    for (int n = 0; n < SHARE; n++)
        mine += pairs_wants(pair_of(keys[n], first + uint(n * LOCAL_X)), edge);
    uint slot = 0u;
    if (mine != 0u)
        slot = pairs_reserve(mine);
    // No second `if (mine != 0u)`: see "Repeated conditions" of docs/kernels.md.
    for (int n = 0; n < SHARE; n++) {
        uvec2 pair = pair_of(keys[n], first + uint(n * LOCAL_X));
        if (pairs_wants(pair, edge) != 0u)
            pairs_put(slot++, pair);
    }
    pairs_end(tid);
    uint found = pairs_count;
    for (uint i = tid; i < found; i += uint(LOCAL_X)) {
        uint rank = pairs_rank(pairs[i], found);
        if (rank < wanted)
            CAND[slot_of(slice, rank)] = pairs[i];
    }
    for (uint i = found + tid; i < wanted; i += uint(LOCAL_X))
        CAND[slot_of(slice, i)] = NO_PAIR;
}

uint choose(uint tid)
{
    uint deep = (wanted + SLICES - 1u) / SLICES, heads = (wanted + deep - 1u) / deep;
    uvec2 head = CAND[slot_of(min(tid, SLICES - 1u), deep - 1u)];
    uvec2 edge = pairs_begin(tid, tid < SLICES ? head : NO_PAIR, heads);
    // The pairs of each slice are in order of rank. Each round reads the next eight pairs of every
    // slice. The loop ends after a round in which no slice had all eight at or before the edge.
    for (uint from = 0u; from < wanted; from += 8u) {
        uvec2 got[RUNS];
        uint mine = 0u;
        if (tid == 0u)
            deeper = 0u;
        for (int n = 0; n < RUNS; n++) {
            uint i = uint(n * LOCAL_X) + tid, rank = from + i % 8u;
            got[n] = CAND[slot_of(min(i / 8u, SLICES - 1u), min(rank, wanted - 1u))];
        }
        for (int n = 0; n < RUNS; n++) {
            uint i = uint(n * LOCAL_X) + tid;
            got[n] = i < 8u * SLICES && from + i % 8u < wanted ? got[n] : NO_PAIR;
            mine += pairs_wants(got[n], edge);
        }
        memoryBarrierShared(); barrier();
        if (mine != 0u) {
            uint slot = pairs_reserve(mine);
            for (int n = 0; n < RUNS; n++)
                if (pairs_wants(got[n], edge) != 0u) {
                    pairs_put(slot++, got[n]);
                    if (tid % 8u == 7u)
                        deeper = 1u;
                }
        }
        memoryBarrierShared(); barrier();
        bool ends = deeper == 0u;
        memoryBarrierShared(); barrier();
        if (ends)
            break;
    }
    uint found = pairs_count;
    if (found > uint(PAIRS_MOST)) {
        radix_topk(tid, SLICES * wanted, wanted);
    } else {
        pairs_end(tid);
        for (uint i = found + tid; i < wanted; i += uint(LOCAL_X))
            chosen[i] = uvec4(NO_PAIR, 0u, 0u);
        for (uint i = tid; i < found; i += uint(LOCAL_X)) {
            uint rank = pairs_rank(pairs[i], found);
            if (rank < wanted)
                chosen[rank] = uvec4(pairs[i], 0u, 0u);
        }
    }
    memoryBarrierShared(); barrier();
    return topk_draw(tid, wanted);
}
#else
uint choose(uint tid)
{
    uvec2 best = CAND[CAND_FIRST / 2u + min(tid, SLICES - 1u)];
    best = pairs_max(tid, best);
    return best.x != 0u ? best.y : NOBODY;
}
#endif

void body(uvec3 group)
{
    step_row = group.y;
    uint tid = gl_LocalInvocationID.x, slice = group.x;
    bool running = sample_runs(KIND_topk != 0 ? SAMPLE_TOPK : SAMPLE_GREEDY);
#if KIND_topk
    wanted = clamp(step_top_k, 1u, 128u);
#endif
    if (step_stopped != 0u && slice == 0u)
        for (uint i = tid; i < 3u * count; i += uint(LOCAL_X))
            ARGS[i] = 0u;
    if (!running || slice >= SLICES)
        return;

    uint keys[SHARE];
    uvec2 best = NO_PAIR;
    stop_ids_fetch(tid);
    for (int n = 0; n < SHARE; n++) {
        uint id = slice * SLICE + uint(n * LOCAL_X) + tid;
        keys[n] = sample_key(LOGITS[logit_at(min(id, uint(VOCAB - 1)))]);
        uvec2 pair = pair_of(keys[n], id);
        best = better(pair, best) ? pair : best;
    }
#if KIND_topk
    rank_slice(tid, slice, keys, best);
#else
    best = pairs_max(tid, best);
    if (tid == 0u)
        CAND[CAND_FIRST / 2u + slice] = best;
#endif
    if (!last_group(step_row, SLICES))
        return;
    uint id = choose(tid);
    if (tid == 0u)
        ended = step_end(id) ? 1u : 0u;
    memoryBarrierShared(); barrier();
    for (uint i = tid; ended != 0u && i < 3u * count; i += uint(LOCAL_X))
        ARGS[i] = 0u;
}
