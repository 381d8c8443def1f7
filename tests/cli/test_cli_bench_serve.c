/* bench serve with a fake server whose answers are known: its requests, its counts, lower bounds of
 * its times, and all kinds of failures. A slow server gets the same number of requests. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"

/* ---- a server -------------------------------------------------------------------------------- */

#define MOST_SEEN   512
#define PROBES      2 /* requests before the load */
#define WORD_TOKENS 2 /* tokens of a word, and beside the words */
#define EXTRA       5

/* Behaviour of the fake server. */
struct script {
    const char *models; /* body of /v1/models; NULL = "fake" */
    int models_status;  /* 0 = 200 */
    int first_ms, gap_ms;
    int per_event; /* tokens in an event; 0 = 1 */
    bool no_usage, no_text;
    /* every `every`th request fails, from the load's first one on; 0 = no failure */
    int every;
    int status;       /* of these instead of 200 */
    const char *body; /* instead of an answer; status 200: the stream */
};

/* A requested completion. */
struct seen {
    int64_t max_tokens;
    int words;
    bool chat, key, stream, usage, ignore_eos, greedy;
    char model[32];
    uint64_t hash; /* of the prompt */
};

static struct {
    int fd, port;
    pthread_t thread;
    pthread_mutex_t lock;
    struct script script;
    struct seen seen[MOST_SEEN];
    size_t count;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* False: the client has gone. */
static bool put(int fd, const char *text)
{
    for (size_t len = strlen(text); len > 0;) {
        const ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        text += sent;
        len -= (size_t)sent;
    }
    return true;
}

static void wait_ms(int ms)
{
    if (ms > 0)
        usleep((useconds_t)ms * 1000u);
}

static void look_at(const char *head, const char *body, struct seen *s)
{
    struct dgl_json_doc *doc = NULL;
    if (dgl_json_parse(NULL, "body", body, strlen(body), &doc) != DGL_OK)
        return;
    const struct dgl_json *root = dgl_json_root(doc);
    const struct dgl_json *messages = dgl_json_get(root, "messages");
    const struct dgl_json *options = dgl_json_get(root, "stream_options");
    struct dgl_str prompt = messages
                                ? dgl_json_str(dgl_json_get(dgl_json_at(messages, 0), "content"))
                                : dgl_json_str(dgl_json_get(root, "prompt"));
    s->chat = messages != NULL;
    s->words = prompt.len > 0;
    s->hash = 14695981039346656037u;
    for (size_t i = 0; i < prompt.len; i++) {
        s->words += prompt.p[i] == ' ';
        s->hash = (s->hash ^ (unsigned char)prompt.p[i]) * 1099511628211u;
    }
    dgl_json_i64(dgl_json_get(root, "max_tokens"), &s->max_tokens);
    s->key = strstr(head, "Authorization: Bearer secret\r\n") != NULL;
    s->stream = dgl_json_bool(dgl_json_get(root, "stream"));
    s->usage = dgl_json_bool(dgl_json_get(options, "include_usage"));
    s->ignore_eos = dgl_json_bool(dgl_json_get(root, "ignore_eos"));
    s->greedy = dgl_json_is(dgl_json_get(root, "temperature"), DGL_JSON_NUMBER) &&
                dgl_json_f64(dgl_json_get(root, "temperature")) <= 0;
    snprintf(s->model, sizeof(s->model), "%s", dgl_json_str(dgl_json_get(root, "model")).p);
    dgl_json_destroy(&doc);
}

static void answer(int fd, const struct script *script, const struct seen *s)
{
    const int64_t each = script->per_event ? script->per_event : 1;
    char text[256];
    put(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    if (s->chat) /* no token yet */
        put(fd, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n");
    wait_ms(script->first_ms);
    for (int64_t token = 0; token < s->max_tokens && !script->no_text; token += each) {
        if (token > 0)
            wait_ms(script->gap_ms);
        if (!put(fd, s->chat ? "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n"
                             : "data: {\"choices\":[{\"text\":\"a\",\"index\":0}]}\n\n: so\n\n"))
            return;
    }
    put(fd, "data: {\"choices\":[{\"text\":\"\",\"delta\":{},\"finish_reason\":\"length\"}]}\n\n");
    snprintf(text, sizeof(text),
             "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n",
             s->words * WORD_TOKENS + EXTRA, (int)s->max_tokens);
    if (!script->no_usage)
        put(fd, text);
    put(fd, "data: [DONE]\n\n");
}

static void *serve_one(void *priv)
{
    const int fd = (int)(intptr_t)priv;
    char text[32768];
    size_t len = 0;
    char *body = NULL;
    struct script script;
    size_t number = 0;
    for (;;) {
        const ssize_t got = recv(fd, text + len, sizeof(text) - 1 - len, 0);
        if (got <= 0)
            goto done;
        len += (size_t)got;
        text[len] = '\0';
        const char *length = strstr(text, "Content-Length: ");
        body = strstr(text, "\r\n\r\n");
        if (body && (!length || strlen(body + 4) >= strtoul(length + 16, NULL, 10)))
            break;
    }
    body += 4;
    pthread_mutex_lock(&fake.lock);
    script = fake.script;
    pthread_mutex_unlock(&fake.lock);
    if (strncmp(text, "GET /v1/models ", 15) == 0) {
        const char *models = script.models ? script.models : "{\"data\":[{\"id\":\"fake\"}]}";
        char head[128];
        snprintf(head, sizeof(head), "HTTP/1.1 %d Said\r\nContent-Length: %zu\r\n\r\n",
                 script.models_status ? script.models_status : 200, strlen(models));
        put(fd, head);
        put(fd, models);
        goto done;
    }
    struct seen seen = {.words = 0};
    look_at(text, body, &seen);
    pthread_mutex_lock(&fake.lock);
    number = fake.count;
    if (fake.count < MOST_SEEN)
        fake.seen[fake.count++] = seen;
    pthread_mutex_unlock(&fake.lock);
    const bool odd =
        script.every && number >= PROBES && (number - PROBES) % (size_t)script.every == 0;
    if (odd && script.status && script.status != 200) {
        char head[128];
        snprintf(head, sizeof(head), "HTTP/1.1 %d Said\r\nContent-Length: %zu\r\n\r\n",
                 script.status, strlen(script.body));
        put(fd, head);
        put(fd, script.body);
    } else if (odd) {
        put(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
        put(fd, script.body);
    } else {
        answer(fd, &script, &seen);
    }
done:
    shutdown(fd, SHUT_WR);
    /* reads the request first: otherwise a reset could drop the answer */
    while (recv(fd, text, sizeof(text), 0) > 0)
        continue;
    close(fd);
    return NULL;
}

static void *serve_all(void *priv)
{
    (void)priv;
    for (;;) {
        pthread_t thread;
        const int fd = accept(fake.fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
        else
            close(fd);
    }
}

static int open_fake(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    (void)state;
    fake.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake.fd, 256), 0);
    assert_int_equal(getsockname(fake.fd, (struct sockaddr *)&address, &len), 0);
    fake.port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&fake.thread, NULL, serve_all, NULL), 0);
    return 0;
}

static int close_fake(void **state)
{
    (void)state;
    shutdown(fake.fd, SHUT_RDWR);
    pthread_join(fake.thread, NULL);
    close(fake.fd);
    return 0;
}

static void follow(const struct script *script)
{
    pthread_mutex_lock(&fake.lock);
    fake.script = *script;
    fake.count = 0;
    pthread_mutex_unlock(&fake.lock);
}

/* ---- runs ------------------------------------------------------------------------------------ */

#define MAX_ARGS 24

/* `bench serve` with these arguments, ended by NULL, on the server as it follows `script`. */
static void run(struct process_result *r, const struct script *script, const char *const *args)
{
    static const char *const env[] = {"DOPPLERGL_API_KEY=secret", NULL};
    const char *argv[MAX_ARGS] = {"bench", "serve"};
    char url[64];
    size_t count = 3;
    follow(script);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", fake.port);
    argv[2] = url;
    for (; *args; args++) {
        assert_true(count + 1 < MAX_ARGS);
        argv[count++] = *args;
    }
    process_run(&(struct process_params){.args = argv, .env = env}, r);
}

static double number(const struct dgl_json *object, const char *key)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    if (!dgl_json_is(value, DGL_JSON_NUMBER))
        fail_msg("%s is not a number", key);
    return dgl_json_f64(value);
}

