/*
 * gguf_view.h: the tensors of a GGUF model under the names and in the order that Hugging Face
 * gives them: rows of q and k unpermuted, the 1 taken off Gemma's norms, stacked experts one by
 * one, GPT-OSS's gate and up rows in turn. Bytes are moved, never requantised.
 */
#ifndef DGL_LOADER_GGUF_VIEW_H
#define DGL_LOADER_GGUF_VIEW_H

#include "loader/desc/model_desc.h"
#include "loader/gguf/gguf_config.h"

/* Consumes `raw` (also on failure), which must be `model->raw`. Tensors of vision and audio parts
 * are left out, and lines of *skipped list them. */
enum dgl_status gguf_view_create(const struct dgl_log *log, const struct gguf_model *model,
                                 struct tensor_source *raw, struct model_skipped *skipped,
                                 struct tensor_source **out);

#endif
