/* `kernels`, and kernels of the user: texts, overrides, hints, and the errors for wrong ones. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define PROMPT "Once upon a time"

static const char *text(const struct dgl_json *object, const char *key)
{
    return dgl_json_str(dgl_json_get(object, key)).p;
}

/* ---- list and show --------------------------------------------------------------------------- */

/* One file of kernels/op is shown byte for byte, and listed with its hash. */
static void check_kernel_file(const struct dgl_json *rows, const char *dir, const char *file)
{
    size_t len;
    char *source = tiny_file_read(dir, file, &len), name[64], hex[65];
    struct process_result show;
    snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - strlen(".comp")), file);
    process_command(&show, "kernels", "show", name, NULL);
    assert_code(&show, 0);
    assert_int_equal(show.out_len, len);
    assert_memory_equal(show.out, source, len);
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, source, len, hex));
    const struct dgl_json *row = dgl_json_first(rows);
    while (row && strcmp(text(row, "name"), name) != 0)
        row = dgl_json_next(row);
    assert_non_null(row);
    assert_string_equal(text(row, "sha256"), hex);
    assert_string_equal(text(row, "origin"), "builtin");
    process_finish(&show);
    free(source);
}

static void kernels_are_what_the_folder_holds(void **state)
{
    char **folders = NULL;
    size_t num_folders = 0, kernels = 0;
    struct process_result list;
    (void)state;
    process_command(&list, "kernels", "list", "--json", NULL);
    assert_code(&list, 0);
    const struct dgl_json *rows = process_json(&list);
    assert_int_equal(dgl_dir_list(NULL, "kernels/op", &folders, &num_folders), DGL_OK);
    for (size_t i = 0; i < num_folders; i++) {
        char **names = NULL, *dir = dgl_path_join("kernels/op", folders[i]);
        size_t count = 0;
        assert_int_equal(dgl_dir_list(NULL, dir, &names, &count), DGL_OK);
        for (size_t j = 0; j < count; j++)
            check_kernel_file(rows, dir, names[j]);
        kernels += count;
        dgl_names_free(names, count);
        free(dir);
    }
    assert_int_equal(kernels, dgl_json_count(rows));
    dgl_names_free(folders, num_folders);
    process_finish(&list);
}

static void show_as_json_has_the_text(void **state)
{
    struct process_result plain, json;
    (void)state;
    process_command(&plain, "kernels", "show", "norm_rms", NULL);
    process_command(&json, "kernels", "show", "norm_rms", "--json", NULL);
    const struct dgl_json *root = process_json(&json);
    assert_string_equal(text(root, "source"), plain.out);
    assert_string_equal(text(root, "op"), "norm");
    process_finish(&plain);
    process_finish(&json);
}

static int64_t number(const struct dgl_json *object, const char *key)
{
    int64_t value = -1;
    if (!dgl_json_i64(dgl_json_get(object, key), &value))
        fail_msg("%s of %s is no number", key, text(object, "step"));
    return value;
}

/* Of one step: launched invocations are groups x local, and at most those have work. Every other
 * kernel of the operation has a reason. */
static void check_figures(const struct dgl_json *step)
{
    int64_t launched = 1, value;
    const char *const axes[] = {"groups", "local"};
    for (int i = 0; i < 2; i++)
        for (const struct dgl_json *n = dgl_json_first(dgl_json_get(step, axes[i])); n;
             n = dgl_json_next(n)) {
            assert_true(dgl_json_i64(n, &value));
            launched *= value;
        }
    assert_int_equal(number(step, "launched"), launched);
    assert_in_range(number(step, "active"), 1, launched);
    assert_true(number(step, "tokens") >= 1 && number(step, "bytes") >= 0);
    if (strcmp(text(step, "step"), "qkv") == 0) {
        assert_true(number(step, "bytes") > 1024);
        assert_true(dgl_json_count(dgl_json_get(step, "alternatives")) >= 4);
    }
    for (const struct dgl_json *a = dgl_json_first(dgl_json_get(step, "alternatives")); a;
         a = dgl_json_next(a)) {
        assert_string_not_equal(text(a, "name"), text(step, "name"));
        assert_true(dgl_json_str(dgl_json_get(a, "why")).len > 0);
    }
}

