/* Tests of build scripts: lint finds each kind of violation, and deps installs only missing
 * packages. Each case runs the script in its own small tree. */
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/str.h"

static int run(struct dgl_buf *output, const char *command)
{
    char part[4096];
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    dgl_buf_finish(output);
    dgl_buf_puts(output, "");
    for (size_t got; (got = fread(part, 1, sizeof(part), pipe)) > 0;)
        dgl_buf_append(output, part, got);
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char *path = dgl_path_join(dir, name);
    assert_non_null(path);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(dgl_dir_make(NULL, path), DGL_OK);
    test_write_file(path, slash + 1, text, strlen(text));
    free(path);
}

struct lint_case {
    const char *name, *file, *text;
    const char *message; /* expected violation; NULL if clean */
};

#define HEAD "/* Duty. */\n"
#define X19  "xxxxxxxxxxxxxxxxxxx"

static const struct lint_case lint_cases[] = {
    {"lint: clean", "gl/a.c",
     HEAD "#include \"core/base/str.h\"\n\nint f(void)\n{\n    return 0;\n}\n", NULL},
    {"lint: no comment", "gl/a.c", "int a;\n", "gl/a.c:1: does not begin with a comment"},
    {"lint: kernel without a comment", "kernels/a.comp", "void f() {}\n",
     "kernels/a.comp:1: does not begin with a comment"},
    {"lint: long line", "gl/a.c", HEAD "/* " X19 X19 X19 X19 X19 " */\n",
     "gl/a.c:2: 101 columns, at most 100"},
    {"lint: umlauts count once", "gl/a.c",
     HEAD "/* " X19 X19 X19 X19 "xxxxxxxxxxxxxxx\xC3\xA4\xC3\xA4\xC3\xA4 */\n", NULL},
    {"lint: format", "gl/a.c", HEAD "int f(void) { return 0; }\n", "gl/a.c:2: not as clang-format"},
    {"lint: unfinished", "gl/a.c",
     HEAD "/* TO"
          "DO: later */\n",
     "gl/a.c:2: unfinished business"},
    {"lint: gl includes loader", "gl/a.c", HEAD "#include \"loader/quant/dtype.h\"\n",
     "gl/a.c:2: gl may not include loader/quant/dtype.h"},
    {"lint: base includes core", "core/base/a.c", HEAD "#include \"core/model/model.h\"\n",
     "core/base/a.c:2: core/base may not include core/model/model.h"},
    {"lint: a room of loader includes another that it may not", "loader/text/a.c",
     HEAD "#include \"loader/quant/dtype.h\"\n",
     "loader/text/a.c:2: loader/text may not include loader/quant/dtype.h"},
    {"lint: a file in no room", "loader/a.c", HEAD "#include \"core/base/str.h\"\n",
     "loader/a.c:2: loader is no room that may include"},
    {"lint: tools include core", "tools/cli/a.c", HEAD "#include \"core/model/model.h\"\n",
     "tools/cli/a.c:2: tools/cli may not include core/model/model.h"},
    {"lint: core includes every room", "core/seq/a.c",
     HEAD
     "#include \"gl/gl.h\"\n#include \"kernels/kernels.h\"\n#include \"loader/quant/dtype.h\"\n",
     NULL},
    {"lint: EGL outside of gl", "core/seq/a.c", HEAD "#include <EGL/egl.h>\n",
     "core/seq/a.c:2: only gl/ may include <EGL/egl.h>"},
    {"lint: a flush that is not counted", "gl/a.c", HEAD "void f(void)\n{\n    glFlush();\n}\n",
     "gl/a.c:4: only gl/gl_sync.c may call glFlush()"},
    {"lint: a flush that is counted", "gl/gl_sync.c", HEAD "void f(void)\n{\n    glFlush();\n}\n",
     NULL},
    {"lint: cJSON outside of json.c", "loader/hf/a.c", HEAD "#include <cjson/cJSON.h>\n",
     "only core/base/json.c may include <cjson/cJSON.h>"},
    {"lint: exit in the library", "core/seq/a.c", HEAD "int f(void)\n{\n    exit(1);\n}\n",
     "core/seq/a.c:4: the library may not exit"},
    {"lint: exit in a comment", "core/seq/a.c", HEAD "/* exit(1) */\n", NULL},
    {"lint: exit in a string", "core/seq/a.c", HEAD "const char *a = \"exit(1)\";\n", NULL},
    {"lint: exit in a tool", "tools/cli/a.c", HEAD "int f(void)\n{\n    exit(1);\n}\n", NULL},
    {"lint: other names that end in printf", "core/seq/a.c",
     HEAD "int f(void)\n{\n    dgl_buf_printf(0, \"\");\n}\n", NULL},
    {"lint: stderr in the library", "core/seq/a.c",
     HEAD "int f(void)\n{\n    fputs(\"\", stderr);\n}\n",
     "core/seq/a.c:4: the library may not exit"},
    {"lint: gl by another way into plan", "core/plan/a.c", HEAD "#include <gl/gl.h>\n",
     "core/plan/a.c:2: our own header gl/gl.h is included as"},
    {"lint: a status by another name", "gl/a.c",
     HEAD "int f(void)\n{\n    enum dgl_status st = 0;\n    return st;\n}\n",
     "gl/a.c:4: a status is called `status`"},
    {"lint: system headers after ours", "gl/b.c",
     HEAD "#include \"gl/b.h\"\n\n#include \"core/base/str.h\"\n\n#include <stdio.h>\n",
     "gl/b.c:6: <system> headers come before ours"},
    {"lint: strcpy anywhere", "tools/cli/a.c", HEAD "int f(void)\n{\n    strcpy(a, b);\n}\n",
     "tools/cli/a.c:4: strcpy() is forbidden"},
    {"lint: the map names a file", "docs/where-to-look.md", "| what | gl/a.c |\n",
     "docs/where-to-look.md:1: there is no file gl/a.c"},
    {"lint: the map names itself", "docs/architecture.md", "See docs/architecture.md.\n", NULL},
    {"lint: the map names a function", "docs/architecture.md", "as `f_g()` does\n",
     "docs/architecture.md:1: there is no function f_g()"},
    {"lint: undocumented declaration", "core/dopplergl.h", HEAD "\nint dgl_f(void);\n",
     "core/dopplergl.h:3: declared without a comment above"},
    {"lint: documented declarations", "core/dopplergl.h",
     HEAD "\n/* Both. */\nint dgl_f(void);\nint dgl_g(void);\n", NULL},
};

