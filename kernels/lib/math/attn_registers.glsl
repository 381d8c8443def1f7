// Attention of ROWS queries by one invocation, key after key.
//
// Queries and results are in private arrays. The softmax is online and uses powers of two. Its
// reference maximum is only raised if a score exceeds it by more than 8. Weights up to 2^8 lose no
// precision in f32, and so the results need not be rescaled at every key. Needs libs kv_vec8 and
// unroll, the derived constants ROWS and VEC4S = HEAD_DIM / 4.

vec4 q[ROWS * VEC4S], o[ROWS * VEC4S]; // o: weights times values, of these keys
float row_max[ROWS], row_sum[ROWS];    // their reference maximum and the sum of weights

// Products of a key with all queries.
void multiply_key(uint key, out float s[ROWS])
{
    vec4 a, b;
    for (int r = 0; r < ROWS; r++)
        s[r] = 0.0;
#define MULTIPLY_ROW(i, r)                                                                         \
    s[r] += dot(q[r * VEC4S + 2 * i], a) + dot(q[r * VEC4S + 2 * i + 1], b);
#define MULTIPLY(i)                                                                                \
    kv_load_vec8(key, uint(i), a, b);                                                              \
    EACH_ROW(MULTIPLY_ROW, i)
    EACH_VEC8(MULTIPLY)
}

// Adds a value, by the scores of its key.
void add_value(uint value, float s[ROWS])
{
    vec4 a, b;
    float excess = -1.0;
    for (int r = 0; r < ROWS; r++)
        excess = max(excess, s[r] - row_max[r]);
    // The loop runs at most once. llvmpipe runs the body of an `if` for all invocations, but skips
    // a loop that no invocation enters.
    while (excess > 8.0) {
        for (int r = 0; r < ROWS; r++) {
            float new_max = max(row_max[r], s[r]);
            float rescale = exp2(row_max[r] - new_max);
#define RESCALE(i)                                                                                 \
    o[r * VEC4S + 2 * i] *= rescale;                                                               \
    o[r * VEC4S + 2 * i + 1] *= rescale;
            EACH_VEC8(RESCALE)
            row_sum[r] *= rescale;
            row_max[r] = new_max;
        }
        excess = -1.0;
    }
    for (int r = 0; r < ROWS; r++) {
        s[r] = exp2(s[r] - row_max[r]);
        row_sum[r] += s[r];
    }
// This is a loop although EACH_ROW would compile faster: with EACH_ROW, prefill is 4% slower on
// llvmpipe.
#define ADD(i)                                                                                     \
    kv_load_vec8(value, uint(i), a, b);                                                            \
    for (int r = 0; r < ROWS; r++) {                                                               \
        o[r * VEC4S + 2 * i] += s[r] * a;                                                          \
        o[r * VEC4S + 2 * i + 1] += s[r] * b;                                                      \
    }
    EACH_VEC8(ADD)
}
