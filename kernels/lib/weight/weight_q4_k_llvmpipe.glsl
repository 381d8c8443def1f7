// q4_k for llvmpipe, a thread per row; lib row_llvmpipe explains the macros. Needs lib
// weight_llvmpipe.
#define Q4K_CODES(c, s) \
    NIBBLE_CODES(c, qa.x, s) NIBBLE_CODES(c + 4, qa.y, s) \
    NIBBLE_CODES(c + 8, qa.z, s) NIBBLE_CODES(c + 12, qa.w, s) \
    NIBBLE_CODES(c + 16, qb.x, s) NIBBLE_CODES(c + 20, qb.y, s) \
    NIBBLE_CODES(c + 24, qb.z, s) NIBBLE_CODES(c + 28, qb.w, s)
// Groups g (low nibbles) and g + 1 (high nibbles) of the 32 bytes at b; their 6-bit codes are the
// low bytes of sc, mn.
#define Q4K_PAIR(g, b, sc, mn) \
    { \
        uvec4 qa = W[b], qb = W[b + 1u]; \
        GROUP(g, dd.x * float((sc) & 63u), dd.y * float((mn) & 63u)) \
        Q4K_CODES(32 * (g), 0) \
        GROUP_END(g) \
        GROUP(g + 1, dd.x * float(((sc) >> 8) & 63u), dd.y * float(((mn) >> 8) & 63u)) \
        Q4K_CODES(32 * (g) + 32, 4) \
        GROUP_END(g + 1) \
    }
#define ROW_BLOCK(n) \
    { \
        uint b = row + uint(9 * (n)); \
        uvec4 h = W[b]; \
        K_SCALES(h) \
        Q4K_PAIR(8 * (n), b + 1u, h.y, h.z) \
        Q4K_PAIR(8 * (n) + 2, b + 3u, h.y >> 16, h.z >> 16) \
        Q4K_PAIR(8 * (n) + 4, b + 5u, sc, mn) \
        Q4K_PAIR(8 * (n) + 6, b + 7u, sc >> 16, mn >> 16) \
    }
