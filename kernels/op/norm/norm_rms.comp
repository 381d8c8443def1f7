// RMS norm of one token per work group, with a single barrier.
//
// Y[t, i] = X[t, i] * rsqrt(mean_i(X[t, :]^2) + eps) * G[i] for i < H. With post=add the result is
// added to Y instead. X is [T][X_STRIDE], Y is [T][Y_STRIDE], G is [H], all f32. H and the strides
// are multiples of 4.
//
// Layout: work group x is token t. The squares are added up in 64 parts. A part contains every 64th
// vec4 of the row, and an invocation loads AT_ONCE of them at a time. After the barrier each
// invocation adds up all partial sums as one balanced tree, from constant addresses. Such loads
// from shared memory are fast on llvmpipe, and a broadcast on GPUs. All invocations get the same
// bits, whatever their number.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the number of invocations per token. A larger AT_ONCE starts more loads at
// once, but needs more registers.
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
//! TUNE WG_SIZE = SOFTWARE || H < 257 ? 64 : MAX_INVOCATIONS < 256 ? 128 : 256 in 32 64 128 256 512
//! TUNE AT_ONCE = SOFTWARE ? 1 : 4 in 1 2 4 8
//! LOCAL WG_SIZE
//! GROUPS T
//! ACTIVE T * min(WG_SIZE, H / 4)
//! REQUIRE H % 4 == 0 && X_STRIDE % 4 == 0 && Y_STRIDE % 4 == 0
//! SHARED float squares[64] // fixed: parts of the sum
//! PREFER 10
//! STEP read

#define SUM8(i)   ((squares[i] + squares[i + 1]) + (squares[i + 2] + squares[i + 3]) + \
                   ((squares[i + 4] + squares[i + 5]) + (squares[i + 6] + squares[i + 7])))
#define SUM32(i)  (SUM8(i) + SUM8(i + 8) + (SUM8(i + 16) + SUM8(i + 24)))
#define SUM64(i)  (SUM32(i) + SUM32(i + 32))

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, t = min(group.x, pass_rows - 1u);
    uint x0 = t * uint(X_STRIDE / 4), y0 = t * uint(Y_STRIDE / 4);
    for (uint p = tid; p < 64u; p += uint(LOCAL_X)) {
        float sum = 0.0;
        for (uint i = p; i < uint(H / 4); i += uint(AT_ONCE) * 64u) { // fixed: parts of the sum
            vec4 x[AT_ONCE];
            for (int j = 0; j < AT_ONCE; j++)
                x[j] = X[x0 + (j == 0 ? i : min(i + uint(64 * j), uint(H / 4 - 1)))];
            for (int j = 0; j < AT_ONCE; j++)
                sum += j == 0 || i + uint(64 * j) < uint(H / 4) ? dot(x[j], x[j]) : 0.0;
        }
        squares[p] = sum;
    }
    memoryBarrierShared(); barrier();
    float sum = SUM64(0);
    float r = inversesqrt(sum / float(H) + eps);
    for (uint i = tid; i < uint(H / 4); i += uint(LOCAL_X)) {
        vec4 y = X[x0 + i] * r * G[i];
#if POST_add
        y += Y[y0 + i];
#endif
        Y[y0 + i] = y;
    }
}
