/* The command as a process: signals, pipes that close, full and missing outputs, terminals, data
 * files. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define PROMPT  "Once upon a time"
#define ENDLESS "generate", "--device", "any", "-p", PROMPT, "-n", "-1", "--ignore-eos"

/* ---- signals --------------------------------------------------------------------------------- */

struct signal_row {
    const char *name;
    int number;
    const char *args[4];
};

/* Cancelled after some text: the written text stays, the statistics are printed, the exit code is
 * 130. */
static void signal_case(void **state)
{
    const struct signal_row *row = *state;
    const char *args[16] = {ENDLESS};
    struct process_result r;
    for (size_t i = 0; i < 4; i++)
        args[8 + i] = row->args[i];
    process_run(&(struct process_params){.args = args, .signal = row->number, .signal_after = 40},
                &r);
    assert_code(&r, 130);
    assert_no_error(&r);
    assert_true(r.out_len >= 40);
    assert_contains(r.err, "cancelled");
    process_finish(&r);
}

static const struct signal_row signals[] = {
    {"SIGINT while generating", SIGINT, {NULL}},
    {"SIGTERM while generating", SIGTERM, {NULL}},
    {"SIGHUP while generating", SIGHUP, {NULL}},
    {"SIGINT with a readback of many", SIGINT, {"--readback-interval", "16"}},
    {"SIGINT with stop strings", SIGINT, {"--stop", "never to be seen"}},
};

/* The device line is printed before the model is loaded, so the signal arrives during loading. */
static void signal_while_loading(void **state)
{
    const char *const args[] = {ENDLESS, NULL};
    struct process_result r;
    (void)state;
    process_run(
        &(struct process_params){
            .args = args, .signal = SIGINT, .signal_after = 1, .signal_on_error = true},
        &r);
    assert_code(&r, 130);
    process_finish(&r);
}

/* --json writes no output before the end, so the test waits for a time before the signal. It waits
 * longer each time, until the signal comes after loading. */
static void cancelled_json_is_whole(void **state)
{
    const char *const args[] = {ENDLESS, "--json", NULL};
    struct process_result r = {0};
    (void)state;
    for (uint32_t wait_ms = 400; wait_ms < 30000; wait_ms *= 2) {
        process_finish(&r);
        process_run(&(struct process_params){.args = args,
                                             .signal = SIGINT,
                                             .signal_after = 1,
                                             .signal_on_error = true,
                                             .signal_wait_ms = wait_ms},
                    &r);
        assert_code(&r, 130);
        if (r.out_len)
            break;
    }
    const struct dgl_json *root = process_json(&r);
    const struct dgl_json *why = dgl_json_get(root, "finish_reason");
    assert_string_equal(dgl_json_str(why).p, "cancelled");
    assert_true(dgl_json_is(dgl_json_get(root, "counters"), DGL_JSON_OBJECT));
    assert_true(dgl_json_count(dgl_json_get(root, "prompt_ids")) == 5);
    process_finish(&r);
}

/* A signal while standard input is awaited. The writing end stays open: there is no end of file. */
static void signal_while_reading(void **state)
{
    const char *const args[] = {"tokenize", "--jsonl", NULL};
    static const char line[] = "{\"text\":\"a\"}\n";
    struct process_result r;
    (void)state;
    process_run(
        &(struct process_params){
            .args = args, .input = line, .keep_input = true, .signal = SIGINT, .signal_after = 1},
        &r);
    assert_code(&r, 130);
    assert_contains(r.out, "ids_special");
    process_finish(&r);
}

/* Inputs that may be pipes, without a writer. */
struct waiting {
    const char *name, *messages, *template;
};

static const struct waiting waits[] = {
    {"messages", "fifo", "messages.json"},
    {"template", "messages.json", "fifo"},
};

