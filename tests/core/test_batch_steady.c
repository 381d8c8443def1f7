/* After each kind of request has run in some lane, steps of a batch create no buffer and no program
 * and allocate no host memory, in any lane and with any other requests. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#include "core/seq/batch.h"
#include "tests/support/gl_fail.h"

#define CONTEXT 128
#define LONG    256
#define KINDS   11

static struct tiny_engine engine;

static const char *const breakers[] = {"\n", "the"};
static const struct dgl_logit_bias bias[] = {{5, 2.0f}, {9, -3.0f}};

/* A prompt alone would distinguish the kinds: each length uses other passes. */
static const struct dgl_request_params kinds[KINDS] = {
    {.prompt = "Once", .max_tokens = 9, .ignore_eos = true},
    {.prompt = "One day, a little cat",
     .max_tokens = 12,
     .sampling = {.temperature = 1, .seed = 3}},
    {.prompt = "Tom and his dog went to the park to play with a big red ball. They ran and ran.",
     .max_tokens = 10,
     .ignore_eos = true,
     .sampling = {.temperature = 0.7f, .top_k = 20, .seed = 4}},
    {.prompt = "The sun was hot", .max_tokens = 10, .sampling = {.temperature = 1, .top_p = 0.9f}},
    {.prompt = "There was a girl",
     .max_tokens = 11,
     .ignore_eos = true,
     .sampling = {.repeat_penalty = 1.3f, .repeat_last_n = 16}},
    {.prompt = "A bird sang",
     .max_tokens = 8,
     .sampling = {.temperature = 1.2f,
                  .top_k = 12,
                  .presence_penalty = 0.4f,
                  .repeat_last_n = -1,
                  .logit_bias = bias,
                  .num_logit_bias = 2,
                  .seed = 5}},
    {.prompt = "Lily said", .max_tokens = 6, .logprobs = true, .top_logprobs = 3},
    {.prompt = "The old man", .max_tokens = 9, .stop = &breakers[1], .num_stop = 1},
    {.prompt = "In the end", .max_tokens = DGL_TOKENS_NONE},
    {.prompt = "He said", .max_tokens = 9, .sampling = {.dry_multiplier = 0.8f}},
    {.prompt = "She said",
     .max_tokens = 9,
     .sampling = {.temperature = 1,
                  .dry_multiplier = 0.8f,
                  .dry_breakers = breakers,
                  .num_dry_breakers = 2}},
};

struct count {
    uint64_t buffers, programs, allocated;
};