/* mean, p50, p90, p99 and max of a list of times, in order. */
static void assert_quantiles(const struct dgl_json *root, const char *key)
{
    const struct dgl_json *q = dgl_json_get(root, key);
    assert_true(number(q, "p50") <= number(q, "p90"));
    assert_true(number(q, "p90") <= number(q, "p99"));
    assert_true(number(q, "p99") <= number(q, "max"));
    assert_true(number(q, "mean") <= number(q, "max"));
}

struct load_case {
    const char *name;
    struct script script;
    const char *args[12];
    int prompt, answer; /* tokens of each, by the server; 0 = they differ */
    int words;          /* of each prompt; 0 = they differ */
    double good;        /* share of all; -1 = any */
};

static const struct load_case loads[] = {
    {"answers of known times",
     {.first_ms = 60, .gap_ms = 20},
     {"--rate", "60", "--duration", "0.3", "--prompt-lengths", "25", "--answer-lengths", "4",
      "--slo-ttft", "1e6", "--slo-itl", "1e6"},
     25,
     4,
     10,
     1},
    {"none is fast enough to begin with",
     {.first_ms = 30},
     {"--rate", "60", "--duration", "0.3", "--answer-lengths", "2", "--slo-ttft", "25"},
     0,
     2,
     0,
     0},
    {"some go on fast enough, perhaps",
     {.gap_ms = 30},
     {"--rate", "60", "--duration", "0.3", "--answer-lengths", "3", "--slo-ttft", "1e6",
      "--slo-itl", "25"},
     0,
     3,
     0,
     -1},
    {"chat",
     {.first_ms = 40, .gap_ms = 5},
     {"--rate", "60", "--duration", "0.3", "--chat", "--prompt-lengths", "45", "--answer-lengths",
      "3"},
     45,
     3,
     20,
     -1},
    {"four tokens in an event",
     {.per_event = 4, .gap_ms = 40},
     {"--rate", "60", "--duration", "0.3", "--answer-lengths", "12"},
     0,
     12,
     0,
     -1},
    {"tokens without text",
     {.first_ms = 50, .no_text = true},
     {"--rate", "60", "--duration", "0.3", "--answer-lengths", "2"},
     0,
     2,
     0,
     -1},
    {"a prompt shorter than a word",
     {.first_ms = 0},
     {"--rate", "60", "--duration", "0.3", "--prompt-lengths", "1", "--answer-lengths", "1"},
     7,
     1,
     1,
     -1},
    {"the model says when to end",
     {.first_ms = 0},
     {"--rate", "60", "--duration", "0.3", "--answer-lengths", "2", "--no-ignore-eos"},
     0,
     2,
     0,
     -1},
};

