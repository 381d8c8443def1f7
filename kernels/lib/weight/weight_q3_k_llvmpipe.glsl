// Weights of type q3_k (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros, and weight_q3_k.glsl for the words of a block. A group of 32
// columns has two scales, and GROUP accepts only one. So CODES is called with weights, and GROUP
// with a scale of 1. Needs lib weight_llvmpipe.
#define Q3K_SCALE(j) \
    (((((j) & 4) == 0 ? h.x : h.y) >> (8 * ((j) & 3) + (j) / 8 * 4) & 15u) | \
     ((h.z >> (8 * ((j) & 3) + (j) / 4 * 2)) & 3u) << 4)
#define Q3K_WORD(c, q, u, i) \
    { \
        uint t = ((q >> (2 * ((i) % 4))) & 0x03030303u) | (((u >> (i)) & 0x01010101u) << 2); \
        SCALED_CODES(c, t, sc, mn) \
    }
#define Q3K_HALF(c, q, u, i, j) \
    { \
        float sc = d * (float(Q3K_SCALE(j)) - 32.0), mn = 4.0 * sc; \
        Q3K_WORD(c, q.x, u.x, i) Q3K_WORD(c + 4, q.y, u.y, i) \
        Q3K_WORD(c + 8, q.z, u.z, i) Q3K_WORD(c + 12, q.w, u.w, i) \
    }
// Group i of a block, which is group g of the row.
#define Q3K_GROUP(g, i, qa, qb) \
    GROUP(g, 1.0, 0.0) \
    Q3K_HALF(32 * (g), qa, ua, i, 2 * (i)) \
    Q3K_HALF(32 * (g) + 16, qb, ub, i, 2 * (i) + 1) \
    GROUP_END(g)
#define ROW_BLOCK(n) \
    { \
        uint b = row + uint(7 * (n)); \
        uvec4 q0 = W[b], q1 = W[b + 1u], q2 = W[b + 2u], q3 = W[b + 3u]; \
        uvec4 ua = W[b + 4u], ub = W[b + 5u], h = W[b + 6u]; \
        float d = unpackHalf2x16(h.w).x; \
        Q3K_GROUP(8 * (n), 0, q0, q1) Q3K_GROUP(8 * (n) + 1, 1, q0, q1) \
        Q3K_GROUP(8 * (n) + 2, 2, q0, q1) Q3K_GROUP(8 * (n) + 3, 3, q0, q1) \
        Q3K_GROUP(8 * (n) + 4, 4, q2, q3) Q3K_GROUP(8 * (n) + 5, 5, q2, q3) \
        Q3K_GROUP(8 * (n) + 6, 6, q2, q3) Q3K_GROUP(8 * (n) + 7, 7, q2, q3) \
    }
