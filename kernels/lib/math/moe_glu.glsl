// Activation of one feature from its gate and up values: `act` of moe_matmul in docs/operations.md.
//
// Needs WHEN act with the words of that page, the parameters act_alpha and act_limit.

float glu(float gate, float up)
{
#if ACT_swiglu_clamp
    gate = min(gate, act_limit);
    up = clamp(up, -act_limit, act_limit);
    return gate / (1.0 + exp(-act_alpha * gate)) * (up + 1.0);
#else
    return gate / (1.0 + exp(-gate)) * up;
#endif
}
