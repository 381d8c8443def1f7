/* Invalid override files, made by accident or with bad intent. Each is refused with one line that
 * names the place and the fault, and leaves no other trace. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "kernels/kernels.h"
#include "kernels/set/embedded.h"
#include "tests/support/kernel_sets.h"

#define MIB (1u << 20)

#define HEAD "// Summary\n//! NAME mine\n//! OP matmul\n//! VARIANT v\n//! LOCAL 1\n//! GROUPS 1\n"
#define BODY "void body(uvec3 group)\n{\n}\n"
/* Lines of directives begin at line 7. */
#define WITH(lines) HEAD lines "\n" BODY

static const char own[] = "// Own\n//! NAME own\n//! OP matmul\n//! VARIANT v\n//! LOCAL 1\n"
                          "//! GROUPS 1\n" BODY;

/* Takes the place of the library's own table. */
const struct kernel_embedded kernel_embedded[] = {
    {"op/matmul/own.comp", own, sizeof(own) - 1},
    {NULL, NULL, 0},
};

struct bad_case {
    const char *name;
    const char *text;
    size_t len;           /* 0: strlen(text) */
    const char *repeated; /* put so many times between `text` and `after` */
    size_t times;
    const char *after;
    bool lib;          /* x.glsl, else x.comp */
    mode_t mode;       /* 0: as files are */
    const char *error; /* NULL: accepted */
    enum dgl_status status;
};

#define BYTES(text) text, sizeof(text) - 1

