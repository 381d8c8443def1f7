/* Metadata that a user corrects: "KEY=TYPE:VALUE", as in llama.cpp. */
#ifndef DGL_LOADER_GGUF_OVERRIDE_H
#define DGL_LOADER_GGUF_OVERRIDE_H

#include "loader/gguf/gguf_file.h"

/* `list` ends with NULL; NULL is an empty list. Returns DGL_ERR_INVALID_ARG for a text that is not
 * KEY=TYPE:VALUE. */
enum dgl_status gguf_override_check(const struct dgl_log *log, const char *const *list);
/* Replaces or adds the keys of `list`, and prints a notice for each. A value of another type than
 * the file has is DGL_ERR_INVALID_ARG. A number may replace a list of numbers. */
enum dgl_status gguf_override_apply(const struct dgl_log *log, const char *const *list,
                                    struct gguf_file *file);
/* Refuses a list for a model that is no GGUF file. */
enum dgl_status gguf_override_refuse(const struct dgl_log *log, const char *const *list,
                                     const char *path);

#endif
