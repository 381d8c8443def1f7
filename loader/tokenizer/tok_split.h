/* tok_split.h: behaviors of delimiters, and delimiters that are classes of characters. */
#ifndef DGL_LOADER_TOK_SPLIT_H
#define DGL_LOADER_TOK_SPLIT_H

#include "loader/tokenizer/tok_scratch.h"

enum tok_behavior {
    TOK_REMOVED,
    TOK_ISOLATED,             /* a piece of its own */
    TOK_MERGED_WITH_PREVIOUS, /* part of the previous piece */
    TOK_MERGED_WITH_NEXT,
    TOK_CONTIGUOUS, /* adjacent matches are one piece */
};
/* Parses the spelling of tokenizer.json. Returns false if it is unknown. */
bool tok_behavior_parse(struct dgl_str name, enum tok_behavior *out);

/* Cuts `piece` by `spans`, whose offsets are relative to the piece, and appends the pieces to
 * scratch->next. Empty pieces are dropped. With `invert`, the text between matches is the
 * delimiter. */
enum dgl_status tok_split(struct dgl_budget *budget, enum tok_behavior behavior, bool invert,
                          const struct tok_spans *spans, struct tok_piece piece,
                          struct tok_text *out);

/* Returns spans in which every character with `is` is a match of its own. */
enum dgl_status tok_find_class(struct dgl_budget *budget, bool (*is)(uint32_t cp),
                               struct dgl_str text, struct tok_spans *out);
/* Returns spans that match runs of word characters, and runs of characters that are neither word
 * characters nor blanks. */
enum dgl_status tok_find_words(struct dgl_budget *budget, struct dgl_str text,
                               struct tok_spans *out);

#endif
