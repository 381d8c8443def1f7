/* Published tokenizers against encodings and decodings that the `tokenizers` package made. The files are not ours to
 * pass on: they are read from the test data beside the project. */
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

/* Everything in the vocabulary encodes to itself or to other tokens that read the same. */
static void every_token_survives_a_round_trip(void **state)
{
    const struct row *row = *state;
    const char *dir = test_unpacked(row->archive, row->name);
    if (!dir)
        SKIP("%s is not in the test data", row->archive);
    struct token_vectors vectors;
    token_vectors_load(dir, &vectors);
    struct dgl_buf text = {0}, again = {0};
    struct token_ids ids = {0};
    for (int32_t id = 0; id <= tokenizer_max_id(vectors.tok); id += 7) {
        text.len = again.len = 0;
        ids.count = 0;
        assert_int_equal(tokenizer_decode(NULL, vectors.tok, &id, 1, false, &text), DGL_OK);
        assert_int_equal(tokenizer_encode(NULL, vectors.tok, (struct dgl_str){text.p, text.len},
                                          (struct encode_flags){0}, &ids),
                         DGL_OK);
        assert_int_equal(tokenizer_decode(NULL, vectors.tok, ids.ids, ids.count, false, &again),
                         DGL_OK);
        if (text.len != again.len || (text.len && memcmp(text.p, again.p, text.len) != 0))
            fail_msg("token %d reads \"%s\", then \"%s\"", id, text.p, again.p);
    }
    free(ids.ids);
    dgl_buf_finish(&text);
    dgl_buf_finish(&again);
    token_vectors_finish(&vectors);
}

int main(void)
{
    int failed = test_run_table("vectors", encodes_and_decodes_as_recorded, rows);
    return failed + test_run_table("round trip", every_token_survives_a_round_trip, rows);
}
