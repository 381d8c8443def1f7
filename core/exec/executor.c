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

/* A trial times TRIAL_STEPS tokens of each candidate in turn. The best of several rounds counts.
 * Before that, the GPU runs long enough to raise its clocks again, because it was idle while the
 * compiler worked. (Without this, one NVIDIA H200 took 3,256 us for tokens of 842 us.) */
#define TRIAL_STEPS  16
#define TRIAL_ROUNDS 3
#define WARM_NS      200000000ull
/* A trial with several sequences delays all of them, so it has fewer steps and tries fewer numbers
 * of work groups. Its steps compute as many tokens in total. With steps of 10 ms it takes 0.7 s. */
#define ROWS_STEPS  8
#define ROWS_GROUPS 2
/* Numbers of work groups to try: all that are resident, and smaller numbers per unit. */
#define TRIAL_GROUPS 4
/* If decoding has lasted this long, it is expected to last longer than the compiler needs. */
#define LIKELY_NS 1000000000ull
/* An abort is remembered for a day: other users of the GPU may have caused it. */
#define ABORT_SECONDS 86400

#define TRIAL_IDS (ROWS_STEPS * PLAN_PHASE_ROWS)
_Static_assert(TRIAL_IDS >= TRIAL_STEPS, "of one sequence, too");

/* Returns the choice for the recipe. It is open again if the KV cache has grown into other buffers:
 * the program in use cannot bind them, and the next one is compiled while dispatches decode. An
 * abort is not forgotten, because it has other causes. */
static struct engine_choice *choice_now(const struct runner *r, struct recipe recipe)
{
    struct engine_choice *c = engine_choice(*r->engine, recipe);
    const uint64_t division = kv_cache_division(r->memory->kv);
    if (c->columns && c->division != division && c->record.verdict != EXEC_ABORTED)
        *c = (struct engine_choice){0};
    c->division = division;
    return c;
}

/* Sets the reason: `reason`, or if it is NULL, the times of the record. Appends why a token needs
 * several persistent dispatches, if they are used or expected. */
static void put_reason(const struct runner *r, struct engine_choice *c, const char *reason)
{
    const struct exec_record *record = &c->record;
    const size_t size = sizeof(c->reason);
    char what[64] = "token";
    if (c->columns > 1)
        snprintf(what, sizeof(what), "step of up to %d sequences", c->columns);
    if (reason)
        snprintf(c->reason, size, "%s", reason);
    else
        snprintf(c->reason, size,
                 "%sa trial took %.0f us per %s by persistent dispatches of %u work groups, %.0f "
                 "us by single ones",
                 (*r->engine)->wanted == DGL_EXECUTOR_PERSISTENT ? "asked for; " : "",
                 (double)record->persistent_ns * 1e-3, what, record->groups,
                 (double)record->dispatch_ns * 1e-3);
    const size_t len = strlen(c->reason);
    if (c->parts[0] && (c->state == ENGINE_PERSISTENT || c->state == ENGINE_OPEN))
        snprintf(c->reason + len, size - len, "; %s", c->parts);
}

static void decide(struct runner *r, struct engine_choice *c, enum engine_state state,
                   const char *reason)
{
    c->state = state;
    put_reason(r, c, reason);
    if (state == ENGINE_DISPATCH || state == ENGINE_PERSISTENT)
        dgl_info(r->dev->log, "decoding by %s dispatches: %s",
                 state == ENGINE_PERSISTENT ? "persistent" : "single", c->reason);
}

/* Decides, and stores the record with that verdict for later processes. */
static void conclude(struct runner *r, struct engine_choice *c, enum exec_verdict verdict,
                     enum engine_state state, const char *reason)
{
    c->record.verdict = verdict;
    c->record.time = (uint64_t)time(NULL);
    if (c->key[0])
        exec_record_store(gl_program_cache_dir(r->dev->gl), c->key,
                          gl_program_cache_device(r->dev->gl), &c->record);
    decide(r, c, state, reason);
}

