// Epilogue of a product: bias, scale, activation, softcap (docs/operations.md, matmul). Needs lib
// activations, `vec4 A[]`, the parameters out_scale and softcap, the constants BIAS_AT and SCALED.
// `row` counts from the first row of all bands.

float biased(float y, uint row)
{
#if BIAS_row
    uint i = uint(BIAS_AT) + row;
    // A[i / 4u][i % 4u] makes NVIDIA's compiler copy the four values to memory.
    vec4 four = A[i / 4u];
    vec2 two = (i & 2u) == 0u ? four.xy : four.zw;
    return y + ((i & 1u) == 0u ? two.x : two.y);
#else
    return y;
#endif
}

// post=store, add, softcap
float result(float y, uint row)
{
    y = biased(y, row);
#if SCALED
    y *= out_scale;
#endif
#if POST_softcap
    y = smooth_cap(y, softcap);
#endif
    return y;
}

// post=glu; the gate is row `row`, up the next.
float glu(float gate, float up, uint row)
{
    gate = biased(gate, row);
    up = biased(up, row + 1u);
#if ACT_gelu
    return smooth_gelu(gate) * up;
#else
    return gate / (1.0 + exp(-gate)) * up;
#endif
}
