// Attention of one token, a large tile: keys, then values, staged in shared memory.
//
// For query head h and each key j of one split: s[h, j] = log2(e) * scale * q[h] . k[j], and o[h] =
// sum_j 2^(s[h, j] - m) v[j], where m is the largest score. QKV is [T][QKV_STRIDE] f32 with one
// token per row: q, k and v. KV is the cache in f16 or f32. P receives per split the sum o[h], its
// maximum and its sum of weights, or the finished output if SPLITS is 1.
//
// Layout: work group x is a split of HEADS_BLOCK query heads that share one KV head; y is the row
// of the pass. A group processes KEYS keys at a time:
//   - Neighbouring invocations load neighbouring vec8s of the keys into shared memory.
//   - SPREAD invocations multiply a key with all queries.
//   - The values replace the keys in shared memory. Meanwhile an online softmax in powers of two is
//     applied to the scores.
//   - Each invocation sums one vec4 of the head over every (WG_SIZE / VEC4S)-th value.
//
// Choice: PREFER 5 is below attn_decode (10). REGISTERS selects this kernel where attn_decode would
// spill. It suits devices without subgroups on which neighbouring invocations should load
// neighbouring addresses. In attn_decode each invocation reads a key of its own.
//
// TUNEs: BIG selects larger tiles if there are 40960 bytes of shared memory. KEYS is the tile's
// number of keys: more keys need fewer barriers per key, but more shared memory. MOST_HEADS limits
// HEADS_BLOCK: more heads reuse each key more often, but need more registers. WG_SIZE is the group
// size.
//
// Utilisation: all invocations are active in loads and scores of a full tile. For the values, 128,
// 120, 120, 128 and 128 of 128 are active with heads of 64, 80, 96, 128 and 256 numbers.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). V3D 4.2 spills 36:59. Mali G52
// and LLVM 15 spill none. Without lib loop_end, navi31 spills 12 to 86 with heads of 16 numbers.
//
//! NAME attn_decode_tiled
//! OP attn_decode
//! VARIANT tiled tiled_large
//! WHEN kv_k f16 f32
//! WHEN kv_v f16 f32
//! BIND read vec2 QKV
//! BIND readwrite uvec4 KV
//! BIND read vec4 ROPE
//! BIND write float P
//! PARAM float scale
//! PARAM float softcap
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS QKV_STRIDE SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE BIG = SHARED_BYTES >= 40960 in 0 1
//! TUNE KEYS = HEAD_DIM <= (BIG ? 128 : 64) ? 32 : BIG || HEAD_DIM <= 96 ? 16 : 8 in 8 16 32
//! TUNE MOST_HEADS = HEAD_DIM > 128 && !BIG ? 2 : 4 in 1 2 4 8
//! TUNE WG_SIZE = 128 in 64 128 256
//! LET HEADS_BLOCK = min(MOST_HEADS, HEADS / KV_HEADS)
//! LET VEC4S = HEAD_DIM / 4
//! LET SPREAD = WG_SIZE / KEYS // invocations that share a key
//! LET TILE_STRIDE = VEC4S + 1 // vec4s from row to row: neighbouring ones start in other banks
//! LET RUNS = 8                // of keys, each with a maximum of its own
//! LET HEAD_BLOCKS = KV_HEADS * ceildiv(HEADS / KV_HEADS, HEADS_BLOCK)
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS HEAD_BLOCKS * SPLITS T
//! ACTIVE T * HEAD_BLOCKS * SPLITS * (WG_SIZE / VEC4S * VEC4S)
//! SHARED vec4 tile[KEYS * TILE_STRIDE] // keys, then values
//! SHARED float product[HEADS_BLOCK * WG_SIZE] // parts of a query's product with a key
//! SHARED float score[HEADS_BLOCK * KEYS]
//! SHARED float max_part[HEADS_BLOCK * RUNS]
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 8 == 0 && HEAD_DIM / 4 <= WG_SIZE && HEADS % KV_HEADS == 0
//! REQUIRE ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM
//! REGISTERS 56
//! PREFER SOFTWARE ? 1 : 5
//! TOLERANCE 1e-11
//! LIB half
//! LIB kv
//! LIB kv_round
//! LIB kv_vec8
//! LIB kv_vec8_store
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

