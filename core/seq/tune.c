/*
 * Kernels and values of their tunables, measured on a model's own operations: its weights, layer
 * after layer, so that they come from memory as in use, on activations of a real pass.
 *
 * Operations that ask for the same are one subject. From the default on, all candidates that differ
 * in one tunable, and at first all other kernels that can serve, are compiled in one batch, held
 * against known answers and timed; the search goes on from the best of them until none is faster.
 * The winner must then beat the default in paired rounds by more than their spread.
 */
#include "core/seq/tune.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "core/oracle/kernel_check.h"

#define SEARCH_ROUNDS  3   /* neighbourhoods that are looked at, at most */
#define MAX_CANDIDATES 128 /* of a subject */
#define TIMED_SPANS    3   /* of a candidate, of which the least counts */
#define PAIRED_ROUNDS  5
#define PAIRED_TRIES   2          /* a disturbance of the machine costs a winner one of them */
#define GAIN           0.99       /* less is noise */
#define HOPELESS       1.5        /* times the best: no further span */
#define SPAN_NS        2000000ull /* of one measurement, at least */
#define SPAN_MOST_NS   8000000ull /* and at most, where fewer layers will do */
#define SPAN_LISTS     64
#define SAMPLE_LISTS   16             /* each takes a position */
#define STREAM_BYTES   (256ull << 20) /* of weights: more than caches hold */
/* A GPU that waited for the compiler has lowered its clocks: before anything is timed it is kept
 * busy as long as it was idle, at most so long. (One NVIDIA H200 took 3,256 us for tokens of
 * 842 us.) */
#define WARM_NS 200000000ull
/* For the estimate: seconds that a candidate takes, most of them to compile it, and how many there
 * will be for each that the search begins with. */
#define SOFTWARE_S 0.4
#define HARDWARE_S 0.05
#define MORE       1.6
#define TOKENS     512 /* of the widest pass; default of dgl_tune_params.depth */
#define SECONDS    120

/* Operations of one body of passes that ask for the same. */
struct usage {
    enum segment segment;
    int32_t tokens; /* of a pass */
    struct op *ops;
    size_t count, cap;
    uint32_t lists;  /* so many times are they run for one measurement */
    double probe_us; /* of the default, run once */
};

struct subject {
    char *key;
    char texts[65];
    /* [0] is what is tuned for. [1], where prefill asks for the same as decode, must not become
     * slower. */
    struct usage usage[2];
    uint32_t num_usages;
    double default_us; /* of one operation, at first sight */
};

/* A kernel with values of its tunables for the subject at hand. */
struct contestant {
    struct dgl_tune_candidate *report; /* in `reports` */
    struct kernel_use *use;
    struct plan plan[2]; /* of nothing but the operations of a usage */
    struct exec *exec[2];
    struct exec_run *run[2];
};

struct tuner {
    struct dgl_session *s;
    const struct dgl_tune_params *p;
    struct dgl_tune_result *r;
    const struct dgl_log *log;
    struct kernel_set *set; /* without what was tuned before; borrowed */
    struct kernel_judge *judge;
    struct tune_store store;
    struct subject *subjects;
    size_t count, cap;
    int32_t *ids; /* [num_ids] */
    size_t num_ids;
    int32_t depth, most_tokens;
    uint64_t start_ns, busy_ns; /* when the call began; when the device was last seen busy */
    /* of the subject at hand */
    struct kernel_table table;
    struct programs programs;
    struct contestant *contestants[MAX_CANDIDATES]; /* [0]: the default */
    struct dgl_tune_candidate reports[MAX_CANDIDATES];
    size_t num;
};

static bool is_prefill(const struct usage *usage)
{
    return usage->segment <= SEG_PREFILL;
}

static bool is_sampling(const struct usage *usage)
{
    return usage->segment >= SEG_SAMPLE_GREEDY;
}

/* ---- subjects -------------------------------------------------------------------------------- */

static void subject_finish(struct subject *subject)
{
    for (uint32_t u = 0; u < subject->num_usages; u++)
        free(subject->usage[u].ops);
    free(subject->key);
}

/* The usage of the subject that is asked for by this operation, made when it is new; NULL: the
 * operation does not count, or out of memory. */
