/* The sampler's CPU twin. Shares no code with the kernels. */
#include "core/oracle/ref_sample.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/mem.h"

#define NEVER 0x7fffffffu

__extension__ typedef unsigned __int128 u128;

/* ---- generator ------------------------------------------------------------------------------- */

void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4], k[2] = {key[0], key[1]};
    memcpy(c, counter, sizeof(c));
    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k[0];
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k[1];
        c[3] = (uint32_t)a;
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    memcpy(out, c, sizeof(c));
}

/* ---- rank and weight ------------------------------------------------------------------------- */

uint32_t ref_sample_key(float logit)
{
    uint32_t bits = dgl_f32_bits(logit);
    if (isnan(logit))
        return 0;
    if (!isnormal(logit) && !isinf(logit))
        return 0x80000000;
    return logit > 0 ? bits | 0x80000000 : ~bits;
}

/* The logit as its key has it. */
static float key_logit(uint32_t key)
{
    uint32_t bits = key & 0x80000000 ? key & 0x7fffffff : ~key;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static uint32_t exponent_of(uint32_t key, uint32_t best)
{
    if (key == best)
        return 0;
    if (key == 0)
        return NEVER;
    float t = key_logit(best) - key_logit(key);
    t *= 0x1.715476p+0f;
    return t < 255 ? (uint32_t)(t * 0x1p23f) : NEVER;
}

static uint32_t temper(uint32_t exponent, float inv_temp)
{
    uint32_t bits = dgl_f32_bits(inv_temp);
    uint64_t product = (uint64_t)exponent * ((bits & 0x7fffff) | 0x800000);
    product >>= 150 - (bits >> 23);
    return exponent == NEVER || product > NEVER ? NEVER : (uint32_t)product;
}

static uint64_t weight_of(uint32_t exponent)
{
    static const uint32_t c[] = {0xb17217f7, 0x3d7f7bcb, 0x0e358127, 0x027641a9,
                                 0x005728b0, 0x0009c200, 0x0000bda6};
    uint32_t whole = exponent >> 23, f = exponent << 9, p = c[6];
    for (int i = 5; i >= 0; i--)
        p = c[i] - (uint32_t)((uint64_t)p * f >> 32);
    uint64_t m = 0x80000000u - ((uint64_t)p * f >> 33);
    return whole < 46 ? m << 14 >> whole : 0;
}

/* ---- filters and choice ---------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const struct ref_token *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_exponent(const void *a, const void *b)
{
    const struct ref_token *x = a, *y = b;
    if (x->exponent != y->exponent)
        return x->exponent > y->exponent ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_id(const void *a, const void *b)
{
    const struct ref_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

size_t ref_sample_keep(const struct ref_sampler *s, struct ref_token *out)
{
    size_t count = s->vocab, kept = 0;
    uint64_t total = 0, sum = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        out[i] = (struct ref_token){.id = i, .key = ref_sample_key(s->logits[i])};
    qsort(out, count, sizeof(*out), by_key);
    uint32_t best = out[0].key;
    if (best == 0)
        return 0;
    if (s->step.top_k > 0 && s->step.top_k < count)
        count = s->step.top_k;
    for (size_t i = 0; i < count; i++) {
        out[i].exponent = exponent_of(out[i].key, best);
        out[i].weight = weight_of(out[i].exponent);
        out[i].tempered = weight_of(temper(out[i].exponent, s->step.inv_temp));
        total += out[i].weight;
    }
    if (s->step.top_p_q) {
        uint64_t target = (uint64_t)((u128)total * s->step.top_p_q >> 32);
        size_t first = 0;
        qsort(out, count, sizeof(*out), by_exponent);
        while (first < count && sum < (target ? target : 1))
            sum += out[first++].weight;
        count = first;
    }
    for (size_t i = 0; i < count; i++)
        if (out[i].weight >= (uint64_t)s->step.min_p_q << 13)
            out[kept++] = out[i];
    qsort(out, kept, sizeof(*out), by_id);
    return kept;
}

/* The logits of ids that the mask does not allow become -infinity. */
static void mask(struct ref_sampler *s)
{
    for (uint32_t i = 0; s->mask && i < s->vocab; i++)
        if (!(s->mask[i / 32] >> i % 32 & 1))
            s->logits[i] = -INFINITY;
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* The first position of a window of `last_n` tokens, -1 = all, before `end`. */
static uint32_t window_start(int64_t last_n, uint32_t end)
{
    return last_n < 0 || last_n > end ? 0 : end - (uint32_t)last_n;
}

static bool penalise(struct ref_sampler *s)
{
    uint32_t end = s->step.pos + s->step.tokens;
    uint32_t *times = dgl_new_array(uint32_t, s->vocab);
    if (!times)
        return false;
    for (uint32_t i = window_start(s->sampling->repeat_last_n, end); i < end; i++)
        if (s->ids[i] < s->vocab)
            times[s->ids[i]]++;
    for (uint32_t id = 0; id < s->vocab && s->step.repeat_last_n; id++) {
        if (times[id] == 0)
            continue;
        s->logits[id] *= s->logits[id] > 0 ? s->step.repeat_inverse : s->step.repeat_penalty;
        float cost = (float)times[id] * s->sampling->frequency_penalty;
        cost += s->sampling->presence_penalty;
        s->logits[id] -= cost;
    }
    free(times);
    return true;
}

/* Returns the number of last tokens after the last breaker, at most all of them. */
static uint32_t tokens_behind_breakers(const struct ref_sampler *s, uint32_t start, uint32_t end)
{
    for (uint32_t first = end; first-- > start;) {
        uint32_t longest = 0;
        for (uint32_t i = 0; i < s->num_breakers; i++) {
            const struct ref_breaker *b = &s->breakers[i];
            if (b->count > longest && b->count <= end - first &&
                memcmp(b->ids, s->ids + first, b->count * sizeof(uint32_t)) == 0)
                longest = b->count;
        }
        if (longest)
            return end - first - longest;
    }
    return end - start;
}

/* Every earlier place in the window against the end: the length of the repeat, and the id after
 * it. */
static bool penalise_repeats(struct ref_sampler *s)
{
    const struct dgl_sampling *p = s->sampling;
    if (p->dry_multiplier == 0 || p->dry_penalty_last_n == 0)
        return true;
    uint32_t end = s->step.pos + s->step.tokens, start = window_start(p->dry_penalty_last_n, end);
    uint32_t most = tokens_behind_breakers(s, start, end);
    int32_t allowed = p->dry_allowed_length ? p->dry_allowed_length : 2;
    int32_t *repeat = dgl_new_array(int32_t, s->vocab);
    if (!repeat)
        return false;
    for (uint32_t next = start + 1; next < end; next++) {
        uint32_t n = 0, id = s->ids[next];
        while (n < most && next - n > start && s->ids[next - n - 1] == s->ids[end - n - 1])
            n++;
        if (id < s->vocab && (int32_t)n > repeat[id])
            repeat[id] = (int32_t)n;
    }
    for (uint32_t i = 0; i < s->num_breakers; i++)
        if (s->breakers[i].count == 1)
            repeat[s->breakers[i].ids[0]] = 0;
    double base = p->dry_base != 0 ? (double)p->dry_base : 1.75;
    for (uint32_t id = 0; id < s->vocab; id++) {
        int32_t beyond = repeat[id] - allowed;
        if (beyond < 0)
            continue;
        double cost = (double)p->dry_multiplier * pow(base, beyond < 1023 ? beyond : 1023);
        while (cost > FLT_MAX)
            cost = (double)p->dry_multiplier * pow(base, --beyond);
        s->logits[id] -= (float)cost;
    }
    free(repeat);
    return true;
}

/* ---- filters --------------------------------------------------------------------------------- */

/* A live token: its exponent is not NEVER. */
struct live {
    uint32_t id, key, exponent, value;
    uint64_t weight, mass;
};

static int by_value(const void *a, const void *b)
{
    const struct live *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int live_by_id(const void *a, const void *b)
{
    const struct live *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Keeps the first tokens in order of value until their mass reaches the target. */
static size_t cut(struct live *t, size_t count, uint64_t target)
{
    uint64_t mass = 0;
    size_t kept = 0;
    qsort(t, count, sizeof(*t), by_value);
    while (kept < count && mass < target)
        mass += t[kept++].mass;
    qsort(t, kept, sizeof(*t), live_by_id);
    return kept;
}

/* Returns the square root of x, rounded down. */
static uint32_t root_of(uint64_t x)
{
    uint64_t r = (uint64_t)sqrt((double)x);
    while (r * r > x)
        r--;
    while ((r + 1) * (r + 1) <= x)
        r++;
    return (uint32_t)r;
}

static size_t filter_sigma(struct live *t, size_t count, uint32_t n)
{
    uint64_t sum = 0, squares = 0, far;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        sum += t[i].exponent >> 9;
    const int64_t mean = (int64_t)(sum / count);
    for (size_t i = 0; i < count; i++) {
        const int64_t off = (int64_t)(t[i].exponent >> 9) - mean;
        squares += (uint64_t)(off * off);
    }
    far = (uint64_t)root_of(squares / count << 18) * n >> 16;
    for (size_t i = 0; i < count; i++)
        if (t[i].exponent <= far)
            t[kept++] = t[i];
    return kept;
}

static size_t filter_typical(struct live *t, size_t count, uint64_t total, uint32_t p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (t[i].weight >> 14) * t[i].exponent >> 10;
    const uint32_t mean = (uint32_t)(sum / (total >> 24));
    for (size_t i = 0; i < count; i++) {
        t[i].value = t[i].exponent > mean ? t[i].exponent - mean : mean - t[i].exponent;
        t[i].mass = t[i].weight;
    }
    return cut(t, count, (uint64_t)((u128)total * p >> 32) + 1);
}

/* Removes all tokens of at least the threshold, except the last one by exponent and id. */
static size_t filter_xtc(struct live *t, size_t count, uint64_t total, uint32_t threshold)
{
    const uint64_t smallest = (uint64_t)((u128)total * threshold >> 32);
    size_t likely = 0, last = 0, kept = 0;
    for (size_t i = 0; i < count; i++)
        if (t[i].weight >= smallest) {
            if (likely++ == 0 || t[i].exponent >= t[last].exponent)
                last = i;
        }
    for (size_t i = 0; i < count; i++)
        if (likely < 2 || t[i].weight < smallest || i == last)
            t[kept++] = t[i];
    return kept;
}

static size_t filter_stage(const struct ref_sampler *s, struct live *t, size_t count, int stage)
{
    const uint32_t param = s->filters[stage];
    uint64_t total = 0, heaviest = 0;
    size_t kept = 0;
    uint32_t out[4];
    for (size_t i = 0; i < count; i++) {
        total += t[i].weight;
        heaviest = t[i].weight > heaviest ? t[i].weight : heaviest;
        t[i].value = stage == FILTER_TOP_P ? t[i].exponent : ~t[i].key;
        t[i].mass = stage == FILTER_TOP_P ? t[i].weight : 1;
    }
    switch (stage) {
    case FILTER_SIGMA:
        return filter_sigma(t, count, param);
    case FILTER_TYPICAL:
        return filter_typical(t, count, total, param);
    case FILTER_TOP_P:
        total = (uint64_t)((u128)total * param >> 32);
        return cut(t, count, total ? total : 1);
    case FILTER_MIN_P:
        for (size_t i = 0; i < count; i++)
            if (t[i].weight >= (uint64_t)((u128)heaviest * param >> 32))
                t[kept++] = t[i];
        return kept;
    case FILTER_XTC:
        ref_philox((uint32_t[4]){s->step.draws}, (uint32_t[2]){s->step.seed_lo, s->step.seed_hi},
                   out);
        return out[2] > param ? count
                              : filter_xtc(t, count, total, s->filters[FILTER_XTC_THRESHOLD]);
    default: /* top-k, and the best one */
        return cut(t, count, param);
    }
}

/* The logits of dropped tokens become -infinity. */
static bool filter(struct ref_sampler *s)
{
    const uint32_t *words = s->filters;
    uint32_t best = 0;
    size_t count = 0, before;
    if (!words)
        return true;
    for (uint32_t i = 0; i < words[FILTER_NUM_BANS]; i++)
        if (s->step.pos + s->step.tokens < words[FILTER_BAN_UNTIL] &&
            words[FILTER_BANS + i] < s->vocab)
            s->logits[words[FILTER_BANS + i]] = -INFINITY;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (ref_sample_key(s->logits[i]) > best)
            best = ref_sample_key(s->logits[i]);
    if (best <= ref_sample_key(-INFINITY))
        return true;
    struct live *t = dgl_new_array(struct live, s->vocab);
    if (!t)
        return false;
    for (uint32_t i = 0; i < s->vocab; i++) {
        const uint32_t key = ref_sample_key(s->logits[i]), exponent = exponent_of(key, best);
        if (exponent != NEVER)
            t[count++] = (struct live){
                .id = i, .key = key, .exponent = exponent, .weight = weight_of(exponent)};
    }
    before = count;
    for (int stage = FILTER_STAGES; stage <= FILTER_BEST; stage++)
        if (words[stage])
            count = filter_stage(s, t, count, stage);
    if (count < before)
        for (uint32_t i = 0, next = 0; i < s->vocab; i++) {
            if (next < count && t[next].id == i)
                next++;
            else if (exponent_of(ref_sample_key(s->logits[i]), best) != NEVER)
                s->logits[i] = -INFINITY;
        }
    free(t);
    return true;
}

/* ---- choice ---------------------------------------------------------------------------------- */

static bool draw(const struct ref_sampler *s, uint32_t *chosen)
{
    struct ref_token *tokens = dgl_new_array(struct ref_token, s->vocab);
    if (!tokens)
        return false;
    size_t count = ref_sample_keep(s, tokens);
    uint64_t total = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        total += tokens[i].tempered;
    uint32_t out[4];
    ref_philox((uint32_t[4]){s->step.draws}, (uint32_t[2]){s->step.seed_lo, s->step.seed_hi}, out);
    uint64_t bits = (uint64_t)out[0] << 32 | out[1];
    uint64_t mark = (uint64_t)((u128)bits * total >> 64);
    uint32_t id = s->vocab;
    for (size_t i = 0; i < count && id == s->vocab; i++) {
        sum += tokens[i].tempered;
        if (mark < sum)
            id = tokens[i].id;
    }
    free(tokens);
    *chosen = id;
    return true;
}

bool ref_sample(struct ref_sampler *s, enum sample_kind kind)
{
    struct dgl_step *step = &s->step;
    if (step->stopped)
        return true;
    for (size_t i = 0; i < s->sampling->num_logit_bias; i++)
        s->logits[s->sampling->logit_bias[i].id] += s->sampling->logit_bias[i].bias;
    uint32_t id = s->vocab, best = 0; /* best: key of the best logit that is a number */
    if (!penalise(s) || !penalise_repeats(s))
        return false;
    mask(s);
    if (!filter(s) || (kind != SAMPLE_GREEDY && !draw(s, &id)))
        return false;
    for (uint32_t i = 0; i < s->vocab && kind == SAMPLE_GREEDY; i++)
        if (ref_sample_key(s->logits[i]) > best) {
            best = ref_sample_key(s->logits[i]);
            id = i;
        }
    bool fault = id == s->vocab;
    step->pos += step->tokens;
    step->tokens = 1;
    step->draws += kind != SAMPLE_GREEDY;
    step->stopped = step->pos >= step->context ? 2 : 0;
    for (uint32_t i = 0; i < s->num_stops; i++)
        if (s->stops[i] == id && !(step->flags & DGL_STEP_IGNORE_EOS))
            step->stopped = 1;
    if (fault)
        step->stopped = 3;
    s->ids[step->pos] = fault ? UINT32_MAX : id;
    return true;
}
