/* `generate` with the bundled model: the text on each stream, prompts, sampling, stops. */
#include "tests/support/test.h"

#include <regex.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/terminal.h"
#include "tests/support/tiny_model.h"

#define PROMPT "Once upon a time"
#define COMMON "generate", "--device", "any", "-q"

/* Greedy, 12 tokens after PROMPT; other cases compare with it. */
static void run_greedy(struct process_result *r)
{
    process_command(r, COMMON, "-p", PROMPT, "-n", "12", "--temp", "0", NULL);
    assert_code(r, 0);
}

/* ---- values that parse and do not fit -------------------------------------------------------- */

struct misfit {
    const char *name;
    const char *args[8];
    const char *error;
};

static void misfit_case(void **state)
{
    const struct misfit *row = *state;
    const char *args[16] = {COMMON};
    struct process_result r;
    for (size_t i = 0; i < 8; i++)
        args[4 + i] = row->args[i];
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, row->error);
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
}

static const struct misfit misfits[] = {
    {"id beyond the vocabulary", {"--ids", "1,4096"}, "token 1 of the prompt is 4096"},
    {"negative id", {"--ids", "-1"}, "token 0 of the prompt is -1"},
    {"invalid UTF-8", {"-p", "a\xff"}, "0xff"},
    {"truncated UTF-8", {"-p", "caf\xc3"}, "UTF-8"},
    {"overlong UTF-8", {"-p", "\xc0\xaf"}, "UTF-8"},
    {"surrogate in UTF-8", {"-p", "\xed\xa0\x80"}, "UTF-8"},
    {"invalid UTF-8 and --echo", {"-p", "a\xff", "--echo"}, "0xff"},
    {"invalid UTF-8 from an escape", {"-e", "-p", "\\xff"}, "0xff"},
    {"context beyond the model's", {"-p", "a", "-c", "4096"}, "2048"},
    {"prompt longer than the context", {"-p", PROMPT, "-c", "4"}, "5 tokens"},
    {"missing model", {"-p", "a", "-m", TEST_MISSING "/m"}, TEST_MISSING "/m"},
    {"folder that is no model", {"-p", "a", "-m", "docs"}, "docs"},
    {"name outside of the Hub cache", {"-p", "a", "-m", "no-one/nothing"}, "no-one/nothing"},
    {"device that is not there", {"-p", "a", "--device", "99"}, "99"},
    {"render node that is not there", {"-p", "a", "--device", "/dev/dri/none"}, "/dev/dri/none"},
};

/* ---- streams --------------------------------------------------------------------------------- */

static void text_alone_goes_to_stdout(void **state)
{
    struct process_result quiet, loud;
    (void)state;
    run_greedy(&quiet);
    assert_true(quiet.out_len > 10);
    assert_true(quiet.out[quiet.out_len - 1] != '\n');
    process_command(&loud, "generate", "--device", "any", "-p", PROMPT, "-n", "12", "--temp", "0",
                    "-v", NULL);
    assert_code(&loud, 0);
    assert_string_equal(quiet.out, loud.out);
    assert_contains(loud.err, "device: ");
    assert_contains(loud.err, "tok/s");
    assert_contains(loud.err, "length");
    assert_null(strstr(quiet.err, "device: "));
    assert_null(strstr(quiet.err, "tok/s"));
    process_finish(&quiet);
    process_finish(&loud);
}

/* Token 220 is ESC. On a terminal it is escaped unless an option allows it; a pipe receives the
 * byte. */
static void control_characters_act_only_where_asked(void **state)
{
    (void)state;
#define ESCAPES "generate", "--device", "any", "-p", PROMPT, "-n", "2", "-l", "220+100", "-q"
    static const char *const plain[] = {ESCAPES, NULL}, *const raw[] = {ESCAPES, "--raw", NULL};
    struct process_result r;
    struct terminal t;
    process_run(&(struct process_params){.args = plain}, &r);
    assert_code(&r, 0);
    assert_string_equal(r.out, "\033\033");
    process_finish(&r);
    terminal_start(&t, plain, NULL);
    terminal_expect(&t, "\\x1b\\x1b");
    assert_int_equal(terminal_wait(&t), 0);
    terminal_finish(&t);
    terminal_start(&t, raw, NULL);
    assert_int_equal(terminal_wait(&t), 0);
    assert_true(t.screen.p == NULL || strstr(t.screen.p, "x1b") == NULL);
    terminal_finish(&t);
}

