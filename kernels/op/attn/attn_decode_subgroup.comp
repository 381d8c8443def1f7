// Attention of one token, a few neighbouring invocations per key, scores summed by subgroup
// shuffles.
//
// HEAD_DIM / 8 invocations (a team; a power of two that divides the subgroup) share a key: each
// holds eight numbers of q and of the output for HEADS_BLOCK heads of the KV head in registers,
// loads 16 bytes of key and value, and learns the score by shuffles within the team. Teams take
// keys turn by turn, DEPTH at a time, with an online softmax in powers of two; the next keys are on
// their way, as stored, while the current ones are weighed, the first while q is turned. Results
// are merged within the subgroup by shuffles, then through shared memory. A subgroup holds a whole
// number of teams.
//
//! NAME attn_decode_subgroup
//! OP attn_decode
//! VARIANT subgroup streaming
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
//! TUNE HEADS_BLOCK = HEADS % (4 * KV_HEADS) == 0 ? 4 : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE LANES = MAX_INVOCATIONS >= 256 ? 256 : 128 in 32 64 128 256
//! TUNE SUBGROUPS = SUBGROUP_SIZE >= 8 ? LANES / SUBGROUP_SIZE : 1 in 1 2 4 8 16 32
//! TUNE DEPTH = 4 in 1 2 4 8
//! STEP read
//! LOCAL LANES
//! GROUPS HEADS / HEADS_BLOCK * SPLITS
//! SHARED vec4 out_part[SUBGROUPS * HEADS_BLOCK * (HEAD_DIM / 4)]
//! SHARED vec2 max_sum[SUBGROUPS * HEADS_BLOCK]
//! REQUIRE HEAD_DIM == 16 || HEAD_DIM == 32 || HEAD_DIM == 64 || HEAD_DIM == 128 || HEAD_DIM == 256
//! REQUIRE ROPE_DIMS % 16 == 0 && ROPE_DIMS <= HEAD_DIM && HEADS % (KV_HEADS * HEADS_BLOCK) == 0
//! REQUIRE SUBGROUP_SIZE >= HEAD_DIM / 8 && SUBGROUPS * SUBGROUP_SIZE == LANES
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! PREFER SOFTWARE ? 5 : 30
//! TOLERANCE 1e-11
//! LIB kv
//! LIB rope
//! LIB kv_octet
//! LIB kv_store
//! LIB activations
//! LIB attn_score
//! LIB attn_split

const uint TEAM = uint(HEAD_DIM / 8), TEAMS = uint(LANES) / TEAM;
const uint SHARING = uint(HEADS / KV_HEADS), QUADS = uint(HEAD_DIM / 4);
const int ROWS = HEADS_BLOCK;
const int WORDS = KV_f16 == 1 ? 1 : 2; // uvec4 per octet

// Octet `me` of the position's angles, cosines and sines apart.
void load_angles(uint me, out vec4 c[2], out vec4 s[2])
{
    const uint HALF = uint(ROPE_DIMS / 16);
    uint i = (me < HALF ? me : me < 2u * HALF ? me - HALF : 0u) * 4u;
    uint lo = (step_pos & 255u) * uint(ROPE_DIMS / 4) + i;
    uint hi = (256u + (step_pos >> 8)) * uint(ROPE_DIMS / 4) + i;
    for (uint e = 0u; e < 2u; e++) {
        vec4 x = rope_angles(ROPE[lo + 2u * e], ROPE[hi + 2u * e]);
        vec4 y = rope_angles(ROPE[lo + 2u * e + 1u], ROPE[hi + 2u * e + 1u]);
        c[e] = vec4(x.xz, y.xz);
        s[e] = vec4(x.yw, y.yw);
    }
}

// Octet `me` of a row of QKV, turned: the same products and sums as rope_turn().
void load_turned(uint head, uint me, vec4 c[2], vec4 s[2], out vec4 a, out vec4 b)
{
    const uint HALF = uint(ROPE_DIMS / 16);
    uint from = (head * TEAM + me) * 2u;
    uint other = me < HALF ? from + 2u * HALF : me < 2u * HALF ? from - 2u * HALF : from;
    vec4 x = QKV[from], y = QKV[from + 1u];
    vec4 u = rope_pin(QKV[other] * s[0]), v = rope_pin(QKV[other + 1u] * s[1]);
    a = rope_pin(x * c[0]) + (me < HALF ? -u : u);
    b = rope_pin(y * c[1]) + (me < HALF ? -v : v);
    a = me < 2u * HALF ? a : x;
    b = me < 2u * HALF ? b : y;
}

