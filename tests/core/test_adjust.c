/* Words of ADJUST: biases, penalties of repetitions, and sequence breakers as ids of the bundled
 * model's vocabulary. */
#include "core/seq/adjust.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/test.h"

#define BUNDLED_MODEL "tests/models/story-llama-q4_k_m"

static struct dgl_tokenizer *tok;
static uint32_t vocab;

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t mark_of(const struct adjust *a, uint32_t id)
{
    return a->words[ADJUST_MARKS + id / 16] >> 2 * (id % 16) & 3;
}

static const uint32_t *sequences(const struct adjust *a)
{
    return a->words + oplist_sequences_at(a->vocab);
}

static void fill(struct adjust *a, const struct dgl_sampling *sampling)
{
    a->vocab = vocab;
    assert_int_equal(sampling_check(NULL, sampling), DGL_OK);
    assert_int_equal(adjust_fill(a, NULL, tok, sampling, sampling_changes(sampling)), DGL_OK);
}

#define DRY .dry_multiplier = 0.5f, .dry_penalty_last_n = -1

struct breakers_row {
    const char *name;
    const char *breakers[3];
    size_t count;
    const char *single; /* a one-token text that is a breaker itself, or NULL */
    bool several;       /* some tokens begin a breaker that other tokens complete */
};

static const struct breakers_row breakers_rows[] = {
    {"default", {NULL}, 0, "\n", false},
    {"a letter", {"z"}, 1, "z", false},
    {"a word and a full stop", {"dog.", "."}, 2, ".", true},
    {"a line of its own", {"\n\nOnce upon"}, 1, NULL, true},
};

static bool holds_breaker(const struct breakers_row *row, const char *text)
{
    for (size_t i = 0; i < row->count; i++)
        if (strstr(text, row->breakers[i]))
            return true;
    return row->count == 0 && strpbrk(text, "\n:\"*");
}

static char *text_of(const int32_t *ids, size_t count)
{
    char *text = NULL;
    size_t len;
    assert_int_equal(dgl_decode(NULL, tok, ids, count, false, &text, &len), DGL_OK);
    return text;
}

/* Every token whose text contains a breaker is marked, and each breaker is spelled by a sequence of
 * tokens. */
static void breakers_become_ids(void **state)
{
    const struct breakers_row *row = *state;
    struct adjust a = {0};
    int32_t ids[ADJUST_MAX_TAIL + 1];
    fill(&a, &(struct dgl_sampling){DRY, .dry_breakers = row->count ? row->breakers : NULL,
                                    .num_dry_breakers = row->count});
    size_t singles = 0, single_found = 0, count = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        char *text = text_of(&(int32_t){(int32_t)id}, 1);
        bool want = holds_breaker(row, text), got = mark_of(&a, id) & 1;
        if (want != got)
            fail_msg("token %u, \"%s\": mark %d, expected %d", id, text, got, want);
        singles += got;
        single_found += got && row->single && strcmp(text, row->single) == 0;
        free(text);
    }
    assert_int_equal(single_found > 0, row->single != NULL);
    assert_int_equal(singles > 0, row->single != NULL);
    for (uint32_t at = 0; at < a.words[ADJUST_SEQUENCE_WORDS]; count++) {
        uint32_t tail = sequences(&a)[at + 1];
        assert_in_range(tail, 1, ADJUST_MAX_TAIL);
        assert_true(mark_of(&a, sequences(&a)[at]) & 2);
        ids[0] = (int32_t)sequences(&a)[at];
        for (uint32_t i = 0; i < tail; i++)
            ids[1 + i] = (int32_t)sequences(&a)[at + 2 + i];
        char *text = text_of(ids, tail + 1);
        if (!holds_breaker(row, text))
            fail_msg("sequence at %u spells \"%s\"", at, text);
        free(text);
        at += 2 + tail;
    }
    assert_int_equal(count > 0, row->several);
    adjust_finish(&a);
}

/* The vocabulary is searched once for equal breakers, and the device's copy is not written again.
 */
