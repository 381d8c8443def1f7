/* The choice between executors: known facts, records on disk, a trial; and the way back. */
#include "core/seq/executor.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "kernels/phase_control.h"

/* A trial: so many tokens by either executor in turn, of which the best of some rounds counts,
 * after as much work as it takes a GPU that waited for the compiler to raise its clocks. (Without
 * that one NVIDIA H200 took 3,256 us for tokens of 842 us.) */
#define TRIAL_STEPS  16
#define TRIAL_ROUNDS 3
#define WARM_NS      200000000ull
/* Numbers of work groups that are tried: all that are resident, and fewer per unit. */
#define TRIAL_GROUPS 4
/* One dispatch takes about this long, so that it can be cancelled between two. */
#define DISPATCH_NS 100000000ull
/* Who has decoded for so long is expected to go on for longer than the compiler takes. */
#define LIKELY_NS 1000000000ull
/* A GPU whose time is shared today may be free tomorrow: an abort counts for a day. */
#define ABORT_SECONDS 86400

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
    snprintf(c->reason, sizeof(c->reason),
             "%sa trial took %.0f us per token by persistent dispatches of %u work groups, %.0f us "
             "by single ones",
             s->model->engine->wanted == DGL_EXECUTOR_PERSISTENT ? "asked for; " : "",
             (double)r->persistent_ns * 1e-3, r->groups, (double)r->dispatch_ns * 1e-3);
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
    if (!p->exec) {
        decide(s, c, ENGINE_DISPATCH, engine->no_persistent);
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
    if (engine->wanted == DGL_EXECUTOR_PERSISTENT)
        snprintf(c->reason, sizeof(c->reason), "asked for");
    else if (!decide_by_record(s, c) && c->record.verdict == EXEC_FASTER)
        put_times(s, c);
    if (c->state == ENGINE_OPEN && c->reason[0])
        add_parts(c);
    return DGL_OK;
}

/* Its program takes seconds to compile. Where nothing is known about it, those try it who wait for
 * the compiler anyway, and those whom it does not hold up and who have decoded for some time: who
 * has is likely to go on. */
static bool is_wanted(const struct dgl_session *s, const struct engine_choice *c)
{
    const struct engine *engine = s->model->engine;
    if (engine->wanted == DGL_EXECUTOR_PERSISTENT || c->record.verdict == EXEC_FASTER)
        return true;
    return c->record.verdict == 0 &&
           (s->wait_executor || (engine->persistent.aside && engine->decoded_ns &&
                                 dgl_now_ns() - engine->decoded_ns > LIKELY_NS));
}

enum dgl_status executor_prepare(struct dgl_session *s, struct recipe recipe)
{
    const struct persistent *p = &s->model->engine->persistent;
    struct engine_choice *c = engine_choice(s->model->engine, recipe);
    enum dgl_status status = executor_look(s, recipe);
    if (status != DGL_OK || c->state != ENGINE_OPEN || !is_wanted(s, c))
        return status;
    status = p->ops->begin(p->exec, recipe, &s->memory);
    if (status == DGL_OK)
        decide(s, c, ENGINE_COMPILING, "the program of a persistent dispatch is being compiled");
    return status;
}

static bool has_room(const struct dgl_session *s)
{
    return s->len + TRIAL_STEPS <= s->context && session_rope_holds(s, s->len + TRIAL_STEPS) &&
           session_may_reserve(s, s->len + TRIAL_STEPS);
}

bool executor_is_due(struct dgl_session *s, const struct executor_query *q)
{
    struct engine *engine = s->model->engine;
    const struct engine_choice *c = engine_choice(engine, q->recipe);
    if (s->profile || !engine->persistent.exec)
        return false;
    return c->state == ENGINE_COMPILING
               ? engine->persistent.ops->is_ready(engine->persistent.exec, q->recipe)
               : c->state == ENGINE_OPEN && is_wanted(s, c);
}

/* ---- trial ----------------------------------------------------------------------------------- */

/* The next steps, timed, with the ids that they give. */
static enum dgl_status time_steps(struct dgl_session *s, const struct executor_query *q,
                                  struct exec_run *run, int32_t steps, int32_t *ids, uint64_t *ns)
{
    struct dgl_step step = q->step;
    step.ignore_eos = 1;
    enum dgl_status status = session_write_step(s, &step, 0);
    if (status == DGL_OK)
        status = session_write_args(s, run);
    if (status == DGL_OK)
        status = gl_finish(s->model->dev->gl);
    uint64_t start = dgl_now_ns();
    if (status == DGL_OK)
        status = exec_run_submit(run, (uint32_t)steps, NULL);
    if (status == DGL_OK)
        status = session_read_ids(s, s->len + 1, steps, ids);
    *ns = (dgl_now_ns() - start) / (uint64_t)steps;
    return status;
}

