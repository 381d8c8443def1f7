// Attention of one token: norms, rotation, softmax, merge. Each subgroup computes one head.
//
// For query head h and each key j of one split: s[h, j] = log2(e) * scale * q[h] . k[j], and o[h] =
// sum_j 2^(s[h, j] - m) v[j], where m is the largest score. The kernel also applies the norms of q
// and k, rotates them, stores the new key and value, and merges the splits into O. QKV is
// [T][QKV_STRIDE] f32 with one token per row, KV the cache in f16 or f32, and O is [T][HEADS *
// HEAD_DIM] f32. PARTS and ARRIVED are scratch for the merge.
//
// Layout: work group x is one of TAKEN splits of HEADS_BLOCK query heads that share one KV head; y
// is the row of the pass. TAKEN is chosen so that there are UNIT_GROUPS groups per compute unit. If
// there are few keys, only so many splits take part that each has ROUNDS rounds of keys. The other
// groups return at once.
//
// A group first writes the normed, rotated and scaled rows of its heads to shared memory, and the
// new key and value. Then each subgroup computes one head over every KEY_PARTS-th run of keys. K
// and V therefore come from memory once, and for the other heads' subgroups from the unit's cache.
// If a group has fewer subgroups than parts, each subgroup computes several parts in turn. If it
// has more, some subgroups have none. No sum depends on WG_SIZE.
//
// KEY_THREADS invocations (a power of two) share a key, and they process DEPTH keys in turn. Each
// invocation has OWN vec8s of the query and of the result, and loads as many of each key and value.
// OWN is 1 unless a head has more vec8s than a subgroup has invocations. The sums of DEPTH scores
// and their softmax, in powers of two, are spread over these invocations. While the values of the
// current keys are added, the next keys are loaded, and the other way round. Results are merged
// within the subgroup by shuffles, over subgroups through shared memory, and over splits by the
// group that arrives last.
//
// Choice: PREFER 30 replaces the separate operations qk_norm, attn_decode and attn_merge on devices
// with subgroups, unless REGISTERS does not fit.
//
// TUNEs: MOST_HEADS limits HEADS_BLOCK; more heads reuse loaded keys, fewer leave more groups.
// SETS, KEY_PARTS, MANY and WG_SIZE set the number of subgroups and of parts. DEPTH is the number
// of keys per softmax step. ROUNDS is the least number of rounds per split. UNIT_GROUPS is the
// number of groups per compute unit. AHEAD moves loads before the point at which the inputs must be
// ready: 1 looks up the pages of the cache there, 2 also loads the first keys, which costs
// registers. CROWD is set if there are so many sequences that each has two splits at most. A group
// then processes more keys per round, up to four rounds per split, and loads no keys ahead, which
// is shorter code.
//
// One H200, driver 580, 2026-11-22, f16 cache, in a stream of dependent dispatches, of which an
// empty one takes 3.0 us. Llama 3.2 1B: 7.6 us at 32 keys, 9.3 at 300, 12.3 at 4,096. Llama 3.1 8B:
// 10.5 at 100, 17.1 at 4,096. Gemma 3 1B with norms: 10.1 at 100, 12.7 at 4,096. More heads per
// subgroup, fewer or more splits and unrolling by hand were slower or the same. These times are
// from a version with one vec8 per invocation and no loop over OWN, which is 1 there.
//
// AHEAD in a persistent program, Llama 3.2 1B q4_k, measured with the same loads before place_of()
// was removed: 1,968 tok/s with 0, 1,984 with 1, 2,001 with 2. It is slower if keys occupy 32
// registers.
//
// Few splits occur in passes over many sequences, which fill the device anyway. There, four heads
// of 64 numbers read K and V once. Whole steps of Llama 3.2 1B (2026-11-23, in us with about 8 for
// the timer), with groups of two heads and of four:
//     tokens     8 sequences      16              32              64
//        100     13.8 and 13.4    17.7 and 15.2   22.4 and 16.3    34.2 and 24.3
//      1,500     28.5 and 25.3                    58.0 and 54.5   102.5 and 95.5
// With one subgroup for the keys of a head, 64 sequences take 23.8 and 104.6.
//
// CROWD on one H100 (driver 580, 2026-11-28), whole steps in f16 without and with it, prompts of 16
// tokens. Llama 3.2 1B q4_k: 32 sequences 3.079 and 3.069 ms (16.8 and 15.0 us in this kernel), 64
// sequences 4.726 and 4.706. Llama 3.1 8B, 32 sequences: 13.30 and 13.07. 1B, 32 sequences after
// 1,024 tokens: 3.652 and 3.681.
//
// Utilisation: in loads and products, all invocations of a key are active with heads of 64, 128 and
// 256 numbers. 10 of 16 (63%) are active with heads of 80, and 12 of 16 (75%) with heads of 96. In
// sums and softmax all are active, because shuffles add up a power of two. Groups of unused splits
// end at once.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). With LLVM 15 navi21 and navi31
// spill 3 to 343 registers, so attn_decode_tiled and attn_merge are chosen there, which spill none.
// ACO spilled 10 to 156 for heads of 16 numbers when the splits were merged in 64 or 128 SLICES. It
// spills none with at most as many SLICES as splits.
//
//! NAME attn_token_subgroup
//! OP attn_token
//! VARIANT subgroup
//! WHEN kv_k f16 f32
//! WHEN kv_v f16 f32
//! WHEN norm none head all
//! WHEN sinks none head
//! BIND read vec4 QKV
//! BIND readwrite uvec4 KV
//! BIND read vec4 ROPE
//! BIND coherent vec4 PARTS
//! BIND coherent uint ARRIVED
//! BIND write vec4 O
//! BIND read float S
//! BIND read vec4 G
//! PARAM float scale
//! PARAM float softcap
//! PARAM float rope_scale
//! PARAM float eps
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS QKV_STRIDE SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE CROWD = SPLITS <= 2 && KV_HEADS >= 4 && SPLITS * KV_HEADS < COMPUTE_UNITS in 0 1
//! TUNE MOST_HEADS = HEAD_DIM > 128 ? 1 : HEAD_DIM > 64 || SPLITS <= 4 ? 4 : 2 in 1 2 4 8
//! TUNE MANY = SPLITS > 4 && SUBGROUP_SIZE <= 32 && MAX_INVOCATIONS >= 512 in 0 1
//! TUNE SETS = MANY && SHARED_BYTES >= 32768 ? 16 : 8 in 4 8 16 32 // subgroups with a part each
//! TUNE KEY_PARTS = max(1, SETS / min(MOST_HEADS, HEADS / KV_HEADS) / 2 * 2) in 1 2 4 8 16
//! TUNE WG_SIZE = max(1, SUBGROUP_SIZE) * SETS in 8 16 32 64 128 256 512 1024
//! TUNE DEPTH = (HEAD_DIM > 64 || CROWD) && SUBGROUP_SIZE >= 16 ? 8 : 4 in 4 8
//! TUNE ROUNDS = CROWD ? 4 : 1 in 1 2 4 8
//! TUNE UNIT_GROUPS = 1 in 1 2 4
//! TUNE AHEAD = HEAD_DIM <= 128 && KV_K_f16 && !CROWD ? 2 : 0 in 0 1 2
//! LET HEADS_BLOCK = ceildiv(HEADS / KV_HEADS, ceildiv(HEADS / KV_HEADS, MOST_HEADS))
//! LET SUBGROUPS = WG_SIZE / max(1, SUBGROUP_SIZE)
//! LET AT_A_TIME = min(KEY_PARTS, max(1, SUBGROUPS / HEADS_BLOCK)) // parts
//! LET VEC4S = HEAD_DIM / 4
//! LET VEC8S = HEAD_DIM / 8
//! LET MOST_THREADS = max(DEPTH, VEC8S <= 4 ? 4 : VEC8S <= 8 ? 8 : VEC8S <= 16 ? 16 : 32)
//! LET KEY_THREADS = min(MOST_THREADS, max(1, SUBGROUP_SIZE))
//! LET SLOTS = SUBGROUP_SIZE / KEY_THREADS
//! LET OUTS = HEADS_BLOCK * VEC4S
//! LET HEAD_BLOCKS = KV_HEADS * ceildiv(HEADS / KV_HEADS, HEADS_BLOCK)
//! LET TAKEN = max(1, min(SPLITS, UNIT_GROUPS * max(COMPUTE_UNITS, 16) / HEAD_BLOCKS)) // splits
// Of the splits, merged side by side:
//! LET SLICES = max(1, min(TAKEN, KEY_PARTS * SUBGROUP_SIZE / VEC4S))
//! LET AT_ONCE = min(16, ceildiv(TAKEN, SLICES))
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS HEAD_BLOCKS * TAKEN T
//! ACTIVE T * HEADS * TAKEN * AT_A_TIME * SLOTS * VEC8S / ceildiv(VEC8S, KEY_THREADS)
//! SHARED vec4 out_part[max(KEY_PARTS, SLICES) * OUTS]
//! SHARED vec2 max_sum[max(KEY_PARTS, SLICES) * HEADS_BLOCK]
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 8 == 0 && HEAD_DIM <= 256 && HEADS % KV_HEADS == 0
//! REQUIRE ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM
//! REQUIRE SUBGROUP_SIZE >= DEPTH && SUBGROUPS >= HEADS_BLOCK
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REGISTERS 112
//! PREFER SOFTWARE ? -1 : 30
//! TOLERANCE 1e-11
//! LIB half
//! LIB kv
//! LIB kv_round
//! LIB kv_vec8
//! LIB kv_vec8_store
//! LIB rope
//! LIB rope_items
//! LIB activations
//! LIB attn_score
//! LIB attn_share
//! LIB attn_rows
//! LIB attn_spread
//! LIB attn_splits
//! LIB arrival
//! LIB last_group