static void only_changes_are_written(void **state)
{
    (void)state;
    struct adjust a = {0};
    fill(&a, &(struct dgl_sampling){DRY});
    assert_true(a.head_dirty && a.breakers_dirty);
    a.head_dirty = a.breakers_dirty = false;
    fill(&a, &(struct dgl_sampling){DRY});
    assert_false(a.head_dirty || a.breakers_dirty);
    fill(&a, &(struct dgl_sampling){DRY, .presence_penalty = 1});
    assert_true(a.head_dirty && !a.breakers_dirty);
    a.head_dirty = false;
    fill(&a, &(struct dgl_sampling){DRY, .presence_penalty = 1,
                                    .dry_breakers = (const char *const[]){""}});
    assert_true(!a.head_dirty && a.breakers_dirty);
    for (uint32_t id = 0; id < vocab; id++)
        assert_int_equal(mark_of(&a, id), 0);
    adjust_finish(&a);
}

static void biases_of_one_token_add_up(void **state)
{
    (void)state;
    static const struct dgl_logit_bias biases[] = {{5, 1}, {9, -INFINITY}, {5, 0.25f}};
    struct adjust a = {0};
    fill(&a, &(struct dgl_sampling){.logit_bias = biases, .num_logit_bias = 3});
    assert_int_equal(a.words[ADJUST_NUM_BIASES], 2);
    assert_int_equal(a.words[ADJUST_BIASES], 5);
    assert_near((double)float_of(a.words[ADJUST_BIASES + 1]), 1.25, 0);
    assert_int_equal(a.words[ADJUST_BIASES + 2], 9);
    assert_true(float_of(a.words[ADJUST_BIASES + 3]) == -INFINITY);
    adjust_finish(&a);
}

static void costs_of_repeats_end_before_infinity(void **state)
{
    (void)state;
    static const struct {
        float multiplier, base;
        uint32_t lengths;
    } rows[] = {{0.5f, 0, 160}, {1, 2, 128}, {1, 1, 1024}, {0.8f, 1.01f, 1024}, {100, 100, 19}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct adjust a = {0};
        fill(&a, &(struct dgl_sampling){.dry_multiplier = rows[i].multiplier,
                                        .dry_base = rows[i].base,
                                        .dry_penalty_last_n = 3});
        assert_int_equal(a.words[ADJUST_DRY_LENGTHS], rows[i].lengths);
        assert_int_equal(a.words[ADJUST_DRY_ALLOWED], 2);
        assert_int_equal(a.words[ADJUST_DRY_LAST_N], 3);
        assert_near((double)float_of(a.words[ADJUST_DRY]), (double)rows[i].multiplier, 0);
        assert_true(isfinite(float_of(a.words[ADJUST_DRY + rows[i].lengths - 1])));
        adjust_finish(&a);
    }
}

static void too_many_breakers_are_refused(void **state)
{
    (void)state;
    static const char *const breakers[] = {"aa ea ia oa", "ee ae ie", "ii ai ei", "oo", "tt th sh",
                                           "ss th",       "nn",       "dd",       "rr", "ll"};
    struct adjust a = {.vocab = vocab};
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(
        adjust_fill(&a, &log.log, tok,
                    &(struct dgl_sampling){DRY, .dry_breakers = breakers, .num_dry_breakers = 10},
                    SAMPLE_ADJUSTS),
        DGL_ERR_INVALID_ARG);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, "sequence breakers can begin in more than");
    fill(&a, &(struct dgl_sampling){DRY}); /* the earlier entries are gone */
    assert_int_equal(a.words[ADJUST_SEQUENCE_WORDS], 0);
    adjust_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_changes_are_written),
        cmocka_unit_test(biases_of_one_token_add_up),
        cmocka_unit_test(costs_of_repeats_end_before_infinity),
        cmocka_unit_test(too_many_breakers_are_refused),
    };
    if (dgl_tokenizer_load(NULL, BUNDLED_MODEL, &tok) != DGL_OK)
        return 1;
    vocab = (uint32_t)dgl_tokenizer_max_id(tok) + 1;
    int failed = test_run_table("breakers", breakers_become_ids, breakers_rows);
    failed += cmocka_run_group_tests_name("rest", tests, NULL, NULL);
    dgl_tokenizer_destroy(&tok);
    return failed;
}
