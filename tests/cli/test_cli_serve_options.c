/* Options of `dopplergl serve` that set defaults of requests or come from llama-server. */
#include "tests/support/server.h"

#include <stdlib.h>

#include "tests/support/process.h"
#include "tests/support/test.h"

#define CHAT    "/v1/chat/completions"
#define TEXT    "/v1/completions"
#define MISSING TEST_MISSING "/m"

/* ---- flags ----------------------------------------------------------------------------------- */

struct flag {
    const char *args[4];
    int code;         /* 1: accepted, and the model is missing; 2: refused */
    const char *said; /* a part of standard error; NULL: only the error about the model */
};
static const struct flag flags[] = {
    {{"--temp", "0.5"}, 1, NULL},
    {{"--temperature", "0.5"}, 1, NULL},
    {{"--top-k", "20"}, 1, NULL},
    {{"--top-p", "0.5"}, 1, NULL},
    {{"--min-p", "0.1"}, 1, NULL},
    {{"--repeat-penalty", "1.1"}, 1, NULL},
    {{"-s", "7"}, 1, NULL},
    {{"-n", "20"}, 1, NULL},
    {{"--predict", "20"}, 1, NULL},
    {{"--dry-multiplier", "0.8"}, 1, NULL},
    {{"--chat-template-kwargs", "{\"enable_thinking\":false}"}, 1, NULL},
    {{"--reasoning-format", "none"}, 1, NULL},
    {{"--api-prefix", "/llm"}, 1, NULL},
    {{"--no-webui"}, 1, NULL},
    {{"--webui"}, 1, "--webui has no effect"},
    {{"--slots"}, 1, "--slots has no effect: the load is in /metrics"},
    {{"--props"}, 1, "--props has no effect"},
    {{"--threads-http", "4"}, 1, "--threads-http has no effect"},
    {{"--cache-reuse", "256"}, 1, "--cache-reuse has no effect"},
    {{"--kv-unified"}, 1, "--kv-unified has no effect"},
    {{"--no-context-shift"}, 1, "--no-context-shift has no effect"},
    {{"--no-warmup"}, 1, "--no-warmup has no effect"},
    {{"--context-shift"}, 2, "--context-shift: a full context ends an answer"},
    {{"--slot-save-path", "x"}, 2, "--slot-save-path: there are no slots"},
    {{"--chat-template", "chatml"}, 2, "--chat-template: templates have no built-in names"},
    {{"--reasoning-budget", "0"}, 2, "enable_thinking"},
    {{"--path", "x"}, 2, "--path: the page is built in"},
    {{"-lv", "1"}, 2, "-lv: more messages"},
    {{"--mmproj", "x"}, 2, "--mmproj: images are not read"},
    {{"-md", "x"}, 2, "-md: there is no speculative decoding"},
    {{"--grammar", "x"}, 2, "each request names its own"},
    {{"--temp", "-1"}, 2, "--temp -1: wanted a number"},
    {{"--chat-template-kwargs", "[]"}, 2, "--chat-template-kwargs: an array, wanted an object"},
    {{"--chat-template-kwargs", "{"}, 2, "--chat-template-kwargs"},
    {{"--chat-template-kwargs", "{\"messages\":[]}"}, 2, "comes with each request"},
    {{"--api-prefix", "llm"}, 2, "--api-prefix llm: wanted a path"},
    {{"--reasoning-format", "x"}, 2, "--reasoning-format x: wanted one of"},
};

static void every_flag_is_understood_or_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const struct flag *row = &flags[i];
        struct process_result r;
        process_run(
            &(const struct process_params){
                .args = (const char *const[]){"serve", "-m", MISSING, "--device", "any", "--port",
                                              "0", row->args[0], row->args[1], NULL}},
            &r);
        if (r.code != row->code || (row->said && !strstr(r.err, row->said)) ||
            (!row->said && strstr(r.err, "has no effect")))
            fail_msg("%s: exit code %d, wanted %d with \"%s\": %s", row->args[0], r.code, row->code,
                     row->said ? row->said : "", r.err);
        process_finish(&r);
    }
}

/* ---- defaults -------------------------------------------------------------------------------- */

static int64_t used(struct reply *r, const char *field)
{
    if (r->status != 200)
        fail_msg("status %d: %s", r->status, r->body);
    return reply_number(dgl_json_get(reply_json(r), "usage"), field);
}

