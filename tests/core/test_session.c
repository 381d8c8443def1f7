/* Sessions: the tokens that a sync keeps, evaluates and refuses. Logits do not depend on the split
 * of a sequence into passes. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#include "core/seq/session.h"

#define PROMPT 70
#define ANSWER 16

/* One engine for all cases of the group. Each case creates its sessions. */
static struct tiny_engine engine;
static int32_t prompt[PROMPT];

static size_t vocab(void)
{
    return (size_t)dgl_model_get_info(engine.model)->vocab;
}

/* Logits after `count` tokens, the first `first` of them in a separate sync (0 = one sync). */
static float *logits_in_parts(int32_t chunk, size_t first, size_t count)
{
    struct dgl_session *s = tiny_session(&engine, chunk);
    if (first)
        assert_int_equal(tiny_sync(s, prompt, first), 0);
    assert_int_equal(tiny_sync(s, prompt, count), first);
    float *logits = tiny_logits(s);
    dgl_session_destroy(&s);
    return logits;
}

static double compare(float *a, float *b)
{
    double nmse = tiny_nmse(a, b, vocab());
    free(a);
    free(b);
    return nmse;
}

/* ---- cutting a sequence ---------------------------------------------------------------------- */

struct cut {
    const char *name;
    int32_t chunk;
    size_t first;
};

static const struct cut cuts[] = {
    {"one token, then the rest", 0, 1},
    {"half, then half", 0, PROMPT / 2},
    {"all but one, then one", 0, PROMPT - 1},
    {"a chunk's border inside each part", 16, 33},
    {"chunks of 1", 1, 0},
    {"chunks of 7", 7, 0},
    {"chunks of 64", 64, 0},
    {"chunks of 512", 512, 0},
    {"chunks of one less than the prompt", PROMPT - 1, 0},
};

static void test_cut_logits(void **state)
{
    const struct cut *row = *state;
    float *whole = logits_in_parts(0, 0, PROMPT);
    assert_at_most(compare(logits_in_parts(row->chunk, row->first, PROMPT), whole), 1e-7);
}

static void test_cut_tokens(void **state)
{
    const struct cut *row = *state;
    int32_t want[ANSWER], got[ANSWER];
    struct dgl_session *s = tiny_session(&engine, 0);
    tiny_greedy(s, prompt, PROMPT, want, ANSWER);
    dgl_session_destroy(&s);
    s = tiny_session(&engine, row->chunk);
    if (row->first)
        tiny_sync(s, prompt, row->first);
    tiny_greedy(s, prompt, PROMPT, got, ANSWER);
    dgl_session_destroy(&s);
    assert_memory_equal(got, want, sizeof(want));
}

static void test_decode_continues_prefill(void **state)
{
    (void)state;
    int32_t ids[PROMPT + ANSWER];
    struct dgl_session *s = tiny_session(&engine, 0);
    memcpy(ids, prompt, sizeof(prompt));
    tiny_greedy(s, prompt, PROMPT, ids + PROMPT, ANSWER);
    dgl_session_destroy(&s);
    /* A prefill of the same tokens predicts the tokens that decode chose step by step. */
    for (size_t i = PROMPT; i < PROMPT + ANSWER; i += 5) {
        int32_t next;
        s = tiny_session(&engine, 0);
        tiny_greedy(s, ids, i, &next, 1);
        dgl_session_destroy(&s);
        assert_int_equal(next, ids[i]);
    }
}

static void test_twice_is_equal(void **state)
{
    (void)state;
    float *first = logits_in_parts(0, 0, PROMPT);
    float *second = logits_in_parts(0, 0, PROMPT);
    assert_memory_equal(first, second, vocab() * sizeof(float));
    free(first);
    free(second);
}

static void test_interleaved_sessions(void **state)
{
    (void)state;
    struct dgl_session *a = tiny_session(&engine, 0), *b = tiny_session(&engine, 0);
    int32_t other[PROMPT];
    tiny_ids(other, PROMPT, 320, 99);
    float *alone_a = logits_in_parts(0, 20, PROMPT);
    tiny_sync(b, other, 20);
    tiny_sync(b, other, PROMPT);
    float *alone_b = tiny_logits(b);
    dgl_session_trim(b, 0);
    tiny_sync(a, prompt, 20);
    tiny_sync(b, other, 20);
    tiny_sync(a, prompt, PROMPT);
    tiny_sync(b, other, PROMPT);
    float *mixed_a = tiny_logits(a), *mixed_b = tiny_logits(b);
    assert_memory_equal(mixed_a, alone_a, vocab() * sizeof(float));
    assert_memory_equal(mixed_b, alone_b, vocab() * sizeof(float));
    free(alone_a);
    free(alone_b);
    free(mixed_a);
    free(mixed_b);
    dgl_session_destroy(&a);
    dgl_session_destroy(&b);
}

