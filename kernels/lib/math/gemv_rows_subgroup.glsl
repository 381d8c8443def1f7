// The rows of a matrix-vector product by lib gemv_subgroup, with any prologue.
//
// The lib decides which rows a work group has, stages x, applies the epilogue and stores the
// results. Each group has LEAST rows or more, and there are at most GROUPS_MOST groups. The rows
// are divided evenly, in steps of ROW_STEP (pairs for post=glu).
//
//! SHARED float squares[NORMED ? 8 * SLICES : 0]
//
// Needs libs gemv_subgroup and matmul_result, the constants K and W_STRIDE, the parameters row0,
// rows and eps, the tunable LEAST, the LETs SLICES, GROUPS_MOST, ROW_STEP, GROUP_ROWS and NORMED
// (the prologue has a norm's factor), WHEN post, and two functions of the kernel:
void rows_begin(uint tid);               // before rows_x(), with the first weights under way
vec4 rows_x(uint i, inout float square); // elements 4 i .. 4 i + 3 of x; adds their squares

uint first; // first row of the work group within the band

uint gemv_slice(uint slice)
{
    return slice;
}

uint gemv_row(uint r)
{
    return (first + r) * uint(W_STRIDE / 4);
}

bool gemv_has(uint slice, uint r)
{
    return true;
}

// Returns a vec4 of x. Each subgroup adds the squares of the elements that it stages to one sum,
// which does not depend on the subgroup that stages them.
vec4 gemv_x(uint slice, uint i)
{
    uint v = slice * uint(8 * SUBGROUP) + i;
    bool inside = v < uint(K / 4);
    float square = 0.0;
    vec4 x = rows_x(min(v, uint(K / 4 - 1)), square);
    x = inside ? x : vec4(0.0);
#if NORMED
    square = inside ? square : 0.0;
    for (uint across = uint(SUBGROUP / 2); across > 0u; across /= 2u)
        square += subgroupShuffleXor(square, across);
    if (gemv_lane == 0u && slice < uint(SLICES))
        squares[v / uint(SUBGROUP)] = square;
#endif
    return x;
}

// Called from begin() of the kernel: finds the group's rows and loads the first weights.
void gemv_rows_begin(uint group)
{
    uint groups = min((rows + uint(LEAST - 1)) / uint(LEAST), uint(GROUPS_MOST));
    uint share = rows / uint(ROW_STEP) / groups, rest = rows / uint(ROW_STEP) % groups;
    first = uint(ROW_STEP) * (group * share + min(group, rest));
    gemv_count = 0u;
    if (group < groups)
        gemv_begin(uint(ROW_STEP) * (share + (group < rest ? 1u : 0u)), rows >> 31);
}

void gemv_rows(uint tid)
{
    uint count = gemv_count, zero = rows >> 31;
    if (count == 0u)
        return;
    rows_begin(tid);
    for (uint chunk = 0u; chunk < count; chunk += uint(CHUNK)) {
        uint n = min(count - chunk, uint(CHUNK)), row = row0 + first + chunk;
        // Loaded before the weights arrive.
#if POST_add
        float before = tid < n ? Y[row + tid] : 0.0;
#endif
#if BIAS_row && !POST_glu
        vec4 bias = bias_fetch(row + min(tid, n - 1u));
#endif
        gemv_chunk(chunk, n, zero);
        float scale = 1.0;
#if NORMED
        float square = 0.0;
        for (int i = 0; i < SLICES; i++)
            for (int j = 0; j < 8; j++)
                square += squares[8 * i + j];
        scale = inversesqrt(square / float(K) + eps);
#endif
#if POST_glu
        if (tid < n / 2u)
            Y[row / 2u + tid] = glu(scale * gemv_sum(2u * tid), scale * gemv_sum(2u * tid + 1u),
                                    row + 2u * tid);
#else
        if (tid < n) {
#if BIAS_row
            float y = result_by(scale * gemv_sum(tid), row + tid, bias);
#else
            float y = result(scale * gemv_sum(tid), row + tid);
#endif
#if POST_add
            y += before;
#endif
            Y[row + tid] = y;
        }
#endif
        if (chunk + uint(CHUNK) < count) {
            memoryBarrierShared(); barrier(); // `part` has been read
        }
    }
}
