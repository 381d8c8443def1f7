/* Collects the sources of a model's kernels. Does not compile. */
#include "core/model/text_list.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/exec/phases.h"
#include "core/oracle/kernel_check.h"

void text_list_finish(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->texts[i].source);
    free(list->texts);
    *list = (struct text_list){0};
}

/* Adds a source unless the list has it. Copies the source and borrows the other strings. */
static enum dgl_status add(struct text_list *list, const struct dgl_log *log, struct text text)
{
    if (!kernel_source_sha256((struct dgl_str){text.source, text.len}, text.sha256))
        return dgl_fail_memory(log, "hash of a text", text.len);
    for (size_t i = 0; i < list->count; i++)
        if (memcmp(list->texts[i].sha256, text.sha256, sizeof(text.sha256)) == 0) {
            list->texts[i].planned |= text.planned;
            return DGL_OK;
        }
    char *copy = dgl_calloc(text.len + 1, 1);
    if (!copy || !dgl_grow((void **)&list->texts, &list->cap, list->count + 1, sizeof(text))) {
        free(copy);
        return dgl_fail_memory(log, "texts of kernels", text.len);
    }
    memcpy(copy, text.source, text.len);
    text.source = copy;
    list->texts[list->count++] = text;
    return DGL_OK;
}

enum dgl_status text_list_add_plan(struct text_list *list, struct shard *shard)
{
    const struct dgl_log *log = shard->dev->log;
    struct plan *plan = &shard->engine->plan;
    struct dgl_buf text = {0};
    bool *seen = NULL;
    enum dgl_status status;
    TRY(plan_add_batch(plan));
    seen = dgl_new_array(bool, plan->kernels.count);
    if (!seen)
        TRY(dgl_fail_memory(log, "texts of kernels", plan->kernels.count));
    for (size_t b = 0; b < plan->num_bodies; b++)
        for (size_t i = 0; i < plan->bodies[b]->ops.count; i++) {
            const struct kernel_use *use = plan->bodies[b]->use[i];
            const struct kernel *kernel = use->choice.kernel;
            if (seen[use->id])
                continue;
            seen[use->id] = true;
            TRY(kernel_generate(log, &use->choice, &text));
            if (text.failed)
                TRY(dgl_fail_memory(log, kernel->name, text.len));
            TRY(add(list, log,
                    (struct text){.name = kernel->name,
                                  .op = kernel->op,
                                  .origin = kernel->origin,
                                  .source = text.p,
                                  .len = text.len,
                                  .planned = true}));
            dgl_buf_finish(&text);
        }
done:
    dgl_buf_finish(&text);
    free(seen);
    return status;
}

/* Adds the persistent program of a recipe, if the recipe has one. */
static enum dgl_status add_program(struct text_list *list, struct shard *shard,
                                   const struct memory *memory, struct recipe recipe)
{
    struct dgl_buf text = {0};
    char reason[PERSISTENT_REASON];
    enum dgl_status status =
        exec_phases_check(shard->engine->persistent.exec, recipe, memory, reason, &text, NULL);
    if (status == DGL_OK && text.failed)
        status = dgl_fail_memory(shard->dev->log, "program of phases", text.len);
    if (status == DGL_OK)
        status = add(list, shard->dev->log,
                     (struct text){.name = "phases",
                                   .op = "phases",
                                   .origin = "builtin",
                                   .source = text.p,
                                   .len = text.len});
    dgl_buf_finish(&text);
    return status == DGL_ERR_UNSUPPORTED ? DGL_OK : status;
}

enum dgl_status text_list_add_persistent(struct text_list *list, struct shard *shard,
                                         const struct memory *memory)
{
    enum dgl_status status = DGL_OK;
    for (int kind = 0; kind < SAMPLE_KINDS && status == DGL_OK; kind++)
        status = add_program(list, shard, memory, recipe_decode((enum sample_kind)kind, 0, true));
    return status;
}

struct gathering {
    struct text_list *list;
    const struct dgl_log *log;
    enum dgl_status status;
};

static bool gather(void *priv, const struct kernel *kernel, const char *source, size_t len)
{
    struct gathering *g = priv;
    g->status = add(g->list, g->log,
                    (struct text){.name = kernel->name,
                                  .op = kernel->op,
                                  .origin = kernel->origin,
                                  .source = (char *)source,
                                  .len = len});
    return g->status == DGL_OK;
}

enum dgl_status text_list_add_all(struct text_list *list, struct shard *shard)
{
    struct gathering g = {.list = list, .log = shard->dev->log};
    struct kernel_judge *judge = NULL;
    enum dgl_status status =
        kernel_judge_create(&(struct kernel_judge_params){.dev = shard->dev,
                                                          .set = shard_kernels(shard),
                                                          .mode = KERNEL_JUDGE_FULL,
                                                          .gather = gather,
                                                          .priv = &g},
                            &judge);
    for (size_t i = 0; i < kernel_set_count(shard_kernels(shard)) && status == DGL_OK; i++) {
        struct kernel_verdict verdict;
        status = kernel_judge_kernel(judge, kernel_set_at(shard_kernels(shard), i)->name, &verdict);
    }
    kernel_judge_destroy(&judge);
    return g.status != DGL_OK ? g.status : status;
}
