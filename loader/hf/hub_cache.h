/* The local Hub cache of huggingface_hub: names of repositories, and where their files are. Never
 * downloads. */
#ifndef DGL_LOADER_HUB_CACHE_H
#define DGL_LOADER_HUB_CACHE_H

#include "core/base/status.h"
#include "core/base/str.h"

/* "org/name[:quant][@revision]" in its parts, which point into the text; a part that is not given
 * is empty. */
struct hub_name {
    struct dgl_str org, repo, quant, revision;
};
/* Returns false for another form. */
bool hub_name_parse(const char *text, struct hub_name *out);

/* Returns the cache folder: the first that is set of $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE,
 * $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub; else ~/.cache/huggingface/hub. The caller frees
 * it. Returns NULL if memory runs out. */
char *hub_cache_dir(void);
/* Finds the snapshot of a repository: of refs/main, or of `revision` (a branch, a tag, or a commit
 * or its beginning). The caller frees *path. DGL_ERR_IO: not in the cache. DGL_ERR_INVALID_ARG:
 * several commits begin with `revision`. `text` is the name for messages. */
enum dgl_status hub_find(const struct dgl_log *log, const char *text, const struct hub_name *name,
                         char **path);

/* A snapshot in the cache. */
struct hub_snapshot {
    const char *id;       /* "org/name", "name" for repositories without an organisation */
    const char *revision; /* "" for refs/main; otherwise a branch, a tag or the commit */
    const char *path;
};
/* Calls `cb` for each snapshot of each repository with models, sorted by repository. A status other
 * than DGL_OK ends the walk and is returned. An absent cache is empty. */
enum dgl_status hub_iterate(const struct dgl_log *log,
                            enum dgl_status (*cb)(void *priv, const struct hub_snapshot *snapshot),
                            void *priv);

#endif