static struct usage *usage_of(struct tuner *t, const struct op *op, enum segment segment)
{
    struct dgl_buf key = {0};
    struct subject *subject = NULL;
    kernel_request_key(&op->request, &key);
    for (size_t i = 0; i < t->count && !subject && key.p; i++)
        if (strcmp(t->subjects[i].key, key.p) == 0)
            subject = &t->subjects[i];
    if (!subject && key.p && !key.failed &&
        dgl_grow((void **)&t->subjects, &t->cap, t->count + 1, sizeof(*t->subjects))) {
        subject = &t->subjects[t->count++];
        *subject = (struct subject){.key = dgl_buf_take(&key)};
    }
    dgl_buf_finish(&key);
    for (uint32_t u = 0; subject && u < subject->num_usages; u++)
        if (subject->usage[u].segment == segment)
            return &subject->usage[u];
    /* Of the bodies for prefill the widest comes first. */
    if (!subject || subject->num_usages == 2 ||
        (subject->num_usages == 1 && is_prefill(&subject->usage[0])))
        return NULL;
    struct usage *usage = &subject->usage[subject->num_usages++];
    *usage = (struct usage){.segment = segment,
                            .tokens = segment == SEG_PREFILL  ? t->most_tokens
                                      : segment < SEG_PREFILL ? plan_body_columns(segment)
                                                              : 1};
    return usage;
}

static enum dgl_status list_segment(struct tuner *t, enum segment segment)
{
    struct oplist list = {0};
    enum dgl_status status = plan_segment_list(&t->s->model->engine->plan, segment, &list);
    for (size_t i = 0; i < list.count && status == DGL_OK; i++) {
        const size_t count = t->count;
        if (t->p->op && strcmp(t->p->op, list.ops[i].label) != 0)
            continue;
        struct usage *usage = usage_of(t, &list.ops[i], segment);
        uint64_t bytes = 0;
        if (!usage && t->count == count)
            continue;
        for (size_t k = 0; usage && k < usage->count; k++)
            bytes += usage->ops[k].bytes;
        if (usage && bytes >= STREAM_BYTES)
            continue;
        if (!usage ||
            !dgl_grow((void **)&usage->ops, &usage->cap, usage->count + 1, sizeof(*usage->ops)))
            status = dgl_fail_memory(t->log, "operations", list.count * sizeof(struct op));
        else
            usage->ops[usage->count++] = list.ops[i];
    }
    oplist_finish(&list);
    return status;
}

/* A software renderer compiles for seconds what other bodies of a few tokens would gain: there only
 * those are tuned that the plan has. */
static enum dgl_status list_subjects(struct tuner *t)
{
    static const enum segment segments[] = {
        SEG_DECODE,    SEG_HEAD,        SEG_SAMPLE_GREEDY, SEG_SAMPLE_TOPK, SEG_SAMPLE_FULL,
        SEG_PREFILL,   SEG_PREFILL_128, SEG_PREFILL_64,    SEG_PREFILL_32,  SEG_PREFILL_16,
        SEG_PREFILL_8, SEG_PREFILL_4,   SEG_PREFILL_2,
    };
    const struct plan *plan = &t->s->model->engine->plan;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]) && status == DGL_OK; i++) {
        const enum segment segment = segments[i];
        if (segment < SEG_PREFILL &&
            (plan_body_columns(segment) > t->most_tokens ||
             (plan->device->software && !plan->segment[segment].ops.count)))
            continue;
        status = list_segment(t, segment);
    }
    if (status == DGL_OK && t->count == 0)
        status = dgl_fail(t->log, DGL_ERR_INVALID_ARG,
                          "tune: the model's plan has no operation %s; `dopplergl kernels explain` "
                          "names them",
                          t->p->op ? t->p->op : "");
    for (size_t i = 0; i < t->count && status == DGL_OK; i++)
        if (!tune_texts(t->set, t->subjects[i].usage[0].ops[0].request.op, t->subjects[i].texts))
            status = dgl_fail_memory(t->log, "a digest of kernels", 65);
    return status;
}

/* ---- contestants ----------------------------------------------------------------------------- */

static void contestant_finish(struct contestant *c)
{
    for (int u = 0; u < 2; u++) {
        exec_run_destroy(&c->run[u]);
        exec_unref(&c->exec[u]);
        for (int i = 0; i < SEG_COUNT; i++)
            free(c->plan[u].segment[i].use);
    }
    free(c);
}

static void subject_end(struct tuner *t)
{
    for (size_t i = 0; i < t->num; i++)
        contestant_finish(t->contestants[i]);
    t->num = 0;
    programs_finish(&t->programs);
    kernel_table_finish(&t->table);
}

/* What the tuner's layer would say: the kernel, and its tunables that are not left to their
 * presets. */
static void put_hints(struct dgl_buf *json, const char *key, const char *kernel, const char *tunes)
{
    struct tune_entry entry = {.key = (char *)key, .tunes = (char *)tunes};
    snprintf(entry.kernel, sizeof(entry.kernel), "%s", kernel);
    tune_hints_put(&entry, 1, NULL, json);
}

