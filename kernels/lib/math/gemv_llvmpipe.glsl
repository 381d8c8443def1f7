// Matrix-vector product for llvmpipe (lib row_llvmpipe).
//
// A group of 32 columns is summed in two chains. Its minimum is multiplied by the sum of its x. xs
// is [vector x][column]. Each element of sums is the sum of four neighbouring elements of xs.
//
//! SHARED float sums[X_ROWS * BLOCKS * 64] // fixed: vec4s of a block
//
// The code around ROW_BLOCKS has the variables uint `row`, where the row starts in W, float `acc`,
// the sum, and const int `x_row`, the number of the vector x for this row. Needs lib row_llvmpipe,
// the tunable WG_SIZE and a function of the kernel:
vec4 gemv_x(uint s, uint i); // elements 4 i .. 4 i + 3 of x number s; zero beyond K

void gemv_stage(uint tid)
{
    for (uint i = tid; i < uint(X_ROWS * KP / 4); i += uint(WG_SIZE)) {
        vec4 v = gemv_x(i / uint(KP / 4), i % uint(KP / 4));
        xs[i] = v;
        sums[i] = (v.x + v.y) + (v.z + v.w);
    }
}

#define SUM4(a, i) ((a[i] + a[(i) + 1]) + (a[(i) + 2] + a[(i) + 3]))
#define SUM8(a, i) (SUM4(a, i) + SUM4(a, (i) + 4))
#define GROUP(g, d, m) \
    { \
        float gd = d, gm = m; \
        vec2 chains = vec2(0.0);
#define CODES(c, v0, v1, v2, v3) \
        { \
            vec4 products = vec4(v0, v1, v2, v3) * xs[(x_row * KP + (c)) / 4]; \
            chains += products.xy; \
            chains += products.zw; \
        }
#define GROUP_END(g) \
        acc += gd * (chains.x + chains.y) - gm * SUM8(sums, x_row * KP / 4 + 8 * (g)); \
    }