/* The first and the last token are never earlier than the server sent them. The good answers follow
 * from these times. The time between two tokens has no lower bound: the first may be read late. */
static void assert_times(const struct load_case *row, const struct dgl_json *root)
{
    const struct script *s = &row->script;
    const int each = s->per_event ? s->per_event : 1;
    const double gaps_ms = s->no_text ? 0 : (double)((row->answer - 1) / each) * s->gap_ms;
    const struct dgl_json *ttft = dgl_json_first(dgl_json_get(root, "ttft_ms_all"));
    const struct dgl_json *tpot = dgl_json_first(dgl_json_get(root, "tpot_ms_all"));
    int good = 0;
    for (; ttft && tpot; ttft = dgl_json_next(ttft), tpot = dgl_json_next(tpot)) {
        const double first = dgl_json_f64(ttft), next = dgl_json_f64(tpot);
        const double last = first + next * (row->answer - 1);
        if (first < s->first_ms || last < s->first_ms + gaps_ms - 0.1)
            fail_msg("first token after %f ms, %d at least; last after %f, %f at least", first,
                     s->first_ms, last, s->first_ms + gaps_ms);
        good += first <= number(root, "slo_ttft_ms") && next <= number(root, "slo_itl_ms");
    }
    assert_null(ttft);
    assert_null(tpot);
    assert_near(number(root, "good"), good, 0);
}

