/* `dopplergl serve` with a model whose answers the test chooses, an engine that stops, or a device
 * that is lost: tool calls and reasoning, whole and streamed, comments in silent streams,
 * embeddings between steps, /health during a rebuild. This program is also the server. */
#include "tests/support/gl_fail.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/dopplergl.h"
#include "tests/support/process.h"
#include "tests/support/self_command.h"
#include "tests/support/server.h"
#include "tests/support/test.h"
#include "tools/cli/console.h"

#define SERVES "DGL_TEST_SERVES"
/* A file. While it exists, the engine does not compute. With ".lose", the next chat loses the
 * device, with ".lose-input" the second pass of embeddings. */
#define HELD "DGL_TEST_HELD"
#define CHAT "/v1/chat/completions"

/* ---- the server's side ----------------------------------------------------------------------- */

/* The last word of the prompt, and the answer to it. */
struct script {
    const char *word, *text;
};
static const struct script scripts[] = {
    {"two calls",
     "<think>hm</think>I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
     "\"Rome\"}}\n</tool_call>\n<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>"},
    {"no call", "<tool_call>{\"name\": </tool_call> It rains."},
    {"empty", ""},
    {"begun", " hm</think>\nYes."},
    {"echo", NULL}, /* the end of the prompt */
};

#define MAX_ACTORS 16
static struct actor {
    struct dgl_reply *reply;
    char *text;
    size_t at;
} actors[MAX_ACTORS];

static struct actor *actor_of(const struct dgl_reply *reply)
{
    for (int i = 0; i < MAX_ACTORS; i++)
        if (actors[i].reply == reply)
            return &actors[i];
    return NULL;
}

static bool gone_for_good;

enum dgl_status __real_dgl_reply_create(const struct dgl_log *log,
                                        const struct dgl_reply_params *params,
                                        struct dgl_reply **out);
enum dgl_status __wrap_dgl_reply_create(const struct dgl_log *log,
                                        const struct dgl_reply_params *params,
                                        struct dgl_reply **out);
