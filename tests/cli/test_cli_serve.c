/* `dopplergl serve` over sockets: answers whole and streamed, errors by field, keys, limits, what
 * clients do to it, and how it ends. */
#include "tests/support/server.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/test.h"

/* One server for the tables of the group. */
static struct server server;

static void post(const char *path, const char *body, struct reply *r)
{
    server_call(&server, "POST", path, "", body, r);
}

/* $.choices[0].text, or .message.content; fails where there is none. */
static struct dgl_str text_of(struct reply *r, size_t choice)
{
    if (r->status != 200)
        fail_msg("status %d: %s", r->status, r->body);
    const struct dgl_json *c = dgl_json_at(dgl_json_get(reply_json(r), "choices"), choice);
    const struct dgl_json *text = dgl_json_get(c, "text");
    if (!text)
        text = dgl_json_get(dgl_json_get(c, "message"), "content");
    assert_true(dgl_json_is(text, DGL_JSON_STRING));
    return dgl_json_str(text);
}

static int64_t number_of(const struct dgl_json *object, const char *key)
{
    int64_t number = -1;
    assert_true(dgl_json_i64(dgl_json_get(object, key), &number));
    return number;
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name, *path, *body;
    int status;
    const char *param; /* NULL = null */
    const char *part;  /* of the message */
};
#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define SAY  "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
static const struct refusal refusals[] = {
    {"no body", TEXT, "", 400, NULL, "body"},
    {"not JSON", TEXT, "{\"prompt\":", 400, NULL, "body"},
    {"no object", TEXT, "[1]", 400, NULL, "wanted an object"},
    {"duplicate key", TEXT, "{\"prompt\":\"a\",\"prompt\":\"b\"}", 400, NULL, "prompt"},
    {"not UTF-8", TEXT, "{\"prompt\":\"\xff\"}", 400, NULL, "UTF-8"},
    {"no prompt", TEXT, "{}", 400, "prompt", "missing"},
    {"empty prompt", TEXT, "{\"prompt\":\"\"}", 400, "prompt", "empty"},
    {"a prompt that is a number", TEXT, "{\"prompt\":5}", 400, "prompt", "number"},
    {"an id that is none", TEXT, "{\"prompt\":[1,-2]}", 400, "prompt", "element 1"},
    {"an id of no token", TEXT, "{\"prompt\":[99999]}", 400, NULL, "vocabulary"},
    {"a temperature that is text", TEXT, "{\"prompt\":\"a\",\"temperature\":\"1\"}", 400,
     "temperature", "string"},
    {"a negative temperature", TEXT, "{\"prompt\":\"a\",\"temperature\":-1}", 400, "temperature",
     "-1"},
    {"top_p above 1", TEXT, "{\"prompt\":\"a\",\"top_p\":1.5}", 400, "top_p", "1.5"},
    {"huge max_tokens", TEXT, "{\"prompt\":\"a\",\"max_tokens\":1e30}", 400, "max_tokens", "1e+30"},
    {"negative n", TEXT, "{\"prompt\":\"a\",\"n\":-1}", 400, "n", "-1"},
    {"half a token", TEXT, "{\"prompt\":\"a\",\"max_tokens\":1.5}", 400, "max_tokens", "1.5"},
    {"a seed that is text", TEXT, "{\"prompt\":\"a\",\"seed\":\"x\"}", 400, "seed", "64 bits"},
    {"stream that is text", TEXT, "{\"prompt\":\"a\",\"stream\":\"yes\"}", 400, "stream",
     "true or false"},
    {"options of no stream", TEXT, "{\"prompt\":\"a\",\"stream_options\":{}}", 400,
     "stream_options", "stream"},
    {"an empty stop", TEXT, "{\"prompt\":\"a\",\"stop\":\"\"}", 400, "stop", "0 bytes"},
    {"a bias of no token", TEXT, "{\"prompt\":\"a\",\"logit_bias\":{\"x\":1}}", 400, "logit_bias",
     "no token id"},
    {"best_of", TEXT, "{\"prompt\":\"a\",\"best_of\":3}", 400, "best_of", "best_of"},
    {"echo", TEXT, "{\"prompt\":\"a\",\"echo\":true}", 400, "echo", "not supported"},
    {"no messages", CHAT, "{}", 400, "messages", "missing"},
    {"empty messages", CHAT, "{\"messages\":[]}", 400, "messages", "empty"},
    {"a message that is text", CHAT, "{\"messages\":[\"a\"]}", 400, "messages[0]", "string"},
    {"an unknown role", CHAT, "{\"messages\":[{\"role\":\"x\",\"content\":\"\"}]}", 400,
     "messages[0].role", "none of"},
    {"content that is a number", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":3}]}", 400,
     "messages[0].content", "number"},
    {"an image", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
     "{\"type\":\"image_url\"}]}]}",
     400, "messages[0].content[1]", "not supported"},
    {"a format of the answer", CHAT, "{" SAY ",\"response_format\":{\"type\":\"json_object\"}}",
     400, "response_format", "not supported"},
    {"a forced tool", CHAT, "{" SAY ",\"tool_choice\":\"required\"}", 400, "tool_choice", "auto"},
    {"a tool without a name", CHAT, "{" SAY ",\"tools\":[{\"type\":\"function\"}]}", 400, "tools",
     "name"},
    {"top_logprobs alone", CHAT, "{" SAY ",\"top_logprobs\":2}", 400, "top_logprobs", "logprobs"},
    {"functions of old", CHAT, "{" SAY ",\"functions\":[]}", 400, "functions", "not supported"},
    {"a field before the model's name", CHAT, "{" SAY ",\"n\":0,\"model\":\"x\"}", 400, "n", "0"},
    {"another model", CHAT, "{" SAY ",\"model\":\"gpt-4\"}", 404, "model", "gpt-4"},
    {"a model that is a number", CHAT, "{" SAY ",\"model\":4}", 400, "model", "number"},
    {"responses", "/v1/responses", "{}", 400, "path", "chat/completions"},
    {"dimensions", "/v1/embeddings", "{\"input\":\"a\",\"dimensions\":3}", 400, "dimensions",
     "not supported"},
    {"no input", "/v1/embeddings", "{}", 400, "input", "missing"},
    {"tokenize nothing", "/tokenize", "{}", 400, "content", "string"},
    {"detokenize text", "/detokenize", "{\"tokens\":\"a\"}", 400, "tokens", "list"},
    {"no such path", "/v1/nothing", "{}", 404, NULL, "/v1/nothing"},
    {"post to health", "/health", "{}", 405, NULL, "GET"},
};

