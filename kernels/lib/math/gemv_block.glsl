// One lane's block of a matrix product for COLUMNS columns, 2 to 16, and its sums over the
// subgroup.
//
// A column of x is a token. A block is THREAD_ROWS rows of W by all columns of x. It is computed
// for 16 columns of K (a unit) at a time. The weights of a unit are fetched and unpacked once, and
// multiplied with every column of x. So one load of x serves all rows of the block.
//
//! LET VALUES = THREAD_ROWS * COLUMNS
//! LET OWN_VALUES = VALUES > SUBGROUP ? VALUES / SUBGROUP : 1
//
// Needs libs weight_words and weight_*, the constants K and COLUMNS, the tunables SUBGROUP and
// THREAD_ROWS, powers of two, UNIT_STRIDE and vec4s of x, xs[(4 c + j) * UNIT_STRIDE + unit], and a
// function of the kernel:
uint gemv_row(uint r); // word of W at which row r starts

// Private arrays are kept in registers only if every index is a constant, and compilers may leave
// loops rolled.
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
#define UNPACK_ROWS EACH_ROW(DECODE_ROW, 0, 0)
#define MULTIPLY_ROWS EACH_COLUMN(MULTIPLY_COLUMN)
#define ZERO_ROWS EACH_COLUMN(ZERO_COLUMN)

// Adds up `acc` over the subgroup. While a lane has several values, each step passes on half of
// them. Lane l then has the sums of values l * OWN_VALUES and on. If there are fewer values than
// lanes, it has the sum of value l * VALUES / SUBGROUP. The loops are not part of a macro, because
// a persistent program unrolls loops between constants.
#define UPPER(across) (lane & uint(across)) != 0u
#define HALVE(i, half, across) \
    float give = upper ? acc[i] : acc[(i) + (half)]; \
    acc[i] = (upper ? acc[(i) + (half)] : acc[i]) + subgroupShuffleXor(give, uint(across));

void gemv_reduce(uint lane)
{
    bool upper = UPPER(SUBGROUP / 2);
    for (int i = 0; i < VALUES / 2; i++) {
        HALVE(i, VALUES / 2, SUBGROUP / 2)
    }
    upper = UPPER(SUBGROUP / 4);
    for (int i = 0; i < VALUES / 4; i++) {
        HALVE(i, VALUES / 4, SUBGROUP / 4)
    }
#if VALUES >= 8
    upper = UPPER(SUBGROUP / 8);
    for (int i = 0; i < VALUES / 8; i++) {
        HALVE(i, VALUES / 8, SUBGROUP / 8)
    }
#endif
#if VALUES >= 16 && SUBGROUP >= 16
    upper = UPPER(SUBGROUP / 16);
    for (int i = 0; i < VALUES / 16; i++) {
        HALVE(i, VALUES / 16, SUBGROUP / 16)
    }
#endif
#if VALUES >= 32 && SUBGROUP >= 32
    upper = UPPER(SUBGROUP / 32);
    for (int i = 0; i < VALUES / 32; i++) {
        HALVE(i, VALUES / 32, SUBGROUP / 32)
    }
#endif
#if VALUES >= 64 && SUBGROUP >= 64
    upper = UPPER(SUBGROUP / 64);
    for (int i = 0; i < VALUES / 64; i++) {
        HALVE(i, VALUES / 64, SUBGROUP / 64)
    }
#endif
    for (uint across = uint(SUBGROUP / VALUES / 2); across > 0u; across /= 2u)
        acc[0] += subgroupShuffleXor(acc[0], across);
}