enum dgl_status __wrap_dgl_reply_create(const struct dgl_log *log,
                                        const struct dgl_reply_params *params,
                                        struct dgl_reply **out)
{
    enum dgl_status status = __real_dgl_reply_create(log, params, out);
    const char *prompt = params->prompt_end;
    char lose[4096];
    gone_for_good = strstr(prompt, "gone") != NULL;
    snprintf(lose, sizeof(lose), "%s.lose", getenv(HELD));
    if (gone_for_good || unlink(lose) == 0)
        gl_fail.submits = 6;
    for (size_t i = 0; status == DGL_OK && i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (strstr(prompt, scripts[i].word)) {
            struct actor *actor = actor_of(NULL);
            actor->reply = *out;
            actor->text = strdup(scripts[i].text ? scripts[i].text : prompt);
            actor->at = 0;
            break;
        }
    return status;
}

enum dgl_status __real_dgl_reply_push(struct dgl_reply *reply, const char *text, size_t len);
enum dgl_status __wrap_dgl_reply_push(struct dgl_reply *reply, const char *text, size_t len);
enum dgl_status __wrap_dgl_reply_push(struct dgl_reply *reply, const char *text, size_t len)
{
    struct actor *actor = actor_of(reply);
    if (!actor)
        return __real_dgl_reply_push(reply, text, len);
    const size_t left = strlen(actor->text + actor->at), n = left < 7 ? left : 7;
    actor->at += n;
    return __real_dgl_reply_push(reply, actor->text + actor->at - n, n);
}

enum dgl_status __real_dgl_reply_end(struct dgl_reply *reply);
enum dgl_status __wrap_dgl_reply_end(struct dgl_reply *reply);
enum dgl_status __wrap_dgl_reply_end(struct dgl_reply *reply)
{
    struct actor *actor = actor_of(reply);
    enum dgl_status status = DGL_OK;
    while (actor && actor->text[actor->at] && status == DGL_OK)
        status = __wrap_dgl_reply_push(reply, "", 0);
    return status == DGL_OK ? __real_dgl_reply_end(reply) : status;
}

void __real_dgl_reply_destroy(struct dgl_reply **reply);
void __wrap_dgl_reply_destroy(struct dgl_reply **reply);
void __wrap_dgl_reply_destroy(struct dgl_reply **reply)
{
    struct actor *actor = *reply ? actor_of(*reply) : NULL;
    if (actor) {
        free(actor->text);
        *actor = (struct actor){0};
    }
    __real_dgl_reply_destroy(reply);
}

/* Passes of embeddings since the last step of the batch. */
static int passes;

enum dgl_status __real_dgl_batch_step(struct dgl_batch *batch, size_t *left);
enum dgl_status __wrap_dgl_batch_step(struct dgl_batch *batch, size_t *left);
enum dgl_status __wrap_dgl_batch_step(struct dgl_batch *batch, size_t *left)
{
    struct dgl_batch_info info = {.size = sizeof(info)};
    const char *held = getenv(HELD);
    char stuck[4096];
    passes = 0;
    snprintf(stuck, sizeof(stuck), "%s.stuck", held ? held : "");
    if (access(stuck, F_OK) == 0)
        console_say("is stuck");
    while (access(stuck, F_OK) == 0)
        usleep(10000);
    if (!held || access(held, F_OK) != 0)
        return __real_dgl_batch_step(batch, left);
    usleep(10000);
    dgl_batch_get_info(batch, &info);
    *left = info.running + info.waiting;
    return DGL_OK;
}

enum dgl_status __real_dgl_session_eval(struct dgl_session *session,
                                        const struct dgl_eval_params *params, float *logits,
                                        float *hidden);
enum dgl_status __wrap_dgl_session_eval(struct dgl_session *session,
                                        const struct dgl_eval_params *params, float *logits,
                                        float *hidden);
enum dgl_status __wrap_dgl_session_eval(struct dgl_session *session,
                                        const struct dgl_eval_params *params, float *logits,
                                        float *hidden)
{
    struct dgl_pass_info info = {.size = sizeof(info)};
    dgl_session_passes(session, &info);
    if (++passes > 1 || params->num_ids > (size_t)info.most)
        console_error("a request for embeddings holds up the others");
    static int inputs;
    char lose[4096];
    snprintf(lose, sizeof(lose), "%s.lose-input", getenv(HELD));
    inputs = access(lose, F_OK) == 0 ? inputs + 1 : 0;
    if (inputs == 2 && unlink(lose) == 0)
        gl_fail.submits = 0;
    return __real_dgl_session_eval(session, params, logits, hidden);
}

/* Encoding a large text is slow. */
enum dgl_status __real_dgl_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                  const char *text, size_t len,
                                  const struct dgl_encode_params *params, int32_t **ids,
                                  size_t *count);
enum dgl_status __wrap_dgl_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                  const char *text, size_t len,
                                  const struct dgl_encode_params *params, int32_t **ids,
                                  size_t *count);
enum dgl_status __wrap_dgl_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                  const char *text, size_t len,
                                  const struct dgl_encode_params *params, int32_t **ids,
                                  size_t *count)
{
    const char *held = getenv(HELD);
    while (len > 100000 && held && access(held, F_OK) == 0)
        usleep(10000);
    return __real_dgl_encode(log, tok, text, len, params, ids, count);
}

/* The port that this process listens on. */
static int own_port(void)
{
    struct sockaddr_in address;
    for (int fd = 3; fd < 1024; fd++) {
        int listens = 0;
        socklen_t size = sizeof(listens), len = sizeof(address);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&address, &len) == 0)
            return ntohs(address.sin_port);
    }
    return 0;
}

enum dgl_status __real_dgl_model_rebuild(struct dgl_model *model,
                                         const struct dgl_rebuild_params *params);
enum dgl_status __wrap_dgl_model_rebuild(struct dgl_model *model,
                                         const struct dgl_rebuild_params *params);
