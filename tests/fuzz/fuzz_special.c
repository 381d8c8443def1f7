/* Reads the files of special tokens, and leaves tokens without a row out of them. Input: a byte
 * with the number of rows, then separated by NUL bytes tokenizer.json (empty: a small one),
 * tokenizer_config.json, special_tokens_map.json and added_tokens.json (empty: absent). */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/convert/convert_rowless.h"
#include "loader/model/model_file.h"
#include "loader/tokenizer/tokenizer.h"

static const char small[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<u>\",\"special\":true}],\"post_processor\":{"
    "\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<u>\"}},{\"Sequence\":"
    "{\"id\":\"A\"}}],\"special_tokens\":{\"<u>\":{\"ids\":[4]}}},\"model\":{\"type\":\"BPE\","
    "\"unk_token\":\"<v>\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<\":3,\"<u>\":4,\"<v>\":5},"
    "\"merges\":[\"a b\"]}}";

/* Empty texts are absent files. */
static char *copy(struct dgl_str text, size_t *len)
{
    char *to = text.len ? dgl_strndup(text.p, text.len) : NULL;
    FUZZ_CHECK(text.len == 0 || to);
    *len = to ? text.len : 0;
    if (to) /* dgl_strndup() ends at a NUL byte, and sections have none */
        FUZZ_CHECK(strlen(to) == text.len);
    return to;
}

static enum dgl_status load(struct fuzz_log *log, const struct dgl_model_file *model,
                            struct dgl_tokenizer **tok)
{
    enum dgl_status status = model_file_tokenizer(&log->log, model, tok);
    fuzz_check_status(log, status);
    FUZZ_CHECK((status == DGL_OK) == (*tok != NULL));
    return status;
}

void fuzz_one(struct dgl_str input)
{
    struct fuzz_log log;
    struct dgl_tokenizer *tok = NULL;
    struct dgl_str spelling;
    struct dgl_model_file model = {.path = (char *)"M"};
    fuzz_log_init(&log);
    model.desc.vocab = (int32_t)fuzz_byte(&input) + 1;
    struct dgl_str json = fuzz_section(&input);
    model.tokenizer_json = copy(json.len ? json : (struct dgl_str){small, sizeof(small) - 1},
                                &model.tokenizer_json_len);
    model.tokenizer_config_json = copy(fuzz_section(&input), &model.tokenizer_config_len);
    model.special_tokens_json = copy(fuzz_section(&input), &model.special_tokens_len);
    model.added_tokens_json = copy(fuzz_section(&input), &model.added_tokens_len);
    model.info.has_tokenizer = true;
    if (load(&log, &model, &tok) == DGL_OK) {
        fuzz_encode_decode(tok, dgl_str_of("ab<u> <v>a  <w>b"), 0);
        tokenizer_destroy(&tok);
        enum dgl_status status = convert_drop_rowless(&log.log, &model, true);
        fuzz_check_status(&log, status);
        /* The rest may be an empty vocabulary, which is refused. */
        if (status == DGL_OK && load(&log, &model, &tok) == DGL_OK)
            for (int32_t id = model.desc.vocab; id <= tokenizer_max_id(tok); id++)
                FUZZ_CHECK(!tokenizer_spelling(tok, id, &spelling));
        tokenizer_destroy(&tok);
    }
    free(model.tokenizer_json);
    free(model.tokenizer_config_json);
    free(model.special_tokens_json);
    free(model.added_tokens_json);
}
