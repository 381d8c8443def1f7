/* The Hub cache's layout: models--ORG--NAME/refs/REVISION holds a commit, snapshots/COMMIT holds
 * the files. */
#include "loader/hf/hub_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/printable.h"

#define LETTERS    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
#define REPO_START "models--"

enum { MAX_COMMIT = 256, MIN_PREFIX = 4 };

/* ---- names ----------------------------------------------------------------------------------- */

/* Returns true if the text has only characters of `allowed` and every component between slashes is
 * a name. */
static bool part_is_valid(struct dgl_str part, const char *allowed)
{
    struct dgl_str rest = part, name;
    for (size_t i = 0; i < part.len; i++)
        if (!part.p[i] || !strchr(allowed, part.p[i]))
            return false;
    while (dgl_str_split(&rest, '/', &name))
        if (!dgl_name_is_safe(name.p, name.len))
            return false;
    return part.len > 0 && part.p[part.len - 1] != '/';
}

bool hub_name_parse(const char *text, struct hub_name *out)
{
    const char *at = strrchr(text, '@');
    struct dgl_str rest = {text, at ? (size_t)(at - text) : strlen(text)};
    const char *colon = memchr(rest.p, ':', rest.len);
    *out = (struct hub_name){0};
    if (at)
        out->revision = dgl_str_of(at + 1);
    if (colon) {
        out->quant = (struct dgl_str){colon + 1, (size_t)(rest.p + rest.len - colon - 1)};
        rest.len = (size_t)(colon - rest.p);
    }
    const char *slash = memchr(rest.p, '/', rest.len);
    if (!slash)
        return false;
    out->org = (struct dgl_str){rest.p, (size_t)(slash - rest.p)};
    out->repo = (struct dgl_str){slash + 1, (size_t)(rest.p + rest.len - slash - 1)};
    return part_is_valid(out->org, LETTERS) && part_is_valid(out->repo, LETTERS) &&
           (!colon || part_is_valid(out->quant, LETTERS "/")) &&
           (!at || part_is_valid(out->revision, LETTERS "/+"));
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Value of a variable, with ~ replaced by the home folder as in huggingface_hub. */
static bool put_env(struct dgl_buf *out, const char *name)
{
    const char *value = getenv(name), *home = getenv("HOME");
    if (!value || !value[0])
        return false;
    bool tilde = value[0] == '~' && (value[1] == '/' || !value[1]);
    dgl_buf_puts(out, tilde && home ? home : "");
    dgl_buf_puts(out, tilde && home ? value + 1 : value);
    return true;
}

char *hub_cache_dir(void)
{
    struct dgl_buf out = {0};
    if (put_env(&out, "HF_HUB_CACHE") || put_env(&out, "HUGGINGFACE_HUB_CACHE"))
        return dgl_buf_take(&out);
    if (put_env(&out, "HF_HOME")) {
        dgl_buf_puts(&out, "/hub");
        return dgl_buf_take(&out);
    }
    const char *xdg = getenv("XDG_CACHE_HOME"); /* its specification: no relative paths */
    if (!xdg || (xdg[0] != '/' && xdg[0] != '~') || !put_env(&out, "XDG_CACHE_HOME")) {
        put_env(&out, "HOME");
        dgl_buf_puts(&out, "/.cache");
    }
    dgl_buf_puts(&out, "/huggingface/hub");
    return dgl_buf_take(&out);
}

/* Reads the commit in REPO/refs/REVISION. *commit is NULL if the file is absent. */
static enum dgl_status commit_read(const struct dgl_log *log, const char *repo,
                                   struct dgl_str revision, char **commit)
{
    char *text = NULL;
    size_t len = 0;
    struct dgl_buf ref = {0};
    enum dgl_status status = DGL_OK;
    *commit = NULL;
    dgl_buf_printf(&ref, "%s/refs/%.*s", repo, (int)revision.len, revision.p);
    if (ref.failed)
        status = dgl_fail_memory(log, "path", strlen(repo));
    else if (dgl_path_exists(ref.p) && !dgl_path_is_dir(ref.p))
        status = dgl_file_slurp(log, ref.p, MAX_COMMIT, &text, &len);
    if (status == DGL_OK && text) {
        struct dgl_str name = dgl_str_trim((struct dgl_str){text, len});
        if (!dgl_name_is_safe(name.p, name.len))
            status = dgl_fail(log, DGL_ERR_FORMAT, "%s: \"%s\" is not the name of a snapshot",
                              ref.p, DGL_PRINTABLE_STR(name));
        else if (!(*commit = dgl_strndup(name.p, name.len)))
            status = dgl_fail_memory(log, "commit", name.len);
    }
    free(text);
    dgl_buf_finish(&ref);
    return status;
}

/* Lists all files under `dir`: each is a branch or tag, such as "v1.0" or "refs/pr/1". */
static enum dgl_status refs_list(const struct dgl_log *log, const char *dir, const char *above,
                                 struct dgl_buf *out)
{
    char **names = NULL, *path = NULL, *name = NULL;
    size_t count = 0;
    enum dgl_status status;
    if (!dgl_path_is_dir(dir))
        return DGL_OK;
    TRY(dgl_dir_list(log, dir, &names, &count));
    for (size_t i = 0; i < count; i++) {
        free(path);
        free(name);
        path = dgl_path_join(dir, names[i]);
        name = above[0] ? dgl_path_join(above, names[i]) : dgl_strdup(names[i]);
        /* Deeper than any branch: probably a link that forms a circle. */
        bool deep = name && strlen(name) > MAX_COMMIT;
        if (!path || !name)
            TRY(dgl_fail_memory(log, "revisions", strlen(names[i])));
        if (dgl_path_is_dir(path) && !deep)
            TRY(refs_list(log, path, name, out));
        else
            dgl_buf_printf(out, "%s\n", name);
    }
done:
    free(path);
    free(name);
    dgl_names_free(names, count);
    return status;
}

/* Finds the commit that equals or begins with the revision. If no commit or several match, the
 * error lists the available revisions. */
static enum dgl_status commit_find(const struct dgl_log *log, const char *text, const char *repo,
                                   const struct hub_name *name, char **commit)
{
    const struct dgl_str revision = name->revision;
    const int org_len = (int)name->org.len, repo_len = (int)name->repo.len;
    char *dir = dgl_path_join(repo, "snapshots"), *refs = dgl_path_join(repo, "refs");
    char **names = NULL;
    size_t count = 0, found = 0, at = 0;
    struct dgl_buf known = {0}, list = {0};
    enum dgl_status status;
    TRY(dir && refs ? DGL_OK : dgl_fail_memory(log, "path", strlen(repo)));
    if (dgl_path_is_dir(dir))
        TRY(dgl_dir_list(log, dir, &names, &count));
    for (size_t i = 0; i < count && revision.len > 0; i++) {
        size_t len = strlen(names[i]);
        bool begins = len >= revision.len && strncmp(names[i], revision.p, revision.len) == 0;
        if (begins && len == revision.len) {
            found = 1;
            at = i;
            break;
        }
        if (begins && revision.len >= MIN_PREFIX) {
            found++;
            at = i;
        }
    }
    if (found == 1) {
        if (!(*commit = dgl_strdup(names[at])))
            status = dgl_fail_memory(log, "commit", strlen(names[at]));
        goto done;
    }
    TRY(refs_list(log, refs, "", &known));
    struct dgl_str rest = {known.p, known.len}, one;
    while (known.len && dgl_str_split(&rest, '\n', &one))
        if (one.len)
            dgl_buf_printf(&list, "%s%.*s", list.len ? ", " : "", (int)one.len, one.p);
    for (size_t i = 0; i < count; i++)
        dgl_buf_printf(&list, "%s%.12s", list.len ? ", " : "", names[i]);
    if (known.failed || list.failed)
        status = dgl_fail_memory(log, "revisions", list.len);
    else if (found > 1)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s: %zu commits in the Hub cache begin with %.*s; it has %s", text,
                          found, (int)revision.len, revision.p, list.p);
    else if (revision.len)
        status =
            dgl_fail(log, DGL_ERR_IO,
                     "%s: the Hub cache has no revision %.*s of it, only %s; fetch it with "
                     "`hf download %.*s/%.*s --revision %.*s`",
                     text, (int)revision.len, revision.p, list.p ? list.p : "an empty folder",
                     org_len, name->org.p, repo_len, name->repo.p, (int)revision.len, revision.p);
    else
        status =
            dgl_fail(log, DGL_ERR_IO,
                     "%s: the Hub cache has no branch main of it, only %s: name one with @, or "
                     "fetch main with `hf download %.*s/%.*s`",
                     text, list.p ? list.p : "an empty folder", org_len, name->org.p, repo_len,
                     name->repo.p);
done:
    dgl_names_free(names, count);
    dgl_buf_finish(&known);
    dgl_buf_finish(&list);
    free(dir);
    free(refs);
    return status;
}

