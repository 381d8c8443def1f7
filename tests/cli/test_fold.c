/* Repeated lines of a log are printed once, with the number of the others. */
#include "tools/cli/fold.h"

#include "core/base/log.h"
#include "tests/support/test.h"

struct fold_case {
    const char *name;
    const char *lines[5];
    const char *want; /* all lines that the log gets */
};
static const struct fold_case fold_cases[] = {
    {"nothing", {NULL}, ""},
    {"one line", {"layer 1 is odd"}, "layer 1 is odd\n"},
    {"lines of other kinds",
     {"layer 1 is odd", "layer 1 is even"},
     "layer 1 is odd\nlayer 1 is even\n"},
    {"layers",
     {"blk.0.x has 3 rows", "blk.1.x has 3 rows", "blk.27.x has 144 rows"},
     "blk.0.x has 3 rows\n2 more like it: blk.*.x has * rows\n"},
    {"the same line",
     {"no template", "layer 1 is odd", "no template"},
     "no template\nlayer 1 is odd\n1 more like it: no template\n"},
};

static void test_fold(void **state)
{
    const struct fold_case *row = *state;
    struct test_log log;
    struct folding_log folding;
    test_log_init(&log, DGL_LOG_NOTICE);
    folding_begin(&folding, &log.log);
    for (size_t i = 0; i < 5 && row->lines[i]; i++)
        dgl_warn(&folding.log, "%s", row->lines[i]);
    folding_end(&folding);
    assert_string_equal(log.text, row->want);
}

/* Errors are never folded. */
static void errors_are_all_printed(void **state)
{
    (void)state;
    struct test_log log;
    struct folding_log folding;
    test_log_init(&log, DGL_LOG_NOTICE);
    folding_begin(&folding, &log.log);
    dgl_fail(&folding.log, DGL_ERR_IO, "disk 1");
    dgl_fail(&folding.log, DGL_ERR_IO, "disk 2");
    folding_end(&folding);
    assert_int_equal(log.errors, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_are_all_printed)};
    int failures = test_run_table("fold", test_fold, fold_cases);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
