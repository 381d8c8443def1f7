// Attention of one token, a few neighbouring invocations per key, scores summed by subgroup
// shuffles.
//
// HEAD_DIM / 8 invocations (a team; a power of two that divides the subgroup) share a key: each
// holds eight numbers of q and of the output for HEADS_BLOCK heads of the KV head in registers,
// loads 16 bytes of key and value, and learns the score by shuffles within the team. Teams take
// keys turn by turn, DEPTH at a time so that several loads are under way, with an online softmax in
// powers of two; nothing is shared between them until the end, where their results are merged
// through shared memory. The subgroup's size does not matter beyond that it holds a whole number of
// teams.
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
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS CONTEXT SPLITS
//! TUNE HEADS_BLOCK = HEADS % (4 * KV_HEADS) == 0 ? 4 : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE LANES = 128 in 32 64 128 256
//! TUNE DEPTH = 2 in 1 2 4
//! STEP read
//! LOCAL LANES
//! GROUPS HEADS / HEADS_BLOCK * SPLITS
//! SHARED LANES * 10 * 4
//! REQUIRE HEAD_DIM == 16 || HEAD_DIM == 32 || HEAD_DIM == 64 || HEAD_DIM == 128 || HEAD_DIM == 256
//! REQUIRE ROPE_DIMS % 16 == 0 && ROPE_DIMS <= HEAD_DIM && HEADS % (KV_HEADS * HEADS_BLOCK) == 0
//! REQUIRE SUBGROUP_SIZE >= HEAD_DIM / 8
//! REQUIRE LANES % SUBGROUP_SIZE == 0 && LANES >= HEAD_DIM / 4
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! PREFER SOFTWARE ? 5 : 30
//! TOLERANCE 1e-11
//! CHUNK kv
//! CHUNK rope
//! CHUNK kv_octet
//! CHUNK kv_store

const uint TEAM = uint(HEAD_DIM / 8);
const uint TEAMS = uint(LANES) / TEAM;
const uint SHARING = uint(HEADS / KV_HEADS);
const int ROWS = HEADS_BLOCK;

shared vec4 out_part[2 * LANES];
shared vec2 max_sum[LANES];

// Octet i of a row of QKV, turned when it is q or k.
void load_octet(uint head, uint i, bool turn, out vec4 a, out vec4 b)
{
    const uint HALF = uint(ROPE_DIMS / 16);
    uint from = (head * TEAM + i) * 2u;
    a = QKV[from];
    b = QKV[from + 1u];
    if (!turn || i >= 2u * HALF)
        return;
    bool second = i >= HALF;
    uint away = second ? from - 2u * HALF : from + 2u * HALF;
    vec4 c = QKV[away], d = QKV[away + 1u];
    uint lo = (step_pos & 255u) * uint(ROPE_DIMS / 4) + (second ? i - HALF : i) * 4u;
    uint hi = (256u + (step_pos >> 8)) * uint(ROPE_DIMS / 4) + (second ? i - HALF : i) * 4u;
    vec4 x[4] = vec4[4](vec4(a.xy, c.xy), vec4(a.zw, c.zw), vec4(b.xy, d.xy), vec4(b.zw, d.zw));
    for (uint e = 0u; e < 4u; e++) {
        vec4 pairs = second ? x[e].zwxy : x[e];
        pairs = rope_turn(pairs, rope_angles(ROPE[lo + e], ROPE[hi + e]));
        x[e] = second ? pairs.zwxy : pairs;
    }
    a = vec4(x[0].xy, x[1].xy);
    b = vec4(x[2].xy, x[3].xy);
}

float team_sum(float x)
{
    for (uint away = TEAM / 2u; away > 0u; away /= 2u)
        x += subgroupShuffleXor(x, away);
    return x;
}

