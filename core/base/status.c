/* Status names, and functions that report an error in one line where it is found. */
#include "core/base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/printable.h"

const char *dgl_status_str(enum dgl_status status)
{
    switch (status) {
    case DGL_OK:
        return "ok";
    case DGL_ERR_INVALID_ARG:
        return "invalid argument";
    case DGL_ERR_NO_MEMORY:
        return "out of memory";
    case DGL_ERR_NO_DEVICE:
        return "no usable device";
    case DGL_ERR_UNSUPPORTED:
        return "unsupported";
    case DGL_ERR_IO:
        return "input/output error";
    case DGL_ERR_FORMAT:
        return "malformed file";
    case DGL_ERR_INTEGRITY:
        return "integrity check failed";
    case DGL_ERR_KERNEL:
        return "kernel error";
    case DGL_ERR_GPU:
        return "driver error";
    case DGL_ERR_DEVICE_LOST:
        return "device lost";
    case DGL_ERR_CONTEXT_FULL:
        return "context full";
    case DGL_ERR_CANCELLED:
        return "cancelled";
    case DGL_ERR_BUSY:
        return "busy";
    }
    return "unknown status";
}

enum dgl_status dgl_fail(const struct dgl_log *log, enum dgl_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    /* A cancelled call is not an error: the caller asked for it. */
    dgl_vlogf(log, status == DGL_ERR_CANCELLED ? DGL_LOG_INFO : DGL_LOG_ERROR, fmt, args);
    va_end(args);
    return status;
}

enum dgl_status dgl_return_text(const struct dgl_log *log, enum dgl_status status, const char *what,
                                struct dgl_buf *buf, char **text, size_t *len)
{
    dgl_buf_puts(buf, ""); /* an empty text is a string too */
    const size_t got = buf->len;
    *text = status == DGL_OK ? dgl_buf_take(buf) : NULL;
    if (status == DGL_OK && !*text)
        status = dgl_fail_memory(log, what, got);
    *len = *text ? got : 0;
    dgl_buf_finish(buf);
    return status;
}

enum dgl_status dgl_fail_no_out(const struct dgl_log *log, const char *function)
{
    return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: out is NULL, wanted where to put the result",
                    function);
}

enum dgl_status dgl_fail_null(const struct dgl_log *log, const char *function)
{
    return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: an argument is NULL that must be set", function);
}

enum dgl_status dgl_fail_memory(const struct dgl_log *log, const char *what, uint64_t bytes)
{
    return dgl_fail(log, DGL_ERR_NO_MEMORY, "out of memory: %s needs %" PRIu64 " bytes",
                    DGL_PRINTABLE(what), bytes);
}

static const char *errno_remedy(int error)
{
    switch (error) {
    case ENOENT:
        return "; check the path";
    case EACCES:
    case EPERM:
        return "; check its permissions";
    case ENOSPC:
    case EDQUOT:
        return "; make room or write elsewhere";
    case EFBIG:
        return "; raise the limit on files' sizes (ulimit -f) or write elsewhere";
    case EROFS:
        return "; write elsewhere";
    case EMFILE:
    case ENFILE:
        return "; raise the limit on open files (ulimit -n)";
    default:
        return "";
    }
}

/* strerror_r() exists in two forms: the POSIX form (musl) fills the buffer, the GNU form returns
 * the text. */
static inline const char *posix_text(int (*get)(int, char *, size_t), int error, char *space)
{
    return get(error, space, DGL_ERRNO_BYTES) == 0 ? space : "unknown error";
}

static inline const char *gnu_text(char *(*get)(int, char *, size_t), int error, char *space)
{
    return get(error, space, DGL_ERRNO_BYTES);
}

const char *dgl_errno_text(int error, char space[DGL_ERRNO_BYTES])
{
    return _Generic(&strerror_r, int (*)(int, char *, size_t)
                    : posix_text, char *(*)(int, char *, size_t)
                    : gnu_text)(strerror_r, error, space);
}

enum dgl_status dgl_fail_errno(const struct dgl_log *log, const char *op, const char *path)
{
    int error = errno;
    char space[DGL_ERRNO_BYTES];
    const char *text = dgl_errno_text(error, space);
    return dgl_fail(log, DGL_ERR_IO, "cannot %s %s: %s%s", op, path, text, errno_remedy(error));
}
