/* Resolves the name of a model: a path, a folder with one GGUF model, or a repository of the local
 * Hub cache. Never downloads. */
#ifndef DGL_LOADER_MODEL_PATH_H
#define DGL_LOADER_MODEL_PATH_H

#include "loader/source/blob_source.h"

/* Sets *path to the file or folder to open and *name to the short name of the model. Both are
 * transferred (free). DGL_ERR_IO: absent. DGL_ERR_INVALID_ARG: several GGUF models match; the
 * message lists them. */
enum dgl_status model_path_resolve(const struct dgl_log *log, const struct dgl_source *source,
                                   const char *arg, char **path, char **name);

#endif
