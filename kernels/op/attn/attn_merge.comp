// O = the attention output of one token, put together from the SPLITS parts of attn_decode.
//
// O.h = sum_s w_s P.o[h][s] / sum_s w_s sum[h][s] with w_s = exp(max[h][s] - max over s). For each
// row of the pass, P has first HEADS * SPLITS weighted sums o of HEAD_DIM values. As many pairs
// (max, sum) follow: the maximum score and the sum of the weights. O is [T][HEADS * HEAD_DIM] f32.
// With sinks=head, S has one more logit per head.
//
// Layout: work group x is a head, y a row of the pass. First, the invocations load the maximum and
// the sum of each split into shared memory. Every invocation computes the weights from them. Then
// SPLIT_THREADS sets of HEAD_DIM / 4 invocations each add up splits: set n adds every
// SPLIT_THREADS-th split from n on. All their loads are independent. The other invocations are
// idle: persistent programs have groups of a power of two, and heads of 96 numbers do not fill such
// a group.
//
// Choice: it is the only kernel of this operation. The merge is a dispatch of its own, because
// every group of the O projection would otherwise repeat it. Merging in the O projection raised its
// time for Llama-3.2-1B from about 15 to 43 us per layer, on an H200 with 16 splits of 32 heads
// (dopplergl bench --shape llama-3.2-1b:q4_k --profile, driver 580, 2026-11-21).
//
// TUNEs: SPLIT_THREADS is MOST for heads of up to 128 numbers, and LEAST for larger ones. A larger
// SPLIT_THREADS reads more parts at once, but needs more invocations and shared memory. MANY is set
// if more than 128 invocations have a part; WG_SIZE is then 512.
//
// Utilisation: if SPLITS is below SPLIT_THREADS, some sets have no split. The dispatch itself costs
// more than these invocations.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). navi31 with LLVM 15 spills 5 to
// 16 registers for heads of 256 numbers and 32 splits if SPLIT_THREADS is 1 or 2, and none if it is
// 8.
//
//! NAME attn_merge
//! OP attn_merge
//! VARIANT baseline
//! BIND read vec4 P
//! WHEN sinks none head
//! BIND write vec4 O
//! BIND read float S
//! CONST HEADS HEAD_DIM SPLITS
//! TUNE MOST = SOFTWARE ? 1 : HEAD_DIM > 64 ? 4 : 8 in 1 4 8
//! TUNE LEAST = SUBGROUP_SIZE == 64 && REGISTERS < 88 && HEAD_DIM <= 256 ? 8 : 1 in 1 8
//! TUNE SPLIT_THREADS = HEAD_DIM > 128 ? LEAST : MOST in 1 2 4 8 16 32
//! TUNE MANY = SPLIT_THREADS * HEAD_DIM > 512 in 0 1 // invocations
//! TUNE WG_SIZE = MANY ? 512 : SOFTWARE && HEAD_DIM < 257 ? 64 : 128 in 64 128 256 512
//! LET VEC4S = HEAD_DIM / 4
//! LET SETS = SPLIT_THREADS * VEC4S // invocations with a part
//! LOCAL WG_SIZE
//! GROUPS HEADS T
//! ACTIVE T * HEADS * VEC4S * min(SPLIT_THREADS, SPLITS)
//! SHARED vec4 part[SETS]
//! SHARED vec2 max_sum[SPLITS]
//! REQUIRE HEAD_DIM % 4 == 0 && SETS <= WG_SIZE
//! TOLERANCE 1e-12

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    const uint PART_ROW = uint(HEADS * SPLITS * (HEAD_DIM + 2) + 3) / 4u; // vec4s
    uint head = min(group.x, uint(HEADS - 1)), first = head * uint(SPLITS);
    uint part0 = group.y * PART_ROW;
    for (uint s = tid; s < uint(SPLITS); s += uint(WG_SIZE)) {
        vec4 two = P[part0 + uint(HEADS * SPLITS * VEC4S) + (first + s) / 2u];
        max_sum[s] = ((first + s) & 1u) == 0u ? two.xy : two.zw;
    }
    memoryBarrierShared(); barrier();
#if SINKS_head
    float all_max = S[head];
#else
    float all_max = -1e30;
#endif
    for (uint s = 0u; s < uint(SPLITS); s++)
        all_max = max(all_max, max_sum[s].x);
#if SINKS_head
    float sum = exp(S[head] - all_max);
#else
    float sum = 0.0;
#endif
    for (uint s = 0u; s < uint(SPLITS); s++)
        sum += max_sum[s].y * exp(max_sum[s].x - all_max);
    uint i = tid % uint(VEC4S);
    vec4 x = vec4(0.0);
    // The loop runs equally often in every invocation: see "Loops" of docs/kernels.md.
    for (uint s0 = 0u; s0 < uint(SPLITS); s0 += uint(SPLIT_THREADS)) {
        uint s = s0 + tid / uint(VEC4S);
        if ((SPLITS % SPLIT_THREADS == 0 || s < uint(SPLITS)) && tid < uint(SETS)) {
            // An empty split has sum 0, and its values are undefined.
            vec4 value = P[part0 + (first + s) * uint(VEC4S) + i];
            x += max_sum[s].y > 0.0 ? value * exp(max_sum[s].x - all_max) : vec4(0.0);
        }
    }
    if (tid < uint(SETS))
        part[tid] = x;
    memoryBarrierShared(); barrier();
    if (tid < uint(VEC4S) && group.x < uint(HEADS)) {
        for (uint e = 1u; e < uint(SPLIT_THREADS); e++)
            x += part[e * uint(VEC4S) + tid];
        O[(group.y * uint(HEADS) + head) * uint(VEC4S) + tid] = x / sum;
    }
}
