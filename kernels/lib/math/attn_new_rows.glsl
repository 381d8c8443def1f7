// Data of the new token that a work group needs, in shared memory.
//
// These are the queries of its heads, rotated and scaled, and the new key and value with the bits
// that the cache has. Needs libs kv_round, rope, rope_items, rope_items_vec2, attn_score and
// attn_share, the constants WG_SIZE and VEC4S.
//
//! SHARED vec2 new_rows[(HEADS_BLOCK + 2) * HEAD_DIM / 2] // q of each head, k, v

const uint NEW_KEY = uint(HEADS_BLOCK), NEW_VALUE = NEW_KEY + 1u; // rows of new_rows

void load_new_rows(uint tid, attn_share share)
{
    for (uint n = tid; n < uint((HEADS_BLOCK + 2) * VEC4S); n += uint(WG_SIZE)) {
        uint r = n / uint(VEC4S), i = n % uint(VEC4S);
        uint head = uint(HEADS) + share.kv_head + (r - NEW_KEY) * uint(KV_HEADS);
        if (r < NEW_KEY)
            head = min(share.head0 + r, uint(HEADS - 1));
        rope_item item = rope_item_at(i);
        vec4 x = rope_item_load(share.row * uint(QKV_STRIDE) + head * uint(HEAD_DIM), item);
        if (item.paired && r <= NEW_KEY)
            x = rope_rotate(x, rope_angles(share.pos, i));
        x = r < NEW_KEY ? x * query_scale() : kv_round(x);
        new_rows[(r * uint(HEAD_DIM) + item.dim) / 2u] = x.xy;
        new_rows[(r * uint(HEAD_DIM) + item.partner) / 2u] = x.zw;
    }
}

vec4 new_vec4(uint r, uint i)
{
    uint n = 2u * (r * uint(VEC4S) + i);
    return vec4(new_rows[n], new_rows[n + 1u]);
}

// Called by the group that stores the new key and value.
void store_new_rows(uint tid, attn_share share, uint key, uint value)
{
    if (share.stores)
        for (uint i = tid; i < uint(VEC4S); i += uint(WG_SIZE)) {
            kv_store_vec4(key, i, new_vec4(NEW_KEY, i));
            kv_store_vec4(value, i, new_vec4(NEW_VALUE, i));
        }
}
