/* Checks the sampling parameters and converts them to step state. Fractions become integers here,
 * once, so that the sampling kernels need no division and no float comparison. */
#include "core/seq/sampling.h"

#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"

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
        {"top_n_sigma", sampling->top_n_sigma, -1, 1000},
        {"typical_p", sampling->typical_p, 0, 1},
        {"xtc_probability", sampling->xtc_probability, 0, 1},
        {"xtc_threshold", sampling->xtc_threshold, 0, 1},
        {"min_tokens", sampling->min_tokens, 0, INT32_MAX},
        {"repeat_penalty", penalty, penalty > 0 ? 0.01 : 0, 100},
        {"repeat_last_n", sampling->repeat_last_n, -1, INT32_MAX},
        {"presence_penalty", sampling->presence_penalty, -100, 100},
        {"frequency_penalty", sampling->frequency_penalty, -100, 100},
        {"dry_multiplier", sampling->dry_multiplier, 0, 100},
        {"dry_base", sampling->dry_base, sampling->dry_base > 0 ? 1 : 0, 100},
        {"dry_allowed_length", sampling->dry_allowed_length, 0, INT32_MAX},
        {"dry_penalty_last_n", sampling->dry_penalty_last_n, -1, INT32_MAX},
        {"num_dry_breakers", sampling->dry_breakers ? (double)sampling->num_dry_breakers : 0, 0,
         DGL_DRY_BREAKERS_MAX},
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

/* Settings of a file that would change the choice and are not implemented. */
static void warn_unused(const struct dgl_log *log, const char *name, const struct dgl_json *root)
{
    static const char *const unused[] = {"mirostat", "samplers"};
    for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++) {
        const struct dgl_json *value = dgl_json_get(root, unused[i]);
        if (dgl_json_f64(value) != 0 || dgl_json_str(value).len > 0)
            dgl_warn(log, "%s: %s is not supported and is not used", name, unused[i]);
    }
}

enum dgl_status sampling_read_config(const struct dgl_log *log, const char *name, const char *json,
                                     size_t len, struct dgl_sampling *out)
{
    struct dgl_sampling got = *out;
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf text = {0};
    const struct {
        const char *field;
        float *real;
        int32_t *whole;
        double min, max;
    } rows[] = {
        {"temperature", &got.temperature, NULL, 0, 1000},
        {"top_k", NULL, &got.top_k, -1, INT32_MAX},
        {"top_p", &got.top_p, NULL, 0, 1},
        {"min_p", &got.min_p, NULL, 0, 1},
        {"typical_p", &got.typical_p, NULL, 0, 1},
        {"xtc_probability", &got.xtc_probability, NULL, 0, 1},
        {"xtc_threshold", &got.xtc_threshold, NULL, 0, 1},
        {"repetition_penalty", &got.repeat_penalty, NULL, 0.01, 100},
        {"repeat_last_n", NULL, &got.repeat_last_n, -1, INT32_MAX},
    };
    enum dgl_status status = dgl_json_parse(log, name, json, len, &doc);
    if (status != DGL_OK)
        return status;
    struct dgl_json_reader r = {log, doc};
    const struct dgl_json *root = dgl_json_root(doc);
    bool sample = true;
    TRY(dgl_json_opt_bool(r, root, "do_sample", &sample));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double real = 0;
        int64_t whole = 0;
        if (!dgl_json_get(root, rows[i].field) ||
            dgl_json_is(dgl_json_get(root, rows[i].field), DGL_JSON_NULL))
            continue;
        if (rows[i].real) {
            TRY(dgl_json_opt_f64(r, root, rows[i].field, rows[i].min, rows[i].max, &real));
            *rows[i].real = (float)real;
            if (real == 0 && (rows[i].real == &got.top_p || rows[i].real == &got.typical_p ||
                              rows[i].real == &got.xtc_threshold))
                *rows[i].real = DGL_PROBABILITY_ZERO;
        } else {
            TRY(dgl_json_opt_i64(r, root, rows[i].field, (int64_t)rows[i].min, (int64_t)rows[i].max,
                                 &whole));
            if (rows[i].whole == &got.top_k && whole > SAMPLING_MAX_TOP_K) {
                dgl_warn(log, "%s: top_k is %lld, but sampling keeps at most %d tokens: %d is used",
                         name, (long long)whole, SAMPLING_MAX_TOP_K, SAMPLING_MAX_TOP_K);
                whole = SAMPLING_MAX_TOP_K;
            }
            *rows[i].whole = (int32_t)whole;
            real = (double)whole;
        }
        dgl_buf_printf(&text, ", %s %g", rows[i].field, real);
    }
    if (!sample) {
        got.temperature = 0;
        dgl_buf_puts(&text, ", do_sample false");
    }
    warn_unused(log, name, root);
    if (text.len > 0 && !text.failed)
        dgl_notice(log, "%s: sampling defaults: %s", name, text.p + 2);
    *out = got;
