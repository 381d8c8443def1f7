/* template and tokenize --pieces: exact output, precedence, named templates, and errors. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/convert_fixture.h"
#include "tests/support/process.h"

#define HI "[{\"role\":\"user\",\"content\":\"hi\"}]"

/* ---- rendering ------------------------------------------------------------------------------- */

/* The working directory contains the files "t.jinja" and "m.json" and the files of `model`. */
struct template_row {
    const char *name;
    const char *args[8];
    const char *config; /* tokenizer_config.json of the model; NULL: the bundled model is used */
    const char *tmpl;   /* t.jinja */
    const char *messages;
    int code;
    const char *out; /* exact, or a part of the error line */
};

#define TWO                                                                                        \
    "{\"bos_token\":\"<B>\",\"chat_template\":[{\"name\":\"default\",\"template\":\"D{{ "          \
    "bos_token }}\"},{\"name\":\"tool_use\",\"template\":\"T{{ tools|length }}\"}]}"

#define OPEN31    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
#define CLOSE31   "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
#define KWARGS    "--chat-template-kwargs"
#define VARIABLES "{{ think }}/{{ n }}/{{ messages[0].content }}"

static const struct template_row rows[] = {
    {"the bundled model", {"--messages", "m.json"}, NULL, "", HI, 0, "<|user|>\nhi<|end|>\n"},
    {"a generation prompt",
     {"--messages", "m.json", "--add-generation-prompt"},
     NULL,
     "",
     HI,
     0,
     "<|user|>\nhi<|end|>\n<|assistant|>\n"},
    {"a template of a file",
     {"--messages", "m.json", "--template", "t.jinja"},
     NULL,
     "{{ messages[0].content }}\n\n",
     HI,
     0,
     "hi\n"},
    {"the model's tokens with it",
     {"--messages", "m.json", "--template", "t.jinja"},
     TWO,
     "{{ bos_token }}",
     HI,
     0,
     "<B>"},
    {"variables of the command line",
     {"--messages", "m.json", "--template", "t.jinja", KWARGS, "{\"think\":false,\"n\":[1]}"},
     NULL,
     VARIABLES,
     HI,
     0,
     "False/[1]/hi"},
    {"they replace those of the file",
     {"--messages", "m.json", "--template", "t.jinja", KWARGS, "{\"think\":false}"},
     NULL,
     VARIABLES,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"think\":true,\"n\":2}",
     0,
     "False/2/hi"},
    {"variables that are a list",
     {"--messages", "m.json", KWARGS, "[1]"},
     NULL,
     "",
     HI,
     2,
     KWARGS ": an array, wanted an object"},
    {"variables that are not JSON", {"--messages", "m.json", KWARGS, "{"}, NULL, "", HI, 2, KWARGS},
    {"variables with messages",
     {"--messages", "m.json", KWARGS, "{\"messages\":[]}"},
     NULL,
     "",
     HI,
     2,
     "messages comes with the messages"},
    {"messages that are none, with variables",
     {"--messages", "m.json", KWARGS, "{\"n\":1}"},
     NULL,
     "",
     "3",
     1,
     "m.json: a number, wanted an array of messages"},
    {"deep messages with variables",
     {"--messages", "m.json", KWARGS, "{\"n\":1}"},
     NULL,
     "",
     "[{\"x\":" OPEN31 OPEN31 CLOSE31 CLOSE31 "}]",
     1,
     "wanted nesting of at most 64 levels"},
    {"the default of several", {"--messages", "m.json"}, TWO, "", HI, 0, "D<B>"},
    {"one of several",
     {"--messages", "m.json", "--template-name", "tool_use"},
     TWO,
     "",
     "{\"messages\":[{}],\"tools\":[1,2]}",
     0,
     "T2"},
    {"tools choose",
     {"--messages", "m.json"},
     TWO,
     "",
     "{\"messages\":[{}],\"tools\":[1,2]}",
     0,
     "T2"},
    {"further variables",
     {"--messages", "m.json", "--template", "t.jinja"},
     NULL,
     "{{ enable_thinking }}{{ depth }}",
     "{\"messages\":[{}],\"enable_thinking\":true,\"depth\":2.0}",
     0,
     "True2.0"},
    {"continue the last message",
     {"--messages", "m.json", "--template", "t.jinja", "--continue-final-message"},
     NULL,
     "[{{ messages[0].content }}]",
     HI,
     0,
     "[hi"},
    {"continue and begin",
     {"--messages", "m.json", "--continue-final-message", "--add-generation-prompt"},
     NULL,
     "",
     HI,
     2,
     "give one of them"},
    {"a date",
     {"--messages", "m.json", "--template", "t.jinja", "--now", "2024-02-29"},
     NULL,
     "{{ strftime_now('%a %d %B %Y %H') }}",
     HI,
     0,
     "Thu 29 February 2024 00"},
    {"a date with the time",
     {"--messages", "m.json", "--template", "t.jinja", "--now", "2024-12-31T23:59:07"},
     NULL,
     "{{ strftime_now('%j %H:%M:%S') }}",
     HI,
     0,
     "366 23:59:07"},
    {"an empty text", {"--messages", "m.json", "--template", "t.jinja"}, NULL, "", HI, 0, ""},
    {"the template raises",
     {"--messages", "m.json", "--template", "t.jinja"},
     NULL,
     "\n{{ raise_exception('Roles must alternate!') }}",
     HI,
     1,
     "t.jinja:2: Roles must alternate!"},
    {"the template raises in several lines",
     {"--messages", "m.json", "--template", "t.jinja"},
     NULL,
     "{{ raise_exception('Roles  must\n  alternate:\\r\\n\\n\\tuser,\tassistant.\\n') }}",
     HI,
     1,
     "t.jinja:1: Roles  must alternate: user, assistant."},
    {"no such name",
     {"--messages", "m.json", "--template-name", "rag"},
     TWO,
     "",
     HI,
     1,
     "no chat template \"rag\"; it has default, tool_use"},
    {"no template at all", {"--messages", "m.json"}, "{}", "", HI, 1, "no chat template"},
    {"no such file of messages", {"--messages", "x.json"}, NULL, "", HI, 1, "x.json"},
    {"no such template",
     {"--messages", "m.json", "--template", "x.jinja"},
     NULL,
     "",
     HI,
     1,
     "x.jinja"},
    {"messages are no JSON",
     {"--messages", "m.json"},
     NULL,
     "",
     "[\n{]",
     1,
     "m.json: line 2, byte 2: found ']'"},
    {"messages are no array", {"--messages", "m.json"}, NULL, "", "3", 1, "m.json: a number"},
    {"a template without end",
     {"--messages", "m.json", "--template", "t.jinja"},
     NULL,
     "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
     HI,
     1,
     "t.jinja:1:"},
    {"no messages", {NULL}, NULL, "", HI, 2, "--messages FILE.json is missing"},
    {"a day that does not exist",
     {"--messages", "m.json", "--now", "2023-02-29"},
     NULL,
     "",
     HI,
     2,
     "--now 2023-02-29: wanted a date"},
    {"two ways to choose",
     {"--messages", "m.json", "--template", "t.jinja", "--template-name", "x"},
     NULL,
     "",
     HI,
     2,
     "give one"},
    {"an argument too many", {"m.json"}, NULL, "", HI, 2, "unexpected argument"},
};

