/* dgl_kernels_check(), dgl_kernels_bench(): the judge of kernels for callers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/sized.h"
#include "core/exec/profile.h"
#include "core/oracle/kernel_check.h"
#include "core/oracle/kernel_shape.h"
#include "core/plan/plan.h"

/* State of a call: the entered device, the kernel set, the judge and the progress callback. */
struct judging {
    struct dgl_device *dev;
    struct kernel_set *set; /* borrowed, or `builtin` */
    struct kernel_set *builtin;
    struct kernel_judge *judge;
    struct gl_saved saved;
    bool entered;
    dgl_progress_cb progress_cb;
    void *progress_priv;
    uint64_t done, total;
};

static bool go_on(void *priv)
{
    const struct judging *j = priv;
    return !j->progress_cb || j->progress_cb(j->progress_priv, "kernels", j->done, j->total);
}

static enum dgl_status judging_begin(struct judging *j, const struct dgl_kernels *kernels,
                                     enum kernel_judge_mode mode)
{
    enum dgl_status status = DGL_OK;
    j->set = kernels ? kernels->set : NULL;
    if (!j->set) {
        status = kernel_set_create(j->dev->log, NULL, &j->builtin);
        j->set = j->builtin;
    }
    if (status == DGL_OK)
        status = device_enter(j->dev, &j->saved);
    if (status != DGL_OK)
        return status;
    j->entered = true;
    return kernel_judge_create(
        &(struct kernel_judge_params){
            .dev = j->dev, .set = j->set, .mode = mode, .go_on = go_on, .priv = j},
        &j->judge);
}

static void judging_end(struct judging *j)
{
    kernel_judge_destroy(&j->judge);
    if (j->entered)
        device_leave(j->dev, &j->saved);
    kernel_set_destroy(&j->builtin);
}

static struct dgl_kernel_verdict verdict_of(const struct kernel_verdict *v,
                                            const struct dgl_kernel_info *info)
{
    static const enum dgl_verdict kinds[] = {[KERNEL_PASSED] = DGL_VERDICT_PASSED,
                                             [KERNEL_WRONG] = DGL_VERDICT_FAILED,
                                             [KERNEL_SKIPPED] = DGL_VERDICT_SKIPPED};
    return (struct dgl_kernel_verdict){.kernel = info,
                                       .verdict = kinds[v->kind],
                                       .cases = v->cases,
                                       .worst = v->worst,
                                       .reason = v->text};
}

static bool is_override(const struct kernel_set *set, const struct kernel *kernel)
{
    bool found = kernel->source != 0;
    for (size_t i = 0; i < kernel_set_num_libs(set) && !found; i++) {
        const struct kernel_lib *lib = kernel_set_lib_at(set, i);
        found = lib->source != 0 && kernel_splices(kernel, lib);
    }
    return found;
}

static bool is_idle_lib(const struct kernel_set *set, const struct kernel_lib *lib)
{
    return lib->source != 0 && !kernel_set_splices(set, lib);
}

struct checking {
    struct judging *j;
    const struct dgl_kernels_check_params *params;
    bool cancelled;
};

static bool tell(const struct checking *c, const struct dgl_kernel_verdict *verdict)
{
    c->j->done++;
    return (!c->params->cb || c->params->cb(c->params->priv, verdict)) && go_on(c->j);
}

/* A lib that no kernel splices has no verdict of theirs. */
static bool tell_idle_lib(void *priv, const struct kernel_override *o)
{
    struct checking *c = priv;
    struct dgl_kernel_info info = {
        .name = o->name, .op = "", .variant = "", .origin = o->origin, .summary = "", .layout = ""};
    char reason[192];
    if (o->kernel || !is_idle_lib(c->j->set, kernel_set_lib(c->j->set, o->name)))
        return true;
    memcpy(info.sha256, o->sha256, sizeof(info.sha256));
    snprintf(reason, sizeof(reason), "%s: no kernel splices this lib: none has a LIB line for it",
             o->name);
    const struct dgl_kernel_verdict verdict = {
        .kernel = &info, .verdict = DGL_VERDICT_SKIPPED, .reason = reason};
    c->cancelled = !tell(c, &verdict);
    return !c->cancelled;
}

