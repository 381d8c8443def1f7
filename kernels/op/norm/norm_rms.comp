// RMS norm of one token per work group, with a single barrier.
//
// Y[t, i] = X[t, i] * rsqrt(mean_i(X[t, :]^2) + eps) * G[i], or added to Y. Each lane squares its
// share of the row; after the barrier every lane adds up all 64 partial sums, at constant addresses
// (the fast kind of shared load on llvmpipe, a broadcast on GPUs), in the same order, so that all
// lanes have the same bits.
//
//! NAME norm_rms
//! OP norm
//! VARIANT baseline
//! WHEN post store add
//! BIND read vec4 X
//! BIND read vec4 G
//! BIND readwrite vec4 Y
//! PARAM float eps
//! CONST H X_STRIDE Y_STRIDE
//! LOCAL 64
//! GROUPS T
//! SHARED float squares[64]
//! PREFER 10
//! STEP read

#define SUM8(i) ((squares[i] + squares[i + 1]) + (squares[i + 2] + squares[i + 3]) + \
                 ((squares[i + 4] + squares[i + 5]) + (squares[i + 6] + squares[i + 7])))

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x, t = min(group.x, step_tokens - 1u);
    uint x0 = t * uint(X_STRIDE / 4), y0 = t * uint(Y_STRIDE / 4);
    float sum = 0.0;
    for (uint i = lane; i < uint(H / 4); i += 64u) {
        vec4 x = X[x0 + i];
        sum += dot(x, x);
    }
    squares[lane] = sum;
    memoryBarrierShared(); barrier();
    sum = (SUM8(0) + SUM8(8) + (SUM8(16) + SUM8(24))) +
          (SUM8(32) + SUM8(40) + (SUM8(48) + SUM8(56)));
    float r = inversesqrt(sum / float(H) + eps);
    for (uint i = lane; i < uint(H / 4); i += 64u) {
        vec4 y = X[x0 + i] * r * G[i];
#if POST_add
        y += Y[y0 + i];
#endif
        Y[y0 + i] = y;
    }
}
