/* Opens a GGUF model: the order of the steps. */
#include "loader/gguf/gguf_model.h"

#include <stdlib.h>
#include <string.h>

#include "loader/desc/modules.h"
#include "loader/gguf/gguf_config.h"
#include "loader/gguf/gguf_keys.h"
#include "loader/gguf/gguf_override.h"
#include "loader/gguf/gguf_sampling.h"
#include "loader/gguf/gguf_split.h"
#include "loader/gguf/gguf_turns.h"
#include "loader/gguf/gguf_view.h"
#include "loader/gguf/gguf_vocab.h"
#include "loader/tensor/model_files.h"
#include "loader/tokenizer/tokenizer.h"
#include "loader/tokenizer/tokenizer_json.h"

/* Writes the modules of an embedding model. */
static enum dgl_status put_modules(const struct dgl_log *log, const struct gguf_model *m,
                                   struct dgl_buf *out)
{
    static const char suffix[] = "pooling_type";
    enum { MAX_TYPE = 255, RANK = 4 };
    char key[GGUF_ARCH_KEY_TEXT];
    int64_t type = MODULES_GGUF_NONE;
    enum dgl_status status = gguf_arch_i64(log, m, suffix, MAX_TYPE, &type);
    if (status != DGL_OK || type == MODULES_GGUF_NONE)
        return status;
    gguf_arch_key(m->arch, suffix, key);
    if (type > MODULES_GGUF_LAST)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: %s is %d%s; supported: 0 (none), 1 (mean), 2 (cls) and 3 (last)",
                        m->file->name, key, (int)type,
                        type == RANK ? " (a reranker, which has no embeddings)" : "");
    modules_write_gguf(type, key, out);
    return out->failed ? dgl_fail_memory(log, key, out->len) : DGL_OK;
}

enum dgl_status gguf_parts_read(const struct dgl_log *log, const struct gguf_file *file,
                                struct tensor_source *raw, struct gguf_parts *out)
{
    struct gguf_model model;
    struct dgl_stop_id stop_ids[MODEL_MAX_STOP_IDS];
    struct gguf_config_ids ids = {.stop_ids = stop_ids};
    *out = (struct gguf_parts){0};
    enum dgl_status status;
    TRY(gguf_model_init(log, file, raw, &model));
    TRY(gguf_vocab_read(log, file, &out->vocab));
    long embed = tensor_source_find(raw, "token_embd.weight"); /* its absence is an error later */
    uint64_t rows = embed < 0 ? UINT64_MAX : tensor_source_at(raw, (size_t)embed)->shape[0];
    TRY(gguf_turns_stops(log, &out->vocab, rows, stop_ids, MODEL_MAX_STOP_IDS, &ids.num_stop_ids));
    TRY(gguf_tokenizer_config_write(log, file, &out->vocab, &out->tokenizer_config));
    TRY(gguf_sampling_read(log, file, &out->generation_config));
    TRY(put_modules(log, &model, &out->modules));
    ids.bos_id = (int32_t)out->vocab.bos;
    TRY(gguf_config_read(log, &model, &ids, &out->config));
    status = gguf_view_create(log, &model, raw, &out->skipped, &out->tensors);
    raw = NULL;
done:
    tensor_source_destroy(&raw);
    if (status != DGL_OK)
        gguf_parts_finish(out);
    return status;
}

/* Opens the files, with the corrections of `override_kv`. */
static enum dgl_status set_open(const struct dgl_log *log, const struct dgl_source *source,
                                const char *path, const char *const *override_kv,
                                struct gguf_set *out)
{
    enum dgl_status status = gguf_set_open(log, source, path, out);
    if (status != DGL_OK)
        return status;
    status = gguf_override_apply(log, override_kv, &out->parts[0].header);
    if (status != DGL_OK)
        gguf_set_close(out);
    return status;
}

