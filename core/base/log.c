/* Formats log lines and hands them to the callback. */
#include "core/base/log.h"

#include "core/base/str.h"

bool dgl_log_enabled(const struct dgl_log *log, enum dgl_log_level level)
{
    return log && log->write && level != DGL_LOG_NONE && level <= log->level;
}

static void make_one_line(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
            *p = '?';
    }
}

void dgl_vlogf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, va_list args)
{
    if (!dgl_log_enabled(log, level))
        return;
    struct dgl_buf line = {0};
    dgl_buf_vprintf(&line, fmt, args);
    if (line.failed || !line.p) {
        /* An empty line is possible; a lost one must not go unnoticed. The format still says what
         * it was. */
        log->write(log->priv, level, line.failed ? fmt : "");
    } else {
        make_one_line(line.p);
        log->write(log->priv, level, line.p);
    }
    dgl_buf_finish(&line);
}

void dgl_logf(const struct dgl_log *log, enum dgl_log_level level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    dgl_vlogf(log, level, fmt, args);
    va_end(args);
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
