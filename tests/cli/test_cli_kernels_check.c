/* `kernels check` and `kernels bench`: verdicts, figures, exit codes, and refusals. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

/* A norm with one invocation for each row. */
#define NORM(name, line, mean)                                                                     \
    "// A norm.\n"                                                                                 \
    "//! NAME " name "\n"                                                                          \
    "//! OP norm\n"                                                                                \
    "//! VARIANT mine\n"                                                                           \
    "//! WHEN post store add\n"                                                                    \
    "//! BIND read float X\n"                                                                      \
    "//! BIND read float G\n"                                                                      \
    "//! BIND readwrite float Y\n"                                                                 \
    "//! PARAM float eps\n"                                                                        \
    "//! CONST H X_STRIDE Y_STRIDE\n"                                                              \
    "//! LOCAL 32\n"                                                                               \
    "//! GROUPS ceildiv(T, LOCAL_X)\n" line "//! STEP read\n"                                      \
    "void body(uvec3 group)\n"                                                                     \
    "{\n"                                                                                          \
    "    uint t = group.x * uint(LOCAL_X) + gl_LocalInvocationID.x;\n"                             \
    "    if (t >= pass_rows)\n"                                                                    \
    "        return;\n"                                                                            \
    "    float sum = 0.0;\n"                                                                       \
    "    for (int i = 0; i < H; i++)\n"                                                            \
    "        sum += X[int(t) * X_STRIDE + i] * X[int(t) * X_STRIDE + i];\n"                        \
    "    float r = inversesqrt(" mean " + eps);\n"                                                 \
    "    for (int i = 0; i < H; i++) {\n"                                                          \
    "        float y = X[int(t) * X_STRIDE + i] * r * G[i];\n"                                     \
    "#if POST_add\n"                                                                               \
    "        y += Y[int(t) * Y_STRIDE + i];\n"                                                     \
    "#endif\n"                                                                                     \
    "        Y[int(t) * Y_STRIDE + i] = y;\n"                                                      \
    "    }\n"                                                                                      \
    "}\n"
#define LOCAL(size)                                                                                \
    "// A norm.\n//! NAME norm_mine\n//! OP norm\n//! VARIANT mine\n//! WHEN post store add\n"     \
    "//! BIND read float X\n//! BIND read float G\n//! BIND readwrite float Y\n"                   \
    "//! PARAM float eps\n//! CONST H X_STRIDE Y_STRIDE\n//! LOCAL " size                          \
    "\n//! GROUPS 1\nvoid body(uvec3 group) {}\n"
#define TUNED(tune) NORM("norm_mine", "//! TUNE " tune "\n", "sum / float(H)")
#define RIGHT(name) NORM(name, "", "sum / float(H)")

struct check_row {
    const char *name, *text;
    int code;
    const char *out, *error; /* parts; NULL: no error line */
};

