/* Running `dopplergl serve`: keys, its log, signals, reasons to refuse the start, its unit. */
#include "tests/support/server.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/test.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"

/* ---- keys and origins ------------------------------------------------------------------------ */

struct access {
    const char *name, *path, *headers;
    int status;
};
static const struct access accesses[] = {
    {"home", "/", "", 200},
    {"health", "/health", "", 200},
    {"models without a key", "/v1/models", "", 401},
    {"a path that is not there", "/nothing", "", 401},
    {"metrics without a key", "/metrics", "", 401},
    {"a wrong key", "/v1/models", "Authorization: Bearer sesame-2\r\n", 401},
    {"the beginning of a key", "/v1/models", "Authorization: Bearer sesame\r\n", 401},
    {"an empty key", "/v1/models", "Authorization: Bearer \r\n", 401},
    {"another scheme", "/v1/models", "Authorization: Basic sesame-1\r\n", 401},
    {"the key", "/v1/models", "Authorization: Bearer sesame-1\r\n", 200},
    {"the key in small letters of the scheme", "/v1/models", "Authorization: bearer sesame-1\r\n",
     200},
    {"the key between blanks", "/v1/models", "Authorization: Bearer  sesame-1 \t\r\n", 200},
    {"a comment of the file", "/v1/models", "Authorization: Bearer # third\r\n", 401},
    {"a key of the file", "/v1/models", "Authorization: Bearer second\r\n", 200},
    {"with the key, a path that is not there", "/nothing", "Authorization: Bearer second\r\n", 404},
};

static void test_keys(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    char *dir = test_tmpdir(), file[256], log[256];
    size_t len;
    char *text;
    snprintf(file, sizeof(file), "%s/keys", dir);
    snprintf(log, sizeof(log), "%s/log", dir);
    test_write_file(dir, "keys", "\nsecond\n # third\n", 17);
    server_start(&s, (const char *const[]){"--api-key", "sesame-1", "--api-key-file", file, "-c",
                                           "64", "--cors", "https://a.example", "--log-file", log,
                                           "--alias", "mine", NULL});
    for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
        server_call(&s, "GET", accesses[i].path, accesses[i].headers, NULL, &r);
        if (r.status != accesses[i].status)
            fail_msg("%s: status %d, wanted %d", accesses[i].name, r.status, accesses[i].status);
        if (r.status == 401)
            assert_contains(r.body, "invalid_api_key");
        if (r.status == 200 && strcmp(accesses[i].path, "/v1/models") == 0)
            assert_contains(r.body, "\"id\": \"mine\"");
        reply_finish(&r);
    }
    server_call(&s, "OPTIONS", CHAT, "Origin: https://a.example\r\n", NULL, &r);
    assert_int_equal(r.status, 204);
    assert_contains(r.head, "Access-Control-Allow-Origin: https://a.example");
    assert_contains(r.head, "Access-Control-Allow-Headers: Authorization, Content-Type");
    reply_finish(&r);
    server_call(&s, "GET", "/health", "Origin: https://b.example\r\n", NULL, &r);
    assert_null(strstr(r.head, "Access-Control-Allow-Origin"));
    reply_finish(&r);
    static const char cut[] = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
                              "Authorization: Bearer second\0junk\r\n\r\n";
    struct dgl_buf held = {0};
    const int fd = server_connect(&s);
    assert_true(server_send(fd, cut, sizeof(cut) - 1));
    server_receive(fd, &held, &r);
    assert_int_equal(r.status, 400);
    reply_finish(&r);
    dgl_buf_finish(&held);
    close(fd);
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    assert_null(strstr(s.said.p, "sesame"));
    assert_null(strstr(s.said.p, "\"path\""));
    text = NULL;
    FILE *in = fopen(log, "r");
    assert_non_null(in);
    assert_true(getdelim(&text, &(size_t){0}, EOF, in) > 0);
    len = strlen(text);
    assert_true(len > 0);
    assert_contains(text, "\"path\": \"/v1/models\", \"status\": 401");
    assert_null(strstr(text, "sesame"));
    assert_null(strstr(text, "second\""));
    fclose(in);
    free(text);
    server_finish(&s);
    test_tmpdir_remove(dir);
}

