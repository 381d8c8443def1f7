/* dgl_logits() and dgl_perplexity(): rows, agreement between the ways to get a logit, counting,
 * refusals. */
#include "tests/support/tiny_engine.h"

#include <math.h>
#include <stdlib.h>

static struct tiny_engine engine; /* of the bundled model, context 256 */
static int32_t ids[200];

#define VOCAB 4096

static float *logits_of(struct dgl_session *s, size_t count, bool all)
{
    float *logits = NULL;
    size_t rows = 0;
    assert_int_equal(
        dgl_logits(s, dgl_logits_params(.ids = ids, .num_ids = count, .all = all), &logits, &rows),
        DGL_OK);
    assert_int_equal(rows, all ? count : 1);
    return logits;
}

/* ---- logits ---------------------------------------------------------------------------------- */

struct length {
    const char *name;
    size_t count;
    int32_t chunk;
};

static const struct length lengths[] = {
    {"one token", 1, 0},
    {"two tokens", 2, 0},
    {"a few tokens", 17, 0},
    {"several chunks", 100, 32},
    {"a chunk and one token", 65, 64},
    {"chunks of one token", 9, 1},
};

static void test_last_row_is_the_last_of_all(void **state)
{
    const struct length *row = *state;
    struct dgl_session *s = tiny_session(&engine, row->chunk);
    float *last = logits_of(s, row->count, false), *all = logits_of(s, row->count, true);
    assert_at_most(tiny_nmse(all + (row->count - 1) * VOCAB, last, VOCAB), 1e-10);
    dgl_free(last);
    dgl_free(all);
    dgl_session_destroy(&s);
}

/* Later tokens do not change a row. */
static void test_rows_look_back_only(void **state)
{
    (void)state;
    float *longer = logits_of(engine.session, 40, true);
    float *shorter = logits_of(engine.session, 25, true);
    assert_at_most(tiny_nmse(shorter, longer, (size_t)25 * VOCAB), 1e-9);
    dgl_free(longer);
    dgl_free(shorter);
}

static void test_same_as_after_a_sync(void **state)
{
    (void)state;
    float *asked = logits_of(engine.session, 30, false);
    dgl_session_trim(engine.session, 0);
    tiny_sync(engine.session, ids, 30);
    float *held = tiny_logits(engine.session);
    assert_memory_equal(asked, held, VOCAB * sizeof(float));
    dgl_free(asked);
    free(held);
}

static void test_session_holds_the_prompt_afterwards(void **state)
{
    (void)state;
    float *logits = logits_of(engine.session, 30, true);
    dgl_free(logits);
    assert_int_equal(dgl_session_len(engine.session), 30);
    assert_int_equal(tiny_sync(engine.session, ids, 31), 30);
}

static void test_greedy_is_the_best_logit(void **state)
{
    (void)state;
    int32_t got;
    float *logits = logits_of(engine.session, 12, false);
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    tiny_greedy(engine.session, ids, 12, &got, 1);
    assert_int_equal(got, best);
    dgl_free(logits);
}

struct refusal {
    const char *name;
    const int32_t *ids;
    size_t count;
    const char *words[2];
};

static const int32_t bad_ids[] = {5, 6, 4096};
static int32_t too_many[257];

static const struct refusal refusals[] = {
    {"no ids", ids, 0, {"empty"}},
    {"an id beyond the vocabulary", bad_ids, 3, {"4096", "token 2"}},
    {"more ids than the context", too_many, 257, {"257", "256"}},
};

static void test_refused_logits(void **state)
{
    const struct refusal *row = *state;
    float *logits = (float *)(void *)ids;
    size_t rows = 9;
    test_log_clear(&engine.log);
    assert_int_equal(dgl_logits(engine.session,
                                dgl_logits_params(.ids = row->ids, .num_ids = row->count), &logits,
                                &rows),
                     DGL_ERR_INVALID_ARG);
    assert_null(logits);
    assert_int_equal(rows, 0);
    assert_int_equal(engine.log.errors, 1);
    for (size_t i = 0; i < 2 && row->words[i]; i++)
        assert_contains(engine.log.text, row->words[i]);
}

/* ---- perplexity ------------------------------------------------------------------------------ */

static const char *const texts[] = {
    "Once upon a time, there was a little fox.",
    "The fox lived near the river.",
    "",
    "Nell wanted to learn to climb, but she was afraid.",
};

static struct dgl_perplexity_result ppl_of(const char *const *list, size_t count)
{
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_perplexity(engine.session,
                                    dgl_perplexity_params(.texts = list, .num_texts = count), &r),
                     DGL_OK);
    return r;
}

