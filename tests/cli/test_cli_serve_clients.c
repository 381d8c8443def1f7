/* Bad clients of `dopplergl serve`: they leave, read slowly, send nonsense, send too much or too
 * slowly, or come in large numbers. */
#include "tests/support/server.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/support/process.h"
#include "tests/support/test.h"

/* One server for the tables of the group. */
static struct server server;

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"

/* ---- clients --------------------------------------------------------------------------------- */

struct leaving {
    const char *name;
    bool stream, half;
};
static const struct leaving leavings[] = {
    {"in a stream", true, false},
    {"while it waits for a whole answer", false, false},
    {"by closing its half", false, true},
};

/* A client that leaves before all of its inputs are embedded counts as cancelled. */
static void test_leaving_embeddings(void **state)
{
    enum { INPUTS = 4000 };
    const int64_t before = server_metric(&server, "requests_cancelled_total"),
                  finished = server_metric(&server, "requests_finished_total"),
                  tokens = server_metric(&server, "prompt_tokens_total");
    struct dgl_buf body = {0};
    (void)state;
    dgl_buf_puts(&body, "{\"input\":[");
    for (int i = 0; i < INPUTS; i++)
        dgl_buf_puts(&body, i ? ",[5,6]" : "[5,6]");
    dgl_buf_puts(&body, "]}");
    char *request = server_request("/v1/embeddings", "", body.p);
    const int fd = server_connect(&server);
    assert_true(server_send(fd, request, strlen(request)));
    usleep(300000);
    close(fd);
    server_wait_for_metric(&server, "requests_cancelled_total", before + 1);
    assert_int_equal(server_metric(&server, "requests_finished_total"), finished);
    assert_in_range(server_metric(&server, "prompt_tokens_total") - tokens, 0, 2 * INPUTS - 1);
    free(request);
    dgl_buf_finish(&body);
}

/* The server stops working for a client that leaves. */
static void test_leaving(void **state)
{
    const struct leaving *row = *state;
    const int64_t before = server_metric(&server, "requests_cancelled_total");
    struct dgl_buf held = {0};
    int fd;
    if (row->stream) {
        fd = server_begin_stream(&server, TEXT, SERVER_ENDLESS, "data: ", &held);
    } else {
        char *request = server_request(
            TEXT, "", "{\"prompt\":\"Once\",\"max_tokens\":-1,\"ignore_eos\":true,\"seed\":1}");
        fd = server_connect(&server);
        assert_true(server_send(fd, request, strlen(request)));
        free(request);
        server_wait_for_metric(&server, "requests_running", 1);
    }
    if (row->half)
        shutdown(fd, SHUT_WR);
    else
        close(fd);
    server_wait_for_metric(&server, "requests_running", 0);
    server_wait_for_metric(&server, "kv_pages_used", 0);
    server_wait_for_metric(&server, "requests_cancelled_total", before + 1); /* counted last */
    if (row->half)
        close(fd);
    dgl_buf_finish(&held);
}

/* A client that does not read its answer does not delay other clients. */
static void a_slow_reader_stops_nobody(void **state)
{
    (void)state;
    struct dgl_buf held = {0};
    struct reply r;
    const int fd = server_begin_stream(&server, TEXT, SERVER_ENDLESS, "data: ", &held);
    for (int i = 0; i < 3; i++) {
        server_post(&server, TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":4,\"seed\":1}", &r);
        assert_int_equal(r.status, 200);
        reply_finish(&r);
    }
    close(fd);
    server_wait_for_metric(&server, "requests_running", 0);
    dgl_buf_finish(&held);
}

