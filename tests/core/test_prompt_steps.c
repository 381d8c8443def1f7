/* Prompts and ends of prompts of a few tokens that the steps of a persistent executor evaluate. The
 * tokens of answers equal those after passes, also if a dispatch is given up or the call is
 * cancelled. Also tests the conditions for such steps. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>
#include <string.h>

#include "core/seq/batch.h"
#include "core/exec/executor.h"
#include "kernels/phases.h"
#include "tests/support/injector.h"

#define CONTEXT  128
#define MOST     4 /* tokens of a prompt */
#define ANSWER   6
#define INTERVAL 4
#define BATCHES  2 /* of the answer's steps */
#define MORE     2 /* tokens that continue the conversation */

static struct tiny_engine engine;
static struct injector injector;
static int32_t prompt[MOST], more[MORE];
static size_t prefills; /* recorded on the device for prompts */
static bool cancels;    /* after the first of them */

static void hear_event(void *priv, const struct dgl_event *event)
{
    (void)priv;
    if (event->kind != DGL_EVENT_RECORD || event->phase != DGL_PHASE_PREFILL)
        return;
    prefills++;
    if (cancels)
        atomic_store(&engine.session->state.runner.cancel, true);
}

static int set_up(void **state)
{
    (void)state;
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    engine.device->plan.compute_units = 66; /* 132 groups are two per unit */
    tiny_ids(prompt, MOST, 320, 7);
    tiny_ids(more, MORE, 320, 19);
    dgl_device_set_trace(engine.device, hear_event, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_engine_close(&engine);
    return 0;
}

static void set_times(uint64_t persistent_ns, uint64_t dispatch_ns)
{
    for (int i = 0; i < ENGINE_CHOICES; i++) {
        struct exec_record *r = &engine.model->shard->engine->choice[i].record;
        *r = (struct exec_record){.verdict = EXEC_FASTER,
                                  .groups = 132,
                                  .dispatch_ns = dispatch_ns,
                                  .persistent_ns = persistent_ns};
    }
}

static struct dgl_generate_result answer(const struct dgl_sampling *sampling, const int32_t *ids,
                                         size_t count, int32_t tokens)
{
    prefills = 0;
    return tiny_generate(engine.session,
                         dgl_generate_params(.ids = ids, .num_ids = count, .max_tokens = tokens,
                                             .readback_interval = INTERVAL, .sampling = *sampling,
                                             .ignore_eos = true));
}

/* Makes an empty session that has decoded with this sampling. If `pays` is set, steps appear faster
 * than passes. */
static void install(enum dgl_executor wanted, const struct dgl_sampling *sampling, bool pays)
{
    test_log_clear(&engine.log);
    injector = (struct injector){0};
    injector_install(&injector, engine.model, wanted);
    set_times(300000, 900000);
    dgl_session_trim(engine.session, 0);
    struct dgl_generate_result r = answer(sampling, more, MORE, 2);
    dgl_generate_result_finish(&r);
    dgl_session_trim(engine.session, 0);
    set_times(pays ? 300000 : 1800000, 900000);
    injector.submits = 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

struct sampling_case {
    const char *name;
    struct dgl_sampling sampling;
};

static const struct sampling_case samplings[] = {
    {"greedy", {.temperature = 0}},
    {"top-k", {.temperature = 1, .top_k = 40, .seed = 3}},
    {"whole vocabulary", {.temperature = 1, .seed = 4}},
    {"penalties",
     {.temperature = 1,
      .seed = 5,
      .repeat_penalty = 1.3f,
      .frequency_penalty = 0.5f,
      .repeat_last_n = 16}},
    {"DRY and a bias",
     {.dry_multiplier = 1,
      .dry_penalty_last_n = -1,
      .logit_bias = &(struct dgl_logit_bias){9, 2},
      .num_logit_bias = 1}},
};

/* An answer, and the one after the conversation went on. */
struct talk {
    int32_t first[ANSWER], second[ANSWER];
};

/* One answer. If steps evaluated the prompt, only steps are recorded and ids are read back only
 * when needed: the injector reads the step table for each of its dispatches. */
static void reply(const struct dgl_sampling *sampling, const int32_t *ids, size_t count,
                  int32_t unread, bool stepped, int32_t out[ANSWER])
{
    const bool persistent = engine.model->shard->engine->persistent.exec != NULL;
    const uint64_t table = sizeof(struct dgl_step_table);
    const int32_t steps = stepped ? unread : 0;
    injector.submits = 0;
    struct dgl_generate_result r = answer(sampling, ids, count, ANSWER);
    assert_int_equal(r.num_tokens, ANSWER);
    memcpy(out, r.tokens, ANSWER * sizeof(*out));
    assert_int_equal(r.num_reused, (int32_t)count - unread);
    assert_int_equal(r.prefill.tokens, unread);
    assert_int_equal(r.prefill.readbacks, 1 + steps);
    assert_int_equal(r.prefill.readback_bytes, 4 + table * (uint64_t)steps);
    assert_int_equal(injector.submits, steps + (persistent ? BATCHES : 0));
    assert_int_equal(r.decode.readbacks, persistent ? 2 * BATCHES : BATCHES);
    if (stepped)
        assert_int_equal(prefills, steps);
    assert_int_equal(dgl_session_len(engine.session), count + ANSWER - 1);
    dgl_generate_result_finish(&r);
}

/* The last token of the first answer is the first token of the next prompt. */
static struct talk talk(const struct dgl_sampling *sampling, int32_t tokens, bool stepped)
{
    struct talk t;
    int32_t ids[MOST + ANSWER + MORE];
    reply(sampling, prompt, (size_t)tokens, tokens, stepped, t.first);
    memcpy(ids, prompt, (size_t)tokens * sizeof(*ids));
    memcpy(ids + tokens, t.first, sizeof(t.first));
    memcpy(ids + tokens + ANSWER, more, sizeof(more));
    reply(sampling, ids, (size_t)tokens + ANSWER + MORE, 1 + MORE, stepped, t.second);
    return t;
}

static void test_tokens(void **state)
{
    const struct sampling_case *c = *state;
    for (int32_t tokens = 1; tokens <= MOST; tokens++) {
        install(DGL_EXECUTOR_DISPATCH, &c->sampling, false);
        const struct talk want = talk(&c->sampling, tokens, false);
        for (int pays = 0; pays < 2; pays++) {
            install(DGL_EXECUTOR_PERSISTENT, &c->sampling, pays);
            const struct talk got = talk(&c->sampling, tokens, pays);
            if (memcmp(&got, &want, sizeof(got)) != 0)
                fail_msg("a prompt of %d by %s: other tokens", tokens, pays ? "steps" : "passes");
        }
        assert_int_equal(engine.log.errors, 0);
    }
}

/* Each dispatch of the prompt is given up in turn, in the middle of its step. */
static void test_given_up(void **state)
{
    const struct sampling_case *c = *state;
    for (int32_t tokens = 1; tokens <= MOST; tokens++) {
        install(DGL_EXECUTOR_DISPATCH, &c->sampling, false);
        const struct talk want = talk(&c->sampling, tokens, false);
        for (int32_t at = 1; at <= tokens; at++) {
            install(DGL_EXECUTOR_PERSISTENT, &c->sampling, true);
            injector.abort_at = at;
            struct dgl_generate_result r = answer(&c->sampling, prompt, (size_t)tokens, ANSWER);
            struct dgl_executor_info info = {.size = sizeof(info)};
            dgl_model_executor(engine.model, &info);
            if (r.num_tokens != ANSWER || memcmp(r.tokens, want.first, sizeof(want.first)) != 0)
                fail_msg("dispatch %d of a prompt of %d given up: other tokens", at, tokens);
            assert_int_equal(r.prefill.tokens, tokens);
            assert_int_equal(injector.submits, tokens);
            assert_int_equal(injector.cleared, 1);
            assert_string_equal(info.name, "dispatch");
            assert_contains(engine.log.text, "computed again by single dispatches");
            assert_int_equal(engine.log.errors, 0);
            dgl_generate_result_finish(&r);
        }
    }
}

/* ---- the rule -------------------------------------------------------------------------------- */

struct rule_case {
    const char *name;
    int32_t tokens;
    uint64_t persistent_us, dispatch_us;
    enum engine_state state;
    bool want;
};

/* Any program of a pass over 2 to 8 tokens costs 1.65 to 2.2 steps by dispatches. */
static const struct rule_case rules[] = {
    {"1 token, faster", 1, 486, 816, ENGINE_PERSISTENT, true},
    {"1 token, slower", 1, 816, 815, ENGINE_PERSISTENT, false},
    {"2 tokens, 1.2 steps", 2, 486, 816, ENGINE_PERSISTENT, true},
    {"2 tokens, 2.3 steps", 2, 940, 816, ENGINE_PERSISTENT, false},
    {"3 tokens, 1.6 steps", 3, 435, 816, ENGINE_PERSISTENT, true},
    {"3 tokens, 2.3 steps", 3, 626, 816, ENGINE_PERSISTENT, false},
    {"4 tokens, 1.6 steps", 4, 326, 816, ENGINE_PERSISTENT, true},
    {"4 tokens, 2.3 steps", 4, 470, 816, ENGINE_PERSISTENT, false},
    {"8 tokens, 2.1 steps", 8, 214, 816, ENGINE_PERSISTENT, true},
    {"8 tokens, 2.3 steps", 8, 235, 816, ENGINE_PERSISTENT, false},
    {"9 tokens, 0.9 steps", 9, 81, 816, ENGINE_PERSISTENT, false},
    {"nothing is left", 0, 486, 816, ENGINE_PERSISTENT, false},
    {"nothing was measured", 1, 0, 0, ENGINE_PERSISTENT, false},
    {"dispatches decode", 1, 486, 816, ENGINE_DISPATCH, false},
    {"the compiler is at it", 1, 486, 816, ENGINE_COMPILING, false},
};

static void test_rule(void **state)
{
    const struct rule_case *c = *state;
    const struct recipe recipe = recipe_decode(SAMPLE_GREEDY, 0, true);
    install(DGL_EXECUTOR_PERSISTENT, &samplings[0].sampling, true);
    set_times(c->persistent_us * 1000, c->dispatch_us * 1000);
    engine_choice(engine.model->shard->engine, recipe)->state = c->state;
    assert_int_equal(executor_reader(&engine.session->state.runner, recipe, c->tokens) != NULL,
                     c->want);
    /* One that has not decoded yet has no run. */
    struct dgl_session *fresh = tiny_session(&engine, 0);
    assert_null(executor_reader(&fresh->state.runner, recipe, c->tokens));
    dgl_session_destroy(&fresh);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* No token of the prompt counts as evaluated, and there are no logits of it: the next call starts
 * where this one did. */
static void test_cancelled(void **state)
{
    (void)state;
    enum { HELD = 1 };
    const struct dgl_sampling greedy = {0};
    for (int32_t next = HELD; next <= MOST; next++) { /* tokens of the call after it */
        install(DGL_EXECUTOR_DISPATCH, &greedy, false);
        struct dgl_generate_result want = answer(&greedy, prompt, (size_t)next, ANSWER);
        install(DGL_EXECUTOR_PERSISTENT, &greedy, true);
        struct dgl_generate_result r = answer(&greedy, prompt, HELD, DGL_TOKENS_NONE);
        dgl_generate_result_finish(&r);
        cancels = true;
        r = answer(&greedy, prompt, MOST, ANSWER);
        cancels = false;
        assert_int_equal(r.finish, DGL_FINISH_CANCELLED);
        assert_int_equal(r.num_tokens, 0);
        assert_at_most((double)prefills, 2); /* the second one was refused */
        assert_int_equal(dgl_session_len(engine.session), HELD);
        dgl_generate_result_finish(&r);
        r = answer(&greedy, prompt, (size_t)next, ANSWER);
        tiny_same_tokens(&r, &want);
        dgl_generate_result_finish(&r);
        dgl_generate_result_finish(&want);
    }
}

/* A call that only evaluates a prompt uses passes, because passes store logits. */
static void test_without_an_answer(void **state)
{
    (void)state;
    const struct dgl_sampling greedy = {0};
    install(DGL_EXECUTOR_PERSISTENT, &greedy, true);
    struct dgl_generate_result r = answer(&greedy, prompt, 3, DGL_TOKENS_NONE);
    assert_int_equal(injector.submits, 0);
    assert_int_equal(dgl_session_len(engine.session), 3);
    dgl_generate_result_finish(&r);
    r = answer(&greedy, prompt, 3, 1); /* they are still there */
    assert_int_equal(r.num_reused, 3);
    assert_int_equal(injector.submits, 0);
    dgl_generate_result_finish(&r);
}

/* ---- several answers ---------------------------------------------------------------------------
 */

struct company_case {
    const char *name;
    struct dgl_batch_params params;
    bool writer; /* somebody's answer is being written */
    bool logprobs;
    bool want;
};

static const struct company_case companies[] = {
    {"alone", {.sequences = 2}, false, false, true},
    {"beside an answer", {.sequences = 2}, true, false, false},
    {"alone, logits are wanted", {.sequences = 2}, false, true, false},
    {"alone, the same bits in any company",
     {.sequences = 2, .invariant = true},
     false,
     false,
     false},
    {"alone, passes of so many tokens were asked for",
     {.sequences = 2, .chunk = 4},
     false,
     false,
     false},
};

static void submit(struct dgl_batch *b, const int32_t *ids, size_t count, int32_t tokens,
                   bool logprobs)
{
    assert_int_equal(
        dgl_batch_submit(b,
                         dgl_request_params(.ids = ids, .num_ids = count, .max_tokens = tokens,
                                            .ignore_eos = true, .logprobs = logprobs),
                         NULL),
        DGL_OK);
}

static void step_until(struct dgl_batch *b, size_t left)
{
    size_t now = left + 1;
    for (int i = 0; now > left; i++) {
        assert_int_equal(dgl_batch_step(b, &now), DGL_OK);
        assert_true(i < 1000);
    }
}

static void test_company(void **state)
{
    const struct company_case *c = *state;
    struct dgl_batch *b = NULL;
    struct dgl_batch_params params = c->params;
    params.context = 64;
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
    set_times(300000, 900000);
    assert_int_equal(dgl_batch_create(engine.model, &params, &b), DGL_OK);
    /* Both lanes decode alone, the second one after the first answer's end. */
    submit(b, more, 1, 4, false);
    submit(b, more + 1, 1, 30, false);
    step_until(b, 0);
    submit(b, more, MORE, 4, false);
    step_until(b, 0);
    for (int i = 0; i < 2; i++)
        assert_true(b->lanes[i].session->state.runner.runs->persistent.count > 0);
    if (c->writer) {
        submit(b, more, 1, 40, false);
        for (int i = 0; i < 4; i++)
            assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    }
    prefills = 0;
    submit(b, prompt, MOST, 1, c->logprobs);
    step_until(b, 0);
    if (c->want)
        assert_int_equal(prefills, MOST);
    else
        assert_true(prefills < MOST); /* a body, a head, a draw */
    dgl_batch_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_without_an_answer),
    };
    set_up(NULL);
    int failed = test_run_table("tokens", test_tokens, samplings);
    failed += test_run_table("given up", test_given_up, samplings);
    failed += test_run_table("rule", test_rule, rules);
    failed += test_run_table("company", test_company, companies);
    failed += cmocka_run_group_tests_name("prompt steps", tests, NULL, NULL);
    tear_down(NULL);
    return failed;
}
