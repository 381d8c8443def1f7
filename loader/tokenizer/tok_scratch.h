/* tok_scratch.h: the working memory of one encode call. Tokenizers themselves are immutable. */
#ifndef DGL_LOADER_TOK_SCRATCH_H
#define DGL_LOADER_TOK_SCRATCH_H

#include "core/base/str.h"
#include "loader/regex/tok_regex.h"
#include "loader/text/taint.h"
#include "loader/tokenizer/tok_model.h"

/* A piece of text on its way to the model. */
struct tok_piece {
    size_t start, len; /* in the bytes of its tok_text */
    size_t origin_len; /* leading bytes that come from the first character of the whole text */
};
/* Pieces, in order. `{0}` is empty. */
struct tok_text {
    struct dgl_buf bytes;
    struct tok_piece *pieces;
    size_t count, cap;
};

/* Bytes [start, end) that are an added token, or text. */
struct tok_cut {
    size_t start, end;
    int32_t token; /* index of the added token; -1 for text */
};
struct tok_cuts {
    struct tok_cut *items;
    size_t count, cap;
};

/* `{0}` is valid. */
struct tok_scratch {
    struct tok_regex_scratch *regex; /* created when a pattern is first used */
    struct tok_spans spans;
    struct tok_cuts raw_cuts, cuts;     /* cuts of the raw text, and of a normalized part */
    struct dgl_buf normalized, rewrite; /* current part, and the output of a step */
    struct dgl_buf normalized_taint, rewrite_taint; /* their taint, if the text has any */
    bool continues; /* the part continues earlier text, so no mark or blank is prepended */
    uint32_t *cps;  /* for normal forms */
    size_t cap_cps;
    struct tok_text text, next; /* pieces before and after a step */
    struct tok_model_scratch model;
};
void tok_scratch_finish(struct tok_scratch *scratch);

enum dgl_status tok_text_add(struct dgl_budget *budget, struct tok_text *text,
                             struct tok_piece piece);
enum dgl_status tok_cuts_add(struct dgl_budget *budget, struct tok_cuts *cuts, struct tok_cut cut);
/* Returns origin_len of the part [start, end) of a text whose origin_len is `origin`. */
size_t tok_origin_of(size_t origin, size_t start, size_t end);
/* Swaps two builders. */
void tok_swap(struct dgl_buf *a, struct dgl_buf *b);
#endif