static void explain_covers_the_whole_plan(void **state)
{
    struct process_result r;
    size_t layers = 0, reasons = 0, lazy = 0;
    (void)state;
    process_command(&r, "kernels", "explain", "--device", "any", "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *rows = process_json(&r), *row;
    for (row = dgl_json_first(rows); row; row = dgl_json_next(row)) {
        int64_t layer = -2;
        assert_true(dgl_json_i64(dgl_json_get(row, "layer"), &layer));
        assert_true(layer >= -1 && layer < 8);
        layers += strcmp(text(row, "step"), "qkv") == 0;
        reasons += dgl_json_str(dgl_json_get(row, "reason")).len > 0;
        bool decodes = strcmp(text(row, "phase"), "prefill") != 0;
        assert_int_equal(dgl_json_str(dgl_json_get(row, "executor")).len > 0, decodes);
        assert_int_equal(dgl_json_str(dgl_json_get(row, "executor_reason")).len > 0, decodes);
        check_figures(row);
        /* Samplers are compiled by the first call that uses them, decoding and the head before. */
        bool waits = dgl_json_bool(dgl_json_get(row, "lazy"));
        const char *step = text(row, "step");
        bool sampler = strncmp(step, "sample_", 7) == 0 && strcmp(step, "sample_args") != 0;
        if (waits != sampler && (sampler || strcmp(text(row, "phase"), "decode") == 0))
            fail_msg("%s is lazy: %d, wanted %d", text(row, "step"), waits, sampler);
        lazy += waits;
    }
    assert_true(lazy > 5);
    assert_int_equal(layers, 2 * 8);
    assert_int_equal(reasons, dgl_json_count(rows));
    process_finish(&r);
}

/* A pass over several sequences: its operations, for that number of rows, and its samplers. */
static void explain_tells_of_a_batch(void **state)
{
    struct process_result r;
    size_t decodes = 0, layers = 0, reports = 0;
    char line[64];
    (void)state;
    process_command(&r, "kernels", "explain", "--device", "any", "--batch", "5", "--json", NULL);
    assert_code(&r, 0);
    for (const struct dgl_json *row = dgl_json_first(process_json(&r)); row;
         row = dgl_json_next(row)) {
        const bool decode = strcmp(text(row, "phase"), "decode") == 0;
        assert_true(decode || strcmp(text(row, "phase"), "sample") == 0);
        assert_int_equal(number(row, "tokens"), 5);
        assert_string_equal(text(row, "executor"), "dispatch");
        layers += strcmp(text(row, "step"), "qkv") == 0;
        reports += strcmp(text(row, "step"), "report") == 0;
        decodes += decode;
    }
    assert_int_equal(layers, 8);
    assert_int_equal(reports, 1);
    process_finish(&r);
    process_command(&r, "kernels", "explain", "--device", "any", "--batch", "5", NULL);
    assert_code(&r, 0);
    snprintf(line, sizeof(line), "\na pass over 5 sequences: %zu dispatches", decodes);
    assert_contains(r.out, line);
    process_finish(&r);
}

/* For people: a header, equal layers once, no line wider than 100 columns. */
static void explain_is_grouped_by_layer(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "explain", "--device", "any", NULL);
    assert_code(&r, 0);
    assert_int_equal(strncmp(r.out, "  STEP           KERNEL  ", 25), 0);
    assert_contains(r.out, "\nprefill, layers 0 to 7\n");
    assert_contains(r.out, "\ndecode, layers 0 to 7\n");
    assert_contains(r.out, "\nsample\n");
    assert_contains(r.out, "\ndecode and sample run as ");
    assert_contains(r.out, "\ncompiled by the first call that needs them: head_all sample_");
    struct dgl_str rest = {r.out, r.out_len}, line;
    size_t lines = 0, qkv = 0;
    for (; rest.len && dgl_str_split(&rest, '\n', &line); lines++) {
        if (line.len > 100)
            fail_msg("%zu columns, at most 100: %.*s", line.len, (int)line.len, line.p);
        qkv += dgl_str_starts(line, "  qkv ");
    }
    assert_int_equal(qkv, 2);
    assert_contains(r.out, "invocations have work");
    assert_in_range(lines, 40, 130);
    process_finish(&r);
}

/* Returns a folder with norm_rms.comp, in which `find` is replaced; NULL leaves the text unchanged.
 */
static char *own_kernel(const char *find, const char *replace)
{
    char *dir = test_tmpdir();
    struct process_result r;
    process_command(&r, "kernels", "show", "norm_rms", NULL);
    assert_code(&r, 0);
    test_write_file(dir, "norm_rms.comp", r.out, r.out_len);
    if (find)
        tiny_file_replace(dir, "norm_rms.comp", find, replace);
    process_finish(&r);
    return dir;
}

