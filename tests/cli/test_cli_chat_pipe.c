/* chat without a terminal: messages from a file or one per line; only answers on standard output.
 */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define GREEDY "--device", "any", "--temp", "0"
#define KWARGS "--chat-template-kwargs"
#define SHORT  "{\"kind\":\"short\"}"
#define HI     "[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]"

static void run_chat(struct process_result *r, const char *input, const char *const *args)
{
    process_run(&(struct process_params){.args = args, .input = input}, r);
}

/* ---- one answer ------------------------------------------------------------------------------ */

/* The answer of chat to `messages` equals that of generate to the ids of `rendered`. */
static void expect_as_generated(const char *rendered, const char *messages, const char *more)
{
    const char *const template[] = {"template", "--messages", "-", "--json", more, NULL};
    const char *const chat[] = {"chat", GREEDY, "-n", "20", "--messages", "-", NULL};
    struct process_result t, g, c;
    struct dgl_buf ids = {0};
    run_chat(&t, rendered, template);
    assert_code(&t, 0);
    const struct dgl_json *list = dgl_json_get(process_json(&t), "ids");
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v))
        dgl_buf_printf(&ids, "%s%.0f", ids.len ? "," : "", dgl_json_f64(v));
    process_command(&g, "generate", GREEDY, "-n", "20", "--ids", ids.p, NULL);
    run_chat(&c, messages, chat);
    assert_code(&g, 0);
    assert_code(&c, 0);
    assert_true(c.out_len > 0);
    assert_string_equal(c.out, g.out);
    assert_contains(c.err, "prompt ");
    dgl_buf_finish(&ids);
    process_finish(&t);
    process_finish(&g);
    process_finish(&c);
}

static void file_is_answered_like_generate(void **state)
{
    (void)state;
    expect_as_generated(HI, HI, "--add-generation-prompt");
}

/* An assistant's text at the end of the file is continued, unless the file says otherwise. */
static void last_message_is_continued(void **state)
{
#define BEGUN                                                                                      \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story\"},"                          \
    "{\"role\":\"assistant\",\"content\":\"Once there was a\"}]"
    static const char continued[] = BEGUN ",\"continue_final_message\":true}", plain[] = BEGUN "}",
                      another[] = BEGUN ",\"add_generation_prompt\":true}";
    (void)state;
    expect_as_generated(continued, plain, NULL);
    expect_as_generated(continued, continued, NULL);
    expect_as_generated(another, another, NULL);
    expect_as_generated(plain, BEGUN ",\"add_generation_prompt\":false}", NULL);
}

static void json_is_that_of_generate(void **state)
{
    static const char *const keys[] = {"prompt_ids", "tokens",   "text",   "finish_reason",
                                       "timings",    "counters", "device", "kernels"};
    const char *const args[] = {"chat", GREEDY, "-n", "5", "--messages", "-", "--json", NULL};
    struct process_result r;
    (void)state;
    run_chat(&r, HI, args);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!dgl_json_get(root, keys[i]))
            fail_msg("%s is missing in %s", keys[i], r.out);
    const struct dgl_json *message = dgl_json_get(root, "message");
    struct dgl_str text = dgl_json_str(dgl_json_get(root, "text"));
    assert_string_equal(dgl_json_str(dgl_json_get(message, "role")).p, "assistant");
    assert_string_equal(dgl_json_str(dgl_json_get(message, "content")).p, text.p);
    assert_int_equal(dgl_json_count(dgl_json_get(root, "tokens")), 5);
    process_finish(&r);
}

static size_t count_id(const struct dgl_json *ids, double id)
{
    size_t count = 0;
    for (const struct dgl_json *v = dgl_json_first(ids); v; v = dgl_json_next(v))
        count += dgl_json_f64(v) == id;
    return count;
}

/* <|end|> is id 1: the template's own is there, the user's is text. */
static void special_tokens_of_users_are_text(void **state)
{
    const char *const args[] = {"chat", GREEDY, "-n", "0", "--messages", "-", "--json", NULL};
    struct process_result r;
    (void)state;
    run_chat(&r, "[{\"role\":\"user\",\"content\":\"a<|end|>b<|assistant|>\"}]", args);
    assert_code(&r, 0);
    const struct dgl_json *ids = dgl_json_get(process_json(&r), "prompt_ids");
    assert_int_equal(count_id(ids, 1), 1);
    assert_int_equal(count_id(ids, 3), 1);
    process_finish(&r);
}

