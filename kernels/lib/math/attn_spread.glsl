// Sums of DEPTH numbers (4 or 8) over the KEY_THREADS invocations of a key, spread over them.
//
// Each invocation gets the sum of one number: invocation i of a key has that of number i /
// (KEY_THREADS / DEPTH). This needs fewer shuffles than summing one number after the other. Needs
// subgroup shuffles.

// Sums several numbers with fewer shuffles than one number after the other needs.
float spread_sums(uint i8, float s[DEPTH])
{
    const uint HALF = uint(KEY_THREADS / 2), QUARTER = uint(KEY_THREADS / 4);
    bool upper = (i8 & HALF) != 0u, odd = (i8 & QUARTER) != 0u;
#if DEPTH == 8
    const uint EIGHTH = uint(KEY_THREADS / 8);
    bool last = (i8 & EIGHTH) != 0u;
    float a = (upper ? s[4] : s[0]) + subgroupShuffleXor(upper ? s[0] : s[4], HALF);
    float b = (upper ? s[5] : s[1]) + subgroupShuffleXor(upper ? s[1] : s[5], HALF);
    float c = (upper ? s[6] : s[2]) + subgroupShuffleXor(upper ? s[2] : s[6], HALF);
    float d = (upper ? s[7] : s[3]) + subgroupShuffleXor(upper ? s[3] : s[7], HALF);
    float x = (odd ? c : a) + subgroupShuffleXor(odd ? a : c, QUARTER);
    float y = (odd ? d : b) + subgroupShuffleXor(odd ? b : d, QUARTER);
    x = (last ? y : x) + subgroupShuffleXor(last ? x : y, EIGHTH);
#else
    float x = (upper ? s[2] : s[0]) + subgroupShuffleXor(upper ? s[0] : s[2], HALF);
    float y = (upper ? s[3] : s[1]) + subgroupShuffleXor(upper ? s[1] : s[3], HALF);
    x = (odd ? y : x) + subgroupShuffleXor(odd ? x : y, QUARTER);
#endif
    for (uint mask = uint(KEY_THREADS / DEPTH / 2); mask > 0u; mask /= 2u)
        x += subgroupShuffleXor(x, mask);
    return x;
}

// The maximum or the sum of the DEPTH numbers of a key's invocations.
float spread_max(float x)
{
    for (uint mask = uint(KEY_THREADS / 2); mask >= uint(KEY_THREADS / DEPTH); mask /= 2u)
        x = max(x, subgroupShuffleXor(x, mask));
    return x;
}

float spread_sum(float x)
{
    for (uint mask = uint(KEY_THREADS / 2); mask >= uint(KEY_THREADS / DEPTH); mask /= 2u)
        x += subgroupShuffleXor(x, mask);
    return x;
}

float key_sum(float x)
{
    for (uint mask = uint(KEY_THREADS / 2); mask > 0u; mask /= 2u)
        x += subgroupShuffleXor(x, mask);
    return x;
}