enum dgl_status __wrap_dgl_model_rebuild(struct dgl_model *model,
                                         const struct dgl_rebuild_params *params)
{
    const struct server self_as_server = {.port = own_port()};
    struct reply r;
    server_call(&self_as_server, "GET", "/health", "", NULL, &r);
    console_say("in the rebuild: %d %s", r.status, r.body);
    reply_finish(&r);
    return gone_for_good ? DGL_ERR_DEVICE_LOST : __real_dgl_model_rebuild(model, params);
}

/* ---- the test's side ------------------------------------------------------------------------- */

static char folder[256], held_setting[512];
static struct server server;

#define TEMPLATE                                                                                   \
    "{# <tool_call> <think> #}{% if messages[0].content == 'raise' %}"                             \
    "{{ raise_exception('roles must alternate') }}{% endif %}{% if reasoning_effort %}"            \
    "{{ raise_exception('effort ' ~ reasoning_effort ~ ' ' ~ enable_thinking) }}{% endif %}"       \
    "{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments.city }} "   \
    "{% endif %}{{ m.content }}{% if m.tool_call_id %} {{ m.tool_call_id }}{% endif %}{% endfor "  \
    "%}{% if tools %} +{{ tools | length }}{% endif %}"

static void start(struct server *s, const char *const *more)
{
    char path[512];
    const char *args[16] = {"-c", "256", "--parallel", "2", "--template", path};
    const char *const env[] = {SERVES "=1", held_setting, NULL};
    snprintf(path, sizeof(path), "%s/t.jinja", folder);
    for (size_t i = 0; more && more[i]; i++)
        args[6 + i] = more[i];
    server_start_with(s, &(const struct server_params){
                             .args = args, .program = self_command_program(), .env = env});
}

#define TOOLS                                                                                      \
    ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\"}},"                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"time\"}}]"

struct said {
    const char *name, *fields, *word;
    const char *content, *reasoning, *calls; /* calls: NAME ARGUMENTS; may be NULL */
    const char *finish;
};
static const struct said sayings[] = {
    {"calls", TOOLS, "two calls", "I look.", "hm", "weather {\"city\": \"Rome\"};time {};",
     "tool_calls"},
    {"one at a time", TOOLS ",\"parallel_tool_calls\":false", "two calls", "I look.", "hm",
     "weather {\"city\": \"Rome\"};", "tool_calls"},
    {"calls with probabilities", TOOLS ",\"logprobs\":true", "two calls", "I look.", "hm",
     "weather {\"city\": \"Rome\"};time {};", "tool_calls"},
    {"no tools", "", "no call", "<tool_call>{\"name\": </tool_call> It rains.", NULL, NULL, "stop"},
    {"what is no call", TOOLS, "no call", "<tool_call>{\"name\": </tool_call> It rains.", NULL,
     NULL, "stop"},
    {"no tool may be called", TOOLS ",\"tool_choice\":\"none\"", "two calls",
     "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n"
     "</tool_call>\n<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>",
     "hm", NULL, "stop"},
    {"reasoning as content", ",\"reasoning_format\":\"none\"", "two calls",
     "<think>hm</think>I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
     "\"Rome\"}}\n</tool_call>\n<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>",
     NULL, NULL, "stop"},
    {"nothing", TOOLS, "empty", "", NULL, NULL, "stop"},
    {"tools are in the prompt", TOOLS, "echo", "echo +2", NULL, NULL, "stop"},
};

static void add_calls(const struct dgl_json *calls, struct dgl_buf *out)
{
    for (const struct dgl_json *v = dgl_json_first(calls); v; v = dgl_json_next(v)) {
        const struct dgl_json *function = dgl_json_get(v, "function");
        assert_string_equal(dgl_json_str(dgl_json_get(v, "type")).p, "function");
        assert_int_equal(dgl_json_str(dgl_json_get(v, "id")).len, 9);
        dgl_buf_printf(out, "%s %s;", dgl_json_str(dgl_json_get(function, "name")).p,
                       dgl_json_str(dgl_json_get(function, "arguments")).p);
    }
}