static int64_t prompt_tokens(const struct server *s, const char *kwargs)
{
    struct dgl_buf body = {0};
    struct reply r;
    dgl_buf_printf(&body,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":1%s}",
                   kwargs);
    server_post(s, "/llm" CHAT, body.p, &r);
    const int64_t tokens = used(&r, "prompt_tokens");
    reply_finish(&r);
    dgl_buf_finish(&body);
    return tokens;
}

static char *answer(const struct server *s, const char *fields, int64_t *tokens)
{
    struct dgl_buf body = {0};
    struct reply r;
    dgl_buf_printf(&body, "{\"prompt\":\"Once upon a time\",\"ignore_eos\":true%s}", fields);
    server_post(s, "/llm" TEXT, body.p, &r);
    *tokens = used(&r, "completion_tokens");
    const struct dgl_str text = reply_text(&r, 0);
    char *copy = checked(strndup(text.p, text.len));
    reply_finish(&r);
    dgl_buf_finish(&body);
    return copy;
}

static void requests_have_the_defaults_of_the_options(void **state)
{
    static const char template[] =
        "{% if words is defined %}{{ words }} {% endif %}{{ messages[0]['content'] }}";
    (void)state;
    struct server s;
    struct reply r;
    char *dir = test_tmpdir(), file[256];
    int64_t first, second, third;
    snprintf(file, sizeof(file), "%s/template", dir);
    test_write_file(dir, "template", template, sizeof(template) - 1);
    server_start(&s, (const char *const[]){"-c", "128", "--temp", "0", "-n", "5", "--api-prefix",
                                           "/llm/", "--no-page", "--template", file,
                                           "--chat-template-kwargs",
                                           "{\"words\":\"one two three\"}", NULL});
    char *greedy = answer(&s, "", &first), *same = answer(&s, "", &second),
         *drawn = answer(&s, ",\"temperature\":0,\"max_tokens\":7", &third);
    assert_int_equal(first, 5);
    assert_int_equal(second, 5);
    assert_int_equal(third, 7);
    assert_string_equal(greedy, same);
    if (strncmp(drawn, greedy, strlen(greedy)) != 0)
        fail_msg("--temp 0 is '%s', temperature 0 '%s'", greedy, drawn);
    const int64_t with = prompt_tokens(&s, ""),
                  other = prompt_tokens(&s, ",\"chat_template_kwargs\":{\"words\":\"\"}");
    if (with <= other)
        fail_msg("%lld tokens with the variable of the option, %lld with that of the request",
                 (long long)with, (long long)other);
    static const struct {
        const char *path;
        int status;
    } paths[] = {{"/llm/", 404},       {"/llm", 404},           {"/health", 404},
                 {"/llm/health", 200}, {"/llm/v1/models", 200}, {"/llmx/health", 404}};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        server_call(&s, "GET", paths[i].path, "", NULL, &r);
        if (r.status != paths[i].status)
            fail_msg("%s: status %d, wanted %d", paths[i].path, r.status, paths[i].status);
        reply_finish(&r);
    }
    free(greedy);
    free(same);
    free(drawn);
    server_end(&s);
    test_tmpdir_remove(dir);
}

/* Returns an answer of a server with these options. */
static char *answer_with(const char *const options[4])
{
    struct server s;
    struct reply r;
    server_start(&s, (const char *const[]){"-c", "256", "--temp", "0", "-n", "100", options[0],
                                           options[1], options[2], options[3], NULL});
    server_post(&s, TEXT, "{\"prompt\":\"Once upon a time\",\"ignore_eos\":true}", &r);
    const struct dgl_str text = reply_text(&r, 0);
    char *copy = checked(strndup(text.p, text.len));
    reply_finish(&r);
    server_end(&s);
    return copy;
}

/* Each option changes the answer, with the values of the others that `generate` has. */
static void every_default_counts(void **state)
{
    static const char *const options[][4] = {
        {"--dry-multiplier", "50", "--dry-allowed-length", "1"},
        {"--repeat-penalty", "2"},
        {"--frequency-penalty", "2"}};
    static const char *const none[4] = {NULL};
    (void)state;
    char *plain = answer_with(none);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        char *other = answer_with(options[i]);
        if (strcmp(plain, other) == 0)
            fail_msg("%s %s changes nothing: %s", options[i][0], options[i][1], plain);
        free(other);
    }
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flag_is_understood_or_explained),
        cmocka_unit_test(requests_have_the_defaults_of_the_options),
        cmocka_unit_test(every_default_counts),
    };
    return cmocka_run_group_tests_name("serve: options", tests, NULL, NULL);
}
