/* tests/devices/check_devices.py: sources that it compiles or reuses, its report and its files. A
 * shell script replaces the command, and empty files replace Mesa's shims. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/support/process.h"

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

#define NORM_SHA "a9d728022bf0b716"

/* The fake command reports two sources per model. norm_rms always compiles; the file `verdict` has
 * the verdict of sample_next. Each source that is not known adds a line to the file `compiled`. */
static const char command[] =
    "#!/bin/sh\n"
    "here=$(dirname \"$0\")\n"
    "case \"$1 $2\" in\n"
    "'devices --json') [ -e \"$here/closed\" ] && echo '[]' && exit\n"
    "cat <<END\n[{\"name\": \"Mali-G52 (Panfrost)\", \"version\": \"OpenGL ES 3.1 Mesa 25.0.7\", "
    "\"software\": false, \"usable\": true, \"reason\": \"\", \"limits\": {\"max_ssbo_bindings\": "
    "8, "
    "\"max_ssbo_bytes\": 134217728, \"max_shared_bytes\": 32768, \"max_invocations\": 256, "
    "\"subgroup_size\": 0}}]\nEND\n;;\n"
    "'kernels check') shift 6\n"
    "known=$2\n"
    "text() {\n"
    "    verdict=$4\n"
    "    if grep -q \"$2\" \"$known\"; then verdict=known; else echo \"$1\" >> \"$here/compiled\"; "
    "fi\n"
    "    echo \"{\\\"name\\\": \\\"$1\\\", \\\"op\\\": \\\"$3\\\", \\\"sha256\\\": \\\"$2\\\", "
    "\\\"planned\\\": true, \\\"ms\\\": 12.5, \\\"verdict\\\": \\\"$verdict\\\", \\\"reason\\\": "
    "\\\"more than 60 s\\\", \\\"stats\\\": \\\"CS shader: 9 inst, 3:4 spills:fills\\\"}\"\n"
    "}\n"
    "echo '{\"texts\": ['\n"
    "text norm_rms " SHA_A " norm ok\n"
    "echo ','\n"
    "text sample_next " SHA_B " sample \"$(cat \"$here/verdict\")\"\n"
    "echo ']}' ;;\n"
    "esac\n";

static bool run(struct process_result *r, const char *program, const char *const *args)
{
    process_run(&(struct process_params){.program = program, .args = args}, r);
    return r->code == 0;
}

/* Creates a tree with a copy of the scripts and a page with an old table. */
static char *make_tree(void)
{
    static const char page[] = "top\n<!-- make check-devices: begin -->\nold\n"
                               "<!-- make check-devices: end -->\nbottom\n";
    struct process_result r;
    char *dir = test_tmpdir(), shims[1024];
    snprintf(shims, sizeof(shims),
             "mkdir -p %s/docs %s/build %s/tests && cp -r tests/devices %s/tests/ && cd %s && "
             "mkdir -p shims/prefix/lib kernels/gen kernels/op/all kernels/lib/all && "
             "echo generator > kernels/gen/gen.c && echo norm > kernels/op/all/norm_rms.comp && "
             "echo '//! WHEN weight f16 f32\n//! LIB weight_{weight}\nnext' > "
             "kernels/op/all/sample_next.comp && echo lib > kernels/lib/all/weight_f32.glsl && "
             "for s in v3d panfrost freedreno intel amdgpu; do "
             ": > shims/prefix/lib/lib${s}_noop_drm_shim.so; done && "
             "grep -v ^archive tests/devices/models.txt > t && mv t tests/devices/models.txt && "
             "rm -f tests/devices/compiled.tsv",
             dir, dir, dir, dir, dir);
    if (!run(&r, "/bin/sh", (const char *const[]){"-c", shims, NULL}))
        fail_msg("cannot copy tests/devices: %s", r.err);
    process_finish(&r);
    char *docs = dgl_path_join(dir, "docs"), *build = dgl_path_join(dir, "build");
    test_write_file(checked(docs), "devices.md", page, sizeof(page) - 1);
    test_write_file(checked(build), "dopplergl", command, sizeof(command) - 1);
    test_write_file(build, "verdict", "ok", 2);
    char *program = dgl_path_join(build, "dopplergl");
    assert_int_equal(chmod(checked(program), 0700), 0);
    free(program);
    free(docs);
    free(build);
    return dir;
}