/* Chooses as a model would that was loaded with these hints. *fits: it got what they say. */
static enum dgl_status choose(struct tuner *t, const struct subject *subject, const char *kernel,
                              const char *tunes, struct kernel_choice *out, bool *fits)
{
    const struct op *op = &subject->usage[0].ops[0];
    const struct plan_device *device = &t->s->model->dev->plan;
    struct kernel_set *set = NULL;
    struct dgl_buf json = {0};
    *fits = true;
    put_hints(&json, subject->key, kernel, tunes);
    enum dgl_status status = json.failed ? dgl_fail_memory(t->log, "hints", json.len)
                                         : kernel_set_with_hints(t->log, t->set, KERNEL_LAYER_TUNER,
                                                                 "tuner", json.p, &set);
    if (status == DGL_OK)
        status = kernel_choose(t->log, set, &op->request, device->properties,
                               device->num_properties, out);
    if (status == DGL_OK) {
        struct dgl_str rest = dgl_str_of(tunes), part;
        *fits = strcmp(out->kernel->name, kernel) == 0 && !out->fallback[0] &&
                plan_check_served(NULL, op, out->kernel) == DGL_OK;
        while (*fits && dgl_str_split(&rest, ' ', &part))
            for (uint32_t i = 0; i < out->num_tunes; i++) {
                const struct kernel_var *var = &out->vars[out->num_consts + i];
                size_t len = strlen(var->name);
                int64_t value = var->value;
                if (part.len > len && memcmp(part.p, var->name, len) == 0 && part.p[len] == '=')
                    dgl_parse_i64((struct dgl_str){part.p + len + 1, part.len - len - 1}, INT64_MIN,
                                  INT64_MAX, &value);
                *fits = *fits && value == var->value;
            }
        memset(out->tune_origin, 0, sizeof(out->tune_origin)); /* they were the set's */
        memset(&out->hint, 0, sizeof(out->hint));
    }
    kernel_set_destroy(&set);
    dgl_buf_finish(&json);
    return status;
}

/* Adds a candidate unless it cannot run here, or is one that there is. */
static enum dgl_status add(struct tuner *t, const struct subject *subject, const char *kernel,
                           const char *tunes)
{
    struct kernel_choice choice;
    bool fits = t->num < MAX_CANDIDATES;
    enum dgl_status status = DGL_OK;
    if (fits)
        status = choose(t, subject, kernel, tunes, &choice, &fits);
    if (status != DGL_OK || !fits)
        return status;
    const struct kernel_use use = {.choice = choice};
    for (size_t i = 0; i < t->num; i++)
        if (kernel_use_equal(t->contestants[i]->use, &use))
            return DGL_OK;
    struct contestant *c = dgl_new(struct contestant);
    if (!c)
        return dgl_fail_memory(t->log, "a candidate", sizeof(*c));
    status = kernel_table_add(&t->table, &subject->usage[0].ops[0].request, &choice, &c->use);
    if (status != DGL_OK) {
        free(c);
        return status;
    }
    c->report = &t->reports[t->num];
    *c->report = (struct dgl_tune_candidate){0};
    snprintf(c->report->kernel, sizeof(c->report->kernel), "%s", kernel);
    snprintf(c->report->tunes, sizeof(c->report->tunes), "%s", tunes);
    t->contestants[t->num++] = c;
    return DGL_OK;
}

/* `tunes` with one of them set to a value. False: it does not fit. */
static bool with_tune(const char *tunes, const char *name, int64_t value, char *out, size_t size)
{
    struct dgl_str rest = dgl_str_of(tunes), part;
    size_t len = strlen(name), used = 0;
    int n;
    out[0] = '\0';
    while (rest.len && dgl_str_split(&rest, ' ', &part)) {
        if (part.len > len && memcmp(part.p, name, len) == 0 && part.p[len] == '=')
            continue;
        n = snprintf(out + used, size - used, "%.*s ", (int)part.len, part.p);
        if (n < 0 || (size_t)n >= size - used)
            return false;
        used += (size_t)n;
    }
    n = snprintf(out + used, size - used, "%s=%lld", name, (long long)value);
    return n >= 0 && (size_t)n < size - used;
}

/* All that differ from a contestant in one tunable. */
static enum dgl_status add_neighbours(struct tuner *t, const struct subject *subject, size_t of)
{
    const struct contestant *c = t->contestants[of];
    const struct kernel *kernel = c->use->choice.kernel;
    char tunes[sizeof(c->report->tunes)];
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        for (uint32_t k = 0; k < kernel->tunes[i].num_choices && status == DGL_OK; k++)
            if (kernel->tunes[i].choices[k] !=
                    c->use->choice.vars[c->use->choice.num_consts + i].value &&
                with_tune(c->report->tunes, kernel->tunes[i].name, kernel->tunes[i].choices[k],
                          tunes, sizeof(tunes)))
                status = add(t, subject, kernel->name, tunes);
    return status;
}

