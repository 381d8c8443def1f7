/* Settings: the configuration file and the environment, their precedence, and the errors for
 * invalid values. Commands that need no device show the values in use. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"

#define MISSING_MODEL  TEST_MISSING "/m"
#define MISSING_DEVICE TEST_MISSING "/card"

struct settings_row {
    const char *name;
    const char *config; /* text of config.json; NULL = no file */
    const char *env[4];
    const char *args[10];
    int code;
    const char *said;    /* in the error line, or with exit code 0 in standard output */
    const char *another; /* also there; may be NULL */
};

/* "CONFIG" in `said` is replaced by the path of the file. */
static void settings_case(void **state)
{
    const struct settings_row *row = *state;
    char *dir = test_tmpdir(), *folder = dgl_path_join(dir, "dopplergl");
    char *path = dgl_path_join(folder, "config.json");
    struct dgl_buf variable = {0}, said = {0};
    const char *env[6] = {NULL};
    struct process_result r;
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    if (row->config)
        test_write_file(folder, "config.json", row->config, strlen(row->config));
    dgl_buf_printf(&variable, "XDG_CONFIG_HOME=%s", dir);
    env[0] = variable.p;
    for (size_t i = 0; i < 4 && row->env[i]; i++)
        env[i + 1] = row->env[i];
    const char *mark = strstr(row->said, "CONFIG");
    dgl_buf_printf(&said, "%.*s%s%s", mark ? (int)(mark - row->said) : (int)strlen(row->said),
                   row->said, mark ? path : "", mark ? mark + 6 : "");
    process_run(&(struct process_params){.args = row->args, .env = env}, &r);
    assert_code(&r, row->code);
    if (row->code) {
        assert_one_error(&r, said.p);
        if (row->another)
            assert_one_error(&r, row->another);
    } else {
        assert_no_error(&r);
        assert_contains(r.out, said.p);
    }
    process_finish(&r);
    dgl_buf_finish(&variable);
    dgl_buf_finish(&said);
    free(path);
    free(folder);
    test_tmpdir_remove(dir);
}

#define INSPECT                                                                                    \
    {                                                                                              \
        "inspect"                                                                                  \
    }
#define GENERATE                                                                                   \
    {                                                                                              \
        "generate", "-p", "x", "-n", "0"                                                           \
    }

