// The k largest keys of a list, ties to the earliest: a radix search for the k-th key, 8 bits at a
// time, then the taking in the list's order. The kernel defines select_key() and select_take().
// Every invocation of the group calls select_best(). Empty unless the kind is topk.
//
//! SHARED uint select_bins[KIND_topk ? 256 : 0]
//! SHARED uint select_sums[KIND_topk ? 16 : 0]
//! SHARED uvec2 select_counts[KIND_topk ? LOCAL_X : 0]
//! SHARED uvec2 select_blocks[KIND_topk ? LOCAL_X / 16 : 0]

#if KIND_topk
uint select_key(uint i);
// Element i is one of the chosen; slots 0 .. k-1 are each filled once, those above the k-th key
// first.
void select_take(uint slot, uint i);

// Walks the bins from the top to the one that holds the `need`-th element; takes off `need` what
// lies above it.
uint select_bin(inout uint need)
{
    uint block = 15u;
    for (; block > 0u && select_sums[block] < need; block--)
        need -= select_sums[block];
    uint bin = block * 16u + 15u;
    for (; bin > block * 16u && select_bins[bin] < need; bin--)
        need -= select_bins[bin];
    return bin;
}

// 1 <= k <= count.
void select_best(uint lane, uint count, uint k)
{
    uint part = (count + uint(LOCAL_X) - 1u) / uint(LOCAL_X);
    uint begin = min(lane * part, count), end = min(begin + part, count);
    uint edge = 0u, known = 0u, need = k;
    for (int pass = 0; pass < 4; pass++) {
        int shift = 24 - 8 * pass;
        for (uint i = lane; i < 256u; i += uint(LOCAL_X))
            select_bins[i] = 0u;
        memoryBarrierShared(); barrier();
        for (uint i = begin; i < end; i++) {
            uint key = select_key(i);
            if ((key & known) == edge)
                atomicAdd(select_bins[(key >> shift) & 255u], 1u);
        }
        memoryBarrierShared(); barrier();
        for (uint i = lane; i < 16u; i += uint(LOCAL_X)) {
            uint sum = 0u;
            for (uint e = 0u; e < 16u; e++)
                sum += select_bins[16u * i + e];
            select_sums[i] = sum;
        }
        memoryBarrierShared(); barrier();
        edge |= select_bin(need) << shift;
        known |= 255u << shift;
        memoryBarrierShared(); barrier();
    }

    // `need` elements equal to the edge are wanted, and all above it.
    uvec2 counts = uvec2(0u);
    for (uint i = begin; i < end; i++) {
        uint key = select_key(i);
        counts += uvec2(key > edge ? 1u : 0u, key == edge ? 1u : 0u);
    }
    select_counts[lane] = counts;
    memoryBarrierShared(); barrier();
    for (uint i = lane; i < uint(LOCAL_X / 16); i += uint(LOCAL_X)) {
        counts = uvec2(0u);
        for (uint l = 16u * i; l < 16u * i + 16u; l++)
            counts += select_counts[l];
        select_blocks[i] = counts;
    }
    memoryBarrierShared(); barrier();
    uvec2 slot = uvec2(0u, k - need);
    for (uint i = 0u; i < lane / 16u; i++)
        slot += select_blocks[i];
    for (uint l = lane / 16u * 16u; l < lane; l++)
        slot += select_counts[l];
    for (uint i = begin; i < end; i++) {
        uint key = select_key(i);
        if (key > edge) {
            select_take(slot.x, i);
            slot.x++;
        } else if (key == edge) {
            if (slot.y < k)
                select_take(slot.y, i);
            slot.y++;
        }
    }
    memoryBarrierShared(); barrier();
}
#endif
