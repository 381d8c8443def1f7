/* Lists the models on this machine: in the Hub cache and in folders. */
#ifndef DGL_LOADER_MODEL_LIST_H
#define DGL_LOADER_MODEL_LIST_H

#include "core/base/status.h"

/* dgl_models_iterate(). */
enum dgl_status model_list(const struct dgl_log *log, const struct dgl_models_params *params,
                           bool (*cb)(void *priv, const struct dgl_model_entry *entry), void *priv);

#endif
