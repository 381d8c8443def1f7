/* Opening a GGUF model: the order of the steps. */
#include "loader/gguf/gguf_model.h"

#include <stdlib.h>
#include <string.h>

#include "loader/gguf/gguf_config.h"
#include "loader/gguf/gguf_split.h"
#include "loader/gguf/gguf_view.h"
#include "loader/gguf/gguf_vocab.h"
#include "loader/tokenizer/tokenizer_json.h"

#define FILE_TOKENIZER        "tokenizer.json"
#define FILE_TOKENIZER_CONFIG "tokenizer_config.json"

static enum dgl_status texts_write(const struct dgl_log *log, const struct gguf_file *file,
                                   const struct vocab_lists *v, struct gguf_parts *out)
{
    enum dgl_status st =
        gguf_vocab_stops(log, v, out->stop_ids, MODEL_MAX_STOP_IDS, &out->num_stop_ids);
    if (st == DGL_OK && v->kind != VOCAB_NONE)
        st = tokenizer_json_write(log, v, &out->tokenizer);
    if (st == DGL_OK)
        st = gguf_tokenizer_config_write(log, file, v, &out->tokenizer_config);
    return st;
}

enum dgl_status gguf_parts_read(const struct dgl_log *log, const struct gguf_file *file,
                                struct tensor_source *raw, struct gguf_parts *out)
{
    struct gguf_model model;
    struct vocab_lists vocab = {0};
    *out = (struct gguf_parts){0};
    enum dgl_status st = gguf_model_init(log, file, raw, &model);
    if (st == DGL_OK)
        st = gguf_vocab_read(log, file, &vocab);
    if (st == DGL_OK)
        st = texts_write(log, file, &vocab, out);
    if (st == DGL_OK) {
        struct gguf_config_ids ids = {out->stop_ids, out->num_stop_ids, (int32_t)vocab.bos};
        st = gguf_config_write(log, &model, &ids, &out->config);
    }
    out->arch = model.arch;
    vocab_lists_finish(&vocab);
    if (st == DGL_OK)
        st = gguf_view_create(log, &model, raw, &out->tensors);
    else
        tensor_source_destroy(&raw);
    if (st != DGL_OK)
        gguf_parts_finish(out);
    return st;
}

enum dgl_status gguf_model_open(const struct dgl_log *log, const char *path, struct gguf_parts *out)
{
    struct gguf_set set;
    struct tensor_source *raw = NULL;
    *out = (struct gguf_parts){0};
    enum dgl_status st = gguf_set_open(log, path, &set);
    if (st != DGL_OK)
        return st;
    const struct gguf_file *file = &set.parts[0].header; /* lives on in the source */
    st = gguf_set_source(log, &set, &raw);
    return st == DGL_OK ? gguf_parts_read(log, file, raw, out) : st;
}

void gguf_parts_finish(struct gguf_parts *parts)
{
    dgl_buf_finish(&parts->config);
    dgl_buf_finish(&parts->tokenizer);
    dgl_buf_finish(&parts->tokenizer_config);
    tensor_source_destroy(&parts->tensors);
}

bool gguf_is_model(const char *path)
{
    static const char end[] = ".gguf";
    size_t len = strlen(path), n = sizeof(end) - 1;
    return (len > n && strcmp(path + len - n, end) == 0) || gguf_has_magic(path);
}

bool gguf_has_magic(const char *path)
{
    struct dgl_file *file = NULL;
    char magic[4] = "";
    bool is = !dgl_path_is_dir(path) && dgl_file_open(NULL, path, &file) == DGL_OK &&
              dgl_file_size(file) >= sizeof(magic) &&
              dgl_file_read(NULL, file, 0, magic, sizeof(magic)) == DGL_OK &&
              memcmp(magic, GGUF_MAGIC, sizeof(magic)) == 0;
    dgl_file_close(&file);
    return is;
}

enum dgl_status gguf_text_load(const struct dgl_log *log, const char *path, const char *name,
                               char **text, size_t *len)
{
    struct gguf_set set;
    struct vocab_lists vocab;
    struct dgl_buf out = {0};
    bool tokenizer = strcmp(name, FILE_TOKENIZER) == 0;
    if (!tokenizer && strcmp(name, FILE_TOKENIZER_CONFIG) != 0)
        return DGL_OK;
    enum dgl_status st = gguf_set_open(log, path, &set);
    if (st != DGL_OK)
        return st;
    st = gguf_vocab_read(log, &set.parts[0].header, &vocab);
    if (st == DGL_OK && !tokenizer)
        st = gguf_tokenizer_config_write(log, &set.parts[0].header, &vocab, &out);
    else if (st == DGL_OK && vocab.kind != VOCAB_NONE)
        st = tokenizer_json_write(log, &vocab, &out);
    if (st == DGL_OK && out.p) {
        *len = out.len;
        *text = dgl_buf_take(&out);
    }
    dgl_buf_finish(&out);
    vocab_lists_finish(&vocab);
    gguf_set_close(&set);
    return st;
}