const int OWN = (VEC8S + KEY_THREADS - 1) / KEY_THREADS;
const int TURNS = (KEY_PARTS + AT_A_TIME - 1) / AT_A_TIME;
const int KEYS = KEY_PARTS * SLOTS; // at a time
const int ROUND = DEPTH * KEYS;
// A round begins at a multiple of ROUND, so its keys are in this number of pages: those of as many
// turns of KEYS each.
const int PAGES = min(DEPTH, max(1, ROUND / KV_RUN)), PAGE_TURNS = DEPTH / PAGES;
// The place in the head of the i-th vec4 of an invocation. Two vec4s are a vec8.
#define OWN_VEC4(i) (2u * (uint(KEY_THREADS * ((i) / 2)) + i8) + uint((i) % 2))

// An invocation's place. It has vec8 e * KEY_THREADS + i8 of a key's row for each e below OWN;
// beyond the row, q is zero. The invocations of a key are neighbours within the subgroup, for any
// order of local invocations.
struct attn_place {
    uint i8, part;
    uint slot0, slot; // of the part's keys the first, and its own
    kv_rows keys;
    bool idle;    // without a part
    uint old_end; // of the split's keys already in the cache
    uint begin;   // the first round
};

// The subgroup's part in a turn.
void take_part(uint turn, attn_share share, inout attn_place at)
{
    at.part = turn * uint(AT_A_TIME) + gl_SubgroupID / uint(HEADS_BLOCK);
    at.slot0 = at.part * uint(SLOTS);
    at.slot = at.slot0 + gl_SubgroupInvocationID / uint(KEY_THREADS);
    at.old_end = min(share.end, share.pos);
#if SUBGROUPS != HEADS_BLOCK * AT_A_TIME || KEY_PARTS % AT_A_TIME != 0
    at.idle = gl_SubgroupID >= uint(HEADS_BLOCK * AT_A_TIME) || at.part >= uint(KEY_PARTS);
    at.old_end = at.idle ? 0u : at.old_end;
#else
    at.idle = false;
#endif
}

