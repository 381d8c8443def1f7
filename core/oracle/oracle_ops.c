/* Activations and routing in doubles. Shares no code with the kernels. */
#include "core/oracle/oracle_ops.h"

#include <math.h>

double oracle_silu(double x)
{
    return x / (1.0 + exp(-x));
}

double oracle_gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

double oracle_softcap(double x, double cap)
{
    return cap * tanh(x / cap);
}

double oracle_glu(enum model_act act, double gate, double up, double alpha, double limit)
{
    switch (act) {
    case MODEL_ACT_SILU:
        return oracle_silu(gate) * up;
    case MODEL_ACT_GELU_TANH:
        return oracle_gelu(gate) * up;
    case MODEL_ACT_SWIGLU_CLAMP:
        gate = gate > limit ? limit : gate;
        up = up > limit ? limit : up < -limit ? -limit : up;
        return gate / (1.0 + exp(-alpha * gate)) * (up + 1.0);
    }
    return NAN;
}

/* Returns true if a comes before b in descending order. NaN comes first. */
static bool is_larger(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && !isnan(b);
    return a > b;
}

void oracle_route(const double *logits, uint32_t experts, uint32_t top_k, enum moe_scoring scoring,
                  uint32_t *ids, double *weights)
{
    double sum_all = 0.0, sum_chosen = 0.0;
    for (uint32_t s = 0; s < top_k; s++) {
        uint32_t best = experts;
        for (uint32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (uint32_t i = 0; i < s && !taken; i++)
                taken = ids[i] == e;
            if (!taken && (best == experts || is_larger(logits[e], logits[best])))
                best = e;
        }
        ids[s] = best;
    }
    for (uint32_t e = 0; e < experts; e++)
        sum_all += exp(logits[e] - logits[ids[0]]);
    for (uint32_t s = 0; s < top_k; s++) {
        weights[s] = exp(logits[ids[s]] - logits[ids[0]]);
        if (scoring != MOE_TOPK_SOFTMAX)
            weights[s] /= sum_all;
        sum_chosen += weights[s];
    }
    for (uint32_t s = 0; s < top_k && scoring != MOE_SOFTMAX_TOPK; s++)
        weights[s] /= sum_chosen;
}
