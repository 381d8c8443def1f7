// Attention of a chunk as tiles of matrix products, for GPUs.
//
// A group holds ROWS queries (tokens times HEADS_BLOCK heads of one KV head) and goes through the
// keys KEYS at a time: keys to shared memory, scores as a register tile per invocation, an online
// softmax in powers of two, weights to shared memory while the values replace the keys there, and
// the output as another register tile. Invocations form a grid of 16 rows by 8 columns; one of row
// y owns queries y, y + 16, ..., of column x keys x, x + 8, ... and quads x, x + 8, ... of the
// head. Rows of shared memory are 4 numbers longer than they need be, so that 8 neighbouring ones
// lie in different banks.
//
//! NAME attn_prefill_tiled
//! OP attn_prefill
//! VARIANT tiled tiled_large
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
//! TUNE BIG = SHARED_BYTES >= 40960 in 0 1
//! TUNE ROWS = HEAD_DIM <= 64 ? 32 + 32 * BIG : HEAD_DIM <= 128 && BIG ? 32 : 16 in 16 32 64
//! TUNE KEYS = !BIG ? 8 : HEAD_DIM <= 128 ? 32 : 16 in 8 16 32
//! TUNE HEADS_BLOCK = HEADS % (4 * KV_HEADS) == 0 ? 4 : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! STEP read
//! LOCAL 128
//! GROUPS ceildiv(T, ROWS / HEADS_BLOCK) * (HEADS / HEADS_BLOCK)
//! SHARED vec4 query[ROWS * (HEAD_DIM / 4 + 1)]
//! SHARED vec4 cached[KEYS * (HEAD_DIM / 4 + 1)] // keys, then values
//! SHARED float weight[ROWS * (KEYS + 4)]
//! SHARED float row_max[ROWS * 8]
//! REQUIRE HEAD_DIM % 8 == 0 && QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0
//! PREFER SOFTWARE ? 1 : 20
//! TOLERANCE 1e-11
//! LIB kv_octet
//! LIB activations
//! LIB attn_score

const uint OCTS = uint(HEAD_DIM / 8);
const uint QUADS = uint(HEAD_DIM / 4);
const uint WIDE = QUADS + 1u;     // quads from row to row of query and cached
const uint LONG = uint(KEYS + 4); // numbers from row to row of weight
const uint TOKENS = uint(ROWS / HEADS_BLOCK);
const int OWN_ROWS = ROWS / 16;
const int OWN_KEYS = KEYS / 8;
const int OWN_QUADS = (HEAD_DIM / 4 + 7) / 8;

// KEYS rows of the cache from `first` on; beyond `end` zeros, whose weight is zero.
void load_tile(uint lane, uint base, uint first, uint end)
{
    for (uint i = lane; i < uint(KEYS) * OCTS; i += 128u) {
        uint j = i / OCTS, e = i % OCTS;
        vec4 a = vec4(0.0), b = vec4(0.0);
        if (first + j < end)
            kv_octet(base + (first + j) * OCTS + e, a, b);
        cached[j * WIDE + 2u * e] = a;
        cached[j * WIDE + 2u * e + 1u] = b;
    }
}

