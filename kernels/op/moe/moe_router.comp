// Norm, router and choice of experts of one token: one work group per expert; the last one chooses.
//
// The logit of expert e is sum_k W[e, k] x[k]. With pre=norm, x is first normed: x[k] A[k] *
// rsqrt(mean(x^2) + eps), and the normed row is stored for the experts. The TOP_K best logits
// become the token's experts, with their weights (lib moe_rank). W is the router's matrix in its
// packed layout, x is f32.
//
// Layout: work group x is an expert. Its invocations share the K columns of the expert, in pieces
// of 16. The sums sum_k W[e, k] x[k] A[k] and, with pre=norm, sum_k x[k]^2 are computed together,
// so that x is read only once. With pre=norm, each group also writes its share of the normed row.
// The group that arrives last has all logits and chooses. The pieces are added in an order that
// does not depend on WG_SIZE. Otherwise WG_SIZE could change the chosen experts, and so the tokens.
//
// Choice: with PREFER 10, the plan uses this kernel instead of norm, matmul and moe_route, unless
// REGISTERS does not fit. On software renderers PREFER is -10.
//
// TUNEs: WG_SIZE is the number of invocations per expert.
//
// One H200 (driver 580), 2026-11-22, whole decode steps by `generate`, tok/s: qwen3-30b-a3b:q4_k
// 209, 216 and 213 with 32, 64 and 128 invocations; gpt-oss-20b:mxfp4 262, 260 and 256 with 64, 128
// and 256.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). V3D 4.2 spills 7:7 to 7:9, V3D
// 7.1 3:7 to 13:15, with any WG_SIZE. Separate operations, which spill none, are chosen there.
//
//! NAME moe_router
//! OP moe_router
//! VARIANT baseline
//! WHEN weight any
//! WHEN pre none norm
//! WHEN bias none row
//! WHEN scoring topk_softmax softmax_topk softmax_topk_norm
//! BIND read uint W
//! BIND read vec4 X
//! BIND read vec4 A
//! BIND write vec4 NORMED
//! BIND coherent float LOGITS
//! BIND coherent uint ARRIVED
//! BIND write uvec2 ROUTE
//! PARAM float eps
//! CONST K E TOP_K W_STRIDE BIAS_AT
//! TUNE WG_SIZE = K >= 1024 ? 64 : 32 in 32 64 128 256 512
//! LET W_WIDTH = 1
//! LET PIECES = ceildiv(K, 16)      // of the row
//! LET SHARES = ceildiv(PIECES, 16) // pieces that each of 16 invocations adds up
//! LOCAL WG_SIZE
//! GROUPS E
//! ACTIVE E * min(WG_SIZE, ceildiv(K, 16))
//! SHARED vec2 sums[PIECES] // product, square
//! SHARED vec2 sums_of_shares[16] // fixed: always by 16 invocations
//! REQUIRE E <= 512 && TOP_K <= E && TOP_K >= 1
//! REGISTERS 56
//! PREFER SOFTWARE ? -10 : 10
//! LIB weight_words
//! LIB weight_{weight}
//! LIB arrival
//! LIB last_group
//! LIB moe_rank

float rank_logit(uint e)
{
    return LOGITS[e];
}

// Returns vec4 i of x, with pre=norm times the norm's weight. The factor of the norm follows later.
// Adds the squares of x to `square`.
vec4 source(uint i, inout float square)
{
    vec4 x = i < uint(K / 4) ? X[i] : vec4(0.0);
#if PRE_norm
    square += dot(x, x);
    x *= i < uint(K / 4) ? A[i] : vec4(0.0);
#endif
    return x;
}

uvec4 first_raw[WEIGHT_RAW]; // of the invocation's first columns

// Weights never change during a step, so they are loaded while the groups wait for x.
void begin(uvec3 group)
{
    uint k = 16u * gl_LocalInvocationID.x, expert = min(group.x, uint(E - 1));
    uvec4 raw[WEIGHT_RAW];
    weight_fetch16(expert * uint(W_STRIDE), k < uint(K) ? k : 0u, raw);
    for (int i = 0; i < WEIGHT_RAW; i++)
        first_raw[i] = raw[i];
}

void body(uvec3 group)
{
    uint tid = gl_LocalInvocationID.x, expert = min(group.x, uint(E - 1));
    for (uint k = 16u * tid; k < uint(K); k += 16u * uint(LOCAL_X)) {
        uvec4 raw[WEIGHT_RAW];
        vec4 w[4];
        float square = 0.0;
        for (int i = 0; i < WEIGHT_RAW; i++)
            raw[i] = first_raw[i];
        if (PIECES > LOCAL_X && k >= 16u * uint(LOCAL_X))
            weight_fetch16(expert * uint(W_STRIDE), k, raw);
        vec4 x0 = source(k / 4u, square), x1 = source(k / 4u + 1u, square);
        vec4 x2 = source(k / 4u + 2u, square), x3 = source(k / 4u + 3u, square);
        weight_decode16(raw, k, w);
        sums[k / 16u] = vec2((dot(w[0], x0) + dot(w[1], x1)) + (dot(w[2], x2) + dot(w[3], x3)),
                             square);
    }
    memoryBarrierShared(); barrier();
    vec2 sum = vec2(0.0);
    if (tid < 16u) {
        for (int i = 0; i < SHARES; i++) { // fixed: this order does not depend on WG_SIZE
            uint piece = 16u * uint(i) + tid;
            sum += piece < uint(PIECES) ? sums[piece] : vec2(0.0);
        }
        sums_of_shares[tid] = sum;
    }
    memoryBarrierShared(); barrier();
    sum = vec2(0.0);
    for (int i = 0; i < 16; i++)
        sum += sums_of_shares[i];
    float scale = 1.0;
#if PRE_norm
    scale = inversesqrt(sum.y / float(K) + eps);
    for (uint i = expert * uint(LOCAL_X) + tid; i < uint(K / 4); i += uint(E * LOCAL_X))
        NORMED[i] = X[i] * scale * A[i];
#endif
    if (tid == 0u && group.x < uint(E)) {
        float y = scale * sum.x;
#if BIAS_row
        uint at = uint(BIAS_AT) + expert;
        y += A[at / 4u][at % 4u];
#endif
        LOGITS[expert] = y;
    }
    if (group.x < uint(E) && last_group_of_first(0u, uint(E)))
        rank_experts(tid, 0u);
}
