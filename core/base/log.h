/* Log lines below the level of errors (status.h). The level is checked before the line is
 * formatted. */
#ifndef DGL_BASE_LOG_H
#define DGL_BASE_LOG_H

#include <stdarg.h>

#include "core/base/status.h"

/* Returns the level of a log. Another thread may change it meanwhile. */
enum dgl_log_level dgl_log_level(const struct dgl_log *log);
bool dgl_log_enabled(const struct dgl_log *log, enum dgl_log_level level);
/* Control characters are escaped as by dgl_buf_visible(), and very long lines are cut, so a message
 * is always one line. Pass text of files through DGL_PRINTABLE(), which shortens only that text. */
void dgl_logf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, ...)
    DGL_PRINTF(3, 4);
void dgl_vlogf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, va_list args)
    DGL_PRINTF(3, 0);
/* Puts "NAME: " before each line, for callees that do not know the source of their input. If the
 * name is NULL, the prefix is omitted. Borrows name and log. */
struct dgl_named_log {
    struct dgl_log log; /* pass &n.log to callees */
    const struct dgl_log *to;
    const char *name;
};
void dgl_named_log_init(struct dgl_named_log *named, const struct dgl_log *to, const char *name);
/* Returns a copy of `log`, or a silent log if `log` is NULL, that stores errors in `error`. Clears
 * `error`. */
struct dgl_log dgl_log_with_error(const struct dgl_log *log, struct dgl_error *error);
/* Logs a text with numbered lines, starting at 1: a shader that did not compile. */
void dgl_log_source(const struct dgl_log *log, enum dgl_log_level level, const char *text,
                    size_t len);

#define dgl_warn(log, ...) dgl_logf(log, DGL_LOG_WARN, __VA_ARGS__)
/* For facts that are not errors but that users should see. Printed unless -q is given. */
#define dgl_notice(log, ...) dgl_logf(log, DGL_LOG_NOTICE, __VA_ARGS__)
#define dgl_info(log, ...)   dgl_logf(log, DGL_LOG_INFO, __VA_ARGS__)
#define dgl_debug(log, ...)  dgl_logf(log, DGL_LOG_DEBUG, __VA_ARGS__)

#endif