static void test_load(void **state)
{
    const struct load_case *row = *state;
    const char *args[MAX_ARGS] = {"--json"};
    struct process_result r;
    bool chat = false, eos = false;
    for (size_t i = 0; i < 12 && row->args[i]; i++) {
        args[i + 1] = row->args[i];
        chat |= strcmp(row->args[i], "--chat") == 0;
        eos |= strcmp(row->args[i], "--no-ignore-eos") == 0;
    }
    run(&r, &row->script, args);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    const double count = number(root, "requests");
    assert_string_equal(dgl_json_str(dgl_json_get(root, "suite")).p, "serve");
    assert_string_equal(dgl_json_str(dgl_json_get(root, "model")).p, "fake");
    assert_true(count > 1);
    assert_near(number(root, "finished"), count, 0);
    assert_near(number(root, "failed"), 0, 0);
    assert_int_equal(fake.count, (size_t)count + PROBES);
    for (size_t i = PROBES; i < fake.count; i++) {
        const struct seen *s = &fake.seen[i];
        assert_true(s->key && s->stream && s->usage && s->greedy);
        assert_int_equal(s->ignore_eos, !eos);
        assert_int_equal(s->chat, chat);
        assert_string_equal(s->model, "fake");
        if (row->words)
            assert_int_equal(s->words, row->words);
        if (row->answer)
            assert_int_equal(s->max_tokens, row->answer);
    }
    if (row->answer)
        assert_near(number(root, "answer_tokens"), count * row->answer, 0);
    if (row->prompt)
        assert_near(number(root, "prompt_tokens"), count * row->prompt, 0);
    assert_quantiles(root, "ttft_ms");
    if (row->answer > 1) {
        assert_quantiles(root, "tpot_ms");
        assert_times(row, root);
    }
    /* Answers are of one length: shares of events are shares of tokens. */
    if (row->answer > 1 && !row->script.no_text) {
        assert_quantiles(root, "itl_ms");
        assert_near(number(dgl_json_get(root, "itl_ms"), "mean"),
                    number(dgl_json_get(root, "tpot_ms"), "mean"), 0.01);
    }
    assert_int_equal(dgl_json_count(dgl_json_get(root, "ttft_ms_all")), (size_t)count);
    if (row->good >= 0)
        assert_near(number(root, "good_share"), row->good, 0);
    assert_near(number(root, "goodput") * number(root, "seconds"), number(root, "good"),
                0.01 * count);
    process_finish(&r);
}

/* ---- failures -------------------------------------------------------------------------------- */

struct failure_case {
    const char *name;
    struct script script;
    const char *what; /* failures[0], or NULL: an error line has `error`, and the output is empty */
    const char *error;
};

