/* One key with its value, as stored in a GGUF header. */
#ifndef DGL_LOADER_GGUF_VALUE_H
#define DGL_LOADER_GGUF_VALUE_H

#include "loader/gguf/gguf_cursor.h"

/* Bytes of one element; 0 for strings and arrays. */
size_t gguf_type_size(enum gguf_type type);
enum dgl_status gguf_kv_read(struct gguf_cursor *c, struct gguf_kv *out);

#endif