static void adjusted_logits_choose_other_tokens(void **state)
{
    (void)state;
    struct process_result plain, r;
    run_greedy(&plain);
    static const char *const flags[][3] = {
        {"--repeat-penalty", "1.8", "--repeat-last-n=-1"},
        {"--presence-penalty", "8", "--top-k=-1"},
        {"--frequency-penalty", "6", "--repeat-last-n=100"},
        {"--logit-bias", "16-inf", "--logit-bias=18-inf"}, /* comma and full stop */
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        process_command(&r, "generate", "--device", "any", "-p", PROMPT, "-n", "12", "--temp", "0",
                        "-q", flags[i][0], flags[i][1], flags[i][2], NULL);
        assert_code(&r, 0);
        if (strcmp(r.out, plain.out) == 0)
            fail_msg("%s %s changes nothing: \"%s\"", flags[i][0], flags[i][1], r.out);
        process_finish(&r);
    }
    process_finish(&plain);
}

/* DRY against every repetition of a token, and a breaker that ends the repetition. */
static void dry_sees_repeats_up_to_breakers(void **state)
{
    (void)state;
#define DRY                                                                                        \
    "generate", "--device", "any", "-p", "One day, one day, one day, one", "-n", "1", "--temp",    \
        "0", "-q", "--json"
    static const char *const runs[][18] = {
        {DRY, NULL},
        {DRY, "--dry-multiplier", "100", NULL},
        {DRY, "--dry-multiplier", "100", "--dry-sequence-breaker", "one", NULL},
        {DRY, "--dry-multiplier", "100", "--dry-penalty-last-n", "0", NULL},
    };
    double token[4];
    for (size_t i = 0; i < 4; i++) {
        struct process_result r;
        process_run(&(struct process_params){.args = runs[i]}, &r);
        assert_code(&r, 0);
        token[i] = dgl_json_f64(dgl_json_first(dgl_json_get(process_json(&r), "tokens")));
        process_finish(&r);
    }
    assert_true(token[1] != token[0]);
    assert_int_equal(token[2], token[0]);
    assert_int_equal(token[3], token[0]);
}

static void full_context_goes_on_when_asked(void **state)
{
    (void)state;
    struct process_result r;
    process_command(&r, "generate", "--device", "any", "-p", PROMPT, "-n", "60", "--temp", "0",
                    "-c", "32", "--ignore-eos", "--context-shift", "--keep", "4", "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_int_equal(dgl_json_count(dgl_json_get(root, "tokens")), 60);
    assert_string_equal(dgl_json_str(dgl_json_get(root, "finish_reason")).p, "length");
    process_finish(&r);
}

/* Software rendering is never selected silently. If there is hardware, the default opens it. */
static void software_needs_to_be_asked_for(void **state)
{
    struct process_result r;
    const char *const args[] = {"generate", "-p", "a", "-n", "1", NULL};
    (void)state;
    process_command(&r, "devices", "--json", NULL);
    const struct dgl_json *rows = process_json(&r), *row;
    for (row = dgl_json_first(rows); row; row = dgl_json_next(row)) {
        if (!dgl_json_bool(dgl_json_get(row, "software")) &&
            dgl_json_bool(dgl_json_get(row, "usable"))) {
            process_finish(&r);
            SKIP("a hardware device is here");
        }
    }
    process_finish(&r);
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "--device any");
    process_finish(&r);
}

static void minimum_limits_give_the_same_text(void **state)
{
    struct process_result r, min;
    (void)state;
    run_greedy(&r);
    process_command(&min, "generate", "--device", "any", "--limits", "min", "-p", PROMPT, "-n",
                    "12", "--temp", "0", NULL);
    assert_code(&min, 0);
    assert_string_equal(r.out, min.out);
    assert_contains(min.err, "limits min");
    process_finish(&r);
    process_finish(&min);
}

