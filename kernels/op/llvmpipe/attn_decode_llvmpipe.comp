// Attention of one token, a share of the keys per invocation: made for llvmpipe.
//
// For query head h and each key j of one split: s[h, j] = log2(e) * scale * q[h] . k[j], and o[h] =
// sum_j 2^(s[h, j] - m) v[j], where m is the largest score. QKV is [T][QKV_STRIDE] f32 with one
// token per row: q, k and v. KV is the cache in f16 or f32. P receives per split the sum o[h], its
// maximum and its sum of weights, or the finished output if SPLITS is 1.
//
// Layout: work group x is a split of HEADS_BLOCK query heads that share one KV head; y is the row
// of the pass. The group first rotates its queries and the new key, a few vec4s per invocation. It
// rounds the new key and value to the cache's type and computes the score of the new key.
// Invocation i then processes the cached keys i, i + WG_SIZE, ... of the split, with queries and
// results in private arrays. Finally the results of all invocations and the new key are merged
// through shared memory.
//
// Choice: PREFER 20 on software renderers, 1 elsewhere.
//
// TUNEs: HEADS_BLOCK (at most ROOM) is the number of heads that reuse a loaded key; more heads need
// longer private arrays. WG_SIZE is the number of invocations that share the keys of a split.
//
// llvmpipe runs 8 invocations as one vector, and each of their loads as 8 scalar loads of any
// width, so the kernel loads 16 bytes at a time. Only a load from shared memory at a constant
// address, outside of loops and branches, is a single load. So each invocation copies the queries
// in this way. The length of a program matters at its first use: Mesa 22.3.6 compiles this one in
// 0.6 s. It took 1.0 s when each invocation rotated the queries itself, key and value were packed
// separately and the merge was written out per row.
//
// Utilisation: all invocations are active in the keys of a split. In the merge, as many are active
// as the block has vec4s.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). T860 spills 124:128 to 257:272.
// Mali G52 and V3D do not finish compiling it within 15 s. REGISTERS excludes the kernel on small
// GPUs.
//
//! NAME attn_decode_llvmpipe
//! OP attn_decode
//! VARIANT llvmpipe lanes streaming
//! WHEN kv_k f16 f32
//! WHEN kv_v f16 f32
//! BIND read vec4 QKV
//! BIND readwrite uvec4 KV
//! BIND read vec4 ROPE
//! BIND write float P
//! PARAM float scale
//! PARAM float softcap
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS QKV_STRIDE SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE ROOM = HEAD_DIM > 64 ? 2 : 4 in 1 2 4
//! TUNE HEADS_BLOCK = HEADS % (ROOM * KV_HEADS) == 0 ? ROOM : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE WG_SIZE = 8 in 8 16 32
//! LET ROWS = HEADS_BLOCK
//! LET VEC4S = HEAD_DIM / 4
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS HEADS / HEADS_BLOCK * SPLITS T
//! SHARED vec4 part[WG_SIZE * ROWS * VEC4S] // each share's weights times values
//! SHARED vec2 part_max_sum[WG_SIZE * ROWS]
//! SHARED float new_score[WG_SIZE * ROWS] // parts of the new key's scores
//! SHARED vec4 new_value[VEC4S]
//! SHARED vec4 rotated[(ROWS + 1) * VEC4S]
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 8 == 0 && ROPE_DIMS % 8 == 0 && ROPE_DIMS <= HEAD_DIM
//! REQUIRE HEAD_DIM <= 128 && HEAD_DIM * HEADS_BLOCK <= 256
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0
//! REGISTERS 128
//! PREFER SOFTWARE ? 20 : 1
//! TOLERANCE 1e-11
//! LIB half
//! LIB kv
//! LIB kv_round
//! LIB kv_vec8
//! LIB kv_vec8_store
//! LIB rope
//! LIB unroll
//! LIB activations
//! LIB attn_score
//! LIB attn_share
//! LIB attn_part
//! LIB attn_registers

// The first vec4 of a head.
uint head_at(attn_share share, uint head)
{
    return share.row * uint(QKV_STRIDE / 4) + head * uint(VEC4S);
}

// The first vec4 in QKV and the factor of row r of `rotated`.
uint head_of_row(attn_share share, uint r)
{
    return head_at(share, r < uint(ROWS) ? share.head0 + r : uint(HEADS) + share.kv_head);
}

float row_factor(uint r)
{
    return r < uint(ROWS) ? query_scale() : 1.0;
}

const uint HALF = uint(ROPE_DIMS / 8); // vec4s from a rotated number to its partner

// Writes the block's scaled queries, and after them the new key, to `rotated`. All are rotated.
void rotate_new(uint tid, attn_share share)
{
#if ROPE_DIMS > 0
    for (uint e = tid; e < uint(ROWS + 1) * HALF; e += uint(WG_SIZE)) {
        uint r = e / HALF, i = e % HALF;
        uint from = head_of_row(share, r) + i, to = r * uint(VEC4S) + i;
        vec4 a = QKV[from], b = QKV[from + HALF];
        vec4 x = rope_rotate(vec4(a.xy, b.xy), rope_angles(share.pos, 2u * i));
        vec4 y = rope_rotate(vec4(a.zw, b.zw), rope_angles(share.pos, 2u * i + 1u));
        rotated[to] = vec4(x.xy, y.xy) * row_factor(r);
        rotated[to + HALF] = vec4(x.zw, y.zw) * row_factor(r);
    }
#endif
#if ROPE_DIMS < HEAD_DIM
    const uint REST = uint(VEC4S) - 2u * HALF;
    for (uint e = tid; e < uint(ROWS + 1) * REST; e += uint(WG_SIZE)) {
        uint r = e / REST, i = 2u * HALF + e % REST;
        rotated[r * uint(VEC4S) + i] = QKV[head_of_row(share, r) + i] * row_factor(r);
    }
#endif
}

