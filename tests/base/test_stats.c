/* Tests of quantiles and Welch's t-test against numpy 2 and scipy 1.16 (percentile; ttest_ind with
 * equal_var False). */
#include "tests/support/test.h"

#include <math.h>

#include "core/base/stats.h"

enum { MOST = 8 };

struct welch_row {
    const char *name;
    double a[MOST], b[MOST];
    size_t num_a, num_b;
    double t, df, p;
};

static const struct welch_row welch_rows[] = {
    {"far apart",
     {1250, 1255, 1249},
     {1190, 1195, 1188},
     3,
     3,
     21.633637828952498,
     3.94842868654311,
     2.9944496161679213e-05},
    {"much alike",
     {100, 101, 99, 100, 102},
     {100, 99, 101, 100, 98},
     5,
     5,
     1.1094003924504738,
     8,
     0.2994898969784174},
    {"sizes and variances that differ",
     {2000, 2010, 1990, 2005, 1995, 2003},
     {1800, 1950, 1700, 1820},
     6,
     4,
     3.556136579193568,
     3.0195232200825104,
     0.03753125131895386},
    {"two values each",
     {10, 20},
     {30, 41},
     2,
     2,
     -2.757958455384881,
     1.9821029990665964,
     0.11124639752566916},
    {"variance on one side",
     {5, 5, 5, 5},
     {4, 4.001, 4, 4},
     4,
     4,
     3998.999999998664,
     3,
     3.44839046702669e-11},
    {"a difference of nothing",
     {300, 300.5},
     {100, 500.25},
     2,
     2,
     0.000624609131621837,
     1.000003121097409,
     0.9996023612888109},
    {"a run of numbers",
     {1, 2, 3, 4, 5, 6, 7, 8},
     {2, 3, 4, 5, 6, 7, 8, 9.5},
     8,
     8,
     -0.8489394880461679,
     13.974883605437952,
     0.4102219378841487},
    {"tokens per second",
     {852.1, 851.7, 853.4, 850.9, 852.8},
     {848.2, 849.9, 847.0, 851.1, 846.5},
     5,
     5,
     3.754373336382119,
     5.875727433808579,
     0.009832834823302617},
};

static void test_welch(void **state)
{
    const struct welch_row *row = *state;
    struct dgl_welch w = dgl_welch_test(row->a, row->num_a, row->b, row->num_b);
    struct dgl_welch back = dgl_welch_test(row->b, row->num_b, row->a, row->num_a);
    assert_near(w.t, row->t, fabs(row->t) * 1e-9);
    assert_near(w.df, row->df, row->df * 1e-9);
    assert_near(w.p, row->p, row->p * 1e-9);
    assert_near(back.t, -w.t, 0);
    assert_near(back.p, w.p, w.p * 1e-12);
}

static void test_welch_without_variance(void **state)
{
    (void)state;
    const double fives[] = {5, 5, 5}, sixes[] = {6, 6};
    assert_near(dgl_welch_test(fives, 3, fives, 2).p, 1, 0);
    assert_near(dgl_welch_test(fives, 3, sixes, 2).p, 0, 0);
    assert_true(dgl_welch_test(fives, 3, sixes, 2).t < 0);
}

static void test_welch_of_single_values(void **state)
{
    (void)state;
    const double a[] = {5, 6};
    assert_true(isnan(dgl_welch_test(a, 1, a, 2).p));
    assert_true(isnan(dgl_welch_test(a, 2, a, 0).p));
}

struct quantile_row {
    const char *name;
    double values[MOST];
    size_t count;
    double share, want;
};

static const struct quantile_row quantile_rows[] = {
    {"least", {3, 1, 2, 10, 7}, 5, 0, 1},
    {"middle", {3, 1, 2, 10, 7}, 5, 0.5, 3},
    {"p90", {3, 1, 2, 10, 7}, 5, 0.9, 8.8},
    {"p99", {3, 1, 2, 10, 7}, 5, 0.99, 9.88},
    {"most", {3, 1, 2, 10, 7}, 5, 1, 10},
    {"between two", {4, 3, 2, 1}, 4, 0.5, 2.5},
    {"p90 of four", {4, 3, 2, 1}, 4, 0.9, 3.7},
    {"p99 of four", {4, 3, 2, 1}, 4, 0.99, 3.97},
    {"of one", {4}, 1, 0.99, 4},
};

static void test_quantile(void **state)
{
    const struct quantile_row *row = *state;
    double sorted[MOST];
    memcpy(sorted, row->values, sizeof(sorted));
    dgl_sort_f64(sorted, row->count);
    assert_near(dgl_quantile(sorted, row->count, row->share), row->want, 1e-12);
    double middle = dgl_quantile(sorted, row->count, 0.5);
    memcpy(sorted, row->values, sizeof(sorted));
    assert_near(dgl_median(sorted, row->count), middle, 0);
}

static void test_of_nothing(void **state)
{
    (void)state;
    assert_true(isnan(dgl_quantile(NULL, 0, 0.5)));
    assert_true(isnan(dgl_median(NULL, 0)));
    assert_true(isnan(dgl_mean(NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_welch_without_variance),
        cmocka_unit_test(test_welch_of_single_values),
        cmocka_unit_test(test_of_nothing),
    };
    int failures = test_run_table("welch", test_welch, welch_rows);
    failures += test_run_table("quantile", test_quantile, quantile_rows);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
