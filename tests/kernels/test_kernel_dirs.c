/* Directories of kernel files with subdirectories: the files that are read, their order, and the
 * refusals. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "kernels/kernels.h"
#include "kernels/set/embedded.h"
#include "tests/support/kernel_sets.h"

#define KERNEL(name, lines)                                                                        \
    "// Summary of " name "\n//! NAME " name                                                       \
    "\n//! OP matmul\n//! VARIANT v\n//! LOCAL 1\n//! GROUPS 1\n" lines                            \
    "void body(uvec3 group)\n{\n}\n"

static const char own[] = KERNEL("own", "//! LIB helper\n");
static const char helper[] = "float helper;\n";

/* Takes the place of the library's own table. */
const struct kernel_embedded kernel_embedded[] = {
    {"op/matmul/own.comp", own, sizeof(own) - 1},
    {"lib/math/helper.glsl", helper, sizeof(helper) - 1},
    {NULL, NULL, 0},
};

static int setup(void **state)
{
    return (*state = test_tmpdir()) ? 0 : -1;
}

static int teardown(void **state)
{
    test_tmpdir_remove(*state);
    return 0;
}

/* A file of a folder of `dir`, which is made. */
static void put(const char *dir, const char *folder, const char *name, const char *text)
{
    char *path = dgl_path_join(dir, folder);
    if (!dgl_path_is_dir(path))
        assert_int_equal(dgl_dir_make(NULL, path), DGL_OK);
    test_write_file(path, name, text, strlen(text));
    free(path);
}

static enum dgl_status create(const char *dir, struct test_log *log, struct kernel_set **set)
{
    test_log_init(log, DGL_LOG_WARN);
    return kernel_set_create(
        &log->log, dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1), set);
}

static struct kernel_set *load(const char *dir)
{
    struct kernel_set *set = NULL;
    struct test_log log;
    if (create(dir, &log, &set) != DGL_OK)
        fail_msg("%s", log.text);
    return set;
}

static void assert_refused(const char *dir, enum dgl_status wanted, const char *message,
                           const char *other)
{
    struct kernel_set *set = NULL;
    struct test_log log;
    assert_int_equal(create(dir, &log, &set), wanted);
    assert_null(set);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, message);
    assert_contains(log.text, other);
}

static void files_count_in_every_folder(void **state)
{
    const char *dir = *state;
    put(dir, "op/matmul/deeper", "any.comp", KERNEL("own", "//! LIB helper\n//! PREFER 7\n"));
    put(dir, "lib/math", "helper.glsl", "float mine;\n");
    put(dir, "lib/math", "notes.txt", "not a kernel");
    struct kernel_set *set = load(dir);
    assert_int_equal(kernel_set_count(set), 1);
    assert_non_null(kernel_set_find(set, "own")->prefer);
    assert_contains(kernel_set_find(set, "own")->path, "/op/matmul/deeper/any.comp");
    assert_string_equal(kernel_set_lib(set, "helper")->body, "float mine;\n");
    kernel_set_destroy(&set);
}

static void chunk_is_a_folder_like_any_other(void **state)
{
    const char *dir = *state;
    put(dir, "chunk", "helper.glsl", "float mine;\n");
    put(dir, "chunk", "more.comp", KERNEL("more", ""));
    struct kernel_set *set = load(dir);
    assert_string_equal(kernel_set_lib(set, "helper")->body, "float mine;\n");
    assert_true(kernel_set_find(set, "more")->added);
    kernel_set_destroy(&set);
}

static void lib_may_lie_at_the_top(void **state)
{
    test_write_file(*state, "helper.glsl", "float mine;\n", 12);
    struct kernel_set *set = load(*state);
    assert_string_equal(kernel_set_lib(set, "helper")->body, "float mine;\n");
    kernel_set_destroy(&set);
}