static void assert_error(struct reply *r, int status, const char *param, const char *part)
{
    const struct dgl_json *error = dgl_json_get(reply_json(r), "error");
    if (r->status != status)
        fail_msg("status %d, wanted %d: %s", r->status, status, r->body);
    assert_true(dgl_json_is(dgl_json_get(error, "type"), DGL_JSON_STRING));
    assert_contains(dgl_json_str(dgl_json_get(error, "message")).p, part);
    if (param)
        assert_string_equal(dgl_json_str(dgl_json_get(error, "param")).p, param);
    else
        assert_true(dgl_json_is(dgl_json_get(error, "param"), DGL_JSON_NULL));
}

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct reply r;
    post(row->path, row->body, &r);
    assert_error(&r, row->status, row->param, row->part);
    reply_finish(&r);
}

/* Bodies that are too long to be written out. */
static void long_bodies_are_refused(void **state)
{
    struct dgl_buf body = {0};
    struct reply r;
    (void)state;
    for (int i = 0; i < 90; i++)
        dgl_buf_puts(&body, "[");
    post(TEXT, body.p, &r);
    assert_error(&r, 400, NULL, "nest");
    reply_finish(&r);
    body.len = 0;
    dgl_buf_puts(&body, "{\"prompt\":\"a\",\"stop\":[\"x\"");
    for (int i = 0; i < 64; i++)
        dgl_buf_puts(&body, ",\"x\"");
    dgl_buf_puts(&body, "]}");
    post(TEXT, body.p, &r);
    assert_error(&r, 400, "stop", "65");
    reply_finish(&r);
    body.len = 0;
    dgl_buf_puts(&body, "{\"prompt\":[1");
    for (int i = 0; i < 512; i++)
        dgl_buf_puts(&body, ",1");
    dgl_buf_puts(&body, "]}");
    post(TEXT, body.p, &r);
    assert_error(&r, 400, "prompt", "513 tokens, the context holds 512");
    assert_contains(r.body, "context_length_exceeded");
    reply_finish(&r);
    body.len = 0;
    dgl_buf_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 4096; i++)
        dgl_buf_puts(&body, "a");
    dgl_buf_puts(&body, "\"}");
    post(TEXT, body.p, &r);
    assert_error(&r, 413, NULL, "4096");
    reply_finish(&r);
    /* The same in chunks, of unknown length; and one that is announced and stays away. */
    const int fd = server_connect(&server);
    struct dgl_buf out = {0};
    dgl_buf_printf(&out,
                   "POST %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\nTransfer-Encoding: "
                   "chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
                   TEXT, body.len, body.p);
    assert_true(server_send(fd, out.p, out.len));
    server_receive(fd, NULL, &r);
    assert_error(&r, 413, NULL, "4096");
    reply_finish(&r);
    close(fd);
    server_call(&server, "POST", TEXT, "Content-Length: 99999999999999\r\n", NULL, &r);
    assert_error(&r, 413, NULL, "99999999999999");
    reply_finish(&r);
    dgl_buf_finish(&out);
    dgl_buf_finish(&body);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The text of all events of a stream; *done: it ended as one should. */