static void test_limits_min_same_tokens(void **state)
{
    (void)state;
    struct tiny_engine small;
    int32_t want[ANSWER], got[ANSWER];
    tiny_engine_open(&small, &(struct tiny_engine_params){.path = engine.path, .limits = "min"});
    tiny_greedy(small.session, prompt, PROMPT, got, ANSWER);
    tiny_engine_close(&small);
    struct dgl_session *s = tiny_session(&engine, 0);
    tiny_greedy(s, prompt, PROMPT, want, ANSWER);
    dgl_session_destroy(&s);
    assert_memory_equal(got, want, sizeof(want));
}

static void test_kv_types_agree(void **state)
{
    (void)state;
    struct tiny_engine exact;
    tiny_engine_open(&exact,
                     &(struct tiny_engine_params){.path = engine.path, .kv_type = DGL_KV_F32});
    tiny_sync(exact.session, prompt, PROMPT);
    float *want = tiny_logits(exact.session);
    tiny_engine_close(&exact);
    float *got = logits_in_parts(0, 0, PROMPT);
    double nmse = tiny_nmse(got, want, vocab());
    assert_true(nmse > 0); /* the cache is f16 indeed */
    assert_at_most(compare(got, want), 1e-5);
}

/* ---- tokens that a sync keeps -------------------------------------------------------------------
 */

static void test_new_session_is_empty(void **state)
{
    (void)state;
    struct dgl_session *s = tiny_session(&engine, 0);
    assert_int_equal(dgl_session_len(s), 0);
    dgl_session_destroy(&s);
    assert_null(s);
}

struct reuse {
    const char *name;
    size_t held;   /* tokens of the first prompt */
    size_t common; /* of them, how many the second prompt shares */
    size_t wanted; /* tokens of the second prompt */
    size_t reused; /* expected */
};

static const struct reuse reuses[] = {
    {"a longer prompt evaluates its end only", 20, 20, 30, 20},
    {"the same prompt evaluates nothing", 20, 20, 20, 20},
    {"a prefix evaluates its last token", 20, 20, 12, 11},
    {"divergence keeps what is before", 20, 8, 20, 8},
    {"divergence at the last token", 20, 19, 20, 19},
    {"nothing in common", 20, 0, 20, 0},
    {"a shorter prompt that diverges", 20, 5, 10, 5},
    {"a single token again", 1, 1, 1, 1},
};

static void test_reuse(void **state)
{
    const struct reuse *row = *state;
    struct dgl_session *s = tiny_session(&engine, 0);
    struct dgl_counters before, after;
    int32_t ids[PROMPT];
    memcpy(ids, prompt, sizeof(prompt));
    tiny_sync(s, ids, row->held);
    for (size_t i = row->common; i < PROMPT && row->common < row->held; i++)
        ids[i] = prompt[i] == 5 ? 6 : 5;
    dgl_device_get_counters(engine.device, &before);
    assert_int_equal(tiny_sync(s, ids, row->wanted), row->reused);
    dgl_device_get_counters(engine.device, &after);
    assert_int_equal(after.tokens - before.tokens, row->wanted - row->reused);
    float *got = tiny_logits(s);
    dgl_session_trim(s, 0);
    assert_int_equal(tiny_sync(s, ids, row->wanted), 0);
    assert_at_most(compare(got, tiny_logits(s)), 1e-7);
    dgl_session_destroy(&s);
}

static void test_answer_is_reused(void **state)
{
    (void)state;
    int32_t ids[10 + ANSWER + 4];
    struct dgl_session *s = tiny_session(&engine, 0);
    memcpy(ids, prompt, 10 * sizeof(*ids));
    tiny_greedy(s, ids, 10, ids + 10, ANSWER);
    /* The last token was chosen but not evaluated. */
    assert_int_equal(dgl_session_len(s), 10 + ANSWER - 1);
    tiny_ids(ids + 10 + ANSWER, 4, 320, 3);
    assert_int_equal(tiny_sync(s, ids, 10 + ANSWER + 4), 10 + ANSWER - 1);
    dgl_session_destroy(&s);
}

