/* Tests programs before they are used, and replaces built-in kernels that compute wrongly. */
#include "core/model/trust.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/kernel_records.h"
#include "core/model/model.h"

/* An error up to this many times the tolerance (NMSE; four times in amplitude) is a driver's
 * rounding. Drivers that compute wrongly miss by orders of magnitude. */
#define IMPRECISE 16.0

/* Tests a use with the program that the engine has compiled. If `use` is NULL, tests a kernel of
 * the engine's set with programs of its own. Creates the judge on first use. */
static enum dgl_status judge_use(struct kernel_judge **judge, const struct engine *engine,
                                 const struct kernel_use *use, const char *kernel,
                                 const struct kernel_judge_params *params,
                                 struct kernel_verdict *out)
{
    enum dgl_status status = *judge ? DGL_OK : kernel_judge_create(params, judge);
    if (status == DGL_OK && use) {
        const struct kernel_subject subject = {.request = &use->request,
                                               .choice = &use->choice,
                                               .program = programs_get(&engine->programs, use)};
        status = kernel_judge_use(*judge, &subject, out);
    } else if (status == DGL_OK) {
        status = kernel_judge_kernel(*judge, kernel, out);
        kernel_judge_forget(*judge);
    }
    return status;
}

/* ---- built-in kernels ------------------------------------------------------------------------ */

bool trust_is_wrong(const struct kernel_verdict *verdict)
{
    return verdict->kind == KERNEL_WRONG && !(verdict->worst > 1 && verdict->worst <= IMPRECISE);
}

enum dgl_status trust_programs(struct shard *shard, struct shape_set shapes,
                               bool (*go_on)(void *priv), void *priv, bool *replanned)
{
    struct dgl_device *dev = shard->dev;
    struct engine *engine = shard->engine;
    struct kernel_judge *judge = NULL;
    *replanned = false;
    /* Some of the shapes have no body of their own, so the bodies that run are compared. */
    const struct body *bodies[SHAPES_MAX];
    const size_t num_bodies = plan_bodies(&engine->plan, &shapes, bodies);
    size_t num_judged = 0;
    for (size_t b = 0; b < num_bodies; b++)
        num_judged += shapes_have(&engine->judged, bodies[b]->shape);
    if (num_judged == num_bodies || !kernel_records_last(dev))
        return DGL_OK;
    const struct gl_memory memory = gl_device_memory(dev->gl);
    bool *seen = dgl_new_array(bool, engine->plan.kernels.count); /* by kernel_use.id */
    bool replan = false;
    enum dgl_status status = DGL_OK;
    account_push(dev, ACCOUNT_HIDDEN);
    if (!seen)
        TRY(dgl_fail_memory(dev->log, "first use of kernels", engine->plan.kernels.count));
    const struct kernel_judge_params params = {.dev = dev,
                                               .set = shard_kernels(shard),
                                               .mode = KERNEL_JUDGE_QUICK,
                                               .go_on = go_on,
                                               .priv = priv};
    for (size_t b = 0; b < num_bodies; b++) {
        const bool judged = shapes_have(&engine->judged, bodies[b]->shape);
        for (size_t i = 0; i < bodies[b]->ops.count && !judged; i++) {
            const struct kernel_use *use = bodies[b]->use[i];
            const char *name = use->choice.kernel->name;
            struct kernel_verdict verdict;
            char key[65];
            if (seen[use->id] || !kernel_choice_is_builtin(&use->choice) ||
                !programs_has(&engine->programs, use) || !kernel_judge_knows(use->request.op))
                continue;
            seen[use->id] = true;
            if (kernel_records_is_wrong(dev, name)) {
                replan = true;
                continue;
            }
            if (!kernel_records_key(dev, &use->choice, key) || kernel_records_is_right(dev, key))
                continue;
            TRY(judge_use(&judge, engine, use, NULL, &params, &verdict));
            if (!trust_is_wrong(&verdict)) {
                TRY(kernel_records_add_right(dev, key));
                continue;
            }
            dgl_warn(dev->log, "%s: a built-in kernel computes wrongly here and is not used: %s",
                     dev->info.renderer, verdict.text);
            TRY(kernel_records_add_wrong(dev, name));
            replan = true;
        }
    }
done:
    if (judge)
        kernel_records_store(dev);
    kernel_judge_destroy(&judge);
    free(seen);
    gl_device_memory_forget(dev->gl, memory);
    account_pop(dev);
    for (size_t i = 0; i < num_bodies && status == DGL_OK && !replan; i++)
        engine->judged = shapes_add(engine->judged, bodies[i]->shape);
    *replanned = status == DGL_OK && replan;
    return *replanned ? model_replan(shard->model) : status;
}

