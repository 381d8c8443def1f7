/* dgl_session_eval() and dgl_embed(): logits step by step equal those of whole prompts; hidden
 * states and their pooling; the session's tokens afterwards; refusals. */
#include "tests/support/tiny_engine.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/seq/session.h"

#define PROMPT 70
#define VOCAB  320
#define HIDDEN 64

static struct tiny_engine engine; /* a random model, context 128, without a tokenizer */
static int32_t prompt[PROMPT];

/* Logits and hidden states of every token of the prompt. */
static struct {
    float *logits, *hidden; /* [PROMPT, VOCAB], [PROMPT, HIDDEN] */
} whole;

static void eval(struct dgl_session *s, const struct dgl_eval_params *params, float *logits,
                 float *hidden)
{
    assert_int_equal(dgl_session_eval(s, params, logits, hidden), DGL_OK);
}

static int32_t best_of(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* ---- parts of a sequence --------------------------------------------------------------------- */

struct parts {
    const char *name;
    int32_t chunk;
    size_t step; /* tokens per call */
    bool all;
};

static const struct parts parts[] = {
    {"one token per call", 0, 1, false},
    {"one token per call, all of it", 0, 1, true},
    {"seven tokens per call", 0, 7, false},
    {"seven tokens per call, all of them", 0, 7, true},
    {"twenty tokens per call in chunks of eight", 8, 20, false},
    {"twenty tokens per call in chunks of eight, all of them", 8, 20, true},
    {"the prompt at once", 0, PROMPT, false},
    {"the prompt at once, all of it", 0, PROMPT, true},
    {"the prompt at once in chunks of one", 1, PROMPT, true},
};

static void test_parts(void **state)
{
    const struct parts *row = *state;
    struct dgl_session *s = tiny_session(&engine, row->chunk);
    static float logits[PROMPT * VOCAB], hidden[PROMPT * HIDDEN];
    for (size_t at = 0; at < PROMPT; at += row->step) {
        size_t n = PROMPT - at < row->step ? PROMPT - at : row->step;
        size_t rows = row->all ? n : 1, first = at + n - rows;
        eval(s, dgl_eval_params(.ids = prompt + at, .num_ids = n, .all = row->all), logits, hidden);
        assert_int_equal(dgl_session_len(s), at + n);
        assert_at_most(tiny_nmse(logits, whole.logits + first * VOCAB, rows * VOCAB), 1e-7);
        assert_at_most(tiny_nmse(hidden, whole.hidden + first * HIDDEN, rows * HIDDEN), 1e-7);
        /* Each result is independent of the other's being wanted. */
        dgl_session_trim(s, (int32_t)at);
        memset(hidden, 0, sizeof(hidden));
        eval(s, dgl_eval_params(.ids = prompt + at, .num_ids = n, .all = row->all), NULL, hidden);
        assert_at_most(tiny_nmse(hidden, whole.hidden + first * HIDDEN, rows * HIDDEN), 1e-7);
    }
    dgl_session_destroy(&s);
}

/* The head computes the logits from the hidden states. The model's head is its embedding table. */
static void test_hidden_states_make_the_logits(void **state)
{
    (void)state;
    struct tiny_llama sizes = tiny_llama_default();
    float *embed = tiny_llama_values(&sizes, 0), *logits = malloc(PROMPT * VOCAB * sizeof(float));
    assert_non_null(logits);
    for (size_t t = 0; t < PROMPT; t++)
        for (size_t v = 0; v < VOCAB; v++) {
            double sum = 0;
            for (size_t i = 0; i < HIDDEN; i++)
                sum += (double)embed[v * HIDDEN + i] * whole.hidden[t * HIDDEN + i];
            logits[t * VOCAB + v] = (float)sum;
        }
    assert_at_most(tiny_nmse(whole.logits, logits, PROMPT * VOCAB), 1e-4); /* rounded to bf16 */
    free(embed);
    free(logits);
}

/* ---- a custom sampler --------------------------------------------------------------------------
 */

static void test_own_greedy_sampler(void **state)
{
    (void)state;
    int32_t want[16], got[16];
    float logits[VOCAB];
    struct dgl_session *s = tiny_session(&engine, 0);
    tiny_greedy(s, prompt, 20, want, 16);
    dgl_session_trim(s, 0);
    eval(s, dgl_eval_params(.ids = prompt, .num_ids = 20), logits, NULL);
    for (size_t i = 0; i < 16; i++) {
        got[i] = best_of(logits);
        eval(s, dgl_eval_params(.ids = &got[i], .num_ids = 1), logits, NULL);
    }
    assert_memory_equal(got, want, sizeof(want));
    assert_int_equal(dgl_session_len(s), 36);
    dgl_session_destroy(&s);
}

struct again {
    const char *name;
    void (*before)(struct dgl_session *s); /* leaves the session with the first 20 tokens */
    uint64_t evaluated;                    /* tokens that a look at the last one costs */
};

static void sync_20(struct dgl_session *s)
{
    tiny_sync(s, prompt, 20);
}

static void append_20(struct dgl_session *s)
{
    eval(s, dgl_eval_params(.ids = prompt, .num_ids = 20), NULL, NULL);
}

static void append_with_all(struct dgl_session *s)
{
    static float logits[20 * VOCAB];
    eval(s, dgl_eval_params(.ids = prompt, .num_ids = 20, .all = true), logits, NULL);
}

static void append_with_hidden(struct dgl_session *s)
{
    float hidden[HIDDEN];
    eval(s, dgl_eval_params(.ids = prompt, .num_ids = 20), NULL, hidden);
}

static void trim_to_20(struct dgl_session *s)
{
    tiny_sync(s, prompt, 30);
    dgl_session_trim(s, 20);
}

static void sample_after_20(struct dgl_session *s)
{
    int32_t id;
    tiny_greedy(s, prompt, 20, &id, 1);
}

static const struct again agains[] = {
    {"after a sync", sync_20, 0},
    {"after tokens were appended", append_20, 0},
    {"after all logits", append_with_all, 1},
    {"after hidden states", append_with_hidden, 1},
    {"after a trim", trim_to_20, 1},
    {"after a generation", sample_after_20, 1},
};

static void test_last_token_again(void **state)
{
    const struct again *row = *state;
    struct dgl_counters before, after;
    float logits[VOCAB], hidden[HIDDEN];
    struct dgl_session *s = tiny_session(&engine, 0);
    row->before(s);
    assert_int_equal(dgl_session_len(s), 20);
    for (int i = 0; i < 2; i++) {
        dgl_device_get_counters(engine.device, &before);
        eval(s, NULL, logits, NULL);
        dgl_device_get_counters(engine.device, &after);
        assert_int_equal(after.tokens - before.tokens, i == 0 ? row->evaluated : 0);
        assert_int_equal(after.readbacks - before.readbacks, 1);
        assert_at_most(tiny_nmse(logits, whole.logits + 19 * VOCAB, VOCAB), 1e-7);
    }
    eval(s, NULL, NULL, hidden);
    assert_at_most(tiny_nmse(hidden, whole.hidden + 19 * HIDDEN, HIDDEN), 1e-7);
    assert_int_equal(dgl_session_len(s), 20);
    dgl_session_destroy(&s);
}

/* If rotary frequencies depend on the number of tokens, crossing the limit evaluates all tokens
 * again. The results are still those of the new tokens. */
static void test_frequencies_that_change(void **state)
{
    (void)state;
    struct tiny_engine e;
    float *logits = malloc(PROMPT * VOCAB * sizeof(float)), *want = NULL;
    size_t rows = 0;
    assert_non_null(logits);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = engine.path, .chunk = 16});
    struct rope_desc *rope = &e.model->file->desc.rope[ROPE_GLOBAL];
    rope->kind = ROPE_DYNAMIC;
    rope->original_context = 32;
    rope->factor = 4;
    assert_int_equal(dgl_logits(e.session,
                                dgl_logits_params(.ids = prompt, .num_ids = PROMPT, .all = true),
                                &want, &rows),
                     DGL_OK);
    assert_true(tiny_nmse(want, whole.logits, PROMPT * VOCAB) > 1e-4); /* they do change */
    dgl_session_trim(e.session, 0);
    eval(e.session, dgl_eval_params(.ids = prompt, .num_ids = 20), NULL, NULL);
    eval(e.session, dgl_eval_params(.ids = prompt + 20, .num_ids = PROMPT - 20, .all = true),
         logits, NULL);
    assert_int_equal(dgl_session_len(e.session), PROMPT);
    assert_at_most(tiny_nmse(logits, want + 20 * VOCAB, (PROMPT - 20) * VOCAB), 1e-7);
    dgl_free(want);
    free(logits);
    tiny_engine_close(&e);
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    int32_t held;
    size_t count;
    int32_t bad_id; /* replaces the last id; 0 = keep it */
    enum dgl_status status;
    const char *words[3];
};

