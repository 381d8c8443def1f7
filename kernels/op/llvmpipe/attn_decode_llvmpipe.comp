// Attention of one token, a share of the keys per invocation: made for llvmpipe.
//
// o[h] = sum_j 2^(s[h, j] - m) v[j] with s[h, j] = log2(e) * scale * q[h] . k[j], over the keys j
// of one split. Groups: blocks of HEADS_BLOCK heads of one KV head by splits. Invocation i takes
// the cached keys i, i + WG_SIZE, ... of the split, with the queries (rotated by each for itself)
// and its results in registers. The new key and value are rotated, rounded to the cache's type and
// scored together, a few vec4 per invocation. Then the shares and the new key are merged through
// shared memory.
//
// llvmpipe runs 8 invocations as one vector and each of their loads as 8 scalar ones, wide or not:
// so 16 bytes per load. A kernel with a barrier becomes a coroutine whose variables live in memory
// from the first barrier on: so there is one, with little after it.
//
// All invocations are active in the keys of a split; in the merge as many as a head has vec4s.
//
//! NAME attn_decode_llvmpipe
//! OP attn_decode
//! VARIANT llvmpipe lanes streaming
//! WHEN kv f16 f32
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
//! REQUIRE HEAD_DIM % 8 == 0 && ROPE_DIMS % 8 == 0 && ROPE_DIMS <= HEAD_DIM
//! REQUIRE HEAD_DIM <= 128 && HEAD_DIM * HEADS_BLOCK <= 256
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0
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

const uint HALF = uint(ROPE_DIMS / 8); // vec4s from a rotated number to its partner

// vec4 i of the first half of the head at `first` and its partner, rotated by the angles of numbers
// 4 i to 4 i + 3.
void load_rotated(uint first, uint i, vec4 even, vec4 odd, out vec4 a, out vec4 b)
{
    a = QKV[first + i];
    b = QKV[first + i + HALF];
    vec4 x = rope_rotate(vec4(a.xy, b.xy), even);
    vec4 y = rope_rotate(vec4(a.zw, b.zw), odd);
    a = vec4(x.xy, y.xy);
    b = vec4(x.zw, y.zw);
}

void load_queries(attn_share share)
{
    float factor = query_scale();
    for (uint i = 0u; i < HALF; i++) {
        vec4 even = rope_angles(share.pos, 2u * i), odd = rope_angles(share.pos, 2u * i + 1u);
        for (uint r = 0u; r < uint(ROWS); r++) {
            vec4 a, b;
            load_rotated(head_at(share, share.head0 + r), i, even, odd, a, b);
            q[r * uint(VEC4S) + i] = a * factor;
            q[r * uint(VEC4S) + i + HALF] = b * factor;
        }
    }
    for (uint i = 2u * HALF; i < uint(VEC4S); i++)
        for (uint r = 0u; r < uint(ROWS); r++)
            q[r * uint(VEC4S) + i] = QKV[head_at(share, share.head0 + r) + i] * factor;
}

// This invocation's vec4s of the new key and value: to new_score, new_value and the cache.
void take_new(uint tid, attn_share share, uint key, uint value)
{
    float s[ROWS];
    for (int r = 0; r < ROWS; r++)
        s[r] = 0.0;
    for (uint i = tid; i < uint(VEC4S); i += uint(WG_SIZE)) {
        kv_words v = kv_pack(QKV[head_at(share, uint(HEADS + KV_HEADS) + share.kv_head) + i]);
        new_value[i] = kv_unpack(v);
        if (share.stores)
            kv_store_words(value, i, v);
    }
    for (uint i = tid; i < HALF; i += uint(WG_SIZE)) {
        vec4 even = rope_angles(share.pos, 2u * i), odd = rope_angles(share.pos, 2u * i + 1u);
        vec4 a, b, c, d;
        load_rotated(head_at(share, uint(HEADS) + share.kv_head), i, even, odd, a, b);
        kv_words first = kv_pack(a), second = kv_pack(b);
        a = kv_unpack(first);
        b = kv_unpack(second);
        if (share.stores) {
            kv_store_words(key, i, first);
            kv_store_words(key, i + HALF, second);
        }
        for (int r = 0; r < ROWS; r++) {
            load_rotated(head_at(share, share.head0 + uint(r)), i, even, odd, c, d);
            s[r] += dot(a, c) + dot(b, d);
        }
    }
#if ROPE_DIMS < HEAD_DIM
    for (uint i = 2u * HALF + tid; i < uint(VEC4S); i += uint(WG_SIZE)) {
        kv_words words = kv_pack(QKV[head_at(share, uint(HEADS) + share.kv_head) + i]);
        vec4 k = kv_unpack(words);
        if (share.stores)
            kv_store_words(key, i, words);
        for (int r = 0; r < ROWS; r++)
            s[r] += dot(k, QKV[head_at(share, share.head0 + uint(r)) + i]);
    }
#endif
    for (int r = 0; r < ROWS; r++)
        new_score[r * WG_SIZE + int(tid)] = s[r] * query_scale();
}

// The merged result of head r of the block. The new key counts as one more share.
void merge_shares(uint tid, uint r, attn_share share)
{
    const uint SHARES = uint(WG_SIZE);
    float score = 0.0;
    for (uint e = r * SHARES; e < (r + 1u) * SHARES; e++)
        score += new_score[e];
    score = score_of(score);
    float all_max = share.has_new ? score : NO_SCORE;
    for (uint e = r * SHARES; e < (r + 1u) * SHARES; e++)
        all_max = max(all_max, part_max_sum[e].x);
    float weight = share.has_new ? exp2(score - all_max) : 0.0;
    float sum = weight;
    for (uint e = r * SHARES; e < (r + 1u) * SHARES; e++)
        sum += part_max_sum[e].y * exp2(part_max_sum[e].x - all_max);
    for (uint i = tid; i < uint(VEC4S); i += SHARES) {
        vec4 x = new_value[i] * weight;
        for (uint e = 0u; e < SHARES; e++)
            x += part[(r * uint(VEC4S) + i) * SHARES + e] *
                 exp2(part_max_sum[r * SHARES + e].x - all_max);
        write_part(share.row, share.head0 + r, share.split, i, x, all_max, sum);
    }
}

void body(uvec3 group)
{
    rope_begin();
    uint tid = gl_LocalInvocationID.x;
    attn_share share = attn_share_of(group.y, group.x, uint(SPLITS), 1u, 1u);
    kv_rows keys = kv_keys(share.seq, share.kv_head), values = kv_values(share.seq, share.kv_head);
    take_new(tid, share, kv_row(keys, share.pos), kv_row(values, share.pos));

    load_queries(share);
#define CLEAR(i)                                                                                   \
    for (int r = 0; r < ROWS; r++)                                                                 \
        o[r * VEC4S + 2 * i] = o[r * VEC4S + 2 * i + 1] = vec4(0.0);
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
        for (uint r = 0u; r < uint(ROWS); r++)
            merge_shares(tid, r, share);
}
