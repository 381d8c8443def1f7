/* A wall clock that jumps an hour ahead and back while `dopplergl serve` answers. Timeouts and
 * measured times must not depend on it, nor any wait. This program is also the server. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "tests/support/self_command.h"
#include "tests/support/server.h"
#include "tests/support/test.h"

#define CLOCK "DGL_TEST_CLOCK" /* file with the offset, which both processes map */
#define HOUR  3600

/* Seconds that the wall clock of the server is ahead. */
static _Atomic long *offset;

/* ---- the server's side ----------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int result = __real_clock_gettime(clock, now);
    if (offset && clock == CLOCK_REALTIME)
        now->tv_sec += atomic_load(offset);
    return result;
}

time_t __real_time(time_t *out);
time_t __wrap_time(time_t *out);
time_t __wrap_time(time_t *out)
{
    const time_t now = __real_time(NULL) + (offset ? atomic_load(offset) : 0);
    if (out)
        *out = now;
    return now;
}

static void map(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    offset = mmap(NULL, sizeof(*offset), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(offset, MAP_FAILED);
    close(fd);
}

/* ---- the test's side ------------------------------------------------------------------------- */

static char *folder;

/* The clock's jump after the first part of an answer, and before the server is stopped. */
struct jump {
    const char *name;
    long before, during, idle;
};
static const struct jump jumps[] = {{"ahead", 0, HOUR, HOUR},
                                    {"back", 0, -HOUR, -HOUR},
                                    {"ahead and back", 0, HOUR, 0},
                                    {"back and ahead", HOUR, 0, HOUR}};

static double number_of(const struct dgl_json *object, const char *key)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    assert_true(dgl_json_is(value, DGL_JSON_NUMBER));
    return dgl_json_f64(value);
}

/* The times of the access log and the sums of the metrics are those that passed. */
static void check_times(const struct server *s, const char *log, double most_s)
{
    static const char *const sums[] = {"queue_time_seconds_sum", "answer_time_seconds_sum",
                                       "time_to_first_token_seconds_sum"};
    char *text = NULL;
    size_t len = 0;
    struct reply r;
    assert_int_equal(dgl_file_slurp(NULL, log, 1 << 20, &text, &len), DGL_OK);
    struct dgl_str rest = {text, len}, line;
    size_t answers = 0;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        struct dgl_json_doc *doc = NULL;
        assert_int_equal(dgl_json_parse(NULL, "log", line.p, line.len, &doc), DGL_OK);
        assert_at_most(number_of(dgl_json_root(doc), "ms"), most_s * 1e3);
        if (dgl_json_get(dgl_json_root(doc), "first_token_ms")) {
            assert_at_most(number_of(dgl_json_root(doc), "first_token_ms"), most_s * 1e3);
            assert_at_most(number_of(dgl_json_root(doc), "queue_ms"), most_s * 1e3);
            answers++;
        }
        dgl_json_destroy(&doc);
    }
    assert_int_equal(answers, 2);
    server_call(s, "GET", "/metrics", "", NULL, &r);
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        char name[96];
        snprintf(name, sizeof(name), "\ndopplergl_%s ", sums[i]);
        const char *at = strstr(r.body, name);
        if (!at)
            fail_msg("no %s in %s", sums[i], r.body);
        assert_at_most(strtod(at + strlen(name), NULL), most_s);
    }
    reply_finish(&r);
    free(text);
}

static void test_jump(void **state)
{
    const struct jump *row = *state;
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char setting[512];
    char *log = checked(dgl_path_join(folder, "log"));
    struct server s;
    struct reply r;
    struct dgl_buf heard = {0}, held = {0};
    snprintf(setting, sizeof(setting), CLOCK "=%s/clock", folder);
    const char *const env[] = {setting, NULL};
    const uint64_t start = dgl_now_ns();
    unlink(log);
    atomic_store(offset, row->before);
    server_start_with(&s,
                      &(const struct server_params){
                          .args = (const char *const[]){"-c", "512", "--parallel", "2", "--timeout",
                                                        "60", "--log-file", log, NULL},
                          .program = self_command_program(),
                          .env = env});
    const int idle = server_connect(&s);
    assert_true(server_send(idle, ask, sizeof(ask) - 1));
    server_receive(idle, &held, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    const int fd = server_begin_stream(&s, "/v1/completions",
                                       "{\"prompt\":\"Once\",\"max_tokens\":200,\"stream\":true,"
                                       "\"ignore_eos\":true}",
                                       "data: ", &heard);
    atomic_store(offset, row->during);
    /* Another answer that begins after the jump. */
    server_post(&s, "/v1/completions", "{\"prompt\":\"A dog\",\"max_tokens\":4}", &r);
    assert_int_equal(r.status, 200);
    const int64_t created = reply_number(reply_json(&r), "created"),
                  wanted = (int64_t)__real_time(NULL) + row->during;
    if (created < wanted - 30 || created > wanted + 30)
        fail_msg("created is %lld, wanted about %lld", (long long)created, (long long)wanted);
    reply_finish(&r);
    server_expect(&s, fd, "[DONE]", &heard);
    assert_null(strstr(heard.p, "error"));
    close(fd);
    /* A connection that was idle over the jump is still open, and the server is healthy. */
    atomic_store(offset, row->idle);
    usleep(300000);
    assert_true(server_send(idle, ask, sizeof(ask) - 1));
    server_receive(idle, &held, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    close(idle);
    check_times(&s, log, (double)(dgl_now_ns() - start) * 1e-9);
    /* The idle engine notices signals several times a second. */
    const uint64_t stop = dgl_now_ns();
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    assert_at_most((double)(dgl_now_ns() - stop) * 1e-9, 30);
    server_finish(&s);
    dgl_buf_finish(&heard);
    dgl_buf_finish(&held);
    free(log);
}

int main(int argc, char **argv)
{
    static const char zeros[sizeof(*offset)];
    if (getenv(CLOCK)) {
        map(getenv(CLOCK));
        return self_command_run(argc, argv);
    }
    folder = test_tmpdir();
    test_write_file(folder, "clock", zeros, sizeof(zeros));
    char *path = checked(dgl_path_join(folder, "clock"));
    map(path);
    free(path);
    const int failures = test_run_table("the wall clock jumps", test_jump, jumps);
    test_tmpdir_remove(folder);
    return failures;
}
