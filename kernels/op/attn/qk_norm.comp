// RMS norm of queries and keys before they are rotated, in place.
//
// A unit is one head of q or k. With span=all, a unit is all heads of a token's q, or of its k.
// Each unit is replaced by q * rsqrt(mean(q^2) + eps) * g. QKV is [T][QKV_STRIDE] f32. G contains
// the weights g, those of q's units before those of k's.
//
// Layout: UNIT_THREADS invocations compute one unit. A work group has WG_SIZE / UNIT_THREADS units,
// and the units of a token are neighbours. The invocations add up squares of their share of the
// unit. After the only barrier, each invocation adds up the partial sums in the same order, and
// writes the numbers that it has read.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: more UNIT_THREADS read a unit faster, but add more partial sums. WG_SIZE is the group
// size.
//
//! NAME qk_norm
//! OP qk_norm
//! VARIANT baseline
//! WHEN span head all
//! BIND readwrite vec4 QKV
//! BIND read vec4 G
//! PARAM float eps
//! CONST HEADS KV_HEADS HEAD_DIM QKV_STRIDE
//! TUNE UNIT_THREADS = SPAN_all ? 64 : HEAD_DIM > 128 && !SOFTWARE ? 32 : 8 in 8 16 32 64
//! TUNE WG_SIZE = 64 in 64 128 256 512
//! LET VEC4S = HEAD_DIM / 4
//! LET UNITS = SPAN_all ? 2 : HEADS + KV_HEADS // of a token
//! LOCAL WG_SIZE
//! GROUPS ceildiv(T * UNITS, WG_SIZE / UNIT_THREADS)
//! ACTIVE T * UNITS * (SPAN_all ? UNIT_THREADS : min(UNIT_THREADS, VEC4S))
//! SHARED float squares[WG_SIZE]
//! REQUIRE HEAD_DIM % 4 == 0 && QKV_STRIDE % 4 == 0
//! STEP read

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x;
    uint thread = tid % uint(UNIT_THREADS), slot = tid / uint(UNIT_THREADS);
    uint n = group.x * uint(WG_SIZE / UNIT_THREADS) + slot;
    uint t = n / uint(UNITS), unit = n % uint(UNITS);
#if SPAN_all
    uint first = unit * uint(HEADS * VEC4S);
    uint count = (unit == 0u ? uint(HEADS) : uint(KV_HEADS)) * uint(VEC4S);
    uint g = first;
#else
    uint first = unit * uint(VEC4S), count = uint(VEC4S);
    uint g = unit < uint(HEADS) ? 0u : uint(VEC4S);
#endif
    bool inside = t < pass_rows;
    uint at = min(t, pass_rows - 1u) * uint(QKV_STRIDE / 4) + first;
    float sum = 0.0;
    for (uint i = thread; inside && i < count; i += uint(UNIT_THREADS))
        sum += dot(QKV[at + i], QKV[at + i]);
    squares[tid] = sum;
    memoryBarrierShared(); barrier();
    sum = 0.0;
    for (uint e = 0u; e < uint(UNIT_THREADS); e++)
        sum += squares[slot * uint(UNIT_THREADS) + e];
    float r = inversesqrt(sum / float(4u * count) + eps);
    for (uint i = thread; inside && i < count; i += uint(UNIT_THREADS))
        QKV[at + i] = QKV[at + i] * r * G[g + i];
}
