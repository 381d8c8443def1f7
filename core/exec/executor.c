/* Selects the executor from known facts, records on disk, and a trial. Also switches back to
 * dispatches after an abort. */
#include "core/exec/executor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "kernels/phase_control.h"
#include "kernels/phases.h"

/* A trial times so many tokens with both executors in turn. The best of several rounds counts.
 * Before that, the GPU runs long enough to raise its clocks again, because it was idle while the
 * compiler worked. (Without this, one NVIDIA H200 took 3,256 us for tokens of 842 us.) */
#define TRIAL_STEPS  16
#define TRIAL_ROUNDS 3
#define WARM_NS      200000000ull
/* A trial with several sequences delays all of them, so it has fewer steps, which compute as many
 * tokens, and tries fewer numbers of work groups. With steps of 10 ms it takes 0.7 s. */
#define ROWS_STEPS  8
#define ROWS_GROUPS 2
/* Numbers of work groups to try: all that are resident, and smaller numbers per unit. */
#define TRIAL_GROUPS 4
/* Forms of a program differ less than executors, so they need more rounds. */
#define FORM_ROUNDS 6
/* If decoding has lasted this long, it is expected to last longer than the compiler needs. */
#define LIKELY_NS 1000000000ull
/* An abort is remembered for a day: other users of the GPU may have caused it. */
#define ABORT_SECONDS 86400

_Static_assert(PHASE_FORMS <= EXEC_FORMS, "a record has a time for each form");

#define TRIAL_IDS (ROWS_STEPS * PLAN_PHASE_ROWS)
_Static_assert(TRIAL_IDS >= TRIAL_STEPS, "of one sequence, too");

static struct recipe formed(struct recipe recipe, uint32_t form)
{
    recipe.form = form;
    return recipe;
}

/* Appends why a token needs several dispatches to the reason for the persistent executor. */
static void add_parts(struct engine_choice *c)
{
    const size_t len = strlen(c->reason);
    if (c->parts[0])
        snprintf(c->reason + len, sizeof(c->reason) - len, "; %s", c->parts);
}

static void decide(struct runner *r, struct engine_choice *c, enum engine_state state,
                   const char *reason)
{
    c->state = state;
    if (reason != c->reason)
        snprintf(c->reason, sizeof(c->reason), "%s", reason);
    if (state == ENGINE_PERSISTENT)
        add_parts(c);
    if (state == ENGINE_DISPATCH || state == ENGINE_PERSISTENT)
        dgl_info(r->dev->log, "decoding by %s dispatches: %s",
                 state == ENGINE_PERSISTENT ? "persistent" : "single", c->reason);
}

static void remember(struct runner *r, struct engine_choice *c, enum exec_verdict verdict)
{
    c->record.verdict = verdict;
    c->record.time = (uint64_t)time(NULL);
    if (c->key[0])
        exec_record_store(gl_program_cache_dir(r->dev->gl), c->key,
                          gl_program_cache_device(r->dev->gl), &c->record);
}

static void put_times(const struct runner *r, struct engine_choice *c)
{
    const struct exec_record *record = &c->record;
    char what[64] = "token";
    if (c->columns > 1)
        snprintf(what, sizeof(what), "step of up to %d sequences", c->columns);
    snprintf(c->reason, sizeof(c->reason),
             "%sa trial took %.0f us per %s by persistent dispatches of %u work groups, %.0f us "
             "by single ones",
             (*r->engine)->wanted == DGL_EXECUTOR_PERSISTENT ? "asked for; " : "",
             (double)record->persistent_ns * 1e-3, what, record->groups,
             (double)record->dispatch_ns * 1e-3);
    size_t len = strlen(c->reason);
    for (uint32_t form = 0; form < PHASE_FORMS && record->tried & (record->tried - 1u); form++)
        if (record->form_ns[form] && len < sizeof(c->reason))
            len += (size_t)snprintf(c->reason + len, sizeof(c->reason) - len,
                                    "; form %u of its program %.0f us%s", form + 1,
                                    (double)record->form_ns[form] * 1e-3,
                                    form == record->form ? ", in use" : "");
}