static void waiting_case(void **state)
{
    const struct waiting *row = *state;
    char *dir = test_tmpdir(), *fifo = dgl_path_join(dir, "fifo");
    char *messages = dgl_path_join(dir, row->messages);
    char *template = dgl_path_join(dir, row->template);
    const char *const args[] = {"template", "--messages", messages, "--template", template, NULL};
    struct process_result r;
    test_write_file(dir, "messages.json", "[]", 2);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    process_run(&(struct process_params){.args = args, .signal = SIGTERM, .signal_wait_ms = 700},
                &r);
    assert_code(&r, 130);
    assert_null(strstr(r.err, "Interrupted system call"));
    process_finish(&r);
    free(fifo);
    free(messages);
    free(template);
    test_tmpdir_remove(dir);
}

static size_t num_files(const char *dir)
{
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(dgl_dir_list(NULL, dir, &names, &count), DGL_OK);
    dgl_names_free(names, count);
    return count;
}

static void cancelled_convert_case(void **state)
{
    const struct signal_row *row = *state;
    char *dir = test_tmpdir(), *out = dgl_path_join(dir, "pack");
    const char *model = test_unpacked("models/story-llama.tar.xz", "story-llama");
    struct process_result r;
    if (!model) {
        test_tmpdir_remove(dir);
        free(out);
        SKIP("no story-llama in the test data");
    }
    const char *const args[] = {"convert", model, out, "--quantize", "q4_k_m", "-v", NULL};
    process_run(
        &(struct process_params){
            .args = args, .signal = row->number, .signal_after = 1, .signal_on_error = true},
        &r);
    assert_code(&r, 130);
    assert_int_equal(num_files(dir), 0);
    process_finish(&r);
    test_tmpdir_remove(dir);
    free(out);
}

static const struct signal_row cancels[] = {
    {"SIGINT while converting", SIGINT, {NULL}},
    {"SIGTERM while converting", SIGTERM, {NULL}},
    {"SIGHUP while converting", SIGHUP, {NULL}},
};

/* nohup hands down an ignored SIGHUP, which stays ignored. */
static void nohup_is_respected(void **state)
{
    static const char script[] = "trap '' HUP; exec \"$0\" tokenize --jsonl";
    static const char line[] = "{\"text\":\"a\"}\n";
    const char *const args[] = {"-c", script, process_program(), NULL};
    struct process_result r;
    (void)state;
    process_run(
        &(struct process_params){
            .args = args, .program = "/bin/sh", .input = line, .signal = SIGHUP, .signal_after = 1},
        &r);
    assert_code(&r, 0);
    process_finish(&r);
}

/* The fate of a command that writes `$2`, and its expected end. */
struct writing {
    const char *name;
    const char *script; /* $0 the program, $1 a model, $2 the output */
    int code;
    const char *error;
    size_t files; /* left in the output's folder */
};

static const struct writing writings[] = {
    {"convert beyond ulimit -f", "ulimit -f 8; exec \"$0\" convert \"$1\" \"$2\"", 1,
     "File too large; raise the limit", 0},
    {"logits beyond ulimit -f",
     "ulimit -f 1; exec \"$0\" logits --device any --ids 1,2 --all -o \"$2\"", 1,
     "File too large; raise the limit", 0},
    {"convert whose messages nobody reads",
     "exec 3>&2; { { sleep 0.3; \"$0\" convert \"$1\" \"$2\" -vvv 2>&1 >/dev/null; "
     "echo \"code $?\" >&3; } | :; } && sleep 0.1",
     0, NULL, 1},
};

static void writing_case(void **state)
{
    const struct writing *row = *state;
    char *model = test_tmpdir(), *dir = test_tmpdir(), *out = dgl_path_join(dir, "out");
    const char *const args[] = {"-c", row->script, process_program(), model, out, NULL};
    struct process_result r;
    make_tiny_llama(model, 1, NULL);
    process_run(&(struct process_params){.args = args, .program = "/bin/sh"}, &r);
    assert_code(&r, row->code);
    if (row->error)
        assert_one_error(&r, row->error);
    else
        assert_contains(r.err, "code 0");
    assert_int_equal(num_files(dir), row->files);
    process_finish(&r);
    free(out);
    test_tmpdir_remove(dir);
    test_tmpdir_remove(model);
}

/* ---- standard output ------------------------------------------------------------------------- */

