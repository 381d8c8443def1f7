// Weights at the requested temperature, after top-p and min-p.
//
// Needs libs uint64, sample and nucleus, and the step state.

// Of a token with this exponent; 0 when min-p drops it.
uvec2 min_p_weight(uint exponent)
{
    uvec2 weight = sample_weight(exponent);
    if (u64_less(weight, sample_min_weight(step_min_p_q)))
        return uvec2(0u);
    return sample_weight(sample_tempered(exponent, floatBitsToUint(step_inv_temp)));
}

// As min_p_weight(), and 0 for tokens on the edge of top-p or beyond it: how many of those on the
// edge stay is known only later.
uvec2 top_p_weight(uint exponent, uint edge)
{
    return exponent < edge ? min_p_weight(exponent) : uvec2(0u);
}
