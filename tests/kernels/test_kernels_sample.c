/* The sampling kernels compared with their CPU twin, bit for bit: every kind, vocabularies smaller
 * than, equal to and larger than a slice, logits with ties, infinities, NaN and denormals. Also the
 * twin compared with probabilities in doubles, and the checks of sampling parameters. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/seq/adjust.h"
#include "tests/support/kernel_bench.h"
#include "core/oracle/ref_sample.h"

#define CONTEXT     2600
#define START       40 /* tokens before the first sampled one, by default */
#define STOP_WORDS  33
#define MAX_KERNELS 16
#define NUM_ARGS    7 /* triples of group counts that a stop zeroes */

static struct kernel_bench *bench;

static struct {
    const char *name;
    bool ran;
} covered[MAX_KERNELS];

/* ---- logits ---------------------------------------------------------------------------------- */

enum pattern {
    NORMAL,
    PEAKED,
    STEPS, /* multiples of 1/2: many ties */
    EQUAL,
    CLOSE, /* neighbours in the last bits */
    MINUS_INF,
    PLUS_INF,
    ALL_MINUS_INF,
    SOME_NAN,
    ALL_NAN,
    TINY, /* subnormals and both zeros */
    VAST,
    APART, /* all but the last two of 33 slices are far above these */
};

static float logit_at(enum pattern pattern, uint32_t i, uint64_t *seed)
{
    float x = test_rand_float(seed);
    switch (pattern) {
    case NORMAL:
        return 3 * x;
    case PEAKED:
        return i % 97 == 5 ? 20 + x : 2 * x;
    case STEPS:
        return rintf(2 * x) / 2;
    case EQUAL:
        return -1.5f;
    case CLOSE:
        return 7 + (float)(test_rand(seed) % 5) * 0x1p-21f;
    case MINUS_INF:
        return i % 3 ? -INFINITY : x;
    case PLUS_INF:
        return i % 50 == 7 ? INFINITY : x;
    case ALL_MINUS_INF:
        return -INFINITY;
    case SOME_NAN:
        return i % 4 == 0 ? (i % 8 ? NAN : -NAN) : x;
    case ALL_NAN:
        return NAN;
    case TINY:
        return (i % 5 == 0   ? 0x1p-149f
                : i % 5 == 1 ? -0x1p-130f
                : i % 5 == 2 ? -0.0f
                : i % 5 == 3 ? 0.0f
                             : -0x1p-126f);
    case VAST:
        return x * 0x1p120f;
    case APART:
        return i / 2048 < 31 ? 40 + x : x;
    }
    return 0;
}

/* ---- one generation on both sides ------------------------------------------------------------ */

struct row {
    const char *name;
    uint32_t vocab;
    enum pattern pattern;
    struct dgl_sampling sampling;
    bool big;        /* one token instead of several */
    uint32_t start;  /* tokens before the first sampled one; 0 = START */
    uint32_t period; /* they repeat after so many; 0 = they do not */
};

/* For the rows with DRY: an id that is a breaker, and an id that is one together with others. */
static const struct ref_breaker breakers[] = {{{3}, 1}, {{5, 1}, 2}, {{5, 1, 2}, 3}};
enum { NUM_BREAKERS = sizeof(breakers) / sizeof(breakers[0]) };

struct pair {
    struct ref_sampler ref;
    uint32_t stops[STOP_WORDS];
    /* the kernels' side */
    float *logits;
    struct adjust adjust;
    uint32_t *cand, *ids, *counts;
    size_t cand_words;
    uint32_t arrived, args[3 * NUM_ARGS + 2];
    struct dgl_step step;
};

/* Fills in `breakers` by hand, as adjust_fill() does from texts and a tokenizer. */
static void set_breakers(struct pair *p)
{
    uint32_t *list = p->adjust.words + oplist_sequences_at(p->ref.vocab);
    uint32_t used = 0;
    for (uint32_t i = 0; i < NUM_BREAKERS; i++) {
        const struct ref_breaker *b = &breakers[i];
        uint32_t id = b->ids[0];
        p->adjust.words[ADJUST_MARKS + id / 16] |= (b->count == 1 ? 1u : 2u) << 2 * (id % 16);
        if (b->count == 1)
            continue;
        list[used] = id;
        list[used + 1] = b->count - 1;
        memcpy(list + used + 2, b->ids + 1, 4 * (b->count - 1));
        used += 1 + b->count;
    }
    p->adjust.words[ADJUST_SEQUENCE_WORDS] = used;
}

static void pair_init(struct pair *p, uint32_t vocab, const struct dgl_sampling *sampling)
{
    *p = (struct pair){.ref = {.vocab = vocab, .sampling = sampling}, .adjust.vocab = vocab};
    assert_int_equal(adjust_fill(&p->adjust, NULL, NULL, sampling, sampling_changes(sampling)),
                     DGL_OK);
    if (sampling_changes(sampling) & SAMPLE_FILTERS)
        p->ref.filters = p->adjust.words + oplist_filters_at(vocab);
    if (sampling->dry_multiplier != 0 && vocab > 5) {
        p->ref.breakers = breakers;
        p->ref.num_breakers = NUM_BREAKERS;
        set_breakers(p);
    }
    p->counts = checked(dgl_new_array(uint32_t, vocab));
    memset(p->counts, 0xa5, 4ull * vocab);
    p->ref.stops = p->stops + 1;
    p->ref.logits = checked(dgl_new_array(float, vocab));
    p->ref.ids = checked(dgl_new_array(uint32_t, CONTEXT + 1));
    p->logits = checked(dgl_new_array(float, vocab));
    p->ids = checked(dgl_new_array(uint32_t, CONTEXT + 1));
    p->cand_words = oplist_sample_scratch_bytes(vocab) / 4;
    p->cand = checked(dgl_new_array(uint32_t, p->cand_words));
    memset(p->cand, 0xa5, 4 * p->cand_words);
    p->ref.step = (struct dgl_step){.pos = START - 1, .tokens = 1, .context = CONTEXT};
    assert_int_equal(sampling_check(NULL, sampling), DGL_OK);
    sampling_to_step(sampling, &p->ref.step);
    p->step = p->ref.step;
    for (uint32_t i = 0; i < 3 * NUM_ARGS + 2; i++)
        p->args[i] = i + 1;
    for (uint32_t i = 0; i < START; i++)
        p->ids[i] = p->ref.ids[i] = (i * i * 7 + i) % vocab;
}

static void pair_finish(struct pair *p)
{
    free(p->ref.logits);
    free(p->ref.ids);
    free(p->logits);
    free(p->ids);
    free(p->cand);
    free(p->counts);
    adjust_finish(&p->adjust);
}

