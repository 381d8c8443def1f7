// The k largest keys of a list; of equal keys, the earliest are first.
//
// A radix search finds the k-th key, 8 bits at a time. Then one pass takes the elements in the
// order of the list. The kernel defines radix_topk_key() and radix_topk_take(). Every invocation of
// the group calls radix_topk(); LOCAL_X is a multiple of 16. The lib is empty unless the kind is
// topk.
//
//! SHARED uint radix_topk_bins[KIND_topk ? 256 : 0] // fixed: values of a digit of 8 bits
//! SHARED uint radix_topk_sums[KIND_topk ? 16 : 0] // fixed: of 16 bins each
//! SHARED uvec2 radix_topk_counts[KIND_topk ? LOCAL_X : 0]
//! SHARED uvec2 radix_topk_blocks[KIND_topk ? LOCAL_X / 16 : 0] // fixed: of 16 invocations each

#if KIND_topk
uint radix_topk_key(uint i);
// Called for each chosen element i. Slots 0 .. k-1 are each filled once, with those above the k-th
// key first.
void radix_topk_take(uint slot, uint i);

// Walks the bins from the top to the one with the `need`-th element. Subtracts the number of
// elements above that bin from `need`.
uint radix_topk_bin(inout uint need)
{
    uint block = 15u;
    for (; block > 0u && radix_topk_sums[block] < need; block--)
        need -= radix_topk_sums[block];
    uint bin = block * 16u + 15u;
    for (; bin > block * 16u && radix_topk_bins[bin] < need; bin--)
        need -= radix_topk_bins[bin];
    return bin;
}

// 1 <= k <= count.
void radix_topk(uint tid, uint count, uint k)
{
    uint part = (count + uint(LOCAL_X) - 1u) / uint(LOCAL_X);
    uint begin = min(tid * part, count), end = min(begin + part, count);
    uint edge = 0u, known = 0u, need = k;
    for (int pass = 0; pass < 4; pass++) {
        int shift = 24 - 8 * pass;
        for (uint i = tid; i < 256u; i += uint(LOCAL_X))
            radix_topk_bins[i] = 0u;
        memoryBarrierShared(); barrier();
        for (uint i = begin; i < end; i++) {
            uint key = radix_topk_key(i);
            if ((key & known) == edge)
                atomicAdd(radix_topk_bins[(key >> shift) & 255u], 1u);
        }
        memoryBarrierShared(); barrier();
        for (uint i = tid; i < 16u; i += uint(LOCAL_X)) {
            uint sum = 0u;
            for (uint e = 0u; e < 16u; e++)
                sum += radix_topk_bins[16u * i + e];
            radix_topk_sums[i] = sum;
        }
        memoryBarrierShared(); barrier();
        edge |= radix_topk_bin(need) << shift;
        known |= 255u << shift;
        memoryBarrierShared(); barrier();
    }

    // `need` elements equal to the edge are chosen, and all elements above it.
    uvec2 counts = uvec2(0u);
    for (uint i = begin; i < end; i++) {
        uint key = radix_topk_key(i);
        counts += uvec2(key > edge ? 1u : 0u, key == edge ? 1u : 0u);
    }
    radix_topk_counts[tid] = counts;
    memoryBarrierShared(); barrier();
    for (uint i = tid; i < uint(LOCAL_X / 16); i += uint(LOCAL_X)) {
        counts = uvec2(0u);
        for (uint l = 16u * i; l < 16u * i + 16u; l++)
            counts += radix_topk_counts[l];
        radix_topk_blocks[i] = counts;
    }
    memoryBarrierShared(); barrier();
    uvec2 slot = uvec2(0u, k - need);
    for (uint i = 0u; i < tid / 16u; i++)
        slot += radix_topk_blocks[i];
    for (uint l = tid / 16u * 16u; l < tid; l++)
        slot += radix_topk_counts[l];
    for (uint i = begin; i < end; i++) {
        uint key = radix_topk_key(i);
        if (key > edge) {
            radix_topk_take(slot.x, i);
            slot.x++;
        } else if (key == edge) {
            if (slot.y < k)
                radix_topk_take(slot.y, i);
            slot.y++;
        }
    }
    memoryBarrierShared(); barrier();
}
#endif
