/* Answers of `dopplergl serve`: whole and streamed requests, and errors by field. */
#include "tests/support/server.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/test.h"

/* One server for the tables of the group. */
static struct server server;

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name, *path, *body;
    int status;
    const char *param; /* NULL = null */
    const char *part;  /* of the message */
};
#define EIGHT(text) text text text text text text text text
#define SAY         "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
static const struct refusal refusals[] = {
    {"no body", TEXT, "", 400, NULL, "body"},
    {"not JSON", TEXT, "{\"prompt\":", 400, NULL, "body"},
    {"no object", TEXT, "[1]", 400, NULL, "wanted an object"},
    {"duplicate key", TEXT, "{\"prompt\":\"a\",\"prompt\":\"b\"}", 400, NULL, "prompt"},
    {"not UTF-8", TEXT, "{\"prompt\":\"\xff\"}", 400, NULL, "UTF-8"},
    {"no prompt", TEXT, "{}", 400, "prompt", "missing"},
    {"empty prompt of no ids", TEXT, "{\"prompt\":[[]]}", 400, "prompt", "empty"},
    {"empty input", "/v1/embeddings", "{\"input\":\"\"}", 400, "input", "empty"},
    {"a prompt that is a number", TEXT, "{\"prompt\":5}", 400, "prompt", "number"},
    {"an id that is none", TEXT, "{\"prompt\":[1,-2]}", 400, "prompt", "element 1"},
    {"an id of no token", TEXT, "{\"prompt\":[99999999]}", 400, "prompt", "0 to 4095"},
    {"the first id of no token", TEXT, "{\"prompt\":[[1],[2,4096]]}", 400, "prompt", "4096"},
    {"an id of no token to embed", "/v1/embeddings", "{\"input\":[99999]}", 400, "input", "99999"},
    {"an id of no token to spell", "/detokenize", "{\"tokens\":[4096]}", 400, "tokens", "4096"},
    {"a temperature that is text", TEXT, "{\"prompt\":\"a\",\"temperature\":\"1\"}", 400,
     "temperature", "string"},
    {"a negative temperature", TEXT, "{\"prompt\":\"a\",\"temperature\":-1}", 400, "temperature",
     "-1"},
    {"top_p above 1", TEXT, "{\"prompt\":\"a\",\"top_p\":1.5}", 400, "top_p", "1.5"},
    {"min_p above 1", TEXT, "{\"prompt\":\"a\",\"min_p\":1.1}", 400, "min_p", "is 1.1, wanted"},
    {"huge max_tokens", TEXT, "{\"prompt\":\"a\",\"max_tokens\":1e30}", 400, "max_tokens", "1e+30"},
    {"negative n", TEXT, "{\"prompt\":\"a\",\"n\":-1}", 400, "n", "-1"},
    {"half a token", TEXT, "{\"prompt\":\"a\",\"max_tokens\":1.5}", 400, "max_tokens", "1.5"},
    {"a seed that is text", TEXT, "{\"prompt\":\"a\",\"seed\":\"x\"}", 400, "seed", "64 bits"},
    {"stream that is text", TEXT, "{\"prompt\":\"a\",\"stream\":\"yes\"}", 400, "stream",
     "true or false"},
    {"options of no stream", TEXT, "{\"prompt\":\"a\",\"stream_options\":{}}", 400,
     "stream_options", "stream"},
    {"too many breakers", TEXT,
     "{\"prompt\":\"a\",\"dry_sequence_breakers\":[" EIGHT(EIGHT("\"a\",")) "\"a\"]}", 400,
     "dry_sequence_breakers", "has 65 strings, at most 64"},
    {"an empty stop", TEXT, "{\"prompt\":\"a\",\"stop\":\"\"}", 400, "stop", "0 bytes"},
    {"a bias of no token", TEXT, "{\"prompt\":\"a\",\"logit_bias\":{\"-1\":1}}", 400, "logit_bias",
     "entry 0 of 'logit_bias' is no token id"},
    {"a bias of no token in a pair", TEXT, "{\"prompt\":\"a\",\"logit_bias\":[[1,1],[1.5,1]]}", 400,
     "logit_bias", "entry 1 of 'logit_bias' is no token id"},
    {"a bias of a token in a pair that is not there", TEXT,
     "{\"prompt\":\"a\",\"max_tokens\":1,\"logit_bias\":[[4096,1]]}", 400, "logit_bias", "4096"},
    {"a bias of nothing", TEXT, "{\"prompt\":\"a\",\"logit_bias\":{\"\":1}}", 400, "logit_bias",
     "is empty"},
    {"a bias of a list", TEXT, "{\"prompt\":\"a\",\"logit_bias\":[[[1],1]]}", 400, "logit_bias",
     "wanted a token id or a text"},
    {"biases that are no pairs", TEXT, "{\"prompt\":\"a\",\"logit_bias\":[5,1]}", 400, "logit_bias",
     "no pair"},
    {"a bias of three parts", TEXT, "{\"prompt\":\"a\",\"logit_bias\":[[5,1,1]]}", 400,
     "logit_bias", "no pair"},
    {"biases that are text", TEXT, "{\"prompt\":\"a\",\"logit_bias\":\"5\"}", 400, "logit_bias",
     "wanted an object"},
    {"a bias that is true", TEXT, "{\"prompt\":\"a\",\"logit_bias\":{\"5\":true}}", 400,
     "logit_bias", "token 5 is neither"},
    {"a bias of a text that is a text", TEXT, "{\"prompt\":\"a\",\"logit_bias\":[[\"dog\",\"1\"]]}",
     400, "logit_bias", "of dog is neither"},
    {"a bias of a token that is not there", TEXT,
     "{\"prompt\":\"a\",\"max_tokens\":1,\"logit_bias\":{\"4096\":1}}", 400, "logit_bias",
     "0 to 4095"},
    {"a bias of a token that is not there, in a chat", CHAT,
     "{" SAY ",\"logit_bias\":{\"4096\":1}}", 400, "logit_bias", "4096"},
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
    {"an unknown format of the answer", CHAT, "{" SAY ",\"response_format\":{\"type\":\"xml\"}}",
     400, "response_format", "none of text, json_object, json_schema"},
    {"a form of an answer that goes on", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
     "\"b\"}],"
     "\"response_format\":{\"type\":\"json_object\"}}",
     400, "response_format", "continues the last"},
    {"a forced tool without tools", CHAT, "{" SAY ",\"tool_choice\":\"required\"}", 400,
     "tool_choice", "has no 'tools'"},
    {"a named tool without tools", CHAT,
     "{" SAY ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}", 400,
     "tool_choice", "has no 'tools'"},
    {"an unknown choice of tools", CHAT, "{" SAY ",\"tool_choice\":\"any\"}", 400, "tool_choice",
     "none of \"auto\""},
    {"parallel calls that are text", CHAT, "{" SAY ",\"parallel_tool_calls\":\"no\"}", 400,
     "parallel_tool_calls", "true or false"},
    {"an unknown form of reasoning", CHAT, "{" SAY ",\"reasoning_format\":\"x\"}", 400,
     "reasoning_format", "none"},
    {"a tool without a name", CHAT, "{" SAY ",\"tools\":[{\"type\":\"function\"}]}", 400, "tools",
     "name"},
    {"tools that the template does not read", CHAT,
     "{" SAY ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}", 400, "tools",
     "does not read 'tools'"},
    {"an effort that the template does not read", CHAT, "{" SAY ",\"reasoning_effort\":\"low\"}",
     400, "reasoning_effort", "does not read"},
    {"an effort that is a number", CHAT, "{" SAY ",\"reasoning_effort\":1}", 400,
     "reasoning_effort", "a string"},
    {"variables of the request", CHAT,
     "{" SAY ",\"chat_template_kwargs\":{\"add_generation_prompt\":false}}", 400,
     "chat_template_kwargs", "a field of the request"},
    {"to continue and to begin", CHAT,
     "{" SAY ",\"continue_final_message\":true,\"add_generation_prompt\":true}", 400,
     "continue_final_message", "one of them"},
    {"to continue a field", CHAT, "{" SAY ",\"continue_final_message\":\"content\"}", 400,
     "continue_final_message", "true or false"},
    {"to continue a call", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":["
     "{\"function\":{\"name\":\"f\"}}]}],\"continue_final_message\":true}",
     400, "continue_final_message", "no content"},
    {"top_logprobs alone", CHAT, "{" SAY ",\"top_logprobs\":2}", 400, "top_logprobs", "logprobs"},
    {"parameters of a tool that are a number", CHAT,
     "{" SAY ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":5}}]}",
     400, "tools[0].function.parameters", "object"},
    {"audio", CHAT, "{" SAY ",\"modalities\":[\"text\",\"audio\"]}", 400, "modalities",
     "not supported"},
    {"a name that is a number", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\","
     "\"name\":5}]}",
     400, "messages[1].name", "number"},
    {"a call whose name is a number", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":["
     "{\"type\":\"function\",\"function\":{\"name\":1,\"arguments\":\"{}\"}}]}]}",
     400, "messages[1].tool_calls[0].function.name", "number"},
    {"a call whose function is text", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":["
     "{\"function\":\"f\"}]}]}",
     400, "messages[1].tool_calls[0].function", "string"},
    {"a call whose arguments are a list", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":["
     "{\"function\":{\"name\":\"f\",\"arguments\":[1]}}]}]}",
     400, "messages[1].tool_calls[0].function.arguments", "object"},
    {"functions of old", CHAT, "{" SAY ",\"functions\":[]}", 400, "functions", "not supported"},
    {"a field before the model's name", CHAT, "{" SAY ",\"n\":0,\"model\":\"x\"}", 400, "n", "0"},
    {"another model", CHAT, "{" SAY ",\"model\":\"gpt-4\"}", 404, "model", "gpt-4"},
    {"a model that is a number", CHAT, "{" SAY ",\"model\":4}", 400, "model", "number"},
    {"responses", "/v1/responses", "{}", 400, "path", "chat/completions"},
    {"more dimensions than there are", "/v1/embeddings", "{\"input\":\"a\",\"dimensions\":99999}",
     400, "dimensions", "have 256 values"},
    {"no dimensions", "/v1/embeddings", "{\"input\":\"a\",\"dimensions\":0}", 400, "dimensions",
     "is 0"},
    {"an unknown norm", "/v1/embeddings", "{\"input\":\"a\",\"embd_normalize\":-2}", 400,
     "embd_normalize", "is -2"},
    {"no input", "/v1/embeddings", "{}", 400, "input", "missing"},
    {"tokenize nothing", "/tokenize", "{}", 400, "content", "is missing"},
    {"detokenize nothing", "/detokenize", "{}", 400, "tokens", "is missing"},
    {"half a seed", TEXT, "{\"prompt\":\"a\",\"seed\":1.5}", 400, "seed", "is 1.5"},
    {"detokenize text", "/detokenize", "{\"tokens\":\"a\"}", 400, "tokens", "list"},
    {"no such path", "/v1/nothing", "{}", 404, NULL, "/v1/nothing"},
    {"post to health", "/health", "{}", 405, NULL, "GET"},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct reply r;
    server_post(&server, row->path, row->body, &r);
    reply_assert_error(&r, row->status, row->param, row->part);
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
    server_post(&server, TEXT, body.p, &r);
    reply_assert_error(&r, 400, NULL, "nest");
    reply_finish(&r);
    body.len = 0;
    dgl_buf_puts(&body, "{\"prompt\":\"a\",\"stop\":[\"x\"");
    for (int i = 0; i < 64; i++)
        dgl_buf_puts(&body, ",\"x\"");
    dgl_buf_puts(&body, "]}");
    server_post(&server, TEXT, body.p, &r);
    reply_assert_error(&r, 400, "stop", "65");
    reply_finish(&r);
    body.len = 0;
    dgl_buf_puts(&body, "{\"prompt\":[1");
    for (int i = 0; i < 512; i++)
        dgl_buf_puts(&body, ",1");
    dgl_buf_puts(&body, "]}");
    server_post(&server, TEXT, body.p, &r);
    reply_assert_error(&r, 400, "prompt", "513 tokens, the context holds 512");
    assert_contains(r.body, "context_length_exceeded");
    reply_finish(&r);
    body.len = 0;
    dgl_buf_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 4096; i++)
        dgl_buf_puts(&body, "a");
    dgl_buf_puts(&body, "\"}");
    server_post(&server, TEXT, body.p, &r);
    reply_assert_error(&r, 413, NULL, "4096");
    reply_finish(&r);
    /* The same in chunks, of unknown length; and one that is announced and stays away. */
    const int fd = server_connect(&server);
    struct dgl_buf out = {0};
    dgl_buf_printf(&out,
                   "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: "
                   "chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
                   TEXT, body.len, body.p);
    assert_true(server_send(fd, out.p, out.len));
    server_receive(fd, NULL, &r);
    reply_assert_error(&r, 413, NULL, "4096");
    reply_finish(&r);
    close(fd);
    server_call(&server, "POST", TEXT, "Content-Length: 99999999999999\r\n", NULL, &r);
    reply_assert_error(&r, 413, NULL, "99999999999999");
    reply_finish(&r);
    dgl_buf_finish(&out);
    dgl_buf_finish(&body);
}