float team_sum(float x)
{
    for (uint away = TEAM / 2u; away > 0u; away /= 2u)
        x += subgroupShuffleXor(x, away);
    return x;
}

// Quad `quad` of head `row` of the block, from all subgroups, to P.
void write_quad(uint row, uint quad, uint head0, uint split)
{
    float top = -1e30, sum = 0.0;
    vec4 x = vec4(0.0);
    for (uint g = 0u; g < uint(SUBGROUPS); g++)
        top = max(top, max_sum[g * uint(ROWS) + row].x);
    for (uint g = 0u; g < uint(SUBGROUPS); g++) {
        vec2 other = max_sum[g * uint(ROWS) + row];
        float keep = exp2(other.x - top);
        sum += other.y * keep;
        x += out_part[(g * uint(ROWS) + row) * QUADS + quad] * keep;
    }
    uint result = (head0 + row) * uint(SPLITS) + split;
#if SPLITS == 1
    x /= sum;
#else
    uint extra = uint(HEADS * SPLITS * HEAD_DIM) + 2u * result;
    if (quad == 0u) {
        P[extra] = sum > 0.0 ? top * 0.69314718 : -1e30;
        P[extra + 1u] = sum;
    }
#endif
    uint to = result * uint(HEAD_DIM) + 4u * quad;
    P[to] = x.x;
    P[to + 1u] = x.y;
    P[to + 2u] = x.z;
    P[to + 3u] = x.w;
}