static void cache_type_gives_the_same_text(void **state)
{
    struct process_result r, f32;
    (void)state;
    run_greedy(&r);
    process_command(&f32, COMMON, "-p", PROMPT, "-n", "12", "--temp", "0", "--kv-type", "f32",
                    NULL);
    assert_code(&f32, 0);
    assert_string_equal(r.out, f32.out);
    process_finish(&r);
    process_finish(&f32);
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* Each row has the same prompt ids as `-p same`. */
struct prompt_row {
    const char *name;
    const char *args[5];
    const char *input;
    size_t input_len;
    const char *same;
};

static void read_ids(const struct process_params *p, char *out, size_t size)
{
    struct process_result r;
    struct dgl_buf text = {0};
    process_run(p, &r);
    assert_code(&r, 0);
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_value(&w, dgl_json_get(process_json(&r), "prompt_ids"));
    snprintf(out, size, "%s", text.p);
    dgl_buf_finish(&text);
    process_finish(&r);
}

static void prompt_case(void **state)
{
    const struct prompt_row *row = *state;
    const char *args[16] = {COMMON, "--json", "-n", "0"};
    const char *plain[] = {COMMON, "--json", "-n", "0", "-p", row->same, NULL};
    char a[512], b[512];
    for (size_t i = 0; i < 5; i++)
        args[7 + i] = row->args[i];
    read_ids(
        &(struct process_params){.args = args, .input = row->input, .input_len = row->input_len}, a,
        sizeof(a));
    read_ids(&(struct process_params){.args = plain}, b, sizeof(b));
    assert_string_equal(a, b);
}

static const struct prompt_row prompts[] = {
    {"standard input", {"-f", "-"}, "Hello there", 0, "Hello there"},
    {"file with its newline", {"-f", "-"}, "Hello\n", 0, "Hello\n"},
    {"blanks at both ends", {"-f", "-"}, "  Hello ", 0, "  Hello "},
    {"carriage returns", {"-f", "-"}, "a\r\nb", 0, "a\r\nb"},
    {"empty file", {"-f", "/dev/null"}, NULL, 0, ""},
    {"prompt that begins with a dash", {"-p", "--echo"}, NULL, 0, "--echo"},
    {"without a flag", {"Hello"}, NULL, 0, "Hello"},
    {"after =", {"--prompt=a=b"}, NULL, 0, "a=b"},
    {"last one wins", {"-p", "x", "-p", "Hello"}, NULL, 0, "Hello"},
    {"escapes are off", {"-p", "a\\nb"}, NULL, 0, "a\\nb"},
    {"escapes are on", {"-e", "-p", "a\\nb\\t\\\\"}, NULL, 0, "a\nb\t\\"},
    {"escaped quotes", {"-e", "-p", "\\'\\\""}, NULL, 0, "'\""},
    {"escaped bytes", {"-e", "-p", "caf\\xc3\\xa9"}, NULL, 0, "caf\xc3\xa9"},
    {"escapes in a file", {"-e", "-f", "-"}, "a\\nb", 0, "a\nb"},
    {"what is no escape stays", {"-e", "-p", "\\q \\x4 \\"}, NULL, 0, "\\q \\x4 \\"},
};

/* If a prompt is not valid text, the error names its file. */
static void a_bad_prompt_names_its_file(void **state)
{
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "bad.txt");
    const char *const file[] = {COMMON, "-f", path, NULL};
    const char *const standard[] = {COMMON, NULL};
    struct process_result r;
    struct dgl_buf line = {0};
    (void)state;
    test_write_file(dir, "bad.txt", "ab\xff", 3);
    dgl_buf_printf(&line, "%s is not UTF-8: byte 0xff at offset 2", path);
    process_run(&(struct process_params){.args = file}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, line.p);
    process_finish(&r);
    process_run(&(struct process_params){.args = standard, .input = "ab\xff"}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "standard input is not UTF-8: byte 0xff at offset 2");
    process_finish(&r);
    dgl_buf_finish(&line);
    free(path);
    test_tmpdir_remove(dir);
}

/* U+0000 cannot be in an argument, but a file may contain it. */
static void prompt_keeps_nul(void **state)
{
    const char *const args[] = {COMMON, "--json", "-n", "0", "-f", "-", NULL};
    const char *const escaped[] = {COMMON, "--json", "-n", "0", "-e", "-p", "a\\x00b", NULL};
    const char *const cut[] = {COMMON, "--json", "-n", "0", "-p", "a", NULL};
    char a[256], b[256], c[256];
    (void)state;
    read_ids(&(struct process_params){.args = args, .input = "a\0b", .input_len = 3}, a, 256);
    read_ids(&(struct process_params){.args = escaped}, b, sizeof(b));
    read_ids(&(struct process_params){.args = cut}, c, sizeof(c));
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
}

static void ids_continue_like_text(void **state)
{
    struct process_result r, json, ids;
    struct dgl_buf list = {0};
    (void)state;
    run_greedy(&r);
    process_command(&json, COMMON, "--json", "-n", "0", "-p", PROMPT, NULL);
    const struct dgl_json *array = dgl_json_get(process_json(&json), "prompt_ids"), *v;
    for (v = dgl_json_first(array); v; v = dgl_json_next(v))
        dgl_buf_printf(&list, "%s%.0f", list.len ? "," : "", dgl_json_f64(v));
    process_command(&ids, COMMON, "--ids", list.p, "-n", "12", "--temp", "0", NULL);
    assert_code(&ids, 0);
    assert_string_equal(r.out, ids.out);
    dgl_buf_finish(&list);
    process_finish(&r);
    process_finish(&json);
    process_finish(&ids);
}

