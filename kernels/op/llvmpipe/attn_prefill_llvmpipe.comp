// Attention of many tokens, queries and results in registers, keys read once per work group.
//
// O[t, h] = softmax_j(scale * q[t, h] . k[j]) v[j] over the keys j <= pos + t. QKV is
// [T][QKV_STRIDE] f32, KV the cache in f16 or f32, and O is [T][O_STRIDE] f32. With sinks=head, S
// adds one logit per head to the softmax.
//
// Layout: work group x is a run of WG_SIZE * TOKENS tokens, y a block of HEADS_BLOCK heads of one
// KV head. An invocation has TOKENS * HEADS_BLOCK queries and their results in registers. It uses
// no shared memory and no barrier.
//
// Groups of later tokens see more keys, so they take longer. Groups are numbered first, last,
// second, last but one, and so on. llvmpipe assigns each thread a contiguous share of the groups,
// and all such shares then take about the same time.
//
// Choice: PREFER 20 on software renderers, 5 elsewhere. It suits drivers with slow barriers, if
// HEAD_DIM numbers per query fit into the registers.
//
// TUNEs: HEADS_BLOCK and TOKENS, whose product is at most ROOM, set the queries per invocation:
// more queries reuse each key, but need more registers. WG_SIZE is the group size.
//
// Utilisation: all invocations are active except those beyond the last token.
//
//! NAME attn_prefill_llvmpipe
//! OP attn_prefill
//! VARIANT llvmpipe lanes streaming
//! WHEN kv_k f16 f32
//! WHEN kv_v f16 f32
//! WHEN sinks none head
//! BIND read vec4 QKV
//! BIND read uvec4 KV
//! BIND write vec4 O
//! BIND read float S
//! PARAM float scale
//! PARAM float softcap
//! CONST HEADS KV_HEADS HEAD_DIM QKV_STRIDE O_STRIDE
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE ROOM = !SOFTWARE || HEAD_DIM > 64 ? 1 : 2 in 1 2 4
//! TUNE HEADS_BLOCK = HEADS % (ROOM * KV_HEADS) == 0 ? ROOM : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE TOKENS = ROOM / HEADS_BLOCK in 1 2 4
//! TUNE WG_SIZE = SOFTWARE ? 8 : 32 in 8 16 32 64 128
//! LET ROWS = TOKENS * HEADS_BLOCK
//! LET VEC4S = HEAD_DIM / 4
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS ceildiv(T, WG_SIZE * TOKENS) HEADS / HEADS_BLOCK
//! ACTIVE ceildiv(T, TOKENS) * (HEADS / HEADS_BLOCK)
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 8 == 0 && QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0 && HEAD_DIM * HEADS_BLOCK * TOKENS <= 256
//! REQUIRE HEAD_DIM <= 128 || !SOFTWARE
//! PREFER SOFTWARE ? 20 : 5
//! TOLERANCE 1e-11
//! LIB kv
//! LIB kv_vec8
//! LIB unroll
//! LIB activations
//! LIB attn_score
//! LIB attn_sinks
//! LIB attn_registers

void body(uvec3 group)
{
    const uint SPAN = uint(WG_SIZE * TOKENS);
    uint tiles = (pass_rows + SPAN - 1u) / SPAN;
    if (group.x >= tiles)
        return;
    uint tile = (group.x & 1u) == 0u ? group.x / 2u : tiles - 1u - group.x / 2u;
    uint t0 = tile * SPAN;
    uint seq = row_seq(t0), pos = row_pos(t0); // of the group's first token
    uint end = pos + min(SPAN, pass_rows - t0);
    uint head0 = group.y * uint(HEADS_BLOCK);
    uint kv_head = head0 / uint(HEADS / KV_HEADS);

    uint query_pos[ROWS];
    float factor = query_scale();
    for (int r = 0; r < ROWS; r++) {
        uint t = tile * SPAN + uint(r / HEADS_BLOCK) * uint(WG_SIZE) + gl_LocalInvocationID.x;
        uint head = head0 + uint(r % HEADS_BLOCK);
        t = min(t, pass_rows - 1u);
        query_pos[r] = row_pos(t);
        uint from = (t * uint(QKV_STRIDE) + head * uint(HEAD_DIM)) / 4u;
        for (int i = 0; i < VEC4S; i++) {
            q[r * VEC4S + i] = QKV[from + uint(i)] * factor;
            o[r * VEC4S + i] = vec4(0.0);
        }
        softmax_begin(head, row_max[r], row_sum[r]);
    }

    kv_rows keys = kv_keys(seq, kv_head), values = kv_values(seq, kv_head);
    for (uint first = first_key(pos), page_end; first < end; first = page_end) {
        uint page_keys = kv_page_rows(keys, first), page_values = kv_page_rows(values, first);
        page_end = kv_page_end(first);
        for (uint j = first; j < min(page_end, end); j++) {
            float s[ROWS];
            multiply_key(kv_page_row(page_keys, j), s);
            for (int r = 0; r < ROWS; r++) {
                // A row that has seen no key yet has NO_SCORE as all scores. Its first real score
                // exceeds them by far more than 8, and so removes their weight.
                bool seen = j <= query_pos[r] && j >= first_key(query_pos[r]);
                s[r] = seen ? score_of(s[r]) : NO_SCORE;
            }
            add_value(kv_page_row(page_values, j), s);
        }
    }

    for (int r = 0; r < ROWS; r++) {
        uint t = tile * SPAN + uint(r / HEADS_BLOCK) * uint(WG_SIZE) + gl_LocalInvocationID.x;
        uint head = head0 + uint(r % HEADS_BLOCK);
        uint to = (t * uint(O_STRIDE) + head * uint(HEAD_DIM)) / 4u;
        if (t < pass_rows)
            for (int i = 0; i < VEC4S; i++)
                O[to + uint(i)] = o[r * VEC4S + i] / row_sum[r];
    }
}