static const struct settings_row settings[] = {
    {"no file", NULL, {NULL}, {"inspect", "--json"}, 0, "story-llama", NULL},
    {"empty object", "{}", {NULL}, {"inspect", "--json"}, 0, "story-llama", NULL},
    {"model of the file", "{\"model\":\"/no/a\"}", {NULL}, INSPECT, 1, "/no/a:", NULL},
    {"model of the environment", NULL, {"DOPPLERGL_MODEL=/no/b"}, INSPECT, 1, "/no/b:", NULL},
    {"environment beats file",
     "{\"model\":\"/no/a\"}",
     {"DOPPLERGL_MODEL=/no/b"},
     INSPECT,
     1,
     "/no/b:",
     NULL},
    {"flag beats both",
     "{\"model\":\"/no/a\"}",
     {"DOPPLERGL_MODEL=/no/b"},
     {"inspect", "-m", "/no/c"},
     1,
     "/no/c:",
     NULL},
    {"argument beats both",
     "{\"model\":\"/no/a\"}",
     {"DOPPLERGL_MODEL=/no/b"},
     {"inspect", "/no/c"},
     1,
     "/no/c:",
     NULL},
    {"empty variable is none", NULL, {"DOPPLERGL_MODEL="}, {"inspect", "--json"}, 0, "story", NULL},
    {"model gives way to --shape",
     "{\"model\":\"/no/a\"}",
     {NULL},
     {"bench", "--shape", "story-llama", "--device", MISSING_DEVICE},
     1,
     MISSING_DEVICE,
     NULL},
    {"device of the file", "{\"device\":\"/no/card\"}", {NULL}, GENERATE, 1, "/no/card", NULL},
    {"device of the environment",
     "{\"device\":\"/no/card\"}",
     {"DOPPLERGL_DEVICE=/no/env"},
     GENERATE,
     1,
     "/no/env",
     NULL},
    {"flag of the file", "{\"json\":true}", {NULL}, INSPECT, 0, "\"family\"", NULL},
    {"flag of the file undone",
     "{\"json\":true}",
     {NULL},
     {"inspect", "--no-json"},
     0,
     "parameters",
     NULL},
    {"verbosity of the file undone",
     "{\"verbose\":2}",
     {NULL},
     {"inspect", "--no-verbose"},
     0,
     "parameters",
     NULL},
    {"option of another command",
     "{\"temp\":0.5,\"threads\":2,\"quantize\":\"f16\"}",
     {NULL},
     {"inspect", "--json"},
     0,
     "story-llama",
     NULL},
    {"all kinds of values",
     "{\"temp\":0,\"n-predict\":4,\"stop\":[\"a\",\"b\"],\"verbose\":0,\"quiet\":false,"
     "\"kernel-hints\":{\"attentionDecode\":\"auto\"},\"device\":\"any\",\"seed\":-1}",
     {NULL},
     {"inspect", "--json"},
     0,
     "story-llama",
     NULL},
    {"help needs no settings", "{", {"DOPPLERGL_DEVICE=x"}, {"help"}, 0, "usage", NULL},
    {"nor does --help", "{", {NULL}, {"generate", "--help"}, 0, "usage", NULL},
    {"nor does version", "{", {NULL}, {"version"}, 0, "dopplergl", NULL},

    {"not JSON", "{", {NULL}, INSPECT, 1, "CONFIG", NULL},
    {"not an object", "[]", {NULL}, INSPECT, 1, "CONFIG: is an array, wanted an object", NULL},
    {"empty file", "", {NULL}, INSPECT, 1, "CONFIG", NULL},
    {"key twice", "{\"json\":true,\"json\":true}", {NULL}, INSPECT, 1, "CONFIG", "json"},
    {"unknown key",
     "{\"tempp\":1}",
     {NULL},
     INSPECT,
     1,
     "CONFIG: there is no option tempp; did you mean temp?",
     NULL},
    {"key with dashes", "{\"--temp\":1}", {NULL}, INSPECT, 1, "there is no option --temp", NULL},
    {"letter", "{\"m\":\"x\"}", {NULL}, INSPECT, 1, "CONFIG: there is no option m;", NULL},
    {"key of an alias", "{\"temperature\":1}", {NULL}, INSPECT, 1, "no option temperature", NULL},
    {"of one call", "{\"prompt\":\"x\"}", {NULL}, GENERATE, 1, "CONFIG: prompt belongs to", NULL},
    {"flag with a text", "{\"json\":\"yes\"}", {NULL}, INSPECT, 1, "CONFIG: json is a", "true"},
    {"number as a text", "{\"temp\":\"0.5\"}", {NULL}, GENERATE, 1, "CONFIG: temp is a", "number"},
    {"text as a number", "{\"model\":5}", {NULL}, INSPECT, 1, "CONFIG: model is a number", NULL},
    {"null", "{\"model\":null}", {NULL}, INSPECT, 1, "CONFIG: model is null", NULL},
    {"list for one value", "{\"model\":[\"a\"]}", {NULL}, INSPECT, 1, "CONFIG: model is an", NULL},
    {"list with a number", "{\"stop\":[\"a\",1]}", {NULL}, GENERATE, 1, "CONFIG: stop is a", NULL},
    {"fraction for an integer", "{\"top-k\":1.5}", {NULL}, GENERATE, 1, "CONFIG: top-k 1.5", NULL},
    {"out of range", "{\"top-p\":1.5}", {NULL}, GENERATE, 1, "CONFIG: top-p 1.5: wanted", "0 to 1"},
    {"out of range, of another command",
     "{\"threads\":0}",
     {NULL},
     INSPECT,
     1,
     "CONFIG: threads 0: wanted",
     NULL},
    {"wrong word", "{\"kv-type\":\"q8\"}", {NULL}, INSPECT, 1, "CONFIG: kv-type q8", "f16|f32"},
    {"wrong device", "{\"device\":\"gpu\"}", {NULL}, INSPECT, 1, "CONFIG: device 'gpu'", NULL},
    {"empty path", "{\"model\":\"\"}", {NULL}, INSPECT, 1, "CONFIG: model ''", NULL},
    {"U+0000", "{\"model\":\"a\\u0000b\"}", {NULL}, INSPECT, 1, "CONFIG: model has", NULL},
    {"wrong verbosity", "{\"verbose\":true}", {NULL}, INSPECT, 1, "CONFIG: verbose", "0 to 3"},
    {"wrong hint",
     "{\"kernel-hints\":{\"a\":1}}",
     {NULL},
     GENERATE,
     1,
     "CONFIG: kernel-hints: there",
     "hint 'a'"},
    {"wrong value, overruled by a flag",
     "{\"device\":\"gpu\"}",
     {NULL},
     {"inspect", "--device", "any"},
     1,
     "CONFIG: device 'gpu'",
     NULL},
    {"wrong device of the environment",
     NULL,
     {"DOPPLERGL_DEVICE=gpu"},
     INSPECT,
     1,
     "DOPPLERGL_DEVICE 'gpu': wanted",
     NULL},
};

