// Attention of many tokens, a tile of queries per group: any HEAD_DIM that is a multiple of 4.
//
// O[t, h] = softmax_j(scale * q[t, h] . k[j]) v[j] over the keys j <= pos + t. QKV is
// [T][QKV_STRIDE] f32, KV the cache in f16 or f32, and O is [T][O_STRIDE] f32. With sinks=head, S
// adds one logit per head to the softmax.
//
// Layout: work group x is run * HEADS + head: it computes one head for a run of QUERIES
// neighbouring tokens. It keeps its queries in shared memory and processes KEYS keys at a time, in
// three steps. First, each invocation computes the score of one pair (query, key) per round and
// writes it to a table in shared memory. Second, an online softmax in powers of two runs over each
// query's row of the table. Third, each invocation adds weighted values to its part of the result.
// It keeps its pairs (query, vec4 of the head) of the result in registers.
//
// Choice: PREFER 10 is below the kernels with register tiles, attn_prefill_tiled (20) and
// attn_prefill_subgroup (15 or 30), and above attn_prefill_streaming (2). It is chosen where those
// do not fit into the registers.
//
// TUNEs: QUERIES is the number of tokens that share the keys and values of a tile, through the
// cache. It is smaller for large heads because of shared memory. KEYS is the number of keys per
// softmax step. WG_SIZE is the group size.
//
// Utilisation: all invocations are active in the scores of a full tile. For the values, all are
// active if QUERIES * VEC4S is a multiple of WG_SIZE. Heads of 64, 96, 128 and 256 numbers meet
// this. For heads of 80, 320 of the 384 places of three rounds are used. In the online softmax
// QUERIES of WG_SIZE are active, 16 of 128. Its loop over a row is a 16th of the work of the
// scores.
//
//! NAME attn_prefill
//! OP attn_prefill
//! VARIANT baseline tiled_small
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
//! TUNE QUERIES = HEAD_DIM > 256 ? 4 : HEAD_DIM > 128 ? 8 : 16 in 4 8 16
//! TUNE KEYS = 32 in 16 32 64
//! TUNE WG_SIZE = 128 in 32 64 128
//! LET VEC4S = HEAD_DIM / 4
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS ceildiv(T, QUERIES) * HEADS
//! ACTIVE T * HEADS * WG_SIZE / QUERIES
//! SHARED vec4 query[QUERIES * VEC4S]
//! SHARED float score[QUERIES * KEYS]
//! SHARED float row_max[QUERIES]
//! SHARED float row_sum[QUERIES]
//! SHARED float row_rescale[QUERIES]
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 4 == 0 && QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0 && HEADS % KV_HEADS == 0
//! REQUIRE QUERIES <= WG_SIZE && QUERIES * KEYS % WG_SIZE == 0
//! PREFER 10
//! TOLERANCE 1e-11
//! LIB kv
//! LIB kv_vec4
//! LIB activations
//! LIB attn_score
//! LIB attn_sinks

const int OWNED = (QUERIES * VEC4S + WG_SIZE - 1) / WG_SIZE;

// Updates the maximum and the sum of one row of the table, and turns its scores into weights. Keys
// from `count` on do not exist. Of the others, the query sees those from `first` up to, but not
// including, `end`.
void soften(uint r, uint first, uint end, uint count)
{
    float new_max = row_max[r];
    end = min(end, count);
    for (uint j = first; j < end; j++)
        new_max = max(new_max, score[r * uint(KEYS) + j]);
    float rescale = exp2(row_max[r] - new_max);
    float sum = row_sum[r] * rescale;
    // Over the whole tile, also over keys that are not seen: see "Loops" of docs/kernels.md.
    for (uint j = 0u; j < uint(KEYS); j++) {
        bool seen = first <= j && j < end;
        float p = seen ? exp2(score[r * uint(KEYS) + j] - new_max) : 0.0;
        score[r * uint(KEYS) + j] = p;
        sum += p;
    }
    row_max[r] = new_max;
    row_sum[r] = sum;
    row_rescale[r] = rescale;
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    uint head = group.x % uint(HEADS);
    uint t0 = group.x / uint(HEADS) * uint(QUERIES);
    uint live = t0 < pass_rows ? min(uint(QUERIES), pass_rows - t0) : 0u;
    uint first = min(t0, pass_rows - 1u); // query
    uint seq = row_seq(first), pos = row_pos(first);
    uint end = live > 0u ? pos + live : 0u;
    uint kv_head = head / uint(HEADS / KV_HEADS);
    kv_rows keys = kv_keys(seq, kv_head), values = kv_values(seq, kv_head);
    float factor = query_scale();

    for (uint n = tid; n < uint(QUERIES * VEC4S); n += uint(WG_SIZE)) {
        uint t = min(t0 + n / uint(VEC4S), pass_rows - 1u);
        uint from = t * uint(QKV_STRIDE / 4) + head * uint(VEC4S) + n % uint(VEC4S);
        query[n] = QKV[from] * factor;
    }
    if (tid < uint(QUERIES))
        softmax_begin(head, row_max[tid], row_sum[tid]);
    vec4 o[OWNED];
    for (int i = 0; i < OWNED; i++)
        o[i] = vec4(0.0);
    memoryBarrierShared(); barrier();

    for (uint first = first_key(pos); first < end; first += uint(KEYS)) {
        uint count = min(uint(KEYS), end - first);
        for (uint n = tid; n < uint(QUERIES * KEYS); n += uint(WG_SIZE)) {
            uint j = n % uint(KEYS), r = n / uint(KEYS);
            float s = 0.0;
            if (j < count) {
                uint key = kv_row(keys, first + j);
                for (uint i = 0u; i < uint(VEC4S); i++)
                    s += dot(query[r * uint(VEC4S) + i], kv_load_vec4(key, i));
            }
            score[n] = score_of(s);
        }
        memoryBarrierShared(); barrier();
        if (tid < live) {
            uint last = pos + tid;
            soften(tid, max(first_key(last), first) - first, max(last + 1u, first) - first, count);
        }
        memoryBarrierShared(); barrier();
        for (int i = 0; i < OWNED; i++) {
            uint n = tid + uint(i * WG_SIZE);
            uint r = n / uint(VEC4S);
            kv_rows column = kv_skip(values, n % uint(VEC4S));
            if (r < live) {
                vec4 x = o[i] * row_rescale[r];
                for (uint j = first; j < first + count; j++) // not from 0: it would be unrolled
                    x += score[r * uint(KEYS) + j - first] * kv_load_vec4(kv_row(column, j), 0u);
                o[i] = x;
            }
        }
        memoryBarrierShared(); barrier();
    }

    for (int i = 0; i < OWNED; i++) {
        uint n = tid + uint(i * WG_SIZE);
        uint r = n / uint(VEC4S);
        uint to = (t0 + r) * uint(O_STRIDE / 4) + head * uint(VEC4S) + n % uint(VEC4S);
        if (r < live)
            O[to] = o[i] / row_sum[r];
    }
}
