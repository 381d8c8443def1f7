/* Tests from the table of options: every option of every command with invalid values, flags of
 * other programs, and the man page and completions generated from the table. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/process.h"

static const char *text(const struct dgl_json *object, const char *key)
{
    return dgl_json_str(dgl_json_get(object, key)).p;
}

/* `help --json`; the caller ends *r. */
static const struct dgl_json *read_table(struct process_result *r)
{
    process_command(r, "help", "--json", NULL);
    assert_code(r, 0);
    const struct dgl_json *root = process_json(r);
    assert_true(dgl_json_count(root) >= 14);
    return root;
}

/* ---- exit code 2 from the table -------------------------------------------------------------- */

/* Values that an option of a type cannot have. */
static const char *const bad_words[] = {"no such word", "", NULL};
static const char *const bad_numbers[] = {"", "x", "1.5.2", "1e999", "nan", " 1", NULL};
static const char *const bad_ids[] = {"", "a", "1,,2", "1.5", NULL};
static const char *const bad_dates[] = {"", "tomorrow", "2025-13-01", NULL};
static const char *const bad_devices[] = {"", "card0", "-1", "0x1", NULL};
static const char *const bad_hints[] = {"", "{", "[]", "{\"nope\":1}", NULL};
static const char *const bad_paths[] = {"", NULL};
static const char *const bad_nothing[] = {NULL};

static const struct {
    const char *type;
    const char *const *values;
} bad_values[] = {
    {"word", bad_words},    {"integer", bad_numbers}, {"number", bad_numbers},
    {"ids", bad_ids},       {"date", bad_dates},      {"device", bad_devices},
    {"hints", bad_hints},   {"path", bad_paths},      {"paths", bad_paths},
    {"text", bad_nothing},  {"texts", bad_nothing},   {"flag", bad_nothing},
    {"count", bad_nothing},
};

/* Options must be checked before any file is opened: the configuration file is not JSON, and the
 * model and the device do not exist. */
struct walk {
    const char *command, *args; /* the arguments that a command needs, blank-separated */
    const char *config;         /* XDG_CONFIG_HOME=... */
    size_t runs;
};

static void expect_usage(struct walk *w, const char *option, const char *value)
{
    const char *args[16] = {w->command, "--device", TEST_MISSING "/card"};
    const char *const env[] = {w->config, "DOPPLERGL_MODEL=" TEST_MISSING "/model", NULL};
    size_t count = 3;
    struct process_result r;
    char *words = checked(strdup(w->args)), *rest = words;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            args[count++] = word;
    args[count++] = option;
    args[count++] = value;
    process_run(&(struct process_params){.args = args, .env = env}, &r);
    if (r.code != 2)
        print_error("dopplergl %s %s %s '%s'\n", w->command, w->args, option,
                    value ? value : "(nothing)");
    assert_code(&r, 2);
    assert_one_error(&r, "");
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
    free(words);
    w->runs++;
}

static void walk_option(struct walk *w, const struct dgl_json *option)
{
    char name[80], number[64];
    bool found = false;
    const char *type = text(option, "type");
    snprintf(name, sizeof(name), "--%s", text(option, "name"));
    if (dgl_json_is(dgl_json_get(option, "argument"), DGL_JSON_STRING))
        expect_usage(w, name, NULL);
    for (size_t i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++) {
        if (strcmp(bad_values[i].type, type) != 0)
            continue;
        found = true;
        for (const char *const *v = bad_values[i].values; *v; v++)
            expect_usage(w, name, *v);
    }
    if (!found)
        fail_msg("%s has the type %s, of which this test knows no bad value", name, type);
    if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0) {
        snprintf(number, sizeof(number), "%.0f", dgl_json_f64(dgl_json_get(option, "min")) - 1);
        expect_usage(w, name, number);
        snprintf(number, sizeof(number), "%.0f", dgl_json_f64(dgl_json_get(option, "max")) + 1);
        expect_usage(w, name, number);
        snprintf(number, sizeof(number), "99999999999999999999999");
        expect_usage(w, name, number);
    }
    if (strcmp(type, "flag") == 0) {
        strcat(name, "=1");
        expect_usage(w, name, NULL);
    }
}

