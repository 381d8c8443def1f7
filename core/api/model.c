/* Public functions of models. */
#include "core/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/sized.h"
#include "core/seq/sampling.h"
#include "core/text/constraint.h"
#include "kernels/step.h"

enum dgl_status dgl_model_load(struct dgl_device *dev, const struct dgl_model_params *params,
                               struct dgl_model **out)
{
    struct dgl_model_params p;
    struct gl_saved saved = {0};
    if (!out)
        return dgl_fail_no_out(dev ? dev->log : NULL, "dgl_model_load");
    *out = NULL;
    if (!dev || !DGL_TAKE(dev->log, dgl_model_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status = device_enter(dev, &saved);
    if (status != DGL_OK)
        return status;
    struct dgl_model *m = dgl_new(struct dgl_model);
    if (!m)
        TRY(dgl_fail_memory(dev->log, "model", sizeof(*m)));
    status = model_load(m, dev, &p);
    if (status == DGL_OK && !(m->constraints = constraint_set_create()))
        status = dgl_fail_memory(dev->log, "constraints", sizeof(*m->constraints));
    if (status == DGL_OK)
        *out = m;
    else
        model_destroy(m);
done:
    device_leave(dev, &saved);
    return status;
}

void dgl_model_destroy(struct dgl_model **model)
{
    struct dgl_model *m = model ? *model : NULL;
    if (!m)
        return;
    *model = NULL;
    struct dgl_device *dev = m->shard->dev;
    struct gl_saved saved = {0};
    /* A lost device cannot be entered; its objects are gone and destroying them is harmless. */
    bool entered = gl_enter_to_destroy(dev->gl, &saved);
    constraint_set_destroy(&m->constraints);
    model_destroy(m);
    if (entered)
        gl_leave(dev->gl, &saved);
}

const struct dgl_model_info *dgl_model_get_info(const struct dgl_model *model)
{
    if (!model)
        return NULL;
    return &model->info;
}

const struct dgl_tokenizer *dgl_model_tokenizer(const struct dgl_model *model)
{
    if (!model)
        return NULL;
    return model->tok;
}

const char *dgl_model_generation_config(const struct dgl_model *model, size_t *len)
{
    if (len)
        *len = model ? model->file->generation_config_len : 0;
    if (!model)
        return NULL;
    return model->file->generation_config_json;
}

enum dgl_status dgl_model_sampling(const struct dgl_model *model, struct dgl_sampling *sampling)
{
    if (!model || !sampling)
        return DGL_ERR_INVALID_ARG;
    const struct dgl_log *log = model->log;
    const struct dgl_model_file *file = model->file;
    if (!file->generation_config_json)
        return DGL_OK;
    struct dgl_buf name = {0};
    dgl_buf_printf(&name, "%s%s", model->info.path,
                   file->format == MODEL_GGUF ? " general.sampling.*" : "/generation_config.json");
    if (name.failed)
        return dgl_fail_memory(log, "path", strlen(model->info.path));
    enum dgl_status status = sampling_read_config(log, name.p, file->generation_config_json,
                                                  file->generation_config_len, sampling);
    dgl_buf_finish(&name);
    return status;
}

enum dgl_status dgl_model_set_kernels(struct dgl_model *model, const struct dgl_kernels *kernels)
{
    if (!model)
        return DGL_ERR_INVALID_ARG;
    struct gl_saved saved = {0};
    enum dgl_status status = model_enter(model, &saved);
    if (status == DGL_OK) {
        status = model_set_kernels(model, kernels, NULL);
        device_leave(model->shard->dev, &saved);
    }
    return status;
}

enum dgl_status dgl_model_prepare_kernels(struct dgl_model *model,
                                          const struct dgl_kernels *kernels, bool *ready)
{
    if (ready)
        *ready = false;
    if (!model || !ready)
        return DGL_ERR_INVALID_ARG;
    struct gl_saved saved = {0};
    enum dgl_status status = model_enter(model, &saved);
    if (status == DGL_OK) {
        status = model_set_kernels(model, kernels, ready);
        device_leave(model->shard->dev, &saved);
    }
    return status;
}

enum dgl_status dgl_model_rebuild(struct dgl_model *model, const struct dgl_rebuild_params *params)
{
    struct dgl_rebuild_params p;
    if (!model || !DGL_TAKE(model->log, dgl_rebuild_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    return model_rebuild(model, &p);
}

enum dgl_status dgl_model_executor(const struct dgl_model *model, struct dgl_executor_info *out)
{
    struct dgl_executor_info info;
    if (!DGL_OPEN(model ? model->log : NULL, dgl_executor_info, out, &info) || !model)
        return DGL_ERR_INVALID_ARG;
    engine_executor(model->shard->engine, &info);
    DGL_CLOSE(out, &info);
    return DGL_OK;
}

void dgl_model_plan_iterate(const struct dgl_model *model,
                            bool (*cb)(void *priv, const struct dgl_plan_step *step), void *priv)
{
    if (!model || !cb)
        return;
    plan_iterate(&model->shard->engine->plan, cb, priv);
}

enum dgl_status dgl_model_plan_batch(struct dgl_model *model, int32_t sequences,
                                     bool (*cb)(void *priv, const struct dgl_plan_step *step),
                                     void *priv)
{
    if (!model || !cb)
        return DGL_ERR_INVALID_ARG;
    const struct dgl_log *log = model->log;
    struct plan *plan = &model->shard->engine->plan;
    if (sequences < 1 || sequences > DGL_STEP_SEQS)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "a pass over %d sequences was asked for: 1 to %d are possible", sequences,
                        DGL_STEP_SEQS);
    enum dgl_status status = plan_add_batch(plan);
    if (status != DGL_OK)
        return status;
    const int32_t fit = plan_batch_slots(plan, model->info.context, sequences);
    if (sequences > 1 && plan->one_row)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s (%s) serves one row of a pass alone: each sequence decodes by passes "
                        "of its own",
                        plan->one_row->name, plan->one_row->origin);
    if (fit < sequences)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "a pass over %d sequences was asked for: the storage bindings of %s hold "
                        "what %d have in one",
                        sequences, model->shard->dev->info.renderer, fit);
    plan_iterate_batch(plan, sequences, cb, priv);
    return DGL_OK;
}

/* Passes kernels on as the public sees them. */
struct alternatives {
    bool (*cb)(void *priv, const struct dgl_plan_alternative *alternative);
    void *priv;
};

static bool pass_alternative(void *priv, const struct kernel_alternative *a)
{
    const struct alternatives *to = priv;
    const struct dgl_kernel_info info = kernel_info(a->kernel);
    return to->cb(to->priv, &(struct dgl_plan_alternative){.kernel = &info,
                                                           .serves = a->serves,
                                                           .runs = a->runs,
                                                           .prefer = a->rank,
                                                           .why = a->why});
}

void dgl_plan_alternatives(const struct dgl_model *model, const struct dgl_plan_use *use,
                           bool (*cb)(void *priv, const struct dgl_plan_alternative *alternative),
                           void *priv)
{
    if (!model || !use || !cb)
        return;
    const struct kernel_use *u = (const struct kernel_use *)use;
    const struct plan_device *device = &model->shard->dev->plan;
    struct alternatives to = {cb, priv};
    kernel_alternatives(shard_kernels(model->shard), &u->request, device->properties,
                        device->num_properties, &u->choice, pass_alternative, &to);
}

void dgl_plan_tunables(const struct dgl_plan_use *use,
                       bool (*cb)(void *priv, const struct dgl_plan_tunable *tunable), void *priv)
{
    if (!use || !cb)
        return;
    const struct kernel_choice *choice = &((const struct kernel_use *)use)->choice;
    for (uint32_t i = 0; i < choice->num_tunes; i++) {
        const struct kernel_var *var = &choice->vars[choice->num_consts + i];
        const struct kernel_rule *rule = choice->tune_rule[i];
        const struct dgl_plan_tunable tunable = {
            .name = var->name, .value = var->value, .origin = rule ? rule->origin : "default"};
        if (!cb(priv, &tunable))
            return;
    }
}

enum dgl_status dgl_plan_source(const struct dgl_model *model, const struct dgl_plan_use *use,
                                char **text, size_t *len)
{
    if (!dgl_array_open(text, len) || !model || !use)
        return DGL_ERR_INVALID_ARG;
    const struct dgl_log *log = model->log;
    struct dgl_buf out = {0};
    enum dgl_status status = kernel_generate(log, &((const struct kernel_use *)use)->choice, &out);
    return dgl_return_text(log, status, "generated GLSL", &out, text, len);
}