// Returns false if the whole group has no keys.
bool place_of(uvec3 group, out attn_share share, out attn_place at)
{
    share = attn_share_of(group.y, group.x, uint(TAKEN), uint(ROUNDS * ROUND), uint(ROUND));
    at.i8 = gl_SubgroupInvocationID % uint(KEY_THREADS);
    take_part(0u, share, at);
    at.keys = kv_skip(kv_keys(share.seq, share.kv_head), at.i8 < uint(VEC8S) ? at.i8 : 0u);
    at.begin = share.first / uint(ROUND) * uint(ROUND);
    return share.inside && share.split < share.splits;
}

// The keys and values of the round that begins at `next`. Its pages are looked up once, a round
// before they are needed. Keys beyond the split are read as the round's first key, and not used.
uint page_rows[PAGES], none;
#define LOOK_UP                                                                                    \
    for (int p = 0; p < PAGES; p++) {                                                              \
        uint slot_page = KV_RUN_PAGES(KEYS) > 1 ? kv_page_begin(place.slot) : 0u;                  \
        uint first = next + uint(p * PAGE_TURNS * KEYS) + slot_page;                               \
        uint rows = kv_page_rows(place.keys, min(first, share.pos));                               \
        page_rows[p] = kv_page_row(rows, next + place.slot);                                       \
    }                                                                                              \
    none = kv_row(place.keys, min(next, share.pos));
