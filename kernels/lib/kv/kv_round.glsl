// Rounding to the type of the KV cache: f16 to nearest even, f32 as it is. Needs lib half.

// The numbers that the cache will give back for x.
vec4 kv_round(vec4 x)
{
#if KV_f16
    return vec4(half_unpack(half_pack(x.xy)), half_unpack(half_pack(x.zw)));
#else
    return x;
#endif
}