/* After a failure, an environment variable is named if it may be the reason: DOPPLERGL_DEVICE if no
 * device could be opened. */
static void environment_is_told_after_a_failure(void **state)
{
    static const struct {
        const char *device; /* of the environment */
        const char *args[4];
        const char *told; /* may be NULL */
    } rows[] = {
        {"DOPPLERGL_DEVICE=any", {"kernels", "check", "/no/file.comp"}, NULL},
        {"DOPPLERGL_DEVICE=" MISSING_DEVICE, {"selftest"}, "/card' by DOPPLERGL_DEVICE\n"},
        {"DOPPLERGL_DEVICE=" MISSING_DEVICE, {"tune", "--show"}, "/card' by DOPPLERGL_DEVICE\n"},
        {"DOPPLERGL_DEVICE=any", {"selftest", "no_kernel"}, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const env[] = {rows[i].device, NULL};
        struct process_result r;
        process_run(&(struct process_params){.args = rows[i].args, .env = env}, &r);
        if (r.code == 0)
            fail_msg("%s %s succeeds", rows[i].args[0], rows[i].device);
        assert_contains(r.err, rows[i].told ? rows[i].told : "dopplergl: error: ");
        if (!rows[i].told)
            assert_null(strstr(r.err, "DOPPLERGL_DEVICE"));
        process_finish(&r);
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

static void home_is_the_other_place(void **state)
{
    char *dir = test_tmpdir();
    char home[4200], relative[] = "XDG_CONFIG_HOME=relative";
    struct process_result r;
    struct dgl_buf folder = {0};
    const char *const args[] = {"inspect", NULL};
    const char *const env[] = {"XDG_CONFIG_HOME", home, NULL};
    const char *const relative_env[] = {relative, home, NULL};
    (void)state;
    snprintf(home, sizeof(home), "HOME=%s", dir);
    dgl_buf_printf(&folder, "%s/.config/dopplergl", dir);
    assert_int_equal(dgl_dir_make(NULL, folder.p), DGL_OK);
    test_write_file(folder.p, "config.json", "{\"model\":\"/no/home\"}", 20);
    process_run(&(struct process_params){.args = args, .env = env}, &r);
    assert_one_error(&r, "/no/home:");
    process_finish(&r);
    process_run(&(struct process_params){.args = args, .env = relative_env}, &r);
    assert_one_error(&r, "/no/home:");
    process_finish(&r);
    dgl_buf_finish(&folder);
    test_tmpdir_remove(dir);
}

static void verbose_names_the_keys(void **state)
{
    char *dir = test_tmpdir(), *folder = dgl_path_join(dir, "dopplergl");
    char variable[4200];
    static const struct {
        const char *config, *flag;
    } rows[] = {{"{\"json\":true}", "-v"}, {"{\"json\":true,\"verbose\":1}", NULL}};
    const char *const env[] = {variable, NULL};
    (void)state;
    snprintf(variable, sizeof(variable), "XDG_CONFIG_HOME=%s", dir);
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const args[] = {"inspect", rows[i].flag, NULL};
        struct process_result r;
        test_write_file(folder, "config.json", rows[i].config, strlen(rows[i].config));
        process_run(&(struct process_params){.args = args, .env = env}, &r);
        assert_code(&r, 0);
        assert_contains(r.err, "config.json: json");
        process_finish(&r);
    }
    free(folder);
    test_tmpdir_remove(dir);
}

/* A folder in place of the file, or a broken link, is an error: the user intended a file. */
static void a_folder_is_an_error(void **state)
{
    char *dir = test_tmpdir(), *folder = dgl_path_join(dir, "dopplergl/config.json");
    char variable[4200];
    const char *const args[] = {"inspect", NULL};
    const char *const env[] = {variable, NULL};
    struct process_result r;
    (void)state;
    snprintf(variable, sizeof(variable), "XDG_CONFIG_HOME=%s", dir);
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    process_run(&(struct process_params){.args = args, .env = env}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "config.json");
    process_finish(&r);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("nowhere", folder), 0);
    process_run(&(struct process_params){.args = args, .env = env}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "config.json");
    process_finish(&r);
    free(folder);
    test_tmpdir_remove(dir);
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* There is no device: the point at which the command fails shows the source of its prompt. */
struct prompt_row {
    const char *name;
    const char *args[8];
    const char *input;
    size_t input_len;
    int code;
    const char *error;
};

static const struct prompt_row prompts[] = {
    {"from a pipe", {"generate", "--device", MISSING_DEVICE}, "Once", 4, 1, MISSING_DEVICE},
    {"from an empty pipe", {"generate"}, "", 0, 1, "standard input is empty"},
    {"pipe that is not needed",
     {"generate", "x", "--device", MISSING_DEVICE},
     "",
     0,
     1,
     MISSING_DEVICE},
    {"-f - may be empty",
     {"generate", "-f", "-", "--device", MISSING_DEVICE},
     "",
     0,
     1,
     MISSING_DEVICE},
    {"neither pipe nor prompt", {"generate"}, NULL, 0, 2, "exactly one of -p"},
};

static void prompt_case(void **state)
{
    const struct prompt_row *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args,
                                         .input = row->input,
                                         .input_len = row->input_len},
                &r);
    assert_code(&r, row->code);
    assert_one_error(&r, row->error);
    process_finish(&r);
}