static void note_kernel(const char *name)
{
    for (int i = 0; i < MAX_KERNELS; i++) {
        if (covered[i].name && strcmp(covered[i].name, name) != 0)
            continue;
        covered[i].name = name;
        covered[i].ran = true;
        return;
    }
    fail_msg("more than %d sampling kernels", MAX_KERNELS);
}

/* One operation by every kernel that serves it; each must run. Results are those of the last. */
static void run_op(struct pair *p, const char *op, enum sample_kind kind, int level)
{
    static const char *const word[] = {"greedy", "topk", "full"};
    const char *name;
    for (size_t i = 0; (name = kernel_bench_name(bench, op, i)) != NULL; i++) {
        struct bench_case c = {.request.op = op, .step = p->step};
        uint32_t *cand = checked(dgl_new_array(uint32_t, p->cand_words));
        float *logits = checked(dgl_new_array(float, p->ref.vocab));
        uint32_t ids[CONTEXT + 1];
        struct dgl_step_table steps, after;
        char why[BENCH_WHY];
        bool last = !kernel_bench_name(bench, op, i + 1);
        problem_steps(&p->step, &steps);
        after = steps;
        bench_attr(&c, "kind", word[kind]);
        bench_const(&c, "VOCAB", p->ref.vocab);
        bench_const(&c, "LEVEL", level);
        bench_inout(&c, "LOGITS", p->logits, last ? p->logits : logits, p->ref.vocab);
        bench_inout(&c, "CAND", p->cand, last ? p->cand : cand, p->cand_words);
        bench_inout(&c, "IDS", p->ids, last ? p->ids : ids, CONTEXT + 1);
        bench_inout(&c, "STEP", &steps, &after, sizeof(steps) / 4);
        bench_in(&c, "STOPS", p->stops, STOP_WORDS);
        bench_in(&c, "ADJUST", p->adjust.words, oplist_adjust_words(p->ref.vocab));
        bench_inout(&c, "COUNTS", p->counts, p->counts, p->ref.vocab);
        bench_inout(&c, "ARRIVED", &p->arrived, &p->arrived, 1);
        bench_inout(&c, "ARGS", p->args, p->args, 3 * NUM_ARGS + 2);
        bench_uint(&c, "count", NUM_ARGS);
        if (kernel_bench_run(bench, name, &c, why) != BENCH_RAN)
            fail_msg("%s: %s", name, why);
        note_kernel(name);
        if (last)
            p->step = after.seq[PROBLEM_SEQ];
        steps.seq[PROBLEM_SEQ] = after.seq[PROBLEM_SEQ];
        assert_memory_equal(&after, &steps, sizeof(after)); /* other sequences stay */
        free(cand);
        free(logits);
    }
}

/* The list of docs/operations.md. */
static void run_list(struct pair *p, enum sample_kind kind, bool fused)
{
    if (sampling_adjusts(p->ref.sampling))
        run_op(p, "sample_adjust", kind, 0);
    if (p->ref.mask)
        run_op(p, "sample_mask", kind, 0);
    if (sampling_changes(p->ref.sampling) & SAMPLE_FILTERS)
        run_op(p, "sample_filter", kind, 0);
    if (fused) {
        run_op(p, "sample_next", kind, 0);
        assert_int_equal(p->arrived, 0);
        for (uint32_t i = 0; i < 3 * NUM_ARGS + 2; i++)
            assert_int_equal(p->args[i], p->step.stopped && i < 3 * NUM_ARGS ? 0 : i + 1);
        return;
    }
    run_op(p, kind == SAMPLE_TOPK ? "sample_topk" : "sample_max", kind, 0);
    if (kind == SAMPLE_FULL) {
        for (int level = 0; level < 3; level++)
            run_op(p, "sample_hist", kind, level);
        run_op(p, "sample_mass", kind, 0);
        run_op(p, "sample_find", kind, 0);
    }
    run_op(p, "sample_pick", kind, 0);
}

/* sample_next needs more storage bindings than every device has, and serves two of the kinds. */
static bool can_fuse(enum sample_kind kind)
{
    return kind != SAMPLE_FULL && kernel_bench_caps(bench)->limits.max_ssbo_bindings >= 7;
}

static void fill_logits(struct pair *p, enum pattern pattern, uint64_t *seed)
{
    for (uint32_t i = 0; i < p->ref.vocab; i++)
        p->ref.logits[i] = logit_at(pattern, i, seed);
    memcpy(p->logits, p->ref.logits, 4ull * p->ref.vocab);
}

/* A NaN logit may be returned as another NaN. */
static void compare_logits(const struct pair *p)
{
    for (uint32_t i = 0; i < p->ref.vocab; i++)
        if (ref_sample_key(p->logits[i]) != ref_sample_key(p->ref.logits[i]))
            fail_msg("logit %u is %.9g, expected %.9g", i, (double)p->logits[i],
                     (double)p->ref.logits[i]);
}

static void compare(const struct pair *p, uint32_t token)
{
    uint32_t at = p->ref.step.pos;
    compare_logits(p);
    if (p->ids[at] != p->ref.ids[at])
        fail_msg("token %u: id %u, expected %u", token, p->ids[at], p->ref.ids[at]);
    assert_memory_equal(p->ids, p->ref.ids, sizeof(uint32_t) * (CONTEXT + 1));
    assert_memory_equal(&p->step, &p->ref.step, sizeof(p->step));
}

static void check_row(const struct row *row, bool fused)
{
    uint64_t seed = row->vocab + 31u * row->pattern;
    struct pair p;
    pair_init(&p, row->vocab, &row->sampling);
    if (row->start)
        p.ref.step.pos = p.step.pos = row->start - 3;
    for (uint32_t i = START; i < row->start; i++)
        p.ids[i] = p.ref.ids[i] = (i * 13 + i / 7) % row->vocab;
    for (uint32_t i = row->period; row->period && i < p.step.pos + 3; i++)
        p.ids[i] = p.ref.ids[i] = p.ids[i - row->period];
    enum sample_kind kind = sampling_kind(&row->sampling);
    for (uint32_t token = 0; token < (row->big ? 1 : 4); token++) {
        fill_logits(&p, row->pattern, &seed);
        run_list(&p, kind, fused);
        assert_true(ref_sample(&p.ref, kind));
        compare(&p, token);
    }
    pair_finish(&p);
}

static void kernels_choose_what_the_twin_chooses(void **state)
{
    const struct row *row = *state;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    check_row(row, false);
    if (can_fuse(sampling_kind(&row->sampling)))
        check_row(row, true);
}

#define TOPK(k, p, m, t)                                                                           \
    {                                                                                              \
        .temperature = (t), .top_k = (k), .top_p = (p), .min_p = (m), .seed = 0x123456789abcdef    \
    }
