/* Runs of any executor, and their cache. */
#include "core/exec/exec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void exec_unref(struct exec **exec)
{
    if (*exec && --(*exec)->refs == 0) {
        if ((*exec)->ops->finish)
            (*exec)->ops->finish(*exec);
        free(*exec);
    }
    *exec = NULL;
}

enum dgl_status exec_run_create(struct exec *exec, struct recipe recipe,
                                const struct memory *memory, struct exec_run **out)
{
    const struct plan *plan = exec->plan;
    struct exec_run *run = dgl_new(struct exec_run);
    const struct body *bodies[SHAPES_MAX];
    size_t count = 0;
    *out = NULL;
    if (!run)
        return dgl_fail_memory(exec->log, "run", sizeof(*run));
    run->exec = exec;
    exec->refs++;
    run->recipe = recipe;
    const size_t num_bodies = plan_bodies(plan, &recipe.shapes, bodies);
    for (size_t i = 0; i < num_bodies; i++)
        count += bodies[i]->ops.count;
    run->ops = dgl_new_array(struct exec_op, count);
    run->groups = dgl_calloc(count, sizeof(*run->groups));
    enum dgl_status status = DGL_OK;
    if (!run->ops || !run->groups)
        TRY(dgl_fail_memory(exec->log, "run", count * sizeof(*run->ops)));
    for (size_t i = 0; i < num_bodies; i++)
        for (size_t k = 0; k < bodies[i]->ops.count; k++)
            run->ops[run->count++] =
                (struct exec_op){.op = &bodies[i]->ops.ops[k], .use = bodies[i]->use[k]};
    if (recipe.count) {
        assert(recipe.first + recipe.count <= run->count);
        memmove(run->ops, run->ops + recipe.first, recipe.count * sizeof(*run->ops));
        run->count = recipe.count;
    }
    TRY(exec->ops->compile(run));
    TRY(exec_run_set_tokens(run, 1));
    TRY(exec->ops->bind(run, memory));
    run->memory = memory;
    *out = run;
done:
    if (status != DGL_OK)
        exec_run_destroy(&run);
    return status;
}

void exec_run_destroy(struct exec_run **prun)
{
    struct exec_run *run = *prun;
    *prun = NULL;
    if (!run)
        return;
    run->exec->ops->destroy(run);
    exec_unref(&run->exec);
    free(run->ops);
    free(run->groups);
    free(run);
}

void exec_run_move(struct exec_run *run, const struct memory *memory)
{
    if (run->memory == memory)
        return;
    assert(memory_is_like(run->memory, memory));
    run->exec->ops->move(run, memory);
    run->memory = memory;
}

enum dgl_status exec_run_set_tokens(struct exec_run *run, int32_t tokens)
{
    enum dgl_status status = DGL_OK;
    if (run->tokens == tokens)
        return DGL_OK;
    run->tokens = 0; /* on failure some counts are new and some are old */
    for (size_t i = 0; i < run->count; i++) {
        const struct exec_op *e = &run->ops[i];
        TRY(kernel_use_groups(run->exec->plan->device, e->use, tokens, op_weight_rows(e->op),
                              run->groups[i]));
    }
    run->tokens = tokens;
    run->exec->ops->regroup(run);
done:
    return status;
}

/* ---- cache ----------------------------------------------------------------------------------- */

struct exec_run *exec_cache_find(const struct exec_cache *cache, struct recipe recipe)
{
    for (size_t i = 0; i < cache->count; i++)
        if (recipe_equal(&cache->runs[i]->recipe, &recipe))
            return cache->runs[i];
    return NULL;
}

enum dgl_status exec_cache_get(struct exec_cache *cache, struct exec *exec, struct recipe recipe,
                               const struct memory *memory, struct exec_run **out)
{
    *out = exec_cache_find(cache, recipe);
    if (*out)
        return DGL_OK;
    if (!dgl_grow((void **)&cache->runs, &cache->cap, cache->count + 1, sizeof(struct exec_run *)))
        return dgl_fail_memory(exec->log, "runs", (cache->count + 1) * sizeof(struct exec_run *));
    enum dgl_status status = exec_run_create(exec, recipe, memory, out);
    if (status == DGL_OK)
        cache->runs[cache->count++] = *out;
    return status;
}

void exec_cache_clear(struct exec_cache *cache)
{
    for (size_t i = 0; i < cache->count; i++)
        exec_run_destroy(&cache->runs[i]);
    free(cache->runs);
    *cache = (struct exec_cache){0};
}
