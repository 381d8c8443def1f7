/* Creates and destroys plan, programs and executor together. */
#include "core/exec/engine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"

enum dgl_status engine_create(struct dgl_device *dev, const struct plan_params *p,
                              enum dgl_executor wanted, struct engine **out)
{
    struct engine *engine = dgl_new(struct engine);
    *out = NULL;
    if (!engine)
        return dgl_fail_memory(dev->log, "engine", sizeof(*engine));
    engine->wanted = wanted;
    programs_init(&engine->programs, dev, &engine->plan.kernels);
    enum dgl_status status;
    TRY(weights_place(&engine->weights, p));
    TRY(plan_init(&engine->plan, p, &engine->weights));
    TRY(exec_dispatch_create(dev, &engine->plan, &engine->programs, &engine->exec));
    if (wanted == DGL_EXECUTOR_DISPATCH)
        snprintf(engine->no_persistent, sizeof(engine->no_persistent), "asked for");
    else if (dev->info.software)
        snprintf(engine->no_persistent, sizeof(engine->no_persistent),
                 "%s renders in software, where work groups cannot wait for each other",
                 dev->info.renderer);
    else
        TRY(persistent_create(dev, &engine->plan, wanted == DGL_EXECUTOR_PERSISTENT,
                              &engine->persistent));
    if (wanted == DGL_EXECUTOR_PERSISTENT && !engine->persistent.exec)
        TRY(dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                     "decoding by persistent dispatches was asked for, but cannot be: %s",
                     engine->no_persistent));
done:
    if (status == DGL_OK)
        *out = engine;
    else
        engine_destroy(&engine);
    return status;
}

void engine_destroy(struct engine **engine)
{
    struct engine *e = *engine;
    *engine = NULL;
    if (!e)
        return;
    exec_unref(&e->exec);
    exec_unref(&e->persistent.exec);
    programs_finish(&e->programs);
    plan_finish(&e->plan);
    weights_finish(&e->weights);
    free(e);
}

struct engine_choice *engine_choice(struct engine *engine, struct recipe recipe)
{
    const struct shape_set *shapes = &recipe.shapes;
    const uint32_t changes = (shapes_have(shapes, PASS_ADJUST) ? SAMPLE_ADJUSTS : 0u) |
                             (shapes_have(shapes, PASS_MASK) ? SAMPLE_MASKS : 0u) |
                             (shapes_have(shapes, PASS_FILTER) ? SAMPLE_FILTERS : 0u);
    uint32_t kind = 0, kinds = 0, width = 0;
    for (uint32_t i = 0; i < shapes->count; i++)
        if (shapes->of[i].part == PART_SAMPLE) {
            kind = shapes->of[i].sampler;
            kinds++;
        }
    if (kinds != 1 || plan_step_rows(recipe) == 0)
        return NULL;
    while (1 << width < plan_step_rows(recipe))
        width++;
    assert(width * ENGINE_KINDS + kind * SAMPLE_CHANGES + changes < ENGINE_CHOICES);
    return &engine->choice[width * ENGINE_KINDS + kind * SAMPLE_CHANGES + changes];
}

void engine_choice_info(const struct engine *engine, const struct engine_choice *c,
                        struct dgl_executor_info *out)
{
    bool persistent = c->state == ENGINE_PERSISTENT || (c->state == ENGINE_OPEN && c->expected);
    *out = (struct dgl_executor_info){
        .executor = persistent ? DGL_EXECUTOR_PERSISTENT : DGL_EXECUTOR_DISPATCH,
        .name = persistent ? "persistent" : "dispatch",
        .reason = c->reason[0]               ? c->reason
                  : !engine->persistent.exec ? engine->no_persistent
                                             : "persistent dispatches have not been tried yet"};
}

void engine_executor(const struct engine *engine, struct dgl_executor_info *out)
{
    engine_choice_info(engine, engine->last ? engine->last : &engine->choice[0], out);
}