#define PENALTY(r, n, t)                                                                           \
    {                                                                                              \
        .temperature = (t), .top_k = 20, .repeat_penalty = (r), .repeat_last_n = (n), .seed = 9    \
    }

#define MINUS(p, f, r, n)                                                                          \
    {                                                                                              \
        .temperature = 1, .top_k = 20, .presence_penalty = (p), .frequency_penalty = (f),          \
        .repeat_penalty = (r), .repeat_last_n = (n), .seed = 5                                     \
    }
#define DRY(m, b, a, n, t)                                                                         \
    {                                                                                              \
        .temperature = (t), .top_k = 20, .dry_multiplier = (m), .dry_base = (b),                   \
        .dry_allowed_length = (a), .dry_penalty_last_n = (n), .seed = 6                            \
    }

#define SHAPED(sigma, k, typical, xtc, threshold, t)                                               \
    {                                                                                              \
        .temperature = (t), .top_k = (k), .top_p = 0.9f, .min_p = 0.02f, .top_n_sigma = (sigma),   \
        .typical_p = (typical), .xtc_probability = (xtc), .xtc_threshold = (threshold), .seed = 3  \
    }

static const struct dgl_logit_bias biases[] = {{3, 1.25f}, {0, -INFINITY}, {49, 0x1p-20f},
                                               {3, 0.5f},  {7, INFINITY},  {8, -100}};
#define BIASED .logit_bias = biases, .num_logit_bias = sizeof(biases) / sizeof(biases[0])

