// Weighted sum of the results of a token's experts, added to the residual stream in ROUTE's order.
//
// X[t, i] += scale * sum_s weight[t, s] Y[t * TOP_K + s, i]. Y has one row of H numbers per pair of
// a token and a chosen expert, X is the residual stream, and weight comes from ROUTE; all are f32.
//
// Layout: an invocation computes four neighbouring features of a token. Work group x covers the
// features, y is the token.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size.
//
//! NAME moe_combine
//! OP moe_combine
//! VARIANT baseline
//! BIND read vec4 Y
//! BIND read uvec2 ROUTE
//! BIND readwrite vec4 X
//! PARAM float scale
//! CONST H TOP_K X_STRIDE Y_STRIDE
//! TUNE WG_SIZE = SOFTWARE ? 32 : 128 in 32 64 128
//! LOCAL WG_SIZE
//! GROUPS ceildiv(H / 4, WG_SIZE) T
//! ACTIVE T * (H / 4)
//! REQUIRE H % 4 == 0
//! PREFER 10
//! STEP read

void body(uvec3 group)
{
    uint i = group.x * uint(WG_SIZE) + gl_LocalInvocationID.x, t = group.y;
    if (i < uint(H / 4) && t < pass_rows) {
        vec4 sum = vec4(0.0);
        for (uint p = t * uint(TOP_K); p < (t + 1u) * uint(TOP_K); p++)
            sum += uintBitsToFloat(ROUTE[p].y) * Y[p * uint(Y_STRIDE / 4) + i];
        X[t * uint(X_STRIDE / 4) + i] += scale * sum;
    }
}
