/* The Hub cache's layout: models--ORG--NAME/refs/main holds a revision, snapshots/REVISION holds
 * the files. */
#include "loader/hf/hub_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/str.h"

enum { MAX_REVISION = 256 };

/* "org/name" of letters, digits, '-', '_' and '.'; neither part "." or "..". */
static bool id_is_valid(const char *id)
{
    const char *slash = strchr(id, '/');
    if (!slash || !dgl_name_is_safe(id, (size_t)(slash - id)) ||
        !dgl_name_is_safe(slash + 1, strlen(slash + 1)))
        return false;
    return id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")] ==
           0;
}

static bool env_set(const char *value)
{
    return value && value[0];
}

/* $HF_HOME/hub, else the cache directory's huggingface/hub. */
static void append_cache_dir(struct dgl_buf *out)
{
    const char *hf_home = getenv("HF_HOME"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (env_set(hf_home))
        dgl_buf_printf(out, "%s/hub", hf_home);
    else if (env_set(xdg))
        dgl_buf_printf(out, "%s/huggingface/hub", xdg);
    else
        dgl_buf_printf(out, "%s/.cache/huggingface/hub", env_set(home) ? home : "");
}

/* The commit that refs/main names. */
static enum dgl_status revision_read(const struct dgl_log *log, const char *repo, const char *id,
                                     struct dgl_buf *out)
{
    char *text = NULL;
    size_t len = 0;
    struct dgl_buf ref = {0};
    dgl_buf_printf(&ref, "%s/refs/main", repo);
    if (ref.failed) {
        dgl_buf_finish(&ref);
        return dgl_fail_memory(log, "path", strlen(repo));
    }
    enum dgl_status status = DGL_OK;
    if (!dgl_path_exists(ref.p))
        status = dgl_fail(log, DGL_ERR_IO,
                          "%s: no such file or folder, and the Hub cache has no %s; fetch it with "
                          "`hf download %s` or give a path",
                          id, ref.p, id);
    else
        status = dgl_file_slurp(log, ref.p, MAX_REVISION, &text, &len);
    if (status == DGL_OK) {
        struct dgl_str revision = dgl_str_trim((struct dgl_str){text, len});
        if (dgl_name_is_safe(revision.p, revision.len))
            dgl_buf_append(out, revision.p, revision.len);
        else
            status = dgl_fail(log, DGL_ERR_FORMAT, "%s: \"%s\" is not the name of a snapshot",
                              ref.p, DGL_PRINTABLE_STR(revision));
    }
    free(text);
    dgl_buf_finish(&ref);
    return status;
}

static enum dgl_status hub_find(const struct dgl_log *log, const char *id, char **path)
{
    const char *slash = strchr(id, '/');
    struct dgl_buf repo = {0}, revision = {0}, snapshot = {0};
    append_cache_dir(&repo);
    dgl_buf_printf(&repo, "/models--%.*s--%s", (int)(slash - id), id, slash + 1);
    enum dgl_status status = repo.failed ? dgl_fail_memory(log, "path", strlen(id))
                                         : revision_read(log, repo.p, id, &revision);
    if (status == DGL_OK) {
        dgl_buf_printf(&snapshot, "%s/snapshots/%s", repo.p, revision.p ? revision.p : "");
        *path = dgl_buf_take(&snapshot);
        if (!*path)
            status = dgl_fail_memory(log, "path", repo.len);
        else if (!dgl_path_is_dir(*path))
            status =
                dgl_fail(log, DGL_ERR_IO,
                         "%s: refs/main of the Hub cache names %s, which is not there; fetch it "
                         "again with `hf download %s`",
                         id, *path, id);
    }
    dgl_buf_finish(&repo);
    dgl_buf_finish(&revision);
    dgl_buf_finish(&snapshot);
    return status;
}

/* The last component of a path; for "." and the like, of what it stands for. */
static char *name_of(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t start = len;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (dgl_name_is_safe(path + start, len - start))
        return strndup(path + start, len - start);
    char *real = realpath(path, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    char *name = strdup(slash && slash[1] ? slash + 1 : "model");
    free(real);
    return name;
}

enum dgl_status model_path_resolve(const struct dgl_log *log, const char *arg, char **path,
                                   char **name)
{
    enum dgl_status status = DGL_OK;
    *path = NULL;
    *name = NULL;
    if (dgl_path_exists(arg))
        *path = strdup(arg);
    else if (id_is_valid(arg))
        status = hub_find(log, arg, path);
    else
        status =
            dgl_fail(log, DGL_ERR_IO,
                     "%s: no such file or folder; a model is a pack, a Hugging Face folder, or "
                     "`org/name` in the Hub cache",
                     arg);
    if (status == DGL_OK)
        *name = name_of(arg);
    if (status == DGL_OK && (!*path || !*name))
        status = dgl_fail_memory(log, "path", strlen(arg));
    if (status != DGL_OK) {
        free(*path);
        free(*name);
        *path = *name = NULL;
    }
    return status;
}
