/* jinja_string.h: pieces that filters and methods of texts share. Taint stays with its bytes. */
#ifndef DGL_LOADER_JINJA_STRING_H
#define DGL_LOADER_JINJA_STRING_H

#include "loader/jinja/jinja_text.h"

enum jinja_casing {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_SWAPCASE,
    JINJA_CAPITALIZE,
    JINJA_TITLE,       /* str.title(): every run of letters */
    JINJA_TITLE_WORDS, /* the filter: what follows blanks, '-' and opening brackets */
};
bool jinja_change_case(struct jinja_run *run, const struct jinja_value *text,
                       enum jinja_casing casing, struct jinja_value *out);
/* The first `count` occurrences, all when negative. */
bool jinja_replace(struct jinja_run *run, const struct jinja_value *text,
                   const struct jinja_value *old, const struct jinja_value *with, int64_t count,
                   struct jinja_value *out);
/* str.splitlines() as a list. */
bool jinja_split_lines(struct jinja_run *run, const struct jinja_value *text, bool keep_ends,
                       struct jinja_value *out);
/* Blanks, or the characters of `set` when it is given. */
bool jinja_strip_text(struct jinja_run *run, const struct jinja_value *text,
                      const struct jinja_value *set, int side, struct jinja_value *out);

#endif