static void join_stream(const struct reply *r, struct dgl_buf *text, size_t *events)
{
    struct dgl_str rest = {r->body, r->len}, line, last = DGL_STR("");
    *events = 0;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        struct dgl_json_doc *doc = NULL;
        if (!dgl_str_starts(line, "data: "))
            continue;
        last = (struct dgl_str){line.p + 6, line.len - 6};
        if (dgl_str_eq(last, "[DONE]"))
            continue;
        assert_int_equal(dgl_json_parse(NULL, "event", last.p, last.len, &doc), DGL_OK);
        const struct dgl_json *c = dgl_json_first(dgl_json_get(dgl_json_root(doc), "choices"));
        struct dgl_str part = dgl_json_str(dgl_json_get(c, "text"));
        if (part.len == 0)
            part = dgl_json_str(dgl_json_get(dgl_json_get(c, "delta"), "content"));
        dgl_buf_append(text, part.p, part.len);
        dgl_json_destroy(&doc);
        ++*events;
    }
    dgl_buf_append(text, "", 0);
    if (!dgl_str_eq(last, "[DONE]"))
        fail_msg("no [DONE]: %s", r->body);
}

struct pair {
    const char *name, *path, *fields;
    size_t tokens;
    const char *finish;
};
static const struct pair pairs[] = {
    {"greedy", TEXT, "\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":9", 9,
     "length"},
    {"seeded", TEXT, "\"prompt\":\"Once upon a time\",\"seed\":7,\"max_tokens\":9", 9, "length"},
    {"ids", TEXT, "\"prompt\":[1,2,3],\"seed\":7,\"max_tokens\":5", 5, "length"},
    {"sixteen tokens unless told", TEXT, "\"prompt\":\"Once\",\"seed\":7,\"ignore_eos\":true", 16,
     "length"},
    {"every value", TEXT,
     "\"prompt\":\"Once\",\"seed\":1,\"max_tokens\":6,\"top_k\":20,\"top_p\":0.9,\"min_p\":0.01,"
     "\"presence_penalty\":0.5,\"frequency_penalty\":0.5,\"repeat_penalty\":1.1,\"logit_bias\":{"
     "\"5\":-100},\"temperature\":0.7,\"user\":\"u\",\"nonsense\":{\"a\":1},\"stop\":null",
     6, "length"},
    {"chat", CHAT, SAY ",\"seed\":7,\"max_tokens\":8,\"ignore_eos\":true", 8, "length"},
    {"max_completion_tokens", CHAT,
     SAY ",\"seed\":7,\"max_completion_tokens\":4,\"ignore_eos\":true", 4, "length"},
    {"logprobs", TEXT,
     "\"prompt\":\"Once\",\"temperature\":0,\"max_tokens\":5,\"logprobs\":2,\"ignore_eos\":true", 5,
     "length"},
    {"logprobs of chat", CHAT,
     SAY ",\"temperature\":0,\"max_tokens\":5,\"logprobs\":true,\"top_logprobs\":2,"
         "\"ignore_eos\":true",
     5, "length"},
};

