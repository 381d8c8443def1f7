/* dgl_kernels_check(), dgl_kernels_bench(), dgl_kernels_template(): the judge of kernels for
 * callers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/sized.h"
#include "core/base/stats.h"
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

/* State of a call that times kernels, for all requests. */
struct benching {
    struct judging *j;
    const struct dgl_kernels_bench_params *params;
    const struct kernel *kernel, *against; /* `against` may be NULL */
    double copy_gbps, timer_us;
};

/* The comparison of two kernels. */
struct contest {
    struct kernel_verdict verdict; /* of the other kernel */
    double us, ratio, spread;
    uint32_t rounds;
};

enum { ROUNDS = 5 };

/* Times a kernel without the cost of the timers. */
static enum dgl_status time_one(struct benching *b, const struct kernel_subject *subject,
                                const struct kernel_load *load, struct kernel_timing *timing,
                                struct kernel_verdict *verdict)
{
    /* A dispatch may seem shorter than a timer. Its time must stay above 0, which is no time. */
    const double least = 1e-3;
    struct kernel_verdict timed = {0};
    enum dgl_status status = kernel_judge_time(b->j->judge, subject, load, timing, &timed);
    if (status == DGL_OK && timed.kind != KERNEL_PASSED)
        *verdict = timed;
    if (timing->gpu_clock) {
        timing->us = fmax(timing->us - b->timer_us, least);
        timing->best_us = fmax(timing->best_us - b->timer_us, least);
    }
    return status;
}

/* Times the other kernel on the request of `shape`, in turn with the first one. Changes `timing` to
 * the medians of all rounds. */
static enum dgl_status time_both(struct benching *b, const struct kernel_shape *shape,
                                 struct kernel_timing *timing, struct kernel_verdict *verdict,
                                 struct contest *out)
{
    struct kernel_case c = shape->c;
    struct kernel_choice *choice = dgl_new(struct kernel_choice);
    const struct kernel_subject subject[2] = {
        {.request = &shape->c.request, .choice = &shape->choice},
        {.request = &c.request, .choice = choice}};
    double us[2][ROUNDS], ratios[ROUNDS];
    char why[192];
    enum dgl_status status;
    *out = (struct contest){.verdict.kind = KERNEL_SKIPPED};
    if (!choice)
        return dgl_fail_memory(b->j->dev->log, b->against->name, sizeof(*choice));
    if (!kernel_judge_fit(b->j->judge, b->against, &c, choice, why)) {
        snprintf(out->verdict.text, sizeof(out->verdict.text), "%s: %s", b->against->name,
                 why[0] ? why : "it does not serve this request");
        free(choice);
        return DGL_OK;
    }
    TRY(kernel_judge_use(b->j->judge, &subject[1], &out->verdict));
    for (int round = 0;
         round < ROUNDS && out->verdict.kind == KERNEL_PASSED && verdict->kind == KERNEL_PASSED;
         round++) {
        for (int turn = 0; turn < 2; turn++) {
            const int which = (round + turn) % 2; /* each kernel is the first one in turn */
            struct kernel_timing t;
            if (!go_on(b->j))
                TRY(DGL_ERR_CANCELLED);
            TRY(time_one(b, &subject[which], &shape->load, &t, which ? &out->verdict : verdict));
            us[which][round] = t.us;
            if (which == 0 && t.best_us < timing->best_us)
                timing->best_us = t.best_us;
        }
        ratios[round] = us[1][round] / us[0][round];
        out->rounds++;
    }
    if (out->rounds == ROUNDS && out->verdict.kind == KERNEL_PASSED) {
        dgl_sort_f64(us[0], ROUNDS);
        dgl_sort_f64(us[1], ROUNDS);
        dgl_sort_f64(ratios, ROUNDS);
        timing->us = us[0][ROUNDS / 2];
        out->us = us[1][ROUNDS / 2];
        out->ratio = ratios[ROUNDS / 2];
        out->spread = ratios[ROUNDS - 1] - ratios[0];
    }
done:
    free(choice);
    return status;
}

