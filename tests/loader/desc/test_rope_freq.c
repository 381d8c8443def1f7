/* Rotary frequencies and attention factors compared with those of Hugging Face transformers
 * (tests/data/make/make_rope_vectors.py): from the config's text to the numbers. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/desc/rope_freq.h"
#include "tests/support/desc_text.h"

#define VECTORS "tests/data/vectors/rope_freq.json"

/* The reference computes in float: a frequency has three or four roundings and a power. */
#define RELATIVE 1e-6

static void check_vector(const struct dgl_json *row)
{
    struct test_log log;
    struct model_desc d;
    int64_t tokens;
    const char *name = dgl_json_str(dgl_json_get(row, "name")).p;
    const struct dgl_json *want = dgl_json_get(row, "inv_freq");
    test_log_init(&log, DGL_LOG_WARN);
    assert_true(dgl_json_i64(dgl_json_get(row, "tokens"), &tokens));
    enum dgl_status status =
        desc_from_config(&log.log, name, dgl_json_str(dgl_json_get(row, "config")).p, NULL, &d);
    assert_string_equal(log.text, "");
    assert_int_equal(status, DGL_OK);
    const struct rope_desc *rope = &d.rope[ROPE_GLOBAL];
    double *freq = dgl_new_array(double, (size_t)rope->dims / 2);
    rope_inv_freq(rope, tokens, freq);
    assert_int_equal(dgl_json_count(want), rope->dims / 2);
    assert_near(rope->scale, dgl_json_f64(dgl_json_get(row, "scale")), 1e-12);
    int i = 0;
    for (const struct dgl_json *v = dgl_json_first(want); v; v = dgl_json_next(v), i++) {
        double reference = dgl_json_f64(v);
        if (!(fabs(freq[i] - reference) <= RELATIVE * reference))
            fail_msg("%s: pair %d is %.9g, wanted %.9g", name, i, freq[i], reference);
    }
    free(freq);
    model_desc_finish(&d);
}

static void frequencies_match_the_reference(void **state)
{
    struct dgl_json_doc *doc = NULL;
    (void)state;
    assert_int_equal(dgl_json_load(NULL, VECTORS, 1 << 20, &doc), DGL_OK);
    const struct dgl_json *rows = dgl_json_root(doc);
    assert_true(dgl_json_count(rows) > 30);
    for (const struct dgl_json *row = dgl_json_first(rows); row; row = dgl_json_next(row))
        check_vector(row);
    dgl_json_destroy(&doc);
}

struct change_case {
    const char *name;
    struct rope_desc rope;
    int64_t from, to;
    bool changes;
};

static const struct change_case changes[] = {
    {"default never", {.kind = ROPE_DEFAULT, .factor = 1}, 1, 100000, false},
    {"yarn never", {.kind = ROPE_YARN, .factor = 4, .original_context = 64}, 1, 100, false},
    {"longrope below", {.kind = ROPE_LONGROPE, .original_context = 64}, 1, 64, false},
    {"longrope across", {.kind = ROPE_LONGROPE, .original_context = 64}, 64, 65, true},
    {"longrope back", {.kind = ROPE_LONGROPE, .original_context = 64}, 65, 64, true},
    {"longrope beyond", {.kind = ROPE_LONGROPE, .original_context = 64}, 65, 90, false},
    {"dynamic below", {.kind = ROPE_DYNAMIC, .factor = 2, .original_context = 64}, 3, 64, false},
    {"dynamic beyond", {.kind = ROPE_DYNAMIC, .factor = 2, .original_context = 64}, 65, 66, true},
    {"dynamic back", {.kind = ROPE_DYNAMIC, .factor = 2, .original_context = 64}, 65, 3, true},
    {"dynamic by 1", {.kind = ROPE_DYNAMIC, .factor = 1, .original_context = 64}, 65, 66, false},
};

static void changes_are_known(void **state)
{
    const struct change_case *row = *state;
    assert_int_equal(rope_freq_changes(&row->rope, row->from, row->to), row->changes);
}

int main(void)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(frequencies_match_the_reference)};
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    return failures + test_run_table("changes", changes_are_known, changes);
}
