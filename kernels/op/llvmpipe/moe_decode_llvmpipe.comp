// The experts of one token for llvmpipe: a thread per row, x is read at constant addresses.
//
// Each of the TOP_K chosen experts multiplies its weights with a vector, by lib gemv_llvmpipe. With
// post=glu, all experts have the same x, and each choice has a result row of its own. With
// post=combine, the results of all choices are added into one row. Shared memory then contains the
// x of every choice, unweighted. Each invocation adds up its row of all chosen experts, one expert
// after another.
//
// X is [TOP_K or 1][X_STRIDE] and Y is [TOP_K][Y_STRIDE], or one row with post=combine; both are
// f32. W has one band of the rows of all experts, in its packed layout. If a row is in another
// band, the invocation reads row 0 of W instead and discards the product.
//
// Layout: work group x covers WG_SIZE rows of an expert, one row per invocation. With post=glu, y
// is the choice.
//
// Choice: PREFER 50 on llvmpipe, -10 on other software renderers; REQUIRE excludes GPUs, K above
// 1024, and with post=combine more than 8 blocks of 256 columns over all choices.
//
// TUNEs: WG_SIZE is the number of rows that share the staged x.
//
//! NAME moe_decode_llvmpipe
//! OP moe_matmul
//! VARIANT llvmpipe row
//! WHEN phase decode
//! WHEN weight any
//! WHEN post glu combine
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read uvec2 ROUTE
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float scale
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE WG_SIZE = 128 in 32 64 128
//! LET BLOCKS = ceildiv(K, 256)
//! LET X_ROWS = POST_glu ? 1 : TOP_K
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS ceildiv(EXPERT_ROWS, WG_SIZE) POST_glu ? TOP_K : 1
//! ACTIVE EXPERT_ROWS * (POST_glu ? TOP_K : 1)
//! SHARED float pair[POST_glu ? WG_SIZE : 0]
//! REQUIRE SOFTWARE
//! REQUIRE K <= 1024 && (POST_glu || BLOCKS * TOP_K <= 8)
//! REQUIRE W_STRIDE % 4 == 0
//! PREFER LLVMPIPE ? 50 : -10
//! LIB weight_llvmpipe
//! LIB weight_{weight}_llvmpipe weight_{weight}
//! LIB weight_{weight}_llvmpipe weight_columns_llvmpipe
//! LIB moe_glu
//! LIB moe_rows
//! LIB row_llvmpipe
//! LIB gemv_llvmpipe

vec4 gemv_x(uint s, uint i)
{
    return i < uint(K / 4) ? X[s * uint(X_STRIDE / 4) + i] : vec4(0.0);
}

// Adds to y: factor * (dot product of row r of choice s's expert with x[number], plus the bias).
#define CHOICE(number, s, factor) \
    { \
        const int x_row = number; \
        uint at = band_row(ROUTE[s].x, r), row = (at < rows ? at : 0u) * uint(W_STRIDE / 4); \
        float acc = 0.0; \
        ROW_BLOCKS \
        if (at < rows) \
            y += (factor) * (acc + band_bias(at)); \
    }
#define WEIGHTED(s) CHOICE(s, s, scale * uintBitsToFloat(ROUTE[s].y))

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, r = group.x * uint(WG_SIZE) + tid;
    float y = 0.0;
    gemv_stage(tid);
    memoryBarrierShared(); barrier();
#if POST_glu
    uint s = min(group.y, uint(TOP_K - 1));
    CHOICE(0, s, 1.0)
    pair[tid] = y;
    memoryBarrierShared(); barrier();
    uint i = group.x * uint(WG_SIZE / 2) + tid;
    if (tid < uint(WG_SIZE / 2) && band_row(ROUTE[s].x, 2u * i) < rows)
        Y[s * uint(Y_STRIDE) + i] = glu(pair[2u * tid], pair[2u * tid + 1u]);
#else
    WEIGHTED(0)
#if TOP_K > 1
    WEIGHTED(1)
#endif
#if TOP_K > 2
    WEIGHTED(2)
#endif
#if TOP_K > 3
    WEIGHTED(3)
#endif
#if TOP_K > 4
    WEIGHTED(4)
#endif
#if TOP_K > 5
    WEIGHTED(5)
#endif
#if TOP_K > 6
    WEIGHTED(6)
#endif
#if TOP_K > 7
    WEIGHTED(7)
#endif
    if (r < uint(EXPERT_ROWS))
        Y[r] += y;
#endif
}
