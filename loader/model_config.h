/* The hyperparameters of a model_desc, from config.json alone. */
#ifndef DGL_LOADER_MODEL_CONFIG_H
#define DGL_LOADER_MODEL_CONFIG_H

#include "loader/config_alias.h"
#include "loader/model_desc.h"

/* Fills everything but tensors, stop ids and parameter count. Refuses what this version does not
 * compute. */
enum dgl_status model_config_read(const struct config *c, struct model_desc *out);

/* Fills bos_id and stop_ids: the union of eos_token_id in `c` and in generation_config (NULL =
 * none). */
enum dgl_status stop_ids_read(const struct config *c, const struct dgl_json_doc *generation_config,
                              struct model_desc *out);

#endif
