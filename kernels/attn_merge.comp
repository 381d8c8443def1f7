// O = the attention output of one token, put together from the SPLITS parts of attn_decode.
//
// o[h] = sum_s w_s P.o[h][s] / sum_s w_s sum[h][s], w_s = exp(max[h][s] - max over s). One work
// group per head, four values per lane. Alone in a dispatch because every group of the O projection
// would otherwise do all of it again: on an H200 with 16 splits of 32 heads that took the
// projection of Llama-3.2-1B from about 15 to 43 us per layer (dopplergl bench --shape
// llama-3.2-1b:q4_k --profile, driver 580, 2026-11-21), a dispatch with its barrier takes 4.
//
//! NAME attn_merge
//! OP attn_merge
//! VARIANT baseline
//! BIND read vec4 P
//! BIND write vec4 O
//! CONST HEADS HEAD_DIM SPLITS
//! LOCAL min(32, HEAD_DIM / 4)
//! GROUPS HEADS
//! REQUIRE HEAD_DIM % 4 == 0
//! TOLERANCE 1e-12

// (maximum score, sum of weights) of split e of all heads' splits.
vec2 split_ml(uint e)
{
    vec4 two = P[uint(HEADS * SPLITS * HEAD_DIM / 4) + e / 2u];
    return (e & 1u) == 0u ? two.xy : two.zw;
}

void body(uvec3 group)
{
    if (group.x >= uint(HEADS))
        return;
    const uint QUADS = uint(HEAD_DIM / 4);
    uint first = group.x * uint(SPLITS);
    float top = -1e30, weight = 0.0;
    for (uint s = 0u; s < uint(SPLITS); s++)
        top = max(top, split_ml(first + s).x);
    for (uint i = gl_LocalInvocationID.x; i < QUADS; i += uint(LOCAL_X)) {
        vec4 sum = vec4(0.0);
        weight = 0.0;
        for (uint s = 0u; s < uint(SPLITS); s++) {
            vec2 ml = split_ml(first + s);
            float scale = exp(ml.x - top);
            weight += ml.y * scale;
            // An empty split has scale and weight 0 and may hold anything.
            if (ml.y > 0.0)
                sum += P[(first + s) * QUADS + i] * scale;
        }
        O[group.x * QUADS + i] = sum / weight;
    }
}
