/* Status texts, the log, checked arithmetic, arenas, growing arrays, parallel loops, pipelines. */
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/checked.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "tests/support/fake_tree.h"

static void status_texts_are_distinct(void **state)
{
    (void)state;
    for (int a = DGL_OK; a >= DGL_ERR_BUSY; a--) {
        assert_non_null(dgl_status_str((enum dgl_status)a));
        assert_string_not_equal(dgl_status_str((enum dgl_status)a), "unknown status");
        for (int b = a - 1; b >= DGL_ERR_BUSY; b--)
            assert_string_not_equal(dgl_status_str((enum dgl_status)a),
                                    dgl_status_str((enum dgl_status)b));
    }
}

static void unknown_status_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(dgl_status_str((enum dgl_status) - 99), "unknown status");
    assert_string_equal(dgl_status_str((enum dgl_status)7), "unknown status");
}

struct date_case {
    const char *name, *text;
    int weekday, yearday; /* -1: refused */
    int hour, minute, second;
};

static const struct date_case date_cases[] = {
    {"date", "2025-06-15", 0, 165, 0, 0, 0},
    {"date and minute", "2025-06-15T09:30", 0, 165, 9, 30, 0},
    {"date and second", "2025-06-15 23:59:58", 0, 165, 23, 59, 58},
    {"date: leap day", "2024-02-29", 4, 59, 0, 0, 0},
    {"date: year 1000", "1000-01-01", 3, 0, 0, 0, 0},
    {"refuses a date: no leap day", "2025-02-29", -1, 0, 0, 0, 0},
    {"refuses a date: month 13", "2025-13-01", -1, 0, 0, 0, 0},
    {"refuses a date: month 0", "2025-00-01", -1, 0, 0, 0, 0},
    {"refuses a date: day 0", "2025-01-00", -1, 0, 0, 0, 0},
    {"refuses a date: hour 24", "2025-01-01T24:00", -1, 0, 0, 0, 0},
    {"refuses a date: second 60", "2025-01-01T00:00:60", -1, 0, 0, 0, 0},
    {"refuses a date: year 0999", "0999-01-01", -1, 0, 0, 0, 0},
    {"refuses a date: nothing", "", -1, 0, 0, 0, 0},
    {"refuses a date: short", "2025-6-15", -1, 0, 0, 0, 0},
    {"refuses a date: blank in front", " 2025-06-1", -1, 0, 0, 0, 0},
    {"refuses a date: sign", "+202-06-15", -1, 0, 0, 0, 0},
    {"refuses a date: zone", "2025-06-15T09:30Z", -1, 0, 0, 0, 0},
    {"refuses a date: words", "yesterday!", -1, 0, 0, 0, 0},
};

static void parse_date(void **state)
{
    const struct date_case *c = *state;
    struct tm got = {.tm_year = 7};
    assert_int_equal(dgl_parse_date(dgl_str_of(c->text), &got), c->weekday >= 0);
    if (c->weekday < 0) {
        assert_int_equal(got.tm_year, 7);
        return;
    }
    assert_int_equal(got.tm_wday, c->weekday);
    assert_int_equal(got.tm_yday, c->yearday);
    assert_int_equal(got.tm_hour, c->hour);
    assert_int_equal(got.tm_min, c->minute);
    assert_int_equal(got.tm_sec, c->second);
}

static void fail_logs_one_error_line(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(dgl_fail(&t.log, DGL_ERR_FORMAT, "%s: %d is wrong", "a.json", 7),
                     DGL_ERR_FORMAT);
    assert_string_equal(t.text, "a.json: 7 is wrong\n");
    assert_int_equal(t.errors, 1);
}

static void fail_without_a_log_still_fails(void **state)
{
    (void)state;
    struct dgl_log silent = {0};
    assert_int_equal(dgl_fail(NULL, DGL_ERR_GPU, "x"), DGL_ERR_GPU);
    assert_int_equal(dgl_fail(&silent, DGL_ERR_GPU, "x"), DGL_ERR_GPU);
}

static void fail_memory_names_what_and_how_much(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(dgl_fail_memory(&t.log, "the vocabulary", 123456), DGL_ERR_NO_MEMORY);
    assert_contains(t.text, "the vocabulary");
    assert_contains(t.text, "123456 bytes");
}

static void fail_errno_names_operation_path_and_cause(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    errno = ENOSPC;
    assert_int_equal(dgl_fail_errno(&t.log, "write", "/x/y"), DGL_ERR_IO);
    assert_contains(t.text, "write /x/y: No space left on device; make room");
    assert_int_equal(t.errors, 1);
}

