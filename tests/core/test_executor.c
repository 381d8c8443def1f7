/* Choice of the executor, with the reason, on a persistent executor that the test controls. An
 * answer has the same tokens for every fault of a persistent dispatch at every place.
 */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/exec/exec_record.h"
#include "core/seq/session.h"
#include "tests/support/injector.h"

#define PROMPT  5
#define CONTEXT 128
#define KEY     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct tiny_engine engine;
static struct injector injector;
static int32_t prompt[PROMPT];
static int32_t known[CONTEXT + 1]; /* ids by position of the greedy answer */

static int set_up(void **state)
{
    (void)state;
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    engine.device->plan.compute_units = 66; /* 132 groups are two per unit */
    tiny_ids(prompt, PROMPT, 320, 7);
    struct dgl_generate_result r = tiny_generate(
        engine.session, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .ignore_eos = true));
    assert_int_equal(r.num_tokens, CONTEXT - PROMPT + 1);
    memcpy(known, prompt, sizeof(prompt));
    memcpy(known + PROMPT, r.tokens, r.num_tokens * sizeof(int32_t));
    dgl_generate_result_finish(&r);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_engine_close(&engine);
    return 0;
}

static const char *record_dir(void)
{
    return dgl_device_cache_dir(engine.device);
}

static void forget(void)
{
    char *path = checked(dgl_path_join(record_dir(), KEY ".exec"));
    remove(path);
    free(path);
}

/* Sets results that need no trial. */
static void know_that_it_is_faster(void)
{
    for (int i = 0; i < ENGINE_CHOICES; i++)
        engine.model->shard->engine->choice[i].record = (struct exec_record){
            .verdict = EXEC_FASTER, .groups = 132, .dispatch_ns = 900000, .persistent_ns = 400000};
}

static struct dgl_executor_info chosen(void)
{
    struct dgl_executor_info info = {.size = sizeof(info)};
    dgl_model_executor(engine.model, &info);
    return info;
}

/* ---- tokens after an abort ------------------------------------------------------------------- */

struct answer_case {
    const char *name;
    struct dgl_sampling sampling;
    int32_t interval;
};

static const struct answer_case answers[] = {
    {"greedy, 1", {.temperature = 0}, 1},
    {"greedy, 4", {.temperature = 0}, 4},
    {"top-k, 4", {.temperature = 1, .top_k = 40, .seed = 3}, 4},
    {"whole vocabulary, 3", {.temperature = 1, .seed = 4}, 3},
    {"penalties, 4", {.repeat_penalty = 1.3f, .frequency_penalty = 0.5f, .repeat_last_n = 16}, 4},
    {"DRY and a bias, 4",
     {.dry_multiplier = 1,
      .dry_penalty_last_n = -1,
      .logit_bias = &(struct dgl_logit_bias){9, 2},
      .num_logit_bias = 1},
     4},
};

/* Every dispatch of an answer is given up in turn, after each number of whole tokens. */
static void test_replay(void **state)
{
    enum { TOKENS = 13 };
    const struct answer_case *c = *state;
    const struct dgl_generate_params *p =
        dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = TOKENS,
                            .readback_interval = c->interval, .sampling = c->sampling,
                            .ignore_eos = true);
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_DISPATCH);
    struct dgl_generate_result want = tiny_generate(engine.session, p);
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
    know_that_it_is_faster();
    struct dgl_generate_result whole = tiny_generate(engine.session, p);
    tiny_same_tokens(&whole, &want);
    assert_string_equal(chosen().name, "persistent");
    assert_contains(chosen().reason, "asked for");
    const int32_t submits = injector.submits;
    assert_int_equal(submits, (TOKENS - 1 + c->interval - 1) / c->interval);
    for (int32_t at = 1; at <= submits; at++)
        for (uint32_t after = 0; after < (uint32_t)c->interval; after++) {
            test_log_clear(&engine.log);
            injector = (struct injector){.abort_at = at, .abort_after = after};
            injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
            know_that_it_is_faster();
            dgl_session_trim(engine.session, 0);
            struct dgl_generate_result got = tiny_generate(engine.session, p);
            if (got.num_tokens != want.num_tokens ||
                memcmp(got.tokens, want.tokens, want.num_tokens * sizeof(int32_t)) != 0)
                fail_msg("dispatch %d given up after %u tokens: other tokens", at, after);
            assert_string_equal(chosen().name, "dispatch");
            assert_contains(chosen().reason, "given up");
            assert_contains(engine.log.text, "computed again by single dispatches");
            assert_int_equal(engine.log.errors, 0);
            assert_int_equal(injector.cleared, 1);
            dgl_generate_result_finish(&got);
        }
    dgl_generate_result_finish(&want);
    dgl_generate_result_finish(&whole);
}