static const struct refusal refusals[] = {
    {"nothing held, no ids", 0, 0, 0, DGL_ERR_INVALID_ARG, {"at least one token"}},
    {"an id beyond the vocabulary", 5, 3, 320, DGL_ERR_INVALID_ARG, {"token 2", "320", "319"}},
    {"a negative id", 0, 3, -1, DGL_ERR_INVALID_ARG, {"token 2", "-1"}},
    {"more than the context", 0, 129, 0, DGL_ERR_CONTEXT_FULL, {"129", "128"}},
    {"more than the room that is left", 100, 29, 0, DGL_ERR_CONTEXT_FULL, {"100", "128", "29"}},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct dgl_session *s = tiny_session(&engine, 0);
    int32_t ids[129];
    float logits[VOCAB];
    tiny_ids(ids, 129, VOCAB, 3);
    if (row->held)
        tiny_sync(s, ids, (size_t)row->held);
    if (row->bad_id)
        ids[row->count - 1] = row->bad_id;
    test_log_clear(&engine.log);
    assert_int_equal(
        dgl_session_eval(s, dgl_eval_params(.ids = ids, .num_ids = row->count), logits, NULL),
        row->status);
    assert_int_equal(engine.log.errors, 1);
    for (size_t i = 0; i < 3 && row->words[i]; i++)
        assert_contains(engine.log.text, row->words[i]);
    assert_int_equal(dgl_session_len(s), row->held);
    dgl_session_destroy(&s);
}

