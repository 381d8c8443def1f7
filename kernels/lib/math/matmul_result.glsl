// Epilogue of a product: bias, scale, activation, softcap (docs/operations.md, matmul).
//
// Needs lib activations, `vec4 A[]`, the parameters out_scale and softcap, and the constants
// BIAS_AT and SCALED. `row` counts from the first row of all bands.

// Loads the biases of a row and its neighbours for biased_by(). Selecting one of them here would
// wait for the load.
vec4 bias_fetch(uint row)
{
#if BIAS_row
    return A[(uint(BIAS_AT) + row) / 4u];
#else
    return vec4(0.0);
#endif
}

float biased_by(float y, uint row, vec4 four)
{
#if BIAS_row
    uint i = uint(BIAS_AT) + row;
    // four[i % 4u] makes NVIDIA's compiler copy the four values to memory.
    vec2 two = (i & 2u) == 0u ? four.xy : four.zw;
    return y + ((i & 1u) == 0u ? two.x : two.y);
#else
    return y;
#endif
}

float biased(float y, uint row)
{
    return biased_by(y, row, bias_fetch(row));
}

// post=store, add, softcap
float result_by(float y, uint row, vec4 four)
{
    y = biased_by(y, row, four);
#if SCALED
    y *= out_scale;
#endif
#if POST_softcap
    y = smooth_cap(y, softcap);
#endif
    return y;
}

float result(float y, uint row)
{
    return result_by(y, row, bias_fetch(row));
}

// post=glu: the gate is row `row`, and up is the next row.
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
