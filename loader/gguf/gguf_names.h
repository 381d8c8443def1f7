/*
 * gguf_names.h: a GGUF file is read as the Hugging Face folder that it came from; messages about it
 * name what stands in the file: blk.0.attn_q.weight, llama.attention.head_count.
 */
#ifndef DGL_LOADER_GGUF_NAMES_H
#define DGL_LOADER_GGUF_NAMES_H

#include "core/base/str.h"
#include "loader/gguf/gguf_arch.h"

/* Appends what the file calls the tensor that is `name` in Hugging Face: nothing when files of this
 * architecture have none. False: the name is unknown. */
bool gguf_tensor_name(const struct gguf_arch *arch, const char *name, struct dgl_buf *out);
/* The same for a field of config.json; a dgl_json_path_fn, `arch` is a struct gguf_arch. */
bool gguf_field_name(const void *arch, const char *path, struct dgl_buf *out);

#endif
