// Matrix product for COLUMNS columns of x, 2 to 16, with subgroups.
//
// A column of x is a token. Lanes are next to each other along K. Weights are in registers, and the
// columns of x in shared memory. A lane has a unit of 16 columns of K of THREAD_ROWS rows at a
// time. It unpacks these weights once and multiplies them with every column of x, so that one load
// of x serves all its rows.
//
// Work is done in chunks of one unit per lane. K_PARTS subgroups are next to each other along K.
// SETS such sets share the chunk's x, and have THREAD_ROWS rows each. The weights of the next chunk
// are loaded before its x.
//
//! LET UNITS = SUBGROUP * K_PARTS // of a chunk
//! LET ROWS = SETS * THREAD_ROWS
//! LET X_LOADS = 4 * COLUMNS / SETS
//! LET GEMV_SIDES = max(1, SETS / 4) // columns that are stored side by side
//! LET UNIT_STRIDE = UNITS + 2 // lanes that store x meet different banks
//! SHARED vec4 xs[COLUMNS * 4 * UNIT_STRIDE]
//! SHARED float part[ROWS * COLUMNS * K_PARTS]
//! LIB loop_end
// Needs libs gemv_block and what that needs, the parameter rows, the tunables K_PARTS
// and SETS, powers of two, and a function of the kernel besides gemv_row(), whose rows are the
// group's:
// Elements 4 i .. 4 i + 3 of column `column + side`; called once for each i below K / 4. `column`
// is a constant; `side`, below GEMV_SIDES, is the invocation's.
vec4 gemv_x(uint column, uint side, uint i);

// Writes the chunk's x to shared memory, with zeros beyond K. If all chunks are full, the loads
// come first and without a condition. Otherwise NVIDIA's compiler makes each load a branch that
// waits for it, and for all pending weights.
void gemv_stage(uint tid, uint unit0)
{
    uint side = tid / uint(4 * UNITS);
#if K % (16 * UNITS) == 0
    vec4 x[X_LOADS];
    for (int n = 0; n < X_LOADS; n++)
        x[n] = gemv_x(uint(n * SETS / 4), side,
                      4u * unit0 + uint(n * SETS % 4 * UNITS) + tid % uint(4 * UNITS));
#endif
    for (int n = 0; n < X_LOADS; n++) {
        uint column = uint(n * SETS / 4);
        uint v = uint(n * SETS % 4 * UNITS) + tid % uint(4 * UNITS);
        uint to = (4u * (column + side) + v % 4u) * uint(UNIT_STRIDE) + v / 4u;
#if K % (16 * UNITS) == 0
        xs[to] = x[n];
#else
        vec4 x = vec4(0.0);
        if (4u * unit0 + v < uint(K / 4))
            x = gemv_x(column, side, 4u * unit0 + v);
        xs[to] = x;
#endif
    }
}

void gemv_multiply(uint unit, uint at)
{
    uint k = unit < uint(K / 16) ? 16u * unit : 0u;
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4 * THREAD_ROWS], one[4], x;
    UNPACK_ROWS
    MULTIPLY_ROWS
}

// Writes the products of the group's rows with all columns to shared memory for gemv_sum(). A
// barrier must follow before gemv_sum(). (part_k, set) is the subgroup's place in the grid.
void gemv_columns(uint tid, uint lane, uint part_k, uint set)
{
    const uint CHUNKS = uint((K / 16 + UNITS - 1) / UNITS);
    uint row0 = set * uint(THREAD_ROWS), at = part_k * uint(SUBGROUP) + lane;
    ZERO_ROWS
    gemv_fetch(row0, at);
    // LLVM spills no registers if two chunks are unrolled. It spills 7 registers in a loop, with 8
    // columns of f32 or q5_k.
    uint chunks = K > 32 * UNITS ? LOOP_END(CHUNKS, rows) : CHUNKS;
    for (uint chunk = 0u; chunk < chunks; chunk++) {
        uint unit0 = chunk * uint(UNITS);
        if (chunk > 0u) {
            memoryBarrierShared(); barrier();
        }
        gemv_stage(tid, unit0);
        memoryBarrierShared(); barrier();
        gemv_multiply(unit0 + at, at);
        if (chunk + 1u < CHUNKS)
            gemv_fetch(row0, unit0 + uint(UNITS) + at);
    }
    gemv_reduce(lane);
    for (int i = 0; i < OWN_VALUES; i++) {
        uint value = VALUES >= SUBGROUP ? lane * uint(OWN_VALUES) + uint(i)
                                        : lane / uint(max(SUBGROUP / VALUES, 1));
        part[(set * uint(VALUES) + value) * uint(K_PARTS) + part_k] = acc[i];
    }
}

// Product of row r of the group with a column.
float gemv_sum(uint r, uint column)
{
    float y = 0.0;
    for (uint i = 0u; i < uint(K_PARTS); i++)
        y += part[(r * uint(COLUMNS) + column) * uint(K_PARTS) + i];
    return y;
}
