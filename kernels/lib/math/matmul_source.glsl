// Prologue of a matrix-vector product: elements of x times the norm's weight (docs/operations.md,
// pre).
//
// They are read from `vec4 X[]` and `vec4 A[]`. The norm's factor is applied later. Needs STEP read
// and the constants X_STRIDE and X_LAST.

// Returns elements 4 i .. 4 i + 3, with i below K / 4. Adds their squares to `squares` for
// pre=norm.
vec4 source(uint i, inout float squares)
{
#if X_LAST
    vec4 x = X[(pass_rows - 1u) * uint(X_STRIDE / 4) + i];
#else
    vec4 x = X[i];
#endif
#if PRE_norm
    squares += dot(x, x);
    x *= A[i];
#endif
    return x;
}
