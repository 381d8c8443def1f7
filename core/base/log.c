/* Log lines: level, formatting, escaping, callback. */
#include "core/base/log.h"

#include <stdio.h>

#include "core/base/printable.h"

/* Longer lines are cut: a message may contain a whole file. */
#define LINE_BYTES 8000

enum dgl_log_level dgl_log_level(const struct dgl_log *log)
{
    return __atomic_load_n(&log->level, __ATOMIC_RELAXED);
}

bool dgl_log_enabled(const struct dgl_log *log, enum dgl_log_level level)
{
    if (log && log->error && level == DGL_LOG_ERROR)
        return true;
    return log && log->write && level != DGL_LOG_NONE && level <= dgl_log_level(log);
}

void dgl_vlogf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, va_list args)
{
    if (!dgl_log_enabled(log, level))
        return;
    struct dgl_buf raw = {0}, line = {0};
    dgl_buf_vprintf(&raw, fmt, args);
    bool cut = raw.len > LINE_BYTES;
    dgl_buf_visible(&line, (struct dgl_str){raw.p, cut ? LINE_BYTES : raw.len});
    if (cut)
        dgl_buf_puts(&line, "...");
    /* If memory is exhausted, log the unformatted message: an error must not be lost. */
    const char *text = raw.failed || line.failed ? fmt : line.p ? line.p : "";
    if (level == DGL_LOG_ERROR && log->error) {
        /* Several threads of one call may share `error`. The thread that writes the first byte
         * writes the rest. */
        char empty = '\0', *to = log->error->text;
        if (text[0] && __atomic_compare_exchange_n(to, &empty, text[0], false, __ATOMIC_RELAXED,
                                                   __ATOMIC_RELAXED))
            snprintf(to + 1, sizeof(log->error->text) - 1, "%s", text + 1);
    } else {
        log->write(log->priv, level, text);
    }
    dgl_buf_finish(&raw);
    dgl_buf_finish(&line);
}

void dgl_logf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    dgl_vlogf(log, level, fmt, args);
    va_end(args);
}

static void write_named(void *priv, enum dgl_log_level level, const char *text)
{
    const struct dgl_named_log *named = priv;
    dgl_logf(named->to, level, "%s%s%s", named->name ? named->name : "", named->name ? ": " : "",
             text);
}

static bool named_cancelled(void *priv)
{
    const struct dgl_named_log *named = priv;
    return named->to->cancelled && named->to->cancelled(named->to->priv);
}

void dgl_named_log_init(struct dgl_named_log *named, const struct dgl_log *to, const char *name)
{
    *named = (struct dgl_named_log){.to = to, .name = name};
    if (!to)
        return;
    named->log =
        (struct dgl_log){.priv = named, .level = dgl_log_level(to), .cancelled = named_cancelled};
    if (to->write || to->error)
        named->log.write = write_named;
    if (to->error && named->log.level == DGL_LOG_NONE)
        named->log.level = DGL_LOG_ERROR; /* `error` of `to` has no level of its own */
}

struct dgl_log dgl_log_with_error(const struct dgl_log *log, struct dgl_error *error)
{
    struct dgl_log with = {.error = error};
    error->text[0] = '\0';
    if (log) {
        with.write = log->write;
        with.priv = log->priv;
        with.level = dgl_log_level(log);
        with.cancelled = log->cancelled;
    }
    return with;
}

void dgl_log_source(const struct dgl_log *log, enum dgl_log_level level, const char *text,
                    size_t len)
{
    if (!dgl_log_enabled(log, level))
        return;
    struct dgl_str rest = {text, len}, line;
    for (int number = 1; dgl_str_split(&rest, '\n', &line); number++)
        dgl_logf(log, level, "%4d  %.*s", number, (int)line.len, line.p);
}
