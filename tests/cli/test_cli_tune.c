/* tune: measured, stored, printed and removed results, for a user and for a script; and the other
 * commands that use the results. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"
#include "tests/support/worst_norm.h"

static char *dir;       /* of the model, the kernel file and the cache */
static char *worst;     /* the kernel file */
static char cache[512]; /* "XDG_CACHE_HOME=..." */

static int set_up(void **state)
{
    (void)state;
    dir = test_tmpdir();
    struct tiny_llama sizes = tiny_llama_default();
    tiny_llama_write(dir, &sizes);
    worst_norm_write(dir, "worst.comp", "");
    worst = checked(dgl_path_join(dir, "worst.comp"));
    snprintf(cache, sizeof(cache), "XDG_CACHE_HOME=%s", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(worst);
    test_tmpdir_remove(dir);
    return 0;
}

/* The command with these arguments and this test's cache. */
static void run(struct process_result *r, const char *const *args)
{
    const char *const env[] = {cache, NULL};
    process_run(&(struct process_params){.args = args, .env = env}, r);
}
#define RUN(r, ...)                                                                                \
    do {                                                                                           \
        const char *const args_[] = {__VA_ARGS__, NULL};                                           \
        run((r), args_);                                                                           \
    } while (0)
#define MODEL "-m", dir, "--device", "any", "--kernel-file", worst

static const char *text(const struct dgl_json *object, const char *key)
{
    return dgl_json_str(dgl_json_get(object, key)).p;
}

/* The reason of the first step of that name. */
static const char *reason_of(struct process_result *r, const char *step)
{
    const struct dgl_json *row = dgl_json_first(process_json(r));
    while (row && strcmp(text(row, "step"), step) != 0)
        row = dgl_json_next(row);
    assert_non_null(row);
    return text(row, "reason");
}

static void a_tunable_at_its_worst_is_replaced(void **state)
{
    struct process_result r;
    (void)state;
    RUN(&r, "tune", MODEL, "--op", "attn_norm", "--json");
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r), *ops = dgl_json_get(root, "operations");
    assert_int_equal(dgl_json_count(ops), 1);
    assert_true(dgl_json_bool(dgl_json_get(root, "stored")));
    assert_contains("gpu host", text(root, "clock"));
    const struct dgl_json *op = dgl_json_first(ops);
    int64_t winner = 0, best = 0;
    assert_true(dgl_json_i64(dgl_json_get(op, "winner"), &winner));
    assert_true(dgl_json_i64(dgl_json_get(op, "best"), &best));
    assert_int_equal(best, winner);
    assert_near(dgl_json_f64(dgl_json_get(op, "best_us")),
                dgl_json_f64(dgl_json_get(op, "tuned_us")), 0);
    assert_true(dgl_json_bool(dgl_json_get(op, "complete")));
    const struct dgl_json *list = dgl_json_get(op, "candidates");
    assert_true(dgl_json_count(list) >= 3);
    assert_contains(text(dgl_json_at(list, (size_t)winner), "tunes"), "SPIN=0");
    assert_contains(r.err, "candidates to begin with: about");
    process_finish(&r);
}

static void other_commands_use_what_is_stored(void **state)
{
    struct process_result r;
    (void)state;
    RUN(&r, "tune", "--show", "--device", "any", "--json");
    assert_code(&r, 0);
    assert_int_equal(dgl_json_count(process_json(&r)), 1);
    const struct dgl_json *row = dgl_json_at(process_json(&r), 0);
    int64_t tokens = 0;
    assert_contains(text(row, "tunes"), "SPIN=0");
    assert_string_equal(text(row, "phase"), "prefill");
    assert_true(dgl_json_i64(dgl_json_get(row, "tokens"), &tokens));
    assert_true(tokens > 1);
    process_finish(&r);
    RUN(&r, "tune", "--show", "--device", "any");
    assert_contains(r.out, "SPIN=0");
    assert_contains(r.out, "attn_norm      prefill");
    process_finish(&r);

    RUN(&r, "kernels", "explain", MODEL, "--json");
    assert_contains(reason_of(&r, "attn_norm"), "SPIN=0 (tuner)");
    process_finish(&r);
    RUN(&r, "kernels", "explain", MODEL, "--json", "--no-tune");
    assert_null(strstr(reason_of(&r, "attn_norm"), "tuner"));
    process_finish(&r);

    RUN(&r, "bench", MODEL, "-n", "2", "--prompt-tokens", "4", "-r", "1", "--json");
    assert_code(&r, 0);
    const struct dgl_json *tuned = dgl_json_get(process_json(&r), "tuned");
    assert_int_equal(dgl_json_count(tuned), 1);
    double before = dgl_json_f64(dgl_json_get(dgl_json_first(tuned), "default_us"));
    double after = dgl_json_f64(dgl_json_get(dgl_json_first(tuned), "tuned_us"));
    if (!(after > 0 && after < before))
        fail_msg("tuned %g us, default %g us", after, before);
    process_finish(&r);
}

