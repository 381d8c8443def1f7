/*
 * tok_regex_parse.h: patterns in Oniguruma's Ruby syntax (what tokenizer.json holds) taken apart:
 * operators that PCRE2 understands too, and sets of code points in place of every literal, class
 * and property. Private to tok_regex*.c.
 */
#ifndef DGL_LOADER_TOK_REGEX_PARSE_H
#define DGL_LOADER_TOK_REGEX_PARSE_H

#include "core/base/status.h"
#include "loader/regex/tok_charset.h"

/* Either a set, or PCRE2 syntax ("(?:", "{1,3}") that holds no character to match. */
struct tok_regex_item {
    int32_t set; /* index, or -1 = text */
    char text[16];
};

/* `{0}` is empty; release with tok_regex_program_finish. */
struct tok_regex_program {
    struct tok_regex_item *items;
    size_t num_items, cap_items;
    struct tok_charset *sets;
    size_t num_sets, cap_sets;
};
void tok_regex_program_finish(struct tok_regex_program *program);

struct tok_regex_parser {
    const struct dgl_log *log;
    const char *where; /* for messages: file and field */
    struct dgl_str pattern;
    size_t pos;
    struct tok_regex_program *out;
    int depth;
    char last_folded; /* ASCII letter matched just before without regard to case; 0 = none */
};

/* Anything that is not implemented, or not a pattern, is DGL_ERR_UNSUPPORTED naming it and its
 * place. */
enum dgl_status tok_regex_parse(const struct dgl_log *log, const char *where,
                                struct dgl_str pattern, struct tok_regex_program *out);

/* For tok_regex_class.c and tok_regex_parse.c. */
enum dgl_status tok_regex_fail(const struct tok_regex_parser *p, const char *what);
bool tok_regex_at_end(const struct tok_regex_parser *p);
char tok_regex_peek(const struct tok_regex_parser *p, size_t ahead); /* 0 beyond the end */
bool tok_regex_accept(struct tok_regex_parser *p, const char *text);
uint32_t tok_regex_take(struct tok_regex_parser *p); /* one code point; not at the end */

/* What follows a backslash that stands for characters: a code point, or a set when *is_set. */
enum dgl_status tok_regex_escape(struct tok_regex_parser *p, bool in_class, bool *is_set,
                                 uint32_t *cp, struct tok_charset *set);
/* A bracket class after its '['. */
enum dgl_status tok_regex_class(struct tok_regex_parser *p, bool icase, struct tok_charset *set);

#endif
