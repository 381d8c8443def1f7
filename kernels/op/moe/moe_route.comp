// The experts of each token and their weights, one work group per token.
//
// Lib moe_rank, over the router's logits. Groups: a token each.
//
// Utilisation: of 8 experts 8 invocations of 32 have one each: less than a subgroup of many GPUs is
// not launched in any case, and llvmpipe runs them eight at a time.
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
