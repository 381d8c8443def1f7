/* The tuner's measurements. Candidates are compiled, checked with known answers, and run as lists
 * of the model's own operations, layer after layer, on the buffers of a real pass. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/measure/tuner.h"

#define TIMED_SPANS  3          /* measurements of a candidate; the shortest one counts */
#define HOPELESS     1.5        /* a candidate this much slower than the best is not timed again */
#define SPAN_NS      2000000ull /* least duration of one measurement */
#define SPAN_MOST_NS 8000000ull /* upper limit, if fewer layers suffice */
#define SPAN_LISTS   64
#define BIASES       16 /* biases of the operation that adds them */
/* Longest warm-up. A GPU that waited for the compiler has lowered its clocks, so it is kept busy
 * for as long as it was idle before a measurement. (One NVIDIA H200 needed 3,256 us for tokens of
 * 842 us.) */
#define WARM_NS 200000000ull

/* Makes c->run[u]: a dispatch run of a plan whose only body is the operations of `pass`, with the
 * candidate's kernel. Its memory is that of the session, of t->crowd, or of the copied weights. */
static enum dgl_status bind(struct tuner *t, const struct target_pass *pass, struct candidate *c,
                            uint32_t u)
{
    const bool crowd = pass_is_crowd(pass);
    const struct memory *memory = c->layout ? &t->copied.memory
                                  : crowd   ? &t->crowd->memory
                                            : &t->s->state.memory;
    assert(!c->layout || !crowd);
    const struct plan *whole = session_plan(t->s);
    struct plan *plan = &c->plan[u];
    struct body *body = &c->body[u];
    exec_run_destroy(&c->run[u]);
    exec_unref(&c->exec[u]);
    free(body->use);
    *plan = (struct plan){.device = whole->device,
                          .desc = whole->desc,
                          .weights = whole->weights,
                          .kv_type = whole->kv_type,
                          .kv = whole->kv,
                          .splits = whole->splits,
                          .token_splits = whole->token_splits,
                          .sum_rows = whole->sum_rows,
                          .bodies = &c->only[u],
                          .num_bodies = 1};
    c->only[u] = body;
    *body = (struct body){.shape = pass->shape, .ops = {.ops = pass->ops, .count = pass->count}};
    body->use = dgl_new_array(const struct kernel_use *, pass->count);
    if (!body->use)
        return dgl_fail_memory(t->log, "a candidate", pass->count * sizeof(*body->use));
    for (size_t i = 0; i < pass->count; i++)
        body->use[i] = u > 0 && c->shared_use ? c->shared_use : c->use;
    enum dgl_status status =
        exec_dispatch_create(session_dev(t->s), plan, &t->programs, &c->exec[u]);
    if (status == DGL_OK)
        status = exec_run_create(c->exec[u], recipe_of(pass->shape), memory, &c->run[u]);
    return status == DGL_OK ? exec_run_set_tokens(c->run[u], pass->tokens) : status;
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
        bias[i] = (struct dgl_logit_bias){.id = t->ids[i], .bias = 1e-4f};
    sampling_to_step(&sampling, &step);
    if (pass_is_crowd(pass))
        return tuner_crowd_write(t, &step, pass->tokens);
    enum dgl_status status = session_write_adjust(t->s, &sampling);
    return status == DGL_OK ? pass_state_write_step(&t->s->state, &step, 0) : status;
}

enum dgl_status tuner_prepare(struct tuner *t, const struct target_pass *pass)
{
    struct dgl_session *s = t->s;
    const int32_t need = pass_is_prefill(pass) ? pass->tokens : t->depth;
    const uint64_t start = dgl_now_ns();
    enum dgl_status status;
    memcpy(s->seq.ids, t->ids, t->num_ids * sizeof(*s->seq.ids));
    if (pass_is_crowd(pass)) {
        TRY(tuner_crowd_prepare(t, pass));
    } else if (pass_is_prefill(pass)) {
        const bool scores = pass->shape.part == PART_OUTPUTS;
        sequence_trim(&s->seq, 0);
        struct shape_set shapes = shapes_of(plan_pass_shape(session_plan(s), need));
        if (scores)
            shapes = shapes_add(shapes_add(shapes, PASS_HIDDEN), PASS_SCORE);
        TRY(pass_state_compile(&s->state, shapes));
        TRY(session_pass(s, need, scores ? ROW_SCORE : 0));
    } else {
        sequence_trim(&s->seq, t->depth);
        if (s->seq.len < t->depth)
            TRY(session_eval(s, t->depth));
        TRY(pass_state_compile(&s->state, shapes_add(shapes_of(PASS_DECODE), PASS_HEAD)));
        TRY(session_pass(s, 1, ROW_LOGITS));
    }
    TRY(gl_finish(session_dev(s)->gl));
done:
    tuner_note(&t->prepare_ns, dgl_now_ns() - start);
    return status;
}

