/* Checks the sampling parameters and converts them to step state. Fractions become integers here,
 * once, so that the sampling kernels need no division and no float comparison. */
#include "core/seq/sampling.h"

#include <math.h>
#include <string.h>

#include "core/base/json.h"

/* Limit of a sequence breaker, because its ids are compared one by one. */
enum { MAX_BREAKER_BYTES = 40 };

enum dgl_status sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling)
{
    for (size_t i = 0; i < sizeof(sampling->reserved) / sizeof(sampling->reserved[0]); i++)
        if (sampling->reserved[i])
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "dgl_sampling.reserved[%zu] is set, this library (API %d) has no field "
                            "there: use a library as new as the header",
                            i, DGL_API_VERSION);
    /* 0 means off. The inverse of a repeat_penalty between 0 and 0.01 could make a logit
     * overflow. */
    const double penalty = sampling->repeat_penalty;
    const struct {
        const char *field;
        double value, min, max;
    } rows[] = {
        {"temperature", sampling->temperature, 0, 1000},
        {"top_k", sampling->top_k, -1, SAMPLING_MAX_TOP_K},
        {"top_p", sampling->top_p, 0, 1},
        {"min_p", sampling->min_p, 0, 1},
        {"repeat_penalty", penalty, penalty > 0 ? 0.01 : 0, 100},
        {"repeat_last_n", sampling->repeat_last_n, -1, INT32_MAX},
        {"presence_penalty", sampling->presence_penalty, -100, 100},
        {"frequency_penalty", sampling->frequency_penalty, -100, 100},
        {"dry_multiplier", sampling->dry_multiplier, 0, 100},
        {"dry_base", sampling->dry_base, sampling->dry_base > 0 ? 1 : 0, 100},
        {"dry_allowed_length", sampling->dry_allowed_length, 0, INT32_MAX},
        {"dry_penalty_last_n", sampling->dry_penalty_last_n, -1, INT32_MAX},
        {"num_logit_bias", (double)sampling->num_logit_bias, 0, DGL_LOGIT_BIAS_MAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!(rows[i].value >= rows[i].min && rows[i].value <= rows[i].max))
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "sampling: %s is %g, must be within %g and %g", rows[i].field,
                            rows[i].value, rows[i].min, rows[i].max);
    for (size_t i = 0; i < sampling->num_logit_bias; i++)
        if (!sampling->logit_bias || isnan(sampling->logit_bias[i].bias))
            return dgl_fail(log, DGL_ERR_INVALID_ARG, "sampling: logit_bias[%zu] is %s", i,
                            sampling->logit_bias ? "not a number" : "missing");
    for (size_t i = 0; sampling->dry_breakers && i < sampling->num_dry_breakers; i++) {
        size_t len = strlen(sampling->dry_breakers[i]);
        if (len == 0 || len > MAX_BREAKER_BYTES)
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "sampling: dry_breakers[%zu] has %zu bytes, must have 1 to %d", i, len,
                            MAX_BREAKER_BYTES);
    }
    return DGL_OK;
}

enum dgl_status sampling_read_config(const struct dgl_log *log, const char *name, const char *json,
                                     size_t len, struct dgl_sampling *out)
{
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status = dgl_json_parse(log, name, json, len, &doc);
    if (status != DGL_OK)
        return status;
    struct dgl_json_reader r = {log, doc};
    const struct dgl_json *root = dgl_json_root(doc);
    bool sample = true;
    double temp = out->temperature, top_p = out->top_p, min_p = out->min_p;
    double penalty = out->repeat_penalty;
    int64_t top_k = out->top_k;
    TRY(dgl_json_opt_bool(r, root, "do_sample", &sample));
    TRY(dgl_json_opt_f64(r, root, "temperature", 0, 1000, &temp));
    TRY(dgl_json_opt_i64(r, root, "top_k", -1, INT32_MAX, &top_k));
    TRY(dgl_json_opt_f64(r, root, "top_p", 0, 1, &top_p));
    TRY(dgl_json_opt_f64(r, root, "min_p", 0, 1, &min_p));
    TRY(dgl_json_opt_f64(r, root, "repetition_penalty", 0.01, 100, &penalty));
    out->temperature = sample ? (float)temp : 0.0f;
    out->top_k = (int32_t)top_k;
    out->top_p = (float)top_p;
    out->min_p = (float)min_p;
    out->repeat_penalty = (float)penalty;
done:
    dgl_json_destroy(&doc);
    return status;
}

enum sample_kind sampling_kind(const struct dgl_sampling *sampling)
{
    if (sampling->temperature == 0)
        return SAMPLE_GREEDY;
    return sampling->top_k > 0 ? SAMPLE_TOPK : SAMPLE_FULL;
}

static bool has_repeat_penalty(const struct dgl_sampling *sampling)
{
    return sampling->repeat_penalty != 0 && sampling->repeat_penalty != 1;
}

bool sampling_penalises(const struct dgl_sampling *sampling)
{
    return sampling->repeat_last_n != 0 &&
           (has_repeat_penalty(sampling) || sampling->presence_penalty != 0 ||
            sampling->frequency_penalty != 0);
}

bool sampling_has_dry(const struct dgl_sampling *sampling)
{
    return sampling->dry_multiplier != 0 && sampling->dry_penalty_last_n != 0;
}

bool sampling_adjusts(const struct dgl_sampling *sampling)
{
    return sampling->num_logit_bias > 0 || sampling_penalises(sampling) ||
           sampling_has_dry(sampling);
}

/* Returns floor(p * 2^32). A tiny p becomes 1, because 0 means off. The maximum is 2^32 - 1. */
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
    step->top_k = sampling->top_k > 0 ? (uint32_t)sampling->top_k : 0;
    step->top_p_q = sampling->top_p < 1 ? to_fraction(sampling->top_p) : 0;
    step->min_p_q = to_fraction(sampling->min_p);
    step->inv_temp = 0;
    if (sampling->temperature > 0)
        step->inv_temp = (float)fmin(1.0 / (double)sampling->temperature, 0x1p23);
    const bool penalise = sampling_penalises(sampling);
    bool repeat = penalise && has_repeat_penalty(sampling);
    step->repeat_penalty = repeat ? sampling->repeat_penalty : 1;
    step->repeat_inverse = repeat ? (float)(1.0 / (double)sampling->repeat_penalty) : 1;
    /* -1 becomes more than any context. */
    step->repeat_last_n = penalise ? (uint32_t)sampling->repeat_last_n : 0;
}

double logits_nll(const float *row, int32_t vocab, int32_t id)
{
    double max = row[0], sum = 0.0;
    for (int32_t i = 1; i < vocab; i++)
        max = row[i] > max ? row[i] : max;
    for (int32_t i = 0; i < vocab; i++)
        sum += exp(row[i] - max);
    return max + log(sum) - row[id];
}
