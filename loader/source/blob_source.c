/* Functions of blob_source.h, and the implementation for the file system. */
#include "loader/source/blob_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"

enum dgl_status blob_open(const struct dgl_log *log, const struct blob_source *source,
                          const char *name, const char *hash, struct blob *out)
{
    *out = (struct blob){0};
    return source->open(source, log, name, hash, out);
}

enum dgl_status blob_read(const struct dgl_log *log, const struct blob *blob, uint64_t offset,
                          void *dst, size_t size)
{
    return blob->source->read(blob, log, offset, dst, size);
}

void blob_close(struct blob *blob)
{
    if (blob->source)
        blob->source->close(blob);
    *blob = (struct blob){0};
}

enum dgl_status blob_load(const struct dgl_log *log, const struct blob_source *source,
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

/* ---- the file system ---- */

static enum dgl_status files_find(const struct blob_source *source, const struct dgl_log *log,
                                  const char *name, bool *found)
{
    (void)source;
    /* A dangling link counts as present: the error of opening it names the missing target. */
    *found = dgl_path_present(name);
    bool known = *found || errno == ENOENT || errno == ENOTDIR;
    return known ? DGL_OK : dgl_fail_errno(log, "examine", name);
}

static enum dgl_status files_open(const struct blob_source *source, const struct dgl_log *log,
                                  const char *name, const char *hash, struct blob *out)
{
    struct dgl_file *file;
    (void)hash;
    enum dgl_status status = dgl_file_open(log, name, &file);
    if (status == DGL_OK)
        *out = (struct blob){source, file, dgl_file_path(file), dgl_file_size(file)};
    return status;
}

static enum dgl_status files_read(const struct blob *blob, const struct dgl_log *log,
                                  uint64_t offset, void *dst, size_t size)
{
    return dgl_file_read(log, blob->impl, offset, dst, size);
}

static void files_close(struct blob *blob)
{
    struct dgl_file *file = blob->impl;
    dgl_file_close(&file);
}

static enum dgl_status files_list(const struct blob_source *source, const struct dgl_log *log,
                                  const char *dir, char ***names, size_t *count)
{
    (void)source;
    *names = NULL;
    *count = 0;
    return dgl_path_is_dir(dir) ? dgl_dir_list(log, dir, names, count) : DGL_OK;
}

const struct blob_source blob_files = {
    .find = files_find,
    .open = files_open,
    .read = files_read,
    .close = files_close,
    .list = files_list,
};
