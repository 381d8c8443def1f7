// Attention of one token with a table of scores in shared memory: any HEAD_DIM that is a multiple
// of 4, to 512.
//
// A group serves up to HEADS_BLOCK heads of one KV head and one split of the keys. It turns q and
// the new k together (k and v rounded to the cache's type; the first group whose split holds the
// new key also stores them), then goes through its keys LANES at a time: one key per invocation for
// the scores, an online softmax in powers of two over the table, and for the values one quad of the
// head per invocation, LANES / (HEAD_DIM / 4) keys side by side.
//
//! NAME attn_decode
//! OP attn_decode
//! VARIANT baseline tiled_small tiled_large
//! WHEN kv f16 f32
//! BIND read vec2 QKV
//! BIND readwrite uvec2 KV
//! BIND read vec2 ROPE
//! BIND write float P
//! PARAM float scale
//! PARAM float softcap
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS CONTEXT SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE HEADS_BLOCK = min(HEAD_DIM > 256 ? 3 : 4, HEADS / KV_HEADS) in 1 2 3 4
//! TUNE LANES = HEAD_DIM > 256 || !SOFTWARE ? 128 : HEAD_DIM > 128 ? 64 : 32 in 32 64 128
//! STEP read
//! LOCAL LANES
//! GROUPS KV_HEADS * ceildiv(HEADS / KV_HEADS, HEADS_BLOCK) * SPLITS
//! SHARED vec2 row[(HEADS_BLOCK + 2) * (HEAD_DIM / 2)] // q of each head, k, v
//! SHARED float score[HEADS_BLOCK * LANES]
//! SHARED float top_part[HEADS_BLOCK * 8]
//! SHARED vec4 out_part[LANES]
//! SHARED float sum_part[LANES]
//! REQUIRE HEAD_DIM % 4 == 0 && HEAD_DIM / 4 <= LANES && HEADS % KV_HEADS == 0
//! REQUIRE ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM
//! PREFER 10
//! TOLERANCE 1e-11
//! LIB kv
//! LIB rope
//! LIB activations
//! LIB attn_score
//! LIB attn_split

const uint QUADS = uint(HEAD_DIM / 4);
const uint SHARING = uint(HEADS / KV_HEADS);
const uint BLOCKS = (SHARING + uint(HEADS_BLOCK) - 1u) / uint(HEADS_BLOCK);
const uint SUBSETS = uint(LANES) / QUADS;

vec4 kv_quad(uint quad)
{
#if KV_f16
    uvec2 w = KV[quad];
    return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
#else
    return vec4(uintBitsToFloat(KV[2u * quad]), uintBitsToFloat(KV[2u * quad + 1u]));
#endif
}

void kv_store(uint quad, vec4 x)
{
#if KV_f16
    KV[quad] = uvec2(kv_pack(x.xy), kv_pack(x.zw));
#else
    KV[2u * quad] = floatBitsToUint(x.xy);
    KV[2u * quad + 1u] = floatBitsToUint(x.zw);
#endif
}

// Fills `row`: an item is two numbers here and two there of one row, as in rope_kv.
void turn_rows(uint lane, uint head0, uint kv_head)
{
    for (uint item = lane; item < uint(HEADS_BLOCK + 2) * QUADS; item += uint(LANES)) {
        uint r = item / QUADS, i = item % QUADS;
        uint head = uint(HEADS) + kv_head + (r - uint(HEADS_BLOCK)) * uint(KV_HEADS);
        if (r < uint(HEADS_BLOCK))
            head = min(head0 + r, uint(HEADS - 1));
        bool paired = i < uint(ROPE_DIMS / 4);
        uint dim = paired ? 2u * i : 4u * i;
        uint away = paired ? uint(ROPE_DIMS / 2) : 2u;
        uint from = (head * uint(HEAD_DIM) + dim) / 2u;
        vec4 x = vec4(QKV[from], QKV[from + away / 2u]);
        if (paired && r <= uint(HEADS_BLOCK)) {
            const uint WIDTH = uint(ROPE_DIMS / 2);
            uint lo = (step_pos & 255u) * WIDTH + dim, hi = (256u + (step_pos >> 8)) * WIDTH + dim;
            vec4 a = vec4(ROPE[lo], ROPE[lo + 1u]), b = vec4(ROPE[hi], ROPE[hi + 1u]);
            x = rope_turn(x, rope_angles(a, b));
        }
        x = r < uint(HEADS_BLOCK) ? x * query_scale() : kv_round(x);
        row[(r * uint(HEAD_DIM) + dim) / 2u] = x.xy;
        row[(r * uint(HEAD_DIM) + dim + away) / 2u] = x.zw;
    }
}

vec4 row_quad(uint r, uint i)
{
    return vec4(row[2u * (r * QUADS + i)], row[2u * (r * QUADS + i) + 1u]);
}

// Quad i of cached key or value j; the new one comes from `row`, since the cache may not hold it
// yet.
vec4 cached(uint base, uint j, uint i, uint new_row)
{
    return j == step_pos ? row_quad(new_row, i) : kv_quad(base + j * QUADS + i);
}