static void template_may_be_a_file(void **state)
{
    const char *const args[] = {
        "chat",       GREEDY, "-n",         "0",
        "--messages", "-",    "--template", "tests/data/templates/plain.jinja",
        "--json",     NULL};
    struct process_result r, t;
    (void)state;
    run_chat(&r, HI, args);
    assert_code(&r, 0);
    process_command(&t, "tokenize", "-p", "user: Tell me a story.\nassistant: ", "--json", NULL);
    assert_code(&t, 0);
    const struct dgl_json *ids = dgl_json_get(process_json(&r), "prompt_ids");
    size_t longer = strlen("user: Tell me a story.\nassistant: ");
    assert_in_range(dgl_json_count(ids), 8, longer);
    assert_int_equal(count_id(ids, 2), 0); /* no <|user|>, as the model's template has */
    process_finish(&t);
    process_finish(&r);
}

/* --chat-template-kwargs has the same effect as in `template`, and stays in conversations. */
static void variables_reach_the_template(void **state)
{
    static const char source[] = "{{ kind }}{% for m in messages %} {{ m.content }}{% endfor %}";
    static const char other[] = "{\"messages\":[],\"kind\":1,\"n\":2}";
    char *dir = test_tmpdir(), *tmpl = dgl_path_join(dir, "t.jinja"),
         *saved = dgl_path_join(dir, "saved.json"), *given = dgl_path_join(dir, "given.json");
    const char *const chat[] = {"chat",       GREEDY, "-n",     "0",    "--messages", "-",
                                "--template", tmpl,   "--json", KWARGS, SHORT,        NULL};
    const char *const template[] = {"template", "--messages", "-",   "--template", tmpl,
                                    "--json",   KWARGS,       SHORT, NULL};
    const char *const talk[] = {"chat", GREEDY, KWARGS, SHORT, NULL};
    struct process_result r, t;
    struct dgl_buf lines = {0}, ids[2] = {{0}};
    size_t len;
    (void)state;
    test_write_file(dir, "t.jinja", source, sizeof(source) - 1);
    run_chat(&r, HI, chat);
    run_chat(&t, HI, template);
    assert_code(&r, 0);
    assert_code(&t, 0);
    assert_string_equal(dgl_json_str(dgl_json_get(process_json(&t), "text")).p,
                        "short Tell me a story.");
    const struct dgl_json *lists[] = {dgl_json_get(process_json(&r), "prompt_ids"),
                                      dgl_json_get(process_json(&t), "ids")};
    for (size_t i = 0; i < 2; i++)
        for (const struct dgl_json *v = dgl_json_first(lists[i]); v; v = dgl_json_next(v))
            dgl_buf_printf(&ids[i], "%.0f,", dgl_json_f64(v));
    assert_string_equal(ids[0].p, ids[1].p);
    process_finish(&t);
    process_finish(&r);

    test_write_file(dir, "given.json", other, sizeof(other) - 1);
    dgl_buf_printf(&lines, "/load %s\n/reset\n/save %s\n", given, saved);
    const char *const inputs[] = {lines.p, strstr(lines.p, "/save")};
    for (int i = 0; i < 2; i++) {
        run_chat(&r, inputs[i], talk);
        assert_code(&r, 0);
        process_finish(&r);
        char *text = tiny_file_read(dir, "saved.json", &len);
        assert_contains(text, "\"kind\":\"short\"");
        assert_int_equal(strstr(text, "\"n\":2") != NULL, i == 0);
        free(text);
    }
    for (size_t i = 0; i < 2; i++)
        dgl_buf_finish(&ids[i]);
    dgl_buf_finish(&lines);
    free(tmpl);
    free(saved);
    free(given);
    test_tmpdir_remove(dir);
}

/* ---- a line, a message ----------------------------------------------------------------------- */

static void lines_are_messages(void **state)
{
    const char *const args[] = {"chat", GREEDY, "-n", "8", NULL};
    struct process_result r;
    (void)state;
    run_chat(&r, "\nTell me about a dog.\n  \nAnd \\\nthen?\n/stats\n", args);
    assert_code(&r, 0);
    assert_no_error(&r);
    assert_contains(r.err, "4 messages, 2 answers");
    assert_true(r.out_len > 0 && r.out[r.out_len - 1] == '\n');
    if (strstr(r.out, "> ") || strstr(r.out, "messages") || strstr(r.out, "(cut off"))
        fail_msg("standard output holds more than answers: %s", r.out);
    process_finish(&r);
}

static void last_line_needs_no_newline(void **state)
{
    const char *const args[] = {"chat", GREEDY, "-n", "4", NULL};
    struct process_result r;
    (void)state;
    run_chat(&r, "/system Be brief.\n\"\"\"Tell me\nabout a dog.", args);
    assert_code(&r, 0);
    assert_true(r.out_len > 0);
    process_finish(&r);
}

static void quiet_says_nothing_unasked(void **state)
{
    const char *const args[] = {"chat", GREEDY, "-n", "4", "-q", NULL};
    struct process_result r;
    (void)state;
    run_chat(&r, "/model\n", args);
    assert_code(&r, 0);
    assert_contains(r.err, "template: the model's");
    assert_null(strstr(r.err, "(software)")); /* the device line */
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
}