struct output_row {
    const char *name;
    const char *args[10];
};

/* Commands that print. Each must notice that its output is not read. */
static const struct output_row printing[] = {
    {"generate", {"generate", "--device", "any", "-p", PROMPT, "-n", "4"}},
    {"generate --json", {"generate", "--device", "any", "-p", "a", "-n", "1", "--json"}},
    {"generate --echo", {"generate", "--device", "any", "-p", PROMPT, "-n", "0", "--echo"}},
    {"devices", {"devices"}},
    {"inspect", {"inspect"}},
    {"inspect --json", {"inspect", "--json"}},
    {"verify", {"verify"}},
    {"tokenize", {"tokenize", "-p", "a"}},
    {"kernels list", {"kernels", "list"}},
    {"kernels show", {"kernels", "show", "norm_rms"}},
    {"version", {"version"}},
    {"version --json", {"version", "--json"}},
    {"help", {"help"}},
    {"help of a command", {"generate", "--help"}},
    {"help --markdown", {"help", "--markdown"}},
};

static void full_output_case(void **state)
{
    const struct output_row *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args, .out_path = "/dev/full"}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "cannot write to standard output");
    process_finish(&r);
}

static void missing_output_case(void **state)
{
    const struct output_row *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args, .close_out = true}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, "cannot write to standard output");
    process_finish(&r);
}

/* `| head -c 20`: ended by SIGPIPE, without a word. */
static void closed_pipe_is_quiet(void **state)
{
    const char *const args[] = {ENDLESS, "-q", NULL};
    struct process_result r;
    (void)state;
    process_run(&(struct process_params){.args = args, .close_after = 20}, &r);
    assert_int_equal(r.code, -1);
    assert_int_equal(r.signal, SIGPIPE);
    assert_no_error(&r);
    process_finish(&r);
}

/* Some parents hand down an ignored SIGPIPE. */
static void ignored_sigpipe_is_quiet_too(void **state)
{
    const char *const args[] = {ENDLESS, "-q", NULL};
    struct process_result r;
    (void)state;
    process_run(&(struct process_params){.args = args, .close_after = 20, .ignore_sigpipe = true},
                &r);
    assert_int_equal(r.signal, SIGPIPE);
    assert_no_error(&r);
    process_finish(&r);
}

/* ---- text and figures in one place ----------------------------------------------------------- */

/* Streams that are joined or separate: figures must be on a separate line, and a separate text must
 * have no additional byte. */
struct joined_row {
    const char *name, *redirection;
    bool joined;
};

static const struct joined_row joins[] = {
    {"one file", ">\"$1\" 2>&1", true},
    {"one pipe", "2>&1 | cat >\"$1\"", true},
    {"one file, appended", ">>\"$1\" 2>>\"$1\"", true},
    {"two files", ">\"$1\" 2>\"$1.err\"", false},
};

static void joined_case(void **state)
{
    const struct joined_row *row = *state;
    char *dir = test_tmpdir(), *out = dgl_path_join(dir, "out"), *text = NULL;
    char script[512];
    size_t len = 0;
    struct process_result r;
    snprintf(script, sizeof(script),
             "\"$0\" generate --device any -p 'Once upon a time' -n 3 --temp 0 %s",
             row->redirection);
    const char *const args[] = {"-c", script, process_program(), out, NULL};
    process_run(&(struct process_params){.args = args, .program = "/bin/sh"}, &r);
    assert_code(&r, 0);
    process_finish(&r);
    assert_int_equal(dgl_file_slurp(NULL, out, 1 << 20, &text, &len), DGL_OK);
    const char *figures = strstr(text, "load ");
    assert_int_equal(figures != NULL, row->joined);
    if (figures)
        assert_true(figures > text && figures[-1] == '\n');
    else
        assert_true(len > 0 && text[len - 1] != '\n');
    free(text);
    free(out);
    test_tmpdir_remove(dir);
}

/* ---- one line about a cancelled command ------------------------------------------------------ */

static size_t count_lines(const char *text, const char *part)
{
    size_t count = 0;
    while ((text = strstr(text, part))) {
        count++;
        text += strlen(part);
    }
    return count;
}

