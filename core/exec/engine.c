/* Plan, programs and executor, made and freed together. */
#include "core/exec/engine.h"

#include <stdlib.h>

#include "core/base/mem.h"

enum dgl_status engine_create(struct dgl_device *dev, const struct plan_params *params,
                              struct engine **out)
{
    struct engine *engine = dgl_new(struct engine);
    *out = NULL;
    if (!engine)
        return dgl_fail_memory(dev->log, "engine", sizeof(*engine));
    enum dgl_status status = plan_init(&engine->plan, params);
    programs_init(&engine->programs, dev, &engine->plan.kernels);
    if (status == DGL_OK)
        status = exec_dispatch_create(dev, &engine->plan, &engine->programs, &engine->exec);
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
    programs_finish(&e->programs);
    plan_finish(&e->plan);
    free(e);
}
