/* Required forms of answers over HTTP: each field that names one, in whole and streamed answers,
 * and forced calls of tools. Complete answers are parsed, or matched by POSIX regular expressions.
 */
#include <regex.h>
#include <stdlib.h>

#include "tests/support/server.h"
#include "tests/support/test.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"

static char *folder;
static struct server server;

/* Templates in the Hermes form. */
#define RENDER                                                                                     \
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %} +{{ tools | length }}"       \
    "{% endif %}\n"
static const char calls_only[] = "{# <tool_call> #}" RENDER;
static const char thinks[] = "{# <tool_call> <think> #}" RENDER;
static const char opened[] = "{# <tool_call> #}" RENDER "<think>\n";

/* Answers of one template use one server. NULL is the model's own template. */
static void use_template(const char *tmpl)
{
    static const char *running;
    static bool runs;
    char path[512];
    if (runs && running == tmpl)
        return;
    if (runs)
        server_end(&server);
    if (tmpl)
        test_write_file(folder, "t.jinja", tmpl, strlen(tmpl));
    snprintf(path, sizeof(path), "%s/t.jinja", folder);
    server_start(&server,
                 (const char *const[]){"-c", "512", tmpl ? "--template" : NULL, path, NULL});
    running = tmpl;
    runs = true;
}

/* ---- judges ---------------------------------------------------------------------------------- */

static bool matches(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    const bool ok = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return ok;
}

static bool is_object(const struct dgl_json *v)
{
    return dgl_json_is(v, DGL_JSON_OBJECT);
}

#define POINT                                                                                      \
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\",\"minimum\":-9,"             \
    "\"maximum\":9},\"word\":{\"type\":\"string\",\"maxLength\":8},\"kind\":{\"type\":\"string\"," \
    "\"enum\":[\"near\",\"far\"]}},\"required\":[\"x\",\"word\",\"kind\"],"                        \
    "\"additionalProperties\":false}"

static bool is_point(const struct dgl_json *v)
{
    const struct dgl_str word = dgl_json_str(dgl_json_get(v, "word")),
                         kind = dgl_json_str(dgl_json_get(v, "kind"));
    const double x = dgl_json_f64(dgl_json_get(v, "x"));
    size_t letters = 0;
    for (size_t i = 0; i < word.len; i++)
        letters += ((unsigned char)word.p[i] & 0xC0) != 0x80;
    return dgl_json_count(v) == 3 && dgl_json_is(dgl_json_get(v, "x"), DGL_JSON_NUMBER) &&
           x == (double)(int)x && x >= -9 && x <= 9 &&
           dgl_json_is(dgl_json_get(v, "word"), DGL_JSON_STRING) && letters <= 8 &&
           (dgl_str_eq(kind, "near") || dgl_str_eq(kind, "far"));
}

typedef bool judge_fn(const struct dgl_json *v);

static bool parses(const char *text, judge_fn *judge)
{
    struct dgl_json_doc *doc = NULL;
    const bool ok = dgl_json_parse(NULL, "answer", text, strlen(text), &doc) == DGL_OK &&
                    judge(dgl_json_root(doc));
    dgl_json_destroy(&doc);
    return ok;
}

/* ---- answers --------------------------------------------------------------------------------- */

