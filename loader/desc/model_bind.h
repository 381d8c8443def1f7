/* Tensors of a file -> slots of a model_desc, by table; everything is used exactly once or
 * reported. */
#ifndef DGL_LOADER_MODEL_BIND_H
#define DGL_LOADER_MODEL_BIND_H

#include "loader/desc/model_desc.h"

/* `out` has its hyperparameters and its layer array, with every index TENSOR_NONE. `config_name`
 * is the file that the expected shapes come from, for messages. */
enum dgl_status model_bind(const struct dgl_log *log, const struct tensor_source *src,
                           const char *config_name, struct model_desc *out,
                           struct model_skipped *skipped);

#endif