#define FETCH(into, offset)                                                                        \
    for (int d = 0; d < DEPTH; d++) {                                                              \
        uint row = kv_row_behind(page_rows[d / PAGE_TURNS], uint(d % PAGE_TURNS * KEYS));          \
        row = next + place.slot + uint(d * KEYS) < place.old_end ? row : none;                     \
        for (int e = 0; e < OWN; e++) {                                                            \
            uint i = uint(e * KEY_THREADS);                                                        \
            i = e == 0 || i + place.i8 < uint(VEC8S) ? i : 0u;                                     \
            into[d * OWN + e] = kv_fetch_vec8(row + (offset), i);                                  \
        }                                                                                          \
    }

// AHEAD: the first round's pages, with 2 also its keys, are loaded before the group waits for other
// groups. They do not change during a step.
uvec4 ahead[AHEAD > 1 ? DEPTH * OWN * KV_VEC8 : 1];

void begin(uvec3 group)
{
#if AHEAD > 0
    attn_share share;
    attn_place place;
    if (!place_of(group, share, place))
        return;
    uint next = place.begin;
    LOOK_UP
#endif
#if AHEAD > 1
    kv_vec8 k[DEPTH * OWN];
    FETCH(k, 0u)
    for (int i = 0; i < DEPTH * OWN; i++)
        for (int j = 0; j < KV_VEC8; j++)
            ahead[i * KV_VEC8 + j] = kv_vec8_part(k[i], j);
#endif
}