static void assert_said(const char *name, const struct dgl_buf *got, const char *want)
{
    const char *text = got->p ? got->p : "";
    if (strcmp(text, want ? want : "") != 0)
        fail_msg("%s: \"%s\", wanted \"%s\"", name, text, want ? want : "");
}

/* During loading: the first signal waits for the work in progress, the second does not wait. */
static void a_second_signal_waits_for_no_loading(void **state)
{
    static const char script[] = "$0 serve --device any --port 0 -c 64 2> $1/said & p=$!\n"
                                 "until grep -q 'is stuck' $1/said; do sleep 0.01; done\n"
                                 "kill -TERM $p; sleep 0.1; kill -TERM $p; wait $p";
    struct process_result r;
    char stuck[512];
    (void)state;
    test_write_file(folder, "held.stuck", "", 0);
    process_run(
        &(const struct process_params){
            .program = "/bin/sh",
            .args = (const char *const[]){"-c", script, self_command_program(), folder, NULL},
            .env = (const char *const[]){SERVES "=1", held_setting, NULL}},
        &r);
    snprintf(stuck, sizeof(stuck), "%s/held.stuck", folder);
    unlink(stuck);
    assert_code(&r, 130);
    process_finish(&r);
}

/* Both ways say the same. */
static void test_saying(void **state)
{
    const struct said *row = *state;
    for (int stream = 0; stream < 2; stream++) {
        struct dgl_buf body = {0}, content = {0}, reasoning = {0}, calls = {0};
        struct reply r;
        struct dgl_str finish = {0};
        size_t num_calls = 0;
        dgl_buf_printf(&body,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]%s,\"max_tokens\":60,"
                       "\"temperature\":0,\"stop\":[\" \",\"e\",\"a\"]%s}",
                       row->word, row->fields, stream ? ",\"stream\":true" : "");
        server_post(&server, CHAT, body.p, &r);
        assert_int_equal(r.status, 200);
        struct dgl_str rest = {r.body, r.len};
        struct dgl_json_doc *doc = NULL;
        char last[32] = "";
        while (stream && reply_next_event(&rest, &doc)) {
            const struct dgl_json *c = dgl_json_first(dgl_json_get(dgl_json_root(doc), "choices"));
            const struct dgl_json *delta = dgl_json_get(c, "delta");
            const struct dgl_str said = dgl_json_str(dgl_json_get(delta, "content")),
                                 thought = dgl_json_str(dgl_json_get(delta, "reasoning_content"));
            const struct dgl_json *call = dgl_json_get(delta, "tool_calls");
            dgl_buf_append(&content, said.p ? said.p : "", said.len);
            dgl_buf_append(&reasoning, thought.p ? thought.p : "", thought.len);
            if (call)
                assert_int_equal(reply_number(dgl_json_first(call), "index"), num_calls++);
            add_calls(call, &calls);
            snprintf(last, sizeof(last), "%s", dgl_json_str(dgl_json_get(c, "finish_reason")).p);
            dgl_json_destroy(&doc);
        }
        if (!stream) {
            const struct dgl_json *c = dgl_json_first(dgl_json_get(reply_json(&r), "choices"));
            const struct dgl_json *message = dgl_json_get(c, "message"),
                                  *said = dgl_json_get(message, "content"),
                                  *thought = dgl_json_get(message, "reasoning_content");
            assert_int_equal(thought != NULL, row->reasoning != NULL);
            assert_int_equal(dgl_json_get(message, "tool_calls") != NULL, row->calls != NULL);
            dgl_buf_append(&content, dgl_json_str(said).p, dgl_json_str(said).len);
            dgl_buf_append(&reasoning, dgl_json_str(thought).p, dgl_json_str(thought).len);
            add_calls(dgl_json_get(message, "tool_calls"), &calls);
            finish = dgl_json_str(dgl_json_get(c, "finish_reason"));
            snprintf(last, sizeof(last), "%s", finish.p);
        }
        assert_said("content", &content, row->content);
        assert_said("reasoning", &reasoning, row->reasoning);
        assert_said("calls", &calls, row->calls);
        assert_string_equal(last, row->finish);
        reply_finish(&r);
        dgl_buf_finish(&body);
        dgl_buf_finish(&content);
        dgl_buf_finish(&reasoning);
        dgl_buf_finish(&calls);
    }
}