done:
    dgl_buf_finish(&text);
    dgl_json_destroy(&doc);
    return status;
}

/* The best token has more than 2^-32 of the probability: a vocabulary has fewer than 2^19 tokens.
 * Returns true if top-p keeps only that token. */
static bool keeps_best(const struct dgl_sampling *sampling)
{
    return sampling->top_p > 0 && sampling->top_p <= 0x1p-32f;
}

enum sample_kind sampling_kind(const struct dgl_sampling *sampling)
{
    if (sampling_shapes(sampling))
        return SAMPLE_FULL;
    if (sampling->temperature == 0 || keeps_best(sampling))
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

static bool has_typical(const struct dgl_sampling *sampling)
{
    return sampling->typical_p > 0 && sampling->typical_p < 1;
}

static bool has_xtc(const struct dgl_sampling *sampling)
{
    return sampling->xtc_probability > 0 && sampling->xtc_threshold <= 0.5f;
}

bool sampling_shapes(const struct dgl_sampling *sampling)
{
    return sampling->top_n_sigma > 0 || has_typical(sampling) || has_xtc(sampling);
}

unsigned sampling_changes(const struct dgl_sampling *sampling)
{
    const bool filters = sampling_shapes(sampling) || sampling->min_tokens > 0;
    return (sampling_adjusts(sampling) ? SAMPLE_ADJUSTS : 0u) | (filters ? SAMPLE_FILTERS : 0u);
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

void sampling_to_filters(const struct dgl_sampling *sampling, uint32_t *words)
{
    memset(words, 0, FILTER_WORDS * sizeof(*words));
    if (!sampling_shapes(sampling))
        return;
    const float threshold = sampling->xtc_threshold > 0 ? sampling->xtc_threshold : 0.1f;
    if (sampling->top_n_sigma > 0) {
        const uint32_t sigma = (uint32_t)ldexp((double)sampling->top_n_sigma, 16);
        words[FILTER_SIGMA] = sigma ? sigma : 1;
    }
    words[FILTER_TOP_K] = sampling->top_k > 0 ? (uint32_t)sampling->top_k : 0;
    words[FILTER_TYPICAL] = has_typical(sampling) ? to_fraction(sampling->typical_p) : 0;
    words[FILTER_TOP_P] = sampling->top_p < 1 ? to_fraction(sampling->top_p) : 0;
    words[FILTER_MIN_P] = to_fraction(sampling->min_p);
    words[FILTER_XTC] = has_xtc(sampling) ? to_fraction(sampling->xtc_probability) : 0;
    words[FILTER_XTC_THRESHOLD] = to_fraction(threshold);
    words[FILTER_BEST] = sampling->temperature == 0;
}

void sampling_to_step(const struct dgl_sampling *sampling, struct dgl_step *step)
{
    step->seed_lo = (uint32_t)sampling->seed;
    step->seed_hi = (uint32_t)(sampling->seed >> 32);
    const bool shapes = sampling_shapes(sampling); /* then the filters do this, too */
    step->top_k = sampling->top_k > 0 && !shapes ? (uint32_t)sampling->top_k : 0;
    step->top_p_q = sampling->top_p < 1 && !shapes ? to_fraction(sampling->top_p) : 0;
    step->min_p_q = shapes ? 0 : to_fraction(sampling->min_p);
    step->inv_temp = 0;
    if (shapes && sampling->temperature == 0)
        step->inv_temp = 1; /* only the best token is left */
    else if (sampling_kind(sampling) != SAMPLE_GREEDY)
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