void write_head(uint lane, uint head, uint split)
{
    float top = -1e30, sum = 0.0;
    for (uint t = 0u; t < TEAMS; t++)
        top = max(top, max_sum[t * TEAM].x);
    vec4 x = vec4(0.0);
    // 2 * TEAM quads of the head, one per invocation.
    for (uint t = 0u; t < TEAMS; t++) {
        vec2 other = max_sum[t * TEAM];
        float keep = exp2(other.x - top);
        sum += other.y * keep;
        x += out_part[t * 2u * TEAM + lane] * keep;
    }
    uint result = head * uint(SPLITS) + split;
#if SPLITS == 1
    x /= sum;
#else
    uint extra = uint(HEADS * SPLITS * HEAD_DIM) + 2u * result;
    if (lane == 0u) {
        P[extra] = sum > 0.0 ? top * 0.69314718 : -1e30;
        P[extra + 1u] = sum;
    }
#endif
    uint to = result * uint(HEAD_DIM) + 4u * lane;
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
    uint share = (step_pos + uint(SPLITS)) / uint(SPLITS); // of pos + 1 keys
    uint begin = min(split * share, step_pos + 1u);
    uint end = min(begin + share, step_pos + 1u);
    bool has_new = begin < end && end == step_pos + 1u;
    uint old_end = has_new ? step_pos : end;

    vec4 q[2 * ROWS], o[2 * ROWS];
    float m[ROWS], sum[ROWS];
    for (int r = 0; r < ROWS; r++) {
        load_octet(head0 + uint(r), me, true, q[2 * r], q[2 * r + 1]);
        q[2 * r] *= scale * 1.44269504;
        q[2 * r + 1] *= scale * 1.44269504;
        o[2 * r] = vec4(0.0);
        o[2 * r + 1] = vec4(0.0);
        m[r] = -1e30;
        sum[r] = 0.0;
    }

    // The first team starts with the new key. Every team does the arithmetic: shuffles want whole
    // subgroups.
    {
        vec4 ka, kb, va, vb;
        load_octet(uint(HEADS) + kv_head, me, true, ka, kb);
        load_octet(uint(HEADS + KV_HEADS) + kv_head, me, false, va, vb);
        ka = kv_round(ka);
        kb = kv_round(kb);
        va = kv_round(va);
        vb = kv_round(vb);
        bool mine = has_new && team == 0u;
        if (mine && inside && head0 % SHARING == 0u) {
            uint key = 2u * (keys + step_pos * TEAM), value = 2u * (values + step_pos * TEAM);
            kv_store_quad(key, ka);
            kv_store_quad(key + 1u, kb);
            kv_store_quad(value, va);
            kv_store_quad(value + 1u, vb);
        }
        for (int r = 0; r < ROWS; r++) {
            float s = team_sum(dot(q[2 * r], ka) + dot(q[2 * r + 1], kb));
            if (mine) {
                m[r] = s;
                sum[r] = 1.0;
                o[2 * r] = va;
                o[2 * r + 1] = vb;
            }
        }
    }

    for (uint first = begin; first < old_end; first += TEAMS * uint(DEPTH)) {
        vec4 ka[DEPTH], kb[DEPTH], va[DEPTH], vb[DEPTH];
        for (int d = 0; d < DEPTH; d++) {
            uint j = min(first + team + uint(d) * TEAMS, old_end - 1u);
            kv_octet(keys + j * TEAM, ka[d], kb[d]);
            kv_octet(values + j * TEAM, va[d], vb[d]);
        }
        for (int r = 0; r < ROWS; r++) {
            float s[DEPTH], top = m[r];
            for (int d = 0; d < DEPTH; d++) {
                s[d] = team_sum(dot(q[2 * r], ka[d]) + dot(q[2 * r + 1], kb[d]));
                s[d] = first + team + uint(d) * TEAMS < old_end ? s[d] : -1e30;
                top = max(top, s[d]);
            }
            float keep = exp2(m[r] - top);
            m[r] = top;
            sum[r] *= keep;
            o[2 * r] *= keep;
            o[2 * r + 1] *= keep;
            for (int d = 0; d < DEPTH; d++) {
                // A team without any key yet has top = -1e30, and exp2(0) for keys that are not
                // there.
                float p = s[d] > -1e30 ? exp2(s[d] - top) : 0.0;
                sum[r] += p;
                o[2 * r] += p * va[d];
                o[2 * r + 1] += p * vb[d];
            }
        }
    }

    for (int r = 0; r < ROWS; r++) {
        out_part[2u * lane] = o[2 * r];
        out_part[2u * lane + 1u] = o[2 * r + 1];
        max_sum[lane] = vec2(m[r], sum[r]);
        barrier();
        if (inside && lane < 2u * TEAM)
            write_head(lane, head0 + uint(r), split);
        barrier();
    }
}