static void test_the_last_room_is_used(void **state)
{
    (void)state;
    struct dgl_session *s = tiny_session(&engine, 0);
    int32_t ids[128];
    float logits[VOCAB];
    tiny_ids(ids, 128, VOCAB, 3);
    eval(s, dgl_eval_params(.ids = ids, .num_ids = 127), NULL, NULL);
    eval(s, dgl_eval_params(.ids = ids + 127, .num_ids = 1), logits, NULL);
    assert_int_equal(dgl_session_len(s), 128);
    assert_true(isfinite(logits[0]));
    dgl_session_destroy(&s);
}

static _Atomic(bool) over;

static void *cancel_until_over(void *session)
{
    while (!atomic_load(&over))
        dgl_session_cancel(session);
    return NULL;
}

static void test_cancelled(void **state)
{
    (void)state;
    struct dgl_session *s = tiny_session(&engine, 1);
    pthread_t thread;
    atomic_store(&over, false);
    test_log_clear(&engine.log);
    assert_int_equal(pthread_create(&thread, NULL, cancel_until_over, s), 0);
    enum dgl_status status =
        dgl_session_eval(s, dgl_eval_params(.ids = prompt, .num_ids = PROMPT), NULL, NULL);
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, DGL_ERR_CANCELLED);
    assert_int_equal(engine.log.errors, 0); /* no error occurred */
    /* The session contains a prefix and can continue. */
    size_t held = (size_t)dgl_session_len(s);
    float logits[VOCAB];
    assert_true(held < PROMPT);
    eval(s, dgl_eval_params(.ids = prompt + held, .num_ids = PROMPT - held), logits, NULL);
    assert_at_most(tiny_nmse(logits, whole.logits + (PROMPT - 1) * VOCAB, VOCAB), 1e-7);
    dgl_session_destroy(&s);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

struct embedding {
    const char *name;
    enum dgl_pooling pooling;
    bool normalize;
    int32_t chunk;
    size_t count;       /* tokens */
    int32_t dimensions; /* 0: all */
};

