/* Tests of cache folders: which folders and files are used, and that links are never followed. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cache_dir.h"
#include "core/base/file.h"

enum { other_user = 65534 };

struct place {
    char *top;  /* private; contains `victim` and the cache folder */
    char *path; /* of the cache folder */
    char *victim;
    int dir; /* the open folder */
};

static int set_up(void **state)
{
    struct place *p = checked(calloc(1, sizeof(*p)));
    char *reason;
    p->top = test_tmpdir();
    p->path = checked(dgl_path_join(p->top, "cache"));
    p->victim = checked(dgl_path_join(p->top, "victim"));
    test_write_file(p->top, "victim", "precious", 8);
    p->dir = dgl_cache_open(p->path, true, &reason);
    assert_null(reason);
    assert_true(p->dir >= 0);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    close(p->dir);
    test_tmpdir_remove(p->top);
    free(p->path);
    free(p->victim);
    free(p);
    return 0;
}

/* Returns the mode of PATH/NAME, without following a link, or 0 if it is absent. */
static unsigned mode_of(const char *path, const char *name)
{
    struct stat st;
    char *full = checked(dgl_path_join(path, name));
    unsigned mode = lstat(full, &st) == 0 ? st.st_mode : 0;
    free(full);
    return mode;
}

static bool put(const struct place *p, const char *text)
{
    const struct dgl_str parts[] = {{text, 1}, {text + 1, strlen(text) - 1}};
    return dgl_cache_write(p->dir, "entry", parts, 2);
}

static void expect_content(const struct place *p, const char *wanted)
{
    char *bytes;
    size_t len;
    bool found = dgl_cache_read(p->dir, "entry", 100, true, &bytes, &len);
    if (wanted && found)
        assert_string_equal(bytes, wanted);
    assert_int_equal(found, wanted != NULL);
    free(bytes);
}

static void expect_victim_untouched(const struct place *p)
{
    char *text;
    size_t len;
    assert_int_equal(dgl_file_slurp(NULL, p->victim, 100, &text, &len), DGL_OK);
    assert_string_equal(text, "precious");
    free(text);
}

static void test_write_then_read(void **state)
{
    struct place *p = *state;
    expect_content(p, NULL);
    assert_true(put(p, "older"));
    assert_true(put(p, "newer"));
    expect_content(p, "newer");
    assert_int_equal(mode_of(p->path, "entry"), S_IFREG | 0600);
    char **names;
    size_t count;
    assert_int_equal(dgl_dir_list(NULL, p->path, &names, &count), DGL_OK);
    assert_int_equal(count, 1); /* the temporary was removed */
    dgl_names_free(names, count);
}

static void test_too_large_is_absent(void **state)
{
    struct place *p = *state;
    char *bytes;
    size_t len;
    assert_true(put(p, "12345"));
    assert_true(dgl_cache_read(p->dir, "entry", 5, false, &bytes, &len));
    assert_int_equal(len, 5);
    free(bytes);
    assert_false(dgl_cache_read(p->dir, "entry", 4, false, &bytes, &len));
    assert_null(bytes);
}

/* ---- entries that are not ours --------------------------------------------------------------- */

struct entry_case {
    const char *name;
    void (*make)(const struct place *p, const char *entry);
    bool replaced; /* a write replaces the existing entry */
};

static void make_link(const struct place *p, const char *entry)
{
    assert_int_equal(symlink(p->victim, entry), 0);
}

static void make_dangling(const struct place *p, const char *entry)
{
    char *nowhere = checked(dgl_path_join(p->top, "nowhere"));
    assert_int_equal(symlink(nowhere, entry), 0);
    free(nowhere);
}

static void make_group_writable(const struct place *p, const char *entry)
{
    test_write_file(p->path, "entry", "planted", 7);
    assert_int_equal(chmod(entry, 0660), 0);
}

static void make_world_writable(const struct place *p, const char *entry)
{
    test_write_file(p->path, "entry", "planted", 7);
    assert_int_equal(chmod(entry, 0602), 0);
}

static void make_foreign(const struct place *p, const char *entry)
{
    test_write_file(p->path, "entry", "planted", 7);
    if (chown(entry, other_user, other_user) != 0)
        SKIP("giving a file to another user needs root");
}

static void make_fifo(const struct place *p, const char *entry)
{
    (void)p;
    assert_int_equal(mkfifo(entry, 0600), 0);
}

static void make_folder(const struct place *p, const char *entry)
{
    (void)p;
    assert_int_equal(mkdir(entry, 0700), 0);
}

static const struct entry_case entry_cases[] = {
    {"a link to a file", make_link, true},
    {"a link to nothing", make_dangling, true},
    {"a file that its group may write", make_group_writable, true},
    {"a file that everyone may write", make_world_writable, true},
    {"a file of another user", make_foreign, true},
    {"a FIFO", make_fifo, true}, /* opening it must not wait for a writer */
    {"a folder", make_folder, false},
};