static const struct bad_case cases[] = {
    {"unknown directive", WITH("//! SPEED 9"), .error = "x.comp:7:5: 'SPEED' is not a directive",
     .status = DGL_ERR_KERNEL},
    {"NAME twice", WITH("//! NAME other"), .error = "x.comp:7", .status = DGL_ERR_KERNEL},
    {"type that no BIND has", WITH("//! BIND read mat4 W"), .error = "x.comp:7",
     .status = DGL_ERR_KERNEL},
    {"BIND of a name that there is", HEAD, .repeated = "//! BIND read uint W\n", .times = 2,
     .after = BODY, .error = "x.comp:8", .status = DGL_ERR_KERNEL},
    {"33 PARAMs",
     HEAD "//! PARAM uint a0\n//! PARAM uint a1\n//! PARAM uint a2\n//! PARAM uint a3\n"
          "//! PARAM uint a4\n//! PARAM uint a5\n//! PARAM uint a6\n//! PARAM uint a7\n"
          "//! PARAM uint b0\n//! PARAM uint b1\n//! PARAM uint b2\n//! PARAM uint b3\n"
          "//! PARAM uint b4\n//! PARAM uint b5\n//! PARAM uint b6\n//! PARAM uint b7\n"
          "//! PARAM uint c0\n//! PARAM uint c1\n//! PARAM uint c2\n//! PARAM uint c3\n"
          "//! PARAM uint c4\n//! PARAM uint c5\n//! PARAM uint c6\n//! PARAM uint c7\n"
          "//! PARAM uint d0\n//! PARAM uint d1\n//! PARAM uint d2\n//! PARAM uint d3\n"
          "//! PARAM uint d4\n//! PARAM uint d5\n//! PARAM uint d6\n//! PARAM uint d7\n"
          "//! PARAM uint e0\n" BODY,
     .error = "x.comp:39", .status = DGL_ERR_KERNEL},
    {"TUNE choice beyond 32 bits", WITH("//! TUNE A = 1 in 1 2147483648"), .error = "x.comp:7",
     .status = DGL_ERR_KERNEL},
    {"TUNE choice beyond 64 bits", WITH("//! TUNE A = 1 in 1 99999999999999999999"),
     .error = "x.comp:7", .status = DGL_ERR_KERNEL},
    {"TUNE preset beyond 64 bits", WITH("//! TUNE A = 99999999999999999999 in 1"),
     .error = "x.comp:7", .status = DGL_ERR_KERNEL},
    {"TUNE preset that is no choice", WITH("//! TUNE A = 3 in 1 2"), .error = "x.comp:7",
     .status = DGL_ERR_KERNEL},
    {"#include", HEAD "#include \"other.glsl\"\n" BODY,
     .error = "x.comp:7:2: #include may not appear here: kernels share texts by //! LIB",
     .status = DGL_ERR_KERNEL},
    {"#include among directives", "// Bad\n//! NAME x\n#include \"other.glsl\"\n//! OP norm\n" BODY,
     .error = "x.comp:3: #include may not appear here", .status = DGL_ERR_KERNEL},
    {"#include over several lines", HEAD "  # \\\n inc\\\nlude <x>\n" BODY,
     .error = "#include may not appear here", .status = DGL_ERR_KERNEL},
    {"#include in a branch that is not taken", HEAD "#if 0\n#include \"x\"\n#endif\n" BODY,
     .error = "x.comp:8:2: #include", .status = DGL_ERR_KERNEL},
    {"#include in a lib", "// Lib\n#include \"x\"\n", .lib = true, .error = "x.glsl:2:2: #include",
     .status = DGL_ERR_KERNEL},
    {"#include in a comment", HEAD "/*\n#include \"x\"\n*/\n" BODY, .error = NULL},
    {"expression that is nested too deep", HEAD "//! REQUIRE ", .repeated = "(", .times = 100000,
     .after = "1\n" BODY, .error = "the expression is nested too deeply", .status = DGL_ERR_KERNEL},
    {"expression of many signs", HEAD "//! REQUIRE 1", .repeated = " + 1", .times = 100000,
     .after = "\n" BODY, .error = "x.comp:7", .status = DGL_ERR_KERNEL},
    {"expression of many choices", HEAD "//! REQUIRE ", .repeated = "1 ? 1 : ", .times = 100000,
     .after = "1\n" BODY, .error = "x.comp:7", .status = DGL_ERR_KERNEL},
    {"a loop without end", HEAD "void body(uvec3 group)\n{\n    for (;;)\n        ;\n}\n",
     .error = NULL},
    {"bytes of a program",
     BYTES("\x7f"
           "ELF\x02\x01\x01\x03 junk"),
     .error = "x.comp:1: the file holds a control character, 0x7f", .status = DGL_ERR_KERNEL},
    {"bytes without control characters", BYTES("\xff\xfe\x90\xc3\xe8\xa0"),
     .error = "x.comp:1: the file begins as UTF-16 does", .status = DGL_ERR_KERNEL},
    {"compressed bytes as a lib", BYTES("\x1f\x8b\x08\x08"), .lib = true,
     .error = "x.glsl:1: the file holds a control character, 0x1f", .status = DGL_ERR_KERNEL},
    {"a zero byte", BYTES(HEAD "//! PREFER 1\0\n" BODY),
     .error = "x.comp:7: the file holds a zero byte", .status = DGL_ERR_KERNEL},
    {"a zero byte at the end", BYTES(HEAD BODY "\0"),
     .error = "x.comp:10: the file holds a zero byte", .status = DGL_ERR_KERNEL},
    {"bytes that are no UTF-8", BYTES(HEAD "// \xc3\xa4 \xc3(\n" BODY),
     .error = "x.comp:7: the file is not UTF-8: byte 0xc3", .status = DGL_ERR_KERNEL},
    {"a form feed", HEAD "//! PREFER 1\n" BODY "\f\n",
     .error = "x.comp:11: the file holds a control character, 0x0c", .status = DGL_ERR_KERNEL},
    {"a vertical tab in a lib", "// Lib\n#define A\v1\n", .lib = true,
     .error = "x.glsl:2: the file holds a control character, 0x0b", .status = DGL_ERR_KERNEL},
    {"UTF-16", BYTES("\xff\xfe/\0/\0 \0S\0\n\0"),
     .error = "x.comp:1: the file begins as UTF-16 does", .status = DGL_ERR_KERNEL},
    {"a summary that plays with the terminal", "// \x1b]0;title\a Summary\n",
     .error = "x.comp:1: the file holds a control character, 0x1b", .status = DGL_ERR_KERNEL},
    {"CRLF",
     "// Summary\r\n//! NAME mine\r\n//! OP matmul\r\n//! VARIANT v w\r\n//! LOCAL 1\r\n"
     "//! GROUPS 1\r\n//! TUNE A = 1 in 1 2\r\n#define B A + \\\r\n A\r\n"
     "void body(uvec3 group)\r\n{\r\n}\r\n",
     .error = NULL},
    {"CR alone", "// Summary\r//! NAME mine\r//! OP matmul\r",
     .error = "x.comp:1: the line ends with CR alone (0x0d)", .status = DGL_ERR_KERNEL},
    {"CR alone in the body", HEAD "void body(uvec3 group)\r{\n}\n",
     .error = "x.comp:7: the line ends with CR alone (0x0d)", .status = DGL_ERR_KERNEL},
    {"CR alone at the end of a lib", "// Lib\n#define A 1\r", .lib = true,
     .error = "x.glsl:2: the line ends with CR alone (0x0d)", .status = DGL_ERR_KERNEL},
    {"words beyond ASCII in comments",
     "// Summe \xc3\xbc"
     "ber K\n"
     "//! NAME mine\n//! OP matmul\n"
     "//! VARIANT v\n//! LOCAL 1\n//! GROUPS 1\n" BODY,
     .error = NULL},
    {"a file of 1 MiB", HEAD BODY, .repeated = "\n", .times = MIB - sizeof(HEAD BODY) + 1,
     .after = ""},
    {"a file of 1 MiB and a byte", HEAD BODY, .repeated = "\n",
     .times = MIB - sizeof(HEAD BODY) + 2, .after = "", .error = "x.comp",
     .status = DGL_ERR_FORMAT},
    {"a file that may not be read", HEAD BODY, .mode = 0200, .error = "x.comp",
     .status = DGL_ERR_IO},
};