/* The same sum from logits on the host. */
static void test_perplexity_is_the_sum_over_logits(void **state)
{
    (void)state;
    int32_t *encoded = NULL;
    size_t count = 0, rows = 0;
    float *logits = NULL;
    double nll = 0;
    assert_int_equal(dgl_encode(NULL, dgl_model_tokenizer(engine.model), texts[0], strlen(texts[0]),
                                dgl_encode_params(.add_special = true), &encoded, &count),
                     DGL_OK);
    assert_int_equal(dgl_logits(engine.session,
                                dgl_logits_params(.ids = encoded, .num_ids = count, .all = true),
                                &logits, &rows),
                     DGL_OK);
    for (size_t t = 0; t + 1 < count; t++) {
        double sum = 0;
        for (size_t i = 0; i < VOCAB; i++)
            sum += exp((double)logits[t * VOCAB + i]);
        nll += log(sum) - logits[t * VOCAB + (size_t)encoded[t + 1]];
    }
    struct dgl_perplexity_result r = ppl_of(texts, 1);
    assert_int_equal(r.tokens, count - 1);
    assert_near(r.nll, nll, 1e-3);
    assert_near(r.ppl, exp(r.nll / (double)r.tokens), 1e-12);
    dgl_free(encoded);
    dgl_free(logits);
}

static void test_perplexity_adds_up(void **state)
{
    (void)state;
    struct dgl_perplexity_result all = ppl_of(texts, 4);
    double nll = 0;
    uint64_t tokens = 0;
    for (size_t i = 0; i < 4; i++) {
        if (!texts[i][0])
            continue;
        struct dgl_perplexity_result one = ppl_of(&texts[i], 1);
        nll += one.nll;
        tokens += one.tokens;
    }
    assert_int_equal(all.tokens, tokens);
    assert_near(all.nll, nll, 1e-6);
}

static void test_lengths_count(void **state)
{
    (void)state;
    static const size_t lens[] = {16};
    static const char *const cut[] = {"Once upon a time"};
    struct dgl_perplexity_result a = {0}, b = {0};
    assert_int_equal(
        dgl_perplexity(engine.session,
                       dgl_perplexity_params(.texts = texts, .lens = lens, .num_texts = 1), &a),
        DGL_OK);
    b = ppl_of(cut, 1);
    assert_int_equal(a.tokens, b.tokens);
    assert_true(a.nll == b.nll);
}

static void test_nothing_to_predict(void **state)
{
    (void)state;
    static const char *const empty[] = {""};
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    test_log_clear(&engine.log);
    assert_int_equal(
        dgl_perplexity(engine.session, dgl_perplexity_params(.texts = empty, .num_texts = 1), &r),
        DGL_ERR_INVALID_ARG);
    assert_int_equal(engine.log.errors, 1);
}

static void test_text_beyond_the_context(void **state)
{
    (void)state;
    char *text = malloc(4001);
    assert_non_null(text);
    for (size_t i = 0; i < 4000; i++)
        text[i] = i % 4 == 3 ? ' ' : 'x';
    text[4000] = '\0';
    const char *const list[] = {texts[0], text};
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    test_log_clear(&engine.log);
    assert_int_equal(
        dgl_perplexity(engine.session, dgl_perplexity_params(.texts = list, .num_texts = 2), &r),
        DGL_ERR_INVALID_ARG);
    assert_contains(engine.log.text, "text 1");
    assert_contains(engine.log.text, "256");
    free(text);
}

struct stride {
    const char *name;
    int32_t context, given, stride;
    const char *text;
};

#define LONG                                                                                       \
    "Once upon a time, there was a little fox. The fox lived near the river. Nell wanted to "      \
    "learn to climb, but she was afraid. One day a big bird came to the old tree and sang. The "   \
    "fox was happy, and they played until the sun went down."

static const struct stride strides[] = {
    {"half the context", 24, 0, 12, LONG}, {"a stride that ends at the end", 24, 10, 10, LONG},
    {"short strides", 24, 7, 7, LONG},     {"the longest stride", 24, 23, 23, LONG},
    {"an odd context", 9, 0, 4, LONG},     {"a text that fits", 256, 100, 100, LONG},
};

/* The procedure of Hugging Face's documentation, over the logits of each window: tokens that
 * earlier windows reached are masked. Windows begin with BOS, which the tokenizer adds first. */