void write_result(uint head, uint split, uint i, vec4 x, float top, float sum)
{
    uint result = head * uint(SPLITS) + split;
    uint to = result * uint(HEAD_DIM) + 4u * i;
#if SPLITS == 1
    x /= sum;
#else
    uint extra = uint(HEADS * SPLITS * HEAD_DIM) + 2u * result;
    if (i == 0u) {
        P[extra] = sum > 0.0 ? top * 0.69314718 : -1e30;
        P[extra + 1u] = sum;
    }
#endif
    P[to] = x.x;
    P[to + 1u] = x.y;
    P[to + 2u] = x.z;
    P[to + 3u] = x.w;
}

void body(uvec3 group)
{
    rope_begin();
    uint lane = gl_LocalInvocationID.x;
    uint split = group.x % uint(SPLITS);
    uint block = group.x / uint(SPLITS) % BLOCKS;
    uint kv_head = group.x / uint(SPLITS) / BLOCKS;
    bool inside = kv_head < uint(KV_HEADS);
    kv_head = min(kv_head, uint(KV_HEADS - 1));
    uint head0 = kv_head * SHARING + block * uint(HEADS_BLOCK);
    uint keys = kv_head * uint(CONTEXT) * QUADS;
    uint values = uint(KV_HEADS * CONTEXT) * QUADS + keys;
    uint begin = split_first(split), end = split_first(split + 1u);

    turn_rows(lane, head0, kv_head);
    memoryBarrierShared(); barrier();
    if (inside && block == 0u && end == step_pos + 1u && begin < end)
        for (uint i = lane; i < QUADS; i += uint(LANES)) {
            kv_store(keys + step_pos * QUADS + i, row_quad(uint(HEADS_BLOCK), i));
            kv_store(values + step_pos * QUADS + i, row_quad(uint(HEADS_BLOCK + 1), i));
        }

    vec4 o[HEADS_BLOCK];
    float s[HEADS_BLOCK], m[HEADS_BLOCK], sum[HEADS_BLOCK];
    for (int h = 0; h < HEADS_BLOCK; h++) {
        o[h] = vec4(0.0);
        m[h] = -1e30;
        sum[h] = 0.0;
    }
    uint quad = lane % QUADS, subset = lane / QUADS;
    for (uint first = begin; first < end; first += uint(LANES)) {
        uint count = min(uint(LANES), end - first);
        for (int h = 0; h < HEADS_BLOCK; h++)
            s[h] = lane < count ? 0.0 : -1e30;
        if (lane < count)
            for (uint i = 0u; i < QUADS; i++) {
                vec4 k = cached(keys, first + lane, i, uint(HEADS_BLOCK));
                for (int h = 0; h < HEADS_BLOCK; h++)
                    s[h] += dot(k, row_quad(uint(h), i));
            }
        for (int h = 0; h < HEADS_BLOCK; h++) {
#if SOFTCAP
            s[h] = lane < count ? score_of(s[h]) : -1e30;
#endif
            score[h * LANES + int(lane)] = s[h];
        }
        memoryBarrierShared(); barrier();
        for (uint i = lane; i < uint(HEADS_BLOCK * 8); i += uint(LANES)) {
            float top = -1e30;
            for (uint e = 0u; e < uint(LANES / 8); e++)
                top = max(top, score[i * uint(LANES / 8) + e]);
            top_part[i] = top;
        }
        memoryBarrierShared(); barrier();
        for (int h = 0; h < HEADS_BLOCK; h++) {
            float top = m[h];
            for (int e = 0; e < 8; e++)
                top = max(top, top_part[h * 8 + e]);
            float keep = exp2(m[h] - top);
            o[h] *= keep;
            sum[h] *= keep;
            m[h] = top;
            score[h * LANES + int(lane)] = exp2(s[h] - top);
        }
        memoryBarrierShared(); barrier();
        if (subset < SUBSETS)
            for (uint j = subset; j < count; j += SUBSETS) {
                vec4 v = cached(values, first + j, quad, uint(HEADS_BLOCK + 1));
                for (int h = 0; h < HEADS_BLOCK; h++) {
                    float p = score[h * LANES + int(j)];
                    o[h] += p * v;
                    sum[h] += p;
                }
            }
        memoryBarrierShared(); barrier();
    }

    for (int h = 0; h < HEADS_BLOCK; h++) {
        out_part[lane] = o[h];
        sum_part[lane] = sum[h];
        memoryBarrierShared(); barrier();
        uint head = head0 + uint(h);
        if (inside && lane < QUADS && block * uint(HEADS_BLOCK) + uint(h) < SHARING) {
            vec4 x = o[h];
            float total = sum[h];
            for (uint e = 1u; e < SUBSETS; e++) {
                x += out_part[e * QUADS + lane];
                total += sum_part[e * QUADS + lane];
            }
            write_result(head, split, lane, x, m[h], total);
        }
        memoryBarrierShared(); barrier();
    }
}