static void an_error_is_stored_in_its_place(void **state)
{
    (void)state;
    struct test_log t;
    struct dgl_error error = {"old"};
    struct dgl_named_log named;
    const struct dgl_log silent = dgl_log_with_error(NULL, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(dgl_fail(&silent, DGL_ERR_IO, "at level none"), DGL_ERR_IO);
    assert_string_equal(error.text, "at level none");
    test_log_init(&t, DGL_LOG_WARN);
    const struct dgl_log log = dgl_log_with_error(&t.log, &error);
    dgl_named_log_init(&named, &log, "a.json");
    dgl_warn(&log, "a warning");
    dgl_fail(&named.log, DGL_ERR_FORMAT, "first");
    dgl_fail(&log, DGL_ERR_FORMAT, "second");
    dgl_fail(&log, DGL_ERR_CANCELLED, "cancelled");
    assert_string_equal(t.text, "a warning\n");
    assert_string_equal(error.text, "a.json: first");
    dgl_named_log_init(&named, &silent, NULL);
    error.text[0] = '\0';
    dgl_fail(&named.log, DGL_ERR_FORMAT, "%s", "a\nb");
    assert_string_equal(error.text, "a\\x0ab");
}

static void log_keeps_to_its_level(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_INFO);
    dgl_debug(&t.log, "too quiet");
    assert_string_equal(t.text, "");
    dgl_info(&t.log, "heard");
    dgl_warn(&t.log, "heard too");
    assert_string_equal(t.text, "heard\nheard too\n");
    assert_false(dgl_log_enabled(&t.log, DGL_LOG_TRACE));
    assert_true(dgl_log_enabled(&t.log, DGL_LOG_INFO));
    assert_false(dgl_log_enabled(&t.log, DGL_LOG_NONE));
    assert_false(dgl_log_enabled(NULL, DGL_LOG_ERROR));
}

static void log_line_from_a_hostile_name_stays_one_line(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_INFO);
    dgl_info(&t.log, "name %s", "a\nb\033[31m\x7f\tc");
    assert_string_equal(t.text, "name a\\x0ab\\x1b[31m\\x7f\tc\n");
}

static void log_line_may_be_long_or_empty(void **state)
{
    (void)state;
    struct test_log t;
    char name[5000];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    test_log_init(&t, DGL_LOG_INFO);
    dgl_info(&t.log, "%s", name);
    assert_int_equal(t.len, sizeof(name));
    test_log_clear(&t);
    dgl_info(&t.log, "%s", "");
    assert_string_equal(t.text, "\n");
}

static void log_line_is_cut_before_it_floods(void **state)
{
    (void)state;
    struct test_log t;
    static char name[100000];
    memset(name, 'x', sizeof(name) - 1);
    test_log_init(&t, DGL_LOG_INFO);
    dgl_info(&t.log, "%s", name);
    assert_int_equal(t.len, 8000 + sizeof("..."));
    assert_contains(t.text, "x...\n");
}

static void notices_stand_between_warnings_and_information(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_WARN);
    dgl_notice(&t.log, "left out");
    assert_string_equal(t.text, "");
    test_log_init(&t, DGL_LOG_NOTICE);
    dgl_info(&t.log, "device");
    dgl_notice(&t.log, "left out");
    assert_string_equal(t.text, "left out\n");
}

static void log_numbers_the_lines_of_a_source(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_INFO);
    dgl_log_source(&t.log, DGL_LOG_INFO, "a\n\nb\n", 5);
    assert_string_equal(t.text, "   1  a\n   2  \n   3  b\n");
}

struct range_case {
    const char *name;
    uint64_t offset, size, total;
    bool fits;
};

static const struct range_case range_cases[] = {
    {"range: empty in empty", 0, 0, 0, true},
    {"range: whole", 0, 10, 10, true},
    {"range: empty at the end", 10, 0, 10, true},
    {"range: empty beyond the end", 11, 0, 10, false},
    {"range: one byte too many", 1, 10, 10, false},
    {"range: sum wraps around", 8, UINT64_MAX - 4, 10, false},
    {"range: offset wraps around", UINT64_MAX, 1, 10, false},
    {"range: largest", UINT64_MAX - 1, 1, UINT64_MAX, true},
};

static void check_range(void **state)
{
    const struct range_case *c = *state;
    assert_int_equal(dgl_range_fits(c->offset, c->size, c->total), c->fits);
}