enum dgl_status gguf_model_open(const struct dgl_log *log, const struct dgl_source *source,
                                const char *path, const char *const *override_kv,
                                struct gguf_parts *out)
{
    struct gguf_set set;
    struct tensor_source *raw = NULL;
    *out = (struct gguf_parts){0};
    enum dgl_status status = set_open(log, source, path, override_kv, &set);
    if (status != DGL_OK)
        return status;
    const struct gguf_file *file = &set.parts[0].header; /* lives on in the source */
    status = gguf_set_source(log, &set, &raw);
    return status == DGL_OK ? gguf_parts_read(log, file, raw, out) : status;
}

void gguf_parts_finish(struct gguf_parts *parts)
{
    fields_finish(&parts->config);
    vocab_lists_finish(&parts->vocab);
    dgl_buf_finish(&parts->tokenizer_config);
    dgl_buf_finish(&parts->generation_config);
    dgl_buf_finish(&parts->modules);
    tensor_source_destroy(&parts->tensors);
    model_skipped_finish(&parts->skipped);
}

bool gguf_is_model(const struct dgl_source *source, const char *path)
{
    return dgl_str_ends(dgl_str_of(path), ".gguf") || gguf_has_magic(source, path);
}

bool gguf_has_magic(const struct dgl_source *source, const char *path)
{
    struct blob blob;
    char magic[4] = "";
    bool is = blob_open(NULL, source, path, NULL, &blob) == DGL_OK && blob.size >= sizeof(magic) &&
              blob_read(NULL, &blob, 0, magic, sizeof(magic)) == DGL_OK &&
              memcmp(magic, GGUF_MAGIC, sizeof(magic)) == 0;
    blob_close(&blob);
    return is;
}

enum dgl_status gguf_tokenizer_load(const struct dgl_log *log, const struct dgl_source *source,
                                    const char *path, const char *const *override_kv,
                                    struct dgl_tokenizer **out)
{
    struct gguf_set set;
    struct vocab_lists vocab;
    *out = NULL;
    enum dgl_status status = set_open(log, source, path, override_kv, &set);
    if (status != DGL_OK)
        return status;
    status = gguf_vocab_read(log, &set.parts[0].header, &vocab);
    if (status == DGL_OK && vocab.kind == VOCAB_NONE)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s: the file has no tokenizer; give it ids, or a tokenizer.json", path);
    if (status == DGL_OK)
        status = tokenizer_create_lists(log, &vocab, out);
    vocab_lists_finish(&vocab);
    gguf_set_close(&set);
    return status;
}

enum dgl_status gguf_text_load(const struct dgl_log *log, const struct dgl_source *source,
                               const char *path, const char *const *override_kv, const char *name,
                               char **text, size_t *len)
{
    struct gguf_set set;
    struct vocab_lists vocab;
    struct dgl_buf out = {0};
    struct dgl_log errors = log ? *log : (struct dgl_log){0};
    bool tokenizer = strcmp(name, FILE_TOKENIZER) == 0;
    if (!tokenizer && strcmp(name, FILE_TOKENIZER_CONFIG) != 0)
        return DGL_OK;
    /* Opening the model has printed the warnings and notices. */
    errors.level = DGL_LOG_ERROR;
    if (log)
        log = &errors;
    enum dgl_status status = set_open(log, source, path, override_kv, &set);
    if (status != DGL_OK)
        return status;
    TRY(gguf_vocab_read(log, &set.parts[0].header, &vocab));
    if (!tokenizer)
        TRY(gguf_tokenizer_config_write(log, &set.parts[0].header, &vocab, &out));
    else if (vocab.kind != VOCAB_NONE)
        TRY(tokenizer_json_write(log, &vocab, true, &out));
    if (out.p) {
        *len = out.len;
        *text = dgl_buf_take(&out);
    }
done:
    dgl_buf_finish(&out);
    vocab_lists_finish(&vocab);
    gguf_set_close(&set);
    return status;
}
