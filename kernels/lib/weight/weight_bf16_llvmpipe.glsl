// bf16 for llvmpipe, a thread per row; lib row_llvmpipe explains the macros. Needs lib
// weight_llvmpipe.
#define BF16_WORD(c, q) \
    CODE(c, uintBitsToFloat(q << 16)) \
    CODE(c + 1, uintBitsToFloat(q & 0xFFFF0000u))
#define ROW_BLOCK(n) FLOAT16_BLOCK(n, BF16_WORD)
