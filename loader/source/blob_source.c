/* Functions of blob_source.h, and the source for the file system. */
#include "loader/source/blob_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/printable.h"

enum dgl_status blob_source_choose(const struct dgl_log *log, const struct dgl_source *given,
                                   const struct dgl_source **out)
{
    *out = given ? given : &blob_files;
    if ((*out)->find && (*out)->open && (*out)->read && (*out)->close)
        return DGL_OK;
    return dgl_fail(log, DGL_ERR_INVALID_ARG,
                    "dgl_source: find, open, read or close is NULL; only list may be NULL");
}

/* Logs a failure of a source, with its own explanation if it has one. */
static enum dgl_status explain(const struct dgl_log *log, enum dgl_status status, const char *verb,
                               const char *name, const struct dgl_error *why)
{
    if (status == DGL_OK)
        return DGL_OK;
    return why->text[0] ? dgl_fail(log, status, "%s", why->text)
                        : dgl_fail(log, status, "%s: the source cannot %s it: %s", name, verb,
                                   dgl_status_str(status));
}

enum dgl_status blob_find(const struct dgl_log *log, const struct dgl_source *source,
                          const char *name, enum dgl_entry *entry)
{
    struct dgl_error why = {.text[0] = '\0'};
    *entry = DGL_ENTRY_NONE;
    return explain(log, source->find(source->priv, name, entry, &why), "find", name, &why);
}

enum dgl_status blob_find_in(const struct dgl_log *log, const struct dgl_source *source,
                             const char *dir, const char *name, bool *found)
{
    enum dgl_entry entry = DGL_ENTRY_NONE;
    char *path = dgl_path_join(dir, name);
    enum dgl_status status =
        path ? blob_find(log, source, path, &entry) : dgl_fail_memory(log, "path", strlen(dir));
    free(path);
    *found = entry != DGL_ENTRY_NONE;
    return status;
}

bool blob_is_folder(const struct dgl_source *source, const char *name)
{
    enum dgl_entry entry;
    return blob_find(NULL, source, name, &entry) == DGL_OK && entry == DGL_ENTRY_FOLDER;
}

enum dgl_status blob_open(const struct dgl_log *log, const struct dgl_source *source,
                          const char *name, const char *hash, struct blob *out)
{
    struct dgl_error why = {.text[0] = '\0'};
    struct blob blob = {.name = dgl_strdup(name)};
    *out = (struct blob){0};
    if (!blob.name)
        return dgl_fail_memory(log, "path", strlen(name));
    enum dgl_status status = source->open(source->priv, name, hash, &blob.file, &blob.size, &why);
    if (status != DGL_OK) {
        free(blob.name);
        return explain(log, status, "open", name, &why);
    }
    blob.source = source;
    if (blob.size > INT64_MAX) {
        blob_close(&blob);
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: %" PRIu64 " bytes, at most %" PRId64 " fit a file", name, blob.size,
                        INT64_MAX);
    }
    *out = blob;
    return DGL_OK;
}

enum dgl_status blob_read(const struct dgl_log *log, const struct blob *blob, uint64_t offset,
                          void *dst, size_t size)
{
    struct dgl_error why = {.text[0] = '\0'};
    const struct dgl_source *source = blob->source;
    if (offset > blob->size || size > blob->size - offset)
        return dgl_fail(log, DGL_ERR_IO,
                        "%s: %zu bytes at offset %" PRIu64 " cannot be in a file of %" PRIu64
                        " bytes",
                        blob->name, size, offset, blob->size);
    return explain(log, source->read(source->priv, blob->file, offset, dst, size, &why), "read",
                   blob->name, &why);
}

void blob_close(struct blob *blob)
{
    if (blob->source)
        blob->source->close(blob->source->priv, blob->file);
    free(blob->name);
    *blob = (struct blob){0};
}

bool blob_stamp(const struct blob *blob, struct dgl_file_stamp *out)
{
    return blob->source == &blob_files && dgl_file_stamp(blob->file, out);
}

