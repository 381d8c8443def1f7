/*
 * tok_property.h: character properties of Oniguruma's patterns, written as members of a PCRE2
 * class. Patterns mean the properties of Unicode 16, but PCRE2 has the Unicode of its release (14
 * in 10.42). So the members include later code points as ranges ("newer", see tok_unicode.h). Newer
 * releases of PCRE2 have these code points too; the ranges do not change their result.
 */
#ifndef DGL_LOADER_TOK_PROPERTY_H
#define DGL_LOADER_TOK_PROPERTY_H

#include "core/base/str.h"
#include "loader/text/tok_unicode.h"

/* Whole general categories, one bit each, and ranges of code points. */
struct tok_property {
    uint32_t categories;
    const struct tok_range *ranges;
    size_t num_ranges;
};

/* Finds a general category ("L", "Letter", "Lu"), a script ("Han") or a POSIX class ("alpha").
 * Case, blanks, '-' and '_' in the name are ignored. Returns false if the name is unknown. */
bool tok_property_find(struct dgl_str name, struct tok_property *out);
/* Finds \d \w \s \h; their complements are in upper case. Returns false for other letters. Outside
 * of brackets \w also includes superscript digits and fractions of Latin-1. */
bool tok_property_shorthand(char letter, bool in_class, struct tok_property *out);

/* Appends the members, without brackets. With `newer`, this includes code points that PCRE2 may not
 * know. */
void tok_property_write(const struct tok_property *property, bool newer, struct dgl_buf *out);
/* Appends a code point, or a range, as a member of a class or a literal. */
void tok_property_write_cp(uint32_t cp, struct dgl_buf *out);
void tok_property_write_range(struct tok_range range, struct dgl_buf *out);

/* The non-ASCII letters with case in a class. Oniguruma and PCRE2 match without regard to case
 * alike if a class has all of them or none. */
struct tok_cased {
    uint32_t categories; /* categories that are complete */
    bool some;           /* it has others */
};
void tok_cased_add(struct tok_cased *cased, const struct tok_property *property, bool negated);
void tok_cased_add_range(struct tok_cased *cased, struct tok_range range);
bool tok_cased_is_closed(struct tok_cased cased);

#endif
