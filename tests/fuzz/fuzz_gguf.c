/* Reads a GGUF file: the container, and if it has a model, its fields and its vocabulary. Input:
 * the file. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/json.h"
#include "loader/gguf/gguf_config.h"
#include "loader/gguf/gguf_view.h"
#include "loader/gguf/gguf_vocab.h"
#include "loader/tokenizer/tokenizer.h"
#include "loader/tokenizer/tokenizer_json.h"

static void check_tensors(const struct gguf_file *file, uint64_t size)
{
    uint64_t end = 0;
    for (size_t i = 0; i < file->num_tensors; i++) {
        const struct gguf_tensor *t = &file->tensors[i];
        FUZZ_CHECK(t->info.name && t->info.role && t->info.rank >= 1 && t->info.rank <= 4);
        FUZZ_CHECK(t->begin >= end && t->begin % file->alignment == 0);
        FUZZ_CHECK(dgl_range_fits(file->data_start, t->begin, size) &&
                   dgl_range_fits(file->data_start + t->begin, t->info.bytes, size));
        end = t->begin + t->info.bytes;
    }
}

/* Tensor data is read from the input. */
struct bytes {
    const struct gguf_file *file;
    struct dgl_str input;
};

static enum dgl_status bytes_read(void *impl, const struct dgl_log *log, size_t index,
                                  uint64_t offset, void *dst, size_t size)
{
    const struct bytes *b = impl;
    (void)log;
    uint64_t at = b->file->data_start + b->file->tensors[index].begin + offset;
    FUZZ_CHECK(dgl_range_fits(at, size, b->input.len));
    memcpy(dst, b->input.p + at, size);
    return DGL_OK;
}

static void bytes_destroy(void *impl)
{
    free(impl);
}

static enum dgl_status source_make(const struct dgl_log *log, const struct gguf_file *file,
                                   struct dgl_str input, struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {.read = bytes_read, .destroy = bytes_destroy};
    struct bytes *b = dgl_new(struct bytes);
    struct tensor_info *infos = dgl_new_array(struct tensor_info, file->num_tensors);
    FUZZ_CHECK(b && infos);
    *b = (struct bytes){file, input};
    for (size_t i = 0; i < file->num_tensors; i++)
        infos[i] = file->tensors[i].info;
    enum dgl_status status = tensor_source_create(log, "G", &ops, b, infos, file->num_tensors, out);
    free(infos);
    return status;
}

/* Reads the first and last byte of each tensor of the view, in any storage order. */
static void read_ends(const struct tensor_source *view)
{
    char byte;
    for (size_t i = 0; i < tensor_source_count(view); i++) {
        const struct tensor_info *t = tensor_source_at(view, i);
        FUZZ_CHECK(tensor_source_read(NULL, view, i, 0, &byte, 1) == DGL_OK);
        FUZZ_CHECK(tensor_source_read(NULL, view, i, t->bytes - 1, &byte, 1) == DGL_OK);
    }
}

/* Checks the JSON that conversion writes to packs. */
static void check_json(const struct fields *config)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 2);
    fields_write(config, &w);
    FUZZ_CHECK(dgl_json_parse(NULL, "G", text.p, text.len, &doc) == DGL_OK);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
}

static void try_model(struct fuzz_log *log, const struct gguf_file *file, struct dgl_str input)
{
    struct tensor_source *raw = NULL, *view = NULL;
    struct gguf_model model;
    struct fields config = {.name = "G"};
    struct gguf_config_ids ids = {.bos_id = -1};
    struct model_skipped skipped = {0};
    enum dgl_status status = source_make(&log->log, file, input, &raw);
    if (status == DGL_OK)
        status = gguf_model_init(&log->log, file, raw, &model);
    if (status == DGL_OK)
        status = gguf_config_read(&log->log, &model, &ids, &config);
    if (status == DGL_OK)
        check_json(&config);
    if (status == DGL_OK)
        status = gguf_view_create(&log->log, &model, raw, &skipped, &view);
    else
        tensor_source_destroy(&raw);
    fuzz_check_status(log, status);
    if (status == DGL_OK)
        read_ends(view);
    tensor_source_destroy(&view);
    model_skipped_finish(&skipped);
    fields_finish(&config);
}

static void try_vocab(struct fuzz_log *log, const struct gguf_file *file)
{
    struct vocab_lists vocab;
    struct dgl_buf json = {0};
    struct dgl_tokenizer *tok = NULL;
    enum dgl_status status = gguf_vocab_read(&log->log, file, &vocab);
    if (status == DGL_OK && vocab.kind != VOCAB_NONE)
        status = tokenizer_json_write(&log->log, &vocab, true, &json);
    /* Bad keys may cause warnings. A failure must log exactly one error line. */
    if (status == DGL_OK && json.p)
        status = tokenizer_create_lists(&log->log, &vocab, &tok);
    fuzz_check_status(log, status);
    struct dgl_tokenizer *from_text = NULL;
    if (json.p)
        FUZZ_CHECK((tokenizer_create(NULL, "G", json.p, json.len, &from_text) == DGL_OK) ==
                   (status == DGL_OK));
    tokenizer_destroy(&from_text);
    if (tok)
        fuzz_encode_decode(tok, DGL_STR("a b  <s>\xe2\x96\x81"), 0);
    tokenizer_destroy(&tok);
    vocab_lists_finish(&vocab);
    dgl_buf_finish(&json);
}

void fuzz_one(struct dgl_str input)
{
    struct gguf_file file;
    struct fuzz_log log;
    fuzz_log_init(&log);
    struct gguf_input in = {.name = "G", .bytes = (const uint8_t *)input.p, .size = input.len};
    enum dgl_status status = gguf_file_parse(&log.log, &in, &file);
    fuzz_check_status(&log, status);
    if (status != DGL_OK)
        return;
    check_tensors(&file, input.len);
    try_vocab(&log, &file);
    try_model(&log, &file, input);
    gguf_file_finish(&file);
}
