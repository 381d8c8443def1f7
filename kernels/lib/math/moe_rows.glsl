// Rows of one expert within the band of a dispatch, and their biases (docs/operations.md,
// moe_matmul).
//
// Needs W, the parameters row0 and rows, the constants EXPERT_ROWS and W_STRIDE, and W_WIDTH, the
// number of words of an element of W.

// Returns the row of the band that is row r of an expert. The result is `rows` or more if another
// band has that row, or if the expert has no such row.
uint band_row(uint expert, uint r)
{
    return r < uint(EXPERT_ROWS) ? expert * uint(EXPERT_ROWS) + r - row0 : rows;
}

// Returns the bias of row `row` of the band. It is 0 if there is no bias, and for rows of other
// bands.
float band_bias(uint row)
{
#if BIAS_row
    uint i = rows * uint(W_STRIDE) + row;
#if W_WIDTH == 4
    // W[i / 4u][i % 4u] makes NVIDIA's compiler copy the four words to memory.
    uvec4 four = W[row < rows ? i / 4u : 0u];
    uvec2 two = (i & 2u) == 0u ? four.xy : four.zw;
    return row < rows ? uintBitsToFloat((i & 1u) == 0u ? two.x : two.y) : 0.0;
#else
    return row < rows ? uintBitsToFloat(W[i]) : 0.0;
#endif
#else
    return 0.0;
#endif
}
