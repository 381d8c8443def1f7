/* Tests of files: reading, listing, directories, and atomic writes. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/file.h"

/* Folder and log of one case. */
struct room {
    char *dir;
    char path[4096]; /* last path built by in_room() */
    struct test_log t;
};

static int enter(void **state)
{
    struct room *room = calloc(1, sizeof(*room));
    assert_non_null(room);
    room->dir = test_tmpdir();
    test_log_init(&room->t, DGL_LOG_INFO);
    *state = room;
    return 0;
}

static int leave(void **state)
{
    struct room *room = *state;
    test_tmpdir_remove(room->dir);
    free(room);
    return 0;
}

static const char *in_room(struct room *room, const char *name)
{
    snprintf(room->path, sizeof(room->path), "%s/%s", room->dir, name);
    return room->path;
}

static size_t entries(struct room *room)
{
    char **names;
    size_t count;
    assert_int_equal(dgl_dir_list(&room->t.log, room->dir, &names, &count), DGL_OK);
    dgl_names_free(names, count);
    return count;
}

static void assert_content(const char *path, const char *want)
{
    char *text;
    size_t len;
    assert_int_equal(dgl_file_slurp(NULL, path, 1 << 20, &text, &len), DGL_OK);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
    free(text);
}

static void read_gives_the_bytes_asked_for(void **state)
{
    struct room *room = *state;
    struct dgl_file *file;
    char bytes[8] = "........";
    test_write_file(room->dir, "f", "0123456789", 10);
    assert_int_equal(dgl_file_open(&room->t.log, in_room(room, "f"), &file), DGL_OK);
    assert_true(dgl_file_size(file) == 10);
    assert_string_equal(dgl_file_path(file), room->path);
    assert_int_equal(dgl_file_read(&room->t.log, file, 3, bytes, 5), DGL_OK);
    assert_memory_equal(bytes, "34567...", 8);
    assert_int_equal(dgl_file_read(&room->t.log, file, 10, bytes, 0), DGL_OK);
    dgl_file_close(&file);
    assert_null(file);
    dgl_file_close(&file);
}

static void read_beyond_the_end_names_both_sizes(void **state)
{
    struct room *room = *state;
    struct dgl_file *file;
    char bytes[8];
    test_write_file(room->dir, "f", "0123456789", 10);
    assert_int_equal(dgl_file_open(&room->t.log, in_room(room, "f"), &file), DGL_OK);
    assert_int_equal(dgl_file_read(&room->t.log, file, 7, bytes, 5), DGL_ERR_IO);
    assert_contains(room->t.text, "ends at byte 10, needed 12 bytes");
    assert_int_equal(dgl_file_read(&room->t.log, file, UINT64_MAX, bytes, 5), DGL_ERR_IO);
    assert_int_equal(dgl_file_read(&room->t.log, file, INT64_MAX, bytes, 5), DGL_ERR_IO);
    assert_int_equal(room->t.errors, 3);
    dgl_file_close(&file);
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    struct room *room = *state;
    struct dgl_file *file;
    char bytes[10];
    test_write_file(room->dir, "f", "0123456789", 10);
    assert_int_equal(dgl_file_open(&room->t.log, in_room(room, "f"), &file), DGL_OK);
    assert_int_equal(truncate(room->path, 4), 0);
    assert_int_equal(dgl_file_read(&room->t.log, file, 0, bytes, 10), DGL_ERR_IO);
    assert_contains(room->t.text, "ends at byte 4");
    dgl_file_close(&file);
}

static void open_refuses_what_is_no_file(void **state)
{
    struct room *room = *state;
    struct dgl_file *file;
    assert_int_equal(dgl_file_open(&room->t.log, in_room(room, "none"), &file), DGL_ERR_IO);
    assert_contains(room->t.text, "No such file or directory; check the path");
    assert_null(file);
    assert_int_equal(dgl_file_open(&room->t.log, room->dir, &file), DGL_ERR_IO);
    assert_contains(room->t.text, "it is a directory, wanted a regular file");
    assert_null(file);
    /* Without O_NONBLOCK this open() would wait for a writer forever. */
    assert_int_equal(mkfifo(in_room(room, "fifo"), 0600), 0);
    assert_int_equal(dgl_file_open(&room->t.log, room->path, &file), DGL_ERR_IO);
    assert_contains(room->t.text, "a device, pipe or socket");
    assert_null(file);
    assert_int_equal(room->t.errors, 3);
}

