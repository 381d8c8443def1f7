// Weights of type bf16 for llvmpipe, one invocation per row. See lib row_llvmpipe for the macros.
// Needs lib weight_llvmpipe.
#define BF16_WORDS(c, p, q) \
    CODES(c, uintBitsToFloat(p << 16), uintBitsToFloat(p & 0xFFFF0000u), \
          uintBitsToFloat(q << 16), uintBitsToFloat(q & 0xFFFF0000u))
#define ROW_BLOCK(n) FLOAT16_BLOCK(n, BF16_WORDS)
