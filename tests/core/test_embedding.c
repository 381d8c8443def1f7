/* The C examples of README.md and docs/embedding.md: compiled like a user's program, with only the
 * header and the static library, and run on the bundled model. Also the symbols that the library
 * exports. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define MODEL "tests/models/story-llama-q4_k_m"

/* libraries that dopplergl.pc names for static linking */
#define LINK_FLAGS                                                                                 \
    "$(pkg-config --libs egl glesv2 libcjson libcrypto libpcre2-8 libutf8proc) -lm "               \
    "-pthread"
/* a library built with sanitizers requires their runtime */
#define SANITIZERS                                                                                 \
    "$(nm \"$1/libdopplergl.a\" | grep -q __asan_init && echo -fsanitize=address,undefined)"

static const char *build_folder(void)
{
    const char *build = getenv("DOPPLERGL_TEST_BUILD");
    return build && *build ? build : "build";
}

/* Runs a shell command. Its $0 is `dir` and its $1 is the build folder. */
static void shell(struct process_result *r, const char *script, const char *dir)
{
    const char *const args[] = {"-c", script, dir, build_folder(), NULL};
    process_run(&(struct process_params){.args = args, .program = "/bin/sh"}, r);
}

/* ---- examples -------------------------------------------------------------------------------- */

struct example {
    const char *name;
    const char *folder, *file;
    int block; /* of C in the file, from 0 */
};

static const struct example examples[] = {
    {"example of README.md", ".", "README.md", 0},
    {"example of docs/embedding.md", "docs", "embedding.md", 0},
    {"conversation of docs/embedding.md", "docs", "embedding.md", 1},
    {"source of docs/embedding.md", "docs", "embedding.md", 2},
};

/* The text between a "```c" and "```"; to be freed. */
static char *code_block(const char *folder, const char *file, int block)
{
    static const char open[] = "\n```c\n";
    size_t len;
    char *document = tiny_file_read(folder, file, &len);
    const char *p = strstr(document, open);
    for (; p && block > 0; block--)
        p = strstr(p + 1, open);
    if (!p)
        fail_msg("%s has too few C examples", file);
    p += sizeof(open) - 1;
    const char *end = strstr(p, "\n```");
    assert_non_null(end);
    char *code = strndup(p, (size_t)(end - p) + 1);
    free(document);
    return code;
}

static void example_case(void **state)
{
    const struct example *row = *state;
    char *dir = test_tmpdir(), *code = code_block(row->folder, row->file, row->block);
    struct process_result r;
    test_write_file(dir, "example.c", code, strlen(code));
    shell(&r,
          "cp core/dopplergl.h \"$0\" && ${CC:-cc} -std=c11 -Wall -Wextra -Werror " SANITIZERS
          " -I\"$0\" \"$0/example.c\" -o \"$0/example\" \"$1/libdopplergl.a\" " LINK_FLAGS,
          dir);
    assert_code(&r, 0);
    process_finish(&r);
    shell(&r, "\"$0/example\" " MODEL, dir);
    assert_code(&r, 0);
    assert_true(r.out_len > 20);
    process_finish(&r);
    free(code);
    test_tmpdir_remove(dir);
}

/* ---- header and library ---------------------------------------------------------------------- */

struct header_row {
    const char *name;
    const char *compiler;
};

static const struct header_row headers[] = {
    {"header as C11", "cc -std=c11 -x c"},
    {"header as C17", "cc -std=c17 -x c"},
    {"header as C++11", "c++ -std=c++11 -x c++"},
    {"header as C++17", "c++ -std=c++17 -x c++"},
};

static void header_case(void **state)
{
    const struct header_row *row = *state;
    char *dir = test_tmpdir();
    char script[512];
    struct process_result r;
    static const char code[] = "#include <dopplergl.h>\n"
                               "int main(void) { return dgl_version() ? 0 : 1; }\n";
    test_write_file(dir, "main.c", code, sizeof(code) - 1);
    snprintf(script, sizeof(script),
             "cp core/dopplergl.h \"$0\" && %s -Wall -Wextra -Wpedantic -Werror -fsyntax-only "
             "-I\"$0\" \"$0/main.c\"",
             row->compiler);
    shell(&r, script, dir);
    assert_code(&r, 0);
    assert_int_equal(r.err_len, 0);
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* Two static libraries in one program may not fight over names. */
static void library_exports_the_header_alone(void **state)
{
    struct process_result r;
    size_t len, exported = 0;
    (void)state;
    char *header = tiny_file_read("core", "dopplergl.h", &len);
    shell(&r,
          "nm -g --defined-only \"$1/libdopplergl.a\" | sed -n 's/^[0-9a-f]* [A-Z] //p' | "
          "grep -v '^__'",
          ".");
    assert_code(&r, 0);
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n")) {
        char call[128];
        snprintf(call, sizeof(call), "%s(", line);
        if (strncmp(line, "dgl_", 4) != 0 || !strstr(header, call))
            fail_msg("%s is exported and not in dopplergl.h", line);
        exported++;
    }
    assert_true(exported > 30);
    free(header);
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(library_exports_the_header_alone)};
    int failures = test_run_table("embedding examples", example_case, examples);
    failures += test_run_table("embedding header", header_case, headers);
    return failures + cmocka_run_group_tests_name("embedding", tests, NULL, NULL);
}
