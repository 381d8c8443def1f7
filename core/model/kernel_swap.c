/* Switches a live model to other kernels: compilation and known-answer tests. */
#include "core/model/kernel_swap.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/oracle/kernel_check.h"

/* Compares two requests without the attributes of weight storage, which other kernels may
 * change. */
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

/* Returns true if the old engine had a program for that request. */
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
    const struct shard *shard = priv;
    const struct dgl_log *log = shard->dev->log;
    return !(log && log->cancelled && log->cancelled(log->priv));
}

static enum dgl_status make_judge(const struct shard *shard, struct kernel_swap *swap)
{
    return swap->judge ? DGL_OK
                       : kernel_judge_create(
                             &(struct kernel_judge_params){.dev = shard->dev,
                                                           .set = swap->engine->programs.table->set,
                                                           .mode = KERNEL_JUDGE_QUICK,
                                                           .go_on = go_on,
                                                           .priv = (void *)shard},
                             &swap->judge);
}

/* Tests a use with the program that the new engine has compiled. A wrong result is an error. A test
 * that cannot run is a warning. */
static enum dgl_status check_use(const struct shard *shard, struct kernel_swap *swap,
                                 const struct kernel_use *use)
{
    const struct dgl_log *log = shard->dev->log;
    const struct kernel *kernel = use->choice.kernel;
    struct kernel_verdict verdict;
    struct dgl_buf files = {0}; /* the edited files, if there are any */
    enum dgl_status status;
    TRY(make_judge(shard, swap));
    TRY(kernel_judge_use(
        swap->judge,
        &(struct kernel_subject){.request = &use->request,
                                 .choice = &use->choice,
                                 .program = programs_get(&swap->engine->programs, use)},
        &verdict));
    if (!kernel_choice_is_builtin(&use->choice))
        kernel_choice_origin(&use->choice, &files);
    const char *path = files.p && !files.failed ? files.p : kernel->path;
    if (verdict.kind == KERNEL_WRONG)
        status = dgl_fail(log, DGL_ERR_KERNEL, "%s: it fails its known-answer test: %s", path,
                          verdict.text);
    if (verdict.kind == KERNEL_SKIPPED)
        dgl_warn(log, "%s: it runs without a known-answer test: %s", path, verdict.text);
done:
    dgl_buf_finish(&files);
    return status;
}

/* Returns the path of a user's text that the kernel contains: its own, or that of a lib. */
static const char *edited_path(const struct kernel_set *set, const struct kernel *kernel)
{
    const char *path = kernel->path;
    for (size_t i = 0; kernel->source == 0 && i < kernel_set_num_libs(set); i++) {
        const struct kernel_lib *lib = kernel_set_lib_at(set, i);
        if (lib->source != 0 && kernel_splices(kernel, lib))
            path = lib->path;
    }
    return path;
}

/* No step runs the kernel, so its text is not compiled yet. The test compiles and runs it. */
static enum dgl_status check_idle(const struct shard *shard, struct kernel_swap *swap,
                                  struct idle_kernel *idle)
{
    const struct dgl_log *log = shard->dev->log;
    const struct kernel *kernel = idle->kernel;
    struct kernel_verdict verdict;
    enum dgl_status status;
    TRY(make_judge(shard, swap));
    TRY(kernel_judge_kernel(swap->judge, kernel->name, &verdict));
    kernel_judge_forget(swap->judge);
    idle->ran = verdict.kind == KERNEL_PASSED;
    if (verdict.kind == KERNEL_WRONG && !verdict.built)
        status = dgl_fail(log, DGL_ERR_KERNEL, "%s", verdict.text);
    else if (verdict.kind == KERNEL_WRONG)
        status = dgl_fail(log, DGL_ERR_KERNEL, "%s: it fails its known-answer test: %s",
                          edited_path(swap->engine->programs.table->set, kernel), verdict.text);
    if (verdict.kind == KERNEL_SKIPPED && kernel->source != 0)
        dgl_warn(log, "%s: it is not compiled here: %s", kernel->path, verdict.text);
done:
    return status;
}

/* Context of the report, after all kernels were tested, of libs that no kernel which can run here
 * contains. */
struct idle_libs {
    const struct dgl_log *log;
    const struct kernel_swap *swap;
};

