/* Exports a model as GGUF: plan types, write descriptions, stream data. */
#include "loader/convert/gguf_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "loader/gguf/gguf_model.h"
#include "loader/gguf/gguf_split.h"

struct export_job {
    const struct dgl_log *log;
    const struct dgl_convert_params *params;
    const struct convert_recipe *recipe;
    const struct gguf_arch *arch;
    /* The model with the tensors of the GGUF file; other fields borrow from the caller. */
    struct dgl_model_file view;
    bool *none_skipped;
    struct convert_plan plan;
    struct gguf_writer w;
};

/* With --force, only a whole model is replaced. It may be the input, which stays open until the new
 * file is renamed over it. One file of a split model is refused because the other files would be
 * useless without it. */
static enum dgl_status check_out(const struct export_job *job)
{
    const char *path = job->params->out, *why = NULL;
    if (dgl_path_is_dir(path))
        why = "is a folder; choose a file name";
    else if (!dgl_path_exists(path))
        return DGL_OK;
    else if (!job->params->force)
        why = "exists already; choose another name, or --force to replace it";
    else if (!gguf_has_magic(&blob_files, path))
        why = "exists and is not a GGUF file (it does not begin with " GGUF_MAGIC
              "): not replaced, remove it first";
    else if (gguf_is_split_name(path))
        why = "exists and is one file of a split GGUF model: not replaced, remove the model first "
              "or choose another name";
    return why ? dgl_fail(job->log, DGL_ERR_INVALID_ARG, "%s %s", path, why) : DGL_OK;
}

static long find_layer(const struct export_job *job, int32_t layer, const char *rest)
{
    char name[GGUF_MAX_NAME_LEN];
    snprintf(name, sizeof(name), "blk.%" PRId32 ".%s", layer, rest);
    return tensor_source_find(job->view.tensors, name);
}

/* Recipes use tensor indices of the layers, so the view needs its own. */
static enum dgl_status view_init(struct export_job *job, const struct dgl_model_file *model)
{
    job->view = *model;
    job->view.tensors = NULL;
    job->view.desc.layer = dgl_new_array(struct layer_desc, (size_t)model->desc.layers);
    if (!job->view.desc.layer)
        return dgl_fail_memory(job->log, "layer list", (uint64_t)model->desc.layers);
    enum dgl_status status = gguf_export_view(job->log, model, job->arch, &job->view.tensors);
    if (status != DGL_OK)
        return status;
    for (int32_t i = 0; i < model->desc.layers; i++) {
        job->view.desc.layer[i] = model->desc.layer[i];
        job->view.desc.layer[i].v = find_layer(job, i, "attn_v.weight");
        job->view.desc.layer[i].down = find_layer(job, i, "ffn_down.weight");
    }
    job->none_skipped = dgl_new_array(bool, tensor_source_count(job->view.tensors));
    if (!job->none_skipped)
        return dgl_fail_memory(job->log, "tensor list", tensor_source_count(job->view.tensors));
    job->view.skipped = (struct model_skipped){.of_tensor = job->none_skipped};
    return DGL_OK;
}

/* The type that the quantizer of llama.cpp chooses for rows that are not whole blocks. */
static enum dgl_dtype fitting_type(enum dgl_dtype type, uint64_t cols)
{
    static const struct {
        enum dgl_dtype type, instead;
    } fallbacks[] = {{DGL_Q2_K, DGL_IQ4_NL},   {DGL_Q3_K, DGL_IQ4_NL}, {DGL_Q4_K, DGL_Q5_0},
                     {DGL_IQ4_XS, DGL_IQ4_NL}, {DGL_Q5_K, DGL_Q5_1},   {DGL_Q6_K, DGL_Q8_0}};
    if (cols % dgl_dtype_get(type)->block == 0)
        return type;
    for (size_t i = 0; i < sizeof(fallbacks) / sizeof(fallbacks[0]); i++)
        if (fallbacks[i].type == type && cols % dgl_dtype_get(fallbacks[i].instead)->block == 0)
            return fallbacks[i].instead;
    return DGL_F16;
}

/* Vectors and routers are f32 because ggml requires it. One warning names the first tensor whose
 * type cannot be stored, because a model can have hundreds of them. */
static enum dgl_status fit_types(struct export_job *job)
{
    static const char *const weights[] = {"matmul", "expert", "embedding", "lm_head"};
    enum dgl_status status = DGL_OK;
    const struct convert_item *first = NULL;
    size_t others = 0;
    enum dgl_dtype wanted = DGL_F32;
    for (size_t i = 0; i < job->plan.count; i++) {
        struct convert_item *item = &job->plan.items[i];
        enum dgl_dtype type = DGL_F32;
        for (size_t j = 0; j < sizeof(weights) / sizeof(weights[0]); j++) {
            if (item->from->rank >= 2 && strcmp(item->from->role, weights[j]) == 0)
                type = fitting_type(item->type, item->cols);
        }
        if (dgl_dtype_get(item->type)->block > 1 && type != item->type) {
            others += first != NULL;
            wanted = first ? wanted : item->type;
            first = first ? first : item;
        }
        item->type = type;
        TRY(convert_item_size(job->log, item));
    }
    if (first)
        dgl_warn(job->log,
                 "%s: rows of %" PRIu64 " values are not whole blocks of %s, which GGUF cannot "
                 "hold: it becomes %s (%zu more tensors change type for this reason)",
                 DGL_PRINTABLE(first->from->name), first->cols, dgl_dtype_get(wanted)->name,
                 dgl_dtype_get(first->type)->name, others);
done:
    return status;
}

