// Attention of many tokens as tiles of matrix products, each subgroup with queries of its own.
//
// O[t, h] = softmax_j(scale * q[t, h] . k[j]) v[j] over the keys j <= pos + t. QKV is
// [T][QKV_STRIDE] f32, KV the cache in f16 or f32, and O is [T][O_STRIDE] f32. With sinks=head, S
// adds one logit per head to the softmax.
//
// Layout: a work group computes a run of ROWS / HEADS_BLOCK tokens for HEADS_BLOCK query heads of
// one KV head. It reads keys and values once for all of these heads. The groups of the last tokens,
// which have the most keys, start first.
//
// The invocations of a subgroup form a grid of ROW_LANES rows and 8 columns. Row y owns OWN_ROWS
// queries. Column x owns the keys x, x + 8, ... of a tile and the vec4s x, x + 8, ... of the head.
// Each invocation computes a register tile of scores from queries and keys in shared memory. The 8
// invocations of a row use shuffles for the online softmax, which uses powers of two. They also
// pass weights by shuffles from the columns of keys to the columns of the head. So subgroups wait
// for each other only when keys and values replace each other in shared memory. Both are stored
// there as in the cache. Meanwhile the next tile is loaded into registers. A subgroup skips keys
// that none of its queries sees.
//
// Choice: PREFER is 30 for f16 heads of 64 or 128 numbers and 15 otherwise, against 20 of
// attn_prefill_tiled. This follows the measurements below.
//
// TUNEs: OWN_ROWS is the number of queries per invocation: more reuse each key more often, but need
// more registers. SUBGROUPS is the number of subgroups that share a tile of keys. KEYS is the
// number of keys of a tile; LEAST and MANY set limits from shared memory and registers. HEADS_BLOCK
// is the number of heads that share loaded keys.
//
// Time in us on one NVIDIA H200 (driver 580, 2026-11-23) by `kernels bench`, 512 tokens, f16. A is
// with the presets, B with OWN_ROWS 4 and SUBGROUPS 4, C with KEYS 32, D with B and C. T is
// attn_prefill_tiled. In the second row A reaches 22 TFLOP/s and T 15.
//     HEAD_DIM   heads of KV heads   first position       A      B     C      D      T
//         64          32 of 8                     0    64.3     84    80          76.4
//         64          32 of 8                  4096     834    794   827          1208
//        128          32 of 8                     0     121    141                 193
//        128          32 of 8                  4096    1794   2173                2995
//         80          32 of 32                    0                         119    153
//         80          32 of 32                 4096                        1754   2675
//         96          32 of 32                    0                         469    163
//         96          32 of 32                 4096                        1863   2855
//        256           8 of 4                     0                         318    166
//        256           8 of 4                  4096                        3621   3099
//         64, f32     32 of 8                  4096                        1024   1223
// OWN_ROWS 8, and unrolling all loops by a pragma, take up to 50 times as long, because arrays
// leave the registers.
//
// Utilisation: all invocations are active in loads, scores and softmax. For the values, all are
// active with heads of 64, 96, 128 and 256 numbers, and 20 of 24 columns of vec4s with heads of 80.
// A pass of 2 to 16 tokens fills part of ROWS. A group reads each key once, whatever the number of
// its filled rows. A subgroup whose rows are all beyond the last token only loads.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). On navi31 with LLVM 15, heads of
// 128 numbers spill 13 registers with OWN_ROWS 2, and none with OWN_ROWS 1, the preset there
// (REGISTERS). Heads of 256 numbers spill 14, so attn_prefill is chosen.
//
//! NAME attn_prefill_subgroup
//! OP attn_prefill
//! VARIANT subgroup
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
//! TUNE SUBGROUPS = SHARED_BYTES / HEAD_DIM / max(32, SUBGROUP_SIZE) >= 12 ? 8 : 4 in 1 2 4 8
//! TUNE LEAST = HEAD_DIM > 64 && REGISTERS < 88 ? 12 : 6 in 6 12
//! TUNE OWN_ROWS = SHARED_BYTES / HEAD_DIM / max(32, SUBGROUP_SIZE) >= LEAST ? 2 : 1 in 1 2 4
//! TUNE MANY = HEAD_DIM <= 80 && SHARED_BYTES >= 32768 in 0 1
//! TUNE KEYS = (HEAD_DIM > 128 ? 16 : MANY ? 64 : 32) / (KV_K_f16 ? 1 : 2) in 8 16 32 64
//! TUNE HEADS_BLOCK = HEADS % (4 * KV_HEADS) == 0 ? 4 : 2 - HEADS / KV_HEADS % 2 in 1 2 4 8
//! LET ROW_LANES = max(8, SUBGROUP_SIZE) / 8
//! LET SUBGROUP_ROWS = ROW_LANES * OWN_ROWS
//! LET ROWS = SUBGROUPS * SUBGROUP_ROWS
//! LET WG_SIZE = SUBGROUPS * ROW_LANES * 8
//! LET VEC4S = HEAD_DIM / 4
//! LET ROW_STRIDE = VEC4S + 1 // vec4s from row to row of query and tile
//! LET TILE_VEC = KV_K_f16 ? 1 : 2 // elements of the tile per vec4
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS ceildiv(T, ROWS / HEADS_BLOCK) * (HEADS / HEADS_BLOCK)
//! ACTIVE T * HEADS * WG_SIZE / ROWS
//! SHARED vec4 query[ROWS * ROW_STRIDE]
//! SHARED uvec2 tile[KEYS * ROW_STRIDE * TILE_VEC] // keys, then values
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE SUBGROUP_SIZE >= 8
//! REQUIRE HEAD_DIM % 8 == 0 && QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0 && ROWS % HEADS_BLOCK == 0
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REGISTERS HEAD_DIM > 128 ? 72 : 64
//! PREFER SOFTWARE ? -1 : KV_K_f16 && (HEAD_DIM == 64 || HEAD_DIM == 128) ? 30 : 15 // as measured
//! TOLERANCE 1e-11
//! LIB kv
//! LIB kv_vec8
//! LIB activations
//! LIB attn_score
//! LIB attn_sinks