/* Lints a tree with one file. The caller frees the output. */
static int lint_one(const char *file, const char *text, struct dgl_buf *output)
{
    char *dir = test_tmpdir();
    struct dgl_buf command = {0};
    put_file(dir, "core/dopplergl.h", HEAD);
    put_file(dir, file, text);
    dgl_buf_printf(&command,
                   "mkdir -p %s/kernels && cp .clang-format %s && root=$PWD && cd %s && "
                   "sh $root/tools/lint.sh 2>/dev/null",
                   dir, dir, dir);
    int code = run(output, command.p);
    dgl_buf_finish(&command);
    test_tmpdir_remove(dir);
    return code;
}

static void check_lint(void **state)
{
    const struct lint_case *c = *state;
    struct dgl_buf output = {0};
    int code = lint_one(c->file, c->text, &output);
    assert_contains(output.p, c->message ? c->message : "lint: 0 violations");
    assert_int_equal(code, c->message ? 1 : 0);
    dgl_buf_finish(&output);
}

struct tree_case {
    const char *name;
    const char *file[2], *text[2];
    const char *prepare; /* shell command that runs in the tree before lint */
    const char *message;
    int code;
};

#define COMPILE                                                                                    \
    "for f in $(find core -name '*.c'); do mkdir -p build/obj/${f%/*} && touch -d @9 $f && "       \
    "cc -c -o build/obj/${f%.c}.o $f || exit 9; done; "
#define COMMIT "git init -q && git add core && git -c user.name=a -c user.email=a commit -qm a; "

