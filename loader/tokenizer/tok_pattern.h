/* tok_pattern.h: {"String": ...} and {"Regex": ...} of tokenizer.json. */
#ifndef DGL_LOADER_TOK_PATTERN_H
#define DGL_LOADER_TOK_PATTERN_H

#include "core/base/json.h"
#include "loader/regex/tok_regex.h"

/* Immutable after loading. */
struct tok_pattern {
    char *literal; /* used if `regex` is NULL; not empty */
    size_t literal_len;
    struct tok_regex *regex;
};

/* `json` is the component, `field` the name of its pattern. */
enum dgl_status tok_pattern_load(struct dgl_json_reader r, const struct dgl_json *json,
                                 const char *field, struct tok_pattern *out);
/* A regular expression that the definition of a component contains. */
enum dgl_status tok_pattern_init(const struct dgl_log *log, const char *where, const char *regex,
                                 struct tok_pattern *out);
enum dgl_status tok_pattern_init_literal(const struct dgl_log *log, struct dgl_str literal,
                                         struct tok_pattern *out); /* not empty */
void tok_pattern_finish(struct tok_pattern *pattern);

/* Replaces *out by spans that cover `text`, see tok_regex_find(). Creates *scratch if necessary. */
enum dgl_status tok_pattern_find(struct dgl_budget *budget, const struct tok_pattern *pattern,
                                 struct tok_regex_scratch **scratch, struct dgl_str text,
                                 struct tok_spans *out);
/* Appends `text` with every match replaced. `spans` is working memory. */
enum dgl_status tok_pattern_replace(struct dgl_budget *budget, const struct tok_pattern *pattern,
                                    struct dgl_str content, struct tok_regex_scratch **scratch,
                                    struct tok_spans *spans, struct dgl_str text,
                                    struct dgl_buf *out);

#endif
