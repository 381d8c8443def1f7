// Rounds numbers to the type of the KV cache: f16 to nearest even, f32 unchanged. Needs lib half.

// Four numbers in the type of the cache.
#if KV_K_f16
#define kv_words uvec2
#else
#define kv_words uvec4
#endif

kv_words kv_pack(vec4 x)
{
#if KV_K_f16
    return uvec2(half_pack(x.xy), half_pack(x.zw));
#else
    return floatBitsToUint(x);
#endif
}

vec4 kv_unpack(kv_words words)
{
#if KV_K_f16
    return vec4(half_unpack(words.x), half_unpack(words.y));
#else
    return uintBitsToFloat(words);
#endif
}

// The numbers that a read of the cache returns after x was stored.
vec4 kv_round(vec4 x)
{
    return kv_unpack(kv_pack(x));
}
