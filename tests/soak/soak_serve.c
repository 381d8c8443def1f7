/* Soak test of `dopplergl serve` over sockets. Some clients stay, some read slowly, and some
 * disconnect at any point of the exchange. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/soak/soak.h"
#include "tests/support/server.h"

#define SILENCE_NS 240000000000u /* no client received a byte for so long: the server hangs */

enum client { CLIENT_WHOLE, CLIENT_STREAM, CLIENT_SLOW, CLIENT_LEAVES, CLIENT_CLOSES_HALF };

/* A slot for a connection. */
struct visit {
    int fd; /* -1 if the slot is free */
    int request;
    enum client kind;
    size_t leave_at; /* bytes of the answer */
    uint64_t wait_ns;
    struct dgl_buf in;
};

/* The answer of a request run alone. */
struct reference {
    char *text;
    size_t sure; /* bytes before the first token with a small margin */
};

static struct {
    struct server server;
    bool running;
    struct soak_request request[SOAK_REQUESTS];
    struct reference alone[SOAK_REQUESTS];
    struct visit visit[SOAK_IN_FLIGHT];
    size_t finished, left, exact, until_margin; /* connections */
} soak;

/* ---- requests -------------------------------------------------------------------------------- */

static char *body_of(const struct soak_request *r, bool stream, bool logprobs)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "prompt", r->prompt);
    dgl_jw_field_i64(&w, "max_tokens", r->max_tokens);
    dgl_jw_field_f64(&w, "temperature", r->seed ? 0.9 : 0);
    if (r->seed) {
        dgl_jw_field_u64(&w, "seed", r->seed);
    }
    if (r->stop) {
        dgl_jw_field_cstr(&w, "stop", r->stop);
    }
    dgl_jw_field_bool(&w, "stream", stream);
    if (logprobs) {
        dgl_jw_field_i64(&w, "logprobs", 2);
    }
    dgl_jw_end_object(&w);
    return checked(dgl_buf_take(&out));
}

/* Runs the request alone. Asks for probabilities if margins are needed. */
static void learn(int i, bool invariant)
{
    struct reference *alone = &soak.alone[i];
    struct reply r;
    char *body = body_of(&soak.request[i], false, !invariant);
    server_call(&soak.server, "POST", "/v1/completions", "", body, &r);
    const struct dgl_json *choice = dgl_json_at(dgl_json_get(reply_json(&r), "choices"), 0);
    if (r.status != 200)
        fail_msg("request %d alone: %d, %s", i, r.status, r.body);
    alone->text = checked(strdup(dgl_json_str(dgl_json_get(choice, "text")).p));
    alone->sure = strlen(alone->text);
    const struct dgl_json *logprobs = dgl_json_get(choice, "logprobs");
    const struct dgl_json *top = dgl_json_first(dgl_json_get(logprobs, "top_logprobs"));
    const struct dgl_json *token = dgl_json_first(dgl_json_get(logprobs, "tokens"));
    size_t bytes = 0;
    for (; top && token; top = dgl_json_next(top), token = dgl_json_next(token)) {
        const struct dgl_json *best = dgl_json_first(top), *next = dgl_json_next(best);
        if (next && dgl_json_f64(best) - dgl_json_f64(next) < SOAK_MARGIN) {
            alone->sure = bytes < alone->sure ? bytes : alone->sure;
            break;
        }
        bytes += dgl_json_str(token).len;
    }
    reply_finish(&r);
    free(body);
}

/* Runs every sequence to the end of its context, all at once. */
static void fill_contexts(void)
{
    char *text = server_request("/v1/completions", "",
                                "{\"prompt\":\"Once\",\"ignore_eos\":true,\"max_tokens\":4096}");
    int fd[SOAK_PARALLEL];
    for (int i = 0; i < SOAK_PARALLEL; i++) {
        fd[i] = server_connect(&soak.server);
        assert_true(server_send(fd[i], text, strlen(text)));
    }
    for (int i = 0; i < SOAK_PARALLEL; i++) {
        struct reply r;
        server_receive(fd[i], NULL, &r);
        if (r.status != 200)
            fail_msg("a request that fills its context: %d, %s", r.status, r.body);
        reply_finish(&r);
        close(fd[i]);
    }
    free(text);
}