static void echo_puts_the_prompt_first(void **state)
{
    struct process_result r, echo;
    struct dgl_buf wanted = {0};
    (void)state;
    run_greedy(&r);
    process_command(&echo, COMMON, "-p", PROMPT, "-n", "12", "--temp", "0", "--echo", NULL);
    assert_code(&echo, 0);
    dgl_buf_printf(&wanted, "%s%s", PROMPT, r.out);
    assert_string_equal(echo.out, wanted.p);
    dgl_buf_finish(&wanted);
    process_finish(&r);
    process_finish(&echo);
}

static void echo_decodes_ids(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, COMMON, "--ids", "586,361", "-n", "0", "--echo", NULL);
    assert_code(&r, 0);
    assert_string_equal(r.out, "Hello there");
    process_finish(&r);
}

static void special_tokens_in_text_are_parsed(void **state)
{
    struct process_result r;
    const struct dgl_json *ids;
    (void)state;
    process_command(&r, "inspect", "--json", NULL);
    assert_code(&r, 0);
    process_finish(&r);
    process_command(&r, COMMON, "--json", "-n", "0", "-p", "a<|end|>", NULL);
    assert_code(&r, 0);
    ids = dgl_json_get(process_json(&r), "prompt_ids");
    size_t parsed = dgl_json_count(ids);
    process_finish(&r);
    process_command(&r, COMMON, "--json", "-n", "0", "-p", "a<|end|>", "--no-parse-special", NULL);
    assert_code(&r, 0);
    ids = dgl_json_get(process_json(&r), "prompt_ids");
    assert_true(dgl_json_count(ids) > parsed);
    process_finish(&r);
}

/* ---- how many tokens ------------------------------------------------------------------------- */

static void zero_tokens_print_nothing(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "generate", "--device", "any", "-p", PROMPT, "-n", "0", NULL);
    assert_code(&r, 0);
    assert_int_equal(r.out_len, 0);
    assert_contains(r.err, "prompt 5 tokens");
    process_finish(&r);
}

static int64_t count_of(const struct dgl_json *root, const char *key)
{
    return (int64_t)dgl_json_count(dgl_json_get(root, key));
}

static void assert_finish(const struct dgl_json *root, const char *wanted)
{
    assert_string_equal(dgl_json_str(dgl_json_get(root, "finish_reason")).p, wanted);
}

static void unlimited_runs_to_the_end_of_the_context(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, COMMON, "--json", "-p", PROMPT, "-n", "-1", "-c", "32", "--temp", "0",
                    "--ignore-eos", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_finish(root, "context");
    /* The context need not have room for the last sampled token, which is never evaluated. */
    assert_int_equal(count_of(root, "prompt_ids") + count_of(root, "tokens"), 33);
    process_finish(&r);
}

static void limit_beyond_the_context_ends_with_it(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, COMMON, "--json", "-p", PROMPT, "-n", "500", "-c", "16", "--temp", "0",
                    "--ignore-eos", "--readback-interval", "8", NULL);
    assert_code(&r, 0);
    assert_finish(process_json(&r), "context");
    process_finish(&r);
}

static void stop_token_is_kept_and_not_shown(void **state)
{
    struct process_result r, text;
    (void)state;
    process_command(&r, COMMON, "--json", "-p", "hi", "-n", "-1", "--temp", "0", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r), *tokens = dgl_json_get(root, "tokens");
    assert_finish(root, "eos");
    int64_t last = -1;
    assert_true(dgl_json_i64(dgl_json_at(tokens, dgl_json_count(tokens) - 1), &last));
    assert_true(last == 0 || last == 1);
    process_command(&text, COMMON, "-p", "hi", "-n", "-1", "--temp", "0", NULL);
    assert_string_equal(text.out, dgl_json_str(dgl_json_get(root, "text")).p);
    assert_null(strstr(text.out, "<|"));
    process_finish(&r);
    process_finish(&text);
}

static void stop_token_can_be_ignored(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, COMMON, "--json", "-p", "hi", "-n", "12", "--temp", "0", "--ignore-eos",
                    NULL);
    assert_code(&r, 0);
    assert_finish(process_json(&r), "length");
    assert_int_equal(count_of(process_json(&r), "tokens"), 12);
    process_finish(&r);
}

