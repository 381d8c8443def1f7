/* Published tokenizers against encodings and decodings that the `tokenizers` package made. The
 * files are not ours to pass on: they are read from the test data beside the project. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/token_vectors.h"

struct row {
    const char *name, *archive;
};
static const struct row rows[] = {
    {"gpt2", "tokenizers/gpt2.tar.xz"},
    {"gpt4o", "tokenizers/gpt4o.tar.xz"},
    {"gpt-oss", "tokenizers/gpt-oss.tar.xz"},
    {"llama3", "tokenizers/llama3.tar.xz"},
    {"llama3-instruct", "tokenizers/llama3-instruct.tar.xz"},
    {"llama3.2", "tokenizers/llama3.2.tar.xz"},
    {"mistral-nemo", "tokenizers/mistral-nemo.tar.xz"},
    {"qwen2.5", "tokenizers/qwen2.5.tar.xz"},
    {"qwen3", "tokenizers/qwen3.tar.xz"},
    {"llama2", "tokenizers/llama2.tar.xz"},
    {"mixtral", "tokenizers/mixtral.tar.xz"},
    {"phi3-mini", "tokenizers/phi3-mini.tar.xz"},
    {"gemma2", "tokenizers/gemma2.tar.xz"},
    {"gemma3", "tokenizers/gemma3.tar.xz"},
};

static void encodes_and_decodes_as_recorded(void **state)
{
    const struct row *row = *state;
    const char *dir = test_unpacked(row->archive, row->name);
    if (!dir)
        SKIP("%s is not in the test data", row->archive);
    struct token_vectors vectors;
    token_vectors_load(dir, &vectors);
    token_vectors_check_encode(&vectors);
    token_vectors_check_decode(&vectors);
    token_vectors_check_stream(&vectors);
    token_vectors_finish(&vectors);
}

/* Replaces *text by what its encoding reads as. */
static void read_back(const struct dgl_tokenizer *tok, struct dgl_buf *text)
{
    struct token_ids ids = {0};
    struct dgl_str given = {text->p, text->len};
    assert_int_equal(tokenizer_encode(NULL, tok, given, (struct encode_flags){0}, &ids), DGL_OK);
    text->len = 0;
    assert_int_equal(tokenizer_decode(NULL, tok, ids.ids, ids.count, false, text), DGL_OK);
    free(ids.ids);
}

/* What every seventh token reads as is, once normalized, what its encoding reads as. */
static void tokens_survive_a_round_trip(void **state)
{
    const struct row *row = *state;
    const char *dir = test_unpacked(row->archive, row->name);
    if (!dir)
        SKIP("%s is not in the test data", row->archive);
    struct token_vectors vectors;
    token_vectors_load(dir, &vectors);
    struct dgl_buf text = {0}, first = {0};
    for (int32_t id = 0; id <= tokenizer_max_id(vectors.tok); id += 7) {
        text.len = first.len = 0;
        assert_int_equal(tokenizer_decode(NULL, vectors.tok, &id, 1, false, &text), DGL_OK);
        read_back(vectors.tok, &text);
        dgl_buf_append(&first, text.p, text.len);
        read_back(vectors.tok, &text);
        if (text.len != first.len || (text.len && memcmp(text.p, first.p, text.len) != 0))
            fail_msg("token %d reads \"%s\", then \"%s\"", id, first.p, text.p);
    }
    dgl_buf_finish(&text);
    dgl_buf_finish(&first);
    token_vectors_finish(&vectors);
}

int main(void)
{
    int failed = test_run_table("vectors", encodes_and_decodes_as_recorded, rows);
    return failed + test_run_table("round trip", tokens_survive_a_round_trip, rows);
}
