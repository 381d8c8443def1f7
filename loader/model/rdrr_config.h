/* The fields of a pack's model, out of its manifest. */
#ifndef DGL_LOADER_RDRR_CONFIG_H
#define DGL_LOADER_RDRR_CONFIG_H

#include "loader/desc/fields.h"

/* Refuses what "architecture", "inference" and "moeConfig" may hold and this version does not
 * compute. The fields are those of the manifest's "config", or made of the former two; they borrow
 * from the document. */
enum dgl_status rdrr_config_read(struct dgl_json_reader r, const struct dgl_json *root, bool ours,
                                 struct fields *out);

#endif
