/* The tuner's measurements and its search. Candidates are compiled, checked with known answers, and
 * run as lists of the model's own operations, layer after layer, on the buffers of a real pass.
 *
 * The search begins with the default and tries all candidates that differ in one tunable, and once
 * all other kernels that can serve. It repeats this from the best candidate until no candidate is
 * faster. The winner must beat the default in paired rounds by more than their spread. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "core/measure/tuner.h"
#include "core/seq/score.h"

#define TIMED_SPANS  3          /* measurements of a candidate; the shortest one counts */
#define HOPELESS     1.5        /* a candidate this much slower than the best is not timed again */
#define SPAN_NS      2000000ull /* least duration of one measurement */
#define SPAN_MOST_NS 8000000ull /* upper limit, if fewer layers suffice */
#define SPAN_LISTS   64
#define BIASES       16 /* biases of the operation that adds them */
/* Longest warm-up. A GPU that waited for the compiler has lowered its clocks, so it is kept busy
 * for as long as it was idle before a measurement. (One NVIDIA H200 needed 3,256 us for tokens of
 * 842 us.) */
#define WARM_NS       200000000ull
#define BATCH         32   /* candidates that are compiled at once, at most */
#define SEARCH_ROUNDS 3    /* neighbourhoods that are looked at, at most */
#define PAIRED_TRIES  2    /* a disturbance of the machine may spoil one of them */
#define GAIN          0.99 /* less is noise */
#define PAIRED_ROUNDS 5

/* ---- passes over several sequences ----------------------------------------------------------- */

int32_t tuner_crowd_most(const struct tuner *t)
{
    struct dgl_model *m = t->s->model;
    struct plan *plan = &m->shard->engine->plan;
    const uint64_t left = shard_memory_left(m->shard);
    if (plan_add_batch(plan) != DGL_OK || plan->one_row)
        return 1;
    int32_t most = plan_batch_slots(plan, t->s->seq.context, DGL_STEP_SEQS);
    for (; most > 1 && left; most /= 2) {
        uint64_t bytes[BUF_COUNT], sum = 0;
        plan_batch_bytes(plan, t->s->seq.context, most, bytes);
        for (int i = 0; i < BUF_COUNT; i++)
            sum += bytes[i];
        if (sum <= left)
            break;
    }
    return most;
}

/* Writes the state of a pass over `rows` sequences, which all have the state `step` with different
 * seeds. */
static enum dgl_status write_crowd(struct tuner *t, const struct dgl_step *step, int32_t rows)
{
    struct pass_state *crowd = t->crowd->state;
    struct dgl_step seeded = *step;
    enum dgl_status status;
    assert(rows <= crowd->slots);
    for (int32_t i = 0; i < rows; i++, seeded.seed_lo++) {
        crowd->rows[i] = (struct pass_row){.seq = (uint32_t)i};
        TRY(pass_state_put(crowd, (uint32_t)i, &seeded));
    }
    TRY(pass_state_set_rows(crowd, crowd->rows, (uint32_t)rows));
done:
    return status;
}

/* Runs a decode step of several sequences. All of them have the session's tokens and share its
 * pages, so their keys are cached better than in use. */
static enum dgl_status run_crowd(struct tuner *t, int32_t rows)
{
    struct dgl_session *s = t->s;
    struct pass_state *crowd = t->crowd->state;
    const struct recipe body = recipe_of(plan_batch_shape(session_plan(s), rows));
    const struct dgl_step step = {.pos = (uint32_t)t->depth,
                                  .tokens = 1,
                                  .context = (uint32_t)crowd->context,
                                  .flags = DGL_STEP_IGNORE_EOS};
    struct exec_run *run = NULL;
    enum dgl_status status;
    TRY(session_reserve(s, t->depth + 1));
    TRY(pass_state_follow(crowd));
    struct kv_pages pages = s->seq.pages;
    pages.num_known = 0;
    TRY(pass_state_write_pages(crowd, 0, &pages));
    for (int32_t i = 0; i < rows; i++)
        TRY(pass_state_write(crowd, BUF_IDS, i, (uint64_t)t->depth * 4,
                             &t->s->seq.ids[(size_t)i % t->num_ids], 4));
    TRY(write_crowd(t, &step, rows));
    TRY(pass_state_compile(crowd, body.shapes));
    TRY(runner_run(&crowd->runner, body, &run));
    TRY(exec_run_set_tokens(run, rows));
    TRY(runner_queue(&crowd->runner, run, 1, DGL_PHASE_DECODE));
done:
    return status;
}

