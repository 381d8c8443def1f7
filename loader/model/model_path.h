/* What a user means by the name of a model: a path, a folder with one GGUF model, or a repository
 * of the local Hub cache. Never downloads. */
#ifndef DGL_LOADER_MODEL_PATH_H
#define DGL_LOADER_MODEL_PATH_H

#include "core/base/status.h"

/* *path: the file or folder to open; *name: the model's short name. Both transferred (free).
 * DGL_ERR_IO: nothing is there; DGL_ERR_INVALID_ARG: several GGUF models, which the line lists. */
enum dgl_status model_path_resolve(const struct dgl_log *log, const char *arg, char **path,
                                   char **name);

#endif
