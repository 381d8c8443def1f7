/* Checks that the engine can compute a described model. */
#ifndef DGL_CORE_MODEL_SUPPORT_H
#define DGL_CORE_MODEL_SUPPORT_H

#include "loader/desc/model_desc.h"

/* Returns DGL_ERR_UNSUPPORTED and names `path` and the first part that the engine does not
 * compute. */
enum dgl_status model_check_supported(const struct dgl_log *log, const char *path,
                                      const struct model_desc *desc);

#endif
