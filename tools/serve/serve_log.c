/* The access log: a line of JSON per request. It goes to standard output, so that the lines for
 * people on standard error are apart. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/report.h"
#include "tools/serve/serve.h"

static bool is_file(const struct options *opt)
{
    return opt->log_file && strcmp(opt->log_file, "-") != 0;
}

/* Returns -1 after an error line if the file cannot be opened. */
static int open_file(const struct options *opt)
{
    const int fd = open(opt->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        console_error("serve: --log-file: open %s: %s", opt->log_file, strerror(errno));
    return fd;
}

bool serve_log_open(struct serve *s)
{
    const struct options *opt = s->opt;
    s->log_fd = is_file(opt) ? open_file(opt) : opt->quiet && !opt->log_file ? -1 : STDOUT_FILENO;
    return s->log_fd >= 0 || !is_file(opt);
}

void serve_log_reopen(struct serve *s)
{
    const int fd = is_file(s->opt) ? open_file(s->opt) : -1;
    if (fd < 0)
        return;
    pthread_mutex_lock(&s->log_lock);
    const int old = s->log_fd;
    s->log_fd = fd;
    pthread_mutex_unlock(&s->log_lock);
    close(old);
}

void serve_log_close(struct serve *s)
{
    if (s->log_fd > STDERR_FILENO)
        close(s->log_fd);
}

void serve_log_note_error(struct serve_exchange *ex, const struct serve_error *error)
{
    struct serve_facts *f = &ex->facts;
    struct dgl_str text = dgl_str_of(error->message);
    if (text.len >= sizeof(f->error)) /* no part of a character at the end */
        for (text.len = sizeof(f->error) - 1; text.len && (text.p[text.len] & 0xc0) == 0x80;)
            text.len--;
    memcpy(f->error, text.p, text.len);
    f->error[text.len] = '\0';
    memcpy(f->param, error->param, sizeof(f->param));
    f->code = error->code;
}

static const char *finish_of(const struct serve_exchange *ex, size_t choice)
{
    const char *finish = ex->choices[choice].finish;
    return finish ? finish : ex->facts.error[0] ? "error" : "cancelled";
}

/* Writes the finish reasons of the answers, each once. */
static void write_finish(const struct serve_exchange *ex, struct dgl_json_writer *w)
{
    struct dgl_buf reasons = {0};
    for (size_t i = 0; i < ex->num_choices; i++) {
        bool known = false;
        for (size_t k = 0; k < i && !known; k++)
            known = strcmp(finish_of(ex, i), finish_of(ex, k)) == 0;
        if (!known)
            dgl_buf_printf(&reasons, "%s%s", reasons.len ? "," : "", finish_of(ex, i));
    }
    dgl_jw_field_cstr(w, "finish_reason", reasons.p ? reasons.p : "");
    dgl_buf_finish(&reasons);
}

static double ms_between(uint64_t from, uint64_t to)
{
    return from && to > from ? (double)(to - from) * 1e-6 : 0;
}

static void write_answer(const struct serve_exchange *ex, struct dgl_json_writer *w)
{
    const struct serve_facts *f = &ex->facts;
    dgl_jw_field_u64(w, "prompt_tokens", ex->prompt_tokens);
    dgl_jw_field_u64(w, "tokens", ex->tokens);
    dgl_jw_field_bool(w, "left", ex->gone);
    dgl_jw_field_u64(w, "cached_tokens", ex->reused_tokens);
    if (ex->num_choices == 0)
        return;
    write_finish(ex, w);
    if (f->wait_ns != UINT64_MAX)
        report_f64(w, "queue_ms", (double)f->wait_ns * 1e-6);
    if (f->first_token_ns)
        report_f64(w, "first_token_ms", ms_between(ex->body_ns, f->first_token_ns));
}

/* A slow reader of a pipe must not stop the server, so lines without room are dropped. */
static void write_line(struct serve *s, const struct dgl_buf *line)
{
    pthread_mutex_lock(&s->log_lock);
    struct pollfd room = {.fd = s->log_fd, .events = POLLOUT};
    const bool open = s->log_fd >= 0;
    if (open && poll(&room, 1, 0) == 0) {
        if (!s->log_drops)
            console_error("serve: the reader of the access log is too slow: lines are dropped");
        s->log_drops = true;
    } else if (open) { /* the server continues if the disk is full */
        const bool fails = write(s->log_fd, line->p, line->len) < 0;
        if (fails && !s->log_fails)
            console_error("serve: the access log cannot be written, and its lines are lost: %s",
                          strerror(errno));
        s->log_fails = fails;
        errno = 0;
    }
    pthread_mutex_unlock(&s->log_lock);
}

void serve_log_write(const struct serve_exchange *ex)
{
    const struct serve_facts *f = &ex->facts;
    struct dgl_buf line = {0};
    struct dgl_json_writer w = dgl_json_writer(&line, 0);
    char when[32];
    struct tm utc;
    gmtime_r(&ex->end_time.tv_sec, &utc);
    const size_t len = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(when + len, sizeof(when) - len, ".%03ldZ", ex->end_time.tv_nsec / 1000000);
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "time", when);
    dgl_jw_field_cstr(&w, "client", ex->client);
    dgl_jw_field_cstr(&w, "method", ex->method);
    dgl_jw_field_cstr(&w, "path", ex->path);
    dgl_jw_field_i64(&w, "status", ex->status);
    report_f64(&w, "ms", ms_between(ex->start_ns, ex->end_ns));
    dgl_jw_field_cstr(&w, "id", ex->id);
    if (f->proxy[0])
        dgl_jw_field_cstr(&w, "proxy", f->proxy);
    if (ex->key)
        dgl_jw_field_u64(&w, "key", ex->key);
    if (ex->num_choices > 0 || ex->prompt_tokens > 0)
        write_answer(ex, &w);
    if (f->error[0]) {
        dgl_jw_field_cstr(&w, "error", f->error);
        dgl_jw_field_cstr(&w, "param", f->param[0] ? f->param : NULL);
        dgl_jw_field_cstr(&w, "code", f->code);
    }
    report_end(&w);
    if (!line.failed)
        write_line(ex->server, &line);
    dgl_buf_finish(&line);
}