/* After a dispatch that was given up, the answer continues past a full context, although persistent
 * dispatches were requested. */
static void test_shift_after_replay(void **state)
{
    (void)state;
    const struct dgl_generate_params *p =
        dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = CONTEXT + 20,
                            .readback_interval = 16, .ignore_eos = true, .context_shift = true);
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_DISPATCH);
    dgl_session_trim(engine.session, 0);
    struct dgl_generate_result want = tiny_generate(engine.session, p);
    injector = (struct injector){.abort_at = 2, .abort_after = 3};
    injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
    know_that_it_is_faster();
    dgl_session_trim(engine.session, 0);
    struct dgl_generate_result got = tiny_generate(engine.session, p);
    assert_true(got.num_shifted > 0);
    assert_int_equal(injector.cleared, 1);
    tiny_same_tokens(&got, &want);
    dgl_generate_result_finish(&want);
    dgl_generate_result_finish(&got);
}

/* A stop id ends the answer in the middle of a batch under either executor. */
static void test_stop(void **state)
{
    (void)state;
    const struct dgl_generate_params *p =
        dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = 40,
                            .readback_interval = 16, .stop = NULL);
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_DISPATCH);
    struct dgl_generate_result want = tiny_generate(engine.session, p);
    injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
    struct dgl_generate_result got = tiny_generate(engine.session, p);
    tiny_same_tokens(&got, &want);
    dgl_generate_result_finish(&want);
    dgl_generate_result_finish(&got);
}

/* ---- choice ---------------------------------------------------------------------------------- */

struct choice_case {
    const char *name;
    enum dgl_executor wanted;
    struct injector injector;
    struct exec_record record; /* stored before the run; verdict 0 = no record */
    int64_t age;               /* of it, seconds */
    int32_t tokens;            /* of the answer; 0 = until the context is full */
    bool waits;                /* the session, for the compiler */
    bool decoded;              /* the model has, for a minute */
    bool knows;                /* the executor already knows the right ids, which is fast */
    const char *want, *reason;
    enum exec_verdict verdict; /* stored after the run; 0 = no record */
    uint32_t groups;           /* of its dispatches; 0 = any */
    bool refused;
};

#define WITH_KEY .key = KEY
#define FAST                                                                                       \
    {                                                                                              \
        .verdict = EXEC_FASTER, .groups = 132, .dispatch_ns = 900000, .persistent_ns = 400000      \
    }

#define GIVEN_UP                                                                                   \
    {                                                                                              \
        .verdict = EXEC_ABORTED, .groups = 132, .dispatch_ns = 900000, .persistent_ns = 400000     \
    }
#define TRIAL_TEXT "us per token by persistent dispatches of 132 work groups"