/* A folder with the row's files, and the paths of the arguments in it. */
struct place {
    char *dir, *model;
    char *args[12];
};

static char *inside(const struct place *p, const char *arg)
{
    bool file = strstr(arg, ".json") || strstr(arg, ".jinja");
    return file ? dgl_path_join(p->dir, arg) : strdup(arg);
}

static void place_init(struct place *p, const struct template_row *row)
{
    size_t count = 0;
    *p = (struct place){.dir = test_tmpdir()};
    test_write_file(p->dir, "t.jinja", row->tmpl, strlen(row->tmpl));
    test_write_file(p->dir, "m.json", row->messages, strlen(row->messages));
    p->args[count++] = strdup("template");
    if (row->config) {
        test_write_file(p->dir, "tokenizer_config.json", row->config, strlen(row->config));
        p->args[count++] = strdup("-m");
        p->args[count++] = strdup(p->dir);
    }
    for (size_t i = 0; i < 8 && row->args[i]; i++)
        p->args[count++] = inside(p, row->args[i]);
}

static void place_finish(struct place *p)
{
    for (size_t i = 0; i < 12; i++)
        free(p->args[i]);
    test_tmpdir_remove(p->dir);
}

static void template_case(void **state)
{
    const struct template_row *row = *state;
    /* No device can be opened at all. */
    const char *const env[] = {"__EGL_VENDOR_LIBRARY_FILENAMES=" TEST_MISSING "/egl.json", NULL};
    struct place p;
    struct process_result r;
    place_init(&p, row);
    process_run(&(struct process_params){.args = (const char *const *)p.args, .env = env}, &r);
    assert_code(&r, row->code);
    if (row->code == 0) {
        assert_no_error(&r);
        assert_int_equal(r.out_len, strlen(row->out));
        assert_memory_equal(r.out, row->out, r.out_len);
    } else {
        assert_int_equal(r.out_len, 0);
        assert_one_error(&r, row->out);
    }
    process_finish(&r);
    place_finish(&p);
}

