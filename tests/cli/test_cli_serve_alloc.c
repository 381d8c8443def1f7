/* Memory exhaustion in `dopplergl serve`: each allocation during a request fails once, alone or
 * with all that follow. The answer must be the one with enough memory, or an error of the server,
 * and the next request must be answered as if nothing had happened. This program is also the
 * server. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/host_memory.h"
#include "tests/support/self_command.h"
#include "tests/support/server.h"
#include "tests/support/test.h"

#define FAILS "DGL_TEST_FAILS" /* file with struct failing, which both processes map */

static struct failing {
    atomic_long made;  /* allocations since the test cleared it */
    atomic_long at;    /* number of the first allocation that fails, from 1 on; 0: none */
    atomic_long count; /* allocations that fail */
} * failing;

/* ---- the server's side ----------------------------------------------------------------------- */

static bool serves;

static bool refuse(void)
{
    if (!serves)
        return false;
    const long number = atomic_fetch_add(&failing->made, 1) + 1, at = atomic_load(&failing->at);
    return at > 0 && number >= at && number < at + atomic_load(&failing->count);
}

#include "tests/support/failing_alloc.h"

char *__real_strndup(const char *text, size_t len);
char *__wrap_strndup(const char *text, size_t len);
char *__wrap_strndup(const char *text, size_t len)
{
    return refuse() ? NULL : __real_strndup(text, len);
}

static void map(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    failing = mmap(NULL, sizeof(*failing), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(failing, MAP_FAILED);
    close(fd);
}

/* ---- the test's side ------------------------------------------------------------------------- */

static char *folder;
static struct server server;

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define HI   "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]"
#define FEW  "\"max_tokens\":6,\"temperature\":0,\"cache_prompt\":false"
#define CALLED                                                                                     \
    "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"          \
    "{\"role\":\"assistant\",\"content\":\"b\",\"tool_calls\":[{\"id\":\"1\",\"function\":{"       \
    "\"name\":\"f\",\"arguments\":\"{\\\"x\\\":[1,2.50]}\"}}]},"                                   \
    "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"c\"}]"
static const struct asked {
    const char *name, *path, *body;
    const char *member; /* of the answer that must be the same */
} asked[] = {
    {"completion", TEXT,
     "{\"prompt\":[\"Once\",\"A dog\"]," FEW ",\"stop\":[\"qq\"],\"logit_bias\":{\" kind\":-1}}",
     "choices"},
    {"completion with probabilities", TEXT, "{\"prompt\":\"Once\",\"logprobs\":2," FEW "}",
     "choices"},
    {"streamed completion", TEXT, "{\"prompt\":\"Once\",\"stream\":true,\"n\":2," FEW "}", NULL},
    {"chat", CHAT, "{" HI "," FEW ",\"unknown\":1}", "choices"},
    {"chat with calls", CHAT, "{" CALLED "," FEW ",\"chat_template_kwargs\":{\"a\":[1]}}",
     "choices"},
    {"continued chat", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":"
     "\"Once\"}]," FEW "}",
     "choices"},
    {"streamed chat", CHAT,
     "{" HI "," FEW ",\"stream\":true,\"logprobs\":true,\"top_logprobs\":1,"
     "\"stream_options\":{\"include_usage\":true}}",
     NULL},
    {"embeddings", "/v1/embeddings", "{\"input\":[\"Once\",\"A dog\"]}", "data"},
    {"embeddings as base64", "/v1/embeddings",
     "{\"input\":[5,6],\"encoding_format\":\"base64\",\"dimensions\":8}", "data"},
    {"tokenize", "/tokenize", "{\"content\":\"Once upon\"}", "tokens"},
    {"detokenize", "/detokenize", "{\"tokens\":[77,811]}", "content"},
    {"models", "/v1/models", NULL, "data"},
    {"metrics", "/metrics", NULL, ""},
    {"nothing", "/nowhere", NULL, "error"},
};

/* Returns the part of an answer that must be the same, or NULL with *why if the answer is neither
 * whole nor an error. An error is "". */
static char *gist(const struct asked *row, struct reply *r, const char **why)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    const bool events = r->head && strstr(r->head, "text/event-stream");
    *why = NULL;
    if (r->status == 0 || (r->status >= 400 && !strstr(r->head, "application/json"))) {
        *why = "it is no answer of the interface";
    } else if (r->status == 500 || r->status == 503) {
        if (!dgl_json_is(dgl_json_get(dgl_json_get(reply_json(r), "error"), "message"),
                         DGL_JSON_STRING))
            *why = "the error has no message";
        dgl_buf_puts(&out, "");
    } else if (row->member && !row->member[0]) {
        dgl_buf_puts(&out, r->len > 1000 ? "much" : "little");
    } else if (row->member) {
        const struct dgl_json *part = dgl_json_get(reply_json(r), row->member);
        dgl_buf_printf(&out, "%d ", r->status);
        if (strcmp(row->member, "error") == 0) /* the rest has the request's id */
            part = dgl_json_get(part, "message");
        if (!part)
            *why = "the answer lacks a member";
        else
            dgl_jw_value(&w, part);
    } else if (!events) {
        *why = "it is no stream";
    } else {
        struct dgl_str rest = {r->body, r->len}, line;
        bool done = false, failed = false;
        while (rest.len && dgl_str_split(&rest, '\n', &line)) {
            struct dgl_json_doc *doc = NULL;
            done |= dgl_str_eq(line, "data: [DONE]");
            if (!dgl_str_starts(line, "data: {"))
                continue;
            if (dgl_json_parse(NULL, "event", line.p + 6, line.len - 6, &doc) != DGL_OK) {
                *why = "an event is no JSON";
                break;
            }
            failed |= dgl_json_get(dgl_json_root(doc), "error") != NULL;
            const struct dgl_json *choices = dgl_json_get(dgl_json_root(doc), "choices");
            dgl_jw_value(&w, choices ? choices : dgl_json_root(doc));
            w.need_comma[0] = false;
            dgl_json_destroy(&doc);
        }
        if (failed) { /* the start of the answer, then an error */
            dgl_buf_finish(&out);
            dgl_buf_puts(&out, "");
        } else if (!done) {
            *why = "the stream has neither an end nor an error";
        }
    }
    dgl_buf_append(&out, "", 0);
    return checked(dgl_buf_take(&out));
}