/* The answer to PROMPT, cut before a stop string from its middle. */
static void stop_string_cuts_the_text(void **state)
{
    struct process_result r, cut;
    char stop[5] = {0};
    (void)state;
    run_greedy(&r);
    memcpy(stop, r.out + r.out_len / 2, 4);
    size_t wanted = (size_t)(strstr(r.out, stop) - r.out);
    process_command(&cut, COMMON, "--json", "-p", PROMPT, "-n", "60", "--temp", "0", "--stop",
                    "never to be seen", "--stop", stop, NULL);
    assert_code(&cut, 0);
    const struct dgl_json *root = process_json(&cut);
    assert_finish(root, "stop");
    assert_int_equal(dgl_json_str(dgl_json_get(root, "text")).len, wanted);
    assert_memory_equal(dgl_json_str(dgl_json_get(root, "text")).p, r.out, wanted);
    process_finish(&cut);
    process_command(&cut, COMMON, "-p", PROMPT, "-n", "60", "--temp", "0", "--stop", stop, NULL);
    assert_int_equal(cut.out_len, wanted);
    process_finish(&cut);
    process_finish(&r);
}

static void stop_string_takes_escapes(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, COMMON, "--json", "-p", PROMPT, "-n", "60", "--temp", "0", "-e", "--stop",
                    "\\x20a", NULL);
    assert_code(&r, 0);
    assert_finish(process_json(&r), "stop");
    process_finish(&r);
}

/* ---- sampling -------------------------------------------------------------------------------- */

struct sampling_row {
    const char *name;
    const char *args[8];
};

/* Equal seeds produce equal text, for any readback interval. */
static void seed_case(void **state)
{
    const struct sampling_row *row = *state;
    static const char *const interval[] = {"1", "7"};
    char *first = NULL;
    for (int run = 0; run < 2; run++) {
        const char *args[24] = {
            COMMON, "-p", PROMPT, "-n", "16", "--seed", "42", "--readback-interval", interval[run]};
        struct process_result r;
        for (size_t i = 0; i < 8; i++)
            args[12 + i] = row->args[i];
        process_run(&(struct process_params){.args = args}, &r);
        assert_code(&r, 0);
        assert_true(r.out_len > 0);
        if (!first)
            first = strdup(r.out);
        assert_string_equal(first, r.out);
        process_finish(&r);
    }
    free(first);
}

static const struct sampling_row samplings[] = {
    {"same seed: defaults", {NULL}},
    {"same seed: hot", {"--temp", "1.5"}},
    {"same seed: whole vocabulary", {"--top-k", "0"}},
    {"same seed: top-k alone", {"--top-k", "5", "--top-p", "1", "--min-p", "0"}},
    {"same seed: top-k of 128", {"--top-k", "128"}},
    {"same seed: top-p alone", {"--top-k", "0", "--top-p", "0.5", "--min-p", "0"}},
    {"same seed: min-p alone", {"--top-k", "0", "--top-p", "1", "--min-p", "0.2"}},
    {"same seed: penalty", {"--repeat-penalty", "1.3", "--repeat-last-n", "8"}},
    {"same seed: typical", {"--typical", "0.5", "--top-k", "0"}},
    {"same seed: top-n sigma", {"--top-nsigma", "1.5", "--temp", "2"}},
    {"same seed: xtc", {"--xtc-probability", "0.5", "--xtc-threshold", "0.05"}},
    {"same seed: greedy with a penalty", {"--temp", "0", "--repeat-penalty", "1.3"}},
};

/* ---- required forms -------------------------------------------------------------------------- */

struct form {
    const char *name;
    const char *args[6]; /* FILE is a file with `text` */
    const char *text;    /* of the file, or of standard input */
    const char *pattern; /* of the answer; NULL = refused with `error` */
    const char *error;
    int code;
};

