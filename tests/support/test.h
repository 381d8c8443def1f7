/* Included by every test program: cmocka, comparisons that print both values, skips with a reason.
 */
#ifndef DGL_TESTS_TEST_H
#define DGL_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/budget.h"
#include "core/dopplergl.h"

/* Skips the running case and prints the reason on stdout, where tests/run.sh collects it. */
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        printf("# skip: " __VA_ARGS__);                                                            \
        printf("\n");                                                                              \
        fflush(stdout);                                                                            \
        skip();                                                                                    \
    } while (0)

/* |a - b| <= limit, for doubles; prints all three. */
#define assert_near(a, b, limit) test_assert_near((a), (b), (limit), #a, __FILE__, __LINE__)
/* value <= limit, for doubles. */
#define assert_at_most(value, limit)                                                               \
    test_assert_at_most((value), (limit), #value, __FILE__, __LINE__)
/* `text` contains `part`; prints both. */
#define assert_contains(text, part) test_assert_contains((text), (part), __FILE__, __LINE__)
/* How often `part` is in `text`; its places may overlap. */
size_t test_occurrences(const char *text, const char *part);
/* Returns the pointer, and fails the test if it is NULL. For allocations within an expression. */
#define checked(pointer) test_checked((pointer), #pointer, __FILE__, __LINE__)

void test_assert_near(double a, double b, double limit, const char *what, const char *file,
                      int line);
void test_assert_at_most(double value, double limit, const char *what, const char *file, int line);
void test_assert_contains(const char *text, const char *part, const char *file, int line);
void *test_checked(void *pointer, const char *what, const char *file, int line);

/* Runs `fn` once per row of a table; each row is a separate case. The row's first member is its
 * name (const char *); fn finds the row in *state. Returns the number of failures, like
 * cmocka_run_group_tests. */
#define test_run_table(group, fn, rows)                                                            \
    test_run_rows((group), (fn), (rows), sizeof(rows) / sizeof((rows)[0]), sizeof((rows)[0]))
int test_run_rows(const char *group, CMUnitTestFunction fn, const void *rows, size_t count,
                  size_t row_bytes);

/* Runs before each row; may be NULL. Use it to reset state that a failed or skipped row leaves
 * behind. */
extern CMFixtureFunction test_row_setup;

/* Long walks. `make check` sets DOPPLERGL_TEST_SEED, a whole number that changes every day, and
 * runs one in `share` of their rows, at least one. Any `share` successive seeds run all rows.
 * Without it, as in `make check-all` or if a program is started by hand, all rows run. */
#define test_run_table_sample(group, fn, rows, share)                                              \
    test_run_rows_sample((group), (fn), (rows), sizeof(rows) / sizeof((rows)[0]),                  \
                         sizeof((rows)[0]), (share))
int test_run_rows_sample(const char *group, CMUnitTestFunction fn, const void *rows, size_t count,
                         size_t row_bytes, size_t share);
/* Returns true if this run tests a sample; *seed (may be NULL) is then the seed. A seed that is not
 * a number ends the program, so that a misspelled seed does not pass for a complete run. */
bool test_is_sample(uint64_t *seed);

/* If DOPPLERGL_TEST_LIST is set, a program runs no case. It prints "# case: NAME" for each case of
 * a complete run, including those of walks. For this, cmocka's two macros run groups through this
 * function. */
int test_run_group(const char *group, const struct CMUnitTest *cases, size_t count,
                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
#define _cmocka_run_group_tests test_run_group

/* A log that stores its lines, newest last, so that a test can check messages. */
struct test_log {
    struct dgl_log log; /* hand out &t.log */
    char text[8192];
    size_t len;
    int errors; /* lines of DGL_LOG_ERROR */
};
void test_log_init(struct test_log *t, enum dgl_log_level level);
void test_log_clear(struct test_log *t);

/* A call that must fail: with the expected status, one error in the log, and these parts of the
 * message (an array of strings; NULL after the last one if it is not full). */
#define assert_refusal(log, got, want, parts)                                                      \
    test_assert_refusal(&(const struct test_refusal){(log), (got), (want), (parts),                \
                                                     sizeof(parts) / sizeof((parts)[0])},          \
                        __FILE__, __LINE__)
struct test_refusal {
    const struct test_log *log;
    enum dgl_status got, want;
    const char *const *parts;
    size_t num_parts;
};
void test_assert_refusal(const struct test_refusal *r, const char *file, int line);

/* A budget of so many steps and all bytes there are. */
struct dgl_budget test_budget(const struct dgl_log *log, uint64_t steps);

/* Returns sum (a-b)^2 / sum b^2, computed in double, or infinity if a value is NaN. */
double test_nmse(const float *a, const double *b, size_t count);

/* Repeatable random numbers (splitmix64); the seed is printed by the caller when a case fails. */
uint64_t test_rand(uint64_t *state);
float test_rand_float(uint64_t *state); /* normal-ish, about -3 to 3 */

/* Sets a locale with a decimal comma; localedef makes it if none is installed. Returns false if
 * that is not possible. setlocale(LC_ALL, "C") restores the default. */
bool test_set_comma_locale(void);

/* A fresh directory under $TMPDIR, removed by test_tmpdir_remove(). */
char *test_tmpdir(void);
void test_tmpdir_remove(char *dir);
void test_write_file(const char *dir, const char *name, const void *bytes, size_t len);

/* A path that exists on no machine: in tables, TEST_MISSING means a missing folder in a temporary
 * folder of this process. test_missing() returns the text with the first occurrence replaced; the
 * caller frees it. NULL stays NULL. */
#define TEST_MISSING "@missing@"
char *test_missing(const char *text);

/* Returns a path inside the shared test data (DOPPLERGL_TEST_DATA, default ../shared), or NULL if
 * it is missing; static buffer. */
const char *test_data(const char *relative);
/* Unpacks an archive of the test data once into build/testdata and returns the folder `inside`, or
 * NULL if the data is missing. Static buffer. */
const char *test_unpacked(const char *archive, const char *inside);

#endif
