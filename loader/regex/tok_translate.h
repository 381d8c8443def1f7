/*
 * tok_translate.h: translates patterns of tokenizer.json from Oniguruma's Ruby syntax to PCRE2's.
 * Most of the syntax is equal. Differences are translated, and patterns without an equivalent are
 * refused. Private to loader/regex.
 */
#ifndef DGL_LOADER_TOK_TRANSLATE_H
#define DGL_LOADER_TOK_TRANSLATE_H

#include "core/base/status.h"
#include "loader/regex/tok_property.h"

/* Properties become long, and PCRE2 compiles patterns to 64 KiB at most. */
#define TOK_TRANSLATE_MAX (256u << 10)

/* State of a translation. Readers see '\0' at the end of the pattern. */
struct tok_translator {
    const struct dgl_log *log;
    const char *where; /* file and field, for messages */
    struct dgl_str pattern;
    size_t pos;
    bool newer; /* see tok_property_write() */
    int class_depth;
    struct dgl_buf out;
};

/* Writes PCRE2's pattern to t->out, which the caller frees, also on failure. Returns
 * DGL_ERR_UNSUPPORTED for a pattern that is malformed or not implemented; the message has the
 * reason and its position. */
enum dgl_status tok_translate(struct tok_translator *t);

/* For tok_translate.c and tok_translate_class.c. */
enum dgl_status tok_translate_fail(const struct tok_translator *t, const char *what);
bool tok_translate_at_end(const struct tok_translator *t);
char tok_translate_peek(const struct tok_translator *t, size_t ahead); /* 0 beyond the end */
bool tok_translate_accept(struct tok_translator *t, const char *text);
uint32_t tok_translate_take(struct tok_translator *t); /* one code point; not at the end */

/* An escape for characters: a code point, or all characters with (or without) a property. */
struct tok_escape {
    bool is_property, negated;
    uint32_t cp;
    struct tok_property property;
};
/* Reads an escape after its backslash. */
enum dgl_status tok_translate_escape(struct tok_translator *t, bool in_class,
                                     struct tok_escape *out);
/* Reads a bracket class after its '[' and appends it to `out`. */
enum dgl_status tok_translate_class(struct tok_translator *t, bool icase, struct dgl_buf *out);
/* Appends a property as a class to `out`. */
void tok_translate_property(const struct tok_translator *t, const struct tok_property *property,
                            bool negated, struct dgl_buf *out);

#endif