static const struct row rows[] = {
    {"greedy_v1", 1, NORMAL, {.top_k = 0}, false, 0, 0},
    {"greedy_v7_ties", 7, EQUAL, {.top_k = 0}, false, 0, 0},
    {"greedy_v100_nan", 100, SOME_NAN, {.top_k = 0}, false, 0, 0},
    {"greedy_v2049", 2049, NORMAL, {.top_k = 0}, false, 0, 0},
    {"greedy_v4096", 4096, STEPS, {.top_k = 0}, false, 0, 0},
    {"greedy_v5000_close", 5000, CLOSE, {.top_k = 0}, false, 0, 0},
    {"greedy_v300_plus_inf", 300, PLUS_INF, {.top_k = 0}, false, 0, 0},
    {"greedy_v300_all_minus_inf", 300, ALL_MINUS_INF, {.top_k = 0}, false, 0, 0},
    {"greedy_v300_all_nan", 300, ALL_NAN, {.top_k = 0}, false, 0, 0},
    {"greedy_v64_tiny", 64, TINY, {.top_k = 0}, false, 0, 0},
    {"sigma_v300", 300, NORMAL, SHAPED(1, 0, 0, 0, 0, 1), false, 0, 0},
    {"sigma_v4096_steps", 4096, STEPS, SHAPED(2.5f, 0, 0, 0, 0, 0.7f), false, 0, 0},
    {"sigma_v7_ties", 7, EQUAL, SHAPED(1, 0, 0, 0, 0, 1), false, 0, 0},
    {"sigma_v5000_vast", 5000, VAST, SHAPED(0.01f, 0, 0, 0, 0, 1), false, 0, 0},
    {"typical_v300", 300, NORMAL, SHAPED(0, 0, 0.5f, 0, 0, 1), false, 0, 0},
    {"typical_v5000_close", 5000, CLOSE, SHAPED(0, 0, 0.9f, 0, 0, 1), false, 0, 0},
    {"typical_v4096_steps", 4096, STEPS, SHAPED(0, 0, 0.3f, 0, 0, 1), false, 0, 0},
    {"typical_v100_least", 100, NORMAL, SHAPED(0, 0, DGL_PROBABILITY_ZERO, 0, 0, 1), false, 0, 0},
    {"typical_greedy_v300", 300, NORMAL, SHAPED(0, 0, 0.2f, 0, 0, 0), false, 0, 0},
    {"xtc_v300", 300, NORMAL, SHAPED(0, 0, 0, 1, 0.02f, 1), false, 0, 0},
    {"xtc_v300_half", 300, NORMAL, SHAPED(0, 0, 0, 0.5f, 0.02f, 1), false, 0, 0},
    {"xtc_v4096_steps", 4096, STEPS, SHAPED(0, 50, 0, 1, 0.001f, 1), false, 0, 0},
    {"xtc_greedy_v300", 300, NORMAL, SHAPED(0, 0, 0, 1, 0.01f, 0), false, 0, 0},
    {"xtc_v1", 1, NORMAL, SHAPED(0, 0, 0, 1, DGL_PROBABILITY_ZERO, 1), false, 0, 0},
    {"shaped_v2049_nan", 2049, SOME_NAN, SHAPED(2, 60, 0.9f, 0.7f, 0.01f, 1.3f), false, 0, 0},
    {"shaped_v300_plus_inf", 300, PLUS_INF, SHAPED(2, 60, 0.9f, 0.7f, 0.1f, 1), false, 0, 0},
    {"shaped_v300_all_minus_inf", 300, ALL_MINUS_INF, SHAPED(2, 9, 0.9f, 1, 0.1f, 1), false, 0, 0},
    {"shaped_v300_all_nan", 300, ALL_NAN, SHAPED(2, 9, 0.9f, 1, 0.1f, 1), false, 0, 0},
    {"shaped_v128256", 128256, NORMAL, SHAPED(3, 0, 0.95f, 0.9f, 0.001f, 1), true, 0, 0},
    {"greedy_v128256", 128256, NORMAL, {.top_k = 0}, true, 0, 0},
    {"greedy_v4096_penalty",
     4096,
     PEAKED,
     {.repeat_penalty = 1.3f, .repeat_last_n = 64},
     false,
     0,
     0},
    {"topk_v1", 1, NORMAL, TOPK(40, 0.95f, 0.05f, 0.8f), false, 0, 0},
    {"topk_v30_fewer_than_k", 30, NORMAL, TOPK(40, 0, 0, 1), false, 0, 0},
    {"topk_v2048", 2048, NORMAL, TOPK(40, 0.95f, 0.05f, 0.8f), false, 0, 0},
    {"topk_v2050_second_slice_short", 2050, NORMAL, TOPK(128, 0, 0, 2), false, 0, 0},
    {"topk_v4096", 4096, PEAKED, TOPK(40, 0.95f, 0.05f, 0.8f), false, 0, 0},
    {"topk_v4096_ties", 4096, STEPS, TOPK(100, 0.5f, 0, 1.5f), false, 0, 0},
    {"topk_v4096_equal", 4096, EQUAL, TOPK(128, 0.9f, 0.5f, 1), false, 0, 0},
    {"topk_v4096_close", 4096, CLOSE, TOPK(33, 0.7f, 0.1f, 0.7f), false, 0, 0},
    {"topk_v4096_one", 4096, CLOSE, TOPK(1, 0.95f, 0.05f, 0.8f), false, 0, 0},
    {"topk_v5000_minus_inf", 5000, MINUS_INF, TOPK(128, 0.99f, 0, 1), false, 0, 0},
    {"topk_v500_plus_inf", 500, PLUS_INF, TOPK(8, 0.99f, 0, 1), false, 0, 0},
    {"topk_v100_all_minus_inf", 100, ALL_MINUS_INF, TOPK(8, 0.6f, 0.2f, 1), false, 0, 0},
    {"topk_v100_nan", 100, SOME_NAN, TOPK(128, 0, 0, 3), false, 0, 0},
    {"topk_v100_all_nan", 100, ALL_NAN, TOPK(5, 0.9f, 0.1f, 1), false, 0, 0},
    {"topk_v100_tiny", 100, TINY, TOPK(50, 0.9f, 0.1f, 1), false, 0, 0},
    {"topk_v3000_huge", 3000, VAST, TOPK(50, 0.9f, 0.1f, 100), false, 0, 0},
    {"topk_v4096_cold", 4096, NORMAL, TOPK(40, 0, 0, 1e-6f), false, 0, 0},
    {"topk_v4096_hot", 4096, NORMAL, TOPK(40, 0, 0, 1000), false, 0, 0},
    {"topk_v4096_top_p_tiny", 4096, NORMAL, TOPK(40, 1e-9f, 0, 1), false, 0, 0},
    {"topk_v4096_min_p_one", 4096, STEPS, TOPK(128, 0, 1, 1), false, 0, 0},
    {"topk_v128256", 128256, NORMAL, TOPK(40, 0.95f, 0.05f, 0.8f), true, 0, 0},
    {"topk_v67584_apart", 67584, APART, TOPK(128, 0.95f, 0, 1), true, 0, 0},
    {"topk_v50_penalty", 50, NORMAL, PENALTY(1.7f, 1000, 1), false, 0, 0},
    {"topk_v50_penalty_below_one", 50, NORMAL, PENALTY(0.5f, 5, 0.5f), false, 0, 0},
    {"topk_v50_penalty_of_all", 50, NORMAL, PENALTY(1.7f, -1, 1), false, 2500, 0},
    {"topk_v50_presence", 50, NORMAL, MINUS(0.7f, 0, 0, 16), false, 0, 0},
    {"topk_v50_frequency_of_all", 50, NORMAL, MINUS(0, 0.013f, 1, -1), false, 2500, 0},
    {"topk_v50_minus", 50, NORMAL, MINUS(-0.3f, 0.1f, 1.3f, 33), false, 0, 0},
    {"topk_v5000_minus_of_all", 5000, PEAKED, MINUS(1.1f, 0.77f, 0.9f, -1), false, 2500, 700},
    {"greedy_v50_biased", 50, NORMAL, {BIASED}, false, 0, 0},
    {"full_v300_biased_minus_inf", 300, MINUS_INF, {.temperature = 1, BIASED}, false, 0, 0},
    {"topk_v50_everything",
     50,
     NORMAL,
     {BIASED, .temperature = 1, .top_k = 30, .top_p = 0.9f, .presence_penalty = 0.4f,
      .frequency_penalty = 0.3f, .repeat_penalty = 1.2f, .repeat_last_n = 20,
      .dry_multiplier = 0.8f, .dry_penalty_last_n = -1},
     false,
     200,
     17},
    {"topk_v5_dry", 5, NORMAL, DRY(0.8f, 0, 0, -1, 1), false, 0, 0},
    {"topk_v11_dry", 11, NORMAL, DRY(2, 1.1f, 1, -1, 0.7f), false, 900, 0},
    {"topk_v50_dry_period_17", 50, NORMAL, DRY(0.8f, 1.75f, 2, -1, 1), false, 200, 17},
    {"topk_v50_dry_window", 50, NORMAL, DRY(0.5f, 3, 4, 25, 1), false, 200, 17},
    {"greedy_v50_dry_allowed_all", 50, NORMAL, DRY(1, 2, 300, -1, 0), false, 200, 1},
    {"greedy_v5_dry_long", 5, NORMAL, DRY(0.1f, 1.001f, 2, -1, 0), true, 2500, 1},
    {"greedy_v5_dry_large", 5, NORMAL, DRY(100, 100, 2, -1, 0), true, 2500, 1},
    {"full_v1", 1, NORMAL, TOPK(0, 0.9f, 0.1f, 1), false, 0, 0},
    {"full_v100", 100, NORMAL, TOPK(0, 0, 0, 1), false, 0, 0},
    {"full_v2049_top_p", 2049, NORMAL, TOPK(0, 0.9f, 0, 1), false, 0, 0},
    {"full_v4096_min_p", 4096, NORMAL, TOPK(0, 0, 0.02f, 1.3f), false, 0, 0},
    {"full_v4096_both", 4096, NORMAL, TOPK(0, 0.95f, 0.01f, 1.5f), false, 0, 0},
    {"full_v4096_ties", 4096, STEPS, TOPK(0, 0.6f, 0, 1), false, 0, 0},
    {"full_v4096_equal", 4096, EQUAL, TOPK(0, 0.3f, 0, 1), false, 0, 0},
    {"full_v5000_close", 5000, CLOSE, TOPK(0, 0.8f, 0.5f, 0.7f), false, 0, 0},
    {"full_v4096_peaked", 4096, PEAKED, TOPK(0, 0.999f, 0, 5), false, 0, 0},
    {"full_v3000_minus_inf", 3000, MINUS_INF, TOPK(0, 0.5f, 0, 1), false, 0, 0},
    {"full_v300_all_minus_inf", 300, ALL_MINUS_INF, TOPK(0, 0.5f, 0, 1), false, 0, 0},
    {"full_v300_plus_inf", 300, PLUS_INF, TOPK(0, 0.5f, 0, 1), false, 0, 0},
    {"full_v300_nan", 300, SOME_NAN, TOPK(0, 0, 0, 10), false, 0, 0},
    {"full_v300_all_nan", 300, ALL_NAN, TOPK(0, 0.9f, 0, 1), false, 0, 0},
    {"full_v300_tiny", 300, TINY, TOPK(0, 0.9f, 0, 1), false, 0, 0},
    {"full_v3000_huge", 3000, VAST, TOPK(0, 0.9f, 0, 1000), false, 0, 0},
    {"full_v4096_hot", 4096, NORMAL, TOPK(0, 0, 0, 1000), false, 0, 0},
    {"full_v4096_top_p_tiny", 4096, NORMAL, TOPK(0, 1e-10f, 0, 1), false, 0, 0},
    {"full_v128256_top_p", 128256, NORMAL, TOPK(0, 0.97f, 0, 1), true, 0, 0},
    {"full_v262144", 262144, EQUAL, TOPK(0, 0.7f, 0, 1), true, 0, 0},
    {"full_v300000", 300000, EQUAL, TOPK(0, 0.95f, 0, 1), true, 0, 0},
};