/* ---- measurement ----------------------------------------------------------------------------- */

/* Makes c->run[u]: a dispatch run of a plan. Its only body is the operations of `pass`, with the
 * candidate's kernel. Its memory is that of the session, of t->crowd, or of the copied weights. */
static enum dgl_status bind(struct tuner *t, const struct target_pass *pass, struct candidate *c,
                            uint32_t u)
{
    const struct memory *memory = c->layout     ? &t->copied.memory
                                  : pass->crowd ? &t->crowd->state->memory
                                                : &t->s->state.memory;
    assert(!c->layout || !pass->crowd);
    struct plan *plan = &c->plan[u];
    struct body *body = &c->body[u];
    struct exec *exec = NULL;
    exec_run_destroy(&c->run[u]);
    free(body->use);
    *plan = *session_plan(t->s); /* owns none of it */
    plan->bodies = &c->only[u];
    plan->num_bodies = 1;
    c->only[u] = body;
    *body = (struct body){.shape = pass->shape, .ops = {.ops = pass->ops, .count = pass->count}};
    body->use = dgl_new_array(const struct kernel_use *, pass->count);
    if (!body->use)
        return dgl_fail_memory(t->log, "a candidate", pass->count * sizeof(*body->use));
    for (size_t i = 0; i < pass->count; i++)
        body->use[i] = c->use[u] ? c->use[u] : c->use[0];
    enum dgl_status status;
    TRY(exec_dispatch_create(session_dev(t->s), plan, &t->programs, &exec));
    TRY(exec_run_create(exec, recipe_of(pass->shape), memory, &c->run[u]));
    TRY(exec_run_set_tokens(c->run[u], pass->tokens));
done:
    exec_unref(&exec);
    return status;
}

/* Writes the state of a step that samples or adjusts logits. The adjustments are small, because all
 * runs use the same logits. */
static enum dgl_status write_sampling(struct tuner *t, const struct target_pass *pass)
{
    const bool adjusts = pass->shape.part == PART_ADJUST;
    static const char *const no_breakers[1];
    struct dgl_logit_bias bias[BIASES];
    const struct dgl_sampling sampling = {
        .temperature = pass->shape.sampler == SAMPLE_GREEDY ? 0 : 0.8f,
        .top_k = pass->shape.sampler == SAMPLE_TOPK ? 40 : 0,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .seed = 1,
        .logit_bias = bias,
        .num_logit_bias = adjusts ? BIASES : 0,
        .repeat_penalty = adjusts ? 1.0001f : 1,
        .repeat_last_n = -1,
        .dry_multiplier = adjusts ? 1e-4f : 0,
        .dry_penalty_last_n = -1,
        .dry_breakers = no_breakers, /* searches all tokens */
    };
    struct dgl_step step = {.pos = (uint32_t)t->depth,
                            .tokens = 1,
                            .context = (uint32_t)t->s->seq.context,
                            .flags = DGL_STEP_IGNORE_EOS};
    for (int i = 0; i < BIASES; i++)
        bias[i] = (struct dgl_logit_bias){.id = t->s->seq.ids[i], .bias = 1e-4f};
    sampling_to_step(&sampling, &step);
    if (pass->crowd)
        return write_crowd(t, &step, pass->tokens);
    enum dgl_status status =
        session_write_adjust(t->s, &sampling, sampling_changes(&sampling), NULL);
    return status == DGL_OK ? pass_state_write_step(&t->s->state, &step, 0) : status;
}

