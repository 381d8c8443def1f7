// Attention of one token, HEAD_DIM / 8 invocations per key, scores summed by subgroup shuffles.
//
// o[h] = sum_j 2^(s[h, j] - m) v[j] with s[h, j] = log2(e) * scale * q[h] . k[j], over the keys j
// of one split. Groups: blocks of HEADS_BLOCK heads of one KV head by splits. Within a group
// KEY_THREADS invocations (a power of two that divides the subgroup) share a key: each holds a vec8
// of q and of the result per head in registers, loads a vec8 of key and value, and learns the score
// by shuffles. So a group takes KEYS keys at once, DEPTH rounds at a time with an online softmax in
// powers of two. The next keys are on their way, as stored, while the current ones are weighed, the
// first while q is rotated. Results are merged within the subgroup by shuffles, then through shared
// memory.
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
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS SPLITS
//! CONST WINDOW = 0
//! CONST SOFTCAP = 0
//! TUNE HEADS_BLOCK = HEADS % (4 * KV_HEADS) == 0 ? 4 : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE WG_SIZE = MAX_INVOCATIONS >= 256 ? 256 : 128 in 32 64 128 256
//! TUNE SUBGROUPS = SUBGROUP_SIZE >= 8 ? WG_SIZE / SUBGROUP_SIZE : 1 in 1 2 4 8 16 32
//! TUNE DEPTH = 4 in 1 2 4 8
//! LET ROWS = HEADS_BLOCK
//! LET VEC4S = HEAD_DIM / 4
//! LET KEY_THREADS = HEAD_DIM / 8
//! LET KEYS = KEY_THREADS > 0 ? WG_SIZE / KEY_THREADS : 0
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS HEADS / HEADS_BLOCK * SPLITS
//! SHARED vec4 out_part[SUBGROUPS * ROWS * VEC4S]
//! SHARED vec2 max_sum[SUBGROUPS * ROWS]
//! REQUIRE HEAD_DIM == 16 || HEAD_DIM == 32 || HEAD_DIM == 64 || HEAD_DIM == 128 || HEAD_DIM == 256
//! REQUIRE ROPE_DIMS % 16 == 0 && ROPE_DIMS <= HEAD_DIM && HEADS % (KV_HEADS * HEADS_BLOCK) == 0
//! REQUIRE SUBGROUP_SIZE >= KEY_THREADS && SUBGROUPS * SUBGROUP_SIZE == WG_SIZE
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! PREFER SOFTWARE ? 5 : 30
//! TOLERANCE 1e-11
//! LIB half
//! LIB kv
//! LIB kv_round
//! LIB kv_vec8
//! LIB kv_vec8_store
//! LIB rope
//! LIB activations
//! LIB attn_score
//! LIB attn_share

const uint HALF = uint(ROPE_DIMS / 16); // vec8s from a rotated number to its partner

// The angles of vec8 i of a head at a position, cosines and sines apart.
void load_angles(uint pos, uint i, out vec4 c[2], out vec4 s[2])
{
    i = i < HALF ? i : i < 2u * HALF ? i - HALF : 0u;
    for (uint e = 0u; e < 2u; e++) {
        vec4 x = rope_angles(pos, 4u * i + 2u * e);
        vec4 y = rope_angles(pos, 4u * i + 2u * e + 1u);
        c[e] = vec4(x.xz, y.xz);
        s[e] = vec4(x.yw, y.yw);
    }
}

// vec8 i of a row of QKV, rotated: the products and sums of rope_rotate().
void load_rotated(uint head, uint i, vec4 c[2], vec4 s[2], out vec4 a, out vec4 b)
{
    uint from = (head * uint(KEY_THREADS) + i) * 2u;
    uint partner = i < HALF ? from + 2u * HALF : i < 2u * HALF ? from - 2u * HALF : from;
    vec4 x = QKV[from], y = QKV[from + 1u];
    vec4 u = rope_pin(QKV[partner] * s[0]), v = rope_pin(QKV[partner + 1u] * s[1]);
    a = rope_pin(x * c[0]) + (i < HALF ? -u : u);
    b = rope_pin(y * c[1]) + (i < HALF ? -v : v);
    a = i < 2u * HALF ? a : x;
    b = i < 2u * HALF ? b : y;
}

