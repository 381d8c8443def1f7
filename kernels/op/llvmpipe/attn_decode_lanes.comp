// Attention of one token, one share of the keys per invocation: made for llvmpipe.
//
// A group serves HEADS_BLOCK heads of one KV head and one split of the keys. Invocation l takes the
// cached keys l, l + LANES, ... of its split with an online softmax in powers of two, q (turned by
// each for itself) and output in registers; the reference maximum is only raised when a score
// exceeds it by more than 8. The new key and value are turned, rounded to the cache's type and
// scored together, a few quads per invocation; the first group whose split holds them also stores
// them. The shares and the new key are merged through shared memory.
//
// llvmpipe runs 8 invocations as one vector and each of their loads as 8 scalar ones, wide or not:
// so 16 bytes per load. A kernel with a barrier becomes a coroutine whose variables live in memory
// from the first barrier on: so there is one, with little after it.
//
//! NAME attn_decode_lanes
//! OP attn_decode
//! VARIANT lanes streaming
//! WHEN kv f16 f32
//! BIND read vec4 QKV
//! BIND readwrite uvec4 KV
//! BIND read vec4 ROPE
//! BIND write float P
//! PARAM float scale
//! PARAM float softcap
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS CONTEXT SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE ROOM = HEAD_DIM > 64 ? 2 : 4 in 1 2 4
//! TUNE HEADS_BLOCK = HEADS % (ROOM * KV_HEADS) == 0 ? ROOM : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE LANES = 8 in 8 16 32
//! STEP read
//! LOCAL LANES
//! GROUPS HEADS / HEADS_BLOCK * SPLITS
//! SHARED vec4 part[LANES * HEADS_BLOCK * (HEAD_DIM / 4)] // each share's weights times values
//! SHARED vec2 part_max_sum[LANES * HEADS_BLOCK]
//! SHARED float new_score[LANES * HEADS_BLOCK] // parts of the new key's scores
//! SHARED vec4 new_value[HEAD_DIM / 4]
//! REQUIRE HEAD_DIM % 8 == 0 && ROPE_DIMS % 8 == 0 && ROPE_DIMS <= HEAD_DIM
//! REQUIRE HEAD_DIM <= 128 && HEAD_DIM * HEADS_BLOCK <= 256
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0
//! PREFER SOFTWARE ? 20 : 1
//! TOLERANCE 1e-11
//! LIB kv
//! LIB rope
//! LIB kv_octet
//! LIB kv_store
//! LIB unroll
//! LIB activations
//! LIB attn_score
//! LIB attn_split

const uint OCTS = uint(HEAD_DIM / 8);
const uint SHARING = uint(HEADS / KV_HEADS);
const int QUADS = HEAD_DIM / 4;
const int ROWS = HEADS_BLOCK;

// (cos, sin) for frequencies 2 i and 2 i + 1 of the position.
vec4 angles(uint i)
{
    const uint WIDTH = uint(ROPE_DIMS / 4);
    uint lo = (step_pos & 255u) * WIDTH + i, hi = (256u + (step_pos >> 8)) * WIDTH + i;
    return rope_angles(ROPE[lo], ROPE[hi]);
}

// Two quads, i of the head's first half and its partner, of a row of QKV after turning.
void load_turned(uint head, uint i, vec4 even, vec4 odd, out vec4 a, out vec4 b)
{
    a = QKV[head * uint(QUADS) + i];
    b = QKV[head * uint(QUADS) + i + uint(ROPE_DIMS / 8)];
    vec4 two = rope_turn(vec4(a.xy, b.xy), even);
    vec4 too = rope_turn(vec4(a.zw, b.zw), odd);
    a = vec4(two.xy, too.xy);
    b = vec4(two.zw, too.zw);
}