static const struct check_row check_rows[] = {
    {"right", RIGHT("norm_mine"), 0, "passed   norm_mine: ", NULL},
    {"replaces_a_built_in_one", RIGHT("norm_rms"), 0, "1 passed, 0 failed, 0 skipped", NULL},
    {"wrong_mean", NORM("norm_mine", "", "sum / float(H - 1)"), 1,
     "failed   norm_mine: norm post=", "1 of 1 kernels failed"},
    {"cannot_run", NORM("norm_mine", "//! REQUIRE MAX_INVOCATIONS > 100000\n", "sum / float(H)"), 1,
     "skipped  norm_mine: REQUIRE MAX_INVOCATIONS > 100000", "no kernel ran"},
    {"preset_for_no_size", TUNED("SHARE = H / 8 in 8 16 32 64 128 256"), 1,
     "TUNE SHARE: the preset is 512 with H=4096, which is not one of its choices",
     "1 of 1 kernels failed"},
    {"preset_not_for_large_sizes", TUNED("SHARE = H > 9999 ? H % 7 : 1 in 1 2"), 1,
     ": TUNE SHARE: the preset is 4 with H=16384, which", "1 of 1 kernels failed"},
    {"preset_in_numbers", TUNED("SHARE = H > 999999 ? 7 : 1 in 1 2"), 1,
     "TUNE SHARE: the preset 7 is not one of its choices", "1 of 1 kernels failed"},
    {"preset_for_sizes_that_it_serves",
     TUNED("SHARE = H > 300 ? H % 7 : 1 in 1 2\n//! REQUIRE H <= 300"), 0,
     "1 passed, 0 failed, 0 skipped", NULL},
    {"no_groups",
     "// A nothing.\n//! NAME none\n//! OP norm\n//! VARIANT x\n//! CONST H\n"
     "//! LOCAL 1\n//! GROUPS H / 99999 * T\nvoid body(uvec3 group) {}\n",
     1, "GROUPS x comes to 0 with H=260, T=7: wanted 1 to ", "1 of 1 kernels failed"},
    {"active_is_no_number", NORM("norm_mine", "//! ACTIVE T / 0\n", "sum / float(H)"), 1,
     "ACTIVE cannot be evaluated: ", "1 of 1 kernels failed"},
    {"active_below_none", NORM("norm_mine", "//! ACTIVE 0 - T\n", "sum / float(H)"), 1,
     "ACTIVE comes to -7 with T=7: wanted 0 or more", "1 of 1 kernels failed"},
    {"more_active_than_there_are", NORM("norm_mine", "//! ACTIVE T * 100000\n", "sum / float(H)"),
     0, "1 passed, 0 failed, 0 skipped", NULL},
    /* arithmetic that no device could do: a fault of the text, with its line */
    {"local_of_none", LOCAL("H - H"), 1,
     "mine.comp:11: LOCAL_X is 0 with H=260, wanted 1 or more (kernel norm_mine)",
     "1 of 1 kernels failed"},
    {"local_below_none", LOCAL("WG - 64\n//! TUNE WG = SOFTWARE ? 32 : 64 in 32 64"), 1,
     "mine.comp:11: LOCAL_X is -32 with WG=32, wanted 1 or more (kernel norm_mine)",
     "1 of 1 kernels failed"},
    {"local_of_a_limit", LOCAL("MAX_LOCAL_X / 99999"), 1, "skipped  norm_mine: LOCAL_X is 0 with ",
     "no kernel ran"},
    {"shared_below_none", NORM("norm_mine", "//! SHARED float a[0 - LOCAL_X]\n", "sum / float(H)"),
     1, "mine.comp:13: SHARED a has -32 elements with LOCAL_X=32 (kernel norm_mine)",
     "1 of 1 kernels failed"},
    {"prefer_divides_by_zero", NORM("norm_mine", "//! PREFER 10 / 0\n", "sum / float(H)"), 1,
     "mine.comp:13: PREFER cannot be evaluated: division by zero (kernel norm_mine)",
     "1 of 1 kernels failed"},
    {"prefer_overflows",
     NORM("norm_mine", "//! PREFER 9223372036854775807 + H\n", "sum / float(H)"), 1,
     "mine.comp:13: PREFER cannot be evaluated: overflow with H=260 (kernel norm_mine)",
     "1 of 1 kernels failed"},
    {"let_divides_by_zero", NORM("norm_mine", "//! LET HALF = 8 / (H - H)\n", "sum / float(H)"), 1,
     "mine.comp:13: HALF cannot be evaluated: division by zero with H=260",
     "1 of 1 kernels failed"},
    {"shared_of_a_limit",
     NORM("norm_mine", "//! SHARED float a[SHARED_BYTES - 999999]\n", "sum / float(H)"), 1,
     "skipped  norm_mine: SHARED a has ", "no kernel ran"},
    {"shared_too_large", NORM("norm_mine", "//! SHARED float a[999999]\n", "sum / float(H)"), 1,
     "skipped  norm_mine: SHARED is 3999996, SHARED_BYTES is ", "no kernel ran"},
    {"shared_of_sizes_that_it_leaves_out",
     NORM("norm_mine", "//! SHARED float a[300 - H]\n//! REQUIRE H <= 300\n", "sum / float(H)"), 0,
     "1 passed, 0 failed, 0 skipped", NULL},
    {"brace_is_missing",
     "// A nothing.\n//! NAME none\n//! OP norm\n//! VARIANT x\n//! LOCAL 1\n//! GROUPS 1\n"
     "void body(uvec3 group)\n{\n    if (group.x > 0u) {\n        return;\n    }\n\n\n",
     1, "mine.comp:11: ", "1 of 1 kernels failed"},
    {"does_not_compile", NORM("norm_mine", "", "summ / float(H)"), 1, "mine.comp:22", "failed"},
    {"unknown_parameter", NORM("norm_mine", "//! PARAM float foo\n", "sum / float(H) + foo"), 1,
     "mine.comp:13", "1 of 1 kernels failed"},
    {"does_not_parse", NORM("norm_mine", "//! WARP 3\n", "sum"), 1,
     "mine.comp:13:5: 'WARP' is not a directive", "1 of 1 kernels failed"},
    {"unknown_operation",
     "// A nothing.\n//! NAME nothing\n//! OP nothing\n//! VARIANT x\n"
     "//! LOCAL 1\n//! GROUPS 1\nvoid body(uvec3 group) {}\n",
     1, "mine.comp:3: OP: no operation is called nothing; there are: ", "1 of 1 kernels failed"},
    {"unknown_constant", NORM("norm_mine", "//! CONST HIDDEN\n", "sum / float(H)"), 1,
     "CONST: no operation supplies HIDDEN; built-in kernels of norm use: H X_STRIDE Y_STRIDE",
     "1 of 1 kernels failed"},
};

