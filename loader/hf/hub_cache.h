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

/* The folder: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub,
 * $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. Transferred (free); NULL: out of
 * memory. */
char *hub_cache_dir(void);
/* The snapshot of a repository: of refs/main, or of `revision`, a branch, a tag, a commit or the
 * beginning of one. Transfers *path (free). DGL_ERR_IO: it is not there; DGL_ERR_INVALID_ARG:
 * several commits begin so. `text` is the name as given. */
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