static const struct tree_case tree_cases[] = {
    {"lint: a symbol of a room above",
     {"core/plan/a.c", "core/seq/b.c"},
     {HEAD "int b(void);\nint a(void)\n{\n    return b();\n}\n",
      HEAD "int b(void)\n{\n    return 0;\n}\n"},
     COMPILE,
     "core/plan/a.c:1: core/plan may not use b of core/seq/b.c",
     1},
    {"lint: a symbol of a room below",
     {"core/seq/a.c", "core/plan/b.c"},
     {HEAD "int b(void);\nint a(void)\n{\n    return b();\n}\n",
      HEAD "int b(void)\n{\n    return 0;\n}\n"},
     COMPILE,
     "lint: 0 violations",
     0},
    {"lint: symbols without objects",
     {"core/plan/a.c", "core/seq/b.c"},
     {HEAD "int b(void);\nint a(void)\n{\n    return b();\n}\n",
      HEAD "int b(void)\n{\n    return 0;\n}\n"},
     ":;",
     "symbols of 2 files were not checked",
     0},
    {"lint: a tag twice",
     {"core/plan/a.h", "core/seq/b.h"},
     {HEAD "struct a {\n    int b;\n};\n", HEAD "struct a {\n    int c;\n};\n"},
     ":;",
     "core/seq/b.h:2: struct a is defined in core/plan/a.h, too",
     1},
    {"lint: words of changed comments",
     {"core/plan/a.c", "core/seq/b.c"},
     {HEAD "/* Nobody calls it. */\n", HEAD},
     COMMIT "echo '/* What is read behind it. */' >> core/seq/b.c;",
     "core/seq/b.c:2: word to avoid: behind\n"
     "core/seq/b.c:2: begins without its subject: What \n",
     0},
};

static void check_tree(void **state)
{
    const struct tree_case *c = *state;
    char *dir = test_tmpdir();
    struct dgl_buf command = {0}, output = {0};
    put_file(dir, "core/dopplergl.h", HEAD);
    for (size_t i = 0; i < 2; i++)
        put_file(dir, c->file[i], c->text[i]);
    dgl_buf_printf(&command,
                   "mkdir -p %s/kernels && cp .clang-format %s && root=$PWD && cd %s && %s "
                   "sh $root/tools/lint.sh 2>/dev/null",
                   dir, dir, dir, c->prepare);
    int code = run(&output, command.p);
    assert_contains(output.p, c->message);
    assert_int_equal(code, c->code);
    dgl_buf_finish(&command);
    dgl_buf_finish(&output);
    test_tmpdir_remove(dir);
}

static void lint_refuses_long_functions_only(void **state)
{
    (void)state;
    struct dgl_buf text = {0}, output = {0};
    dgl_buf_puts(&text, HEAD "int f(int a)\n{\n");
    for (int i = 0; i < 121; i++)
        dgl_buf_puts(&text, "    a++;\n");
    dgl_buf_puts(&text, "}\n");
    for (int i = 0; i < 900; i++)
        dgl_buf_puts(&text, "/**/\n");
    assert_int_equal(lint_one("gl/a.c", text.p, &output), 1);
    assert_contains(output.p, "gl/a.c:3: a function of 121 lines, at most 120");
    assert_contains(output.p, "lint: 1 violations");
    dgl_buf_finish(&text);
    dgl_buf_finish(&output);
}

static void lint_mentions_long_kernels(void **state)
{
    (void)state;
    struct dgl_buf text = {0}, output = {0};
    dgl_buf_puts(&text, "/* Duty. */\n");
    for (int i = 0; i < 300; i++)
        dgl_buf_puts(&text, "/**/\n");
    assert_int_equal(lint_one("kernels/a.comp", text.p, &output), 0);
    assert_contains(output.p, "kernels/a.comp: 301 lines, long for a kernel");
    dgl_buf_finish(&text);
    dgl_buf_finish(&output);
}

/* Expects the figures of a file of 50 lines: 47 of code, 7 functions of 1, 1, 1, 1, 2, 5 and 13
 * lines. Three of the six static functions have one caller; two of these are short. */
