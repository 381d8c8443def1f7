// Attention of many tokens as tiles of matrix products, for GPUs.
//
// O[t, h] = softmax_j(scale * q[t, h] . k[j]) v[j] over the keys j <= pos + t. QKV is
// [T][QKV_STRIDE] f32, KV the cache in f16 or f32, and O is [T][O_STRIDE] f32. With sinks=head, S
// adds one logit per head to the softmax.
//
// Layout: a work group computes ROWS queries: a run of ROWS / HEADS_BLOCK tokens for HEADS_BLOCK
// heads of one KV head. Groups with the most keys start first. A group processes KEYS keys at a
// time:
//   - The keys are loaded into shared memory.
//   - Each invocation computes a register tile of scores.
//   - An online softmax in powers of two is applied to the scores.
//   - The weights are written to shared memory, while the values replace the keys there.
//   - Each invocation adds to its register tile of the result.
//
// The invocations form a grid of ROW_THREADS rows and 8 columns. An invocation in row y owns the
// queries y, y + ROW_THREADS, and so on. An invocation in column x owns the keys x, x + 8, ... and
// the vec4s x, x + 8, ... of the head. Rows in shared memory are padded by 4 numbers, so that 8
// neighbouring rows start in different banks.
//
// Choice: PREFER is 20. attn_prefill_subgroup has a higher rank for f16 heads of 64 and 128
// numbers. REGISTERS rules this kernel out where it would spill; attn_prefill (10) is used there.
//
// TUNEs: BIG selects larger tiles if there are 40960 bytes of shared memory. ROWS is the number of
// queries that reuse a loaded key, KEYS the number of keys per barrier. Both cost registers and
// shared memory. HEADS_BLOCK is the number of heads that share loaded keys. WG_SIZE is the group
// size.
//
// Utilisation: all invocations are active in loads, scores and softmax. For the values all are
// active with heads of 64, 96, 128 and 256 numbers, and 20 of 24 columns of vec4s with heads of 80.
// A pass of 2 to 16 tokens fills part of ROWS. A group reads each key once, however many of its
// rows are filled. Most of the time of such a pass is spent on reading weights (by reasoning; not
// measured).
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). V3D 4.2 spills 67:65, Mali G52
// 39:437. navi21 with LLVM 15 spilled 62 to 338 registers while the loop over VEC4S was unrolled,
// and none with lib loop_end. REGISTERS selects attn_prefill on V3D and Mali, which spills none.
//
//! NAME attn_prefill_tiled
//! OP attn_prefill
//! VARIANT tiled tiled_large
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
//! TUNE BIG = SHARED_BYTES >= 40960 in 0 1
//! TUNE ROWS = HEAD_DIM <= 64 ? 32 + 32 * BIG : HEAD_DIM <= 128 && BIG ? 32 : 16 in 16 32 64
//! TUNE KEYS = !BIG ? 8 : HEAD_DIM <= 128 ? 32 : 16 in 8 16 32
//! TUNE HEADS_BLOCK = HEADS % (4 * KV_HEADS) == 0 ? 4 : 2 - HEADS / KV_HEADS % 2 in 1 2 4
//! TUNE WG_SIZE = 128 in 64 128 256
//! LET VEC4S = HEAD_DIM / 4
//! LET ROW_THREADS = WG_SIZE / 8
//! LET TILE_STRIDE = VEC4S + 1   // vec4s from row to row of query and tile
//! LET WEIGHT_STRIDE = KEYS + 4
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS ceildiv(T, ROWS / HEADS_BLOCK) * (HEADS / HEADS_BLOCK)
//! ACTIVE T * HEADS * WG_SIZE / ROWS
//! SHARED vec4 query[ROWS * TILE_STRIDE]
//! SHARED vec4 tile[KEYS * TILE_STRIDE] // keys, then values
//! SHARED float weight[ROWS * WEIGHT_STRIDE]
//! SHARED float row_part[ROWS * 8]
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 8 == 0 && QKV_STRIDE % 4 == 0 && O_STRIDE % 4 == 0
//! REQUIRE HEADS % (KV_HEADS * HEADS_BLOCK) == 0 && ROWS % ROW_THREADS == 0
//! REGISTERS 4 * (ROWS / ROW_THREADS) * ceildiv(VEC4S, 8) + 52
//! PREFER SOFTWARE ? 1 : 20
//! TOLERANCE 1e-11
//! LIB kv
//! LIB kv_vec8
//! LIB activations
//! LIB attn_score
//! LIB attn_sinks
//! LIB loop_end