/* Earlier calls and results go back to the template, arguments as an object. */
static void calls_go_back(void **state)
{
    struct reply r;
    (void)state;
    server_post(&server, CHAT,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"echo \"},"
                "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"x1\","
                "\"type\":\"function\",\"function\":{\"name\":\"weather\","
                "\"arguments\":\"{\\\"city\\\": \\\"Rome\\\"}\"}}]},"
                "{\"role\":\"tool\",\"tool_call_id\":\"x1\",\"content\":\"sun\"}],"
                "\"max_tokens\":3}",
                &r);
    assert_string_equal(reply_text(&r, 0).p, "echo Rome sun x1");
    reply_finish(&r);
}

static void a_template_that_raises(void **state)
{
    struct reply r;
    (void)state;
    server_post(&server, CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"raise\"}]}", &r);
    reply_assert_error(&r, 400, "messages", "roles must alternate");
    reply_finish(&r);
}

/* Reasoning that a continued message began goes on in the answer. */
static void continued_reasoning_goes_on(void **state)
{
    struct reply r;
    (void)state;
    server_post(&server, CHAT,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                "\"content\":\"<think>begun\"}],\"max_tokens\":3}",
                &r);
    const struct dgl_json *c = dgl_json_first(dgl_json_get(reply_json(&r), "choices")),
                          *message = dgl_json_get(c, "message");
    assert_int_equal(r.status, 200);
    assert_string_equal(dgl_json_str(dgl_json_get(message, "reasoning_content")).p, " hm");
    assert_string_equal(dgl_json_str(dgl_json_get(message, "content")).p, "Yes.");
    reply_finish(&r);
}

/* reasoning_effort and chat_template_kwargs are variables of the template, which shows them. */
static void variables_reach_the_template(void **state)
{
    static const struct {
        const char *fields, *want;
    } rows[] = {
        {"\"reasoning_effort\":\"high\"", "effort high"},
        {"\"reasoning_effort\":\"none\"", "effort none False"},
        {"\"reasoning_effort\":\"none\",\"chat_template_kwargs\":{\"enable_thinking\":7}",
         "effort none 7"},
        {"\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"reasoning_effort\":\"high\"}",
         "effort high"},
        {"\"chat_template_kwargs\":{\"reasoning_effort\":\"x\",\"enable_thinking\":true}",
         "effort x True"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dgl_buf body = {0};
        struct reply r;
        dgl_buf_printf(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],%s}",
                       rows[i].fields);
        server_post(&server, CHAT, body.p, &r);
        reply_assert_error(&r, 400, "messages", rows[i].want);
        reply_finish(&r);
        dgl_buf_finish(&body);
    }
}

/* A waiting stream receives comments, before and after the first token. */
static void silent_streams_get_comments(void **state)
{
    struct dgl_buf heard = {0};
    (void)state;
    test_write_file(folder, "held", "", 0);
    const int fd = server_begin_stream(
        &server, "/v1/completions",
        "{\"prompt\":\"Once\",\"max_tokens\":3,\"stream\":true,\"ignore_eos\":true}", "\r\n: still",
        &heard);
    assert_null(strstr(heard.p, "data: "));
    unlink(strchr(held_setting, '=') + 1);
    server_expect(&server, fd, "[DONE]", &heard);
    close(fd);
    dgl_buf_finish(&heard);
}

