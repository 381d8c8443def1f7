// One work group's share in the attention of one token.
//
// A share is HEADS_BLOCK heads of one KV head, and at most one of SPLITS runs of the keys. Group x
// is a split of a block of heads of a KV head. If there are few keys, the first groups have all the
// work, because a persistent program has one work group for several groups x. Group y is a row of
// the pass, the next token of a sequence. The row of a stopped sequence has no keys and stores
// none. Needs lib attn_score, STEP read, the constant QKV_STRIDE.

const uint GQA_GROUP = uint(HEADS / KV_HEADS); // query heads per KV head

struct attn_share {
    uint row;            // of QKV and of results
    uint seq, pos;       // of the token and its new key and value
    uint kv_head, head0; // in the last block of a KV head some heads may be beyond it
    uint block;          // among those of all KV heads
    uint split, splits;  // this one of so many; those beyond have no keys
    uint first, end;     // the split's keys
    bool has_new;        // the new key is the last of them
    bool stores;         // and this group puts it into the cache
    bool inside;         // false: beyond the last group, nothing may be written
};

// There are at most `most` splits. If there are fewer, each split except the last has at least
// `least` keys. Splits begin at multiples of `unit`, except a first split that a window cuts.
attn_share attn_share_of(uint row, uint group, uint most, uint least, uint unit)
{
    const uint BLOCKS = (GQA_GROUP + uint(HEADS_BLOCK) - 1u) / uint(HEADS_BLOCK);
    attn_share a;
    a.block = group % (uint(KV_HEADS) * BLOCKS);
    a.row = row;
    a.seq = row_seq(row);
    a.pos = row_pos(row);
    a.split = group / (uint(KV_HEADS) * BLOCKS);
    a.inside = a.split < most && step_table[a.seq].stopped == 0u;
    a.kv_head = a.block / BLOCKS;
    a.head0 = a.kv_head * GQA_GROUP + a.block % BLOCKS * uint(HEADS_BLOCK);
    uint oldest = first_key(a.pos);
    uint origin = oldest / unit * unit, keys = a.pos + 1u - origin;
    uint count = max((keys + most - 1u) / most, least);
    count = (count + unit - 1u) / unit * unit;
    a.splits = (keys + count - 1u) / count;
    a.first = min(max(origin + a.split * count, oldest), a.pos + 1u);
    a.end = a.inside ? min(origin + (a.split + 1u) * count, a.pos + 1u) : a.first;
    a.has_new = a.first < a.end && a.end == a.pos + 1u;
    a.stores = a.inside && a.has_new && a.block % BLOCKS == 0u;
    return a;
}