enum dgl_status tuner_span(struct tuner *t, const struct target_pass *pass,
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

enum dgl_status tuner_warm(struct tuner *t, const struct target_pass *pass,
                           const struct candidate *c, uint32_t u)
{
    const uint64_t start = dgl_now_ns(), idle = start - t->busy_ns;
    const uint64_t end = start + (idle < WARM_NS ? idle : WARM_NS);
    enum dgl_status status = DGL_OK;
    double us;
    if (session_dev(t->s)->info.software)
        return DGL_OK;
    do
        status = tuner_span(t, pass, c, u, pass->lists ? pass->lists : 1, &us);
    while (status == DGL_OK && dgl_now_ns() < end);
    return status;
}

enum dgl_status tuner_size_span(struct tuner *t, struct target_pass *pass, struct candidate *c,
                                uint32_t u)
{
    const uint64_t most = pass_is_sampling(pass) ? TUNER_SAMPLE_LISTS : SPAN_LISTS;
    double us = 0;
    pass->lists = 1;
    enum dgl_status status;
    TRY(tuner_warm(t, pass, c, u));
    for (int i = 0; i < 2; i++) {
        TRY(tuner_span(t, pass, c, u, 1, &us));
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

/* Compiles a program of a candidate, if it is not compiled yet, and runs its known-answer test. An
 * error is stored in the candidate's reason. */
static enum dgl_status try_use(struct tuner *t, struct candidate *c, const struct kernel_use *use,
                               bool *verified)
{
    const struct gl_compile how = {.machine_code = true};
    struct kernel_verdict verdict = {0};
    enum dgl_status status = programs_compile(&t->programs, &use, 1, &how);
    if (status == DGL_ERR_KERNEL) {
        snprintf(c->report->reason, sizeof(c->report->reason), "it does not compile");
        return DGL_OK;
    }
    if (status == DGL_OK && kernel_judge_knows(use->request.op))
        status =
            kernel_judge_use(t->judge,
                             &(struct kernel_subject){.request = &use->request,
                                                      .choice = &use->choice,
                                                      .program = programs_get(&t->programs, use)},
                             &verdict);
    if (status == DGL_OK && verdict.kind == KERNEL_WRONG)
        snprintf(c->report->reason, sizeof(c->report->reason), "%.*s",
                 (int)sizeof(c->report->reason) - 1, verdict.text);
    *verified = verdict.cases > 0 && verdict.kind == KERNEL_PASSED;
    return status;
}

enum dgl_status tuner_compile(struct tuner *t, const struct target *target, size_t first,
                              size_t end)
{
    const struct kernel_use *uses[TUNER_MAX_CANDIDATES] = {NULL};
    const struct gl_compile how = {.machine_code = true};
    for (size_t i = first; i < end; i++)
        uses[i - first] = t->candidates[i]->use;
    enum dgl_status status = programs_compile(&t->programs, uses, end - first, &how);
    if (status == DGL_ERR_KERNEL) /* compile one by one to find the wrong one */
        status = DGL_OK;
    for (size_t i = first; i < end && status == DGL_OK; i++) {
        struct candidate *c = t->candidates[i];
        bool verified = true;
        if (session_is_cancelled(t->s))
            return DGL_ERR_CANCELLED;
        status = try_use(t, c, c->use, &c->report->verified);
        if (status == DGL_OK && c->shared_use && !c->report->reason[0])
            status = try_use(t, c, c->shared_use, &verified);
        c->report->verified = c->report->verified && verified;
        if (status == DGL_OK && c->layout && !c->report->reason[0])
            status = tuner_copy_begin(t, target, c->layout);
        if (status == DGL_ERR_NO_MEMORY && c->layout) {
            tuner_copy_end(t);
            snprintf(c->report->reason, sizeof(c->report->reason),
                     "no memory for weights in layout %s beside the model's", c->layout->name);
            status = DGL_OK;
        }
        for (uint32_t u = 0; u < target->num_passes && status == DGL_OK && !c->report->reason[0];
             u++)
            status = bind(t, &target->pass[u], c, u);
    }
    return status;
}

enum dgl_status tuner_time(struct tuner *t, const struct target *target, size_t first, size_t end,
                           size_t *best)
{
    const struct target_pass *pass = &target->pass[0];
    enum dgl_status status = DGL_OK;
    for (size_t i = first; i < end; i++) {
        struct candidate *c = t->candidates[i];
        double us = 0, best_us = t->candidates[*best]->report->us;
        if (c->report->reason[0])
            continue;
        TRY(tuner_warm(t, pass, t->candidates[*best], 0));
        TRY(tuner_span(t, pass, c, 0, 1, &us)); /* also the first run of the program */
        c->report->us = us;
        bool hopeless = us > HOPELESS * HOPELESS * pass->probe_us;
        for (int k = 0; k < TIMED_SPANS && !hopeless; k++) {
            TRY(tuner_span(t, pass, c, 0, pass->lists, &us));
            c->report->us = k > 0 && c->report->us < us ? c->report->us : us;
            hopeless = best_us > 0 && c->report->us > HOPELESS * best_us;
        }
        if (!hopeless && (best_us == 0 || c->report->us < best_us))
            *best = i;
    }
done:
    return status;
}

uint64_t tuner_pair_ns(const struct tuner *t, const struct target *target)
{
    double ns = 0;
    for (uint32_t u = 0; u < target->num_passes; u++) {
        const struct target_pass *pass = &target->pass[u];
        ns += (double)(t->prepare_ns + (session_dev(t->s)->info.software ? 0 : WARM_NS)) +
              pass->probe_us * 1e3 * (double)(pass->count * pass->lists) * 2 *
                  (TUNER_PAIRED_ROUNDS + 1);
    }
    return (uint64_t)ns;
}
