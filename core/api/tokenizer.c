/* The tokenizer part of core/dopplergl.h. */
#include "loader/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/sized.h"
#include "loader/gguf/gguf_model.h"
#include "loader/gguf/gguf_override.h"
#include "loader/model/model_file.h"
#include "loader/tensor/model_files.h"

#define MAX_JSON_BYTES ((size_t)256 << 20) /* the largest published tokenizer.json has 34 MB */

static enum dgl_status load_file(const struct dgl_log *log, const char *path,
                                 struct dgl_tokenizer **out)
{
    char *json = NULL;
    size_t len = 0;
    enum dgl_status status = dgl_file_slurp(log, path, MAX_JSON_BYTES, &json, &len);
    if (status == DGL_OK)
        status = tokenizer_create(log, path, json, len, out);
    free(json);
    return status;
}

static enum dgl_status load_from_model(const struct dgl_log *log,
                                       const struct dgl_tokenizer_params *p,
                                       struct dgl_tokenizer **out)
{
    const struct model_open_params open = {.path = p->path, .override_kv = p->override_kv};
    struct dgl_model_file *file = NULL;
    enum dgl_status status = model_file_open(log, &open, &file);
    if (status != DGL_OK)
        return status;
    status = model_file_load_tokenizer(log, file, true);
    if (status == DGL_OK) {
        *out = file->tok;
        file->tok = NULL;
    }
    if (status == DGL_OK && !*out)
        status =
            dgl_fail(log, DGL_ERR_INVALID_ARG,
                     "%s: the model has no tokenizer; give it ids, or a tokenizer.json", p->path);
    model_file_close(&file);
    return status;
}

enum dgl_status dgl_tokenizer_open(const struct dgl_log *log,
                                   const struct dgl_tokenizer_params *params,
                                   struct dgl_tokenizer **out)
{
    if (!out)
        return dgl_fail_no_out(log, "dgl_tokenizer_open");
    struct dgl_tokenizer_params p;
    *out = NULL;
    if (!DGL_TAKE(log, dgl_tokenizer_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    params = &p;
    if (!params->path)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "tokenizer: path is NULL, wanted a model or file");
    const char *path = params->path;
    if (!dgl_path_exists(path))
        return load_from_model(log, params, out);
    enum model_format format;
    char *json = NULL;
    enum dgl_status status;
    TRY(model_format_at(log, &blob_files, path, &format));
    if (format == MODEL_GGUF)
        return gguf_tokenizer_load(log, &blob_files, path, params->override_kv, out);
    TRY(gguf_override_refuse(log, params->override_kv, path));
    if (format == MODEL_NOT_FILE)
        return load_file(log, path, out);
    /* The tokenizer.json of a folder that is no pack needs no look at the weights. */
    json = dgl_path_join(path, FILE_TOKENIZER);
    if (!json)
        status = dgl_fail_memory(log, path, strlen(path));
    else if (format != MODEL_RDRR && dgl_path_exists(json))
        status = model_folder_tokenizer(log, &blob_files, path, out);
    else
        status = load_from_model(log, params, out);
done:
    free(json);
    return status;
}

enum dgl_status dgl_tokenizer_load(const struct dgl_log *log, const char *path,
                                   struct dgl_tokenizer **out)
{
    if (!out)
        return dgl_fail_no_out(log, "dgl_tokenizer_load");
    return dgl_tokenizer_open(log, dgl_tokenizer_params(.path = path), out);
}

void dgl_tokenizer_destroy(struct dgl_tokenizer **tok)
{
    if (tok)
        tokenizer_destroy(tok);
}

enum dgl_status dgl_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                           const char *text, size_t len, const struct dgl_encode_params *params,
                           int32_t **ids, size_t *count)
{
    struct dgl_named_log named;
    struct encode_flags flags = {0};
    struct token_ids out = {0};
    struct dgl_encode_params p;
    if (!dgl_array_open(ids, count) || !tok || (!text && len))
        return dgl_fail_null(log, __func__);
    if (!DGL_TAKE(log, dgl_encode_params, params, &p))
        return DGL_ERR_INVALID_ARG;
    dgl_named_log_init(&named, log, p.source);
    flags =
        (struct encode_flags){.add_special = p.add_special, .no_parse_special = p.no_parse_special};
    /* An empty result is an array too. */
    if (!(out.ids = dgl_malloc(sizeof(int32_t))))
        return dgl_fail_memory(&named.log, "ids", sizeof(int32_t));
    out.cap = 1;
    enum dgl_status status =
        tokenizer_encode(&named.log, tok, (struct dgl_str){text, len}, flags, &out);
    if (status != DGL_OK) {
        free(out.ids);
        return status;
    }
    *ids = out.ids;
    *count = out.count;
    return DGL_OK;
}

enum dgl_status dgl_decode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                           const int32_t *ids, size_t count, bool skip_special, char **text,
                           size_t *len)
{
    if (!dgl_array_open(text, len) || !tok || (!ids && count))
        return dgl_fail_null(log, __func__);
    struct dgl_buf out = {0};
    enum dgl_status status = tokenizer_decode(log, tok, ids, count, skip_special, &out);
    return dgl_return_text(log, status, "decoded text", &out, text, len);
}

enum dgl_status dgl_decode_pieces(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                  const int32_t *ids, size_t count, size_t *ends, char **text,
                                  size_t *len)
{
    if (!dgl_array_open(text, len) || !tok || (!ids && count) || (!ends && count))
        return dgl_fail_null(log, __func__);
    struct dgl_buf out = {0};
    struct detokenizer *d = NULL;
    enum dgl_status status;
    TRY(detokenizer_create(log, tok, false, &d));
    for (size_t i = 0; i < count; i++) {
        TRY(detokenizer_push(d, ids[i], &out));
        if (i + 1 == count)
            TRY(detokenizer_flush(d, &out));
        ends[i] = out.len;
    }
done:
    detokenizer_destroy(&d);
    return dgl_return_text(log, status, "decoded text", &out, text, len);
}

enum dgl_status dgl_token_bytes(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                int32_t id, char **bytes, size_t *len)
{
    struct dgl_buf out = {0};
    if (!dgl_array_open(bytes, len) || !tok)
        return dgl_fail_null(log, __func__);
    enum dgl_status status = tokenizer_token_bytes(log, tok, id, &out);
    return dgl_return_text(log, status, "bytes of a token", &out, bytes, len);
}

const char *dgl_token_spelling(const struct dgl_tokenizer *tok, int32_t id, size_t *len)
{
    struct dgl_str text = {0};
    bool found = tok && tokenizer_spelling(tok, id, &text);
    if (len)
        *len = text.len;
    return found ? text.p : NULL;
}

int32_t dgl_tokenizer_max_id(const struct dgl_tokenizer *tok)
{
    if (!tok)
        return -1;
    return tokenizer_max_id(tok);
}

void dgl_free(void *p)
{
    free(p);
}
