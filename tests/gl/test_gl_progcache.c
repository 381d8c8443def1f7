/* Files of the program cache, without a device: valid and invalid entries, and deletion of old
 * ones. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "gl/gl_internal.h"

static const int32_t formats[] = {0x8e21, 7};
static const struct gl_progcache_params driver = {.vendor = "Vendor",
                                                  .renderer = "Renderer",
                                                  .version = "OpenGL ES 3.2 Driver 1.0",
                                                  .formats = formats,
                                                  .num_formats = 2};
static const char source[] = "#version 310 es\nvoid main() {}\n";
static const char binary[] = "these bytes stand for a program";

struct place {
    char *dir;
    struct gl_progcache cache;
    char key[65];
};

static struct gl_progcache open_cache(const char *dir)
{
    struct gl_progcache cache;
    struct gl_progcache_params params = driver;
    params.dir = dir;
    gl_progcache_init(&cache, &params);
    return cache;
}

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    p->dir = test_tmpdir();
    p->cache = open_cache(p->dir);
    *state = p;
    return gl_progcache_key(&p->cache, source, strlen(source), p->key) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    gl_progcache_finish(&p->cache);
    test_tmpdir_remove(p->dir);
    free(p);
    return 0;
}

static bool serves(struct gl_progcache *cache, const char *key)
{
    uint32_t format = 0;
    void *bytes = NULL;
    size_t len = 0;

    if (!gl_progcache_load(cache, key, &format, &bytes, &len))
        return false;
    assert_int_equal(format, 7);
    assert_int_equal(len, sizeof(binary));
    assert_memory_equal(bytes, binary, len);
    free(bytes);
    return true;
}

static void store(struct place *p)
{
    gl_progcache_store(&p->cache, p->key, 7, binary, sizeof(binary));
}

static char *entry_name(const struct place *p)
{
    static char name[80];
    snprintf(name, sizeof(name), "%s.prog", p->key);
    return name;
}

static char *slurp(const struct place *p, size_t *len)
{
    char *path = dgl_path_join(p->dir, entry_name(p)), *bytes = NULL;
    assert_int_equal(dgl_file_slurp(NULL, path, 1u << 20, &bytes, len), DGL_OK);
    free(path);
    return bytes;
}

/* ---- serving --------------------------------------------------------------------------------- */

static void test_store_then_load(void **state)
{
    struct place *p = *state;
    assert_false(serves(&p->cache, p->key));
    store(p);
    assert_true(serves(&p->cache, p->key));
}

static void test_layout(void **state)
{
    struct place *p = *state;
    size_t len = 0;

    store(p);
    char *bytes = slurp(p, &len);
    const unsigned char head[24] = {'D', 'G', 'L', 'P', 'R', 'O', 'G', '\n',          2,
                                    0,   0,   0,   7,   0,   0,   0,   sizeof(binary)};
    assert_int_equal(len, 408 + sizeof(binary));
    assert_memory_equal(bytes, head, sizeof(head));
    assert_memory_equal(bytes + 24, p->key, 64);
    assert_memory_equal(bytes + 408, binary, sizeof(binary));
    free(bytes);
}

static void test_last_writer_wins(void **state)
{
    struct place *p = *state;
    gl_progcache_store(&p->cache, p->key, 9, "older", 5);
    store(p);
    assert_true(serves(&p->cache, p->key));
}