/* ---- the end of a step ----------------------------------------------------------------------- */

/* Logits whose best is `id` by far. */
static void point_at(struct pair *p, uint32_t id)
{
    for (uint32_t i = 0; i < p->ref.vocab; i++)
        p->ref.logits[i] = i == id ? 50 : 0;
    memcpy(p->logits, p->ref.logits, 4ull * p->ref.vocab);
}

struct end_row {
    const char *name;
    enum sample_kind kind;
    uint32_t pos; /* of the last token */
    uint32_t ignore_eos, want_stopped;
};

static const struct end_row end_rows[] = {
    {"goes_on_greedy", SAMPLE_GREEDY, 10, 0, 0},
    {"stop_id_greedy", SAMPLE_GREEDY, 10, 0, 1},
    {"stop_id_topk", SAMPLE_TOPK, 10, 0, 1},
    {"stop_id_full", SAMPLE_FULL, 10, 0, 1},
    {"stop_id_ignored", SAMPLE_TOPK, 10, 1, 0},
    {"context_full_greedy", SAMPLE_GREEDY, CONTEXT - 1, 1, 2},
    {"context_full_topk", SAMPLE_TOPK, CONTEXT - 1, 1, 2},
    {"context_full_full", SAMPLE_FULL, CONTEXT - 1, 1, 2},
    {"stop_id_at_the_end_of_the_context", SAMPLE_TOPK, CONTEXT - 1, 0, 1},
};

static struct dgl_sampling of_kind(enum sample_kind kind)
{
    return (struct dgl_sampling){.temperature = kind == SAMPLE_GREEDY ? 0 : 0.5f,
                                 .top_k = kind == SAMPLE_TOPK ? 5 : 0,
                                 .top_p = 0.9f};
}

static void check_end(const struct end_row *row, bool fused)
{
    const uint32_t vocab = 200, stop = 77;
    struct dgl_sampling sampling = of_kind(row->kind);
    struct pair p;
    pair_init(&p, vocab, &sampling);
    p.stops[0] = p.ref.num_stops = 3;
    memcpy(p.stops + 1, (uint32_t[]){5, 9, stop}, 12);
    p.ref.step.pos = row->pos;
    p.ref.step.tokens = 1;
    p.ref.step.flags = row->ignore_eos ? DGL_STEP_IGNORE_EOS : 0;
    p.step = p.ref.step;
    point_at(&p, strstr(row->name, "goes_on") ? stop + 1 : stop);
    run_list(&p, row->kind, fused);
    assert_true(ref_sample(&p.ref, row->kind));
    compare(&p, 0);
    assert_int_equal(p.step.stopped, row->want_stopped);
    assert_int_equal(p.step.pos, row->pos + 1);
    pair_finish(&p);
}

static void the_step_ends_as_it_should(void **state)
{
    const struct end_row *row = *state;
    if (!bench)
        SKIP("%s: no GLES device", row->name);
    check_end(row, false);
    if (can_fuse(row->kind))
        check_end(row, true);
}

static void a_stopped_step_changes_nothing(void **state)
{
    (void)state;
    if (!bench)
        SKIP("a_stopped_step_changes_nothing: no GLES device");
    for (int n = 0; n < 2 * SAMPLE_KINDS; n++) {
        enum sample_kind kind = (enum sample_kind)(n / 2);
        if (n % 2 == 1 && !can_fuse(kind))
            continue;
        struct dgl_sampling sampling = of_kind(kind);
        struct pair p;
        sampling.repeat_penalty = 2;
        sampling.repeat_last_n = 30;
        sampling.dry_multiplier = 1;
        sampling.dry_penalty_last_n = -1;
        sampling.logit_bias = biases;
        sampling.num_logit_bias = 2;
        pair_init(&p, 300, &sampling);
        uint32_t *cand = checked(dgl_new_array(uint32_t, p.cand_words));
        memcpy(cand, p.cand, 4 * p.cand_words);
        p.step.stopped = p.ref.step.stopped = 1;
        point_at(&p, 250);
        run_list(&p, kind, n % 2 == 1);
        compare(&p, 0);
        assert_memory_equal(p.cand, cand, 4 * p.cand_words);
        free(cand);
        pair_finish(&p);
    }
}

static void group_counts_are_zeroed_once_stopped(void **state)
{
    (void)state;
    enum { COUNT = 70 };
    if (!bench)
        SKIP("group_counts_are_zeroed_once_stopped: no GLES device");
    for (uint32_t stopped = 0; stopped <= 3; stopped++) {
        uint32_t args[3 * COUNT + 5], want[3 * COUNT + 5];
        struct bench_case c = {.request.op = "sample_args", .step.stopped = stopped};
        char why[BENCH_WHY];
        for (uint32_t i = 0; i < 3 * COUNT + 5; i++) {
            args[i] = i + 1;
            want[i] = stopped && i < 3 * COUNT ? 0 : i + 1;
        }
        bench_uint(&c, "count", COUNT);
        bench_inout(&c, "ARGS", args, args, 3 * COUNT + 5);
        if (kernel_bench_run(bench, "sample_args", &c, why) != BENCH_RAN)
            fail_msg("%s", why);
        assert_memory_equal(args, want, sizeof(args));
    }
    note_kernel("sample_args");
}

/* A third of the tokens is allowed, and always the last one. */
static void masks_drop_tokens(void **state)
{
    static const uint32_t vocabs[] = {1, 50, 2049, 9001};
    static const struct dgl_logit_bias bias[] = {{0, 30}};
    (void)state;
    if (!bench)
        SKIP("masks_drop_tokens: no GLES device");
    for (size_t v = 0; v < sizeof(vocabs) / sizeof(vocabs[0]); v++) {
        const struct dgl_sampling sampling = {.temperature = 1.5f,
                                              .top_k = v % 2 ? 20 : 0,
                                              .min_p = 0.01f,
                                              .typical_p = v == 2 ? 0.9f : 0,
                                              .logit_bias = bias,
                                              .num_logit_bias = 1,
                                              .seed = 11};
        const enum sample_kind kind = sampling_kind(&sampling);
        uint64_t seed = 7 + v;
        struct pair p;
        pair_init(&p, vocabs[v], &sampling);
        uint32_t *mask = p.adjust.words + oplist_mask_at(vocabs[v]);
        p.ref.mask = mask;
        p.adjust.words[ADJUST_MASKED] = 1;
        for (uint32_t token = 0; token < 4; token++) {
            memset(mask, 0, oplist_mask_words(vocabs[v]) * sizeof(*mask));
            for (uint32_t i = 0; i < vocabs[v]; i++)
                if (test_rand(&seed) % 3 == 0 || i + 1 == vocabs[v])
                    mask[i / 32] |= 1u << i % 32;
            fill_logits(&p, NORMAL, &seed);
            run_list(&p, kind, can_fuse(kind));
            assert_true(ref_sample(&p.ref, kind));
            compare(&p, token);
            const uint32_t id = p.ids[p.step.pos];
            if (!(mask[id / 32] >> id % 32 & 1))
                fail_msg("vocabulary %u, token %u: id %u is not allowed", vocabs[v], token, id);
        }
        pair_finish(&p);
    }
}