const uint TOKENS = uint(ROWS / HEADS_BLOCK);
const int OWN_ROWS = ROWS / ROW_THREADS;
const int OWN_KEYS = KEYS / 8;
const int OWN_VEC4S = (VEC4S + 7) / 8;

// Loads KEYS rows of the cache from `first` on. `first` is a multiple of KEYS, so these rows are in
// one page. Rows from `end` on are zeros; their weight is zero.
void load_tile(uint tid, kv_rows rows, uint first, uint end)
{
    const uint VEC8S = uint(HEAD_DIM / 8);
    uint page_rows = kv_page_rows(rows, first);
    for (uint n = tid; n < uint(KEYS) * VEC8S; n += uint(WG_SIZE)) {
        uint j = n / VEC8S, i = n % VEC8S;
        vec4 a = vec4(0.0), b = vec4(0.0);
        if (first + j < end)
            kv_load_vec8(kv_page_row(page_rows, first + j), i, a, b);
        tile[j * uint(TILE_STRIDE) + 2u * i] = a;
        tile[j * uint(TILE_STRIDE) + 2u * i + 1u] = b;
    }
}

void body(uvec3 group)
{
    const uint BLOCKS = uint(HEADS / HEADS_BLOCK);
    uint tid = gl_LocalInvocationID.x;
    uint x = tid % 8u, y = tid / 8u;
    uint head0 = group.x % BLOCKS * uint(HEADS_BLOCK);
    uint tiles = (pass_rows + TOKENS - 1u) / TOKENS;
    bool inside = group.x / BLOCKS < tiles;
    uint t0 = inside ? (tiles - 1u - group.x / BLOCKS) * TOKENS : 0u;
    uint seq = row_seq(t0), pos = row_pos(t0); // of the first token
    uint end = inside ? pos + min(TOKENS, pass_rows - t0) : 0u;
    uint kv_head = head0 / uint(HEADS / KV_HEADS);
    kv_rows keys = kv_keys(seq, kv_head), values = kv_values(seq, kv_head);
    float factor = query_scale();

    for (uint n = tid; n < uint(ROWS * VEC4S); n += uint(WG_SIZE)) {
        uint row = n / uint(VEC4S), i = n % uint(VEC4S);
        uint t = min(t0 + row / uint(HEADS_BLOCK), pass_rows - 1u);
        uint head = head0 + row % uint(HEADS_BLOCK);
        uint from = t * uint(QKV_STRIDE / 4) + head * uint(VEC4S) + i;
        query[row * uint(TILE_STRIDE) + i] = QKV[from] * factor;
    }
    vec4 o[OWN_ROWS * OWN_VEC4S];
    float row_max[OWN_ROWS], row_sum[OWN_ROWS];
    for (int r = 0; r < OWN_ROWS; r++) {
        uint row = y + uint(r * ROW_THREADS);
        softmax_begin(head0 + row % uint(HEADS_BLOCK), row_max[r], row_sum[r]);
        row_sum[r] = x == 0u ? row_sum[r] : 0.0; // the sums of the 8 columns are added up
        for (int i = 0; i < OWN_VEC4S; i++)
            o[r * OWN_VEC4S + i] = vec4(0.0);
    }

    uint begin = first_key(pos) / uint(KEYS) * uint(KEYS);
    for (uint first = begin; first < end; first += uint(KEYS)) {
        load_tile(tid, keys, first, end);
        memoryBarrierShared(); barrier();
        float s[OWN_ROWS * OWN_KEYS];
        for (int i = 0; i < OWN_ROWS * OWN_KEYS; i++)
            s[i] = 0.0;
        for (uint i = 0u; i < LOOP_END(uint(VEC4S), pass_rows); i++) {
            vec4 k[OWN_KEYS];
            for (int j = 0; j < OWN_KEYS; j++)
                k[j] = tile[(x + uint(8 * j)) * uint(TILE_STRIDE) + i];
            for (int r = 0; r < OWN_ROWS; r++) {
                vec4 q = query[(y + uint(r * ROW_THREADS)) * uint(TILE_STRIDE) + i];
                for (int j = 0; j < OWN_KEYS; j++)
                    s[r * OWN_KEYS + j] += dot(q, k[j]);
            }
        }
        for (int r = 0; r < OWN_ROWS; r++) {
            uint row = y + uint(r * ROW_THREADS);
            uint last = pos + row / uint(HEADS_BLOCK);
            float part = NO_SCORE;
            for (int j = 0; j < OWN_KEYS; j++) {
                uint key = first + x + uint(8 * j);
                bool seen = key <= last && key >= first_key(last);
                s[r * OWN_KEYS + j] = seen ? score_of(s[r * OWN_KEYS + j]) : NO_SCORE;
                part = max(part, s[r * OWN_KEYS + j]);
            }
            row_part[row * 8u + x] = part;
        }
        memoryBarrierShared(); barrier();
        load_tile(tid, values, first, end);
        for (int r = 0; r < OWN_ROWS; r++) {
            uint row = y + uint(r * ROW_THREADS);
            float new_max = row_max[r];
            for (uint e = 0u; e < 8u; e++)
                new_max = max(new_max, row_part[row * 8u + e]);
            float rescale = exp2(row_max[r] - new_max);
            row_max[r] = new_max;
            row_sum[r] *= rescale;
            for (int i = 0; i < OWN_VEC4S; i++)
                o[r * OWN_VEC4S + i] *= rescale;
            for (int j = 0; j < OWN_KEYS; j++) {
                // While a row has seen no key, new_max is NO_SCORE and this weight is 1. The first
                // real score makes `rescale` 0.
                float p = exp2(s[r * OWN_KEYS + j] - new_max);
                weight[row * uint(WEIGHT_STRIDE) + x + uint(8 * j)] = p;
                row_sum[r] += p;
            }
        }
        memoryBarrierShared(); barrier();
        for (uint j = 0u; j < uint(KEYS); j++) {
            vec4 v[OWN_VEC4S];
            for (int i = 0; i < OWN_VEC4S; i++)
                v[i] = tile[j * uint(TILE_STRIDE) + min(x + uint(8 * i), uint(VEC4S - 1))];
            for (int r = 0; r < OWN_ROWS; r++) {
                float p = weight[(y + uint(r * ROW_THREADS)) * uint(WEIGHT_STRIDE) + j];
                for (int i = 0; i < OWN_VEC4S; i++)
                    o[r * OWN_VEC4S + i] += p * v[i];
            }
        }
        memoryBarrierShared(); barrier();
    }

    for (int r = 0; r < OWN_ROWS; r++)
        row_part[(y + uint(r * ROW_THREADS)) * 8u + x] = row_sum[r];
    memoryBarrierShared(); barrier();
    for (int r = 0; r < OWN_ROWS; r++) {
        uint row = y + uint(r * ROW_THREADS);
        uint t = t0 + row / uint(HEADS_BLOCK), head = head0 + row % uint(HEADS_BLOCK);
        float sum = 0.0;
        for (uint e = 0u; e < 8u; e++)
            sum += row_part[row * 8u + e];
        for (int i = 0; i < OWN_VEC4S; i++) {
            uint column = x + uint(8 * i);
            uint to = t * uint(O_STRIDE / 4) + head * uint(VEC4S) + column;
            if (inside && t < pass_rows && column < uint(VEC4S))
                O[to] = o[r * OWN_VEC4S + i] / sum;
        }
    }
}