/* Each is slow enough, or waits for its input. */
struct cancel_row {
    const char *name;
    const char *args[12];
    bool waits; /* for standard input, after a first line */
    bool quiet;
};

static const struct cancel_row cancelled[] = {
    {"generate", {ENDLESS}, false, false},
    {"generate -q", {ENDLESS, "-q"}, false, true},
    {"generate from a pipe", {"generate", "--device", "any"}, true, false},
    {"generate -f -", {"generate", "--device", "any", "-f", "-"}, true, false},
    {"tokenize", {"tokenize", "--jsonl"}, true, false},
    {"tokenize a text", {"tokenize"}, true, false},
    {"template", {"template", "--messages", "-"}, true, false},
    {"bench", {"bench", "--device", "any", "-r", "64"}, false, false},
    {"sweep",
     {"bench", "--device", "any", "-r", "64", "-n", "1", "--prompt-tokens", "1", "--sweep"},
     false,
     false},
    {"load", {"bench", "load", "--device", "any", "-r", "64"}, false, false},
    {"kernels check", {"kernels", "check", "--device", "any"}, false, false},
    {"chat", {"chat", "--device", "any"}, true, false},
};

static void cancelled_case(void **state)
{
    const struct cancel_row *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args,
                                         .input = row->waits ? "{\"text\":\"a\"}" : NULL,
                                         .keep_input = row->waits,
                                         .signal = SIGINT,
                                         .signal_wait_ms = 700},
                &r);
    assert_code(&r, 130);
    assert_no_error(&r);
    if (count_lines(r.err, "cancelled") != (row->quiet ? 0 : 1))
        fail_msg("standard error: %s", r.err);
    if (!row->quiet)
        assert_contains(r.err, "dopplergl: cancelled\n");
    process_finish(&r);
}

/* With empty caches: a signal ends the command after the current kernel. The next command finds the
 * kernels compiled until then, and reports their number. */
static void cancelled_while_compiling(void **state)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    const char *const endless[] = {ENDLESS, NULL};
    const char *const two[] = {"generate", "--device", "any",          "-p", PROMPT,
                               "-n",       "2",        "--ignore-eos", "-v", NULL};
    char *dir = test_tmpdir(), *cache = dgl_path_join(dir, "dopplergl");
    struct dgl_buf xdg = {0}, mesa = {0};
    struct process_result r;
    size_t kept = 0, count = 0, compiled = 0, found = 0;
    (void)state;
    dgl_buf_printf(&xdg, "XDG_CACHE_HOME=%s", dir);
    dgl_buf_printf(&mesa, "MESA_SHADER_CACHE_DIR=%s", dir);
    const char *const env[] = {xdg.p, mesa.p, NULL};
    for (size_t i = 0; i < 2; i++) {
        process_run(&(struct process_params){.args = endless,
                                             .env = env,
                                             .signal = numbers[i],
                                             .signal_after = 1,
                                             .signal_on_error = true,
                                             .signal_wait_ms = 700},
                    &r);
        assert_code(&r, 130);
        assert_no_error(&r);
        if (count_lines(r.err, "cancelled") != 1 || (r.out_len == 0 && strstr(r.err, "tok/s")))
            fail_msg("standard error: %s", r.err);
        process_finish(&r);
    }
    if (dgl_path_is_dir(cache)) {
        char **names = NULL;
        size_t num_names = 0;
        assert_int_equal(dgl_dir_list(NULL, cache, &names, &num_names), DGL_OK);
        for (size_t i = 0; i < num_names; i++)
            kept += strstr(names[i], ".prog") != NULL; /* not the file of known hashes */
        dgl_names_free(names, num_names);
    }
    process_run(&(struct process_params){.args = two, .env = env}, &r);
    assert_code(&r, 0);
    char *line = strstr(r.err, "kernels: ");
    if (strstr(r.err, "program binary 1") &&
        (!line ||
         sscanf(line, "kernels: %zu in %*u ms, %zu of them compiled, %zu found in", &count,
                &compiled, &found) != 3 ||
         found != kept || compiled != count - found ||
         (strstr(r.err, "llvmpipe") && compiled == 0) || !strstr(line, cache)))
        fail_msg("%zu programs were kept in %s: %s", kept, cache, r.err);
    process_finish(&r);
    dgl_buf_finish(&xdg);
    dgl_buf_finish(&mesa);
    free(cache);
    test_tmpdir_remove(dir);
}