static void every_kernel_was_tested(void **state)
{
    (void)state;
    if (!bench)
        SKIP("every_kernel_was_tested: no GLES device");
    for (size_t i = 0; i < kernel_set_count(kernel_bench_set(bench)); i++) {
        const struct kernel *kernel = kernel_set_at(kernel_bench_set(bench), i);
        bool ran = false;
        for (int j = 0; j < MAX_KERNELS && covered[j].name; j++)
            ran = ran || strcmp(covered[j].name, kernel->name) == 0;
        if (strncmp(kernel->op, "sample_", 7) == 0 && !ran)
            fail_msg("%s was never run", kernel->name);
    }
}

/* ---- the twin against doubles ---------------------------------------------------------------- */

static void philox_gives_the_published_numbers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint32_t out[4];
        ref_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].want, sizeof(out));
    }
}

static void weights_are_probabilities(void **state)
{
    (void)state;
    struct dgl_sampling sampling = {.temperature = 0.7f};
    uint64_t seed = 4;
    struct pair p;
    pair_init(&p, 1000, &sampling);
    struct ref_token *left = checked(dgl_new_array(struct ref_token, p.ref.vocab));
    fill_logits(&p, NORMAL, &seed);
    float best = -INFINITY;
    for (uint32_t i = 0; i < p.ref.vocab; i++)
        best = fmaxf(best, p.ref.logits[i]);
    assert_int_equal(ref_sample_keep(&p.ref, left), p.ref.vocab);
    for (uint32_t i = 0; i < p.ref.vocab; i++) {
        double d = (double)p.ref.logits[i] - (double)best;
        /* t of up to 32 is an f32, with steps of 2e-6; small weights have few bits. */
        double want = exp(d) * 0x1p45, tempered = exp(d / 0.7) * 0x1p45;
        assert_near((double)left[i].weight, want, 1 + 1e-5 * want);
        assert_near((double)left[i].tempered, tempered, 1 + 2e-5 * tempered);
    }
    free(left);
    pair_finish(&p);
}

static void draws_follow_the_softmax(void **state)
{
    (void)state;
    enum { VOCAB = 50, DRAWS = 10000 };
    struct dgl_sampling sampling = {.temperature = 1.2f, .seed = 77};
    uint64_t seed = 5;
    double expected[VOCAB], sum = 0, chi2 = 0;
    int seen[VOCAB] = {0};
    struct pair p;
    pair_init(&p, VOCAB, &sampling);
    fill_logits(&p, NORMAL, &seed);
    for (int i = 0; i < VOCAB; i++)
        sum += expected[i] = exp((double)p.ref.logits[i] / 1.2);
    for (int i = 0; i < DRAWS; i++) {
        p.ref.step.pos = START;
        assert_true(ref_sample(&p.ref, SAMPLE_FULL));
        seen[p.ref.ids[p.ref.step.pos]]++;
    }
    for (int i = 0; i < VOCAB; i++) {
        double want = DRAWS * expected[i] / sum;
        chi2 += (seen[i] - want) * (seen[i] - want) / want;
    }
    assert_int_equal(p.ref.step.draws, DRAWS);
    /* 49 degrees of freedom: above 100 once in 30,000 sets of draws; these draws are always the
     * same. */
    assert_at_most(chi2, 100);
    pair_finish(&p);
}

