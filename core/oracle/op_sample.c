/*
 * Problems of sample_*: one token from random logits, chosen by the operations of its kind
 * (docs/operations.md). The tested kernel runs one of them, built-in kernels all others. The result
 * must equal the choice of the host sampler, bit for bit.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/oracle/op_problem.h"
#include "core/oracle/ref_ops.h"
#include "core/oracle/ref_sample.h"

enum { CONTEXT = 700, START = 140, STOP_WORDS = 33, ARRIVED_WORDS = 64, NUM_ARGS = 7 };

/* Kinds of logits, and flags that are combined with them. */
enum {
    LOGITS_NORMAL,
    LOGITS_STEPS, /* multiples of 1/2: many ties */
    LOGITS_CLOSE, /* neighbours in the last bits */
    LOGITS_INFINITE,
    LOGITS_NAN,
    LOGITS_ALL_NAN,
    LOGITS_KIND = 15,
    STOPS = 16,   /* the best id is a stop id */
    STOPPED = 32, /* the sequence has stopped before */
    FULL = 64,    /* the context ends here */
    LATE = 128,   /* the best ids are among the last */
};

static float logit_at(uint32_t variant, uint32_t i, struct problem *p)
{
    const float x = ref_rand_float(&p->seed);
    switch (variant & LOGITS_KIND) {
    case LOGITS_STEPS:
        return rintf(2 * x) / 2;
    case LOGITS_CLOSE:
        return 7 + (float)(ref_rand(&p->seed) % 5) * 0x1p-21f;
    case LOGITS_INFINITE:
        return i % 3 == 1 ? -INFINITY : i % 50 == 7 ? INFINITY : x;
    case LOGITS_NAN:
        return i % 4 == 0 ? (i % 8 ? NAN : -NAN) : x;
    case LOGITS_ALL_NAN:
        return NAN;
    default:
        return 3 * x;
    }
}

/* ids: one that breaks repeats by itself, and one that does so only in a sequence. */
static const struct ref_breaker breakers[] = {{{3}, 1}, {{5, 1}, 2}, {{5, 1, 2}, 3}};
enum { NUM_BREAKERS = sizeof(breakers) / sizeof(breakers[0]) };
enum { NUM_BIASES = 300 };

#define DRY_MULTIPLIER 0.8f
#define DRY_BASE       1.75f
#define DRY_ALLOWED    2
#define DRY_LENGTHS    150 /* beyond any repeat of START tokens */

struct sample {
    struct ref_sampler twin;
    struct dgl_sampling sampling;
    uint32_t *adjust, *stops;
};

/* ADJUST as docs/operations.md has it. */
static void fill_adjust(struct sample *s)
{
    uint32_t *w = s->adjust;
    const uint32_t vocab = s->twin.vocab;
    w[ADJUST_NUM_BIASES] = (uint32_t)s->sampling.num_logit_bias;
    for (uint32_t i = 0; i < s->sampling.num_logit_bias; i++) {
        w[ADJUST_BIASES + 2 * i] = (uint32_t)s->sampling.logit_bias[i].id;
        w[ADJUST_BIASES + 2 * i + 1] = dgl_f32_bits(s->sampling.logit_bias[i].bias);
    }
    w[ADJUST_PRESENCE] = dgl_f32_bits(s->sampling.presence_penalty);
    w[ADJUST_FREQUENCY] = dgl_f32_bits(s->sampling.frequency_penalty);
    w[ADJUST_FILTERS] = s->twin.filters != NULL;
    w[ADJUST_MASKED] = s->twin.mask != NULL;
    if (s->twin.mask)
        memcpy(w + oplist_mask_at(vocab), s->twin.mask, oplist_mask_words(vocab) * sizeof(*w));
    if (s->twin.filters)
        memcpy(w + oplist_filters_at(vocab), s->twin.filters, FILTER_WORDS * sizeof(*w));
    if (s->sampling.dry_multiplier == 0)
        return;
    w[ADJUST_DRY_LAST_N] = UINT32_MAX;
    w[ADJUST_DRY_ALLOWED] = DRY_ALLOWED;
    w[ADJUST_DRY_LENGTHS] = DRY_LENGTHS;
    for (uint32_t i = 0; i < DRY_LENGTHS; i++)
        w[ADJUST_DRY + i] =
            dgl_f32_bits((float)((double)DRY_MULTIPLIER * pow((double)DRY_BASE, i)));
    uint32_t *list = w + oplist_sequences_at(vocab), used = 0;
    for (uint32_t i = 0; i < s->twin.num_breakers; i++) {
        const struct ref_breaker *b = &breakers[i];
        const uint32_t id = b->ids[0];
        w[ADJUST_MARKS + id / 16] |= (b->count == 1 ? 1u : 2u) << 2 * (id % 16);
        if (b->count == 1)
            continue;
        list[used] = id;
        list[used + 1] = b->count - 1;
        memcpy(list + used + 2, b->ids + 1, 4ull * (b->count - 1));
        used += 1 + b->count;
    }
    w[ADJUST_SEQUENCE_WORDS] = used;
}

