/* --profile and --trace: guarantees about times, shares and the form of the trace. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tests/support/process.h"

#define PROMPT "Once upon a time"
#define FIRST  "generate", "--device", "any", "-p", PROMPT, "-n", "9", "--temp", "0"
#define BENCH                                                                                      \
    "bench", "--device", "any", "-n", "6", "--prompt-tokens", "8", "-r", "1", "--limits", "min"

static double number(const struct dgl_json *object, const char *key)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    if (!dgl_json_is(value, DGL_JSON_NUMBER))
        fail_msg("%s is not a number", key);
    return dgl_json_f64(value);
}

static const char *text(const struct dgl_json *object, const char *key)
{
    struct dgl_str s = dgl_json_str(dgl_json_get(object, key));
    return s.p ? s.p : "";
}

static bool is_null(const struct dgl_json *object, const char *key)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    return value && dgl_json_is(value, DGL_JSON_NULL);
}

/* ---- profile --------------------------------------------------------------------------------- */

struct call {
    const char *name;
    const char *args[20];
    bool profile, timer; /* timer: as the device has it */
    size_t steps;        /* decoded tokens of the time line */
};

static const struct call calls[] = {
    {"generate", {FIRST, "--json"}, false, false, 0},
    {"generate --profile", {FIRST, "--json", "--profile"}, true, true, 8},
    {"generate --profile without timers",
     {FIRST, "--json", "--profile", "--limits", "min"},
     true,
     false,
     8},
    {"bench", {BENCH, "--json"}, false, false, 0},
    {"bench --profile without timers", {BENCH, "--json", "--profile"}, true, false, 6},
};

static void test_profile(void **state)
{
    const struct call *row = *state;
    struct process_result r;
    double share = 0, wall_us = 0, parts_us = 0;
    process_run(&(struct process_params){.args = row->args}, &r);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r), *list = dgl_json_get(root, "profile");
    assert_int_equal(is_null(root, "profile"), !row->profile);
    assert_int_equal(is_null(root, "timeline"), !row->profile);
    assert_true(is_null(root, "timer_us") || row->timer);
    assert_true(!is_null(root, "timer_us") || !row->timer ||
                is_null(dgl_json_first(list), "gpu_us"));
    size_t entries = dgl_json_count(list);
    assert_true(row->profile ? entries > 10 : entries == 0);
    for (const struct dgl_json *e = dgl_json_first(list); e; e = dgl_json_next(e)) {
        assert_true(text(e, "op")[0] && text(e, "kernel")[0] && number(e, "calls") > 0);
        /* Some devices have no timers. */
        assert_true(row->timer || is_null(e, "gpu_us"));
        assert_int_equal(is_null(e, "gpu_us"), is_null(e, "share"));
        assert_true(!is_null(e, "gbps") || is_null(e, "copy_share"));
        share += is_null(e, "share") ? 0 : number(e, "share");
    }
    if (share > 0) /* of prefill and of decode */
        assert_near(share, 2, 0.001 * (double)entries);
    const bool software = dgl_json_bool(dgl_json_get(dgl_json_get(root, "device"), "software"));
    list = dgl_json_get(root, "timeline");
    assert_int_equal(dgl_json_count(list), row->steps);
    for (const struct dgl_json *s = dgl_json_first(list); s; s = dgl_json_next(s)) {
        /* A software renderer computes while it records: only timers separate the two. */
        const bool timers = dgl_json_bool(dgl_json_get(s, "timers"));
        const double gpu_us = is_null(s, "gpu_us") ? 0 : number(s, "gpu_us");
        if (software || !row->timer)
            assert_int_equal(!is_null(s, "gpu_us"), timers);
        assert_true(row->timer || !timers);
        parts_us += number(s, "cpu_record_us") + gpu_us + number(s, "readback_us");
        wall_us += number(s, "wall_us");
        assert_near(number(s, "wall_us"),
                    number(s, "host_us") + number(s, "cpu_record_us") + gpu_us +
                        number(s, "readback_us"),
                    0.01);
    }
    if (row->steps > 0) /* the rest is a callback that does no work */
        assert_near(parts_us, wall_us, 0.25 * wall_us);
    if (row->steps == 8)
        assert_near(wall_us * 1e-3, number(dgl_json_get(root, "timings"), "decode_ms"),
                    0.1 * wall_us * 1e-3);
    process_finish(&r);
}

/* The text is the same and alone on standard output. */
static void test_table_of_generate(void **state)
{
    (void)state;
    struct process_result plain, r;
    process_command(&plain, FIRST, NULL);
    process_command(&r, FIRST, "--profile", NULL);
    assert_code(&r, 0);
    assert_string_equal(r.out, plain.out);
    assert_contains(r.err, "attn_decode");
    assert_contains(r.err, "us readback");
    assert_null(strstr(plain.err, "attn_decode"));
    process_finish(&plain);
    process_finish(&r);
}

/* ---- trace ----------------------------------------------------------------------------------- */

struct stretch {
    double start, end;
};
struct track {
    bool named;
    struct stretch *list; /* [count] */
    size_t count, cap;
};