/* Two kernel files have results for the same request: each is reported with its own texts, as in
 * the call that measured it. */
static void other_texts_are_told_apart(void **state)
{
    struct process_result r;
    char texts[2][65] = {"", ""};
    (void)state;
    worst_norm_write(dir, "other.comp", "// Another text.\n");
    char *other = checked(dgl_path_join(dir, "other.comp"));
    RUN(&r, "tune", "-m", dir, "--device", "any", "--kernel-file", other, "--op", "attn_norm",
        "--json");
    assert_code(&r, 0);
    const struct dgl_json *op = dgl_json_first(dgl_json_get(process_json(&r), "operations"));
    snprintf(texts[1], sizeof(texts[1]), "%s", text(op, "texts"));
    assert_int_equal(strlen(texts[1]), 64);
    process_finish(&r);
    RUN(&r, "tune", "--show", "--device", "any", "--json");
    assert_int_equal(dgl_json_count(process_json(&r)), 2);
    const struct dgl_json *rows[] = {dgl_json_at(process_json(&r), 0),
                                     dgl_json_at(process_json(&r), 1)};
    assert_string_equal(text(rows[0], "request"), text(rows[1], "request"));
    assert_string_equal(text(rows[1], "texts"), texts[1]);
    snprintf(texts[0], sizeof(texts[0]), "%s", text(rows[0], "texts"));
    assert_string_not_equal(texts[0], texts[1]);
    process_finish(&r);
    RUN(&r, "tune", "--show", "--device", "any");
    for (size_t i = 0; i < 2; i++) {
        texts[i][8] = '\0';
        assert_contains(r.out, texts[i]);
    }
    process_finish(&r);
    free(other);
}

static void reset_forgets(void **state)
{
    struct process_result r;
    (void)state;
    RUN(&r, "tune", "--reset", "--device", "any");
    assert_code(&r, 0);
    assert_contains(r.err, "tune: removed 2 results for ");
    process_finish(&r);
    RUN(&r, "tune", "--reset", "--device", "any", "--json");
    assert_code(&r, 0);
    int64_t removed = -1;
    assert_true(dgl_json_i64(dgl_json_get(process_json(&r), "removed"), &removed));
    assert_int_equal(removed, 0);
    assert_true(dgl_json_is(dgl_json_get(process_json(&r), "device"), DGL_JSON_OBJECT));
    process_finish(&r);
    RUN(&r, "tune", "--show", "--device", "any", "--json");
    assert_int_equal(dgl_json_count(process_json(&r)), 0);
    process_finish(&r);
    RUN(&r, "kernels", "explain", MODEL, "--json");
    assert_null(strstr(reason_of(&r, "attn_norm"), "tuner"));
    process_finish(&r);
}

/* If the default itself is wrong, with the built-in NAME or another, no candidate is compared with
 * it. */
static void a_wrong_default_is_told(void **state)
{
    static const char *const names[] = {"norm_rms", "my_bad"};
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "show", "norm_rms", NULL);
    assert_code(&r, 0);
    const char *name = strstr(r.out, "//! NAME norm_rms"), *factor = strstr(r.out, "inversesqrt(");
    assert_true(name && factor && name < factor);
    char *path = checked(dgl_path_join(dir, "wrong.comp"));
    for (size_t i = 0; i < 2; i++) {
        struct dgl_buf wrong = {0};
        struct process_result tuned;
        dgl_buf_printf(&wrong, "%.*s//! NAME %s%.*s1.01 * %s", (int)(name - r.out), r.out, names[i],
                       (int)(factor - name - 17), name + 17, factor);
        test_write_file(dir, "wrong.comp", wrong.p, wrong.len);
        RUN(&tuned, "tune", "-m", dir, "--device", "any", "--kernel-file", path, "--op",
            "attn_norm");
        assert_code(&tuned, 1);
        assert_contains(tuned.out, " (default) is wrong");
        assert_one_error(&tuned, "attn_norm (prefill): the default, ");
        assert_contains(tuned.err, names[i]);
        assert_null(strstr(tuned.err, "no cache folder"));
        process_finish(&tuned);
        RUN(&tuned, "tune", "-m", dir, "--device", "any", "--kernel-file", path, "--op",
            "attn_norm", "--json");
        assert_code(&tuned, 1);
        const struct dgl_json *op =
            dgl_json_first(dgl_json_get(process_json(&tuned), "operations"));
        const struct dgl_json *first = dgl_json_first(dgl_json_get(op, "candidates"));
        assert_string_equal(text(first, "kernel"), names[i]);
        assert_contains(text(first, "reason"), "wanted");
        assert_true(dgl_json_is(dgl_json_get(op, "default_us"), DGL_JSON_NULL));
        process_finish(&tuned);
        dgl_buf_finish(&wrong);
    }
    process_finish(&r);
    RUN(&r, "tune", "--show", "--device", "any", "--json");
    assert_int_equal(dgl_json_count(process_json(&r)), 0);
    process_finish(&r);
    free(path);
}

