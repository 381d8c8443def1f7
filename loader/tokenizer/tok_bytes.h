/* tok_bytes.h: GPT-2's alphabet for bytes: every byte as one printable character, and back. */
#ifndef DGL_LOADER_TOK_BYTES_H
#define DGL_LOADER_TOK_BYTES_H

#include "core/base/str.h"

/* Appends every byte of `text` as its character. */
void tok_bytes_append_mapped(struct dgl_buf *out, struct dgl_str text);
/* Appends the bytes that the characters of `text` stand for. False, and nothing appended, when
 * one is no such character. */
bool tok_bytes_append_unmapped(struct dgl_buf *out, struct dgl_str text);

#endif
