/* Rotary frequencies of every kind. */
#include "loader/desc/rope_freq.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

static double plain(const struct rope_desc *r, double theta, int32_t pair)
{
    return pow(theta, -2.0 * pair / r->dims);
}

/* The base grows with the sequence so that its longest wave still spans it. */
static double dynamic_theta(const struct rope_desc *r, int64_t tokens)
{
    double length = (double)(tokens > r->original_context ? tokens : r->original_context);
    double stretch = r->factor * length / r->original_context - (r->factor - 1);
    return r->dims > 2 ? r->theta * pow(stretch, r->dims / (r->dims - 2.0)) : r->theta;
}

/* Returns the pair, as a fraction, whose wave makes `turns` rotations over the original context. */
static double yarn_pair(const struct rope_desc *r, double turns)
{
    return r->dims * log(r->original_context / (turns * two_pi)) / (2 * log(r->theta));
}

/* Fast pairs do not change, slow pairs are divided by the factor, with a ramp between them. */
static void fill_yarn(const struct rope_desc *r, double *inv_freq)
{
    double low = yarn_pair(r, r->beta_fast), high = yarn_pair(r, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, r->dims - 1);
    if (low == high)
        high += 0.001;
    for (int32_t i = 0; i < r->dims / 2; i++) {
        double freq = plain(r, r->theta, i);
        double slow = fmin(fmax((i - low) / (high - low), 0), 1);
        inv_freq[i] = freq / r->factor * slow + freq * (1 - slow);
    }
}

static double llama3_freq(const struct rope_desc *r, double freq)
{
    double wave = two_pi / freq;
    if (wave < r->original_context / r->high_freq)
        return freq;
    if (wave > r->original_context / r->low_freq)
        return freq / r->factor;
    double smooth = (r->original_context / wave - r->low_freq) / (r->high_freq - r->low_freq);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

void rope_inv_freq(const struct rope_desc *rope, int64_t tokens, double *inv_freq)
{
    double theta = rope->kind == ROPE_DYNAMIC ? dynamic_theta(rope, tokens) : rope->theta;
    const double *factors =
        tokens > rope->original_context ? rope->long_factor : rope->short_factor;
    if (rope->kind == ROPE_YARN) {
        fill_yarn(rope, inv_freq);
        return;
    }
    for (int32_t i = 0; i < rope->dims / 2; i++) {
        inv_freq[i] = plain(rope, theta, i);
        if (rope->kind == ROPE_LINEAR)
            inv_freq[i] /= rope->factor;
        else if (rope->kind == ROPE_LLAMA3)
            inv_freq[i] = llama3_freq(rope, inv_freq[i]);
        else if (rope->kind == ROPE_LONGROPE)
            inv_freq[i] /= factors[i];
    }
}

bool rope_freq_changes(const struct rope_desc *rope, int64_t from, int64_t to)
{
    int64_t original = rope->original_context;
    if (rope->kind == ROPE_LONGROPE)
        return (from > original) != (to > original);
    return rope->kind == ROPE_DYNAMIC && rope->factor != 1 && from != to &&
           (from > original || to > original);
}