/* ---- generated, diff, new -------------------------------------------------------------------- */

/* The text of a step begins with its version and ends with the file's body. */
/* A kernel that serves all products of decode: the text of one step is printed, and each other text
 * is mentioned once. */
static void show_generated_tells_of_other_texts(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "show", "matmul_decode", "--generated", "--device", "any",
                    "--kernel-hints", "{\"variants\":{\"matmul/decode\":\"matmul_decode\"}}", NULL);
    assert_code(&r, 0);
    assert_contains(r.err, "this is its text of decode qkv (");
    const char *other = strstr(r.err, "decode o (");
    assert_non_null(other);
    assert_null(strstr(other + 1, "decode o ("));
    process_finish(&r);
}

static void show_generated_is_what_the_driver_gets(void **state)
{
    struct process_result file, plain, json, none;
    (void)state;
    process_command(&file, "kernels", "show", "norm_rms", NULL);
    process_command(&plain, "kernels", "show", "norm_rms", "--generated", "--device", "any", NULL);
    assert_code(&plain, 0);
    assert_int_equal(strncmp(plain.out, "#version 310 es\n", 16), 0);
    assert_contains(plain.out, "\n#define H 256\n");
    assert_contains(plain.out, strstr(file.out, "\n\n") + 2);
    assert_contains(plain.out, "void main()");
    process_command(&json, "kernels", "show", "norm_rms", "--generated", "--op", "ffn_norm",
                    "--device", "any", "--json", NULL);
    assert_code(&json, 0);
    const struct dgl_json *root = process_json(&json);
    assert_string_equal(text(root, "source"), plain.out);
    assert_string_equal(text(root, "step"), "ffn_norm");
    process_command(&none, "kernels", "show", "norm_rms", "--generated", "--op", "qkv", "--device",
                    "any", NULL);
    assert_code(&none, 1);
    assert_one_error(&none, "called qkv has the kernel norm_rms here");
    process_finish(&file);
    process_finish(&plain);
    process_finish(&json);
    process_finish(&none);
}

/* Lines that end in CRLF change neither the difference nor the hash. */
static void line_ends_are_no_difference(void **state)
{
    char *dir = own_kernel("float sum = 0.0;", "float sum = 0.5;");
    struct process_result lf, crlf;
    struct dgl_buf text = {0};
    size_t len;
    (void)state;
    process_command(&lf, "kernels", "diff", "--json", "--kernel-dir", dir, NULL);
    assert_code(&lf, 0);
    char *file = tiny_file_read(dir, "norm_rms.comp", &len);
    for (size_t i = 0; i < len; i++)
        dgl_buf_printf(&text, "%s%c", file[i] == '\n' ? "\r" : "", file[i]);
    test_write_file(dir, "norm_rms.comp", text.p, text.len);
    process_command(&crlf, "kernels", "diff", "--json", "--kernel-dir", dir, NULL);
    assert_code(&crlf, 0);
    assert_contains(crlf.out, "+        float sum = 0.5;\\n");
    assert_string_equal(crlf.out, lf.out);
    dgl_buf_finish(&text);
    process_finish(&lf);
    process_finish(&crlf);
    free(file);
    test_tmpdir_remove(dir);
}

static void diff_shows_what_an_override_changes(void **state)
{
    static const char lib[] = "// A lib of one's own.\nfloat one() { return 1.0; }\n";
    char *dir = own_kernel("float sum = 0.0;", "float sum = 0.5;");
    struct process_result r, json, none;
    (void)state;
    test_write_file(dir, "one.glsl", lib, sizeof(lib) - 1);
    process_command(&r, "kernels", "diff", "--kernel-dir", dir, NULL);
    assert_code(&r, 0);
    assert_int_equal(strncmp(r.out, "--- kernels/op/norm/norm_rms.comp\n+++ ", 38), 0);
    assert_contains(r.out, "\n-        float sum = 0.0;\n+        float sum = 0.5;\n");
    assert_contains(r.out, "--- /dev/null\n+++ ");
    assert_contains(r.out, "@@ -0,0 +1,2 @@\n+// A lib of one's own.\n");
    process_command(&json, "kernels", "diff", "one", "--json", "--kernel-dir", dir, NULL);
    assert_code(&json, 0);
    assert_int_equal(dgl_json_count(process_json(&json)), 1);
    assert_string_equal(text(dgl_json_first(process_json(&json)), "kind"), "lib");
    process_command(&none, "kernels", "diff", NULL);
    assert_code(&none, 0);
    assert_string_equal(none.out, "");
    process_finish(&none);
    process_command(&none, "kernels", "diff", "norm_rsm", "--kernel-dir", dir, NULL);
    assert_code(&none, 1);
    assert_one_error(&none, "there is no kernel norm_rsm");
    process_finish(&r);
    process_finish(&json);
    process_finish(&none);
    test_tmpdir_remove(dir);
}

