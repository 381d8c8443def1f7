// Weights of type q5_k for llvmpipe, one invocation per row. See lib row_llvmpipe for the macros.
//
// Scales come from the head h of a block; dd is (d, dmin). For groups 0 to 3, the 6-bit codes are
// the bytes of h.y (sc) and h.z (m) without two bits. For groups 4 to 7 they are the bytes of sc
// and mn. Needs lib weight_llvmpipe.
#define Q5K_SCALES(h) \
        vec2 dd = unpackHalf2x16(h.x); \
        uint sc = (h.w & 0x0F0F0F0Fu) | ((h.y >> 2) & 0x30303030u); \
        uint mn = ((h.w >> 4) & 0x0F0F0F0Fu) | ((h.z >> 2) & 0x30303030u);
#define Q5K_WORD(c, q, f, s, j) \
    { \
        uint t = ((q >> (s)) & 0x0F0F0F0Fu) | (((f >> (j)) & 0x01010101u) << 4); \
        CODES(c, float(t & 255u), float((t >> 8) & 255u), float((t >> 16) & 255u), \
              float(t >> 24)) \
    }
#define Q5K_CODES(c, s, j) \
    Q5K_WORD(c, qa.x, fa.x, s, j) Q5K_WORD(c + 4, qa.y, fa.y, s, j) \
    Q5K_WORD(c + 8, qa.z, fa.z, s, j) Q5K_WORD(c + 12, qa.w, fa.w, s, j) \
    Q5K_WORD(c + 16, qb.x, fb.x, s, j) Q5K_WORD(c + 20, qb.y, fb.y, s, j) \
    Q5K_WORD(c + 24, qb.z, fb.z, s, j) Q5K_WORD(c + 28, qb.w, fb.w, s, j)
// Groups g (low nibbles, fifth bits j) and g + 1 (high nibbles) of the 32 bytes at b; their 6-bit
// codes are the low bytes of sc, mn.
#define Q5K_PAIR(g, j, b, sc, mn) \
    { \
        uvec4 qa = W[b], qb = W[b + 1u]; \
        GROUP(g, dd.x * float((sc) & 63u), dd.y * float((mn) & 63u)) \
        Q5K_CODES(32 * (g), 0, j) \
        GROUP_END(g) \
        GROUP(g + 1, dd.x * float(((sc) >> 8) & 63u), dd.y * float(((mn) >> 8) & 63u)) \
        Q5K_CODES(32 * (g) + 32, 4, j + 1) \
        GROUP_END(g + 1) \
    }
#define ROW_BLOCK(n) \
    { \
        uint b = row + uint(11 * (n)); \
        uvec4 h = W[b], fa = W[b + 1u], fb = W[b + 2u]; \
        Q5K_SCALES(h) \
        Q5K_PAIR(8 * (n), 0, b + 3u, h.y, h.z) \
        Q5K_PAIR(8 * (n) + 2, 2, b + 5u, h.y >> 16, h.z >> 16) \
        Q5K_PAIR(8 * (n) + 4, 4, b + 7u, sc, mn) \
        Q5K_PAIR(8 * (n) + 6, 6, b + 9u, sc >> 16, mn >> 16) \
    }
