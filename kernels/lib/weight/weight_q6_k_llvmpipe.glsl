// Weights of type q6_k (layout `split`) for llvmpipe, one invocation per row.
//
// See lib row_llvmpipe for the macros. A group of 32 columns has two scales, so the codes are
// already multiplied by their scale. Needs lib weight_llvmpipe.
#define Q6K_WORD(c, q, u, s, j) \
    { \
        uint t = ((q >> (s)) & 0x0F0F0F0Fu) | (((u >> (j)) & 0x03030303u) << 4); \
        SCALED_CODES(c, t, sc, mn) \
    }
#define Q6K_HALF(c, q, u, s, j, scale) \
    { \
        float sc = float(int((scale) << 24) >> 24), mn = 32.0 * sc; \
        Q6K_WORD(c, q.x, u.x, s, j) Q6K_WORD(c + 4, q.y, u.y, s, j) \
        Q6K_WORD(c + 8, q.z, u.z, s, j) Q6K_WORD(c + 12, q.w, u.w, s, j) \
    }
// Group g from 32 bytes of low bits (shift s) and 32 of upper ones (shift j); its scales are the
// low bytes of `scales`.
#define Q6K_GROUP(g, qa, qb, s, j, scales) \
    GROUP(g, d, 0.0) \
    Q6K_HALF(32 * (g), qa, ua, s, j, scales) \
    Q6K_HALF(32 * (g) + 16, qb, ub, s, j, (scales) >> 8) \
    GROUP_END(g)
// Four groups from g on: 128 columns.
#define Q6K_GROUPS4(g, b, u, sc0, sc1) \
    { \
        uvec4 q0 = W[b], q1 = W[b + 1u], q2 = W[b + 2u], q3 = W[b + 3u]; \
        uvec4 ua = W[u], ub = W[u + 1u]; \
        Q6K_GROUP(g, q0, q1, 0, 0, sc0) \
        Q6K_GROUP(g + 1, q2, q3, 0, 2, sc0 >> 16) \
        Q6K_GROUP(g + 2, q0, q1, 4, 4, sc1) \
        Q6K_GROUP(g + 3, q2, q3, 4, 6, sc1 >> 16) \
    }
#define ROW_BLOCK(n) \
    { \
        uint b = row + uint(13 * (n)); \
        uvec4 h = W[b + 12u], ds = W[row + uint(W_STRIDE * 2 / 105 * 13 + (n) / 8)]; \
        uvec2 dw = (n) / 4 % 2 == 0 ? ds.xy : ds.zw; \
        vec2 dd = unpackHalf2x16((n) / 2 % 2 == 0 ? dw.x : dw.y); \
        float d = (n) % 2 == 0 ? dd.x : dd.y; \
        Q6K_GROUPS4(8 * (n), b, b + 8u, h.x, h.y) \
        Q6K_GROUPS4(8 * (n) + 4, b + 4u, b + 10u, h.z, h.w) \
    }
