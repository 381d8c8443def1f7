/* Tests programs at their first use, and replaces kernels that compute wrongly. */
#include "core/model/trust.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/kernel_records.h"

/* An error up to this many times the tolerance (NMSE; four times in amplitude) is a driver's
 * rounding. Drivers that compute wrongly miss by orders of magnitude. */
#define IMPRECISE 16.0

bool trust_is_wrong(const struct kernel_verdict *verdict)
{
    return verdict->kind == KERNEL_WRONG && !(verdict->worst > 1 && verdict->worst <= IMPRECISE);
}

/* Runs the known-answer test of a program, once for all processes of this device and driver. */
static enum dgl_status judge_use(struct shard *shard, struct kernel_judge *judge,
                                 const struct kernel_use *use, bool *wrong)
{
    struct dgl_device *dev = shard->dev;
    const char *name = use->choice.kernel->name;
    struct kernel_verdict verdict;
    char key[65];
    *wrong = kernel_records_is_wrong(dev, name);
    if (*wrong)
        return DGL_OK;
    if (!kernel_records_key(dev, &use->choice, key) || kernel_records_is_right(dev, key))
        return DGL_OK;
    enum dgl_status status = kernel_judge_use(
        judge,
        &(struct kernel_subject){.request = &use->request,
                                 .choice = &use->choice,
                                 .program = programs_get(&shard->engine->programs, use)},
        &verdict);
    if (status != DGL_OK)
        return status;
    *wrong = trust_is_wrong(&verdict);
    if (!*wrong)
        return kernel_records_add_right(dev, key);
    dgl_warn(dev->log, "%s: a built-in kernel computes wrongly here and is not used: %s",
             dev->info.renderer, verdict.text);
    return kernel_records_add_wrong(dev, name);
}

/* Lists the distinct uses of the bodies that this engine has not tested yet. `out` has room for
 * all. */
static size_t list_new(const struct engine *engine, const struct body *const *bodies,
                       size_t num_bodies, const struct kernel_use **out)
{
    size_t count = 0;
    for (size_t b = 0; b < num_bodies; b++) {
        if (shapes_have(&engine->judged, bodies[b]->shape))
            continue;
        for (size_t i = 0; i < bodies[b]->ops.count; i++) {
            const struct kernel_use *use = bodies[b]->use[i];
            bool known = !kernel_choice_is_builtin(&use->choice) ||
                         !programs_has(&engine->programs, use) ||
                         !kernel_judge_knows(use->request.op);
            for (size_t j = 0; j < count && !known; j++)
                known = out[j] == use;
            if (!known)
                out[count++] = use;
        }
    }
    return count;
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
    bool known = true;
    for (size_t i = 0; i < num_bodies; i++)
        known = known && shapes_have(&engine->judged, bodies[i]->shape);
    if (!kernel_records_last(dev) || known)
        return DGL_OK;
    const struct gl_memory memory = gl_device_memory(dev->gl);
    const struct kernel_use **uses =
        dgl_new_array(const struct kernel_use *, engine->plan.kernels.count);
    size_t count = 0, num_wrong = 0;
    enum dgl_status status = DGL_OK;
    account_push(dev, ACCOUNT_HIDDEN);
    if (!uses)
        TRY(dgl_fail_memory(dev->log, "first use of kernels",
                            engine->plan.kernels.count * sizeof(*uses)));
    count = list_new(engine, bodies, num_bodies, uses);
    TRY(kernel_judge_create(&(struct kernel_judge_params){.dev = dev,
                                                          .set = shard_kernels(shard),
                                                          .mode = KERNEL_JUDGE_QUICK,
                                                          .go_on = go_on,
                                                          .priv = priv},
                            &judge));
    for (size_t i = 0; i < count; i++) {
        bool wrong = false;
        TRY(judge_use(shard, judge, uses[i], &wrong));
        num_wrong += wrong;
    }
done:
    kernel_judge_destroy(&judge);
    free(uses);
    gl_device_memory_forget(dev->gl, memory);
    if (count > 0)
        kernel_records_store(dev);
    account_pop(dev);
    for (size_t i = 0; i < num_bodies && status == DGL_OK && num_wrong == 0; i++)
        engine->judged = shapes_add(engine->judged, bodies[i]->shape);
    if (status != DGL_OK || num_wrong == 0)
        return status;
    *replanned = true;
    return model_replan(shard->model);
}
