/* Reads the hyperparameters of a model_desc from its fields. */
#ifndef DGL_LOADER_MODEL_CONFIG_H
#define DGL_LOADER_MODEL_CONFIG_H

#include "loader/desc/config_family.h"

/* Sets all members except tensors, stop ids and parameter count, and creates the layer list.
 * Refuses fields that this version does not support. */
enum dgl_status model_config_read(const struct config *c, struct model_desc *out);

/* Sets bos_id and stop_ids: the union of eos_token_id in `c`, in its text_config and in
 * generation_config, which may be NULL. */
enum dgl_status stop_ids_read(const struct config *c, const struct fields *generation_config,
                              struct model_desc *out);

/* Adds a stop id, in ascending order. An id that is listed already keeps its origin, but
 * config.json and generation_config.json are named together. `name` is for messages. */
enum dgl_status stop_ids_add(const struct dgl_log *log, const char *name, int32_t id,
                             const char *origin, struct model_desc *out);

/* Creates out->layer for out->layers layers, with all indices TENSOR_NONE (model_desc.c). */
enum dgl_status model_layers_create(const struct dgl_log *log, struct model_desc *out);

/* config_rope.c, a step of model_config_read(): sets out->rope[]. Requires head_dim and the context
 * in out->context_max, and raises the latter if the rotation stretches it. */
enum dgl_status config_rope_read(const struct config *c, const struct config_family *family,
                                 struct model_desc *out);

#endif
