/* Tests of the build: the public header compiles alone, the archive exports only its functions, and
 * the test runner counts correctly. Must run in the root of the source tree. */
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/file.h"
#include "core/base/str.h"

/* Runs a shell command. `output` receives stdout and stderr. */
static int run(struct dgl_buf *output, const char *fmt, ...)
{
    struct dgl_buf command = {0};
    char part[4096];
    va_list args;
    va_start(args, fmt);
    dgl_buf_puts(&command, "exec 2>&1; ");
    dgl_buf_vprintf(&command, fmt, args);
    va_end(args);
    assert_false(command.failed);
    FILE *pipe = popen(command.p, "r");
    assert_non_null(pipe);
    dgl_buf_finish(output);
    dgl_buf_puts(output, "");
    for (size_t got; (got = fread(part, 1, sizeof(part), pipe)) > 0;)
        dgl_buf_append(output, part, got);
    int status = pclose(pipe);
    dgl_buf_finish(&command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool have(const char *program)
{
    struct dgl_buf output = {0};
    int code = run(&output, "command -v %s", program);
    dgl_buf_finish(&output);
    return code == 0;
}

static const char *build_dir(void)
{
    const char *dir = getenv("DOPPLERGL_TEST_BUILD");
    return dir && *dir ? dir : "build";
}

/* Returns the path of a built file. Skips the case if that file was not built. */
static const char *built(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", build_dir(), name);
    if (!dgl_path_exists(path))
        SKIP("%s was not built", name);
    return path;
}

struct header_case {
    const char *name, *compiler, *language;
};

static const struct header_case header_cases[] = {
    {"header: gcc, C11", "gcc", "-x c -std=c11"},
    {"header: clang, C11", "clang", "-x c -std=c11"},
    {"header: g++, C++17", "g++", "-x c++ -std=c++17"},
    {"header: clang++, C++17", "clang++", "-x c++ -std=c++17"},
};

static void check_header(void **state)
{
    const struct header_case *c = *state;
    if (!have(c->compiler))
        SKIP("%s is not installed", c->compiler);
    struct dgl_buf output = {0};
    int code = run(
        &output,
        "printf '#include \"core/dopplergl.h\"\\nint main(void) { return !dgl_version(); }\\n' |"
        " %s %s -Wall -Wextra -Werror -pedantic -fsyntax-only -I. -",
        c->compiler, c->language);
    assert_string_equal(output.p, "");
    assert_int_equal(code, 0);
    dgl_buf_finish(&output);
}

/* Each header compiles when it is included first. */
static void every_header_stands_alone(void **state)
{
    (void)state;
    struct dgl_buf output = {0};
    int code = run(&output,
                   "flags=$(pkg-config --cflags egl glesv2 libdrm)\n"
                   "for header in core/*.h core/*/*.h gl/*.h kernels/*.h loader/*/*.h; do\n"
                   "  echo \"#include \\\"$header\\\"\" | %s -x c -std=c11 -Wall -Wextra -Werror "
                   "-D_GNU_SOURCE $flags -fsyntax-only -I. - || echo \"$header\"\n"
                   "done",
                   have("gcc") ? "gcc" : "clang");
    assert_string_equal(output.p, "");
    assert_int_equal(code, 0);
    dgl_buf_finish(&output);
}

static void archive_exports_only_the_api(void **state)
{
    (void)state;
    struct dgl_buf output = {0};
    const char *archive = built("libdopplergl.a");
    /* The public header must declare each exported name as a function. */
    int code = run(&output,
                   "nm -g --defined-only %s | awk 'NF == 3 { print $3 }' | while read -r name; do\n"
                   "  grep -q \"[ *]$name(\" core/dopplergl.h || echo \"$name\"\n"
                   "done",
                   archive);
    assert_string_equal(output.p, "");
    assert_int_equal(code, 0);
    assert_int_equal(run(&output, "nm -g --defined-only %s | grep -c ' T dgl_status_str'", archive),
                     0);
    dgl_buf_finish(&output);
}

static void archive_defines_the_whole_api(void **state)
{
    (void)state;
    struct dgl_buf output = {0};
    const char *archive = built("libdopplergl.a");
    int code = run(
        &output,
        "nm -g --defined-only %s > %s/exported\n"
        "sed -n '/^template/d; s/^[a-z].*[ *]\\(dgl_[a-z0-9_]*\\)(.*/\\1/p' core/dopplergl.h |\n"
        "while read -r name; do grep -q \" T $name$\" %s/exported || echo \"$name\"; done",
        archive, build_dir(), build_dir());
    assert_string_equal(output.p, "");
    assert_int_equal(code, 0);
    dgl_buf_finish(&output);
}

/* Constants that contain pointers are in .data.rel.ro. Data in .data or .bss would be mutable
 * state. Three such variables are allowed. One is the process that opened a device
 * (gl/gl_device.c, rule R7), because drivers hang after a fork. The second is its Vulkan instance
 * (gl/gl_vulkan_memory.c), because destroying it also ends NVIDIA's EGL displays. The third counts
 * failed allocations of each thread (core/base/mem.c): buffers report them late, and no handle is
 * at hand in every place that allocates. The grids of loader/quant/quant_grid.c are constants that
 * are computed at their first use. */
static void library_has_no_global_state_but_the_process(void **state)
{
    (void)state;
    if (getenv("SAN"))
        SKIP("sanitizers add variables of their own");
    struct dgl_buf output = {0};
    int code = run(&output,
                   "objdump -t %s | awk 'NF < 4 { next } { sub(/ \\.hidden/, \"\") } $(NF-2) ~ "
                   "/^\\.(data|bss|tdata|tbss)$/ && $(NF-1) !~ /^0+$/ "
                   "{ print $NF } $(NF-2) == \"*COM*\" { print $NF }'",
                   built("libinternal.a"));
    assert_string_equal(output.p,
                        "failures\nopened_by\nvulkan\niq1_s_grid\niq2_xxs_grid\n"
                        "iq2_xs_grid\niq2_s_grid\niq3_xxs_grid\niq3_s_grid\ngrids_once\n");
    assert_int_equal(code, 0);
    dgl_buf_finish(&output);
}

struct make_case {
    const char *target, *file; /* a file that the inner make of `target` builds */
};

static const struct make_case make_cases[] = {
    {"demo", "obj/core/api/device.o"},          {"check", "obj/core/api/device.o"},
    {"check-drivers", "obj/core/api/device.o"}, {"check-shapes", "obj/core/api/device.o"},
    {"san", "san/obj/core/api/device.o"},       {"fuzz", "fuzz/obj/core/api/device.o"},
};

/* The inner make shares the job server of the outer one. A dry run descends only into recipes that
 * make recognizes as calls of make. Only these recipes get the job server. */
static void inner_make_gets_the_jobs(void **state)
{
    const struct make_case *c = *state;
    if (!have("make"))
        SKIP("make is not installed");
    struct dgl_buf output = {0};
    char wanted[64];
    char *dir = test_tmpdir();
    int code = run(&output, "env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n -j2 BUILD=%s V=1 %s",
                   dir, c->target);
    assert_int_equal(code, 0);
    snprintf(wanted, sizeof(wanted), "/%s core/api/device.c", c->file);
    assert_contains(output.p, wanted);
    assert_null(strstr(output.p, "jobserver unavailable"));
    dgl_buf_finish(&output);
    test_tmpdir_remove(dir);
}

struct runner_case {
    const char *name;
    const char *script; /* a program that writes TAP */
    const char *last;   /* last line of run.sh's output */
    int code;
    const char *told;      /* part of the output, or NULL */
    const char *variables; /* NULL: TEST_TIMEOUT=2 */
};

static const struct runner_case runner_cases[] = {
    {"runner: all pass", "echo 1..2; echo ok 1 - a; echo ok 2 - b", "2 passed, 0 failed", 0, NULL,
     NULL},
    {"runner: two groups", "echo 1..1; echo ok 1 - a; echo 1..1; echo ok 1 - b",
     "2 passed, 0 failed", 0, NULL, NULL},
    {"runner: a failure", "echo 1..2; echo ok 1 - a; echo not ok 2 - b; exit 1",
     "1 passed, 1 failed", 1, NULL, NULL},
    {"runner: a skip", "echo 1..2; echo ok 1 - a; echo '# skip: why'; echo 'not ok 2 # SKIP b'",
     "1 passed, 0 failed", 0, NULL, NULL},
    {"runner: a crash loses the rest", "echo 1..5; echo ok 1 - a; kill -ABRT $$",
     "1 passed, 4 failed", 1, NULL, NULL},
    {"runner: a crash in the last case", "echo 1..1; kill -SEGV $$", "0 passed, 1 failed", 1, NULL,
     NULL},
    {"runner: a crash after the last case", "echo 1..1; echo ok 1 - a; kill -ABRT $$",
     "1 passed, 1 failed", 1, NULL, NULL},
    {"runner: a leak at exit", "echo 1..1; echo ok 1 - a; exit 23", "1 passed, 1 failed", 1, NULL,
     NULL},
    {"runner: nothing at all", "exit 0", "0 passed, 1 failed", 1, NULL, NULL},
    {"runner: failure, yet exit code 0", "echo 1..1; echo not ok 1 - a", "0 passed, 1 failed", 1,
     NULL, NULL},
    {"runner: an endless program", "echo 1..2; echo ok 1 - a; sleep 60", "1 passed, 1 failed", 1,
     NULL, NULL},
    /* timeout(1) exits with 124 if it ended the program. */
    {"runner: time is over", "echo 1..9; echo ok 1 - a; echo ok 2 - b; exit 124",
     "2 passed, 0 failed", 0,
     "program: not run within 60 seconds: 7 cases after b, and the groups after theirs",
     "TEST_TIMEOUT=60 TEST_SECONDS=50"},
    {"runner: processor time is over",
     "[ $DOPPLERGL_TEST_LIST ] && { echo '# case: a'; echo '# case: b'; exit; }\n"
     "echo 1..2; echo ok 1 - a; while :; do :; done",
     "1 passed, 0 failed", 0,
     "program: not run within 1 seconds of processor time: 1 cases after a, and the groups after",
     "TEST_SECONDS=1"},
    {"runner: cases in all",
     "[ $DOPPLERGL_TEST_LIST ] && { echo '# case: a'; echo '# case: b'; exit; }\n"
     "echo 1..1; echo ok 1 - a",
     "1 passed, 0 failed", 0, "ran: 1 of 2 cases", "TEST_SECONDS=50"},
    {"runner: time is over after a failure",
     "echo 1..9; echo ok 1 - a; echo not ok 2 - b; exit 124", "1 passed, 8 failed", 1,
     "stopped after 60 seconds", "TEST_TIMEOUT=60 TEST_SECONDS=50"},
    {"runner: time is over before the first case", "echo 1..9; exit 124", "0 passed, 9 failed", 1,
     "9 cases were not reached", "TEST_TIMEOUT=60 TEST_SECONDS=50"},
    {"runner: a crash while time is limited", "echo 1..9; echo ok 1 - a; kill -ABRT $$",
     "1 passed, 8 failed", 1, "exit code 134", "TEST_TIMEOUT=60 TEST_SECONDS=50"},
};

static void check_runner(void **state)
{
    const struct runner_case *c = *state;
    char *dir = test_tmpdir();
    struct dgl_buf script = {0}, output = {0};
    dgl_buf_printf(&script, "#!/bin/sh\n%s\n", c->script);
    test_write_file(dir, "program", script.p, script.len);
    int code = run(&output,
                   "chmod +x %s/program && env -u SAN -u TEST_SECONDS %s sh tests/run.sh %s "
                   "%s/program",
                   dir, c->variables ? c->variables : "TEST_TIMEOUT=2", dir, dir);
    /* Compare the whole last line. */
    while (output.len && output.p[output.len - 1] == '\n')
        output.p[--output.len] = '\0';
    const char *last = strrchr(output.p, '\n');
    assert_string_equal(last ? last + 1 : output.p, c->last);
    assert_int_equal(code, c->code);
    assert_contains(output.p, "time: ");
    if (strstr(c->script, "# skip"))
        assert_contains(output.p, "program: why");
    if (c->told)
        assert_contains(output.p, c->told);
    dgl_buf_finish(&script);
    dgl_buf_finish(&output);
    test_tmpdir_remove(dir);
}

/* An unknown driver name must not count as a pass. */
static void drivers_have_names(void **state)
{
    (void)state;
    struct dgl_buf output = {0};
    int code = run(&output, "DRIVERS='softpipe softpip' sh tests/drivers.sh true");
    assert_int_equal(code, 2);
    assert_contains(output.p, "there is no driver 'softpip'; there are all here nvidia llvmpipe");
    dgl_buf_finish(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drivers_have_names),
        cmocka_unit_test(every_header_stands_alone),
        cmocka_unit_test(archive_exports_only_the_api),
        cmocka_unit_test(archive_defines_the_whole_api),
        cmocka_unit_test(library_has_no_global_state_but_the_process),
    };
    return cmocka_run_group_tests_name("build", tests, NULL, NULL) +
           test_run_table("public header", check_header, header_cases) +
           test_run_table("jobs of an inner make", inner_make_gets_the_jobs, make_cases) +
           test_run_table("test runner", check_runner, runner_cases);
}
