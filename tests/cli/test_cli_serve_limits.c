/* Limits of `dopplergl serve`: memory of requests, places of one key, and the order of keys. */
#include "tests/support/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/test.h"

#define TEXT  "/v1/completions"
#define KEY_A "Authorization: Bearer a\r\n"
#define KEY_B "Authorization: Bearer b\r\n"

/* Starts a server with the keys a and b. */
static char *start_with_keys(struct server *s, const char *const *more)
{
    char *dir = test_tmpdir(), *file = checked(dgl_path_join(dir, "keys"));
    const char *args[16] = {"--api-key-file", file, "-c", "256"};
    test_write_file(dir, "keys", "a\nb\n", 4);
    for (size_t i = 0; more && more[i]; i++)
        args[4 + i] = more[i];
    server_start(s, args);
    free(file);
    return dir;
}

static void end_with_keys(struct server *s, char *dir)
{
    server_end(s);
    test_tmpdir_remove(dir);
}

static int send_with(const struct server *s, const char *headers, const char *body)
{
    char *request = server_request(TEXT, headers, body);
    const int fd = server_connect(s);
    assert_true(server_send(fd, request, strlen(request)));
    free(request);
    return fd;
}

/* A metric of a server that wants a key. */
static int64_t metric(const struct server *s, const char *name)
{
    struct reply r;
    char wanted[128];
    snprintf(wanted, sizeof(wanted), "\ndopplergl_%s ", name);
    server_call(s, "GET", "/metrics", KEY_A, NULL, &r);
    const char *at = strstr(r.body, wanted);
    if (!at)
        fail_msg("/metrics has no %s", name);
    const int64_t value = strtoll(at + strlen(wanted), NULL, 10);
    reply_finish(&r);
    return value;
}

static void wait_for(const struct server *s, const char *name, int64_t value)
{
    int64_t now = 0;
    for (int i = 0; i < 3000 && (now = metric(s, name)) != value; i++)
        usleep(10000);
    if (now != value)
        fail_msg("%s is %lld, wanted %lld", name, (long long)now, (long long)value);
}

/* Many answers of one key do not delay the answer of another key by more than the running one. */
static void keys_take_turns(void **state)
{
    struct server s;
    struct reply many, one;
    (void)state;
    char *dir = start_with_keys(&s, (const char *const[]){"--parallel", "1", NULL});
    const int of_a = send_with(&s, KEY_A,
                               "{\"prompt\":\"Once\",\"n\":20,\"max_tokens\":50,"
                               "\"ignore_eos\":true}");
    wait_for(&s, "requests_waiting", 19);
    server_call(&s, "POST", TEXT, KEY_B, "{\"prompt\":\"A dog\",\"max_tokens\":1}", &one);
    assert_int_equal(one.status, 200);
    const int64_t waiting = metric(&s, "requests_waiting");
    if (waiting < 8)
        fail_msg("%lld answers of the other key waited after the answer, wanted 8 or more",
                 (long long)waiting);
    server_receive(of_a, NULL, &many);
    assert_int_equal(many.status, 200);
    assert_int_equal(dgl_json_count(dgl_json_get(reply_json(&many), "choices")), 20);
    reply_finish(&one);
    reply_finish(&many);
    close(of_a);
    end_with_keys(&s, dir);
}

/* A later request of the same key is not behind all choices of an earlier one either. */
static void requests_of_a_key_take_turns(void **state)
{
    struct server s;
    struct reply many, one;
    (void)state;
    server_start(&s, (const char *const[]){"--parallel", "2", "-c", "256", NULL});
    const int first = send_with(&s, "",
                                "{\"prompt\":\"Once\",\"n\":20,\"max_tokens\":50,"
                                "\"ignore_eos\":true}");
    server_wait_for_metric(&s, "requests_waiting", 18);
    server_post(&s, TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":1}", &one);
    assert_int_equal(one.status, 200);
    const int64_t waiting = server_metric(&s, "requests_waiting");
    if (waiting < 8)
        fail_msg("%lld choices waited after the answer, wanted 8 or more", (long long)waiting);
    server_receive(first, NULL, &many);
    assert_int_equal(many.status, 200);
    reply_finish(&one);
    reply_finish(&many);
    close(first);
    server_end(&s);
}