/* Root may read all files, so root switches to another user here. */
static void open_reports_missing_permission(void **state)
{
    struct room *room = *state;
    struct dgl_file *file;
    bool root = geteuid() == 0;
    test_write_file(room->dir, "f", "x", 1);
    assert_int_equal(chmod(room->dir, 0755), 0);
    assert_int_equal(chmod(in_room(room, "f"), 0), 0);
    if (root && seteuid(65534) != 0)
        SKIP("cannot act as another user");
    enum dgl_status status = dgl_file_open(&room->t.log, room->path, &file);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, DGL_ERR_IO);
    assert_contains(room->t.text, "Permission denied; check its permissions");
}

static void slurp_reads_to_the_end(void **state)
{
    struct room *room = *state;
    char *text;
    size_t len;
    test_write_file(room->dir, "f", "a\0b", 3);
    assert_int_equal(dgl_file_slurp(&room->t.log, in_room(room, "f"), 3, &text, &len), DGL_OK);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    test_write_file(room->dir, "empty", "", 0);
    assert_int_equal(dgl_file_slurp(&room->t.log, in_room(room, "empty"), 0, &text, &len), DGL_OK);
    assert_string_equal(text, "");
    free(text);
}

static void slurp_refuses_large_files(void **state)
{
    struct room *room = *state;
    char *text;
    size_t len;
    test_write_file(room->dir, "f", "0123456789", 10);
    assert_int_equal(dgl_file_slurp(&room->t.log, in_room(room, "f"), 9, &text, &len),
                     DGL_ERR_FORMAT);
    assert_contains(room->t.text, "10 bytes, wanted at most 9");
    assert_null(text);
    /* /dev/zero has no size and no end. */
    assert_int_equal(dgl_stream_slurp(&room->t.log, "/dev/zero", 200000, &text, &len),
                     DGL_ERR_FORMAT);
    assert_contains(room->t.text, "more than 200000 bytes");
    assert_null(text);
}

static void slurp_reads_files_without_a_size(void **state)
{
    struct room *room = *state;
    char *text;
    size_t len;
    assert_int_equal(dgl_file_slurp(&room->t.log, "/proc/self/status", 1 << 20, &text, &len),
                     DGL_OK);
    assert_contains(text, "VmSize");
    assert_int_equal(strlen(text), len);
    free(text);
}

static void slurp_refuses_what_is_no_file(void **state)
{
    struct room *room = *state;
    char *text;
    size_t len;
    assert_int_equal(dgl_file_slurp(&room->t.log, room->dir, 100, &text, &len), DGL_ERR_IO);
    assert_contains(room->t.text, "it is a directory, wanted a regular file");
    assert_null(text);
    assert_int_equal(dgl_stream_slurp(&room->t.log, room->dir, 100, &text, &len), DGL_ERR_IO);
    assert_contains(room->t.text, "Is a directory");
    assert_null(text);
    /* Without O_NONBLOCK this open() would wait for a writer forever. */
    assert_int_equal(mkfifo(in_room(room, "fifo"), 0600), 0);
    assert_int_equal(dgl_file_slurp(&room->t.log, room->path, 100, &text, &len), DGL_ERR_IO);
    assert_contains(room->t.text, "a device, pipe or socket, wanted a regular file");
    assert_null(text);
    assert_int_equal(room->t.errors, 3);
}

static void *write_slowly(void *path)
{
    int fd = open(path, O_WRONLY);
    assert_int_equal(write(fd, "one ", 4), 4);
    usleep(20000);
    assert_int_equal(write(fd, "two", 3), 3);
    close(fd);
    return NULL;
}

static void streams_are_waited_for(void **state)
{
    struct room *room = *state;
    pthread_t writer;
    char *text;
    size_t len;
    assert_int_equal(mkfifo(in_room(room, "fifo"), 0600), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_slowly, room->path), 0);
    enum dgl_status status = dgl_stream_slurp(&room->t.log, room->path, 100, &text, &len);
    pthread_join(writer, NULL);
    assert_int_equal(status, DGL_OK);
    assert_string_equal(text, "one two");
    assert_int_equal(len, 7);
    free(text);
}