/* A kernel of a file is the default, and the built-in kernel is a candidate that is only compared,
 * also if the file replaces it by its name. */
static void builtin_is_compared(void **state)
{
    static const char *const names[] = {"mine", "norm_rms"};
    struct process_result r, tuned;
    (void)state;
    process_command(&r, "kernels", "show", "norm_rms", NULL);
    assert_code(&r, 0);
    const char *name = strstr(r.out, "//! NAME norm_rms");
    assert_non_null(name);
    char *path = checked(dgl_path_join(dir, "mine.comp"));
    for (size_t i = 0; i < 2; i++) {
        struct dgl_buf file = {0};
        dgl_buf_printf(&file, "// Another text.\n%.*s//! NAME %s%s", (int)(name - r.out), r.out,
                       names[i], name + 17);
        test_write_file(dir, "mine.comp", file.p, file.len);
        RUN(&tuned, "tune", "-m", dir, "--device", "any", "--kernel-file", path, "--op",
            "attn_norm", "--json");
        assert_code(&tuned, 0);
        const struct dgl_json *op =
            dgl_json_first(dgl_json_get(process_json(&tuned), "operations"));
        const struct dgl_json *c = dgl_json_first(dgl_json_get(op, "candidates"));
        size_t builtin = 0, place = 0, winner = 0;
        assert_string_equal(text(c, "kernel"), names[i]);
        winner = (size_t)dgl_json_f64(dgl_json_get(op, "winner"));
        for (; c; c = dgl_json_next(c), place++)
            if (dgl_json_is(dgl_json_get(c, "builtin"), DGL_JSON_BOOL) &&
                dgl_json_bool(dgl_json_get(c, "builtin"))) {
                assert_string_equal(text(c, "kernel"), "norm_rms");
                assert_true(dgl_json_f64(dgl_json_get(c, "us")) > 0);
                assert_int_not_equal(place, winner);
                builtin++;
            }
        assert_int_equal(builtin, 1);
        process_finish(&tuned);
        dgl_buf_finish(&file);
    }
    process_finish(&r);
    free(path);
}

struct refusal {
    const char *name;
    const char *args[8];
    int code;
    const char *error;
};

static const struct refusal refusals[] = {
    {"both", {"tune", "--show", "--reset"}, 2, "either --show or --reset"},
    {"a depth to show", {"tune", "--show", "-d", "64"}, 2, "are for measuring"},
    {"an operation to remove", {"tune", "--reset", "--op", "qkv"}, 2, "are for measuring"},
    {"a depth below the range", {"tune", "-d", "1"}, 2, "--depth"},
    {"no time", {"tune", "--seconds", "0"}, 2, "--seconds"},
    {"an operation that no plan has", {"tune", "--device", "any", "--op", "qkw"}, 1, "qkw"},
};

static void refused(void **state)
{
    const struct refusal *c = *state;
    struct process_result r;
    run(&r, c->args);
    assert_code(&r, c->code);
    assert_one_error(&r, c->error);
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tunable_at_its_worst_is_replaced),
        cmocka_unit_test(other_commands_use_what_is_stored),
        cmocka_unit_test(other_texts_are_told_apart),
        cmocka_unit_test(reset_forgets),
        cmocka_unit_test(a_wrong_default_is_told),
        cmocka_unit_test(builtin_is_compared),
    };
    void *state = NULL;
    set_up(&state);
    int failures = cmocka_run_group_tests_name("tune", tests, NULL, NULL);
    failures += test_run_table("refused", refused, refusals);
    tear_down(&state);
    return failures;
}
