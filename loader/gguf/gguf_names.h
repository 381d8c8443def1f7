/*
 * gguf_names.h: a GGUF file is read as the Hugging Face folder that it came from; messages about it
 * name what is in the file: blk.0.attn_q.weight.
 */
#ifndef DGL_LOADER_GGUF_NAMES_H
#define DGL_LOADER_GGUF_NAMES_H

#include "core/base/str.h"
#include "loader/gguf/gguf_arch.h"

/* Appends what the file calls the tensor that is `name` in Hugging Face: nothing when files of this
 * architecture have none. False: the name is unknown. */
bool gguf_tensor_name(const struct gguf_arch *arch, const char *name, struct dgl_buf *out);

#endif
