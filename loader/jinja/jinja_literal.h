/* jinja_literal.h: numbers and strings as a template writes them, and as Python reads them. */
#ifndef DGL_LOADER_JINJA_LITERAL_H
#define DGL_LOADER_JINJA_LITERAL_H

#include "core/base/str.h"

/* The longest number at the start of `text`; returns its length, 0 when there is none or it is out
 * of range. */
size_t jinja_scan_integer(struct dgl_str text, int64_t *out);
size_t jinja_scan_float(struct dgl_str text, double *out);

/* Writes what the body of a string literal means to `out` (at least body.len bytes) and returns its
 * length; *fault says what is wrong with it (static), or is left alone. */
size_t jinja_unescape(struct dgl_str body, char *out, const char **fault);

/* int(text, base) and float(text) of Python: blanks around, a sign, '_' between digits; base 0 goes
 * by the prefix. False when the text is no such number or out of range. "inf" and "nan" are
 * numbers. */
bool jinja_parse_integer(struct dgl_str text, int base, int64_t *out);
bool jinja_parse_float(struct dgl_str text, double *out);

#endif