const uint TOKENS = uint(ROWS / HEADS_BLOCK), VEC8S = uint(HEAD_DIM / 8);
const int OWN_KEYS = KEYS / 8;
const int OWN_VEC4S = (VEC4S + 7) / 8;
const int AHEAD = (KEYS * HEAD_DIM / 8 + WG_SIZE - 1) / WG_SIZE;

// Loads this invocation's part of KEYS rows of the cache from `first` on. `first` is a multiple of
// KEYS, so these rows are in one page. Rows from `end` on are zeros; their weight is zero.
void fetch_tile(uint tid, uint page_rows, uint first, uint end, out kv_vec8 ahead[AHEAD])
{
    for (int e = 0; e < AHEAD; e++) {
        uint n = tid + uint(e * WG_SIZE), j = n / VEC8S;
        bool there = j < uint(KEYS) && first + j < end;
        ahead[e].lo = uvec4(0u);
#if !KV_K_f16
        ahead[e].hi = uvec4(0u);
#endif
        if (there)
            ahead[e] = kv_fetch_vec8(kv_page_row(page_rows, first + j), n % VEC8S);
    }
}

void store_tile(uint tid, kv_vec8 ahead[AHEAD])
{
    for (int e = 0; e < AHEAD; e++) {
        uint n = tid + uint(e * WG_SIZE), j = n / VEC8S;
        uint to = (j * uint(ROW_STRIDE) + 2u * (n % VEC8S)) * uint(TILE_VEC);
        if (j < uint(KEYS)) {
            tile[to] = ahead[e].lo.xy;
            tile[to + 1u] = ahead[e].lo.zw;
#if !KV_K_f16
            tile[to + 2u] = ahead[e].hi.xy;
            tile[to + 3u] = ahead[e].hi.zw;
#endif
        }
    }
}

