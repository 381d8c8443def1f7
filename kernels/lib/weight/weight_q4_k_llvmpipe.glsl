// Weights of type q4_k (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros, and weight_q4_k.glsl for the head of a block. Needs lib
// weight_llvmpipe.
#define Q4K_HALF(c, s) \
    NIBBLE_CODES(c, q.x, s) NIBBLE_CODES(c + 4, q.y, s) \
    NIBBLE_CODES(c + 8, q.z, s) NIBBLE_CODES(c + 12, q.w, s)
// Group g; its codes are the low bytes of sc, mn.
#define Q4K_GROUP(g, sc, mn) \
    { \
        uvec4 q = W[row + uint(g)]; \
        GROUP(g, dd.x * float((sc) & 63u), dd.y * float((mn) & 63u)) \
        Q4K_HALF(32 * (g), 0) Q4K_HALF(32 * (g) + 16, 4) \
        GROUP_END(g) \
    }
#define ROW_BLOCK(n) \
    { \
        uvec4 h = W[row + uint(W_STRIDE / 36 * 8 + (n))]; \
        vec2 dd = unpackHalf2x16(h.x); \
        uint ma = ((h.y >> 6) & 0x03030303u) | ((h.w << 2) & 0x3C3C3C3Cu); \
        uint mb = ((h.z >> 6) & 0x03030303u) | ((h.w >> 2) & 0x3C3C3C3Cu); \
        Q4K_GROUP(8 * (n), h.y, ma) Q4K_GROUP(8 * (n) + 1, h.y >> 8, ma >> 8) \
        Q4K_GROUP(8 * (n) + 2, h.y >> 16, ma >> 16) Q4K_GROUP(8 * (n) + 3, h.y >> 24, ma >> 24) \
        Q4K_GROUP(8 * (n) + 4, h.z, mb) Q4K_GROUP(8 * (n) + 5, h.z >> 8, mb >> 8) \
        Q4K_GROUP(8 * (n) + 6, h.z >> 16, mb >> 16) Q4K_GROUP(8 * (n) + 7, h.z >> 24, mb >> 24) \
    }
