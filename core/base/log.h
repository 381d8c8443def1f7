/* Lines for people, below the level of errors (status.h). The level is tested before formatting. */
#ifndef DGL_BASE_LOG_H
#define DGL_BASE_LOG_H

#include <stdarg.h>

#include "core/base/status.h"

bool dgl_log_enabled(const struct dgl_log *log, enum dgl_log_level level);
/* Characters that a terminal would act upon are spelled as dgl_buf_visible() does, and very long
 * lines are cut: a line stays one line. Text of files goes through DGL_PRINTABLE() before, which
 * cuts it alone. */
void dgl_logf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, ...)
    DGL_PRINTF(3, 4);
void dgl_vlogf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, va_list args)
    DGL_PRINTF(3, 0);
/* A log whose lines begin with "NAME: ", for calls that do not know the place of their input. NULL
 * as name: nothing is put in front. Borrows both. */
struct dgl_named_log {
    struct dgl_log log; /* hand out &n.log */
    const struct dgl_log *to;
    const char *name;
};
void dgl_named_log_init(struct dgl_named_log *named, const struct dgl_log *to, const char *name);
/* Returns a copy of `log`, or a silent log if `log` is NULL, that stores errors in `error`. Clears
 * `error`. */
struct dgl_log dgl_log_with_error(const struct dgl_log *log, struct dgl_error *error);
/* A text with its lines numbered from 1: a shader that did not compile. */
void dgl_log_source(const struct dgl_log *log, enum dgl_log_level level, const char *text,
                    size_t len);

#define dgl_warn(log, ...) dgl_logf(log, DGL_LOG_WARN, __VA_ARGS__)
/* Not wrong, but the user should know: printed unless -q is given. */
#define dgl_notice(log, ...) dgl_logf(log, DGL_LOG_NOTICE, __VA_ARGS__)
#define dgl_info(log, ...)   dgl_logf(log, DGL_LOG_INFO, __VA_ARGS__)
#define dgl_debug(log, ...)  dgl_logf(log, DGL_LOG_DEBUG, __VA_ARGS__)

#endif
