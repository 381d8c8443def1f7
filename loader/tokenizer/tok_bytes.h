/* tok_bytes.h: GPT-2's byte alphabet: maps every byte to one printable character, and back. */
#ifndef DGL_LOADER_TOK_BYTES_H
#define DGL_LOADER_TOK_BYTES_H

#include "core/base/str.h"

/* Appends every byte of `text` as its character. */
void tok_bytes_append_mapped(struct dgl_buf *out, struct dgl_str text);
/* Appends the byte of every character of `text`. If a character is not in the alphabet, returns
 * false and leaves *out unchanged. */
bool tok_bytes_append_unmapped(struct dgl_buf *out, struct dgl_str text);

#endif
