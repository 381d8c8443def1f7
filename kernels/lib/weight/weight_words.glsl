// Words of the weights in W, an array of uint or of uvec4.
//
// W_WIDTH is the number of words of an element of W. If it is 4, rows must begin at multiples of 4
// words. GPUs load 16 bytes as fast as 4.
#if W_WIDTH == 4
#define weight_load(i)  W[(i) / 4u][(i) % 4u]
#define weight_load4(i) W[(i) / 4u] // words i .. i + 3, i a multiple of 4
#else
#define weight_load(i)  W[i]
#define weight_load4(i) uvec4(W[i], W[(i) + 1u], W[(i) + 2u], W[(i) + 3u])
#endif
