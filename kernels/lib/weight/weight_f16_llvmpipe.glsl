// f16 for llvmpipe, a thread per row; lib row_llvmpipe explains the macros. Needs lib
// weight_llvmpipe.
#define F16_WORD(c, q) { vec2 p = unpackHalf2x16(q); CODE(c, p.x) CODE(c + 1, p.y) }
#define ROW_BLOCK(n)   FLOAT16_BLOCK(n, F16_WORD)
