/* The progress bar without a terminal and without a clock: the times at which it is drawn, and its
 * parts for each width. */
#include "tests/support/test.h"

#include "tools/cli/bar.h"

#define MS      1000000ull
#define MEBI(n) ((uint64_t)(n) << 20)

/* ---- when ------------------------------------------------------------------------------------ */

struct report {
    uint64_t ms;
    const char *what;
    uint64_t done, total;
    bool drawn;
};

static void drawn_when_it_helps(void **state)
{
    static const struct report reports[] = {
        {0, "bytes", 0, 100, false},     {300, "bytes", 50, 100, false},
        {499, "bytes", 60, 100, false},  {500, "bytes", 61, 100, true},
        {550, "bytes", 62, 100, false},  {600, "bytes", 63, 100, true},
        {9000, "bytes", 99, 100, true},  {9100, "bytes", 100, 100, false},
        {9200, "bytes", 0, 100, false}, /* again: new work */
        {9800, "bytes", 1, 100, true},   {9900, "kernels", 0, 17, false},
        {10500, "kernels", 1, 17, true}, {10600, "kernels", 0, 17, false}, /* less: new work */
        {11200, "kernels", 2, 17, true}, {11300, "kernels", 2, 18, false}, /* more of it */
        {11400, "kernels", 0, 0, false},                                   /* no work to do */
    };
    struct bar bar = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
        const struct report *r = &reports[i];
        bool drawn = bar_update(&bar, r->what, r->done, r->total, (1000 + r->ms) * MS);
        if (drawn != r->drawn)
            fail_msg("report %zu: drawn %d, wanted %d", i, drawn, r->drawn);
        assert_int_equal(bar.what[0] != '\0', r->total > 0 && r->done < r->total);
    }
}

/* ---- contents ----------------------------------------------------------------------------------
 */

struct drawing {
    const char *name;
    size_t columns;
    const char *what, *work;
    uint64_t first, done, total, ms;
    const char *want;
};

static const struct drawing drawings[] = {
    {"wide", 100, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000,
     "loading 25% of 2 GiB ##########.............................. 256 MiB/s, 6 s left"},
    {"80 columns", 80, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000,
     "loading 25% of 2 GiB #########............................. 256 MiB/s, 6 s left"},
    {"60 columns", 60, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000,
     "loading 25% of 2 GiB ####.............. 256 MiB/s, 6 s left"},
    {"no room for the time", 50, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000,
     "loading 25% of 2 GiB ####.............. 256 MiB/s"},
    {"no room for the rate", 40, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000,
     "loading 25% of 2 GiB ####.............."},
    {"no room for cells", 30, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000,
     "loading 25% of 2 GiB"},
    {"no room", 12, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000, "loading 25%"},
    {"one column", 1, "bytes", "loading", 0, MEBI(512), MEBI(2048), 2000, "l"},
    {"kernels", 100, "kernels", "loading", 0, 7, 17, 7000,
     "compiling kernels 7/17 ################........................ 1.0/s, 10 s left"},
    {"nothing known yet", 80, "kernels", NULL, 0, 0, 17, 1000,
     "compiling kernels 0/17 ........................................"},
    {"begun in the middle", 80, "texts", NULL, 10, 20, 40, 10000,
     "scoring texts 20/40 ####################.................... 1.0/s, 20 s left"},
    {"windows", 80, "windows", NULL, 0, 1, 4, 2000,
     "scoring windows 1/4 ##########.............................. 0.5/s, 6 s left"},
    {"minutes", 80, "tokens", NULL, 0, 1, 11, 60000,
     "measuring 1/11 ###..................................... 0.0/s, 10 min left"},
    {"hours", 80, "rows", NULL, 0, 1, 1001, 60000,
     "rows 1/1001 ........................................ 0.0/s, 17 h left"},
};

static void drawing_case(void **state)
{
    const struct drawing *row = *state;
    struct bar bar = {
        .start_ns = 5000 * MS, .first = row->first, .done = row->done, .total = row->total};
    struct bar_look look = {.columns = row->columns, .work = row->work};
    struct dgl_buf out = {0};
    snprintf(bar.what, sizeof(bar.what), "%s", row->what);
    size_t columns = bar_draw(&bar, &look, (5000 + row->ms) * MS, &out);
    assert_string_equal(out.p, row->want);
    assert_int_equal(columns, out.len);
    assert_true(columns < row->columns || row->columns == 1);
    /* Escape sequences of colours have no width. */
    struct dgl_buf coloured = {0};
    look.colour = true;
    assert_int_equal(bar_draw(&bar, &look, (5000 + row->ms) * MS, &coloured), columns);
    assert_int_equal(strchr(coloured.p, '\033') != NULL, strstr(row->want, "..") != NULL);
    dgl_buf_finish(&out);
    dgl_buf_finish(&coloured);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_when_it_helps)};
    int failures = test_run_table("bar", drawing_case, drawings);
    return failures + cmocka_run_group_tests_name("bar, time", tests, NULL, NULL);
}