/* Number of the mix in general.file_type of llama.cpp. */
static uint32_t file_type(enum dgl_dtype headline)
{
    static const struct {
        enum dgl_dtype type;
        uint32_t number;
    } numbers[] = {{DGL_F32, 0},    {DGL_F16, 1},      {DGL_BF16, 32},    {DGL_Q4_0, 2},
                   {DGL_Q8_0, 7},   {DGL_Q4_K, 15},    {DGL_Q5_K, 17},    {DGL_Q6_K, 18},
                   {DGL_Q4_1, 3},   {DGL_Q5_0, 8},     {DGL_Q5_1, 9},     {DGL_Q2_K, 10},
                   {DGL_Q3_K, 12},  {DGL_MXFP4, 38},   {DGL_IQ4_NL, 25},  {DGL_IQ4_XS, 30},
                   {DGL_IQ1_S, 24}, {DGL_IQ1_M, 31},   {DGL_IQ2_XXS, 19}, {DGL_IQ2_XS, 20},
                   {DGL_IQ2_S, 28}, {DGL_IQ3_XXS, 23}, {DGL_IQ3_S, 26},   {DGL_TQ1_0, 36},
                   {DGL_TQ2_0, 37}, {DGL_Q1_0, 40},    {DGL_Q2_0, 41}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].type == headline)
            return numbers[i].number;
    }
    return 0;
}

static enum dgl_status describe(struct export_job *job, const struct dgl_model_file *model)
{
    enum dgl_status status;
    TRY(gguf_export_keys(job->log, model, job->arch, &job->w));
    gguf_put_u32(&job->w, "general.file_type", file_type(convert_plan_headline(&job->plan)));
    TRY(gguf_export_vocab(job->log, model, &job->w));
    for (size_t i = 0; i < job->plan.count; i++) {
        const struct convert_item *item = &job->plan.items[i];
        struct tensor_info info = *item->from;
        info.dtype = item->type;
        info.bytes = item->size;
        TRY(gguf_put_tensor(job->log, &job->w, &info));
    }
done:
    return status;
}

static enum dgl_status sink_begin(void *priv, uint64_t *offset)
{
    struct gguf_writer *w = priv;
    enum dgl_status status = gguf_writer_align(w);
    *offset = w->written;
    return status;
}

static enum dgl_status sink_write(void *priv, const void *bytes, size_t len)
{
    return gguf_writer_data(priv, bytes, len);
}

enum dgl_status gguf_export(const struct dgl_log *log, const struct dgl_convert_params *params,
                            const struct convert_recipe *recipe, const struct dgl_model_file *model,
                            struct dgl_convert_result *out)
{
    struct export_job job = {.log = log, .params = params, .recipe = recipe};
    enum dgl_status status;
    TRY(check_out(&job));
    job.arch = gguf_arch_of_model_type(model->desc.family);
    if (!job.arch)
        TRY(dgl_fail(
            log, DGL_ERR_UNSUPPORTED,
            "%s: models of family %s cannot be written as GGUF; supported: " GGUF_ARCH_NAMES,
            model->path, model->desc.family));
    TRY(view_init(&job, model));
    TRY(convert_plan_init(log, &job.view, recipe, &job.plan));
    TRY(convert_plan_check(log, &job.plan, params));
    TRY(fit_types(&job));
    TRY(convert_plan_check_fast(log, &job.plan, params));
    TRY(describe(&job, model));
    TRY(gguf_export_check(log, params->out, model, job.arch, &job.w));
    struct convert_work work = {.log = log,
                                .model = &job.view,
                                .threads = params->threads,
                                .fast = recipe->fast,
                                .sink = {sink_begin, sink_write, &job.w}};
    struct convert_progress progress = {
        .cb = params->progress_cb, .priv = params->progress_priv, .total = job.plan.bytes_in};
    TRY(gguf_writer_begin(log, &job.w, params->out));
    for (size_t i = 0; i < job.plan.count; i++)
        TRY(convert_tensor(&work, &job.plan.items[i], &progress));
    TRY(gguf_writer_align(&job.w));
    TRY(gguf_writer_commit(&job.w));
    *out = (struct dgl_convert_result){
        .tensors = job.plan.count, .bytes_in = job.plan.bytes_in, .bytes_out = job.w.written};
done:
    gguf_writer_finish(&job.w);
    convert_plan_finish(&job.plan);
    tensor_source_destroy(&job.view.tensors);
    free(job.view.desc.layer);
    free(job.none_skipped);
    return status;
}
