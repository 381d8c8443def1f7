/* Public functions of constraints. */
#include "core/text/constraint.h"

#include "core/base/sized.h"
#include "core/model/model.h"

enum dgl_status dgl_constraint_create(struct dgl_model *model,
                                      const struct dgl_constraint_params *params,
                                      struct dgl_constraint **out)
{
    struct dgl_constraint_params p;
    const struct dgl_log *log = model ? model->log : NULL;
    if (!out)
        return dgl_fail_no_out(log, "dgl_constraint_create");
    *out = NULL;
    if (!model || !DGL_TAKE(log, dgl_constraint_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    const struct dgl_model_info *info = &model->info;
    int32_t end_ids[MODEL_MAX_STOP_IDS];
    for (size_t i = 0; i < info->num_stop_ids; i++)
        end_ids[i] = info->stop_ids[i].id;
    const struct constraint_vocabulary vocabulary = {.tok = model->tok,
                                                     .vocab = info->vocab,
                                                     .end_ids = end_ids,
                                                     .num_end_ids = info->num_stop_ids};
    return constraint_create(model->constraints, p.log ? p.log : log, &vocabulary, &p, out);
}

void dgl_constraint_destroy(struct dgl_constraint **constraint)
{
    if (constraint)
        constraint_unref(constraint);
}
