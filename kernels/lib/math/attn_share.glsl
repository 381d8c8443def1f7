// One work group's share in the attention of one token, and its part of the result: HEADS_BLOCK
// heads of one KV head by one of SPLITS runs of the keys. Groups: KV head by block of heads by
// split. Needs lib attn_score, `float P[]` and STEP read.

const uint GQA_GROUP = uint(HEADS / KV_HEADS); // query heads per KV head

struct attn_share {
    uint seq, pos;       // of the token and its new key and value
    uint kv_head, head0; // in the last block of a KV head some heads may be beyond it
    uint split;
    uint first, end; // the split's keys
    bool has_new;    // the new key is the last of them
    bool stores;     // and this group puts it into the cache
    bool inside;     // false: beyond the last group, nothing may be written
};

attn_share attn_share_of(uint group)
{
    const uint BLOCKS = (GQA_GROUP + uint(HEADS_BLOCK) - 1u) / uint(HEADS_BLOCK);
    attn_share a;
    uint block = group / uint(SPLITS);
    a.seq = row_seq(0u);
    a.pos = row_pos(0u);
    a.split = group % uint(SPLITS);
    a.inside = block < uint(KV_HEADS) * BLOCKS;
    a.kv_head = min(block / BLOCKS, uint(KV_HEADS - 1));
    a.head0 = a.kv_head * GQA_GROUP + block % BLOCKS * uint(HEADS_BLOCK);
    uint oldest = first_key(a.pos);
    uint count = (a.pos - oldest + uint(SPLITS)) / uint(SPLITS);
    a.first = min(oldest + a.split * count, a.pos + 1u);
    a.end = min(oldest + (a.split + 1u) * count, a.pos + 1u);
    a.has_new = a.first < a.end && a.end == a.pos + 1u;
    a.stores = a.inside && a.has_new && block % BLOCKS == 0u;
    return a;
}

// vec4 i of a head's sum of weights times values, with the maximum of its scores and the sum of its
// weights, to P as attn_merge reads it; divided, and the result itself, if there is one split.
void write_part(uint head, uint split, uint i, vec4 x, float row_max, float row_sum)
{
    uint result = head * uint(SPLITS) + split, to = result * uint(HEAD_DIM) + 4u * i;
#if SPLITS == 1
    x /= row_sum;
#else
    uint max_sum = uint(HEADS * SPLITS * HEAD_DIM) + 2u * result;
    if (i == 0u) {
        P[max_sum] = row_sum > 0.0 ? row_max * LN_2 : NO_SCORE;
        P[max_sum + 1u] = row_sum;
    }
#endif
    P[to] = x.x;
    P[to + 1u] = x.y;
    P[to + 2u] = x.z;
    P[to + 3u] = x.w;
}