/* Updates a duration estimate. It drops by at most half per update. */
static void note(uint64_t *cost, uint64_t ns)
{
    *cost = ns > *cost / 2 ? ns : *cost / 2;
}

/* Fills buffers and step table as they are before these operations in a real pass. */
static enum dgl_status prepare(struct tuner *t, const struct target_pass *pass)
{
    struct dgl_session *s = t->s;
    const uint64_t start = dgl_now_ns();
    enum dgl_status status;
    sequence_trim(&s->seq, pass->prefill ? 0 : t->depth);
    if (pass->prefill) {
        const bool scores = pass->shape.part == PART_OUTPUTS;
        struct shape_set shapes = shapes_of(plan_pass_shape(session_plan(s), pass->tokens));
        if (scores)
            shapes = shapes_add(shapes_add(shapes, PASS_HIDDEN), PASS_SCORE);
        TRY(pass_state_compile(&s->state, shapes));
        TRY(session_pass(s, pass->tokens, scores ? ROW_SCORE : 0));
    } else {
        if (s->seq.len < t->depth)
            TRY(session_eval(s, t->depth));
        if (pass->crowd) {
            TRY(run_crowd(t, pass->tokens));
        } else {
            TRY(pass_state_compile(&s->state, shapes_add(shapes_of(PASS_DECODE), PASS_HEAD)));
            TRY(session_pass(s, 1, ROW_LOGITS));
        }
    }
    TRY(gl_finish(session_dev(s)->gl));
done:
    note(&t->prepare_ns, dgl_now_ns() - start);
    return status;
}

/* Makes one measurement. *us is the time of one operation in microseconds. */
static enum dgl_status measure(struct tuner *t, const struct target_pass *pass,
                               const struct candidate *c, uint32_t u, uint32_t lists, double *us)
{
    struct gl_device *gl = session_dev(t->s)->gl;
    const struct gl_dispatch *list = exec_dispatch_list(c->run[u]);
    uint64_t ns = UINT64_MAX;
    enum dgl_status status;
    for (int tries = 0; tries < 8 && ns == UINT64_MAX; tries++) {
        if (pass->shape.part >= PART_ADJUST)
            TRY(write_sampling(t, pass));
        TRY(runner_write_args(&t->s->state.runner, c->run[u]));
        if (session_is_cancelled(t->s))
            TRY(DGL_ERR_CANCELLED);
        TRY(gl_submit_span(gl, list, pass->count, lists, &ns));
    }
    if (ns == UINT64_MAX)
        TRY(dgl_fail(t->log, DGL_ERR_UNSUPPORTED,
                     "the timer of %s was disjoint eight times in a row",
                     session_dev(t->s)->info.renderer));
    *us = (double)ns * 1e-3 / (double)(pass->count * lists);
done:
    t->busy_ns = dgl_now_ns();
    return status;
}

/* Runs the operations until an idle GPU has raised its clocks. */
static enum dgl_status warm(struct tuner *t, const struct target_pass *pass,
                            const struct candidate *c, uint32_t u)
{
    const uint64_t start = dgl_now_ns(), idle = start - t->busy_ns;
    const uint64_t end = start + (idle < WARM_NS ? idle : WARM_NS);
    enum dgl_status status = DGL_OK;
    double us;
    if (session_dev(t->s)->info.software)
        return DGL_OK;
    do
        status = measure(t, pass, c, u, pass->lists ? pass->lists : 1, &us);
    while (status == DGL_OK && dgl_now_ns() < end);
    return status;
}

/* Sets pass->lists so that one measurement takes about SPAN_NS, within limits. If a single round
 * takes longer than SPAN_MOST_NS, lowers pass->count instead. */
