/* Metadata keys after the name of the architecture: "llama.block_count". */
#ifndef DGL_LOADER_GGUF_KEYS_H
#define DGL_LOADER_GGUF_KEYS_H

#include "loader/gguf/gguf_config.h"

#define GGUF_ARCH_KEY_TEXT 128

const char *gguf_arch_key(const struct gguf_arch *arch, const char *suffix,
                          char text[GGUF_ARCH_KEY_TEXT]);
/* As gguf_opt_*() and gguf_need_i64() of gguf_file.h, from 0 (need: from 1) to `max`. A list with
 * the same number for each layer counts as that number. */
enum dgl_status gguf_arch_i64(const struct dgl_log *log, const struct gguf_model *m,
                              const char *suffix, int64_t max, int64_t *inout);
enum dgl_status gguf_arch_need_i64(const struct dgl_log *log, const struct gguf_model *m,
                                   const char *suffix, int64_t max, int64_t *out);
enum dgl_status gguf_arch_f64(const struct dgl_log *log, const struct gguf_model *m,
                              const char *suffix, double *inout);
const struct gguf_kv *gguf_arch_find_key(const struct gguf_model *m, const char *suffix);

#endif
