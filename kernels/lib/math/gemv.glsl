// Matrix-vector product through shared memory: ROW_THREADS invocations share a row of weights.
//
// BK columns of x at a time are in shared memory. Invocation m of a row processes every
// ROW_THREADS-th unit of 16 columns, from unit m on, so that neighbouring invocations read
// neighbouring weights. Each invocation has THREAD_ROWS rows.
//
//! SHARED vec4 xs[BK / 4]
//! SHARED float part[WG_SIZE * THREAD_ROWS] // [row of the group][thread of the row]
//
// Needs lib weight_*, the constant K, the tunables WG_SIZE, ROW_THREADS, THREAD_ROWS and BK, and
// three functions of the kernel:
uint gemv_row(uint r);  // word of W at which row r of the work group starts
bool gemv_has(uint r);  // returns false if row r adds nothing and must not be read
vec4 gemv_x(uint i);    // elements 4 i .. 4 i + 3 of x; called once for each i below K / 4

// Returns the product of columns k .. k + 15 of a row with unit `unit` of xs.
float gemv_unit(uint row, uint k, uint unit)
{
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4];
    weight_fetch16(row, k, raw);
    weight_decode16(raw, k, w);
    return (dot(w[0], xs[4u * unit]) + dot(w[1], xs[4u * unit + 1u])) +
           (dot(w[2], xs[4u * unit + 2u]) + dot(w[3], xs[4u * unit + 3u]));
}

// Adds this invocation's share of the product to the sums of its rows.
void gemv_add(uint tid, inout float sum[THREAD_ROWS])
{
    uint member = tid % uint(ROW_THREADS), r0 = tid / uint(ROW_THREADS) * uint(THREAD_ROWS);
    for (uint k0 = 0u; k0 < uint(K); k0 += uint(BK)) {
        uint units = min(uint((K + 15) / 16) - k0 / 16u, uint(BK / 16));
        for (uint i = tid; i < 4u * units; i += uint(WG_SIZE))
            xs[i] = k0 / 4u + i < uint(K / 4) ? gemv_x(k0 / 4u + i) : vec4(0.0);
        memoryBarrierShared(); barrier();
        for (int i = 0; i < THREAD_ROWS; i++)
            if (gemv_has(r0 + uint(i))) {
                uint row = gemv_row(r0 + uint(i));
                for (uint unit = member; unit < units; unit += uint(ROW_THREADS))
                    sum[i] += gemv_unit(row, k0 + 16u * unit, unit);
            }
        memoryBarrierShared(); barrier();
    }
}

// Writes the invocation's sums to shared memory for gemv_sum(). A barrier must follow before
// gemv_sum().
void gemv_share(uint tid, float sum[THREAD_ROWS])
{
    uint member = tid % uint(ROW_THREADS), r0 = tid / uint(ROW_THREADS) * uint(THREAD_ROWS);
    for (int i = 0; i < THREAD_ROWS; i++)
        part[(r0 + uint(i)) * uint(ROW_THREADS) + member] = sum[i];
}

// Returns the sum of row r of the work group.
float gemv_sum(uint r)
{
    float y = 0.0;
    for (uint i = 0u; i < uint(ROW_THREADS); i++)
        y += part[r * uint(ROW_THREADS) + i];
    return y;
}
