/*
 * gguf_names.h: names for messages. A GGUF file is read like the Hugging Face folder that it was
 * converted from; messages use the names of the file, such as blk.0.attn_q.weight.
 */
#ifndef DGL_LOADER_GGUF_NAMES_H
#define DGL_LOADER_GGUF_NAMES_H

#include "core/base/str.h"
#include "loader/gguf/gguf_arch.h"

/* Appends the GGUF name of the tensor called `name` in Hugging Face, or "" if files of this
 * architecture never have the tensor. Returns false if the name is unknown. */
bool gguf_tensor_name(const struct gguf_arch *arch, const char *name, struct dgl_buf *out);

#endif
