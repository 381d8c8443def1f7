// q4_k for llvmpipe, a thread per row; lib row_llvmpipe explains the macros.
#define Q4K_WORD(c, q, s) \
    CODE(c, float((q >> (s)) & 15u)) \
    CODE(c + 1, float((q >> (s + 8)) & 15u)) \
    CODE(c + 2, float((q >> (s + 16)) & 15u)) \
    CODE(c + 3, float((q >> (s + 24)) & 15u))
#define Q4K_CODES(c, s) \
    Q4K_WORD(c, qa.x, s) Q4K_WORD(c + 4, qa.y, s) \
    Q4K_WORD(c + 8, qa.z, s) Q4K_WORD(c + 12, qa.w, s) \
    Q4K_WORD(c + 16, qb.x, s) Q4K_WORD(c + 20, qb.y, s) \
    Q4K_WORD(c + 24, qb.z, s) Q4K_WORD(c + 28, qb.w, s)
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
        vec2 dd = unpackHalf2x16(h.x); \
        uint sc = (h.w & 0x0F0F0F0Fu) | ((h.y >> 2) & 0x30303030u); \
        uint mn = ((h.w >> 4) & 0x0F0F0F0Fu) | ((h.z >> 2) & 0x30303030u); \
        Q4K_PAIR(8 * (n), b + 1u, h.y, h.z) \
        Q4K_PAIR(8 * (n) + 2, b + 3u, h.y >> 16, h.z >> 16) \
        Q4K_PAIR(8 * (n) + 4, b + 5u, sc, mn) \
        Q4K_PAIR(8 * (n) + 6, b + 7u, sc >> 16, mn >> 16) \
    }