static const struct choice_case choices[] = {
    {.name = "nothing is known",
     .injector = {WITH_KEY},
     .want = "dispatch",
     .reason = "have not been tried yet"},
    {.name = "nothing is known, the compiler would hold it up",
     .injector = {WITH_KEY},
     .decoded = true,
     .want = "dispatch",
     .reason = "have not been tried yet"},
    {.name = "nothing is known, it has just begun to decode",
     .injector = {WITH_KEY, .aside = true},
     .tokens = 2,
     .want = "dispatch",
     .reason = "have not been tried yet"},
    {.name = "nothing is known, it has decoded for some time",
     .injector = {WITH_KEY, .aside = true, .not_ready = 5, .best_groups = 132},
     .decoded = true,
     .knows = true,
     .want = "persistent",
     .reason = TRIAL_TEXT,
     .verdict = EXEC_FASTER},
    {.name = "nothing is known, and then it is slower",
     .injector = {WITH_KEY, .aside = true, .step_ns = 3000000},
     .decoded = true,
     .tokens = 5,
     .want = "dispatch",
     .reason = "us per token by persistent dispatches of ",
     .verdict = EXEC_SLOWER},
    {.name = "nothing is known, the compiler takes longer than the answer",
     .injector = {WITH_KEY, .aside = true, .not_ready = 1000000},
     .decoded = true,
     .want = "dispatch",
     .reason = "is being compiled"},
    {.name = "nothing is known, the compiler is waited for",
     .injector = {WITH_KEY, .not_ready = 1000000, .best_groups = 132},
     .waits = true,
     .knows = true,
     .want = "persistent",
     .reason = TRIAL_TEXT,
     .verdict = EXEC_FASTER},
    {.name = "dispatches are asked for",
     .wanted = DGL_EXECUTOR_DISPATCH,
     .want = "dispatch",
     .reason = "asked for"},
    {.name = "no program",
     .injector = {.no_schedule = "more than four kernels in slot down"},
     .want = "dispatch",
     .reason = "more than four kernels in slot down"},
    {.name = "slower in a trial",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .step_ns = 3000000},
     .tokens = 5,
     .want = "persistent",
     .reason = "asked for; a trial took ",
     .verdict = EXEC_SLOWER},
    {.name = "faster in a trial",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY},
     .knows = true,
     .want = "persistent",
     .reason = "asked for; a trial took ",
     .verdict = EXEC_FASTER},
    {.name = "faster with fewer groups",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .best_groups = 66},
     .knows = true,
     .want = "persistent",
     .reason = "of 66 work groups",
     .verdict = EXEC_FASTER,
     .groups = 66},
    {.name = "other tokens in a trial",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .wrong = true},
     .reason = "not the same",
     .verdict = EXEC_UNFIT,
     .refused = true},
    {.name = "given up in a trial",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .abort_at = 2, .abort_after = 3},
     .reason = "given up in a trial",
     .verdict = EXEC_ABORTED,
     .refused = true},
    {.name = "given up in the answer",
     .injector = {WITH_KEY, .abort_at = 2, .abort_after = 3},
     .record = FAST,
     .want = "dispatch",
     .reason = "given up in this process",
     .verdict = EXEC_ABORTED},
    {.name = "a record says faster",
     .injector = {WITH_KEY},
     .record = FAST,
     .tokens = 20,
     .want = "persistent",
     .reason = "a trial took 400 " TRIAL_TEXT ", 900 us by single ones",
     .verdict = EXEC_FASTER,
     .groups = 132},
    {.name = "a record of fewer groups",
     .injector = {WITH_KEY},
     .record = {.verdict = EXEC_FASTER, .groups = 66, .dispatch_ns = 9000, .persistent_ns = 4000},
     .want = "persistent",
     .reason = "of 66 work groups",
     .verdict = EXEC_FASTER,
     .groups = 66},
    {.name = "a record of more groups than are resident",
     .injector = {WITH_KEY, .best_groups = 132},
     .record = {.verdict = EXEC_FASTER, .groups = 264, .dispatch_ns = 9000, .persistent_ns = 4000},
     .knows = true,
     .want = "persistent",
     .reason = TRIAL_TEXT,
     .verdict = EXEC_FASTER,
     .groups = 132},
    {.name = "a record says slower",
     .injector = {WITH_KEY},
     .record = {.verdict = EXEC_SLOWER, .groups = 132, .dispatch_ns = 4000, .persistent_ns = 9000},
     .want = "dispatch",
     .reason = "a trial took 9 " TRIAL_TEXT ", 4 us by single ones",
     .verdict = EXEC_SLOWER},
    {.name = "a record says unfit",
     .injector = {WITH_KEY},
     .record = {.verdict = EXEC_UNFIT},
     .want = "dispatch",
     .reason = "failed its tests",
     .verdict = EXEC_UNFIT},
    {.name = "given up an hour ago",
     .injector = {WITH_KEY},
     .record = GIVEN_UP,
     .age = 3600,
     .want = "dispatch",
     .reason = "had to be given up here",
     .verdict = EXEC_ABORTED},
    {.name = "given up the day before yesterday",
     .injector = {WITH_KEY},
     .record = GIVEN_UP,
     .age = 2 * 86400,
     .want = "persistent",
     .reason = TRIAL_TEXT,
     .verdict = EXEC_ABORTED},
    {.name = "given up in the future",
     .injector = {WITH_KEY},
     .record = GIVEN_UP,
     .age = -3600,
     .want = "persistent",
     .reason = TRIAL_TEXT,
     .verdict = EXEC_ABORTED},
    {.name = "given up in a trial long ago",
     .injector = {WITH_KEY},
     .record = {.verdict = EXEC_ABORTED},
     .age = 20 * 86400,
     .want = "dispatch",
     .reason = "had to be given up here",
     .verdict = EXEC_ABORTED},
    {.name = "the compiler takes some batches",
     .injector = {WITH_KEY, .not_ready = 5},
     .record = FAST,
     .want = "persistent",
     .reason = TRIAL_TEXT,
     .verdict = EXEC_FASTER},
    {.name = "the compiler takes longer than the answer",
     .injector = {WITH_KEY, .not_ready = 1000000},
     .record = FAST,
     .want = "dispatch",
     .reason = "is being compiled",
     .verdict = EXEC_FASTER},
    {.name = "asked for, the compiler takes longer than the answer",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .not_ready = 1000000},
     .want = "dispatch",
     .reason = "is being compiled"},
    {.name = "asked for although slower",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .not_ready = 5},
     .record = {.verdict = EXEC_SLOWER, .groups = 132, .dispatch_ns = 4000, .persistent_ns = 9000},
     .want = "persistent",
     .reason = "asked for; a trial took 9 ",
     .verdict = EXEC_SLOWER},
    {.name = "asked for without a program",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {.no_schedule = "more than four kernels in slot down"},
     .reason = "more than four kernels in slot down",
     .refused = true},
    {.name = "asked for without resident groups",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .unfit = "none of 4096 work groups joined the poll"},
     .reason = "none of 4096",
     .verdict = EXEC_UNFIT,
     .refused = true},
    {.name = "asked for, the driver does not take the program",
     .wanted = DGL_EXECUTOR_PERSISTENT,
     .injector = {WITH_KEY, .refuses = true},
     .reason = "does not take the program",
     .verdict = EXEC_UNFIT,
     .refused = true},
    {.name = "the driver does not take the program",
     .injector = {WITH_KEY, .refuses = true},
     .waits = true,
     .want = "dispatch",
     .reason = "does not take the program",
     .verdict = EXEC_UNFIT},
};