/* ---- a change to other kernels --------------------------------------------------------------- */

static bool go_on(void *priv)
{
    const struct dgl_log *log = priv;
    return !(log && log->cancelled && log->cancelled(log->priv));
}

/* Tests a use with the program that the new engine has compiled. If `use` is NULL, no step runs the
 * kernel `idle` of the set, so the test compiles it. A wrong result is an error. A test that cannot
 * run is a warning. */
static enum dgl_status check(struct kernel_swap *swap, const struct kernel_use *use, size_t idle)
{
    struct dgl_device *dev = swap->shard->dev;
    struct kernel_set *set = swap->engine->plan.kernels.set;
    const struct kernel *kernel = use ? use->choice.kernel : kernel_set_at(set, idle);
    const struct kernel_judge_params params = {.dev = dev,
                                               .set = set,
                                               .mode = KERNEL_JUDGE_QUICK,
                                               .go_on = go_on,
                                               .priv = (void *)dev->log};
    struct kernel_verdict verdict;
    struct dgl_buf files = {0}; /* the edited files of a use */
    enum dgl_status status;
    TRY(judge_use(&swap->judge, swap->engine, use, kernel->name, &params, &verdict));
    if (use)
        kernel_choice_origin(&use->choice, &files);
    const char *path = !use ? swap->idle[idle] : files.p && !files.failed ? files.p : kernel->path;
    if (verdict.kind == KERNEL_WRONG && !use && !verdict.built)
        status = dgl_fail(dev->log, DGL_ERR_KERNEL, "%s", verdict.text);
    else if (verdict.kind == KERNEL_WRONG)
        status = dgl_fail(dev->log, DGL_ERR_KERNEL, "%s: it fails its known-answer test: %s", path,
                          verdict.text);
    else if (verdict.kind == KERNEL_SKIPPED && (use || kernel->source != 0))
        dgl_warn(dev->log,
                 use ? "%s: it runs without a known-answer test: %s"
                     : "%s: it is not compiled here: %s",
                 path, verdict.text);
    else if (verdict.kind == KERNEL_PASSED && !use)
        swap->idle[idle] = "";
done:
    dgl_buf_finish(&files);
    return status;
}

/* Warns of a lib if no kernel that contains it can run here. All idle kernels are tested. */
static void tell_idle_lib(void *priv, const struct kernel *kernel, const struct kernel_lib *lib)
{
    const struct kernel_swap *swap = priv;
    const struct kernel_set *set = swap->engine->plan.kernels.set;
    bool ran = false, spliced = false;
    for (size_t i = 0; i < kernel_set_count(set) && !kernel; i++)
        if (swap->idle[i] && kernel_splices(kernel_set_at(set, i), lib)) {
            spliced = true;
            ran = ran || !swap->idle[i][0];
        }
    if (spliced && !ran)
        dgl_warn(swap->shard->dev->log,
                 "%s: it is not compiled here: no kernel that splices it can run", lib->path);
}

static void find_idle(void *priv, const struct kernel *kernel, const struct kernel_lib *lib)
{
    struct kernel_swap *swap = priv;
    const struct kernel_set *set = swap->engine->plan.kernels.set;
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        if (kernel ? k == kernel : kernel_splices(k, lib))
            swap->idle[i] = k->source != 0 ? k->path : lib->path;
    }
}

