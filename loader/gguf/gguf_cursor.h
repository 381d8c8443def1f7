/* Reads a GGUF header from start to end and never beyond its end. */
#ifndef DGL_LOADER_GGUF_CURSOR_H
#define DGL_LOADER_GGUF_CURSOR_H

#include "loader/gguf/gguf_file.h"

struct gguf_cursor {
    const struct dgl_log *log;
    const struct gguf_input *in;
    struct dgl_arena *arena; /* owns strings and arrays that are read */
    uint64_t at;             /* next byte of the file */
    uint8_t *window;         /* bytes [window_at, window_at + window_len) of the file */
    uint64_t window_at;
    size_t window_len;
};

enum dgl_status gguf_cursor_init(const struct dgl_log *log, const struct gguf_input *in,
                                 struct dgl_arena *arena, struct gguf_cursor *out);
void gguf_cursor_finish(struct gguf_cursor *c);

/* Checks that `count` elements of `size` bytes fit in the rest of the file and in GGUF_MAX_HEADER.
 * Otherwise returns DGL_ERR_FORMAT; the message names `what`. */
enum dgl_status gguf_cursor_need(struct gguf_cursor *c, const char *what, uint64_t count,
                                 uint64_t size);
enum dgl_status gguf_cursor_bytes(struct gguf_cursor *c, const char *what, void *dst, size_t size);
enum dgl_status gguf_cursor_u32(struct gguf_cursor *c, const char *what, uint32_t *out);
enum dgl_status gguf_cursor_u64(struct gguf_cursor *c, const char *what, uint64_t *out);
/* Reads a length and its bytes and adds a NUL. Longer than `max` is an error. */
enum dgl_status gguf_cursor_string(struct gguf_cursor *c, const char *what, uint64_t max,
                                   struct dgl_str *out);

#endif