static void order_is_files_by_name_then_folders(void **state)
{
    const char *dir = *state;
    put(dir, "b", "a.comp", KERNEL("third", ""));
    put(dir, "a", "z.comp", KERNEL("second", ""));
    put(dir, ".", "y.comp", KERNEL("first", ""));
    struct kernel_set *set = load(dir);
    assert_string_equal(kernel_set_at(set, 1)->name, "first");
    assert_string_equal(kernel_set_at(set, 2)->name, "second");
    assert_string_equal(kernel_set_at(set, 3)->name, "third");
    kernel_set_destroy(&set);
}

static void kernel_name_twice_names_both_files(void **state)
{
    put(*state, "a", "x.comp", KERNEL("same", ""));
    put(*state, "b", "y.comp", KERNEL("same", ""));
    assert_refused(*state, DGL_ERR_KERNEL, "/b/y.comp: the NAME same is also that of ",
                   "/a/x.comp");
}

static void lib_twice_names_both_files(void **state)
{
    put(*state, "a", "x.glsl", "int a;\n");
    put(*state, "b/c", "x.glsl", "int b;\n");
    assert_refused(*state, DGL_ERR_KERNEL, "/b/c/x.glsl: the lib's name is also that of ",
                   "/a/x.glsl");
}

static void two_directories_may_have_the_same_names(void **state)
{
    char *second = test_tmpdir();
    struct kernel_set *set = NULL;
    struct test_log log;
    put(*state, "a", "helper.glsl", "float first;\n");
    put(second, "b", "helper.glsl", "float second;\n");
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(
        kernel_set_create(
            &log.log,
            dgl_kernels_params(.dirs = (const char *const[]){*state, second}, .num_dirs = 2), &set),
        DGL_OK);
    assert_string_equal(kernel_set_lib(set, "helper")->body, "float second;\n");
    kernel_set_destroy(&set);
    test_tmpdir_remove(second);
}

static void link_within_the_directory_is_read(void **state)
{
    char *to = dgl_path_join(*state, "y.comp");
    put(*state, ".store", "x.comp", KERNEL("linked", ""));
    assert_int_equal(symlink(".store/x.comp", to), 0);
    struct kernel_set *set = load(*state);
    assert_non_null(kernel_set_find(set, "linked"));
    kernel_set_destroy(&set);
    free(to);
}

/* The directory itself may be named by a link. */
static void link_to_the_directory_is_followed(void **state)
{
    char *outside = test_tmpdir(), *to = dgl_path_join(outside, "link");
    put(*state, "a", "x.comp", KERNEL("linked", ""));
    char *inner = dgl_path_join(*state, "y.glsl");
    assert_int_equal(symlink("a/../a/x.comp", inner), 0);
    assert_int_equal(symlink(*state, to), 0);
    assert_refused(to, DGL_ERR_KERNEL, "/link/y.glsl", ""); /* read, and no lib */
    assert_int_equal(unlink(inner), 0);
    struct kernel_set *set = load(to);
    assert_non_null(kernel_set_find(set, "linked"));
    kernel_set_destroy(&set);
    test_tmpdir_remove(outside);
    free(inner);
    free(to);
}

static void link_out_of_the_directory_is_refused(void **state)
{
    char *outside = test_tmpdir(), *from = dgl_path_join(outside, "x.comp"),
         *to = dgl_path_join(*state, "y.comp"), *sibling = NULL;
    test_write_file(outside, "x.comp", KERNEL("linked", ""), strlen(KERNEL("linked", "")));
    assert_int_equal(symlink(from, to), 0);
    assert_refused(*state, DGL_ERR_INVALID_ARG, "y.comp: a link out of the kernel directory, to ",
                   "/x.comp: name that with --kernel-file");
    /* A directory whose name begins with that of the other is another one. */
    assert_true(asprintf(&sibling, "%sx", (const char *)*state) > 0);
    assert_int_equal(rename(outside, sibling), 0);
    assert_int_equal(unlink(to), 0);
    free(from);
    from = dgl_path_join(sibling, "x.comp");
    assert_int_equal(symlink(from, to), 0);
    assert_refused(*state, DGL_ERR_INVALID_ARG, "y.comp: a link out of the kernel directory", "");
    test_tmpdir_remove(sibling);
    free(outside);
    free(from);
    free(to);
}