struct shape {
    const char *name, *path, *fields;
    judge_fn *judge;     /* of the answer as JSON, or NULL */
    const char *pattern; /* of the answer, if there is no judge */
    int choices;
    bool endless; /* the form does not limit the length */
};
#define WRAPPED(more) "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{" more "}}"
#define LIST          "root ::= item (\\\",\\\" item){1,2}\\nitem ::= [0-9]{1,3}"
#define LIST_PATTERN  "^[0-9]{1,3}(,[0-9]{1,3}){1,2}$"
#define DATE          "[0-9]{4}-(0[1-9]|1[0-2])"
#define ORS           "^(red|blue \"\\\\\xc3\xa9)$"
#define CHOICES       "[\"red\",\"blue \\\"\\\\\xc3\xa9\"]"
#define GROUPS        "((((a|b){1000}){1000}){1000}){1000}"
static const struct shape shapes[] = {
    {"groups of groups", TEXT, "\"guided_regex\":\"" GROUPS "\"", NULL, "^[ab]*$", 1, true},
    {"json_object", CHAT, "\"response_format\":{\"type\":\"json_object\"}", is_object, NULL, 1,
     true},
    {"json_object with a schema", CHAT,
     "\"response_format\":{\"type\":\"json_object\",\"schema\":" POINT "}", is_point, NULL, 1,
     false},
    {"json_schema", CHAT, WRAPPED("\"name\":\"p\",\"schema\":" POINT), is_point, NULL, 1, false},
    {"strict json_schema", CHAT, WRAPPED("\"name\":\"p\",\"strict\":true,\"schema\":" POINT),
     is_point, NULL, 1, false},
    {"json_schema of a completion", TEXT, WRAPPED("\"name\":\"p\",\"schema\":" POINT), is_point,
     NULL, 1, false},
    {"several choices", CHAT, "\"n\":3," WRAPPED("\"name\":\"p\",\"schema\":" POINT), is_point,
     NULL, 3, false},
    {"several choices of a completion", TEXT, "\"n\":2,\"json_schema\":" POINT, is_point, NULL, 2,
     false},
    {"with probabilities", CHAT, "\"logprobs\":true,\"top_logprobs\":3,\"json_schema\":" POINT,
     is_point, NULL, 1, false},
    {"with probabilities of a completion", TEXT, "\"logprobs\":3,\"json_schema\":" POINT, is_point,
     NULL, 1, false},
    {"llama-server's json_schema", CHAT, "\"json_schema\":" POINT, is_point, NULL, 1, false},
    {"llama-server's grammar", CHAT, "\"grammar\":\"" LIST "\"", NULL, LIST_PATTERN, 1, false},
    {"grammar of a completion", TEXT, "\"grammar\":\"" LIST "\"", NULL, LIST_PATTERN, 1, false},
    {"an empty grammar with a schema", TEXT, "\"grammar\":\"\",\"json_schema\":" POINT, is_point,
     NULL, 1, false},
    {"guided_json", CHAT, "\"guided_json\":" POINT, is_point, NULL, 1, false},
    {"guided_regex", TEXT, "\"guided_regex\":\"" DATE "\"", NULL, "^" DATE "$", 1, false},
    {"guided_choice", CHAT, "\"guided_choice\":" CHOICES, NULL, ORS, 1, false},
    {"guided_grammar", CHAT, "\"guided_grammar\":\"" LIST "\"", NULL, LIST_PATTERN, 1, false},
    {"structured_outputs.json", TEXT, "\"structured_outputs\":{\"json\":" POINT ",\"regex\":null}",
     is_point, NULL, 1, false},
    {"structured_outputs.regex", CHAT, "\"structured_outputs\":{\"regex\":\"" DATE "\"}", NULL,
     "^" DATE "$", 1, false},
    {"structured_outputs.choice", CHAT, "\"structured_outputs\":{\"choice\":" CHOICES "}", NULL,
     ORS, 1, false},
    {"structured_outputs.grammar", CHAT, "\"structured_outputs\":{\"grammar\":\"" LIST "\"}", NULL,
     LIST_PATTERN, 1, false},
    {"structured_outputs.json_object", CHAT, "\"structured_outputs\":{\"json_object\":true}",
     is_object, NULL, 1, true},
};

struct gathered {
    struct dgl_buf text;
    char finish[16];
};

static void gather(struct gathered *g, const struct dgl_json *choice, const char *part)
{
    const struct dgl_json *message = part ? dgl_json_get(choice, part) : choice;
    const struct dgl_str text = dgl_json_str(dgl_json_get(message, part ? "content" : "text")),
                         finish = dgl_json_str(dgl_json_get(choice, "finish_reason"));
    dgl_buf_append(&g->text, text.p ? text.p : "", text.len);
    if (finish.len > 0)
        snprintf(g->finish, sizeof(g->finish), "%s", finish.p);
}

