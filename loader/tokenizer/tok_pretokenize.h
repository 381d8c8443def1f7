/* tok_pretokenize.h: the "pre_tokenizer" of tokenizer.json: cuts normalized text into pieces for
 * the model. */
#ifndef DGL_LOADER_TOK_PRETOKENIZE_H
#define DGL_LOADER_TOK_PRETOKENIZE_H

#include "core/base/json.h"
#include "loader/tokenizer/tok_scratch.h"

struct tok_split_step;

/* Nested sequences are flattened. `{0}` leaves the text in one piece. Immutable after loading. */
struct tok_pretokenizer {
    struct tok_split_step *steps;
    size_t count, cap;
};

/* If `json` is NULL or null, there is no pre-tokenizer. */
enum dgl_status tok_pretokenizer_load(struct dgl_json_reader r, const struct dgl_json *json,
                                      struct tok_pretokenizer *out);
void tok_pretokenizer_finish(struct tok_pretokenizer *pretokenizer);

/* Fills scratch->text with the pieces of `text`. `text` must not be empty and must not be in the
 * memory that pieces use. For origin_len see struct tok_piece. */
enum dgl_status tok_pretokenize(struct dgl_budget *budget,
                                const struct tok_pretokenizer *pretokenizer,
                                struct tok_scratch *scratch, struct dgl_str text,
                                size_t origin_len);

#endif