/* A file that was left out has no kernel of the set. */
static bool tell_fault(struct checking *c, const struct kernel_fault *fault)
{
    const struct dgl_kernel_info info = {.name = fault->name,
                                         .op = "",
                                         .variant = "",
                                         .origin = fault->path,
                                         .summary = "",
                                         .layout = ""};
    const struct dgl_kernel_verdict verdict = {
        .kernel = &info, .verdict = DGL_VERDICT_FAILED, .reason = fault->reason};
    struct dgl_str rest = dgl_str_of(fault->notes), line;
    while (rest.len && dgl_str_split(&rest, '\n', &line))
        dgl_notice(c->j->dev->log, "%.*s", (int)line.len, line.p);
    return tell(c, &verdict);
}

enum dgl_status dgl_kernels_check(struct dgl_device *device,
                                  const struct dgl_kernels_check_params *params)
{
    struct dgl_kernels_check_params p;
    if (!device || !DGL_TAKE(device->log, dgl_kernels_check_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    params = &p;
    struct judging j = {
        .dev = device, .progress_cb = params->progress_cb, .progress_priv = params->progress_priv};
    struct checking checking = {.j = &j, .params = params};
    enum dgl_status status;
    TRY(judging_begin(&j, params->kernels, params->quick ? KERNEL_JUDGE_QUICK : KERNEL_JUDGE_FULL));
    for (size_t i = 0; i < kernel_set_count(j.set); i++)
        j.total += !params->overrides_only || is_override(j.set, kernel_set_at(j.set, i));
    j.total += kernel_set_num_faults(j.set);
    for (size_t i = 0; i < kernel_set_num_faults(j.set); i++)
        if (!tell_fault(&checking, kernel_set_fault_at(j.set, i)))
            TRY(DGL_ERR_CANCELLED);
    for (size_t i = 0; i < kernel_set_num_libs(j.set); i++)
        j.total += is_idle_lib(j.set, kernel_set_lib_at(j.set, i));
    for (size_t i = 0; i < kernel_set_count(j.set); i++) {
        const struct kernel *kernel = kernel_set_at(j.set, i);
        struct kernel_verdict verdict;
        if (params->overrides_only && !is_override(j.set, kernel))
            continue;
        TRY(kernel_judge_kernel(j.judge, kernel->name, &verdict));
        kernel_judge_forget(j.judge);
        const struct dgl_kernel_info info = kernel_info(kernel);
        const struct dgl_kernel_verdict told = verdict_of(&verdict, &info);
        if (!tell(&checking, &told))
            TRY(DGL_ERR_CANCELLED);
    }
    TRY(kernel_set_overrides(device->log, j.set, tell_idle_lib, &checking));
    if (checking.cancelled)
        TRY(DGL_ERR_CANCELLED);
done:
    judging_end(&j);
    return status;
}

/* One request of a kernel: checked, then timed. */
static enum dgl_status bench_one(struct judging *j, const struct dgl_kernels_bench_params *params,
                                 const struct kernel *kernel, const char *weight, double copy_gbps)
{
    struct kernel_shape *shape = dgl_new(struct kernel_shape);
    struct kernel_verdict verdict = {.kind = KERNEL_SKIPPED}, timed = {0};
    struct kernel_timing timing = {0};
    struct dgl_buf request = {0};
    char why[192];
    bool fits;
    if (!shape)
        return dgl_fail_memory(j->dev->log, kernel->name, sizeof(*shape));
    enum dgl_status status;
    TRY(kernel_shape_fit(j->judge, kernel, params->shape, weight, shape, &fits, why));
    kernel_case_describe(&shape->c, &request);
    if (fits) {
        const struct kernel_subject subject = {.request = &shape->c.request,
                                               .choice = &shape->choice};
        shape->load.dispatches = params->dispatches;
        status = kernel_judge_use(j->judge, &subject, &verdict);
        if (status == DGL_OK && verdict.kind == KERNEL_PASSED)
            status = kernel_judge_time(j->judge, &subject, &shape->load, &timing, &timed);
        if (status == DGL_OK && timed.kind != KERNEL_PASSED)
            verdict = timed;
    } else if (shape->choice.fault.path) {
        kernel_judge_fault(&verdict, kernel, &shape->choice.fault, why);
    } else {
        snprintf(verdict.text, sizeof(verdict.text), "%s: %s", kernel->name, why);
    }
    if (status == DGL_OK && request.failed)
        status = dgl_fail_memory(j->dev->log, kernel->name, request.len);
    if (status == DGL_OK) {
        const struct dgl_kernel_info info = kernel_info(kernel);
        struct dgl_kernel_time time = {.verdict = verdict_of(&verdict, &info),
                                       .request = request.p,
                                       .us = timing.us,
                                       .best_us = timing.best_us,
                                       .gpu_clock = timing.gpu_clock,
                                       .alone_us = timing.alone_us,
                                       .bytes = timing.bytes,
                                       .flops = timing.flops,
                                       .copy_gbps = copy_gbps};
        if (timing.us > 0 && copy_gbps > 0)
            time.copy_share = (double)timing.bytes * 1e-3 / timing.us / copy_gbps;
        if (params->cb && !params->cb(params->priv, &time))
            status = DGL_ERR_CANCELLED;
    }
done:
    dgl_buf_finish(&request);
    free(shape);
    return status;
}

/* NULL after an error line. */
static const struct kernel *find_kernel(const struct dgl_log *log, const struct kernel_set *set,
                                        const char *name)
{
    const struct kernel *kernel = kernel_set_find(set, name ? name : "");
    if (!kernel)
        dgl_fail(log, DGL_ERR_INVALID_ARG,
                 "no kernel is called '%s': `dopplergl kernels list` has the names",
                 DGL_PRINTABLE(name ? name : ""));
    return kernel;
}

enum dgl_status dgl_kernels_check_shape(const struct dgl_log *log,
                                        const struct dgl_kernels *kernels, const char *name,
                                        const char *shape)
{
    if (!kernels)
        return dgl_fail_null(log, __func__);
    const struct kernel *kernel = find_kernel(log, kernels->set, name);
    return kernel ? kernel_shape_check(log, kernel, shape) : DGL_ERR_INVALID_ARG;
}

enum dgl_status dgl_kernels_bench(struct dgl_device *device,
                                  const struct dgl_kernels_bench_params *params)
{
    struct dgl_kernels_bench_params p;
    if (!device || !DGL_TAKE(device->log, dgl_kernels_bench_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    params = &p;
    struct judging j = {.dev = device,
                        .progress_cb = params->progress_cb,
                        .progress_priv = params->progress_priv,
                        .total = 1};
    const struct kernel *kernel = NULL;
    double copy_gbps = 0;
    enum dgl_status status;
    TRY(judging_begin(&j, params->kernels, KERNEL_JUDGE_QUICK));
    kernel = find_kernel(device->log, j.set, params->name);
    TRY(kernel ? DGL_OK : DGL_ERR_INVALID_ARG);
    if (!go_on(&j))
        TRY(DGL_ERR_CANCELLED);
    TRY(profile_copy(device, j.set, &copy_gbps));
    const bool given = kernel_shape_has(params->shape, "weight");
    j.total = 0;
    while (!given && kernel_shape_weight(kernel, (size_t)j.total))
        j.total++;
    j.total += j.total == 0;
    for (; j.done < j.total; j.done++)
        TRY(bench_one(&j, params, kernel,
                      j.total > 1 ? kernel_shape_weight(kernel, (size_t)j.done) : NULL, copy_gbps));
    if (!go_on(&j))
        TRY(DGL_ERR_CANCELLED);
done:
    judging_end(&j);
    return status;
}