/* The tokens of a choice with probabilities are its text. */
static void assert_probabilities(const struct shape *row, const struct dgl_json *choice,
                                 const char *text)
{
    const struct dgl_json *p = dgl_json_get(choice, "logprobs");
    const bool chat = strcmp(row->path, CHAT) == 0;
    struct dgl_buf joined = {0};
    if (!dgl_json_is(p, DGL_JSON_OBJECT))
        return;
    const struct dgl_json *list = dgl_json_get(p, chat ? "content" : "tokens");
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        const struct dgl_str token = dgl_json_str(chat ? dgl_json_get(v, "token") : v);
        dgl_buf_append(&joined, token.p, token.len);
        if (chat)
            assert_true(dgl_json_f64(dgl_json_get(v, "logprob")) <= 0);
    }
    if (!strstr(joined.p, "bytes:"))
        assert_string_equal(joined.p, text);
    dgl_buf_finish(&joined);
}

static void test_shape(void **state)
{
    const struct shape *row = *state;
    const bool chat = strcmp(row->path, CHAT) == 0;
    use_template(NULL);
    for (int i = 0; i < 2; i++) {
        const bool stream = i % 2;
        struct gathered g[3] = {0};
        struct dgl_buf body = {0};
        struct reply r;
        dgl_buf_printf(&body,
                       "{%s,\"max_tokens\":200,\"temperature\":1.2,\"seed\":%d,\"stream\":%s,%s}",
                       chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me\"}]"
                            : "\"prompt\":\"Once upon\"",
                       i, stream ? "true" : "false", row->fields);
        server_post(&server, row->path, body.p, &r);
        if (r.status != 200)
            fail_msg("%s: status %d: %s", row->name, r.status, r.body);
        if (stream) {
            struct dgl_str rest = {r.body, r.len};
            struct dgl_json_doc *doc = NULL;
            while (reply_next_event(&rest, &doc)) {
                const struct dgl_json *c =
                    dgl_json_first(dgl_json_get(dgl_json_root(doc), "choices"));
                const int64_t index = c ? reply_number(c, "index") : 0;
                assert_in_range(index, 0, row->choices - 1);
                gather(&g[index], c, chat ? "delta" : NULL);
                dgl_json_destroy(&doc);
            }
        } else {
            const struct dgl_json *list = dgl_json_get(reply_json(&r), "choices");
            assert_int_equal(dgl_json_count(list), row->choices);
            for (int k = 0; k < row->choices; k++) {
                gather(&g[k], dgl_json_at(list, (size_t)k), chat ? "message" : NULL);
                assert_probabilities(row, dgl_json_at(list, (size_t)k), g[k].text.p);
            }
        }
        for (int k = 0; k < row->choices; k++) {
            const char *text = g[k].text.p ? g[k].text.p : "";
            const bool cut = row->endless && strcmp(g[k].finish, "length") == 0;
            if (!cut && strcmp(g[k].finish, "stop") != 0)
                fail_msg("%s: finish is \"%s\", wanted \"stop\": %s", row->name, g[k].finish, text);
            if (cut ? !matches(text, row->judge ? "^[[:space:]]*[{]" : row->pattern)
                    : !(row->judge ? parses(text, row->judge) : matches(text, row->pattern)))
                fail_msg("%s: \"%s\" does not have the form", row->name, text);
            dgl_buf_finish(&g[k].text);
        }
        reply_finish(&r);
        dgl_buf_finish(&body);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* After each refusal, the next request is answered. */
static void assert_refused(const char *name, const char *fields, const char *param,
                           const char *part)
{
    struct dgl_buf body = {0};
    struct reply r;
    dgl_buf_printf(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],%s}", fields);
    server_post(&server, CHAT, body.p, &r);
    if (r.status != 400)
        fail_msg("%s: status %d, wanted 400: %.300s", name, r.status, r.body);
    reply_assert_error(&r, 400, param, part);
    reply_finish(&r);
    dgl_buf_finish(&body);
    server_post(&server, TEXT, "{\"prompt\":\"a\",\"grammar\":\"root ::= [b]\"}", &r);
    assert_string_equal(reply_text(&r, 0).p, "b");
    reply_finish(&r);
}

struct refusal {
    const char *name, *fields, *param, *part;
};
static const struct refusal refusals[] = {
    {"two fields", "\"grammar\":\"root ::= [a]\",\"json_schema\":{}", "json_schema",
     "'grammar' and 'json_schema' both"},
    {"a format and a field",
     "\"guided_regex\":\"a\",\"response_format\":{\"type\":\"json_object\"}", "response_format",
     "both"},
    {"two structured outputs", "\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}",
     "structured_outputs", "both"},
    {"a strict schema that is not",
     WRAPPED("\"strict\":true,\"schema\":{\"type\":\"object\","
             "\"properties\":{\"a\":{\"type\":\"string\"}}}"),
     "response_format", "additionalProperties"},
    {"no schema", WRAPPED("\"name\":\"p\""), "response_format", "no schema"},
    {"strict that is text", WRAPPED("\"strict\":\"yes\",\"schema\":{}"),
     "response_format.json_schema.strict", "true or false"},
    {"a bad schema", "\"json_schema\":{\"properties\":{\"a\":{\"type\":\"strin\"}}}", "json_schema",
     "/properties/a/type"},
    {"text that is no schema", "\"json_schema\":\"{\"", "json_schema", "json_schema"},
    {"a bad grammar", "\"grammar\":\"root ::= [a]\\nother ::= (\"", "grammar", "line 2"},
    {"a bad grammar's column", "\"grammar\":\"root ::= [a]\\nother ::= (\"", "grammar", "column"},
    {"left recursion", "\"grammar\":\"root ::= root [a] | [b]\"", "grammar", "left"},
    {"look-around", "\"guided_regex\":\"a(?=b)\"", "guided_regex", "column"},
    {"repeated groups", "\"json_schema\":{\"type\":\"string\",\"pattern\":\"" GROUPS "\"}",
     "json_schema", "/pattern"},
    {"a pattern in a schema", "\"json_schema\":{\"type\":\"string\",\"pattern\":\"(?<!a)b\"}",
     "json_schema", "/pattern"},
    {"an answer that does not end", "\"ignore_eos\":true,\"json_schema\":{}", "ignore_eos",
     "contradicts"},
    {"choices that are numbers", "\"guided_choice\":[1]", "guided_choice", "no list of strings"},
    {"an unknown structured output", "\"structured_outputs\":{\"lark\":\"a\"}",
     "structured_outputs", "structured_outputs.lark"},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    use_template(NULL);
    assert_refused(row->name, row->fields, row->param, row->part);
}

/* A schema of 1 MB, and one of 10,000 levels as text. */
static void large_schemas_are_bounded(void **state)
{
    struct dgl_buf fields = {0};
    (void)state;
    use_template(NULL);
    dgl_buf_puts(&fields, "\"json_schema\":{\"enum\":[0");
    for (int i = 0; fields.len < 1 << 20; i++)
        dgl_buf_printf(&fields, ",\"%d\"", i);
    dgl_buf_puts(&fields, "]}");
    assert_refused("1 MB", fields.p, "json_schema", "json_schema");
    fields.len = 0;
    dgl_buf_puts(&fields, "\"json_schema\":\"");
    for (int i = 0; i < 10000; i++)
        dgl_buf_puts(&fields, "{\\\"not\\\":");
    dgl_buf_puts(&fields, "{}");
    for (int i = 0; i < 10000; i++)
        dgl_buf_puts(&fields, "}");
    dgl_buf_puts(&fields, "\"");
    assert_refused("10,000 levels", fields.p, "json_schema", "json_schema");
    dgl_buf_finish(&fields);
}

/* ---- calls of tools -------------------------------------------------------------------------- */

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"point\",\"parameters\":" POINT     \
    "}},{\"type\":\"function\",\"function\":{\"name\":\"pair\",\"parameters\":" POINT "}}],"

struct forced {
    const char *name, *tmpl, *fields;
    const char *function; /* that is called; NULL = any */
    int most;             /* calls; 0 = there may be none, then the content is a point */
};
static const struct forced forced[] = {
    {"required", calls_only, TOOLS "\"tool_choice\":\"required\"", NULL, 9},
    {"one call", calls_only, TOOLS "\"tool_choice\":\"required\",\"parallel_tool_calls\":false",
     NULL, 1},
    {"named", calls_only,
     TOOLS "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"pair\"}}", "pair", 1},
    {"a call or the form", calls_only, TOOLS "\"parallel_tool_calls\":false,\"json_schema\":" POINT,
     NULL, 0},
    {"the form only", calls_only, TOOLS "\"tool_choice\":\"none\",\"json_schema\":" POINT, NULL, 0},
    {"required, after reasoning", thinks,
     TOOLS "\"tool_choice\":\"required\",\"parallel_tool_calls\":false", NULL, 1},
    {"the form, after reasoning", thinks, "\"json_schema\":" POINT, NULL, 0},
    {"required, after opened reasoning", opened,
     TOOLS "\"tool_choice\":\"required\",\"parallel_tool_calls\":false", NULL, 1},
    {"the form, after opened reasoning", opened, "\"json_schema\":" POINT, NULL, 0},
};

static void test_forced(void **state)
{
    const struct forced *row = *state;
    use_template(row->tmpl);
    for (int seed = 0; seed < 2; seed++) {
        struct dgl_buf body = {0};
        struct reply r;
        dgl_buf_printf(&body,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me\"}],"
                       "\"max_tokens\":200,\"temperature\":1,\"seed\":%d,%s}",
                       seed, row->fields);
        server_post(&server, CHAT, body.p, &r);
        if (r.status != 200)
            fail_msg("%s: status %d: %s", row->name, r.status, r.body);
        const struct dgl_json *choice = dgl_json_first(dgl_json_get(reply_json(&r), "choices")),
                              *message = dgl_json_get(choice, "message"),
                              *calls = dgl_json_get(message, "tool_calls");
        const struct dgl_str finish = dgl_json_str(dgl_json_get(choice, "finish_reason")),
                             content = dgl_json_str(dgl_json_get(message, "content"));
        const bool reasons = dgl_json_str(dgl_json_get(message, "reasoning_content")).len > 0;
        const bool cut = dgl_str_eq(finish, "length") && (reasons || row->most > 1);
        if (row->tmpl == opened && !reasons)
            fail_msg("%s: no reasoning: %s", row->name, r.body);
        if (cut && reasons && content.len + dgl_json_count(calls) > 0 && row->tmpl == opened)
            fail_msg("%s: reasoning was cut, but there is more: %s", row->name, r.body);
        if (!cut && !dgl_str_eq(finish, dgl_json_count(calls) ? "tool_calls" : "stop"))
            fail_msg("%s: finish is \"%s\": %s", row->name, finish.p, r.body);
        if (!cut && (row->most ? dgl_json_count(calls) < 1 || content.len > 0
                               : !dgl_json_count(calls) && !parses(content.p, is_point)))
            fail_msg("%s: not the form: %s", row->name, r.body);
        assert_true(dgl_json_count(calls) <= (size_t)(row->most ? row->most : 1));
        for (const struct dgl_json *v = dgl_json_first(calls); v; v = dgl_json_next(v)) {
            const struct dgl_json *f = dgl_json_get(v, "function");
            const struct dgl_str name = dgl_json_str(dgl_json_get(f, "name"));
            if (row->function ? !dgl_str_eq(name, row->function)
                              : !dgl_str_eq(name, "point") && !dgl_str_eq(name, "pair"))
                fail_msg("%s: %s was called", row->name, name.p);
            if (!parses(dgl_json_str(dgl_json_get(f, "arguments")).p, is_point))
                fail_msg("%s: arguments: %s", row->name, r.body);
        }
        reply_finish(&r);
        dgl_buf_finish(&body);
    }
}

static const struct refusal choices[] = {
    {"a tool that is not there",
     TOOLS "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"other\"}}",
     "tool_choice", "'other', which is none of 'tools'"},
    {"a call and a form", TOOLS "\"tool_choice\":\"required\",\"json_schema\":{}", "tool_choice",
     "'json_schema' another form"},
    {"parameters that are no schema",
     "\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"parameters\":{\"type\":\"objct\"}}}]",
     "tool_choice", "/type"},
};

static void test_choice(void **state)
{
    const struct refusal *row = *state;
    use_template(calls_only);
    assert_refused(row->name, row->fields, row->param, row->part);
}

int main(void)
{
    const struct CMUnitTest bounds[] = {cmocka_unit_test(large_schemas_are_bounded)};
    folder = test_tmpdir();
    int failures = test_run_table("serve: shapes", test_shape, shapes);
    failures += test_run_table("serve: refused shapes", test_refusal, refusals);
    failures += cmocka_run_group_tests_name("serve: bounds", bounds, NULL, NULL);
    failures += test_run_table("serve: refused calls", test_choice, choices);
    failures += test_run_table("serve: forced calls", test_forced, forced);
    server_end(&server);
    test_tmpdir_remove(folder);
    return failures;
}
