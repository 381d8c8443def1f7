/* `kernels check --compile-only`: every source of a plan, each in a separate process. If
 * DOPPLERGL_SHIMS names a folder of shims, also compilers that hang or crashed, with drivers of
 * absent GPUs. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"

/* A norm for one invocation per row; `extra` is a directive and `code` begins its body. */
#define NORM(extra, code)                                                                          \
    "// A norm.\n"                                                                                 \
    "//! NAME norm_rms\n"                                                                          \
    "//! OP norm\n"                                                                                \
    "//! VARIANT baseline\n"                                                                       \
    "//! WHEN post store add\n"                                                                    \
    "//! BIND read float X\n"                                                                      \
    "//! BIND read float G\n"                                                                      \
    "//! BIND readwrite float Y\n"                                                                 \
    "//! PARAM float eps\n"                                                                        \
    "//! CONST H X_STRIDE Y_STRIDE\n"                                                              \
    "//! LOCAL 64\n"                                                                               \
    "//! GROUPS T\n" extra "//! STEP read\n"                                                       \
    "void body(uvec3 group)\n"                                                                     \
    "{\n"                                                                                          \
    "    uint tid = gl_LocalInvocationID.x, t = min(group.x, pass_rows - 1u);\n" code              \
    "    for (int i = 0; i < H; i++)\n"                                                            \
    "        Y[int(t) * Y_STRIDE + i] = X[int(t) * X_STRIDE + i] * G[i];\n"                        \
    "}\n"

static void test_all_compile(void **state)
{
    (void)state;
    struct process_result first, again;
    struct dgl_buf known = {0};
    char *dir = test_tmpdir(), **names = NULL;
    size_t num_names = 0;
    char *texts = checked(dgl_path_join(dir, "texts")), *list = checked(dgl_path_join(dir, "list"));
    process_command(&first, "kernels", "check", "--compile-only", "--device", "software", "--json",
                    "--output", texts, NULL);
    assert_code(&first, 0);
    const struct dgl_json *all = dgl_json_get(process_json(&first), "texts");
    const size_t count = dgl_json_count(all);
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        const struct dgl_json *text = dgl_json_at(all, i);
        assert_string_equal(dgl_json_str(dgl_json_get(text, "verdict")).p, "ok");
        dgl_buf_printf(&known, "%s  %s\n", dgl_json_str(dgl_json_get(text, "sha256")).p,
                       dgl_json_str(dgl_json_get(text, "name")).p);
    }
    assert_int_equal(dgl_dir_list(NULL, texts, &names, &num_names), DGL_OK);
    assert_int_equal(num_names, count);
    test_write_file(dir, "list", known.p, known.len);
    process_command(&again, "kernels", "check", "--compile-only", "--device", "software", "--known",
                    list, NULL);
    assert_code(&again, 0);
    assert_contains(again.out, "0 compiled, 0 failed");
    assert_int_equal(test_occurrences(again.out, "known    "), count);
    process_finish(&first);
    process_finish(&again);
    dgl_names_free(names, num_names);
    dgl_buf_finish(&known);
    free(texts);
    free(list);
    test_tmpdir_remove(dir);
}