enum dgl_status hub_find(const struct dgl_log *log, const char *text, const struct hub_name *name,
                         char **path)
{
    const int org_len = (int)name->org.len, repo_len = (int)name->repo.len;
    struct dgl_buf repo = {0}, snapshot = {0};
    char *cache = hub_cache_dir(), *commit = NULL;
    enum dgl_status status;
    *path = NULL;
    if (!cache)
        return dgl_fail_memory(log, "path", strlen(text));
    dgl_buf_printf(&repo, "%s/" REPO_START "%.*s--%.*s", cache, org_len, name->org.p, repo_len,
                   name->repo.p);
    if (repo.failed)
        TRY(dgl_fail_memory(log, "path", strlen(text)));
    if (!dgl_path_is_dir(repo.p))
        TRY(dgl_fail(log, DGL_ERR_IO,
                     "%s: no such file or folder, and the Hub cache has no %s; fetch it with "
                     "`hf download %.*s/%.*s` or give a path",
                     text, repo.p, org_len, name->org.p, repo_len, name->repo.p));
    TRY(commit_read(log, repo.p, name->revision.len ? name->revision : DGL_STR("main"), &commit));
    bool by_ref = commit != NULL;
    if (!commit)
        TRY(commit_find(log, text, repo.p, name, &commit));
    dgl_buf_printf(&snapshot, "%s/snapshots/%s", repo.p, commit);
    *path = dgl_buf_take(&snapshot);
    if (!*path)
        TRY(dgl_fail_memory(log, "path", repo.len));
    if (!dgl_path_is_dir(*path))
        TRY(dgl_fail(log, DGL_ERR_IO,
                     "%s: %s of the Hub cache names %s, which is not there; fetch it "
                     "again with `hf download %.*s/%.*s`",
                     text, by_ref ? "a file in refs/" : "a link", *path, org_len, name->org.p,
                     repo_len, name->repo.p));
done:
    if (status != DGL_OK) {
        free(*path);
        *path = NULL;
    }
    free(cache);
    free(commit);
    dgl_buf_finish(&repo);
    dgl_buf_finish(&snapshot);
    return status;
}

