/*
 * Measures kernels and values of their tunables with a model's own operations: on its weights,
 * layer after layer, so that they are read from memory as in use, and on activations of a real
 * pass. Operations with the same request are one target.
 */
#include "core/measure/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/measure/tuner.h"

#define STREAM_BYTES (256ull << 20) /* of weights: more than caches hold */
/* Initial estimates: the duration of one candidate, mostly compile time, and the final number of
 * candidates per initial candidate (MORE). */
#define SOFTWARE_NS  400000000ull
#define HARDWARE_NS  50000000ull
#define MORE         1.6
#define TOKENS       512 /* of the widest pass; default of dgl_tune_params.depth */
#define SECONDS      120
#define SAMPLED_ROWS 16 /* rows of the sampling operations in a pass over several sequences */

/* ---- targets --------------------------------------------------------------------------------- */

/* Bytes that an operation reads, which take most of its time: weights, or its part of the KV
 * cache. */
static uint64_t bytes_read(const struct tuner *t, const struct op *op)
{
    const bool attends = strncmp(op->request.op, "attn_", 5) == 0 && op->layer >= 0;
    return op->bytes +
           (attends ? plan_kv_read_bytes(session_plan(t->s), (uint32_t)op->layer, 1, t->depth) : 0);
}

/* Adds the operations of a shape to the targets with their requests. rows = 0 selects the number of
 * rows of the shape. */
static enum dgl_status list_targets_of(struct tuner *t, struct pass_shape shape, uint32_t rank,
                                       int32_t rows)
{
    const bool counted = shape.part == PART_LAYERS && shape.rows_log2 < PASS_ANY_ROWS;
    const bool prefill = pass_shape_is_prefill(shape) ||
                         (shape.part == PART_OUTPUTS && shape.outputs != OUTPUT_LAST);
    const bool crowd = shape.per_sequence || (shape.part == PART_SAMPLE && rows > 1);
    const int32_t tokens = rows      ? rows
                           : counted ? 1 << shape.rows_log2
                           : prefill ? t->most_tokens
                                     : 1;
    struct oplist list = {0};
    uint64_t all = 1;
    enum dgl_status status;
    TRY(plan_list_ops(session_plan(t->s), shape, &list));
    for (size_t i = 0; i < list.count; i++)
        all += bytes_read(t, &list.ops[i]);
    for (size_t i = 0; i < list.count; i++) {
        const struct op *op = &list.ops[i];
        struct target *target = NULL;
        struct target_pass *pass = NULL;
        struct dgl_buf key = {0};
        uint64_t bytes = 0;
        if (t->p->op && strcmp(t->p->op, op->label) != 0)
            continue;
        kernel_request_key(&op->request, &key);
        const bool room = key.p && !key.failed &&
                          dgl_grow((void **)&t->targets, &t->cap, t->count + 1, sizeof(*target));
        for (size_t k = 0; k < t->count && room && !target; k++)
            if (strcmp(t->targets[k].key, key.p) == 0)
                target = &t->targets[k];
        if (room && !target) {
            target = &t->targets[t->count++];
            *target = (struct target){.key = dgl_buf_take(&key)};
        }
        dgl_buf_finish(&key);
        if (!target)
            TRY(dgl_fail_memory(t->log, "operations", list.count * sizeof(*target)));
        for (uint32_t u = 0; u < target->num_passes && !pass; u++)
            if (pass_shape_is(target->pass[u].shape, shape) &&
                (!rows || target->pass[u].tokens == rows))
                pass = &target->pass[u];
        /* Only the first of several bodies for prefill, or for several sequences, is measured. */
        if (!pass &&
            (target->num_passes == 2 ||
             (target->num_passes == 1 && (target->pass[0].prefill || target->pass[0].crowd))))
            continue;
        if (!pass) {
            pass = &target->pass[target->num_passes++];
            *pass = (struct target_pass){
                .shape = shape, .rank = rank, .tokens = tokens, .prefill = prefill, .crowd = crowd};
            t->crowd_rows = crowd && tokens > t->crowd_rows ? tokens : t->crowd_rows;
        }
        if (pass == target->pass)
            target->share += (double)bytes_read(t, op) / (double)all;
        for (size_t k = 0; k < pass->count; k++)
            bytes += pass->ops[k].bytes;
        if (bytes < STREAM_BYTES)
            TRY(tuner_add_op(t, pass, op));
    }
done:
    oplist_finish(&list);
    return status;
}

