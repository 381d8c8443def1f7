// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
// Needs lib uint64.
uvec4 philox(uvec4 counter, uvec2 key)
{
    for (int i = 0; i < 10; i++) {
        uvec2 a = u64_mul(0xd2511f53u, counter.x);
        uvec2 b = u64_mul(0xcd9e8d57u, counter.z);
        counter = uvec4(b.y ^ counter.y ^ key.x, b.x, a.y ^ counter.w ^ key.y, a.x);
        key += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return counter;
}

// The 64 random bits of one draw.
uvec2 draw_bits(uint draws, uint seed_lo, uint seed_hi)
{
    return philox(uvec4(draws, 0u, 0u, 0u), uvec2(seed_lo, seed_hi)).yx;
}
