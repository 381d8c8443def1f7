/* The public functions about model files: dgl_inspect, dgl_model_file_*, dgl_verify. */
#include "loader/model_file.h"
#include "loader/tokenizer.h"

static enum dgl_status tokenizer_check(const struct dgl_log *log, const struct dgl_model_file *file)
{
    struct dgl_tokenizer *tok = NULL;
    if (!file->tokenizer_json)
        return DGL_OK;
    enum dgl_status st = tokenizer_create(log, "tokenizer.json", file->tokenizer_json,
                                          file->tokenizer_json_len, &tok);
    if (st == DGL_OK)
        st = model_file_check_tokenizer(log, file, tok);
    tokenizer_destroy(&tok);
    return st;
}

enum dgl_status dgl_inspect(const struct dgl_log *log, const char *path,
                            struct dgl_model_file **out)
{
    enum dgl_status st = model_file_open(log, &(struct model_open_params){.path = path}, out);
    if (st == DGL_OK)
        st = tokenizer_check(log, *out);
    if (st != DGL_OK)
        model_file_close(out);
    return st;
}

void dgl_model_file_destroy(struct dgl_model_file **file)
{
    model_file_close(file);
}

const struct dgl_model_info *dgl_model_file_info(const struct dgl_model_file *file)
{
    return &file->info;
}

size_t dgl_model_file_num_tensors(const struct dgl_model_file *file)
{
    return tensor_source_count(file->tensors);
}

void dgl_model_file_tensor(const struct dgl_model_file *file, size_t index,
                           struct dgl_tensor_info *out)
{
    const struct tensor_info *t = tensor_source_at(file->tensors, index);
    *out = (struct dgl_tensor_info){
        .name = t->name,
        .dtype = dgl_dtype_get(t->dtype)->name,
        .role = t->role,
        .layout = t->rank > 1 ? "row" : "",
        .rank = t->rank,
        .bytes = t->bytes,
    };
    for (uint32_t i = 0; i < t->rank; i++)
        out->shape[i] = t->shape[i];
}

const char *dgl_model_file_config(const struct dgl_model_file *file, size_t *len)
{
    *len = file->config_len;
    return file->config;
}

size_t dgl_model_file_num_skipped(const struct dgl_model_file *file)
{
    return file->skipped.count;
}

const char *dgl_model_file_skipped(const struct dgl_model_file *file, size_t index)
{
    return file->skipped.lines[index];
}

enum dgl_status dgl_verify(const struct dgl_log *log, const struct dgl_verify_params *params,
                           struct dgl_verify_result *out)
{
    return model_file_verify(log, params, out);
}
