/* Atomic file writes: write a temporary next to the target, fsync it, rename it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/temp_name.h"

struct dgl_atomic_file {
    const struct dgl_log *log;
    int fd;
    int dir;       /* base of `path` and `temp`; AT_FDCWD unless the caller opened one */
    mode_t mode;   /* before the umask */
    bool failed;   /* a write failed: the commit must not publish the file */
    bool in_place; /* the target is a pipe or a device and is written directly */
    char *name;    /* for messages */
    char *path, *temp;
};

enum { max_name_tries = 100 };

/* O_EXCL reserves the name. Process id and time only make a free name likely on the first try. */
static enum dgl_status open_temp(struct dgl_atomic_file *file)
{
    for (int tries = 1;; tries++) {
        file->temp = dgl_temp_name(file->path);
        if (!file->temp)
            return dgl_fail_memory(file->log, file->path, strlen(file->path) + 32);
        file->fd = openat(file->dir, file->temp,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, file->mode);
        if (file->fd >= 0)
            break;
        enum dgl_status status = DGL_OK;
        if (errno != EEXIST || tries == max_name_tries)
            status = dgl_fail_errno(file->log, "create", file->name);
        free(file->temp);
        file->temp = NULL;
        if (status != DGL_OK)
            return status;
    }
    dgl_temp_lock(file->fd);
    return DGL_OK;
}

void dgl_atomic_sweep(const struct dgl_log *log, const char *path)
{
    char *target = dgl_path_target(path);
    if (target)
        dgl_temp_sweep(log, target);
    free(target);
}

/* Consumes `target`, the path to replace. A NULL target means that its allocation failed. */
static enum dgl_status create(const struct dgl_log *log, const char *name,
                              const struct dgl_atomic_file *like, char *target,
                              struct dgl_atomic_file **out)
{
    enum dgl_status status;
    struct stat st;
    *out = NULL;
    struct dgl_atomic_file *file = dgl_new(struct dgl_atomic_file);
    if (!file) {
        free(target);
        return dgl_fail_memory(log, name, sizeof(*file));
    }
    *file = *like;
    file->log = log;
    file->fd = -1;
    file->name = dgl_strdup(name);
    file->path = target;
    if (!file->name || !file->path)
        TRY(dgl_fail_memory(log, name, strlen(name) + 1));
    /* Pipes and devices are written directly: a rename would replace them by a regular file. */
    file->in_place = file->dir == AT_FDCWD && stat(name, &st) == 0 && !S_ISREG(st.st_mode) &&
                     !S_ISDIR(st.st_mode);
    if (!file->in_place)
        TRY(open_temp(file));
    else if ((file->fd = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY)) < 0)
        TRY(dgl_fail_errno(log, "open", name));
    status = DGL_OK;
done:
    if (status != DGL_OK)
        dgl_atomic_abort(&file);
    *out = file;
    return status;
}

enum dgl_status dgl_atomic_create(const struct dgl_log *log, const char *path,
                                  struct dgl_atomic_file **out)
{
    const struct dgl_atomic_file like = {.dir = AT_FDCWD, .mode = 0666};
    return create(log, path, &like, dgl_path_target(path), out);
}

enum dgl_status dgl_atomic_create_private(const struct dgl_log *log, const char *path,
                                          struct dgl_atomic_file **out)
{
    const struct dgl_atomic_file like = {.dir = AT_FDCWD, .mode = 0600};
    return create(log, path, &like, dgl_path_target(path), out);
}

enum dgl_status dgl_atomic_create_at(const struct dgl_log *log, int dir, const char *name,
                                     struct dgl_atomic_file **out)
{
    const struct dgl_atomic_file like = {.dir = dir, .mode = 0600};
    return create(log, name, &like, dgl_strdup(name), out);
}

enum dgl_status dgl_atomic_write(struct dgl_atomic_file *file, const void *bytes, size_t len)
{
    const char *p = bytes;
    if (file->failed)
        return DGL_ERR_IO;
    while (len) {
        ssize_t put = write(file->fd, p, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            file->failed = true;
            return dgl_fail_errno(file->log, "write", file->name);
        }
        p += put;
        len -= (size_t)put;
    }
    return DGL_OK;
}

/* Makes the rename durable. Some file systems cannot sync a directory; that is not an error. */
static void sync_directory(const struct dgl_atomic_file *file)
{
    const char *path = file->path, *slash = strrchr(path, '/');
    char *dir = !slash          ? dgl_strdup(".")
                : slash == path ? dgl_strdup("/")
                                : dgl_strndup(path, slash - path);
    int fd = dir ? openat(file->dir, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

enum dgl_status dgl_atomic_commit(struct dgl_atomic_file **handle)
{
    struct dgl_atomic_file *file = *handle;
    enum dgl_status status;
    TRY(file->failed ? DGL_ERR_IO : DGL_OK);
    if (!file->in_place && fsync(file->fd) != 0)
        TRY(dgl_fail_errno(file->log, "write", file->name));
    int closed = close(file->fd); /* NFS reports a full disk here */
    file->fd = -1;
    if (closed != 0)
        TRY(dgl_fail_errno(file->log, "write", file->name));
    if (!file->in_place && renameat(file->dir, file->temp, file->dir, file->path) != 0)
        TRY(dgl_fail_errno(file->log, "replace", file->name));
    if (!file->in_place) {
        sync_directory(file);
        free(file->temp);
        file->temp = NULL;
    }
done:
    dgl_atomic_abort(handle);
    return status;
}

enum dgl_status dgl_atomic_store(const struct dgl_log *log, const char *path, const void *bytes,
                                 size_t len)
{
    struct dgl_atomic_file *file = NULL;
    enum dgl_status status = dgl_atomic_create(log, path, &file);
    if (status != DGL_OK)
        return status;
    dgl_atomic_write(file, bytes, len); /* the commit fails if this write failed */
    return dgl_atomic_commit(&file);
}

void dgl_atomic_abort(struct dgl_atomic_file **handle)
{
    struct dgl_atomic_file *file = *handle;
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->temp)
        unlinkat(file->dir, file->temp, 0);
    free(file->temp);
    free(file->path);
    free(file->name);
    free(file);
    *handle = NULL;
}
