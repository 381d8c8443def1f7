// What top-p and min-p leave of a slice, and its mass at the wanted temperature. Needs libs
// fixed, sample and nucleus, and the step state.

// Weight at the wanted temperature of a token with this exponent; 0 when min-p drops it.
uvec2 kept_weight(uint exponent)
{
    uvec2 weight = sample_weight(exponent);
    if (u64_less(weight, sample_min_weight(step_min_p_q)))
        return uvec2(0u);
    return sample_weight(sample_tempered(exponent, floatBitsToUint(step_inv_temp)));
}

// The same, 0 too for tokens on the edge of top-p or beyond: how many of those on it stay is known
// only later.
uvec2 kept_before(uint exponent, uint edge)
{
    return exponent < edge ? kept_weight(exponent) : uvec2(0u);
}