/* Whole and streamed, the same; the usage adds up. */
static void test_pair(void **state)
{
    const struct pair *row = *state;
    struct reply whole, again, stream;
    struct dgl_buf body = {0}, text = {0};
    size_t events;
    dgl_buf_printf(&body, "{%s}", row->fields);
    post(row->path, body.p, &whole);
    post(row->path, body.p, &again);
    body.len = 0;
    dgl_buf_printf(&body, "{%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
                   row->fields);
    post(row->path, body.p, &stream);
    const struct dgl_str want = text_of(&whole, 0);
    assert_string_equal(text_of(&again, 0).p, want.p);
    assert_int_equal(stream.status, 200);
    assert_contains(stream.head, "text/event-stream");
    join_stream(&stream, &text, &events);
    assert_string_equal(text.p, want.p);
    assert_true(events > 2);
    const struct dgl_json *root = reply_json(&whole), *usage = dgl_json_get(root, "usage"),
                          *choice = dgl_json_first(dgl_json_get(root, "choices"));
    assert_int_equal(number_of(usage, "completion_tokens"), row->tokens);
    assert_int_equal(number_of(usage, "total_tokens"),
                     number_of(usage, "prompt_tokens") + (int64_t)row->tokens);
    assert_string_equal(dgl_json_str(dgl_json_get(choice, "finish_reason")).p, row->finish);
    assert_contains(stream.body, "\"finish_reason\": \"length\"");
    assert_contains(stream.body, "\"total_tokens\": ");
    const struct dgl_json *logprobs = dgl_json_get(choice, "logprobs");
    if (strstr(row->fields, "logprobs")) {
        const bool chat = strcmp(row->path, CHAT) == 0;
        const struct dgl_json *list = dgl_json_get(logprobs, chat ? "content" : "token_logprobs");
        assert_int_equal(dgl_json_count(list), row->tokens);
        for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v))
            assert_true(dgl_json_f64(chat ? dgl_json_get(v, "logprob") : v) <= 0);
        if (chat)
            assert_int_equal(dgl_json_count(dgl_json_get(dgl_json_first(list), "top_logprobs")), 2);
    } else {
        assert_true(dgl_json_is(logprobs, DGL_JSON_NULL));
    }
    reply_finish(&whole);
    reply_finish(&again);
    reply_finish(&stream);
    dgl_buf_finish(&body);
    dgl_buf_finish(&text);
}

static void assert_same_answer(const char *path, const char *a, const char *b)
{
    struct reply first, second;
    post(path, a, &first);
    post(path, b, &second);
    assert_string_equal(text_of(&first, 0).p, text_of(&second, 0).p);
    reply_finish(&first);
    reply_finish(&second);
}

/* Different words for the same. */
static void words_mean_the_same(void **state)
{
#define TAIL ",\"temperature\":0,\"max_tokens\":6}"
    (void)state;
    assert_same_answer(CHAT, "{" SAY TAIL,
                       "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                       "\"text\":\"a\"}]}]" TAIL);
    assert_same_answer(CHAT,
                       "{\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},"
                       "{\"role\":\"user\",\"content\":\"a\"}]" TAIL,
                       "{\"messages\":[{\"role\":\"developer\",\"content\":\"be brief\"},"
                       "{\"role\":\"user\",\"content\":\"a\"}]" TAIL);
    assert_same_answer(TEXT, "{\"prompt\":\"Once\"" TAIL,
                       "{\"model\":\"story-llama-q4_k_m\",\"prompt\":[\"Once\"]" TAIL);
}

