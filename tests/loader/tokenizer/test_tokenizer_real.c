/* Published tokenizers compared with encodings and decodings of the `tokenizers` package. The files
 * are not ours to distribute, so they are in the test data outside of the project. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/published.h"
#include "tests/support/token_vectors.h"

static void encodes_and_decodes_as_recorded(void **state)
{
    const struct published_tokenizer *row = *state;
    struct token_vectors vectors;
    token_vectors_load(published_dir(row->name), &vectors);
    token_vectors_check_encode(&vectors);
    token_vectors_check_decode(&vectors);
    token_vectors_check_stream(&vectors);
    token_vectors_finish(&vectors);
}

/* Replaces *text by its text after encoding and decoding. */
static void read_back(const struct dgl_tokenizer *tok, struct dgl_buf *text)
{
    struct token_ids ids = {0};
    struct dgl_str given = {text->p, text->len};
    assert_int_equal(tokenizer_encode(NULL, tok, given, (struct encode_flags){0}, &ids), DGL_OK);
    text->len = 0;
    assert_int_equal(tokenizer_decode(NULL, tok, ids.ids, ids.count, false, text), DGL_OK);
    free(ids.ids);
}

/* The text of every seventh token, once normalized, survives encoding and decoding. */
static void tokens_survive_a_round_trip(void **state)
{
    const struct published_tokenizer *row = *state;
    struct token_vectors vectors;
    token_vectors_load(published_dir(row->name), &vectors);
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
    int failed = test_run_table("vectors", encodes_and_decodes_as_recorded, published_tokenizers);
    return failed + test_run_table("round trip", tokens_survive_a_round_trip, published_tokenizers);
}