enum dgl_status blob_load(const struct dgl_log *log, const struct dgl_source *source,
                          const char *name, size_t max, char **text, size_t *len)
{
    struct blob blob;
    *text = NULL;
    *len = 0;
    enum dgl_status status = blob_open(log, source, name, NULL, &blob);
    if (status == DGL_OK && blob.size > max)
        status = dgl_fail(log, DGL_ERR_FORMAT, "%s: %" PRIu64 " bytes, wanted at most %zu",
                          blob.name, blob.size, max);
    if (status != DGL_OK)
        goto done;
    *len = (size_t)blob.size;
    *text = dgl_calloc(1, *len + 1);
    status = *text ? blob_read(log, &blob, 0, *text, *len) : dgl_fail_memory(log, name, blob.size);
    if (status != DGL_OK) {
        free(*text);
        *text = NULL;
        *len = 0;
    }
done:
    blob_close(&blob);
    return status;
}

struct names {
    char **list;
    size_t count, cap;
    bool failed;
};

static void add_name(void *priv, const char *name)
{
    struct names *names = priv;
    char *copy = dgl_strdup(name);
    if (copy && dgl_grow((void **)&names->list, &names->cap, names->count + 1, sizeof(copy))) {
        names->list[names->count++] = copy;
    } else {
        names->failed = true;
        free(copy);
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum dgl_status blob_list(const struct dgl_log *log, const struct dgl_source *source,
                          const char *dir, char ***names, size_t *count)
{
    struct dgl_error why = {.text[0] = '\0'};
    struct names all = {0};
    enum dgl_status status = DGL_OK;
    if (source->list)
        status =
            explain(log, source->list(source->priv, dir, add_name, &all, &why), "list", dir, &why);
    if (status == DGL_OK && all.failed)
        status = dgl_fail_memory(log, "list of files", all.count * sizeof(*all.list));
    for (size_t i = 0; i < all.count && status == DGL_OK; i++)
        if (!dgl_name_is_safe(all.list[i], strlen(all.list[i])))
            status = dgl_fail(log, DGL_ERR_FORMAT, "%s: the source lists \"%s\": not a file name",
                              dir, DGL_PRINTABLE(all.list[i]));
    if (status != DGL_OK) {
        dgl_names_free(all.list, all.count);
        all = (struct names){0};
    }
    if (all.count > 1)
        qsort(all.list, all.count, sizeof(*all.list), compare_names);
    *names = all.list;
    *count = all.count;
    return status;
}

/* ---- the file system ---- */

static enum dgl_status files_find(void *priv, const char *name, enum dgl_entry *entry,
                                  struct dgl_error *why)
{
    (void)priv;
    /* A dangling link counts as a file: the error of opening it names the missing target. */
    *entry = dgl_path_is_dir(name)    ? DGL_ENTRY_FOLDER
             : dgl_path_present(name) ? DGL_ENTRY_FILE
                                      : DGL_ENTRY_NONE;
    bool known = *entry != DGL_ENTRY_NONE || errno == ENOENT || errno == ENOTDIR;
    return known ? DGL_OK : dgl_fail_errno(&(struct dgl_log){.error = why}, "examine", name);
}

static enum dgl_status files_open(void *priv, const char *name, const char *sha256, void **file,
                                  uint64_t *size, struct dgl_error *why)
{
    struct dgl_file *open;
    (void)priv;
    (void)sha256;
    enum dgl_status status = dgl_file_open(&(struct dgl_log){.error = why}, name, &open);
    if (status == DGL_OK)
        *size = dgl_file_size(*file = open);
    return status;
}

static enum dgl_status files_read(void *priv, void *file, uint64_t offset, void *dst, size_t size,
                                  struct dgl_error *why)
{
    (void)priv;
    return dgl_file_read(&(struct dgl_log){.error = why}, file, offset, dst, size);
}

static void files_close(void *priv, void *file)
{
    struct dgl_file *open = file;
    (void)priv;
    dgl_file_close(&open);
}

static enum dgl_status files_list(void *priv, const char *folder,
                                  void (*add)(void *to, const char *name), void *to,
                                  struct dgl_error *why)
{
    char **names = NULL;
    size_t count = 0;
    enum dgl_status status = DGL_OK;
    (void)priv;
    if (dgl_path_is_dir(folder))
        status = dgl_dir_list(&(struct dgl_log){.error = why}, folder, &names, &count);
    for (size_t i = 0; i < count; i++)
        add(to, names[i]);
    dgl_names_free(names, count);
    return status;
}

const struct dgl_source blob_files = {
    .find = files_find,
    .open = files_open,
    .read = files_read,
    .close = files_close,
    .list = files_list,
};
