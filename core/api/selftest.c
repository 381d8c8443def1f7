/* dgl_selftest(). */
#include <string.h>

#include "core/base/log.h"
#include "core/base/sized.h"
#include "core/memory/kernel_records.h"
#include "core/plan/plan.h"
#include "core/model/trust.h"

struct selftest {
    const struct dgl_selftest_params *p;
    uint64_t done, total;
    bool wrong; /* a kernel is */
};

static bool go_on(void *priv)
{
    const struct selftest *t = priv;
    return !t->p->progress_cb ||
           t->p->progress_cb(t->p->progress_priv, "kernels", t->done, t->total);
}

enum dgl_status dgl_selftest(struct dgl_device *device, const struct dgl_selftest_params *params)
{
    struct dgl_selftest_params p;
    static const enum dgl_verdict kinds[] = {[KERNEL_PASSED] = DGL_VERDICT_PASSED,
                                             [KERNEL_WRONG] = DGL_VERDICT_FAILED,
                                             [KERNEL_SKIPPED] = DGL_VERDICT_SKIPPED};
    struct selftest t = {.p = &p};
    struct kernel_set *set = NULL;
    struct kernel_judge *judge = NULL;
    struct gl_saved saved = {0};
    if (!device || !DGL_TAKE(device->log, dgl_selftest_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status = kernel_set_create(device->log, NULL, &set);
    if (status == DGL_OK)
        status = device_enter(device, &saved);
    if (status != DGL_OK) {
        kernel_set_destroy(&set);
        return status;
    }
    t.total = t.p->name ? 1 : kernel_set_count(set);
    if (t.p->name && !kernel_set_find(set, t.p->name))
        TRY(dgl_fail(device->log, DGL_ERR_INVALID_ARG, "no kernel is called '%s'", t.p->name));
    kernel_records_forget_wrong(device, t.p->name);
    TRY(kernel_judge_create(
        &(struct kernel_judge_params){.dev = device,
                                      .set = set,
                                      .mode = t.p->quick ? KERNEL_JUDGE_QUICK : KERNEL_JUDGE_FULL,
                                      .go_on = go_on,
                                      .priv = &t},
        &judge));
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        struct kernel_verdict verdict;
        if (t.p->name && strcmp(kernel->name, t.p->name) != 0)
            continue;
        TRY(kernel_judge_kernel(judge, kernel->name, &verdict));
        kernel_judge_forget(judge);
        const bool wrong = trust_is_wrong(&verdict);
        const struct dgl_kernel_info info = kernel_info(kernel);
        const struct dgl_kernel_verdict told = {.kernel = &info,
                                                .verdict = kinds[verdict.kind],
                                                .cases = verdict.cases,
                                                .worst = verdict.worst,
                                                .reason = verdict.text};
        t.wrong |= wrong;
        if (wrong)
            TRY(kernel_records_add_wrong(device, kernel->name));
        t.done++;
        if ((t.p->cb && !t.p->cb(t.p->priv, &told, wrong)) || !go_on(&t))
            TRY(DGL_ERR_CANCELLED);
    }
    kernel_records_store(device);
    if (t.wrong && kernel_records_last(device))
        dgl_notice(device->log, "%s: wrong kernels are not used here from now on",
                   device->info.renderer);
    else if (t.wrong)
        dgl_warn(device->log,
                 "%s: later processes use wrong kernels: no folder keeps what was found",
                 device->info.renderer);
done:
    kernel_judge_destroy(&judge);
    device_leave(device, &saved);
    kernel_set_destroy(&set);
    return status;
}