static void checked_sums_and_products(void **state)
{
    (void)state;
    uint64_t out = 42;
    assert_false(dgl_add_u64(UINT64_MAX, 1, &out));
    assert_false(dgl_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_true(dgl_add_u64(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_true(dgl_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 31, &out));
    assert_true(out == UINT64_C(1) << 63);
    assert_true(dgl_mul_u64(0, UINT64_MAX, &out));
    assert_true(out == 0);
}

static void checked_alignment(void **state)
{
    (void)state;
    uint64_t out = 42;
    assert_true(dgl_align_u64(0, 64, &out));
    assert_true(out == 0);
    assert_true(dgl_align_u64(1, 64, &out));
    assert_true(out == 64);
    assert_true(dgl_align_u64(64, 64, &out));
    assert_true(out == 64);
    assert_false(dgl_align_u64(UINT64_MAX - 5, 64, &out));
    assert_true(out == 64);
}

static void checked_division_rounds_up(void **state)
{
    (void)state;
    assert_true(dgl_div_up_u64(0, 7) == 0);
    assert_true(dgl_div_up_u64(7, 7) == 1);
    assert_true(dgl_div_up_u64(8, 7) == 2);
    assert_true(dgl_div_up_u64(UINT64_MAX, 2) == UINT64_C(1) << 63);
}

static void calloc_of_nothing_is_a_pointer(void **state)
{
    (void)state;
    void *p = dgl_calloc(0, 16);
    assert_non_null(p);
    free(p);
}

static void calloc_refuses_overflow(void **state)
{
    (void)state;
    assert_null(dgl_calloc(SIZE_MAX / 2, 16));
}

static void grow_keeps_the_contents(void **state)
{
    (void)state;
    int *items = NULL;
    size_t cap = 0, moves = 0;
    for (int i = 0; i < 10000; i++) {
        size_t before = cap;
        assert_true(dgl_grow((void **)&items, &cap, (size_t)i + 1, sizeof(*items)));
        moves += cap != before;
        items[i] = i;
    }
    for (int i = 0; i < 10000; i++)
        assert_int_equal(items[i], i);
    assert_true(moves < 30); /* geometric growth: 10000 appends are not 10000 moves */
    free(items);
}

static void grow_refuses_overflow_and_changes_nothing(void **state)
{
    (void)state;
    void *items = NULL;
    size_t cap = 0;
    assert_true(dgl_grow(&items, &cap, 3, 8));
    void *before = items;
    size_t cap_before = cap;
    assert_false(dgl_grow(&items, &cap, SIZE_MAX / 4, 8));
    assert_ptr_equal(items, before);
    assert_int_equal(cap, cap_before);
    free(items);
}

static void arena_parts_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct dgl_arena arena = {0};
    unsigned char *parts[400];
    for (size_t i = 0; i < 400; i++) {
        size_t size = i % 50 == 49 ? 100000 : i * 7 % 600;
        parts[i] = dgl_arena_alloc(&arena, size);
        assert_non_null(parts[i]);
        assert_int_equal((uintptr_t)parts[i] % 16, 0);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(parts[i][j], 0);
        memset(parts[i], (int)(i & 0xff), size);
    }
    for (size_t i = 0; i < 400; i++) {
        size_t size = i % 50 == 49 ? 100000 : i * 7 % 600;
        for (size_t j = 0; j < size; j++)
            assert_int_equal(parts[i][j], i & 0xff);
    }
    dgl_arena_finish(&arena);
    assert_null(arena.last);
}

static void arena_copies_and_formats_text(void **state)
{
    (void)state;
    struct dgl_arena arena = {0};
    assert_string_equal(dgl_arena_strndup(&arena, "abcdef", 3), "abc");
    assert_string_equal(dgl_arena_strndup(&arena, NULL, 0), "");
    assert_string_equal(dgl_arena_printf(&arena, "%s-%d", "layer", 12), "layer-12");
    dgl_arena_finish(&arena);
}

static void arena_refuses_overflow(void **state)
{
    (void)state;
    struct dgl_arena arena = {0};
    assert_null(dgl_arena_alloc(&arena, SIZE_MAX));
    assert_null(dgl_arena_alloc(&arena, SIZE_MAX - 20));
    assert_null(dgl_arena_strndup(&arena, "", SIZE_MAX));
    dgl_arena_finish(&arena);
}

struct tally {
    atomic_int seen[1000];
    atomic_int calls;
    size_t fail_at;
};

static enum dgl_status count_item(void *ctx, size_t index)
{
    struct tally *tally = ctx;
    atomic_fetch_add(&tally->seen[index], 1);
    atomic_fetch_add(&tally->calls, 1);
    return index == tally->fail_at ? DGL_ERR_INTEGRITY : DGL_OK;
}

static void parallel_for_visits_each_item_once(void **state)
{
    (void)state;
    const int32_t threads[] = {0, 1, 2, 7};
    for (size_t t = 0; t < 4; t++) {
        struct tally tally = {.fail_at = SIZE_MAX};
        assert_int_equal(dgl_parallel_for(threads[t], 1000, count_item, &tally), DGL_OK);
        for (size_t i = 0; i < 1000; i++)
            assert_int_equal(tally.seen[i], 1);
    }
}

static void parallel_for_of_nothing_calls_nothing(void **state)
{
    (void)state;
    struct tally tally = {.fail_at = SIZE_MAX};
    assert_int_equal(dgl_parallel_for(4, 0, count_item, &tally), DGL_OK);
    assert_int_equal(tally.calls, 0);
}

static void parallel_for_stops_at_a_failure(void **state)
{
    (void)state;
    struct tally tally = {.fail_at = 10};
    assert_int_equal(dgl_parallel_for(1, 1000, count_item, &tally), DGL_ERR_INTEGRITY);
    assert_int_equal(tally.calls, 11);
    struct tally many = {.fail_at = 10};
    assert_int_equal(dgl_parallel_for(4, 1000, count_item, &many), DGL_ERR_INTEGRITY);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

enum { ITEMS = 1000, MOST_SLOTS = 12 };

struct line_case {
    const char *name;
    size_t count;
    int32_t threads;
    size_t slots, lag;
    size_t bad, refused; /* items that fail to be produced, or consumed; SIZE_MAX = none */
};
static const struct line_case lines[] = {
    {"no helper", ITEMS, 0, 1, 0, SIZE_MAX, SIZE_MAX},
    {"no helper, slots that are freed later", ITEMS, 0, 3, 2, SIZE_MAX, SIZE_MAX},
    {"a helper", ITEMS, 1, 2, 1, SIZE_MAX, SIZE_MAX},
    {"seven helpers", ITEMS, 7, MOST_SLOTS, 2, SIZE_MAX, SIZE_MAX},
    {"more helpers than slots", ITEMS, 7, 3, 2, SIZE_MAX, SIZE_MAX},
    {"more helpers than items", 3, 7, MOST_SLOTS, 2, SIZE_MAX, SIZE_MAX},
    {"nothing to do", 0, 3, 4, 1, SIZE_MAX, SIZE_MAX},
    {"no helper, a failure", ITEMS, 0, 2, 1, 17, SIZE_MAX},
    {"a failure of a helper", ITEMS, 7, MOST_SLOTS, 2, 500, SIZE_MAX},
    {"a failure of the first item", ITEMS, 7, MOST_SLOTS, 2, 0, SIZE_MAX},
    {"a refusal", ITEMS, 7, MOST_SLOTS, 2, SIZE_MAX, 300},
    {"a refusal before a failure", ITEMS, 7, MOST_SLOTS, 2, 303, 300},
    {"a failure before a refusal", ITEMS, 7, MOST_SLOTS, 2, 300, 303},
};

struct line {
    const struct line_case *row;
    pthread_t caller;
    size_t consumed;
    atomic_int produced, wrong;
    size_t held[MOST_SLOTS]; /* the item in each slot; no lock: the pipeline orders the uses */
};

static enum dgl_status produce_item(void *ctx, int32_t thread, size_t item)
{
    struct line *l = ctx;
    const struct line_case *row = l->row;
    bool own = pthread_equal(l->caller, pthread_self());
    atomic_fetch_add(&l->wrong, own != (thread == 0) || thread > row->threads);
    atomic_fetch_add(&l->produced, 1);
    l->held[item % row->slots] = item;
    return item == row->bad ? DGL_ERR_IO : DGL_OK;
}

static enum dgl_status consume_item(void *ctx, size_t item, enum dgl_status produced)
{
    struct line *l = ctx;
    const struct line_case *row = l->row;
    bool is_next = item == l->consumed++ && pthread_equal(l->caller, pthread_self());
    for (size_t i = item < row->lag ? 0 : item - row->lag; i <= item; i++)
        is_next = is_next && l->held[i % row->slots] == i; /* not used again too early */
    atomic_fetch_add(&l->wrong, !is_next || (produced != DGL_OK) != (item == row->bad));
    return item == row->refused ? DGL_ERR_CANCELLED : produced;
}

static void pipeline_consumes_in_order(void **state)
{
    const struct line_case *row = *state;
    size_t end = row->bad < row->refused ? row->bad : row->refused;
    for (int i = 0; i < 20; i++) {
        struct line l = {.row = row, .caller = pthread_self()};
        enum dgl_status want = end >= row->count ? DGL_OK
                               : end == row->bad ? DGL_ERR_IO
                                                 : DGL_ERR_CANCELLED;
        assert_int_equal(
            dgl_pipeline_run(NULL,
                             &(struct dgl_pipeline){row->count, row->threads, row->slots, row->lag,
                                                    produce_item, consume_item, &l}),
            want);
        assert_int_equal(l.wrong, 0);
        assert_int_equal(l.consumed, want == DGL_OK ? row->count : end + 1);
        assert_in_range(l.produced, l.consumed, l.consumed + row->slots);
    }
}

struct quota {
    const char *name;
    struct fake_file files[4];
    int32_t most;
};
static const struct quota quotas[] = {
    {"no cgroup", {{NULL, NULL}}, INT32_MAX},
    {"version 2, half a processor",
     {{"proc/self/cgroup", "0::/app\n"}, {"sys/fs/cgroup/app/cpu.max", "50000 100000\n"}},
     1},
    {"version 2, no limit",
     {{"proc/self/cgroup", "0::/app\n"}, {"sys/fs/cgroup/app/cpu.max", "max 100000\n"}},
     INT32_MAX},
    {"version 2, a parent",
     {{"proc/self/cgroup", "0::/a/b\n"},
      {"sys/fs/cgroup/a/cpu.max", "90000 100000\n"},
      {"sys/fs/cgroup/a/b/cpu.max", "900000 100000\n"}},
     1},
    {"version 1",
     {{"proc/self/cgroup", "4:cpu,cpuacct:/app\n"},
      {"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "100000\n"},
      {"sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n"}},
     1},
    {"version 1, no limit",
     {{"proc/self/cgroup", "4:cpu,cpuacct:/app\n"},
      {"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n"}},
     INT32_MAX},
    {"a period of zero",
     {{"proc/self/cgroup", "0::/app\n"}, {"sys/fs/cgroup/app/cpu.max", "50000 0\n"}},
     INT32_MAX},
};

static void threads_are_limited_by_cgroups(void **state)
{
    const struct quota *row = *state;
    char *root = test_tmpdir();
    const int32_t all = dgl_cpu_count();
    fake_tree_write(root, row->files);
    assert_int_equal(dgl_thread_count_under(root), row->most < all ? row->most : all);
    test_tmpdir_remove(root);
}

static void processors_and_clock_are_sane(void **state)
{
    (void)state;
    assert_in_range(dgl_cpu_count(), 1, 100000);
    assert_in_range(dgl_thread_count(), 1, dgl_cpu_count());
    uint64_t a = dgl_now_ns(), b = dgl_now_ns();
    assert_true(a > 0 && b >= a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_texts_are_distinct),
        cmocka_unit_test(unknown_status_has_a_text),
        cmocka_unit_test(fail_logs_one_error_line),
        cmocka_unit_test(fail_without_a_log_still_fails),
        cmocka_unit_test(fail_memory_names_what_and_how_much),
        cmocka_unit_test(fail_errno_names_operation_path_and_cause),
        cmocka_unit_test(an_error_is_stored_in_its_place),
        cmocka_unit_test(log_keeps_to_its_level),
        cmocka_unit_test(log_line_from_a_hostile_name_stays_one_line),
        cmocka_unit_test(log_line_may_be_long_or_empty),
        cmocka_unit_test(log_line_is_cut_before_it_floods),
        cmocka_unit_test(notices_stand_between_warnings_and_information),
        cmocka_unit_test(log_numbers_the_lines_of_a_source),
        cmocka_unit_test(checked_sums_and_products),
        cmocka_unit_test(checked_alignment),
        cmocka_unit_test(checked_division_rounds_up),
        cmocka_unit_test(calloc_of_nothing_is_a_pointer),
        cmocka_unit_test(calloc_refuses_overflow),
        cmocka_unit_test(grow_keeps_the_contents),
        cmocka_unit_test(grow_refuses_overflow_and_changes_nothing),
        cmocka_unit_test(arena_parts_are_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_copies_and_formats_text),
        cmocka_unit_test(arena_refuses_overflow),
        cmocka_unit_test(parallel_for_visits_each_item_once),
        cmocka_unit_test(parallel_for_of_nothing_calls_nothing),
        cmocka_unit_test(parallel_for_stops_at_a_failure),
        cmocka_unit_test(processors_and_clock_are_sane),
    };
    return test_run_table("dates", parse_date, date_cases) +
           test_run_table("pipelines", pipeline_consumes_in_order, lines) +
           test_run_table("quotas", threads_are_limited_by_cgroups, quotas) +
           cmocka_run_group_tests_name("base", tests, NULL, NULL) +
           test_run_table("checked ranges", check_range, range_cases);
}