static void test_choice(void **state)
{
    const struct choice_case *c = *state;
    struct exec_record record = c->record, after;
    if (!record_dir())
        SKIP("no cache folder");
    forget();
    record.time = (uint64_t)((int64_t)time(NULL) - c->age);
    if (record.verdict)
        assert_true(exec_record_store(record_dir(), KEY, "a device", &record));
    test_log_clear(&engine.log);
    injector = c->injector;
    if (c->knows)
        injector.known = known;
    injector_install(&injector, engine.model, c->wanted);
    dgl_session_trim(engine.session, 0);
    engine.session->state.runner.wait_executor = c->waits;
    engine.model->shard->engine->decoded_ns = c->decoded ? dgl_now_ns() - 60000000000ull : 0;
    struct dgl_generate_result r = {.size = sizeof(r)};
    enum dgl_status status =
        dgl_generate(engine.session,
                     dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = c->tokens,
                                         .ignore_eos = true),
                     &r);
    if (c->refused) {
        const char *const parts[] = {"persistent", c->reason};
        assert_refusal(&engine.log, status, DGL_ERR_UNSUPPORTED, parts);
    } else {
        assert_int_equal(status, DGL_OK);
        assert_int_equal(r.num_tokens, c->tokens ? c->tokens : CONTEXT - PROMPT + 1);
        if (memcmp(r.tokens, known + PROMPT, r.num_tokens * sizeof(int32_t)) != 0)
            fail_msg("other tokens");
        assert_string_equal(chosen().name, c->want);
        assert_contains(chosen().reason, c->reason);
        assert_int_equal(engine.log.errors, 0);
    }
    bool kept = exec_record_load(record_dir(), KEY, &after);
    assert_int_equal(kept ? after.verdict : 0, c->verdict);
    if (c->groups)
        assert_int_equal(injector.groups, c->groups);
    engine.session->state.runner.wait_executor = false;
    /* Without the expectation of a speedup, no program is compiled or tried. */
    bool expected = c->wanted == DGL_EXECUTOR_PERSISTENT || c->record.persistent_ns > 0 ||
                    c->waits || (c->injector.aside && c->decoded);
    assert_at_most(injector.begun, expected ? 1 : 0);
    dgl_generate_result_finish(&r);
    forget();
}

