/* tok_normalize.h: the "normalizer" of tokenizer.json: rewrites text before it is cut into
 * pieces. */
#ifndef DGL_LOADER_TOK_NORMALIZE_H
#define DGL_LOADER_TOK_NORMALIZE_H

#include "core/base/json.h"
#include "loader/tokenizer/tok_scratch.h"

struct tok_normalize_step;

/* Nested sequences are flattened. `{0}` keeps the text as it is. Immutable after loading. */
struct tok_normalizer {
    struct tok_normalize_step *steps;
    size_t count, cap;
};

/* If `json` is NULL or null, there is no normalizer. */
enum dgl_status tok_normalizer_load(struct dgl_json_reader r, const struct dgl_json *json,
                                    struct tok_normalizer *out);
void tok_normalizer_finish(struct tok_normalizer *normalizer);

/* Replaces scratch->normalized by the normal form of `text`, and scratch->normalized_taint by its
 * taint if the text has any. Updates *origin_len (see struct tok_piece). */
enum dgl_status tok_normalize(struct dgl_budget *budget, const struct tok_normalizer *normalizer,
                              struct tok_scratch *scratch, struct tainted_text text,
                              size_t *origin_len);

#endif