static void test_prompt_again_after_answer(void **state)
{
    (void)state;
    int32_t first[ANSWER], second[ANSWER];
    struct dgl_session *s = tiny_session(&engine, 0);
    tiny_greedy(s, prompt, PROMPT, first, ANSWER);
    struct dgl_generate_result r =
        tiny_generate(s, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .ignore_eos = true,
                                             .max_tokens = ANSWER));
    assert_int_equal(r.num_reused, PROMPT - 1);
    memcpy(second, r.tokens, sizeof(second));
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
    assert_memory_equal(first, second, sizeof(first));
}

struct trim {
    const char *name;
    int32_t len, left;
};

static const struct trim trims[] = {
    {"trim to the middle", 9, 9},
    {"trim to nothing", 0, 0},
    {"trim to a negative length is trim to nothing", -3, 0},
    {"trim to the present length", 20, 20},
    {"trim beyond the end", 25, 20},
};

static void test_trim(void **state)
{
    const struct trim *row = *state;
    struct dgl_session *s = tiny_session(&engine, 0);
    tiny_sync(s, prompt, 20);
    dgl_session_trim(s, row->len);
    assert_int_equal(dgl_session_len(s), row->left);
    assert_int_equal(tiny_sync(s, prompt, 21), row->left);
    dgl_session_destroy(&s);
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    size_t count;
    int32_t bad_at, bad_id; /* -1 = no id */
    const char *words[3];
};

static const struct refusal refusals[] = {
    {"an empty prompt", 0, -1, 0, {"empty"}},
    {"longer than the context", 129, -1, 0, {"129", "128", "-c"}},
    {"much longer than the context", 1000, -1, 0, {"1000", "128"}},
    {"a negative id", 10, 3, -1, {"token 3", "-1", "319"}},
    {"the first id beyond the vocabulary", 10, 9, 320, {"token 9", "320", "0 to 319"}},
    {"the largest integer", 10, 0, INT32_MAX, {"token 0", "2147483647", "319"}},
    {"the smallest integer", 10, 0, INT32_MIN, {"-2147483648"}},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct dgl_session *s = tiny_session(&engine, 0);
    int32_t *ids = calloc(1001, sizeof(*ids));
    assert_non_null(ids);
    memcpy(ids, prompt, sizeof(prompt));
    tiny_sync(s, prompt, 5);
    if (row->bad_at >= 0)
        ids[row->bad_at] = row->bad_id;
    test_log_clear(&engine.log);
    assert_int_equal(dgl_session_sync(s, ids, row->count, NULL), DGL_ERR_INVALID_ARG);
    assert_int_equal(engine.log.errors, 1);
    for (size_t i = 0; i < 3 && row->words[i]; i++)
        assert_contains(engine.log.text, row->words[i]);
    /* The session is unchanged. */
    assert_int_equal(dgl_session_len(s), 5);
    assert_int_equal(tiny_sync(s, prompt, 5), 5);
    free(ids);
    dgl_session_destroy(&s);
}

/* Refused ids must not become tokens of the session. */
static void test_refused_logits_keep_session(void **state)
{
    (void)state;
    struct dgl_session *s = tiny_session(&engine, 0);
    int32_t ids[6] = {9, 9, 9, 9, 9, 320};
    float *logits = NULL;
    size_t rows = 1;
    tiny_sync(s, prompt, 6);
    assert_int_equal(
        dgl_logits(s, dgl_logits_params(.ids = ids, .num_ids = 6, .all = true), &logits, &rows),
        DGL_ERR_INVALID_ARG);
    assert_null(logits);
    assert_int_equal(rows, 0);
    ids[5] = 9;
    assert_int_equal(tiny_sync(s, ids, 6), 0);
    dgl_session_destroy(&s);
}

static void test_prompt_fills_context(void **state)
{
    (void)state;
    int32_t ids[128];
    struct dgl_session *s = tiny_session(&engine, 0);
    tiny_ids(ids, 128, 320, 5);
    assert_int_equal(tiny_sync(s, ids, 128), 0);
    struct dgl_generate_result r = tiny_generate(
        s, dgl_generate_params(.ids = ids, .num_ids = 128, .max_tokens = 5, .ignore_eos = true));
    /* there is room to sample one more token, but not to evaluate it */
    assert_int_equal(r.num_tokens, 1);
    assert_int_equal(r.finish, DGL_FINISH_CONTEXT);
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
}

struct size {
    const char *name;
    int32_t context, chunk;
    const char *word; /* of the message; NULL = granted */
};

