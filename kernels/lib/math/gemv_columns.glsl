// Matrix product for COLUMNS columns, 2 to 16, with subgroups: lanes lie along K, weights stay in
// registers, columns are in shared memory.
//
// A lane has a unit of 16 columns of W of THREAD_ROWS rows at a time: it unpacks them once and
// meets every column of x with them, so that one load of x serves all its rows. Work goes in chunks
// of a unit per lane: K_PARTS subgroups are side by side along K, SETS such sets share the chunk's
// x and have THREAD_ROWS rows each. The weights of the next chunk are asked for before x is.
//
//! LET UNITS = SUBGROUP * K_PARTS // of a chunk
//! LET ROWS = SETS * THREAD_ROWS
//! LET VALUES = THREAD_ROWS * COLUMNS
//! LET OWN_VALUES = VALUES > SUBGROUP ? VALUES / SUBGROUP : 1
//! LET X_LOADS = 4 * COLUMNS / SETS
//! LET GEMV_SIDES = max(1, SETS / 4) // columns that are stored side by side
//! LET UNIT_STRIDE = UNITS + 2 // lanes that store x meet different banks
//! SHARED vec4 xs[COLUMNS * 4 * UNIT_STRIDE]
//! SHARED float part[ROWS * COLUMNS * K_PARTS]
//
// Needs libs weight_words and weight_*, the constants K and COLUMNS, the tunables SUBGROUP,
// K_PARTS, SETS and THREAD_ROWS, all powers of two, and two functions of the kernel:
uint gemv_row(uint r); // word of W at which row r of the group starts
// Elements 4 i .. 4 i + 3 of column `column + side`; called once for each i below K / 4. `column`
// is a constant; `side`, below GEMV_SIDES, is the invocation's.
vec4 gemv_x(uint column, uint side, uint i);

// Private arrays stay in registers only if every index is a constant, and loops may stay loops.
#define TIMES_1(F, i)  F((i))
#define TIMES_2(F, i)  TIMES_1(F, i) TIMES_1(F, (i) + 1)
#define TIMES_4(F, i)  TIMES_2(F, i) TIMES_2(F, (i) + 2)
#define TIMES_8(F, i)  TIMES_4(F, i) TIMES_4(F, (i) + 4)
#define TIMES_16(F, i) TIMES_8(F, i) TIMES_8(F, (i) + 8)
#define TIMES_32(F, i) TIMES_16(F, i) TIMES_16(F, (i) + 16)
#if THREAD_ROWS == 2
#define EACH_ROW(F, c, j) F(0, c, j) F(1, c, j)
#elif THREAD_ROWS == 4
#define EACH_ROW(F, c, j) F(0, c, j) F(1, c, j) F(2, c, j) F(3, c, j)
#else
#define EACH_ROW(F, c, j) \
    F(0, c, j) F(1, c, j) F(2, c, j) F(3, c, j) F(4, c, j) F(5, c, j) F(6, c, j) F(7, c, j)
#endif
#if COLUMNS == 2
#define EACH_COLUMN(F) TIMES_2(F, 0)
#elif COLUMNS == 4
#define EACH_COLUMN(F) TIMES_4(F, 0)
#elif COLUMNS == 8
#define EACH_COLUMN(F) TIMES_8(F, 0)
#else
#define EACH_COLUMN(F) TIMES_16(F, 0)
#endif

uvec4 next[THREAD_ROWS * WEIGHT_RAW];
float acc[VALUES]; // [row][column]

void gemv_fetch(uint row0, uint unit)
{
    for (int r = 0; r < THREAD_ROWS; r++) {
        uvec4 raw[WEIGHT_RAW];
        weight_fetch16(gemv_row(row0 + uint(r)), unit < uint(K / 16) ? 16u * unit : 0u, raw);
        for (int j = 0; j < WEIGHT_RAW; j++)
            next[r * WEIGHT_RAW + j] = raw[j];
    }
}

