/* Reads files: pread into the caller's memory, and whole files as text. */
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/checked.h"
#include "core/base/mem.h"
#include "core/base/printable.h"

/* Linux reads at most 0x7ffff000 bytes per call. Smaller steps also let signals interrupt the
 * read. */
enum { read_step_bytes = 64 << 20, slurp_first_bytes = 64 * 1024 };

struct dgl_file {
    int fd;
    uint64_t size;
    char *path;
};

/* After an error *fd may be open; the caller closes it. */
static enum dgl_status open_regular(const struct dgl_log *log, const char *path, int *fd,
                                    struct stat *st)
{
    /* Without O_NONBLOCK, opening a FIFO in a model folder would block before fstat() can reject
     * it. */
    do {
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0) {
        int error = errno;
        char target[PATH_MAX];
        ssize_t len = error == ENOENT ? readlink(path, target, sizeof(target) - 1) : -1;
        errno = error;
        if (len < 0)
            return dgl_fail_errno(log, "open", path);
        /* For a dangling link, report the missing target: the link itself is visible to the
         * user. */
        target[len] = '\0';
        return dgl_fail(
            log, DGL_ERR_IO,
            "cannot open %s: it is a link to %s, which is missing; fetch the file again", path,
            DGL_PRINTABLE(target));
    }
    if (fstat(*fd, st) != 0)
        return dgl_fail_errno(log, "examine", path);
    if (!S_ISREG(st->st_mode))
        return dgl_fail(log, DGL_ERR_IO, "cannot read %s: it is %s, wanted a regular file", path,
                        S_ISDIR(st->st_mode) ? "a directory" : "a device, pipe or socket");
    return DGL_OK;
}

enum dgl_status dgl_file_open(const struct dgl_log *log, const char *path, struct dgl_file **out)
{
    *out = NULL;
    struct dgl_file *file = dgl_new(struct dgl_file);
    if (!file)
        return dgl_fail_memory(log, path, sizeof(*file));
    struct stat st = {0};
    file->fd = -1;
    file->path = dgl_strdup(path);
    enum dgl_status status = file->path ? open_regular(log, path, &file->fd, &st)
                                        : dgl_fail_memory(log, path, strlen(path) + 1);
    file->size = (uint64_t)st.st_size;
    if (status != DGL_OK)
        dgl_file_close(&file);
    *out = file;
    return status;
}

void dgl_file_close(struct dgl_file **file)
{
    if (!*file)
        return;
    if ((*file)->fd >= 0)
        close((*file)->fd);
    free((*file)->path);
    free(*file);
    *file = NULL;
}

uint64_t dgl_file_size(const struct dgl_file *file)
{
    return file->size;
}

const char *dgl_file_path(const struct dgl_file *file)
{
    return file->path;
}

bool dgl_file_stamp(const struct dgl_file *file, struct dgl_file_stamp *out)
{
    struct stat st;
    *out = (struct dgl_file_stamp){0};
    if (fstat(file->fd, &st) != 0)
        return false;
    *out = (struct dgl_file_stamp){
        .device = (uint64_t)st.st_dev,
        .inode = (uint64_t)st.st_ino,
        .size = (uint64_t)st.st_size,
        .modified_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
        .changed_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec,
    };
    return true;
}