#define FILE_ARG  "FILE"
#define ITEM_TEXT "root ::= [0-9]{2} \",\" [a-c]"
#define ITEM_LIKE "^[0-9]{2},[a-c]$"
#define ENUM_TEXT "{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"minItems\":2,\"maxItems\":3}"
#define ENUM_LIKE "^\\[[[:space:]]*[12]([[:space:]]*,[[:space:]]*[12]){1,2}[[:space:]]*\\]$"
static const struct form forms[] = {
    {"--grammar", {"--grammar", ITEM_TEXT}, NULL, ITEM_LIKE, NULL, 0},
    {"--grammar-file", {"--grammar-file", FILE_ARG}, ITEM_TEXT, ITEM_LIKE, NULL, 0},
    {"--grammar-file -", {"--grammar-file", "-"}, ITEM_TEXT, ITEM_LIKE, NULL, 0},
    {"-j", {"-j", ENUM_TEXT}, NULL, ENUM_LIKE, NULL, 0},
    {"--json-schema", {"--json-schema", ENUM_TEXT}, NULL, ENUM_LIKE, NULL, 0},
    {"-jf", {"-jf", FILE_ARG}, ENUM_TEXT, ENUM_LIKE, NULL, 0},
    {"--json-schema-file", {"--json-schema-file", FILE_ARG}, ENUM_TEXT, ENUM_LIKE, NULL, 0},
    {"--json-compact",
     {"-j", ENUM_TEXT, "--json-compact"},
     NULL,
     "^\\[[12](,[12]){1,2}\\]$",
     NULL,
     0},
    {"--regex", {"--regex", "[A-F]{3}-(x|yy)"}, NULL, "^[A-F]{3}-(x|yy)$", NULL, 0},
    {"two forms", {"--regex", "a", "--grammar", "root ::= [a]"}, NULL, NULL, "--regex", 2},
    {"--json-compact alone", {"--json-compact"}, NULL, NULL, "--json-compact is for", 2},
    {"a malformed grammar", {"--grammar", "root ::= (\n"}, NULL, NULL, "line 2", 1},
    {"a malformed schema", {"-j", "{\"type\":\"objct\"}"}, NULL, NULL, "/type", 1},
    {"a file that is missing", {"-jf", "/nonexistent"}, NULL, NULL, "/nonexistent", 1},
};

static void test_form(void **state)
{
    const struct form *row = *state;
    static const char *const commands[] = {"generate", "chat"};
    char *dir = test_tmpdir(), path[512];
    if (row->text)
        test_write_file(dir, "form", row->text, strlen(row->text));
    snprintf(path, sizeof(path), "%s/form", dir);
    for (size_t c = 0; c < 2; c++) {
        const char *args[24] = {commands[c], "--device", "any", "-q", "-n", "60", "--seed", "3"};
        const bool reads = row->args[1] && strcmp(row->args[1], "-") == 0;
        size_t count = 8;
        struct process_result r;
        regex_t regex;
        if (c == 1 && reads) /* standard input has the messages */
            continue;
        for (size_t i = 0; i < 6 && row->args[i]; i++)
            args[count++] = strcmp(row->args[i], FILE_ARG) == 0 ? path : row->args[i];
        if (c == 0) {
            args[count++] = "-p";
            args[count++] = PROMPT;
        }
        process_run(&(struct process_params){.args = args,
                                             .input = c == 1  ? "hi\n"
                                                      : reads ? row->text
                                                              : NULL},
                    &r);
        assert_code(&r, row->code);
        if (!row->pattern) {
            assert_one_error(&r, row->error);
            process_finish(&r);
            continue;
        }
        for (size_t n = strlen(r.out); n > 0 && r.out[n - 1] == '\n';)
            r.out[--n] = '\0';
        assert_int_equal(regcomp(&regex, row->pattern, REG_EXTENDED | REG_NOSUB), 0);
        if (regexec(&regex, r.out, 0, NULL, 0) != 0)
            fail_msg("%s %s: \"%s\" does not match %s", commands[c], row->name, r.out,
                     row->pattern);
        regfree(&regex);
        process_finish(&r);
    }
    test_tmpdir_remove(dir);
}

static void other_seed_gives_other_text(void **state)
{
    struct process_result a, b;
    (void)state;
    process_command(&a, COMMON, "-p", PROMPT, "-n", "24", "--seed", "1", "--temp", "1.2", NULL);
    process_command(&b, COMMON, "-p", PROMPT, "-n", "24", "--seed", "2", "--temp", "1.2", NULL);
    assert_string_not_equal(a.out, b.out);
    process_finish(&a);
    process_finish(&b);
}

static void fresh_seeds_are_told(void **state)
{
    struct process_result a, b;
    (void)state;
    process_command(&a, "generate", "--device", "any", "-p", "a", "-n", "1", NULL);
    process_command(&b, "generate", "--device", "any", "-p", "a", "-n", "1", NULL);
    const char *x = strstr(a.err, "seed "), *y = strstr(b.err, "seed ");
    assert_non_null(x);
    assert_non_null(y);
    assert_string_not_equal(x, y);
    process_finish(&a);
    process_finish(&b);
}

static void top_1_is_greedy(void **state)
{
    struct process_result r, one;
    (void)state;
    run_greedy(&r);
    process_command(&one, COMMON, "-p", PROMPT, "-n", "12", "--top-k", "1", "--seed", "9", NULL);
    assert_string_equal(r.out, one.out);
    process_finish(&one);
    process_command(&one, COMMON, "-p", PROMPT, "-n", "12", "--top-k", "0", "--min-p", "0",
                    "--temp", "1.5", "--top-p", "0", "--seed", "9", NULL);
    assert_string_equal(r.out, one.out);
    process_finish(&r);
    process_finish(&one);
}