/* Filters of one case. All of them have three banned ids. */
static const uint32_t filter_cases[][FILTER_BEST + 1 - FILTER_STAGES] = {
    /* sigma, top-k, typical, top-p, min-p, XTC, best */
    {0x10000, 0, 0, 0, 0, 0, 0},
    {0, 0, 0xe6666666, 0, 0, 0, 0},
    {0, 0, 0, 0, 0, 0xffffffff, 0},
    {0x18000, 60, 0xe6666666, 0xf3333333, 0x028f5c28, 0xffffffff, 0},
    {0, 40, 0, 0xe6666666, 0, 0, 1},
};

static uint32_t *make_filters(struct problem *p, const struct kernel_case *c, uint32_t vocab)
{
    uint32_t *words = problem_new(p, uint32_t, FILTER_WORDS);
    if (!words)
        return NULL;
    const uint32_t which = (vocab + c->row) % (sizeof(filter_cases) / sizeof(filter_cases[0]));
    memcpy(words + FILTER_STAGES, filter_cases[which], sizeof(filter_cases[0]));
    words[FILTER_XTC_THRESHOLD] = 0x051eb851; /* 0.02 */
    words[FILTER_BAN_UNTIL] = START;
    words[FILTER_NUM_BANS] = 3;
    for (uint32_t i = 0; i < 3; i++)
        words[FILTER_BANS + i] = i * (vocab / 3);
    return words;
}

/* Every 64th row has no constraint. Others allow a tenth of the ids, and always one of the last. */
static uint32_t *make_mask(struct problem *p, const struct kernel_case *c, uint32_t vocab)
{
    uint32_t *words = problem_new(p, uint32_t, oplist_mask_words(vocab));
    if (!words || c->row % 64 == 63)
        return NULL;
    for (uint32_t i = 0; i < vocab; i++)
        if (ref_rand(&p->seed) % 10 == 0 || i + 1 + c->row % 3 == vocab)
            words[i / 32] |= 1u << i % 32;
    return words;
}

static enum sample_kind kind_of(const struct kernel_request *q)
{
    return request_is(q, "kind", "topk")   ? SAMPLE_TOPK
           : request_is(q, "kind", "full") ? SAMPLE_FULL
                                           : SAMPLE_GREEDY;
}

