/* Tests of record files: values are read back, bad files are refused, and several processes can
 * share a file. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cache_dir.h"
#include "core/base/file.h"
#include "core/base/record_file.h"
#include "tests/support/record_edit.h"

enum { other_user = 65534, most = 8 };

struct sample {
    uint32_t small;
    uint64_t large;
    int64_t time;
    double ratio;
    char word[16];
    char *text;
};

static const struct dgl_field fields[] = {
    {"small", DGL_FIELD_U32, offsetof(struct sample, small), 100},
    {"large", DGL_FIELD_U64, offsetof(struct sample, large), UINT64_MAX},
    {"time", DGL_FIELD_U64, offsetof(struct sample, time), UINT64_MAX},
    {"ratio", DGL_FIELD_F64, offsetof(struct sample, ratio), 0},
    {"word", DGL_FIELD_CHARS, offsetof(struct sample, word), 16},
    {"text", DGL_FIELD_TEXT, offsetof(struct sample, text), 0},
};
static const struct dgl_record_format format = {.name = "samples-1",
                                                .suffix = "samples",
                                                .fields = fields,
                                                .num_fields = sizeof(fields) / sizeof(fields[0]),
                                                .max_records = most,
                                                .max_bytes = 4096};

static char *dir; /* of the current case */

static int set_up(void **state)
{
    (void)state;
    dir = test_tmpdir();
    assert_int_equal(chmod(dir, 0700), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    chmod(dir, 0700);
    test_tmpdir_remove(dir);
    return 0;
}

static void open_records(struct dgl_records *r, enum dgl_records_state wanted)
{
    assert_int_equal(dgl_records_open(r, &format, dir, NULL), wanted);
}

static void put(struct dgl_records *r, const char *key, uint32_t small)
{
    assert_true(dgl_records_put(r, key, &(struct sample){.small = small, .text = ""}));
}

/* Returns the number in a record, or -1 if the record is absent. */
static int small_of(const struct dgl_records *r, const char *key)
{
    struct sample got = {0};
    const struct dgl_record *record = dgl_records_find(r, key);
    const bool ok = record && dgl_records_get(r, record, &got);
    free(got.text);
    return ok ? (int)got.small : -1;
}

/* Stores records 1 and 2 under "one" and "two". */
static void store_two(void)
{
    struct dgl_records r;
    open_records(&r, DGL_RECORDS_ABSENT);
    put(&r, "one", 1);
    put(&r, "two", 2);
    assert_true(dgl_records_store(&r, "a device, 1.0", NULL));
    dgl_records_finish(&r);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const struct value_case {
    const char *name, *key;
    struct sample value;
} values[] = {
    {"zeros", "k", {.text = ""}},
    {"largest", "k", {100, UINT64_MAX, INT64_MAX, 1.7976931348623157e308, "fifteen letters", "x"}},
    {"negative", "k", {.time = INT64_MIN, .ratio = -0.1, .text = "a"}},
    {"separators", "a key=%20\n\x7f", {.word = " = % \n\t", .text = "WG_SIZE=128 EACH=2\r\n"}},
    {"UTF-8", "schlüssel", {.word = "größe", .text = "„é“"}},
};

static void values_come_back(void **state)
{
    const struct value_case *c = *state;
    struct sample got = {0};
    struct dgl_records r;
    open_records(&r, DGL_RECORDS_ABSENT);
    assert_true(dgl_records_put(&r, "first", &values[0].value));
    assert_true(dgl_records_put(&r, c->key, &c->value));
    assert_true(dgl_records_store(&r, NULL, NULL));
    dgl_records_finish(&r);
    open_records(&r, DGL_RECORDS_READ);
    assert_int_equal(r.count, 2);
    const struct dgl_record *record = dgl_records_find(&r, c->key);
    assert_non_null(record);
    assert_true(dgl_records_get(&r, record, &got));
    assert_int_equal(got.small, c->value.small);
    assert_true(got.large == c->value.large && got.time == c->value.time);
    assert_near(got.ratio, c->value.ratio, 0);
    assert_string_equal(got.word, c->value.word);
    assert_string_equal(got.text, c->value.text);
    assert_null(dgl_records_find(&r, "another"));
    free(got.text);
    dgl_records_finish(&r);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const struct file_case {
    const char *name;
    const char *find, *replace; /* replaced in the file, whose checksum is then corrected */
    int flip;                   /* byte in which one bit is flipped; 0 flips no bit */
    int cut;                    /* number of bytes removed at the end */
    bool longer, link, foreign;
    int file_mode, dir_mode;
    enum dgl_records_state state;
    int one; /* expected small_of("one") */
} files[] = {
    {.name = "as stored", .state = DGL_RECORDS_READ, .one = 1},
    {.name = "edited",
     .find = "small=1",
     .replace = "small=7",
     .state = DGL_RECORDS_READ,
     .one = 7},
    {.name = "a field too large",
     .find = "small=1",
     .replace = "small=101",
     .state = DGL_RECORDS_READ,
     .one = -1},
    {.name = "a field that is no number",
     .find = "small=1",
     .replace = "small=x",
     .state = DGL_RECORDS_READ,
     .one = -1},
    {.name = "a field is absent",
     .find = "small=1",
     .replace = "smell=1",
     .state = DGL_RECORDS_READ,
     .one = -1},
    {.name = "an array that is too long",
     .find = "word=",
     .replace = "word=0123456789abcdef",
     .state = DGL_RECORDS_READ,
     .one = -1},
    {.name = "a NUL in a field",
     .find = "word=",
     .replace = "word=%00",
     .state = DGL_RECORDS_READ,
     .one = -1},
    {.name = "a broken escape",
     .find = "text=",
     .replace = "text=%4",
     .state = DGL_RECORDS_READ,
     .one = -1},
    {.name = "a field of the future",
     .find = "small=1",
     .replace = "small=1 new=3",
     .state = DGL_RECORDS_READ,
     .one = 1},
    {.name = "a broken key", .find = "one", .replace = "%zz", .state = DGL_RECORDS_DAMAGED},
    {.name = "another format",
     .find = "samples-1",
     .replace = "samples-2",
     .state = DGL_RECORDS_DAMAGED},
    {.name = "too many records",
     .find = "one ",
     .replace = "a x\nb x\nc x\nd x\ne x\nf x\ng x\none ",
     .state = DGL_RECORDS_READ,
     .one = 1},
    {.name = "the first bit", .flip = 1, .state = DGL_RECORDS_DAMAGED},
    {.name = "a bit of a record", .flip = 50, .state = DGL_RECORDS_DAMAGED},
    {.name = "without its end", .cut = 1, .state = DGL_RECORDS_DAMAGED},
    {.name = "half", .cut = 120, .state = DGL_RECORDS_DAMAGED},
    {.name = "longer", .longer = true, .state = DGL_RECORDS_DAMAGED},
    {.name = "others may write it", .file_mode = 0666, .state = DGL_RECORDS_ABSENT},
    {.name = "others may write in the folder", .dir_mode = 0777, .state = DGL_RECORDS_ABSENT},
    {.name = "a link", .link = true, .state = DGL_RECORDS_ABSENT},
    {.name = "of another user", .foreign = true, .state = DGL_RECORDS_ABSENT},
};

static void a_file_is_read_or_refused(void **state)
{
    const struct file_case *c = *state;
    char *path = checked(dgl_path_join(dir, "samples")), *bytes = NULL;
    struct dgl_records r;
    size_t len = 0;
    store_two();
    if (c->find)
        test_record_edit(dir, "samples", c->find, c->replace);
    assert_int_equal(dgl_file_slurp(NULL, path, 4096, &bytes, &len), DGL_OK);
    if (c->flip)
        bytes[c->flip - 1] ^= 1;
    if (c->longer)
        bytes[len] = 'x'; /* replaces the NUL */
    test_write_file(dir, "samples", bytes, len - (size_t)c->cut + c->longer);
    assert_int_equal(chmod(path, c->file_mode ? (mode_t)c->file_mode : 0600), 0);
    if (c->link) {
        char *target = checked(dgl_path_join(dir, "target"));
        assert_int_equal(rename(path, target), 0);
        assert_int_equal(symlink("target", path), 0);
        free(target);
    }
    if (c->dir_mode)
        assert_int_equal(chmod(dir, (mode_t)c->dir_mode), 0);
    const bool skipped = c->foreign && chown(path, other_user, other_user) != 0;
    if (!skipped) {
        open_records(&r, c->state);
        assert_int_equal(small_of(&r, "one"), c->state == DGL_RECORDS_READ ? c->one : -1);
        assert_int_equal(small_of(&r, "two"), c->state == DGL_RECORDS_READ ? 2 : -1);
        /* Storing replaces a damaged file by a valid one, unless the folder is not private. */
        put(&r, "three", 3);
        assert_int_equal(dgl_records_store(&r, NULL, NULL), !c->dir_mode);
        dgl_records_finish(&r);
        open_records(&r, c->dir_mode ? DGL_RECORDS_ABSENT : DGL_RECORDS_READ);
        assert_int_equal(small_of(&r, "three"), c->dir_mode ? -1 : 3);
        dgl_records_finish(&r);
    }
    free(bytes);
    free(path);
    if (skipped)
        SKIP("only root can give a file to another user");
}

/* ---- several processes ----------------------------------------------------------------------- */

static void records_of_others_are_kept(void **state)
{
    struct dgl_records a, b;
    (void)state;
    store_two();
    open_records(&a, DGL_RECORDS_READ);
    open_records(&b, DGL_RECORDS_READ);
    put(&a, "mine", 10);
    put(&a, "two", 11);
    put(&b, "yours", 20);
    put(&b, "two", 21);
    dgl_records_remove(&b, "one");
    dgl_records_remove(&b, "never there");
    assert_int_equal(small_of(&b, "one"), -1);
    assert_true(dgl_records_store(&a, NULL, NULL));
    assert_true(dgl_records_store(&b, NULL, NULL));
    assert_int_equal(small_of(&b, "mine"), 10); /* storing has merged the record of `a` */
    put(&b, "later", 30);
    assert_true(dgl_records_store(&b, NULL, NULL));
    dgl_records_finish(&a);
    dgl_records_finish(&b);
    open_records(&a, DGL_RECORDS_READ);
    assert_int_equal(a.count, 4);
    assert_int_equal(small_of(&a, "one"), -1);
    assert_int_equal(small_of(&a, "two"), 21);
    assert_int_equal(small_of(&a, "mine"), 10);
    assert_int_equal(small_of(&a, "yours"), 20);
    assert_int_equal(small_of(&a, "later"), 30);
    dgl_records_finish(&a);
}

static void the_oldest_records_are_dropped(void **state)
{
    struct dgl_records r;
    char key[16];
    (void)state;
    store_two();
    open_records(&r, DGL_RECORDS_READ);
    put(&r, "one", 5); /* now the newest record */
    for (uint32_t i = 0; i < most - 1; i++) {
        snprintf(key, sizeof(key), "%u", i);
        put(&r, key, i);
    }
    assert_int_equal(r.count, most);
    assert_true(dgl_records_store(&r, NULL, NULL));
    dgl_records_finish(&r);
    open_records(&r, DGL_RECORDS_READ);
    assert_int_equal(r.count, most);
    assert_int_equal(small_of(&r, "two"), -1);
    assert_int_equal(small_of(&r, "one"), 5);
    assert_int_equal(small_of(&r, "0"), 0);
    dgl_records_finish(&r);
}

/* ---- the folder ------------------------------------------------------------------------------ */

static void a_full_disk_keeps_the_old_file(void **state)
{
    struct rlimit before, small;
    struct dgl_records r;
    struct test_log log;
    (void)state;
    store_two();
    open_records(&r, DGL_RECORDS_READ);
    put(&r, "three", 3);
    test_log_init(&log, DGL_LOG_DEBUG);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 64;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const bool stored = dgl_records_store(&r, NULL, &log.log);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, old);
    assert_false(stored);
    assert_contains(log.text, "samples is not stored: ");
    dgl_records_finish(&r);
    open_records(&r, DGL_RECORDS_READ);
    assert_int_equal(r.count, 2);
    dgl_records_finish(&r);
}

static void without_a_folder_records_live_in_memory(void **state)
{
    struct dgl_records r;
    (void)state;
    assert_int_equal(dgl_records_open(&r, &format, NULL, NULL), DGL_RECORDS_ABSENT);
    put(&r, "one", 1);
    assert_int_equal(small_of(&r, "one"), 1);
    assert_false(dgl_records_store(&r, NULL, NULL));
    assert_true(dgl_records_delete(&r));
    dgl_records_finish(&r);
}

static void device_and_removal(void **state)
{
    struct dgl_records r;
    char *reason = NULL;
    (void)state;
    store_two();
    test_write_file(dir, "json", "{\"device\": 1}\n", 14);
    test_write_file(dir, "line", "samples-1 device=x", 18);
    int fd = dgl_cache_open(dir, false, &reason);
    assert_true(fd >= 0);
    char *device = checked(dgl_records_device(fd, "samples", 4096));
    assert_string_equal(device, "a device, 1.0");
    free(device);
    assert_null(dgl_records_device(fd, "samples", 16)); /* the file is larger than this limit */
    assert_null(dgl_records_device(fd, "json", 4096));
    assert_null(dgl_records_device(fd, "line", 4096));
    assert_null(dgl_records_device(fd, "absent", 4096));
    close(fd);
    open_records(&r, DGL_RECORDS_READ);
    assert_true(dgl_records_delete(&r));
    assert_true(dgl_records_delete(&r));
    dgl_records_finish(&r);
    open_records(&r, DGL_RECORDS_ABSENT);
    dgl_records_finish(&r);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

static void in_a_folder(void **state, CMUnitTestFunction fn)
{
    set_up(state);
    fn(state);
    tear_down(state);
}

static void value_row(void **state)
{
    in_a_folder(state, values_come_back);
}

static void file_row(void **state)
{
    in_a_folder(state, a_file_is_read_or_refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(records_of_others_are_kept),
        CASE(the_oldest_records_are_dropped),
        CASE(a_full_disk_keeps_the_old_file),
        CASE(without_a_folder_records_live_in_memory),
        CASE(device_and_removal),
    };
    int failures = test_run_table("values", value_row, values);
    failures += test_run_table("files", file_row, files);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
