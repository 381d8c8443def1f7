// Activation of one feature from its gate and up: act of docs/operations.md, moe_matmul. Needs WHEN
// act with these words, the parameters act_alpha and act_limit.

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
