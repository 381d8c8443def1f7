// Which keys a query sees and what its scores are (docs/operations.md, attn_prefill). Needs lib
// activations, the parameters scale and softcap, the constants WINDOW and SOFTCAP. Scores are in
// powers of two, so that weights are exp2().

// The first key that the query at position `at` sees; the last is `at`.
uint first_key(uint at)
{
#if WINDOW > 0
    return max(at, uint(WINDOW - 1)) - uint(WINDOW - 1);
#else
    return 0u;
#endif
}

// What a query is multiplied by, and what then becomes of its product with a key.
float query_scale()
{
#if SOFTCAP
    return scale;
#else
    return scale * 1.44269504;
#endif
}

float score_of(float product)
{
#if SOFTCAP
    return smooth_cap(product, softcap) * 1.44269504;
#else
    return product;
#endif
}
