// RMS norm of queries and keys before they are turned, in place: a team of lanes per unit.
//
// A unit is a head, or with span=all the heads of a token's query or key together; q <- q *
// rsqrt(mean(q^2) + eps) * gain, the gain of q's units before that of k's. A team squares its unit;
// after the only barrier each of its lanes adds up the team's partial sums in the same order, and
// writes what it has read. Groups: LOCAL_X / TEAM units each, units of a token side by side.
//
//! NAME qk_norm
//! OP qk_norm
//! VARIANT baseline
//! WHEN span head all
//! BIND readwrite vec4 QKV
//! BIND read vec4 G
//! PARAM float eps
//! CONST HEADS KV_HEADS HEAD_DIM QKV_STRIDE
//! TUNE TEAM = SPAN_all ? 64 : HEAD_DIM > 128 && !SOFTWARE ? 32 : 8 in 8 16 32 64
//! LOCAL 64
//! GROUPS ceildiv(T * (SPAN_all ? 2 : HEADS + KV_HEADS), 64 / TEAM)
//! SHARED float squares[64]
//! REQUIRE HEAD_DIM % 4 == 0 && QKV_STRIDE % 4 == 0
//! STEP read

const uint QUADS = uint(HEAD_DIM / 4);

void body(uvec3 group)
{
    uint lane = gl_LocalInvocationID.x % uint(TEAM), team = gl_LocalInvocationID.x / uint(TEAM);
    uint item = group.x * uint(64 / TEAM) + team;
#if SPAN_all
    const uint UNITS = 2u;
    uint unit = item % UNITS;
    uint first = unit * uint(HEADS) * QUADS;
    uint count = (unit == 0u ? uint(HEADS) : uint(KV_HEADS)) * QUADS;
    uint gain = first;
#else
    const uint UNITS = uint(HEADS + KV_HEADS);
    uint unit = item % UNITS;
    uint first = unit * QUADS, count = QUADS;
    uint gain = unit < uint(HEADS) ? 0u : QUADS;
#endif
    bool inside = item / UNITS < step_tokens;
    uint at = min(item / UNITS, step_tokens - 1u) * uint(QKV_STRIDE / 4) + first;
    float sum = 0.0;
    for (uint i = lane; inside && i < count; i += uint(TEAM))
        sum += dot(QKV[at + i], QKV[at + i]);
    squares[gl_LocalInvocationID.x] = sum;
    memoryBarrierShared(); barrier();
    sum = 0.0;
    for (uint i = 0u; i < uint(TEAM); i++)
        sum += squares[team * uint(TEAM) + i];
    float r = inversesqrt(sum / float(4u * count) + eps);
    for (uint i = lane; inside && i < count; i += uint(TEAM))
        QKV[at + i] = QKV[at + i] * r * G[gain + i];
}
