// Weights of type f16 for llvmpipe, one invocation per row. See lib row_llvmpipe for the macros.
// Needs lib weight_llvmpipe.
#define F16_WORDS(c, p, q) \
    { \
        vec2 e = unpackHalf2x16(p), f = unpackHalf2x16(q); \
        CODES(c, e.x, e.y, f.x, f.y) \
    }
#define ROW_BLOCK(n) FLOAT16_BLOCK(n, F16_WORDS)
