// EACH_VEC8(F) expands to F(0) F(1) ... for the HEAD_DIM / 8 vec8s of a head.
//
// Private arrays are kept in registers only if every index is a constant, and Mesa does not unroll
// loops with large bodies.
#define UNROLL_1(F, i)  F((i))
#define UNROLL_2(F, i)  UNROLL_1(F, (i)) UNROLL_1(F, (i) + 1)
#define UNROLL_4(F, i)  UNROLL_2(F, (i)) UNROLL_2(F, (i) + 2)
#define UNROLL_8(F, i)  UNROLL_4(F, (i)) UNROLL_4(F, (i) + 4)
#define UNROLL_16(F, i) UNROLL_8(F, (i)) UNROLL_8(F, (i) + 8)
#define UNROLL_32(F, i) UNROLL_16(F, (i)) UNROLL_16(F, (i) + 16)

#if HEAD_DIM / 8 % 2 == 1
#define EACH_1(F) UNROLL_1(F, 0)
#else
#define EACH_1(F)
#endif
#if HEAD_DIM / 16 % 2 == 1
#define EACH_2(F) UNROLL_2(F, HEAD_DIM / 8 % 2)
#else
#define EACH_2(F)
#endif
#if HEAD_DIM / 32 % 2 == 1
#define EACH_4(F) UNROLL_4(F, HEAD_DIM / 8 % 4)
#else
#define EACH_4(F)
#endif
#if HEAD_DIM / 64 % 2 == 1
#define EACH_8(F) UNROLL_8(F, HEAD_DIM / 8 % 8)
#else
#define EACH_8(F)
#endif
#if HEAD_DIM / 128 % 2 == 1
#define EACH_16(F) UNROLL_16(F, HEAD_DIM / 8 % 16)
#else
#define EACH_16(F)
#endif
#if HEAD_DIM / 256 % 2 == 1
#define EACH_32(F) UNROLL_32(F, HEAD_DIM / 8 % 32)
#else
#define EACH_32(F)
#endif
#define EACH_VEC8(F) EACH_1(F) EACH_2(F) EACH_4(F) EACH_8(F) EACH_16(F) EACH_32(F)

// EACH_ROW(F, i) expands to F(i, 0) F(i, 1) ... for the ROWS, at most 16 and a power of two. It is
// for the text in EACH_VEC8, where a loop over rows would be one loop per vec8. Mesa needs 2 ms to
// unroll one such loop.
#define ROWS_1(F, i, r)  F((i), (r))
#define ROWS_2(F, i, r)  ROWS_1(F, (i), (r)) ROWS_1(F, (i), (r) + 1)
#define ROWS_4(F, i, r)  ROWS_2(F, (i), (r)) ROWS_2(F, (i), (r) + 2)
#define ROWS_8(F, i, r)  ROWS_4(F, (i), (r)) ROWS_4(F, (i), (r) + 4)
#define ROWS_16(F, i, r) ROWS_8(F, (i), (r)) ROWS_8(F, (i), (r) + 8)

#if ROWS == 1
#define EACH_ROW(F, i) ROWS_1(F, (i), 0)
#elif ROWS == 2
#define EACH_ROW(F, i) ROWS_2(F, (i), 0)
#elif ROWS == 4
#define EACH_ROW(F, i) ROWS_4(F, (i), 0)
#elif ROWS == 8
#define EACH_ROW(F, i) ROWS_8(F, (i), 0)
#else
#define EACH_ROW(F, i) ROWS_16(F, (i), 0)
#endif
