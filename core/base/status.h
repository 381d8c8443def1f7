/* One way to report errors: the place that finds the fault logs one line and returns the status;
 * callers only hand the status up. */
#ifndef DGL_BASE_STATUS_H
#define DGL_BASE_STATUS_H

#include "core/dopplergl.h"

#define DGL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Evaluates `call` into the function's variable `status` and jumps to its label `done` on failure.
 * Cleanup follows that label and is correct for every state in which a jump can happen. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != DGL_OK)                                                                      \
            goto done;                                                                             \
    } while (0)

/* Logs the line at DGL_LOG_ERROR, a cancelled call at DGL_LOG_INFO (log may be NULL), and returns
 * `status`. The text names file, field, both values and the remedy; no "error:" prefix, no newline,
 * no final full stop. */
enum dgl_status dgl_fail(const struct dgl_log *log, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);

/* A public function that makes something got no place to put it: its `out` is NULL. */
enum dgl_status dgl_fail_no_out(const struct dgl_log *log, const char *function);

/* Out of memory, with what was wanted. */
enum dgl_status dgl_fail_memory(const struct dgl_log *log, const char *what, uint64_t bytes);

/* Returns the text of an errno, which may be stored in `space`. Thread-safe, unlike strerror(). */
#define DGL_ERRNO_BYTES 128
const char *dgl_errno_text(int error, char space[DGL_ERRNO_BYTES]);
/* "OP PATH: strerror(errno)" as DGL_ERR_IO, with a remedy for the usual causes. */
enum dgl_status dgl_fail_errno(const struct dgl_log *log, const char *op, const char *path);

#endif