static void launch(struct visit *v)
{
    v->request = (int)soak_random(SOAK_REQUESTS);
    v->kind = soak_random(3) ? (enum client)soak_random(3)
                             : CLIENT_LEAVES + (enum client)(soak_random(4) == 0);
    v->leave_at = soak_random(3) ? soak_random(4000) : 0;
    v->wait_ns = 0;
    v->in.len = 0;
    v->fd = server_connect(&soak.server);
    const int size = 4096;
    if (v->kind == CLIENT_SLOW)
        setsockopt(v->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    char *body = body_of(&soak.request[v->request], v->kind != CLIENT_WHOLE, false);
    char *text = server_request("/v1/completions", "Connection: close\r\n", body);
    size_t len = strlen(text);
    /* Some clients disconnect while they are still sending. */
    const bool asks = v->kind != CLIENT_LEAVES || soak_random(8) > 0;
    if (!asks)
        len = soak_random((uint32_t)len);
    if (!server_send(v->fd, text, len))
        fail_msg("the server closed a connection before it was asked");
    if (v->kind == CLIENT_CLOSES_HALF)
        shutdown(v->fd, SHUT_WR);
    fcntl(v->fd, F_SETFL, fcntl(v->fd, F_GETFL) | O_NONBLOCK);
    free(body);
    free(text);
    if (!asks || (v->kind == CLIENT_LEAVES && v->leave_at == 0)) {
        close(v->fd);
        v->fd = -1;
        soak.left++;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Joins the chunks of a response body. Returns false if the response is invalid or incomplete. */
static bool take_body(const struct dgl_buf *in, int *status, struct dgl_buf *body)
{
    const char *head_end = in->p ? strstr(in->p, "\r\n\r\n") : NULL;
    if (!head_end || sscanf(in->p, "HTTP/1.1 %d", status) != 1)
        return false;
    const char *at = head_end + 4, *end = in->p + in->len;
    const char *chunked = strstr(in->p, "Transfer-Encoding: chunked");
    if (!chunked || chunked > head_end) {
        const char *length = strstr(in->p, "Content-Length: ");
        dgl_buf_append(body, at, (size_t)(end - at));
        return length && length < head_end && strtoul(length + 16, NULL, 10) == body->len;
    }
    for (size_t size = 1; size > 0;) {
        const char *line = strstr(at, "\r\n");
        size = line ? strtoul(at, NULL, 16) : 0;
        if (!line || (size_t)(end - line) < size + 4)
            return false;
        dgl_buf_append(body, line + 2, size);
        at = line + 2 + size + 2;
    }
    return true;
}

/* Extracts the text of a whole answer or of the events of a stream. Returns false if the stream is
 * incomplete. */
static bool take_text(const struct dgl_buf *body, bool stream, struct dgl_buf *text)
{
    struct dgl_str rest = {body->p, body->len}, line;
    bool done = !stream;
    while (body->p && dgl_str_split(&rest, '\n', &line)) {
        struct dgl_json_doc *doc = NULL;
        if (stream && !dgl_str_starts(line, "data: "))
            continue;
        if (stream)
            line = (struct dgl_str){line.p + 6, line.len - 6};
        if (dgl_str_eq(line, "[DONE]"))
            done = true;
        else if (line.len > 0) {
            if (dgl_json_parse(NULL, "answer", line.p, line.len, &doc) != DGL_OK)
                fail_msg("not JSON: %.*s", (int)line.len, line.p);
            const struct dgl_json *choice =
                dgl_json_at(dgl_json_get(dgl_json_root(doc), "choices"), 0);
            if (!choice)
                fail_msg("no choices: %.*s", (int)line.len, line.p);
            struct dgl_str part = dgl_json_str(dgl_json_get(choice, "text"));
            dgl_buf_append(text, part.p, part.len);
        }
        dgl_json_destroy(&doc);
    }
    dgl_buf_append(text, "", 0);
    return done;
}

/* The server has closed the connection. */
static void judge(struct visit *v)
{
    const struct soak_request *r = &soak.request[v->request];
    const struct reference *alone = &soak.alone[v->request];
    struct dgl_buf body = {0}, text = {0};
    int status = 0;
    /* If the client has closed its half, any result is correct. */
    if (v->kind == CLIENT_CLOSES_HALF || v->kind == CLIENT_LEAVES) {
        soak.left++;
        return;
    }
    if (!take_body(&v->in, &status, &body) || status != 200 ||
        !take_text(&body, v->kind != CLIENT_WHOLE, &text))
        fail_msg("request %d: not all of an answer, status %d: %s", v->request, status,
                 v->in.p ? v->in.p : "");
    /* A stop text may begin before the margin and end after it. */
    size_t sure = alone->sure;
    if (sure < strlen(alone->text) && r->stop)
        sure -= sure < strlen(r->stop) ? sure : strlen(r->stop);
    const bool whole = alone->sure == strlen(alone->text);
    if (text.len < sure || strncmp(text.p, alone->text, sure) != 0 ||
        (whole && text.len != strlen(alone->text)))
        fail_msg("request %d: \"%s\", alone \"%s\", of which %zu bytes are sure", v->request,
                 text.p, alone->text, sure);
    soak.finished++;
    if (whole)
        soak.exact++;
    else
        soak.until_margin++;
    dgl_buf_finish(&body);
    dgl_buf_finish(&text);
}

/* Returns true if bytes were received. */
static bool read_on(struct visit *v, uint64_t now)
{
    char bytes[4096];
    const bool slow = v->kind == CLIENT_SLOW;
    const ssize_t got = recv(v->fd, bytes, slow ? 32 + soak_random(400) : sizeof(bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got > 0)
        dgl_buf_append(&v->in, bytes, (size_t)got);
    if (slow)
        v->wait_ns = now + (5 + soak_random(30)) * 1000000u;
    if (got > 0 && (v->kind != CLIENT_LEAVES || v->in.len < v->leave_at))
        return true;
    if (got > 0)
        soak.left++;
    else
        judge(v);
    close(v->fd);
    v->fd = -1;
    return true;
}

/* ---- a part ---------------------------------------------------------------------------------- */

static double gauge(const char *metrics, const char *name)
{
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "\n%s ", name);
    const char *at = strstr(metrics, line.p);
    if (!at)
        fail_msg("/metrics has no %s", name);
    const double value = strtod(at + line.len, NULL);
    dgl_buf_finish(&line);
    return value;
}

/* The server notices disconnects with some delay. */
static void assert_nothing_is_held(void)
{
    const uint64_t end = dgl_now_ns() + SILENCE_NS;
    double running = 1, waiting = 1, pages = 1;
    while (running + waiting + pages > 0 && dgl_now_ns() < end) {
        struct reply r;
        server_call(&soak.server, "GET", "/metrics", "", NULL, &r);
        running = gauge(r.body, "dopplergl_requests_running");
        waiting = gauge(r.body, "dopplergl_requests_waiting");
        pages = gauge(r.body, "dopplergl_kv_pages_used");
        assert_near(gauge(r.body, "dopplergl_requests_failed_total"), 0, 0);
        reply_finish(&r);
        if (running + waiting + pages > 0)
            usleep(50000);
    }
    assert_near(running, 0, 0);
    assert_near(waiting, 0, 0);
    assert_near(pages, 0, 0);
}

/* Replaces each closed connection by a new one, until this share of the time is over. */
static void run_visits(double share, struct soak_memory *memory)
{
    bool more = true;
    struct pollfd ready[SOAK_IN_FLIGHT];
    size_t open = 1;
    uint64_t heard_ns = dgl_now_ns();
    while (open > 0) {
        const uint64_t now = dgl_now_ns();
        open = 0;
        for (int i = 0; i < SOAK_IN_FLIGHT; i++) {
            struct visit *v = &soak.visit[i];
            if (v->fd < 0 && more)
                launch(v);
            ready[i] = (struct pollfd){.fd = v->wait_ns > now ? -1 : v->fd, .events = POLLIN};
            open += v->fd >= 0;
        }
        if (poll(ready, SOAK_IN_FLIGHT, more || open ? 10 : 0) > 0)
            for (int i = 0; i < SOAK_IN_FLIGHT; i++)
                if (ready[i].fd >= 0 && ready[i].revents && read_on(&soak.visit[i], now))
                    heard_ns = now;
        if (now - heard_ns > SILENCE_NS)
            fail_msg("%zu connections are open and nothing comes", open);
        if (soak.finished + soak.left >= SOAK_WARM)
            more = soak_memory_look(memory, share);
        open += more;
    }
}

static void run_part(bool invariant, double share)
{
    static struct soak_memory memory;
    char *dir = test_tmpdir(), *log = dgl_path_join(dir, "access.log");
    char parallel[16], context[16];
    const char *args[] = {"--parallel", parallel,     "-c", context,
                          "--log-file", checked(log), NULL, NULL};
    const char *what = invariant ? "serve --batch-invariant" : "serve";
    snprintf(parallel, sizeof(parallel), "%d", SOAK_PARALLEL);
    snprintf(context, sizeof(context), "%d", SOAK_CONTEXT);
    if (invariant)
        args[6] = "--batch-invariant";
    server_start(&soak.server, args);
    soak.running = true;
    soak.finished = soak.left = soak.exact = soak.until_margin = 0;
    soak_make_requests(soak.request, !invariant);
    for (int i = 0; i < SOAK_REQUESTS; i++)
        learn(i, invariant);
    fill_contexts();
    for (int i = 0; i < SOAK_IN_FLIGHT; i++)
        soak.visit[i] = (struct visit){.fd = -1};
    memset(&memory, 0, sizeof(memory));
    memory.pid = soak.server.pid;
    run_visits(share, &memory);
    assert_nothing_is_held();
    printf("# soak: %s: %zu answers (%zu compared to the end, %zu up to a small margin), %zu "
           "clients that left\n",
           what, soak.finished, soak.exact, soak.until_margin, soak.left);
    assert_true(soak.exact > 0 && soak.left > 0);
    soak_memory_judge(&memory, what);
    const int code = server_stop(&soak.server, SIGTERM);
    soak.running = false;
    assert_int_equal(code, 0);
    server_finish(&soak.server);
    for (int i = 0; i < SOAK_REQUESTS; i++)
        free(soak.alone[i].text);
    for (int i = 0; i < SOAK_IN_FLIGHT; i++)
        dgl_buf_finish(&soak.visit[i].in);
    free(log);
    test_tmpdir_remove(dir);
}

/* Requires exact equality, for sampled requests too. */
void soak_serve_invariant(void **state)
{
    (void)state;
    run_part(true, 0.3);
}

void soak_serve(void **state)
{
    (void)state;
    run_part(false, 0.3);
}

int soak_serve_end(void **state)
{
    (void)state;
    if (soak.running) {
        kill(soak.server.pid, SIGKILL);
        waitpid(soak.server.pid, NULL, 0);
        soak.running = false;
    }
    return 0;
}
