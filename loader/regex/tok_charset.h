/* tok_charset.h: sets of code points as sorted ranges: what a character class of a pattern
 * means. */
#ifndef DGL_LOADER_TOK_CHARSET_H
#define DGL_LOADER_TOK_CHARSET_H

#include "core/base/str.h"
#include "loader/text/tok_unicode.h"

/* `{0}` is the empty set. Ranges are sorted, disjoint and not adjacent after
 * tok_charset_settle(), which every function that reads a set expects. Out of memory is sticky
 * (`failed`), as with dgl_buf. */
struct tok_charset {
    struct tok_range *ranges;
    size_t count, cap;
    bool failed;
};

void tok_charset_add(struct tok_charset *set, uint32_t first, uint32_t last);
void tok_charset_add_set(struct tok_charset *set, const struct tok_charset *other);
void tok_charset_settle(struct tok_charset *set);
void tok_charset_negate(struct tok_charset *set);
void tok_charset_intersect(struct tok_charset *set, const struct tok_charset *other);
bool tok_charset_has(const struct tok_charset *set, uint32_t cp);
void tok_charset_finish(struct tok_charset *set);

/* Outside of brackets Oniguruma's \w and \b also take superscript digits and fractions of
 * Latin-1 for word characters. The property with this name has them; no pattern can spell it. */
#define TOK_WORD_MATCH "word}"

/* Adds the code points with a property of Oniguruma: a general category ("L", "Letter", "Lu"),
 * a script ("Han") or a POSIX class ("alpha"). Case, blanks, '-' and '_' in the name do not
 * count. False: unknown name. */
bool tok_charset_add_property(struct tok_charset *set, struct dgl_str name);

/* Closes the set under ASCII case, with the two letters beyond ASCII that fold into it (U+017F,
 * U+212A). False when it holds other letters that have a case and does not hold all letters; true
 * with `failed` when out of memory. */
bool tok_charset_fold_case(struct tok_charset *set);

#endif