/* Makes a state in the middle of a sequence. Returns NULL if memory runs out. */
static struct sample *sample_init(struct problem *p, const struct kernel_case *c, uint32_t vocab)
{
    const uint32_t start = START - 2 * c->row;
    problem_begin_row(p, c);
    struct sample *s = problem_new(p, struct sample, 1);
    uint32_t *ids = problem_new(p, uint32_t, CONTEXT + 1);
    float *logits = problem_new(p, float, vocab);
    if (p->failed)
        return NULL;
    const enum sample_kind kind = kind_of(&c->request);
    struct dgl_step *step = &p->step;
    *step = (struct dgl_step){.pos = start - 1,
                              .tokens = 1,
                              .context = c->variant & FULL ? start : CONTEXT,
                              .draws = 5,
                              .stopped = (c->variant & STOPPED) != 0,
                              .seed_lo = 0x89abcdef + c->row,
                              .seed_hi = 0x01234567,
                              .repeat_penalty = 1,
                              .repeat_inverse = 1};
    if (kind != SAMPLE_GREEDY) {
        step->inv_temp = 1 / 0.8f;
        step->top_k = kind == SAMPLE_TOPK ? 40 : 0;
        step->top_p_q = 0xf3333333; /* 0.95 */
        step->min_p_q = 0x051eb851; /* 0.02 */
    }
    s->twin = (struct ref_sampler){
        .vocab = vocab, .logits = logits, .ids = ids, .sampling = &s->sampling};
    if (strcmp(c->request.op, "sample_adjust") == 0) {
        static const float bias[] = {1.25f, -INFINITY, 0x1p-20f, -100, 9};
        const uint32_t count = vocab / 2 < NUM_BIASES ? vocab / 2 : NUM_BIASES;
        struct dgl_logit_bias *all = problem_new(p, struct dgl_logit_bias, NUM_BIASES);
        if (p->failed)
            return NULL;
        for (uint32_t i = 0; i < count; i++) /* from the last id to the first, in steps */
            all[i] = (struct dgl_logit_bias){(int32_t)(vocab - 1 - i * (vocab / count)),
                                             bias[i % (sizeof(bias) / sizeof(bias[0]))]};
        s->sampling.logit_bias = all;
        s->sampling.num_logit_bias = count;
        s->sampling.repeat_penalty = step->repeat_penalty = 1.3f;
        step->repeat_inverse = (float)(1.0 / (double)1.3f);
        s->sampling.repeat_last_n = 120;
        step->repeat_last_n = 120;
        s->sampling.presence_penalty = 0.7f;
        s->sampling.frequency_penalty = 0.13f;
        s->sampling.dry_multiplier = DRY_MULTIPLIER;
        s->sampling.dry_base = DRY_BASE;
        s->sampling.dry_allowed_length = DRY_ALLOWED;
        s->sampling.dry_penalty_last_n = -1;
        s->twin.breakers = breakers;
        s->twin.num_breakers = vocab > 5 ? NUM_BREAKERS : 0;
    }
    for (uint32_t i = 0; i < start; i++) /* repeats, for DRY */
        ids[i] = i < 17 ? (i * i * 7 + i + c->row) % vocab : ids[i - 17];
    uint32_t best = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        logits[i] = logit_at(c->variant, i, p);
        if (c->variant & LATE && i >= vocab - vocab / 16 - 1)
            logits[i] += 4;
        if (logits[i] > logits[best] || isnan(logits[best]))
            best = i;
    }
    s->stops = problem_new(p, uint32_t, STOP_WORDS);
    s->adjust = problem_new(p, uint32_t, oplist_adjust_words(vocab));
    if (p->failed)
        return NULL;
    s->stops[0] = s->twin.num_stops = 3;
    s->stops[1] = s->stops[2] = vocab + 1;
    s->stops[3] = c->variant & STOPS ? best : vocab + 2;
    s->twin.stops = s->stops + 1;
    s->twin.step = *step;
    if (strcmp(c->request.op, "sample_filter") == 0)
        s->twin.filters = make_filters(p, c, vocab);
    if (strcmp(c->request.op, "sample_mask") == 0)
        s->twin.mask = make_mask(p, c, vocab);
    if (p->failed)
        return NULL;
    fill_adjust(s);
    return s;
}

static void add_stage(struct problem *p, const struct kernel_case *c, const char *op, int level)
{
    struct kernel_request q = c->request;
    q.op = op;
    if (level >= 0)
        request_set_const(&q, "LEVEL", level);
    struct problem_stage *stage = problem_stage(p, &q);
    stage_uint(stage, "count", NUM_ARGS);
    stage->is_subject = strcmp(op, c->request.op) == 0 &&
                        (level < 0 || level == request_const(&c->request, "LEVEL", 0));
}