static void test_nothing_is_not_stored(void **state)
{
    struct place *p = *state;
    gl_progcache_store(&p->cache, p->key, 7, binary, 0);
    assert_false(p->cache.stored);
    assert_false(serves(&p->cache, p->key));
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void test_every_bit_counts(void **state)
{
    struct place *p = *state;
    size_t len = 0;

    store(p);
    char *bytes = slurp(p, &len);
    for (size_t i = 0; i < len; i++) {
        bytes[i] ^= (char)(1 << (i % 8));
        test_write_file(p->dir, entry_name(p), bytes, len);
        if (serves(&p->cache, p->key))
            fail_msg("byte %zu was changed and nobody noticed", i);
        bytes[i] ^= (char)(1 << (i % 8));
    }
    test_write_file(p->dir, entry_name(p), bytes, len);
    assert_true(serves(&p->cache, p->key));
    free(bytes);
}

static void test_every_truncation(void **state)
{
    struct place *p = *state;
    size_t len = 0;

    store(p);
    char *bytes = slurp(p, &len);
    for (size_t cut = 0; cut < len; cut++) {
        test_write_file(p->dir, entry_name(p), bytes, cut);
        if (serves(&p->cache, p->key))
            fail_msg("%zu of %zu bytes were taken for the whole", cut, len);
    }
    free(bytes);
}

static void test_trailing_bytes(void **state)
{
    struct place *p = *state;
    size_t len = 0;

    store(p);
    char *bytes = slurp(p, &len);
    bytes = realloc(bytes, len + 4);
    memset(bytes + len, 0, 4);
    test_write_file(p->dir, entry_name(p), bytes, len + 4);
    assert_false(serves(&p->cache, p->key));
    free(bytes);
}

static void test_foreign_entry(void **state)
{
    struct place *p = *state;
    char other[65];
    size_t len = 0;

    store(p);
    char *bytes = slurp(p, &len);
    assert_true(gl_progcache_key(&p->cache, "other", 5, other));
    snprintf(p->key, sizeof(p->key), "%s", other);
    test_write_file(p->dir, entry_name(p), bytes, len); /* a valid entry under the name of another
                                                         * one */
    assert_false(serves(&p->cache, other));
    free(bytes);
}

/* A FIFO counts as absent. Opening it must not wait for a writer. Storing replaces it. */
static void test_entry_is_a_fifo(void **state)
{
    struct place *p = *state;
    char *path = dgl_path_join(p->dir, entry_name(p));
    store(p);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    free(path);
    assert_false(serves(&p->cache, p->key));
    store(p);
    assert_true(serves(&p->cache, p->key));
}

/* A link to a valid entry counts as absent. Storing replaces the link, and its target is not
 * changed. */
static void test_entry_is_a_link(void **state)
{
    struct place *p = *state;
    size_t len = 0, target_len = 0;
    char *path = dgl_path_join(p->dir, entry_name(p)), *target = dgl_path_join(p->dir, "target");

    store(p);
    char *bytes = slurp(p, &len), *now = NULL;
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_false(serves(&p->cache, p->key));
    gl_progcache_store(&p->cache, p->key, 9, "newer", 5);
    assert_false(dgl_path_is_link(path));
    assert_int_equal(dgl_file_slurp(NULL, target, 1u << 20, &now, &target_len), DGL_OK);
    assert_int_equal(target_len, len);
    assert_memory_equal(now, bytes, len);
    free(bytes);
    free(now);
    free(path);
    free(target);
}

/* Nothing is loaded from a folder that others may write. The reason is known before that. */
static void test_folder_is_not_private(void **state)
{
    struct place *p = *state;
    store(p);
    assert_int_equal(chmod(p->dir, 0777), 0);
    struct gl_progcache cache = open_cache(p->dir);
    assert_contains(checked(cache.reason), "mode 0777 lets other users write there");
    assert_false(serves(&cache, p->key));
    gl_progcache_store(&cache, p->key, 7, binary, sizeof(binary));
    assert_false(cache.stored);
    gl_progcache_finish(&cache);
    assert_int_equal(chmod(p->dir, 0700), 0);
    assert_true(serves(&p->cache, p->key));
}

static void test_entry_is_a_directory(void **state)
{
    struct place *p = *state;
    char *path = dgl_path_join(p->dir, entry_name(p));
    assert_int_equal(mkdir(path, 0777), 0);
    assert_false(serves(&p->cache, p->key));
    store(p); /* cannot replace the entry; no error */
    assert_false(serves(&p->cache, p->key));
    free(path);
}

/* ---- keys ------------------------------------------------------------------------------------ */

struct key_case {
    const char *name;
    const char *vendor, *renderer, *version;
    int num_formats;
    const char *text;
    bool same;
};

static const struct key_case keys[] = {
    {"the same driver and source", "Vendor", "Renderer", "OpenGL ES 3.2 Driver 1.0", 2, source,
     true},
    {"another vendor", "Vendor2", "Renderer", "OpenGL ES 3.2 Driver 1.0", 2, source, false},
    {"another renderer", "Vendor", "Renderer 2", "OpenGL ES 3.2 Driver 1.0", 2, source, false},
    {"another driver version", "Vendor", "Renderer", "OpenGL ES 3.2 Driver 1.1", 2, source, false},
    {"other binary formats", "Vendor", "Renderer", "OpenGL ES 3.2 Driver 1.0", 1, source, false},
    {"another source", "Vendor", "Renderer", "OpenGL ES 3.2 Driver 1.0", 2, "#version 310 es\n",
     false},
    {"words moved between fields", "Vendor\nRenderer", "", "OpenGL ES 3.2 Driver 1.0", 2, source,
     false},
};

static void test_key(void **state)
{
    const struct key_case *row = *state;
    struct gl_progcache cache, reference = open_cache("/somewhere");
    char key[65], wanted[65];

    gl_progcache_init(&cache, &(struct gl_progcache_params){.dir = "/elsewhere",
                                                            .vendor = row->vendor,
                                                            .renderer = row->renderer,
                                                            .version = row->version,
                                                            .formats = formats,
                                                            .num_formats = row->num_formats});
    assert_true(gl_progcache_key(&cache, row->text, strlen(row->text), key));
    assert_true(gl_progcache_key(&reference, source, strlen(source), wanted));
    assert_int_equal(strcmp(key, wanted) == 0, row->same);
    gl_progcache_finish(&cache);
    gl_progcache_finish(&reference);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void expect_dir(const char *param, const char *xdg, const char *home, const char *wanted)
{
    xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    struct gl_progcache cache = open_cache(param);
    if (wanted)
        assert_string_equal(cache.dir, wanted);
    else
        assert_null(cache.dir);
    if (!wanted && !param) /* no folder is known, and none was requested */
        assert_contains(cache.reason, "HOME");
    gl_progcache_finish(&cache);
}

static void test_places(void **state)
{
    (void)state;
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    expect_dir("/given", "/xdg", "/home/u", "/given");
    expect_dir(NULL, "/xdg", "/home/u", "/xdg/dopplergl");
    expect_dir(NULL, NULL, "/home/u", "/home/u/.cache/dopplergl");
    expect_dir(NULL, "", "/home/u", "/home/u/.cache/dopplergl");
    expect_dir(NULL, "relative", "/home/u", "/home/u/.cache/dopplergl");
    expect_dir(NULL, NULL, NULL, NULL);
    expect_dir("", "/xdg", "/home/u", NULL);
    if (home)
        setenv("HOME", home, 1);
    free(home);
}

static void test_off(void **state)
{
    (void)state;
    struct gl_progcache cache = open_cache("");
    char key[65];
    assert_false(gl_progcache_key(&cache, source, strlen(source), key));
    gl_progcache_trim(&cache);
    gl_progcache_finish(&cache);
}

static void test_directory_is_made(void **state)
{
    struct place *p = *state;
    char *deep = dgl_path_join(p->dir, "a/b/c");
    struct gl_progcache cache = open_cache(deep);
    gl_progcache_store(&cache, p->key, 7, binary, sizeof(binary));
    assert_true(serves(&cache, p->key));
    gl_progcache_finish(&cache);
    free(deep);
}

/* Runs in a child process. Root can write everywhere, so the child changes to another user, who
 * owns the folder. */
static void test_read_only_directory(void **state)
{
    struct place *p = *state;
    int result = -1;

    store(p);
    p->cache.stored = false;
    char *entry = dgl_path_join(p->dir, entry_name(p));
    assert_int_equal(chmod(p->dir, 0555), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(p->dir, 65534, 65534) | chown(entry, 65534, 65534), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(2);
        gl_progcache_store(&p->cache, p->key, 9, "newer", 5);
        bool prepared = gl_progcache_prepare(&p->cache);
        bool served = serves(&p->cache, p->key); /* a successful load must not clear the reason */
        const char *reason = p->cache.reason ? p->cache.reason : "none";
        if (prepared || !served || !strstr(reason, "Permission denied"))
            printf("# prepared %d, served %d, reason: %s, wanted: 0, 1, Permission denied\n",
                   prepared, served, reason);
        fflush(stdout);
        _exit(p->cache.stored || prepared || !served || !strstr(reason, "Permission denied"));
    }
    assert_int_equal(waitpid(pid, &result, 0), pid);
    if (geteuid() == 0)
        assert_int_equal(chown(p->dir, 0, 0) | chown(entry, 0, 0), 0);
    assert_int_equal(chmod(p->dir, 0755), 0);
    free(entry);
    assert_int_equal(result, 0);
    assert_true(serves(&p->cache, p->key));
    store(p);
    assert_null(p->cache.reason);
}

static void test_directory_below_a_file(void **state)
{
    struct place *p = *state;
    test_write_file(p->dir, "file", "x", 1);
    char *path = dgl_path_join(p->dir, "file/cache");
    struct gl_progcache cache = open_cache(path);
    gl_progcache_store(&cache, p->key, 7, binary, sizeof(binary));
    assert_false(cache.stored);
    assert_false(serves(&cache, p->key));
    gl_progcache_trim(&cache);
    gl_progcache_finish(&cache);
    free(path);
}

/* ---- size ------------------------------------------------------------------------------------ */

static void set_age(const struct place *p, const char *name, int seconds)
{
    char *path = dgl_path_join(p->dir, name);
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

static bool exists(const struct place *p, const char *name)
{
    char *path = dgl_path_join(p->dir, name);
    bool found = dgl_path_exists(path);
    free(path);
    return found;
}

static void test_trim_oldest_first(void **state)
{
    struct place *p = *state;
    char names[4][80];

    for (int i = 0; i < 4; i++) {
        char text[16];
        snprintf(text, sizeof(text), "s%d", i);
        assert_true(gl_progcache_key(&p->cache, text, strlen(text), p->key));
        store(p);
        snprintf(names[i], sizeof(names[i]), "%s", entry_name(p));
        set_age(p, names[i], (i * 7 % 4 + 1) * 100); /* ages 100, 400, 300, 200 */
    }
    p->cache.max_bytes = 2 * (408 + sizeof(binary));
    gl_progcache_trim(&p->cache);
    assert_true(exists(p, names[0]));
    assert_false(exists(p, names[1]));
    assert_false(exists(p, names[2]));
    assert_true(exists(p, names[3]));
}

static void test_use_keeps_young(void **state)
{
    struct place *p = *state;
    char first[65];

    snprintf(first, sizeof(first), "%s", p->key);
    store(p);
    set_age(p, entry_name(p), 1000);
    assert_true(gl_progcache_key(&p->cache, "second", 6, p->key));
    store(p);
    set_age(p, entry_name(p), 500);
    assert_true(serves(&p->cache, first)); /* loading it makes it the younger one */
    p->cache.max_bytes = 408 + sizeof(binary);
    gl_progcache_trim(&p->cache);
    assert_true(serves(&p->cache, first));
    assert_false(serves(&p->cache, p->key));
}

static void test_trim_leaves_others_alone(void **state)
{
    struct place *p = *state;

    test_write_file(p->dir, "notes.txt", "mine", 4);
    test_write_file(p->dir, "short.prog", "mine", 4);
    store(p);
    p->cache.max_bytes = 0;
    gl_progcache_trim(&p->cache);
    assert_false(exists(p, entry_name(p)));
    assert_true(exists(p, "notes.txt"));
    assert_true(exists(p, "short.prog"));
}

static void test_trim_takes_abandoned_temporaries(void **state)
{
    struct place *p = *state;
    char name[96];

    store(p);
    snprintf(name, sizeof(name), "%s.prog.tmp-123-ab", p->key);
    test_write_file(p->dir, name, binary, sizeof(binary));
    set_age(p, name, 5000);
    p->cache.max_bytes = 408 + sizeof(binary);
    gl_progcache_trim(&p->cache);
    assert_false(exists(p, name));
    assert_true(exists(p, entry_name(p)));
}

static void test_trim_only_after_a_store(void **state)
{
    struct place *p = *state;
    store(p);
    p->cache.stored = false;
    p->cache.max_bytes = 0;
    gl_progcache_trim(&p->cache);
    assert_true(exists(p, entry_name(p)));
}

/* ---- several processes ----------------------------------------------------------------------- */

static void test_processes(void **state)
{
    struct place *p = *state;
    enum { WRITERS = 3, ROUNDS = 60 };
    pid_t pids[WRITERS];

    for (int w = 0; w < WRITERS; w++) {
        pids[w] = fork();
        if (pids[w] == 0) {
            for (int i = 0; i < ROUNDS; i++)
                store(p);
            _exit(0);
        }
    }
    for (int i = 0; i < ROUNDS * 4; i++) { /* an entry is complete or absent: serves() compares the
                                            * bytes */
        uint32_t format = 0;
        void *bytes = NULL;
        size_t len = 0;
        if (gl_progcache_load(&p->cache, p->key, &format, &bytes, &len))
            assert_int_equal(len, sizeof(binary));
        free(bytes);
    }
    for (int w = 0; w < WRITERS; w++)
        assert_int_equal(waitpid(pids[w], NULL, 0), pids[w]);
    assert_true(serves(&p->cache, p->key));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_store_then_load),
        CASE(test_layout),
        CASE(test_last_writer_wins),
        CASE(test_nothing_is_not_stored),
        CASE(test_every_bit_counts),
        CASE(test_every_truncation),
        CASE(test_trailing_bytes),
        CASE(test_foreign_entry),
        CASE(test_entry_is_a_directory),
        CASE(test_entry_is_a_fifo),
        CASE(test_entry_is_a_link),
        CASE(test_folder_is_not_private),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_off),
        CASE(test_directory_is_made),
        CASE(test_read_only_directory),
        CASE(test_directory_below_a_file),
        CASE(test_trim_oldest_first),
        CASE(test_use_keeps_young),
        CASE(test_trim_leaves_others_alone),
        CASE(test_trim_takes_abandoned_temporaries),
        CASE(test_trim_only_after_a_store),
        CASE(test_processes),
    };
    int failures = test_run_table("keys", test_key, keys);
    return failures + cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
