/* Heads and codings of requests to `dopplergl serve`: gzip bodies, slashes, hosts. */
#include "tests/support/server.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/test.h"

#define TEXT "/v1/completions"

/* {"prompt":"Once","max_tokens":2,"ignore_eos":true} */
static const unsigned char one_member[] = {
    31,  139, 8,   0,  0,   0,   0,  0,   2,  3,   171, 86,  42,  40,  202, 207, 45,
    40,  81,  178, 82, 242, 207, 75, 78,  85, 210, 81,  202, 77,  172, 136, 47,  201,
    207, 78,  205, 43, 86,  178, 50, 210, 81, 202, 76,  207, 203, 47,  74,  141, 79,
    205, 7,   114, 75, 138, 74,  83, 107, 1,  117, 163, 11,  34,  50,  0,   0,   0};
/* The same in two members. */
static const unsigned char two_members[] = {
    31,  139, 8,   0,   0,   0,   0,   0,   2,   3,   171, 86,  42,  40, 202, 207, 45, 40,
    81,  178, 82,  242, 207, 75,  78,  85,  210, 1,   0,   71,  10,  44, 209, 17,  0,  0,
    0,   31,  139, 8,   0,   0,   0,   0,   0,   2,   3,   83,  202, 77, 172, 136, 47, 201,
    207, 78,  205, 43,  86,  178, 50,  210, 81,  202, 76,  207, 203, 47, 74,  141, 79, 205,
    7,   114, 75,  138, 74,  83,  107, 1,   219, 86,  43,  134, 33,  0,  0,   0};
/* 200,000 blanks. */
static const unsigned char bomb[] = {
    31, 139, 8,  0, 0, 0, 0, 0, 2, 3, 237, 193, 49, 1,   0, 0,  0,  194, 160, 42, 235, 159, 210,
    12, 254, 64, 1, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0, 0,  0,  0,   0,   0,  0,   0,   0,
    0,  0,   0,  0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  175, 1, 49, 97, 98,  16,  64, 13,  3,   0};
static const char plain[] = "{\"prompt\":\"Once\",\"max_tokens\":2,\"ignore_eos\":true}";

struct body {
    const char *name, *coding;
    const void *bytes;
    size_t len, flip; /* flip: a byte to damage, 0 = none */
    int status;
    const char *part; /* of the error, or of the answer */
};
#define WHOLE(bytes) bytes, sizeof(bytes)
static const struct body bodies[] = {
    {"no coding", NULL, plain, sizeof(plain) - 1, 0, 200, "\"completion_tokens\": 2"},
    {"identity", "identity", plain, sizeof(plain) - 1, 0, 200, "\"completion_tokens\": 2"},
    {"gzip", "gzip", WHOLE(one_member), 0, 200, "\"completion_tokens\": 2"},
    {"gzip in capitals", " GZIP ", WHOLE(one_member), 0, 200, "\"completion_tokens\": 2"},
    {"x-gzip", "x-gzip", WHOLE(one_member), 0, 200, "\"completion_tokens\": 2"},
    {"two members", "gzip", WHOLE(two_members), 0, 200, "\"completion_tokens\": 2"},
    {"gzip that is larger than the limit", "gzip", WHOLE(bomb), 0, 413, "100000 bytes"},
    {"gzip that is cut", "gzip", one_member, sizeof(one_member) - 9, 0, 400, "it is cut"},
    {"gzip that is empty", "gzip", one_member, 0, 0, 400, "no gzip"},
    {"a wrong checksum", "gzip", WHOLE(one_member), sizeof(one_member) - 6, 400, "no gzip"},
    {"no gzip at all", "gzip", plain, sizeof(plain) - 1, 0, 400, "no gzip"},
    {"gzip that is not declared", NULL, WHOLE(one_member), 0, 400, "UTF-8"},
    {"deflate", "deflate", WHOLE(one_member), 0, 415, "gzip"},
    {"br", "br", WHOLE(one_member), 0, 415, "gzip"},
    {"gzip twice", "gzip, gzip", WHOLE(one_member), 0, 415, "gzip"},
};