/* The list of docs/operations.md. */
static void add_chain(struct problem *p, const struct kernel_case *c)
{
    const enum sample_kind kind = kind_of(&c->request);
    if (strcmp(c->request.op, "sample_next") == 0) {
        add_stage(p, c, "sample_next", -1);
        return;
    }
    add_stage(p, c, kind == SAMPLE_TOPK ? "sample_topk" : "sample_max", -1);
    if (kind == SAMPLE_FULL) {
        for (int level = 0; level < 3; level++)
            add_stage(p, c, "sample_hist", level);
        add_stage(p, c, "sample_mass", -1);
        add_stage(p, c, "sample_find", -1);
    }
    add_stage(p, c, "sample_pick", -1);
}

static uint32_t *copy_words(struct problem *p, const void *words, size_t count)
{
    uint32_t *copy = problem_new(p, uint32_t, count);
    if (copy)
        memcpy(copy, words, 4 * count);
    return copy;
}

static void make_sample(struct problem *p, const struct kernel_case *c)
{
    const struct kernel_request *q = &c->request;
    struct kernel_case settled = *c;
    const uint32_t vocab = request_size(&settled.request, "VOCAB", 300);
    const bool adjusts = strcmp(q->op, "sample_adjust") == 0 || strcmp(q->op, "sample_mask") == 0 ||
                         strcmp(q->op, "sample_filter") == 0;
    const bool next = strcmp(q->op, "sample_next") == 0;
    struct sample *s = sample_init(p, c, vocab);
    const size_t step_words = sizeof(struct dgl_step_table) / 4;
    struct dgl_step_table *steps = problem_new(p, struct dgl_step_table, 1);
    struct dgl_step_table *after = problem_new(p, struct dgl_step_table, 1);
    uint32_t *counts = problem_new(p, uint32_t, vocab);
    uint32_t *args = problem_new(p, uint32_t, 3 * NUM_ARGS + 2);
    uint32_t *arrived = problem_new(p, uint32_t, ARRIVED_WORDS);
    if (p->failed)
        return;
    uint32_t *logits = copy_words(p, s->twin.logits, vocab);
    uint32_t *ids = copy_words(p, s->twin.ids, CONTEXT + 1);
    const size_t cand_words = oplist_sample_scratch_bytes(vocab) / 4;
    for (uint32_t i = 0; i < 3 * NUM_ARGS + 2; i++)
        args[i] = i + 1;
    uint32_t *args_after = copy_words(p, args, 3 * NUM_ARGS + 2);
    if (p->failed)
        return;
    memset(counts, 0xa5, 4ull * vocab);
    problem_steps(&p->step, steps);
    if (!c->timing && !ref_sample(&s->twin, kind_of(q))) {
        p->failed = true;
        return;
    }
    *after = *steps;
    after->seq[PROBLEM_SEQ] = s->twin.step;
    for (uint32_t i = 0; i < 3 * NUM_ARGS && s->twin.step.stopped; i++)
        args_after[i] = 0;
    if (adjusts)
        add_stage(p, &settled, q->op, -1);
    else
        add_chain(p, &settled);
    problem_in(p, "STOPS", s->stops, STOP_WORDS);
    problem_in(p, "ADJUST", s->adjust, oplist_adjust_words(vocab));
    problem_out(p, "COUNTS", counts, vocab);
    problem_out(p, "CAND", c->timing ? problem_new(p, uint32_t, cand_words) : NULL, cand_words);
    problem_exact(p, "ARRIVED", arrived, arrived, ARRIVED_WORDS);
    problem_exact(p, "LOGITS", logits, adjusts ? (const void *)s->twin.logits : logits, vocab);
    problem_exact(p, "IDS", ids, adjusts ? (const void *)ids : s->twin.ids, CONTEXT + 1);
    problem_exact(p, "STEP", steps, adjusts ? steps : after, step_words);
    problem_exact(p, "ARGS", args, next ? args_after : args, 3 * NUM_ARGS + 2);
    p->bytes = 4ull * vocab;
}