static const struct failure_case failures[] = {
    {"a full server",
     {.every = 2, .status = 503, .body = "{\"error\":{\"message\":\"the queue is full\"}}"},
     "HTTP 503: the queue is full",
     NULL},
    {"a refusal that is no JSON", {.every = 2, .status = 502, .body = "<html>"}, "HTTP 502", NULL},
    {"a stream that ends early",
     {.every = 2, .body = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"},
     "the stream ended early",
     NULL},
    {"a stream of nothing",
     {.every = 2, .body = "data: [DONE]\n\n"},
     "the stream ended early",
     NULL},
    {"an error in the stream",
     {.every = 2, .body = "data: {\"error\":{\"message\":\"out of luck\"}}\n\ndata: [DONE]\n\n"},
     "an error in the stream: out of luck",
     NULL},
    {"an event that is no JSON", {.every = 2, .body = "data: {\"choices\n\n"}, "no JSON", NULL},
    {"nobody gets an answer",
     {.every = 1, .status = 503, .body = "{\"error\":{\"message\":\"full\"}}"},
     "HTTP 503: full",
     "no request came to its end"},
    {"the key is wrong", {.models_status = 401, .models = "{}"}, NULL, "DOPPLERGL_API_KEY"},
    {"the server is not ready",
     {.models_status = 503, .models = "{\"error\":{\"message\":\"loading\"}}"},
     NULL,
     "HTTP 503: loading"},
};

static void test_failure(void **state)
{
    static const char *const args[] = {"--rate",           "60", "--duration", "0.3",
                                       "--answer-lengths", "2",  "--json",     NULL};
    const struct failure_case *row = *state;
    struct process_result r;
    run(&r, &row->script, args);
    assert_code(&r, row->error ? 1 : 0);
    if (row->error)
        assert_one_error(&r, row->error);
    else
        assert_no_error(&r);
    if (!row->what) {
        assert_int_equal(r.out_len, 0);
        assert_int_equal(fake.count, 0);
    } else {
        const struct dgl_json *root = process_json(&r);
        const struct dgl_json *first = dgl_json_at(dgl_json_get(root, "failures"), 0);
        const double count = number(root, "requests"), every = row->script.every;
        const double failed = every > 1 ? (double)(((int)count + 1) / 2) : count;
        assert_contains(dgl_json_str(dgl_json_get(first, "what")).p, row->what);
        assert_near(number(root, "failed"), failed, 0);
        assert_near(number(first, "count"), failed, 0);
        assert_near(number(root, "finished") + number(root, "failed"), count, 0);
        assert_true(number(root, "good") <= count - failed);
    }
    process_finish(&r);
}

/* ---- single promises ------------------------------------------------------------------------- */

/* One connection, and answers of 50 ms: all requests are sent, and the last one has waited for all
 * others. */
static void a_slow_server_gets_no_fewer_requests(void **state)
{
    static const char *const args[] = {"--rate",           "40", "--duration",    "1",
                                       "--answer-lengths", "1",  "--connections", "1",
                                       "--json",           NULL};
    const struct script quick = {.first_ms = 0}, slow = {.first_ms = 50};
    struct process_result r;
    (void)state;
    run(&r, &quick, args);
    assert_code(&r, 0);
    const double wanted = number(process_json(&r), "requests");
    process_finish(&r);
    run(&r, &slow, args);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r), *ttft = dgl_json_get(root, "ttft_ms");
    assert_near(number(root, "requests"), wanted, 0);
    assert_true(wanted > 20);
    assert_true(number(ttft, "max") >= wanted * 50 - 1000);
    assert_true(number(dgl_json_get(root, "late_ms"), "max") >= (wanted - 1) * 50 - 1000);
    process_finish(&r);
}

