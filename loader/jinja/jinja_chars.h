/* jinja_chars.h: characters of texts as Python's str sees them: code points, blanks, cases. */
#ifndef DGL_LOADER_JINJA_CHARS_H
#define DGL_LOADER_JINJA_CHARS_H

#include "core/base/str.h"

bool jinja_is_space(uint32_t cp);     /* str.isspace() */
bool jinja_is_printable(uint32_t cp); /* str.isprintable() */
bool jinja_is_line_end(uint32_t cp);  /* where str.splitlines() splits */
bool jinja_is_cased(uint32_t cp);

enum jinja_strip_side { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2, JINJA_STRIP_BOTH = 3 };
struct dgl_str jinja_strip(struct dgl_str text, enum jinja_strip_side side);
/* Strips characters of a set instead of blanks. */
struct dgl_str jinja_strip_set(struct dgl_str text, struct dgl_str set, enum jinja_strip_side side);

size_t jinja_char_count(struct dgl_str text);
/* Where character number `index` begins; the length when there are fewer. */
size_t jinja_char_offset(struct dgl_str text, size_t index);
/* Length of the last character; 0 for an empty text. */
size_t jinja_last_char(struct dgl_str text);

/* Where `part` begins first (or last), at or after `from`; SIZE_MAX: nowhere. */
size_t jinja_find(struct dgl_str text, struct dgl_str part, size_t from);
size_t jinja_find_last(struct dgl_str text, struct dgl_str part);

enum jinja_case { JINJA_CASE_LOWER, JINJA_CASE_UPPER, JINJA_CASE_TITLE };
enum { jinja_case_max = 12 }; /* bytes */
/* The character in another case, as UTF-8; returns its length. Context plays no part: the final
 * sigma of Greek is not known. */
size_t jinja_to_case(uint32_t cp, enum jinja_case to, char out[jinja_case_max]);

#endif
