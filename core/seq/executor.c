/* The choice between executors: known facts, records on disk, a trial; and the way back. */
#include "core/seq/executor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "kernels/phase_control.h"
#include "kernels/phases.h"

/* A trial: so many tokens by either executor in turn, of which the best of some rounds counts,
 * after as much work as it takes a GPU that waited for the compiler to raise its clocks. (Without
 * that one NVIDIA H200 took 3,256 us for tokens of 842 us.) */
#define TRIAL_STEPS  16
#define TRIAL_ROUNDS 3
#define WARM_NS      200000000ull
/* Several sequences, who wait for it all: as many tokens in fewer steps, and fewer numbers of work
 * groups. A trial by steps of 10 ms takes 0.7 s. */
#define ROWS_STEPS  8
#define ROWS_GROUPS 2
/* Numbers of work groups that are tried: all that are resident, and fewer per unit. */
#define TRIAL_GROUPS 4
/* Forms of a program differ by less than executors do. */
#define FORM_ROUNDS 6
/* One dispatch takes about this long, so that it can be cancelled between two. */
#define DISPATCH_NS 100000000ull
/* Who has decoded for so long is expected to go on for longer than the compiler takes. */
#define LIKELY_NS 1000000000ull
/* A GPU whose time is shared today may be free tomorrow: an abort counts for a day. */
#define ABORT_SECONDS 86400

_Static_assert(PHASE_FORMS <= EXEC_FORMS, "a record has a time for each form");

#define TRIAL_IDS (ROWS_STEPS * PLAN_PHASE_ROWS)
_Static_assert(TRIAL_IDS >= TRIAL_STEPS, "of one sequence, too");

static struct recipe formed(struct recipe recipe, uint32_t form)
{
    recipe.form = form;
    return recipe;
}

/* After the reason why it is, or would be, decoded by persistent dispatches. */
static void add_parts(struct engine_choice *c)
{
    const size_t len = strlen(c->reason);
    if (c->parts[0])
        snprintf(c->reason + len, sizeof(c->reason) - len, "; %s", c->parts);
}

static void decide(struct dgl_session *s, struct engine_choice *c, enum engine_state state,
                   const char *reason)
{
    c->state = state;
    if (reason != c->reason)
        snprintf(c->reason, sizeof(c->reason), "%s", reason);
    if (state == ENGINE_PERSISTENT)
        add_parts(c);
    if (state == ENGINE_DISPATCH || state == ENGINE_PERSISTENT)
        dgl_info(s->model->dev->log, "decoding by %s dispatches: %s",
                 state == ENGINE_PERSISTENT ? "persistent" : "single", c->reason);
}

static void remember(struct dgl_session *s, struct engine_choice *c, enum exec_verdict verdict)
{
    c->record.verdict = verdict;
    c->record.time = (uint64_t)time(NULL);
    if (c->key[0])
        exec_record_store(gl_program_cache_dir(s->model->dev->gl), c->key,
                          gl_program_cache_device(s->model->dev->gl), &c->record);
}

static void put_times(const struct dgl_session *s, struct engine_choice *c)
{
    const struct exec_record *r = &c->record;
    char what[64] = "token";
    if (c->columns > 1)
        snprintf(what, sizeof(what), "step of up to %d sequences", c->columns);
    snprintf(c->reason, sizeof(c->reason),
             "%sa trial took %.0f us per %s by persistent dispatches of %u work groups, %.0f us "
             "by single ones",
             s->model->engine->wanted == DGL_EXECUTOR_PERSISTENT ? "asked for; " : "",
             (double)r->persistent_ns * 1e-3, what, r->groups, (double)r->dispatch_ns * 1e-3);
    size_t len = strlen(c->reason);
    for (uint32_t form = 0; form < PHASE_FORMS && r->tried & (r->tried - 1u); form++)
        if (r->form_ns[form] && len < sizeof(c->reason))
            len += (size_t)snprintf(
                c->reason + len, sizeof(c->reason) - len, "; form %u of its program %.0f us%s",
                form + 1, (double)r->form_ns[form] * 1e-3, form == r->form ? ", in use" : "");
}

