// Attention of a chunk, one query per invocation: q and the output stay in registers, keys are read
// once per group.
//
// Each invocation holds TOKENS queries of HEADS_BLOCK heads that share a KV head and walks the keys
// j <= pos + t with an online softmax in powers of two. The reference maximum m is only raised when
// a score exceeds it by more than 8: weights up to 2^8 lose no precision in f32, and the output
// need not be rescaled at every key. No shared memory and no barrier: made for drivers whose
// barriers are dear, and good wherever HEAD_DIM numbers per query fit the registers.
//
// Groups differ in length (later queries see more keys). They are numbered first, last, second,
// last but one, ... so that any contiguous share of them, which is what llvmpipe gives a thread,
// costs about the same.
//
//! NAME attn_prefill_lanes
//! OP attn_prefill
//! VARIANT lanes streaming
//! WHEN kv f16 f32
//! WHEN sinks none head
//! BIND read vec4 QKV
//! BIND read uvec4 KV
//! BIND write vec4 O
//! BIND read float S
//! PARAM float scale
//! PARAM float softcap
//! CONST HEADS KV_HEADS HEAD_DIM QKV_STRIDE O_STRIDE CONTEXT
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE ROOM = !SOFTWARE || HEAD_DIM > 128 ? 1 : HEAD_DIM > 64 ? 2 : 4 in 1 2 4
//! TUNE HEADS_BLOCK = HEADS % (ROOM * KV_HEADS) == 0 ? ROOM : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE TOKENS = ROOM / HEADS_BLOCK in 1 2 4
//! TUNE LANES = SOFTWARE ? 8 : 32 in 8 16 32 64 128
//! STEP read
//! LOCAL LANES
//! GROUPS ceildiv(T, LANES * TOKENS) HEADS / HEADS_BLOCK
//! REQUIRE HEAD_DIM % 8 == 0 && QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0 && HEAD_DIM * HEADS_BLOCK * TOKENS <= 256
//! REQUIRE HEAD_DIM <= 128 || !SOFTWARE
//! PREFER SOFTWARE ? 20 : 5
//! TOLERANCE 1e-11
//! LIB kv_octet
//! LIB unroll
//! LIB activations
//! LIB attn_score

const uint OCTS = uint(HEAD_DIM / 8);
const int QUADS = HEAD_DIM / 4;
const int ROWS = TOKENS * HEADS_BLOCK;

void body(uvec3 group)
{
    const uint SPAN = uint(LANES * TOKENS);
    uint tiles = (step_tokens + SPAN - 1u) / SPAN;
    if (group.x >= tiles)
        return;
    uint tile = (group.x & 1u) == 0u ? group.x / 2u : tiles - 1u - group.x / 2u;
    uint head0 = group.y * uint(HEADS_BLOCK);
    uint kv_head = head0 / uint(HEADS / KV_HEADS);

    vec4 q[ROWS * QUADS], o[ROWS * QUADS];
    float m[ROWS], sum[ROWS];
    uint last[ROWS]; // the last key that a row may see
    float factor = query_scale();
    for (int r = 0; r < ROWS; r++) {
        uint t = tile * SPAN + uint(r / HEADS_BLOCK) * uint(LANES) + gl_LocalInvocationID.x;
        last[r] = step_pos + min(t, step_tokens - 1u);
        uint from = ((last[r] - step_pos) * uint(QKV_STRIDE) +
                     (head0 + uint(r % HEADS_BLOCK)) * uint(HEAD_DIM)) / 4u;
        for (int i = 0; i < QUADS; i++) {
            q[r * QUADS + i] = QKV[from + uint(i)] * factor;
            o[r * QUADS + i] = vec4(0.0);
        }
#if SINKS_head
        m[r] = S[head0 + uint(r % HEADS_BLOCK)] * 1.44269504;
        sum[r] = 1.0;
#else
        m[r] = -1e30;
        sum[r] = 0.0;
#endif
    }

    uint keys = kv_head * uint(CONTEXT) * OCTS;
    uint values = uint(KV_HEADS) * uint(CONTEXT) * OCTS + keys;
    uint end = step_pos + min((tile + 1u) * SPAN, step_tokens);
    for (uint j = first_key(step_pos + tile * SPAN); j < end; j++) {
        float s[ROWS];
        for (int r = 0; r < ROWS; r++)
            s[r] = 0.0;
        vec4 a, b;
#define SCORE(i)                                                                                   \
    kv_octet(keys + j * OCTS + uint(i), a, b);                                                     \
    for (int r = 0; r < ROWS; r++)                                                                 \
        s[r] += dot(q[r * QUADS + 2 * i], a) + dot(q[r * QUADS + 2 * i + 1], b);
        EACH_OCTET(SCORE)
        float excess = -1.0;
        for (int r = 0; r < ROWS; r++) {
            // A row that has seen no key yet takes these for scores and forgets them all with its
            // first true one, which exceeds them by far more than 8.
            bool seen = j <= last[r];
#if WINDOW > 0
            seen = seen && j >= first_key(last[r]);
#endif
            s[r] = seen ? score_of(s[r]) : -1e30;
            excess = max(excess, s[r] - m[r]);
        }
        // A loop of at most one turn: drivers that run all lanes through an `if` leave a loop
        // nobody needs.
        while (excess > 8.0) {
            for (int r = 0; r < ROWS; r++) {
                float top = max(m[r], s[r]);
                float keep = exp2(m[r] - top);
                for (int i = 0; i < QUADS; i++)
                    o[r * QUADS + i] *= keep;
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
        uint t = tile * SPAN + uint(r / HEADS_BLOCK) * uint(LANES) + gl_LocalInvocationID.x;
        uint to = (t * uint(O_STRIDE) + (head0 + uint(r % HEADS_BLOCK)) * uint(HEAD_DIM)) / 4u;
        if (t < step_tokens)
            for (int i = 0; i < QUADS; i++)
                O[to + uint(i)] = o[r * QUADS + i] / sum[r];
    }
}
