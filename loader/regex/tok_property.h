/*
 * tok_property.h: character properties of Oniguruma's patterns, written as members of a PCRE2
 * class.
 *
 * PCRE2 brings the Unicode of its release, and patterns mean Unicode 16. Release 10.42 has
 * Unicode 14, so a property gets the code points that came later as ranges ("newer", see
 * tok_unicode.h). Later releases know them already, and the ranges change nothing there.
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

/* A general category ("L", "Letter", "Lu"), a script ("Han") or a POSIX class ("alpha"). Case,
 * blanks, '-' and '_' in the name do not count. False: unknown name. */
bool tok_property_find(struct dgl_str name, struct tok_property *out);
/* \d \w \s \h, whose complements are written in upper case; false: another letter. Outside of
 * brackets \w also has superscript digits and fractions of Latin-1. */
bool tok_property_shorthand(char letter, bool in_class, struct tok_property *out);

/* Appends the members, without brackets. `newer`: with the code points that PCRE2 may not know. */
void tok_property_write(const struct tok_property *property, bool newer, struct dgl_buf *out);
/* Appends a code point, or a range, as a member of a class or a literal. */
void tok_property_write_cp(uint32_t cp, struct dgl_buf *out);
void tok_property_write_range(struct tok_range range, struct dgl_buf *out);

/* How much of the letters with a case that are not ASCII a class holds. Matching without regard to
 * case is the same in Oniguruma and PCRE2 for all of them and for none of them. */
struct tok_cased {
    uint32_t categories; /* held whole */
    bool some;           /* others */
};
void tok_cased_add(struct tok_cased *cased, const struct tok_property *property, bool negated);
void tok_cased_add_range(struct tok_cased *cased, struct tok_range range);
bool tok_cased_is_closed(struct tok_cased cased);

#endif