/* ---- replies -----------------------------------------------------------------------------------
 */

/* Returns the text of all events of a stream. */
static void join_stream(const struct reply *r, struct dgl_buf *text, size_t *events)
{
    struct dgl_str rest = {r->body, r->len};
    struct dgl_json_doc *doc = NULL;
    *events = 0;
    while (reply_next_event(&rest, &doc)) {
        const struct dgl_json *c = dgl_json_first(dgl_json_get(dgl_json_root(doc), "choices"));
        struct dgl_str part = dgl_json_str(dgl_json_get(c, "text"));
        if (part.len == 0)
            part = dgl_json_str(dgl_json_get(dgl_json_get(c, "delta"), "content"));
        dgl_buf_append(text, part.p, part.len);
        dgl_json_destroy(&doc);
        ++*events;
    }
    dgl_buf_append(text, "", 0);
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
    {"logprobs of what is not the best", TEXT, /* it comes with the best */
     "\"prompt\":\"Once\",\"temperature\":0,\"max_tokens\":5,\"logprobs\":1,\"ignore_eos\":true,"
     "\"logit_bias\":{\"132\":100}",
     5, "length"},
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
    server_post(&server, row->path, body.p, &whole);
    server_post(&server, row->path, body.p, &again);
    body.len = 0;
    dgl_buf_printf(&body, "{%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
                   row->fields);
    server_post(&server, row->path, body.p, &stream);
    const struct dgl_str want = reply_text(&whole, 0);
    assert_string_equal(reply_text(&again, 0).p, want.p);
    assert_int_equal(stream.status, 200);
    assert_contains(stream.head, "text/event-stream");
    join_stream(&stream, &text, &events);
    assert_string_equal(text.p, want.p);
    assert_true(events > 2);
    const struct dgl_json *root = reply_json(&whole), *usage = dgl_json_get(root, "usage"),
                          *choice = dgl_json_first(dgl_json_get(root, "choices"));
    assert_int_equal(reply_number(usage, "completion_tokens"), row->tokens);
    assert_int_equal(reply_number(usage, "total_tokens"),
                     reply_number(usage, "prompt_tokens") + (int64_t)row->tokens);
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
        const struct dgl_json *of =
            chat ? dgl_json_first(list) : logprobs; /* whose "top_logprobs" */
        const struct dgl_json *top = dgl_json_get(of, "top_logprobs");
        assert_int_equal(dgl_json_count(chat ? top : dgl_json_first(top)), 2);
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
    server_post(&server, path, a, &first);
    server_post(&server, path, b, &second);
    assert_string_equal(reply_text(&first, 0).p, reply_text(&second, 0).p);
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

/* ---- continued messages ---- */

#define TALK_ON                                                                                    \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story\"},"                          \
    "{\"role\":\"assistant\",\"content\":"
static const struct continued {
    const char *name, *body;
    bool continues;
} continued[] = {
    {"as in vLLM",
     TALK_ON
     "\"Once there was a\"}],\"continue_final_message\":true,\"add_generation_prompt\":false" TAIL,
     true},
    {"continue_final_message alone",
     TALK_ON "\"Once there was a\"}],\"continue_final_message\":true" TAIL, true},
    {"as in llama-server", TALK_ON "\"Once there was a\"}]" TAIL, true},
    {"parts",
     TALK_ON
     "[{\"type\":\"text\",\"text\":\"Once there\"},{\"type\":\"text\",\"text\":\" was a\"}]}]" TAIL,
     true},
    {"not", TALK_ON "\"Once there was a\"}],\"continue_final_message\":false" TAIL, false},
    {"a new answer", TALK_ON "\"Once there was a\"}],\"add_generation_prompt\":true" TAIL, false},
};

/* The answer to a continued message is the rest of the message, as a completion has it. */
static void test_continued(void **state)
{
    const struct continued *row = *state;
    struct reply ids, chat, text;
    /* Ids, because the server puts BOS before a text. The bundled template does not write it. */
    server_post(
        &server, "/tokenize",
        "{\"content\":\"<|user|>\\nTell me a story<|end|>\\n<|assistant|>\\nOnce there was a\"}",
        &ids);
    struct dgl_buf body = {0};
    const char *list = strchr(ids.body, '[');
    assert_non_null(list);
    dgl_buf_printf(&body, "{\"prompt\":%.*s" TAIL, (int)strcspn(list, "}"), list);
    server_post(&server, TEXT, body.p, &text);
    server_post(&server, CHAT, row->body, &chat);
    assert_int_equal(text.status, 200);
    if (chat.status != 200)
        fail_msg("%s", chat.body);
    const struct dgl_json *a = dgl_json_first(dgl_json_get(reply_json(&chat), "choices")),
                          *b = dgl_json_first(dgl_json_get(reply_json(&text), "choices"));
    const struct dgl_str got = dgl_json_str(dgl_json_get(dgl_json_get(a, "message"), "content")),
                         want = dgl_json_str(dgl_json_get(b, "text"));
    if (dgl_str_equal(got, want) != row->continues)
        fail_msg("got \"%.*s\", the completion is \"%.*s\"", (int)got.len, got.p, (int)want.len,
                 want.p);
    dgl_buf_finish(&body);
    reply_finish(&ids);
    reply_finish(&chat);
    reply_finish(&text);
}

static void several_choices_and_prompts(void **state)
{
    (void)state;
    struct reply r, one;
    server_post(
        &server, TEXT,
        "{\"prompt\":[\"Once\",\"A dog\"],\"n\":2,\"seed\":3,\"max_tokens\":5,\"temperature\":1}",
        &r);
    const struct dgl_json *choices = dgl_json_get(reply_json(&r), "choices");
    assert_int_equal(dgl_json_count(choices), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(reply_number(dgl_json_at(choices, i), "index"), i);
    assert_int_equal(reply_number(dgl_json_get(reply_json(&r), "usage"), "completion_tokens"), 20);
    /* The second choice of the second prompt is that prompt's with the next seed. */
    server_post(&server, TEXT,
                "{\"prompt\":\"A dog\",\"seed\":4,\"max_tokens\":5,\"temperature\":1}", &one);
    assert_string_equal(reply_text(&r, 3).p, reply_text(&one, 0).p);
    reply_finish(&r);
    reply_finish(&one);
}

#define STORY "{\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":12"

/* Each byte that is not part of a character becomes one replacement character. */
static void lone_bytes_have_their_places(void **state)
{
    struct reply r;
    (void)state;
    server_post(&server, TEXT,
                "{\"prompt\":[0,69,132],\"logit_bias\":{\"132\":30},\"max_tokens\":12,"
                "\"temperature\":0,\"logprobs\":1}",
                &r);
    const struct dgl_json *choice = dgl_json_first(dgl_json_get(reply_json(&r), "choices"));
    const struct dgl_json *offsets = dgl_json_get(dgl_json_get(choice, "logprobs"), "text_offset");
    assert_int_equal(dgl_json_count(offsets), 12);
    for (size_t i = 0; i < 12; i++)
        if (dgl_json_f64(dgl_json_at(offsets, i)) != (double)i)
            fail_msg("token %zu is at %g", i, dgl_json_f64(dgl_json_at(offsets, i)));
    reply_finish(&r);
}

/* The tokens, their start offsets and the text agree. */
static const struct dgl_json *offsets_of(struct reply *r, const char *text)
{
    const struct dgl_json *choice = dgl_json_first(dgl_json_get(reply_json(r), "choices")),
                          *logprobs = dgl_json_get(choice, "logprobs"),
                          *offsets = dgl_json_get(logprobs, "text_offset");
    size_t want = 0;
    assert_int_equal(dgl_json_count(offsets), 12);
    for (size_t i = 0; i < 12; i++) {
        const struct dgl_str token = dgl_json_str(dgl_json_at(dgl_json_get(logprobs, "tokens"), i));
        assert_true(dgl_json_f64(dgl_json_at(offsets, i)) == (double)want);
        assert_memory_equal(text + want, token.p, token.len);
        want += token.len;
    }
    assert_int_equal(want, strlen(text));
    return offsets;
}

/* Stop strings that two tokens spell, whole and streamed. */
static void stop_strings_end_answers(void **state)
{
    (void)state;
    struct reply whole;
    server_post(&server, TEXT, STORY ",\"logprobs\":0}", &whole);
    const struct dgl_str text = reply_text(&whole, 0);
    const struct dgl_json *offsets = offsets_of(&whole, text.p);
    for (size_t i = 1; i < 12; i += 4) {
        const size_t border = (size_t)dgl_json_f64(dgl_json_at(offsets, i));
        const char stop[] = {text.p[border - 1], text.p[border], text.p[border + 1], 0};
        for (int stream = 0; stream < 2; stream++) {
            struct dgl_buf body = {0}, got = {0};
            struct reply cut;
            size_t events;
            dgl_buf_printf(&body, STORY ",\"stop\":[\"zzz\",\"%s\"]%s}", stop,
                           stream ? ",\"stream\":true" : "");
            server_post(&server, TEXT, body.p, &cut);
            if (stream)
                join_stream(&cut, &got, &events);
            else
                dgl_buf_puts(&got, reply_text(&cut, 0).p);
            assert_int_equal(got.len, (size_t)(strstr(text.p, stop) - text.p));
            assert_memory_equal(got.p, text.p, got.len);
            assert_contains(cut.body, "\"finish_reason\": \"stop\"");
            reply_finish(&cut);
            dgl_buf_finish(&got);
            dgl_buf_finish(&body);
        }
    }
    reply_finish(&whole);
}

/* Every choice of a stream is that of the whole answer. */
static void choices_are_streamed_by_index(void **state)
{
    (void)state;
#define SEVERAL "{\"prompt\":[\"Once\",\"A dog\"],\"n\":2,\"seed\":3,\"max_tokens\":5"
    struct dgl_buf texts[4] = {{0}};
    struct reply whole, stream;
    server_post(&server, TEXT, SEVERAL "}", &whole);
    server_post(&server, TEXT, SEVERAL ",\"stream\":true}", &stream);
    struct dgl_str rest = {stream.body, stream.len};
    struct dgl_json_doc *doc = NULL;
    while (reply_next_event(&rest, &doc)) {
        const struct dgl_json *c = dgl_json_first(dgl_json_get(dgl_json_root(doc), "choices"));
        const int64_t index = reply_number(c, "index");
        assert_in_range(index, 0, 3);
        dgl_buf_puts(&texts[index], dgl_json_str(dgl_json_get(c, "text")).p);
        dgl_json_destroy(&doc);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(texts[i].p, reply_text(&whole, i).p);
        dgl_buf_finish(&texts[i]);
    }
    reply_finish(&whole);
    reply_finish(&stream);
}

/* +100 is as good as sure, -100 as never. */
static void biases_of_tokens_count(void **state)
{
    (void)state;
    struct reply plain, biased, text;
    server_post(&server, TEXT, STORY ",\"logit_bias\":{\"300\":100}}", &biased);
    server_post(&server, "/detokenize",
                "{\"tokens\":[300,300,300,300,300,300,300,300,300,300,300,300]}", &text);
    assert_string_equal(reply_text(&biased, 0).p,
                        dgl_json_str(dgl_json_get(reply_json(&text), "content")).p);
    reply_finish(&biased);
    reply_finish(&text);
    server_post(&server, TEXT, STORY "}", &plain);
    server_call(&server, "POST", "/tokenize", "", "{\"content\":\",\"}", &text);
    const int64_t comma =
        (int64_t)dgl_json_f64(dgl_json_first(dgl_json_get(reply_json(&text), "tokens")));
    assert_true(reply_text(&plain, 0).p[0] == ',');
    char body[256];
    snprintf(body, sizeof(body), STORY ",\"logit_bias\":{\"%lld\":-100}}", (long long)comma);
    server_post(&server, TEXT, body, &biased);
    assert_false(reply_text(&biased, 0).p[0] == ',');
    reply_finish(&plain);
    reply_finish(&biased);
    reply_finish(&text);
}

/* Text of a user stays text, even if it spells a special token. */
static void control_tokens_of_users_stay_text(void **state)
{
    (void)state;
    struct reply plain, special;
    server_post(&server, CHAT, "{" SAY ",\"max_tokens\":1,\"seed\":1}", &plain);
    server_post(&server, CHAT,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"a<|endoftext|></s><|im_end|>\"}],"
                "\"max_tokens\":1,\"seed\":1}",
                &special);
    assert_int_equal(special.status, 200);
    const int64_t more =
        reply_number(dgl_json_get(reply_json(&special), "usage"), "prompt_tokens") -
        reply_number(dgl_json_get(reply_json(&plain), "usage"), "prompt_tokens");
    assert_true(more > 6); /* letters, not three tokens */
    reply_finish(&plain);
    reply_finish(&special);
}

static void embeddings_are_vectors(void **state)
{
    (void)state;
    struct reply r, coded;
    server_post(&server, "/v1/embeddings", "{\"input\":[\"a dog\",\"a cat\"]}", &r);
    assert_int_equal(r.status, 200);
    const struct dgl_json *data = dgl_json_get(reply_json(&r), "data");
    assert_int_equal(dgl_json_count(data), 2);
    const struct dgl_json *row = dgl_json_get(dgl_json_at(data, 1), "embedding");
    double sum = 0;
    for (const struct dgl_json *v = dgl_json_first(row); v; v = dgl_json_next(v))
        sum += dgl_json_f64(v) * dgl_json_f64(v);
    assert_near(sum, 1.0, 1e-4);
    server_post(&server, "/v1/embeddings", "{\"input\":\"a cat\",\"encoding_format\":\"base64\"}",
                &coded);
    const struct dgl_str text = dgl_json_str(
        dgl_json_get(dgl_json_first(dgl_json_get(reply_json(&coded), "data")), "embedding"));
    assert_int_equal(text.len, (dgl_json_count(row) * 4 + 2) / 3 * 4);
    /* The first number decoded by hand: six digits of base64 contain its 32 bits. */
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

/* Sum of p-th powers of an embedding's values; p = 0 is the largest magnitude. */
static double embedding_norm(struct reply *r, size_t index, int p, size_t *count)
{
    const struct dgl_json *row =
        dgl_json_get(dgl_json_at(dgl_json_get(reply_json(r), "data"), index), "embedding");
    double sum = 0;
    *count = dgl_json_count(row);
    for (const struct dgl_json *v = dgl_json_first(row); v; v = dgl_json_next(v))
        sum = p ? sum + pow(fabs(dgl_json_f64(v)), p) : fmax(sum, fabs(dgl_json_f64(v)));
    return sum;
}

/* More inputs than a request has choices, with few values each. */
static void embeddings_of_many_inputs_are_short(void **state)
{
    enum { INPUTS = 300, DIMENSIONS = 5 };
    static const struct {
        int norm, power;
        double want;
    } norms[] = {{2, 2, 1}, {1, 1, 1}, {3, 3, 1}, {0, 0, 32760}};
    struct dgl_buf body = {0};
    struct reply r;
    size_t count;
    (void)state;
    dgl_buf_puts(&body, "{\"dimensions\":5,\"input\":[");
    for (int i = 0; i < INPUTS; i++)
        dgl_buf_printf(&body, "%s[%d,%d]", i ? "," : "", 20 + i, 21 + i);
    dgl_buf_puts(&body, "]}");
    server_post(&server, "/v1/embeddings", body.p, &r);
    assert_int_equal(r.status, 200);
    assert_int_equal(dgl_json_count(dgl_json_get(reply_json(&r), "data")), INPUTS);
    assert_near(embedding_norm(&r, INPUTS - 1, 2, &count), 1, 1e-5);
    assert_int_equal(count, DIMENSIONS);
    reply_finish(&r);
    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++) {
        char text[96];
        snprintf(text, sizeof(text), "{\"input\":\"a cat\",\"embd_normalize\":%d}", norms[i].norm);
        server_post(&server, "/v1/embeddings", text, &r);
        assert_near(embedding_norm(&r, 0, norms[i].power, &count), norms[i].want,
                    1e-4 * norms[i].want);
        reply_finish(&r);
    }
    dgl_buf_finish(&body);
}

static void tokens_go_there_and_back(void **state)
{
    (void)state;
    struct reply ids, text;
    struct dgl_buf body = {0};
    server_post(&server, "/tokenize", "{\"content\":\"Once upon\\na t\\u00efme\"}", &ids);
    const char *list = strchr(ids.body, '[');
    assert_non_null(list);
    dgl_buf_printf(&body, "{\"tokens\":%s", list);
    server_post(&server, "/detokenize", body.p, &text);
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
    {"health, spelled another way", "GET", "/%68ealth", 200, "application/json"},
    {"health and U+0000", "GET", "/health%00x", 404, "application/json"},
    {"half a byte", "GET", "/health%0", 404, "application/json"},
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
    snprintf(out, sizeof(out), "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
             row->method, row->path);
    assert_true(server_send(fd, out, strlen(out)));
    struct dgl_buf all = {0};
    server_expect(&server, fd, "\r\n\r\n", &all);
    assert_int_equal(sscanf(all.p, "HTTP/1.1 %d", &r.status), 1);
    assert_int_equal(r.status, row->status);
    assert_contains(all.p, row->head);
    assert_null(strstr(all.p, "Access-Control-Allow-Origin"));
    dgl_buf_finish(&all);
    close(fd);
}

static int start_server(void **state)
{
    (void)state;
    server_start(&server, (const char *const[]){"--parallel", "2", "--queue", "2", "--max-body",
                                                "4096", "-c", "512", NULL});
    return 0;
}

int main(void)
{
    const struct CMUnitTest with_server[] = {
        cmocka_unit_test(lone_bytes_have_their_places),
        cmocka_unit_test(long_bodies_are_refused),
        cmocka_unit_test(words_mean_the_same),
        cmocka_unit_test(several_choices_and_prompts),
        cmocka_unit_test(choices_are_streamed_by_index),
        cmocka_unit_test(stop_strings_end_answers),
        cmocka_unit_test(biases_of_tokens_count),
        cmocka_unit_test(control_tokens_of_users_stay_text),
        cmocka_unit_test(embeddings_are_vectors),
        cmocka_unit_test(embeddings_of_many_inputs_are_short),
        cmocka_unit_test(tokens_go_there_and_back),
    };
    int failures = cmocka_run_group_tests_name("serve", with_server, start_server, NULL);
    failures += test_run_table("serve: continued", test_continued, continued);
    failures += test_run_table("serve: refusal", test_refusal, refusals);
    failures += test_run_table("serve: answer", test_pair, pairs);
    failures += test_run_table("serve: method", test_method, methods);
    server_end(&server);
    return failures;
}