/* Returns true if the plan can run a shape. A software renderer would spend seconds of compile time
 * on other bodies of a few tokens. So it only tunes the bodies of the plan. */
static bool is_run(const struct tuner *t, struct pass_shape shape)
{
    const struct plan *plan = session_plan(t->s);
    const int32_t rows = 1 << shape.rows_log2;
    if (shape.part == PART_LAYERS && rows > 1 && shape.rows_log2 < PASS_ANY_ROWS)
        return rows <= (shape.per_sequence ? t->most_rows : t->most_tokens) &&
               (!plan->device->on_host || pass_shape_is(plan_body(plan, shape)->shape, shape));
    bool runs = shape.part != PART_EARLY_EXIT;
    for (int kind = 0; kind < SAMPLE_KINDS; kind++)
        runs |= !plan_body(plan, PASS_SAMPLE(kind))->ends_batch;
    return runs;
}

/* Order of tuning, since the time may end before all targets are tuned. Targets without a stored
 * result come first, then the oldest results, so that repeated short calls make progress. Among
 * equals the order is: decode and full prefill passes, sampling, passes over fewer tokens, and
 * optional parts. Within each the largest share comes first. */
static int compare_targets(const void *a, const void *b)
{
    const struct target *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->pass[0].rank != y->pass[0].rank)
        return x->pass[0].rank < y->pass[0].rank ? -1 : 1;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static enum dgl_status list_targets(struct tuner *t)
{
    /* If several shapes have the same request, the first one counts. */
    /* clang-format off */
    const struct pass_shape shapes[] = {
        PASS_DECODE, PASS_HEAD, PASS_SAMPLE(SAMPLE_GREEDY), PASS_SAMPLE(SAMPLE_TOPK),
        PASS_SAMPLE(SAMPLE_FULL), PASS_EARLY_EXIT, PASS_PREFILL, PASS_ROWS(7), PASS_ROWS(6),
        PASS_ROWS(5), PASS_ROWS(4), PASS_ROWS(3), PASS_ROWS(2), PASS_ROWS(1), PASS_BATCH(3),
        PASS_BATCH(5), PASS_BATCH(4), PASS_BATCH(6), PASS_BATCH(2), PASS_BATCH(1), PASS_ADJUST,
        PASS_HIDDEN, PASS_SCORE,
    };
    static const uint8_t rank[] = {0, 0, 1,  1,  1,  1,  0,  2,  3,  4,  5, 6,
                                   7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15};
    /* clang-format on */
    _Static_assert(sizeof(rank) == sizeof(shapes) / sizeof(shapes[0]), "a rank for each shape");
    const char *precision = kernel_set_hint(t->set, "computePrecision", NULL);
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (is_run(t, shapes[i]))
            TRY(list_targets_of(t, shapes[i], rank[i], 0));
    /* Sampling for several sequences has the same requests as for one. */
    const int32_t draws = t->most_rows < SAMPLED_ROWS ? t->most_rows : SAMPLED_ROWS;
    for (int kind = 0; kind < SAMPLE_KINDS && draws > 1; kind++)
        TRY(list_targets_of(t, PASS_SAMPLE(kind), 1, draws));
    if (t->count == 0)
        TRY(dgl_fail(t->log, DGL_ERR_INVALID_ARG,
                     "tune: the model's plan has no operation %s; `dopplergl kernels explain` "
                     "names them",
                     t->p->op ? t->p->op : ""));
    for (size_t i = 0; i < t->count; i++) {
        struct target *target = &t->targets[i];
        struct kernel_choice choice;
        bool f16 = precision && strcmp(precision, "f16") == 0;
        if (f16) {
            TRY(tuner_choose_default(t, target, &choice));
            f16 = choice.kernel->f16;
        }
        /* A stored result is found by the texts of the target's kernels. */
        if (!tune_texts(t->set, target->pass[0].ops[0].request.op, f16, target->texts))
            TRY(dgl_fail_memory(t->log, "a digest of kernels", 65));
        const struct dgl_tuned *known = tune_store_find(&t->store, target->key, target->texts);
        target->time = known ? known->time : 0;
        target->place = i;
    }
    qsort(t->targets, t->count, sizeof(*t->targets), compare_targets);
done:
    return status;
}

/* ---- one target ------------------------------------------------------------------------------ */