float key_sum(float x)
{
    for (uint mask = uint(KEY_THREADS / 2); mask > 0u; mask /= 2u)
        x += subgroupShuffleXor(x, mask);
    return x;
}

// vec4 i of head r of the block, from all subgroups, to P.
void merge_subgroups(uint r, uint i, attn_share share)
{
    float all_max = NO_SCORE, sum = 0.0;
    vec4 x = vec4(0.0);
    for (uint g = 0u; g < uint(SUBGROUPS); g++)
        all_max = max(all_max, max_sum[g * uint(ROWS) + r].x);
    for (uint g = 0u; g < uint(SUBGROUPS); g++) {
        vec2 part = max_sum[g * uint(ROWS) + r];
        float rescale = exp2(part.x - all_max);
        sum += part.y * rescale;
        x += out_part[(g * uint(ROWS) + r) * uint(VEC4S) + i] * rescale;
    }
    write_part(share.head0 + r, share.split, i, x, all_max, sum);
}

void body(uvec3 group)
{
    rope_begin();
    // The invocations of a key are neighbours within the subgroup, whatever the order of local
    // invocations.
    uint tid = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint slot = tid / uint(KEY_THREADS), i8 = tid % uint(KEY_THREADS);
    attn_share share = attn_share_of(group.x);
    kv_rows keys = kv_skip(kv_keys(share.seq, share.kv_head), i8);
    kv_rows values = kv_skip(kv_values(share.seq, share.kv_head), i8);
    uint old_end = min(share.end, share.pos); // of those already in the cache

    // What lies beyond the split is read as its first key, and not used.
    kv_vec8 next_k[DEPTH], next_v[DEPTH];
#define FETCH(begin)                                                                               \
    for (int d = 0; d < DEPTH; d++) {                                                              \
        uint j = (begin) + slot + uint(d * KEYS);                                                  \
        j = j < old_end ? j : min(share.first, share.pos);                                         \
        next_k[d] = kv_fetch_vec8(kv_row(keys, j), 0u);                                            \
        next_v[d] = kv_fetch_vec8(kv_row(values, j), 0u);                                          \
    }
    FETCH(share.first)

    vec4 c[2], sn[2], q[2 * ROWS], o[2 * ROWS], new_k[2], new_v[2];
    float row_max[ROWS], row_sum[ROWS], factor = query_scale();
    load_angles(share.pos, i8, c, sn);
    for (int r = 0; r < ROWS; r++) {
        load_rotated(share.head0 + uint(r), i8, c, sn, q[2 * r], q[2 * r + 1]);
        q[2 * r] *= factor;
        q[2 * r + 1] *= factor;
        o[2 * r] = o[2 * r + 1] = vec4(0.0);
        row_max[r] = NO_SCORE;
        row_sum[r] = 0.0;
    }
    // The new key is the first of slot 0; its whole subgroup computes, as shuffles want it.
    bool mine = share.has_new && slot == 0u;
    if (share.has_new && gl_SubgroupID == 0u) {
        load_rotated(uint(HEADS) + share.kv_head, i8, c, sn, new_k[0], new_k[1]);
        uint from = ((uint(HEADS + KV_HEADS) + share.kv_head) * uint(KEY_THREADS) + i8) * 2u;
        for (uint e = 0u; e < 2u; e++) {
            new_k[e] = kv_round(new_k[e]);
            new_v[e] = kv_round(QKV[from + e]);
        }
        for (int r = 0; r < ROWS; r++) {
            float s = key_sum(dot(q[2 * r], new_k[0]) + dot(q[2 * r + 1], new_k[1]));
            row_max[r] = mine ? score_of(s) : NO_SCORE;
            row_sum[r] = mine ? 1.0 : 0.0;
            o[2 * r] = mine ? new_v[0] : vec4(0.0);
            o[2 * r + 1] = mine ? new_v[1] : vec4(0.0);
        }
    }

    for (uint first = share.first; first < old_end; first += uint(DEPTH * KEYS)) {
        float s[ROWS * DEPTH];
        kv_vec8 value[DEPTH];
        for (int d = 0; d < DEPTH; d++) {
            vec4 a, b;
            uint j = first + uint(d * KEYS);
            for (int r = 0; r < ROWS; r++)
                s[r * DEPTH + d] = NO_SCORE;
            if (j < old_end) { // uniform
                kv_unpack_vec8(next_k[d], a, b);
                for (int r = 0; r < ROWS; r++) {
                    float product = key_sum(dot(q[2 * r], a) + dot(q[2 * r + 1], b));
                    s[r * DEPTH + d] = j + slot < old_end ? score_of(product) : NO_SCORE;
                }
            }
        }
        for (int d = 0; d < DEPTH; d++)
            value[d] = next_v[d];
        FETCH(first + uint(DEPTH * KEYS))
        for (int r = 0; r < ROWS; r++) {
            float new_max = row_max[r];
            for (int d = 0; d < DEPTH; d++)
                new_max = max(new_max, s[r * DEPTH + d]);
            float rescale = exp2(row_max[r] - new_max);
            row_max[r] = new_max;
            row_sum[r] *= rescale;
            o[2 * r] *= rescale;
            o[2 * r + 1] *= rescale;
            for (int d = 0; d < DEPTH; d++) {
                // Before a slot's first key new_max is NO_SCORE, and exp2(0) not a weight.
                float p = s[r * DEPTH + d] > NO_SCORE ? exp2(s[r * DEPTH + d] - new_max) : 0.0;
                s[r * DEPTH + d] = p;
                row_sum[r] += p;
            }
        }
        for (int d = 0; d < DEPTH && first + uint(d * KEYS) < old_end; d++) {
            vec4 a, b;
            kv_unpack_vec8(value[d], a, b);
            for (int r = 0; r < ROWS; r++) {
                o[2 * r] += s[r * DEPTH + d] * a;
                o[2 * r + 1] += s[r * DEPTH + d] * b;
            }
        }
    }
    for (uint mask = uint(KEY_THREADS); mask < gl_SubgroupSize; mask *= 2u)
        for (int r = 0; r < ROWS; r++) {
            float other = subgroupShuffleXor(row_max[r], mask), new_max = max(row_max[r], other);
            float rescale = exp2(row_max[r] - new_max), take = exp2(other - new_max);
            row_max[r] = new_max;
            row_sum[r] = row_sum[r] * rescale + subgroupShuffleXor(row_sum[r], mask) * take;
            o[2 * r] = o[2 * r] * rescale + subgroupShuffleXor(o[2 * r], mask) * take;
            o[2 * r + 1] = o[2 * r + 1] * rescale + subgroupShuffleXor(o[2 * r + 1], mask) * take;
        }
    if (gl_SubgroupInvocationID < uint(KEY_THREADS))
        for (int r = 0; r < ROWS; r++) {
            uint part = gl_SubgroupID * uint(ROWS) + uint(r);
            out_part[part * uint(VEC4S) + 2u * i8] = o[2 * r];
            out_part[part * uint(VEC4S) + 2u * i8 + 1u] = o[2 * r + 1];
            max_sum[part] = vec2(row_max[r], row_sum[r]);
        }
    memoryBarrierShared(); barrier();
    for (uint n = tid; share.inside && n < uint(ROWS * VEC4S); n += uint(WG_SIZE))
        merge_subgroups(n / uint(VEC4S), n % uint(VEC4S), share);
    if (share.stores && slot == 0u)
        for (uint e = 0u; e < 2u; e++) {
            kv_store_vec4(kv_row(keys, share.pos), e, new_k[e]);
            kv_store_vec4(kv_row(values, share.pos), e, new_v[e]);
        }
}
