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

/* Adds a source unless the list has it. The source of a persistent program has no kernel. */
static enum dgl_status add(struct text_list *list, const struct kernel *kernel,
                           struct dgl_str source, bool planned)
{
    struct text text = {.name = kernel ? kernel->name : "phases",
                        .op = kernel ? kernel->op : "phases",
                        .origin = kernel ? kernel->origin : "builtin",
                        .len = source.len,
                        .planned = planned};
    if (!kernel_source_sha256(source, text.sha256))
        return list->status = dgl_fail_memory(list->log, "hash of a text", text.len);
    for (size_t i = 0; i < list->count; i++)
        if (memcmp(list->texts[i].sha256, text.sha256, sizeof(text.sha256)) == 0) {
            list->texts[i].planned |= planned;
            return DGL_OK;
        }
    text.source = dgl_calloc(text.len + 1, 1);
    if (!text.source ||
        !dgl_grow((void **)&list->texts, &list->cap, list->count + 1, sizeof(text))) {
        free(text.source);
        return list->status = dgl_fail_memory(list->log, "texts of kernels", text.len);
    }
    memcpy(text.source, source.p, text.len);
    list->texts[list->count++] = text;
    return DGL_OK;
}

enum dgl_status text_list_add_plan(struct text_list *list, struct shard *shard)
{
    const struct dgl_log *log = list->log = shard->dev->log;
    struct plan *plan = &shard->engine->plan;
    struct dgl_buf text = {0};
    bool *seen = NULL; /* by kernel_use.id */
    enum dgl_status status;
    TRY(plan_add_batch(plan));
    TRY(plan_list(plan, PASS_MASK)); /* these are listed on first use */
    TRY(plan_list(plan, PASS_FILTER));
    seen = dgl_new_array(bool, plan->kernels.count);
    if (!seen)
        TRY(dgl_fail_memory(log, "texts of kernels", plan->kernels.count));
    for (size_t b = 0; b < plan->num_bodies; b++)
        for (size_t i = 0; i < plan->bodies[b]->ops.count; i++) {
            const struct kernel_use *use = plan->bodies[b]->use[i];
            if (seen[use->id])
                continue;
            seen[use->id] = true;
            text.len = 0;
            TRY(kernel_generate(log, &use->choice, &text));
            if (text.failed)
                TRY(dgl_fail_memory(log, use->choice.kernel->name, text.len));
            TRY(add(list, use->choice.kernel, (struct dgl_str){text.p, text.len}, true));
        }
done:
    dgl_buf_finish(&text);
    free(seen);
    return status;
}

enum dgl_status text_list_add_persistent(struct text_list *list, struct shard *shard,
                                         const struct memory *memory)
{
    struct exec *exec = shard->engine->persistent.exec;
    char reason[PERSISTENT_REASON];
    enum dgl_status status = DGL_OK;
    list->log = shard->dev->log;
    for (int kind = 0; kind < SAMPLE_KINDS && status == DGL_OK; kind++) {
        struct dgl_buf text = {0};
        status = exec_phases_check(exec, recipe_decode((enum sample_kind)kind, 0, true), memory,
                                   reason, &text);
        if (status == DGL_OK && text.failed)
            status = dgl_fail_memory(shard->dev->log, "program of phases", text.len);
        if (status == DGL_OK)
            status = add(list, NULL, (struct dgl_str){text.p, text.len}, false);
        if (status == DGL_ERR_UNSUPPORTED) /* the recipe has no persistent program */
            status = DGL_OK;
        dgl_buf_finish(&text);
    }
    return status;
}

static bool gather(void *priv, const struct kernel *kernel, const char *source, size_t len)
{
    return add(priv, kernel, (struct dgl_str){source, len}, false) == DGL_OK;
}

enum dgl_status text_list_add_all(struct text_list *list, struct shard *shard)
{
    struct kernel_judge *judge = NULL;
    list->log = shard->dev->log;
    enum dgl_status status =
        kernel_judge_create(&(struct kernel_judge_params){.dev = shard->dev,
                                                          .set = shard_kernels(shard),
                                                          .mode = KERNEL_JUDGE_FULL,
                                                          .gather = gather,
                                                          .priv = list},
                            &judge);
    for (size_t i = 0; i < kernel_set_count(shard_kernels(shard)) && status == DGL_OK; i++) {
        struct kernel_verdict verdict;
        status = kernel_judge_kernel(judge, kernel_set_at(shard_kernels(shard), i)->name, &verdict);
    }
    kernel_judge_destroy(&judge);
    return list->status != DGL_OK ? list->status : status;
}