/* ---- all snapshots --------------------------------------------------------------------------- */

/* Calls `cb` for each snapshot of the repository in `dir`. */
static enum dgl_status
repo_iterate(const struct dgl_log *log, const char *dir, const char *id,
             enum dgl_status (*cb)(void *priv, const struct hub_snapshot *snapshot), void *priv)
{
    char **names = NULL, *snapshots = dgl_path_join(dir, "snapshots"), *path = NULL;
    char *refs = dgl_path_join(dir, "refs"), *commit = NULL;
    size_t count = 0;
    struct dgl_buf known = {0}, revision = {0};
    enum dgl_status status;
    TRY(snapshots && refs ? DGL_OK : dgl_fail_memory(log, "path", strlen(dir)));
    if (dgl_path_is_dir(snapshots))
        TRY(dgl_dir_list(log, snapshots, &names, &count));
    TRY(refs_list(log, refs, "", &known));
    for (size_t i = 0; i < count; i++) {
        struct dgl_str rest = {known.p, known.len}, ref;
        dgl_buf_finish(&revision);
        bool is_main = false;
        /* A snapshot of main gets no revision. Otherwise any branch or tag of the commit is
         * used. */
        while (known.len && !is_main && dgl_str_split(&rest, '\n', &ref)) {
            free(commit);
            commit = NULL;
            if (ref.len && commit_read(NULL, dir, ref, &commit) == DGL_ERR_NO_MEMORY)
                TRY(dgl_fail_memory(log, "commit", ref.len));
            if (commit && strcmp(commit, names[i]) == 0) {
                is_main = dgl_str_eq(ref, "main");
                if (revision.len == 0)
                    dgl_buf_append(&revision, ref.p, ref.len);
            }
        }
        if (revision.len == 0)
            dgl_buf_puts(&revision, names[i]);
        free(path);
        path = dgl_path_join(snapshots, names[i]);
        if (!path || revision.failed || known.failed)
            TRY(dgl_fail_memory(log, "path", strlen(dir)));
        if (dgl_path_is_dir(path))
            TRY(cb(priv, &(struct hub_snapshot){id, is_main ? "" : revision.p, path}));
    }
done:
    dgl_names_free(names, count);
    dgl_buf_finish(&known);
    dgl_buf_finish(&revision);
    free(path);
    free(commit);
    free(snapshots);
    free(refs);
    return status;
}

enum dgl_status hub_iterate(const struct dgl_log *log,
                            enum dgl_status (*cb)(void *priv, const struct hub_snapshot *snapshot),
                            void *priv)
{
    char **names = NULL, *cache = hub_cache_dir(), *dir = NULL;
    struct dgl_buf id = {0};
    size_t count = 0;
    enum dgl_status status;
    TRY(cache ? DGL_OK : dgl_fail_memory(log, "path", MAX_COMMIT));
    if (dgl_path_is_dir(cache))
        TRY(dgl_dir_list(log, cache, &names, &count));
    for (size_t i = 0; i < count; i++) {
        if (!dgl_str_starts(dgl_str_of(names[i]), REPO_START))
            continue;
        /* The name of an organisation never contains "--". */
        const char *rest = names[i] + strlen(REPO_START), *cut = strstr(rest, "--");
        dgl_buf_finish(&id);
        free(dir);
        if (cut)
            dgl_buf_printf(&id, "%.*s/%s", (int)(cut - rest), rest, cut + 2);
        else
            dgl_buf_puts(&id, rest);
        dir = dgl_path_join(cache, names[i]);
        if (id.failed || !dir)
            TRY(dgl_fail_memory(log, "path", strlen(cache)));
        TRY(repo_iterate(log, dir, id.p ? id.p : "", cb, priv));
    }
done:
    dgl_buf_finish(&id);
    free(dir);
    dgl_names_free(names, count);
    free(cache);
    return status;
}
