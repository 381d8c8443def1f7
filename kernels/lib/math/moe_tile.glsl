// Tiles of TOKENS pairs (token, choice) of one expert.
//
// Tiles are numbered over all experts, and each expert begins a new tile. There are at most ceil(T
// TOP_K / TOKENS) + E tiles. Needs `uint LIST[]`, the constant E.

// Returns (expert, place of the tile's first pair in LIST, number of pairs) of tile `tile`, by one
// walk over the experts. The number is 0 beyond the last tile. Only invocations with `walks` walk.
// On llvmpipe the other invocations cost nothing, except those in one vector with them.
uvec3 find_tile(uint tile, bool walks)
{
    uvec3 found = uvec3(0u);
    uint begin = LIST[0];
    for (uint e = walks ? 0u : uint(E); e < uint(E); e++) {
        uint end = LIST[e + 1u], tiles = (end - begin + uint(TOKENS - 1)) / uint(TOKENS);
        if (tile < tiles) {
            begin += tile * uint(TOKENS);
            found = uvec3(e, uint(E + 1) + begin, min(end - begin, uint(TOKENS)));
            break;
        }
        tile -= tiles;
        begin = end;
    }
    return found;
}