static const struct size sizes[] = {
    {"the defaults", 0, 0, NULL},
    {"a context of one token", 1, 0, NULL},
    {"the whole context", 128, 0, NULL},
    {"one token more than the context", 129, 0, "129"},
    {"a negative context", -1, 0, "-1"},
    {"a chunk of one token", 0, 1, NULL},
    {"a chunk beyond the context", 0, 4096, NULL},
    {"a negative chunk", 0, -5, "-5"},
    {"a chunk that no device binds", 0, INT32_MAX, "2147483647"},
};

static void test_create(void **state)
{
    const struct size *row = *state;
    struct dgl_session *s = NULL;
    test_log_clear(&engine.log);
    enum dgl_status status = dgl_session_create(
        engine.model, dgl_session_params(.context = row->context, .chunk = row->chunk), &s);
    if (row->word) {
        assert_int_equal(status, DGL_ERR_INVALID_ARG);
        assert_null(s);
        assert_int_equal(engine.log.errors, 1);
        assert_contains(engine.log.text, row->word);
        return;
    }
    assert_int_equal(status, DGL_OK);
    assert_int_equal(tiny_sync(s, prompt, 1), 0);
    dgl_session_destroy(&s);
}

/* A session with longer passes replaces the workspace's buffers. The other sessions continue with
 * the new ones. */
static void test_sessions_of_other_sizes_share_the_workspace(void **state)
{
    (void)state;
    struct dgl_session *small = NULL, *large = NULL;
    int32_t alone[8], before[8], after[8], beside[8];
    tiny_greedy(engine.session, prompt, 20, alone, 8);
    struct tiny_engine e;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = engine.path, .chunk = 2});
    small = e.session;
    tiny_greedy(small, prompt, 20, before, 8);
    assert_int_equal(dgl_session_create(e.model, dgl_session_params(.chunk = 100), &large), DGL_OK);
    dgl_session_trim(small, 0);
    tiny_greedy(small, prompt, 20, after, 8);
    tiny_greedy(large, prompt, 20, beside, 8);
    assert_memory_equal(before, alone, sizeof(alone));
    assert_memory_equal(after, alone, sizeof(alone));
    assert_memory_equal(beside, alone, sizeof(alone));
    /* The first operation, embed, writes X: the small session's too writes the present one. */
    bool several = session_readback_interval(small) > 1;
    const struct exec_run *run = exec_cache_find(&small->state.runner.runs->dispatch,
                                                 recipe_decode(SAMPLE_GREEDY, 0, several));
    assert_non_null(run);
    const struct gl_dispatch *embed = exec_dispatch_list(run);
    assert_ptr_equal(embed->storage[embed->num_storage - 1].buffer,
                     e.model->shard->workspace.range[BUF_X].buffer);
    dgl_session_destroy(&large);
    tiny_engine_close(&e);
}

static void test_short_session_ends_at_its_context(void **state)
{
    (void)state;
    struct dgl_session *s = NULL;
    assert_int_equal(dgl_session_create(engine.model, dgl_session_params(.context = 24), &s),
                     DGL_OK);
    struct dgl_generate_result r = tiny_generate(
        s, dgl_generate_params(.ids = prompt, .num_ids = 20, .max_tokens = -1, .ignore_eos = true));
    assert_int_equal(r.finish, DGL_FINISH_CONTEXT);
    assert_int_equal(r.num_tokens, 5);
    assert_int_equal(dgl_session_len(s), 24);
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_continues_prefill),
        cmocka_unit_test(test_twice_is_equal),
        cmocka_unit_test(test_interleaved_sessions),
        cmocka_unit_test(test_limits_min_same_tokens),
        cmocka_unit_test(test_kv_types_agree),
        cmocka_unit_test(test_new_session_is_empty),
        cmocka_unit_test(test_answer_is_reused),
        cmocka_unit_test(test_prompt_again_after_answer),
        cmocka_unit_test(test_refused_logits_keep_session),
        cmocka_unit_test(test_prompt_fills_context),
        cmocka_unit_test(test_short_session_ends_at_its_context),
        cmocka_unit_test(test_sessions_of_other_sizes_share_the_workspace),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){.kv_type = DGL_KV_F16});
    tiny_ids(prompt, PROMPT, 320, 7);
    int failures = test_run_table("logits", test_cut_logits, cuts);
    failures += test_run_table("tokens", test_cut_tokens, cuts);
    failures += test_run_table("reuse", test_reuse, reuses);
    failures += test_run_table("trim", test_trim, trims);
    failures += test_run_table("refusal", test_refusal, refusals);
    failures += test_run_table("create", test_create, sizes);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