/* ---- data files ------------------------------------------------------------------------------ */

/* The program is copied to `exe` below a folder that has the bundled model at `model`. */
struct data_row {
    const char *name;
    const char *exe, *model;
    bool variable; /* DOPPLERGL_DATA names the folder */
    bool found;
};

static const struct data_row places[] = {
    {"DOPPLERGL_DATA", "elsewhere/dopplergl", "models", true, true},
    {"build tree", "build/dopplergl", "tests/models", false, true},
    {"build folder in the build tree", "build/san/dopplergl", "tests/models", false, true},
    {"PREFIX", "bin/dopplergl", "share/dopplergl/models", false, true},
    {"PREFIX when DOPPLERGL_DATA has none", "bin/dopplergl", "share/dopplergl/models", true, true},
    {"nowhere", "elsewhere/dopplergl", "models", false, false},
};

static void copy_program(const char *dir, const struct data_row *row)
{
    static const char script[] =
        "mkdir -p \"$0/$(dirname \"$1\")\" \"$0/$2\" && cp \"$3\" \"$0/$1\" && "
        "cp -r tests/models/story-llama-q4_k_m \"$0/$2\"";
    const char *const args[] = {"-c", script, dir, row->exe, row->model, process_program(), NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = args, .program = "/bin/sh"}, &r);
    assert_code(&r, 0);
    process_finish(&r);
}

static void data_case(void **state)
{
    const struct data_row *row = *state;
    char *dir = test_tmpdir(), *exe = dgl_path_join(dir, row->exe);
    char variable[4200];
    const char *const args[] = {"inspect", "--json", NULL};
    const char *const env[] = {row->variable ? variable : "DOPPLERGL_DATA", NULL};
    struct process_result r;
    snprintf(variable, sizeof(variable), "DOPPLERGL_DATA=%s", dir);
    copy_program(dir, row);
    process_run(&(struct process_params){.args = args, .program = exe, .env = env}, &r);
    if (row->found) {
        assert_code(&r, 0);
        const struct dgl_json *path = dgl_json_get(process_json(&r), "path");
        assert_contains(dgl_json_str(path).p, dir);
        assert_contains(dgl_json_str(path).p, row->model);
    } else {
        assert_code(&r, 1);
        assert_one_error(&r, "DOPPLERGL_DATA");
    }
    process_finish(&r);
    free(exe);
    test_tmpdir_remove(dir);
}

/* If the home folder cannot be written or is not set, only the cache is lost. One line names the
 * reason, and -v reports each batch. A relative path is ignored. */
static void no_cache_is_no_fault(void **state)
{
    const char *const args[] = {"generate", "--device", "any", "-p", "a", "-n", "1", "-v", NULL};
    const char *const quiet[] = {"kernels", "bench",    "norm_rms", "--shape",
                                 "H=64",    "--device", "any",      NULL};
    const char *const path[] = {"cache", "path", NULL};
    const char *const read_only[] = {"XDG_CACHE_HOME=/proc/nowhere", NULL};
    const char *const none[] = {"XDG_CACHE_HOME", "HOME", NULL};
    const char *const relative[] = {"XDG_CACHE_HOME=here", "HOME", NULL};
    struct process_result r;
    (void)state;
    process_run(&(struct process_params){.args = args, .env = read_only}, &r);
    assert_code(&r, 0);
    assert_no_error(&r);
    const bool bare = strstr(r.err, "program binary 0") != NULL;
    if (!bare) {
        assert_contains(r.err, ", 0 found in /proc/nowhere/dopplergl; slowest: ");
        assert_contains(r.err, "compiled programs are not kept: /proc/nowhere/dopplergl: the "
                               "folder cannot be made: ");
    }
    process_finish(&r);
    process_run(&(struct process_params){.args = quiet, .env = read_only}, &r);
    assert_code(&r, 0);
    if (!bare)
        assert_contains(r.err, "compiled programs are not kept: /proc/nowhere/dopplergl: ");
    process_finish(&r);
    process_run(&(struct process_params){.args = path, .env = relative}, &r);
    assert_code(&r, 1);
    assert_contains(r.err, "warning: XDG_CACHE_HOME is not used: 'here' is no absolute path");
    process_finish(&r);
    process_run(&(struct process_params){.args = args, .env = none}, &r);
    assert_code(&r, 0);
    assert_no_error(&r);
    process_finish(&r);
}