static const struct embedding embeddings[] = {
    {"as the files say", DGL_POOLING_MODEL, false, 0, PROMPT, 0},
    {"first", DGL_POOLING_CLS, false, 16, PROMPT, 0},
    {"maximum in chunks", DGL_POOLING_MAX, false, 16, PROMPT, 0},
    {"mean by the square root", DGL_POOLING_MEAN_SQRT_LEN, false, 16, PROMPT, 0},
    {"weighted mean in chunks", DGL_POOLING_WEIGHTED_MEAN, false, 16, PROMPT, 0},
    {"first values of the mean", DGL_POOLING_MEAN, false, 0, PROMPT, 7},
    {"first values of length 1", DGL_POOLING_LAST, true, 0, PROMPT, 5},
    {"first values of length 1 per token", DGL_POOLING_NONE, true, 0, PROMPT, 5},
    {"mean", DGL_POOLING_MEAN, false, 0, PROMPT, 0},
    {"mean in chunks", DGL_POOLING_MEAN, false, 16, PROMPT, 0},
    {"mean of one token", DGL_POOLING_MEAN, false, 0, 1, 0},
    {"mean of length 1", DGL_POOLING_MEAN, true, 0, PROMPT, 0},
    {"last", DGL_POOLING_LAST, false, 0, PROMPT, 0},
    {"last in chunks", DGL_POOLING_LAST, false, 16, PROMPT, 0},
    {"last of length 1", DGL_POOLING_LAST, true, 0, 33, 0},
    {"a row per token", DGL_POOLING_NONE, false, 0, PROMPT, 0},
    {"a row per token in chunks", DGL_POOLING_NONE, false, 16, PROMPT, 0},
    {"a row of length 1 per token", DGL_POOLING_NONE, true, 0, 5, 0},
};

/* Value i of the embedding, by the definitions of sentence-transformers. */
static float pooled_value(const struct embedding *row, size_t i)
{
    const float *x = whole.hidden + i;
    double sum = 0, weighted = 0, most = x[0];
    for (size_t t = 0; t < row->count; t++) {
        sum += x[t * HIDDEN];
        weighted += (double)(t + 1) * x[t * HIDDEN];
        most = fmax(most, x[t * HIDDEN]);
    }
    const double n = (double)row->count;
    switch (row->pooling) {
    case DGL_POOLING_LAST:
        return x[(row->count - 1) * HIDDEN];
    case DGL_POOLING_CLS:
        return x[0];
    case DGL_POOLING_MAX:
        return (float)most;
    case DGL_POOLING_MEAN_SQRT_LEN:
        return (float)(sum / sqrt(n));
    case DGL_POOLING_WEIGHTED_MEAN:
        return (float)(weighted / (n * (n + 1) / 2));
    case DGL_POOLING_MODEL: /* the model's files say nothing */
    case DGL_POOLING_MEAN:
    case DGL_POOLING_NONE:
        break;
    }
    return (float)(sum / n);
}

static void test_embedding(void **state)
{
    const struct embedding *row = *state;
    struct dgl_session *s = tiny_session(&engine, row->chunk);
    static float want[PROMPT * HIDDEN];
    float *got = NULL;
    size_t rows = 0, num = row->pooling == DGL_POOLING_NONE ? row->count : 1;
    const size_t kept = row->dimensions ? (size_t)row->dimensions : HIDDEN;
    for (size_t t = 0; t < num; t++)
        for (size_t i = 0; i < kept; i++)
            want[t * kept + i] = num > 1 ? whole.hidden[t * HIDDEN + i] : pooled_value(row, i);
    for (size_t t = 0; row->normalize && t < num; t++) {
        double length = 0;
        for (size_t i = 0; i < kept; i++)
            length += (double)want[t * kept + i] * want[t * kept + i];
        for (size_t i = 0; i < kept; i++)
            want[t * kept + i] = (float)(want[t * kept + i] / sqrt(length));
    }
    tiny_sync(s, prompt + 5, 10); /* earlier tokens of the session have no effect */
    assert_int_equal(
        dgl_embed(s,
                  dgl_embed_params(.ids = prompt, .num_ids = row->count, .pooling = row->pooling,
                                   .normalize = row->normalize, .dimensions = row->dimensions),
                  &got, &rows),
        DGL_OK);
    assert_int_equal(rows, num);
    assert_at_most(tiny_nmse(got, want, num * kept), 1e-7);
    dgl_free(got);
    dgl_session_destroy(&s);
}

