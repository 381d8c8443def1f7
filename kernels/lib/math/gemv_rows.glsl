// The rows of a matrix-vector product by lib gemv, with any prologue: sums, epilogue and stores.
//
// Needs the libs gemv and matmul_result, the constant K, the parameters row0, rows and eps, and
// WHEN post. The LET NORMED is 1 if the prologue has a norm's factor; gemv_x() then adds the
// squares of the numbers that it loads to gemv_square.
//
//! SHARED float squares[NORMED ? WG_SIZE : 0]

uint first;        // first row of the work group within the band
float gemv_square; // sum of squares of the elements of x that this thread loads

uint gemv_row(uint r)
{
    return min(first + r, rows - 1u) * uint(W_STRIDE);
}

bool gemv_has(uint r)
{
    return true; // rows beyond the band are not stored
}

// ROWS rows from row `from` of the band on.
void gemv_rows(uint tid, uint from)
{
    float sum[THREAD_ROWS];
    for (int i = 0; i < THREAD_ROWS; i++)
        sum[i] = 0.0;
    first = from;
    gemv_square = 0.0;
    gemv_add(tid, sum);
    gemv_share(tid, sum);
#if NORMED
    squares[tid] = gemv_square;
#endif
    memoryBarrierShared(); barrier();

    float scale = 1.0;
#if NORMED
    float square = 0.0;
    for (uint i = 0u; i < uint(WG_SIZE); i++)
        square += squares[i];
    scale = inversesqrt(square / float(K) + eps);
#endif
#if POST_glu
    uint out_row = (row0 + first) / 2u + tid;
    if (tid < uint(ROWS / 2) && first + 2u * tid < rows) {
        float gate = scale * gemv_sum(2u * tid), up = scale * gemv_sum(2u * tid + 1u);
        Y[out_row] = glu(gate, up, 2u * out_row);
    }
#else
    for (uint r = tid; r < uint(ROWS) && first + r < rows; r += uint(WG_SIZE)) {
        float y = result(scale * gemv_sum(r), row0 + first + r);
#if POST_add
        y += Y[row0 + first + r];
#endif
        Y[row0 + first + r] = y;
    }
#endif
}