/* One for each operation; all of them go together with the built-in ones. */
static void new_makes_a_kernel_of_each_operation(void **state)
{
    char *dir = test_tmpdir();
    struct process_result list, r;
    size_t ops = 0, own = 0;
    (void)state;
    process_command(&list, "kernels", "list", "--json", NULL);
    for (const struct dgl_json *k = dgl_json_first(process_json(&list)); k; k = dgl_json_next(k)) {
        char name[64], file[80];
        snprintf(name, sizeof(name), "own_%s", text(k, "op"));
        snprintf(file, sizeof(file), "%s.comp", name);
        char *path = dgl_path_join(dir, file);
        if (!dgl_path_exists(path)) {
            process_command(&r, "kernels", "new", name, "--op", text(k, "op"), "-o", path, NULL);
            assert_code(&r, 0);
            process_finish(&r);
            ops++;
        }
        free(path);
    }
    process_finish(&list);
    process_command(&list, "kernels", "list", "--json", "--kernel-dir", dir, NULL);
    assert_code(&list, 0);
    for (const struct dgl_json *k = dgl_json_first(process_json(&list)); k; k = dgl_json_next(k))
        own += strcmp(text(k, "variant"), "own") == 0;
    assert_true(ops > 20);
    assert_int_equal(own, ops);
    process_finish(&list);
    /* Kernels that are correct. Only two, because compiling is slow. */
    static const char *const judged[] = {"own_matmul.comp", "own_sample_pick.comp"};
    for (size_t i = 0; i < 2; i++) {
        char *path = dgl_path_join(dir, judged[i]);
        process_command(&r, "kernels", "check", path, "--quick", "--device", "any", NULL);
        assert_code(&r, 0);
        assert_contains(r.out, "1 passed, 0 failed, 0 skipped");
        process_finish(&r);
        free(path);
    }
    test_tmpdir_remove(dir);
}

struct new_row {
    const char *name;
    const char *args[8]; /* after `kernels new` */
    int code;
    const char *error; /* may be NULL */
    const char *out;   /* part of standard output; of standard error after an error */
};

static const struct new_row new_rows[] = {
    {"with a word of WHEN",
     {"mine", "--op", "matmul/prefill", "-o", "-"},
     0,
     NULL,
     "phase prefill"},
    {"no operation",
     {"mine"},
     2,
     "wants the operation",
     "\ndopplergl:   norm           post store add\n"},
    {"no operation, in a file that cannot be",
     {"mine", "-o", TEST_MISSING "/x"},
     2,
     "wants the operation",
     "\ndopplergl:   copy\n"},
    {"an operation that is none",
     {"mine", "--op", "nurm", "-o", "-"},
     2,
     "did you mean norm?",
     "\ndopplergl:   rope_kv        "},
    {"a word that is none",
     {"mine", "--op", "norm/decode", "-o", "-"},
     2,
     "for norm/decode: none has all",
     "\ndopplergl:   norm           post store add\n"},
    {"a word of an attribute",
     {"mine", "--op", "matmul/pre=join", "-o", "-"},
     0,
     NULL,
     "//! WHEN pre join"},
    {"words, one of them of an attribute",
     {"mine", "--op", "matmul/decode/pre=join", "-o", "-"},
     0,
     NULL,
     "//! WHEN phase decode\n"},
    {"a word of another attribute",
     {"mine", "--op", "matmul/pre=decode", "-o", "-"},
     2,
     "for matmul/pre=decode: none has all",
     "\ndopplergl:   matmul         phase"},
    {"a name that is taken",
     {"norm_rms", "--op", "norm", "-o", "-"},
     2,
     "kernels show norm_rms",
     NULL},
    {"a name that is none", {"My norm", "--op", "norm", "-o", "-"}, 2, "cannot be the NAME", NULL},
    {"a file that is there",
     {"mine", "--op", "norm", "-o", "Makefile"},
     1,
     "--force replaces",
     NULL},
    {"no name", {"--op", "norm"}, 2, "`new NAME --op OP`", NULL},
};

