/* Memory of requests: serve_request_cost() is above the memory that reading, rendering and
 * tokenizing a body takes. The test counts every allocation of our own code and of cJSON. */
#include <cjson/cJSON.h>
#include <malloc.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "tools/serve/serve_request.h"

/* ---- counting -------------------------------------------------------------------------------- */

static uint64_t held, peak;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static void *count(void *p)
{
    held += p ? malloc_usable_size(p) : 0;
    peak = held > peak ? held : peak;
    return p;
}

void *__wrap_malloc(size_t size)
{
    return count(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    const size_t before = p ? malloc_usable_size(p) : 0;
    void *to = __real_realloc(p, size);
    if (to)
        held -= before;
    return count(to);
}

void __wrap_free(void *p)
{
    /* Texts of strdup() were not counted. */
    const size_t size = p ? malloc_usable_size(p) : 0;
    held -= size < held ? size : held;
    __real_free(p);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* `unit` is repeated `times` times between `before` and `after`. */
struct body {
    const char *name;
    enum serve_kind kind;
    const char *before, *unit;
    size_t times;
    const char *after;
};
#define CALL                                                                                       \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","                \
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
#define END "}}]}]}"
static const struct body bodies[] = {
    {"text", SERVE_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"", "a b ", 100000,
     "\"}]}"},
    {"messages", SERVE_CHAT, "{\"messages\":[", "{\"role\":\"user\",\"content\":\"a\"},", 10000,
     "{\"role\":\"user\",\"content\":\"a\"}]}"},
    {"parts", SERVE_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[",
     "{\"type\":\"text\",\"text\":\"a\"},", 10000, "{\"type\":\"text\",\"text\":\"a\"}]}]}"},
    {"arguments as an object", SERVE_CHAT, CALL "{\"a\":[", "1,", 100000, "1]}" END},
    {"arguments as text", SERVE_CHAT, CALL "\"{\\\"a\\\":[", "1,", 100000, "1]}\"" END},
    {"escaped commas in arguments", SERVE_CHAT, CALL "\"{\\\"a\\\":[", "1\\u002C", 100000,
     "1]}\"" END},
    {"escaped brackets in arguments", SERVE_CHAT, CALL "\"{\\\"a\\\":[",
     "\\u005b\\u007b\\u007d\\u005d,", 30000, "1]}\"" END},
    {"keys in arguments", SERVE_CHAT, CALL "\"[", "{\\\"a\\\":{}},", 30000, "1]\"" END},
    {"tools", SERVE_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[",
     "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}},", 10000,
     "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}"},
    {"text of a completion", SERVE_COMPLETION, "{\"prompt\":\"", "a b ", 100000, "\"}"},
    {"short words", SERVE_COMPLETION, "{\"prompt\":\"", "!", 400000, "\"}"},
    {"ids", SERVE_COMPLETION, "{\"prompt\":[", "1,", 100000, "1]}"},
    {"inputs", SERVE_EMBEDDING, "{\"input\":[", "\"a\",", 100000, "\"a\"]}"},
};

static struct dgl_tokenizer *tok;
static struct dgl_template *tmpl;

static void test_cost(void **state)
{
    static const struct serve_defaults defaults = {.sampling = {.temperature = 1, .top_p = 1},
                                                   .seed = -1};
    const struct body *row = *state;
    struct dgl_buf body = {0};
    struct serve_request r;
    struct serve_error error = {0};
    int32_t *ids = NULL;
    size_t num_ids = 0;
    dgl_buf_puts(&body, row->before);
    for (size_t i = 0; i < row->times; i++)
        dgl_buf_puts(&body, row->unit);
    dgl_buf_puts(&body, row->after);
    assert_false(body.failed);
    held = peak = 0;
    if (!serve_request_read(row->kind, &defaults, body.p, body.len, &r, &error))
        fail_msg("%s: %s", row->name, error.message);
    const struct dgl_log *log = dgl_log_stderr();
    if (row->kind == SERVE_CHAT)
        assert_int_equal(dgl_render_ids(log, tmpl, tok,
                                        dgl_render_params(.messages = r.messages.p,
                                                          .messages_len = r.messages.len,
                                                          .add_generation_prompt = true),
                                        &ids, &num_ids),
                         DGL_OK);
    else if (!r.prompts[0].ids)
        assert_int_equal(dgl_encode(log, tok, r.prompts[0].text.p, r.prompts[0].text.len,
                                    dgl_encode_params(.add_special = true), &ids, &num_ids),
                         DGL_OK);
    const uint64_t cost = serve_request_cost(body.p, body.len);
    printf("# %s: %zu bytes take %llu, charged %llu\n", row->name, body.len,
           (unsigned long long)peak, (unsigned long long)cost);
    if (peak > cost)
        fail_msg("%s: %zu bytes of a body take %llu bytes, but %llu are charged", row->name,
                 body.len, (unsigned long long)peak, (unsigned long long)cost);
    dgl_free(ids);
    serve_request_finish(&r);
    dgl_buf_finish(&body);
}

/* The values in the arguments of all calls are limited, whatever memory there is. */
static void values_of_arguments_are_limited(void **state)
{
    static const struct serve_defaults defaults = {.sampling = {.temperature = 1, .top_p = 1}};
    static const char *const commas[] = {",", "\\u002c"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dgl_buf body = {0};
        struct serve_request r;
        struct serve_error error = {0};
        dgl_buf_puts(&body, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
        for (int call = 0; call < 2; call++) {
            dgl_buf_printf(&body, "%s{\"function\":{\"name\":\"f\",\"arguments\":\"[1",
                           call ? "," : "");
            for (int k = 0; k < SERVE_MAX_VALUES / 2; k++)
                dgl_buf_printf(&body, "%s1", commas[i]);
            dgl_buf_puts(&body, "]\"}}");
        }
        dgl_buf_puts(&body, "]}]}");
        assert_false(serve_request_read(SERVE_CHAT, &defaults, body.p, body.len, &r, &error));
        assert_int_equal(error.status, 400);
        assert_contains(error.message, "more than 500000 values");
        serve_request_finish(&r);
        dgl_buf_finish(&body);
    }
}

/* A variable of the server's command line is written once, whatever sets it in a request. Else its
 * object would have a key twice. */
struct variables {
    const char *name, *defaults, *fields;
    const char *want; /* a part of the variables; without the other values of the key */
};
static const struct variables variables[] = {
    {"the default", "{\"enable_thinking\":true}", "", "\"enable_thinking\": true"},
    {"an effort of none", "{\"enable_thinking\":true}", ",\"reasoning_effort\":\"none\"",
     "\"enable_thinking\": false"},
    {"another effort", "{\"enable_thinking\":true}", ",\"reasoning_effort\":\"low\"",
     "\"enable_thinking\": true"},
    {"an effort as a default", "{\"reasoning_effort\":\"low\"}", ",\"reasoning_effort\":\"high\"",
     "\"reasoning_effort\": \"high\""},
    {"the request", "{\"enable_thinking\":true}",
     ",\"reasoning_effort\":\"none\",\"chat_template_kwargs\":{\"enable_thinking\":7}",
     "\"enable_thinking\": 7"},
};

static void test_variables(void **state)
{
    const struct variables *row = *state;
    struct serve_defaults defaults = {.sampling = {.temperature = 1, .top_p = 1}, .seed = -1};
    struct dgl_json_doc *doc = NULL, *made = NULL;
    struct dgl_buf body = {0};
    struct serve_request r;
    struct serve_error error = {0};
    assert_int_equal(dgl_json_parse(NULL, "defaults", row->defaults, strlen(row->defaults), &doc),
                     DGL_OK);
    defaults.variables = dgl_json_root(doc);
    dgl_buf_printf(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]%s}", row->fields);
    if (!serve_request_read(SERVE_CHAT, &defaults, body.p, body.len, &r, &error))
        fail_msg("%s: %s", row->name, error.message);
    if (dgl_json_parse(NULL, "variables", r.messages.p, r.messages.len, &made) != DGL_OK)
        fail_msg("%s: no JSON with keys that differ: %s", row->name, r.messages.p);
    assert_contains(r.messages.p, row->want);
    serve_request_finish(&r);
    dgl_json_destroy(&made);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&body);
}

int main(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = __wrap_malloc, .free_fn = __wrap_free});
    assert_int_equal(dgl_tokenizer_load(NULL, "tests/models/story-llama-q4_k_m", &tok), DGL_OK);
    assert_int_equal(
        dgl_template_load(NULL,
                          dgl_template_params(.path = "tests/models/story-llama-q4_k_m",
                                              .file = "tests/data/templates/tools.jinja"),
                          &tmpl),
        DGL_OK);
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_of_arguments_are_limited)};
    int failures = test_run_table("cost", test_cost, bodies);
    failures += test_run_table("variables", test_variables, variables);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    dgl_template_destroy(&tmpl);
    dgl_tokenizer_destroy(&tok);
    return failures;
}