static void test_entry(void **state)
{
    const struct entry_case *row = *state;
    void *room;
    set_up(&room);
    struct place *p = room;
    char *entry = checked(dgl_path_join(p->path, "entry"));

    row->make(p, entry);
    expect_content(p, NULL);
    errno = 0;
    assert_int_equal(put(p, "ours"), row->replaced);
    if (!row->replaced)
        assert_int_equal(errno, EISDIR);
    expect_content(p, row->replaced ? "ours" : NULL);
    expect_victim_untouched(p);
    assert_int_equal(mode_of(p->top, "nowhere"), 0);
    if (row->replaced)
        assert_int_equal(mode_of(p->path, "entry"), S_IFREG | 0600);
    free(entry);
    tear_down(&room);
}

/* ---- folders --------------------------------------------------------------------------------- */

struct folder_case {
    const char *name;
    unsigned mode;
    int owner;          /* 0 means this user */
    const char *reason; /* NULL if the folder is used */
};

static const struct folder_case folder_cases[] = {
    {"private", 0700, 0, NULL},
    {"others may read", 0755, 0, NULL},
    {"its group may write", 0775, 0, "mode 0775 lets other users write there; chmod 700 it"},
    {"everyone may write", 0777, 0, "mode 0777 lets other users write there"},
    {"as /tmp", 01777, 0, "mode 1777 lets other users write there"},
    {"of another user", 0755, other_user, "it belongs to user 65534, wanted "},
};

static void test_folder(void **state)
{
    const struct folder_case *row = *state;
    void *room;
    char *reason;
    set_up(&room);
    struct place *p = room;

    if (row->owner && chown(p->path, (uid_t)row->owner, (gid_t)-1) != 0) {
        tear_down(&room);
        SKIP("giving a folder to another user needs root");
    }
    assert_int_equal(chmod(p->path, row->mode), 0);
    int dir = dgl_cache_open(p->path, true, &reason);
    assert_int_equal(dir >= 0, row->reason == NULL);
    if (row->reason) {
        assert_contains(checked(reason), p->path);
        assert_contains(reason, row->reason);
    } else {
        assert_null(reason);
        close(dir);
    }
    assert_int_equal(mode_of(p->top, "cache"), S_IFDIR | row->mode);
    free(reason);
    tear_down(&room);
}

/* New folders are private even if the umask allows more. */
static void test_folders_are_made_private(void **state)
{
    struct place *p = *state;
    char *reason, *deep = checked(dgl_path_join(p->top, "a/b")), *a = dgl_path_join(p->top, "a");
    mode_t before = umask(0);
    assert_int_equal(dgl_cache_open(deep, false, &reason), -1);
    assert_null(reason);
    assert_int_equal(mode_of(p->top, "a"), 0);
    int dir = dgl_cache_open(deep, true, &reason);
    umask(before);
    assert_true(dir >= 0);
    assert_int_equal(mode_of(p->top, "a"), S_IFDIR | 0700);
    assert_int_equal(mode_of(checked(a), "b"), S_IFDIR | 0700);
    close(dir);
    free(deep);
    free(a);
}

/* The home may be on another disk, so the path to the folder may contain links. */
static void test_path_through_a_link(void **state)
{
    struct place *p = *state;
    char *reason, *link = checked(dgl_path_join(p->top, "link"));
    assert_int_equal(symlink(p->path, link), 0);
    int dir = dgl_cache_open(link, false, &reason);
    assert_true(dir >= 0);
    close(dir);
    free(link);
}

static void test_folder_is_a_file(void **state)
{
    struct place *p = *state;
    char *reason;
    assert_int_equal(dgl_cache_open(p->victim, true, &reason), -1);
    assert_contains(checked(reason), "victim: Not a directory");
    free(reason);
    char *below = checked(dgl_path_join(p->victim, "cache"));
    assert_int_equal(dgl_cache_open(below, true, &reason), -1);
    assert_contains(checked(reason), "victim/cache: Not a directory");
    free(reason);
    free(below);
}

static void test_stat_and_remove(void **state)
{
    struct place *p = *state;
    uint64_t size = 0;
    struct timespec modified;
    assert_true(put(p, "12345"));
    assert_true(dgl_cache_stat(p->dir, "entry", &size, &modified));
    assert_int_equal(size, 5);
    assert_true(dgl_cache_remove(p->dir, "entry"));
    assert_false(dgl_cache_stat(p->dir, "entry", &size, &modified));
    char *entry = checked(dgl_path_join(p->path, "entry"));
    make_link(p, entry);
    assert_false(dgl_cache_stat(p->dir, "entry", &size, &modified));
    assert_true(dgl_cache_remove(p->dir, "entry"));
    expect_victim_untouched(p);
    free(entry);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_write_then_read),          CASE(test_too_large_is_absent),
        CASE(test_folders_are_made_private), CASE(test_path_through_a_link),
        CASE(test_folder_is_a_file),         CASE(test_stat_and_remove),
    };
    int failures = test_run_table("entries", test_entry, entry_cases);
    failures += test_run_table("folders", test_folder, folder_cases);
    return failures + cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