/* Adds a measurement to the result and to the store. */
static enum dgl_status report(struct tuner *t, const struct target *target, size_t winner,
                              struct dgl_tune_op *op)
{
    struct dgl_tune_result *r = t->r;
    struct dgl_tune_op *ops = dgl_realloc(r->ops, (r->num_ops + 1) * sizeof(*ops));
    if (ops)
        r->ops = ops;
    op->phase = target->pass[0].ops[0].phase;
    op->op = target->pass[0].ops[0].label;
    op->tokens = target->pass[0].tokens;
    op->winner = winner;
    op->complete = !t->late;
    op->num_candidates = t->num;
    op->candidates = dgl_new_array(struct dgl_tune_candidate, t->num);
    op->request = dgl_strdup(target->key);
    memcpy(op->texts, target->texts, sizeof(op->texts));
    if (!ops || !op->candidates || !op->request) {
        free(op->candidates);
        free(op->request);
        return dgl_fail_memory(t->log, "the tuner's report", t->num * sizeof(*op->candidates));
    }
    for (size_t i = 0; i < t->num; i++)
        op->candidates[i] = t->candidates[i]->report;
    r->ops[r->num_ops++] = *op;
    if (t->p->compare || op->candidates[0].reason[0])
        return DGL_OK;
    const struct dgl_tuned entry = {.request = target->key,
                                    .op = op->op,
                                    .texts = target->texts,
                                    .phase = op->phase,
                                    .tokens = op->tokens,
                                    .kernel = t->candidates[winner]->report.kernel,
                                    .tunes = t->candidates[winner]->report.tunes,
                                    .default_kernel = t->candidates[0]->report.kernel,
                                    .default_us = op->default_us,
                                    .tuned_us = op->tuned_us,
                                    .spread = op->spread,
                                    .time = (int64_t)time(NULL)};
    if (!tune_store_put(&t->store, &entry))
        return dgl_fail_memory(t->log, "the tuner's store", sizeof(entry));
    r->stored = tune_store_save(&t->store, session_dev(t->s));
    return DGL_OK;
}

static enum dgl_status tune_target(struct tuner *t, struct target *target)
{
    struct dgl_tune_op op = {.default_us = 0};
    const struct dgl_tuned *known = tune_store_find(&t->store, target->key, target->texts);
    size_t best = 0;
    bool beats = false;
    known = known && tune_entry_says_more(known) ? known : NULL; /* a winner but the default */
    target->reached = t->p->compare && !known;
    if (target->reached)
        return DGL_OK;
    enum dgl_status status;
    TRY(tuner_begin(t, target));
    if (t->num > 0 && !t->candidates[0]->report.reason[0]) {
        op.default_us = t->candidates[0]->report.us;
        if (known) /* one of the candidates, or the only one */
            TRY(tuner_add_stored(t, target, known));
        if (!t->p->compare) {
            TRY(tuner_search(t, target, &best));
        } else if (t->num > 1) {
            TRY(tuner_compile(t, target, 1, t->num));
            best = !t->candidates[1]->report.reason[0];
        }
        if (best > 0)
            TRY(tuner_pair(t, target, best, &op, &beats));
        const bool taken = beats || (t->p->compare && best > 0);
        op.best = best;
        op.tuned_us = taken ? op.best_us : op.default_us;
        if (t->p->compare ? best > 0 : t->num > 1)
            TRY(report(t, target, taken ? best : 0, &op));
    } else if (t->num > 0 && !t->p->compare) {
        TRY(report(t, target, 0, &op)); /* a default that is wrong is no measure */
    }
    target->reached = t->num != 1 || !t->late;
done:
    tuner_target_end(t);
    return status;
}