static void new_case(void **state)
{
    const struct new_row *row = *state;
    const char *args[12] = {"kernels", "new"};
    struct process_result r;
    for (size_t i = 0; row->args[i]; i++)
        args[i + 2] = row->args[i];
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, row->code);
    if (row->error)
        assert_one_error(&r, row->error);
    if (row->out)
        assert_contains(row->error ? r.err : r.out, row->out);
    process_finish(&r);
}

/* ---- executors ------------------------------------------------------------------------------- */

/* A forced choice that is impossible is refused with the reason, before any computation. */
static void persistent_is_refused_in_software(void **state)
{
    static const char *const commands[][4] = {
        {"generate", "-p", "Once", NULL}, {"bench", NULL}, {"kernels", "explain", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const char *const *c = commands[i];
        struct process_result r;
        process_command(&r, c[0], "--device", "software", "--executor", "persistent", c[1], c[2],
                        NULL);
        assert_code(&r, 1);
        assert_string_equal(r.out, "");
        assert_contains(r.err, "renders in software, where work groups cannot wait");
        process_finish(&r);
    }
}

/* ---- overrides ------------------------------------------------------------------------------- */

/* The first kernel that generate used for norms. */
static const struct dgl_json *used_norm(struct process_result *r)
{
    const struct dgl_json *k = dgl_json_first(dgl_json_get(process_json(r), "kernels"));
    while (k && strcmp(text(k, "op"), "attn_norm") != 0)
        k = dgl_json_next(k);
    assert_non_null(k);
    return k;
}

struct override_row {
    const char *name;
    const char *flag;
    bool whole_folder;
};

static const struct override_row overrides[] = {
    {"--kernel-file replaces a kernel", "--kernel-file", false},
    {"--kernel-dir replaces a kernel", "--kernel-dir", true},
};

/* The text differs in a comment: same answer, other origin and hash. */
static void override_case(void **state)
{
    const struct override_row *row = *state;
    char *dir = own_kernel("//! PREFER", "// Mine.\n//! PREFER");
    char *file = dgl_path_join(dir, "norm_rms.comp"), hex[65];
    struct process_result mine, builtin;
    size_t len;
    process_command(&mine, "generate", "--device", "any", "-p", PROMPT, "-n", "8", "--temp", "0",
                    "--json", row->flag, row->whole_folder ? dir : file, NULL);
    assert_code(&mine, 0);
    process_command(&builtin, "generate", "--device", "any", "-p", PROMPT, "-n", "8", "--temp", "0",
                    "--json", NULL);
    assert_code(&builtin, 0);
    char *source = tiny_file_read(dir, "norm_rms.comp", &len);
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, source, len, hex));
    const struct dgl_json *k = used_norm(&mine);
    assert_string_equal(text(k, "origin"), file);
    assert_string_equal(text(k, "sha256"), hex);
    assert_string_equal(text(used_norm(&builtin), "origin"), "builtin");
    assert_string_equal(text(process_json(&mine), "text"), text(process_json(&builtin), "text"));
    process_finish(&mine);
    process_finish(&builtin);
    free(source);
    free(file);
    test_tmpdir_remove(dir);
}

/* The override is also run: a kernel that computes other values changes the answer. */
static void override_is_what_runs(void **state)
{
    char *dir = own_kernel("float r = inversesqrt", "float r = 0.0 * inversesqrt");
    struct process_result mine, builtin;
    (void)state;
    process_command(&mine, "generate", "--device", "any", "-p", PROMPT, "-n", "8", "--temp", "0",
                    "--kernel-dir", dir, NULL);
    assert_code(&mine, 0);
    process_command(&builtin, "generate", "--device", "any", "-p", PROMPT, "-n", "8", "--temp", "0",
                    NULL);
    assert_string_not_equal(mine.out, builtin.out);
    process_finish(&mine);
    process_finish(&builtin);
    test_tmpdir_remove(dir);
}