/* Valid arguments of a command, so that one wrong option is the only fault. */
static const struct {
    const char *command, *args;
} needs[] = {
    {"generate", "--prompt x"},        {"convert", "in out"},
    {"template", "--messages m.json"}, {"logits", "--ids 1 -o out"},
    {"perplexity", "--texts t.json"},  {"kernels", "list"},
};

static void every_option_says_what_is_wrong(void **state)
{
    char *dir = test_tmpdir(), *folder = dgl_path_join(dir, "dopplergl");
    struct process_result r;
    struct dgl_buf config = {0};
    struct walk w = {0};
    uint64_t seed = 0;
    size_t at = 0;
    (void)state;
    bool sample = test_is_sample(&seed);
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    test_write_file(folder, "config.json", "{", 1);
    dgl_buf_printf(&config, "XDG_CONFIG_HOME=%s", dir);
    w.config = config.p;
    const struct dgl_json *table = read_table(&r);
    for (const struct dgl_json *c = dgl_json_first(table); c; c = dgl_json_next(c)) {
        w.command = text(c, "name");
        w.args = "";
        for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
            if (strcmp(needs[i].command, w.command) == 0)
                w.args = needs[i].args;
        const struct dgl_json *options = dgl_json_get(c, "options");
        for (const struct dgl_json *o = dgl_json_first(options); o; o = dgl_json_next(o))
            if (!sample || (at++ + seed) % 8 == 0)
                walk_option(&w, o);
    }
    assert_true(w.runs >= (sample ? 60 : 600));
    process_finish(&r);
    dgl_buf_finish(&config);
    free(folder);
    test_tmpdir_remove(dir);
}

/* ---- flags of other programs ----------------------------------------------------------------- */

struct flag_row {
    const char *name;
    const char *args[12];
    const char *said; /* on standard error; NULL = standard error is empty */
};

/* The model is missing: the error about it shows that all other options were accepted. */
#define GENERATE "generate", "-p", "x", "-hf", TEST_MISSING "/m"

static const struct flag_row flags[] = {
    {"-hf", {GENERATE}, NULL},
    {"--hf-repo=", {"generate", "-p", "x", "--hf-repo=" TEST_MISSING "/m"}, NULL},
    {"-ngl", {GENERATE, "-ngl", "99"}, "-ngl has no effect: every layer"},
    {"-fa alone", {GENERATE, "-fa"}, "-fa has no effect"},
    {"-fa with a value", {GENERATE, "-fa", "on"}, "-fa has no effect"},
    {"-fa before another flag", {GENERATE, "-fa", "-e"}, "-fa has no effect"},
    {"--flash-attn=", {GENERATE, "--flash-attn=auto"}, "--flash-attn has no effect"},
    {"-t", {GENERATE, "-t", "4"}, "LP_NUM_THREADS"},
    {"--threads", {GENERATE, "--threads", "4"}, "--threads has no effect"},
    {"--temperature", {GENERATE, "--temperature", "0.5"}, NULL},
    {"--predict", {GENERATE, "--predict", "5"}, NULL},
    {"-sys", {"chat", "-hf", TEST_MISSING "/m", "-sys", "be brief"}, NULL},
    {"--mlock", {GENERATE, "--mlock"}, "--mlock has no effect"},
    {"--no-mmap", {GENERATE, "--no-mmap"}, "--no-mmap has no effect"},
    {"--color", {GENERATE, "--color"}, "--color has no effect"},
    {"--color auto", {GENERATE, "--color", "auto"}, "--color has no effect"},
    {"--jinja", {GENERATE, "--jinja"}, "--jinja has no effect"},
    {"--no-warmup", {GENERATE, "--no-warmup"}, "--no-warmup has no effect"},
    {"-b", {GENERATE, "-b", "512"}, "-b has no effect"},
    {"-ub", {GENERATE, "-ub", "512"}, "-ub has no effect"},
    {"-ub of a server", {"serve", "-hf", TEST_MISSING "/m", "-ub", "512"}, NULL},
    {"-cnv in a chat", {"chat", "-m", TEST_MISSING "/m", "-cnv"}, "-cnv has no effect"},
    {"quiet", {GENERATE, "-ngl", "99", "-q"}, NULL},
    {"--log-disable", {GENERATE, "-ngl", "99", "--log-disable"}, NULL},
    {"--top-k -1", {GENERATE, "--top-k", "-1"}, NULL},
    {"prompt without a flag", {"generate", "x", "-m", TEST_MISSING "/m"}, NULL},
    {"prompt after --", {"generate", "-m", TEST_MISSING "/m", "--", "-n"}, NULL},
};