/* A loop of links would otherwise be walked until the depth is reached. */
static void link_to_a_folder_is_not_followed(void **state)
{
    struct kernel_set *set = NULL;
    struct test_log log;
    char *to = dgl_path_join(*state, "loop");
    put(*state, "a", "x.comp", KERNEL("real", ""));
    assert_int_equal(symlink(*state, to), 0);
    assert_int_equal(create(*state, &log, &set), DGL_OK);
    assert_int_equal(kernel_set_count(set), 2);
    assert_contains(log.text, "/loop: a link to a folder is not followed");
    kernel_set_destroy(&set);
    free(to);
}

static void hidden_folders_are_left_alone(void **state)
{
    put(*state, ".git", "x.comp", "no kernel at all");
    put(*state, "a", "y.comp", KERNEL("seen", ""));
    struct kernel_set *set = load(*state);
    assert_non_null(kernel_set_find(set, "seen"));
    kernel_set_destroy(&set);
}

static void link_to_nothing_is_refused(void **state)
{
    char *to = dgl_path_join(*state, "y.comp");
    assert_int_equal(symlink("absent", to), 0);
    assert_refused(*state, DGL_ERR_IO, "y.comp", "");
    free(to);
}

static void folder_named_like_a_kernel_is_refused(void **state)
{
    put(*state, "x.comp", "y.comp", KERNEL("deep", ""));
    assert_refused(*state, DGL_ERR_IO, "/x.comp", "");
}

static void pipe_named_like_a_kernel_is_refused(void **state)
{
    char *path = dgl_path_join(*state, "y.comp");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(*state, DGL_ERR_IO, "y.comp", "");
    free(path);
}

static void folders_may_be_eight_deep(void **state)
{
    put(*state, "1/2/3/4/5/6/7/8", "x.comp", KERNEL("deep", ""));
    struct kernel_set *set = load(*state);
    assert_non_null(kernel_set_find(set, "deep"));
    kernel_set_destroy(&set);
    put(*state, "1/2/3/4/5/6/7/8/9", "y.comp", KERNEL("deeper", ""));
    assert_refused(*state, DGL_ERR_INVALID_ARG,
                   "/8/9: a kernel directory has at most 1000 folders, 8 deep", "");
}

static void directories_have_a_limit_of_bytes(void **state)
{
    enum { FILES = 17, BYTES = (1 << 20) - 1000 };
    char *filler = malloc(BYTES);
    assert_non_null(filler);
    memset(filler, ' ', BYTES);
    for (int i = 0; i < FILES; i++) {
        char file[32];
        snprintf(file, sizeof(file), "x%02d.glsl", i);
        test_write_file(*state, file, filler, BYTES);
    }
    free(filler);
    assert_refused(*state, DGL_ERR_INVALID_ARG, "x16.glsl: a kernel directory has at most 16 MiB",
                   "");
}

static void directories_have_a_limit_of_files(void **state)
{
    for (int i = 0; i < 1001; i++) {
        char file[32];
        snprintf(file, sizeof(file), "x%04d.glsl", i);
        test_write_file(*state, file, "// Nothing.\n", strlen("// Nothing.\n"));
    }
    assert_refused(*state, DGL_ERR_INVALID_ARG,
                   "x1000.glsl: a kernel directory has at most 1000 files", "");
}

static bool always(void *priv)
{
    (void)priv;
    return true;
}

static void reading_a_directory_can_be_cancelled(void **state)
{
    struct dgl_log log = {.cancelled = always};
    const char *dir = *state;
    struct kernel_set *set = NULL;
    put(dir, "a", "x.comp", KERNEL("one", ""));
    assert_int_equal(kernel_set_create(&log, dgl_kernels_params(.dirs = &dir, .num_dirs = 1), &set),
                     DGL_ERR_CANCELLED);
    assert_null(set);
}