static void several_choices_and_prompts(void **state)
{
    (void)state;
    struct reply r, one;
    post(TEXT,
         "{\"prompt\":[\"Once\",\"A dog\"],\"n\":2,\"seed\":3,\"max_tokens\":5,\"temperature\":1}",
         &r);
    const struct dgl_json *choices = dgl_json_get(reply_json(&r), "choices");
    assert_int_equal(dgl_json_count(choices), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(number_of(dgl_json_at(choices, i), "index"), i);
    assert_int_equal(number_of(dgl_json_get(reply_json(&r), "usage"), "completion_tokens"), 20);
    /* The second choice of the second prompt is that prompt's with the next seed. */
    post(TEXT, "{\"prompt\":\"A dog\",\"seed\":4,\"max_tokens\":5,\"temperature\":1}", &one);
    assert_string_equal(text_of(&r, 3).p, text_of(&one, 0).p);
    reply_finish(&r);
    reply_finish(&one);
}

static void a_stop_string_ends_an_answer(void **state)
{
    (void)state;
    struct reply whole, cut;
    char body[256];
    post(TEXT, "{\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":12}", &whole);
    const struct dgl_str text = text_of(&whole, 0);
    assert_true(text.len > 12);
    snprintf(
        body, sizeof(body),
        "{\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":12,\"stop\":[\"zzz\","
        "\"%.4s\"]}",
        text.p + 6);
    post(TEXT, body, &cut);
    assert_int_equal(
        text_of(&cut, 0).len,
        (size_t)(strstr(text.p, (char[]){text.p[6], text.p[7], text.p[8], text.p[9], 0}) - text.p));
    assert_contains(cut.body, "\"finish_reason\": \"stop\"");
    reply_finish(&whole);
    reply_finish(&cut);
}

/* What a user writes stays text, whatever it spells. */
static void control_tokens_of_users_stay_text(void **state)
{
    (void)state;
    struct reply plain, special;
    post(CHAT, "{" SAY ",\"max_tokens\":1,\"seed\":1}", &plain);
    post(CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a<|endoftext|></s><|im_end|>\"}],"
         "\"max_tokens\":1,\"seed\":1}",
         &special);
    assert_int_equal(special.status, 200);
    const int64_t more = number_of(dgl_json_get(reply_json(&special), "usage"), "prompt_tokens") -
                         number_of(dgl_json_get(reply_json(&plain), "usage"), "prompt_tokens");
    assert_true(more > 6); /* letters, not three tokens */
    reply_finish(&plain);
    reply_finish(&special);
}

static void embeddings_are_vectors(void **state)
{
    (void)state;
    struct reply r, coded;
    post("/v1/embeddings", "{\"input\":[\"a dog\",\"a cat\"]}", &r);
    assert_int_equal(r.status, 200);
    const struct dgl_json *data = dgl_json_get(reply_json(&r), "data");
    assert_int_equal(dgl_json_count(data), 2);
    const struct dgl_json *row = dgl_json_get(dgl_json_at(data, 1), "embedding");
    double sum = 0;
    for (const struct dgl_json *v = dgl_json_first(row); v; v = dgl_json_next(v))
        sum += dgl_json_f64(v) * dgl_json_f64(v);
    assert_near(sum, 1.0, 1e-4);
    post("/v1/embeddings", "{\"input\":\"a cat\",\"encoding_format\":\"base64\"}", &coded);
    const struct dgl_str text = dgl_json_str(
        dgl_json_get(dgl_json_first(dgl_json_get(reply_json(&coded), "data")), "embedding"));
    assert_int_equal(text.len, (dgl_json_count(row) * 4 + 2) / 3 * 4);
    /* The first number by hand: six digits of base64 hold its 32 bits. */
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t bits = 0;
    for (int i = 0; i < 6; i++)
        bits = bits << 6 | (uint64_t)(strchr(digits, text.p[i]) - digits);
    bits >>= 4;
    const unsigned char bytes[4] = {(unsigned char)(bits >> 24), (unsigned char)(bits >> 16),
                                    (unsigned char)(bits >> 8), (unsigned char)bits};
    float first;
    memcpy(&first, bytes, 4);
    assert_near((double)first, dgl_json_f64(dgl_json_first(row)), 1e-6);
    reply_finish(&r);
    reply_finish(&coded);
}

static void tokens_go_there_and_back(void **state)
{
    (void)state;
    struct reply ids, text;
    struct dgl_buf body = {0};
    post("/tokenize", "{\"content\":\"Once upon\\na t\\u00efme\"}", &ids);
    const char *list = strchr(ids.body, '[');
    assert_non_null(list);
    dgl_buf_printf(&body, "{\"tokens\":%s", list);
    post("/detokenize", body.p, &text);
    assert_int_equal(text.status, 200);
    assert_string_equal(dgl_json_str(dgl_json_get(reply_json(&text), "content")).p,
                        "Once upon\na t\xc3\xafme");
    reply_finish(&ids);
    reply_finish(&text);
    dgl_buf_finish(&body);
}

/* ---- methods --------------------------------------------------------------------------------- */

struct method {
    const char *name, *method, *path;
    int status;
    const char *head; /* part of it */
};
static const struct method methods[] = {
    {"home", "GET", "/", 200, "text/html; charset=utf-8"},
    {"health", "GET", "/health", 200, "application/json"},
    {"models", "GET", "/v1/models", 200, "application/json"},
    {"the model", "GET", "/v1/models/story-llama-q4_k_m", 200, "application/json"},
    {"another model", "GET", "/v1/models/gpt-4", 404, "application/json"},
    {"metrics", "GET", "/metrics", 200, "version=0.0.4"},
    {"head of health", "HEAD", "/health", 200, "Content-Length: 15"},
    {"options of chat", "OPTIONS", CHAT, 204, "Allow: POST, OPTIONS"},
    {"options of nothing", "OPTIONS", "/x", 404, "application/json"},
    {"get of chat", "GET", CHAT, 405, "Allow: POST, OPTIONS"},
    {"head of chat", "HEAD", CHAT, 405, "Allow: POST, OPTIONS"},
    {"delete of models", "DELETE", "/v1/models", 405, "Allow: GET, HEAD, OPTIONS"},
};

static void test_method(void **state)
{
    const struct method *row = *state;
    struct reply r;
    const int fd = server_connect(&server);
    char out[256];
    snprintf(out, sizeof(out), "%s %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
             row->method, row->path);
    assert_true(server_send(fd, out, strlen(out)));
    struct dgl_buf all = {0};
    assert_true(server_receive_until(fd, "\r\n\r\n", &all));
    assert_int_equal(sscanf(all.p, "HTTP/1.1 %d", &r.status), 1);
    assert_int_equal(r.status, row->status);
    assert_contains(all.p, row->head);
    assert_null(strstr(all.p, "Access-Control-Allow-Origin"));
    dgl_buf_finish(&all);
    close(fd);
}

/* ---- clients --------------------------------------------------------------------------------- */

static int64_t metric(const char *name)
{
    struct reply r;
    char line[128];
    server_call(&server, "GET", "/metrics", "", NULL, &r);
    snprintf(line, sizeof(line), "\ndopplergl_%s ", name);
    const char *at = strstr(r.body, line);
    assert_non_null(at);
    const int64_t value = strtoll(at + strlen(line), NULL, 10);
    reply_finish(&r);
    return value;
}

static void wait_for_metric(const char *name, int64_t value)
{
    for (int i = 0; metric(name) != value; i++) {
        usleep(20000);
        if (i > 6000)
            fail_msg("%s never is %lld", name, (long long)value);
    }
}

#define ENDLESS                                                                                    \
    "{\"prompt\":\"Once\",\"max_tokens\":-1,\"ignore_eos\":true,\"stream\":true,\"seed\":1}"

/* A stream, of which `part` has come. */
static int begin_stream(const struct server *s, const char *body, const char *part,
                        struct dgl_buf *held)
{
    const int fd = server_connect(s);
    char *request = server_request(TEXT, "Connection: close\r\n", body);
    assert_true(server_send(fd, request, strlen(request)));
    free(request);
    assert_true(server_receive_until(fd, part, held));
    return fd;
}

struct leaving {
    const char *name;
    bool stream, half;
};
static const struct leaving leavings[] = {
    {"in a stream", true, false},
    {"while it waits for a whole answer", false, false},
    {"by closing its half", false, true},
};

/* Who leaves is not worked for. */
static void test_leaving(void **state)
{
    const struct leaving *row = *state;
    const int64_t before = metric("requests_cancelled_total");
    struct dgl_buf held = {0};
    int fd;
    if (row->stream) {
        fd = begin_stream(&server, ENDLESS, "data: ", &held);
    } else {
        char *request = server_request(
            TEXT, "", "{\"prompt\":\"Once\",\"max_tokens\":-1,\"ignore_eos\":true,\"seed\":1}");
        fd = server_connect(&server);
        assert_true(server_send(fd, request, strlen(request)));
        free(request);
        wait_for_metric("requests_running", 1);
    }
    if (row->half)
        shutdown(fd, SHUT_WR);
    else
        close(fd);
    wait_for_metric("requests_running", 0);
    assert_int_equal(metric("requests_cancelled_total"), before + 1);
    if (row->half)
        close(fd);
    dgl_buf_finish(&held);
}

/* One who does not read stops nobody. */
static void a_slow_reader_stops_nobody(void **state)
{
    (void)state;
    struct dgl_buf held = {0};
    struct reply r;
    const int fd = begin_stream(&server, ENDLESS, "data: ", &held);
    for (int i = 0; i < 3; i++) {
        post(TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":4,\"seed\":1}", &r);
        assert_int_equal(r.status, 200);
        reply_finish(&r);
    }
    close(fd);
    wait_for_metric("requests_running", 0);
    dgl_buf_finish(&held);
}

static void a_full_queue_says_so(void **state)
{
    (void)state;
    struct dgl_buf held[4] = {{0}};
    struct reply r;
    int fd[4];
    for (int i = 0; i < 2; i++)
        fd[i] = begin_stream(&server, ENDLESS, "data: ", &held[i]);
    for (int i = 2; i < 4; i++) /* accepted, but they wait */
        fd[i] = begin_stream(&server, ENDLESS, "\r\n\r\n", &held[i]);
    wait_for_metric("requests_waiting", 2);
    post(TEXT, "{\"prompt\":\"A dog\",\"n\":5}", &r);
    assert_error(&r, 400, "n", "5 answers, at most 4");
    reply_finish(&r);
    post(TEXT, "{\"prompt\":\"A dog\"}", &r);
    assert_error(&r, 503, NULL, "2 wait");
    assert_contains(r.head, "Retry-After: ");
    reply_finish(&r);
    for (int i = 0; i < 4; i++) {
        close(fd[i]);
        dgl_buf_finish(&held[i]);
    }
    wait_for_metric("requests_running", 0);
    wait_for_metric("requests_waiting", 0);
    post(TEXT, "{\"prompt\":\"A dog\",\"max_tokens\":2}", &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
}

struct rough {
    const char *name, *bytes;
    int status; /* 0 = closed, or any refusal */
};
static const struct rough roughs[] = {
    {"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 0},
    {"no version", "GET /health\r\n\r\n", 0},
    {"a version that is none", "GET /health HTTP/9.9\r\n\r\n", 0},
    {"no host", "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
    {"two lengths",
     "POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 0},
    {"a length that is none", "POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: -5\r\n\r\n",
     0},
    {"a chunk that is none",
     "POST /tokenize HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0},
};

/* A refusal or a closed connection, and a server that goes on. */
static void test_rough(void **state)
{
    const struct rough *row = *state;
    struct reply r;
    const int fd = server_connect(&server);
    server_send(fd, row->bytes, strlen(row->bytes));
    shutdown(fd, SHUT_WR);
    struct dgl_buf held = {0};
    server_receive(fd, &held, &r);
    if (row->status)
        assert_int_equal(r.status, row->status);
    else
        assert_true(r.status == 0 || (r.status >= 400 && r.status < 600));
    reply_finish(&r);
    dgl_buf_finish(&held);
    close(fd);
    server_call(&server, "GET", "/health", "", NULL, &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
}

static void headers_that_never_end_are_cut(void **state)
{
    (void)state;
    static const char line[] = "X-More: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    struct dgl_buf held = {0};
    struct reply r;
    const int fd = server_connect(&server);
    server_send(fd, "GET /health HTTP/1.1\r\nHost: t\r\n", 31);
    for (int i = 0; i < 20000 && server_send(fd, line, sizeof(line) - 1); i++)
        continue;
    server_receive(fd, &held, &r);
    assert_true(r.status == 0 || r.status >= 400);
    reply_finish(&r);
    dgl_buf_finish(&held);
    close(fd);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct dgl_buf held = {0};
    struct reply r;
    static const char both[] = "GET /health HTTP/1.1\r\nHost: t\r\n\r\n"
                               "GET /v1/nothing HTTP/1.1\r\nHost: t\r\n\r\n"
                               "GET /v1/models HTTP/1.1\r\nHost: t\r\n\r\n";
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
    assert_int_equal(server_stop(&s, SIGTERM), 0);
    server_finish(&s);
}

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
    test_write_file(dir, "keys", "\nsecond\n", 8);
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

/* ---- beginning and end ----------------------------------------------------------------------- */

struct start {
    const char *name;
    const char *args[8];
    int code;
    const char *part;
};
static const struct start starts[] = {
    {"open to others without a key",
     {"serve", "--device", "any", "--host", "0.0.0.0", "--port", "0"},
     1,
     "--insecure"},
    {"a name that begins like an address of this machine",
     {"serve", "--device", "any", "--host", "127.0.0.1.example", "--port", "0"},
     1,
     "--insecure"},
    {"every address of IPv6",
     {"serve", "--device", "any", "--host", "::", "--port", "0"},
     1,
     "--insecure"},
    {"a port that is none", {"serve", "--port", "65536"}, 2, "65536"},
    {"no sequences", {"serve", "--parallel", "0"}, 2, "parallel"},
    {"an empty key", {"serve", "--device", "any", "--api-key", " "}, 1, "the key is empty"},
    {"a host that is none",
     {"serve", "--device", "any", "--host", "not a host", "--insecure"},
     1,
     "not a host"},
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

/* SIGTERM: what runs is finished, nothing new is taken. */
static void sigterm_drains(void **state)
{
    (void)state;
    struct server s;
    struct dgl_buf held = {0};
    server_start(&s, (const char *const[]){"-c", "128", NULL});
    const int fd = begin_stream(&s, ENDLESS, "data: ", &held);
    kill(s.pid, SIGTERM);
    assert_true(server_receive_until(fd, "[DONE]", &held));
    close(fd);
    assert_int_equal(server_stop(&s, 0), 0);
    dgl_buf_finish(&held);
    server_finish(&s);
}

/* Whose time is over is told; a second signal waits for nobody. */
static void an_end_that_comes_soon(void **state)
{
    (void)state;
    for (int second = 0; second < 2; second++) {
        struct server s;
        struct dgl_buf held = {0};
        server_start(&s, (const char *const[]){"--drain-timeout", second ? "3600" : "0", NULL});
        const int fd = begin_stream(&s, ENDLESS, "data: ", &held);
        kill(s.pid, SIGTERM);
        server_wait_for(&s, "stopping");
        if (second)
            kill(s.pid, SIGTERM);
        else
            assert_true(server_receive_until(fd, "the server is stopping", &held));
        assert_int_equal(server_stop(&s, 0), second ? 130 : 0);
        close(fd);
        dgl_buf_finish(&held);
        server_finish(&s);
    }
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

/* The unit as systemd reads it, with the built command in its place. */
static void systemd_takes_the_unit(void **state)
{
    static const char script[] = "command -v systemd-analyze > /dev/null || exit 77\n"
                                 "sed \"s|/usr/bin/dopplergl|$0|\" "
                                 "tools/packaging/dopplergl.service > $1/dopplergl.service\n"
                                 "systemd-analyze verify --man=no $1/dopplergl.service 2>&1\n";
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

static int start_server(void **state)
{
    (void)state;
    server_start(&server, (const char *const[]){"--parallel", "2", "--queue", "2", "--max-body",
                                                "4096", "-c", "512", NULL});
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    assert_int_equal(server_stop(&server, SIGTERM), 0);
    server_finish(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest with_server[] = {
        cmocka_unit_test(long_bodies_are_refused),
        cmocka_unit_test(words_mean_the_same),
        cmocka_unit_test(several_choices_and_prompts),
        cmocka_unit_test(a_stop_string_ends_an_answer),
        cmocka_unit_test(control_tokens_of_users_stay_text),
        cmocka_unit_test(embeddings_are_vectors),
        cmocka_unit_test(tokens_go_there_and_back),
        cmocka_unit_test(a_slow_reader_stops_nobody),
        cmocka_unit_test(a_full_queue_says_so),
        cmocka_unit_test(headers_that_never_end_are_cut),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(silent_connections_do_not_stay),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(sigterm_drains),
        cmocka_unit_test(an_end_that_comes_soon),
        cmocka_unit_test(sighup_reads_kernels_again),
        cmocka_unit_test(systemd_takes_the_unit),
    };
    int failures = cmocka_run_group_tests_name("serve", with_server, start_server, NULL);
    failures += test_run_table("serve: refusal", test_refusal, refusals);
    failures += test_run_table("serve: answer", test_pair, pairs);
    failures += test_run_table("serve: method", test_method, methods);
    failures += test_run_table("serve: leaving", test_leaving, leavings);
    failures += test_run_table("serve: rough", test_rough, roughs);
    void *none = NULL;
    stop_server(&none);
    failures += cmocka_run_group_tests_name("serve: ends", alone, NULL, NULL);
    return failures + test_run_table("serve: start", test_start, starts);
}