/* One submit has at most 100 ms of work for the device, so that a call can be cancelled between
 * submits. */
static void test_bounded(void **state)
{
    (void)state;
    static const struct {
        uint64_t token_ns;
        uint32_t most;
    } rows[] = {{1000, 32},    {1000000, 32}, {9000000, 11},
                {40000000, 2}, {99000000, 1}, {1u << 30, 1}};
    if (!record_dir())
        SKIP("no cache folder");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct exec_record record = {.verdict = EXEC_FASTER,
                                           .groups = 132,
                                           .dispatch_ns = rows[i].token_ns + 1,
                                           .persistent_ns = rows[i].token_ns};
        assert_true(exec_record_store(record_dir(), KEY, "a device", &record));
        injector = (struct injector){WITH_KEY, .known = known};
        injector_install(&injector, engine.model, DGL_EXECUTOR_AUTO);
        struct dgl_generate_result r = tiny_generate(
            engine.session, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = 65,
                                                .readback_interval = 32, .ignore_eos = true));
        assert_int_equal(injector.most_steps, rows[i].most);
        dgl_generate_result_finish(&r);
    }
    forget();
}

/* A trial has no side effects, and does not change the counters of the answer. */
static void test_trial_counts_nothing(void **state)
{
    (void)state;
    struct dgl_generate_result r[2] = {0};
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
    for (int round = 0; round < 2; round++) { /* the first one tries, the second one knows */
        dgl_session_trim(engine.session, 0);
        r[round] = tiny_generate(engine.session,
                                 dgl_generate_params(.ids = prompt, .num_ids = PROMPT,
                                                     .max_tokens = 40, .ignore_eos = true));
    }
    assert_int_equal(injector.probed, 1);
    assert_memory_equal(&r[0].decode, &r[1].decode, sizeof(r[0].decode));
    tiny_same_tokens(&r[0], &r[1]);
    dgl_generate_result_finish(&r[0]);
    dgl_generate_result_finish(&r[1]);
}

