// The results of HEADS_BLOCK heads by one work group: their sums, and the group's part.
//
// Each invocation has a vec4 of the head and every VALUE_KEYS-th key. Needs libs attn_share and
// attn_part, STEP read, the constants WG_SIZE and VEC4S.
//! LIB loop_end
//! SHARED vec4 out_part[WG_SIZE]
//! SHARED float sum_part[WG_SIZE]

const uint VALUE_KEYS = uint(WG_SIZE / VEC4S); // at once

// Adds up the results of all invocations, and stores the group's part. For each head, `o` has the
// weights times values and `row_sum` the sum of weights of this invocation. `row_max` is the
// maximum that all invocations share.
void write_columns(uint tid, attn_share share, vec4 o[HEADS_BLOCK], float row_max[HEADS_BLOCK],
                   float row_sum[HEADS_BLOCK])
{
    for (int h = 0; h < HEADS_BLOCK; h++) {
        out_part[tid] = o[h];
        sum_part[tid] = row_sum[h];
        memoryBarrierShared(); barrier();
        uint head = share.head0 + uint(h);
        if (share.inside && tid < uint(VEC4S) && head < (share.kv_head + 1u) * GQA_GROUP) {
            vec4 x = o[h];
            float sum = row_sum[h];
            for (uint e = 1u; e < LOOP_END(VALUE_KEYS, pass_rows); e++) {
                x += out_part[e * uint(VEC4S) + tid];
                sum += sum_part[e * uint(VEC4S) + tid];
            }
            write_part(share.row, head, share.split, tid, x, row_max[h], sum);
        }
        memoryBarrierShared(); barrier();
    }
}
