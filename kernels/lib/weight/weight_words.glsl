// Words of the weights in W, an array of uint or of uvec4.
//
// W_WIDTH is the number of words of an element of W. If it is 4, rows must begin at multiples of 4
// words. GPUs load 16 bytes as fast as 4.
#if W_WIDTH == 4
#define weight_load(i)  W[(i) / 4u][(i) % 4u]
#define weight_load2(i) (((i) & 2u) == 0u ? W[(i) / 4u].xy : W[(i) / 4u].zw) // i, i + 1; i even
#define weight_load4(i) W[(i) / 4u] // words i .. i + 3, i a multiple of 4
#else
#define weight_load(i)  W[i]
#define weight_load2(i) uvec2(W[i], W[(i) + 1u])
#define weight_load4(i) uvec4(W[i], W[(i) + 1u], W[(i) + 2u], W[(i) + 3u])
#endif

// Entries of IQ4's table, -127 to 113, for codes in the lowest four bits: a polynomial in 1 + q /
// 16 that is within 0.45 of the entries.
vec4 iq4_entries(uvec4 q)
{
    vec4 t = uintBitsToFloat(((q & 15u) << 19) | 0x3F800000u);
    t = (((103.593 * t - 286.218) * t - 114.775) * t + 1060.82) * t - 890.0;
    return floor(t + 0.5);
}

// Word i of the table of a format with a grid.
#define weight_grid(i) WEIGHT_GRID[i]
