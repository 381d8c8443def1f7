/* Other kernels on a live model: what is compiled, and what must pass its known-answer test. */
#include "core/seq/kernel_swap.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/oracle/kernel_check.h"

/* A text that is not built in is part of the program. */
static bool has_users_text(const struct kernel_choice *choice)
{
    bool users = choice->kernel->source != 0;
    for (uint32_t i = 0; i < choice->kernel->num_libs && !users; i++)
        users = choice->libs[i]->source != 0;
    return users;
}

/* The same but for how weights are held, which other kernels may want otherwise. */
static bool same_work(const struct kernel_request *a, const struct kernel_request *b)
{
    bool same =
        strcmp(a->op, b->op) == 0 && a->num_attrs == b->num_attrs && a->num_consts == b->num_consts;
    for (uint32_t i = 0; i < a->num_attrs && same; i++)
        same = strcmp(a->attrs[i].key, b->attrs[i].key) == 0 &&
               (strcmp(a->attrs[i].key, "weight") == 0 || strcmp(a->attrs[i].key, "layout") == 0 ||
                strcmp(a->attrs[i].word, b->attrs[i].word) == 0);
    for (uint32_t i = 0; i < a->num_consts && same; i++)
        same = strcmp(a->consts[i].name, b->consts[i].name) == 0 &&
               (strcmp(a->consts[i].name, "W_STRIDE") == 0 ||
                a->consts[i].value == b->consts[i].value);
    return same;
}

/* The old engine had a program for that request. */
static bool was_compiled(const struct engine *old, const struct kernel_request *request)
{
    const struct kernel_table *table = old->programs.table;
    for (size_t i = 0; i < table->count; i++)
        if (programs_has(&old->programs, table->uses[i]) &&
            same_work(&table->uses[i]->request, request))
            return true;
    return false;
}

static bool go_on(void *priv)
{
    const struct dgl_model *m = priv;
    const struct dgl_log *log = m->dev->log;
    return !(log && log->cancelled && log->cancelled(log->priv));
}

static enum dgl_status check_use(const struct dgl_model *m, struct kernel_swap *swap,
                                 const struct kernel_use *use)
{
    const struct dgl_log *log = m->dev->log;
    const struct kernel *kernel = use->choice.kernel;
    struct kernel_verdict verdict;
    enum dgl_status status = DGL_OK;
    if (!swap->judge)
        status = kernel_judge_create(
            &(struct kernel_judge_params){.dev = m->dev,
                                          .set = swap->engine->programs.table->set,
                                          .mode = KERNEL_JUDGE_QUICK,
                                          .go_on = go_on,
                                          .priv = (void *)m},
            &swap->judge);
    if (status == DGL_OK)
        status = kernel_judge_use(
            swap->judge,
            &(struct kernel_subject){.request = &use->request,
                                     .choice = &use->choice,
                                     .program = programs_get(&swap->engine->programs, use)},
            &verdict);
    if (status != DGL_OK)
        return status;
    struct dgl_buf files = {0}; /* those that were edited, where there are any */
    if (has_users_text(&use->choice))
        kernel_choice_origin(&use->choice, &files);
    const char *path = files.p && !files.failed ? files.p : kernel->path;
    if (verdict.kind == KERNEL_WRONG)
        status = dgl_fail(log, DGL_ERR_KERNEL, "%s: it fails its known-answer test: %s", path,
                          verdict.text);
    if (verdict.kind == KERNEL_SKIPPED)
        dgl_warn(log, "%s: it runs without a known-answer test: %s", path, verdict.text);
    dgl_buf_finish(&files);
    return status;
}

enum dgl_status kernel_swap_begin(const struct dgl_model *m, struct engine *engine, bool unchecked,
                                  struct kernel_swap *swap)
{
    const struct kernel_table *table = engine->programs.table;
    *swap = (struct kernel_swap){.engine = engine, .unchecked = unchecked};
    swap->fresh = dgl_new_array(const struct kernel_use *, table->count);
    if (!swap->fresh)
        return dgl_fail_memory(m->dev->log, "programs", table->count);
    enum dgl_status status = programs_share(&engine->programs, &m->engine->programs);
    for (size_t i = 0; i < table->count && status == DGL_OK; i++) {
        const struct kernel_use *use = table->uses[i];
        if (!programs_has(&engine->programs, use) &&
            (has_users_text(&use->choice) || was_compiled(m->engine, &use->request)))
            swap->fresh[swap->count++] = use;
    }
    if (status == DGL_OK && swap->count > 0)
        status = programs_begin(&engine->programs, swap->fresh, swap->count);
    return status;
}

enum dgl_status kernel_swap_go_on(const struct dgl_model *m, struct kernel_swap *swap, bool wait,
                                  bool *ready)
{
    struct dgl_device *dev = m->dev;
    struct programs *programs = &swap->engine->programs;
    enum dgl_status status = DGL_OK;
    *ready = false;
    if (!swap->compiled) {
        if (!wait && !programs_are_ready(programs, swap->fresh, swap->count))
            return DGL_OK;
        if (swap->count > 0)
            status = programs_compile(programs, swap->fresh, swap->count,
                                      &(struct gl_compile){.machine_code = true});
        swap->compiled = status == DGL_OK;
        if (status != DGL_OK || (swap->count > 0 && !wait))
            return status;
    }
    /* Known answers are no part of an answer that goes on meanwhile: neither time nor counters. */
    const uint64_t start_ns = dgl_now_ns(), compile_ns = dev->compile_ns;
    const struct dgl_counters before = device_counters(dev);
    const bool untold = dev->untold;
    bool more = true;
    dev->untold = true;
    while (swap->judged < swap->count && more && status == DGL_OK) {
        const struct kernel_use *use = swap->fresh[swap->judged++];
        if (swap->unchecked || !has_users_text(&use->choice))
            continue;
        status = check_use(m, swap, use);
        more = wait;
    }
    const struct dgl_counters work = counters_since(dev, &before);
    counters_add(&dev->aside, &work);
    dev->untold = untold;
    dev->compile_ns = compile_ns + (dgl_now_ns() - start_ns);
    *ready = status == DGL_OK && swap->judged == swap->count;
    return status;
}

void kernel_swap_finish(struct kernel_swap *swap)
{
    kernel_judge_destroy(&swap->judge);
    free(swap->fresh);
    *swap = (struct kernel_swap){0};
}