/* The KV cache grows into other buffers: dispatches decode while the next program is compiled. An
 * abort is remembered nevertheless. */
static void test_divided_cache(void **state)
{
    (void)state;
    struct engine_choice *c =
        engine_choice(engine.model->shard->engine, recipe_decode(SAMPLE_GREEDY, 0, true));
    injector = (struct injector){.aside = true, .known = known};
    injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
    for (int round = 1; round <= 3; round++) {
        injector.not_ready = 2;
        c->record.verdict = round == 3 ? EXEC_ABORTED : c->record.verdict;
        c->division++;
        dgl_session_trim(engine.session, 0);
        struct dgl_generate_result r = tiny_generate(
            engine.session, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = 40,
                                                .ignore_eos = true));
        assert_memory_equal(r.tokens, known + PROMPT, r.num_tokens * sizeof(int32_t));
        assert_string_equal(chosen().name, "persistent");
        assert_int_equal(injector.begun, round < 3 ? round : 2);
        assert_int_equal(injector.probed, round < 3 ? round : 2);
        assert_int_equal(c->division, kv_cache_division(&engine.model->shard->kv));
        dgl_generate_result_finish(&r);
    }
}

static void count_end(void *priv, const struct dgl_request_result *result)
{
    assert_int_equal(result->status, DGL_OK);
    ++*(int *)priv;
}

/* If several answers run together, runs of the persistent executor are made only while one decodes
 * alone: the first and the last. */
static void test_company(void **state)
{
    enum { ANSWERS = 6 };
    (void)state;
    struct dgl_batch *batch = NULL;
    size_t left = 1;
    int ended = 0;
    assert_int_equal(
        dgl_batch_create(engine.model,
                         dgl_batch_params(.sequences = ANSWERS, .queue = ANSWERS, .context = 64),
                         &batch),
        DGL_OK);
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_PERSISTENT);
    know_that_it_is_faster();
    for (int i = 0; i < ANSWERS; i++)
        assert_int_equal(
            dgl_batch_submit(batch,
                             dgl_request_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = 30,
                                                .ignore_eos = true, .finish_cb = count_end,
                                                .priv = &ended),
                             NULL),
            DGL_OK);
    while (left > 0)
        assert_int_equal(dgl_batch_step(batch, &left), DGL_OK);
    assert_int_equal(ended, ANSWERS);
    assert_string_equal(chosen().name, "persistent");
    assert_true(injector.bound >= 1);
    assert_at_most(injector.bound, 2);
    assert_true(injector.bound_rows >= 1);
    assert_at_most(injector.bound_rows, 3); /* a width each */
    dgl_batch_destroy(&batch);
}

/* ---- several sequences ----------------------------------------------------------------------- */

#define CROWD        5
#define CROWD_TOKENS 45

struct crowd_answer {
    int32_t ids[CROWD_TOKENS];
    size_t count;
    int ended;
};

static void crowd_end(void *priv, const struct dgl_request_result *result)
{
    struct crowd_answer *a = priv;
    assert_int_equal(result->status, DGL_OK);
    a->ended++;
}

static bool crowd_token(void *priv, const struct dgl_token *token)
{
    struct crowd_answer *a = priv;
    assert_true(a->count < CROWD_TOKENS);
    a->ids[a->count++] = token->chosen.id;
    return true;
}

/* Answers of several lengths, in fewer lanes, by common passes. */
static void answer_crowd(struct crowd_answer crowd[CROWD])
{
    struct dgl_batch *batch = NULL;
    size_t left = 1;
    memset(crowd, 0, CROWD * sizeof(*crowd));
    assert_int_equal(
        dgl_batch_create(engine.model,
                         dgl_batch_params(.sequences = CROWD - 1, .queue = CROWD, .context = 64),
                         &batch),
        DGL_OK);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(
            dgl_batch_submit(batch,
                             dgl_request_params(.ids = prompt, .num_ids = (size_t)(1 + i),
                                                .max_tokens = CROWD_TOKENS - 7 * i,
                                                .ignore_eos = true, .token_cb = crowd_token,
                                                .finish_cb = crowd_end, .priv = &crowd[i]),
                             NULL),
            DGL_OK);
    while (left > 0)
        assert_int_equal(dgl_batch_step(batch, &left), DGL_OK);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(crowd[i].ended, 1);
    dgl_batch_destroy(&batch);
}