static void interrupt_ends_a_pipe(void **state)
{
    const char *const args[] = {"chat", GREEDY, "--ignore-eos", NULL};
    struct process_result r;
    (void)state;
    process_run(&(struct process_params){.args = args,
                                         .input = "Tell me a story.\n",
                                         .keep_input = true,
                                         .signal = SIGINT,
                                         .signal_after = 40},
                &r);
    assert_code(&r, 130);
    assert_no_error(&r);
    process_finish(&r);
}

static void closed_output_ends_quietly(void **state)
{
    const char *const args[] = {"chat", GREEDY, "--ignore-eos", NULL};
    struct process_result r;
    (void)state;
    process_run(
        &(struct process_params){.args = args, .input = "Tell me a story.\n", .close_after = 20},
        &r);
    assert_int_equal(r.signal, SIGPIPE);
    process_finish(&r);
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    const char *args[8];
    const char *input;
    int code;
    const char *part; /* of the one error line */
};

static const struct refusal refusals[] = {
    {"--json without --messages", {"--json"}, "", 2, "--json"},
    {"--system with --messages", {"--messages", "-", "--system", "x"}, HI, 2, "--system"},
    {"two templates", {"--template", "a", "--template-name", "b"}, "", 2, "--template-name"},
    {"variables that are none", {KWARGS, "3"}, "", 2, KWARGS ": a number, wanted an object"},
    {"variables with answers", {KWARGS, "{\"answers\":1}"}, "", 2, "answers comes with"},
    {"an argument", {"hello"}, "", 2, "unexpected argument"},
    {"no such file", {"--messages", "nothing.json"}, "", 1, "nothing.json"},
    {"no such template", {"--template", "nothing.jinja"}, "", 1, "nothing.jinja"},
    {"no such name", {"--template-name", "rag"}, "", 1, "rag"},
    {"messages that are none", {"--messages", "-"}, "3", 1, "wanted an array of messages"},
    {"the template's own words",
     {"--messages", "-", "--template", "tests/data/templates/plain.jinja"},
     "[{\"role\":\"user\",\"content\":\"raise\"}]",
     1,
     "no such luck"},
    {"and in a conversation",
     {"--template", "tests/data/templates/plain.jinja"},
     "raise\n",
     1,
     "no such luck"},
    {"longer than the context", {"--messages", "-", "-c", "4"}, HI, 1, "context"},
    {"a conversation that is",
     {"-c", "4"},
     "Tell me a story.\n",
     1,
     "take messages back, or raise -c"},
    {"a message that is not UTF-8",
     {NULL},
     "caf\xE9\n",
     1,
     "message is not UTF-8: byte 0xe9 at offset 3"},
    {"a system message that is not", {"--system", "caf\xE9"}, "Hi\n", 1, "--system is not UTF-8"},
    {"a model with a fault", {"-m", "tests/nothing"}, "", 1, "tests/nothing"},
};

static void is_refused(void **state)
{
    const struct refusal *row = *state;
    const char *args[16] = {"chat", GREEDY};
    struct process_result r;
    for (size_t i = 0; i < 8; i++)
        args[5 + i] = row->args[i];
    run_chat(&r, row->input, args);
    assert_code(&r, row->code);
    assert_one_error(&r, row->part);
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
}

static void model_without_a_template_is_refused(void **state)
{
    char *dir = test_tmpdir();
    const char *const args[] = {"chat", GREEDY, "-m", dir, NULL};
    struct process_result r;
    (void)state;
    test_write_file(dir, "tokenizer_config.json", "{}", 2);
    test_write_file(dir, "config.json", "{}", 2);
    run_chat(&r, HI, args);
    assert_code(&r, 1);
    assert_one_error(&r, "no chat template; give one with --template FILE");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(file_is_answered_like_generate),
        cmocka_unit_test(last_message_is_continued),
        cmocka_unit_test(json_is_that_of_generate),
        cmocka_unit_test(special_tokens_of_users_are_text),
        cmocka_unit_test(template_may_be_a_file),
        cmocka_unit_test(variables_reach_the_template),
        cmocka_unit_test(lines_are_messages),
        cmocka_unit_test(last_line_needs_no_newline),
        cmocka_unit_test(quiet_says_nothing_unasked),
        cmocka_unit_test(interrupt_ends_a_pipe),
        cmocka_unit_test(closed_output_ends_quietly),
        cmocka_unit_test(model_without_a_template_is_refused),
    };
    int failed = cmocka_run_group_tests(cases, NULL, NULL);
    failed += test_run_table("refusals", is_refused, refusals);
    return failed;
}
