// What a decode product multiplies its weights with: four neighbouring elements of x before the
// norm's scale, from `vec4 X[]` and `vec4 A[]` (docs/operations.md, pre). Needs the constants K,
// X_STRIDE, X_LAST, SPLITS and HEAD_DIM.

#if PRE_merge
// (maximum score, sum of weights) of split e of all heads' splits.
vec2 source_split(uint e)
{
    vec4 two = A[uint(K * SPLITS / 4) + e / 2u];
    return (e & 1u) == 0u ? two.xy : two.zw;
}
#endif

// Elements 4 i .. 4 i + 3, i below K / 4; adds their squares to `squares` for pre=norm.
vec4 source(uint i, inout float squares)
{
#if PRE_merge
    uint head = i / uint(HEAD_DIM / 4), e = head * uint(SPLITS);
    float top = -1e30, weight = 0.0;
    for (uint s = 0u; s < uint(SPLITS); s++)
        top = max(top, source_split(e + s).x);
    vec4 sum = vec4(0.0);
    for (uint s = 0u; s < uint(SPLITS); s++) {
        vec2 split = source_split(e + s);
        float scale = exp(split.x - top);
        weight += split.y * scale;
        sum += X[(e + s) * uint(HEAD_DIM / 4) + i % uint(HEAD_DIM / 4)] * scale;
    }
    return sum / weight;
#else
#if X_LAST
    vec4 x = X[(step_tokens - 1u) * uint(X_STRIDE / 4) + i];
#else
    vec4 x = X[i];
#endif
#if PRE_norm
    squares += dot(x, x);
    x *= A[i];
#endif
    return x;
#endif
}