static enum dgl_status size_span(struct tuner *t, struct target_pass *pass, struct candidate *c,
                                 uint32_t u)
{
    const uint64_t most = pass->shape.part == PART_SAMPLE ? TUNER_SAMPLE_LISTS : SPAN_LISTS;
    double us = 0;
    pass->lists = 1;
    enum dgl_status status;
    TRY(warm(t, pass, c, u));
    for (int i = 0; i < 2; i++) {
        TRY(measure(t, pass, c, u, 1, &us));
        pass->probe_us = i == 0 || us < pass->probe_us ? us : pass->probe_us;
    }
    const double list_ns = us * 1e3 * (double)pass->count + 1;
    if (list_ns > (double)SPAN_MOST_NS && pass->count > 1) {
        size_t fewer = (size_t)((double)SPAN_MOST_NS / (us * 1e3));
        pass->count = fewer < 1 ? 1 : fewer < pass->count ? fewer : pass->count;
        TRY(bind(t, pass, c, u));
    } else if (list_ns < (double)SPAN_NS) {
        const uint64_t lists = (uint64_t)((double)SPAN_NS / list_ns) + 1;
        pass->lists = (uint32_t)(lists < most ? lists : most);
    }
done:
    return status;
}

enum dgl_status tuner_compile(struct tuner *t, const struct target *target, size_t first,
                              size_t end)
{
    const struct kernel_use *uses[TUNER_MAX_CANDIDATES] = {NULL};
    const struct gl_compile how = {.machine_code = true};
    for (size_t i = first; i < end; i++)
        uses[i - first] = t->candidates[i]->use[0];
    enum dgl_status status = programs_compile(&t->programs, uses, end - first, &how);
    if (status != DGL_ERR_KERNEL) /* else compile one by one to find the wrong one */
        TRY(status);
    for (size_t i = first; i < end; i++) {
        struct candidate *c = t->candidates[i];
        char *reason = c->report.reason;
        const size_t size = sizeof(c->report.reason);
        if (session_is_cancelled(t->s))
            TRY(DGL_ERR_CANCELLED);
        c->report.verified = true;
        for (int k = 0; k < 2 && c->use[k] && !reason[0]; k++) {
            struct kernel_verdict verdict = {.kind = KERNEL_SKIPPED};
            status = programs_compile(&t->programs, (const struct kernel_use *const *)&c->use[k], 1,
                                      &how);
            if (status == DGL_ERR_KERNEL) {
                snprintf(reason, size, "it does not compile");
            } else if (status == DGL_OK && kernel_judge_knows(c->use[k]->request.op)) {
                const struct kernel_subject subject = {.request = &c->use[k]->request,
                                                       .choice = &c->use[k]->choice,
                                                       .program =
                                                           programs_get(&t->programs, c->use[k])};
                status = kernel_judge_use(t->judge, &subject, &verdict);
            }
            TRY(reason[0] ? DGL_OK : status);
            if (verdict.kind == KERNEL_WRONG)
                snprintf(reason, size, "%.*s", (int)size - 1, verdict.text);
            c->report.verified &= verdict.cases > 0 && verdict.kind == KERNEL_PASSED;
        }
        status = c->layout && !reason[0] ? tuner_copy_begin(t, target, c->layout) : DGL_OK;
        if (status == DGL_ERR_NO_MEMORY) {
            tuner_copy_end(t);
            snprintf(reason, size, "no memory for weights in layout %s beside the model's",
                     c->layout->name);
        }
        TRY(reason[0] ? DGL_OK : status);
        for (uint32_t u = 0; u < target->num_passes && !reason[0]; u++)
            TRY(bind(t, &target->pass[u], c, u));
    }
done:
    return status;
}