static void test_refused(void **state)
{
    (void)state;
    static const char text[] = NORM("", "    undeclared_name = 1u;\n");
    struct process_result r;
    char *dir = test_tmpdir();
    test_write_file(dir, "norm.comp", text, strlen(text));
    char *path = checked(dgl_path_join(dir, "norm.comp"));
    process_command(&r, "kernels", "check", "--compile-only", "--device", "software",
                    "--kernel-file", path, NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "of the plan cannot be compiled: norm_rms ");
    assert_contains(r.err, "undeclared_name");
    assert_contains(r.out, "refused  norm_rms ");
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

/* The error line names a few of many failures. */
static void test_many_fail(void **state)
{
    (void)state;
    struct process_result r;
    process_command(&r, "kernels", "check", "--compile-only", "--device", "software",
                    "--memory-limit", "1M", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, " of the plan cannot be compiled: ");
    assert_contains(r.err, "), and ");
    assert_contains(r.err, " more\n");
    assert_int_equal(test_occurrences(r.err, "used more than 1 MiB of memory"), 4);
    assert_null(strstr(r.err, "compiling kernels"));
    process_finish(&r);
}

/* ---- command lines --------------------------------------------------------------------------- */

struct usage_row {
    const char *name;
    const char *args[8];
    const char *error;
};
static const struct usage_row usage_rows[] = {
    {"all without compile-only", {"--all"}, "--all"},
    {"time without compile-only", {"--time-limit", "3"}, "--time-limit"},
    {"no time", {"--compile-only", "--time-limit", "0"}, "--time-limit"},
    {"no memory",
     {"--compile-only", "--memory-limit", "2X"},
     "--memory-limit: '2X': wanted a whole number"},
    {"too little memory", {"--compile-only", "--memory-limit", "4K"}, "from 1M to 1024G"},
    {"too much memory",
     {"--compile-only", "--memory-limit", "1025G"},
     "'1025G': wanted a whole number of bytes with or without K, M or G, from 1M to 1024G"},
    {"quick", {"--compile-only", "--quick"}, "--quick"},
    {"a file", {"--compile-only", "mine.comp"}, "--kernel-file or --kernel-dir"},
    {"no such shape", {"--compile-only", "--shape", "nonsense"}, "nonsense"},
    {"two models", {"--compile-only", "--shape", "llama3-8b", "-m", "x"}, "either --shape or -m"},
};

static void test_usage(void **state)
{
    const struct usage_row *row = *state;
    const char *args[16] = {"kernels", "check"};
    struct process_result r;
    for (int i = 0; row->args[i]; i++)
        args[2 + i] = row->args[i];
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, 2);
    assert_one_error(&r, row->error);
    process_finish(&r);
}

/* ---- drivers of absent GPUs ------------------------------------------------------------------ */

/* Returns the path of `over`. Skips the test if it is missing. */
static const char *find_over(void)
{
    if (!getenv("DOPPLERGL_SHIMS"))
        SKIP("DOPPLERGL_SHIMS is not set");
    return "tests/devices/over.sh";
}

/* The driver of Mali G52 crashed at a dispatch with no groups, because no buffer was bound. */
static void test_g52(void **state)
{
    (void)state;
    const char *over = find_over();
    const char *args[] = {"g52", process_program(), "generate", "--ids", "1,2,3", "-n",
                          "1",   "--temp",          "0",        NULL};
    struct process_result r;
    process_run(&(struct process_params){.program = over, .args = args}, &r);
    assert_int_equal(r.signal, 0);
    /* 1: drm-shim does not execute programs, so results are wrong */
    assert_true(r.code == 0 || r.code == 1);
    assert_contains(r.err, "device: Mali-G52");
    process_finish(&r);
}

/* V3D's compiler never ends on a source with a repeated condition (docs/driver-bugs.md). */
static void test_v3d_hangs(void **state)
{
    (void)state;
    static const char text[] =
        NORM("//! SHARED vec2 sums[64]\n",
             "    float s = 0.0;\n    if (tid < 16u)\n        s = sums[tid].x;\n    barrier();\n"
             "    if (tid < 16u)\n        sums[tid].x = s;\n");
    const char *over = find_over();
    struct process_result r;
    char *dir = test_tmpdir();
    test_write_file(dir, "norm.comp", text, strlen(text));
    char *path = checked(dgl_path_join(dir, "norm.comp"));
    const char *args[] = {"v3d42",          process_program(), "kernels", "check",
                          "--compile-only", "--time-limit",    "3",       "--executor",
                          "dispatch",       "--kernel-file",   path,      NULL};
    process_run(&(struct process_params){.program = over, .args = args}, &r);
    assert_code(&r, 1);
    assert_contains(r.out, "time     norm_rms ");
    assert_one_error(&r, "of the plan cannot be compiled: ");
    assert_contains(r.err, "norm_rms");
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_compile), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_many_fail),   cmocka_unit_test(test_g52),
        cmocka_unit_test(test_v3d_hangs),
    };
    int failures = cmocka_run_group_tests_name("compile only", tests, NULL, NULL);
    return failures + test_run_table("command lines", test_usage, usage_rows) != 0;
}
