/* Makes the tokenizer of a model from its files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "loader/desc/model_config.h"
#include "loader/model/model_file.h"
#include "loader/model/model_text.h"
#include "loader/tensor/model_files.h"
#include "loader/tokenizer/tok_config.h"
#include "loader/tokenizer/tokenizer.h"

struct text {
    const char *file;
    const char *p; /* NULL: the file is absent */
    size_t len;
};

enum { NUM_TEXTS = 1 + TOK_CONFIG_FILES };

/* Makes a tokenizer from tokenizer.json and the files of tok_config_load(), all in the folder
 * `dir`. */
static enum dgl_status create(const struct dgl_log *log, const char *dir,
                              const struct text texts[NUM_TEXTS], struct dgl_tokenizer **out)
{
    char *names[NUM_TEXTS] = {NULL};
    struct tok_config_file files[TOK_CONFIG_FILES];
    struct tok_config special = {0};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < NUM_TEXTS; i++) {
        names[i] = dgl_path_join(dir, texts[i].file);
        if (!names[i])
            TRY(dgl_fail_memory(log, "path", strlen(dir)));
        if (i > 0)
            files[i - 1] = (struct tok_config_file){names[i], texts[i].p, texts[i].len};
    }
    TRY(tok_config_load(log, files, &special));
    TRY(tokenizer_create_with(log, names[0], texts[0].p, texts[0].len, &special, out));
done:
    tok_config_finish(&special);
    for (size_t i = 0; i < NUM_TEXTS; i++)
        free(names[i]);
    return status;
}

/* Reports ids that no prompt may contain. */
static void report_rowless(const struct dgl_log *log, const struct dgl_model_file *f)
{
    enum { SHOWN = 4 };
    struct dgl_buf list = {0};
    struct dgl_str spelling;
    size_t count = 0;
    for (int32_t id = f->desc.vocab; id <= tokenizer_max_id(f->tok); id++) {
        if (tokenizer_spelling(f->tok, id, &spelling) && count++ < SHOWN)
            dgl_buf_printf(&list, "%s%s (%" PRId32 ")", count > 1 ? ", " : "",
                           DGL_PRINTABLE_STR(spelling), id);
    }
    if (count > SHOWN)
        dgl_buf_printf(&list, ", ... (%zu in all)", count);
    if (count > 0)
        dgl_notice(log,
                   "%s: vocab_size is %" PRId32 ", and the tokenizer has ids without a row there: "
                   "%s; a prompt that contains one is refused",
                   f->path, f->desc.vocab, list.p ? list.p : "?");
    dgl_buf_finish(&list);
}

enum dgl_status model_file_tokenizer(const struct dgl_log *log, const struct dgl_model_file *f,
                                     struct dgl_tokenizer **out)
{
    if (f->vocab.kind != VOCAB_NONE)
        return tokenizer_create_lists(log, &f->vocab, out);
    const struct text texts[NUM_TEXTS] = {
        {FILE_TOKENIZER, f->tokenizer_json, f->tokenizer_json_len},
        {FILE_TOKENIZER_CONFIG, f->tokenizer_config_json, f->tokenizer_config_len},
        {FILE_SPECIAL_TOKENS, f->special_tokens_json, f->special_tokens_len},
        {FILE_ADDED_TOKENS, f->added_tokens_json, f->added_tokens_len}};
    return create(log, f->path, texts, out);
}

enum dgl_status model_file_load_tokenizer(const struct dgl_log *log, struct dgl_model_file *f,
                                          bool required)
{
    struct dgl_error error;
    const struct dgl_log with_error = dgl_log_with_error(log, &error);
    if (f->tok || !f->info.has_tokenizer)
        return DGL_OK;
    enum dgl_status status = model_file_tokenizer(&with_error, f, &f->tok);
    if (status == DGL_ERR_UNSUPPORTED && !required) {
        dgl_warn(log, "%s; the model is used without its tokenizer, so prompts are ids",
                 error.text);
        f->info.has_tokenizer = false;
        return DGL_OK;
    }
    if (status != DGL_OK)
        return dgl_fail(log, status, "%s", error.text);
    report_rowless(log, f);
    int32_t eos = tokenizer_eos(f->tok);
    if (eos >= 0 && eos < f->desc.vocab)
        TRY(stop_ids_add(log, f->path, eos, FILE_TOKENIZER_CONFIG, &f->desc));
    f->info.num_stop_ids = f->desc.num_stop_ids;
done:
    return status;
}

enum dgl_status model_folder_tokenizer(const struct dgl_log *log, const struct dgl_source *source,
                                       const char *dir, struct dgl_tokenizer **out)
{
    static const char *const files[NUM_TEXTS] = {FILE_TOKENIZER, FILE_TOKENIZER_CONFIG,
                                                 FILE_SPECIAL_TOKENS, FILE_ADDED_TOKENS};
    const struct model_texts from = {.log = log, .source = source, .dir = dir};
    char *loaded[NUM_TEXTS] = {NULL};
    struct text texts[NUM_TEXTS];
    enum dgl_status status = DGL_OK;
    *out = NULL;
    for (size_t i = 0; i < NUM_TEXTS; i++) {
        size_t len = 0;
        TRY(model_text_load(&from, files[i], &loaded[i], &len));
        texts[i] = (struct text){files[i], loaded[i], len};
    }
    if (!loaded[0])
        TRY(dgl_fail(log, DGL_ERR_IO, "%s: there is no " FILE_TOKENIZER, dir));
    TRY(create(log, dir, texts, out));
done:
    for (size_t i = 0; i < NUM_TEXTS; i++)
        free(loaded[i]);
    return status;
}