/* While a large body is read slowly, the connections of all HTTP threads continue. */
static void large_bodies_hold_up_nobody(void **state)
{
    enum { connections = 24 };
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct dgl_buf body = {0}, held[connections] = {{0}};
    struct reply r;
    int fd[connections];
    (void)state;
    dgl_buf_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 110000; i++)
        dgl_buf_putc(&body, 'a');
    dgl_buf_puts(&body, "\"}");
    char *request = server_request("/v1/completions", "", body.p);
    test_write_file(folder, "held", "", 0);
    for (int i = 0; i < connections; i++)
        fd[i] = server_connect(&server);
    for (int round = 0; round < 2; round++) {
        for (int i = round; i < connections; i++) {
            assert_true(server_send(fd[i], ask, sizeof(ask) - 1));
            server_receive(fd[i], &held[i], &r);
            assert_int_equal(r.status, 200);
            reply_finish(&r);
        }
        if (round == 0)
            assert_true(server_send(fd[0], request, strlen(request)));
    }
    assert_int_equal(held[0].len, 0);
    unlink(strchr(held_setting, '=') + 1);
    server_receive(fd[0], &held[0], &r);
    reply_assert_error(&r, 400, "prompt", "the context holds 256");
    reply_finish(&r);
    for (int i = 0; i < connections; i++) {
        close(fd[i]);
        dgl_buf_finish(&held[i]);
    }
    free(request);
    dgl_buf_finish(&body);
}

/* Several long inputs while an answer is generated: the server checks for them at each pass. */
static void embeddings_hold_up_nobody(void **state)
{
    struct dgl_buf body = {0}, heard = {0};
    struct reply r;
    (void)state;
    const int fd = server_begin_stream(
        &server, "/v1/completions",
        "{\"prompt\":\"Once\",\"max_tokens\":-1,\"stream\":true,\"ignore_eos\":true}",
        "data: ", &heard);
    dgl_buf_puts(&body, "{\"input\":[");
    for (int i = 0; i < 3; i++) {
        dgl_buf_puts(&body, i ? ",[1" : "[1");
        for (int k = 1; k < 200; k++)
            dgl_buf_printf(&body, ",%d", 20 + k);
        dgl_buf_puts(&body, "]");
    }
    dgl_buf_puts(&body, "]}");
    server_post(&server, "/v1/embeddings", body.p, &r);
    assert_int_equal(r.status, 200);
    assert_int_equal(dgl_json_count(dgl_json_get(reply_json(&r), "data")), 3);
    assert_int_equal(reply_number(dgl_json_get(reply_json(&r), "usage"), "prompt_tokens"), 600);
    reply_finish(&r);
    close(fd);
    dgl_buf_finish(&body);
    dgl_buf_finish(&heard);
}

static int start_server(void **state)
{
    char *dir = test_tmpdir();
    (void)state;
    snprintf(folder, sizeof(folder), "%s", dir);
    snprintf(held_setting, sizeof(held_setting), HELD "=%s/held", dir);
    test_write_file(dir, "t.jinja", TEMPLATE, sizeof(TEMPLATE) - 1);
    free(dir);
    start(&server, (const char *const[]){"--ubatch", "64", "--sse-ping-interval", "1", NULL});
    return 0;
}

/* ---- a device that is lost ------------------------------------------------------------------- */

#define LOST(word, stream)                                                                         \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Once upon a time " word                       \
    "\"}],\"max_tokens\":12,\"temperature\":0,\"ignore_eos\":true,\"stream\":" stream "}"

/* The answer equals one without a loss. /health reports the loss meanwhile. */
static void a_lost_device_comes_back(void **state)
{
    static const char body[] = LOST("", "false");
    struct reply lost, whole;
    (void)state;
    server_post(&server, CHAT, body, &whole);
    test_write_file(folder, "held.lose", "", 0);
    server_post(&server, CHAT, body, &lost);
    assert_string_equal(reply_text(&lost, 0).p, reply_text(&whole, 0).p);
    reply_finish(&lost);
    reply_finish(&whole);
    server_wait_for(&server, "in the rebuild: 503");
    server_wait_for(&server, "the device was lost and is being opened again");
    server_call(&server, "GET", "/health", "", NULL, &whole);
    assert_int_equal(whole.status, 200);
    reply_finish(&whole);
}

