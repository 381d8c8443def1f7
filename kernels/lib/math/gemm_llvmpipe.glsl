// Matrix product for llvmpipe (lib row_llvmpipe): a thread has a row and TOKENS tokens.
//
// x of the tokens is in shared memory; a multiply-add costs a broadcast, a multiplication and an
// addition for 8 rows, and a weight is unpacked once per TOKENS tokens. One barrier: a barrier per
// 256 columns made it run at a third of the speed.
//
// The code around ROW_BLOCKS has the variables uint `row`, where the row starts in W, and float
// `acc[TOKENS]`, the sums. Needs lib row_llvmpipe with X_ROWS = TOKENS, `vec4 X[]`, the tunables
// TOKENS and WG_SIZE, and a function of the kernel:
uint gemm_token(uint t); // element of X at which token t of the tile starts

void gemm_stage(uint tid)
{
    for (uint i = tid; i < uint(TOKENS * KP / 4); i += uint(WG_SIZE)) {
        uint token = gemm_token(i / uint(KP / 4)), c = i % uint(KP / 4);
        stage_vec4(i, c < uint(K / 4) ? X[token + c] : vec4(0.0));
    }
}

// For post=glu, where rows 2 i and 2 i + 1 are gate and up: the threads' sums meet in xs, which the
// product does not need any more, as [token][thread].
void gemm_exchange(uint tid, float acc[TOKENS])
{
    memoryBarrierShared(); barrier();
    for (uint t = 0u; t < uint(TOKENS); t++)
        xs[t * uint(WG_SIZE) + tid] = acc[t];
    memoryBarrierShared(); barrier();
}

#define MAC(t, c)  acc[t] += w * xs[KP * (t) + (c)];
#define MAC4(t, c) MAC(t, c) MAC((t) + 1, c) MAC((t) + 2, c) MAC((t) + 3, c)
#if TOKENS == 4
#define MACS(c) MAC4(0, c)
#elif TOKENS == 8
#define MACS(c) MAC4(0, c) MAC4(4, c)
#else
#define MACS(c) MAC4(0, c) MAC4(4, c) MAC4(8, c) MAC4(12, c)
#endif
#define GROUP(g, d, m) \
    { \
        float gd = d, gm = m;
#define CODE(c, v) \
        { \
            float w = gd * (v) - gm; \
            MACS(c) \
        }
#define GROUP_END(g) \
    }
