// The experts of one token on any device: several threads per row, as in matmul_decode.
//
// Each of the TOP_K chosen experts multiplies its weights with a vector, by lib gemv. With
// post=glu, all experts have the same x, and each choice has a result row of its own. With
// post=combine, each choice has its own x, which is multiplied by the expert's weight when it is
// loaded, and the results of all choices are added into one row. X is [TOP_K or 1][X_STRIDE] and Y
// is [TOP_K][Y_STRIDE], or one row with post=combine; both are f32. W has one band of the rows of
// all experts, in its packed layout. Rows of other bands count as 0.
//
// Layout: work group x covers ROWS rows of an expert. With post=glu, y is the choice. With
// post=combine, a group adds its rows of every choice. ROW_THREADS invocations share a row, as in
// matmul_decode.
//
// Choice: PREFER 10. moe_decode_subgroup (30) is chosen if the device has subgroups.
//
// TUNEs: as in matmul_decode. More ROW_THREADS suit long rows, but add more partial sums. More
// THREAD_ROWS reuse x, but leave fewer groups. A larger BK needs fewer barriers, but more shared
// memory. WG_SIZE is the group size.
//
//! NAME moe_decode
//! OP moe_matmul
//! VARIANT baseline gemv
//! WHEN phase decode
//! WHEN weight any
//! WHEN post glu combine
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uint W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read uvec2 ROUTE
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float scale
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE WG_SIZE = SOFTWARE ? 64 : 128 in 32 64 128 256
//! TUNE ROW_THREADS = K >= 1024 ? 32 : K >= 256 ? 16 : 8 in 4 8 16 32
//! TUNE THREAD_ROWS = 2 in 1 2 4 8
//! TUNE BK = 2048 in 512 1024 2048
//! LET ROWS = WG_SIZE / ROW_THREADS * THREAD_ROWS
//! LET W_WIDTH = 1
//! LOCAL WG_SIZE
//! GROUPS ceildiv(EXPERT_ROWS, ROWS) POST_glu ? TOP_K : 1
//! ACTIVE ceildiv(EXPERT_ROWS, THREAD_ROWS) * ROW_THREADS * (POST_glu ? TOP_K : 1)
//! REQUIRE ROWS % 2 == 0
//! PREFER 10
//! LIB weight_words
//! LIB weight_{weight}
//! LIB moe_glu
//! LIB moe_rows
//! LIB moe_choice
//! LIB gemv

uint first; // first row of the work group within the expert

uint gemv_row(uint r)
{
    return band_row(choice_expert, first + r) * uint(W_STRIDE);
}

bool gemv_has(uint r)
{
    return band_row(choice_expert, first + r) < rows;
}

vec4 gemv_x(uint i)
{
    return choice_x(i);
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    float sum[THREAD_ROWS];
    for (int i = 0; i < THREAD_ROWS; i++)
        sum[i] = 0.0;
    first = group.x * uint(ROWS);
#if POST_glu
    uint s0 = min(group.y, uint(TOP_K - 1)), s1 = s0 + 1u;
#else
    uint s0 = 0u, s1 = uint(TOP_K);
#endif
    for (uint s = s0; s < s1; s++) {
        choose(s);
        gemv_add(tid, sum);
    }
    gemv_share(tid, sum);
    memoryBarrierShared(); barrier();
#if POST_glu
    uint gate = band_row(choice_expert, first + 2u * tid);
    if (tid < uint(ROWS / 2) && gate < rows)
        Y[s0 * uint(Y_STRIDE) + first / 2u + tid] =
            glu(gemv_sum(2u * tid) + band_bias(gate),
                gemv_sum(2u * tid + 1u) + band_bias(gate + 1u));
#else
    for (uint r = tid; r < uint(ROWS) && first + r < uint(EXPERT_ROWS); r += uint(WG_SIZE))
        Y[first + r] += add_biases(gemv_sum(r), first + r);
#endif
}
