/* Reads the config fields of a model from the manifest of its pack. */
#ifndef DGL_LOADER_RDRR_CONFIG_H
#define DGL_LOADER_RDRR_CONFIG_H

#include "loader/desc/fields.h"

/* Refuses features of "architecture", "inference" and "moeConfig" that this version does not
 * support. The fields come from "config" of the manifest, or from "architecture" and "inference".
 * They borrow from the document. */
enum dgl_status rdrr_config_read(struct dgl_json_reader r, const struct dgl_json *root, bool ours,
                                 struct fields *out);

#endif