static enum dgl_status add_variants(struct tuner *t, const struct subject *subject)
{
    const struct kernel *first = t->contestants[0]->use->choice.kernel;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < kernel_set_count(t->set) && status == DGL_OK; i++) {
        const struct kernel *kernel = kernel_set_at(t->set, i);
        if (kernel != first && strcmp(kernel->op, first->op) == 0 && kernel->f16 == first->f16)
            status = add(t, subject, kernel->name, "");
    }
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static enum dgl_status bind(struct tuner *t, const struct usage *usage, struct contestant *c,
                            uint32_t u)
{
    const struct plan *whole = &t->s->model->engine->plan;
    struct plan *plan = &c->plan[u];
    struct plan_segment *segment = &plan->segment[usage->segment];
    exec_run_destroy(&c->run[u]);
    exec_unref(&c->exec[u]);
    free(segment->use);
    *plan = (struct plan){.device = whole->device,
                          .desc = whole->desc,
                          .weights = whole->weights,
                          .kv_type = whole->kv_type,
                          .splits = whole->splits,
                          .token_splits = whole->token_splits};
    segment->ops = (struct oplist){.ops = usage->ops, .count = usage->count};
    segment->use = dgl_new_array(const struct kernel_use *, usage->count);
    if (!segment->use)
        return dgl_fail_memory(t->log, "a candidate", usage->count * sizeof(*segment->use));
    for (size_t i = 0; i < usage->count; i++)
        segment->use[i] = c->use;
    enum dgl_status status =
        exec_dispatch_create(t->s->model->dev, plan, &t->programs, &c->exec[u]);
    if (status == DGL_OK)
        status = exec_run_create(c->exec[u], recipe_of(usage->segment), &t->s->memory, &c->run[u]);
    return status == DGL_OK ? exec_run_set_tokens(c->run[u], usage->tokens) : status;
}

/* The state of a step that samples. */
static enum dgl_status write_sampling(struct tuner *t, enum segment segment)
{
    const struct dgl_sampling sampling = {.temperature = segment == SEG_SAMPLE_GREEDY ? 0 : 0.8f,
                                          .top_k = segment == SEG_SAMPLE_TOPK ? 40 : 0,
                                          .top_p = 0.95f,
                                          .min_p = 0.05f,
                                          .seed = 1};
    struct dgl_step step = {.pos = (uint32_t)t->depth,
                            .tokens = 1,
                            .context = (uint32_t)t->s->context,
                            .ignore_eos = 1};
    sampling_to_step(&sampling, &step);
    return session_write_step(t->s, &step, 0);
}

/* Makes buffers and step table those of a pass in the middle of which the operations are. */
static enum dgl_status prepare(struct tuner *t, const struct usage *usage)
{
    struct dgl_session *s = t->s;
    const int32_t need = is_prefill(usage) ? usage->tokens : t->depth;
    enum dgl_status status = DGL_OK;
    memcpy(s->ids, t->ids, t->num_ids * sizeof(*s->ids));
    if (is_prefill(usage)) {
        session_trim(s, 0);
        status = session_compile(s, recipe_of(plan_body(&s->model->engine->plan, need)).segments);
        if (status == DGL_OK)
            status = session_pass(s, need, 0);
    } else {
        session_trim(s, t->depth);
        if (s->len < t->depth)
            status = session_eval(s, t->depth);
        if (status == DGL_OK)
            status =
                session_compile(s, recipe_of(SEG_DECODE).segments | recipe_of(SEG_HEAD).segments);
        if (status == DGL_OK)
            status = session_pass(s, 1, ROW_LOGITS);
    }
    return status == DGL_OK ? gl_finish(s->model->dev->gl) : status;
}

/* One measurement: microseconds of an operation. */
static enum dgl_status span(struct tuner *t, const struct usage *usage, const struct contestant *c,
                            uint32_t u, uint32_t lists, double *us)
{
    struct gl_device *gl = t->s->model->dev->gl;
    const struct gl_dispatch *list = exec_dispatch_list(c->run[u]);
    uint64_t ns = UINT64_MAX;
    enum dgl_status status = DGL_OK;
    for (int tries = 0; tries < 8 && status == DGL_OK && ns == UINT64_MAX; tries++) {
        if (is_sampling(usage))
            status = write_sampling(t, usage->segment);
        if (status == DGL_OK && session_is_cancelled(t->s))
            status = DGL_ERR_CANCELLED;
        if (status == DGL_OK)
            status = gl_submit_span(gl, list, usage->count, lists, &ns);
    }
    t->busy_ns = dgl_now_ns();
    if (status == DGL_OK && ns == UINT64_MAX)
        return dgl_fail(t->log, DGL_ERR_UNSUPPORTED,
                        "the timer of %s was disjoint eight times in a row",
                        t->s->model->dev->info.renderer);
    *us = (double)ns * 1e-3 / (double)(usage->count * lists);
    return status;
}