// Loads KEYS rows from `first` on into the tile. Rows beyond the split are zeros. The row of the
// new token may not be in the cache yet, so it is read from row `fresh` of new_rows.
void load_tile(uint tid, kv_rows rows, uint first, attn_share share, uint fresh)
{
    const uint VEC8S = uint(HEAD_DIM / 8);
    for (uint n = tid; n < uint(KEYS) * VEC8S; n += uint(WG_SIZE)) {
        uint j = n / VEC8S, i = n % VEC8S;
        vec4 a = vec4(0.0), b = vec4(0.0);
        if (first + j < share.end && first + j < share.pos)
            kv_load_vec8(kv_row(rows, first + j), i, a, b);
        else if (first + j < share.end) {
            a = new_vec4(fresh, 2u * i);
            b = new_vec4(fresh, 2u * i + 1u);
        }
        tile[j * uint(TILE_STRIDE) + 2u * i] = a;
        tile[j * uint(TILE_STRIDE) + 2u * i + 1u] = b;
    }
}

// Adds the products of one head and one run of keys to scores, and finds the largest score.
void finish_scores(uint n, uint count)
{
    uint h = n / uint(RUNS), first = n % uint(RUNS) * uint(KEYS / RUNS);
    float most = NO_SCORE;
    for (uint j = first; j < first + uint(KEYS / RUNS); j++) {
        float s = 0.0;
        for (uint e = 0u; e < uint(SPREAD); e++)
            s += product[(h * uint(KEYS) + j) * uint(SPREAD) + e];
        s = j < count ? score_of(s) : NO_SCORE;
        score[h * uint(KEYS) + j] = s;
        most = max(most, s);
    }
    max_part[n] = most;
}

void body(uvec3 group)
{
    rope_begin();
    uint tid = gl_LocalInvocationID.x;
    attn_share share = attn_share_of(group.y, group.x, uint(SPLITS), 1u, 1u);
    kv_rows keys = kv_keys(share.seq, share.kv_head), values = kv_values(share.seq, share.kv_head);
    load_new_rows(tid, share);
    memoryBarrierShared(); barrier();
    store_new_rows(tid, share, kv_row(keys, share.pos), kv_row(values, share.pos));

    vec4 o[HEADS_BLOCK];
    float row_max[HEADS_BLOCK], row_sum[HEADS_BLOCK];
    for (int h = 0; h < HEADS_BLOCK; h++) {
        o[h] = vec4(0.0);
        row_max[h] = NO_SCORE;
        row_sum[h] = 0.0;
    }
    uint key = tid / uint(SPREAD), part = tid % uint(SPREAD);
    uint column = tid % uint(VEC4S), value_key = tid / uint(VEC4S);
    for (uint first = share.first; first < share.end; first += uint(KEYS)) {
        uint count = min(uint(KEYS), share.end - first);
        load_tile(tid, keys, first, share, NEW_KEY);
        memoryBarrierShared(); barrier();
        float s[HEADS_BLOCK];
        for (int h = 0; h < HEADS_BLOCK; h++)
            s[h] = 0.0;
        for (uint i = part; i < uint(VEC4S); i += uint(SPREAD)) {
            vec4 k = tile[key * uint(TILE_STRIDE) + i];
            for (int h = 0; h < HEADS_BLOCK; h++)
                s[h] += dot(k, new_vec4(uint(h), i));
        }
        for (int h = 0; h < HEADS_BLOCK; h++)
            product[h * WG_SIZE + int(tid)] = s[h];
        memoryBarrierShared(); barrier();
        load_tile(tid, values, first, share, NEW_VALUE);
        for (uint n = tid; n < uint(HEADS_BLOCK * RUNS); n += uint(WG_SIZE))
            finish_scores(n, count);
        memoryBarrierShared(); barrier();
        float new_max[HEADS_BLOCK];
        for (int h = 0; h < HEADS_BLOCK; h++) {
            new_max[h] = row_max[h];
            for (int e = 0; e < RUNS; e++)
                new_max[h] = max(new_max[h], max_part[h * RUNS + e]);
            float rescale = exp2(row_max[h] - new_max[h]);
            o[h] *= rescale;
            row_sum[h] *= rescale;
            row_max[h] = new_max[h];
        }
        // Each weight is computed once for all columns. The weights replace the products.
        for (uint j = tid; j < uint(KEYS); j += uint(WG_SIZE))
            for (int h = 0; h < HEADS_BLOCK; h++)
                product[h * KEYS + int(j)] = exp2(score[h * KEYS + int(j)] - new_max[h]);
        memoryBarrierShared(); barrier();
        if (value_key < VALUE_KEYS)
            for (uint j = value_key; j < count; j += VALUE_KEYS) {
                vec4 v = tile[j * uint(TILE_STRIDE) + column];
                for (int h = 0; h < HEADS_BLOCK; h++) {
                    float p = product[h * KEYS + int(j)];
                    o[h] += p * v;
                    row_sum[h] += p;
                }
            }
        memoryBarrierShared(); barrier();
    }
    write_columns(tid, share, o, row_max, row_sum);
}
