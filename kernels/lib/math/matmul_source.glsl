// What a decode product multiplies its weights with: four neighbouring elements of x before the
// norm's scale, from `vec4 X[]` and `vec4 A[]` (docs/operations.md, pre). Needs the constants
// X_STRIDE and X_LAST.

// Elements 4 i .. 4 i + 3, i below K / 4; adds their squares to `squares` for pre=norm.
vec4 source(uint i, inout float squares)
{
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
}
