/*
 * tok_regex.h: the regular expressions of tokenizer.json with the semantics of Oniguruma and
 * Unicode 16, on PCRE2 10.40 or newer. PCRE2 matches UTF-8 with its own Unicode tables; ranges in
 * the pattern add newer code points (tok_property.h). Patterns with back-references are refused.
 */
#ifndef DGL_LOADER_TOK_REGEX_H
#define DGL_LOADER_TOK_REGEX_H

#include "core/base/budget.h"

struct tok_regex;         /* immutable, may be shared between threads */
struct tok_regex_scratch; /* working memory of one call, for any pattern */

/* `where` is the file and field, for messages. Returns DGL_ERR_UNSUPPORTED for a pattern that is
 * malformed or not implemented. */
enum dgl_status tok_regex_create(const struct dgl_log *log, const char *where,
                                 struct dgl_str pattern, struct tok_regex **out);
void tok_regex_destroy(struct tok_regex **regex);

struct tok_regex_scratch *tok_regex_scratch_create(void); /* NULL: out of memory */
void tok_regex_scratch_destroy(struct tok_regex_scratch **scratch);

/* Bytes [start, end) of a text, and whether they are a match. */
struct tok_span {
    size_t start, end;
    bool match;
};
/* `{0}` is empty; free `items` with free(). */
struct tok_spans {
    struct tok_span *items;
    size_t count, cap;
};
enum dgl_status tok_spans_add(struct dgl_budget *budget, struct tok_spans *spans,
                              struct tok_span span);

/* Replaces *out by spans that cover `text` (must be valid UTF-8): matches and the text between
 * them, in order. Matches may be empty. */
enum dgl_status tok_regex_find(struct dgl_budget *budget, const struct tok_regex *regex,
                               struct tok_regex_scratch *scratch, struct dgl_str text,
                               struct tok_spans *out);

#endif