/* The server's own first answer is not in the figures. Work for a client that leaves is counted
 * when it ends. */
static void figures_are_of_clients(void **state)
{
    static const char *const counters[] = {"requests_finished_total", "prompt_tokens_total",
                                           "tokens_total", "requests_cancelled_total"};
    (void)state;
    struct server s;
    struct dgl_buf held = {0};
    char *dir = test_tmpdir(), log[256], want[128], *text = NULL;
    size_t len;
    snprintf(log, sizeof(log), "%s/log", dir);
    server_start(&s, (const char *const[]){"-c", "512", "--log-file", log, NULL});
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        if (server_metric(&s, counters[i]) != 0)
            fail_msg("%s: %lld before any request, wanted 0", counters[i],
                     (long long)server_metric(&s, counters[i]));
    close(server_begin_stream(&s, TEXT, SERVER_ENDLESS, "data: ", &held));
    server_wait_for_metric(&s, "requests_cancelled_total", 1);
    const long long prompt = server_metric(&s, "prompt_tokens_total"),
                    tokens = server_metric(&s, "tokens_total");
    assert_true(prompt > 0 && tokens > 0);
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    assert_int_equal(dgl_file_slurp(NULL, log, 1 << 16, &text, &len), DGL_OK);
    snprintf(want, sizeof(want), "\"prompt_tokens\": %lld, \"tokens\": %lld, \"left\": true",
             prompt, tokens);
    assert_contains(text, want);
    free(text);
    dgl_buf_finish(&held);
    server_finish(&s);
    test_tmpdir_remove(dir);
}