/* The remaining tokens by the definition, in doubles, for logits without ties. */
static size_t naive_keep(const struct pair *p, const struct dgl_sampling *sampling, bool *keep,
                         double *slack)
{
    uint32_t vocab = p->ref.vocab;
    uint32_t *order = checked(dgl_new_array(uint32_t, vocab));
    double sum = 0, before = 0;
    size_t k = sampling->top_k ? (size_t)sampling->top_k : vocab, count = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        uint32_t at = i;
        for (; at > 0 && p->ref.logits[order[at - 1]] < p->ref.logits[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
        keep[i] = false;
    }
    for (size_t i = 0; i < k; i++)
        sum += exp((double)p->ref.logits[order[i]]);
    for (size_t i = 0; i < k; i++) {
        double mass = exp((double)p->ref.logits[order[i]]);
        double ratio = mass / exp((double)p->ref.logits[order[0]]);
        *slack = fmin(*slack, fabs(before / sum - (double)sampling->top_p));
        *slack = fmin(*slack, fabs(ratio - (double)sampling->min_p));
        if (before / sum < (double)sampling->top_p && ratio >= (double)sampling->min_p) {
            keep[order[i]] = true;
            count++;
        }
        before += mass;
    }
    free(order);
    return count;
}

static void kept_tokens_are_those_of_the_definition(void **state)
{
    (void)state;
    static const struct dgl_sampling cases[] = {
        {.temperature = 1, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
        {.temperature = 1, .top_k = 128, .top_p = 0.5f},
        {.temperature = 1, .top_p = 0.9f, .min_p = 0.001f},
        {.temperature = 1, .top_p = 0.999f},
        {.temperature = 1, .top_k = 3, .top_p = 0.7f, .min_p = 0.3f},
    };
    uint64_t seed = 6;
    int compared = 0;
    for (size_t i = 0; i < 5 * sizeof(cases) / sizeof(cases[0]); i++) {
        const struct dgl_sampling *sampling = &cases[i / 5];
        struct pair p;
        pair_init(&p, 500, sampling);
        struct ref_token *left = checked(dgl_new_array(struct ref_token, p.ref.vocab));
        bool *keep = checked(dgl_new_array(bool, p.ref.vocab));
        double slack = 1;
        fill_logits(&p, NORMAL, &seed);
        size_t want = naive_keep(&p, sampling, keep, &slack);
        size_t count = ref_sample_keep(&p.ref, left);
        if (slack > 1e-6) {
            assert_int_equal(count, want);
            for (size_t j = 0; j < count; j++)
                assert_true(keep[left[j].id]);
            compared++;
        }
        free(left);
        free(keep);
        pair_finish(&p);
    }
    assert_true(compared >= 20);
}

/* The filters of llama.cpp, computed in doubles: top-n sigma, typical, XTC, one at a time. Sets
 * *slack to the smallest distance from a border. */
static void naive_filter(const float *logits, uint32_t vocab, const struct dgl_sampling *s,
                         bool *keep, double *slack)
{
    double best = -INFINITY, sum = 0, mean = 0, square = 0, entropy = 0, mass = 0;
    double *p = checked(dgl_new_array(double, vocab)),
           *score = checked(dgl_new_array(double, vocab));
    uint32_t likely = 0, last = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        best = fmax(best, (double)logits[i]);
        mean += (double)logits[i] / vocab;
    }
    for (uint32_t i = 0; i < vocab; i++) {
        sum += p[i] = exp((double)logits[i] - best);
        square += ((double)logits[i] - mean) * ((double)logits[i] - mean) / vocab;
        keep[i] = true;
    }
    for (uint32_t i = 0; i < vocab; i++) {
        p[i] /= sum;
        entropy -= p[i] * log(p[i]);
    }
    for (uint32_t i = 0; i < vocab; i++)
        score[i] = fabs(-log(p[i]) - entropy);
    for (uint32_t i = 0; i < vocab && s->top_n_sigma > 0; i++) {
        const double border = best - (double)s->top_n_sigma * sqrt(square);
        keep[i] = (double)logits[i] >= border;
        *slack = fmin(*slack, fabs((double)logits[i] - border));
    }
    for (uint32_t i = 0; i < vocab && s->typical_p > 0; i++) {
        double before = 0;
        for (uint32_t k = 0; k < vocab; k++) {
            before += score[k] < score[i] ? p[k] : 0;
            if (k != i)
                *slack = fmin(*slack, fabs(score[k] - score[i]) + p[k] + p[i] > 1e-4
                                          ? fmax(fabs(score[k] - score[i]), 1e-6 * (k < i))
                                          : 1);
        }
        keep[i] = before <= (double)s->typical_p;
        mass = fabs(before - (double)s->typical_p);
        *slack = fmin(*slack, mass);
    }
    for (uint32_t i = 0; i < vocab && s->xtc_probability > 0; i++) {
        *slack = fmin(*slack, fabs(p[i] - (double)s->xtc_threshold));
        if (p[i] >= (double)s->xtc_threshold && (likely++ == 0 || p[i] < p[last]))
            last = i;
    }
    for (uint32_t i = 0; i < vocab && likely >= 2; i++)
        keep[i] = p[i] < (double)s->xtc_threshold || i == last;
    free(p);
    free(score);
}

static void filters_are_those_of_the_definition(void **state)
{
    static const struct dgl_sampling cases[] = {
        {.top_n_sigma = 1},
        {.top_n_sigma = 2.2f},
        {.top_n_sigma = 0.3f},
        {.typical_p = 0.9f},
        {.typical_p = 0.3f},
        {.typical_p = 0.05f},
        {.xtc_probability = 1, .xtc_threshold = 0.02f},
        {.xtc_probability = 1, .xtc_threshold = 0.004f},
        {.xtc_probability = 1, .xtc_threshold = 0.4f},
    };
    const size_t count = sizeof(cases) / sizeof(cases[0]);
    uint64_t seed = 8;
    size_t compared = 0;
    (void)state;
    for (size_t n = 0; n < 6 * count; n++) {
        struct dgl_sampling sampling = cases[n / 6];
        struct pair p;
        bool *keep = checked(dgl_new_array(bool, 200));
        double slack = 1;
        sampling.temperature = 1;
        pair_init(&p, 200, &sampling);
        fill_logits(&p, NORMAL, &seed);
        naive_filter(p.logits, p.ref.vocab, &sampling, keep, &slack);
        assert_true(ref_sample(&p.ref, SAMPLE_FULL));
        for (uint32_t i = 0; i < p.ref.vocab && slack > 1e-6; i++)
            if (keep[i] != (p.ref.logits[i] > -INFINITY))
                fail_msg("case %zu: token %u is %s, wanted the opposite", n, i,
                         keep[i] ? "dropped" : "kept");
        compared += slack > 1e-6;
        free(keep);
        pair_finish(&p);
    }
    if (compared < 4 * count)
        fail_msg("only %zu of %zu cases are clear", compared, 6 * count);
}

/* Banned ids are dropped up to a length, and not from there on. */
static void bans_end_at_a_length(void **state)
{
    const struct dgl_sampling sampling = {.min_tokens = 5};
    const int32_t ids[] = {7, 250};
    (void)state;
    for (uint32_t pos = START - 2; pos < START + 1; pos++) {
        struct pair p;
        pair_init(&p, 300, &sampling);
        assert_int_equal(adjust_ban(&p.adjust, NULL, ids, 2, START), DGL_OK);
        p.step.pos = p.ref.step.pos = pos;
        point_at(&p, 250);
        if (bench)
            run_list(&p, SAMPLE_GREEDY, false);
        assert_true(ref_sample(&p.ref, SAMPLE_GREEDY));
        if (bench)
            compare(&p, 0);
        const bool dropped = p.ref.logits[250] == -INFINITY;
        if (dropped != (pos + 1 < START))
            fail_msg("at %u ids: dropped is %d", pos + 1, dropped);
        pair_finish(&p);
    }
}

/* ---- parameters ------------------------------------------------------------------------------ */

struct range_row {
    const char *name;
    struct dgl_sampling sampling;
    const char *field; /* NULL: accepted */
};

static const struct range_row range_rows[] = {
    {"defaults", {.top_k = 0}, NULL},
    {"usual", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f}, NULL},
    {"top_k_128", {.top_k = 128}, NULL},
    {"top_k_129", {.top_k = 129}, "top_k"},
    {"top_k_off", {.top_k = -1}, NULL},
    {"top_k_negative", {.top_k = -2}, "top_k"},
    {"temperature_negative", {.temperature = -0.1f}, "temperature"},
    {"temperature_nan", {.temperature = NAN}, "temperature"},
    {"temperature_infinite", {.temperature = INFINITY}, "temperature"},
    {"top_n_sigma_off", {.top_n_sigma = -1}, NULL},
    {"top_n_sigma_vast", {.top_n_sigma = 1001}, "top_n_sigma"},
    {"typical_p_above_one", {.typical_p = 1.5f}, "typical_p"},
    {"xtc_probability_above_one", {.xtc_probability = 1.5f}, "xtc_probability"},
    {"xtc_threshold_negative", {.xtc_threshold = -0.5f}, "xtc_threshold"},
    {"min_tokens_negative", {.min_tokens = -1}, "min_tokens"},
    {"top_p_above_one", {.top_p = 1.5f}, "top_p"},
    {"top_p_one", {.top_p = 1}, NULL},
    {"min_p_negative", {.min_p = -1}, "min_p"},
    {"repeat_penalty_small", {.repeat_penalty = 0.001f}, "repeat_penalty"},
    {"repeat_penalty_large", {.repeat_penalty = 1000}, "repeat_penalty"},
    {"repeat_last_n_large", {.repeat_last_n = INT32_MAX}, NULL},
    {"repeat_last_n_all", {.repeat_last_n = -1}, NULL},
    {"repeat_last_n_negative", {.repeat_last_n = -2}, "repeat_last_n"},
    {"presence_penalty_nan", {.presence_penalty = NAN}, "presence_penalty"},
    {"presence_penalty_negative", {.presence_penalty = -2}, NULL},
    {"frequency_penalty_large", {.frequency_penalty = 101}, "frequency_penalty"},
    {"dry_multiplier_negative", {.dry_multiplier = -1}, "dry_multiplier"},
    {"dry_base_small", {.dry_base = 0.5f}, "dry_base"},
    {"dry_base_one", {.dry_base = 1}, NULL},
    {"dry_allowed_length_negative", {.dry_allowed_length = -1}, "dry_allowed_length"},
    {"dry_penalty_last_n_negative", {.dry_penalty_last_n = -2}, "dry_penalty_last_n"},
    {"dry_breaker_empty",
     {.dry_breakers = (const char *const[]){"a", ""}, .num_dry_breakers = 2},
     "dry_breakers[1]"},
    {"dry_breaker_long",
     {.dry_breakers = (const char *const[]){"12345678901234567890123456789012345678901"},
      .num_dry_breakers = 1},
     "dry_breakers[0] has 41 bytes"},
    {"too_many_dry_breakers",
     {.dry_breakers = (const char *const[DGL_DRY_BREAKERS_MAX + 1]){"a"},
      .num_dry_breakers = DGL_DRY_BREAKERS_MAX + 1},
     "num_dry_breakers is 65"},
    {"no_dry_breakers", {.dry_breakers = (const char *const[]){""}}, NULL},
    {"logit_bias_minus_infinity", {BIASED}, NULL},
    {"logit_bias_nan",
     {.logit_bias = (const struct dgl_logit_bias[]){{1, 2}, {2, NAN}}, .num_logit_bias = 2},
     "logit_bias[1]"},
    {"logit_bias_missing", {.num_logit_bias = 1}, "logit_bias[0]"},
    {"logit_bias_many", {.logit_bias = biases, .num_logit_bias = 1025}, "num_logit_bias"},
};