/* Times candidates [first, end); *best becomes the fastest. */
static enum dgl_status time_candidates(struct tuner *t, const struct target *target, size_t first,
                                       size_t end, size_t *best)
{
    const struct target_pass *pass = &target->pass[0];
    enum dgl_status status = DGL_OK;
    for (size_t i = first; i < end; i++) {
        struct candidate *c = t->candidates[i];
        double us = 0, best_us = t->candidates[*best]->report.us;
        if (c->report.reason[0])
            continue;
        TRY(warm(t, pass, t->candidates[*best], 0));
        TRY(measure(t, pass, c, 0, 1, &us));
        c->report.us = us;
        /* This first run also loads the program, so it may be slower by another factor HOPELESS. */
        bool hopeless = !c->report.builtin && us > HOPELESS * HOPELESS * pass->probe_us;
        for (int k = 0; k < TIMED_SPANS && !hopeless; k++) {
            TRY(measure(t, pass, c, 0, pass->lists, &us));
            c->report.us = k > 0 && c->report.us < us ? c->report.us : us;
            hopeless = !c->report.builtin && best_us > 0 && c->report.us > HOPELESS * best_us;
        }
        if (!hopeless && !c->report.builtin && (best_us == 0 || c->report.us < best_us))
            *best = i;
    }
done:
    return status;
}

enum dgl_status tuner_begin(struct tuner *t, struct target *target)
{
    const uint64_t begun = dgl_now_ns();
    size_t best = 0;
    kernel_table_init(&t->table, &session_dev(t->s)->plan, t->set);
    programs_init(&t->programs, session_dev(t->s), &t->table);
    enum dgl_status status;
    t->late = false;
    TRY(tuner_share(t, target));
    TRY(tuner_add_default(t, target));
    if (t->num == 0) /* hints for its tunables do not fit together */
        goto done;
    for (uint32_t u = 0; u < target->num_passes; u++) {
        struct target_pass *pass = &target->pass[u];
        int32_t rows = pass->tokens;
        if (pass_shape_is(pass->shape, PASS_SCORE))
            TRY(session_begin_scoring(t->s, &rows));
        pass->tokens = rows < pass->tokens ? rows : pass->tokens;
    }
    const uint64_t start = dgl_now_ns();
    TRY(tuner_compile(t, target, 0, 1));
    /* The programs were probably cached, so only a longer time is informative. */
    const uint64_t ns = dgl_now_ns() - start;
    t->candidate_ns = ns > t->candidate_ns ? ns : t->candidate_ns;
    for (uint32_t u = target->num_passes; u-- > 0;) {
        TRY(prepare(t, &target->pass[u]));
        if (!t->candidates[0]->report.reason[0])
            TRY(size_span(t, &target->pass[u], t->candidates[0], u));
    }
    TRY(time_candidates(t, target, 0, t->num, &best));
done:
    note(&t->begin_ns, dgl_now_ns() - begun);
    return status;
}

/* Estimated duration of one attempt of paired rounds. */
static uint64_t pair_ns(const struct tuner *t, const struct target *target)
{
    double ns = 0;
    for (uint32_t u = 0; u < target->num_passes; u++) {
        const struct target_pass *pass = &target->pass[u];
        ns += (double)(t->prepare_ns + (session_dev(t->s)->info.software ? 0 : WARM_NS)) +
              pass->probe_us * 1e3 * (double)(pass->count * pass->lists) * 2 * (PAIRED_ROUNDS + 1);
    }
    return (uint64_t)ns;
}

/* ---- search ---------------------------------------------------------------------------------- */

/* Adds a candidate that combines all single steps away from candidate `of`, among those from
 * `first` on, that were faster. */
static enum dgl_status add_jump(struct tuner *t, const struct target *target, size_t of,
                                size_t first)
{
    const struct candidate *c = t->candidates[of];
    struct tuning jump = c->tuning;
    for (uint32_t i = 0; i < c->tuning.kernel->num_tunes; i++) {
        const struct candidate *step = NULL;
        for (size_t k = first; k < t->num; k++) {
            const struct candidate *n = t->candidates[k];
            const struct tuning wanted = tuning_with(&c->tuning, i, n->tuning.value[i]);
            if (n->tuning.kernel == wanted.kernel && n->tuning.set == wanted.set &&
                memcmp(n->tuning.value, wanted.value, sizeof(wanted.value)) == 0 &&
                !n->report.reason[0] && n->report.us > 0 && n->report.us < GAIN * c->report.us &&
                (!step || n->report.us < step->report.us))
                step = n;
        }
        if (step)
            jump = tuning_with(&jump, i, step->tuning.value[i]);
    }
    return tuner_add(t, target, &jump);
}

