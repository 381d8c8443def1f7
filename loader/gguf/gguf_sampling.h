/* The keys general.sampling.* as a generation_config.json, and back. */
#ifndef DGL_LOADER_GGUF_SAMPLING_H
#define DGL_LOADER_GGUF_SAMPLING_H

#include "loader/gguf/gguf_file.h"
#include "loader/gguf/gguf_writer.h"

/* Appends a generation_config.json with the values of the keys. Appends nothing if the file has
 * none of them. */
enum dgl_status gguf_sampling_read(const struct dgl_log *log, const struct gguf_file *file,
                                   struct dgl_buf *out);
/* Writes the keys of a generation_config.json, called `name` in messages. If do_sample is false,
 * the temperature is 0. */
enum dgl_status gguf_sampling_write(const struct dgl_log *log, const char *name, const char *json,
                                    size_t len, struct gguf_writer *w);

#endif
