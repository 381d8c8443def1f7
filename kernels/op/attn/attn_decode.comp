// Attention of one token, a small tile: scores in a shared table, keys and values from memory.
//
// For query head h and each key j of one split: s[h, j] = log2(e) * scale * q[h] . k[j], and o[h] =
// sum_j 2^(s[h, j] - m) v[j], where m is the largest score. QKV is [T][QKV_STRIDE] f32 with one
// token per row: q, k and v. KV is the cache in f16 or f32. P receives per split the sum o[h], its
// maximum and its sum of weights, or the finished output if SPLITS is 1. HEAD_DIM may be any
// multiple of 4 up to 512.
//
// Layout: work group x is a split of HEADS_BLOCK query heads that share one KV head; y is the row
// of the pass. The group rotates its queries and the new key together. One group per KV head rounds
// the new key and value to the cache's type and stores them. The group then processes WG_SIZE keys
// at a time. For the scores, each invocation computes one key and writes to a table in shared
// memory. An online softmax in powers of two follows. For the values, each invocation sums one vec4
// of the head, so that WG_SIZE / VEC4S keys are read at once.
//
// Choice: PREFER 10 is the highest rank on GPUs. If the REGISTERS estimate does not fit,
// attn_decode_tiled (5) or attn_decode_streaming (2) is used. On software renderers
// attn_decode_llvmpipe (20) is used.
//
// TUNEs: a larger HEADS_BLOCK reads each key for more query heads but requires more registers. MOST
// limits WG_SIZE, the number of keys per round.
//
// Utilisation: in a full tile all of 128 invocations compute scores. For the values 128, 120, 120,
// 128 and 128 of them are active with heads of 64, 80, 96, 128 and 256 numbers. If a split has
// fewer keys than WG_SIZE, the other invocations are idle during the scores.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Blocks of 4 heads spill 13:29 to
// 17:39 on V3D 4.2 and 4:32 to 5:41 on Mali G52. Blocks of 2, which REGISTERS selects there, spill
// none (V3D 7.1: 1:1 with 128 invocations, none with 64). LLVM 15 spills 16 registers with 1 head,
// 92 with 2, and 217 to 561 with 4, so attn_decode_tiled is chosen there.
//
//! NAME attn_decode
//! OP attn_decode
//! VARIANT baseline tiled_small
//! WHEN kv_k f16 f32
//! WHEN kv_v f16 f32
//! BIND read vec2 QKV
//! BIND readwrite uvec2 KV
//! BIND read vec4 ROPE
//! BIND write float P
//! PARAM float scale
//! PARAM float softcap
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS QKV_STRIDE SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE HEADS_BLOCK = min(HEADS / KV_HEADS, REGISTERS < 68 ? 2 : HEAD_DIM > 256 ? 3 : 4) in 1 2 3 4
//! TUNE MOST = SOFTWARE ? 32 : REGISTERS < 60 ? 64 : 128 in 32 64 128
//! TUNE WG_SIZE = HEAD_DIM > 256 ? 128 : HEAD_DIM > 128 ? max(64, MOST) : MOST in 32 64 128
//! LET VEC4S = HEAD_DIM / 4
//! LET HEAD_BLOCKS = KV_HEADS * ceildiv(HEADS / KV_HEADS, HEADS_BLOCK)
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS HEAD_BLOCKS * SPLITS T
//! ACTIVE T * HEAD_BLOCKS * SPLITS * (WG_SIZE / VEC4S * VEC4S)
//! SHARED float score[HEADS_BLOCK * WG_SIZE]
//! SHARED float max_part[HEADS_BLOCK * 8]
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 4 == 0 && HEAD_DIM / 4 <= WG_SIZE && HEADS % KV_HEADS == 0
//! REQUIRE ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM
//! REGISTERS HEADS_BLOCK > 2 || SUBGROUP_SIZE == 64 ? 94 : 48
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
//! LIB attn_new_rows
//! LIB loop_end
//! LIB attn_columns

void body(uvec3 group)
{
    rope_begin();
    uint tid = gl_LocalInvocationID.x;
    attn_share share = attn_share_of(group.y, group.x, uint(SPLITS), 1u, 1u);
    kv_rows keys = kv_keys(share.seq, share.kv_head), values = kv_values(share.seq, share.kv_head);
    load_new_rows(tid, share);
    memoryBarrierShared(); barrier();
    store_new_rows(tid, share, kv_row(keys, share.pos), kv_row(values, share.pos));

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
#if SOFTCAP
            for (int h = 0; h < HEADS_BLOCK; h++)
                s[h] = score_of(s[h]);
#endif
        }
        for (int h = 0; h < HEADS_BLOCK; h++) {
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

    write_columns(tid, share, o, row_max, row_sum);
}