// vec4 i of the tile's row j.
vec4 tile_vec4(uint j, uint i)
{
    uint from = (j * uint(ROW_STRIDE) + i) * uint(TILE_VEC);
#if KV_K_f16
    return vec4(unpackHalf2x16(tile[from].x), unpackHalf2x16(tile[from].y));
#else
    return uintBitsToFloat(uvec4(tile[from], tile[from + 1u]));
#endif
}

// sum + dot(a, b) with four multiply-adds. dot() would need one more addition.
float add_dot(float sum, vec4 a, vec4 b)
{
    sum += a.x * b.x;
    sum += a.y * b.y;
    sum += a.z * b.z;
    sum += a.w * b.w;
    return sum;
}

// The maximum over the 8 invocations of a row, and the sum over them.
float columns_max(float x)
{
    for (uint mask = 1u; mask < 8u; mask *= 2u)
        x = max(x, subgroupShuffleXor(x, mask));
    return x;
}

float columns_sum(float x)
{
    for (uint mask = 1u; mask < 8u; mask *= 2u)
        x += subgroupShuffleXor(x, mask);
    return x;
}

void body(uvec3 group)
{
    const uint BLOCKS = uint(HEADS / HEADS_BLOCK);
    uint lane = gl_SubgroupInvocationID, tid = gl_SubgroupID * gl_SubgroupSize + lane;
    uint x = lane % 8u, lane0 = lane - x; // the first invocation of the row of lanes
    uint row0 = gl_SubgroupID * uint(SUBGROUP_ROWS); // the subgroup's first query
    uint y = row0 + lane / 8u;
    uint head0 = group.x % BLOCKS * uint(HEADS_BLOCK);
    uint tiles = (pass_rows + TOKENS - 1u) / TOKENS;
    bool inside = group.x / BLOCKS < tiles;
    uint t0 = inside ? (tiles - 1u - group.x / BLOCKS) * TOKENS : 0u;
    uint seq = row_seq(t0), pos = row_pos(t0); // of the first token
    uint end = inside ? pos + min(TOKENS, pass_rows - t0) : 0u;
    uint kv_head = head0 / uint(HEADS / KV_HEADS);
    kv_rows keys = kv_keys(seq, kv_head);
    // The key after the last one that a query of the subgroup sees, or 0 if the subgroup has no
    // query.
    uint subgroup_end = pos + (row0 + uint(SUBGROUP_ROWS - 1)) / uint(HEADS_BLOCK) + 1u;
    if (pos + row0 / uint(HEADS_BLOCK) >= end)
        subgroup_end = 0u;
    float factor = query_scale();

    kv_vec8 ahead[AHEAD];
    uint begin = first_key(pos) / uint(KEYS) * uint(KEYS);
    uint page_rows = kv_page_rows(keys, begin);
    fetch_tile(tid, page_rows, begin, end, ahead);
    for (uint n = tid; n < uint(ROWS * VEC4S); n += uint(WG_SIZE)) {
        uint row = n / uint(VEC4S), i = n % uint(VEC4S);
        uint t = min(t0 + row / uint(HEADS_BLOCK), pass_rows - 1u);
        uint head = head0 + row % uint(HEADS_BLOCK);
        uint from = t * uint(QKV_STRIDE / 4) + head * uint(VEC4S) + i;
        query[row * uint(ROW_STRIDE) + i] = QKV[from] * factor;
    }
    vec4 o[OWN_ROWS * OWN_VEC4S];
    float row_max[OWN_ROWS], row_sum[OWN_ROWS]; // the sum in 8 parts
    for (int r = 0; r < OWN_ROWS; r++) {
        uint row = y + uint(r * ROW_LANES);
        softmax_begin(head0 + row % uint(HEADS_BLOCK), row_max[r], row_sum[r]);
        row_sum[r] = x == 0u ? row_sum[r] : 0.0;
        for (int i = 0; i < OWN_VEC4S; i++)
            o[r * OWN_VEC4S + i] = vec4(0.0);
    }

    for (uint first = begin; first < end; first += uint(KEYS)) {
        bool any_seen = first < subgroup_end;
        store_tile(tid, ahead);
        memoryBarrierShared(); barrier();
        fetch_tile(tid, page_rows + KV_TO_VALUE, first, end, ahead);
        page_rows = kv_page_rows(keys, min(first + uint(KEYS), end - 1u));
        float s[OWN_ROWS * OWN_KEYS]; // scores, then weights
        for (int i = 0; i < OWN_ROWS * OWN_KEYS; i++)
            s[i] = 0.0;
        if (any_seen) {
            for (uint i = 0u; i < uint(VEC4S); i++) {
                vec4 k[OWN_KEYS];
                for (int j = 0; j < OWN_KEYS; j++)
                    k[j] = tile_vec4(x + uint(8 * j), i);
                for (int r = 0; r < OWN_ROWS; r++) {
                    vec4 q = query[(y + uint(r * ROW_LANES)) * uint(ROW_STRIDE) + i];
                    for (int j = 0; j < OWN_KEYS; j++)
                        s[r * OWN_KEYS + j] = add_dot(s[r * OWN_KEYS + j], q, k[j]);
                }
            }
            for (int r = 0; r < OWN_ROWS; r++) {
                uint last = pos + (y + uint(r * ROW_LANES)) / uint(HEADS_BLOCK);
                float new_max = row_max[r];
                for (int j = 0; j < OWN_KEYS; j++) {
                    uint key = first + x + uint(8 * j);
                    bool seen = key <= last && key >= first_key(last);
                    s[r * OWN_KEYS + j] = seen ? score_of(s[r * OWN_KEYS + j]) : NO_SCORE;
                    new_max = max(new_max, s[r * OWN_KEYS + j]);
                }
                new_max = columns_max(new_max);
                float rescale = exp2(row_max[r] - new_max);
                row_max[r] = new_max;
                row_sum[r] *= rescale;
                for (int i = 0; i < OWN_VEC4S; i++)
                    o[r * OWN_VEC4S + i] *= rescale;
                for (int j = 0; j < OWN_KEYS; j++) {
                    // While a row has seen no key, new_max is NO_SCORE and this weight is 1. The
                    // first real score makes `rescale` 0.
                    s[r * OWN_KEYS + j] = exp2(s[r * OWN_KEYS + j] - new_max);
                    row_sum[r] += s[r * OWN_KEYS + j];
                }
            }
        }
        memoryBarrierShared(); barrier();
        store_tile(tid, ahead);
        memoryBarrierShared(); barrier();
        fetch_tile(tid, page_rows, first + uint(KEYS), end, ahead);
        if (any_seen) {
            // The outer loop is the one that compilers may leave rolled, because s needs constant
            // indices.
            for (uint e = 0u; e < 8u; e++)
                for (int j = 0; j < OWN_KEYS; j++) {
                    vec4 v[OWN_VEC4S];
                    for (int i = 0; i < OWN_VEC4S; i++)
                        v[i] = tile_vec4(uint(8 * j) + e, min(x + uint(8 * i), uint(VEC4S - 1)));
                    for (int r = 0; r < OWN_ROWS; r++) {
                        float p = subgroupShuffle(s[r * OWN_KEYS + j], lane0 + e);
                        for (int i = 0; i < OWN_VEC4S; i++)
                            o[r * OWN_VEC4S + i] += p * v[i];
                    }
                }
        }
        memoryBarrierShared(); barrier();
    }

    for (int r = 0; r < OWN_ROWS; r++) {
        uint row = y + uint(r * ROW_LANES);
        uint t = t0 + row / uint(HEADS_BLOCK), head = head0 + row % uint(HEADS_BLOCK);
        float sum = columns_sum(row_sum[r]);
        for (int i = 0; i < OWN_VEC4S; i++) {
            uint column = x + uint(8 * i);
            uint to = t * uint(O_STRIDE / 4) + head * uint(VEC4S) + column;
            if (inside && t < pass_rows && column < uint(VEC4S))
                O[to] = o[r * OWN_VEC4S + i] / sum;
        }
    }
}