static void tell_idle_lib(void *priv, const struct kernel *kernel, const struct kernel_lib *lib)
{
    const struct idle_libs *to = priv;
    const struct kernel_swap *swap = to->swap;
    bool ran = false, spliced = false;
    for (size_t i = 0; i < swap->num_idle && !kernel; i++) {
        const bool has = kernel_splices(swap->idle[i].kernel, lib);
        spliced = spliced || has;
        ran = ran || (has && swap->idle[i].ran);
    }
    if (spliced && !ran)
        dgl_warn(to->log, "%s: it is not compiled here: no kernel that splices it can run",
                 lib->path);
}

struct idle_search {
    struct kernel_swap *swap;
    bool failed;
};

static void add_idle(struct idle_search *search, const struct kernel *kernel)
{
    struct kernel_swap *swap = search->swap;
    size_t i = 0;
    while (i < swap->num_idle && swap->idle[i].kernel != kernel)
        i++;
    if (i < swap->num_idle || search->failed)
        return;
    search->failed = !dgl_grow((void **)&swap->idle, &swap->cap_idle, i + 1, sizeof(*swap->idle));
    if (!search->failed)
        swap->idle[swap->num_idle++] = (struct idle_kernel){.kernel = kernel};
}

static void find_idle(void *priv, const struct kernel *kernel, const struct kernel_lib *lib)
{
    struct idle_search *search = priv;
    const struct kernel_set *set = search->swap->engine->programs.table->set;
    if (kernel)
        add_idle(search, kernel);
    for (size_t i = 0; lib && i < kernel_set_count(set); i++)
        if (kernel_splices(kernel_set_at(set, i), lib))
            add_idle(search, kernel_set_at(set, i));
}

enum dgl_status kernel_swap_begin(const struct shard *shard, struct kernel_swap *swap)
{
    struct engine *engine = swap->engine;
    const struct kernel_table *table = engine->programs.table;
    swap->fresh = dgl_new_array(const struct kernel_use *, table->count);
    if (!swap->fresh)
        return dgl_fail_memory(shard->dev->log, "programs", table->count * sizeof(*swap->fresh));
    enum dgl_status status;
    TRY(programs_share(&engine->programs, &shard->engine->programs));
    for (size_t i = 0; i < table->count; i++) {
        const struct kernel_use *use = table->uses[i];
        if (!programs_has(&engine->programs, use) &&
            (!kernel_choice_is_builtin(&use->choice) || was_compiled(shard->engine, &use->request)))
            swap->fresh[swap->count++] = use;
    }
    if (swap->count > 0)
        TRY(programs_begin(&engine->programs, swap->fresh, swap->count));
    struct idle_search search = {.swap = swap};
    if (!swap->unchecked)
        plan_iterate_unused(&engine->plan, shard_kernels(shard), find_idle, &search);
    if (search.failed)
        TRY(dgl_fail_memory(shard->dev->log, "kernels", swap->num_idle));
done:
    return status;
}

enum dgl_status kernel_swap_go_on(const struct shard *shard, struct kernel_swap *swap, bool wait,
                                  bool *ready)
{
    struct dgl_device *dev = shard->dev;
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
    /* Tests are excluded from the time and counters of an answer that is generated meanwhile. */
    bool more = true;
    account_push(dev, ACCOUNT_HIDDEN);
    while (swap->judged < swap->count && more && status == DGL_OK) {
        const struct kernel_use *use = swap->fresh[swap->judged++];
        if (swap->unchecked || kernel_choice_is_builtin(&use->choice))
            continue;
        status = check_use(shard, swap, use);
        more = wait;
    }
    while (swap->idle_judged < swap->num_idle && more && status == DGL_OK) {
        status = check_idle(shard, swap, &swap->idle[swap->idle_judged++]);
        more = wait;
        if (status == DGL_OK && swap->idle_judged == swap->num_idle)
            plan_iterate_unused(&swap->engine->plan, shard_kernels(shard), tell_idle_lib,
                                &(struct idle_libs){shard->dev->log, swap});
    }
    account_pop(dev);
    *ready = status == DGL_OK && swap->judged == swap->count && swap->idle_judged == swap->num_idle;
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
