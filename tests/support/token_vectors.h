/* Recorded encodings and decodings of a tokenizer, and how they are compared with ours. */
#ifndef DGL_TESTS_TOKEN_VECTORS_H
#define DGL_TESTS_TOKEN_VECTORS_H

#include "core/base/json.h"
#include "loader/tokenizer/tokenizer.h"

/* A folder with tokenizer.json, vectors.json and perhaps decode.json. */
struct token_vectors {
    struct dgl_tokenizer *tok;
    struct dgl_json_doc *texts;   /* [{text, ids, ids_special, decoded}] */
    struct dgl_json_doc *decodes; /* [{ids, decoded, decoded_skip_special}], or NULL */
};
/* Fails the running case when something cannot be read. */
void token_vectors_load(const char *dir, struct token_vectors *out);
void token_vectors_finish(struct token_vectors *vectors);

/* Each compares every recorded case, and fails with the first that differs. */
void token_vectors_check_encode(const struct token_vectors *vectors);
void token_vectors_check_decode(const struct token_vectors *vectors);
/* Decodes tokens one by one. The output must be valid UTF-8 after each token, and equal to the
 * whole text at the end. */
void token_vectors_check_stream(const struct token_vectors *vectors);

/* An array of integers, to be freed. */
int32_t *token_ids_of(const struct dgl_json *array, size_t *count);

#endif