static void parameters_have_ranges(void **state)
{
    const struct range_row *row = *state;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status = sampling_check(&log.log, &row->sampling);
    assert_int_equal(status, row->field ? DGL_ERR_INVALID_ARG : DGL_OK);
    assert_int_equal(log.errors, row->field != NULL);
    if (row->field)
        assert_contains(log.text, row->field);
}

static void parameters_become_fractions(void **state)
{
    (void)state;
    struct dgl_step step = {.pos = 7, .flags = DGL_STEP_IGNORE_EOS};
    sampling_to_step(&(struct dgl_sampling){.temperature = 0.5f,
                                            .top_k = 9,
                                            .top_p = 0.25f,
                                            .min_p = 1,
                                            .repeat_penalty = 4,
                                            .repeat_last_n = 3,
                                            .seed = 0x1122334455667788},
                     &step);
    assert_int_equal(step.pos, 7);
    assert_int_equal(step.flags, DGL_STEP_IGNORE_EOS);
    assert_int_equal(step.top_k, 9);
    assert_int_equal(step.top_p_q, 0x40000000);
    assert_int_equal(step.min_p_q, 0xffffffff);
    assert_int_equal(step.seed_lo, 0x55667788);
    assert_int_equal(step.seed_hi, 0x11223344);
    assert_near((double)step.inv_temp, 2, 0);
    assert_near((double)step.repeat_inverse, 0.25, 0);
    assert_int_equal(step.repeat_last_n, 3);
    sampling_to_step(&(struct dgl_sampling){.temperature = 1e-9f, .top_p = 1, .repeat_last_n = 3},
                     &step);
    assert_near((double)step.inv_temp, 0x1p23, 0);
    assert_int_equal(step.top_p_q, 0);
    assert_int_equal(step.repeat_last_n, 0);
}

/* Groups as wide as those of a program that runs all of a step. */
#define WIDE(kernel) "\"" kernel ".WG_SIZE\": 512"
/* clang-format off */
static const char wide_hints[] =
    "{\"tunes\": {"
    WIDE("sample_adjust") ","
    WIDE("sample_max") ","
    WIDE("sample_topk") ","
    WIDE("sample_hist") ","
    WIDE("sample_mass") ","
    WIDE("sample_find") ","
    WIDE("sample_pick") ","
    WIDE("sample_next")
    "}}";
/* clang-format on */

static const struct row wide_rows[] = {
    {"greedy_v5000_close", 5000, CLOSE, {.top_k = 0}, true, 0, 0},
    {"topk_v5000_everything",
     5000,
     STEPS,
     {.temperature = 0.7f,
      .top_k = 100,
      .top_p = 0.9f,
      .repeat_penalty = 1.2f,
      .repeat_last_n = 64,
      .dry_multiplier = 1,
      .dry_penalty_last_n = -1,
      BIASED,
      .seed = 3},
     true,
     0,
     0},
    {"full_v5000", 5000, NORMAL, {.temperature = 1, .top_p = 0.8f, .min_p = 0.01f}, true, 0, 0},
};

int main(void)
{
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(a_stopped_step_changes_nothing),
        cmocka_unit_test(group_counts_are_zeroed_once_stopped),
        cmocka_unit_test(masks_drop_tokens),
        cmocka_unit_test(every_kernel_was_tested),
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(weights_are_probabilities),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(kept_tokens_are_those_of_the_definition),
        cmocka_unit_test(filters_are_those_of_the_definition),
        cmocka_unit_test(bans_end_at_a_length),
        cmocka_unit_test(parameters_become_fractions),
    };
    bench = kernel_bench_create(false);
    int failures = test_run_table_sample("choice", kernels_choose_what_the_twin_chooses, rows, 3);
    failures += test_run_table("end", the_step_ends_as_it_should, end_rows);
    failures += test_run_table("range", parameters_have_ranges, range_rows);
    failures += cmocka_run_group_tests_name("rest", rest, NULL, NULL);
    if (bench && kernel_bench_caps(bench)->limits.max_invocations >= 512) {
        if (!kernel_bench_hint(bench, wide_hints))
            return 1;
        failures += test_run_table("wide", kernels_choose_what_the_twin_chooses, wide_rows);
    }
    kernel_bench_destroy(&bench);
    return failures;
}