/* Steps until all requests have ended, and counts the objects that the steps made. */
static struct count run_all(struct dgl_batch *b)
{
    struct dgl_counters before, after;
    struct count made = {0};
    size_t left = 1;
    dgl_device_get_counters(engine.device, &before);
    for (int steps = 0; left > 0; steps++) {
        gl_fail.allocated = 0;
        if (dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("step: %s", engine.log.text);
        made.allocated += gl_fail.allocated;
        assert_true(steps < 5000);
    }
    dgl_device_get_counters(engine.device, &after);
    made.buffers = after.buffers_created - before.buffers_created;
    made.programs = after.programs_linked - before.programs_linked;
    return made;
}

static void submit(struct dgl_batch *b, const struct dgl_request_params *p)
{
    if (dgl_batch_submit(b, p, NULL) != DGL_OK)
        fail_msg("submit: %s", engine.log.text);
}

static void assert_nothing(struct count made, const char *when, int i)
{
    if (made.buffers || made.programs || made.allocated)
        fail_msg("%s %d: %llu buffers, %llu programs, %llu allocations", when, i,
                 (unsigned long long)made.buffers, (unsigned long long)made.programs,
                 (unsigned long long)made.allocated);
}

struct steady_case {
    const char *name;
    int32_t sequences;
    bool invariant;
    int turns; /* orders of the kinds after the first one */
};
static const struct steady_case cases[] = {
    {"written together", KINDS, false, 3},
    {"one after the other", 2, false, 3},
    {"each alone", KINDS, true, 3},
    {"in several groups", 66, false, 1},
};

static void test_steady(void **state)
{
    const struct steady_case *row = *state;
    struct dgl_batch *b = NULL;
    assert_int_equal(
        dgl_batch_create(engine.model,
                         dgl_batch_params(.sequences = row->sequences, .context = CONTEXT,
                                          .invariant = row->invariant),
                         &b),
        DGL_OK);
    /* Each kind once, alone. Then together, which creates the passes over several sequences. */
    for (int i = 0; i < KINDS; i++) {
        submit(b, &kinds[i]);
        run_all(b);
    }
    for (int i = 0; i < KINDS; i++)
        submit(b, &kinds[i]);
    run_all(b);
    /* Each request in another lane with other requests, then alone in a lane. */
    for (int turn = 0; turn < row->turns; turn++) {
        for (int i = 0; i < KINDS; i++)
            submit(b, &kinds[(i + turn) % KINDS]);
        assert_nothing(run_all(b), "all, turn", turn);
    }
    for (int i = 0; i < (row->turns > 1 ? KINDS : 1); i++) {
        for (int before = 0; before < row->sequences - 1; before++)
            submit(b, dgl_request_params(.prompt = "A", .max_tokens = 1));
        submit(b, &kinds[i]);
        assert_nothing(run_all(b), "alone in the last lane, kind", i);
    }
    for (int i = 0; i < 2 * row->sequences; i++)
        submit(b, &kinds[i % KINDS]);
    assert_nothing(run_all(b), "full", row->sequences);
    dgl_batch_destroy(&b);
}

/* Pages run out: requests wait in their old places, and their tokens are evaluated again. */
static void test_preempted(void **state)
{
    (void)state;
    const struct dgl_model_info *info = dgl_model_get_info(engine.model);
    struct dgl_logit_bias never_ends[MODEL_MAX_STOP_IDS];
    struct dgl_batch *b = NULL;
    struct dgl_batch_info before = {0}, after = {0};
    for (size_t i = 0; i < info->num_stop_ids; i++)
        never_ends[i] = (struct dgl_logit_bias){info->stop_ids[i].id, -100.0f};
    const struct dgl_request_params *longer =
        dgl_request_params(.prompt = "Once", .max_tokens = 200,
                           .sampling = {.logit_bias = never_ends,
                                        .num_logit_bias = info->num_stop_ids});
    assert_int_equal(
        dgl_batch_create(engine.model,
                         dgl_batch_params(.sequences = 3, .context = LONG, .cache_tokens = LONG),
                         &b),
        DGL_OK);
    for (int round = 0; round < 2; round++) {
        b->answer_tokens = 4; /* as if recent answers had this length */
        for (int i = 0; i < 4; i++)
            submit(b, longer);
        dgl_batch_get_info(b, &before);
        const struct count made = run_all(b);
        dgl_batch_get_info(b, &after);
        if (round > 0)
            assert_nothing(made, "preempted, round", round);
        assert_true(after.preempted > before.preempted);
    }
    dgl_batch_destroy(&b);
}

/* Ids to text, by decoders of both kinds, once there is one. */
static void test_decoding(void **state)
{
    (void)state;
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u2581b\":1,\"<0xE2>\":2,\"<0x82>\":3,"
        "\"<0xAC>\":4},\"merges\":[]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" \"},"
        "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}}";
    static const int32_t ids[] = {1, 0, 2, 3, 4, 1, 0};
    struct dgl_tokenizer *tok = NULL;
    struct detokenizer *d = NULL;
    struct dgl_buf out = {0};
    assert_int_equal(tokenizer_create(NULL, "tokenizer.json", json, strlen(json), &tok), DGL_OK);
    assert_int_equal(detokenizer_create(NULL, tok, false, &d), DGL_OK);
    assert_true(dgl_buf_reserve(&out, 64));
    gl_fail.allocated = 0;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        assert_int_equal(detokenizer_push(d, ids[i], &out), DGL_OK);
    assert_int_equal(gl_fail.allocated, 0);
    assert_string_equal(out.p, "ba\u20ac ba");
    dgl_buf_finish(&out);
    detokenizer_destroy(&d);
    tokenizer_destroy(&tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decoding),
                                       cmocka_unit_test(test_preempted)};

    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = LONG});
    int failures = cmocka_run_group_tests_name("batch: no memory", tests, NULL, NULL);
    failures += test_run_table("batch: steady state", test_steady, cases);
    tiny_engine_close(&engine);
    return failures;
}
