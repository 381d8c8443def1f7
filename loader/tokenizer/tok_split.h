/* tok_split.h: what becomes of the matches of a delimiter, and delimiters that are classes of
 * characters. */
#ifndef DGL_LOADER_TOK_SPLIT_H
#define DGL_LOADER_TOK_SPLIT_H

#include "loader/tokenizer/tok_scratch.h"

enum tok_behavior {
    TOK_REMOVED,
    TOK_ISOLATED,             /* a piece of its own */
    TOK_MERGED_WITH_PREVIOUS, /* part of the piece before */
    TOK_MERGED_WITH_NEXT,
    TOK_CONTIGUOUS, /* neighbouring matches are one piece */
};
/* The spelling of tokenizer.json; false: unknown. */
bool tok_behavior_parse(struct dgl_str name, enum tok_behavior *out);

/* Appends the pieces that `spans` make of `piece` to scratch->next; spans count from the start
 * of the piece. Empty ones are dropped. `invert`: what did not match is the delimiter. */
enum dgl_status tok_split(struct dgl_budget *budget, enum tok_behavior behavior, bool invert,
                          const struct tok_spans *spans, struct tok_piece piece,
                          struct tok_text *out);

/* Spans of a text where every character with `is` is a match of its own. */
enum dgl_status tok_find_class(struct dgl_budget *budget, bool (*is)(uint32_t cp),
                               struct dgl_str text, struct tok_spans *out);
/* Spans that match runs of word characters, and runs of characters that are neither word
 * characters nor blanks. */
enum dgl_status tok_find_words(struct dgl_budget *budget, struct dgl_str text,
                               struct tok_spans *out);

#endif