/* If received bytes get no answer, a line is logged. A connection without bytes is not logged. */
static void no_request_is_logged(void **state)
{
    static const char bytes[] = "SSH-2.0-OpenSSH_9\r\n";
    (void)state;
    struct server s;
    struct dgl_buf held = {0};
    server_start(&s, (const char *const[]){"-c", "64", NULL});
    close(server_connect(&s));
    const int fd = server_connect(&s);
    assert_true(server_send(fd, bytes, sizeof(bytes) - 1));
    assert_false(server_receive_until(fd, "HTTP/1.1", &held));
    close(fd);
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    const char *line = strstr(s.said.p, "\"method\": \"\", \"path\": \"\", \"status\": 0");
    assert_non_null(line);
    assert_null(strstr(line + 1, "\"method\""));
    assert_contains(s.said.p, "\"client\": \"127.0.0.1\", \"method\"");
    dgl_buf_finish(&held);
    server_finish(&s);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct start {
    const char *name;
    const char *args[10];
    int code;
    const char *part;
};
static const struct start starts[] = {
    {"open to others without a key",
     {"serve", "--device", "any", "--host", "0.0.0.0", "--port", "0"},
     1,
     "--insecure"},
    {"a name that begins like an address of this machine",
     {"serve", "--device", "any", "--host", "127.0.0.1.invalid", "--port", "0"},
     1,
     "neither an address nor a known name"},
    {"every address of IPv6",
     {"serve", "--device", "any", "--host", "::", "--port", "0"},
     1,
     "--insecure"},
    {"a port that is none", {"serve", "--port", "65536"}, 2, "65536"},
    {"no sequences", {"serve", "--parallel", "0"}, 2, "parallel"},
    {"an empty key", {"serve", "--device", "any", "--api-key", " "}, 1, "the key is empty"},
    {"a key that no client can send",
     {"serve", "--api-key",
      "a\x01"
      "b"},
     2,
     "control character"},
    {"an origin without a scheme", {"serve", "--cors", "foo"}, 2, "--cors foo: wanted"},
    {"an origin with a path", {"serve", "--cors", "https://a.example/"}, 2, "--cors https"},
    {"an origin in capitals", {"serve", "--cors", "https://A.example"}, 2, "--cors https"},
    {"an origin of no host", {"serve", "--cors", "https://"}, 2, "--cors https"},
    {"a host that is none",
     {"serve", "--device", "any", "--host", "not a host", "--insecure"},
     1,
     "not a host"},
    {"a host with a port", {"serve", "--host", "0.0.0.0:80"}, 2, "--host 0.0.0.0 --port 80"},
    {"a host that is a URL", {"serve", "--host", "http://0.0.0.0"}, 2, "not a URL"},
    {"a host in brackets", {"serve", "--host", "[::1]"}, 2, "brackets"},
    {"a socket without a path", {"serve", "--host", "unix:"}, 2, "Unix socket"},
    {"an address of another machine",
     {"serve", "--device", "any", "--host", "192.0.2.1", "--insecure", "--port", "0"},
     1,
     "no network interface"},
    {"a socket in no folder",
     {"serve", "--device", "any", "--host", "/nonexistent/s.sock"},
     1,
     "the Unix socket cannot be made: No such file"},
    {"a socket in the place of a file",
     {"serve", "--device", "any", "--host", "/dev/null"},
     1,
     "the file exists"},
    {"a template that is not there",
     {"serve", "--device", "any", "--port", "0", "--template", "/nonexistent"},
     1,
     "/nonexistent"},
    {"TLS", {"serve", "--ssl-key-file", "x"}, 2, "proxy"},
};

static void test_start(void **state)
{
    const struct start *row = *state;
    struct process_result r;
    process_run(&(const struct process_params){.args = row->args}, &r);
    assert_code(&r, row->code);
    assert_one_error(&r, row->part);
    process_finish(&r);
}

/* If a server does not start, it reports the sources of its options, but no key. */
static void a_key_of_the_environment_is_not_told(void **state)
{
    struct process_result r;
    (void)state;
    process_run(
        &(const struct process_params){
            .args = (const char *const[]){"serve", "--device", "any", "--host", "not a host", NULL},
            .env = (const char *const[]){"DOPPLERGL_API_KEY=sesame", NULL}},
        &r);
    assert_code(&r, 1);
    assert_contains(r.err, "--api-key is by DOPPLERGL_API_KEY");
    assert_null(strstr(r.err, "sesame"));
    process_finish(&r);
}

/* SIGTERM: running requests finish, and new ones are refused. */
static void sigterm_drains(void **state)
{
    (void)state;
    struct server s;
    struct dgl_buf held = {0};
    server_start(&s, (const char *const[]){"-c", "128", NULL});
    const int fd = server_begin_stream(&s, TEXT, SERVER_ENDLESS, "data: ", &held);
    kill(s.pid, SIGTERM);
    server_expect(&s, fd, "[DONE]", &held);
    close(fd);
    assert_int_equal(server_stop(&s, 0), 0);
    dgl_buf_finish(&held);
    server_finish(&s);
}

/* Requests that run out of time get an error. A second signal ends the server at once. */
static void an_end_that_comes_soon(void **state)
{
    (void)state;
    for (int second = 0; second < 2; second++) {
        struct server s;
        struct dgl_buf held = {0};
        server_start(&s, (const char *const[]){"--drain-timeout", second ? "3600" : "0", NULL});
        const int fd = server_begin_stream(&s, TEXT, SERVER_ENDLESS, "data: ", &held);
        kill(s.pid, SIGTERM);
        server_wait_for(&s, "stopping");
        if (second)
            kill(s.pid, SIGTERM);
        else
            server_expect(&s, fd, "the server is stopping", &held);
        assert_int_equal(server_stop(&s, 0), second ? 130 : 0);
        close(fd);
        dgl_buf_finish(&held);
        server_finish(&s);
    }
}

/* As soon as it handles signals, long before the model is loaded. */
static void an_end_before_it_listens(void **state)
{
    static const char script[] =
        "$0 serve --device any --port 0 -c 64 & p=$!\n"
        "until grep -q 'SigCgt:.*[4567cdef]...$' /proc/$p/status; do :; done\n"
        "sleep $1; kill -$2 $p; wait $p";
    static const char *const delays[] = {"0", "0.05"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct process_result r;
        process_run(
            &(const struct process_params){
                .program = "/bin/sh",
                .args = (const char *const[]){"-c", script, process_program(), delays[i % 2],
                                              i < 2 ? "TERM" : "INT", NULL}},
            &r);
        assert_code(&r, i < 2 ? 0 : 130);
        assert_null(strstr(r.err, "listening"));
        process_finish(&r);
    }
}

/* The log counts the tokens until then, and the prompt. */
static void an_answer_that_is_cut_is_counted(void **state)
{
    (void)state;
    struct server s;
    struct dgl_buf held = {0};
    server_start(&s, (const char *const[]){"--drain-timeout", "0", NULL});
    const int fd = server_begin_stream(&s, TEXT, SERVER_ENDLESS, "data: ", &held);
    kill(s.pid, SIGTERM);
    server_expect(&s, fd, "the server is stopping", &held);
    close(fd);
    assert_int_equal(server_stop(&s, 0), 0);
    assert_contains(s.said.p, "\"path\": \"/v1/completions\"");
    assert_null(strstr(s.said.p, "\"prompt_tokens\": 0"));
    assert_null(strstr(s.said.p, "\"tokens\": 0"));
    dgl_buf_finish(&held);
    server_finish(&s);
}

static void an_address_is_printed(void **state)
{
    static const char script[] =
        "$0 serve --device any --port 0 -c 64 --alias mine --json > $1/out & p=$!\n"
        "until [ -s $1/out ]; do sleep 0.05; done; kill -TERM $p; wait $p; cat $1/out";
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
    assert_contains(r.out, "{\"host\": \"127.0.0.1\", \"port\": ");
    assert_contains(r.out, "\"model\": \"mine\"}");
    process_finish(&r);
}

/* On a Unix socket, also in place of one whose server was killed. The socket is for the user and
 * the group, and the file is gone at the end. */
static void a_unix_socket_is_served(void **state)
{
    static const char script[] =
        "$0 serve --device any --host $1/s.sock -c 64 --trust-proxy unix > $1/log 2> $1/err & "
        "p=$!\n"
        "until grep -q 'listening on unix:' $1/err; do sleep 0.05; done\n"
        "if [ \"$2\" = again ]; then kill -KILL $p; wait $p; exec \"$3\" \"$1\"; fi\n"
        "stat -c %a $1/s.sock\n"
        "python3 -c 'import socket,sys\n"
        "s=socket.socket(socket.AF_UNIX)\n"
        "s.connect(sys.argv[1])\n"
        "s.send(b\"GET /health HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n"
        "X-Forwarded-For: 192.0.2.1\\r\\n\\r\\n\")\n"
        "while b:=s.recv(4096): print(b.decode())' $1/s.sock\n"
        "$0 serve --device any --host unix:$1/s.sock -c 64 2>&1\n"
        "kill -TERM $p; wait $p; echo code $?; cat $1/log; ls $1/s.sock 2>&1";
    struct process_result r;
    char *dir = test_tmpdir();
    (void)state;
    for (int i = 0; i < 2; i++) {
        process_run(
            &(const struct process_params){
                .program = "/bin/sh",
                .args = (const char *const[]){"-c", script, process_program(), dir,
                                              i == 0 ? "again" : "", "true", NULL}},
            &r);
        assert_code(&r, 0 + (i == 1 ? 2 : 0));
        if (i == 1) {
            assert_contains(r.out, "660\n");
            assert_contains(r.out, "HTTP/1.1 200");
            assert_contains(r.out, "belongs to a running server");
            assert_contains(r.out, "code 0");
            assert_contains(r.out, "\"client\": \"192.0.2.1\"");
            assert_contains(r.out, "\"proxy\": \"unix\"");
            assert_contains(r.out, "No such file");
        }
        process_finish(&r);
    }
    test_tmpdir_remove(dir);
}

static void sighup_reads_kernels_again(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    server_start(&s, (const char *const[]){"-c", "64", NULL});
    kill(s.pid, SIGHUP);
    server_wait_for(&s, "kernels were read again");
    server_call(&s, "POST", TEXT, "", "{\"prompt\":\"Once\",\"max_tokens\":3}", &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    assert_int_equal(server_stop(&s, SIGINT), 130);
    server_finish(&s);
}

/* The unit as systemd reads it, with the built command in its place. Its exposure is below 3. */
static void systemd_takes_the_unit(void **state)
{
    static const char script[] = "command -v systemd-analyze > /dev/null || exit 77\n"
                                 "sed \"s|/usr/bin/dopplergl|$0|\" "
                                 "tools/packaging/dopplergl.service > $1/dopplergl.service\n"
                                 "systemd-analyze verify --man=no $1/dopplergl.service 2>&1\n"
                                 "systemd-analyze security --offline=yes --threshold=29 "
                                 "$1/dopplergl.service > $1/security || cat $1/security\n";
    struct process_result r;
    char program[4096], *dir = test_tmpdir();
    (void)state;
    assert_non_null(realpath(process_program(), program));
    process_run(
        &(const struct process_params){
            .program = "/bin/sh", .args = (const char *const[]){"-c", script, program, dir, NULL}},
        &r);
    test_tmpdir_remove(dir);
    const int code = r.code;
    if (code != 77) {
        assert_code(&r, 0);
        assert_string_equal(r.out, "");
    }
    process_finish(&r);
    if (code == 77)
        SKIP("systemd-analyze is not installed");
}

/* Answers one request with the keys of a credential, and prints the messages for systemd. */
static void the_service_manager_is_told(void **state)
{
    static const char script[] =
        "import os, signal, socket, subprocess, sys\n"
        "import urllib.error, urllib.request\n"
        "program, folder = sys.argv[1:]\n"
        "told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "told.bind(folder + '/notify')\n"
        "told.settimeout(200)\n"
        "with open(folder + '/dopplergl.api-keys', 'w') as out: out.write('first\\n')\n"
        "env = dict(os.environ, NOTIFY_SOCKET=folder + '/notify', CREDENTIALS_DIRECTORY=folder)\n"
        "server = subprocess.Popen([program, 'serve', '--device', 'any', '--port', '0', '-c', "
        "'64'],\n"
        "                          env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, "
        "text=True)\n"
        "print(told.recv(99).decode().split()[0], flush=True)\n"
        "while 'listening' not in (line := server.stderr.readline()): pass\n"
        "url = line.split()[-1] + '/v1/models'\n"
        "for key in 'first', 'second':\n"
        "    request = urllib.request.Request(url, headers={'Authorization': 'Bearer ' + key})\n"
        "    try: print(urllib.request.urlopen(request).status)\n"
        "    except urllib.error.HTTPError as e: print(e.code)\n"
        "server.send_signal(signal.SIGTERM)\n"
        "print(told.recv(99).decode().split()[0])\n"
        "print('code', server.wait())\n";
    struct process_result r;
    char *dir = test_tmpdir();
    (void)state;
    process_run(
        &(const struct process_params){
            .program = "/usr/bin/env",
            .args = (const char *const[]){"python3", "-c", script, process_program(), dir, NULL}},
        &r);
    test_tmpdir_remove(dir);
    assert_code(&r, 0);
    assert_string_equal(r.out, "READY=1\n200\n401\nSTOPPING=1\ncode 0\n");
    process_finish(&r);
}

/* After the server reports that it listens, no kernel is compiled or looked up in the cache. */
static void the_first_client_waits_for_no_compiler(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    server_start(&s, (const char *const[]){"-c", "64", "-v", NULL});
    server_post(&s, TEXT, "{\"prompt\":\"Once upon a time\",\"max_tokens\":4}", &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    server_post(&s, TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":8,\"n\":3}", &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    const char *listens = strstr(s.said.p, "listening on");
    assert_non_null(listens);
    assert_non_null(strstr(s.said.p, "kernels: "));
    if (strstr(listens, "kernels: "))
        fail_msg("%s", listens);
    server_finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_client_waits_for_no_compiler),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(figures_are_of_clients),
        cmocka_unit_test(no_request_is_logged),
        cmocka_unit_test(a_key_of_the_environment_is_not_told),
        cmocka_unit_test(sigterm_drains),
        cmocka_unit_test(an_end_that_comes_soon),
        cmocka_unit_test(an_end_before_it_listens),
        cmocka_unit_test(an_address_is_printed),
        cmocka_unit_test(a_unix_socket_is_served),
        cmocka_unit_test(an_answer_that_is_cut_is_counted),
        cmocka_unit_test(sighup_reads_kernels_again),
        cmocka_unit_test(systemd_takes_the_unit),
        cmocka_unit_test(the_service_manager_is_told),
    };
    int failures = cmocka_run_group_tests_name("serve: running", tests, NULL, NULL);
    return failures + test_run_table("serve: start", test_start, starts);
}