static void messages_come_from_standard_input(void **state)
{
    (void)state;
    static const char *const args[] = {"template", "--messages", "-", NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = args, .input = HI}, &r);
    assert_code(&r, 0);
    assert_string_equal(r.out, "<|user|>\nhi<|end|>\n");
    process_finish(&r);
}

/* Special tokens in a message stay text in its ids. In a raw prompt they are tokens. */
static void ids_of_messages_have_no_control_tokens(void **state)
{
    (void)state;
    static const char *const args[] = {"template", "--messages", "-", "--json", NULL};
    static const char spelled[] = "[{\"role\":\"user\",\"content\":\"<|end|>\"}]";
    struct process_result r;
    size_t ends = 0;
    process_run(&(struct process_params){.args = args, .input = spelled}, &r);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_string_equal(dgl_json_str(dgl_json_get(root, "text")).p, "<|user|>\n<|end|><|end|>\n");
    const struct dgl_json *ids = dgl_json_get(root, "ids");
    for (const struct dgl_json *v = dgl_json_first(ids); v; v = dgl_json_next(v)) {
        int64_t id;
        ends += dgl_json_i64(v, &id) && id == 1;
    }
    assert_int_equal(ends, 1);
    assert_true(dgl_json_count(ids) > 4);
    process_finish(&r);
}

/* ---- packs ----------------------------------------------------------------------------------- */

/* A pack contains all files that templates use, with their hashes. */
static void packs_carry_templates(void **state)
{
    struct fixture *f = *state;
    static const char *const files[][2] = {
        {"chat_template.jinja", "J{{ bos_token }}{{ eos_token }}"},
        {"chat_template.json", "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"}]}"},
        {"tokenizer_config.json", "{\"bos_token\":\"<B>\"}"},
        {"special_tokens_map.json", "{\"eos_token\":\"<E>\"}"},
    };
    struct process_result r;
    for (size_t i = 0; i < 4; i++)
        test_write_file(f->in, files[i][0], files[i][1], strlen(files[i][1]));
    char *folder = dgl_path_join(f->in, "additional_chat_templates");
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    test_write_file(folder, "short.jinja", "S", 1);
    free(folder);
    assert_converts(f, f->in, f->out, NULL);
    char *manifest = read_text(f->out, "manifest.json");
    assert_contains(manifest, "\"chat_template.short.jinja\"");
    for (size_t i = 0; i < 4; i++)
        assert_contains(manifest, files[i][0]);
    free(manifest);
    const char *const args[] = {"template", "-m", f->out, "--messages", "-", NULL};
    process_run(&(struct process_params){.args = args, .input = HI}, &r);
    assert_code(&r, 0);
    assert_string_equal(r.out, "J<B><E>");
    process_finish(&r);
    static const char *const names[][2] = {{"rag", "R"}, {"short", "S"}};
    for (size_t i = 0; i < 2; i++) {
        const char *const named[] = {"template",        "-m",        f->out, "--messages", "-",
                                     "--template-name", names[i][0], NULL};
        process_run(&(struct process_params){.args = named, .input = HI}, &r);
        assert_code(&r, 0);
        assert_string_equal(r.out, names[i][1]);
        process_finish(&r);
    }
    /* A template that the pack's manifest does not list. */
    test_write_file(f->out, "chat_template.more.jinja", "M", 1);
    process_command(&r, "template", "-m", f->out, "--messages", "-", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "chat_template.more.jinja: is there, but");
    process_finish(&r);
}