struct bad_embedding {
    const char *name;
    struct dgl_embed_params p;
    const char *word;
};

static const struct bad_embedding bad_embeddings[] = {
    {"no prompt", {0}, "prompt"},
    {"no ids", {.ids = prompt}, "empty"},
    {"text and ids", {.prompt = "x", .ids = prompt, .num_ids = 1}, "either"},
    {"text without a tokenizer", {.prompt = "x"}, "tokenizer"},
    {"a pooling that there is not",
     {.ids = prompt, .num_ids = 1, .pooling = (enum dgl_pooling)8},
     "pooling is 8"},
    {"more values than there are",
     {.ids = prompt, .num_ids = 1, .dimensions = HIDDEN + 1},
     "dimensions is"},
    {"a negative number of values", {.ids = prompt, .num_ids = 1, .dimensions = -1}, "is -1"},
};

static void test_refused_embedding(void **state)
{
    const struct bad_embedding *row = *state;
    float *got = prompt[0] ? (float *)(void *)prompt : NULL;
    size_t rows = 9;
    test_log_clear(&engine.log);
    assert_int_equal(dgl_embed(engine.session, &row->p, &got, &rows), DGL_ERR_INVALID_ARG);
    assert_null(got);
    assert_int_equal(rows, 0);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, row->word);
}

/* Text has the embedding of its ids, special ones included. */
static void test_embedding_of_text(void **state)
{
    (void)state;
    static const char text[] = "The fox lived near the river.";
    struct tiny_engine e;
    int32_t *ids = NULL;
    size_t count = 0, rows = 0;
    float *by_text = NULL, *by_ids = NULL;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = 64});
    assert_int_equal(dgl_encode(NULL, dgl_model_tokenizer(e.model), text, strlen(text),
                                dgl_encode_params(.add_special = true), &ids, &count),
                     DGL_OK);
    assert_int_equal(dgl_embed(e.session, dgl_embed_params(.prompt = text), &by_text, &rows),
                     DGL_OK);
    assert_int_equal(
        dgl_embed(e.session, dgl_embed_params(.ids = ids, .num_ids = count), &by_ids, &rows),
        DGL_OK);
    assert_memory_equal(by_text, by_ids,
                        (size_t)dgl_model_get_info(e.model)->hidden * sizeof(float));
    dgl_free(ids);
    dgl_free(by_text);
    dgl_free(by_ids);
    tiny_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden_states_make_the_logits),
        cmocka_unit_test(test_own_greedy_sampler),
        cmocka_unit_test(test_frequencies_that_change),
        cmocka_unit_test(test_the_last_room_is_used),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_embedding_of_text),
    };
    size_t rows = 0;
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    tiny_ids(prompt, PROMPT, VOCAB, 7);
    const struct dgl_logits_params *all =
        dgl_logits_params(.ids = prompt, .num_ids = PROMPT, .all = true);
    assert_int_equal(dgl_logits(engine.session, all, &whole.logits, &rows), DGL_OK);
    whole.hidden = malloc(PROMPT * HIDDEN * sizeof(float));
    assert_non_null(whole.hidden);
    dgl_session_trim(engine.session, 0);
    eval(engine.session, dgl_eval_params(.ids = prompt, .num_ids = PROMPT, .all = true), NULL,
         whole.hidden);
    int failures = test_run_table("parts", test_parts, parts);
    failures += test_run_table("the last token again", test_last_token_again, agains);
    failures += test_run_table("refusal", test_refusal, refusals);
    failures += test_run_table("embedding", test_embedding, embeddings);
    failures += test_run_table("refused embedding", test_refused_embedding, bad_embeddings);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    dgl_free(whole.logits);
    free(whole.hidden);
    tiny_engine_close(&engine);
    return failures;
}