/* The bundled generation_config.json has stop ids and no sampling values. */
static void model_defaults_keep_what_the_model_does_not_say(void **state)
{
    struct process_result a, b;
    (void)state;
    process_command(&a, COMMON, "-p", PROMPT, "-n", "12", "--seed", "3", NULL);
    process_command(&b, COMMON, "-p", PROMPT, "-n", "12", "--seed", "3", "--model-defaults", NULL);
    assert_code(&b, 0);
    assert_string_equal(a.out, b.out);
    process_finish(&a);
    process_finish(&b);
}

/* generation_config.json of a tiny model, and the equivalent flags. */
struct defaults_row {
    const char *name;
    const char *config;
    const char *flags[7]; /* with --model-defaults */
    const char *same[9];  /* without */
    const char *error;
};

static const struct defaults_row defaults[] = {
    {"all values",
     "{\"temperature\": 0.5, \"top_k\": 9, \"top_p\": 0.7, \"min_p\": 0.1}",
     {NULL},
     {"--temp", "0.5", "--top-k", "9", "--top-p", "0.7", "--min-p", "0.1"},
     NULL},
    {"no sampling is greedy",
     "{\"do_sample\": false, \"temperature\": 0.5}",
     {NULL},
     {"--temp", "0"},
     NULL},
    {"flags come first",
     "{\"temperature\": 0.5, \"top_k\": 9}",
     {"--temp", "2", "--top-k", "0"},
     {"--temp", "2", "--top-k", "0"},
     NULL},
    {"a flag turns sampling on", "{\"do_sample\": false}", {"--temp", "2"}, {"--temp", "2"}, NULL},
    {"penalty", "{\"repetition_penalty\": 5}", {NULL}, {"--repeat-penalty", "5"}, NULL},
    {"nulls say nothing", "{\"temperature\": null, \"top_k\": null}", {NULL}, {NULL}, NULL},
    {"top_k that is too large", "{\"top_k\": 500}", {NULL}, {"--top-k", "128"}, NULL},
    {"top_p of 0 is greedy", "{\"temperature\": 2, \"top_p\": 0}", {NULL}, {"--temp", "0"}, NULL},
    {"typical",
     "{\"typical_p\": 0.4, \"top_k\": 0}",
     {NULL},
     {"--typical", "0.4", "--top-k", "0"},
     NULL},
    {"xtc of llama-server",
     "{\"xtc_probability\": 1, \"xtc_threshold\": 0.01}",
     {"--temp", "2"},
     {"--xtc-probability", "1", "--xtc-threshold", "0.01", "--temp", "2"},
     NULL},
    {"top_p out of range", "{\"top_p\": 3}", {NULL}, {NULL}, "top_p"},
    {"temperature is a string", "{\"temperature\": \"hot\"}", {NULL}, {NULL}, "temperature"},
};

/* The ids of 12 tokens of a tiny model at seed 5. */
static void run_tiny(struct process_result *r, const char *model, bool use_defaults,
                     const char *const *flags, size_t count)
{
    const char *args[32] = {COMMON, "-m",     model, "--ids",  "5,6,7",       "-n",
                            "12",   "--seed", "5",   "--json", "--ignore-eos"};
    size_t n = 14;
    if (use_defaults)
        args[n++] = "--model-defaults";
    for (size_t i = 0; i < count && flags[i]; i++)
        args[n++] = flags[i];
    process_run(&(struct process_params){.args = args}, r);
}

static void assert_same_tokens(struct process_result *a, struct process_result *b)
{
    struct dgl_buf x = {0}, y = {0};
    struct dgl_json_writer wx = dgl_json_writer(&x, 0), wy = dgl_json_writer(&y, 0);
    dgl_jw_value(&wx, dgl_json_get(process_json(a), "tokens"));
    dgl_jw_value(&wy, dgl_json_get(process_json(b), "tokens"));
    assert_string_equal(x.p, y.p);
    dgl_buf_finish(&x);
    dgl_buf_finish(&y);
}

static void defaults_case(void **state)
{
    const struct defaults_row *row = *state;
    char *dir = test_tmpdir();
    struct process_result with, without;
    make_tiny_llama(dir, 11, NULL);
    test_write_file(dir, "generation_config.json", row->config, strlen(row->config));
    run_tiny(&with, dir, true, row->flags, 7);
    if (row->error) {
        assert_code(&with, 1);
        assert_one_error(&with, row->error);
    } else {
        assert_code(&with, 0);
        run_tiny(&without, dir, false, row->same, 9);
        assert_code(&without, 0);
        assert_same_tokens(&with, &without);
        process_finish(&without);
    }
    process_finish(&with);
    test_tmpdir_remove(dir);
}

