/* UTF-8 as the standard has it: no surrogates, no overlong forms, nothing above U+10FFFF. */
#ifndef DGL_BASE_UTF8_H
#define DGL_BASE_UTF8_H

#include "core/base/str.h"

/* Length of the first maximal part that is valid; equal to len when all is. */
size_t dgl_utf8_valid_prefix(const char *text, size_t len);
/* Decodes one code point of valid text; returns its length in bytes (1 to 4). */
size_t dgl_utf8_decode(const char *text, size_t len, uint32_t *cp);
size_t dgl_utf8_encode(uint32_t cp, char out[4]);
/* Bytes at the end of `text` that could still become a character (0 to 3); a stream
 * holds them back. */
size_t dgl_utf8_incomplete_tail(const char *text, size_t len);
/* Appends `text` with each maximal invalid subpart replaced by one U+FFFD (the Unicode and Rust
 * rule). */
void dgl_utf8_append_lossy(struct dgl_buf *out, const char *text, size_t len);

#endif