static char *write_kernel(const char *dir, const char *text)
{
    test_write_file(dir, "mine.comp", text, strlen(text));
    return checked(dgl_path_join(dir, "mine.comp"));
}

/* Joins the lines of verdicts that are wider than 100 columns. */
static void join_lines(struct process_result *r)
{
    static const char between[] = "\n         ";
    for (char *p; (p = strstr(r->out, between));) {
        *p = ' ';
        memmove(p + 1, p + sizeof(between) - 1, strlen(p + sizeof(between) - 1) + 1);
    }
}

/* No line is wider than 100 columns, except for words that are wider. */
static void assert_narrow(const char *text)
{
    struct dgl_str rest = dgl_str_of(text), line;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        size_t blanks = strspn(line.p, " ");
        const char *last = memrchr(line.p, ' ', line.len);
        if (line.len > 100 && last && (size_t)(last - line.p) > blanks + 8)
            fail_msg("%zu columns: %.*s", line.len, (int)line.len, line.p);
    }
}

static void check_case(void **state)
{
    const struct check_row *row = *state;
    char *dir = test_tmpdir(), *path = write_kernel(dir, row->text);
    struct process_result file, folder;
    process_command(&file, "kernels", "check", path, "--device", "any", NULL);
    process_command(&folder, "kernels", "check", dir, "--device", "any", NULL);
    assert_code(&file, row->code);
    assert_code(&folder, row->code);
    assert_narrow(file.out);
    join_lines(&file);
    join_lines(&folder);
    assert_contains(file.out, row->out);
    assert_string_equal(file.out, folder.out);
    if (row->error)
        assert_one_error(&file, row->error);
    else
        assert_no_error(&file);
    process_finish(&file);
    process_finish(&folder);
    free(path);
    test_tmpdir_remove(dir);
}

/* The first error of each file is its verdict, on standard output. The compiler's further messages
 * follow on standard error, if the streams are one file or two. */