// Rounds the new key and value to the cache's type, a few vec4s per invocation. Stores both in the
// cache, the value in new_value, and this part of the key's scores in new_score.
void take_new(uint tid, attn_share share, uint key, uint value)
{
    uint from = head_at(share, uint(HEADS + KV_HEADS) + share.kv_head);
    float s[ROWS];
    for (int r = 0; r < ROWS; r++)
        s[r] = 0.0;
    for (uint e = tid; e < uint(2 * VEC4S); e += uint(WG_SIZE)) {
        bool of_key = e < uint(VEC4S);
        uint i = of_key ? e : e - uint(VEC4S);
        kv_words words = kv_pack(of_key ? rotated[uint(ROWS * VEC4S) + i] : QKV[from + i]);
        vec4 x = kv_unpack(words);
        if (share.stores)
            kv_store_words(of_key ? key : value, i, words);
        if (of_key) {
            for (int r = 0; r < ROWS; r++)
                s[r] += dot(rotated[uint(r * VEC4S) + i], x);
        } else {
            new_value[i] = x;
        }
    }
    for (int r = 0; r < ROWS; r++)
        new_score[r * WG_SIZE + int(tid)] = s[r];
}

void load_queries()
{
#define QUERY_ROW(i, r)                                                                            \
    q[r * VEC4S + 2 * i] = rotated[r * VEC4S + 2 * i];                                             \
    q[r * VEC4S + 2 * i + 1] = rotated[r * VEC4S + 2 * i + 1];
#define QUERY(i) EACH_ROW(QUERY_ROW, i)
    EACH_VEC8(QUERY)
}

// Returns vec4 i of the merged result of head r of the block. The new key counts as one more share.
void merge_shares(uint r, uint i, attn_share share)
{
    const uint SHARES = uint(WG_SIZE);
    float score = 0.0, all_max = NO_SCORE;
    for (uint e = r * SHARES; e < (r + 1u) * SHARES; e++) {
        score += new_score[e];
        all_max = max(all_max, part_max_sum[e].x);
    }
    score = score_of(score);
    if (share.has_new)
        all_max = max(all_max, score);
    float sum = share.has_new ? exp2(score - all_max) : 0.0;
    vec4 x = new_value[i] * sum;
    for (uint e = 0u; e < SHARES; e++) {
        vec2 max_sum = part_max_sum[r * SHARES + e];
        float weight = exp2(max_sum.x - all_max);
        sum += max_sum.y * weight;
        x += part[(r * uint(VEC4S) + i) * SHARES + e] * weight;
    }
    write_part(share.row, share.head0 + r, share.split, i, x, all_max, sum);
}

void body(uvec3 group)
{
    rope_begin();
    uint tid = gl_LocalInvocationID.x;
    attn_share share = attn_share_of(group.y, group.x, uint(SPLITS), 1u, 1u);
    kv_rows keys = kv_keys(share.seq, share.kv_head), values = kv_values(share.seq, share.kv_head);
    rotate_new(tid, share);
    memoryBarrierShared(); barrier();
    take_new(tid, share, kv_row(keys, share.pos), kv_row(values, share.pos));

    load_queries();
#define CLEAR_ROW(i, r) o[r * VEC4S + 2 * i] = o[r * VEC4S + 2 * i + 1] = vec4(0.0);
#define CLEAR(i)        EACH_ROW(CLEAR_ROW, i)
    EACH_VEC8(CLEAR)
    for (int r = 0; r < ROWS; r++) {
        row_max[r] = NO_SCORE;
        row_sum[r] = 0.0;
    }
    uint end = min(share.end, share.pos);
    for (uint first = share.first, page_end; first < end; first = page_end) {
        uint page_keys = kv_page_rows(keys, first), page_values = kv_page_rows(values, first);
        page_end = kv_page_end(first);
        for (uint j = first + tid; j < min(page_end, end); j += uint(WG_SIZE)) {
            float s[ROWS];
            multiply_key(kv_page_row(page_keys, j), s);
            for (int r = 0; r < ROWS; r++)
                s[r] = score_of(s[r]);
            add_value(kv_page_row(page_values, j), s);
        }
    }

    for (int r = 0; r < ROWS; r++) {
#define PART(i)                                                                                    \
    part[(r * VEC4S + 2 * i) * WG_SIZE + int(tid)] = o[r * VEC4S + 2 * i];                         \
    part[(r * VEC4S + 2 * i + 1) * WG_SIZE + int(tid)] = o[r * VEC4S + 2 * i + 1];
        EACH_VEC8(PART)
        part_max_sum[r * WG_SIZE + int(tid)] = vec2(row_max[r], row_sum[r]);
    }
    memoryBarrierShared(); barrier();
    if (share.inside)
        for (uint e = tid; e < uint(ROWS * VEC4S); e += uint(WG_SIZE))
            merge_shares(e / uint(VEC4S), e % uint(VEC4S), share);
}