/* Uses one connection, so that requests arrive in order. */
static void a_seed_decides_what_is_asked(void **state)
{
    static const char *const same[] = {"--rate",           "90",      "--duration",       "0.3",
                                       "--connections",    "1",       "--prompt-lengths", "25-65",
                                       "--answer-lengths", "log:1-8", "--json",           NULL};
    static const char *const other[] = {"--rate",           "90",      "--duration",       "0.3",
                                        "--connections",    "1",       "--prompt-lengths", "25-65",
                                        "--answer-lengths", "log:1-8", "--seed",           "7",
                                        "--json",           NULL};
    static struct seen before[MOST_SEEN];
    const struct script script = {.first_ms = 0};
    struct process_result r;
    int shortest = 99, longest = 0, equal = 0;
    (void)state;
    run(&r, &script, same);
    assert_code(&r, 0);
    process_finish(&r);
    const size_t count = fake.count;
    memcpy(before, fake.seen, sizeof(before));
    run(&r, &script, same);
    assert_code(&r, 0);
    process_finish(&r);
    assert_int_equal(fake.count, count);
    for (size_t i = PROBES; i < count; i++) {
        const struct seen *s = &fake.seen[i];
        assert_int_equal(s->hash, before[i].hash);
        assert_int_equal(s->max_tokens, before[i].max_tokens);
        assert_in_range(s->max_tokens, 1, 8);
        assert_in_range(s->words, 10, 30); /* (tokens - EXTRA) / WORD_TOKENS */
        shortest = s->words < shortest ? s->words : shortest;
        longest = s->words > longest ? s->words : longest;
    }
    assert_true(shortest < longest);
    run(&r, &script, other);
    assert_code(&r, 0);
    process_finish(&r);
    for (size_t i = PROBES; i < fake.count && i < count; i++)
        equal += fake.seen[i].hash == before[i].hash;
    assert_int_equal(equal, 0);
}

static void without_usage_words_are_tokens(void **state)
{
    static const char *const args[] = {"--rate",           "60", "--duration",       "0.3",
                                       "--prompt-lengths", "9",  "--answer-lengths", "3",
                                       "--json",           NULL};
    const struct script script = {.no_usage = true};
    struct process_result r;
    (void)state;
    run(&r, &script, args);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_contains(r.err, "no usage");
    assert_false(dgl_json_bool(dgl_json_get(root, "tokens_by_server")));
    assert_near(number(root, "prompt_tokens"), 9 * number(root, "requests"), 0);
    assert_near(number(root, "answer_tokens"), 3 * number(root, "requests"), 0);
    assert_int_equal(fake.seen[PROBES].words, 9);
    process_finish(&r);
}

/* If the server has no list of models, requests name no model, or the model of -m. */
static void models_may_be_missing(void **state)
{
    static const char *const unnamed[] = {"--rate", "60", "--duration", "0.3", NULL};
    static const char *const named[] = {"--rate", "60", "--duration", "0.3", "-m", "mine", NULL};
    const struct script script = {.models_status = 404, .models = ""};
    struct process_result r;
    (void)state;
    run(&r, &script, unnamed);
    assert_code(&r, 0);
    assert_string_equal(fake.seen[PROBES].model, "");
    assert_contains(r.out, "goodput: ");
    process_finish(&r);
    run(&r, &script, named);
    assert_code(&r, 0);
    assert_string_equal(fake.seen[PROBES].model, "mine");
    process_finish(&r);
}

static void the_figure_has_three_panels(void **state)
{
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "load.svg"), *text = NULL;
    const char *const args[] = {"--rate", "60", "--duration", "0.3", "--plot", checked(file), NULL};
    const struct script script = {.first_ms = 5, .gap_ms = 1};
    struct process_result r;
    size_t len;
    (void)state;
    run(&r, &script, args);
    assert_code(&r, 0);
    process_finish(&r);
    assert_int_equal(dgl_file_slurp(NULL, file, 1 << 20, &text, &len), DGL_OK);
    assert_contains(text, "</svg>");
    assert_in_range(test_occurrences(text, "<polyline"), 3, 5); /* with lines of the limits */
    free(text);
    free(file);
    test_tmpdir_remove(dir);
}

static void nobody_listens(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", "serve", "http://127.0.0.1:1", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "127.0.0.1");
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_server_gets_no_fewer_requests),
        cmocka_unit_test(a_seed_decides_what_is_asked),
        cmocka_unit_test(without_usage_words_are_tokens),
        cmocka_unit_test(models_may_be_missing),
        cmocka_unit_test(the_figure_has_three_panels),
        cmocka_unit_test(nobody_listens),
    };
    open_fake(NULL);
    int failed = test_run_table("loads", test_load, loads);
    failed += test_run_table("failures", test_failure, failures);
    failed += cmocka_run_group_tests_name("bench serve", tests, NULL, NULL);
    close_fake(NULL);
    return failed;
}
