// Weights at the requested temperature, after top-p and min-p.
//
// Needs libs uint64, sample and nucleus, and the step state.

// The weight of a token with this exponent, or 0 if min-p removes the token.
uvec2 min_p_weight(uint exponent)
{
    uvec2 weight = sample_weight(exponent);
    if (u64_less(weight, sample_min_weight(step_min_p_q)))
        return uvec2(0u);
    return sample_weight(sample_tempered(exponent, floatBitsToUint(step_inv_temp)));
}

// Like min_p_weight(), but also 0 for tokens on the edge of top-p or beyond it. The number of
// tokens on the edge that remain is found later.
uvec2 top_p_weight(uint exponent, uint edge)
{
    return exponent < edge ? min_p_weight(exponent) : uvec2(0u);
}
