/* Tests of budgets for untrusted input: limits are exact, only the first failure is logged, and a
 * cancelled call ends. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/budget.h"

static struct dgl_budget budget_of(struct test_log *log, uint64_t steps, uint64_t bytes)
{
    struct dgl_budget budget = {.log = &log->log,
                                .name = "F",
                                .line = 7,
                                .work = "the work",
                                .refusal = DGL_ERR_FORMAT,
                                .max_steps = steps,
                                .max_bytes = bytes};
    test_log_init(log, DGL_LOG_WARN);
    dgl_budget_start(&budget);
    return budget;
}

static const struct row {
    const char *name;
    uint64_t max, each, allowed; /* `allowed` charges of `each` succeed with the limit `max` */
} rows[] = {
    {"one by one", 1000, 1, 1000},
    {"none", 0, 1, 0},
    {"across checks", 3000000, 100000, 30},
    {"more than between checks", 3000000, 1000000, 3},
    {"not even once", 3000000, 3000001, 0},
    {"the largest count", 3000000, UINT64_MAX, 0},
    {"the largest limit", UINT64_MAX, UINT64_MAX / 2, 2},
};

static void limits_are_exact(void **state)
{
    const struct row *row = *state;
    bool (*const take[])(struct dgl_budget *, uint64_t) = {dgl_budget_steps, dgl_budget_bytes};
    static const char *const rule[] = {"F:7: the work takes more than",
                                       "F:7: the work needs more than"};
    for (int kind = 0; kind < 2; kind++) {
        struct test_log log;
        struct dgl_budget budget = budget_of(&log, row->max, row->max);
        uint64_t taken = 0;
        while (taken <= row->allowed && take[kind](&budget, row->each))
            taken++;
        assert_int_equal(taken, row->allowed);
        assert_int_equal(budget.status, DGL_ERR_FORMAT);
        assert_int_equal(log.errors, 1);
        assert_contains(log.text, rule[kind]);
        /* A failed budget stays failed and logs no second line. */
        assert_false(dgl_budget_steps(&budget, 0));
        assert_false(dgl_budget_bytes(&budget, 0));
        assert_false(dgl_budget_fail(&budget, DGL_ERR_IO, "another"));
        assert_int_equal(budget.status, DGL_ERR_FORMAT);
        assert_int_equal(log.errors, 1);
    }
}

/* Growing memory stays within 1.5 times the limit. A single allocation never exceeds the limit. */
static void growth_is_bounded(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_budget budget = budget_of(&log, UINT64_MAX, 10000);
    struct dgl_buf text = {0};
    static char piece[100000];
    memset(piece, 'x', sizeof(piece));
    assert_false(dgl_budget_append(&budget, &text, piece, sizeof(piece)));
    assert_int_equal(text.cap, 0);
    budget = budget_of(&log, UINT64_MAX, 10000);
    size_t appended = 0;
    while (dgl_budget_append(&budget, &text, piece, 7))
        appended += 7;
    assert_in_range(appended, 5000, 10000);
    assert_in_range(text.cap, appended, 15000);
    dgl_buf_finish(&text);

    int64_t *items = NULL;
    size_t cap = 0, count = 0;
    budget = budget_of(&log, UINT64_MAX, 80000);
    while (dgl_budget_grow(&budget, (void **)&items, &cap, count + 1, sizeof(*items)))
        count++;
    assert_in_range(count, 5000, 10000);
    assert_in_range(cap, count, 15000);
    free(items);
    items = NULL;
    cap = 0;
    budget = budget_of(&log, UINT64_MAX, UINT64_MAX);
    assert_false(dgl_budget_grow(&budget, (void **)&items, &cap, SIZE_MAX / 2, sizeof(*items)));
    assert_null(items);
    assert_int_equal(log.errors, 1);
}

static bool cancel_at_third(void *priv)
{
    struct test_log *log = priv;
    return ++log->len >= 3; /* the log stays empty, so `len` counts the calls instead */
}

static void a_cancelled_call_ends(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_budget budget = budget_of(&log, UINT64_MAX, UINT64_MAX);
    log.log.cancelled = cancel_at_third;
    uint64_t steps = 0;
    while (dgl_budget_steps(&budget, 100) && steps < 100000000)
        steps += 100;
    assert_int_equal(budget.status, DGL_ERR_CANCELLED);
    assert_int_equal(log.errors, 0); /* a cancelled call is not an error */
    assert_in_range(steps, 1, 2000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(growth_is_bounded),
                                       cmocka_unit_test(a_cancelled_call_ends)};
    return test_run_table("limits", limits_are_exact, rows) +
           cmocka_run_group_tests_name("budgets", tests, NULL, NULL);
}
