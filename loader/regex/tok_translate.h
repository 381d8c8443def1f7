/*
 * tok_translate.h: patterns in Oniguruma's Ruby syntax (what tokenizer.json holds) written in
 * PCRE2's syntax. The two agree in most; what differs is translated, and what has no counterpart
 * is refused. Private to loader/regex.
 */
#ifndef DGL_LOADER_TOK_TRANSLATE_H
#define DGL_LOADER_TOK_TRANSLATE_H

#include "core/base/status.h"
#include "loader/regex/tok_property.h"

/* Properties become long, and PCRE2 compiles patterns to 64 KiB at most. */
#define TOK_TRANSLATE_MAX (256u << 10)

/* A pattern on its way. Readers stop at its end: they see '\0' there. */
struct tok_translator {
    const struct dgl_log *log;
    const char *where; /* for messages: file and field */
    struct dgl_str pattern;
    size_t pos;
    bool newer; /* see tok_property_write() */
    int class_depth;
    struct dgl_buf out;
};

/* Leaves PCRE2's pattern in t->out, which the caller frees, also on failure. Anything that is not
 * implemented, or not a pattern, is DGL_ERR_UNSUPPORTED naming it and its place. */
enum dgl_status tok_translate(struct tok_translator *t);

/* For tok_translate.c and tok_translate_class.c. */
enum dgl_status tok_translate_fail(const struct tok_translator *t, const char *what);
bool tok_translate_at_end(const struct tok_translator *t);
char tok_translate_peek(const struct tok_translator *t, size_t ahead); /* 0 beyond the end */
bool tok_translate_accept(struct tok_translator *t, const char *text);
uint32_t tok_translate_take(struct tok_translator *t); /* one code point; not at the end */

/* An escape that stands for characters: a code point, or all that (do not) have a property. */
struct tok_escape {
    bool is_property, negated;
    uint32_t cp;
    struct tok_property property;
};
/* After the backslash. */
enum dgl_status tok_translate_escape(struct tok_translator *t, bool in_class,
                                     struct tok_escape *out);
/* A bracket class after its '[', appended to `out`. */
enum dgl_status tok_translate_class(struct tok_translator *t, bool icase, struct dgl_buf *out);
/* A property as a class of its own, appended to `out`. */
void tok_translate_property(const struct tok_translator *t, const struct tok_property *property,
                            bool negated, struct dgl_buf *out);

#endif
