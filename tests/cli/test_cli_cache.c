/* cache: files that are listed and removed, and files that are left alone. Also commands with a
 * cache that is damaged, of another driver, or unusable: the answer is the same, and only necessary
 * lines are logged. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/cache_kind.h"
#include "core/base/file.h"
#include "tests/support/process.h"

#define KEY    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define STORY  "generate", "--device", "any", "--temp", "0", "-p", "Once upon a time", "-n", "3"
#define DEVICE "A device, OpenGL ES 3.2 with a driver"
/* DEVICE in a record file. */
#define STORED_DEVICE "A%20device,%20OpenGL%20ES%203.2%20with%20a%20driver"

static char *cache; /* XDG_CACHE_HOME of these cases */
static char *folder;

static int setup(void **state)
{
    (void)state;
    cache = test_tmpdir();
    folder = checked(dgl_path_join(cache, "dopplergl"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_tmpdir_remove(cache);
    free(folder);
    return 0;
}

static void run(struct process_result *r, const char *const *args)
{
    char setting[4096];
    snprintf(setting, sizeof(setting), "XDG_CACHE_HOME=%s", cache);
    const char *const env[] = {setting, NULL};
    process_run(&(struct process_params){.args = args, .env = env}, r);
}

static bool exists(const char *name)
{
    struct stat st;
    char *path = checked(dgl_path_join(folder, name));
    bool found = lstat(path, &st) == 0;
    free(path);
    return found;
}

static void write_file(const char *name, const char *text)
{
    char *path = checked(dgl_path_join(folder, name));
    test_write_file(folder, name, text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
    free(path);
}

/* Files of every kind, and others. */
static void fill(void)
{
    char *target = checked(dgl_path_join(cache, "target"));
    char *link = checked(dgl_path_join(folder, KEY ".tune"));
    char *inner = checked(dgl_path_join(folder, "f" KEY ".prog"));
    assert_int_equal(mkdir(folder, 0700), 0);
    write_file(KEY ".exec", "dopplergl-executors-4 device=" STORED_DEVICE "\n");
    write_file(KEY ".prog", "old");
    write_file(KEY ".prog.tmp-123-ab", "left");
    write_file("f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.tune",
               "dopplergl-tunings-3 device=" STORED_DEVICE "\n");
    write_file(KEY ".judged", "text");
    write_file("hashes", "text");
    /* Not ours. */
    write_file("notes.txt", "mine");
    write_file(KEY, "mine");
    write_file(KEY ".progress", "mine");
    test_write_file(cache, "target", "mine", 4);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    free(target);
    free(link);
    free(inner);
}
#define NUM_OURS   6
#define NUM_OTHERS 5

static uint64_t number(const struct dgl_json *object, const char *key)
{
    return (uint64_t)dgl_json_f64(dgl_json_get(object, key));
}

/* ---- listing and removing -------------------------------------------------------------------- */

static void an_absent_folder_is_empty(void **state)
{
    const char *const ls[] = {"cache", "ls", NULL}, *const path[] = {"cache", "path", NULL};
    const char *const purge[] = {"cache", "purge", NULL};
    struct process_result r;
    (void)state;
    run(&r, ls);
    assert_code(&r, 0);
    assert_no_error(&r);
    assert_contains(r.out, folder);
    process_finish(&r);
    run(&r, path);
    assert_code(&r, 0);
    assert_memory_equal(r.out, folder, strlen(folder));
    assert_string_equal(r.out + strlen(folder), "\n");
    process_finish(&r);
    run(&r, purge);
    assert_code(&r, 0);
    process_finish(&r);
    assert_false(dgl_path_exists(folder)); /* the folder was not created */
}

static void every_kind_is_listed(void **state)
{
    const char *const table[] = {"cache", "ls", NULL}, *const json[] = {"cache", "ls", "--json",
                                                                        NULL};
    const struct {
        const char *kind;
        uint64_t files;
        const char *device;
    } rows[] = {{"programs", 2, NULL},
                {"executors", 1, DEVICE},
                {"tunings", 1, DEVICE},
                {"answers", 1, NULL},
                {"hashes", 1, NULL}};
    struct process_result r;
    (void)state;
    fill();
    run(&r, json);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    const struct dgl_json *kind = dgl_json_first(dgl_json_get(root, "kinds"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, kind = dgl_json_next(kind)) {
        assert_string_equal(dgl_json_str(dgl_json_get(kind, "kind")).p, rows[i].kind);
        if (number(kind, "files") != rows[i].files)
            fail_msg("%s: %llu files, wanted %llu", rows[i].kind,
                     (unsigned long long)number(kind, "files"), (unsigned long long)rows[i].files);
    }
    size_t count = 0;
    const struct dgl_json *files = dgl_json_get(root, "files");
    for (const struct dgl_json *f = dgl_json_first(files); f; f = dgl_json_next(f), count++) {
        const char *name = dgl_json_str(dgl_json_get(f, "kind")).p;
        const struct dgl_str device = dgl_json_str(dgl_json_get(f, "device"));
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            if (strcmp(rows[i].kind, name) == 0 &&
                strcmp(device.p ? device.p : "", rows[i].device ? rows[i].device : "") != 0)
                fail_msg("%s: device %s, wanted %s", name, device.p, rows[i].device);
        assert_true(number(f, "bytes") > 0 && number(f, "modified") > 0);
    }
    assert_int_equal(count, NUM_OURS);
    assert_int_equal(number(root, "others"), NUM_OTHERS);
    process_finish(&r);
    run(&r, table);
    assert_code(&r, 0);
    assert_contains(r.out, DEVICE);
    assert_contains(r.out, "5 other files there are not DopplerGL's");
    process_finish(&r);
}

static void only_what_is_ours_is_removed(void **state)
{
    static const char *const others[] = {"notes.txt", KEY, KEY ".progress", KEY ".tune",
                                         "f" KEY ".prog"};
    const char *const some[] = {"cache", "purge", "tunings", "hashes", "--json", NULL};
    const char *const all[] = {"cache", "purge", NULL};
    struct process_result r;
    struct stat st;
    (void)state;
    fill();
    run(&r, some);
    assert_code(&r, 0);
    assert_int_equal(number(process_json(&r), "files"), 2);
    assert_false(exists("hashes"));
    assert_true(exists(KEY ".prog") && exists(KEY ".exec") && exists(KEY ".judged"));
    process_finish(&r);
    run(&r, all);
    assert_code(&r, 0);
    assert_contains(r.err, "removed 4 files");
    assert_false(exists(KEY ".prog") || exists(KEY ".exec") || exists(KEY ".judged") ||
                 exists(KEY ".prog.tmp-123-ab"));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (!exists(others[i]))
            fail_msg("%s is gone", others[i]);
    char *target = checked(dgl_path_join(cache, "target"));
    assert_int_equal(stat(target, &st), 0);
    free(target);
    process_finish(&r);
}

static void a_folder_that_is_not_private_is_refused(void **state)
{
    const char *const actions[] = {"ls", "purge"};
    (void)state;
    fill();
    assert_int_equal(chmod(folder, 0777), 0);
    for (size_t i = 0; i < 2; i++) {
        const char *const args[] = {"cache", actions[i], NULL};
        struct process_result r;
        run(&r, args);
        assert_code(&r, 1);
        assert_one_error(&r, "lets other users write there");
        process_finish(&r);
    }
    assert_true(exists(KEY ".prog"));
}

static void a_wrong_line_is_refused(void **state)
{
    static const struct {
        const char *args[4];
        const char *part;
    } rows[] = {
        {{"cache", NULL}, "cache"},
        {{"cache", "list", NULL}, "wanted ls, purge or path"},
        {{"cache", "ls", "programs", NULL}, "only purge takes kinds"},
        {{"cache", "purge", "progs", NULL}, "programs, executors, tunings, answers, hashes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct process_result r;
        run(&r, rows[i].args);
        assert_code(&r, 2);
        assert_one_error(&r, rows[i].part);
        process_finish(&r);
    }
}

/* ---- commands with a bad cache -----------------------------------------------------------------
 */

enum damage { CUT, EMPTY, FLIP, OTHER_DRIVER, GARBAGE, DAMAGES };

/* The programs there; with `damage`, each damaged in another way. */
static size_t count_programs(bool damage)
{
    char **names = NULL;
    size_t count = 0, programs = 0, len = 0;
    assert_int_equal(dgl_dir_list(NULL, folder, &names, &count), DGL_OK);
    for (size_t i = 0; i < count; i++) {
        char *path = checked(dgl_path_join(folder, names[i])), *bytes = NULL;
        const bool program = dgl_cache_kind_of(names[i]) == &dgl_cache_kinds[0];
        const enum damage how = (enum damage)(programs % DAMAGES);
        programs += program;
        if (program && damage) {
            assert_int_equal(dgl_file_slurp(NULL, path, 64u << 20, &bytes, &len), DGL_OK);
            if (how == FLIP)
                bytes[len - 1] ^= 1;
            if (how == OTHER_DRIVER) /* as if its key had been this driver's */
                dgl_put_le((unsigned char *)bytes + 12, 0x12345678, 4);
            if (how == GARBAGE)
                memset(bytes, 0xff, len);
            test_write_file(folder, names[i], bytes, how == CUT ? len / 2 : how == EMPTY ? 0 : len);
        }
        free(bytes);
        free(path);
    }
    dgl_names_free(names, count);
    return programs;
}

static void answers_stay_the_same(void **state)
{
    const char *const args[] = {STORY, "-v", NULL};
    struct process_result first, r;
    (void)state;
    run(&first, args);
    assert_code(&first, 0);
    assert_contains(first.err, " 0 found in");
    const size_t programs = count_programs(false);
    if (programs == 0) { /* a driver without program binaries */
        process_finish(&first);
        skip();
    }
    assert_true(programs >= DAMAGES);
    for (int i = 0; i < 3; i++) {
        const bool damaged = i == 1; /* and sound before and after */
        count_programs(damaged);
        run(&r, args);
        assert_code(&r, 0);
        assert_no_error(&r);
        if (strcmp(r.out, first.out) != 0 || damaged != (strstr(r.err, " 0 found in") != NULL))
            fail_msg("run %d: \"%s\", wanted \"%s\"; %s", i, r.out, first.out, r.err);
        assert_int_equal(count_programs(false), programs); /* replaced, not added */
        process_finish(&r);
    }
    process_finish(&first);
}

/* The cache cannot be written: one line reports it, and the answer is the same. */
static void answers_without_a_usable_folder(void **state)
{
    const char *const args[] = {STORY, NULL}, *const ls[] = {"cache", "ls", NULL};
    const bool root = geteuid() == 0;
    (void)state;
    for (int i = root ? 1 : 0; i < 3; i++) {
        struct process_result r;
        if (i == 2)
            test_write_file(cache, "dopplergl", "", 0);
        else
            assert_int_equal(mkdir(folder, 0700), 0);
        assert_int_equal(chmod(folder, i == 0 ? 0500 : 0722), 0);
        run(&r, args);
        assert_code(&r, 0);
        assert_no_error(&r);
        if (i > 0)
            assert_contains(r.err, "compiled programs are not kept");
        process_finish(&r);
        run(&r, ls);
        assert_code(&r, i == 0 ? 0 : 1);
        process_finish(&r);
        assert_int_equal(chmod(folder, 0700), 0);
        assert_int_equal(i == 2 ? unlink(folder) : rmdir(folder), 0);
    }
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_absent_folder_is_empty),       CASE(every_kind_is_listed),
        CASE(only_what_is_ours_is_removed),    CASE(a_folder_that_is_not_private_is_refused),
        CASE(a_wrong_line_is_refused),         CASE(answers_stay_the_same),
        CASE(answers_without_a_usable_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