/* The program may run again, and what work groups count is 0, as between dispatches. */
static enum dgl_status clear_abort(struct dgl_session *s, const struct executor_query *q)
{
    const struct gl_range arrived = s->memory.state[BUF_ARRIVED];
    struct exec_run *run = exec_cache_find(&s->persistent, q->recipe);
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
    const uint32_t step = resident % units == 0 ? units : resident;
    int32_t want[TRIAL_STEPS] = {0}, ids[TRIAL_STEPS];
    uint64_t ns;
    bool aborted = false, same = true;
    c->record = (struct exec_record){0};
    enum dgl_status status;
    const uint64_t start = dgl_now_ns();
    do
        status = time_steps(s, q, dispatch, TRIAL_STEPS, want, &ns);
    while (status == DGL_OK && dgl_now_ns() - start < WARM_NS);
    for (int i = 0; i < TRIAL_ROUNDS * TRIAL_GROUPS && status == DGL_OK; i++) {
        const uint32_t less = (uint32_t)(i % TRIAL_GROUPS) * step;
        if (less >= resident)
            continue;
        if (less == 0)
            status = time_steps(s, q, dispatch, TRIAL_STEPS, want, &ns);
        if (status == DGL_OK && less == 0 && (i == 0 || ns < c->record.dispatch_ns))
            c->record.dispatch_ns = ns;
        ops->set_groups(persistent, resident - less);
        if (status == DGL_OK)
            status = time_steps(s, q, persistent, TRIAL_STEPS, ids, &ns);
        aborted = executor_is_aborted(ids, TRIAL_STEPS);
        same = memcmp(ids, want, sizeof(ids)) == 0;
        if (status != DGL_OK || aborted || !same)
            break;
        if (c->record.persistent_ns == 0 || ns < c->record.persistent_ns) {
            c->record.persistent_ns = ns;
            c->record.groups = resident - less;
        }
    }
    if (status == DGL_OK)
        status = session_write_step(s, &q->step, 0);
    if (status == DGL_OK)
        status = session_write_args(s, dispatch);
    if (status != DGL_OK)
        return status;
    if (aborted) {
        remember(s, c, EXEC_ABORTED);
        decide(s, c, ENGINE_DISPATCH, "a persistent dispatch had to be given up in a trial");
        return clear_abort(s, q);
    }
    if (!same) {
        remember(s, c, EXEC_UNFIT);
        decide(s, c, ENGINE_DISPATCH,
               "the tokens of a trial were not the same as by single dispatches");
        return DGL_OK;
    }
    bool faster = c->record.persistent_ns < c->record.dispatch_ns;
    remember(s, c, faster ? EXEC_FASTER : EXEC_SLOWER);
    put_times(s, c);
    decide(s, c, faster || forced ? ENGINE_PERSISTENT : ENGINE_DISPATCH, c->reason);
    return DGL_OK;
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* The program is there: may it run, and is it worth it? */
static enum dgl_status judge(struct dgl_session *s, const struct executor_query *q,
                             struct exec_run *dispatch, struct engine_choice *c)
{
    const struct persistent *p = &s->model->engine->persistent;
    const bool forced = s->model->engine->wanted == DGL_EXECUTOR_PERSISTENT;
    struct exec_run *run;
    struct residency found;
    enum dgl_status status = exec_cache_get(&s->persistent, p->exec, q->recipe, &s->memory, &run);
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
    if (!known && has_room(s))
        return try_both(s, q, dispatch, run, found.groups, c);
    if (!known && !forced)
        return DGL_OK; /* another time */
    if (known)
        put_times(s, c);
    else
        c->record = (struct exec_record){.groups = found.groups};
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
    if (c->state != ENGINE_PERSISTENT)
        return session_run(s, q->recipe, run);
    enum dgl_status status =
        exec_cache_get(&s->persistent, engine->persistent.exec, q->recipe, &s->memory, run);
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
    if (s->profile) { /* times operations, each a dispatch */
        *max_steps = DGL_READBACK_INTERVAL_MAX;
        return session_run(s, q->recipe, run);
    }
    enum dgl_status status = executor_prepare(s, q->recipe);
    if (status == DGL_OK && c->state == ENGINE_COMPILING && (q->wait || executor_is_due(s, q))) {
        struct dgl_device *dev = s->model->dev;
        struct exec_run *dispatch = NULL;
        struct dgl_counters before = device_counters(dev), trial;
        uint64_t compile_ns = dev->compile_ns, start = dgl_now_ns();
        if (has_room(s))
            status = session_reserve(s, s->len + TRIAL_STEPS);
        if (status == DGL_OK)
            status = session_run(s, q->recipe, &dispatch);
        if (status == DGL_OK)
            status = judge(s, q, dispatch, c);
        dev->compile_ns = compile_ns + (dgl_now_ns() - start);
        trial = counters_since(dev, &before);
        counters_add(&s->trials, &trial);
    }
    if (status == DGL_OK && engine->wanted == DGL_EXECUTOR_PERSISTENT &&
        c->state == ENGINE_DISPATCH)
        return dgl_fail(s->model->dev->log, DGL_ERR_UNSUPPORTED,
                        "decoding by persistent dispatches was asked for, but cannot be: %s",
                        c->reason);
    return status == DGL_OK ? use_of(s, q, c, run, max_steps) : status;
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
    if (status == DGL_OK)
        status =
            gl_buffer_write(gl, ids.buffer, ids.offset + (uint64_t)s->len * 4, s->ids + s->len, 4);
    return status == DGL_OK ? session_write_step(s, &q->step, 0) : status;
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
    enum dgl_status status = executor_rewind(s, q);
    if (status == DGL_OK)
        status = clear_abort(s, q);
    if (status == DGL_OK)
        status = use_of(s, q, c, run, max_steps);
    return status == DGL_OK ? session_write_args(s, *run) : status;
}