/* Decides by the stored record. Returns false if a trial is needed. */
static bool decide_by_record(struct runner *r, struct engine_choice *c)
{
    const uint64_t now = (uint64_t)time(NULL);
    switch (c->record.verdict) {
    case EXEC_SLOWER:
        put_times(r, c);
        decide(r, c, ENGINE_DISPATCH, c->reason);
        return true;
    case EXEC_UNFIT:
        decide(r, c, ENGINE_DISPATCH, "a persistent dispatch failed its tests on this device");
        return true;
    case EXEC_ABORTED:
        if ((now < c->record.time || now - c->record.time > ABORT_SECONDS) &&
            c->record.persistent_ns > 0 && c->record.persistent_ns < c->record.dispatch_ns) {
            c->record.verdict = EXEC_FASTER;
            return false;
        }
        decide(r, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up here");
        return true;
    default:
        return false;
    }
}

enum dgl_status executor_look(struct runner *r, struct recipe recipe)
{
    struct engine *engine = *r->engine;
    struct engine_choice *c = engine_choice(engine, recipe);
    const struct persistent *p = &engine->persistent;
    char reason[PERSISTENT_REASON] = "";
    if (c->state != ENGINE_OPEN)
        return DGL_OK;
    c->columns = plan_step_rows(recipe);
    if (!p->exec) {
        decide(r, c, ENGINE_DISPATCH, engine->no_persistent);
        return DGL_OK;
    }
    const uint64_t token_ns = pace_token_ns(r->pace, &engine->plan);
    if (engine->wanted != DGL_EXECUTOR_PERSISTENT && engine->plan.device->dispatch_bytes > 0 &&
        token_ns > PACE_BUDGET_NS) {
        snprintf(c->reason, sizeof(c->reason),
                 "a token takes about %llu ms here; one dispatch must end within %llu ms",
                 (unsigned long long)(token_ns / 1000000), PACE_BUDGET_NS / 1000000);
        decide(r, c, ENGINE_DISPATCH, c->reason);
        return DGL_OK;
    }
    enum dgl_status status = p->ops->check(p->exec, recipe, r->memory, reason, c->key);
    snprintf(c->parts, sizeof(c->parts), "%s", status == DGL_OK ? reason : "");
    snprintf(c->untried, sizeof(c->untried), "persistent dispatches have not been tried yet%s%s",
             c->parts[0] ? "; " : "", c->parts);
    if (status == DGL_ERR_UNSUPPORTED) {
        decide(r, c, ENGINE_DISPATCH, reason);
        return DGL_OK;
    }
    if (status != DGL_OK)
        return status;
    if (c->key[0] && !c->record.verdict)
        exec_record_load(gl_program_cache_dir(r->dev->gl), c->key, &c->record);
    if (c->record.form >= PHASE_FORMS)
        c->record = (struct exec_record){0};
    if (engine->wanted == DGL_EXECUTOR_PERSISTENT)
        snprintf(c->reason, sizeof(c->reason), "asked for");
    else if (!decide_by_record(r, c) && c->record.verdict == EXEC_FASTER)
        put_times(r, c);
    if (c->state == ENGINE_OPEN && c->reason[0])
        add_parts(c);
    return DGL_OK;
}

/* Returns true if the runner can afford to compile a program, which takes seconds. It can if it
 * waits for the compiler anyway. It can also if compiling does not delay it and it has decoded for
 * some time, because it is then likely to continue. */
static bool has_time(const struct runner *r)
{
    const struct engine *engine = *r->engine;
    return r->wait_executor || (engine->persistent.aside && engine->decoded_ns &&
                                dgl_now_ns() - engine->decoded_ns > LIKELY_NS);
}

static bool is_wanted(const struct runner *r, const struct engine_choice *c)
{
    return (*r->engine)->wanted == DGL_EXECUTOR_PERSISTENT || c->record.verdict == EXEC_FASTER ||
           (c->record.verdict == 0 && has_time(r));
}

/* Returns true if the compiler may begin with the program. Per width, one program of several
 * sequences is pending at a time. A finished but unused program is replaced. */
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

enum dgl_status executor_prepare(struct runner *r, struct recipe recipe)
{
    const struct persistent *p = &(*r->engine)->persistent;
    struct engine_choice *c = engine_choice(*r->engine, recipe);
    enum dgl_status status = executor_look(r, recipe);
    if (status != DGL_OK || c->state != ENGINE_OPEN || !is_wanted(r, c) ||
        !may_begin(*r->engine, c, recipe))
        return status;
    status = p->ops->begin(p->exec, formed(recipe, c->record.form), r->memory, false);
    if (status == DGL_OK)
        decide(r, c, ENGINE_COMPILING, "the program of a persistent dispatch is being compiled");
    return status;
}

static int32_t trial_steps(const struct steps *q)
{
    return q->rows > 1 ? ROWS_STEPS : TRIAL_STEPS;
}

static bool has_room(const struct steps *q)
{
    return q->has_room(q->priv, trial_steps(q));
}

/* Returns the next form of the program that may be faster than the current one, or PHASE_FORMS if
 * all were tried. Without a program cache each process would compile all forms, so only the first
 * is used. Several sequences also use only the first form, because they have three programs
 * already. */
static uint32_t next_form(const struct engine_choice *c)
{
    uint32_t form = 0;
    if (c->state != ENGINE_PERSISTENT || !c->key[0] || !c->record.persistent_ns || c->columns > 1)
        return PHASE_FORMS;
    while (form < PHASE_FORMS && (c->record.tried >> form & 1u))
        form++;
    return form;
}

bool executor_is_due(const struct steps *q)
{
    struct runner *r = q->runner;
    struct engine *engine = *r->engine;
    const struct persistent *p = &engine->persistent;
    struct engine_choice *c = engine_choice(engine, q->recipe);
    const uint32_t form = next_form(c);
    if (r->profile || !p->exec)
        return false;
    switch (c->state) {
    case ENGINE_OPEN:
        if (c->columns == 0)
            return true; /* the caller checks the recipe */
        return is_wanted(r, c) && may_begin(engine, c, q->recipe);
    case ENGINE_COMPILING:
        return p->ops->is_ready(p->exec, formed(q->recipe, c->record.form)) &&
               (c->record.persistent_ns || engine->wanted == DGL_EXECUTOR_PERSISTENT ||
                has_room(q));
    case ENGINE_PERSISTENT:
        return form < PHASE_FORMS && has_time(r) && has_room(q) &&
               (!c->rival_begun || p->ops->is_ready(p->exec, formed(q->recipe, form)));
    default:
        return false;
    }
}

/* ---- trial ----------------------------------------------------------------------------------- */

/* Runs the next steps. Sets *ns to the time of one step, and `ids` to the tokens. */
static enum dgl_status time_steps(const struct steps *q, struct exec_run *run, int32_t steps,
                                  int32_t *ids, uint64_t *ns)
{
    struct runner *r = q->runner;
    enum dgl_status status;
    TRY(q->write(q->priv, true));
    TRY(runner_write_args(r, run));
    TRY(gl_finish(r->dev->gl));
    const uint64_t start = dgl_now_ns();
    exec_run_move(run, r->memory);
    TRY(exec_run_submit(run, (uint32_t)steps, NULL));
    TRY(gl_finish(r->dev->gl));
    *ns = (dgl_now_ns() - start) / (uint64_t)steps;
    TRY(q->read(q->priv, steps, ids));
done:
    return status;
}

/* Allows the program to run again: resets the counters of its work groups to 0, as between
 * dispatches. */
static enum dgl_status clear_abort(struct runner *r, struct recipe recipe)
{
    const struct gl_range arrived = r->memory->state[BUF_ARRIVED];
    struct exec_run *run = exec_cache_find(&r->runs->persistent, recipe);
    enum dgl_status status = run ? (*r->engine)->persistent.ops->clear(run) : DGL_OK;
    if (status == DGL_OK && arrived.size)
        status = gl_buffer_zero(r->dev->gl, arrived.buffer, arrived.offset, arrived.size);
    return status;
}

/* Times both executors in turn on the next tokens. Tries several numbers of work groups for the
 * persistent one and keeps the fastest. */
static enum dgl_status try_both(const struct steps *q, struct exec_run *dispatch,
                                struct exec_run *persistent, uint32_t resident,
                                struct engine_choice *c)
{
    struct runner *r = q->runner;
    const struct persistent_ops *ops = (*r->engine)->persistent.ops;
    const bool forced = (*r->engine)->wanted == DGL_EXECUTOR_PERSISTENT;
    const uint32_t units = r->dev->plan.compute_units;
    const uint32_t step = resident % units == 0 ? units : resident, form = c->record.form;
    const int32_t steps = trial_steps(q), count = q->rows * steps;
    const int numbers = q->rows > 1 ? ROWS_GROUPS : TRIAL_GROUPS;
    int32_t want[TRIAL_IDS] = {0}, ids[TRIAL_IDS] = {0};
    uint64_t ns;
    bool aborted = false, same = true;
    c->record = (struct exec_record){.form = form, .tried = 1u << form};
    enum dgl_status status;
    const uint64_t start = dgl_now_ns();
    assert(count <= TRIAL_IDS);
    do
        status = time_steps(q, dispatch, steps, want, &ns);
    while (status == DGL_OK && (q->rows == 1 || r->wait_executor) &&
           dgl_now_ns() - start < WARM_NS);
    for (int i = 0; i < TRIAL_ROUNDS * numbers && status == DGL_OK; i++) {
        const uint32_t less = (uint32_t)(i % numbers) * step;
        if (less >= resident)
            continue;
        if (less == 0)
            status = time_steps(q, dispatch, steps, want, &ns);
        if (status == DGL_OK && less == 0 && (i == 0 || ns < c->record.dispatch_ns))
            c->record.dispatch_ns = ns;
        ops->set_groups(persistent, resident - less);
        if (status == DGL_OK)
            status = time_steps(q, persistent, steps, ids, &ns);
        aborted = executor_is_aborted(ids, count);
        same = memcmp(ids, want, sizeof(ids)) == 0;
        if (status != DGL_OK || aborted || !same)
            break;
        if (c->record.persistent_ns == 0 || ns < c->record.persistent_ns) {
            c->record.persistent_ns = ns;
            c->record.groups = resident - less;
        }
    }
    TRY(status);
    TRY(q->write(q->priv, false));
    TRY(runner_write_args(r, dispatch));
    if (aborted) {
        remember(r, c, EXEC_ABORTED);
        decide(r, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up in a trial");
        TRY(clear_abort(r, formed(q->recipe, form)));
        goto done;
    }
    if (!same) {
        remember(r, c, EXEC_UNFIT);
        decide(r, c, ENGINE_DISPATCH,
               "the tokens of a trial were not the same as by single dispatches");
        goto done;
    }
    c->record.form_ns[form] = c->record.persistent_ns;
    bool faster = c->record.persistent_ns < c->record.dispatch_ns;
    remember(r, c, faster ? EXEC_FASTER : EXEC_SLOWER);
    put_times(r, c);
    decide(r, c, faster || forced ? ENGINE_PERSISTENT : ENGINE_DISPATCH, c->reason);
done:
    return status;
}

/* Times the program in the next form against the current one, in turn on the next tokens. An unfit
 * form does not exclude the other form. */
static enum dgl_status try_form(const struct steps *q, struct engine_choice *c)
{
    struct runner *r = q->runner;
    const struct persistent *p = &(*r->engine)->persistent;
    struct exec_record *record = &c->record;
    const uint32_t forms[2] = {record->form, next_form(c)};
    struct exec_run *run[2] = {NULL, NULL};
    struct residency found = {0};
    int32_t ids[2][TRIAL_STEPS];
    uint64_t best[2] = {0}, ns;
    int aborted = -1;
    c->rival_begun = false;
    record->tried |= 1u << forms[1];
    enum dgl_status status = q->reserve(q->priv, TRIAL_STEPS);
    for (int i = 0; i < 2 && status == DGL_OK; i++)
        status = exec_cache_get(&r->runs->persistent, p->exec, formed(q->recipe, forms[i]),
                                r->memory, &run[i]);
    if (status == DGL_OK) {
        exec_run_move(run[1], r->memory);
        status = p->ops->probe(run[1], &found);
    }
    const uint32_t groups = found.groups < record->groups ? found.groups : record->groups;
    bool fit = status == DGL_OK && groups > 0;
    if (status == DGL_ERR_KERNEL)
        status = DGL_OK; /* the driver refuses the program */
    const uint64_t start = dgl_now_ns();
    while (fit && status == DGL_OK && r->wait_executor && aborted < 0 &&
           dgl_now_ns() - start < WARM_NS) {
        status = time_steps(q, run[0], TRIAL_STEPS, ids[0], &ns);
        aborted = executor_is_aborted(ids[0], TRIAL_STEPS) ? 0 : -1;
    }
    for (int i = 0; i < 2 * FORM_ROUNDS && fit && status == DGL_OK && aborted < 0; i++) {
        p->ops->set_groups(run[i % 2], i % 2 ? groups : record->groups);
        status = time_steps(q, run[i % 2], TRIAL_STEPS, ids[i % 2], &ns);
        aborted = executor_is_aborted(ids[i % 2], TRIAL_STEPS) ? i % 2 : -1;
        fit = i == 0 || memcmp(ids[0], ids[1], sizeof(ids[0])) == 0;
        best[i % 2] = best[i % 2] && best[i % 2] < ns ? best[i % 2] : ns;
    }
    TRY(status);
    TRY(q->write(q->priv, false));
    if (aborted >= 0)
        TRY(clear_abort(r, formed(q->recipe, forms[aborted])));
    if (aborted == 0) {
        remember(r, c, EXEC_ABORTED);
        decide(r, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up in a trial");
        goto done;
    }
    if (fit && aborted < 0) {
        record->form_ns[forms[0]] = record->persistent_ns = best[0];
        record->form_ns[forms[1]] = best[1];
    }
    if (fit && aborted < 0 && best[1] < best[0]) {
        record->form = forms[1];
        record->groups = groups;
        record->persistent_ns = best[1];
    }
    remember(r, c, record->persistent_ns < record->dispatch_ns ? EXEC_FASTER : EXEC_SLOWER);
    put_times(r, c);
    decide(r, c, ENGINE_PERSISTENT, c->reason);
done:
    return status;
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* Tries the other forms of the current program that are compiled. They are compiled one after the
 * other, or all at once if the runner is idle. */
static enum dgl_status try_forms(const struct steps *q, struct engine_choice *c)
{
    struct runner *r = q->runner;
    const struct persistent *p = &(*r->engine)->persistent;
    enum dgl_status status = DGL_OK;
    uint32_t form;
    while ((form = next_form(c)) < PHASE_FORMS && has_time(r) && has_room(q)) {
        for (uint32_t f = form; f < PHASE_FORMS && !c->rival_begun; f++)
            if (f == form || (r->wait_executor && !(c->record.tried >> f & 1u)))
                TRY(p->ops->begin(p->exec, formed(q->recipe, f), r->memory, true));
        c->rival_begun = true;
        if (!r->wait_executor && !p->ops->is_ready(p->exec, formed(q->recipe, form)))
            break;
        TRY(try_form(q, c));
    }
done:
    return status;
}

/* Returns the run of the program, for the rows of the query. */
static enum dgl_status persistent_run(const struct steps *q, struct recipe recipe,
                                      struct exec_run **run)
{
    struct runner *r = q->runner;
    enum dgl_status status;
    TRY(exec_cache_get(&r->runs->persistent, (*r->engine)->persistent.exec, recipe, r->memory,
                       run));
    exec_run_move(*run, r->memory);
    TRY(exec_run_set_tokens(*run, q->rows));
done:
    return status;
}

/* Decides if the compiled program may run and is faster. */
static enum dgl_status judge(const struct steps *q, struct exec_run *dispatch,
                             struct engine_choice *c)
{
    struct runner *r = q->runner;
    const bool forced = (*r->engine)->wanted == DGL_EXECUTOR_PERSISTENT;
    const struct recipe recipe = formed(q->recipe, c->record.form);
    struct exec_run *run;
    struct residency found;
    enum dgl_status status = persistent_run(q, recipe, &run);
    if (status == DGL_ERR_KERNEL) {
        remember(r, c, EXEC_UNFIT);
        decide(r, c, ENGINE_DISPATCH, "the driver does not take the program");
        return DGL_OK;
    }
    TRY(status);
    TRY((*r->engine)->persistent.ops->probe(run, &found));
    /* A record with more work groups was measured on a larger slice of the device. */
    const bool known = c->record.persistent_ns > 0 && c->record.groups <= found.groups;
    if (found.groups == 0) {
        remember(r, c, EXEC_UNFIT);
        decide(r, c, ENGINE_DISPATCH, found.reason);
    } else if (!known && has_room(q)) {
        TRY(try_both(q, dispatch, run, found.groups, c));
    } else if (known) {
        put_times(r, c);
        decide(r, c, ENGINE_PERSISTENT, c->reason);
    } else if (forced) { /* otherwise a later call tries it */
        c->record = (struct exec_record){.groups = found.groups, .form = recipe.form};
        decide(r, c, ENGINE_PERSISTENT, "asked for");
    }
done:
    return status;
}

static enum dgl_status use_of(const struct steps *q, const struct engine_choice *c,
                              struct exec_run **run, int32_t *max_steps)
{
    struct runner *r = q->runner;
    struct engine *engine = *r->engine;
    enum dgl_status status = DGL_OK;
    engine->last = c;
    if (!engine->decoded_ns)
        engine->decoded_ns = dgl_now_ns();
    *max_steps = DGL_READBACK_INTERVAL_MAX;
    *run = NULL;
    if (c->state != ENGINE_PERSISTENT)
        return DGL_OK;
    TRY(persistent_run(q, formed(q->recipe, c->record.form), run));
    /* If runs are shared, another lane may have queued steps of a slower form. */
    for (uint32_t form = 0; form < PHASE_FORMS && r->runs == &r->own; form++)
        if (form != c->record.form)
            exec_cache_drop(&r->runs->persistent, formed(q->recipe, form));
    engine->persistent.ops->set_groups(*run, c->record.groups);
    *max_steps = pace_steps(c->record.persistent_ns, PACE_BUDGET_NS, DGL_READBACK_INTERVAL_MAX);
done:
    return status;
}

enum dgl_status executor_choose(const struct steps *q, struct exec_run **run, int32_t *max_steps)
{
    struct runner *r = q->runner;
    struct engine *engine = *r->engine;
    struct engine_choice *c = engine_choice(engine, q->recipe);
    struct dgl_device *dev = r->dev;
    enum dgl_status status = DGL_OK;
    *max_steps = DGL_READBACK_INTERVAL_MAX;
    *run = NULL;
    if (r->profile) /* times operations, each a dispatch */
        return DGL_OK;
    TRY(executor_prepare(r, q->recipe));
    if (r->wait_executor || executor_is_due(q)) {
        struct exec_run *dispatch = NULL;
        const bool first = c->state == ENGINE_COMPILING;
        account_push(dev, ACCOUNT_TRIAL);
        if (first && has_room(q))
            status = q->reserve(q->priv, trial_steps(q));
        if (first && status == DGL_OK)
            status = runner_run(r, q->recipe, &dispatch);
        if (first && status == DGL_OK)
            status = exec_run_set_tokens(dispatch, q->rows);
        if (first && status == DGL_OK)
            status = judge(q, dispatch, c);
        if (status == DGL_OK)
            status = try_forms(q, c);
        account_pop(dev);
    }
    TRY(status);
    if (engine->wanted == DGL_EXECUTOR_PERSISTENT && q->rows == 1 && c->state == ENGINE_DISPATCH)
        return dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                        "decoding by persistent dispatches was asked for, but cannot be: %s",
                        c->reason);
    TRY(use_of(q, c, run, max_steps));
done:
    return status;
}

enum dgl_status executor_use(const struct steps *q, struct exec_run **run, int32_t *max_steps)
{
    return use_of(q, engine_choice(*q->runner->engine, q->recipe), run, max_steps);
}

/* Cost of a pass over several columns, in single-dispatch steps. On one NVIDIA H200 (driver 580),
 * llama-3.2-1b:q4_k, a step took 816 us and a pass over 2 tokens 1,410 us. Steps of 4 and 8
 * sequences took 1,343 and 1,795 us; their head has more rows than a pass over a prompt
 * (docs/perf-log.md, "Prefill and small batches"). Wider bodies are assumed to cost at least the
 * last value. */
static const struct {
    int32_t columns;
    double steps;
} pass_costs[] = {{1, 1.0}, {2, 1.7}, {4, 1.65}, {8, 2.2}};
#define PASS_COSTS (sizeof(pass_costs) / sizeof(pass_costs[0]))

struct exec_run *executor_reader(struct runner *r, struct recipe recipe, int32_t tokens)
{
    struct engine *engine = *r->engine;
    const struct engine_choice *c = engine_choice(engine, recipe);
    const struct exec_record *record = &c->record;
    if (r->profile || c->state != ENGINE_PERSISTENT || record->persistent_ns == 0 || tokens < 1 ||
        tokens > pass_costs[PASS_COSTS - 1].columns)
        return NULL;
    const int32_t columns = plan_body_columns(plan_body(&engine->plan, tokens));
    size_t i = 0;
    while (i + 1 < PASS_COSTS && pass_costs[i].columns < columns)
        i++;
    if ((double)tokens * (double)record->persistent_ns >=
        pass_costs[i].steps * (double)record->dispatch_ns)
        return NULL;
    struct exec_run *run = exec_cache_find(&r->runs->persistent, formed(recipe, record->form));
    if (run) {
        exec_run_move(run, r->memory);
        engine->persistent.ops->set_groups(run, record->groups);
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

enum dgl_status executor_reset(const struct steps *q)
{
    struct runner *r = q->runner;
    const struct engine_choice *c = engine_choice(*r->engine, q->recipe);
    enum dgl_status status;
    TRY(gl_finish(r->dev->gl));
    TRY(q->write(q->priv, false));
    TRY(clear_abort(r, formed(q->recipe, c->record.form)));
done:
    return status;
}

enum dgl_status executor_recover(const struct steps *q)
{
    struct runner *r = q->runner;
    struct engine_choice *c = engine_choice(*r->engine, q->recipe);
    dgl_warn(r->dev->log,
             "%s: a persistent dispatch was given up: a work group waited for the others too long; "
             "its tokens are computed again by single dispatches",
             r->dev->info.renderer);
    remember(r, c, EXEC_ABORTED);
    decide(r, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up in this process");
    return executor_reset(q);
}