static void flag_case(void **state)
{
    const struct flag_row *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, TEST_MISSING "/m: no such file or folder");
    if (row->said)
        assert_contains(r.err, row->said);
    assert_int_equal(strstr(r.err, "has no effect") != NULL || strstr(r.err, "LP_NUM") != NULL,
                     row->said != NULL);
    process_finish(&r);
}

/* Twice the flag, once the line. */
static void a_flag_is_explained_once(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, GENERATE, "-ngl", "1", "--gpu-layers", "2", NULL);
    const char *line = strstr(r.err, "has no effect");
    assert_non_null(line);
    assert_null(strstr(line + 1, "has no effect"));
    process_finish(&r);
}

/* ---- generated from the table ------------------------------------------------------------------
 */

static void man_page_has_every_option(void **state)
{
    struct process_result table, man;
    (void)state;
    process_command(&man, "help", "--man", NULL);
    assert_code(&man, 0);
    assert_contains(man.out, ".TH DOPPLERGL 1");
    const struct dgl_json *root = read_table(&table);
    for (const struct dgl_json *c = dgl_json_first(root); c; c = dgl_json_next(c)) {
        const struct dgl_json *options = dgl_json_get(c, "options");
        char heading[64];
        snprintf(heading, sizeof(heading), ".SS %s\n", text(c, "name"));
        assert_contains(man.out, heading);
        for (const struct dgl_json *o = dgl_json_first(options); o; o = dgl_json_next(o)) {
            struct dgl_buf roff = {0};
            dgl_buf_puts(&roff, "\\fB\\-\\-");
            for (const char *p = text(o, "name"); *p; p++)
                dgl_buf_printf(&roff, *p == '-' ? "\\%c" : "%c", *p);
            dgl_buf_puts(&roff, "\\fR");
            assert_contains(man.out, roff.p);
            dgl_buf_finish(&roff);
        }
    }
    process_finish(&table);
    process_finish(&man);
}

/* The parts of the man page are in this order, and the fields of `--json` are only in the last. */
static void man_page_ends_with_json(void **state)
{
    static const char *const parts[] = {
        ".SH COMMANDS",       ".SH OPTIONS OF EVERY COMMAND", ".SH \"FILES\"", ".SH EXAMPLES",
        "dopplergl generate", ".SH \"JSON FIELDS\"",          "finish_reason"};
    struct process_result man;
    (void)state;
    process_command(&man, "help", "--man", NULL);
    const char *at = man.out;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *found = strstr(at, parts[i]);
        if (!found)
            fail_msg("the man page has no %s after %.20s", parts[i], at);
        at = found;
    }
    assert_ptr_equal(strstr(man.out, "finish_reason"), at);
    process_finish(&man);
}

/* Every command but those about the command has an example, and examples use existing options. */
static void examples_are_command_lines(void **state)
{
    struct process_result table, help;
    (void)state;
    const struct dgl_json *root = read_table(&table);
    for (const struct dgl_json *c = dgl_json_first(root); c; c = dgl_json_next(c)) {
        const char *name = text(c, "name");
        char line[80], option[64];
        if (strcmp(name, "version") == 0 || strcmp(name, "help") == 0)
            continue;
        process_command(&help, name, "--help", NULL);
        assert_code(&help, 0);
        snprintf(line, sizeof(line), "\nexamples:\n  dopplergl %s", name);
        assert_contains(help.out, line);
        const char *p = strstr(help.out, "\nexamples:");
        const char *end = strstr(p + 1, "\n\n");
        while ((p = strstr(p, " --")) && (!end || p < end)) {
            snprintf(option, sizeof(option), "--%.*s", (int)strcspn(p + 3, " \n"), p + 3);
            if (strstr(help.out, option) > p) /* the options are listed before */
                fail_msg("%s has no option %s", name, option);
            p += 3;
        }
        process_finish(&help);
    }
    process_finish(&table);
}

