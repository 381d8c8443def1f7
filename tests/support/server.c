/* The server's process, and HTTP/1.1 as far as tests read it. */
#include "tests/support/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/test.h"

/* The longest wait is for loading a model with a cold shader cache on a busy machine. */
#define PATIENCE_MS 240000
#define MAX_ARGS    40

/* ---- process --------------------------------------------------------------------------------- */

/* False at the end. */
static bool read_more(int fd, struct dgl_buf *out)
{
    char bytes[4096];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int came = poll(&ready, 1, PATIENCE_MS);
    if (came == 0)
        fail_msg("nothing came for %d s", PATIENCE_MS / 1000);
    const ssize_t got = read(fd, bytes, sizeof(bytes));
    if (got > 0)
        dgl_buf_append(out, bytes, (size_t)got);
    return got > 0 || (got < 0 && errno == EINTR);
}

void server_start(struct server *s, const char *const *args)
{
    server_start_with(s, &(const struct server_params){.args = args});
}

void server_start_with(struct server *s, const struct server_params *params)
{
    const char *const *args = params->args;
    const char *argv[MAX_ARGS] = {params->program ? params->program : process_program(),
                                  "serve",
                                  "--device",
                                  "any",
                                  "--port",
                                  "0"};
    int pipes[2];
    *s = (struct server){0};
    for (size_t i = 0; args[i]; i++) {
        assert_true(i + 7 < MAX_ARGS);
        argv[i + 6] = args[i];
    }
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        setenv("DOPPLERGL_DATA", "tests", 1);
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        unsetenv("DOPPLERGL_MODEL");
        unsetenv("DOPPLERGL_API_KEY");
        for (size_t i = 0; params->env && params->env[i]; i++)
            putenv((char *)(uintptr_t)params->env[i]);
        if (params->files)
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){params->files, params->files});
        execv(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
    close(pipes[1]);
    assert_true(s->pid > 0);
    s->err = pipes[0];
    server_wait_for(s, "listening on http://127.0.0.1:");
    const char *at = strstr(s->said.p, "listening on http://127.0.0.1:") + 30;
    while (!strchr(at, '\n') && read_more(s->err, &s->said))
        at = strstr(s->said.p, "listening on http://127.0.0.1:") + 30;
    s->port = (int)strtol(at, NULL, 10);
    assert_true(s->port > 0);
}

void server_wait_for(struct server *s, const char *text)
{
    while (!s->said.p || !strstr(s->said.p, text))
        if (!read_more(s->err, &s->said))
            fail_msg("the server ended without \"%s\": %s", text, s->said.p ? s->said.p : "");
}