static void a_changed_template_in_a_pack_is_refused(void **state)
{
    struct fixture *f = *state;
    struct process_result r;
    test_write_file(f->in, "chat_template.jinja", "J", 1);
    assert_converts(f, f->in, f->out, NULL);
    test_write_file(f->out, "chat_template.jinja", "K", 1);
    const char *const args[] = {"template", "-m", f->out, "--messages", "-", NULL};
    process_run(&(struct process_params){.args = args, .input = HI}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "chat_template.jinja");
    process_finish(&r);
}

/* ---- tokenize --pieces ----------------------------------------------------------------------- */

static void pieces_of_one_text(void **state)
{
    (void)state;
    struct process_result r;
    process_command(&r, "tokenize", "--pieces", "-p", "hi \xC3\xA9", NULL);
    assert_code(&r, 0);
    assert_string_equal(r.out, "0\t\"<|endoftext|>\"\t\"<|endoftext|>\"\n"
                               "76\t\"h\"\t\"h\"\n77\t\"i\"\t\"i\"\n"
                               "225\t\"\xC4\xA0\"\t\" \"\n"
                               "132\t\"\xC3\x83\"\t\"\"\n107\t\"\xC2\xA9\"\t\"\xC3\xA9\"\n");
    process_finish(&r);
}

/* One per id of ids_special; the texts together are the text. */
static void pieces_of_lines(void **state)
{
    (void)state;
    static const char *const args[] = {"tokenize", "--pieces", "--jsonl", NULL};
    struct process_result r;
    struct dgl_buf text = {0};
    size_t i = 0;
    process_run(&(struct process_params){.args = args,
                                         .input = "{\"text\":\"a \xF0\x9F\x98\x80\\u0000 there\"}"},
                &r);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r), *ids = dgl_json_get(root, "ids_special");
    const struct dgl_json *pieces = dgl_json_get(root, "pieces");
    assert_int_equal(dgl_json_count(pieces), dgl_json_count(ids));
    for (const struct dgl_json *v = dgl_json_first(pieces); v; v = dgl_json_next(v), i++) {
        struct dgl_str part = dgl_json_str(dgl_json_get(v, "text"));
        int64_t id, want;
        assert_true(dgl_json_i64(dgl_json_get(v, "id"), &id));
        assert_true(dgl_json_i64(dgl_json_at(ids, i), &want));
        assert_int_equal(id, want);
        assert_true(dgl_json_is(dgl_json_get(v, "token"), DGL_JSON_STRING));
        dgl_buf_append(&text, part.p, part.len);
    }
    static const char want[] = "<|endoftext|>a \xF0\x9F\x98\x80\0 there";
    assert_int_equal(text.len, sizeof(want) - 1);
    assert_memory_equal(text.p, want, text.len);
    dgl_buf_finish(&text);
    process_finish(&r);
}

static void pieces_of_ids_are_refused(void **state)
{
    (void)state;
    struct process_result r;
    process_command(&r, "tokenize", "--pieces", "--decode", NULL);
    assert_code(&r, 2);
    assert_one_error(&r, "--decode");
    process_finish(&r);
}

/* Each line of an error has one location and names its file once. */
static void faulty_lines_are_named_once(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *input, *error;
    } lines[] = {{"--jsonl", "[]\n", "line 1: an array, wanted {\"text\": ...}"},
                 {"--decode", "{\"ids\":[]}\n5\n", "line 2: a number, wanted {\"ids\": ...}"},
                 {"--jsonl", "\nHello\n", "line 2: byte 1: found 'H', wanted a value"}};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *const args[] = {"tokenize", lines[i].flag, NULL};
        struct process_result r;
        process_run(&(struct process_params){.args = args, .input = lines[i].input}, &r);
        assert_code(&r, 1);
        assert_one_error(&r, lines[i].error);
        process_finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_from_standard_input),
        cmocka_unit_test(ids_of_messages_have_no_control_tokens),
        FIXTURE_CASE(packs_carry_templates),
        FIXTURE_CASE(a_changed_template_in_a_pack_is_refused),
        cmocka_unit_test(pieces_of_one_text),
        cmocka_unit_test(pieces_of_lines),
        cmocka_unit_test(pieces_of_ids_are_refused),
        cmocka_unit_test(faulty_lines_are_named_once),
    };
    int failed = test_run_table("cli template", template_case, rows);
    return failed + cmocka_run_group_tests_name("cli template", tests, NULL, NULL);
}
