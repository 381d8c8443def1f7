/* dgl_model_file_estimate(): the plan of a model without a device. */
#include "core/base/sized.h"
#include "core/plan/model_support.h"
#include "core/plan/plan.h"
#include "core/seq/batch.h"
#include "loader/model/model_file.h"

enum dgl_status dgl_model_file_estimate(const struct dgl_log *log,
                                        const struct dgl_model_file *file,
                                        const struct dgl_estimate_params *params,
                                        struct dgl_memory *out)
{
    struct dgl_estimate_params all;
    struct dgl_memory memory;
    if (!DGL_OPEN(log, dgl_memory, out, &memory))
        return DGL_ERR_INVALID_ARG;
    if (!file)
        return dgl_fail_null(log, __func__);
    if (!DGL_TAKE(log, dgl_estimate_params, params, &all))
        return DGL_ERR_INVALID_ARG;
    const struct dgl_estimate_params *const p = &all;
    const struct model_desc *desc = &file->desc;
    int32_t context = p->context ? p->context : desc->context_max;
    struct plan_device device;
    struct kernel_set *base = NULL, *set = NULL;
    struct model_weights weights = {0};
    struct plan plan = {0};
    if (context < 0 || context > desc->context_max)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "a context of %d tokens was asked for, %s has at most %d", context,
                        file->path, desc->context_max);
    if ((unsigned)p->kv_type > DGL_KV_F32)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "kv_type is %d: it is 0 to %d", (int)p->kv_type,
                        DGL_KV_F32);
    if (p->sequences < 0 || p->sequences > BATCH_MAX_SEQUENCES)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "sequences is %d: 1 to %d, 0 = one session",
                        p->sequences, BATCH_MAX_SEQUENCES);
    plan_device_init_typical(&device, log);
    enum dgl_status status;
    TRY(model_check_supported(log, file->path, desc));
    TRY(kernel_set_create(log, NULL, &base));
    TRY(kernel_set_with_manifest(
        log, base,
        &(const struct kernel_manifest_hints){file->path, file->hint_defaults, file->hint_pinned},
        &set));
    const struct plan_params planned = {.device = &device,
                                        .set = set,
                                        .desc = desc,
                                        .tensors = file->tensors,
                                        .kv_type = p->kv_type};
    TRY(weights_place(&weights, &planned));
    TRY(plan_init(&plan, &planned, &weights));
    plan_estimate(&plan,
                  &(const struct plan_batch){.context = context,
                                             .sequences = p->sequences ? p->sequences : 1,
                                             .rows = plan_default_rows(&plan),
                                             .groups = true},
                  p->available_bytes, &memory);
    DGL_CLOSE(out, &memory);
done:
    plan_finish(&plan);
    weights_finish(&weights);
    kernel_set_destroy(&set);
    kernel_set_destroy(&base);
    return status;
}