enum dgl_status dgl_file_read(const struct dgl_log *log, const struct dgl_file *file,
                              uint64_t offset, void *dst, size_t size)
{
    uint64_t end;
    if (!dgl_add_u64(offset, size, &end) || end > INT64_MAX)
        return dgl_fail(log, DGL_ERR_IO,
                        "%s: %zu bytes at offset %" PRIu64 " cannot be in a file of %" PRIu64
                        " bytes",
                        file->path, size, offset, file->size);
    size_t done = 0;
    while (done < size) {
        size_t step = size - done < read_step_bytes ? size - done : read_step_bytes;
        ssize_t got = pread(file->fd, (char *)dst + done, step, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dgl_fail_errno(log, "read", file->path);
        if (got == 0) {
            struct stat st; /* the file may have shrunk since it was opened */
            uint64_t size_now = offset + done;
            if (fstat(file->fd, &st) == 0 && (uint64_t)st.st_size < size_now)
                size_now = (uint64_t)st.st_size;
            return dgl_fail(log, DGL_ERR_IO,
                            "%s: the file ends at byte %" PRIu64 ", needed %" PRIu64
                            " bytes; it is truncated, fetch it again",
                            file->path, size_now, end);
        }
        done += (size_t)got;
    }
    return DGL_OK;
}

/* An open file or stream that is read to its end. */
struct source {
    const char *path;
    int fd;
    struct stat st;
};

/* Reading a pipe may block forever. A signal handler installed without SA_RESTART ends the wait,
 * and the call counts as cancelled. */
static enum dgl_status fail_waiting(const struct dgl_log *log, const char *op, const char *path)
{
    if (errno == EINTR)
        return dgl_fail(log, DGL_ERR_CANCELLED, "reading %s was cancelled", path);
    return dgl_fail_errno(log, op, path);
}

/* Reads `fd` to its end into `buf`. The size from stat() is only a hint: pipes and /proc
 * report 0. */
static enum dgl_status read_to_end(const struct dgl_log *log, const struct source *from, size_t max,
                                   struct dgl_buf *buf)
{
    const char *path = from->path;
    bool regular = S_ISREG(from->st.st_mode);
    if (regular && (uint64_t)from->st.st_size > max)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: %" PRIu64 " bytes, wanted at most %zu", path,
                        (uint64_t)from->st.st_size, max);
    size_t room = regular ? (size_t)from->st.st_size + 1 : slurp_first_bytes;
    for (;;) {
        if (buf->cap - buf->len < 2 &&
            !dgl_grow((void **)&buf->p, &buf->cap, buf->len + room + 1, 1))
            return dgl_fail_memory(log, path, (uint64_t)buf->len + room + 1);
        size_t step = buf->cap - buf->len - 1;
        ssize_t got =
            read(from->fd, buf->p + buf->len, step < read_step_bytes ? step : read_step_bytes);
        if (got < 0 && errno == EINTR && regular)
            continue;
        if (got < 0)
            return fail_waiting(log, "read", path);
        if (got == 0)
            break;
        buf->len += (size_t)got;
        if (buf->len > max)
            return dgl_fail(log, DGL_ERR_FORMAT, "%s: more than %zu bytes, wanted at most that",
                            path, max);
        room = slurp_first_bytes;
    }
    buf->p[buf->len] = '\0';
    return DGL_OK;
}

/* Reads and closes `from`; `status` is the result of opening it. */
static enum dgl_status slurp_source(const struct dgl_log *log, enum dgl_status status,
                                    const struct source *from, size_t max, char **text, size_t *len)
{
    struct dgl_buf buf = {0};
    if (status == DGL_OK)
        status = read_to_end(log, from, max, &buf);
    if (from->fd >= 0)
        close(from->fd);
    if (status == DGL_OK) {
        *len = buf.len;
        *text = dgl_buf_take(&buf);
    }
    dgl_buf_finish(&buf);
    return status;
}

enum dgl_status dgl_file_slurp(const struct dgl_log *log, const char *path, size_t max, char **text,
                               size_t *len)
{
    struct source from = {.path = path};
    *text = NULL;
    *len = 0;
    enum dgl_status status = open_regular(log, path, &from.fd, &from.st);
    return slurp_source(log, status, &from, max, text, len);
}

enum dgl_status dgl_fd_slurp(const struct dgl_log *log, int fd, const char *path, size_t max,
                             char **text, size_t *len)
{
    struct source from = {.path = path, .fd = fd};
    *text = NULL;
    *len = 0;
    enum dgl_status status =
        fstat(fd, &from.st) == 0 ? DGL_OK : dgl_fail_errno(log, "examine", path);
    return slurp_source(log, status, &from, max, text, len);
}

enum dgl_status dgl_stream_slurp(const struct dgl_log *log, const char *path, size_t max,
                                 char **text, size_t *len)
{
    struct source from = {.path = path};
    enum dgl_status status = DGL_OK;
    *text = NULL;
    *len = 0;
    from.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (from.fd < 0)
        status = fail_waiting(log, "open", path);
    else if (fstat(from.fd, &from.st) != 0)
        status = dgl_fail_errno(log, "examine", path);
    return slurp_source(log, status, &from, max, text, len);
}