static bool settle(struct kernel_case *c)
{
    struct kernel_request *q = &c->request;
    const char *only = !strcmp(q->op, "sample_topk") ? "topk"
                       : !strcmp(q->op, "sample_hist") || !strcmp(q->op, "sample_mass") ||
                               !strcmp(q->op, "sample_find")
                           ? "full"
                           : NULL;
    if (only)
        request_set(q, "kind", only);
    const bool adjusts = strcmp(q->op, "sample_adjust") == 0;
    if (strcmp(q->op, "sample_filter") == 0 || strcmp(q->op, "sample_mask") == 0) {
        request_set(q, "kind", "greedy");
    } else if (adjusts) {
        request_set(q, "kind", "greedy");
        if ((c->variant & LOGITS_KIND) != LOGITS_STEPS)
            c->variant &= ~(uint32_t)LOGITS_KIND; /* a NaN may come back as another one */
    } else if (request_is(q, "kind", "none"))
        return false;
    return true;
}

/* Some of the sequences have stopped. */
static bool member(struct kernel_case *c, uint32_t row)
{
    c->variant ^= row % 3 == 1 ? STOPPED : 0;
    return true;
}

/* ---- sample_args ----------------------------------------------------------------------------- */

static void make_args(struct problem *p, const struct kernel_case *c)
{
    enum { COUNT = 70, WORDS = 3 * COUNT + 5 };
    uint32_t *args = problem_new(p, uint32_t, WORDS), *want = problem_new(p, uint32_t, WORDS);
    if (p->failed)
        return;
    p->step = (struct dgl_step){.tokens = 1, .stopped = c->variant};
    for (uint32_t i = 0; i < WORDS; i++) {
        args[i] = i + 1;
        want[i] = c->variant && i < 3 * COUNT ? 0 : i + 1;
    }
    problem_exact(p, "ARGS", args, want, WORDS);
    stage_uint(problem_stage(p, &c->request), "count", COUNT);
    p->bytes = 4 * WORDS;
}

/* ---- batch_report ---------------------------------------------------------------------------- */

static void make_report(struct problem *p, const struct kernel_case *c)
{
    enum { WORDS = OPLIST_REPORT_WORDS };
    problem_begin_row(p, c);
    const uint32_t tokens = c->tokens ? c->tokens : 1;
    const size_t count = (size_t)tokens * WORDS, num_ids = (size_t)c->pos + tokens;
    uint32_t *ids = problem_new(p, uint32_t, num_ids), *want = problem_new(p, uint32_t, count);
    if (p->failed)
        return;
    p->step = (struct dgl_step){.pos = c->pos, .tokens = tokens};
    for (size_t i = 0; i < num_ids; i++)
        ids[i] = 1 + (uint32_t)(ref_rand(&p->seed) % 50000);
    for (uint32_t t = 0; t < tokens; t++) {
        want[t * WORDS] = c->pos + t;
        for (uint32_t i = 0; i + 1 < WORDS && i <= c->pos + t; i++)
            want[t * WORDS + 1 + i] = ids[c->pos + t - i];
    }
    problem_in(p, "IDS", ids, num_ids);
    problem_exact(p, "REPORT", NULL, want, count);
    (void)problem_stage(p, &c->request);
    p->bytes = 8 * count;
}