/* A text that this model (without experts, with q4_k weights) does not use is reported once. */
static void override_that_serves_nothing_is_said(void **state)
{
    static const struct {
        const char *file, *name; /* name: of a built-in kernel */
        const char *lib;         /* text; NULL: the kernel's */
        const char *told;
    } rows[] = {
        {"moe_route.comp", "moe_route", NULL, "(moe_route, operation moe_route); "},
        {"weight_q5_k.glsl", NULL, "// Mine.\nfloat weight_at(uint at, uint k) { return 0.0; }\n",
         "(weight_q5_k, a lib); "},
        {"spare.glsl", NULL, "// Mine.\nfloat spare(float x) { return x; }\n",
         "(spare, a lib that no kernel splices); "},
    };
    struct process_result r;
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *dir = test_tmpdir(), *file = dgl_path_join(dir, rows[i].file);
        if (rows[i].lib) {
            test_write_file(dir, rows[i].file, rows[i].lib, strlen(rows[i].lib));
        } else {
            process_command(&r, "kernels", "show", rows[i].name, NULL);
            test_write_file(dir, rows[i].file, r.out, r.out_len);
            process_finish(&r);
        }
        process_command(&r, "generate", "--device", "any", "-p", "a", "-n", "1", "--kernel-dir",
                        dir, NULL);
        assert_code(&r, 0);
        const char *line = strstr(r.err, "warning: serves no step of ");
        assert_non_null(line);
        assert_contains(line, file);
        assert_contains(line, rows[i].told);
        assert_null(strstr(line + strlen("warning: serves"), "serves no step"));
        process_finish(&r);
        free(file);
        test_tmpdir_remove(dir);
    }
    process_command(&r, "generate", "--device", "any", "-p", "a", "-n", "1", NULL);
    assert_null(strstr(r.err, "serves no step"));
    process_finish(&r);
}

static void override_shows_in_list_and_show(void **state)
{
    char *dir = own_kernel("// RMS norm", "// My norm");
    char *file = dgl_path_join(dir, "norm_rms.comp");
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "show", "norm_rms", "--kernel-file", file, NULL);
    assert_code(&r, 0);
    assert_int_equal(strncmp(r.out, "// My norm", 10), 0);
    process_finish(&r);
    process_command(&r, "kernels", "list", "--kernel-file", file, NULL);
    assert_code(&r, 0);
    assert_contains(r.out, file);
    assert_contains(r.out, "My norm");
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
}

/* If a kernel joins operations, the reason names its file, and the lines below do not repeat it. */
static void explain_names_a_file_once(void **state)
{
    char *dir = own_kernel("//! NAME norm_rms", "//! NAME norm_own");
    char *file = dgl_path_join(dir, "norm_rms.comp");
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "explain", "--device", "any", "--kernel-file", file, NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "norm_own");
    assert_contains(r.out, file);
    assert_null(strstr(r.out, " from "));
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
}

/* ---- faults of a kernel ------------------------------------------------------------------------
 */

struct broken {
    const char *name;
    const char *find, *replace;
    const char *error; /* part of the error; NULL = "FILE:LINE" of the replaced text */
    bool needs_device; /* found when it is compiled or chosen */
};

static const struct broken broken_kernels[] = {
    {"unknown directive", "//! PREFER 10", "//! PREFERR 10", NULL, false},
    {"missing directive", "//! OP norm\n", "", "the directive //! OP is missing", false},
    {"unknown operation", "//! OP norm", "//! OP normal", "OP: no operation is called normal",
     false},
    {"another operation", "//! OP norm", "//! OP matmul", "norm_rms.comp: it would replace", false},
    {"unknown constant", "//! CONST H ", "//! CONST H HIDDEN ",
     "CONST: no operation supplies HIDDEN; built-in kernels of norm use: H X_STRIDE Y_STRIDE",
     false},
    {"unknown type", "//! BIND read vec4 X", "//! BIND read vec5 X", NULL, false},
    {"bad expression", "//! GROUPS T", "//! GROUPS T +", NULL, false},
    {"forbidden word in the body", "uint tid =", "uint gl_WorkGroupID, tid =", NULL, false},
    {"GLSL that does not compile", "sum = 0.0;", "sum = nothing;", NULL, true},
    {"GLSL that does not parse", "void body(", "void body((", "norm_rms.comp", true},
    {"more shared memory than there is", "squares[64]", "squares[262144]", "SHARED", true},
    {"unmet requirement", "//! PREFER 10", "//! REQUIRE H > 100000", "REQUIRE H > 100000", true},
};

/* Line of the first `part`. */
static size_t line_of(const char *source, const char *part)
{
    const char *end = strstr(source, part);
    size_t number = 1;
    assert_non_null(end);
    for (const char *p = source; p < end; p++)
        number += *p == '\n';
    return number;
}

