// The experts of each token and their weights, one work group per token.
//
// The TOP_K best of a token's E logits become its experts, with their weights, by lib moe_rank.
// LOGITS is [T][L_STRIDE] f32, from the router. ROUTE is [T][TOP_K] pairs of id and f32 weight.
//
// Layout: work group x is a token. Each invocation ranks its share of the experts.
//
// Choice: it is used if moe_router, which computes norm and router too, is not chosen.
//
// TUNEs: WG_SIZE is the group size.
//
// Utilisation: with 8 experts, 8 of 32 invocations have one expert each. Many GPUs launch whole
// subgroups only, and llvmpipe runs eight invocations at once.
//
//! NAME moe_route
//! OP moe_route
//! VARIANT baseline
//! WHEN scoring topk_softmax softmax_topk softmax_topk_norm
//! BIND read float LOGITS
//! BIND write uvec2 ROUTE
//! CONST E TOP_K L_STRIDE
//! TUNE WG_SIZE = E > 64 ? 128 : E > 32 ? 64 : 32 in 32 64 128 256 512
//! LOCAL WG_SIZE
//! GROUPS T
//! ACTIVE T * min(WG_SIZE, E)
//! REQUIRE E <= 512 && TOP_K <= E && TOP_K >= 1
//! PREFER 10
//! STEP read
//! LIB moe_rank

uint token;

float rank_logit(uint e)
{
    return LOGITS[token * uint(L_STRIDE) + e];
}

void body(uvec3 group)
{
    token = min(group.x, pass_rows - 1u);
    rank_experts(gl_LocalInvocationID.x, token);
}
