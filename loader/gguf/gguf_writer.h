/* Writes the GGUF container, version 3: keys, tensor descriptions, then the data in the same order.
 * Does not depend on models. */
#ifndef DGL_LOADER_GGUF_WRITER_H
#define DGL_LOADER_GGUF_WRITER_H

#include "loader/gguf/gguf_file.h"

/* `{0}` is empty. If memory runs out, gguf_writer_begin() fails later. */
struct gguf_writer {
    struct dgl_buf keys, tensors;
    uint64_t num_keys, num_tensors;
    uint64_t data_bytes; /* of the tensors described so far, padding included */
    struct dgl_atomic_file *file;
    uint64_t written; /* of the data */
};

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_put_i32(struct gguf_writer *w, const char *key, int32_t value);
void gguf_put_f32(struct gguf_writer *w, const char *key, double value);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_put_str(struct gguf_writer *w, const char *key, struct dgl_str value);
/* Begins an array; exactly `count` elements follow. */
void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_type type, uint64_t count);
void gguf_add_str(struct gguf_writer *w, struct dgl_str value);
void gguf_add_i32(struct gguf_writer *w, int32_t value);
void gguf_add_f32(struct gguf_writer *w, float value);
void gguf_add_bool(struct gguf_writer *w, bool value);

/* Adds the description of a tensor: the name, shape (row-major) and bytes of `info`. Fails if GGUF
 * does not support the type or the row length, if the name is too long, or if a size overflows. */
enum dgl_status gguf_put_tensor(const struct dgl_log *log, struct gguf_writer *w,
                                const struct tensor_info *info);

/* Writes the header to `out`, which is empty: preamble, keys, tensor descriptions, padding. `name`
 * is for messages. */
enum dgl_status gguf_writer_header(const struct dgl_log *log, const struct gguf_writer *w,
                                   const char *name, struct dgl_buf *out);
/* Writes the header to the file. */
enum dgl_status gguf_writer_begin(const struct dgl_log *log, struct gguf_writer *w,
                                  const char *path);
/* Appends data in the order of the descriptions; gguf_writer_align() follows each tensor. */
enum dgl_status gguf_writer_data(struct gguf_writer *w, const void *bytes, size_t len);
enum dgl_status gguf_writer_align(struct gguf_writer *w);
/* Publishes the file, complete or not at all. */
enum dgl_status gguf_writer_commit(struct gguf_writer *w);
void gguf_writer_finish(struct gguf_writer *w);

#endif
