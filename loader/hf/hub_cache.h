/* Where a model that a user names lies: a path, or `org/name` in the local Hugging Face cache.
 * Never downloads. */
#ifndef DGL_LOADER_HUB_CACHE_H
#define DGL_LOADER_HUB_CACHE_H

#include "core/base/status.h"

/* *path: what to open; *name: the model's short name. Both to be freed. Looks at $HF_HOME,
 * $XDG_CACHE_HOME, $HOME. */
enum dgl_status model_path_resolve(const struct dgl_log *log, const char *arg, char **path,
                                   char **name);

#endif