static void let_waiting_end(int number)
{
    (void)number;
}

/* No process writes to the FIFO. The signal arrives once while opening, and once while reading,
 * with the other end held open here. */
static void a_signal_ends_waiting_for_a_stream(void **state)
{
    struct room *room = *state;
    const struct sigaction action = {.sa_handler = let_waiting_end};
    const struct itimerval soon = {{0, 20000}, {0, 20000}}, never = {0};
    struct sigaction before;
    char *text;
    size_t len;
    assert_int_equal(mkfifo(in_room(room, "fifo"), 0600), 0);
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &soon, NULL);
    enum dgl_status opening = dgl_stream_slurp(&room->t.log, room->path, 100, &text, &len);
    int fd = open(room->path, O_RDWR);
    enum dgl_status reading = dgl_stream_slurp(&room->t.log, room->path, 100, &text, &len);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    close(fd);
    assert_int_equal(opening, DGL_ERR_CANCELLED);
    assert_int_equal(reading, DGL_ERR_CANCELLED);
    assert_contains(room->t.text, "was cancelled");
    assert_null(text);
}

static void paths_are_joined(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}, {"a", "", "a/"}};
    for (size_t i = 0; i < 5; i++) {
        char *path = dgl_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        free(path);
    }
}

struct name_case {
    const char *name, *text;
    size_t len;
    bool safe, inside; /* as a name, as a path */
};

static const struct name_case name_cases[] = {
    {"name: plain", "shard_00000.bin", 15, true, true},
    {"name: hidden", ".hidden", 7, true, true},
    {"name: three dots", "...", 3, true, true},
    {"name: UTF-8", "\xC3\xA9", 2, true, true},
    {"name: empty", "", 0, false, false},
    {"name: dot", ".", 1, false, true},
    {"name: dot dot", "..", 2, false, false},
    {"name: parent", "../x", 4, false, false},
    {"name: absolute", "/etc/passwd", 11, false, false},
    {"name: folder", "a/b", 3, false, true},
    {"name: trailing slash", "a/", 2, false, true},
    {"name: folders", "./a//b/.c", 9, false, true},
    {"name: parent inside", "a/../b", 6, false, false},
    {"name: parent at the end", "a/..", 4, false, false},
    {"name: NUL inside", "a\0b", 3, false, false},
};

static void check_name(void **state)
{
    const struct name_case *c = *state;
    assert_int_equal(dgl_name_is_safe(c->text, c->len), c->safe);
    assert_int_equal(dgl_path_is_inside(c->text, c->len), c->inside);
}

static void names_have_at_most_255_bytes(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', sizeof(name));
    assert_true(dgl_name_is_safe(name, 255));
    assert_false(dgl_name_is_safe(name, 256));
}

static void listing_is_sorted(void **state)
{
    struct room *room = *state;
    static const char *const made[] = {"b", "a10", "a2", ".x", "B"};
    static const char *const want[] = {".x", "B", "a10", "a2", "b"};
    char **names;
    size_t count;
    for (size_t i = 0; i < 5; i++)
        test_write_file(room->dir, made[i], "", 0);
    assert_int_equal(dgl_dir_list(&room->t.log, room->dir, &names, &count), DGL_OK);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(names[i], want[i]);
    dgl_names_free(names, count);
}

static void listing_what_is_no_directory_fails(void **state)
{
    struct room *room = *state;
    char **names;
    size_t count;
    test_write_file(room->dir, "f", "", 0);
    assert_int_equal(dgl_dir_list(&room->t.log, in_room(room, "f"), &names, &count), DGL_ERR_IO);
    assert_contains(room->t.text, "Not a directory");
    assert_null(names);
    assert_int_equal(count, 0);
}

static void directories_are_made_with_parents(void **state)
{
    struct room *room = *state;
    assert_int_equal(dgl_dir_make(&room->t.log, in_room(room, "a/b//c/")), DGL_OK);
    assert_true(dgl_path_is_dir(in_room(room, "a/b/c")));
    assert_int_equal(dgl_dir_make(&room->t.log, in_room(room, "a/b/c")), DGL_OK);
    assert_int_equal(dgl_dir_make(&room->t.log, "/"), DGL_OK);
    test_write_file(room->dir, "f", "", 0);
    assert_int_equal(dgl_dir_make(&room->t.log, in_room(room, "f/g")), DGL_ERR_IO);
    assert_int_equal(room->t.errors, 1);
}