static int compare_stretches(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    if (x->start != y->start)
        return (x->start > y->start) - (x->start < y->start);
    return (x->end < y->end) - (x->end > y->end); /* the longer one is around the other */
}

/* Viewers draw events wrongly that overlap without nesting. */
static void check_nesting(struct track *track)
{
    const double rounding = 0.0021; /* us: times have three decimals */
    struct stretch open[16];
    size_t depth = 0;
    qsort(track->list, track->count, sizeof(*track->list), compare_stretches);
    for (size_t i = 0; i < track->count; i++) {
        const struct stretch *s = &track->list[i];
        while (depth > 0 && open[depth - 1].end <= s->start + rounding)
            depth--;
        if (depth > 0 && s->end > open[depth - 1].end + rounding)
            fail_msg("%.3f to %.3f begins inside of %.3f to %.3f and ends after it", s->start,
                     s->end, open[depth - 1].start, open[depth - 1].end);
        assert_in_range(depth, 0, 15);
        open[depth++] = *s;
    }
}

static void test_trace(void **state)
{
    (void)state;
    static const char *const kinds[] = {"compile", "submit", "readback", "record", "op", "command"};
    struct process_result r;
    struct track tracks[3] = {0};
    uint64_t count[6] = {0};
    char *dir = test_tmpdir(), *path = checked(dgl_path_join(dir, "trace.json"));
    process_command(&r, FIRST, "--json", "--trace", path, NULL);
    assert_code(&r, 0);
    struct dgl_json_doc *doc = NULL;
    assert_int_equal(dgl_json_load(NULL, path, 64 << 20, &doc), DGL_OK);
    const struct dgl_json *events = dgl_json_get(dgl_json_root(doc), "traceEvents");
    assert_true(dgl_json_count(events) > 100);
    for (const struct dgl_json *e = dgl_json_first(events); e; e = dgl_json_next(e)) {
        size_t tid = (size_t)number(e, "tid"), kind = 0;
        assert_true(number(e, "pid") == 1 && tid >= 1 && tid <= 2 && text(e, "name")[0]);
        if (strcmp(text(e, "ph"), "M") == 0) {
            tracks[tid].named |= strcmp(text(e, "name"), "thread_name") == 0 &&
                                 text(dgl_json_get(e, "args"), "name")[0] != '\0';
            continue;
        }
        assert_string_equal(text(e, "ph"), "X");
        while (kind < 6 && strcmp(text(e, "cat"), kinds[kind]) != 0)
            kind++;
        if (kind == 6)
            fail_msg("category %s", text(e, "cat"));
        assert_int_equal(tid, strcmp(kinds[kind], "op") == 0 ? 2 : 1);
        count[kind]++;
        struct track *track = &tracks[tid];
        assert_true(
            dgl_grow((void **)&track->list, &track->cap, track->count + 1, sizeof(*track->list)));
        struct stretch s = {number(e, "ts"), number(e, "ts") + number(e, "dur")};
        assert_true(s.start >= 0 && s.end >= s.start);
        track->list[track->count++] = s;
    }
    for (int i = 1; i <= 2; i++) {
        assert_true(tracks[i].named);
        check_nesting(&tracks[i]);
        free(tracks[i].list);
    }
    /* A trace profiles: its operations are those of the profile. */
    const struct dgl_json *root = process_json(&r), *all = dgl_json_get(root, "counters");
    uint64_t ops = 0, submits = 0, readbacks = 0;
    bool timed = false;
    for (const struct dgl_json *e = dgl_json_first(dgl_json_get(root, "profile")); e;
         e = dgl_json_next(e)) {
        timed = !is_null(e, "gpu_us");
        ops += (uint64_t)number(e, "calls");
    }
    for (int i = 0; i < 2; i++) {
        const struct dgl_json *c = dgl_json_get(all, i ? "decode" : "prefill");
        submits += (uint64_t)number(c, "submits");
        readbacks += (uint64_t)number(c, "readbacks");
    }
    assert_int_equal(count[4], timed ? ops : 0);
    assert_int_equal(count[2], readbacks);
    assert_true(count[1] >= submits); /* loading and measuring the copy, too */
    assert_true(count[0] > 5);
    assert_true(count[3] > 0);
    assert_int_equal(count[5], 1);
    dgl_json_destroy(&doc);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

/* If the command fails, no trace is left. If the trace cannot be written, the error comes before
 * the work. */
static void test_trace_fails(void **state)
{
    (void)state;
    struct process_result r;
    char *dir = test_tmpdir(), *path = checked(dgl_path_join(dir, "trace.json"));
    char **names;
    size_t count;
    process_command(&r, "generate", "--device", "any", "--ids", "99999", "-n", "2", "--trace", path,
                    NULL);
    assert_code(&r, 1);
    process_finish(&r);
    assert_int_equal(dgl_dir_list(NULL, dir, &names, &count), DGL_OK);
    assert_int_equal(count, 0);
    dgl_names_free(names, count);
    process_command(&r, FIRST, "--trace", "/nowhere/at/all/t.json", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "/nowhere/at/all/t.json");
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_of_generate),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_trace_fails),
    };
    int failures = test_run_table("profile", test_profile, calls);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
