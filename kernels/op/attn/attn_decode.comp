// Attention of one token, scores in a shared table: any HEAD_DIM that is a multiple of 4, to 512.
//
// o[h] = sum_j 2^(s[h, j] - m) v[j] with s[h, j] = log2(e) * scale * q[h] . k[j], over the keys j
// of one split. Groups: KV heads by blocks of HEADS_BLOCK of their query heads by splits. A group
// rotates q and the new k together (k and v rounded to the cache's type, and stored by one group
// per KV head), then takes its keys WG_SIZE at a time: a key per invocation for the scores, an
// online softmax in powers of two over the table, and for the values a vec4 of the head per
// invocation, WG_SIZE / VEC4S keys at once.
//
//! NAME attn_decode
//! OP attn_decode
//! VARIANT baseline tiled_small tiled_large
//! WHEN kv f16 f32
//! BIND read vec2 QKV
//! BIND readwrite uvec2 KV
//! BIND read vec4 ROPE
//! BIND write float P
//! PARAM float scale
//! PARAM float softcap
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE HEADS_BLOCK = min(HEAD_DIM > 256 ? 3 : 4, HEADS / KV_HEADS) in 1 2 3 4
//! TUNE WG_SIZE = HEAD_DIM > 256 || !SOFTWARE ? 128 : HEAD_DIM > 128 ? 64 : 32 in 32 64 128
//! LET VEC4S = HEAD_DIM / 4
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS KV_HEADS * ceildiv(HEADS / KV_HEADS, HEADS_BLOCK) * SPLITS
//! SHARED vec2 new_rows[(HEADS_BLOCK + 2) * HEAD_DIM / 2] // q of each head, k, v
//! SHARED float score[HEADS_BLOCK * WG_SIZE]
//! SHARED float max_part[HEADS_BLOCK * 8]
//! SHARED vec4 out_part[WG_SIZE]
//! SHARED float sum_part[WG_SIZE]
//! REQUIRE HEAD_DIM % 4 == 0 && HEAD_DIM / 4 <= WG_SIZE && HEADS % KV_HEADS == 0
//! REQUIRE ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM
//! PREFER 10
//! TOLERANCE 1e-11
//! LIB half
//! LIB kv
//! LIB kv_round
//! LIB kv_vec4
//! LIB kv_vec4_store
//! LIB rope
//! LIB rope_items
//! LIB rope_items_vec2
//! LIB activations
//! LIB attn_score
//! LIB attn_share
//! LIB attn_part

const uint NEW_KEY = uint(HEADS_BLOCK), NEW_VALUE = NEW_KEY + 1u; // rows of new_rows
const uint VALUE_KEYS = uint(WG_SIZE / VEC4S); // at once

void load_new_rows(uint tid, attn_share share)
{
    for (uint n = tid; n < uint((HEADS_BLOCK + 2) * VEC4S); n += uint(WG_SIZE)) {
        uint r = n / uint(VEC4S), i = n % uint(VEC4S);
        uint head = uint(HEADS) + share.kv_head + (r - NEW_KEY) * uint(KV_HEADS);
        if (r < NEW_KEY)
            head = min(share.head0 + r, uint(HEADS - 1));
        rope_item item = rope_item_at(i);
        vec4 x = rope_item_load(head * uint(HEAD_DIM), item);
        if (item.paired && r <= NEW_KEY)
            x = rope_rotate(x, rope_angles(share.pos, i));
        x = r < NEW_KEY ? x * query_scale() : kv_round(x);
        new_rows[(r * uint(HEAD_DIM) + item.dim) / 2u] = x.xy;
        new_rows[(r * uint(HEAD_DIM) + item.partner) / 2u] = x.zw;
    }
}

vec4 new_vec4(uint r, uint i)
{
    uint n = 2u * (r * uint(VEC4S) + i);
    return vec4(new_rows[n], new_rows[n + 1u]);
}

