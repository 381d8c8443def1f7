// Attention of a chunk, a tile of queries per group: any HEAD_DIM that is a multiple of 4.
//
// A group holds QUERIES queries of one head in shared memory and goes through the keys KEYS at a
// time. Scores: one (query, key) pair per invocation and round, kept in a shared table; an online
// softmax in powers of two over each query's row of the table; then the values, each invocation
// owning some (query, quad of the head) pairs of the output in registers.
//
//! NAME attn_prefill
//! OP attn_prefill
//! VARIANT baseline tiled_small
//! WHEN kv f16 f32
//! WHEN sinks none head
//! BIND read vec4 QKV
//! BIND read uvec2 KV
//! BIND write vec4 O
//! BIND read float S
//! PARAM float scale
//! PARAM float softcap
//! CONST HEADS KV_HEADS HEAD_DIM QKV_STRIDE O_STRIDE CONTEXT
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE QUERIES = HEAD_DIM > 256 ? 4 : HEAD_DIM > 128 ? 8 : 16 in 4 8 16
//! TUNE KEYS = 32 in 16 32 64
//! TUNE LANES = 128 in 32 64 128
//! STEP read
//! LOCAL LANES
//! GROUPS ceildiv(T, QUERIES) * HEADS
//! SHARED vec4 query[QUERIES * (HEAD_DIM / 4)]
//! SHARED float score[QUERIES * KEYS]
//! SHARED float row_max[QUERIES]
//! SHARED float row_sum[QUERIES]
//! SHARED float row_keep[QUERIES]
//! REQUIRE HEAD_DIM % 4 == 0 && QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0 && HEADS % KV_HEADS == 0
//! REQUIRE QUERIES <= LANES && QUERIES * KEYS % LANES == 0
//! PREFER 10
//! TOLERANCE 1e-11
//! LIB activations
//! LIB attn_score

const uint QUADS = uint(HEAD_DIM / 4);
const int OWNED = (QUERIES * (HEAD_DIM / 4) + LANES - 1) / LANES;

vec4 kv_quad(uint quad)
{
#if KV_f16
    uvec2 w = KV[quad];
    return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
#else
    return vec4(uintBitsToFloat(KV[2u * quad]), uintBitsToFloat(KV[2u * quad + 1u]));
#endif
}

// One row of the table: its maximum and sum so far, scores become weights. Keys `count` and beyond
// are not there; of the others the query sees those from `from` up to but not including `to`.
void soften(uint r, uint from, uint to, uint count)
{
    float top = row_max[r];
    uint n = min(to, count);
    for (uint j = from; j < n; j++)
        top = max(top, score[r * uint(KEYS) + j]);
    float keep = exp2(row_max[r] - top);
    float sum = row_sum[r] * keep;
    for (uint j = 0u; j < count; j++) {
        float p = from <= j && j < n ? exp2(score[r * uint(KEYS) + j] - top) : 0.0;
        score[r * uint(KEYS) + j] = p;
        sum += p;
    }
    row_max[r] = top;
    row_sum[r] = sum;
    row_keep[r] = keep;
}

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x;
    uint head = group.x % uint(HEADS);
    uint t0 = group.x / uint(HEADS) * uint(QUERIES);
    uint live = t0 < step_tokens ? min(uint(QUERIES), step_tokens - t0) : 0u;
    uint keys = head / uint(HEADS / KV_HEADS) * uint(CONTEXT) * QUADS;
    uint values = uint(KV_HEADS * CONTEXT) * QUADS + keys;
    uint end = live > 0u ? step_pos + t0 + live : 0u;
    float factor = query_scale();

    for (uint i = lane; i < uint(QUERIES) * QUADS; i += uint(LANES)) {
        uint t = min(t0 + i / QUADS, step_tokens - 1u);
        query[i] = QKV[t * uint(QKV_STRIDE / 4) + head * QUADS + i % QUADS] * factor;
    }
    if (lane < uint(QUERIES)) {
#if SINKS_head
        row_max[lane] = S[head] * 1.44269504;
        row_sum[lane] = 1.0;
#else
        row_max[lane] = -1e30;
        row_sum[lane] = 0.0;
#endif
    }
    vec4 o[OWNED];
    for (int i = 0; i < OWNED; i++)
        o[i] = vec4(0.0);
    memoryBarrierShared(); barrier();

    for (uint first = first_key(step_pos + t0); first < end; first += uint(KEYS)) {
        uint count = min(uint(KEYS), end - first);
        for (uint i = lane; i < uint(QUERIES * KEYS); i += uint(LANES)) {
            uint j = i % uint(KEYS), r = i / uint(KEYS);
            float s = 0.0;
            if (j < count)
                for (uint e = 0u; e < QUADS; e++)
                    s += dot(query[r * QUADS + e], kv_quad(keys + (first + j) * QUADS + e));
            score[i] = score_of(s);
        }
        memoryBarrierShared(); barrier();
        if (lane < live) {
            uint at = step_pos + t0 + lane;
            soften(lane, max(first_key(at), first) - first, max(at + 1u, first) - first, count);
        }
        memoryBarrierShared(); barrier();
        for (int i = 0; i < OWNED; i++) {
            uint pair = lane + uint(i * LANES);
            uint r = pair / QUADS, column = values + pair % QUADS;
            if (r < live) {
                vec4 x = o[i] * row_keep[r];
                for (uint j = 0u; j < count; j++)
                    x += score[r * uint(KEYS) + j] * kv_quad(column + (first + j) * QUADS);
                o[i] = x;
            }
        }
        memoryBarrierShared(); barrier();
    }

    for (int i = 0; i < OWNED; i++) {
        uint pair = lane + uint(i * LANES);
        uint r = pair / QUADS;
        if (r < live)
            O[(t0 + r) * uint(O_STRIDE / 4) + head * QUADS + pair % QUADS] = o[i] / row_sum[r];
    }
}