/* Returns true if a body with the use is for passes whose programs the shard's engine has compiled
 * for its own body. */
static bool is_needed(const struct kernel_swap *swap, const struct kernel_use *use)
{
    const struct engine *old = swap->shard->engine;
    const struct plan *plan = &swap->engine->plan;
    for (size_t b = 0; b < plan->num_bodies; b++) {
        const struct pass_shape shape = plan->bodies[b]->shape;
        for (size_t i = 0; i < plan->bodies[b]->ops.count; i++)
            if (plan->bodies[b]->use[i] == use && plan_body(&old->plan, shape)->ops.count > 0 &&
                exec_is_compiled(&old->programs, &old->plan, shapes_of(shape)))
                return true;
    }
    return false;
}

enum dgl_status kernel_swap_begin(struct kernel_swap *swap)
{
    const struct shard *shard = swap->shard;
    struct engine *engine = swap->engine;
    const struct kernel_table *table = &engine->plan.kernels;
    const size_t num_kernels = kernel_set_count(table->set);
    enum dgl_status status;
    swap->fresh = dgl_new_array(const struct kernel_use *, table->count);
    swap->idle = dgl_new_array(const char *, num_kernels);
    if (!swap->fresh || !swap->idle)
        TRY(dgl_fail_memory(shard->dev->log, "programs",
                            (table->count + num_kernels) * sizeof(void *)));
    TRY(programs_share(&engine->programs, &shard->engine->programs));
    for (size_t i = 0; i < table->count; i++) {
        const struct kernel_use *use = table->uses[i];
        if (!programs_has(&engine->programs, use) &&
            (!kernel_choice_is_builtin(&use->choice) || is_needed(swap, use)))
            swap->fresh[swap->count++] = use;
    }
    if (swap->count > 0)
        TRY(programs_begin(&engine->programs, swap->fresh, swap->count));
    if (!swap->unchecked)
        plan_iterate_unused(&engine->plan, shard_kernels(shard), find_idle, swap);
done:
    return status;
}

enum dgl_status kernel_swap_go_on(struct kernel_swap *swap, bool wait, bool *ready)
{
    struct dgl_device *dev = swap->shard->dev;
    struct programs *programs = &swap->engine->programs;
    const size_t num_kernels = kernel_set_count(swap->engine->plan.kernels.set);
    enum dgl_status status = DGL_OK;
    *ready = swap->done;
    if (swap->done)
        return DGL_OK;
    if (!swap->compiled) {
        if (!wait && !programs_are_ready(programs, swap->fresh, swap->count))
            return DGL_OK;
        status = programs_compile(programs, swap->fresh, swap->count,
                                  &(struct gl_compile){.machine_code = true});
        swap->compiled = status == DGL_OK;
        if (status != DGL_OK || (swap->count > 0 && !wait))
            return status;
    }
    /* Tests are excluded from the time and counters of an answer that is generated meanwhile. */
    bool more = true;
    account_push(dev, ACCOUNT_HIDDEN);
    for (; swap->judged < swap->count + num_kernels; swap->judged++) {
        const size_t i = swap->judged, idle = i - swap->count;
        const struct kernel_use *use = i < swap->count ? swap->fresh[i] : NULL;
        if (use ? swap->unchecked || kernel_choice_is_builtin(&use->choice) : !swap->idle[idle])
            continue;
        if (!more)
            goto done;
        TRY(check(swap, use, idle));
        more = wait;
    }
    plan_iterate_unused(&swap->engine->plan, shard_kernels(swap->shard), tell_idle_lib, swap);
    *ready = swap->done = true;
done:
    account_pop(dev);
    return status;
}

void kernel_swap_finish(struct kernel_swap *swap)
{
    kernel_judge_destroy(&swap->judge);
    free(swap->fresh);
    free(swap->idle);
    engine_destroy(&swap->engine);
    *swap = (struct kernel_swap){0};
}