void body(uvec3 group)
{
    rope_begin();
    uint tid = gl_LocalInvocationID.x;
    attn_share share = attn_share_of(group.x, 1u);
    kv_rows keys = kv_keys(share.seq, share.kv_head), values = kv_values(share.seq, share.kv_head);
    load_new_rows(tid, share);
    memoryBarrierShared(); barrier();
    if (share.stores)
        for (uint i = tid; i < uint(VEC4S); i += uint(WG_SIZE)) {
            kv_store_vec4(kv_row(keys, share.pos), i, new_vec4(NEW_KEY, i));
            kv_store_vec4(kv_row(values, share.pos), i, new_vec4(NEW_VALUE, i));
        }

    // The new key and value are read from new_rows: the cache may not hold them yet.
    vec4 o[HEADS_BLOCK];
    float s[HEADS_BLOCK], row_max[HEADS_BLOCK], row_sum[HEADS_BLOCK];
    for (int h = 0; h < HEADS_BLOCK; h++) {
        o[h] = vec4(0.0);
        row_max[h] = NO_SCORE;
        row_sum[h] = 0.0;
    }
    uint column = tid % uint(VEC4S), value_key = tid / uint(VEC4S);
    for (uint first = share.first; first < share.end; first += uint(WG_SIZE)) {
        uint count = min(uint(WG_SIZE), share.end - first);
        for (int h = 0; h < HEADS_BLOCK; h++)
            s[h] = tid < count ? 0.0 : NO_SCORE;
        if (tid < count) {
            uint key = kv_row(keys, first + tid);
            for (uint i = 0u; i < uint(VEC4S); i++) {
                vec4 k = first + tid == share.pos ? new_vec4(NEW_KEY, i) : kv_load_vec4(key, i);
                for (int h = 0; h < HEADS_BLOCK; h++)
                    s[h] += dot(k, new_vec4(uint(h), i));
            }
        }
        for (int h = 0; h < HEADS_BLOCK; h++) {
#if SOFTCAP
            s[h] = tid < count ? score_of(s[h]) : NO_SCORE;
#endif
            score[h * WG_SIZE + int(tid)] = s[h];
        }
        memoryBarrierShared(); barrier();
        for (uint i = tid; i < uint(HEADS_BLOCK * 8); i += uint(WG_SIZE)) {
            float part = NO_SCORE;
            for (uint e = 0u; e < uint(WG_SIZE / 8); e++)
                part = max(part, score[i * uint(WG_SIZE / 8) + e]);
            max_part[i] = part;
        }
        memoryBarrierShared(); barrier();
        for (int h = 0; h < HEADS_BLOCK; h++) {
            float new_max = row_max[h];
            for (int e = 0; e < 8; e++)
                new_max = max(new_max, max_part[h * 8 + e]);
            float rescale = exp2(row_max[h] - new_max);
            o[h] *= rescale;
            row_sum[h] *= rescale;
            row_max[h] = new_max;
            score[h * WG_SIZE + int(tid)] = exp2(s[h] - new_max);
        }
        memoryBarrierShared(); barrier();
        if (value_key < VALUE_KEYS)
            for (uint j = value_key; j < count; j += VALUE_KEYS) {
                vec4 v = first + j == share.pos
                             ? new_vec4(NEW_VALUE, column)
                             : kv_load_vec4(kv_row(values, first + j), column);
                for (int h = 0; h < HEADS_BLOCK; h++) {
                    float p = score[h * WG_SIZE + int(j)];
                    o[h] += p * v;
                    row_sum[h] += p;
                }
            }
        memoryBarrierShared(); barrier();
    }

    for (int h = 0; h < HEADS_BLOCK; h++) {
        out_part[tid] = o[h];
        sum_part[tid] = row_sum[h];
        memoryBarrierShared(); barrier();
        uint head = share.head0 + uint(h);
        if (share.inside && tid < uint(VEC4S) && head < (share.kv_head + 1u) * GQA_GROUP) {
            vec4 x = o[h];
            float sum = row_sum[h];
            for (uint e = 1u; e < VALUE_KEYS; e++) {
                x += out_part[e * uint(VEC4S) + tid];
                sum += sum_part[e * uint(VEC4S) + tid];
            }
            write_part(head, share.split, tid, x, row_max[h], sum);
        }
        memoryBarrierShared(); barrier();
    }
}
