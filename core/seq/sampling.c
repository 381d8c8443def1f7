/* Ranges of the sampling parameters, and their form in the step state: fractions become integers
 * here, once, so that the sampling kernels need no division and no float comparison. */
#include "core/seq/sampling.h"

#include <math.h>

static enum dgl_status check_range(const struct dgl_log *log, const char *field, double value,
                                   double min, double max)
{
    if (value >= min && value <= max)
        return DGL_OK;
    return dgl_fail(log, DGL_ERR_INVALID_ARG, "sampling: %s is %g, must be within %g and %g", field,
                    value, min, max);
}

enum dgl_status sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling)
{
    const struct {
        const char *field;
        double value, min, max;
    } rows[] = {
        {"temperature", sampling->temperature, 0, 1000},
        {"top_k", sampling->top_k, 0, SAMPLING_MAX_TOP_K},
        {"top_p", sampling->top_p, 0, 1},
        {"min_p", sampling->min_p, 0, 1},
        {"repeat_penalty", sampling->repeat_penalty, 0, 100},
        {"repeat_last_n", sampling->repeat_last_n, 0, SAMPLING_MAX_LAST_N},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum dgl_status status =
            check_range(log, rows[i].field, rows[i].value, rows[i].min, rows[i].max);
        if (status != DGL_OK)
            return status;
    }
    /* 0 means off; what lies between would make the inverse overflow what a logit can bear. */
    if (sampling->repeat_penalty != 0)
        return check_range(log, "repeat_penalty", sampling->repeat_penalty, 0.01, 100);
    return DGL_OK;
}

enum sample_kind sampling_kind(const struct dgl_sampling *sampling)
{
    if (sampling->temperature == 0)
        return SAMPLE_GREEDY;
    return sampling->top_k > 0 ? SAMPLE_TOPK : SAMPLE_FULL;
}

bool sampling_penalises(const struct dgl_sampling *sampling)
{
    return sampling->repeat_last_n > 0 && sampling->repeat_penalty != 0 &&
           sampling->repeat_penalty != 1;
}

/* floor(p * 2^32), at least 1 so that a tiny p is not "off", at most 2^32 - 1; 0 stays 0. */
static uint32_t to_fraction(float p)
{
    if (p <= 0)
        return 0;
    double scaled = floor(ldexp((double)p, 32));
    if (scaled < 1)
        return 1;
    return scaled > UINT32_MAX ? UINT32_MAX : (uint32_t)scaled;
}

void sampling_to_step(const struct dgl_sampling *sampling, struct dgl_step *step)
{
    step->seed_lo = (uint32_t)sampling->seed;
    step->seed_hi = (uint32_t)(sampling->seed >> 32);
    step->top_k = (uint32_t)sampling->top_k;
    step->top_p_q = sampling->top_p < 1 ? to_fraction(sampling->top_p) : 0;
    step->min_p_q = to_fraction(sampling->min_p);
    step->inv_temp = 0;
    if (sampling->temperature > 0)
        step->inv_temp = (float)fmin(1.0 / (double)sampling->temperature, 0x1p23);
    bool penalise = sampling_penalises(sampling);
    step->repeat_penalty = penalise ? sampling->repeat_penalty : 1;
    step->repeat_inverse = penalise ? (float)(1.0 / (double)sampling->repeat_penalty) : 1;
    step->repeat_last_n = penalise ? (uint32_t)sampling->repeat_last_n : 0;
}
