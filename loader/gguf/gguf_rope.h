/* The rotary embedding of a GGUF model, as rope_theta and rope_scaling of a config.json. */
#ifndef DGL_LOADER_GGUF_ROPE_H
#define DGL_LOADER_GGUF_ROPE_H

#include "loader/gguf/gguf_config.h"

enum dgl_status gguf_rope_read(const struct dgl_log *log, const struct gguf_model *model,
                               struct fields *out);

#endif