static void errors_follow_their_verdict(void **state)
{
    static const char *const joined[] = {
        "failed   %s/a.comp:22:",
        "   22 |     float r = inversesqrt(total / float(H) + eps);\n",
        "failed   %s/b.comp:22:",
        "   22 |     float r = inversesqrt(mean + eps);\n",
        "passed   c: ",
        "1 passed, 2 failed, 0 skipped\n",
        "dopplergl: error: kernels check: 2 of 3 kernels failed\n"};
    static const char *const apart[] = {"%s/a.comp:22:", "   22 |     float r",
                                        "%s/b.comp:22:", "   22 |     float r",
                                        "2 of 3 kernels failed"};
    (void)state;
    char *dir = test_tmpdir(), text[4096], part[512];
    const char *const bodies[] = {NORM("a", "", "total / float(H)"), NORM("b", "", "mean"),
                                  RIGHT("c")};
    const char *const files[] = {"a.comp", "b.comp", "c.comp"};
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "%s", bodies[i]);
        test_write_file(dir, files[i], text, strlen(text));
    }
    for (int i = 0; i < 3; i++) {
        const char *const args[] = {"-c",
                                    i == 0   ? "exec \"$0\" \"$@\" 2>&1"
                                    : i == 1 ? "exec \"$0\" \"$@\""
                                             : "exec \"$0\" \"$@\" --json",
                                    process_program(),
                                    "kernels",
                                    "check",
                                    dir,
                                    "--device",
                                    "any",
                                    "--quick",
                                    NULL};
        struct process_result r;
        process_run(&(struct process_params){.program = "/bin/sh", .args = args}, &r);
        assert_code(&r, 1);
        const char *at = i == 0 ? r.out : r.err;
        for (size_t p = 0; p < (i == 0 ? sizeof(joined) / sizeof(*joined) : 5); p++) {
            const char *wanted = i == 0 ? joined[p] : apart[p];
            const char *dir_at = strstr(wanted, "%s");
            snprintf(part, sizeof(part), "%.*s%s%s", dir_at ? (int)(dir_at - wanted) : 0, wanted,
                     dir_at ? dir : "", dir_at ? dir_at + 2 : wanted);
            const char *found = strstr(at, part);
            if (!found)
                fail_msg("'%s' is missing, or out of its place, in:\n%s", part,
                         i == 0 ? r.out : r.err);
            at = found + strlen(part);
        }
        process_finish(&r);
    }
    test_tmpdir_remove(dir);
}

/* A copy printed by `show` passes like the built-in kernel. The kernel with the most macros is
 * used. */
