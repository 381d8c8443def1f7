/* What `dopplergl serve` reports to its operator: ids of requests, the access log, metrics. */
#include "tests/support/server.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/test.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"

/* Returns the text of a file with at least one line that contains `part`; free(). */
static char *wait_for_line(const char *path, const char *part)
{
    for (int i = 0; i < 2000; i++, usleep(10000)) {
        char *text = NULL;
        size_t len;
        if (dgl_file_slurp(NULL, path, 1 << 20, &text, &len) == DGL_OK && strstr(text, part))
            return text;
        free(text);
    }
    fail_msg("%s never has %s", path, part);
    return NULL;
}

/* Parses the only line of `text` with `part`. */
static struct dgl_json_doc *line_with(const char *text, const char *part)
{
    struct dgl_str rest = dgl_str_of(text), line;
    struct dgl_json_doc *doc = NULL;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        if (!memmem(line.p, line.len, part, strlen(part)))
            continue;
        if (doc)
            fail_msg("more than one line with %s: %s", part, text);
        if (dgl_json_parse(NULL, "line", line.p, line.len, &doc) != DGL_OK)
            fail_msg("not JSON: %.*s", (int)line.len, line.p);
    }
    if (!doc)
        fail_msg("no line with %s: %s", part, text);
    return doc;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Each request has its own X-Request-Id, by which its line is found. */
struct line {
    const char *id, *method, *path, *headers, *body;
    int status;
    const char *fields; /* JSON, expected in the line */
    const char *absent; /* a field that the line must not have, or NULL */
};
static const struct line lines[] = {
    {"answer", "POST", TEXT, "Authorization: Bearer first\r\n",
     "{\"prompt\":\"Once upon a time\",\"max_tokens\":3,\"ignore_eos\":true}", 200,
     "{\"key\":1,\"client\":\"127.0.0.1\",\"finish_reason\":\"length\",\"tokens\":3,"
     "\"cached_tokens\":0,\"left\":false}",
     "error"},
    {"second-key", "GET", "/v1/models", "Authorization: Bearer second\r\n", NULL, 200,
     "{\"key\":2}", "finish_reason"},
    {"no-key", "GET", "/v1/models", "", NULL, 401, "{\"param\":null,\"code\":\"invalid_api_key\"}",
     "key"},
    {"bad-field", "POST", TEXT, "Authorization: Bearer first\r\n",
     "{\"prompt\":\"Once\",\"temperature\":-1}", 400,
     "{\"param\":\"temperature\",\"error\":\"'temperature' is -1, wanted a number from 0 to "
     "1000\"}",
     "finish_reason"},
    {"bad-model", "POST", TEXT, "Authorization: Bearer first\r\n",
     "{\"prompt\":\"Once\",\"model\":\"x\"}", 404,
     "{\"param\":\"model\",\"code\":\"model_not_found\"}", NULL},
    {"alias-2", "POST", TEXT, "Authorization: Bearer first\r\n",
     "{\"prompt\":\"Once\",\"model\":\"zwei\",\"max_tokens\":1,\"ignore_eos\":true}", 200,
     "{\"tokens\":1}", NULL},
    {"proxied", "GET", "/health", "X-Forwarded-For: 192.0.2.7, 10.1.2.3\r\n", NULL, 200,
     "{\"client\":\"192.0.2.7\",\"proxy\":\"127.0.0.1\"}", NULL},
    {"proxied-far", "GET", "/health",
     "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 192.0.2.8:99\r\n", NULL, 200,
     "{\"client\":\"192.0.2.8\",\"proxy\":\"127.0.0.1\"}", NULL},
    {"proxied-v6", "GET", "/health", "X-Forwarded-For: [2001:db8::1]:99\r\n", NULL, 200,
     "{\"client\":\"2001:db8::1\"}", NULL},
    {"proxied-junk", "GET", "/health", "X-Forwarded-For: junk\r\n", NULL, 200,
     "{\"client\":\"127.0.0.1\"}", "proxy"},
};