static void lint_reports_the_shape(void **state)
{
    (void)state;
    struct dgl_buf text = {0}, output = {0};
    dgl_buf_puts(&text, HEAD "static int twice(int a)\n{\n    return 2 * a;\n}\n\n"
                             "static int once(int a);\n"
                             "static int once(int a)\n{\n    return a;\n}\n\n"
                             "static int in_table(int a)\n{\n    return a;\n}\n"
                             "static int (*const table)(int) = in_table;\n"
                             "static int itself(int a)\n{\n    return a ? itself(a - 1) : 0;\n}\n"
                             "static int unused(int a)\n{\n    a++; /* twice() once() */\n"
                             "    return a;\n}\n"
                             "static int long_one(int a)\n{\n");
    for (int i = 0; i < 12; i++)
        dgl_buf_puts(&text, "    a++;\n");
    dgl_buf_puts(&text, "    return a;\n}\n"
                        "int f(int a)\n{\n    a = twice(a) + twice(a);\n    a = once(a);\n"
                        "    a = itself(a);\n    a = long_one(a);\n    return a;\n}\n");
    assert_int_equal(lint_one("gl/a.c", text.p, &output), 0);
    assert_contains(output.p,
                    "gl                    1    50    50      47         7     1  13  13      14.9"
                    "        50%   33%");
    dgl_buf_finish(&text);
    dgl_buf_finish(&output);
}

struct deps_case {
    const char *name;
    const char *absent;  /* the package that dpkg-query reports as missing */
    const char *user;    /* output of `id -u` */
    const char *without; /* a program that is missing too */
    const char *want;    /* part of the output; "" requires empty output */
    int code;
};

static const struct deps_case deps_cases[] = {
    {"deps: all there", "none", "0", "none", "", 0},
    {"deps: one missing, root", "xz-utils", "0", "sudo",
     "apt-get -q install -y --no-install-recommends xz-utils\n", 0},
    {"deps: one missing, user", "xz-utils", "1000", "none", "with sudo\n", 0},
    {"deps: one missing, user without sudo", "xz-utils", "1000", "sudo",
     "as root: apt-get install xz-utils", 1},
    {"deps: one missing, no apt", "libcjson-dev", "0", "apt-get",
     "missing libcjson-dev, and there is no apt-get", 1},
};

/* The fake programs log their arguments. */
static void check_deps(void **state)
{
    const struct deps_case *c = *state;
    char *dir = test_tmpdir();
    struct dgl_buf fakes = {0}, output = {0};
    dgl_buf_printf(
        &fakes,
        "exec 2>&1; cd %s && mkdir bin && fake() { printf '#!/bin/sh\\n%%s\\n' \"$2\" > bin/$1;"
        " chmod +x bin/$1; }\n"
        "for p in sh env cat make; do ln -s $(command -v $p) bin/$p; done\n"
        "for p in cc c++; do fake $p :; done\n"
        "fake id 'echo %s'\n"
        "fake dpkg-query 'case $* in *\" %s\") exit 1 ;; esac; echo installed'\n"
        "fake apt-get 'echo apt-get \"$@\"'\n"
        "fake sudo 'echo with sudo; exec \"$@\"'\n"
        "rm -f bin/%s; cd - > /dev/null; PATH=%s/bin sh tools/deps.sh",
        dir, c->user, c->absent, c->without, dir);
    int code = run(&output, fakes.p);
    if (*c->want)
        assert_contains(output.p, c->want);
    else
        assert_string_equal(output.p, "");
    assert_int_equal(code, c->code);
    dgl_buf_finish(&fakes);
    dgl_buf_finish(&output);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lint_refuses_long_functions_only),
        cmocka_unit_test(lint_mentions_long_kernels),
        cmocka_unit_test(lint_reports_the_shape),
    };
    return cmocka_run_group_tests_name("scripts", tests, NULL, NULL) +
           test_run_table("lint", check_lint, lint_cases) +
           test_run_table("lint of trees", check_tree, tree_cases) +
           test_run_table("deps", check_deps, deps_cases);
}
