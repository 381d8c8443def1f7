/* Private folders of cache files. The folder is opened and checked once, and all files are opened
 * relative to its descriptor. Replacing the folder by a link between two calls has no effect. The
 * path to the folder may contain links, because the user's home often does. */
#include "core/base/cache_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/printable.h"

char *dgl_cache_path(const char *given)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (given)
        return dgl_strdup(given);
    if (xdg && xdg[0] == '/') /* the XDG specification ignores relative paths */
        return dgl_path_join(xdg, "dopplergl");
    if (home && home[0] == '/')
        return dgl_path_join(home, ".cache/dopplergl");
    return NULL;
}

/* Returns true if only this user can have written the file or folder `st`. */
static bool is_ours(const struct stat *st)
{
    return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

int dgl_cache_open(const char *path, bool make, char **reason)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    struct dgl_buf why = {0};
    struct stat st;
    char space[DGL_ERRNO_BYTES];

    *reason = NULL;
    int dir = open(path, flags);
    if (dir < 0 && errno == ENOENT && !make)
        return -1;
    const bool absent = dir < 0 && errno == ENOENT;
    if (absent && dgl_dir_make(NULL, path) == DGL_OK)
        dir = open(path, flags);
    if (absent && dir < 0) {
        dgl_buf_printf(&why, "%s: the folder cannot be made: %s", DGL_PRINTABLE(path),
                       dgl_errno_text(errno, space));
    } else if (dir < 0 || fstat(dir, &st) != 0) {
        dgl_buf_printf(&why, "%s: %s", DGL_PRINTABLE(path), dgl_errno_text(errno, space));
    } else if (st.st_uid != geteuid()) {
        dgl_buf_printf(&why, "%s: it belongs to user %ld, wanted %ld", DGL_PRINTABLE(path),
                       (long)st.st_uid, (long)geteuid());
    } else if (!is_ours(&st)) {
        dgl_buf_printf(&why, "%s: mode %04o lets other users write there; chmod 700 it",
                       DGL_PRINTABLE(path), (unsigned)(st.st_mode & 07777));
    } else {
        return dir;
    }
    if (dir >= 0)
        close(dir);
    *reason = dgl_buf_take(&why);
    return -1;
}

bool dgl_cache_read(int dir, const char *name, size_t max, bool used, char **bytes, size_t *len)
{
    struct stat st;

    *bytes = NULL;
    *len = 0;
    /* Without O_NONBLOCK, opening a FIFO would block before fstat() can reject it. */
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !is_ours(&st)) {
        close(fd);
        return false;
    }
    if (used)
        futimens(fd, NULL);
    return dgl_fd_slurp(NULL, fd, name, max, bytes, len) == DGL_OK;
}

bool dgl_cache_write(int dir, const char *name, const struct dgl_str *parts, size_t num_parts)
{
    struct dgl_atomic_file *file;
    enum dgl_status status = dgl_atomic_create_at(NULL, dir, name, &file);
    for (size_t i = 0; status == DGL_OK && i < num_parts; i++)
        status = dgl_atomic_write(file, parts[i].p, parts[i].len);
    if (status == DGL_OK)
        return dgl_atomic_commit(&file) == DGL_OK;
    int error = errno;
    dgl_atomic_abort(&file);
    errno = error;
    return false;
}

bool dgl_cache_stat(int dir, const char *name, uint64_t *size, struct timespec *modified)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
        st.st_uid != geteuid())
        return false;
    *size = (uint64_t)st.st_size;
    *modified = st.st_mtim;
    return true;
}

bool dgl_cache_remove(int dir, const char *name)
{
    return unlinkat(dir, name, 0) == 0;
}