static void assert_fields(const struct line *row, const char *text)
{
    char part[96];
    struct dgl_json_doc *doc, *wanted = NULL;
    snprintf(part, sizeof(part), "\"id\": \"%s\"", row->id);
    doc = line_with(text, part);
    assert_int_equal(dgl_json_parse(NULL, "row", row->fields, strlen(row->fields), &wanted),
                     DGL_OK);
    const struct dgl_json *line = dgl_json_root(doc);
    for (const struct dgl_json *v = dgl_json_first(dgl_json_root(wanted)); v;
         v = dgl_json_next(v)) {
        struct dgl_buf got = {0}, want = {0};
        struct dgl_json_writer g = dgl_json_writer(&got, 0), w = dgl_json_writer(&want, 0);
        const struct dgl_json *found = dgl_json_get(line, dgl_json_key(v).p);
        if (!found)
            fail_msg("%s: the line has no %s", row->id, dgl_json_key(v).p);
        dgl_jw_value(&g, found);
        dgl_jw_value(&w, v);
        if (strcmp(got.p, want.p) != 0)
            fail_msg("%s: %s is %s, wanted %s", row->id, dgl_json_key(v).p, got.p, want.p);
        dgl_buf_finish(&got);
        dgl_buf_finish(&want);
    }
    if (row->absent && dgl_json_get(line, row->absent))
        fail_msg("%s: the line has %s", row->id, row->absent);
    assert_int_equal(reply_number(line, "status"), row->status);
    const struct dgl_str time = dgl_json_str(dgl_json_get(line, "time"));
    assert_int_equal(time.len, strlen("2026-01-01T00:00:00.000Z"));
    assert_int_equal(time.p[19], '.');
    assert_true(dgl_json_f64(dgl_json_get(line, "ms")) > 0);
    if (dgl_json_get(line, "finish_reason")) {
        const double queue = dgl_json_f64(dgl_json_get(line, "queue_ms")),
                     first = dgl_json_f64(dgl_json_get(line, "first_token_ms")),
                     all = dgl_json_f64(dgl_json_get(line, "ms"));
        if (!(queue >= 0 && queue < first && first < all))
            fail_msg("%s: queue %g ms, first token %g ms, all %g ms", row->id, queue, first, all);
    }
    dgl_json_destroy(&doc);
    dgl_json_destroy(&wanted);
}

/* The id is in the header, in the error and in the log. After SIGHUP, lines go to a new file. */
static void lines_say_what_happened(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    char *dir = test_tmpdir(), log[256], old[256], keys[256], headers[512], part[96], *text;
    snprintf(log, sizeof(log), "%s/log", dir);
    snprintf(old, sizeof(old), "%s/log.1", dir);
    snprintf(keys, sizeof(keys), "%s/keys", dir);
    test_write_file(dir, "keys", "second\n", 7);
    server_start(&s, (const char *const[]){"-c", "128", "--log-file", log, "--api-key", "first",
                                           "--api-key-file", keys, "--trust-proxy", "127.0.0.1",
                                           "--trust-proxy", "10.0.0.0/8", "--alias", "eins, zwei",
                                           "--alias", "drei", NULL});
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const struct line *row = &lines[i];
        snprintf(headers, sizeof(headers), "X-Request-Id: %s\r\n%s", row->id, row->headers);
        server_call(&s, row->method, row->path, headers, row->body, &r);
        if (r.status != row->status)
            fail_msg("%s: status %d, wanted %d: %s", row->id, r.status, row->status, r.body);
        snprintf(part, sizeof(part), "X-Request-Id: %s\r\n", row->id);
        assert_contains(r.head, part);
        if (r.status >= 400) {
            const struct dgl_json *error = dgl_json_get(reply_json(&r), "error");
            assert_string_equal(dgl_json_str(dgl_json_get(error, "request_id")).p, row->id);
        }
        if (strcmp(row->path, "/v1/models") == 0 && r.status == 200) {
            assert_contains(r.body, "\"id\": \"eins\"");
            assert_contains(r.body, "\"id\": \"zwei\"");
            assert_contains(r.body, "\"id\": \"drei\"");
        }
        reply_finish(&r);
    }
    server_call(&s, "GET", "/health", "X-Request-Id: a b\"c\r\n", NULL, &r);
    assert_contains(r.head, "X-Request-Id: req-");
    reply_finish(&r);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        snprintf(part, sizeof(part), "\"id\": \"%s\"", lines[i].id);
        text = wait_for_line(log, part);
        assert_fields(&lines[i], text);
        free(text);
    }
    free(wait_for_line(log, "\"id\": \"req-"));
    assert_int_equal(rename(log, old), 0);
    kill(s.pid, SIGHUP);
    server_wait_for(&s, "kernels were read again");
    server_call(&s, "GET", "/health", "X-Request-Id: after\r\n", NULL, &r);
    reply_finish(&r);
    text = wait_for_line(log, "\"id\": \"after\"");
    assert_null(strstr(text, "\"id\": \"answer\""));
    free(text);
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    const char *line = strstr(s.said.p, "model eins (llama, ");
    if (!line || !strstr(line, "context 128 tokens, 4 sequences, KV cache up to ") ||
        !strstr(line, ", loaded in "))
        fail_msg("no line about the model: %s", s.said.p);
    server_finish(&s);
    test_tmpdir_remove(dir);
}