static void test_windows(void **state)
{
    const struct stride *row = *state;
    const char *const list[] = {row->text};
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    struct dgl_session *s = NULL;
    int32_t *all = NULL;
    size_t count = 0, context = (size_t)row->context, reached = 0;
    double cost[256], nll = 0, spread = 0;
    uint64_t tokens = 0, windows = 0;
    assert_int_equal(
        dgl_session_create(engine.model, dgl_session_params(.context = row->context), &s), DGL_OK);
    assert_int_equal(dgl_encode(NULL, dgl_model_tokenizer(engine.model), row->text,
                                strlen(row->text), dgl_encode_params(.add_special = true), &all,
                                &count),
                     DGL_OK);
    assert_true(count > 48 && count < 200);
    for (size_t begin = 0;; begin += (size_t)row->stride) {
        size_t end = begin + context < count ? begin + context : count, rows = 0;
        size_t labels = end - reached;
        float *logits = NULL;
        int32_t window[256];
        memcpy(window, all + begin, (end - begin) * sizeof(*all));
        window[0] = all[0];
        assert_int_equal(
            dgl_logits(s, dgl_logits_params(.ids = window, .num_ids = end - begin, .all = true),
                       &logits, &rows),
            DGL_OK);
        for (size_t i = 1; i < rows; i++) {
            double sum = 0;
            if (i < rows - labels)
                continue;
            for (size_t v = 0; v < VOCAB; v++)
                sum += exp((double)logits[(i - 1) * VOCAB + v]);
            cost[tokens] = log(sum) - logits[(i - 1) * VOCAB + (size_t)window[i]];
            nll += cost[tokens++];
        }
        dgl_free(logits);
        windows++;
        reached = end;
        if (end == count)
            break;
    }
    assert_int_equal(tokens, count - 1);
    for (size_t i = 0; i < tokens; i++)
        spread += (cost[i] - nll / (double)tokens) * (cost[i] - nll / (double)tokens);
    double error = exp(nll / (double)tokens) * sqrt(spread / (double)tokens / (double)(tokens - 1));
    assert_int_equal(dgl_perplexity(s,
                                    dgl_perplexity_params(.texts = list, .num_texts = 1,
                                                          .windows = true, .stride = row->given),
                                    &r),
                     DGL_OK);
    assert_int_equal(r.tokens, tokens);
    assert_int_equal(r.windows, windows);
    assert_int_equal(r.stride, row->stride);
    assert_int_equal(r.context, context < count ? context : count);
    assert_near(r.nll, nll, 1e-3);
    assert_near(r.ppl_error, error, 1e-4 * error);
    dgl_free(all);
    dgl_session_destroy(&s);
}

static void test_strides_out_of_range(void **state)
{
    (void)state;
    static const int32_t wrong[] = {-1, 256, 1000};
    static const char *const parts[] = {"a stride of ", "1 to 255"};
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        test_log_clear(&engine.log);
        enum dgl_status status =
            dgl_perplexity(engine.session,
                           dgl_perplexity_params(.texts = texts, .num_texts = 1, .windows = true,
                                                 .stride = wrong[i]),
                           &r);
        assert_refusal(&engine.log, status, DGL_ERR_INVALID_ARG, parts);
    }
}

static bool cancel_at_two(void *priv, const char *what, uint64_t done, uint64_t total)
{
    assert_string_equal(what, "texts");
    assert_int_equal(total, 4);
    *(uint64_t *)priv = done;
    return done < 2;
}

static void test_progress_cancels(void **state)
{
    (void)state;
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    uint64_t last = 0;
    assert_int_equal(
        dgl_perplexity(engine.session,
                       dgl_perplexity_params(.texts = texts, .num_texts = 4,
                                             .progress_cb = cancel_at_two, .progress_priv = &last),
                       &r),
        DGL_ERR_CANCELLED);
    assert_int_equal(last, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_look_back_only),
        cmocka_unit_test(test_same_as_after_a_sync),
        cmocka_unit_test(test_session_holds_the_prompt_afterwards),
        cmocka_unit_test(test_greedy_is_the_best_logit),
        cmocka_unit_test(test_perplexity_is_the_sum_over_logits),
        cmocka_unit_test(test_perplexity_adds_up),
        cmocka_unit_test(test_lengths_count),
        cmocka_unit_test(test_nothing_to_predict),
        cmocka_unit_test(test_text_beyond_the_context),
        cmocka_unit_test(test_progress_cancels),
        cmocka_unit_test(test_strides_out_of_range),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = 256});
    tiny_ids(ids, 200, VOCAB, 5);
    int failures = test_run_table("lengths", test_last_row_is_the_last_of_all, lengths);
    failures += test_run_table("refusal", test_refused_logits, refusals);
    failures += test_run_table("windows", test_windows, strides);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