static void send_body(struct server *s, const struct body *row)
{
    struct dgl_buf out = {0}, held = {0};
    struct reply r;
    const int fd = server_connect(s);
    dgl_buf_printf(&out, "POST " TEXT " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if (row->coding)
        dgl_buf_printf(&out, "Content-Encoding: %s\r\n", row->coding);
    dgl_buf_printf(&out, "Content-Length: %zu\r\n\r\n", row->len);
    const size_t head = out.len;
    dgl_buf_append(&out, row->bytes, row->len);
    if (row->flip)
        out.p[head + row->flip] ^= 1;
    assert_true(server_send(fd, out.p, out.len));
    server_receive(fd, &held, &r);
    if (r.status != row->status || !strstr(r.body, row->part))
        fail_msg("%s: status %d, wanted %d with \"%s\": %s", row->name, r.status, row->status,
                 row->part, r.body);
    if (r.status == 415)
        assert_contains(r.head, "Accept-Encoding: gzip\r\n");
    close(fd);
    reply_finish(&r);
    dgl_buf_finish(&held);
    dgl_buf_finish(&out);
}

struct target {
    const char *name, *method, *path, *host;
    int status;
};
static const struct target targets[] = {
    {"a list", "GET", "/v1/models", "localhost", 200},
    {"a list with a slash", "GET", "/v1/models/", "localhost", 200},
    {"a list with slashes", "GET", "/v1/models//", "localhost", 200},
    {"a model with a slash", "GET", "/v1/models/mine/", "localhost", 200},
    {"health with a slash", "GET", "/health/", "localhost", 200},
    {"the page with slashes", "GET", "//", "localhost", 200},
    {"a wrong method with a slash", "GET", TEXT "/", "localhost", 405},
    {"no path", "GET", "/v1/", "localhost", 404},
    {"a port", "GET", "/health", "localhost:8080", 200},
    {"an address of IPv6", "GET", "/health", "[::1]:8080", 200},
    {"a blank at the end", "GET", "/health", "localhost ", 200},
    {"a user", "GET", "/health", "me@localhost", 400},
    {"a scheme", "GET", "/health", "http://localhost", 400},
    {"a path", "GET", "/health", "localhost/x", 400},
    {"two hosts", "GET", "/health", "localhost, localhost", 400},
    {"a blank inside", "GET", "/health", "localhost x", 400},
    {"a port without a host", "GET", "/health", ":80", 400},
    {"a port that is none", "GET", "/health", "localhost:x", 400},
    {"two ports", "GET", "/health", "localhost:1:2", 400},
    {"an open bracket", "GET", "/health", "[::1", 400},
    {"text after a bracket", "GET", "/health", "[::1]x", 400},
};

static void send_target(struct server *s, const struct target *row)
{
    struct dgl_buf out = {0}, held = {0};
    struct reply r;
    const int fd = server_connect(s);
    dgl_buf_printf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", row->method,
                   row->path, row->host);
    assert_true(server_send(fd, out.p, out.len));
    server_receive(fd, &held, &r);
    if (r.status != row->status)
        fail_msg("%s: status %d, wanted %d: %s", row->name, r.status, row->status, r.body);
    close(fd);
    reply_finish(&r);
    dgl_buf_finish(&held);
    dgl_buf_finish(&out);
}

static void requests_are_read(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    server_start(
        &s, (const char *const[]){"-c", "64", "--max-body", "100000", "--alias", "mine", NULL});
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        send_body(&s, &bodies[i]);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        send_target(&s, &targets[i]);
    server_post(&s, TEXT "/", plain, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    server_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read),
    };
    return cmocka_run_group_tests_name("serve: heads and codings", tests, NULL, NULL);
}
