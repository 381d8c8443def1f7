/* The public functions about model files: dgl_inspect, dgl_model_file_*, dgl_verify. */
#include "loader/model/model_file.h"

#include <stdlib.h>

#include "core/base/cache_dir.h"
#include "core/base/log.h"
#include "core/base/sized.h"
#include "loader/gguf/gguf_override.h"
#include "loader/model/model_list.h"
#include "loader/model/model_path.h"
#include "loader/model/synthetic_model.h"

enum dgl_status dgl_model_find(const struct dgl_log *log, const char *path)
{
    char *found = NULL, *name = NULL;
    if (!path || !path[0])
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "no model path was given");
    if (synthetic_is_path(path))
        return DGL_OK;
    enum dgl_status status = model_path_resolve(log, &blob_files, path, &found, &name);
    free(found);
    free(name);
    return status;
}

enum dgl_status dgl_override_kv_check(const struct dgl_log *log, const char *const *override_kv)
{
    return gguf_override_check(log, override_kv);
}

enum dgl_status dgl_models_iterate(const struct dgl_log *log,
                                   const struct dgl_models_params *params,
                                   bool (*cb)(void *priv, const struct dgl_model_entry *entry),
                                   void *priv)
{
    struct dgl_models_params p;
    if (!cb)
        return dgl_fail_null(log, __func__);
    if (!DGL_TAKE(log, dgl_models_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    return model_list(log, &p, cb, priv);
}

/* Everything that can be checked without a device. The file keeps its tokenizer. */
static enum dgl_status open_checked(const struct dgl_log *log,
                                    const struct model_open_params *params,
                                    struct dgl_model_file **out)
{
    enum dgl_status status = model_file_open(log, params, out);
    if (status == DGL_OK)
        status = model_file_load_tokenizer(log, *out, false);
    if (status != DGL_OK)
        model_file_close(out);
    return status;
}

enum dgl_status dgl_inspect(const struct dgl_log *log, const struct dgl_inspect_params *params,
                            struct dgl_model_file **out)
{
    if (!out)
        return dgl_fail_no_out(log, "dgl_inspect");
    *out = NULL;
    struct dgl_inspect_params p;
    if (!DGL_TAKE(log, dgl_inspect_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    params = &p;
    if (!params->path || !params->path[0])
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "no model path was given");
    enum dgl_status status = open_checked(
        log,
        &(struct model_open_params){
            .path = params->path, .source = params->source, .override_kv = params->override_kv},
        out);
    if (status != DGL_OK)
        return status;
    /* A model works without a chat template. dgl_template_load() reports a broken template. */
    chat_source_init(&(*out)->chat);
    if (chat_source_load(NULL, params->source, params->path, params->override_kv, &(*out)->chat) !=
        DGL_OK)
        chat_source_finish(&(*out)->chat);
    return DGL_OK;
}

void dgl_model_file_destroy(struct dgl_model_file **file)
{
    if (file)
        model_file_close(file);
}

const struct dgl_model_info *dgl_model_file_info(const struct dgl_model_file *file)
{
    if (!file)
        return NULL;
    return &file->info;
}

size_t dgl_model_file_num_tensors(const struct dgl_model_file *file)
{
    if (!file)
        return 0;
    return tensor_source_count(file->tensors);
}

enum dgl_status dgl_model_file_tensor(const struct dgl_model_file *file, size_t index,
                                      struct dgl_tensor_info *out)
{
    struct dgl_tensor_info info;
    if (!DGL_OPEN(NULL, dgl_tensor_info, out, &info) || !file ||
        index >= tensor_source_count(file->tensors))
        return DGL_ERR_INVALID_ARG;
    const struct tensor_info *t = tensor_source_at(file->tensors, index);
    info = (struct dgl_tensor_info){
        .name = t->name,
        .dtype = dgl_dtype_get(t->dtype)->name,
        .role = t->role,
        .layout = t->rank > 1 ? "row" : "",
        .rank = t->rank,
        .bytes = t->bytes,
    };
    for (uint32_t i = 0; i < t->rank; i++)
        info.shape[i] = t->shape[i];
    DGL_CLOSE(out, &info);
    return DGL_OK;
}

const struct dgl_tokenizer *dgl_model_file_tokenizer(const struct dgl_model_file *file)
{
    if (!file)
        return NULL;
    return file->tok;
}

size_t dgl_model_file_num_templates(const struct dgl_model_file *file)
{
    if (!file)
        return 0;
    return file->chat.count;
}

enum dgl_status dgl_model_file_template(const struct dgl_model_file *file, size_t index,
                                        struct dgl_template_info *out)
{
    struct dgl_template_info info;
    if (!DGL_OPEN(NULL, dgl_template_info, out, &info) || !file || index >= file->chat.count)
        return DGL_ERR_INVALID_ARG;
    info.name = file->chat.templates[index].name.p;
    info.origin = file->chat.templates[index].origin.p;
    DGL_CLOSE(out, &info);
    return DGL_OK;
}

const char *dgl_model_file_config(const struct dgl_model_file *file, size_t *len)
{
    if (len)
        *len = file ? file->config_len : 0;
    return file ? file->config : NULL;
}

size_t dgl_model_file_num_skipped(const struct dgl_model_file *file)
{
    if (!file)
        return 0;
    return file->skipped.count;
}

const char *dgl_model_file_skipped(const struct dgl_model_file *file, size_t index)
{
    if (!file || index >= file->skipped.count)
        return NULL;
    return file->skipped.lines[index];
}

static enum dgl_status check_has_hashes(const struct dgl_log *log, const struct dgl_source *source,
                                        const char *path)
{
    enum model_format format = MODEL_HF;
    enum dgl_status status = model_format_find(log, source, path, &format);
    if (status != DGL_OK || format == MODEL_RDRR)
        return status;
    return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                    "%s: a %s carries no hashes; supported: packs, as `dopplergl convert` writes "
                    "them",
                    path, format == MODEL_GGUF ? "GGUF file" : "Hugging Face folder");
}

/* The manifest has no hash: that it still describes a model shows in opening it. */
enum dgl_status dgl_verify(const struct dgl_log *log, const struct dgl_verify_params *params,
                           struct dgl_verify_result *out)
{
    struct dgl_verify_params p;
    struct dgl_verify_result result;
    if (!DGL_OPEN(log, dgl_verify_result, out, &result) ||
        !DGL_TAKE(log, dgl_verify_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    char *path = NULL, *name = NULL;
    struct dgl_model_file *file = NULL;
    params = &p;
    const struct dgl_source *source = NULL;
    char *cache =
        params->cache_dir && !params->cache_dir[0] ? NULL : dgl_cache_path(params->cache_dir);
    enum dgl_status status = blob_source_choose(log, params->source, &source);
    if (status == DGL_OK)
        status = params->path && params->path[0]
                     ? model_path_resolve(log, source, params->path, &path, &name)
                     : dgl_fail(log, DGL_ERR_INVALID_ARG, "no model path was given");
    if (status == DGL_OK)
        status = check_has_hashes(log, source, path);
    if (status == DGL_OK)
        status = open_checked(log,
                              &(struct model_open_params){.path = path,
                                                          .source = source,
                                                          .verify = true,
                                                          .hash_cache = cache,
                                                          .verified = &result,
                                                          .progress_cb = params->progress_cb,
                                                          .progress_priv = params->progress_priv},
                              &file);
    model_file_close(&file);
    free(cache);
    free(path);
    free(name);
    DGL_CLOSE(out, &result);
    return status;
}
