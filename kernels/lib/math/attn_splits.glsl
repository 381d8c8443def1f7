// Parts of the attention of one token, one for each split of the keys, and their merge.
//
// The group that arrives last merges the parts. Needs libs attn_score and attn_share, `coherent
// vec4 PARTS[]`, `vec4 O[]`, `float S[]`, WHEN sinks none head, the LET TAKEN (the largest number
// of splits), shared out_part of OUTS * SLICES elements and max_sum of HEADS_BLOCK * SLICES. With
// sinks all invocations call sink_begin() first.

// Loads the sink of the head of which the invocation writes a part, long before it is needed.
#if SINKS_head
float own_sink;
void sink_begin(uint tid, attn_share share)
{
    uint r = min(tid % uint(OUTS) / uint(VEC4S), uint(HEADS_BLOCK - 1));
    own_sink = S[min(share.head0 + r, uint(HEADS - 1))];
}
#endif

// Stores vec4 i of the output of head r of the block. `x` is the weighted sum of the values,
// `row_sum` the sum of the weights, and `row_max` the largest score.
void write_head(uint r, uint i, attn_share share, vec4 x, float row_max, float row_sum)
{
    uint head = share.head0 + r;
    if (head >= (share.kv_head + 1u) * GQA_GROUP)
        return;
#if SINKS_head
    float sink = (OUTS <= WG_SIZE ? own_sink : S[head]) * LOG2_E, all_max = max(row_max, sink);
    float rescale = exp2(row_max - all_max);
    x *= rescale;
    row_sum = row_sum * rescale + exp2(sink - all_max);
#endif
    O[(share.row * uint(HEADS) + head) * uint(VEC4S) + i] = x / row_sum;
}

// For each row of the pass, PARTS has a sum per head, split and vec4 of the head. Then it has a
// maximum and a weight per head and split, two of these pairs in a vec4.
#if TAKEN > 1
const uint PART_ROW = uint(HEADS * SPLITS * (HEAD_DIM + 2) + 3) / 4u; // vec4s

void write_part(uint r, uint i, attn_share share, vec4 x, float row_max, float row_sum)
{
    uint head = share.head0 + r, part = head * uint(SPLITS) + share.split;
    uint row0 = share.row * PART_ROW, to = row0 + uint(HEADS * SPLITS * VEC4S) + part / 2u;
    if (head >= (share.kv_head + 1u) * GQA_GROUP)
        return;
    PARTS[row0 + part * uint(VEC4S) + i] = x;
    if (i == 0u && (part & 1u) == 0u)
        PARTS[to].xy = vec2(row_max, row_sum);
    else if (i == 0u)
        PARTS[to].zw = vec2(row_max, row_sum);
}

// Merges all splits of the block: SLICES sets of invocations add up every SLICES-th split.
void merge_splits(uint tid, attn_share share)
{
    uint row0 = share.row * PART_ROW;
    for (uint n = tid; n < uint(OUTS * SLICES); n += uint(WG_SIZE)) {
        uint slice = n / uint(OUTS), r = n % uint(OUTS) / uint(VEC4S), i = n % uint(VEC4S);
        uint first = min(share.head0 + r, uint(HEADS - 1)) * uint(SPLITS);
        vec4 sum = vec4(0.0);
        float all_max = NO_SCORE, weight = 0.0;
        for (uint s = slice; s < share.splits; s += uint(AT_ONCE * SLICES)) {
            vec4 x[AT_ONCE];
            vec2 ms[AT_ONCE];
            for (int e = 0; e < AT_ONCE; e++) {
                uint split = s + uint(e * SLICES), part = first + min(split, share.splits - 1u);
                vec4 two = PARTS[row0 + uint(HEADS * SPLITS * VEC4S) + part / 2u];
                x[e] = PARTS[row0 + part * uint(VEC4S) + i];
                ms[e] = (part & 1u) == 0u ? two.xy : two.zw;
                ms[e] = split < share.splits ? ms[e] : vec2(NO_SCORE, 0.0);
            }
            float new_max = all_max;
            for (int e = 0; e < AT_ONCE; e++)
                new_max = max(new_max, ms[e].x);
            float rescale = exp2(all_max - new_max);
            all_max = new_max;
            sum *= rescale;
            weight *= rescale;
            for (int e = 0; e < AT_ONCE; e++) {
                float w = ms[e].y > 0.0 ? exp2(ms[e].x - all_max) : 0.0;
                sum += w * x[e];
                weight += w * ms[e].y;
            }
        }
        out_part[n] = sum;
        if (i == 0u)
            max_sum[slice * uint(HEADS_BLOCK) + r] = vec2(all_max, weight);
    }
    memoryBarrierShared(); barrier();
    for (uint n = tid; n < uint(OUTS); n += uint(WG_SIZE)) {
        vec4 x = vec4(0.0);
        float top = NO_SCORE, weight = 0.0;
        for (uint e = 0u; e < uint(SLICES); e++)
            top = max(top, max_sum[e * uint(HEADS_BLOCK) + n / uint(VEC4S)].x);
        for (uint e = 0u; e < uint(SLICES); e++) {
            vec2 ms = max_sum[e * uint(HEADS_BLOCK) + n / uint(VEC4S)];
            float w = ms.y > 0.0 ? exp2(ms.x - top) : 0.0;
            x += w * out_part[e * uint(OUTS) + n];
            weight += w * ms.y;
        }
        write_head(n / uint(VEC4S), n % uint(VEC4S), share, x, top, weight);
    }
}
#endif