/* Keeps a GPU busy that has had nothing to do. */
static enum dgl_status warm(struct tuner *t, const struct usage *usage, const struct contestant *c,
                            uint32_t u)
{
    const uint64_t start = dgl_now_ns(), idle = start - t->busy_ns;
    const uint64_t end = start + (idle < WARM_NS ? idle : WARM_NS);
    enum dgl_status status = DGL_OK;
    double us;
    if (t->s->model->dev->info.software)
        return DGL_OK;
    do
        status = span(t, usage, c, u, usage->lists ? usage->lists : 1, &us);
    while (status == DGL_OK && dgl_now_ns() < end);
    return status;
}

/* How often the operations are run for one measurement; fewer of them where one takes long. */
static enum dgl_status size_span(struct tuner *t, struct usage *usage, struct contestant *c,
                                 uint32_t u)
{
    const uint64_t most = is_sampling(usage) ? SAMPLE_LISTS : SPAN_LISTS;
    double us = 0;
    usage->lists = 1;
    enum dgl_status status = warm(t, usage, c, u);
    for (int i = 0; i < 2 && status == DGL_OK; i++) {
        status = span(t, usage, c, u, 1, &us);
        usage->probe_us = i == 0 || us < usage->probe_us ? us : usage->probe_us;
    }
    if (status != DGL_OK)
        return status;
    const double list_ns = us * 1e3 * (double)usage->count + 1;
    if (list_ns > (double)SPAN_MOST_NS && usage->count > 1) {
        size_t fewer = (size_t)((double)SPAN_MOST_NS / (us * 1e3));
        usage->count = fewer < 1 ? 1 : fewer < usage->count ? fewer : usage->count;
        status = bind(t, usage, c, u);
    } else if (list_ns < (double)SPAN_NS) {
        const uint64_t lists = (uint64_t)((double)SPAN_NS / list_ns) + 1;
        usage->lists = (uint32_t)(lists < most ? lists : most);
    }
    return status;
}

/* Compiles contestants from `first` on in one batch, and holds them against known answers. Those
 * that fail get a reason. */
static enum dgl_status compile(struct tuner *t, const struct subject *subject, size_t first)
{
    const struct kernel_use *uses[MAX_CANDIDATES];
    const struct gl_compile how = {.machine_code = true};
    for (size_t i = first; i < t->num; i++)
        uses[i - first] = t->contestants[i]->use;
    enum dgl_status status = programs_compile(&t->programs, uses, t->num - first, &how);
    bool alone = status == DGL_ERR_KERNEL; /* which one it is, is found one by one */
    if (alone)
        status = DGL_OK;
    for (size_t i = first; i < t->num && status == DGL_OK; i++) {
        struct contestant *c = t->contestants[i];
        struct kernel_verdict verdict = {0};
        if (session_is_cancelled(t->s))
            return DGL_ERR_CANCELLED;
        if (alone)
            status = programs_compile(&t->programs, &uses[i - first], 1, &how);
        if (status == DGL_ERR_KERNEL) {
            snprintf(c->report->reason, sizeof(c->report->reason), "it does not compile");
            status = DGL_OK;
            continue;
        }
        if (status == DGL_OK && kernel_judge_knows(c->use->request.op))
            status = kernel_judge_use(
                t->judge,
                &(struct kernel_subject){.request = &c->use->request,
                                         .choice = &c->use->choice,
                                         .program = programs_get(&t->programs, c->use)},
                &verdict);
        if (status == DGL_OK && verdict.kind == KERNEL_WRONG)
            snprintf(c->report->reason, sizeof(c->report->reason), "%.*s",
                     (int)sizeof(c->report->reason) - 1, verdict.text);
        c->report->verified = verdict.cases > 0 && verdict.kind == KERNEL_PASSED;
        for (uint32_t u = 0; u < subject->num_usages && status == DGL_OK && !c->report->reason[0];
             u++)
            status = bind(t, &subject->usage[u], c, u);
    }
    return status;
}

static bool is_fit(const struct contestant *c)
{
    return !c->report->reason[0] && c->report->us > 0;
}

/* Times contestants from `first` on; *best becomes the fastest. */
static enum dgl_status time_from(struct tuner *t, const struct subject *subject, size_t first,
                                 size_t *best)
{
    const struct usage *usage = &subject->usage[0];
    enum dgl_status status = DGL_OK;
    for (size_t i = first; i < t->num && status == DGL_OK; i++) {
        struct contestant *c = t->contestants[i];
        double us = 0, best_us = t->contestants[*best]->report->us;
        if (c->report->reason[0])
            continue;
        status = warm(t, usage, t->contestants[*best], 0);
        if (status == DGL_OK)
            status = span(t, usage, c, 0, 1, &us); /* also the first run of the program */
        c->report->us = us;
        bool hopeless = us > HOPELESS * HOPELESS * usage->probe_us;
        for (int k = 0; k < TIMED_SPANS && status == DGL_OK && !hopeless; k++) {
            status = span(t, usage, c, 0, usage->lists, &us);
            c->report->us = k > 0 && c->report->us < us ? c->report->us : us;
            hopeless = best_us > 0 && us > HOPELESS * best_us;
        }
        if (status == DGL_OK && !hopeless && (best_us == 0 || c->report->us < best_us))
            *best = i;
    }
    return status;
}

