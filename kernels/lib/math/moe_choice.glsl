// The chosen experts of one token, from `uvec2 ROUTE[]` (docs/operations.md, moe_route).
//
// choose(s) selects one choice, and choice_x() reads its x. add_biases() adds the biases of all
// choices. Needs lib moe_rows, `vec4 X[]`, the parameter scale, the constants TOP_K and X_STRIDE.
uint choice_expert;
uint choice_row;     // vec4 of X at which the choice's x starts
float choice_weight; // factor of this x

void choose(uint s)
{
    choice_expert = ROUTE[s].x;
#if POST_combine
    choice_row = s * uint(X_STRIDE / 4);
    choice_weight = scale * uintBitsToFloat(ROUTE[s].y);
#else
    choice_row = 0u;
    choice_weight = 1.0;
#endif
}

// Returns elements 4 i .. 4 i + 3 of the choice's x.
vec4 choice_x(uint i)
{
    return choice_weight * X[choice_row + i];
}

// post=combine: returns y plus the weighted biases of row r of every chosen expert.
float add_biases(float y, uint r)
{
#if BIAS_row
    for (uint s = 0u; s < uint(TOP_K); s++)
        y += scale * uintBitsToFloat(ROUTE[s].y) * band_bias(band_row(ROUTE[s].x, r));
#endif
    return y;
}