static void ask(const struct asked *row, struct reply *r)
{
    const char *key = "Authorization: Bearer word\r\n";
    if (row->body)
        server_call(&server, "POST", row->path, key, row->body, r);
    else
        server_call(&server, "GET", row->path, key, NULL, r);
}

/* Waits until the engine has dropped the request. Reads the server's output, because a full pipe
 * would stop it. */
static void settle(void)
{
    struct pollfd said = {.fd = server.err, .events = POLLIN};
    char bytes[4096];
    ssize_t got = 1;
    while (got > 0 && poll(&said, 1, 0) > 0) {
        got = read(server.err, bytes, sizeof(bytes));
        if (server.said.len > 65536)
            server.said.len = 0;
        dgl_buf_append(&server.said, bytes, got > 0 ? (size_t)got : 0);
    }
    for (int i = 0; i < 5000 && waitpid(server.pid, NULL, WNOHANG) == 0; i++) {
        const long before = atomic_load(&failing->made);
        usleep(2000);
        if (atomic_load(&failing->made) == before)
            return;
    }
}

static void start(void)
{
    char setting[512], keys[512];
    snprintf(setting, sizeof(setting), FAILS "=%s/fails", folder);
    snprintf(keys, sizeof(keys), "%s/keys", folder);
    const char *const env[] = {setting, NULL};
    atomic_store(&failing->at, 0);
    server_start_with(
        &server, &(const struct server_params){
                     .args = (const char *const[]){"-c", "256", "--parallel", "2", "--template",
                                                   "tests/data/templates/tools.jinja",
                                                   "--api-key-file", keys, NULL},
                     .program = self_command_program(),
                     .env = env});
}

static void test_asked(void **state)
{
    const struct asked *row = *state;
    enum { SAMPLE = 12 };
    struct reply r;
    const char *why;
    uint64_t seed = 0;
    long refused = 0;
    for (int i = 0; i < 2; i++) { /* the first one compiles and makes sessions */
        settle();
        atomic_store(&failing->at, 0);
        atomic_store(&failing->made, 0);
        ask(row, &r);
        settle();
        if (i == 0)
            reply_finish(&r);
    }
    const long total = atomic_load(&failing->made);
    char *whole = gist(row, &r, &why);
    if (why || !whole[0])
        fail_msg("%s: status %d: %s", row->name, r.status, r.body);
    reply_finish(&r);
    const bool sampled = test_is_sample(&seed);
    const long runs = sampled && total > SAMPLE ? SAMPLE : total;
    for (long i = 0; i < runs; i++) {
        const long at = runs < total ? (long)(1 + test_rand(&seed) % (uint64_t)total) : 1 + i;
        for (int again = 0; again < 3; again++) {
            settle();
            atomic_store(&failing->count, again ? LONG_MAX / 2 : 1);
            atomic_store(&failing->made, 0);
            atomic_store(&failing->at, again == 2 ? 0 : at);
            ask(row, &r);
            char *got = gist(row, &r, &why);
            if (r.status == 0) { /* the server may have ended */
                usleep(1000000);
                settle();
                fprintf(stderr, "the server said %s\n", server.said.p ? server.said.p : "");
            }
            if (why || (again == 2 || got[0] ? strcmp(got, whole) != 0 : false))
                fail_msg("%s%s without allocation %ld of %ld: %s: status %d: %s\nwanted %s",
                         row->name,
                         again == 2   ? " after a request"
                         : again == 1 ? " and later ones"
                                      : "",
                         at, total, why ? why : "it is another answer", r.status,
                         r.body ? r.body : "", whole);
            refused += again < 2 && !got[0];
            free(got);
            reply_finish(&r);
        }
    }
    printf("# %s: %ld of %ld allocations, %ld refusals\n", row->name, runs, total, refused);
    free(whole);
}

static int set_up(void **state)
{
    static const char zeros[sizeof(struct failing)];
    (void)state;
    folder = test_tmpdir();
    test_write_file(folder, "fails", zeros, sizeof(zeros));
    test_write_file(folder, "keys", "word\nother\n", 11);
    char *path = checked(dgl_path_join(folder, "fails"));
    map(path);
    free(path);
    start();
    return 0;
}

int main(int argc, char **argv)
{
    if (getenv(FAILS)) {
        map(getenv(FAILS));
        serves = true;
        return self_command_run(argc, argv);
    }
    set_up(NULL);
    const int failures = test_run_table("allocations of a request", test_asked, asked);
    atomic_store(&failing->at, 0);
    server_end(&server);
    test_tmpdir_remove(folder);
    return failures;
}
