// Attention of one token: norms, rotation, softmax, merge. A subgroup takes a head.
//
// o[h] = sum_j 2^(s[h, j] - m) v[j] with s[h, j] = log2(e) * scale * q[h] . k[j], over the keys j
// of one split. Groups: TAKEN splits (UNIT_GROUPS groups for each compute unit in all) by blocks of
// HEADS_BLOCK heads of one KV head, of which only as many splits take part as leave ROUNDS rounds
// of keys to each: the others return at once. A group makes the
// rows of its heads, normed, rotated and scaled, and the new key and value, in shared memory, once
// for all. Then a subgroup has one of the heads and every KEY_PARTS-th run of keys, so that K and V
// come from memory once and to the other heads' subgroups from the unit's cache. In a group of
// fewer subgroups each has several such parts, one after the other; in one of more some have none:
// no sum depends on WG_SIZE.
// KEY_THREADS invocations (a power of two) share a key, DEPTH keys in turn: each holds OWN vec8s of
// q and of the result (one, unless a subgroup has fewer invocations than a head has vec8s) and
// loads as many of key and value; sums of DEPTH scores and their softmax, in powers of two, are
// spread over them. The next keys are on their way while the values of the current ones are added,
// and the other way round. Results are merged within the subgroup by shuffles, over subgroups
// through shared memory, over splits by the group that arrives last.
//
// One H200, driver 580, 2026-11-22, in a stream of dispatches that wait for each other, an empty
// one taking 3.0 us (f16 cache): Llama 3.2 1B 7.6 us at 32 keys, 9.3 at 300, 12.3 at 4,096; Llama
// 3.1 8B 10.5 at 100, 17.1 at 4,096; Gemma 3 1B with norms 10.1 at 100, 12.7 at 4,096. More heads
// per subgroup, fewer or more splits and unrolling by hand were slower or the same. Measured when
// an invocation had one vec8 and no loop over OWN, which is 1 there.
//
// AHEAD in a persistent program, Llama 3.2 1B q4_k, tok/s, measured with the same loads before
// place_of() was taken out: 0 1,968, 1 1,984, 2 2,001; slower where keys are 32 registers.
//
// Few splits are those of passes over many sequences, which fill the device: four heads of 64
// numbers there read K and V once. In whole steps of Llama 3.2 1B (2026-11-23, us with a timer's 8
// or so), groups of two heads and of four: 8 sequences of 100 tokens 13.8 and 13.4, 16 17.7 and
// 15.2, 32 22.4 and 16.3, 64 34.2 and 24.3; of 1,500 tokens 8 28.5 and 25.3, 32 58.0 and 54.5, 64
// 102.5 and 95.5; 64 with one subgroup for the keys of a head 23.8 and 104.6.
//
// CROWD: so many sequences that each has two splits at most. They take more keys a round, leave up
// to four rounds to one split, and ask for no keys ahead, which is shorter code. One H100 (driver
// 580), 2026-11-28, whole steps in f16 without and with it, prompts of 16 tokens: Llama 3.2 1B q4_k
// 32 sequences 3.079 and 3.069 ms (here 16.8 and 15.0 us), 64 4.726 and 4.706, Llama 3.1 8B 32
// 13.30 and 13.07; 1B 32 after 1,024 tokens 3.652 and 3.681.
//
// In loads and products 8 of the 8 invocations of a key are active for heads of 64, 10 of 16 (63%)
// for 80, 12 of 16 (75%) for 96 and all for 128 and 256, in sums and softmax all: a power of two is
// what shuffles add up. A group beyond the splits that few keys leave ends at once.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). With LLVM 15 navi21 and navi31
// spill 3 to 343 registers: attn_decode_tiled and attn_merge are chosen there and spill none. ACO
// spilled 10 to 156 of heads of 16 numbers, whose splits were merged in 64 or 128 SLICES; with no
// more SLICES than splits none.
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
// A round begins at a multiple of ROUND, so that its keys lie in so many pages: those of as many
// turns of KEYS each.
const int PAGES = min(DEPTH, max(1, ROUND / KV_RUN)), PAGE_TURNS = DEPTH / PAGES;
// Of an invocation's vec4s, all halves of vec8s: the i-th one's place in the head.
#define OWN_VEC4(i) (2u * (uint(KEY_THREADS * ((i) / 2)) + i8) + uint((i) % 2))

// An invocation's place: vec8 e * KEY_THREADS + i8 of a key's row for each e below OWN (beyond the
// row, zeros of q). The invocations of a key are neighbours within the subgroup, whatever the order
// of local invocations.
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

// False: the whole group has no keys.
bool place_of(uvec3 group, out attn_share share, out attn_place at)
{
    share = attn_share_of(group.y, group.x, uint(TAKEN), uint(ROUNDS * ROUND), uint(ROUND));
    at.i8 = gl_SubgroupInvocationID % uint(KEY_THREADS);
    take_part(0u, share, at);
    at.keys = kv_skip(kv_keys(share.seq, share.kv_head), at.i8 < uint(VEC8S) ? at.i8 : 0u);
    at.begin = share.first / uint(ROUND) * uint(ROUND);
    return share.inside && share.split < share.splits;
}

// Keys and values of the round that begins at `next`; its pages are looked up once, and a round
// before they are needed. What lies beyond the split is read as the round's first key, and not
// used.
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

// AHEAD: the first round's pages, or its keys too, are asked for before other groups are waited
// for: nothing of it changes in a step.
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
    // Invocations issue in order: the new rows do not wait for the page table, nor keys for them.
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
        // The new key is the first of slot 0; its whole subgroup computes, as shuffles want it.
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