void body(uvec3 group)
{
    rope_begin();
    // Teams are neighbours within the subgroup, whatever the order of local invocations.
    uint lane = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint team = lane / TEAM, me = lane % TEAM;
    uint split = group.x % uint(SPLITS);
    uint head0 = group.x / uint(SPLITS) * uint(HEADS_BLOCK);
    bool inside = head0 < uint(HEADS);
    head0 = min(head0, uint(HEADS - HEADS_BLOCK));
    uint kv_head = head0 / SHARING;
    uint keys = kv_head * uint(CONTEXT) * TEAM + me;
    uint values = uint(KV_HEADS * CONTEXT) * TEAM + keys;
    uint begin = split_first(split), end = split_first(split + 1u);
    bool has_new = begin < end && end == step_pos + 1u;
    uint old_end = has_new ? step_pos : end;

    // As stored. What lies beyond the split is read as its first key, and not used.
    uvec4 raw_k[DEPTH * WORDS], raw_v[DEPTH * WORDS];
#define FETCH(first)                                                                               \
    for (int d = 0; d < DEPTH; d++) {                                                              \
        uint j = (first) + team + uint(d) * TEAMS;                                                 \
        j = j < old_end ? j : min(begin, step_pos);                                                \
        for (int w = 0; w < WORDS; w++) {                                                          \
            raw_k[d * WORDS + w] = KV[(keys + j * TEAM) * uint(WORDS) + uint(w)];                  \
            raw_v[d * WORDS + w] = KV[(values + j * TEAM) * uint(WORDS) + uint(w)];                \
        }                                                                                          \
    }
    FETCH(begin)

    vec4 c[2], sn[2], q[2 * ROWS], o[2 * ROWS], new_k[2], new_v[2];
    float m[ROWS], sum[ROWS], factor = query_scale();
    load_angles(me, c, sn);
    for (int r = 0; r < ROWS; r++) {
        load_turned(head0 + uint(r), me, c, sn, q[2 * r], q[2 * r + 1]);
        q[2 * r] *= factor;
        q[2 * r + 1] *= factor;
        o[2 * r] = o[2 * r + 1] = vec4(0.0);
        m[r] = -1e30;
        sum[r] = 0.0;
    }
    // The first team starts with the new key; its whole subgroup computes, as shuffles want it.
    bool mine = has_new && team == 0u;
    if (has_new && gl_SubgroupID == 0u) {
        load_turned(uint(HEADS) + kv_head, me, c, sn, new_k[0], new_k[1]);
        for (uint i = 0u; i < 2u; i++) {
            new_k[i] = kv_round(new_k[i]);
            new_v[i] = kv_round(QKV[((uint(HEADS + KV_HEADS) + kv_head) * TEAM + me) * 2u + i]);
        }
        for (int r = 0; r < ROWS; r++) {
            float s = team_sum(dot(q[2 * r], new_k[0]) + dot(q[2 * r + 1], new_k[1]));
            m[r] = mine ? score_of(s) : -1e30;
            sum[r] = mine ? 1.0 : 0.0;
            o[2 * r] = mine ? new_v[0] : vec4(0.0);
            o[2 * r + 1] = mine ? new_v[1] : vec4(0.0);
        }
    }

    for (uint first = begin; first < old_end; first += TEAMS * uint(DEPTH)) {
        float s[ROWS * DEPTH];
        uvec4 value[DEPTH * WORDS];
        for (int d = 0; d < DEPTH; d++) {
            vec4 a, b;
            uint j = first + uint(d) * TEAMS;
            for (int r = 0; r < ROWS; r++)
                s[r * DEPTH + d] = -1e30;
            if (j < old_end) { // the same for all
                kv_unpack(raw_k[d * WORDS], raw_k[d * WORDS + WORDS - 1], a, b);
                for (int r = 0; r < ROWS; r++) {
                    float sum = team_sum(dot(q[2 * r], a) + dot(q[2 * r + 1], b));
                    s[r * DEPTH + d] = j + team < old_end ? score_of(sum) : -1e30;
                }
            }
        }
        for (int i = 0; i < DEPTH * WORDS; i++)
            value[i] = raw_v[i];
        FETCH(first + TEAMS * uint(DEPTH))
        for (int r = 0; r < ROWS; r++) {
            float top = m[r];
            for (int d = 0; d < DEPTH; d++)
                top = max(top, s[r * DEPTH + d]);
            float keep = exp2(m[r] - top);
            m[r] = top;
            sum[r] *= keep;
            o[2 * r] *= keep;
            o[2 * r + 1] *= keep;
            for (int d = 0; d < DEPTH; d++) {
                // A team without any key yet has top = -1e30, and exp2(0) for keys not there.
                float p = s[r * DEPTH + d] > -1e30 ? exp2(s[r * DEPTH + d] - top) : 0.0;
                s[r * DEPTH + d] = p;
                sum[r] += p;
            }
        }
        for (int d = 0; d < DEPTH && first + uint(d) * TEAMS < old_end; d++) {
            vec4 a, b;
            kv_unpack(value[d * WORDS], value[d * WORDS + WORDS - 1], a, b);
            for (int r = 0; r < ROWS; r++) {
                o[2 * r] += s[r * DEPTH + d] * a;
                o[2 * r + 1] += s[r * DEPTH + d] * b;
            }
        }
    }
    for (uint away = TEAM; away < gl_SubgroupSize; away *= 2u)
        for (int r = 0; r < ROWS; r++) {
            float other = subgroupShuffleXor(m[r], away), top = max(m[r], other);
            float keep = exp2(m[r] - top), take = exp2(other - top);
            m[r] = top;
            sum[r] = sum[r] * keep + subgroupShuffleXor(sum[r], away) * take;
            o[2 * r] = o[2 * r] * keep + subgroupShuffleXor(o[2 * r], away) * take;
            o[2 * r + 1] = o[2 * r + 1] * keep + subgroupShuffleXor(o[2 * r + 1], away) * take;
        }
    if (gl_SubgroupInvocationID < TEAM)
        for (int r = 0; r < ROWS; r++) {
            uint row = gl_SubgroupID * uint(ROWS) + uint(r);
            out_part[row * QUADS + 2u * me] = o[2 * r];
            out_part[row * QUADS + 2u * me + 1u] = o[2 * r + 1];
            max_sum[row] = vec2(m[r], sum[r]);
        }
    memoryBarrierShared(); barrier();
    for (uint i = lane; inside && i < uint(ROWS) * QUADS; i += uint(LANES))
        write_quad(i / QUADS, i % QUADS, head0, split);
    if (inside && mine && head0 % SHARING == 0u) {
        uint key = 2u * (keys + step_pos * TEAM), value = 2u * (values + step_pos * TEAM);
        for (uint i = 0u; i < 2u; i++) {
            kv_store_quad(key + i, new_k[i]);
            kv_store_quad(value + i, new_v[i]);
        }
    }
}