/* Counts the initial candidates of the search. Its later candidates are not known yet. */
static enum dgl_status count_candidates(struct tuner *t, size_t *count)
{
    enum dgl_status status = DGL_OK;
    *count = 0;
    for (size_t i = 0; i < t->count && status == DGL_OK; i++) {
        kernel_table_init(&t->table, &session_dev(t->s)->plan, t->set);
        status = tuner_add_default(t, &t->targets[i]);
        if (status == DGL_OK && t->num > 0)
            status = tuner_add_neighbours(t, &t->targets[i], 0, true);
        *count += t->num;
        tuner_target_end(t);
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
    struct dgl_device *dev = session_dev(s);
    struct tuner t = {.s = s,
                      .p = p,
                      .r = r,
                      .log = dev->log,
                      .set = s->model->untuned,
                      .start_ns = dgl_now_ns(),
                      .candidate_ns = dev->info.software ? SOFTWARE_NS : HARDWARE_NS};
    const int32_t room = s->seq.context - TUNER_SAMPLE_LISTS - 2;
    const uint64_t limit_ns = (uint64_t)(p->seconds ? p->seconds : SECONDS) * 1000000000ull;
    enum dgl_status status = DGL_OK;
    size_t candidates = 0;
    t.end_ns = t.start_ns + limit_ns;
    tune_store_load(&t.store, dev);
    t.depth = p->depth ? p->depth : TOKENS < room ? TOKENS : room;
    if (p->compare && (t.store.count == 0 || t.depth < 2))
        goto done;
    t.most_tokens = s->state.ubatch < TOKENS ? s->state.ubatch : TOKENS;
    if (p->seconds < 0)
        TRY(dgl_fail(dev->log, DGL_ERR_INVALID_ARG, "tune: %d seconds: wanted 0 or more",
                     p->seconds));
    if (p->depth < 0 || t.depth > room || t.depth < 2)
        TRY(dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                     "tune: a depth of %d: it is 2 to the context of %d less %d", p->depth,
                     s->seq.context, TUNER_SAMPLE_LISTS + 2));
    t.num_ids = (size_t)(t.depth > t.most_tokens ? t.depth : t.most_tokens) + 1;
    r->gpu_clock = gl_has_timer(dev->gl);
    for (size_t i = 0; i < t.num_ids; i++)
        s->seq.ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)s->model->info.vocab);
    sequence_trim(&s->seq, 0);
    /* The cache must not move while candidates are bound to it. */
    TRY(session_reserve(s, (int32_t)t.num_ids));
    TRY(kernel_judge_create(
        &(struct kernel_judge_params){
            .dev = dev, .set = t.set, .mode = KERNEL_JUDGE_QUICK, .go_on = go_on, .priv = &t},
        &t.judge));
    t.most_rows = tuner_crowd_most(&t);
    TRY(list_targets(&t));
    TRY(decoder_create(s, t.crowd_rows, &t.crowd));
    if (!p->compare)
        TRY(count_candidates(&t, &candidates));
    if (candidates > 0) {
        const double ns = (double)candidates * MORE * (double)t.candidate_ns;
        char bound[48] = "";
        if (ns > (double)limit_ns)
            snprintf(bound, sizeof(bound), ", of which %.0f s are given", (double)limit_ns * 1e-9);
        dgl_notice(dev->log, "tune: %zu operation%s, %zu candidate%s to begin with: about %.0f s%s",
                   t.count, t.count == 1 ? "" : "s", candidates, candidates == 1 ? "" : "s",
                   ns * 1e-9, bound);
    }
    for (size_t i = 0; i < t.count; i++) {
        TRY(tell(&t, i) && !session_is_cancelled(s) ? DGL_OK : DGL_ERR_CANCELLED);
        if (dgl_now_ns() + t.begin_ns + t.candidate_ns < t.end_ns)
            TRY(tune_target(&t, &t.targets[i]));
    }
    tell(&t, t.count);
done:
    if (status == DGL_OK || status == DGL_ERR_CANCELLED) {
        r->left = dgl_new_array(struct dgl_tune_left, t.count);
        if (!r->left)
            status = dgl_fail_memory(dev->log, "operations", t.count * sizeof(*r->left));
        for (size_t i = 0; r->left && i < t.count; i++) {
            const struct target_pass *pass = &t.targets[i].pass[0];
            if (!t.targets[i].reached)
                r->left[r->num_left++] = (struct dgl_tune_left){
                    .op = pass->ops[0].label, .phase = pass->ops[0].phase, .tokens = pass->tokens};
        }
    }
    r->ns = dgl_now_ns() - t.start_ns;
    sequence_trim(&s->seq, 0);
    decoder_destroy(&t.crowd);
    kernel_judge_destroy(&t.judge);
    kernel_set_destroy(&t.builtin);
    for (size_t i = 0; i < t.count; i++) {
        for (uint32_t u = 0; u < t.targets[i].num_passes; u++)
            free(t.targets[i].pass[u].ops);
        free(t.targets[i].key);
    }
    free(t.targets);
    tune_store_finish(&t.store);
    return status;
}