/* ---- amount of output --------------------------------------------------------------------------
 */

struct loudness {
    const char *name;
    const char *flags[3];
    bool device, more; /* the device line; lines of the library */
};

static const struct loudness loudnesses[] = {
    {"as it comes", {NULL}, true, false},
    {"-q", {"-q"}, false, false},
    {"--log-level error", {"--log-level", "error"}, true, false},
    {"--log-level none", {"--log-level", "none"}, true, false},
    {"--log-level debug", {"--log-level", "debug"}, true, true},
    {"-vv", {"-vv"}, true, true},
    {"-q --log-level=debug", {"-q", "--log-level=debug"}, false, true},
};

static void loudness_case(void **state)
{
    const struct loudness *row = *state;
    const char *const args[] = {"generate", "--device",    "any",         "-p",          "a", "-n",
                                "1",        row->flags[0], row->flags[1], row->flags[2], NULL};
    struct process_result r;
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, 0);
    assert_no_error(&r);
    bool device = strncmp(r.err, "device: ", 8) == 0 || strstr(r.err, "\ndevice: ");
    assert_int_equal(device, row->device);
    assert_int_equal(strstr(r.err, "dopplergl: ") != NULL, row->more);
    process_finish(&r);
}

/* The package is named if Mesa's drivers are missing. */
static void missing_drivers_are_named(void **state)
{
    struct process_result r;
    (void)state;
    process_run(
        &(const struct process_params){
            .args = (const char *const[]){"generate", "--device", "software", "-p", "a", "-n", "1",
                                          NULL},
            .env = (const char *const[]){"LIBGL_DRIVERS_PATH=" TEST_MISSING "/dri", NULL}},
        &r);
    const bool built_in = r.code == 0; /* Mesa 24.3 and newer */
    if (!built_in) {
        assert_code(&r, 1);
        assert_one_error(&r, "(no *_dri.so in " TEST_MISSING "/dri): install the package "
                             "libgl1-mesa-dri");
    }
    process_finish(&r);
    if (built_in)
        SKIP("this Mesa has its drivers in one library");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signal_while_loading),      cmocka_unit_test(cancelled_json_is_whole),
        cmocka_unit_test(signal_while_reading),      cmocka_unit_test(nohup_is_respected),
        cmocka_unit_test(closed_pipe_is_quiet),      cmocka_unit_test(ignored_sigpipe_is_quiet_too),
        cmocka_unit_test(no_cache_is_no_fault),      cmocka_unit_test(missing_drivers_are_named),
        cmocka_unit_test(cancelled_while_compiling),
    };
    int failures = test_run_table("cli signals", signal_case, signals);
    failures += test_run_table("cli cancelled conversion", cancelled_convert_case, cancels);
    failures += test_run_table("cli writing", writing_case, writings);
    failures += test_run_table("cli waiting", waiting_case, waits);
    failures += test_run_table("cli full output", full_output_case, printing);
    failures += test_run_table("cli missing output", missing_output_case, printing);
    failures += test_run_table("cli text and figures", joined_case, joins);
    failures += test_run_table("cli cancelled", cancelled_case, cancelled);
    failures += test_run_table("cli data files", data_case, places);
    failures += test_run_table("cli loudness", loudness_case, loudnesses);
    return failures + cmocka_run_group_tests_name("cli process", tests, NULL, NULL);
}
