/* Verdicts about programs of phases on disk: the records that are read back, and those that count
 * as absent. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/exec/exec_record.h"
#include "tests/support/record_edit.h"

#define KEY   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct exec_record written = {
    .verdict = EXEC_SLOWER,
    .groups = 132,
    .dispatch_ns = 1234567890123,
    .persistent_ns = 2234567890123,
    .time = 1763800000,
};

/* An edit of the file under KEY. test_record_file.c has files that are damaged or not private. */
struct record_case {
    const char *name;
    const char *find, *replace;
    const char *key; /* that is read; NULL = KEY */
    bool no_dir, want;
    enum exec_verdict verdict; /* 0: as it was stored */
};

static const struct record_case cases[] = {
    {.name = "as it was stored", .want = true},
    {.name = "another verdict",
     .find = "verdict=2",
     .replace = "verdict=4",
     .want = true,
     .verdict = EXEC_ABORTED},
    {.name = "another program", .key = OTHER},
    {.name = "a file under another name", .find = KEY, .replace = OTHER},
    {.name = "no verdict", .find = "verdict=2", .replace = "verdict=0"},
    {.name = "a verdict of the future", .find = "verdict=2", .replace = "verdict=5"},
    {.name = "too many groups", .find = "groups=132", .replace = "groups=4294967296"},
    {.name = "a field is missing", .find = "persistent_ns", .replace = "other_ns"},
    {.name = "an older format", .find = "executors-4", .replace = "executors-3"},
    {.name = "no folder", .no_dir = true},
};

static void test_record(void **state)
{
    const struct record_case *c = *state;
    struct exec_record got = {.groups = 7};
    char *dir = test_tmpdir();
    assert_true(exec_record_store(dir, KEY, "a device", &written));
    if (c->find)
        test_record_edit(dir, KEY ".exec", c->find, c->replace);
    bool ok = exec_record_load(c->no_dir ? NULL : dir, c->key ? c->key : KEY, &got);
    assert_int_equal(ok, c->want);
    struct exec_record want = ok ? written : (struct exec_record){0};
    if (ok && c->verdict)
        want.verdict = c->verdict;
    assert_int_equal(got.verdict, want.verdict);
    assert_int_equal(got.groups, want.groups);
    assert_int_equal(got.dispatch_ns, want.dispatch_ns);
    assert_int_equal(got.persistent_ns, want.persistent_ns);
    assert_int_equal(got.time, want.time);
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