/* ---- search ---------------------------------------------------------------------------------- */

/* Adds what unites all single steps away from contestant `of`, among those from `first` on, that
 * were worth it. */
static enum dgl_status add_jump(struct tuner *t, const struct subject *subject, size_t of,
                                size_t first)
{
    const struct contestant *c = t->contestants[of];
    const struct kernel_choice *base = &c->use->choice;
    char tunes[sizeof(c->report->tunes)], next[sizeof(c->report->tunes)];
    snprintf(tunes, sizeof(tunes), "%s", c->report->tunes);
    for (uint32_t i = 0; i < base->num_tunes; i++) {
        const struct contestant *step = NULL;
        for (size_t k = first; k < t->num; k++) {
            const struct contestant *n = t->contestants[k];
            char wanted[sizeof(tunes)];
            const int64_t value = n->use->choice.vars[base->num_consts + i].value;
            if (n->use->choice.kernel == base->kernel && is_fit(n) &&
                n->report->us < GAIN * c->report->us &&
                with_tune(c->report->tunes, base->kernel->tunes[i].name, value, wanted,
                          sizeof(wanted)) &&
                strcmp(n->report->tunes, wanted) == 0 &&
                (!step || n->report->us < step->report->us))
                step = n;
        }
        if (step &&
            with_tune(tunes, base->kernel->tunes[i].name,
                      step->use->choice.vars[base->num_consts + i].value, next, sizeof(next)))
            memcpy(tunes, next, sizeof(tunes));
    }
    return add(t, subject, base->kernel->name, tunes);
}

static enum dgl_status search(struct tuner *t, const struct subject *subject, size_t *best)
{
    enum dgl_status status = DGL_OK;
    for (int round = 0; round < SEARCH_ROUNDS && status == DGL_OK; round++) {
        const size_t from = *best, first = t->num;
        const double from_us = t->contestants[from]->report->us;
        status = add_neighbours(t, subject, from);
        if (status == DGL_OK && round == 0)
            status = add_variants(t, subject);
        if (status == DGL_OK)
            status = compile(t, subject, first);
        if (status == DGL_OK)
            status = time_from(t, subject, first, best);
        const size_t jump = t->num;
        if (status == DGL_OK)
            status = add_jump(t, subject, from, first);
        if (status == DGL_OK && t->num > jump)
            status = compile(t, subject, jump);
        if (status == DGL_OK)
            status = time_from(t, subject, jump, best);
        if (t->contestants[*best]->report->us >= GAIN * from_us)
            break;
    }
    return status;
}

/* Default and winner in turn. *beats: the winner is faster by more than the spread of the ratio in
 * what is tuned for, and not slower by more than that in the other usage. */
static enum dgl_status pair(struct tuner *t, const struct subject *subject, size_t winner,
                            struct dgl_tune_op *out, bool *beats)
{
    enum dgl_status status = DGL_OK;
    *beats = false;
    for (int tries = 0; tries < PAIRED_TRIES && !*beats && status == DGL_OK; tries++) {
        *beats = true;
        for (uint32_t u = 0; u < subject->num_usages && status == DGL_OK && *beats; u++) {
            const struct usage *usage = &subject->usage[u];
            double us[2][PAIRED_ROUNDS], ratio[PAIRED_ROUNDS];
            status = prepare(t, usage);
            if (status == DGL_OK)
                status = warm(t, usage, t->contestants[0], u);
            for (int i = -1; i < PAIRED_ROUNDS && status == DGL_OK; i++)
                for (int k = 0; k < 2 && status == DGL_OK; k++)
                    status = span(t, usage, t->contestants[k ? winner : 0], u, usage->lists,
                                  &us[k][i < 0 ? 0 : i]);
            if (status != DGL_OK)
                break;
            for (int i = 0; i < PAIRED_ROUNDS; i++)
                ratio[i] = us[1][i] / us[0][i];
            const double median = dgl_median(ratio, PAIRED_ROUNDS); /* sorts them */
            const double spread = ratio[PAIRED_ROUNDS - 1] - ratio[0];
            *beats = u == 0 ? median < 1 - spread : median <= 1 + spread;
            if (u > 0)
                continue;
            out->default_us = dgl_median(us[0], PAIRED_ROUNDS);
            out->tuned_us = dgl_median(us[1], PAIRED_ROUNDS);
            out->spread = spread;
        }
    }
    return status;
}

/* ---- one subject ----------------------------------------------------------------------------- */