/* No input arrives: a line reports that the command waits for it. */
static void an_open_pipe_is_told(void **state)
{
    const char *const args[] = {"generate", NULL};
    struct process_result r;
    (void)state;
    process_run(&(struct process_params){.args = args,
                                         .input = "",
                                         .keep_input = true,
                                         .signal = SIGINT,
                                         .signal_after = 1,
                                         .signal_on_error = true},
                &r);
    assert_code(&r, 130);
    assert_contains(r.err, "waiting for the prompt from standard input\n");
    assert_no_error(&r);
    process_finish(&r);
}

/* All ways to pass a prompt produce the same answer. */
static void prompts_are_one(void **state)
{
    static const char *const ways[][4] = {{"-p", "Once upon a time"}, {"Once upon a time"}, {NULL}};
    char *first = NULL;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *const args[] = {
            "generate", "--device", "any", "--temp",   "0",
            "-n",       "3",        "-q",  ways[i][0], ways[i][0] ? ways[i][1] : NULL,
            NULL};
        struct process_result r;
        process_run(
            &(struct process_params){.args = args, .input = ways[i][0] ? NULL : "Once upon a time"},
            &r);
        assert_code(&r, 0);
        assert_true(r.out_len > 3);
        if (first)
            assert_string_equal(r.out, first);
        else
            first = strdup(r.out);
        process_finish(&r);
    }
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_is_told_after_a_failure),
        cmocka_unit_test(home_is_the_other_place),
        cmocka_unit_test(verbose_names_the_keys),
        cmocka_unit_test(a_folder_is_an_error),
        cmocka_unit_test(an_open_pipe_is_told),
        cmocka_unit_test(prompts_are_one),
    };
    int failures = test_run_table("cli settings", settings_case, settings);
    failures += test_run_table("cli prompts", prompt_case, prompts);
    return failures + cmocka_run_group_tests_name("cli places of settings", tests, NULL, NULL);
}