static void a_full_queue_says_so(void **state)
{
    (void)state;
    struct dgl_buf held[4] = {{0}};
    struct reply r;
    int fd[4];
    for (int i = 0; i < 2; i++)
        fd[i] = server_begin_stream(&server, TEXT, SERVER_ENDLESS, "data: ", &held[i]);
    for (int i = 2; i < 4; i++) /* accepted, but they wait */
        fd[i] = server_begin_stream(&server, TEXT, SERVER_ENDLESS, "\r\n\r\n", &held[i]);
    server_wait_for_metric(&server, "requests_waiting", 2);
    server_post(&server, TEXT, "{\"prompt\":\"A dog\",\"n\":5}", &r);
    reply_assert_error(&r, 400, "n", "5 answers, at most 4");
    reply_finish(&r);
    server_post(&server, TEXT, "{\"prompt\":\"A dog\"}", &r);
    reply_assert_error(&r, 503, NULL, "2 wait");
    assert_contains(r.head, "Retry-After: ");
    reply_finish(&r);
    for (int i = 0; i < 4; i++) {
        close(fd[i]);
        dgl_buf_finish(&held[i]);
    }
    server_wait_for_metric(&server, "requests_running", 0);
    server_wait_for_metric(&server, "requests_waiting", 0);
    server_post(&server, TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":2}", &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
}

/* ---- bytes that are no request -------------------------------------------------------------- */

struct rough {
    const char *name, *bytes; /* of a name that begins with NUL, each @ is one */
    int status;               /* 0 = closed without an answer */
    const char *part;         /* of the message */
    const char *again;        /* sent 4000 times after the bytes; may be NULL */
};
#define GET   "GET /health HTTP/1.1\r\n"
#define POST  "POST /tokenize HTTP/1.1\r\n"
#define HOST  "Host: localhost\r\n"
#define CHUNK "Transfer-Encoding: chunked\r\n"
static const struct rough roughs[] = {
    {"no HTTP", "\x16\x03\x01\x02\r\n\r\n", 0, NULL, NULL},
    {"a word", "nonsense\r\n\r\n", 0, NULL, NULL},
    {"no version", "GET /health\r\n\r\n", 400, "no request of HTTP", NULL},
    {"a version that is no number", "GET / HTTP/1.x\r\n" HOST "\r\n", 400, "no request", NULL},
    {"a version that is none", "GET /health HTTP/9.9\r\n" HOST "\r\n", 505, "version", NULL},
    {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version", NULL},
    {"no host", GET "Connection: close\r\n\r\n", 400, "Host is missing", NULL},
    {"no host, kept", GET "\r\n", 400, "Host is missing", NULL},
    {"two hosts", GET HOST "Host: evil.example\r\n\r\n", 400, "Host comes more", NULL},
    {"a header without a value", GET HOST "Nonsense\r\n\r\n", 400, "no request", NULL},
    {"a blank before the colon", GET HOST "Content-Length : 5\r\n\r\n", 400, "name of", NULL},
    {"a blank before the first header", GET " X: y\r\n" HOST "\r\n", 400, "name of", NULL},
    {"a carriage return in a value", POST HOST "X: a\rContent-Length: 2\r\n\r\n", 400, "control",
     NULL},
    {"no name", GET HOST ": 1\r\n\r\n", 400, "no name", NULL},
    {"no name before the others", GET ": 1\r\n" HOST "\r\n", 400, "name of", NULL},
    {"NUL in a value", GET HOST "X: a@b\r\n\r\n", 400, "U+0000", NULL},
    {"NUL in a value before others", GET "X: a@b\r\n" HOST "\r\n", 400, "U+0000", NULL},
    {"NUL in a value and no carriage return", GET HOST "X: a@b\n\n", 400, "U+0000", NULL},
    {"NUL in a name", GET HOST "X@Y: a\r\n\r\n", 400, "", NULL},
    {"NUL in the path", "GET /hea@lth HTTP/1.1\r\n" HOST "\r\n", 400, "U+0000", NULL},
    {"NUL behind the path", "GET /health@z HTTP/1.1\r\n" HOST "\r\n", 400, "U+0000", NULL},
    {"NUL in arguments", "GET /health?a=b@c HTTP/1.1\r\n" HOST "\r\n", 400, "U+0000", NULL},
    {"NUL in arguments that are escaped", "GET /health?a%41=%41@c HTTP/1.1\r\n" HOST "\r\n", 400,
     "U+0000", NULL},
    {"a value that goes on below", GET HOST "X: a\r\n b\r\n\r\n", 400, "goes on", NULL},
    {"a length below its name", POST HOST "Content-Length:\r\n 2\r\n\r\n", 400, "name of", NULL},
    {"a coding below its name", POST HOST "Transfer-Encoding:\r\n chunked\r\n\r\n", 400, "name of",
     NULL},
    {"two lengths", POST HOST "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, "end", NULL},
    {"a length and chunks", POST HOST CHUNK "Content-Length: 3\r\n\r\n", 400, "end", NULL},
    {"another coding", POST HOST "Transfer-Encoding: gzip\r\n\r\n", 501, "chunked", NULL},
    {"a large body that is asked about",
     POST HOST "Content-Length: 9000000\r\nExpect: 100-continue\r\n\r\n", 413, "9000000", NULL},
    {"a length below zero", POST HOST "Content-Length: -5\r\n\r\n", 400, "Content-Length", NULL},
    {"a length that is no number", POST HOST "Content-Length: x\r\n\r\n", 400, "Length", NULL},
    {"a length beyond numbers", POST HOST "Content-Length: 99999999999999999999999\r\n\r\n", 413,
     "too large", NULL},
    {"a chunk that is none", POST HOST CHUNK "\r\nzz\r\n", 400, "a chunk", NULL},
    {"a chunk beyond numbers", POST HOST CHUNK "\r\nffffffffffffffffffff\r\n", 413, "chunk", NULL},
    {"a path without end", "GET /", 414, "first line", "aaaaaaaaaa"},
    {"arguments without end", "GET /health?a", 414, "first line", "&b=cdefgh&"},
    {"a header without end", GET HOST "X: ", 431, "headers", "aaaaaaaaaa"},
    {"headers without end", GET HOST, 431, "headers", "X: y\r\n"},
};

/* One refusal and a closed connection; the server continues. */
static void test_rough(void **state)
{
    const struct rough *row = *state;
    struct reply r;
    struct dgl_buf out = {0}, held = {0};
    const int fd = server_connect(&server);
    dgl_buf_puts(&out, row->bytes);
    for (size_t i = 0; i < out.len && strncmp(row->name, "NUL", 3) == 0; i++)
        out.p[i] = out.p[i] == '@' ? '\0' : out.p[i];
    for (int i = 0; row->again && i < 4000; i++)
        dgl_buf_puts(&out, row->again);
    server_send(fd, out.p, out.len); /* it may have answered before it read all */
    server_receive(fd, &held, &r);
    if (row->status) {
        reply_assert_error(&r, row->status, NULL, row->part);
        assert_contains(r.head, "Content-Type: application/json\r\n");
    } else {
        assert_int_equal(r.status, 0);
    }
    assert_false(server_receive_until(fd, "HTTP/1.1", &held));
    reply_finish(&r);
    dgl_buf_finish(&out);
    dgl_buf_finish(&held);
    close(fd);
    server_call(&server, "GET", "/health", "", NULL, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
}

struct target {
    const char *name, *line, *host; /* the first line up to the version; NULL = no such header */
    int status;
    const char *part; /* part of the answer; may be NULL */
};
static const struct target targets[] = {
    {"a host in the target", "GET http://localhost/v1/models", "localhost", 200, "\"object\""},
    {"a port as well", "GET http://127.0.0.1:8080/health", "localhost", 200, "\"ok\""},
    {"letters of any case", "GET HTTPS://LocalHost/health", "localhost", 200, "\"ok\""},
    {"an address of IPv6", "GET http://[::1]:80/health", "localhost", 200, "\"ok\""},
    {"arguments", "GET http://localhost/health?a=http://b/c", "localhost", 200, "\"ok\""},
    {"no path", "GET http://localhost", "localhost", 200, "<!"},
    {"no path, but arguments", "GET http://localhost?a", "localhost", 200, "<!"},
    {"a path with %XX", "GET http://localhost/v1/m%6fdels", "localhost", 200, "\"object\""},
    {"no such path", "GET http://localhost/v1/nothing", "localhost", 404, "'/v1/nothing'"},
    {"two of them", "GET http://localhost/http://localhost/health", "localhost", 404, "'/http:"},
    {"another method", "PUT http://localhost/health", "localhost", 405, "GET, HEAD"},
    {"the target decides", "GET http://localhost/health", "evil.example", 200, "\"ok\""},
    {"for another host, too", "GET http://evil.example/health", "localhost", 403, "machine"},
    {"a host is wanted all the same", "GET http://localhost/health", NULL, 400, "Host is missing"},
    {"an empty host", "GET http:///health", "localhost", 400, "no host"},
    {"a port alone", "GET http://:80/health", "localhost", 400, "no host"},
    {"a user", "GET http://localhost@evil.example/health", "localhost", 400, "no host"},
    {"%XX in the host", "GET http://localhost%2f.evil.example/health", "localhost", 400, "no host"},
    {"another scheme", "GET ftp://localhost/health", "localhost", 404, "'ftp://localhost/health'"},
    {"the whole server", "OPTIONS *", "localhost", 204, "Allow: GET, HEAD, POST, OPTIONS"},
    {"the whole server, otherwise", "GET *", "localhost", 404, "'*'"},
};

/* The forms of RFC 9112, 3.2: proxies are sent the second. */
static void test_target(void **state)
{
    const struct target *row = *state;
    struct dgl_buf out = {0}, held = {0};
    struct reply r;
    const int fd = server_connect(&server);
    dgl_buf_printf(&out, "%s HTTP/1.1\r\nConnection: close\r\n", row->line);
    if (row->host)
        dgl_buf_printf(&out, "Host: %s\r\n", row->host);
    dgl_buf_puts(&out, "\r\n");
    assert_true(server_send(fd, out.p, out.len));
    server_receive(fd, &held, &r);
    if (r.status != row->status)
        fail_msg("%s: %d, not %d: %s", row->line, r.status, row->status, r.body);
    assert_contains(r.status == 204 ? r.head : r.body, row->part);
    reply_finish(&r);
    dgl_buf_finish(&out);
    dgl_buf_finish(&held);
    close(fd);
}

/* More than fits beside them in a request's memory, although the line ends. */
static void many_arguments_are_answered(void **state)
{
    (void)state;
    struct dgl_buf out = {0}, held = {0};
    struct reply r;
    const int fd = server_connect(&server);
    dgl_buf_puts(&out, "GET /health?a");
    for (int i = 0; i < 1000; i++)
        dgl_buf_puts(&out, "&a=b");
    dgl_buf_puts(&out, " HTTP/1.1\r\n" HOST "\r\n");
    assert_true(server_send(fd, out.p, out.len));
    server_receive(fd, &held, &r);
    reply_assert_error(&r, 431, NULL, "too long or too many");
    assert_false(server_receive_until(fd, "HTTP/1.1", &held));
    reply_finish(&r);
    dgl_buf_finish(&out);
    dgl_buf_finish(&held);
    close(fd);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct dgl_buf held = {0};
    struct reply r;
    static const char both[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
                               "GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
                               "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const int fd = server_connect(&server), want[] = {200, 404, 200};
    assert_true(server_send(fd, both, sizeof(both) - 1));
    for (int i = 0; i < 3; i++) {
        server_receive(fd, &held, &r);
        assert_int_equal(r.status, want[i]);
        reply_finish(&r);
    }
    dgl_buf_finish(&held);
    close(fd);
}

/* More connections than are taken, all silent: they go when their time is over. */
static void silent_connections_do_not_stay(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    int fd[16];
    server_start(
        &s, (const char *const[]){"--timeout", "1", "--max-connections", "4", "-c", "64", NULL});
    for (int i = 0; i < 16; i++) {
        fd[i] = server_connect(&s);
        server_send(fd[i], "GET /hea", i % 2 ? 8 : 0);
    }
    server_call(&s, "GET", "/health", "", NULL, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    for (int i = 0; i < 16; i++)
        close(fd[i]);
    server_end(&s);
}

/* Idle connections do not block others: a connection without a request is closed if there is no
 * room. */
static void idle_connections_make_room(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    int fd[32];
    server_start(&s, (const char *const[]){"--max-connections", "8", "-c", "64", NULL});
    for (int i = 0; i < 32; i++)
        fd[i] = server_connect(&s);
    const uint64_t start = dgl_now_ns();
    server_call(&s, "GET", "/health", "", NULL, &r);
    assert_int_equal(r.status, 200);
    assert_true(dgl_now_ns() - start < 30000000000ull);
    reply_finish(&r);
    for (int i = 0; i < 32; i++)
        close(fd[i]);
    server_end(&s);
}

/* A request that arrives one byte at a time is served, unless it exceeds --timeout. */
static void dripping_requests(void **state)
{
    (void)state;
    struct server s;
    struct dgl_buf held = {0};
    struct reply r;
    char *request = server_request("/tokenize", "", "{\"content\":\"Once\"}");
    int fd = server_connect(&server);
    for (const char *c = request; *c; c++) {
        assert_true(server_send(fd, c, 1));
        if (*c == '\n')
            usleep(2000);
    }
    server_receive(fd, NULL, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    close(fd);
    free(request);
    server_start(&s, (const char *const[]){"--timeout", "1", "-c", "64", NULL});
    static const char begin[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 100000\r\n\r\n{";
    fd = server_connect(&s);
    assert_true(server_send(fd, begin, sizeof(begin) - 1));
    while (server_send(fd, " ", 1)) /* ends when the server has had enough */
        usleep(20000);
    close(fd);
    dgl_buf_finish(&held);
    server_end(&s);
}

/* Four times as many clients as descriptors: each is served in turn. With too few descriptors for a
 * single client, the server does not start. */
static void a_crowd_beyond_the_descriptors(void **state)
{
    enum { files = 96, crowd = 4 * files };
    (void)state;
    struct server s;
    struct reply r;
    static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n";
    int fd[crowd];
    server_start_with(&s, &(const struct server_params){
                              .args = (const char *const[]){"-c", "64", NULL}, .files = files});
    assert_contains(s.said.p, "at most 32 connections instead of 512: the limit of descriptors is");
    for (int i = 0; i < crowd; i++) {
        fd[i] = server_connect(&s);
        assert_true(server_send(fd[i], request, sizeof(request) - 1));
    }
    for (int i = 0; i < crowd; i++) {
        server_receive(fd[i], NULL, &r);
        assert_int_equal(r.status, 200);
        reply_finish(&r);
        close(fd[i]);
    }
    server_end(&s);
    static const char few[] = "ulimit -n 64; exec \"$0\" serve --device any --port 0";
    struct process_result refused;
    process_run(
        &(struct process_params){.args = (const char *const[]){"-c", few, process_program(), NULL},
                                 .program = "/bin/sh"},
        &refused);
    assert_int_equal(refused.code, 1);
    assert_contains(refused.err, "the descriptor limit 64 is too low");
    process_finish(&refused);
}

/* ---- browsers -------------------------------------------------------------------------------- */

struct place {
    const char *name, *host, *origin; /* NULL = no such header; PORT is the server's */
    int status[3];                    /* of servers: without a key, with --cors, with a key */
};
static const struct place places[] = {
    {"this machine", "localhost", NULL, {200, 200, 200}},
    {"this machine, with a port", "127.0.0.1:PORT", NULL, {200, 200, 200}},
    {"a name of this machine", "App.LocalHost:PORT", NULL, {200, 200, 200}},
    {"IPv6", "[::1]:PORT", NULL, {200, 200, 200}},
    {"a name that leads here", "evil.example", NULL, {403, 403, 200}},
    {"a name that ends like this machine", "evillocalhost:PORT", NULL, {403, 403, 200}},
    {"a name that begins like this machine", "127.0.0.1.evil.example:PORT", NULL, {403, 403, 200}},
    {"no name", "", NULL, {403, 403, 200}},
    {"the name of the pages that may ask", "a.example:8443", NULL, {403, 200, 200}},
    {"a page of this server", "127.0.0.1:PORT", "http://127.0.0.1:PORT", {200, 200, 200}},
    {"a page of another port", "127.0.0.1:PORT", "http://127.0.0.1:1", {403, 403, 200}},
    {"a page of elsewhere", "127.0.0.1:PORT", "https://evil.example", {403, 403, 200}},
    {"a page of nowhere", "127.0.0.1:PORT", "null", {403, 403, 200}},
    {"a page that leads here", "evil.example", "http://evil.example", {403, 403, 200}},
    {"a page that may ask", "127.0.0.1:PORT", "https://a.example", {403, 200, 200}},
    {"a page that may ask, but for its port",
     "127.0.0.1:PORT",
     "https://a.example:1",
     {403, 403, 200}},
};

static void put_place(struct dgl_buf *out, const char *header, const char *value, int port)
{
    const char *mark = strstr(value, "PORT");
    dgl_buf_printf(out, "%s: %.*s", header, (int)(mark ? mark - value : (int)strlen(value)), value);
    if (mark)
        dgl_buf_printf(out, "%d", port);
    dgl_buf_puts(out, "\r\n");
}

static void pages_of_others_may_not_ask(void **state)
{
    static const char *const options[3][2] = {
        {"-q"}, {"--cors", "https://a.example"}, {"--api-key", "k"}};
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct server s;
        server_start(&s, (const char *const[]){"-c", "64", options[k][0], options[k][1], NULL});
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            const struct place *row = &places[i];
            struct dgl_buf out = {0};
            struct reply r;
            const int fd = server_connect(&s);
            dgl_buf_puts(&out, "GET /health HTTP/1.1\r\nConnection: close\r\n");
            put_place(&out, "Host", row->host, s.port);
            if (row->origin)
                put_place(&out, "Origin", row->origin, s.port);
            dgl_buf_puts(&out, "\r\n");
            assert_true(server_send(fd, out.p, out.len));
            server_receive(fd, NULL, &r);
            if (r.status != row->status[k])
                fail_msg("%s: status %d, wanted %d: %s", row->name, r.status, row->status[k],
                         r.body);
            if (r.status == 403)
                assert_contains(r.body, "origin_not_allowed");
            reply_finish(&r);
            dgl_buf_finish(&out);
            close(fd);
        }
        server_end(&s);
    }
}

static int start_server(void **state)
{
    (void)state;
    server_start(&server,
                 (const char *const[]){"--parallel", "2", "--queue", "2", "-c", "512", NULL});
    return 0;
}

int main(void)
{
    const struct CMUnitTest with_server[] = {
        cmocka_unit_test(test_leaving_embeddings),
        cmocka_unit_test(a_slow_reader_stops_nobody),
        cmocka_unit_test(a_full_queue_says_so),
        cmocka_unit_test(many_arguments_are_answered),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(dripping_requests),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(silent_connections_do_not_stay),
        cmocka_unit_test(idle_connections_make_room),
        cmocka_unit_test(a_crowd_beyond_the_descriptors),
        cmocka_unit_test(pages_of_others_may_not_ask),
    };
    int failures = cmocka_run_group_tests_name("serve: clients", with_server, start_server, NULL);
    failures += test_run_table("serve: leaving", test_leaving, leavings);
    failures += test_run_table("serve: rough", test_rough, roughs);
    failures += test_run_table("serve: targets", test_target, targets);
    server_end(&server);
    return failures + cmocka_run_group_tests_name("serve: crowds", alone, NULL, NULL);
}