static enum dgl_status add_default(struct tuner *t, const struct subject *subject)
{
    const struct plan_device *device = &t->s->model->dev->plan;
    struct kernel_choice choice;
    enum dgl_status status = kernel_choose(t->log, t->set, &subject->usage[0].ops[0].request,
                                           device->properties, device->num_properties, &choice);
    return status == DGL_OK ? add(t, subject, choice.kernel->name, "") : status;
}

/* The default alone, ready to be timed. */
static enum dgl_status subject_begin(struct tuner *t, struct subject *subject)
{
    const struct plan_device *device = &t->s->model->dev->plan;
    struct kernel_choice choice;
    size_t best = 0;
    kernel_table_init(&t->table, device, t->set);
    programs_init(&t->programs, t->s->model->dev, &t->table);
    enum dgl_status status = kernel_choose(t->log, t->set, &subject->usage[0].ops[0].request,
                                           device->properties, device->num_properties, &choice);
    if (status == DGL_OK)
        status = add(t, subject, choice.kernel->name, "");
    if (status == DGL_OK && t->num == 0) /* hints for its tunables do not fit together */
        return DGL_OK;
    if (status == DGL_OK)
        status = compile(t, subject, 0);
    for (uint32_t u = subject->num_usages; u-- > 0 && status == DGL_OK;) {
        status = prepare(t, &subject->usage[u]);
        if (status == DGL_OK && !t->contestants[0]->report->reason[0])
            status = size_span(t, &subject->usage[u], t->contestants[0], u);
    }
    if (status == DGL_OK)
        status = time_from(t, subject, 0, &best);
    subject->default_us = t->num ? t->contestants[0]->report->us : 0;
    return status;
}

/* What was found out goes to the result and to the store. */
static enum dgl_status report(struct tuner *t, const struct subject *subject, size_t winner,
                              struct dgl_tune_op *op)
{
    struct dgl_tune_result *r = t->r;
    struct dgl_tune_op *ops = realloc(r->ops, (r->num_ops + 1) * sizeof(*ops));
    if (ops)
        r->ops = ops;
    op->phase = subject->usage[0].ops[0].phase;
    op->op = subject->usage[0].ops[0].label;
    op->tokens = subject->usage[0].tokens;
    op->winner = winner;
    op->num_candidates = t->num;
    op->candidates = dgl_new_array(struct dgl_tune_candidate, t->num);
    op->request = strdup(subject->key);
    if (!ops || !op->candidates || !op->request) {
        free(op->candidates);
        free(op->request);
        return dgl_fail_memory(t->log, "the tuner's report", t->num * sizeof(*op->candidates));
    }
    memcpy(op->candidates, t->reports, t->num * sizeof(*op->candidates));
    r->ops[r->num_ops++] = *op;
    if (t->p->compare)
        return DGL_OK;
    struct tune_entry entry = {.key = subject->key,
                               .op = (char *)op->op,
                               .tunes = t->reports[winner].tunes,
                               .default_us = op->default_us,
                               .tuned_us = op->tuned_us,
                               .spread = op->spread,
                               .time = (int64_t)time(NULL)};
    memcpy(entry.texts, subject->texts, sizeof(entry.texts));
    memcpy(entry.kernel, t->reports[winner].kernel, sizeof(entry.kernel));
    memcpy(entry.default_kernel, t->reports[0].kernel, sizeof(entry.default_kernel));
    if (!tune_store_put(&t->store, &entry))
        return dgl_fail_memory(t->log, "the tuner's store", sizeof(entry));
    r->stored = tune_store_save(&t->store, t->s->model->dev);
    return DGL_OK;
}

/* What was tuned before, and is not the default; NULL: nothing. */
static const struct tune_entry *known_winner(const struct tuner *t, const struct subject *subject)
{
    const struct tune_entry *known = tune_store_find(&t->store, subject->key, subject->texts);
    return known && tune_entry_says_more(known) ? known : NULL;
}

/* What was tuned before against the default: the only candidate. */
static enum dgl_status add_known(struct tuner *t, const struct subject *subject, size_t *best)
{
    const struct tune_entry *known = known_winner(t, subject);
    enum dgl_status status = add(t, subject, known->kernel, known->tunes);
    if (status == DGL_OK && t->num > 1)
        status = compile(t, subject, 1);
    *best = t->num > 1 && !t->reports[1].reason[0] ? 1 : 0;
    return status;
}

static enum dgl_status tune_subject(struct tuner *t, struct subject *subject)
{
    struct dgl_tune_op op = {.default_us = 0};
    size_t best = 0;
    bool beats = false;
    if (t->p->compare && !known_winner(t, subject))
        return DGL_OK;
    enum dgl_status status = subject_begin(t, subject);
    if (status == DGL_OK && t->num > 0 && !t->reports[0].reason[0]) {
        op.default_us = op.tuned_us = subject->default_us;
        status = t->p->compare ? add_known(t, subject, &best) : search(t, subject, &best);
        if (status == DGL_OK && best > 0)
            status = pair(t, subject, best, &op, &beats);
        if (status == DGL_OK && !t->p->compare && !beats)
            op.tuned_us = op.default_us;
        if (status == DGL_OK && (t->p->compare ? best > 0 : t->num > 1))
            status = report(t, subject, beats || t->p->compare ? best : 0, &op);
    }
    subject_end(t);
    return status;
}