/* The log and the lines for people have different streams. */
static void the_log_is_apart(void **state)
{
    static const char script[] =
        "$0 serve --device any --port 0 -c 64 > $1/out 2> $1/err & p=$!\n"
        "until grep -q listening $1/err; do sleep 0.05; done\n"
        "printf 'SSH-2.0-x\\r\\n' | timeout 5 bash -c \"cat > /dev/tcp/127.0.0.1/"
        "$(sed -n 's/.*127.0.0.1://p' $1/err)\"\n"
        "until [ -s $1/out ]; do sleep 0.05; done; kill -TERM $p; wait $p; cat $1/out\n"
        "cat $1/err >&2";
    struct process_result r;
    char *dir = test_tmpdir();
    (void)state;
    process_run(
        &(const struct process_params){
            .program = "/bin/sh",
            .args = (const char *const[]){"-c", script, process_program(), dir, NULL}},
        &r);
    test_tmpdir_remove(dir);
    assert_code(&r, 0);
    struct dgl_json_doc *doc = line_with(r.out, "{");
    assert_int_equal(reply_number(dgl_json_root(doc), "status"), 0);
    dgl_json_destroy(&doc);
    assert_null(strstr(r.err, "\"status\""));
    process_finish(&r);
}

/* A reader of standard output that only reads the first line does not stop the server. */
static void a_slow_reader_of_the_log_stops_nothing(void **state)
{
    static const char script[] =
        "import http.client, json, signal, subprocess, sys\n"
        "server = subprocess.Popen([sys.argv[1], 'serve', '--device', 'any', '--port', '0', '-c',\n"
        "                           '64', '--json'], stdout=subprocess.PIPE, "
        "stderr=subprocess.PIPE)\n"
        "port = json.loads(server.stdout.readline())['port']\n"
        "client = http.client.HTTPConnection('127.0.0.1', port, timeout=60)\n"
        "for i in range(1500):\n"
        "    client.request('GET', '/health')\n"
        "    assert client.getresponse().read() == b'{\"status\":\"ok\"}'\n"
        "client.close()\n"
        "server.send_signal(signal.SIGTERM)\n"
        "said = server.stderr.read().decode()\n"
        "print('code', server.wait(), said.count('lines are dropped'))\n"
        "lines = server.stdout.read().splitlines()\n"
        "print(all(json.loads(line)['status'] == 200 for line in lines), 100 < len(lines) < "
        "1500)\n";
    struct process_result r;
    (void)state;
    process_run(
        &(const struct process_params){
            .program = "/usr/bin/env",
            .args = (const char *const[]){"python3", "-c", script, process_program(), NULL}},
        &r);
    assert_code(&r, 0);
    assert_string_equal(r.out, "code 0 1\nTrue True\n");
    process_finish(&r);
}

/* A log without room stops no answer. It is reported once. */
static void a_full_disk_stops_nothing(void **state)
{
    struct server s;
    struct reply r;
    (void)state;
    server_start(&s, (const char *const[]){"-c", "64", "--log-file", "/dev/full", NULL});
    for (int i = 0; i < 3; i++) {
        server_call(&s, "GET", "/health", "", NULL, &r);
        assert_int_equal(r.status, 200);
        reply_finish(&r);
    }
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    assert_int_equal(test_occurrences(s.said.p, "its lines are lost: No space left on device"), 1);
    server_finish(&s);
}

/* A reader of standard error that stands still stops no answer either, also if each request causes
 * a line there. */