static void broken_case(void **state)
{
    const struct broken *row = *state;
    char *dir = own_kernel(row->find, row->replace), *file = dgl_path_join(dir, "norm_rms.comp");
    char place[4300], *source;
    struct process_result r;
    size_t len;
    if (row->needs_device)
        process_command(&r, "generate", "--device", "any", "-p", PROMPT, "-n", "4", "--kernel-file",
                        file, NULL);
    else
        process_command(&r, "kernels", "list", "--kernel-file", file, NULL);
    assert_code(&r, 1);
    assert_int_equal(r.out_len, 0);
    source = tiny_file_read(dir, "norm_rms.comp", &len);
    if (!row->error)
        snprintf(place, sizeof(place), "%s:%zu:", file, line_of(source, row->replace));
    assert_one_error(&r, row->error ? row->error : place);
    process_finish(&r);
    free(source);
    free(file);
    test_tmpdir_remove(dir);
}

/* The line that the driver names is the line of the file. */
static void compile_errors_name_the_line(void **state)
{
    char *dir = own_kernel("sum = 0.0;", "sum = nothing;"), line[16];
    struct process_result r;
    size_t len;
    (void)state;
    char *source = tiny_file_read(dir, "norm_rms.comp", &len);
    snprintf(line, sizeof(line), "%zu", line_of(source, "nothing"));
    process_command(&r, "generate", "--device", "any", "-p", "a", "-n", "1", "--kernel-dir", dir,
                    NULL);
    assert_code(&r, 1);
    assert_one_error(&r, line);
    assert_contains(r.err, "        float sum = nothing;\n");
    assert_contains(r.err, "|                     ^\n");
    process_finish(&r);
    free(source);
    test_tmpdir_remove(dir);
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* The answer is the same with every hint that is accepted. */
struct hint_row {
    const char *name;
    const char *args[2];
};

static const struct hint_row hints[] = {
    {"profile safe", {"--kernel-profile", "safe"}},
    {"profile debug", {"--kernel-profile", "debug"}},
    {"profile fused", {"--kernel-profile", "fused"}},
    {"computePrecision f32", {"--compute-precision", "f32"}},
    {"computePrecision auto", {"--compute-precision", "auto"}},
    {"computePrecision f16", {"--compute-precision", "f16"}},
    {"q4kMatmul fused_q4k", {"--q4k-matmul", "fused_q4k"}},
    {"q4kMatmul dequant_f16", {"--q4k-matmul", "dequant_f16"}},
    {"q4kMatmul dequant_f32", {"--q4k-matmul", "dequant_f32"}},
    {"attentionDecode auto", {"--attention-decode", "auto"}},
    {"attentionDecode tiled_large", {"--attention-decode", "tiled_large"}},
    {"attentionDecode tiled_small", {"--attention-decode", "tiled_small"}},
    {"attentionPrefill tiled_large", {"--attention-prefill", "tiled_large"}},
    {"attentionPrefill tiled_small", {"--attention-prefill", "tiled_small"}},
    {"streaming in both",
     {"--kernel-hints", "{\"attentionPrefill\":\"streaming\",\"attentionDecode\":\"streaming\"}"}},
    {"hints as JSON", {"--kernel-hints", "{\"computePrecision\":\"f32\"}"}},
    {"variants as JSON", {"--kernel-hints", "{\"variants\":{\"matmul/decode\":\"baseline\"}}"}},
    {"attention in its general form",
     {"--kernel-hints", "{\"variants\":{\"attn_decode\":\"baseline\"}}"}},
};

static void hint_case(void **state)
{
    const struct hint_row *row = *state;
    static char plain[256]; /* the answer without hints */
    struct process_result r;
    if (!plain[0]) {
        process_command(&r, "generate", "--device", "any", "-p", PROMPT, "-n", "6", "--temp", "0",
                        NULL);
        assert_code(&r, 0);
        snprintf(plain, sizeof(plain), "%s", r.out);
        process_finish(&r);
    }
    process_command(&r, "generate", "--device", "any", "-p", PROMPT, "-n", "6", "--temp", "0",
                    row->args[0], row->args[1], NULL);
    assert_code(&r, 0);
    assert_string_equal(r.out, plain);
    process_finish(&r);
}

/* Every hint names itself in the reason of explain. */
static void hints_are_the_reason(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "explain", "--device", "any", "--json", "--kernel-hints",
                    "{\"variants\":{\"attn_decode\":\"baseline\"}}", NULL);
    assert_code(&r, 0);
    const struct dgl_json *row = dgl_json_first(process_json(&r));
    while (row && strcmp(text(row, "op"), "attn_decode") != 0)
        row = dgl_json_next(row);
    assert_non_null(row);
    assert_string_equal(text(row, "variant"), "baseline");
    assert_contains(text(row, "reason"), "variants.attn_decode");
    process_finish(&r);
}