/* The warning names the file and the field, also of a GGUF file. */
static void large_top_k_is_lowered(void **state)
{
    static const char config[] = "{\"temperature\": 1.5, \"top_k\": 200}";
    static const char *const names[] = {"in/generation_config.json", "m.gguf general.sampling.*"};
    char *dir = test_tmpdir(), *in = dgl_path_join(dir, "in"), *gguf = dgl_path_join(dir, "m.gguf");
    const char *const models[] = {in, gguf};
    struct process_result r, same;
    (void)state;
    assert_int_equal(dgl_dir_make(NULL, in), DGL_OK);
    make_tiny_llama(in, 11, NULL);
    test_write_file(in, "generation_config.json", config, sizeof(config) - 1);
    process_command(&r, "convert", in, gguf, NULL);
    assert_code(&r, 0);
    process_finish(&r);
    run_tiny(&same, in, false, (const char *[]){"--temp", "1.5", "--top-k", "128"}, 4);
    for (size_t i = 0; i < 2; i++) {
        char wanted[160];
        snprintf(wanted, sizeof(wanted),
                 "%s: top_k is 200, but sampling keeps at most 128 tokens: 128 is used", names[i]);
        run_tiny(&r, models[i], true, NULL, 0);
        assert_code(&r, 0);
        assert_same_tokens(&r, &same);
        process_finish(&r);
        process_command(&r, "generate", "--device", "any", "-m", models[i], "--ids", "5", "-n", "1",
                        "--model-defaults", NULL);
        assert_code(&r, 0);
        assert_contains(r.err, wanted);
        process_finish(&r);
    }
    process_finish(&same);
    free(in);
    free(gguf);
    test_tmpdir_remove(dir);
}

static void missing_defaults_are_told(void **state)
{
    char *dir = test_tmpdir(), *config = dgl_path_join(dir, "generation_config.json");
    struct process_result r;
    (void)state;
    make_tiny_llama(dir, 11, NULL);
    assert_int_equal(unlink(config), 0);
    process_command(&r, "generate", "--device", "any", "-m", dir, "--ids", "5", "-n", "1",
                    "--model-defaults", NULL);
    assert_code(&r, 0);
    assert_contains(r.err, "no generation_config.json");
    assert_contains(r.err, "no tokenizer");
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
    free(config);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_alone_goes_to_stdout),
        cmocka_unit_test(software_needs_to_be_asked_for),
        cmocka_unit_test(minimum_limits_give_the_same_text),
        cmocka_unit_test(cache_type_gives_the_same_text),
        cmocka_unit_test(control_characters_act_only_where_asked),
        cmocka_unit_test(adjusted_logits_choose_other_tokens),
        cmocka_unit_test(dry_sees_repeats_up_to_breakers),
        cmocka_unit_test(full_context_goes_on_when_asked),
        cmocka_unit_test(prompt_keeps_nul),
        cmocka_unit_test(a_bad_prompt_names_its_file),
        cmocka_unit_test(ids_continue_like_text),
        cmocka_unit_test(echo_puts_the_prompt_first),
        cmocka_unit_test(echo_decodes_ids),
        cmocka_unit_test(special_tokens_in_text_are_parsed),
        cmocka_unit_test(zero_tokens_print_nothing),
        cmocka_unit_test(unlimited_runs_to_the_end_of_the_context),
        cmocka_unit_test(limit_beyond_the_context_ends_with_it),
        cmocka_unit_test(stop_token_is_kept_and_not_shown),
        cmocka_unit_test(stop_token_can_be_ignored),
        cmocka_unit_test(stop_string_cuts_the_text),
        cmocka_unit_test(stop_string_takes_escapes),
        cmocka_unit_test(other_seed_gives_other_text),
        cmocka_unit_test(fresh_seeds_are_told),
        cmocka_unit_test(top_1_is_greedy),
        cmocka_unit_test(large_top_k_is_lowered),
        cmocka_unit_test(missing_defaults_are_told),
        cmocka_unit_test(model_defaults_keep_what_the_model_does_not_say),
    };
    int failures = test_run_table("cli generate misfits", misfit_case, misfits);
    failures += test_run_table("cli generate prompts", prompt_case, prompts);
    failures += test_run_table("cli generate sampling", seed_case, samplings);
    failures += test_run_table("cli required forms", test_form, forms);
    failures += test_run_table("cli model defaults", defaults_case, defaults);
    return failures + cmocka_run_group_tests_name("cli generate", tests, NULL, NULL);
}
