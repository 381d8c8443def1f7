/* Reference operations of a mixture of experts in doubles. */
#include "tests/support/ref_moe.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/test.h"

/* Whether a goes before b when both are wanted largest first. */
static bool is_larger(float a, float b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && !isnan(b);
    return a > b;
}

void ref_moe_route(const float *logits, uint32_t experts, uint32_t top_k, const char *scoring,
                   uint32_t *ids, double *weights)
{
    bool *taken = calloc(experts, sizeof(*taken));
    double sum_all = 0.0, sum_chosen = 0.0, top;
    assert_non_null(taken);
    for (uint32_t s = 0; s < top_k; s++) {
        uint32_t best = experts;
        for (uint32_t e = 0; e < experts; e++)
            if (!taken[e] && (best == experts || is_larger(logits[e], logits[best])))
                best = e;
        taken[best] = true;
        ids[s] = best;
    }
    free(taken);
    top = logits[ids[0]];
    for (uint32_t e = 0; e < experts; e++)
        sum_all += exp(logits[e] - top);
    for (uint32_t s = 0; s < top_k; s++) {
        weights[s] = exp(logits[ids[s]] - top);
        if (strcmp(scoring, "topk_softmax") != 0)
            weights[s] /= sum_all;
        sum_chosen += weights[s];
    }
    for (uint32_t s = 0; s < top_k && strcmp(scoring, "softmax_topk") != 0; s++)
        weights[s] /= sum_chosen;
}

void ref_moe_group(const uint32_t *ids, uint32_t tokens, uint32_t top_k, uint32_t experts,
                   uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < experts; e++) {
        list[e] = count;
        for (uint32_t pair = 0; pair < tokens * top_k; pair++)
            if (ids[pair] == e)
                list[experts + 1 + count++] = pair;
    }
    list[experts] = count;
}

double ref_moe_act(const char *act, double gate, double up, double alpha, double limit)
{
    if (strcmp(act, "silu") == 0)
        return gate / (1.0 + exp(-gate)) * up;
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up < -limit ? -limit : up;
    return gate / (1.0 + exp(-alpha * gate)) * (up + 1.0);
}