/* `dopplergl` alone is `dopplergl help`. */
static void no_command_lists_them(void **state)
{
    static const char *const none[] = {NULL};
    struct process_result alone, help;
    (void)state;
    process_run(&(struct process_params){.args = none}, &alone);
    process_command(&help, "help", NULL);
    assert_code(&alone, 0);
    assert_string_equal(alone.out, help.out);
    assert_contains(alone.out, "generate");
    process_finish(&alone);
    process_finish(&help);
}

/* Bash's completions for the last of these words. */
struct completion_row {
    const char *name, *words, *want, *never;
};

static const struct completion_row completions[] = {
    {"command", "dopplergl gen", "generate", "devices"},
    {"all commands", "dopplergl ''", "perplexity", "--device"},
    {"option", "dopplergl generate --te", "--temp", "--top-k"},
    {"option of another command", "dopplergl verify --sm", "--smoke", "--temp"},
    {"word", "dopplergl generate --kv-type f", "f16 f32", "--"},
    {"word of the executor", "dopplergl bench --executor pers", "persistent", "dispatch"},
    {"word after a letter's option", "dopplergl convert a b --to ''", "rdrr gguf", "--"},
    {"kind of device", "dopplergl bench --device s", "software", "any"},
    {"file", "dopplergl generate -m Makef", "Makefile", "--"},
    {"file as an argument", "dopplergl inspect Makef", "Makefile", "--"},
    {"word of a command", "dopplergl kernels exp", "explain", "list"},
    {"command to explain", "dopplergl help tok", "tokenize", "generate"},
    {"number", "dopplergl generate -n ''", "", "e"},
};

static void completion_case(void **state)
{
    static const char script[] = "eval \"$(\"$0\" help --completion bash)\" && eval "
                                 "\"COMP_WORDS=($1)\" && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && "
                                 "_dopplergl && echo \"${COMPREPLY[*]}\"";
    const struct completion_row *row = *state;
    const char *const args[] = {"-c", script, process_program(), row->words, NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = args, .program = "/bin/bash"}, &r);
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    assert_contains(r.out, row->want);
    if (strstr(r.out, row->never))
        fail_msg("%s: '%s' among '%s'", row->words, row->never, r.out);
    process_finish(&r);
}

/* Every option in the words of each shell. */
struct shell_row {
    const char *name, *before, *after;
};

static const struct shell_row shells[] = {
    {"bash", "--", " "},
    {"zsh", "--", "="},
    {"fish", " -l ", " "},
};

static void shell_case(void **state)
{
    const struct shell_row *row = *state;
    struct process_result r;
    process_command(&r, "help", "--completion", row->name, NULL);
    assert_code(&r, 0);
    static const char *const some[] = {"n-predict", "device", "kernel-hints", "completion", "to"};
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        char part[80];
        snprintf(part, sizeof(part), "%s%s%s", row->before, some[i], row->after);
        assert_contains(r.out, part);
    }
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_says_what_is_wrong),
        cmocka_unit_test(a_flag_is_explained_once),
        cmocka_unit_test(man_page_has_every_option),
        cmocka_unit_test(man_page_ends_with_json),
        cmocka_unit_test(examples_are_command_lines),
        cmocka_unit_test(no_command_lists_them),
    };
    int failures = test_run_table("cli flags of other programs", flag_case, flags);
    failures += test_run_table("cli completions", completion_case, completions);
    failures += test_run_table("cli completion scripts", shell_case, shells);
    return failures + cmocka_run_group_tests_name("cli options", tests, NULL, NULL);
}