// This invocation's quads of the new key and value: to new_score, new_value and the cache.
void take_new(uint lane, uint head0, uint kv_head, bool store)
{
    float s[ROWS];
    for (int r = 0; r < ROWS; r++)
        s[r] = 0.0;
    uint key = (kv_head * uint(CONTEXT) + step_pos) * uint(QUADS);
    uint value = key + uint(KV_HEADS * CONTEXT) * uint(QUADS);
    for (uint i = lane; i < uint(QUADS); i += uint(LANES)) {
        vec4 v = kv_round(QKV[(uint(HEADS + KV_HEADS) + kv_head) * uint(QUADS) + i]);
        new_value[i] = v;
        if (store)
            kv_store_quad(value + i, v);
    }
    for (uint i = lane; i < uint(ROPE_DIMS / 8); i += uint(LANES)) {
        vec4 even = angles(2u * i), odd = angles(2u * i + 1u);
        vec4 a, b, c, d;
        load_turned(uint(HEADS) + kv_head, i, even, odd, a, b);
        a = kv_round(a);
        b = kv_round(b);
        if (store) {
            kv_store_quad(key + i, a);
            kv_store_quad(key + i + uint(ROPE_DIMS / 8), b);
        }
        for (int r = 0; r < ROWS; r++) {
            load_turned(head0 + uint(r), i, even, odd, c, d);
            s[r] += dot(a, c) + dot(b, d);
        }
    }
    for (uint i = uint(ROPE_DIMS / 4) + lane; i < uint(QUADS); i += uint(LANES)) {
        vec4 k = kv_round(QKV[(uint(HEADS) + kv_head) * uint(QUADS) + i]);
        if (store)
            kv_store_quad(key + i, k);
        for (int r = 0; r < ROWS; r++)
            s[r] += dot(k, QKV[(head0 + uint(r)) * uint(QUADS) + i]);
    }
    for (int r = 0; r < ROWS; r++)
        new_score[r * LANES + int(lane)] = s[r] * query_scale();
}

// The merged result of one head, not normalised, to P. The new key counts as one more share.
void write_head(uint lane, uint row, uint head, uint split, bool has_new)
{
    const uint SHARES = uint(LANES);
    float score = 0.0;
    for (uint l = row * SHARES; l < (row + 1u) * SHARES; l++)
        score += new_score[l];
    score = score_of(score);
    float top = has_new ? score : -1e30;
    for (uint l = row * SHARES; l < (row + 1u) * SHARES; l++)
        top = max(top, part_max_sum[l].x);
    float weight = has_new ? exp2(score - top) : 0.0;
    float sum = weight;
    for (uint l = row * SHARES; l < (row + 1u) * SHARES; l++)
        sum += part_max_sum[l].y * exp2(part_max_sum[l].x - top);
    uint result = head * uint(SPLITS) + split;
    for (uint i = lane; i < uint(QUADS); i += SHARES) {
        vec4 x = new_value[i] * weight;
        for (uint l = 0u; l < SHARES; l++)
            x += part[(row * uint(QUADS) + i) * SHARES + l] *
                 exp2(part_max_sum[row * SHARES + l].x - top);
#if SPLITS == 1
        x /= sum;
#endif
        uint to = result * uint(HEAD_DIM) + 4u * i;
        P[to] = x.x;
        P[to + 1u] = x.y;
        P[to + 2u] = x.z;
        P[to + 3u] = x.w;
    }
#if SPLITS > 1
    if (lane == 0u) {
        uint to = uint(HEADS * SPLITS * HEAD_DIM) + 2u * result;
        P[to] = sum > 0.0 ? top * 0.69314718 : -1e30;
        P[to + 1u] = sum;
    }
#endif
}