/* The injector computes passes over several sequences. A single sequence decodes by dispatches. */
static void install_for_rows(void)
{
    injector_install(&injector, engine.model, DGL_EXECUTOR_AUTO);
    know_that_it_is_faster();
    for (int i = 0; i < ENGINE_KINDS; i++)
        engine.model->shard->engine->choice[i].state = ENGINE_DISPATCH;
}

/* Each dispatch of several answers is given up once, after each number of whole steps, with a
 * second dispatch queued behind it. */
static void test_crowd_replay(void **state)
{
    (void)state;
    struct crowd_answer want[CROWD], got[CROWD];
    const bool software = engine.device->info.software;
    engine.device->info.software = false; /* several steps, two of them queued */
    injector = (struct injector){0};
    injector_install(&injector, engine.model, DGL_EXECUTOR_DISPATCH);
    answer_crowd(want);
    injector = (struct injector){0};
    install_for_rows();
    answer_crowd(got);
    const int32_t submits = injector.submits;
    assert_true(submits > 3);
    assert_memory_equal(got, want, sizeof(want));
    printf("# %d dispatches of up to %u steps\n", submits, injector.most_steps);
    for (int32_t at = 1; at <= submits; at++)
        for (uint32_t after = 0; after < 3; after++) {
            test_log_clear(&engine.log);
            injector = (struct injector){.abort_at = at, .abort_after = after};
            install_for_rows();
            answer_crowd(got);
            if (memcmp(got, want, sizeof(want)) != 0)
                fail_msg("dispatch %d given up after %u steps: other tokens", at, after);
            assert_int_equal(engine.log.errors, 0);
            if (injector.submits >= at) {
                assert_contains(engine.log.text, "computed again by single dispatches");
                assert_true(injector.cleared >= 1);
            }
        }
    engine.device->info.software = software;
}

/* Software renderers compute one work group after the other. */
static void test_software_is_refused(void **state)
{
    (void)state;
    if (!dgl_device_get_info(engine.device)->software)
        SKIP("a hardware device");
    struct dgl_model *model = NULL;
    struct dgl_executor_info info = {.size = sizeof(info)};
    const char *const parts[] = {"persistent", "renders in software"};
    test_log_clear(&engine.log);
    enum dgl_status status = dgl_model_load(
        engine.device, dgl_model_params(.path = engine.path, .executor = DGL_EXECUTOR_PERSISTENT),
        &model);
    assert_refusal(&engine.log, status, DGL_ERR_UNSUPPORTED, parts);
    assert_null(model);
    assert_int_equal(dgl_model_load(engine.device, dgl_model_params(.path = engine.path), &model),
                     DGL_OK);
    dgl_model_executor(model, &info);
    assert_int_equal(info.executor, DGL_EXECUTOR_DISPATCH);
    assert_string_equal(info.name, "dispatch");
    assert_contains(info.reason, "renders in software");
    dgl_model_destroy(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shift_after_replay),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_trial_counts_nothing),
        cmocka_unit_test(test_divided_cache),
        cmocka_unit_test(test_company),
        cmocka_unit_test(test_crowd_replay),
        cmocka_unit_test(test_software_is_refused),
    };
    set_up(NULL);
    int failed = test_run_table("replay", test_replay, answers);
    failed += test_run_table("choice", test_choice, choices);
    failed += cmocka_run_group_tests_name("executor", tests, NULL, NULL);
    tear_down(NULL);
    return failed;
}