/* Returns the text of a stream; free(). */
static char *stream_text(const struct reply *r)
{
    struct dgl_str rest = {r->body, r->len};
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, "");
    while (reply_next_event(&rest, &doc)) {
        const struct dgl_json *c = dgl_json_first(dgl_json_get(dgl_json_root(doc), "choices"));
        dgl_buf_puts(&text, dgl_json_str(dgl_json_get(dgl_json_get(c, "delta"), "content")).p);
        dgl_json_destroy(&doc);
    }
    return checked(dgl_buf_take(&text));
}

/* A stream that has begun goes on after the loss: no text is missing, and none comes twice. */
static void a_stream_outlives_a_lost_device(void **state)
{
    static const char body[] = LOST("", "true");
    struct reply lost, whole;
    (void)state;
    server_post(&server, CHAT, body, &whole);
    test_write_file(folder, "held.lose", "", 0);
    server_post(&server, CHAT, body, &lost);
    char *got = stream_text(&lost), *want = stream_text(&whole);
    assert_string_equal(got, want);
    free(got);
    free(want);
    reply_finish(&lost);
    reply_finish(&whole);
}

/* Embeddings that a lost device interrupted equal those without a loss. */
static void lost_embeddings_begin_anew(void **state)
{
    static const char *const poolings[] = {"mean", "last"};
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        struct server s;
        struct dgl_buf body = {0};
        struct reply lost, whole;
        start(&s, (const char *const[]){"--ubatch", "64", "--pooling", poolings[p], NULL});
        dgl_buf_puts(&body, "{\"input\":[[1");
        for (int k = 1; k < 200; k++)
            dgl_buf_printf(&body, ",%d", 20 + k);
        dgl_buf_puts(&body, "],[1,3]]}");
        server_post(&s, "/v1/embeddings", body.p, &whole);
        assert_int_equal(whole.status, 200);
        test_write_file(folder, "held.lose-input", "", 0);
        server_post(&s, "/v1/embeddings", body.p, &lost);
        assert_int_equal(lost.status, 200);
        assert_string_equal(lost.body, whole.body);
        reply_finish(&lost);
        reply_finish(&whole);
        server_wait_for(&s, "in the rebuild: 503");
        server_end(&s);
        dgl_buf_finish(&body);
    }
}

/* Waiting clients get an error, whole and in a stream, and the server ends. */
static void a_device_that_stays_away(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        struct server s;
        struct reply r;
        start(&s, NULL);
        server_post(&s, CHAT, stream ? LOST("gone", "true") : LOST("gone", "false"), &r);
        assert_int_equal(r.status, stream ? 200 : 503);
        assert_contains(r.body, "\"message\": \"the device does not answer any more\"");
        reply_finish(&r);
        assert_int_equal(server_stop(&s, 0), 1);
        server_finish(&s);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && getenv(SERVES))
        return self_command_run(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_signal_waits_for_no_loading),
        cmocka_unit_test(calls_go_back),
        cmocka_unit_test(a_template_that_raises),
        cmocka_unit_test(continued_reasoning_goes_on),
        cmocka_unit_test(variables_reach_the_template),
        cmocka_unit_test(silent_streams_get_comments),
        cmocka_unit_test(large_bodies_hold_up_nobody),
        cmocka_unit_test(embeddings_hold_up_nobody),
        cmocka_unit_test(a_lost_device_comes_back),
        cmocka_unit_test(a_stream_outlives_a_lost_device),
        cmocka_unit_test(lost_embeddings_begin_anew),
        cmocka_unit_test(a_device_that_stays_away),
    };
    int failures = cmocka_run_group_tests_name("serve: fakes", tests, start_server, NULL);
    failures += test_run_table("serve: says", test_saying, sayings);
    assert_int_equal(server_stop(&server, SIGTERM), 0);
    assert_null(strstr(server.said.p, "holds up the others"));
    server_finish(&server);
    test_tmpdir_remove(strdup(folder));
    return failures;
}