static void folders_without_kernels_are_refused(void **state)
{
    put(*state, "a/b", "notes.txt", "nothing");
    assert_refused(*state, DGL_ERR_INVALID_ARG, "holds no *.comp and no *.glsl", "");
}

/* Each invalid file is reported and left out; the built-in file replaces it. */
static void faults_of_files_are_kept(void **state)
{
    static const struct {
        const char *file, *text; /* NULL: a folder */
        const char *reason;      /* NULL: it is taken */
    } rows[] = {
        {"bad.comp", "// One\n//! NAMES bad\n", "bad.comp:2:5: 'NAMES' is not a directive"},
        {"dir.comp", NULL, "/dir.comp"},
        {"good.comp", KERNEL("good", ""), NULL},
        {"good2.comp", KERNEL("good", ""), "good2.comp: the NAME good is also that of "},
        {"lib.comp", "int x;\n", "lib.comp:1: the first line"},
        {"other.glsl", "//! LET N = 1\n//! TUNE M = 1 in 1\n", "other.glsl:2:"},
        /* found when all are read */
        {"helper.glsl", "//! LET N = FOO\nfloat mine;\n", "helper.glsl:1: LET: kernel own"},
        {"own.comp", KERNEL("own", "//! LIB absent\n"), "own.comp:7: LIB: there is no lib absent"},
    };
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
    const char *dir = *state;
    struct kernel_set *set = NULL;
    struct test_log log;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].text)
            put(dir, "", rows[i].file, rows[i].text);
        else
            put(dir, rows[i].file, "x.comp", KERNEL("deep", ""));
    test_log_init(&log, DGL_LOG_NOTICE);
    assert_int_equal(
        kernel_set_create(
            &log.log, dgl_kernels_params(.dirs = &dir, .num_dirs = 1, .keep_faults = true), &set),
        DGL_OK);
    assert_string_equal(log.text, "");
    size_t faults = 0;
    for (size_t i = 0; i < ROWS; i++) {
        const struct kernel_fault *found = NULL;
        const size_t len = strlen(rows[i].file);
        for (size_t f = 0; f < kernel_set_num_faults(set); f++)
            if (dgl_str_ends(dgl_str_of(kernel_set_fault_at(set, f)->path), rows[i].file))
                found = kernel_set_fault_at(set, f);
        if (!found != !rows[i].reason)
            fail_msg("%s: %s", rows[i].file, found ? found->reason : "no fault");
        if (!found)
            continue;
        faults++;
        assert_contains(found->reason, rows[i].reason);
        assert_int_equal(strlen(found->name), len - 5);
        assert_memory_equal(found->name, rows[i].file, len - 5);
    }
    assert_int_equal(kernel_set_num_faults(set), faults);
    assert_contains(kernel_set_fault_at(set, 0)->notes, "    2 | //! NAMES bad\n");
    assert_int_equal(kernel_set_count(set), 2);
    assert_int_equal(kernel_set_find(set, "own")->source, 0);
    assert_int_equal(kernel_set_find(set, "good")->source, 1);
    assert_string_equal(kernel_set_lib(set, "helper")->body, helper);
    kernel_set_destroy(&set);
    assert_refused(dir, DGL_ERR_KERNEL, rows[0].reason, "");
}

static void a_file_that_is_not_there_is_no_fault(void **state)
{
    char *path = dgl_path_join(*state, "absent.comp");
    struct kernel_set *set = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(kernel_set_create(&log.log,
                                       dgl_kernels_params(.files = (const char *const[]){path},
                                                          .num_files = 1, .keep_faults = true),
                                       &set),
                     DGL_ERR_IO);
    assert_contains(log.text, "absent.comp");
    free(path);
}