static void a_slow_reader_of_messages_stops_nothing(void **state)
{
    enum { REQUESTS = 1500 };
    struct server s;
    struct reply r;
    (void)state;
    server_start(&s, (const char *const[]){"-c", "64", "--log-file", "/dev/null", NULL});
    for (int i = 0; i < REQUESTS; i++) {
        server_post(&s, "/v1/completions",
                    "{\"prompt\":\"Once\",\"max_tokens\":0,\"a field that is in no list\":1}", &r);
        assert_int_equal(r.status, 200);
        reply_finish(&r);
    }
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    const size_t notes = test_occurrences(s.said.p, "ignored fields");
    if (notes < 100 || notes >= REQUESTS)
        fail_msg("%zu lines, wanted 100 to %d", notes, REQUESTS);
    server_finish(&s);
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* Waits until /metrics has `part`: a request is counted after its client has the answer. */
static void wait_for_figure(const struct server *s, const char *part)
{
    struct reply r;
    for (int i = 0;; i++, usleep(20000)) {
        server_call(s, "GET", "/metrics", "", NULL, &r);
        if (strstr(r.body, part))
            break;
        if (i > 500)
            fail_msg("/metrics has no %s: %s", part, r.body);
        reply_finish(&r);
    }
    assert_null(strstr(r.body, "Of these"));
    reply_finish(&r);
}

static void metrics_tell_the_load(void **state)
{
    static const char *const wanted[] = {
        "\ndopplergl_http_requests_total{path=\"/v1/completions\",status=\"2xx\"} 2\n",
        "\ndopplergl_http_requests_total{path=\"/v1/completions\",status=\"4xx\"} 1\n",
        "\ndopplergl_http_requests_total{path=\"other\",status=\"4xx\"} 1\n",
        "\ndopplergl_http_requests_total{path=\"/v1/models/NAME\",status=\"2xx\"} 1\n",
        "\ndopplergl_queue_time_seconds_count 2\n",
        "\ndopplergl_answer_time_seconds_count 2\n",
        "\ndopplergl_answer_length_tokens_sum 20\n",
        "\ndopplergl_answer_length_tokens_bucket{le=\"8\"} 1\n",
        "\ndopplergl_prompt_length_tokens_count 2\n",
        "dopplergl_build_info{version=\"",
        "dopplergl_model_info{model=\"a\\\"b\",family=\"llama\",quantization=\"",
    };
    (void)state;
    struct server s;
    struct reply r;
    server_start(&s, (const char *const[]){"-c", "128", "--alias", "a\"b", NULL});
    server_post(&s, TEXT, "{\"prompt\":\"Once\",\"max_tokens\":4,\"ignore_eos\":true}", &r);
    reply_finish(&r);
    server_post(&s, TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":16,\"ignore_eos\":true}", &r);
    reply_finish(&r);
    server_post(&s, TEXT, "{}", &r);
    reply_finish(&r);
    server_call(&s, "GET", "/nothing", "", NULL, &r);
    reply_finish(&r);
    server_call(&s, "GET", "/v1/models/a%22b", "", NULL, &r);
    reply_finish(&r);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        wait_for_figure(&s, wanted[i]);
    server_end(&s);
}

/* ---- options --------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    const char *args[8];
    int code;
    const char *part;
};
static const struct refusal refusals[] = {
    {"a proxy without an address", {"serve", "--trust-proxy", "nginx"}, 2, "--trust-proxy nginx"},
    {"a net with too many bits", {"serve", "--trust-proxy", "10.0.0.0/33"}, 2, "10.0.0.0/33"},
    {"a log in no folder",
     {"serve", "--device", "any", "--port", "0", "--log-file", "/nonexistent/log"},
     1,
     "/nonexistent/log"},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct process_result r;
    process_run(&(const struct process_params){.args = row->args}, &r);
    assert_code(&r, row->code);
    assert_one_error(&r, row->part);
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_say_what_happened),
        cmocka_unit_test(the_log_is_apart),
        cmocka_unit_test(a_slow_reader_of_the_log_stops_nothing),
        cmocka_unit_test(a_slow_reader_of_messages_stops_nothing),
        cmocka_unit_test(a_full_disk_stops_nothing),
        cmocka_unit_test(metrics_tell_the_load),
    };
    int failures = cmocka_run_group_tests_name("serve: log", tests, NULL, NULL);
    return failures + test_run_table("serve: log options", test_refusal, refusals);
}