void body(uvec3 group)
{
    rope_begin();
    uint tid = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    attn_share share;
    attn_place place;
    if (!place_of(group, share, place))
        return;
    uint i8 = place.i8, slot0 = place.slot0, slot = place.slot, old_end = place.old_end;
    uint lane0 = gl_SubgroupInvocationID - i8, next = place.begin;
    uint row = gl_SubgroupID % uint(HEADS_BLOCK); // its head, of the block
    uint part = i8 / uint(KEY_THREADS / DEPTH); // of DEPTH keys: the one whose score it has
    kv_vec8 k[DEPTH * OWN], v[DEPTH * OWN];
    // Invocations issue loads in order: the new rows do not wait for the page table, and the keys
    // do not wait for the new rows.
    row_items items;
    load_rows(tid, share, items);
#if SINKS_head
    sink_begin(tid, share);
#endif
#if AHEAD == 0
    LOOK_UP
#endif
#if AHEAD > 1
    for (int i = 0; i < DEPTH * OWN; i++)
        k[i] = kv_vec8_of(ahead[i * KV_VEC8], ahead[i * KV_VEC8 + KV_VEC8 - 1]);
#else
    FETCH(k, 0u)
#endif
    FETCH(v, KV_TO_VALUE)
    next += uint(ROUND);
    if (next < old_end) {
        LOOK_UP
    }
    make_rows(tid, share, items);
    memoryBarrierShared(); barrier();
    if (share.stores)
        for (uint i = tid; i < uint(VEC4S); i += uint(WG_SIZE)) {
            kv_store_vec4(kv_row(kv_keys(share.seq, share.kv_head), share.pos), i,
                          new_vec4(NEW_KEY, i));
            kv_store_vec4(kv_row(kv_values(share.seq, share.kv_head), share.pos), i,
                          new_vec4(NEW_VALUE, i));
        }

    vec4 q[2 * OWN], o[2 * OWN]; // halves of vec8s
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn > 0) {
            take_part(uint(turn), share, place);
            slot0 = place.slot0;
            slot = place.slot;
            old_end = place.old_end;
            next = place.begin;
            LOOK_UP
            FETCH(k, 0u)
            FETCH(v, KV_TO_VALUE)
            next += uint(ROUND);
            if (next < old_end) {
                LOOK_UP
            }
        }
        for (int i = 0; i < 2 * OWN; i++) {
            q[i] = new_vec4(row, OWN_VEC4(i));
            o[i] = vec4(0.0);
        }
        float row_max = NO_SCORE, row_sum = 0.0; // the sum in DEPTH parts
        // The new key is the first key of slot 0. Its whole subgroup computes, because shuffles
        // require that.
        if (share.has_new && place.part == 0u) {
            bool mine = slot == 0u;
            float product = 0.0;
            for (int i = 0; i < 2 * OWN; i++)
                product += dot(q[i], new_vec4(NEW_KEY, OWN_VEC4(i)));
            product = key_sum(product);
            row_max = mine ? score_of(product) : NO_SCORE;
            row_sum = mine && part == 0u ? 1.0 : 0.0;
            for (int i = 0; i < 2 * OWN; i++)
                o[i] = mine ? new_vec4(NEW_VALUE, OWN_VEC4(i)) : vec4(0.0);
        }

        for (uint first = place.begin; first + slot0 < old_end; first += uint(ROUND)) {
            float s[DEPTH];
            for (int d = 0; d < DEPTH; d++) {
                vec4 a, b;
                kv_unpack_vec8(k[d * OWN], a, b);
                s[d] = dot(q[0], a) + dot(q[1], b);
                for (int e = 1; e < OWN; e++) {
                    kv_unpack_vec8(k[d * OWN + e], a, b);
                    s[d] += dot(q[2 * e], a) + dot(q[2 * e + 1], b);
                }
            }
            if (next < old_end) {
                FETCH(k, 0u)
            }
            uint key = first + part * uint(KEYS) + slot;
            bool valid = key < old_end && (WINDOW == 0 || key >= share.first);
            float score = spread_sums(i8, s);
            score = valid ? score_of(score) : NO_SCORE;
            float new_max = max(row_max, spread_max(score));
            float rescale = exp2(row_max - new_max), weight = valid ? exp2(score - new_max) : 0.0;
            row_max = new_max;
            row_sum = row_sum * rescale + weight;
            for (int i = 0; i < 2 * OWN; i++)
                o[i] *= rescale;
            for (int d = 0; d < DEPTH; d++) {
                vec4 a, b;
                float w = subgroupShuffle(weight, lane0 + uint(d * KEY_THREADS / DEPTH));
                for (int e = 0; e < OWN; e++) {
                    kv_unpack_vec8(v[d * OWN + e], a, b);
                    o[2 * e] += w * a;
                    o[2 * e + 1] += w * b;
                }
            }
            if (next < old_end) {
                FETCH(v, KV_TO_VALUE)
                next += uint(ROUND);
                LOOK_UP
            }
        }

        float all_max = row_max;
        for (uint mask = uint(KEY_THREADS); mask < gl_SubgroupSize; mask *= 2u)
            all_max = max(all_max, subgroupShuffleXor(all_max, mask));
        float rescale = exp2(row_max - all_max);
        for (int i = 0; i < 2 * OWN; i++)
            o[i] *= rescale;
        row_sum = spread_sum(row_sum) * rescale;
        for (uint mask = uint(KEY_THREADS); mask < gl_SubgroupSize; mask *= 2u) {
            row_sum += subgroupShuffleXor(row_sum, mask);
            for (int i = 0; i < 2 * OWN; i++)
                o[i] += subgroupShuffleXor(o[i], mask);
        }
        if (gl_SubgroupInvocationID < uint(KEY_THREADS) && !place.idle) {
            uint to = place.part * uint(HEADS_BLOCK) + row;
            for (int i = 0; i < 2 * OWN; i++)
                if (OWN_VEC4(i) < uint(VEC4S))
                    out_part[to * uint(VEC4S) + OWN_VEC4(i)] = o[i];
            max_sum[to] = vec2(all_max, row_sum);
        }
    }
    memoryBarrierShared(); barrier();
    for (uint n = tid; n < uint(OUTS); n += uint(WG_SIZE)) {
        uint r = n / uint(VEC4S), i = n % uint(VEC4S);
        float all_max = NO_SCORE, sum = 0.0;
        vec4 x = vec4(0.0);
        for (uint e = 0u; e < uint(KEY_PARTS); e++)
            all_max = max(all_max, max_sum[e * uint(HEADS_BLOCK) + r].x);
        for (uint e = 0u; e < uint(KEY_PARTS); e++) {
            vec2 ms = max_sum[e * uint(HEADS_BLOCK) + r];
            float rescale = exp2(ms.x - all_max);
            sum += ms.y * rescale;
            x += out_part[(e * uint(HEADS_BLOCK) + r) * uint(VEC4S) + i] * rescale;
        }
#if TAKEN > 1
        if (share.splits > 1u)
            write_part(r, i, share, x, all_max, sum);
        else
#endif
            write_head(r, i, share, x, all_max, sum);
    }
#if TAKEN > 1
    if (share.splits > 1u)
        if (last_group(share.row * uint(HEAD_BLOCKS) + share.block, share.splits))
            merge_splits(tid, share);
#endif
}