void body(uvec3 group)
{
    const uint BLOCKS = uint(HEADS / HEADS_BLOCK);
    uint lane = gl_LocalInvocationID.x;
    uint x = lane % 8u, y = lane / 8u;
    uint head0 = group.x % BLOCKS * uint(HEADS_BLOCK);
    uint tiles = (step_tokens + TOKENS - 1u) / TOKENS;
    bool inside = group.x / BLOCKS < tiles;
    uint t0 = inside ? (tiles - 1u - group.x / BLOCKS) * TOKENS : 0u; // the longest first
    uint keys = head0 / uint(HEADS / KV_HEADS) * uint(CONTEXT) * OCTS;
    uint values = uint(KV_HEADS * CONTEXT) * OCTS + keys;
    uint end = inside ? step_pos + min(t0 + TOKENS, step_tokens) : 0u;
    float factor = query_scale();

    for (uint i = lane; i < uint(ROWS) * QUADS; i += 128u) {
        uint row = i / QUADS;
        uint t = min(t0 + row / uint(HEADS_BLOCK), step_tokens - 1u);
        uint head = head0 + row % uint(HEADS_BLOCK);
        query[row * WIDE + i % QUADS] =
            QKV[t * uint(QKV_STRIDE / 4) + head * QUADS + i % QUADS] * factor;
    }
    vec4 o[OWN_ROWS * OWN_QUADS];
    float m[OWN_ROWS], sum[OWN_ROWS];
    for (int r = 0; r < OWN_ROWS; r++) {
#if SINKS_head
        m[r] = S[head0 + (y + 16u * uint(r)) % uint(HEADS_BLOCK)] * 1.44269504;
        sum[r] = x == 0u ? 1.0 : 0.0; // the sums of the 8 columns are added up
#else
        m[r] = -1e30;
        sum[r] = 0.0;
#endif
        for (int i = 0; i < OWN_QUADS; i++)
            o[r * OWN_QUADS + i] = vec4(0.0);
    }

    for (uint first = first_key(step_pos + t0); first < end; first += uint(KEYS)) {
        load_tile(lane, keys, first, end);
        memoryBarrierShared(); barrier();
        float s[OWN_ROWS * OWN_KEYS];
        for (int i = 0; i < OWN_ROWS * OWN_KEYS; i++)
            s[i] = 0.0;
        for (uint e = 0u; e < QUADS; e++) {
            vec4 k[OWN_KEYS];
            for (int j = 0; j < OWN_KEYS; j++)
                k[j] = cached[(x + 8u * uint(j)) * WIDE + e];
            for (int r = 0; r < OWN_ROWS; r++) {
                vec4 q = query[(y + 16u * uint(r)) * WIDE + e];
                for (int j = 0; j < OWN_KEYS; j++)
                    s[r * OWN_KEYS + j] += dot(q, k[j]);
            }
        }
        for (int r = 0; r < OWN_ROWS; r++) {
            uint row = y + 16u * uint(r);
            uint last = step_pos + t0 + row / uint(HEADS_BLOCK);
            float top = -1e30;
            for (int j = 0; j < OWN_KEYS; j++) {
                uint key = first + x + 8u * uint(j);
                bool seen = key <= last;
#if WINDOW > 0
                seen = seen && key >= first_key(last);
#endif
                s[r * OWN_KEYS + j] = seen ? score_of(s[r * OWN_KEYS + j]) : -1e30;
                top = max(top, s[r * OWN_KEYS + j]);
            }
            row_max[row * 8u + x] = top;
        }
        memoryBarrierShared(); barrier();
        load_tile(lane, values, first, end);
        for (int r = 0; r < OWN_ROWS; r++) {
            uint row = y + 16u * uint(r);
            float top = m[r];
            for (uint e = 0u; e < 8u; e++)
                top = max(top, row_max[row * 8u + e]);
            float keep = exp2(m[r] - top);
            m[r] = top;
            sum[r] *= keep;
            for (int i = 0; i < OWN_QUADS; i++)
                o[r * OWN_QUADS + i] *= keep;
            for (int j = 0; j < OWN_KEYS; j++) {
                // While a row has seen no key `top` is -1e30 and this 1; its first true score makes
                // `keep` 0.
                float p = exp2(s[r * OWN_KEYS + j] - top);
                weight[row * LONG + x + 8u * uint(j)] = p;
                sum[r] += p;
            }
        }
        memoryBarrierShared(); barrier();
        for (uint j = 0u; j < uint(KEYS); j++) {
            vec4 v[OWN_QUADS];
            for (int i = 0; i < OWN_QUADS; i++)
                v[i] = cached[j * WIDE + min(x + 8u * uint(i), QUADS - 1u)];
            for (int r = 0; r < OWN_ROWS; r++) {
                float p = weight[(y + 16u * uint(r)) * LONG + j];
                for (int i = 0; i < OWN_QUADS; i++)
                    o[r * OWN_QUADS + i] += p * v[i];
            }
        }
        memoryBarrierShared(); barrier();
    }

    for (int r = 0; r < OWN_ROWS; r++)
        row_max[(y + 16u * uint(r)) * 8u + x] = sum[r];
    memoryBarrierShared(); barrier();
    for (int r = 0; r < OWN_ROWS; r++) {
        uint row = y + 16u * uint(r);
        uint t = t0 + row / uint(HEADS_BLOCK), head = head0 + row % uint(HEADS_BLOCK);
        float total = 0.0;
        for (uint e = 0u; e < 8u; e++)
            total += row_max[row * 8u + e];
        for (int i = 0; i < OWN_QUADS; i++) {
            uint quad = x + 8u * uint(i);
            if (inside && t < step_tokens && quad < QUADS)
                O[t * uint(O_STRIDE / 4) + head * QUADS + quad] = o[r * OWN_QUADS + i] / total;
        }
    }
}
