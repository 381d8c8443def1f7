// Rows of weights as straight-line code for llvmpipe: one row per invocation, the same x for all.
//
// llvmpipe reads shared memory at a constant address, outside of loops and branches, as one scalar
// broadcast (2 cycles). Any other load runs invocation by invocation (30 cycles and more for 8 of
// them). So x is in shared memory, and macros write out the sum over K. Only the weights are
// gathered, four words at a time.
//
// ROW_BLOCK(n) of lib weight_*_llvmpipe is the code for columns 256 n .. 256 n + 255 of a row that
// starts at element `row` of `uvec4 W[]`. It processes groups of 32 columns: GROUP(g, d, m) opens
// columns 32 g .. 32 g + 31. One CODES(c, v0, v1, v2, v3) follows for each four columns c .. c + 3.
// GROUP_END(g) closes the group. A weight is d * v - m. Libs gemv_llvmpipe and gemm_llvmpipe define
// these three macros. A statement has four columns, because Mesa's time grows with the number of
// statements. With one column per statement and a constant `if` for each, 768 columns of q4_k took
// 150 ms before LLVM began; as vec4s they take 50.
//
//! LET KP = 256 * BLOCKS
//! SHARED vec4 xs[X_ROWS * KP / 4]
//
// xs is zero beyond K. The lib needs the constant K (at most 1024) and the LETs BLOCKS (ceildiv(K,
// 256)) and X_ROWS (number of vectors x).
#if BLOCKS == 1
#define ROW_BLOCKS ROW_BLOCK(0)
#elif BLOCKS == 2
#define ROW_BLOCKS ROW_BLOCK(0) ROW_BLOCK(1)
#elif BLOCKS == 3
#define ROW_BLOCKS ROW_BLOCK(0) ROW_BLOCK(1) ROW_BLOCK(2)
#else
#define ROW_BLOCKS ROW_BLOCK(0) ROW_BLOCK(1) ROW_BLOCK(2) ROW_BLOCK(3)
#endif
