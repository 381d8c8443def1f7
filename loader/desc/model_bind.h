/* Binds the tensors of a file to the slots of a model_desc, by table. Every tensor is used exactly
 * once or reported. */
#ifndef DGL_LOADER_MODEL_BIND_H
#define DGL_LOADER_MODEL_BIND_H

#include "loader/desc/model_desc.h"

/* `out` must have its hyperparameters and its layer array, with all indices TENSOR_NONE.
 * `config_name` is the file that defines the expected shapes, for messages. */
enum dgl_status model_bind(const struct dgl_log *log, const struct tensor_source *src,
                           const char *config_name, struct model_desc *out,
                           struct model_skipped *skipped);

#endif