/* Runs the script of the tree with these arguments. Asserts the exit code and the output. */
static void check(const char *dir, const char *words, int code, const char *says)
{
    struct process_result r;
    char line[1024];
    snprintf(line, sizeof(line),
             "cd %s && PYTHONDONTWRITEBYTECODE=1 MESA= python3 tests/devices/check_devices.py "
             "--build build --shims shims --jobs 2 %s",
             dir, words);
    run(&r, "/bin/sh", (const char *const[]){"-c", line, NULL});
    assert_code(&r, code);
    assert_contains(r.out, says);
    process_finish(&r);
}

static char *read_file(const char *dir, const char *name)
{
    char *path = dgl_path_join(dir, name), *text = NULL;
    size_t len;
    assert_int_equal(dgl_file_slurp(NULL, checked(path), 1 << 20, &text, &len), DGL_OK);
    free(path);
    return text;
}

static void put(const char *dir, const char *name, const char *text)
{
    char *build = dgl_path_join(dir, "build");
    test_write_file(checked(build), name, text, strlen(text));
    free(build);
}

static void test_equal_texts_are_compiled_once(void **state)
{
    (void)state;
    char *dir = make_tree();
    check(dir, "--chips g52 --models 'bundled llama-3.2-1b:q8_0'", 0,
          "2 models,    2 texts: 2 compiled, 0 reused");
    check(dir, "--chips g52 --models 'bundled llama-3.2-1b:q8_0'", 0,
          "2 models,    2 texts: 0 compiled, 2 reused");
    char *compiled = read_file(dir, "build/compiled");
    assert_string_equal(compiled, "norm_rms\nsample_next\n");
    free(compiled);
    check(dir, "--chips g52 --models bundled --fresh", 0, "2 texts: 2 compiled, 0 reused");
    check(dir, "--chips 'g52 dg2' --models bundled", 0, "2 passed, 0 failed");
    test_tmpdir_remove(dir);
}

static void test_failures_are_reported(void **state)
{
    (void)state;
    char *dir = make_tree();
    put(dir, "verdict", "time");
    check(dir, "--chips g52 --models bundled", 1, "g52: FAILED sample_next: more than 60 s");
    check(dir, "--chips g52 --models bundled", 1, "0 passed, 1 failed"); /* also from the results */
    put(dir, "closed", "");
    check(dir, "--chips 'g52' --models bundled", 1, "g52: does not open: no device");
    test_tmpdir_remove(dir);
}

/* The refusal lists the valid names on standard error. `check` reads both streams as one. */
static void test_unknown_names_are_refused(void **state)
{
    (void)state;
    char *dir = make_tree();
    check(dir, "--chips g53 2>&1", 2, "there is no chip 'g53'; there are v3d42 v3d71 ");
    check(dir, "--chips g52 --models 'bundled llama' 2>&1", 2,
          "there is no model 'llama'; there are bundled llama-3.2-1b:q4_k_m ");
    test_tmpdir_remove(dir);
}

static void test_update_writes_table_and_sample(void **state)
{
    (void)state;
    char *dir = make_tree();
    check(dir, "--seen", 0, "nothing was compiled for other chips yet");
    check(dir, "--update", 0, "17 passed, 0 failed");
    char *page = read_file(dir, "docs/devices.md");
    char *sample = read_file(dir, "tests/devices/compiled.tsv");
    assert_contains(
        page, "top\n<!-- make check-devices: begin -->\n\nCompiled with Mesa 25.0.7; plans of ");
    assert_contains(page, "| g52 | Mali G52 | yes | 8 buffers of 128 MiB, 32 KiB shared, "
                          "256 invocations, no subgroups |");
    assert_contains(page, "| norm_rms 3:4; also sample_next | compiled only |");
    assert_contains(page, "<!-- make check-devices: end -->\nbottom\n");
    assert_null(strstr(page, "old"));
    /* echo norm | sha256sum */
    assert_contains(sample, "norm_rms\t" NORM_SHA "\tv3d42 v3d71 t860 ");
    free(page);
    free(sample);
    check(dir, "--seen", 0, "17 chips have compiled the current kernels");
    put(dir, "../kernels/lib/all/weight_f32.glsl", "// comment\n\n  lib /* of a type */\n");
    put(dir, "../kernels/gen/gen.c", "/* two\n * lines */\ngenerator\n");
    check(dir, "--seen", 0, "17 chips have compiled the current kernels");
    put(dir, "../kernels/lib/all/weight_f32.glsl", "other lib\n");
    check(dir, "--seen", 0, "no chip has compiled the current sample_next");
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_texts_are_compiled_once),
        cmocka_unit_test(test_failures_are_reported),
        cmocka_unit_test(test_unknown_names_are_refused),
        cmocka_unit_test(test_update_writes_table_and_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