/* What the record says; false: it has to be found out. */
static bool decide_by_record(struct dgl_session *s, struct engine_choice *c)
{
    const uint64_t now = (uint64_t)time(NULL);
    switch (c->record.verdict) {
    case EXEC_SLOWER:
        put_times(s, c);
        decide(s, c, ENGINE_DISPATCH, c->reason);
        return true;
    case EXEC_UNFIT:
        decide(s, c, ENGINE_DISPATCH, "a persistent dispatch failed its tests on this device");
        return true;
    case EXEC_ABORTED:
        if ((now < c->record.time || now - c->record.time > ABORT_SECONDS) &&
            c->record.persistent_ns > 0 && c->record.persistent_ns < c->record.dispatch_ns) {
            c->record.verdict = EXEC_FASTER;
            return false;
        }
        decide(s, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up here");
        return true;
    default:
        return false;
    }
}

enum dgl_status executor_look(struct dgl_session *s, struct recipe recipe)
{
    struct engine *engine = s->model->engine;
    struct engine_choice *c = engine_choice(engine, recipe);
    const struct persistent *p = &engine->persistent;
    char reason[PERSISTENT_REASON] = "";
    if (c->state != ENGINE_OPEN)
        return DGL_OK;
    c->columns = plan_step_rows(recipe);
    if (!p->exec) {
        decide(s, c, ENGINE_DISPATCH, engine->no_persistent);
        return DGL_OK;
    }
    const uint64_t token_ns = pace_token_ns(&s->model->pace, &engine->plan);
    if (engine->wanted != DGL_EXECUTOR_PERSISTENT && engine->plan.device->dispatch_bytes > 0 &&
        token_ns > DISPATCH_NS) {
        snprintf(c->reason, sizeof(c->reason),
                 "a token takes about %llu ms here; one dispatch must end within %llu ms",
                 (unsigned long long)(token_ns / 1000000), DISPATCH_NS / 1000000);
        decide(s, c, ENGINE_DISPATCH, c->reason);
        return DGL_OK;
    }
    enum dgl_status status = p->ops->check(p->exec, recipe, &s->memory, reason, c->key);
    snprintf(c->parts, sizeof(c->parts), "%s", status == DGL_OK ? reason : "");
    snprintf(c->untried, sizeof(c->untried), "persistent dispatches have not been tried yet%s%s",
             c->parts[0] ? "; " : "", c->parts);
    if (status == DGL_ERR_UNSUPPORTED) {
        decide(s, c, ENGINE_DISPATCH, reason);
        return DGL_OK;
    }
    if (status != DGL_OK)
        return status;
    if (c->key[0] && !c->record.verdict)
        exec_record_load(gl_program_cache_dir(s->model->dev->gl), c->key, &c->record);
    if (c->record.form >= PHASE_FORMS)
        c->record = (struct exec_record){0};
    if (engine->wanted == DGL_EXECUTOR_PERSISTENT)
        snprintf(c->reason, sizeof(c->reason), "asked for");
    else if (!decide_by_record(s, c) && c->record.verdict == EXEC_FASTER)
        put_times(s, c);
    if (c->state == ENGINE_OPEN && c->reason[0])
        add_parts(c);
    return DGL_OK;
}

/* A program takes seconds to compile. Those have time for it who wait for the compiler anyway, and
 * those whom it does not hold up and who have decoded for some time: who has is likely to go on. */
static bool has_time(const struct dgl_session *s)
{
    const struct engine *engine = s->model->engine;
    return s->runner.wait_executor || (engine->persistent.aside && engine->decoded_ns &&
                                       dgl_now_ns() - engine->decoded_ns > LIKELY_NS);
}

static bool is_wanted(const struct dgl_session *s, const struct engine_choice *c)
{
    return s->model->engine->wanted == DGL_EXECUTOR_PERSISTENT ||
           c->record.verdict == EXEC_FASTER || (c->record.verdict == 0 && has_time(s));
}

/* Whether the compiler may begin with the program: of several sequences one of each width is on its
 * way at a time. Another one that is ready, and that nobody has come back for, makes room. */
static bool may_begin(struct engine *engine, struct engine_choice *c, struct recipe recipe)
{
    const struct persistent *p = &engine->persistent;
    const size_t first = (size_t)(c - engine->choice) / ENGINE_KINDS * ENGINE_KINDS;
    bool may = true;
    for (size_t i = first; i < first + ENGINE_KINDS && c->columns > 1; i++) {
        struct engine_choice *other = &engine->choice[i];
        if (other == c || other->state != ENGINE_COMPILING)
            continue;
        if (p->ops->is_ready(p->exec, formed(recipe, 0)))
            other->state = ENGINE_OPEN;
        else
            may = false;
    }
    return may;
}

enum dgl_status executor_prepare(struct dgl_session *s, struct recipe recipe)
{
    const struct persistent *p = &s->model->engine->persistent;
    struct engine_choice *c = engine_choice(s->model->engine, recipe);
    enum dgl_status status = executor_look(s, recipe);
    if (status != DGL_OK || c->state != ENGINE_OPEN || !is_wanted(s, c) ||
        !may_begin(s->model->engine, c, recipe))
        return status;
    status = p->ops->begin(p->exec, formed(recipe, c->record.form), &s->memory, false);
    if (status == DGL_OK)
        decide(s, c, ENGINE_COMPILING, "the program of a persistent dispatch is being compiled");
    return status;
}

static bool has_room(const struct dgl_session *s, const struct executor_query *q)
{
    if (q->rows)
        return q->rows->has_room(q->rows->priv, ROWS_STEPS);
    return s->len + TRIAL_STEPS <= s->context && session_rope_holds(s, s->len + TRIAL_STEPS) &&
           session_may_reserve(s, s->len + TRIAL_STEPS);
}

/* The next form of the program that may turn out faster than the one that decodes; PHASE_FORMS:
 * none. Where programs are not kept each process would compile all of them; several sequences have
 * their first form, as each of theirs is three programs already. */
static uint32_t next_form(const struct engine_choice *c)
{
    uint32_t form = 0;
    if (c->state != ENGINE_PERSISTENT || !c->key[0] || !c->record.persistent_ns || c->columns > 1)
        return PHASE_FORMS;
    while (form < PHASE_FORMS && (c->record.tried >> form & 1u))
        form++;
    return form;
}

bool executor_is_due(struct dgl_session *s, const struct executor_query *q)
{
    struct engine *engine = s->model->engine;
    const struct persistent *p = &engine->persistent;
    struct engine_choice *c = engine_choice(engine, q->recipe);
    const uint32_t form = next_form(c);
    if (s->runner.profile || !p->exec)
        return false;
    switch (c->state) {
    case ENGINE_OPEN:
        if (q->rows && c->columns == 0)
            return true; /* to look at it */
        return is_wanted(s, c) && may_begin(engine, c, q->recipe);
    case ENGINE_COMPILING:
        return p->ops->is_ready(p->exec, formed(q->recipe, c->record.form)) &&
               (!q->rows || c->record.persistent_ns || has_room(s, q));
    case ENGINE_PERSISTENT:
        return form < PHASE_FORMS && has_time(s) && has_room(s, q) &&
               (!c->rival_begun || p->ops->is_ready(p->exec, formed(q->recipe, form)));
    default:
        return false;
    }
}

/* ---- trial ----------------------------------------------------------------------------------- */

/* The state of the next step goes to the device. */
static enum dgl_status write_state(struct dgl_session *s, const struct executor_query *q,
                                   bool trial)
{
    struct dgl_step step = q->step;
    if (q->rows)
        return q->rows->write(q->rows->priv, trial);
    step.flags |= trial ? DGL_STEP_IGNORE_EOS : 0;
    return session_write_step(s, &step, 0);
}

/* The next steps, timed, with the ids that they give. */
static enum dgl_status time_steps(struct dgl_session *s, const struct executor_query *q,
                                  struct exec_run *run, int32_t steps, int32_t *ids, uint64_t *ns)
{
    enum dgl_status status = write_state(s, q, true);
    if (status == DGL_OK)
        status = runner_write_args(&s->runner, run);
    if (status == DGL_OK)
        status = gl_finish(s->model->dev->gl);
    uint64_t start = dgl_now_ns();
    exec_run_move(run, &s->memory);
    if (status == DGL_OK)
        status = exec_run_submit(run, (uint32_t)steps, NULL);
    if (status == DGL_OK)
        status =
            q->rows ? gl_finish(s->model->dev->gl) : session_read_ids(s, s->len + 1, steps, ids);
    *ns = (dgl_now_ns() - start) / (uint64_t)steps;
    return status == DGL_OK && q->rows ? q->rows->read(q->rows->priv, steps, ids) : status;
}

/* The program may run again, and what work groups count is 0, as between dispatches. */
static enum dgl_status clear_abort(struct dgl_session *s, struct recipe recipe)
{
    const struct gl_range arrived = s->memory.state[BUF_ARRIVED];
    struct exec_run *run = exec_cache_find(&s->runner.runs->persistent, recipe);
    enum dgl_status status = run ? s->model->engine->persistent.ops->clear(run) : DGL_OK;
    if (status == DGL_OK && arrived.size)
        status = gl_buffer_zero(s->model->dev->gl, arrived.buffer, arrived.offset, arrived.size);
    return status;
}

/* Both executors in turn on the tokens that come next; the persistent one with several numbers of
 * work groups, of which the fastest is kept. */
static enum dgl_status try_both(struct dgl_session *s, const struct executor_query *q,
                                struct exec_run *dispatch, struct exec_run *persistent,
                                uint32_t resident, struct engine_choice *c)
{
    const struct persistent_ops *ops = s->model->engine->persistent.ops;
    const bool forced = s->model->engine->wanted == DGL_EXECUTOR_PERSISTENT;
    const uint32_t units = s->model->dev->plan.compute_units;
    const uint32_t step = resident % units == 0 ? units : resident, form = c->record.form;
    const int32_t steps = q->rows ? ROWS_STEPS : TRIAL_STEPS;
    const int32_t count = q->rows ? q->rows->count * steps : steps;
    const int numbers = q->rows ? ROWS_GROUPS : TRIAL_GROUPS;
    int32_t want[TRIAL_IDS] = {0}, ids[TRIAL_IDS] = {0};
    uint64_t ns;
    bool aborted = false, same = true;
    c->record = (struct exec_record){.form = form, .tried = 1u << form};
    enum dgl_status status;
    const uint64_t start = dgl_now_ns();
    assert(count <= TRIAL_IDS);
    do
        status = time_steps(s, q, dispatch, steps, want, &ns);
    while (status == DGL_OK && (!q->rows || q->wait) && dgl_now_ns() - start < WARM_NS);
    for (int i = 0; i < TRIAL_ROUNDS * numbers && status == DGL_OK; i++) {
        const uint32_t less = (uint32_t)(i % numbers) * step;
        if (less >= resident)
            continue;
        if (less == 0)
            status = time_steps(s, q, dispatch, steps, want, &ns);
        if (status == DGL_OK && less == 0 && (i == 0 || ns < c->record.dispatch_ns))
            c->record.dispatch_ns = ns;
        ops->set_groups(persistent, resident - less);
        if (status == DGL_OK)
            status = time_steps(s, q, persistent, steps, ids, &ns);
        aborted = executor_is_aborted(ids, count);
        same = memcmp(ids, want, sizeof(ids)) == 0;
        if (status != DGL_OK || aborted || !same)
            break;
        if (c->record.persistent_ns == 0 || ns < c->record.persistent_ns) {
            c->record.persistent_ns = ns;
            c->record.groups = resident - less;
        }
    }
    if (status == DGL_OK)
        status = write_state(s, q, false);
    if (status == DGL_OK)
        status = runner_write_args(&s->runner, dispatch);
    if (status != DGL_OK)
        return status;
    if (aborted) {
        remember(s, c, EXEC_ABORTED);
        decide(s, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up in a trial");
        return clear_abort(s, formed(q->recipe, form));
    }
    if (!same) {
        remember(s, c, EXEC_UNFIT);
        decide(s, c, ENGINE_DISPATCH,
               "the tokens of a trial were not the same as by single dispatches");
        return DGL_OK;
    }
    c->record.form_ns[form] = c->record.persistent_ns;
    bool faster = c->record.persistent_ns < c->record.dispatch_ns;
    remember(s, c, faster ? EXEC_FASTER : EXEC_SLOWER);
    put_times(s, c);
    decide(s, c, faster || forced ? ENGINE_PERSISTENT : ENGINE_DISPATCH, c->reason);
    return DGL_OK;
}

/* The program in the next form against the one that decodes, in turn on the tokens that come next.
 * A form that is not fit is no reason against the other one. */
static enum dgl_status try_form(struct dgl_session *s, const struct executor_query *q,
                                struct engine_choice *c)
{
    const struct persistent *p = &s->model->engine->persistent;
    struct exec_record *r = &c->record;
    const uint32_t forms[2] = {r->form, next_form(c)};
    struct exec_run *run[2] = {NULL, NULL};
    struct residency found = {0};
    int32_t ids[2][TRIAL_STEPS];
    uint64_t best[2] = {0}, ns;
    int aborted = -1;
    c->rival_begun = false;
    r->tried |= 1u << forms[1];
    enum dgl_status status = session_reserve(s, s->len + TRIAL_STEPS);
    for (int i = 0; i < 2 && status == DGL_OK; i++)
        status = exec_cache_get(&s->runner.runs->persistent, p->exec, formed(q->recipe, forms[i]),
                                &s->memory, &run[i]);
    if (status == DGL_OK) {
        exec_run_move(run[1], &s->memory);
        status = p->ops->probe(run[1], &found);
    }
    const uint32_t groups = found.groups < r->groups ? found.groups : r->groups;
    bool fit = status == DGL_OK && groups > 0;
    if (status == DGL_ERR_KERNEL)
        status = DGL_OK; /* the driver does not take it */
    const uint64_t start = dgl_now_ns();
    while (fit && status == DGL_OK && q->wait && aborted < 0 && dgl_now_ns() - start < WARM_NS) {
        status = time_steps(s, q, run[0], TRIAL_STEPS, ids[0], &ns);
        aborted = executor_is_aborted(ids[0], TRIAL_STEPS) ? 0 : -1;
    }
    for (int i = 0; i < 2 * FORM_ROUNDS && fit && status == DGL_OK && aborted < 0; i++) {
        p->ops->set_groups(run[i % 2], i % 2 ? groups : r->groups);
        status = time_steps(s, q, run[i % 2], TRIAL_STEPS, ids[i % 2], &ns);
        aborted = executor_is_aborted(ids[i % 2], TRIAL_STEPS) ? i % 2 : -1;
        fit = i == 0 || memcmp(ids[0], ids[1], sizeof(ids[0])) == 0;
        best[i % 2] = best[i % 2] && best[i % 2] < ns ? best[i % 2] : ns;
    }
    if (status == DGL_OK)
        status = session_write_step(s, &q->step, 0);
    if (status == DGL_OK && aborted >= 0)
        status = clear_abort(s, formed(q->recipe, forms[aborted]));
    if (status != DGL_OK)
        return status;
    if (aborted == 0) {
        remember(s, c, EXEC_ABORTED);
        decide(s, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up in a trial");
        return DGL_OK;
    }
    if (fit && aborted < 0) {
        r->form_ns[forms[0]] = r->persistent_ns = best[0];
        r->form_ns[forms[1]] = best[1];
    }
    if (fit && aborted < 0 && best[1] < best[0]) {
        r->form = forms[1];
        r->groups = groups;
        r->persistent_ns = best[1];
    }
    remember(s, c, r->persistent_ns < r->dispatch_ns ? EXEC_FASTER : EXEC_SLOWER);
    put_times(s, c);
    decide(s, c, ENGINE_PERSISTENT, c->reason);
    return DGL_OK;
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* Tries the other forms of the program that decodes, as far as the compiler is done with them. They
 * are compiled one after the other, and all at once where nothing else is to be done. */
static enum dgl_status try_forms(struct dgl_session *s, const struct executor_query *q,
                                 struct engine_choice *c)
{
    const struct persistent *p = &s->model->engine->persistent;
    enum dgl_status status = DGL_OK;
    uint32_t form;
    while (status == DGL_OK && (form = next_form(c)) < PHASE_FORMS && has_time(s) &&
           has_room(s, q)) {
        for (uint32_t f = form; f < PHASE_FORMS && !c->rival_begun && status == DGL_OK; f++)
            if (f == form || (q->wait && !(c->record.tried >> f & 1u)))
                status = p->ops->begin(p->exec, formed(q->recipe, f), &s->memory, true);
        c->rival_begun = status == DGL_OK;
        if (status != DGL_OK || (!q->wait && !p->ops->is_ready(p->exec, formed(q->recipe, form))))
            return status;
        status = try_form(s, q, c);
    }
    return status;
}

/* The run of the program, for as many rows as the query has. */
static enum dgl_status persistent_run(struct dgl_session *s, const struct executor_query *q,
                                      struct recipe recipe, struct exec_run **run)
{
    struct engine *engine = s->model->engine;
    enum dgl_status status = exec_cache_get(&s->runner.runs->persistent, engine->persistent.exec,
                                            recipe, &s->memory, run);
    if (status == DGL_OK)
        exec_run_move(*run, &s->memory);
    return status == DGL_OK && q->rows ? exec_run_set_tokens(*run, q->rows->count) : status;
}

/* The program is there: may it run, and is it worth it? */
static enum dgl_status judge(struct dgl_session *s, const struct executor_query *q,
                             struct exec_run *dispatch, struct engine_choice *c)
{
    const struct persistent *p = &s->model->engine->persistent;
    const bool forced = s->model->engine->wanted == DGL_EXECUTOR_PERSISTENT;
    const struct recipe recipe = formed(q->recipe, c->record.form);
    struct exec_run *run;
    struct residency found;
    enum dgl_status status = persistent_run(s, q, recipe, &run);
    if (status == DGL_ERR_KERNEL) {
        remember(s, c, EXEC_UNFIT);
        decide(s, c, ENGINE_DISPATCH, "the driver does not take the program");
        return DGL_OK;
    }
    if (status == DGL_OK)
        status = p->ops->probe(run, &found);
    if (status != DGL_OK)
        return status;
    if (found.groups == 0) {
        remember(s, c, EXEC_UNFIT);
        decide(s, c, ENGINE_DISPATCH, found.reason);
        return DGL_OK;
    }
    /* A record of more groups is about another slice of the device. */
    bool known = c->record.persistent_ns > 0 && c->record.groups <= found.groups;
    if (!known && has_room(s, q))
        return try_both(s, q, dispatch, run, found.groups, c);
    if (!known && !forced)
        return DGL_OK; /* another time */
    if (known)
        put_times(s, c);
    else
        c->record = (struct exec_record){.groups = found.groups, .form = recipe.form};
    decide(s, c, ENGINE_PERSISTENT, known ? c->reason : "asked for");
    return DGL_OK;
}

static enum dgl_status use_of(struct dgl_session *s, const struct executor_query *q,
                              const struct engine_choice *c, struct exec_run **run,
                              int32_t *max_steps)
{
    struct engine *engine = s->model->engine;
    const uint64_t ns = c->record.persistent_ns;
    engine->last = c;
    if (!engine->decoded_ns)
        engine->decoded_ns = dgl_now_ns();
    *max_steps = DGL_READBACK_INTERVAL_MAX;
    *run = NULL;
    if (c->state != ENGINE_PERSISTENT)
        return q->rows ? DGL_OK : runner_run(&s->runner, q->recipe, run);
    enum dgl_status status = persistent_run(s, q, formed(q->recipe, c->record.form), run);
    /* Another guest may have steps before it in a form that lost. */
    for (uint32_t form = 0; form < PHASE_FORMS && status == DGL_OK && !s->guest; form++)
        if (form != c->record.form)
            exec_cache_drop(&s->runner.runs->persistent, formed(q->recipe, form));
    if (status == DGL_OK)
        engine->persistent.ops->set_groups(*run, c->record.groups);
    if (ns > DISPATCH_NS / DGL_READBACK_INTERVAL_MAX)
        *max_steps = ns < DISPATCH_NS ? (int32_t)(DISPATCH_NS / ns) : 1;
    return status;
}

enum dgl_status executor_choose(struct dgl_session *s, const struct executor_query *q,
                                struct exec_run **run, int32_t *max_steps)
{
    struct engine *engine = s->model->engine;
    struct engine_choice *c = engine_choice(engine, q->recipe);
    if (s->runner.profile) { /* times operations, each a dispatch */
        *max_steps = DGL_READBACK_INTERVAL_MAX;
        return runner_run(&s->runner, q->recipe, run);
    }
    enum dgl_status status = executor_prepare(s, q->recipe);
    if (status == DGL_OK && (q->wait || executor_is_due(s, q))) {
        struct dgl_device *dev = s->model->dev;
        struct exec_run *dispatch = NULL;
        struct dgl_counters before = device_counters(dev), trial;
        uint64_t compile_ns = dev->compile_ns, start = dgl_now_ns();
        const bool first = c->state == ENGINE_COMPILING;
        if (first && has_room(s, q))
            status = q->rows ? q->rows->reserve(q->rows->priv, ROWS_STEPS)
                             : session_reserve(s, s->len + TRIAL_STEPS);
        if (first && status == DGL_OK)
            status = runner_run(&s->runner, q->recipe, &dispatch);
        if (first && status == DGL_OK && q->rows)
            status = exec_run_set_tokens(dispatch, q->rows->count);
        if (first && status == DGL_OK)
            status = judge(s, q, dispatch, c);
        if (status == DGL_OK)
            status = try_forms(s, q, c);
        dev->compile_ns = compile_ns + (dgl_now_ns() - start);
        trial = counters_since(dev, &before);
        counters_add(&s->runner.trials, &trial);
    }
    if (status == DGL_OK && engine->wanted == DGL_EXECUTOR_PERSISTENT && !q->rows &&
        c->state == ENGINE_DISPATCH)
        return dgl_fail(s->model->dev->log, DGL_ERR_UNSUPPORTED,
                        "decoding by persistent dispatches was asked for, but cannot be: %s",
                        c->reason);
    return status == DGL_OK ? use_of(s, q, c, run, max_steps) : status;
}

enum dgl_status executor_use(struct dgl_session *s, const struct executor_query *q,
                             struct exec_run **run)
{
    int32_t max_steps;
    return use_of(s, q, engine_choice(s->model->engine, q->recipe), run, &max_steps);
}

/* Steps by single dispatches that a pass over as many columns costs. On one NVIDIA H200 (driver
 * 580), llama-3.2-1b:q4_k, a step took 816 us, a pass over 2 tokens 1,410, and steps of 4 and 8
 * sequences, which have more rows in the head than passes over a prompt, 1,343 and 1,795
 * (docs/perf-log.md, "Prefill and small batches"). Other bodies cost no less than the last. */
static const struct {
    int32_t columns;
    double steps;
} pass_costs[] = {{1, 1.0}, {2, 1.7}, {4, 1.65}, {8, 2.2}};
#define PASS_COSTS (sizeof(pass_costs) / sizeof(pass_costs[0]))

struct exec_run *executor_reader(struct dgl_session *s, struct recipe recipe, int32_t tokens)
{
    struct engine *engine = s->model->engine;
    const struct engine_choice *c = engine_choice(engine, recipe);
    const struct exec_record *r = &c->record;
    if (s->runner.profile || c->state != ENGINE_PERSISTENT || r->persistent_ns == 0 || tokens < 1 ||
        tokens > pass_costs[PASS_COSTS - 1].columns)
        return NULL;
    const int32_t columns = plan_body_columns(plan_body(&engine->plan, tokens));
    size_t i = 0;
    while (i + 1 < PASS_COSTS && pass_costs[i].columns < columns)
        i++;
    if ((double)tokens * (double)r->persistent_ns >= pass_costs[i].steps * (double)r->dispatch_ns)
        return NULL;
    struct exec_run *run = exec_cache_find(&s->runner.runs->persistent, formed(recipe, r->form));
    if (run) {
        exec_run_move(run, &s->memory);
        engine->persistent.ops->set_groups(run, r->groups);
    }
    return run;
}

/* ---- abort ----------------------------------------------------------------------------------- */

bool executor_is_aborted(const int32_t *ids, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if ((uint32_t)ids[i] == DGL_PHASE_ABORTED_ID)
            return true;
    return false;
}

enum dgl_status executor_rewind(struct dgl_session *s, const struct executor_query *q)
{
    struct gl_device *gl = s->model->dev->gl;
    const struct gl_range ids = s->memory.state[BUF_IDS];
    enum dgl_status status = gl_finish(gl);
    if (status == DGL_OK && !q->rows)
        status =
            gl_buffer_write(gl, ids.buffer, ids.offset + (uint64_t)s->len * 4, s->ids + s->len, 4);
    return status == DGL_OK ? write_state(s, q, false) : status;
}

enum dgl_status executor_reset(struct dgl_session *s, const struct executor_query *q)
{
    const struct engine_choice *c = engine_choice(s->model->engine, q->recipe);
    enum dgl_status status = executor_rewind(s, q);
    return status == DGL_OK ? clear_abort(s, formed(q->recipe, c->record.form)) : status;
}

enum dgl_status executor_recover(struct dgl_session *s, const struct executor_query *q,
                                 struct exec_run **run, int32_t *max_steps)
{
    struct dgl_device *dev = s->model->dev;
    struct engine *engine = s->model->engine;
    struct engine_choice *c = engine_choice(engine, q->recipe);
    dgl_warn(dev->log,
             "%s: a persistent dispatch was given up: a work group waited for the others too long; "
             "its tokens are computed again by single dispatches",
             dev->info.renderer);
    remember(s, c, EXEC_ABORTED);
    decide(s, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up in this process");
    enum dgl_status status = executor_reset(s, q);
    if (status == DGL_OK)
        status = use_of(s, q, c, run, max_steps);
    return status == DGL_OK && *run ? runner_write_args(&s->runner, *run) : status;
}
