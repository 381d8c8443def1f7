/* Verdicts about programs of phases on disk: what comes back, and what counts as absent. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/exec/exec_record.h"

#define KEY   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BYTES 464

static const struct exec_record written = {
    .verdict = EXEC_SLOWER,
    .groups = 132,
    .form = 2,
    .tried = 7,
    .form_ns = {3234567890123, 0, 2234567890123},
    .dispatch_ns = 1234567890123,
    .persistent_ns = 2234567890123,
    .time = 1763800000,
};

/* What differs from a record that was stored under KEY in a folder of mode 0700. */
struct record_case {
    const char *name;
    int flip;        /* byte of the file with one bit turned; -1 = none */
    int size;        /* of the file; 0 = as it is */
    int verdict;     /* put there with a right checksum; 0 = as it is */
    int form, tried; /* likewise */
    const char *key;
    int file_mode, dir_mode; /* 0 = as they are */
    bool link, no_dir;
    bool want;
};

static const struct record_case cases[] = {
    {.name = "as it was stored", .flip = -1, .want = true},
    {.name = "another program", .flip = -1, .key = OTHER},
    {.name = "magic", .flip = 0},
    {.name = "version", .flip = 8},
    {.name = "verdict", .flip = 12},
    {.name = "groups", .flip = 16},
    {.name = "times", .flip = 30},
    {.name = "key", .flip = 50},
    {.name = "device", .flip = 120},
    {.name = "times of forms", .flip = 370},
    {.name = "checksum", .flip = 463},
    {.name = "empty", .flip = -1, .size = 1},
    {.name = "cut", .flip = -1, .size = BYTES - 1},
    {.name = "longer", .flip = -1, .size = BYTES + 1},
    {.name = "a verdict of the future", .flip = -1, .verdict = EXEC_VERDICTS},
    {.name = "a form of the future", .flip = -1, .form = EXEC_FORMS},
    {.name = "forms of the future tried", .flip = -1, .tried = 1 << EXEC_FORMS},
    {.name = "another verdict with its checksum",
     .flip = -1,
     .verdict = EXEC_ABORTED,
     .want = true},
    {.name = "others may write the file", .flip = -1, .file_mode = 0666},
    {.name = "others may write in the folder", .flip = -1, .dir_mode = 0777},
    {.name = "a link", .flip = -1, .link = true},
    {.name = "no folder", .flip = -1, .no_dir = true},
};

static void test_record(void **state)
{
    const struct record_case *c = *state;
    struct exec_record got = {.groups = 7};
    char *dir = test_tmpdir(), *bytes = NULL;
    char *path = checked(dgl_path_join(dir, KEY ".exec"));
    size_t len = 0;
    assert_true(exec_record_store(dir, KEY, "a device", &written));
    assert_int_equal(dgl_file_slurp(NULL, path, 4096, &bytes, &len), DGL_OK);
    assert_int_equal(len, BYTES);
    bytes = checked(realloc(bytes, BYTES + 1));
    bytes[BYTES] = 0;
    if (c->flip >= 0)
        bytes[c->flip] ^= 1;
    if (c->verdict)
        dgl_put_le((unsigned char *)bytes + 12, (uint64_t)c->verdict, 4);
    if (c->form)
        dgl_put_le((unsigned char *)bytes + 20, (uint64_t)c->form, 2);
    if (c->tried)
        dgl_put_le((unsigned char *)bytes + 22, (uint64_t)c->tried, 2);
    if (c->verdict || c->form || c->tried) {
        char sum[65];
        assert_true(dgl_hash_bytes(DGL_HASH_SHA256, bytes, 400, sum));
        memcpy(bytes + 400, sum, 64);
    }
    test_write_file(dir, KEY ".exec", bytes, c->size ? (size_t)c->size : BYTES);
    if (c->link) {
        char *target = checked(dgl_path_join(dir, "target"));
        assert_int_equal(rename(path, target), 0);
        assert_int_equal(symlink("target", path), 0);
        free(target);
    }
    if (c->file_mode)
        assert_int_equal(chmod(path, (mode_t)c->file_mode), 0);
    if (c->dir_mode)
        assert_int_equal(chmod(dir, (mode_t)c->dir_mode), 0);
    bool ok = exec_record_load(c->no_dir ? NULL : dir, c->key ? c->key : KEY, &got);
    assert_int_equal(ok, c->want);
    struct exec_record want = ok ? written : (struct exec_record){0};
    if (ok && c->verdict)
        want.verdict = (enum exec_verdict)c->verdict;
    assert_int_equal(got.verdict, want.verdict);
    assert_int_equal(got.groups, want.groups);
    assert_int_equal(got.form, want.form);
    assert_int_equal(got.tried, want.tried);
    assert_memory_equal(got.form_ns, want.form_ns, sizeof(got.form_ns));
    assert_int_equal(got.dispatch_ns, want.dispatch_ns);
    assert_int_equal(got.persistent_ns, want.persistent_ns);
    assert_int_equal(got.time, want.time);
    chmod(dir, 0700);
    free(path);
    free(bytes);
    test_tmpdir_remove(dir);
}

/* The last verdict counts, and a folder that cannot be had is only a verdict less. */
static void test_replaced(void **state)
{
    (void)state;
    struct exec_record got, later = written;
    char *dir = test_tmpdir();
    later.verdict = EXEC_FASTER;
    assert_true(exec_record_store(dir, KEY, "a device", &written));
    assert_true(exec_record_store(dir, KEY, "a device", &later));
    assert_true(exec_record_load(dir, KEY, &got));
    assert_int_equal(got.verdict, EXEC_FASTER);
    assert_false(exec_record_store(NULL, KEY, "a device", &written));
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_replaced)};
    int failed = test_run_table("records", test_record, cases);
    return failed + cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