/* Texts passed by the caller replace files, which may exist or not. */
static void texts_count_instead_of_files(void **state)
{
    const char *dir = *state;
    char *paths[5];
    static const char *const files[] = {"a.comp", "b.comp", "c.comp", "hints.json", "more/d.comp"};
    put(dir, "", "a.comp", KERNEL("a", "//! PREFER 1\n"));
    put(dir, "", "b.comp", "not a kernel");
    put(dir, "", "hints.json", "not hints");
    for (size_t i = 0; i < 5; i++)
        paths[i] = checked(dgl_path_join(dir, files[i]));
    static const char first[] = KERNEL("a", ""), later[] = KERNEL("d", ""),
                      last[] = KERNEL("c", ""), hints[] = "{\"computePrecision\": \"f32\"}";
    const struct dgl_kernel_text texts[] = {
        {paths[0], first, sizeof(first) - 1}, {paths[1], NULL, 0},
        {paths[2], last, sizeof(last) - 1},   {paths[3], hints, sizeof(hints) - 1},
        {paths[4], later, sizeof(later) - 1},
    };
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1,
                                      .config_file = paths[3], .texts = texts, .num_texts = 5));
    assert_int_equal(kernel_set_count(set), 4);
    assert_null(kernel_set_find(set, "a")->prefer);
    assert_non_null(kernel_set_find(set, "c"));
    assert_string_equal(kernel_set_find(set, "d")->path, paths[4]);
    assert_string_equal(kernel_set_hint(set, "computePrecision", NULL), "f32");
    kernel_set_destroy(&set);

    /* The same of files that are named, and of a directory that is not there. */
    dgl_dir_remove(dir);
    set = loaded_set(dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1,
                                        .files = (const char *const[]){paths[2], paths[1]},
                                        .num_files = 2, .texts = texts, .num_texts = 5));
    assert_int_equal(kernel_set_count(set), 4);
    kernel_set_destroy(&set);
    for (size_t i = 0; i < 5; i++)
        free(paths[i]);
}

static void a_directory_may_be_empty_where_that_is_said(void **state)
{
    const char *dir = *state;
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.dirs = (const char *const[]){dir}, .num_dirs = 1,
                                      .allow_empty_dirs = true));
    assert_int_equal(kernel_set_count(set), 1);
    kernel_set_destroy(&set);
}

#define DIR_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        DIR_TEST(files_count_in_every_folder),
        DIR_TEST(chunk_is_a_folder_like_any_other),
        DIR_TEST(lib_may_lie_at_the_top),
        DIR_TEST(order_is_files_by_name_then_folders),
        DIR_TEST(kernel_name_twice_names_both_files),
        DIR_TEST(lib_twice_names_both_files),
        DIR_TEST(two_directories_may_have_the_same_names),
        DIR_TEST(link_within_the_directory_is_read),
        DIR_TEST(link_to_the_directory_is_followed),
        DIR_TEST(link_out_of_the_directory_is_refused),
        DIR_TEST(link_to_a_folder_is_not_followed),
        DIR_TEST(hidden_folders_are_left_alone),
        DIR_TEST(link_to_nothing_is_refused),
        DIR_TEST(folder_named_like_a_kernel_is_refused),
        DIR_TEST(pipe_named_like_a_kernel_is_refused),
        DIR_TEST(folders_may_be_eight_deep),
        DIR_TEST(directories_have_a_limit_of_bytes),
        DIR_TEST(directories_have_a_limit_of_files),
        DIR_TEST(reading_a_directory_can_be_cancelled),
        DIR_TEST(folders_without_kernels_are_refused),
        DIR_TEST(faults_of_files_are_kept),
        DIR_TEST(a_file_that_is_not_there_is_no_fault),
        DIR_TEST(texts_count_instead_of_files),
        DIR_TEST(a_directory_may_be_empty_where_that_is_said),
    };
    return cmocka_run_group_tests_name("kernel_dirs", tests, NULL, NULL);
}