/* Compiles and times candidates from `first` on in batches, and drops those that would end too
 * late. A batch fills half of the remaining time, because the next may take longer. */
static enum dgl_status try_from(struct tuner *t, const struct target *target, size_t first,
                                size_t *best)
{
    enum dgl_status status = DGL_OK;
    while (first < t->num) {
        const uint64_t start = dgl_now_ns(), reserved = pair_ns(t, target);
        const uint64_t left = start + reserved < t->end_ns ? t->end_ns - start - reserved : 0;
        const uint64_t fit = left / (t->candidate_ns + 1);
        size_t batch = fit / 2 < 1 ? 1 : fit / 2 < BATCH ? (size_t)fit / 2 : BATCH;
        batch = batch < t->num - first ? batch : t->num - first;
        if (fit == 0) {
            t->late = true;
            tuner_drop(t, first);
            break;
        }
        TRY(tuner_compile(t, target, first, first + batch));
        TRY(time_candidates(t, target, first, first + batch, best));
        note(&t->candidate_ns, (dgl_now_ns() - start) / batch);
        first += batch;
    }
done:
    return status;
}

enum dgl_status tuner_search(struct tuner *t, const struct target *target, size_t *best)
{
    enum dgl_status status = DGL_OK;
    for (int round = 0; round < SEARCH_ROUNDS; round++) {
        const size_t from = *best, first = round == 0 ? 1 : t->num; /* [1] may be timed already */
        const double from_us = t->candidates[from]->report.us;
        TRY(tuner_add_neighbours(t, target, from, round == 0));
        TRY(try_from(t, target, first, best));
        const size_t jump = t->num;
        if (!t->late)
            TRY(add_jump(t, target, from, first));
        TRY(try_from(t, target, jump, best));
        if (t->late || t->candidates[*best]->report.us >= GAIN * from_us)
            break;
    }
done:
    return status;
}

enum dgl_status tuner_pair(struct tuner *t, const struct target *target, size_t winner,
                           struct dgl_tune_op *out, bool *beats)
{
    enum dgl_status status = DGL_OK;
    *beats = false;
    for (int tries = 0; tries < PAIRED_TRIES && !*beats; tries++) {
        if (tries > 0 && dgl_now_ns() + pair_ns(t, target) > t->end_ns)
            break;
        *beats = true;
        for (uint32_t u = 0; u < target->num_passes && *beats; u++) {
            const struct target_pass *pass = &target->pass[u];
            double us[2][PAIRED_ROUNDS], ratio[PAIRED_ROUNDS];
            TRY(prepare(t, pass));
            TRY(warm(t, pass, t->candidates[0], u));
            for (int i = -1; i < PAIRED_ROUNDS; i++)
                for (int k = 0; k < 2; k++)
                    TRY(measure(t, pass, t->candidates[k ? winner : 0], u, pass->lists,
                                &us[k][i < 0 ? 0 : i]));
            for (int i = 0; i < PAIRED_ROUNDS; i++)
                ratio[i] = us[1][i] / us[0][i];
            const double median = dgl_median(ratio, PAIRED_ROUNDS); /* sorts them */
            const double spread = ratio[PAIRED_ROUNDS - 1] - ratio[0];
            *beats = u == 0 ? median < 1 - spread : median <= 1 + spread;
            if (u > 0)
                continue;
            out->default_us = dgl_median(us[0], PAIRED_ROUNDS);
            out->best_us = dgl_median(us[1], PAIRED_ROUNDS);
            out->spread = spread;
        }
    }
done:
    return status;
}