static void removal_is_recursive_and_follows_no_link(void **state)
{
    struct room *room = *state;
    assert_int_equal(dgl_dir_make(&room->t.log, in_room(room, "keep")), DGL_OK);
    test_write_file(room->path, "precious", "x", 1);
    assert_int_equal(dgl_dir_make(&room->t.log, in_room(room, "gone/deep/deeper")), DGL_OK);
    test_write_file(room->path, "f", "x", 1);
    assert_int_equal(symlink("../keep", in_room(room, "gone/link")), 0);
    assert_int_equal(symlink("keep", in_room(room, "link")), 0);
    dgl_dir_remove(in_room(room, "gone"));
    assert_false(dgl_path_exists(room->path));
    dgl_dir_remove(in_room(room, "link"));
    assert_false(dgl_path_exists(room->path));
    assert_true(dgl_path_exists(in_room(room, "keep/precious")));
    dgl_dir_remove(in_room(room, "never-was"));
}

static void commit_replaces_the_file(void **state)
{
    struct room *room = *state;
    struct dgl_atomic_file *file;
    struct stat st;
    test_write_file(room->dir, "f", "old", 3);
    mode_t mask = umask(027);
    assert_int_equal(dgl_atomic_create(&room->t.log, in_room(room, "f"), &file), DGL_OK);
    umask(mask);
    assert_int_equal(dgl_atomic_write(file, "ne", 2), DGL_OK);
    assert_int_equal(dgl_atomic_write(file, "w", 1), DGL_OK);
    assert_content(room->path, "old");
    assert_int_equal(dgl_atomic_commit(&file), DGL_OK);
    assert_null(file);
    assert_content(room->path, "new");
    assert_int_equal(stat(room->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(entries(room), 1);
}

static void abort_leaves_nothing(void **state)
{
    struct room *room = *state;
    struct dgl_atomic_file *file;
    test_write_file(room->dir, "f", "old", 3);
    assert_int_equal(dgl_atomic_create(&room->t.log, in_room(room, "f"), &file), DGL_OK);
    assert_int_equal(dgl_atomic_write(file, "new", 3), DGL_OK);
    assert_int_equal(entries(room), 2);
    dgl_atomic_abort(&file);
    assert_null(file);
    dgl_atomic_abort(&file);
    assert_content(room->path, "old");
    assert_int_equal(entries(room), 1);
}

/* A writer in another container has an unknown process id here; the lock shows that it is
 * active. */
static void a_file_in_the_making_is_locked(void **state)
{
    struct room *room = *state;
    struct dgl_atomic_file *file;
    char **names;
    size_t count;
    assert_int_equal(dgl_atomic_create(&room->t.log, in_room(room, "f"), &file), DGL_OK);
    assert_int_equal(dgl_dir_list(NULL, room->dir, &names, &count), DGL_OK);
    assert_int_equal(count, 1);
    int fd = open(in_room(room, names[0]), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    dgl_atomic_abort(&file);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
    dgl_names_free(names, count);
}

static void two_writers_do_not_meet(void **state)
{
    struct room *room = *state;
    struct dgl_atomic_file *a, *b;
    assert_int_equal(dgl_atomic_create(&room->t.log, in_room(room, "f"), &a), DGL_OK);
    assert_int_equal(dgl_atomic_create(&room->t.log, in_room(room, "f"), &b), DGL_OK);
    assert_int_equal(dgl_atomic_write(a, "from a", 6), DGL_OK);
    assert_int_equal(dgl_atomic_write(b, "from b", 6), DGL_OK);
    assert_int_equal(dgl_atomic_commit(&a), DGL_OK);
    assert_content(room->path, "from a");
    assert_int_equal(dgl_atomic_commit(&b), DGL_OK);
    assert_content(room->path, "from b");
    assert_int_equal(entries(room), 1);
}

/* A file size limit replaces a full disk: both let write() fail halfway. */
static void a_full_disk_leaves_nothing(void **state)
{
    struct room *room = *state;
    struct dgl_atomic_file *file;
    struct rlimit before, small;
    char bytes[8192] = {0};
    test_write_file(room->dir, "f", "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(dgl_atomic_create(&room->t.log, in_room(room, "f"), &file), DGL_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum dgl_status first = dgl_atomic_write(file, bytes, sizeof(bytes));
    enum dgl_status second = dgl_atomic_write(file, bytes, sizeof(bytes));
    enum dgl_status third = dgl_atomic_write(file, "x", 1);
    enum dgl_status commit = dgl_atomic_commit(&file);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(first, DGL_OK);
    assert_int_equal(second, DGL_ERR_IO);
    assert_int_equal(third, DGL_ERR_IO);
    assert_int_equal(commit, DGL_ERR_IO);
    assert_contains(room->t.text, "File too large; raise the limit on files' sizes (ulimit -f)");
    assert_contains(room->t.text, "/f: "); /* the user's path, not the path of the temporary */
    assert_int_equal(room->t.errors, 1);
    assert_null(file);
    assert_content(room->path, "old");
    assert_int_equal(entries(room), 1);
}

static void create_in_a_missing_folder_fails(void **state)
{
    struct room *room = *state;
    struct dgl_atomic_file *file;
    assert_int_equal(dgl_atomic_create(&room->t.log, in_room(room, "none/f"), &file), DGL_ERR_IO);
    assert_contains(room->t.text, "/none/f: No such file or directory; check the path");
    assert_null(file);
    assert_int_equal(room->t.errors, 1);
}

static void commit_over_a_directory_fails_cleanly(void **state)
{
    struct room *room = *state;
    struct dgl_atomic_file *file;
    assert_int_equal(dgl_dir_make(&room->t.log, in_room(room, "d")), DGL_OK);
    assert_int_equal(dgl_atomic_create(&room->t.log, room->path, &file), DGL_OK);
    assert_int_equal(dgl_atomic_commit(&file), DGL_ERR_IO);
    assert_contains(room->t.text, "replace ");
    assert_null(file);
    assert_int_equal(entries(room), 1);
}

#define ROOM_TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

/* If the user's path is a link, its target is replaced and the link stays. */
static void atomic_write_follows_links(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *text = NULL;
    char *target = dgl_path_join(dir, "target"), *link = dgl_path_join(dir, "link");
    struct dgl_atomic_file *file = NULL;
    struct stat st;
    size_t len = 0;
    test_write_file(dir, "target", "old", 3);
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(dgl_atomic_create(NULL, link, &file), DGL_OK);
    assert_int_equal(dgl_atomic_write(file, "new", 3), DGL_OK);
    assert_int_equal(dgl_atomic_commit(&file), DGL_OK);
    assert_int_equal(dgl_file_slurp(NULL, target, 100, &text, &len), DGL_OK);
    assert_string_equal(text, "new");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    free(text);
    free(target);
    free(link);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROOM_TEST(read_gives_the_bytes_asked_for),
        ROOM_TEST(read_beyond_the_end_names_both_sizes),
        ROOM_TEST(a_file_that_shrinks_is_an_error),
        ROOM_TEST(open_refuses_what_is_no_file),
        ROOM_TEST(open_reports_missing_permission),
        ROOM_TEST(slurp_reads_to_the_end),
        ROOM_TEST(slurp_refuses_large_files),
        ROOM_TEST(slurp_reads_files_without_a_size),
        ROOM_TEST(slurp_refuses_what_is_no_file),
        ROOM_TEST(streams_are_waited_for),
        ROOM_TEST(a_signal_ends_waiting_for_a_stream),
        cmocka_unit_test(atomic_write_follows_links),
        cmocka_unit_test(paths_are_joined),
        cmocka_unit_test(names_have_at_most_255_bytes),
        ROOM_TEST(listing_is_sorted),
        ROOM_TEST(listing_what_is_no_directory_fails),
        ROOM_TEST(directories_are_made_with_parents),
        ROOM_TEST(removal_is_recursive_and_follows_no_link),
        ROOM_TEST(commit_replaces_the_file),
        ROOM_TEST(abort_leaves_nothing),
        ROOM_TEST(a_file_in_the_making_is_locked),
        ROOM_TEST(two_writers_do_not_meet),
        ROOM_TEST(a_full_disk_leaves_nothing),
        ROOM_TEST(create_in_a_missing_folder_fails),
        ROOM_TEST(commit_over_a_directory_fails_cleanly),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL) +
           test_run_table("names", check_name, name_cases);
}