/* One request of a kernel: checked, then timed. */
static enum dgl_status bench_one(struct benching *b, const char *weight)
{
    struct judging *j = b->j;
    const struct dgl_kernels_bench_params *params = b->params;
    const struct kernel *kernel = b->kernel;
    struct contest contest = {.us = 0};
    struct kernel_shape *shape = dgl_new(struct kernel_shape);
    struct kernel_verdict verdict = {.kind = KERNEL_SKIPPED};
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
            status = time_one(b, &subject, &shape->load, &timing, &verdict);
        if (status == DGL_OK && verdict.kind == KERNEL_PASSED && b->against)
            status = time_both(b, shape, &timing, &verdict, &contest);
    } else if (shape->choice.fault.path) {
        kernel_judge_fault(&verdict, kernel, &shape->choice.fault, why);
    } else {
        snprintf(verdict.text, sizeof(verdict.text), "%s: %s", kernel->name, why);
    }
    if (status == DGL_OK && request.failed)
        status = dgl_fail_memory(j->dev->log, kernel->name, request.len);
    if (status == DGL_OK) {
        const struct dgl_kernel_info info = kernel_info(kernel);
        const struct dgl_kernel_info other =
            b->against ? kernel_info(b->against) : (struct dgl_kernel_info){0};
        const struct dgl_kernel_verdict against = verdict_of(&contest.verdict, &other);
        struct dgl_kernel_time time = {.verdict = verdict_of(&verdict, &info),
                                       .request = request.p,
                                       .us = timing.us,
                                       .best_us = timing.best_us,
                                       .gpu_clock = timing.gpu_clock,
                                       .alone_us = timing.alone_us,
                                       .bytes = timing.bytes,
                                       .flops = timing.flops,
                                       .copy_gbps = b->copy_gbps,
                                       .timer_us = timing.gpu_clock ? b->timer_us : 0,
                                       .against = b->against ? &against : NULL,
                                       .against_us = contest.us,
                                       .ratio = contest.ratio,
                                       .ratio_spread = contest.spread,
                                       .rounds = contest.rounds};
        if (timing.us > 0 && b->copy_gbps > 0)
            time.copy_share = (double)timing.bytes * 1e-3 / timing.us / b->copy_gbps;
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

static enum dgl_status check_same_op(const struct dgl_log *log, const struct kernel *a,
                                     const struct kernel *b)
{
    return strcmp(a->op, b->op) == 0
               ? DGL_OK
               : dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s computes %s, and %s computes %s: only kernels of one operation are "
                          "compared",
                          a->name, a->op, b->name, b->op);
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
    struct benching b = {.j = &j, .params = params};
    uint64_t timer_ns = 0;
    enum dgl_status status;
    TRY(judging_begin(&j, params->kernels, KERNEL_JUDGE_QUICK));
    b.kernel = find_kernel(device->log, j.set, params->name);
    TRY(b.kernel ? DGL_OK : DGL_ERR_INVALID_ARG);
    if (params->against) {
        b.against = find_kernel(device->log, j.set, params->against);
        TRY(b.against ? check_same_op(device->log, b.kernel, b.against) : DGL_ERR_INVALID_ARG);
    }
    if (!go_on(&j))
        TRY(DGL_ERR_CANCELLED);
    TRY(profile_copy(device, j.set, &b.copy_gbps));
    TRY(profile_timer(device, j.set, &timer_ns));
    b.timer_us = (double)timer_ns * 1e-3;
    const bool given = kernel_shape_has(params->shape, "weight");
    j.total = 0;
    while (!given && kernel_shape_weight(b.kernel, (size_t)j.total))
        j.total++;
    j.total += j.total == 0;
    for (; j.done < j.total; j.done++)
        TRY(bench_one(&b, j.total > 1 ? kernel_shape_weight(b.kernel, (size_t)j.done) : NULL));
    if (!go_on(&j))
        TRY(DGL_ERR_CANCELLED);
done:
    judging_end(&j);
    return status;
}

/* ---- templates ------------------------------------------------------------------------------- */

/* Finds the kernel that the device uses for a pattern, on a request of typical size. Sets *out to
 * NULL if no kernel for the pattern can run here. */
static enum dgl_status choose_template(struct judging *j, const char *op, const struct kernel **out)
{
    const struct plan_device *device = &j->dev->plan;
    struct kernel_shape *shape = dgl_new(struct kernel_shape);
    struct kernel_choice *choice = dgl_new(struct kernel_choice);
    enum dgl_status status = DGL_OK;
    *out = NULL;
    if (!shape || !choice)
        TRY(dgl_fail_memory(j->dev->log, "a choice of kernels", sizeof(*shape)));
    for (size_t i = 0; i <= kernel_set_count(j->set) && !*out; i++) {
        /* the default template decides which request is tried first */
        const struct kernel *kernel =
            i ? kernel_set_at(j->set, i - 1) : kernel_template_find(j->set, op);
        struct dgl_buf words = {0};
        char why[192];
        bool fits = false;
        if (kernel && kernel->source == 0 && kernel_is_for(kernel, op, &words) && !words.failed &&
            kernel_shape_check(NULL, kernel, words.p) == DGL_OK)
            status = kernel_shape_fit(j->judge, kernel, words.p, NULL, shape, &fits, why);
        dgl_buf_finish(&words);
        if (status == DGL_OK && fits &&
            kernel_choose(NULL, j->set, &shape->c.request, device->properties,
                          device->num_properties, choice) == DGL_OK &&
            kernel_is_for(choice->kernel, op, NULL))
            *out = choice->kernel;
        TRY(status);
    }
done:
    free(shape);
    free(choice);
    return status;
}

enum dgl_status dgl_kernels_template(const struct dgl_log *log, const struct dgl_kernels *kernels,
                                     struct dgl_device *device, const char *name, const char *op,
                                     char **text, size_t *len)
{
    struct judging j = {.dev = device};
    const struct kernel *from = NULL;
    struct dgl_buf out = {0};
    enum dgl_status status = DGL_OK;
    if (!dgl_array_open(text, len) || !kernels || !name || !op)
        return dgl_fail_null(log, __func__);
    if (device) {
        status = judging_begin(&j, kernels, KERNEL_JUDGE_QUICK);
        if (status == DGL_OK)
            status = choose_template(&j, op, &from);
        judging_end(&j);
    }
    if (status == DGL_OK)
        status = kernel_template(log, kernels->set, name, op, from, &out);
    return dgl_return_text(log, status, "kernel", &out, text, len);
}