void body(uvec3 group)
{
    rope_begin();
    uint lane = gl_LocalInvocationID.x;
    uint split = group.x % uint(SPLITS);
    uint head0 = group.x / uint(SPLITS) * uint(HEADS_BLOCK);
    bool inside = head0 < uint(HEADS);
    head0 = min(head0, uint(HEADS - HEADS_BLOCK));
    uint kv_head = head0 / SHARING;
    uint begin = split_first(split), end = split_first(split + 1u);
    bool has_new = begin < end && end == step_pos + 1u;
    end = min(end, step_pos); // of those already in the cache
    take_new(lane, head0, kv_head, inside && has_new && head0 % SHARING == 0u);

    vec4 q[ROWS * QUADS], o[ROWS * QUADS];
    float m[ROWS], sum[ROWS], factor = query_scale();
    for (uint i = 0u; i < uint(ROPE_DIMS / 8); i++) {
        vec4 even = angles(2u * i), odd = angles(2u * i + 1u);
        for (uint r = 0u; r < uint(ROWS); r++) {
            vec4 a, b;
            load_turned(head0 + r, i, even, odd, a, b);
            q[r * uint(QUADS) + i] = a * factor;
            q[r * uint(QUADS) + i + uint(ROPE_DIMS / 8)] = b * factor;
        }
    }
    for (uint i = uint(ROPE_DIMS / 4); i < uint(QUADS); i++)
        for (uint r = 0u; r < uint(ROWS); r++)
            q[r * uint(QUADS) + i] = QKV[(head0 + r) * uint(QUADS) + i] * factor;
#define CLEAR(i)                                                                                   \
    for (int r = 0; r < ROWS; r++)                                                                 \
        o[r * QUADS + 2 * i] = o[r * QUADS + 2 * i + 1] = vec4(0.0);
    EACH_OCTET(CLEAR)
    for (int r = 0; r < ROWS; r++) {
        m[r] = -1e30;
        sum[r] = 0.0;
    }

    uint keys = kv_head * uint(CONTEXT) * OCTS;
    uint values = uint(KV_HEADS * CONTEXT) * OCTS + keys;
    for (uint j = begin + lane; j < end; j += uint(LANES)) {
        vec4 a, b;
        float s[ROWS];
        for (int r = 0; r < ROWS; r++)
            s[r] = 0.0;
#define SCORE(i)                                                                                   \
    kv_octet(keys + j * OCTS + uint(i), a, b);                                                     \
    for (int r = 0; r < ROWS; r++)                                                                 \
        s[r] += dot(q[r * QUADS + 2 * i], a) + dot(q[r * QUADS + 2 * i + 1], b);
        EACH_OCTET(SCORE)
        float excess = -1.0;
        for (int r = 0; r < ROWS; r++) {
            s[r] = score_of(s[r]);
            excess = max(excess, s[r] - m[r]);
        }
        // A loop of at most one turn: drivers that run all lanes through an `if` leave a loop
        // nobody needs.
        while (excess > 8.0) {
            for (int r = 0; r < ROWS; r++) {
                float top = max(m[r], s[r]);
                float keep = exp2(m[r] - top);
#define KEEP(i)                                                                                    \
    o[r * QUADS + 2 * i] *= keep;                                                                  \
    o[r * QUADS + 2 * i + 1] *= keep;
                EACH_OCTET(KEEP)
                sum[r] *= keep;
                m[r] = top;
            }
            excess = -1.0;
        }
        for (int r = 0; r < ROWS; r++) {
            s[r] = exp2(s[r] - m[r]);
            sum[r] += s[r];
        }
#define WEIGH(i)                                                                                   \
    kv_octet(values + j * OCTS + uint(i), a, b);                                                   \
    for (int r = 0; r < ROWS; r++) {                                                               \
        o[r * QUADS + 2 * i] += s[r] * a;                                                          \
        o[r * QUADS + 2 * i + 1] += s[r] * b;                                                      \
    }
        EACH_OCTET(WEIGH)
    }

    for (int r = 0; r < ROWS; r++) {
#define PART(i)                                                                                    \
    part[(r * QUADS + 2 * i) * LANES + int(lane)] = o[r * QUADS + 2 * i];                          \
    part[(r * QUADS + 2 * i + 1) * LANES + int(lane)] = o[r * QUADS + 2 * i + 1];
        EACH_OCTET(PART)
        part_max_sum[r * LANES + int(lane)] = vec2(m[r], sum[r]);
    }
    memoryBarrierShared(); barrier();
    if (inside)
        for (uint r = 0u; r < uint(ROWS); r++)
            write_head(lane, r, head0 + r, split, has_new);
}
