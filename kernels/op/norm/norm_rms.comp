// RMS norm of one token per work group, with a single barrier.
//
// Y[t, i] = X[t, i] * rsqrt(mean_i(X[t, :]^2) + eps) * G[i] for i < H, or added to Y. X is
// [T][X_STRIDE], Y is [T][Y_STRIDE], G is [H]; H and the strides are multiples of 4. Group x is
// token t.
//
// Each invocation squares every WG_SIZE-th vec4 of the row. After the barrier each adds up all
// partial sums as one balanced tree at constant addresses (the fast kind of shared load on
// llvmpipe, a broadcast on GPUs): the order is fixed, so all invocations have the same bits.
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
//! TUNE WG_SIZE = 64 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS T
//! ACTIVE T * min(WG_SIZE, H / 4)
//! REQUIRE H % 4 == 0 && X_STRIDE % 4 == 0 && Y_STRIDE % 4 == 0
//! SHARED float squares[WG_SIZE]
//! PREFER 10
//! STEP read

#define SUM8(i)   ((squares[i] + squares[i + 1]) + (squares[i + 2] + squares[i + 3]) + \
                   ((squares[i + 4] + squares[i + 5]) + (squares[i + 6] + squares[i + 7])))
#define SUM32(i)  (SUM8(i) + SUM8(i + 8) + (SUM8(i + 16) + SUM8(i + 24)))
#define SUM64(i)  (SUM32(i) + SUM32(i + 32))
#define SUM128(i) (SUM64(i) + SUM64(i + 64))

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, t = min(group.x, pass_rows - 1u);
    uint x0 = t * uint(X_STRIDE / 4), y0 = t * uint(Y_STRIDE / 4);
    float sum = 0.0;
    for (uint i = tid; i < uint(H / 4); i += uint(LOCAL_X)) {
        vec4 x = X[x0 + i];
        sum += dot(x, x);
    }
    squares[tid] = sum;
    memoryBarrierShared(); barrier();
#if WG_SIZE == 32
    sum = SUM32(0);
#elif WG_SIZE == 64
    sum = SUM64(0);
#elif WG_SIZE == 128
    sum = SUM128(0);
#elif WG_SIZE == 256
    sum = SUM128(0) + SUM128(128);
#else
    sum = (SUM128(0) + SUM128(128)) + (SUM128(256) + SUM128(384));
#endif
    float r = inversesqrt(sum / float(H) + eps);
    for (uint i = tid; i < uint(H / 4); i += uint(LOCAL_X)) {
        vec4 y = X[x0 + i] * r * G[i];
#if POST_add
        y += Y[y0 + i];
#endif
        Y[y0 + i] = y;
    }
}