int server_stop(struct server *s, int signal)
{
    int status = 0;
    if (signal)
        kill(s->pid, signal);
    while (read_more(s->err, &s->said))
        continue;
    close(s->err);
    waitpid(s->pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void server_finish(struct server *s)
{
    dgl_buf_finish(&s->said);
}

void server_end(struct server *s)
{
    assert_int_equal(server_stop(s, SIGTERM), 0);
    server_finish(s);
}

/* ---- client ---------------------------------------------------------------------------------- */

int server_connect(const struct server *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail_msg("connect: %s", strerror(errno));
    return fd;
}

bool server_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t put = send(fd, bytes, len, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes += put;
        len -= (size_t)put;
    }
    return true;
}

bool server_receive_until(int fd, const char *text, struct dgl_buf *held)
{
    while (!held->p || !strstr(held->p, text))
        if (!read_more(fd, held))
            return false;
    return true;
}

void server_expect(struct server *s, int fd, const char *text, struct dgl_buf *held)
{
    if (server_receive_until(fd, text, held))
        return;
    const int ended = waitpid(s->pid, NULL, WNOHANG) != 0;
    if (!ended)
        kill(s->pid, SIGKILL);
    while (read_more(s->err, &s->said))
        continue;
    fail_msg("the connection ended without \"%s\" (server %s):\n%s\nthe server said:\n%s", text,
             ended ? "ended" : "running", held->p ? held->p : "", s->said.p ? s->said.p : "");
}

/* Takes `count` bytes off the front. */
static void drop(struct dgl_buf *buf, size_t count)
{
    memmove(buf->p, buf->p + count, buf->len - count + 1);
    buf->len -= count;
}

/* At least `count` bytes. */
static bool need(int fd, struct dgl_buf *held, size_t count)
{
    while (held->len < count)
        if (!read_more(fd, held))
            return false;
    return true;
}

static void read_chunks(int fd, struct dgl_buf *held, struct dgl_buf *body)
{
    for (size_t size = 1; size > 0;) {
        char *end = NULL;
        while (!held->p || !(end = strstr(held->p, "\r\n")))
            if (!read_more(fd, held))
                return;
        size = strtoul(held->p, NULL, 16);
        drop(held, (size_t)(end - held->p) + 2);
        if (!need(fd, held, size + 2))
            return;
        dgl_buf_append(body, held->p, size);
        drop(held, size + 2);
    }
}

void server_receive(int fd, struct dgl_buf *held, struct reply *r)
{
    struct dgl_buf own = {0}, body = {0};
    struct dgl_buf *in = held ? held : &own;
    *r = (struct reply){0};
    if (server_receive_until(fd, "\r\n\r\n", in)) {
        const size_t head = (size_t)(strstr(in->p, "\r\n\r\n") - in->p) + 4;
        r->head = checked(strndup(in->p, head));
        drop(in, head);
        assert_int_equal(sscanf(r->head, "HTTP/1.1 %d", &r->status), 1);
        const char *length = strstr(r->head, "Content-Length: ");
        if (strstr(r->head, "Transfer-Encoding: chunked")) {
            read_chunks(fd, in, &body);
        } else if (length && need(fd, in, strtoul(length + 16, NULL, 10))) {
            const size_t len = strtoul(length + 16, NULL, 10);
            dgl_buf_append(&body, in->p ? in->p : "", len);
            if (len)
                drop(in, len);
        }
    }
    dgl_buf_append(&body, "", 0);
    r->len = body.len;
    r->body = checked(dgl_buf_take(&body));
    if (!held)
        assert_int_equal(own.len, 0);
    dgl_buf_finish(&own);
}

char *server_request(const char *path, const char *headers, const char *body)
{
    struct dgl_buf out = {0};
    dgl_buf_printf(&out, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s",
                   path, headers, strlen(body), body);
    return checked(dgl_buf_take(&out));
}

void server_call(const struct server *s, const char *method, const char *path, const char *headers,
                 const char *body, struct reply *r)
{
    struct dgl_buf out = {0};
    const int fd = server_connect(s);
    dgl_buf_printf(&out, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method,
                   path, headers);
    if (body)
        dgl_buf_printf(&out, "Content-Length: %zu\r\n", strlen(body));
    dgl_buf_printf(&out, "\r\n%s", body ? body : "");
    server_send(fd, out.p, out.len); /* it may have answered before it read all */
    server_receive(fd, NULL, r);
    close(fd);
    dgl_buf_finish(&out);
}

void server_post(const struct server *s, const char *path, const char *body, struct reply *r)
{
    server_call(s, "POST", path, "", body, r);
}

int server_begin_stream(struct server *s, const char *path, const char *body, const char *part,
                        struct dgl_buf *held)
{
    const int fd = server_connect(s);
    char *request = server_request(path, "Connection: close\r\n", body);
    assert_true(server_send(fd, request, strlen(request)));
    free(request);
    server_expect(s, fd, part, held);
    return fd;
}

int64_t server_metric(const struct server *s, const char *name)
{
    struct reply r;
    char line[128];
    server_call(s, "GET", "/metrics", "", NULL, &r);
    snprintf(line, sizeof(line), "\ndopplergl_%s ", name);
    const char *at = strstr(r.body, line);
    assert_non_null(at);
    const int64_t value = strtoll(at + strlen(line), NULL, 10);
    reply_finish(&r);
    return value;
}

void server_wait_for_metric(const struct server *s, const char *name, int64_t value)
{
    for (int i = 0; server_metric(s, name) != value; i++) {
        usleep(20000);
        if (i > 6000)
            fail_msg("%s never is %lld", name, (long long)value);
    }
}

/* ---- replies --------------------------------------------------------------------------------- */

const struct dgl_json *reply_json(struct reply *r)
{
    if (!r->json && dgl_json_parse(NULL, "reply", r->body, r->len, &r->json) != DGL_OK)
        fail_msg("not JSON: %s", r->body);
    return dgl_json_root(r->json);
}

bool reply_next_event(struct dgl_str *rest, struct dgl_json_doc **doc)
{
    struct dgl_str line;
    while (rest->len && dgl_str_split(rest, '\n', &line)) {
        if (dgl_str_eq(line, "data: [DONE]"))
            return false;
        if (!dgl_str_starts(line, "data: "))
            continue;
        if (dgl_json_parse(NULL, "event", line.p + 6, line.len - 6, doc) != DGL_OK)
            fail_msg("not JSON: %.*s", (int)line.len, line.p);
        return true;
    }
    fail_msg("a stream without [DONE]");
    return false;
}

void reply_finish(struct reply *r)
{
    free(r->head);
    free(r->body);
    dgl_json_destroy(&r->json);
}

struct dgl_str reply_text(struct reply *r, size_t choice)
{
    if (r->status != 200)
        fail_msg("status %d: %s", r->status, r->body);
    const struct dgl_json *c = dgl_json_at(dgl_json_get(reply_json(r), "choices"), choice);
    const struct dgl_json *text = dgl_json_get(c, "text");
    if (!text)
        text = dgl_json_get(dgl_json_get(c, "message"), "content");
    assert_true(dgl_json_is(text, DGL_JSON_STRING));
    return dgl_json_str(text);
}

int64_t reply_number(const struct dgl_json *object, const char *key)
{
    int64_t number = -1;
    assert_true(dgl_json_i64(dgl_json_get(object, key), &number));
    return number;
}

void reply_assert_error(struct reply *r, int status, const char *param, const char *part)
{
    const struct dgl_json *error = dgl_json_get(reply_json(r), "error");
    if (r->status != status)
        fail_msg("status %d, wanted %d: %s", r->status, status, r->body);
    assert_true(dgl_json_is(dgl_json_get(error, "type"), DGL_JSON_STRING));
    assert_contains(dgl_json_str(dgl_json_get(error, "message")).p, part);
    if (param)
        assert_string_equal(dgl_json_str(dgl_json_get(error, "param")).p, param);
    else
        assert_true(dgl_json_is(dgl_json_get(error, "param"), DGL_JSON_NULL));
}
