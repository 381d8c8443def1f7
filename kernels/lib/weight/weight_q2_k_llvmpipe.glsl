// Weights of type q2_k (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros, and weight_q2_k.glsl for the scales h of a block. A group of
// 32 columns has two scales and two minima, and GROUP accepts only one of each. So CODES is called
// with weights, and GROUP with a scale of 1 and a minimum of 0. Needs lib weight_llvmpipe.
#define Q2K_WORD(c, q, i) SCALED_CODES(c, ((q) >> (2 * ((i) % 4))) & 0x03030303u, sc, mn)
#define Q2K_HALF(c, q, i, codes) \
    { \
        float sc = dd.x * float((codes) & 15u), mn = dd.y * float((codes) >> 4 & 15u); \
        Q2K_WORD(c, q.x, i) Q2K_WORD(c + 4, q.y, i) \
        Q2K_WORD(c + 8, q.z, i) Q2K_WORD(c + 12, q.w, i) \
    }
// Group i of a block, which is group g of the row; its scales are the low bytes of `codes`.
#define Q2K_GROUP(g, i, qa, qb, codes) \
    GROUP(g, 1.0, 0.0) \
    Q2K_HALF(32 * (g), qa, i, codes) \
    Q2K_HALF(32 * (g) + 16, qb, i, (codes) >> 8) \
    GROUP_END(g)
#define ROW_BLOCK(n) \
    { \
        uint b = row + uint(4 * (n)); \
        uvec4 q0 = W[b], q1 = W[b + 1u], q2 = W[b + 2u], q3 = W[b + 3u]; \
        uvec4 h = W[row + uint((K + 255) / 256 * 4 + (n))]; \
        vec2 dd = unpackHalf2x16(ROW_WORD((K + 255) / 256 * 20 + (n))); \
        Q2K_GROUP(8 * (n), 0, q0, q1, h.x) Q2K_GROUP(8 * (n) + 1, 1, q0, q1, h.x >> 16) \
        Q2K_GROUP(8 * (n) + 2, 2, q0, q1, h.y) Q2K_GROUP(8 * (n) + 3, 3, q0, q1, h.y >> 16) \
        Q2K_GROUP(8 * (n) + 4, 4, q2, q3, h.z) Q2K_GROUP(8 * (n) + 5, 5, q2, q3, h.z >> 16) \
        Q2K_GROUP(8 * (n) + 6, 6, q2, q3, h.w) Q2K_GROUP(8 * (n) + 7, 7, q2, q3, h.w >> 16) \
    }
