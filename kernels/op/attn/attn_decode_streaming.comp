// Attention of one token, key after key, without shared memory: any HEAD_DIM of 4n numbers.
//
// For query head h and each key j of one split: s[h, j] = log2(e) * scale * q[h] . k[j], and o[h] =
// sum_j 2^(s[h, j] - m) v[j], where m is the largest score. QKV is [T][QKV_STRIDE] f32 with one
// token per row: q, k and v. KV is the cache in f16 or f32. P receives per split the sum o[h], its
// maximum and its sum of weights, or the finished output if SPLITS is 1.
//
// Layout: an invocation computes SLICE vec4s of one head's result for one split. Work groups in x
// cover all heads, splits and slices; y is the row of the pass. The invocation reads the keys in
// order. For each key it computes the whole score, as the other invocations of that head do from
// the same addresses. It then adds its part of the value with an online softmax in powers of two.
// The query is a private array.
//
// Choice: the kernel needs no shared memory and no barrier, so it runs on every device, but it is
// slow. PREFER is 2, and 0 on software renderers. On GPUs only attn_decode_llvmpipe has a lower
// rank (1).
//
// TUNEs: a larger SLICE repeats each score fewer times, but leaves fewer invocations. WG_SIZE only
// sets the group size.
//
// Utilisation: all invocations are active throughout, except in the last group.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). Mali G52 spills 251:1010. V3D
// 4.2 and LLVM 15 spill none.
//
//! NAME attn_decode_streaming
//! OP attn_decode
//! VARIANT streaming
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
//! TUNE SLICE = !SOFTWARE ? 1 : HEAD_DIM % 16 == 0 ? 4 : HEAD_DIM % 8 == 0 ? 2 : 1 in 1 2 4
//! TUNE WG_SIZE = SOFTWARE ? 32 : 64 in 32 64 128
//! LET HEADS_BLOCK = 1
//! LET VEC4S = HEAD_DIM / 4
//! LET SLICES = VEC4S / SLICE
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS ceildiv(HEADS * SPLITS * SLICES, WG_SIZE) T
//! ACTIVE T * HEADS * SPLITS * SLICES
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 4 == 0 && VEC4S % SLICE == 0 && HEADS % KV_HEADS == 0
//! REQUIRE ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM
//! REGISTERS 72
//! PREFER SOFTWARE ? 0 : 2
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

vec2 row[HEAD_DIM / 2]; // the new key, then the query
vec4 o[SLICE];
float row_max, row_sum;

vec4 row_vec4(uint i)
{
    return vec4(row[2u * i], row[2u * i + 1u]);
}

// vec4 i of the new value, with the bits that a read of the cache returns.
vec4 new_value(attn_share share, uint i)
{
    uint head = uint(HEADS + KV_HEADS) + share.kv_head;
    uint from = (share.row * uint(QKV_STRIDE) + head * uint(HEAD_DIM) + 4u * i) / 2u;
    return kv_round(vec4(QKV[from], QKV[from + 1u]));
}

// Stores the rotated and scaled query in `row`. Returns its product with the new key. Also stores
// the new key and value in the cache: this invocation's vec4s of them, from `first` on.
float take_new(attn_share share, uint first)
{
    uint head = uint(HEADS) + share.kv_head, first_new = share.row * uint(QKV_STRIDE);
    float product = 0.0;
    // All invocations run this, although few have a new key. softpipe stores elements of private
    // arrays of four neighbours at the address of the first of them. In a branch, that first one
    // may be inactive.
    for (uint i = 0u; i < uint(VEC4S); i++) {
        rope_item item = rope_item_at(i);
        vec4 k = rope_item_load(first_new + head * uint(HEAD_DIM), item);
        if (item.paired)
            k = rope_rotate(k, rope_angles(share.pos, i));
        k = kv_round(k);
        row[item.dim / 2u] = k.xy;
        row[item.partner / 2u] = k.zw;
    }
    if (share.stores)
        for (uint i = first; i < first + uint(SLICE); i++) {
            uint key = kv_row(kv_keys(share.seq, share.kv_head), share.pos);
            uint value = kv_row(kv_values(share.seq, share.kv_head), share.pos);
            kv_store_vec4(key, i, row_vec4(i));
            kv_store_vec4(value, i, new_value(share, i));
        }
    for (uint i = 0u; i < uint(VEC4S); i++) {
        rope_item item = rope_item_at(i);
        vec4 q = rope_item_load(first_new + share.head0 * uint(HEAD_DIM), item);
        if (item.paired)
            q = rope_rotate(q, rope_angles(share.pos, i));
        q *= query_scale();
        if (share.has_new)
            product += dot(q, vec4(row[item.dim / 2u], row[item.partner / 2u]));
        row[item.dim / 2u] = q.xy;
        row[item.partner / 2u] = q.zw;
    }
    return product;
}

// Rescales the sums to the new maximum, and returns the weight of a key.
float take_score(float score)
{
    float new_max = max(row_max, score), rescale = exp2(row_max - new_max);
    for (int e = 0; e < SLICE; e++)
        o[e] *= rescale;
    float weight = exp2(score - new_max);
    row_sum = row_sum * rescale + weight;
    row_max = new_max;
    return weight;
}

void body(uvec3 group)
{
    rope_begin();
    uint n = group.x * uint(WG_SIZE) + gl_LocalInvocationID.x;
    attn_share share = attn_share_of(group.y, n / uint(SLICES), uint(SPLITS), 1u, 1u);
    uint first = n % uint(SLICES) * uint(SLICE);
    if (!share.inside)
        return;
    kv_rows keys = kv_keys(share.seq, share.kv_head), values = kv_values(share.seq, share.kv_head);
    float product = take_new(share, first);
    for (int e = 0; e < SLICE; e++)
        o[e] = vec4(0.0);
    row_max = NO_SCORE;
    row_sum = 0.0;
    for (uint j = share.first; j < min(share.end, share.pos); j++) {
        uint key = kv_row(keys, j), value = kv_row(values, j);
        float s = 0.0;
        for (uint i = 0u; i < uint(VEC4S); i++)
            s += dot(row_vec4(i), kv_load_vec4(key, i));
        float weight = take_score(score_of(s));
        for (int e = 0; e < SLICE; e++)
            o[e] += weight * kv_load_vec4(value, first + uint(e));
    }
    if (share.has_new) {
        float weight = take_score(score_of(product));
        for (int e = 0; e < SLICE; e++)
            o[e] += weight * new_value(share, first + uint(e));
    }
    for (int e = 0; e < SLICE; e++)
        write_part(share.row, share.head0, share.split, first + uint(e), o[e], row_max, row_sum);
}