/* How many candidates the search begins with; which of them it goes on from is not known yet. */
static enum dgl_status count_candidates(struct tuner *t, size_t *count)
{
    enum dgl_status status = DGL_OK;
    *count = 0;
    for (size_t i = 0; i < t->count && status == DGL_OK; i++) {
        const struct subject *subject = &t->subjects[i];
        kernel_table_init(&t->table, &t->s->model->dev->plan, t->set);
        status = add_default(t, subject);
        if (status == DGL_OK && t->num > 0)
            status = add_neighbours(t, subject, 0);
        if (status == DGL_OK && t->num > 0)
            status = add_variants(t, subject);
        *count += t->num;
        subject_end(t);
    }
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool go_on(void *priv)
{
    const struct tuner *t = priv;
    return !session_is_cancelled(t->s);
}

static bool tell(const struct tuner *t, size_t done)
{
    return !t->p->progress_cb ||
           t->p->progress_cb(t->p->progress_priv, "operations", done, t->count);
}

enum dgl_status session_tune(struct dgl_session *s, const struct dgl_tune_params *p,
                             struct dgl_tune_result *r)
{
    struct dgl_device *dev = s->model->dev;
    struct tuner t = {.s = s,
                      .p = p,
                      .r = r,
                      .log = dev->log,
                      .set = s->model->untuned,
                      .start_ns = dgl_now_ns()};
    const int32_t room = s->context - SAMPLE_LISTS - 2;
    const uint64_t limit_ns = (uint64_t)(p->seconds ? p->seconds : SECONDS) * 1000000000ull;
    enum dgl_status status = DGL_OK;
    size_t candidates = 0;
    tune_store_load(&t.store, dev);
    t.depth = p->depth ? p->depth : TOKENS < room ? TOKENS : room;
    if (p->compare && (t.store.count == 0 || t.depth < 2))
        goto done;
    t.most_tokens = s->ubatch < TOKENS ? s->ubatch : TOKENS;
    if (p->depth < 0 || p->seconds < 0 || t.depth > room || t.depth < 2) {
        status = dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                          "tune: a depth of %d and %d seconds: the depth is 2 to the context of %d "
                          "less %d",
                          p->depth, p->seconds, s->context, SAMPLE_LISTS + 2);
        goto done;
    }
    t.num_ids = (size_t)(t.depth > t.most_tokens ? t.depth : t.most_tokens) + 1;
    r->gpu_clock = gl_has_timer(dev->gl);
    t.ids = dgl_new_array(int32_t, t.num_ids);
    if (!t.ids)
        status = dgl_fail_memory(dev->log, "ids", t.num_ids * sizeof(*t.ids));
    for (size_t i = 0; i < t.num_ids && t.ids; i++)
        t.ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)s->model->info.vocab);
    if (status == DGL_OK)
        status = kernel_judge_create(
            &(struct kernel_judge_params){
                .dev = dev, .set = t.set, .mode = KERNEL_JUDGE_QUICK, .go_on = go_on, .priv = &t},
            &t.judge);
    if (status == DGL_OK)
        status = list_subjects(&t);
    if (status == DGL_OK && !p->compare)
        status = count_candidates(&t, &candidates);
    if (candidates > 0) {
        double seconds = (double)candidates * MORE * (dev->info.software ? SOFTWARE_S : HARDWARE_S);
        dgl_notice(dev->log, "tune: %zu operations, %zu candidates to begin with: about %.0f s",
                   t.count, candidates, seconds < limit_ns * 1e-9 ? seconds : limit_ns * 1e-9);
    }
    r->num_left = t.count;
    for (size_t i = 0; i < t.count && status == DGL_OK; i++) {
        if (!tell(&t, i) || session_is_cancelled(s))
            status = DGL_ERR_CANCELLED;
        else if (dgl_now_ns() - t.start_ns > limit_ns)
            break;
        else
            status = tune_subject(&t, &t.subjects[i]);
        if (status == DGL_OK)
            r->num_left--;
    }
    if (status == DGL_OK)
        tell(&t, t.count);
    r->ns = dgl_now_ns() - t.start_ns;
done:
    session_trim(s, 0);
    kernel_judge_destroy(&t.judge);
    for (size_t i = 0; i < t.count; i++)
        subject_finish(&t.subjects[i]);
    free(t.subjects);
    free(t.ids);
    tune_store_finish(&t.store);
    return status;
}
