// The range of keys that a query sees, and its scores (docs/operations.md, attn_prefill).
//
// Scores are in powers of two: weights are exp2() of them. Needs lib activations, the parameters
// scale and softcap, the constants WINDOW and SOFTCAP.

const float LOG2_E = 1.44269504, LN_2 = 0.69314718;
const float NO_SCORE = -1e30; // of a key that is not seen; a maximum over no key

// The first key that the query at a position sees. The last one is the key of that position.
uint first_key(uint pos)
{
#if WINDOW > 0
    return max(pos, uint(WINDOW - 1)) - uint(WINDOW - 1);
#else
    return 0u;
#endif
}

// The factor of queries: the product of a scaled query with a key is then its score.
float query_scale()
{
#if SOFTCAP
    return scale;
#else
    return scale * LOG2_E;
#endif
}

float score_of(float product)
{
#if SOFTCAP
    return smooth_cap(product, softcap) * LOG2_E;
#else
    return product;
#endif
}