static void file_is_accepted_or_refused(void **state)
{
    const struct bad_case *c = *state;
    const char *name = c->lib ? "x.glsl" : "x.comp";
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, name);
    const char *dirs[] = {dir};
    struct dgl_buf text = {0};
    struct kernel_set *set = NULL;
    struct test_log log;
    const uid_t user = geteuid();
    dgl_buf_append(&text, c->text, c->len ? c->len : strlen(c->text));
    for (size_t i = 0; i < c->times; i++)
        dgl_buf_puts(&text, c->repeated);
    dgl_buf_puts(&text, c->after ? c->after : "");
    test_write_file(dir, name, text.p, text.len);
    /* The superuser may read everything, so it becomes somebody. */
    assert_int_equal(chmod(dir, 0755), 0);
    if (c->mode)
        assert_int_equal(chmod(path, c->mode), 0);
    if (c->mode && user == 0)
        assert_int_equal(seteuid(65534), 0);
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status =
        kernel_set_create(&log.log, dgl_kernels_params(.dirs = dirs, .num_dirs = 1), &set);
    if (c->mode && user == 0)
        assert_int_equal(seteuid(user), 0);
    if (c->error) {
        assert_int_equal(status, c->status);
        assert_null(set);
        assert_int_equal(log.errors, 1);
        assert_contains(log.text, c->error);
        assert_true(strlen(log.text) < 10000);
    } else if (status != DGL_OK) {
        fail_msg("%s", log.text);
    } else {
        assert_int_equal(kernel_set_count(set), 2);
        kernel_set_destroy(&set);
    }
    dgl_buf_finish(&text);
    free(path);
    test_tmpdir_remove(dir);
}

/* With --kernel-file the lib would have to be a kernel. */
static void a_lib_is_no_file_of_its_own(void **state)
{
    static const char lib[] = "// Lib\nfloat one() { return 1.0; }\n";
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "x.glsl");
    const char *files[] = {path};
    struct kernel_set *set = NULL;
    struct test_log log;
    (void)state;
    test_write_file(dir, "x.glsl", lib, sizeof(lib) - 1);
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(
        kernel_set_create(&log.log, dgl_kernels_params(.files = files, .num_files = 1), &set),
        DGL_ERR_KERNEL);
    assert_contains(log.text,
                    "x.glsl:2: the directive //! NAME is missing; a lib is given with its "
                    "folder");
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_lib_is_no_file_of_its_own)};
    return test_run_table("kernel_bad_files", file_is_accepted_or_refused, cases) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