static bool member_report(struct kernel_case *c, uint32_t row)
{
    c->pos = (c->pos + 13 * row) % 41;
    return true;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const struct op_shape shapes[] = {
    {{{"VOCAB", 9001}}, 1, 0, 0, LOGITS_NORMAL | LATE},
    {{{"VOCAB", 5000}}, 1, 0, 0, LOGITS_STEPS},
    {{{"VOCAB", 2050}}, 1, 0, 0, LOGITS_NORMAL},
    {{{"VOCAB", 4097}}, 1, 0, 0, LOGITS_STEPS | LATE},
    {{{"VOCAB", 300}}, 1, 0, 0, LOGITS_NAN | FULL},
    {{{"VOCAB", 4096}}, 1, 0, 0, LOGITS_CLOSE},
    {{{"VOCAB", 100}}, 1, 0, 0, LOGITS_INFINITE | STOPS},
    {{{"VOCAB", 2049}}, 1, 0, 0, LOGITS_NORMAL | STOPPED},
    {{{"VOCAB", 6001}}, 1, 0, 0, LOGITS_NORMAL | LATE},
    {{{"VOCAB", 50}}, 1, 0, 0, LOGITS_NORMAL | STOPS},
    {{{"VOCAB", 64}}, 1, 0, 0, LOGITS_ALL_NAN},
    {{{"VOCAB", 1}}, 1, 0, 0, LOGITS_NORMAL},
};

static const struct op_shape hist_shapes[] = {
    {{{"VOCAB", 5000}, {"LEVEL", 0}}, 1, 0, 0, LOGITS_STEPS},
    {{{"VOCAB", 2050}, {"LEVEL", 1}}, 1, 0, 0, LOGITS_NORMAL},
    {{{"VOCAB", 4096}, {"LEVEL", 2}}, 1, 0, 0, LOGITS_CLOSE},
    {{{"VOCAB", 300}, {"LEVEL", 1}}, 1, 0, 0, LOGITS_NAN},
    {{{"VOCAB", 100}, {"LEVEL", 2}}, 1, 0, 0, LOGITS_INFINITE},
    {{{"VOCAB", 2049}, {"LEVEL", 0}}, 1, 0, 0, LOGITS_NORMAL | STOPPED},
    {{{"VOCAB", 9001}, {"LEVEL", 0}}, 1, 0, 0, LOGITS_NORMAL | LATE},
    {{{"VOCAB", 4097}, {"LEVEL", 1}}, 1, 0, 0, LOGITS_STEPS | LATE},
    {{{"VOCAB", 9001}, {"LEVEL", 2}}, 1, 0, 0, LOGITS_NORMAL | LATE},
};

/* The variant is why the sequence has stopped. */
static const struct op_shape args_shapes[] = {
    {{{NULL, 0}}, 1, 0, 0, 0},
    {{{NULL, 0}}, 1, 0, 0, 1},
    {{{NULL, 0}}, 1, 0, 0, 3},
};

#define RULE(name, table, ...)                                                                     \
    const struct op_rule op_rule_##name = {                                                        \
        .op = #name,                                                                               \
        .attrs = {__VA_ARGS__},                                                                    \
        OP_SHAPES(table),                                                                          \
        .typical = {{{"VOCAB", 128256}}, 1, 0, 0, LOGITS_NORMAL},                                  \
        .settle = settle,                                                                          \
        .member = member,                                                                          \
        .make = make_sample,                                                                       \
        .streamed = "LOGITS"}
RULE(sample_adjust, shapes, {NULL, {NULL}});
RULE(sample_mask, shapes, {NULL, {NULL}});
RULE(sample_filter, shapes, {NULL, {NULL}});
RULE(sample_max, shapes, {"kind", {"greedy", "full"}});
RULE(sample_topk, shapes, {"kind", {"topk"}});
RULE(sample_hist, hist_shapes, {NULL, {NULL}});
RULE(sample_mass, shapes, {NULL, {NULL}});
RULE(sample_find, shapes, {NULL, {NULL}});
RULE(sample_pick, shapes, {"kind", {"greedy", "topk", "full"}});
RULE(sample_next, shapes, {"kind", {"greedy", "topk"}});

static const struct op_shape report_shapes[] = {
    {{{NULL, 0}}, 64, 100, 0, 0},
    {{{NULL, 0}}, 9, 0, 0, 0},
    {{{NULL, 0}}, 1, 14, 0, 0},
};

const struct op_rule op_rule_batch_report = {.op = "batch_report",
                                             OP_SHAPES(report_shapes),
                                             .typical = {{{NULL, 0}}, 64, 100, 0, 0},
                                             .member = member_report,
                                             .make = make_report};

const struct op_rule op_rule_sample_args = {
    .op = "sample_args", OP_SHAPES(args_shapes), .make = make_args};
