// Heads in items of four numbers, HEAD_DIM / 4 whatever ROPE_DIMS is.
//
// An item is two neighbouring pairs that are rotated together, (i, i + R/2) and (i + 1, i + 1 +
// R/2) with R = ROPE_DIMS, or beyond R four neighbouring numbers. ROPE_DIMS % 4 == 0.

struct rope_item {
    uint dim, partner; // numbers dim, dim + 1, partner, partner + 1 of the head
    bool paired;       // they can be rotated, by rope_angles(pos, i) for item i
};

rope_item rope_item_at(uint i)
{
    bool paired = i < uint(ROPE_DIMS / 4);
    uint dim = paired ? 2u * i : 4u * i;
    return rope_item(dim, dim + (paired ? uint(ROPE_DIMS / 2) : 2u), paired);
}
