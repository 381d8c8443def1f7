// Attention of many tokens, key after key, without shared memory: any HEAD_DIM of 4n numbers.
//
// O[t, h] = softmax_j(scale * q[t, h] . k[j]) v[j] over the keys j <= pos + t. QKV is
// [T][QKV_STRIDE] f32, KV the cache in f16 or f32, and O is [T][O_STRIDE] f32. With sinks=head, S
// adds one logit per head to the softmax.
//
// Layout: an invocation computes SLICE vec4s of one head's result for one token. Work groups in x
// cover tokens and slices; y is the head. The invocation reads the keys that its token sees, in
// order. For each key it computes the whole score, as the other invocations of that token and head
// do from the same addresses. It then adds its part of the value with an online softmax in powers
// of two.
//
// Choice: the kernel needs no shared memory, no barrier and no array except the result, so it runs
// on every device, but it is slow. It has the lowest rank on GPUs (PREFER 2, and 0 on software
// renderers). If HEAD_DIM numbers fit into registers, attn_prefill_llvmpipe is faster.
//
// TUNEs: a larger SLICE repeats each score fewer times, but leaves fewer invocations. WG_SIZE only
// sets the group size.
//
// Utilisation: all invocations are active except in the last group. If the invocations of a
// subgroup have different tokens, they end at different keys.
//
//! NAME attn_prefill_streaming
//! OP attn_prefill
//! VARIANT streaming
//! WHEN kv_k f16 f32
//! WHEN kv_v f16 f32
//! WHEN sinks none head
//! BIND read vec4 QKV
//! BIND read uvec2 KV
//! BIND write vec4 O
//! BIND read float S
//! PARAM float scale
//! PARAM float softcap
//! CONST HEADS KV_HEADS HEAD_DIM QKV_STRIDE O_STRIDE
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE SLICE = HEAD_DIM % 16 == 0 ? 4 : HEAD_DIM % 8 == 0 ? 2 : 1 in 1 2 4
//! TUNE WG_SIZE = SOFTWARE ? 32 : 64 in 32 64 128
//! LET VEC4S = HEAD_DIM / 4
//! LET SLICES = VEC4S / SLICE
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS ceildiv(T * SLICES, WG_SIZE) HEADS
//! ACTIVE T * SLICES * HEADS
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 4 == 0 && VEC4S % SLICE == 0 && HEADS % KV_HEADS == 0
//! REQUIRE QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0
//! PREFER SOFTWARE ? 0 : 2
//! TOLERANCE 1e-11
//! LIB kv
//! LIB kv_vec4
//! LIB activations
//! LIB attn_score
//! LIB attn_sinks

void body(uvec3 group)
{
    uint n = group.x * uint(WG_SIZE) + gl_LocalInvocationID.x;
    uint t = n / uint(SLICES), head = group.y, first = n % uint(SLICES) * uint(SLICE);
    if (t >= pass_rows)
        return;
    uint seq = row_seq(t), pos = row_pos(t), kv_head = head / uint(HEADS / KV_HEADS);
    uint query = t * uint(QKV_STRIDE / 4) + head * uint(VEC4S);
    kv_rows keys = kv_keys(seq, kv_head), values = kv_skip(kv_values(seq, kv_head), first);
    float row_max, row_sum, factor = query_scale();
    vec4 o[SLICE];
    softmax_begin(head, row_max, row_sum);
    for (int e = 0; e < SLICE; e++)
        o[e] = vec4(0.0);
    for (uint j = first_key(pos); j <= pos; j++) {
        uint key = kv_row(keys, j), value = kv_row(values, j);
        float s = 0.0;
        for (uint i = 0u; i < uint(VEC4S); i++)
            s += dot(QKV[query + i], kv_load_vec4(key, i));
        s = score_of(s * factor);
        float new_max = max(row_max, s), rescale = exp2(row_max - new_max);
        float weight = exp2(s - new_max);
        row_sum = row_sum * rescale + weight;
        row_max = new_max;
        for (int e = 0; e < SLICE; e++)
            o[e] = o[e] * rescale + weight * kv_load_vec4(value, uint(e));
    }
    uint to = t * uint(O_STRIDE / 4) + head * uint(VEC4S) + first;
    for (int e = 0; e < SLICE; e++)
        O[to + uint(e)] = o[e] / row_sum;
}
