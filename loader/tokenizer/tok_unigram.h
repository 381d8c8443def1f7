/* tok_unigram.h: cuts a piece into the tokens with the highest sum of scores. */
#ifndef DGL_LOADER_TOK_UNIGRAM_H
#define DGL_LOADER_TOK_UNIGRAM_H

#include "loader/tokenizer/tok_model.h"

/* Fills model->vocab and the other fields of *model from the JSON of a Unigram model. */
enum dgl_status tok_unigram_load(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct tok_model *model);
void tok_unigram_destroy(struct tok_unigram **unigram);
enum dgl_status tok_unigram_encode(struct dgl_budget *budget, const struct tok_model *model,
                                   struct tok_model_scratch *scratch, struct dgl_str piece,
                                   struct token_ids *out);

#endif