/* The memory of each strategy for q4_k weights is reported. */
static void strategies_have_their_bytes(void **state)
{
    static const char *const names[] = {"fused_q4k", "dequant_f16", "dequant_f32"};
    double bytes[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct process_result r;
        process_command(&r, "generate", "--device", "any", "-p", PROMPT, "-n", "1", "--temp", "0",
                        "--q4k-matmul", names[i], "--json", NULL);
        assert_code(&r, 0);
        bytes[i] = dgl_json_f64(dgl_json_get(process_json(&r), "weight_bytes"));
        process_finish(&r);
    }
    /* 2 bytes and 4 for each of those that are 144 for 256. */
    double weights = (bytes[2] - bytes[1]) / 2;
    assert_near(bytes[1] - bytes[0], weights * (2 - 144.0 / 256), weights * 1e-3);
    assert_true(weights > 4e6);
}

static void config_file_is_read(void **state)
{
    static const char good[] = "{\"variants\":{\"attn_decode\":\"baseline\"}}";
    static const char bad[] = "{\"variants\":{\"attn_decode\":\"tiny\"}}";
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "kernels.json");
    struct process_result r;
    (void)state;
    test_write_file(dir, "kernels.json", good, sizeof(good) - 1);
    process_command(&r, "kernels", "explain", "--device", "any", "--kernel-config", file, NULL);
    assert_code(&r, 0);
    assert_contains(r.out, file);
    process_finish(&r);
    test_write_file(dir, "kernels.json", bad, sizeof(bad) - 1);
    process_command(&r, "kernels", "explain", "--device", "any", "--kernel-config", file, NULL);
    assert_code(&r, 1);
    assert_one_error(&r, file);
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
}

/* A later layer wins: the flag over the JSON. */
static void flags_beat_hints(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "explain", "--device", "any", "--json", "--kernel-hints",
                    "{\"q4kMatmul\":\"dequant_f32\"}", "--q4k-matmul", "fused_q4k", NULL);
    assert_code(&r, 0);
    const struct dgl_json *row = dgl_json_first(process_json(&r));
    size_t packed = 0;
    for (; row; row = dgl_json_next(row))
        packed += strstr(text(row, "shape"), "q4_k") != NULL;
    assert_true(packed > 0);
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_what_the_folder_holds),
        cmocka_unit_test(show_as_json_has_the_text),
        cmocka_unit_test(explain_covers_the_whole_plan),
        cmocka_unit_test(explain_tells_of_a_batch),
        cmocka_unit_test(explain_is_grouped_by_layer),
        cmocka_unit_test(show_generated_is_what_the_driver_gets),
        cmocka_unit_test(show_generated_tells_of_other_texts),
        cmocka_unit_test(diff_shows_what_an_override_changes),
        cmocka_unit_test(line_ends_are_no_difference),
        cmocka_unit_test(new_makes_a_kernel_of_each_operation),
        cmocka_unit_test(persistent_is_refused_in_software),
        cmocka_unit_test(override_is_what_runs),
        cmocka_unit_test(override_that_serves_nothing_is_said),
        cmocka_unit_test(override_shows_in_list_and_show),
        cmocka_unit_test(explain_names_a_file_once),
        cmocka_unit_test(compile_errors_name_the_line),
        cmocka_unit_test(hints_are_the_reason),
        cmocka_unit_test(strategies_have_their_bytes),
        cmocka_unit_test(config_file_is_read),
        cmocka_unit_test(flags_beat_hints),
    };
    int failures = test_run_table("cli overrides", override_case, overrides);
    failures += test_run_table("cli broken kernels", broken_case, broken_kernels);
    failures += test_run_table("cli hints", hint_case, hints);
    failures += test_run_table("cli kernels new", new_case, new_rows);
    return failures + cmocka_run_group_tests_name("cli kernels", tests, NULL, NULL);
}
