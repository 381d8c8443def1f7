/* UTF-8 of the standard: no surrogates, no overlong forms, no code points above U+10FFFF. */
#ifndef DGL_BASE_UTF8_H
#define DGL_BASE_UTF8_H

#include "core/base/str.h"

/* Returns the length of the longest valid prefix. */
size_t dgl_utf8_valid_prefix(const char *text, size_t len);
/* Decodes one code point of valid text. Returns its length in bytes (1 to 4). */
size_t dgl_utf8_decode(const char *text, size_t len, uint32_t *cp);
size_t dgl_utf8_encode(uint32_t cp, char out[4]);
/* Returns the number of bytes at the end of `text` that may be the start of a character (0 to 3). A
 * stream keeps them back until more bytes arrive. */
size_t dgl_utf8_incomplete_tail(const char *text, size_t len);
/* Appends `text` and replaces each maximal invalid subpart by one U+FFFD, as Unicode recommends and
 * Rust does. */
void dgl_utf8_append_lossy(struct dgl_buf *out, const char *text, size_t len);

#endif