// The chunk's x to shared memory, zeros beyond K.
void gemv_stage(uint tid, uint unit0)
{
    for (int n = 0; n < X_LOADS; n++) {
        uint column = uint(n * SETS / 4), side = tid / uint(4 * UNITS);
        uint v = uint(n * SETS % 4 * UNITS) + tid % uint(4 * UNITS);
        vec4 x = vec4(0.0);
        if (4u * unit0 + v < uint(K / 4))
            x = gemv_x(column, side, 4u * unit0 + v);
        xs[(4u * (column + side) + v % 4u) * uint(UNIT_STRIDE) + v / 4u] = x;
    }
}

#define DECODE_ROW(r, c, j) \
    for (int i = 0; i < WEIGHT_RAW; i++) \
        raw[i] = next[(r) * WEIGHT_RAW + i]; \
    weight_decode16(raw, k, one); \
    w[4 * (r)] = one[0]; \
    w[4 * (r) + 1] = one[1]; \
    w[4 * (r) + 2] = one[2]; \
    w[4 * (r) + 3] = one[3];
#define MULTIPLY_ROW(r, c, j) \
    acc[(r) * COLUMNS + (c)] += w[4 * (r) + (j)].x * x.x; \
    acc[(r) * COLUMNS + (c)] += w[4 * (r) + (j)].y * x.y; \
    acc[(r) * COLUMNS + (c)] += w[4 * (r) + (j)].z * x.z; \
    acc[(r) * COLUMNS + (c)] += w[4 * (r) + (j)].w * x.w;
#define MULTIPLY_VEC4(c, j) \
    x = xs[uint((4 * (c) + (j)) * UNIT_STRIDE) + at]; \
    EACH_ROW(MULTIPLY_ROW, c, j)
#define MULTIPLY_COLUMN(c) \
    MULTIPLY_VEC4(c, 0) MULTIPLY_VEC4(c, 1) MULTIPLY_VEC4(c, 2) MULTIPLY_VEC4(c, 3)
#define ZERO_ROW(r, c, j) acc[(r) * COLUMNS + (c)] = 0.0;
#define ZERO_COLUMN(c)    EACH_ROW(ZERO_ROW, c, 0)

void gemv_multiply(uint unit, uint at)
{
    uint k = unit < uint(K / 16) ? 16u * unit : 0u;
    uvec4 raw[WEIGHT_RAW];
    vec4 w[4 * THREAD_ROWS], one[4], x;
    EACH_ROW(DECODE_ROW, 0, 0)
    EACH_COLUMN(MULTIPLY_COLUMN)
}

// Adds up `acc` over the subgroup, giving away half of the values with each step while a lane has
// several: then lane l has the sums of values l * OWN_VALUES and on, or, with fewer values than
// lanes, of value l * VALUES / SUBGROUP.
#define HALVE(half, across) \
    upper = (lane & uint(across)) != 0u; \
    for (int i = 0; i < (half); i++) { \
        float give = upper ? acc[i] : acc[i + (half)]; \
        acc[i] = (upper ? acc[i + (half)] : acc[i]) + subgroupShuffleXor(give, uint(across)); \
    }

void gemv_reduce(uint lane)
{
    bool upper;
    HALVE(VALUES / 2, SUBGROUP / 2)
    HALVE(VALUES / 4, SUBGROUP / 4)
#if VALUES >= 8
    HALVE(VALUES / 8, SUBGROUP / 8)
#endif
#if VALUES >= 16 && SUBGROUP >= 16
    HALVE(VALUES / 16, SUBGROUP / 16)
#endif
#if VALUES >= 32 && SUBGROUP >= 32
    HALVE(VALUES / 32, SUBGROUP / 32)
#endif
#if VALUES >= 64 && SUBGROUP >= 64
    HALVE(VALUES / 64, SUBGROUP / 64)
#endif
    for (uint across = uint(SUBGROUP / VALUES / 2); across > 0u; across /= 2u)
        acc[0] += subgroupShuffleXor(acc[0], across);
}

// Puts the products of the group's rows with all columns into shared memory for gemv_sum(), which
// needs a barrier between. (part_k, set) is the subgroup's place in the grid.
void gemv_columns(uint tid, uint lane, uint part_k, uint set)
{
    const uint CHUNKS = uint((K / 16 + UNITS - 1) / UNITS);
    uint row0 = set * uint(THREAD_ROWS), at = part_k * uint(SUBGROUP) + lane;
    EACH_COLUMN(ZERO_COLUMN)
    gemv_fetch(row0, at);
    for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
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
