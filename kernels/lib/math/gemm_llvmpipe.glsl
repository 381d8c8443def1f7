// Matrix product for llvmpipe (lib row_llvmpipe): an invocation has one row and TOKENS tokens.
//
// x of the tokens is in shared memory. A multiply-add costs a broadcast, a multiplication and an
// addition for 8 rows. A weight is unpacked once per TOKENS tokens. There is one barrier. With a
// barrier per 256 columns it ran at a third of the speed.
//
// xs is [column][four tokens], so that one statement is four multiply-adds and compilers read a
// quarter of the text. The code around ROW_BLOCKS has uint `row`, where the row starts in W, and
// vec4 `acc[TOKENS / 4]`, the sums of four tokens each. Needs lib row_llvmpipe with X_ROWS =
// TOKENS, `vec4 X[]`, the tunables TOKENS and WG_SIZE, and a function of the kernel:
uint gemm_token(uint t); // element of X at which token t of the tile starts

void gemm_stage(uint tid)
{
    for (uint i = tid; i < uint(TOKENS / 4 * (KP / 4)); i += uint(WG_SIZE)) {
        uint t = i / uint(KP / 4), c = i % uint(KP / 4);
        vec4 a = vec4(0.0), b = a, d = a, e = a;
        if (c < uint(K / 4)) {
            a = X[gemm_token(4u * t) + c];
            b = X[gemm_token(4u * t + 1u) + c];
            d = X[gemm_token(4u * t + 2u) + c];
            e = X[gemm_token(4u * t + 3u) + c];
        }
        uint to = 4u * c * uint(TOKENS / 4) + t;
        xs[to] = vec4(a.x, b.x, d.x, e.x);
        xs[to + uint(TOKENS / 4)] = vec4(a.y, b.y, d.y, e.y);
        xs[to + uint(TOKENS / 2)] = vec4(a.z, b.z, d.z, e.z);
        xs[to + uint(3 * TOKENS / 4)] = vec4(a.w, b.w, d.w, e.w);
    }
}

// For post=glu, rows 2 i and 2 i + 1 are gate and up. The invocations exchange their sums through
// xs, which the product no longer needs, as [four tokens][invocation].
void gemm_exchange(uint tid, vec4 acc[TOKENS / 4])
{
    memoryBarrierShared(); barrier();
    for (int t = 0; t < TOKENS / 4; t++)
        xs[uint(t * WG_SIZE) + tid] = acc[t];
    memoryBarrierShared(); barrier();
}

#define MAC(t, c) acc[t] += w * xs[TOKENS / 4 * (c) + (t)];
#if TOKENS == 4
#define MACS(c) MAC(0, c)
#elif TOKENS == 8
#define MACS(c) MAC(0, c) MAC(1, c)
#else
#define MACS(c) MAC(0, c) MAC(1, c) MAC(2, c) MAC(3, c)
#endif
#define GROUP(g, d, m) \
    { \
        float gd = d, gm = m;
#define CODE(c, v) \
        { \
            float w = gd * (v) - gm; \
            MACS(c) \
        }
#define CODES(c, v0, v1, v2, v3) CODE(c, v0) CODE(c + 1, v1) CODE(c + 2, v2) CODE(c + 3, v3)
#define GROUP_END(g) \
    }
