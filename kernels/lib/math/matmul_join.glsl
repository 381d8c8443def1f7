// Prologue of a matrix-vector product after a block that ends with a norm.
//
// The block's result R is added to the residual stream X through that norm: x = X + R *
// rsqrt(mean(R^2) + eps) * G (docs/operations.md, pre=join and join_norm). Every work group reads
// all of R and X. So x is written to another buffer, STREAM, by one group. The squares of R are
// added up in an order that does not depend on the size of the group.
//
//! SHARED float join_squares[136] // fixed: parts of the sum, and sums of sixteen of them
//
// Needs `vec4 X[]`, `vec4 R[]`, `vec4 G[]`, `vec4 STREAM[]`, `vec4 A[]`, the constant K and the
// parameter eps.

float join_factor;

// All invocations call it before the first join_source().
void join_begin(uint tid)
{
    // Four loads at a time, because single loads would each wait for memory.
    for (uint p = tid; p < 128u; p += uint(LOCAL_X)) {
        float sum = 0.0;
        for (uint first = p; first < uint(K / 4); first += 4u * 128u) { // fixed: parts of the sum
            vec4 r[4];
            for (int j = 0; j < 4; j++)
                r[j] = R[min(first + uint(128 * j), uint(K / 4 - 1))];
            for (int j = 0; j < 4; j++)
                sum += first + uint(128 * j) < uint(K / 4) ? dot(r[j], r[j]) : 0.0;
        }
        join_squares[p] = sum;
    }
    memoryBarrierShared(); barrier();
    if (tid < 8u) {
        float sum = 0.0;
        for (int i = 0; i < 16; i++)
            sum += join_squares[tid + uint(8 * i)];
        join_squares[128u + tid] = sum;
    }
    memoryBarrierShared(); barrier();
    float square = 0.0;
    for (int i = 0; i < 8; i++)
        square += join_squares[128 + i];
    join_factor = inversesqrt(square / float(K) + eps);
}

// Returns elements 4 i .. 4 i + 3 of x, with i below K / 4. With pre=join_norm they are multiplied
// by the norm's weight, and their squares are added to `squares`. One work group `stores` x.
vec4 join_source(uint i, bool stores, inout float squares)
{
    vec4 x = X[i] + R[i] * join_factor * G[i];
    if (stores)
        STREAM[i] = x;
#if PRE_join_norm
    squares += dot(x, x);
    x *= A[i];
#endif
    return x;
}