enum dgl_status executor_look(struct runner *r, struct recipe recipe)
{
    struct engine *engine = *r->engine;
    struct engine_choice *c = choice_now(r, recipe);
    struct exec_record *record = &c->record;
    const struct persistent *p = &engine->persistent;
    const bool forced = engine->wanted == DGL_EXECUTOR_PERSISTENT;
    /* If it is NULL, the record has the times. */
    static const char *const reasons[EXEC_VERDICTS] = {
        "persistent dispatches have not been tried yet",
        [EXEC_UNFIT] = "a persistent dispatch failed its tests on this device",
        [EXEC_ABORTED] = "a persistent dispatch had to be given up here"};
    char reason[PERSISTENT_REASON] = "";
    enum dgl_status status = DGL_ERR_UNSUPPORTED;
    if (c->state != ENGINE_OPEN)
        return DGL_OK;
    c->columns = plan_step_rows(recipe);
    const uint64_t token_ns = pace_token_ns(r->pace, &engine->plan);
    if (!p->exec)
        snprintf(reason, sizeof(reason), "%s", engine->no_persistent);
    else if (!forced && engine->plan.device->dispatch_bytes > 0 && token_ns > PACE_BUDGET_NS)
        snprintf(reason, sizeof(reason),
                 "a token takes about %llu ms here; one dispatch must end within %llu ms",
                 (unsigned long long)(token_ns / 1000000), PACE_BUDGET_NS / 1000000);
    else
        status = p->ops->check(p->exec, recipe, r->memory, reason, c->key);
    if (status == DGL_ERR_UNSUPPORTED) {
        decide(r, c, ENGINE_DISPATCH, reason);
        return DGL_OK;
    }
    if (status != DGL_OK)
        return status;
    snprintf(c->parts, sizeof(c->parts), "%s", reason);
    if (c->key[0] && !record->verdict)
        exec_record_load(gl_program_cache_dir(r->dev->gl), c->key, record);
    const uint64_t now = (uint64_t)time(NULL);
    if (record->verdict == EXEC_ABORTED && !forced && record->persistent_ns > 0 &&
        record->persistent_ns < record->dispatch_ns &&
        (now < record->time || now - record->time > ABORT_SECONDS))
        record->verdict = EXEC_FASTER;
    c->expected = forced || record->verdict == EXEC_FASTER;
    if (c->expected || !record->verdict)
        put_reason(r, c, forced ? "asked for" : reasons[record->verdict]);
    else
        decide(r, c, ENGINE_DISPATCH, reasons[record->verdict]);
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

/* Returns true if the compiler should begin with the program, and may. Per width, one program of
 * several sequences is pending at a time. A finished but unused program is replaced. */
static bool may_begin(const struct runner *r, struct engine_choice *c, struct recipe recipe)
{
    struct engine *engine = *r->engine;
    const struct persistent *p = &engine->persistent;
    const size_t first = (size_t)(c - engine->choice) / ENGINE_KINDS * ENGINE_KINDS;
    bool may = c->expected || (c->record.verdict == 0 && has_time(r));
    for (size_t i = first; i < first + ENGINE_KINDS && c->columns > 1 && may; i++) {
        struct engine_choice *other = &engine->choice[i];
        if (other == c || other->state != ENGINE_COMPILING)
            continue;
        may = p->ops->is_ready(p->exec, recipe);
        if (may)
            other->state = ENGINE_OPEN;
    }
    return may;
}

enum dgl_status executor_prepare(struct runner *r, struct recipe recipe)
{
    const struct persistent *p = &(*r->engine)->persistent;
    struct engine_choice *c = engine_choice(*r->engine, recipe);
    enum dgl_status status = executor_look(r, recipe);
    if (status != DGL_OK || c->state != ENGINE_OPEN || !may_begin(r, c, recipe))
        return status;
    status = p->ops->begin(p->exec, recipe, r->memory);
    if (status == DGL_OK)
        decide(r, c, ENGINE_COMPILING, "the program of a persistent dispatch is being compiled");
    return status;
}

static int32_t trial_steps(const struct steps *q)
{
    return q->rows > 1 ? ROWS_STEPS : TRIAL_STEPS;
}

bool executor_is_due(const struct steps *q)
{
    struct runner *r = q->runner;
    struct engine *engine = *r->engine;
    const struct persistent *p = &engine->persistent;
    struct engine_choice *c = choice_now(r, q->recipe);
    if (r->profile || !p->exec)
        return false;
    switch (c->state) {
    case ENGINE_OPEN:
        return c->columns == 0 /* not checked yet */ || may_begin(r, c, q->recipe);
    case ENGINE_COMPILING:
        return p->ops->is_ready(p->exec, q->recipe) &&
               (c->record.persistent_ns || engine->wanted == DGL_EXECUTOR_PERSISTENT ||
                q->has_room(q->priv, trial_steps(q)));
    default:
        return false;
    }
}

/* ---- trial ----------------------------------------------------------------------------------- */

/* A way to compute the steps. */
struct way {
    struct exec_run *run;
    uint32_t groups; /* of the persistent program; 0 for single dispatches */
    uint64_t ns;     /* best time of a step, or 0 */
};

struct trial {
    /* [count]; ways[0] uses single dispatches, and its tokens are right */
    struct way ways[1 + TRIAL_GROUPS];
    int count;
    int failed;   /* way with other tokens, or -1 */
    bool aborted; /* ...because it was given up */
};

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

/* Times the ways in turn on the next tokens, until one has other tokens than ways[0]. Restores the
 * state of the steps. */
static enum dgl_status time_ways(const struct steps *q, struct trial *t)
{
    struct runner *r = q->runner;
    const bool warm = r->wait_executor || q->rows == 1;
    const int32_t steps = trial_steps(q), count = q->rows * steps;
    const uint64_t begun = dgl_now_ns();
    int32_t ids[2][TRIAL_IDS];
    enum dgl_status status;
    assert(count <= TRIAL_IDS);
    t->failed = -1;
    t->aborted = false;
    for (int n = -1; n < TRIAL_ROUNDS * t->count && t->failed < 0;) { /* -1: warming up */
        const int i = n < 0 ? 0 : n % t->count;
        struct way *way = &t->ways[i];
        int32_t *now = ids[i > 0];
        if (way->groups)
            (*r->engine)->persistent.ops->set_groups(way->run, way->groups);
        TRY(q->write(q->priv, true));
        TRY(runner_write_args(r, way->run));
        TRY(gl_finish(r->dev->gl));
        const uint64_t start = dgl_now_ns();
        exec_run_move(way->run, r->memory);
        TRY(exec_run_submit(way->run, (uint32_t)steps, NULL));
        TRY(gl_finish(r->dev->gl));
        const uint64_t ns = (dgl_now_ns() - start) / (uint64_t)steps;
        TRY(q->read(q->priv, steps, now));
        t->aborted = executor_is_aborted(now, count);
        if (t->aborted || memcmp(ids[0], now, (size_t)count * sizeof(*now)) != 0)
            t->failed = i;
        else if (n >= 0 && (way->ns == 0 || ns < way->ns))
            way->ns = ns;
        n += n >= 0 || !warm || dgl_now_ns() - begun >= WARM_NS;
    }
    TRY(q->write(q->priv, false));
    TRY(runner_write_args(r, t->ways[0].run));
    if (t->aborted)
        TRY(clear_abort(r, q->recipe));
done:
    return status;
}

/* Returns the run of the program, for the rows of the steps. */
static enum dgl_status persistent_run(const struct steps *q, struct exec_run **run)
{
    struct runner *r = q->runner;
    enum dgl_status status;
    TRY(exec_cache_get(&r->runs->persistent, (*r->engine)->persistent.exec, q->recipe, r->memory,
                       run));
    exec_run_move(*run, r->memory);
    TRY(exec_run_set_tokens(*run, q->rows));
done:
    return status;
}

/* Tries the compiled program in several numbers of work groups against dispatches, unless a record
 * has the result. */
static enum dgl_status try_program(const struct steps *q, struct engine_choice *c)
{
    struct runner *r = q->runner;
    const bool forced = (*r->engine)->wanted == DGL_EXECUTOR_PERSISTENT;
    const bool room = q->has_room(q->priv, trial_steps(q));
    struct exec_record *record = &c->record;
    struct trial t = {.count = 1, .failed = -1};
    struct residency found = {0};
    struct exec_run *run = NULL;
    enum dgl_status status = DGL_OK;
    if (room)
        TRY(q->reserve(q->priv, trial_steps(q))); /* this may drop runs */
    TRY(runner_run(r, q->recipe, &t.ways[0].run));
    TRY(exec_run_set_tokens(t.ways[0].run, q->rows));
    status = persistent_run(q, &run);
    if (status == DGL_OK)
        status = (*r->engine)->persistent.ops->probe(run, &found);
    if (status == DGL_ERR_KERNEL)
        snprintf(found.reason, sizeof(found.reason), "the driver does not take the program");
    else
        TRY(status);
    status = DGL_OK;
    if (found.groups == 0) {
        conclude(r, c, EXEC_UNFIT, ENGINE_DISPATCH, found.reason);
        goto done;
    }
    /* A record with more work groups was measured on a larger slice of the device. */
    if (record->persistent_ns > 0 && record->groups <= found.groups) {
        decide(r, c, ENGINE_PERSISTENT, NULL);
        goto done;
    }
    if (!room) { /* a later call tries it */
        if (forced) {
            *record = (struct exec_record){.groups = found.groups};
            decide(r, c, ENGINE_PERSISTENT, "asked for");
        }
        goto done;
    }
    const uint32_t units = r->dev->plan.compute_units;
    const uint32_t less = found.groups % units == 0 ? units : found.groups;
    const uint32_t numbers = q->rows > 1 ? ROWS_GROUPS : TRIAL_GROUPS;
    for (uint32_t i = 0; i < numbers && i * less < found.groups; i++)
        t.ways[t.count++] = (struct way){run, found.groups - i * less, 0};
    TRY(time_ways(q, &t));
    *record = (struct exec_record){.dispatch_ns = t.ways[0].ns};
    for (int i = 1; i < t.count; i++) {
        const struct way *way = &t.ways[i];
        if (way->ns > 0 && (record->persistent_ns == 0 || way->ns < record->persistent_ns)) {
            record->groups = way->groups;
            record->persistent_ns = way->ns;
        }
    }
    if (t.aborted) {
        conclude(r, c, EXEC_ABORTED, ENGINE_DISPATCH,
                 "a persistent dispatch had to be given up in a trial");
        goto done;
    }
    if (t.failed >= 0) {
        record->groups = 0; /* a later process must not use what other ways measured */
        record->persistent_ns = 0;
        conclude(r, c, EXEC_UNFIT, ENGINE_DISPATCH,
                 "the tokens of a trial were not the same as by single dispatches");
        goto done;
    }
    const bool faster = record->persistent_ns < record->dispatch_ns;
    conclude(r, c, faster ? EXEC_FASTER : EXEC_SLOWER,
             faster || forced ? ENGINE_PERSISTENT : ENGINE_DISPATCH, NULL);
done:
    return status;
}

/* ---- choice ---------------------------------------------------------------------------------- */

enum dgl_status executor_choose(const struct steps *q, bool decides, struct exec_run **run,
                                int32_t *max_steps)
{
    struct runner *r = q->runner;
    struct engine *engine = *r->engine;
    struct engine_choice *c = choice_now(r, q->recipe);
    enum dgl_status status = DGL_OK;
    *max_steps = DGL_READBACK_INTERVAL_MAX;
    *run = NULL;
    engine->last = c;
    if (!engine->decoded_ns)
        engine->decoded_ns = dgl_now_ns();
    if (r->profile) /* times operations, each a dispatch */
        return DGL_OK;
    if (decides) {
        TRY(executor_prepare(r, q->recipe));
        if (c->state == ENGINE_COMPILING && (r->wait_executor || executor_is_due(q))) {
            account_push(r->dev, ACCOUNT_TRIAL);
            status = try_program(q, c);
            account_pop(r->dev);
        }
        TRY(status);
        if (engine->wanted == DGL_EXECUTOR_PERSISTENT && q->rows == 1 &&
            c->state == ENGINE_DISPATCH)
            return dgl_fail(r->dev->log, DGL_ERR_UNSUPPORTED,
                            "decoding by persistent dispatches was asked for, but cannot be: %s",
                            c->reason);
    }
    if (c->state != ENGINE_PERSISTENT)
        return DGL_OK;
    TRY(persistent_run(q, run));
    engine->persistent.ops->set_groups(*run, c->record.groups);
    *max_steps = pace_steps(c->record.persistent_ns, PACE_BUDGET_NS, DGL_READBACK_INTERVAL_MAX);
done:
    return status;
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
    const int32_t columns = 1 << plan_pass_shape(&engine->plan, tokens).rows_log2;
    size_t i = 0;
    while (i + 1 < PASS_COSTS && pass_costs[i].columns < columns)
        i++;
    if ((double)tokens * (double)record->persistent_ns >=
        pass_costs[i].steps * (double)record->dispatch_ns)
        return NULL;
    struct exec_run *run = exec_cache_find(&r->runs->persistent, recipe);
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

enum dgl_status executor_recover(const struct steps *q, bool given_up)
{
    struct runner *r = q->runner;
    struct engine_choice *c = engine_choice(*r->engine, q->recipe);
    enum dgl_status status;
    if (given_up) {
        dgl_warn(r->dev->log,
                 "%s: a persistent dispatch was given up: a work group waited for the others too "
                 "long; its tokens are computed again by single dispatches",
                 r->dev->info.renderer);
        conclude(r, c, EXEC_ABORTED, ENGINE_DISPATCH,
                 "a persistent dispatch had to be given up in this process");
    }
    TRY(gl_finish(r->dev->gl));
    TRY(q->write(q->priv, false));
    TRY(clear_abort(r, q->recipe));
done:
    return status;
}
