/* Error reporting. The function that finds an error logs one line and returns a status. Its callers
 * only return the status. */
#ifndef DGL_BASE_STATUS_H
#define DGL_BASE_STATUS_H

#include "core/dopplergl.h"

#define DGL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Stores the result of `call` in the local variable `status` and jumps to the label `done` on
 * failure. The cleanup at `done` must work for every state in which a jump can happen. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != DGL_OK)                                                                      \
            goto done;                                                                             \
    } while (0)

/* Logs one line and returns `status`. The level is DGL_LOG_INFO for a cancelled call, else
 * DGL_LOG_ERROR. `log` may be NULL. The text names the file, the field, both values and the remedy.
 * It has no "error:" prefix, no newline and no final full stop. */
enum dgl_status dgl_fail(const struct dgl_log *log, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);

/* Fails because a caller of the public API passed NULL as `out`. */
enum dgl_status dgl_fail_no_out(const struct dgl_log *log, const char *function);

/* Fails because a caller of the public API passed NULL for another argument that must be set. */
enum dgl_status dgl_fail_null(const struct dgl_log *log, const char *function);

/* Fails because memory is exhausted, and names the object and its size. */
enum dgl_status dgl_fail_memory(const struct dgl_log *log, const char *what, uint64_t bytes);

struct dgl_buf;
/* Ends a call with `status` that returns a text. Gives the text of `buf` to the caller (dgl_free)
 * if the status is DGL_OK; `what` names it if memory is exhausted. Sets *text to NULL and *len to 0
 * on failure. Finishes `buf`. */
enum dgl_status dgl_return_text(const struct dgl_log *log, enum dgl_status status, const char *what,
                                struct dgl_buf *buf, char **text, size_t *len);

/* Returns the text of an errno, which may be stored in `space`. Thread-safe, unlike strerror(). */
#define DGL_ERRNO_BYTES 128
const char *dgl_errno_text(int error, char space[DGL_ERRNO_BYTES]);
/* Fails with DGL_ERR_IO and "OP PATH: strerror(errno)". Adds a remedy for common errors. */
enum dgl_status dgl_fail_errno(const struct dgl_log *log, const char *op, const char *path);

#endif