static void copies_are_as_good(void **state)
{
    (void)state;
    struct process_result shown, r;
    process_command(&shown, "kernels", "show", "moe_decode_llvmpipe", NULL);
    assert_code(&shown, 0);
    char *dir = test_tmpdir(), *path = write_kernel(dir, shown.out);
    process_command(&r, "kernels", "check", path, "--device", "any", "--quick", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "passed   moe_decode_llvmpipe: ");
    process_finish(&shown);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

static void check_reports_as_json(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *path = write_kernel(dir, check_rows[2].text);
    struct process_result r;
    process_command(&r, "kernels", "check", path, "--device", "any", "--json", NULL);
    assert_code(&r, 1);
    const struct dgl_json *json = process_json(&r);
    const struct dgl_json *kernel = dgl_json_first(dgl_json_get(json, "kernels"));
    assert_string_equal(dgl_json_str(dgl_json_get(kernel, "verdict")).p, "failed");
    assert_string_equal(dgl_json_str(dgl_json_get(kernel, "origin")).p, path);
    assert_contains(dgl_json_str(dgl_json_get(kernel, "reason")).p, "wanted");
    int64_t failed = 0;
    assert_true(dgl_json_i64(dgl_json_get(json, "failed"), &failed));
    assert_int_equal(failed, 1);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

/* A file that does not parse has one row with its fault, and the other files are tested. */
static void files_that_do_not_parse_are_rows(void **state)
{
    static const char broken[] = "// Broken.\n//! NAMES broken\n";
    static const struct {
        const char *name, *verdict, *reason; /* "": null */
    } rows[] = {{"broken", "failed", "broken.comp:2:5: 'NAMES' is not a directive"},
                {"norm_mine", "passed", ""},
                {"second", "failed", "/second.comp:"}};
    (void)state;
    char *dir = test_tmpdir();
    struct process_result r;
    free(write_kernel(dir, RIGHT("norm_mine")));
    test_write_file(dir, "broken.comp", broken, strlen(broken));
    test_write_file(dir, "second.comp", NORM("second", "", "sum) {"),
                    strlen(NORM("second", "", "sum) {")));
    process_command(&r, "kernels", "check", dir, "--device", "any", "--quick", "--json", NULL);
    assert_code(&r, 1);
    assert_contains(r.err, "    2 | //! NAMES broken\n");
    assert_contains(r.err, "2 of 3 kernels failed");
    const struct dgl_json *json = process_json(&r), *list = dgl_json_get(json, "kernels");
    for (size_t i = 0; i < 3; i++) {
        const struct dgl_json *row = dgl_json_at(list, i);
        assert_string_equal(dgl_json_str(dgl_json_get(row, "name")).p, rows[i].name);
        assert_string_equal(dgl_json_str(dgl_json_get(row, "verdict")).p, rows[i].verdict);
        if (rows[i].reason[0])
            assert_contains(dgl_json_str(dgl_json_get(row, "reason")).p, rows[i].reason);
    }
    assert_null(dgl_json_at(list, 3));
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* A lib of a folder is checked by the kernels that splice it. */
static void libs_are_checked_by_their_kernels(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    size_t len;
    char *text = tiny_file_read("kernels/lib/math", "moe_choice.glsl", &len);
    struct process_result r;
    test_write_file(dir, "moe_choice.glsl", text, len);
    process_command(&r, "kernels", "check", dir, "--device", "any", "--quick", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "passed   ");
    assert_null(strstr(r.out, "norm_rms"));
    process_finish(&r);
    free(text);
    test_tmpdir_remove(dir);
}

/* A lib lacks the body of a function: the error of a caller names the place of its declaration. */
static void linkers_words_name_the_lib(void **state)
{
    (void)state;
    static const char body[] = "void rope_begin()\n{";
    char *dir = test_tmpdir();
    size_t len, failed = 0, line = 1;
    char *text = tiny_file_read("kernels/lib/math", "rope.glsl", &len), *at = strstr(text, body);
    char place[32];
    struct process_result r;
    assert_non_null(at);
    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    snprintf(place, sizeof(place), "/rope.glsl:%zu:6: ", line);
    /* "{", its lines and "}" become blanks, and stay as many lines */
    at += sizeof(body) - 3;
    *at++ = ';';
    for (; *at != '}'; at++)
        *at = *at == '\n' ? '\n' : ' ';
    *at = ' ';
    test_write_file(dir, "rope.glsl", text, len);
    process_command(&r, "kernels", "check", dir, "--device", "any", "--quick", "--json", NULL);
    assert_code(&r, 1);
    const struct dgl_json *list = dgl_json_get(process_json(&r), "kernels"), *row;
    for (size_t i = 0; (row = dgl_json_at(list, i)); i++) {
        const struct dgl_str reason = dgl_json_str(dgl_json_get(row, "reason"));
        if (!dgl_str_eq(dgl_json_str(dgl_json_get(row, "verdict")), "failed"))
            continue;
        failed++;
        assert_non_null(reason.p);
        assert_contains(reason.p, place);
        assert_contains(reason.p, "rope_begin");
    }
    assert_true(failed > 0);
    process_finish(&r);
    free(text);
    test_tmpdir_remove(dir);
}

/* A lib that no kernel includes cannot be tested, alone or together with a kernel. */
/* The number of failures is relative to all reported files. */
static void those_skipped_count(void **state)
{
    static const char lib[] = "// Mine.\nfloat spare(float x) { return x; }\n";
    (void)state;
    char *dir = test_tmpdir();
    struct process_result r;
    test_write_file(dir, "spare.glsl", lib, strlen(lib));
    free(write_kernel(dir, NORM("norm_mine", "", "summ / float(H)")));
    process_command(&r, "kernels", "check", dir, "--device", "any", "--quick", NULL);
    assert_code(&r, 1);
    assert_contains(r.out, "0 passed, 1 failed, 1 skipped\n");
    assert_one_error(&r, "1 of 2 kernels failed; those skipped count as well");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* Sampling stages are tested together with the built-in stages. Only the wrong stage is reported.
 */
static void wrong_stages_are_told(void **state)
{
    static const char end[] = "return best.y;";
    (void)state;
    char *dir = test_tmpdir(), text[65536], find[65536];
    struct process_result r;
    process_command(&r, "kernels", "show", "sample_pick", NULL);
    assert_code(&r, 0);
    const char *at = strstr(r.out, end);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*sreturn best.y ^ 1u;%s", (int)(at - r.out), r.out,
             at + strlen(end));
    process_finish(&r);
    process_command(&r, "kernels", "show", "sample_max", NULL);
    assert_code(&r, 0);
    snprintf(find, sizeof(find), "%s", r.out);
    process_finish(&r);
    test_write_file(dir, "sample_pick.comp", text, strlen(text));
    test_write_file(dir, "sample_max.comp", find, strlen(find));
    process_command(&r, "kernels", "check", dir, "--device", "any", NULL);
    join_lines(&r);
    assert_code(&r, 1);
    assert_contains(r.out, "passed   sample_max: ");
    assert_contains(r.out, "failed   sample_pick: ");
    assert_contains(r.out, "; computed together with the built-in sample_max: the text that is not "
                           "built in, that of sample_pick, is at fault (yours of sample_max had no "
                           "part in it)");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

static void libs_of_no_kernel_are_skipped(void **state)
{
    static const char lib[] = "// Mine.\nfloat spare(float x) { return x; }\n";
    static const char told[] = "skipped  spare: no kernel splices this lib: none has a LIB line";
    (void)state;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "spare.glsl");
    struct process_result r;
    test_write_file(dir, "spare.glsl", lib, strlen(lib));
    process_command(&r, "kernels", "check", dir, "--device", "any", NULL);
    assert_code(&r, 1);
    assert_contains(r.out, told);
    assert_contains(r.out, "0 passed, 0 failed, 1 skipped\n");
    assert_one_error(&r, "no kernel ran: all were skipped");
    process_finish(&r);
    free(write_kernel(dir, RIGHT("norm_mine")));
    process_command(&r, "kernels", "check", dir, "--device", "any", "--quick", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, told);
    assert_contains(r.out, "1 passed, 0 failed, 1 skipped\n");
    process_finish(&r);
    process_command(&r, "kernels", "check", dir, "--device", "any", "--quick", "--json", NULL);
    const struct dgl_json *row = dgl_json_at(dgl_json_get(process_json(&r), "kernels"), 1);
    assert_string_equal(dgl_json_str(dgl_json_get(row, "name")).p, "spare");
    assert_string_equal(dgl_json_str(dgl_json_get(row, "verdict")).p, "skipped");
    assert_string_equal(dgl_json_str(dgl_json_get(row, "origin")).p, path);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

struct bench_row {
    const char *name, *kernel, *shape;
    int code;
    const char *out, *error;
};

static const struct bench_row bench_rows[] = {
    {"norm", "norm_rms", "H=260,tokens=3", 0, "GB/s", NULL},
    {"in_the_cache", "norm_rms", "H=4096,tokens=64", 0, "% of a copy's ", NULL},
    {"one_type", "embed_rows", "weight=q8_0,H=96,tokens=4", 0, "embed weight=q8_0", NULL},
    {"attention", "attn_decode", "HEADS=4,KV_HEADS=2,HEAD_DIM=64,pos=99,SPLITS=2", 0,
     "attn_decode kv_k=f16 kv_v=f16 HEADS=4", NULL},
    {"sampling", "sample_max", "VOCAB=3000,kind=full", 0, "sample_max kind=full", NULL},
    {"no_kernel", "norm_rmss", "H=260", 2, "", "no kernel is called 'norm_rmss'"},
    {"too_long", "norm_rms",
     "H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,"
     "H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,"
     "H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,"
     "H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,"
     "H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,"
     "H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5,H=6,H=7,H=8,H=9,H=1,H=2,H=3,H=4,H=5",
     2, "", "shape: longer than"},
    {"no_value", "norm_rms", "H", 2, "", "--shape: 'H' is not KEY=VALUE"},
    {"unknown_size", "norm_rms", "K=260", 2, "", "norm has no attribute and no size 'K'"},
    {"unknown_word", "norm_rms", "post=sub", 2, "", "post=sub is none of norm's words"},
    {"nothing", "norm_rms", "H=0", 2, "", "H=0 leaves nothing to compute"},
    {"no_tokens", "norm_rms", "tokens=0", 2, "", "tokens=0 is not a number from 1"},
    {"twice", "norm_rms", "H=256,tokens=1,H=512", 2, "", "shape: H is given twice"},
    {"not_a_number", "norm_rms", "H=12x", 2, "", "H=12x is not a number"},
    {"too_much", "attn_decode", "HEADS=1048576,HEAD_DIM=1048576", 2, "", "more than 2^40"},
    {"heads_that_do_not_divide", "attn_decode", "HEADS=3,KV_HEADS=2", 1, "HEADS % KV_HEADS",
     "cannot run this"},
    {"a_stride", "norm_rms", "X_STRIDE=4", 2, "", "no size 'X_STRIDE'"},
};

static void bench_case(void **state)
{
    const struct bench_row *row = *state;
    struct process_result r;
    process_command(&r, "kernels", "bench", row->kernel, "--shape", row->shape, "--device", "any",
                    NULL);
    assert_code(&r, row->code);
    assert_contains(r.out, row->out);
    if (row->error)
        assert_one_error(&r, row->error);
    else
        assert_no_error(&r);
    /* Only a rate above that of a copy is explained. */
    const char *share = strstr(r.out, "GB/s, ");
    const long percent = share ? strtol(share + strlen("GB/s, "), NULL, 10) : 0;
    if (percent != 100 && (percent > 100) != (strstr(r.out, "more than a copy") != NULL))
        fail_msg("%s", r.out);
    process_finish(&r);
}

static void bench_reports_as_json(void **state)
{
    (void)state;
    struct process_result r;
    process_command(&r, "kernels", "bench", "norm_rms", "--shape", "H=1024", "--device", "any",
                    "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *time = dgl_json_first(dgl_json_get(process_json(&r), "times"));
    static const char *const keys[] = {"us", "best_us", "alone_us", "gbps", "gflops", "copy_gbps"};
    assert_string_equal(dgl_json_str(dgl_json_get(time, "verdict")).p, "passed");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        double value = dgl_json_f64(dgl_json_get(time, keys[i]));
        if (value <= 0)
            fail_msg("%s is %g, expected more than 0", keys[i], value);
    }
    process_finish(&r);
}

/* A file is benched under its own name, against another kernel in turn. */
static void bench_compares_in_turn(void **state)
{
    (void)state;
    struct process_result r, shown;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "mine.comp");
    process_command(&r, "kernels", "new", "mine", "--op", "norm", "--device", "any", "-o", path,
                    NULL);
    assert_code(&r, 0);
    process_finish(&r);
    process_command(&r, "kernels", "bench", path, "--against", "norm_rms", "--shape", "H=1024",
                    "--device", "any", "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *time = dgl_json_first(dgl_json_get(process_json(&r), "times"));
    const struct dgl_json *against = dgl_json_get(time, "against");
    const double ratio = dgl_json_f64(dgl_json_get(against, "ratio"));
    const double us = dgl_json_f64(dgl_json_get(time, "us"));
    const double other_us = dgl_json_f64(dgl_json_get(against, "us"));
    assert_string_equal(dgl_json_str(dgl_json_get(time, "name")).p, "mine");
    assert_string_equal(dgl_json_str(dgl_json_get(against, "name")).p, "norm_rms");
    assert_true(dgl_json_f64(dgl_json_get(time, "timer_us")) >= 0);
    assert_true(dgl_json_f64(dgl_json_get(against, "ratio_spread")) >= 0);
    assert_true(dgl_json_f64(dgl_json_get(against, "rounds")) >= 3);
    if (!(us > 0 && other_us > 0 && ratio > 0))
        fail_msg("%g us against %g us, ratio %g", us, other_us, ratio);
    process_finish(&r);
    process_command(&shown, "kernels", "bench", path, "--against", "norm_rms", "--shape", "H=1024",
                    "--device", "any", NULL);
    assert_code(&shown, 0);
    assert_contains(shown.out, "norm_rms: ");
    assert_contains(shown.out, "rounds in turn");
    process_finish(&shown);
    process_command(&r, "kernels", "bench", "norm_rms", "--against", "embed_rows", "--device",
                    "any", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "only kernels of one operation are compared");
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

/* `new` starts from the kernel that the device uses. Without a device, it starts from the baseline
 * and says so. */
static void new_follows_the_device(void **state)
{
    (void)state;
    struct process_result plan, r;
    const char *const args[] = {"kernels", "new", "mine", "--op", "attn_prefill", "-o", "-", NULL};
    const char *const none[] = {"EGL_PLATFORM=surfaceless", "DOPPLERGL_DEVICE", NULL};
    process_command(&plan, "kernels", "explain", "--device", "any", "--json", NULL);
    assert_code(&plan, 0);
    const char *used = NULL;
    for (const struct dgl_json *s = dgl_json_first(process_json(&plan)); s; s = dgl_json_next(s))
        if (strcmp(dgl_json_str(dgl_json_get(s, "phase")).p, "prefill") == 0 &&
            strcmp(dgl_json_str(dgl_json_get(s, "step")).p, "attn_prefill") == 0)
            used = dgl_json_str(dgl_json_get(s, "name")).p;
    assert_non_null(used);
    process_command(&r, "kernels", "new", "mine", "--op", "attn_prefill", "--device", "any", "-o",
                    "-", NULL);
    assert_code(&r, 0);
    char begun[128];
    snprintf(begun, sizeof(begun), "begun as a copy of %s.", used);
    assert_contains(r.out, begun);
    process_finish(&r);
    process_run(&(struct process_params){.args = args, .env = none}, &r);
    assert_code(&r, 0);
    if (!strstr(r.err, "device: ")) /* the machine has no GPU */
        assert_contains(r.err, "the kernel begins as the baseline, because no device was opened");
    process_finish(&r);
    process_finish(&plan);
}

/* A kernel that computes wrongly is not timed. */
static void wrong_kernels_are_not_timed(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *path = write_kernel(dir, check_rows[2].text);
    struct process_result r;
    process_command(&r, "kernels", "bench", "norm_mine", "--kernel-file", path, "--device", "any",
                    NULL);
    assert_code(&r, 1);
    assert_contains(r.out, "failed norm_mine: ");
    assert_null(strstr(r.out, "GB/s"));
    assert_one_error(&r, "norm_mine failed, and is not timed");
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_follow_their_verdict),
        cmocka_unit_test(bench_compares_in_turn),
        cmocka_unit_test(new_follows_the_device),
        cmocka_unit_test(copies_are_as_good),
        cmocka_unit_test(check_reports_as_json),
        cmocka_unit_test(files_that_do_not_parse_are_rows),
        cmocka_unit_test(libs_are_checked_by_their_kernels),
        cmocka_unit_test(linkers_words_name_the_lib),
        cmocka_unit_test(libs_of_no_kernel_are_skipped),
        cmocka_unit_test(those_skipped_count),
        cmocka_unit_test(wrong_stages_are_told),
        cmocka_unit_test(bench_reports_as_json),
        cmocka_unit_test(wrong_kernels_are_not_timed),
    };
    int failures = test_run_table("check", check_case, check_rows);
    failures += test_run_table("bench", bench_case, bench_rows);
    return failures + cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
