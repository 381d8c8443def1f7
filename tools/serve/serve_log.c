/* The access log: a line of JSON per request. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/report.h"
#include "tools/serve/serve.h"

bool serve_log_open(struct serve *s)
{
    s->log_fd = s->opt->quiet ? -1 : STDERR_FILENO;
    if (!s->opt->log_file)
        return true;
    s->log_fd = open(s->opt->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (s->log_fd < 0)
        console_error("serve: open %s: %s", s->opt->log_file, strerror(errno));
    return s->log_fd >= 0;
}

void serve_log_close(struct serve *s)
{
    if (s->log_fd > STDERR_FILENO)
        close(s->log_fd);
}

void serve_log_write(const struct serve_exchange *ex)
{
    struct dgl_buf line = {0};
    struct dgl_json_writer w = dgl_json_writer(&line, 0);
    char when[32];
    struct tm utc;
    if (ex->server->log_fd < 0)
        return;
    gmtime_r(&ex->end_time, &utc);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "time", when);
    dgl_jw_field_cstr(&w, "client", ex->client);
    dgl_jw_field_cstr(&w, "method", ex->method);
    dgl_jw_field_cstr(&w, "path", ex->path);
    dgl_jw_field_i64(&w, "status", ex->status);
    dgl_jw_field_u64(&w, "ms", (ex->end_ns - ex->start_ns) / 1000000u);
    if (ex->num_choices > 0 || ex->prompt_tokens > 0) {
        dgl_jw_field_u64(&w, "prompt_tokens", ex->prompt_tokens);
        dgl_jw_field_u64(&w, "tokens", ex->tokens);
        dgl_jw_field_bool(&w, "left", ex->gone);
    }
    report_end(&w);
    if (!line.failed && write(ex->server->log_fd, line.p, line.len) < 0)
        errno = 0; /* the server continues if the disk is full */
    dgl_buf_finish(&line);
}