struct limit {
    const char *name, *option, *value;
    const char *before, *body; /* the first stays in the queue */
    int status;
    const char *part;
};
#define ENDLESS "\"max_tokens\":-1,\"ignore_eos\":true"
static const struct limit limits[] = {
    {"half of the queue", "--queue", "5", "{\"prompt\":\"Once\",\"n\":3," ENDLESS "}",
     "{\"prompt\":\"Once\",\"n\":2,\"max_tokens\":1}", 429, "at most 3 of one key"},
    {"answers", "--max-client-requests", "2", "{\"prompt\":\"Once\",\"n\":2," ENDLESS "}",
     "{\"prompt\":\"Once\",\"max_tokens\":1}", 429, "at most 2 of one key"},
    {"prompt tokens", "--max-client-tokens", "10", "{\"prompt\":[1,2,3,4,5,6,7,8]," ENDLESS "}",
     "{\"prompt\":[1,2,3],\"max_tokens\":1}", 429, "8 prompt tokens in the queue, at most 10"},
};

/* A key that has its share gets 429, and another key is served. */
static void test_limit(void **state)
{
    const struct limit *row = *state;
    struct server s;
    struct reply r;
    char *dir = start_with_keys(
        &s, (const char *const[]){"--parallel", "1", row->option, row->value, NULL});
    const int fd = send_with(&s, KEY_A, row->before);
    wait_for(&s, "requests_running", 1);
    server_call(&s, "POST", TEXT, KEY_A, row->body, &r);
    reply_assert_error(&r, row->status, NULL, row->part);
    assert_contains(r.head, "Retry-After: ");
    assert_contains(r.body, "rate_limit_exceeded");
    reply_finish(&r);
    close(fd);
    wait_for(&s, "requests_running", 0);
    wait_for(&s, "requests_waiting", 0);
    server_call(&s, "POST", TEXT, KEY_A, row->body, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    end_with_keys(&s, dir);
}

/* Returns a body of about this many bytes, with text or with many small values. */
static char *body_of(size_t bytes, bool values)
{
    struct dgl_buf out = {0};
    dgl_buf_puts(&out, "{\"prompt\":\"Once\",\"max_tokens\":-1,\"ignore_eos\":true,\"x\":[\"");
    while (out.len < bytes)
        dgl_buf_puts(&out, values ? "\",\"" : "0123456789abcdef");
    dgl_buf_puts(&out, "\"]}");
    return checked(dgl_buf_take(&out));
}

/* The bodies and trees of waiting requests are freed. */
static void waiting_requests_are_small(void **state)
{
    struct server s;
    int fd[8];
    (void)state;
    server_start(&s, (const char *const[]){"--parallel", "1", "-c", "256", NULL});
    char *body = body_of(1 << 20, false);
    for (int i = 0; i < 8; i++)
        fd[i] = send_with(&s, "", body);
    server_wait_for_metric(&s, "requests_waiting", 7);
    const int64_t bytes = server_metric(&s, "request_memory_bytes");
    if (bytes <= 0 || bytes > 65536)
        fail_msg("8 requests of 1 MiB hold %lld bytes, wanted at most 65536", (long long)bytes);
    for (int i = 0; i < 8; i++)
        close(fd[i]);
    server_wait_for_metric(&s, "requests_running", 0);
    server_wait_for_metric(&s, "request_memory_bytes", 0);
    free(body);
    server_end(&s);
}

/* Requests that take more memory than all may are refused, others are answered. */
static void memory_is_bounded(void **state)
{
    static const struct {
        const char *name;
        size_t bytes;
        bool values;
        size_t other; /* bytes of another body that is being sent */
        int status;
    } cases[] = {{"a body", 3 << 20, false, 0, 413},
                 {"a text", 100000, false, 0, 413},
                 {"a tree", 20000, true, 0, 413},
                 {"a text beside another", 20000, false, 1 << 20, 503},
                 {"a tree beside another", 5000, true, 1 << 20, 503}};
    struct server s;
    struct reply r;
    (void)state;
    server_start(&s, (const char *const[]){"--max-request-memory", "2M", "-c", "256", NULL});
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *body = body_of(cases[i].bytes, cases[i].values),
             *other = body_of(cases[i].other, false), *whole = server_request(TEXT, "", other);
        const int fd = server_connect(&s);
        if (cases[i].other) {
            assert_true(server_send(fd, whole, strlen(whole) - 1));
            while (server_metric(&s, "request_memory_bytes") < (int64_t)cases[i].other)
                usleep(1000);
        }
        server_post(&s, TEXT, body, &r);
        print_message("%s\n", cases[i].name);
        reply_assert_error(&r, cases[i].status, NULL, "may take 2 MiB");
        assert_int_equal(strstr(r.head, "Retry-After: ") != NULL, cases[i].status == 503);
        reply_finish(&r);
        close(fd);
        free(body);
        free(other);
        free(whole);
        server_wait_for_metric(&s, "request_memory_bytes", 0);
    }
    server_post(&s, TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":2}", &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    server_end(&s);
}

/* The number of values of a body is limited, whatever memory there is. */
static void values_are_counted(void **state)
{
    struct server s;
    struct reply r;
    (void)state;
    server_start(&s, (const char *const[]){"-c", "256", NULL});
    char *body = body_of(3 << 20, true);
    server_post(&s, TEXT, body, &r);
    reply_assert_error(&r, 400, NULL, "at most 500000 values");
    reply_finish(&r);
    free(body);
    server_end(&s);
}

/* A connection beyond the limit of its address is closed. */
static void connections_are_counted(void **state)
{
    struct server s;
    struct reply r;
    int fd[3];
    (void)state;
    server_start(&s, (const char *const[]){"--max-client-connections", "3", "-c", "64", NULL});
    for (int i = 0; i < 3; i++) {
        fd[i] = server_connect(&s);
        assert_true(server_send(fd[i], "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 42));
        server_receive(fd[i], NULL, &r);
        assert_int_equal(r.status, 200);
        reply_finish(&r);
    }
    const int more = server_connect(&s);
    char byte;
    assert_true(read(more, &byte, 1) <= 0);
    close(more);
    for (int i = 0; i < 3; i++)
        close(fd[i]);
    usleep(500000);
    server_call(&s, "GET", "/health", "", NULL, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    server_end(&s);
}

/* Prompt tokens that were found in the cache: for key a after key b, then for b again. */
static const struct {
    const char *mode; /* NULL: the default */
    int64_t other, again;
} scopes[] = {{NULL, 0, 64}, {"key", 0, 64}, {"all", 64, 64}, {"none", 0, 0}};

static void keys_share_no_prompts(void **state)
{
    struct dgl_buf body = {0};
    (void)state;
    dgl_buf_puts(&body, "{\"max_tokens\":1,\"prompt\":[1");
    for (int i = 0; i < 100; i++)
        dgl_buf_printf(&body, ",%d", 5 + i);
    dgl_buf_puts(&body, "]}");
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
        static const char *const keys[] = {KEY_B, KEY_A, KEY_B};
        const int64_t wanted[] = {0, scopes[i].other, scopes[i].again};
        struct server s;
        char *dir = start_with_keys(
            &s,
            scopes[i].mode ? (const char *const[]){"--share-prefix", scopes[i].mode, NULL} : NULL);
        for (int k = 0; k < 3; k++) {
            struct reply r;
            server_call(&s, "POST", TEXT, keys[k], body.p, &r);
            const struct dgl_json *usage = dgl_json_get(reply_json(&r), "usage");
            const int64_t got =
                reply_number(dgl_json_get(usage, "prompt_tokens_details"), "cached_tokens");
            if (got != wanted[k])
                fail_msg("%s, request %d: %lld cached tokens, wanted %lld",
                         scopes[i].mode ? scopes[i].mode : "default", k, (long long)got,
                         (long long)wanted[k]);
            reply_finish(&r);
        }
        end_with_keys(&s, dir);
    }
    dgl_buf_finish(&body);
}

/* Refusals that the head decides. The body stays away, or is larger than the socket's buffers. */
static const struct {
    const char *name, *head;
    int status;
    size_t bytes; /* of the body that are sent after the head */
} heads[] = {
    {"no key", "POST /v1/completions HTTP/1.1\r\nContent-Length: 100000\r\n", 401, 0},
    {"no path", "POST /nothing HTTP/1.1\r\n" KEY_A "Content-Length: 100000\r\n", 404, 0},
    {"a method", "PUT /v1/models HTTP/1.1\r\n" KEY_A "Content-Length: 100000\r\n", 405, 0},
    {"a large body", "POST /tokenize HTTP/1.1\r\n" KEY_A "Content-Length: 9000000\r\n", 413, 0},
    {"a body in chunks", "POST /nothing HTTP/1.1\r\n" KEY_A "Transfer-Encoding: chunked\r\n", 404,
     0},
    {"a body that comes", "POST /nothing HTTP/1.1\r\n" KEY_A "Content-Length: 8000000\r\n", 404,
     4000000},
};

/* They are answered at once, and the connection is closed. A client that sends a part of the body
 * first can still read the answer. */
static void heads_are_answered_at_once(void **state)
{
    struct server s;
    (void)state;
    char *dir = start_with_keys(&s, NULL), *junk = calloc(1, 8000000);
    assert_non_null(junk);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct dgl_buf head = {0}, rest = {0};
        struct reply r;
        print_message("%s\n", heads[i].name);
        dgl_buf_printf(&head, "%sHost: localhost\r\n\r\n", heads[i].head);
        const int fd = server_connect(&s);
        const uint64_t start = dgl_now_ns();
        assert_true(server_send(fd, head.p, head.len));
        if (heads[i].bytes)
            server_send(fd, junk, heads[i].bytes);
        server_receive(fd, &rest, &r);
        assert_int_equal(r.status, heads[i].status);
        assert_contains(r.head, "Connection: close");
        assert_false(server_receive_until(fd, "HTTP", &rest));
        if (dgl_now_ns() - start > 20000000000u)
            fail_msg("%s: answered after %.1f s", heads[i].name,
                     (double)(dgl_now_ns() - start) / 1e9);
        reply_finish(&r);
        dgl_buf_finish(&head);
        dgl_buf_finish(&rest);
        close(fd);
    }
    free(junk);
    end_with_keys(&s, dir);
}

/* If all connections are taken by bodies that make no progress, they give way. */
static void stalled_bodies_make_room(void **state)
{
    static const char begin[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 100000\r\n\r\n{";
    struct server s;
    struct reply r;
    int fd[8];
    (void)state;
    server_start(&s, (const char *const[]){"--max-connections", "8", "-c", "64", NULL});
    for (int i = 0; i < 8; i++) {
        fd[i] = server_connect(&s);
        assert_true(server_send(fd[i], begin, sizeof(begin) - 1));
    }
    const uint64_t start = dgl_now_ns();
    server_call(&s, "GET", "/health", "", NULL, &r);
    assert_int_equal(r.status, 200);
    if (dgl_now_ns() - start > 60000000000u)
        fail_msg("answered after %.1f s", (double)(dgl_now_ns() - start) / 1e9);
    reply_finish(&r);
    for (int i = 0; i < 8; i++)
        close(fd[i]);
    server_end(&s);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(keys_share_no_prompts),
    cmocka_unit_test(heads_are_answered_at_once),
    cmocka_unit_test(stalled_bodies_make_room),
    cmocka_unit_test(keys_take_turns),
    cmocka_unit_test(requests_of_a_key_take_turns),
    cmocka_unit_test(waiting_requests_are_small),
    cmocka_unit_test(memory_is_bounded),
    cmocka_unit_test(values_are_counted),
    cmocka_unit_test(connections_are_counted),
};

/* Addresses of one network of IPv6 are one client, others are not. */
struct pair {
    const char *name, *first, *second;
    int status;
};
static const struct pair pairs[] = {
    {"an address twice", "192.0.2.1", "192.0.2.1", 429},
    {"neighbours of IPv4", "192.0.2.1", "192.0.2.2", 200},
    {"one /64", "2001:db8:1:2::1", "2001:db8:1:2:ffff::7", 429},
    {"one /64, spelled otherwise", "2001:db8:1:2::1", "2001:0DB8:1:2:0:0:0:9", 429},
    {"two /64", "2001:db8:1:2::1", "2001:db8:1:3::1", 200},
    {"IPv4 in IPv6", "::ffff:192.0.2.1", "::ffff:192.0.2.2", 200},
};

static void test_pair(void **state)
{
    const struct pair *row = *state;
    struct server s;
    struct reply r;
    char first[128], second[128];
    server_start(&s, (const char *const[]){"--parallel", "2", "--trust-proxy", "127.0.0.1", "-c",
                                           "256", "--max-client-requests", "1", NULL});
    snprintf(first, sizeof(first), "X-Forwarded-For: %s\r\n", row->first);
    snprintf(second, sizeof(second), "X-Forwarded-For: %s\r\n", row->second);
    const int fd = send_with(&s, first, "{\"prompt\":\"Once\"," ENDLESS "}");
    server_wait_for_metric(&s, "requests_running", 1);
    server_call(&s, "POST", TEXT, second, "{\"prompt\":\"A dog\",\"max_tokens\":1}", &r);
    if (r.status != row->status)
        fail_msg("%s: status %d, wanted %d: %s", row->name, r.status, row->status, r.body);
    reply_finish(&r);
    close(fd);
    server_end(&s);
}

int main(void)
{
    int failures = cmocka_run_group_tests_name("serve: limits", tests, NULL, NULL);
    failures += test_run_table("serve: limit", test_limit, limits);
    failures += test_run_table("serve: addresses", test_pair, pairs);
    return failures;
}
