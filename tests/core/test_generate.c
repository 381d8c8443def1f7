/* The generation loop: the end of an answer and its reason, the readback of ids, sampling by seed,
 * and the work of the device. Ids only; tests/core/test_generate_text.c tests the text. */
#include "tests/support/tiny_engine.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/seq/session.h"
#include "core/oracle/ref_sample.h"

#define PROMPT 12
#define FULL   (128 - PROMPT + 1) /* tokens until the context of 128 is full */

/* One engine for all cases of the group. */
static struct tiny_engine engine;
static int32_t prompt[PROMPT];
static int32_t greedy[FULL]; /* tokens after the prompt without a stop */

#define WITH_PROMPT .ids = prompt, .num_ids = PROMPT

/* ---- why it ends ----------------------------------------------------------------------------- */

struct ending {
    const char *name;
    int32_t max_tokens;
    int32_t interval;
    size_t tokens;
    enum dgl_finish finish;
};

static const struct ending endings[] = {
    {"no token at all", DGL_TOKENS_NONE, 1, 0, DGL_FINISH_LENGTH},
    {"no token at all, interval 8", DGL_TOKENS_NONE, 8, 0, DGL_FINISH_LENGTH},
    {"one token", 1, 1, 1, DGL_FINISH_LENGTH},
    {"one token, interval 8", 1, 8, 1, DGL_FINISH_LENGTH},
    {"two tokens, interval 8", 2, 8, 2, DGL_FINISH_LENGTH},
    {"ten tokens, interval 1", 10, 1, 10, DGL_FINISH_LENGTH},
    {"ten tokens, interval 3", 10, 3, 10, DGL_FINISH_LENGTH},
    {"ten tokens, interval 9", 10, 9, 10, DGL_FINISH_LENGTH},
    {"ten tokens, default interval", 10, 0, 10, DGL_FINISH_LENGTH},
    {"until the context is full", 0, 8, FULL, DGL_FINISH_CONTEXT},
    {"until the context is full, interval 1", -1, 1, FULL, DGL_FINISH_CONTEXT},
    {"until the context is full, interval 4", -1, 4, FULL, DGL_FINISH_CONTEXT},
    {"until the context is full, interval 8", -1, 8, FULL, DGL_FINISH_CONTEXT},
    {"until the context is full, interval 256", -1, 256, FULL, DGL_FINISH_CONTEXT},
    {"more tokens than the context has", 1000, 8, FULL, DGL_FINISH_CONTEXT},
    {"as many tokens as the context has", FULL, 8, FULL, DGL_FINISH_LENGTH},
};

static void test_ending(void **state)
{
    const struct ending *row = *state;
    struct dgl_generate_result r =
        tiny_generate(engine.session, dgl_generate_params(WITH_PROMPT, .ignore_eos = true,
                                                          .max_tokens = row->max_tokens,
                                                          .readback_interval = row->interval));
    assert_int_equal(r.num_tokens, row->tokens);
    assert_string_equal(dgl_finish_str(r.finish), dgl_finish_str(row->finish));
    assert_int_equal(r.num_prompt_ids, PROMPT);
    assert_memory_equal(r.prompt_ids, prompt, sizeof(prompt));
    if (row->tokens)
        assert_memory_equal(r.tokens, greedy, row->tokens * sizeof(*greedy));
    assert_string_equal(r.text, ""); /* this model has no tokenizer */
    dgl_generate_result_finish(&r);
}

/* ---- stop ids -------------------------------------------------------------------------------- */

/* Sampling in one operation. Software renderers use it only if a hint requests it. */
static const char fused_hints[] = "{\"variants\":{\"sample_next\":\"sample_next\"}}";
static struct dgl_kernels *fused;

/* Loads the engine's model again, with another stop id; `kernels` may be NULL. */
static void open_with_stop(struct tiny_engine *e, int32_t stop, const struct dgl_kernels *kernels)
{
    struct tiny_llama sizes = tiny_llama_default();
    char *dir = test_tmpdir(), text[64];
    tiny_llama_write(dir, &sizes);
    snprintf(text, sizeof(text), "\"eos_token_id\": %d", (int)stop);
    tiny_file_replace(dir, "config.json", "\"eos_token_id\": 1", text);
    tiny_engine_open(e, &(struct tiny_engine_params){.path = dir, .kernels = kernels});
    e->dir = dir;
}

/* The index of the first occurrence of greedy[at]. */
static size_t first_of(size_t at)
{
    size_t i = 0;
    while (greedy[i] != greedy[at])
        i++;
    return i;
}

static void check_stops(const struct dgl_kernels *kernels)
{
    static const int32_t intervals[] = {1, 2, 4, 8, 256};
    for (size_t at = 0; at < 10; at += 3) {
        struct tiny_engine e;
        size_t want = first_of(at) + 1;
        open_with_stop(&e, greedy[at], kernels);
        for (size_t i = 0; i < sizeof(intervals) / sizeof(*intervals); i++) {
            struct dgl_generate_result r =
                tiny_generate(e.session, dgl_generate_params(WITH_PROMPT, .max_tokens = 40,
                                                             .readback_interval = intervals[i]));
            assert_int_equal(r.finish, DGL_FINISH_EOS);
            assert_int_equal(r.num_tokens, want); /* the stop id is one of the tokens */
            assert_memory_equal(r.tokens, greedy, want * sizeof(*greedy));
            assert_int_equal(dgl_session_len(e.session), PROMPT + want - 1);
            dgl_generate_result_finish(&r);
        }
        tiny_engine_close(&e);
    }
}

static void test_stop_id_at_every_place(void **state)
{
    (void)state;
    check_stops(NULL);
}

static void test_stop_id_at_every_place_in_one_operation(void **state)
{
    (void)state;
    check_stops(fused);
}

/* An answer of `want` tokens. Tokens after a stop are not reported, and the number of submits is
 * small, if batches are queued ahead or not. */
struct batches {
    const char *name;
    int32_t interval;
    bool ahead;   /* as on hardware: the next batch is queued before the last is read */
    size_t first; /* stops at tokens first, first + 1, ... last of the answer */
    size_t last;
};

static const struct batches batches[] = {
    {"1, one at a time", 1, false, 0, 4},
    {"5, one at a time", 5, false, 0, 11},
    {"10, one at a time", 10, false, 0, 11},
    {"50, one at a time", 50, false, 0, 1},
    {"100, one at a time", 100, false, 4, 4},
    {"1, ahead", 1, true, 0, 4},
    {"5, ahead", 5, true, 0, 11},
    {"10, ahead", 10, true, 0, 11},
    {"50, ahead", 50, true, 49, 51},
    {"100, ahead", 100, true, 99, 101},
};

static void test_stop_within_batches(void **state)
{
    const struct batches *row = *state;
    struct dgl_stop_id stop = {.origin = "test"};
    struct dgl_model_info *info = &engine.model->info;
    const struct dgl_model_info old_info = *info;
    const bool old_software = engine.device->info.software;
    info->stop_ids = &stop;
    info->num_stop_ids = 1;
    /* Compiling submits work, and a renderer presented as hardware uses other programs for the
     * prompt. */
    engine.device->info.software = !row->ahead;
    struct dgl_session *warm = tiny_session(&engine, 0);
    struct dgl_generate_result first =
        tiny_generate(warm, dgl_generate_params(WITH_PROMPT, .max_tokens = 2));
    dgl_generate_result_finish(&first);
    dgl_session_destroy(&warm);
    engine.device->info.software = old_software;
    for (size_t at = row->first; at <= row->last; at++) {
        stop.id = greedy[at];
        size_t want = first_of(at) + 1;
        struct dgl_session *s = tiny_session(&engine, 0); /* copies the stop ids to the device */
        engine.device->info.software = !row->ahead;
        struct dgl_generate_result r =
            tiny_generate(s, dgl_generate_params(WITH_PROMPT, .max_tokens = 0,
                                                 .readback_interval = row->interval));
        engine.device->info.software = old_software;
        uint64_t most = (want + (size_t)row->interval - 1) / (size_t)row->interval + 1;
        uint64_t submits = r.prefill.submits + r.decode.submits;
        assert_int_equal(r.finish, DGL_FINISH_EOS);
        assert_int_equal(r.num_tokens, want);
        assert_memory_equal(r.tokens, greedy, want * sizeof(*greedy));
        assert_in_range(r.prefill.readbacks + r.decode.readbacks, 1, most);
        assert_in_range(submits, 1, 3 * most);
        assert_int_equal(dgl_session_len(s), PROMPT + want - 1);
        dgl_generate_result_finish(&r);
        /* Steps that were queued after the stop do not affect later calls. */
        r = tiny_generate(s, dgl_generate_params(WITH_PROMPT, .max_tokens = 12, .ignore_eos = true,
                                                 .readback_interval = row->interval));
        assert_int_equal(r.num_tokens, 12);
        assert_memory_equal(r.tokens, greedy, 12 * sizeof(*greedy));
        dgl_generate_result_finish(&r);
        dgl_session_destroy(&s);
    }
    *info = old_info;
}

static void test_ignore_eos_runs_on(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_with_stop(&e, greedy[2], NULL);
    for (int32_t interval = 1; interval <= 8; interval += 7) {
        struct dgl_generate_result r = tiny_generate(
            e.session, dgl_generate_params(WITH_PROMPT, .max_tokens = 20, .ignore_eos = true,
                                           .readback_interval = interval));
        assert_int_equal(r.finish, DGL_FINISH_LENGTH);
        assert_int_equal(r.num_tokens, 20);
        assert_memory_equal(r.tokens, greedy, 20 * sizeof(*greedy));
        dgl_generate_result_finish(&r);
    }
    tiny_engine_close(&e);
}

static void test_session_goes_on_after_stop_in_a_batch(void **state)
{
    (void)state;
    struct tiny_engine e;
    int32_t ids[PROMPT + 24];
    open_with_stop(&e, greedy[3], NULL);
    size_t n = first_of(3) + 1;
    struct dgl_generate_result r = tiny_generate(
        e.session, dgl_generate_params(WITH_PROMPT, .max_tokens = 40, .readback_interval = 16));
    assert_int_equal(r.num_tokens, n);
    dgl_generate_result_finish(&r);
    /* Keys and values written by idle steps are not used. */
    memcpy(ids, prompt, sizeof(prompt));
    memcpy(ids + PROMPT, greedy, n * sizeof(*greedy));
    tiny_ids(ids + PROMPT + n, 10, 320, 4);
    assert_int_equal(tiny_sync(e.session, ids, PROMPT + n + 10), PROMPT + n - 1);
    float *got = tiny_logits(e.session);
    dgl_session_trim(e.session, 0);
    tiny_sync(e.session, ids, PROMPT + n + 10);
    float *want = tiny_logits(e.session);
    assert_at_most(tiny_nmse(got, want, 320), 1e-7);
    free(got);
    free(want);
    tiny_engine_close(&e);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

struct canceller {
    struct dgl_session *session;
    int32_t after; /* tokens */
    int32_t seen;
    bool by_callback, by_signal;
    atomic_bool asked, done; /* of the other thread */
};

static struct dgl_session *signalled;

static void on_signal(int number)
{
    (void)number;
    dgl_session_cancel(signalled);
}

static bool cancel_after(void *priv, int32_t id)
{
    struct canceller *c = priv;
    (void)id;
    if (++c->seen != c->after)
        return true;
    if (c->by_callback)
        return false;
    if (c->by_signal) {
        raise(SIGUSR1);
        return true;
    }
    atomic_store(&c->asked, true);
    while (!atomic_load(&c->done))
        ;
    return true;
}

static void *cancel_when_asked(void *priv)
{
    struct canceller *c = priv;
    while (!atomic_load(&c->asked))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    dgl_session_cancel(c->session);
    atomic_store(&c->done, true);
    return NULL;
}

static void check_cancelled(struct canceller *c, int32_t interval)
{
    c->session = engine.session;
    c->after = 5;
    struct dgl_generate_result r = tiny_generate(
        engine.session,
        dgl_generate_params(WITH_PROMPT, .max_tokens = 60, .ignore_eos = true,
                            .readback_interval = interval, .token_cb = cancel_after, .priv = c));
    assert_int_equal(r.finish, DGL_FINISH_CANCELLED);
    assert_int_equal(r.num_tokens, 5);
    assert_memory_equal(r.tokens, greedy, 5 * sizeof(*greedy));
    assert_int_equal(dgl_session_len(engine.session), PROMPT + 4);
    dgl_generate_result_finish(&r);
    /* The next call is not cancelled, and continues from a consistent session. */
    r = tiny_generate(engine.session,
                      dgl_generate_params(WITH_PROMPT, .max_tokens = 10, .ignore_eos = true));
    assert_int_equal(r.finish, DGL_FINISH_LENGTH);
    assert_memory_equal(r.tokens, greedy, 10 * sizeof(*greedy));
    dgl_generate_result_finish(&r);
}

static void test_cancel_by_callback(void **state)
{
    (void)state;
    check_cancelled(&(struct canceller){.by_callback = true}, 1);
    check_cancelled(&(struct canceller){.by_callback = true}, 8);
}

static void test_cancel_by_signal(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}, old;
    signalled = engine.session;
    sigaction(SIGUSR1, &action, &old);
    check_cancelled(&(struct canceller){.by_signal = true}, 1);
    check_cancelled(&(struct canceller){.by_signal = true}, 8);
    sigaction(SIGUSR1, &old, NULL);
}

static void test_cancel_by_thread(void **state)
{
    (void)state;
    struct canceller c = {.session = engine.session};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_asked, &c), 0);
    check_cancelled(&c, 1);
    pthread_join(thread, NULL);
}

/* Cancels until told to end. A call ignores cancellations from before its start. */
static void *cancel_all_the_time(void *priv)
{
    struct canceller *c = priv;
    while (!atomic_load(&c->done)) {
        dgl_session_cancel(c->session);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return NULL;
}

static void test_cancel_during_prompt(void **state)
{
    (void)state;
    int32_t ids[120];
    struct dgl_session *s = tiny_session(&engine, 1); /* 120 passes */
    struct canceller c = {.session = s};
    pthread_t thread;
    tiny_ids(ids, 120, 320, 8);
    assert_int_equal(pthread_create(&thread, NULL, cancel_all_the_time, &c), 0);
    struct dgl_generate_result r =
        tiny_generate(s, dgl_generate_params(.ids = ids, .num_ids = 120, .max_tokens = 3));
    for (int more = 200; r.num_tokens > 0 && more > 0; more--) { /* the other thread had no turn */
        dgl_generate_result_finish(&r);
        dgl_session_trim(s, 0);
        r = tiny_generate(s, dgl_generate_params(.ids = ids, .num_ids = 120, .max_tokens = 3));
    }
    atomic_store(&c.done, true);
    pthread_join(thread, NULL);
    assert_int_equal(r.finish, DGL_FINISH_CANCELLED);
    assert_int_equal(r.num_tokens, 0);
    assert_string_equal(r.text, "");
    dgl_generate_result_finish(&r);
    int32_t held = dgl_session_len(s);
    assert_true(held < 120);
    assert_int_equal(tiny_sync(s, ids, 120), held);
    dgl_session_destroy(&s);
}

static void test_cancelled_sync_keeps_a_prefix(void **state)
{
    (void)state;
    int32_t ids[120];
    struct dgl_session *s = tiny_session(&engine, 1);
    struct canceller c = {.session = s};
    pthread_t thread;
    tiny_ids(ids, 120, 320, 8);
    assert_int_equal(pthread_create(&thread, NULL, cancel_all_the_time, &c), 0);
    /* On a busy machine the whole prompt may go by before the other thread has its turn. */
    enum dgl_status status = dgl_session_sync(s, ids, 120, NULL);
    for (int more = 200; status == DGL_OK && more > 0; more--) {
        dgl_session_trim(s, 0);
        status = dgl_session_sync(s, ids, 120, NULL);
    }
    atomic_store(&c.done, true);
    pthread_join(thread, NULL);
    assert_int_equal(status, DGL_ERR_CANCELLED);
    int32_t held = dgl_session_len(s);
    assert_int_equal(tiny_sync(s, ids, 120), held);
    dgl_session_destroy(&s);
}

struct late_canceller {
    struct dgl_session *session;
    useconds_t delay;
};

static void *cancel_late(void *priv)
{
    const struct late_canceller *c = priv;
    usleep(c->delay);
    dgl_session_cancel(c->session);
    return NULL;
}

/* Cancels between two dispatches of a pass, in a wait, before or after the call. At any place it is
 * no error, and the session continues as if the pass had not begun. */
static void test_cancelled_anywhere_stays_consistent(void **state)
{
    (void)state;
    int32_t ids[40], want[6], got[6], cancelled = 0;
    uint64_t seed = 3;
    struct dgl_session *s = tiny_session(&engine, 8);
    tiny_ids(ids, 40, 320, 9);
    tiny_greedy(s, ids, 40, want, 6);
    for (int round = 0; round < 40; round++) {
        struct late_canceller c = {.session = s, .delay = (useconds_t)(test_rand(&seed) % 4000)};
        struct dgl_generate_result r = {.size = sizeof(r)};
        pthread_t thread;
        dgl_session_trim(s, (int32_t)(test_rand(&seed) % 40));
        assert_int_equal(pthread_create(&thread, NULL, cancel_late, &c), 0);
        assert_int_equal(dgl_generate(s,
                                      dgl_generate_params(.ids = ids, .num_ids = 40,
                                                          .max_tokens = 40, .ignore_eos = true,
                                                          .readback_interval = 1 + round % 4),
                                      &r),
                         DGL_OK);
        pthread_join(thread, NULL);
        cancelled += r.finish == DGL_FINISH_CANCELLED;
        dgl_generate_result_finish(&r);
        tiny_greedy(s, ids, 40, got, 6);
        assert_memory_equal(got, want, sizeof(want));
    }
    assert_true(cancelled > 0);
    dgl_session_destroy(&s);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static const struct dgl_logit_bias biases[] = {{17, -INFINITY}, {30, 0.5f}, {31, -1}};
#define BIASED .logit_bias = biases, .num_logit_bias = 3

struct sampling {
    const char *name;
    struct dgl_sampling s;
};

static const struct sampling samplings[] = {
    {"top-k", {.temperature = 0.8f, .top_k = 40, .seed = 7}},
    {"top-k and top-p", {.temperature = 1, .top_k = 128, .top_p = 0.9f, .seed = 8}},
    {"top-k of one", {.temperature = 2, .top_k = 1, .seed = 9}},
    {"everything",
     {.temperature = 0.7f,
      .top_k = 20,
      .top_p = 0.95f,
      .min_p = 0.05f,
      .repeat_penalty = 1.3f,
      .repeat_last_n = 64,
      .seed = 10}},
    {"no limit", {.temperature = 1, .seed = 11}},
    {"top-p alone", {.temperature = 1, .top_p = 0.8f, .seed = 12}},
    {"min-p alone", {.temperature = 1.5f, .min_p = 0.1f, .seed = 13}},
    {"no limit with a penalty",
     {.temperature = 1, .repeat_penalty = 1.1f, .repeat_last_n = 32, .seed = 14}},
    {"greedy with a penalty", {.repeat_penalty = 1.5f, .repeat_last_n = 1024}},
    {"greedy with everything before it",
     {BIASED, .presence_penalty = 0.3f, .frequency_penalty = 0.2f, .repeat_last_n = -1,
      .dry_multiplier = 0.8f, .dry_penalty_last_n = -1}},
};

static struct dgl_generate_result sample(const struct dgl_sampling *s, int32_t interval)
{
    return tiny_generate(engine.session,
                         dgl_generate_params(WITH_PROMPT, .max_tokens = 30, .ignore_eos = true,
                                             .sampling = *s, .readback_interval = interval));
}

static void test_seed_is_reproducible(void **state)
{
    const struct sampling *row = *state;
    struct dgl_generate_result a = sample(&row->s, 1), b = sample(&row->s, 1);
    tiny_same_tokens(&a, &b);
    dgl_generate_result_finish(&a);
    dgl_generate_result_finish(&b);
}

static void test_intervals_agree(void **state)
{
    const struct sampling *row = *state;
    static const int32_t intervals[] = {4, 8, 256};
    struct dgl_generate_result a = sample(&row->s, 1);
    for (size_t i = 0; i < 3; i++) {
        struct dgl_generate_result b = sample(&row->s, intervals[i]);
        tiny_same_tokens(&a, &b);
        dgl_generate_result_finish(&b);
    }
    dgl_generate_result_finish(&a);
}

static void test_session_does_not_matter(void **state)
{
    const struct sampling *row = *state;
    struct dgl_generate_result a = sample(&row->s, 1);
    struct dgl_session *s = tiny_session(&engine, 0);
    struct dgl_generate_result b =
        tiny_generate(s, dgl_generate_params(WITH_PROMPT, .max_tokens = 30, .ignore_eos = true,
                                             .sampling = row->s, .readback_interval = 1));
    tiny_same_tokens(&a, &b);
    dgl_generate_result_finish(&a);
    dgl_generate_result_finish(&b);
    dgl_session_destroy(&s);
}

static void test_one_operation_agrees(void **state)
{
    (void)state;
    struct tiny_engine e;
    tiny_engine_open(&e, &(struct tiny_engine_params){.kernels = fused});
    for (size_t i = 0; i < sizeof(samplings) / sizeof(*samplings); i++) {
        for (int32_t interval = 1; interval <= 8; interval += 7) {
            struct dgl_generate_result a = sample(&samplings[i].s, interval);
            struct dgl_generate_result b = tiny_generate(
                e.session,
                dgl_generate_params(WITH_PROMPT, .max_tokens = 30, .ignore_eos = true,
                                    .sampling = samplings[i].s, .readback_interval = interval));
            tiny_same_tokens(&a, &b);
            dgl_generate_result_finish(&a);
            dgl_generate_result_finish(&b);
        }
    }
    tiny_engine_close(&e);
}

/* Computed from the logits of the whole prefix by the CPU twin of the kernels. */
static void test_penalties_are_those_of_the_twin(void **state)
{
    (void)state;
    const struct dgl_sampling sampling = {BIASED,
                                          .presence_penalty = 0.4f,
                                          .frequency_penalty = 0.15f,
                                          .repeat_penalty = 1.1f,
                                          .repeat_last_n = -1,
                                          .dry_multiplier = 2,
                                          .dry_allowed_length = 1,
                                          .dry_penalty_last_n = -1};
    struct dgl_generate_result r = sample(&sampling, 4);
    struct dgl_session *s = tiny_session(&engine, 0);
    uint32_t ids[128];
    int differ = 0;
    memcpy(ids, prompt, sizeof(prompt));
    for (size_t i = 0; i < r.num_tokens; i++) {
        struct ref_sampler ref = {.vocab = 320, .ids = ids, .sampling = &sampling};
        ref.step = (struct dgl_step){.pos = PROMPT + (uint32_t)i - 1, .tokens = 1, .context = 128};
        sampling_to_step(&sampling, &ref.step);
        tiny_sync(s, (const int32_t *)ids, PROMPT + i);
        ref.logits = tiny_logits(s);
        assert_true(ref_sample(&ref, SAMPLE_GREEDY));
        if ((int32_t)ids[PROMPT + i] != r.tokens[i])
            fail_msg("token %zu is %d, expected %u", i, r.tokens[i], ids[PROMPT + i]);
        differ += r.tokens[i] != greedy[i];
        free(ref.logits);
    }
    assert_true(differ > 0);
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
}

static void test_seeds_differ(void **state)
{
    (void)state;
    struct dgl_sampling s = {.temperature = 1, .top_k = 128, .seed = 1};
    struct dgl_generate_result a = sample(&s, 1);
    size_t different = 0;
    for (s.seed = 2; s.seed < 6; s.seed++) {
        struct dgl_generate_result b = sample(&s, 1);
        different += memcmp(a.tokens, b.tokens, 30 * sizeof(*a.tokens)) != 0;
        dgl_generate_result_finish(&b);
    }
    s.seed = 1ull << 32 | 1; /* the upper half counts */
    struct dgl_generate_result b = sample(&s, 1);
    different += memcmp(a.tokens, b.tokens, 30 * sizeof(*a.tokens)) != 0;
    dgl_generate_result_finish(&b);
    dgl_generate_result_finish(&a);
    assert_int_equal(different, 5);
}

static void test_top_k_of_one_is_greedy(void **state)
{
    (void)state;
    struct dgl_generate_result r =
        sample(&(struct dgl_sampling){.temperature = 5, .top_k = 1, .seed = 3}, 1);
    assert_memory_equal(r.tokens, greedy, 30 * sizeof(*greedy));
    dgl_generate_result_finish(&r);
}

static void test_other_fields_leave_greedy_alone(void **state)
{
    (void)state;
    struct dgl_generate_result r = sample(&(struct dgl_sampling){.top_k = 40,
                                                                 .top_p = 0.5f,
                                                                 .min_p = 0.2f,
                                                                 .repeat_penalty = 1,
                                                                 .repeat_last_n = 64,
                                                                 .seed = 5},
                                          1);
    assert_memory_equal(r.tokens, greedy, 30 * sizeof(*greedy));
    dgl_generate_result_finish(&r);
}

/* The penalty includes the prompt, and the changed logits are not the start of a later call. */
static void test_penalty_leaves_no_trace(void **state)
{
    (void)state;
    struct dgl_generate_result r =
        sample(&(struct dgl_sampling){.repeat_penalty = 100, .repeat_last_n = 1024}, 1);
    for (size_t i = 0; i < 30; i++)
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(r.tokens[i], r.tokens[j]);
    dgl_generate_result_finish(&r);
    r = sample(&(struct dgl_sampling){0}, 1);
    assert_memory_equal(r.tokens, greedy, 30 * sizeof(*greedy));
    dgl_generate_result_finish(&r);
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    struct dgl_generate_params p;
    const char *word;
};

static const struct refusal refusals[] = {
    {"no prompt", {.max_tokens = 1}, "prompt"},
    {"text and ids", {WITH_PROMPT, .prompt = "x"}, "either"},
    {"text without a tokenizer", {.prompt = "x"}, "tokenizer"},
    {"no ids", {.ids = prompt}, "empty"},
    {"max_tokens -3", {WITH_PROMPT, .max_tokens = -3}, "-3"},
    {"interval -1", {WITH_PROMPT, .readback_interval = -1}, "-1"},
    {"interval 257", {WITH_PROMPT, .readback_interval = 257}, "257"},
    {"negative temperature", {WITH_PROMPT, .sampling.temperature = -1}, "temperature"},
    {"temperature that is no number", {WITH_PROMPT, .sampling.temperature = NAN}, "temperature"},
    {"infinite temperature", {WITH_PROMPT, .sampling.temperature = INFINITY}, "temperature"},
    {"top-k 129", {WITH_PROMPT, .sampling.top_k = 129}, "129"},
    {"negative top-k", {WITH_PROMPT, .sampling.top_k = -2}, "top_k"},
    {"top-p above 1", {WITH_PROMPT, .sampling.top_p = 1.5f}, "top_p"},
    {"negative min-p", {WITH_PROMPT, .sampling.min_p = -0.1f}, "min_p"},
    {"negative penalty", {WITH_PROMPT, .sampling.repeat_penalty = -1}, "repeat_penalty"},
    {"DRY base below 1 beside a penalty",
     {WITH_PROMPT, .sampling.repeat_penalty = 1.1f, .sampling.dry_base = 0.5f},
     "dry_base"},
    {"window -2", {WITH_PROMPT, .sampling.repeat_last_n = -2}, "-2"},
    {"bias beyond the vocabulary",
     {WITH_PROMPT, .sampling.logit_bias = (const struct dgl_logit_bias[]){{1, 1}, {320, 1}},
      .sampling.num_logit_bias = 2},
     "logit bias 1 is for token 320, the vocabulary has ids 0 to 319"},
    {"breakers without a tokenizer",
     {WITH_PROMPT, .sampling.dry_multiplier = 1, .sampling.dry_penalty_last_n = -1,
      .sampling.dry_breakers = (const char *const[]){"a"}, .sampling.num_dry_breakers = 1},
     "no tokenizer"},
    {"kept tokens below 0", {WITH_PROMPT, .context_shift = true, .keep = -1}, "-1 tokens"},
    {"kept tokens above half", {WITH_PROMPT, .context_shift = true, .keep = 65}, "65 tokens"},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct dgl_generate_result r = {.size = sizeof(r)};
    test_log_clear(&engine.log);
    assert_int_equal(dgl_generate(engine.session, &row->p, &r), DGL_ERR_INVALID_ARG);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, row->word);
    assert_int_equal(r.num_tokens, 0);
    dgl_generate_result_finish(&r);
}

static void test_logits_that_are_not_numbers(void **state)
{
    (void)state;
    struct tiny_llama sizes = tiny_llama_default();
    struct tiny_engine e;
    char *dir = test_tmpdir();
    size_t len = 0;
    tiny_llama_write(dir, &sizes);
    /* The file ends with the final norm: infinite gains produce logits of inf - inf. */
    unsigned char *bytes = (unsigned char *)tiny_file_read(dir, "model.safetensors", &len);
    for (size_t i = len - 128; i < len; i += 2) {
        bytes[i] = 0x80;
        bytes[i + 1] = 0x7f;
    }
    test_write_file(dir, "model.safetensors", bytes, len);
    free(bytes);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    e.dir = dir;
    for (int32_t interval = 1; interval <= 8; interval += 7) {
        struct dgl_generate_result r = {.size = sizeof(r)};
        test_log_clear(&e.log);
        assert_int_equal(dgl_generate(e.session,
                                      dgl_generate_params(WITH_PROMPT, .max_tokens = 5,
                                                          .readback_interval = interval),
                                      &r),
                         DGL_ERR_GPU);
        assert_int_equal(e.log.errors, 1);
        assert_contains(e.log.text, "not numbers");
        assert_int_equal(r.num_tokens, 0);
        dgl_generate_result_finish(&r);
    }
    tiny_engine_close(&e);
}

/* ---- a full context that shifts -------------------------------------------------------------- */

/* The following tokens equal those of another session with the remaining tokens. */
static void test_shift_drops_half(void **state)
{
    (void)state;
    enum { KEEP = 5, HELD = PROMPT + FULL, DROPPED = (HELD - KEEP) / 2, MORE = DROPPED + 20 };
    static const int32_t intervals[] = {1, 8};
    int32_t ids[HELD], more[MORE];
    struct dgl_session *s = tiny_session(&engine, 0);
    memcpy(ids, prompt, sizeof(prompt));
    memcpy(ids + PROMPT, greedy, sizeof(greedy));
    memmove(ids + KEEP, ids + KEEP + DROPPED, (HELD - KEEP - DROPPED) * sizeof(*ids));
    tiny_greedy(s, ids, HELD - DROPPED, more, DROPPED);
    for (size_t i = 0; i < 2; i++) {
        struct dgl_generate_result r = tiny_generate(
            engine.session, dgl_generate_params(WITH_PROMPT, .max_tokens = FULL + MORE,
                                                .ignore_eos = true, .context_shift = true,
                                                .keep = KEEP, .readback_interval = intervals[i]));
        assert_int_equal(r.finish, DGL_FINISH_LENGTH);
        assert_int_equal(r.num_tokens, FULL + MORE);
        assert_int_equal(r.num_shifted, 2 * DROPPED);
        assert_memory_equal(r.tokens, greedy, sizeof(greedy));
        assert_memory_equal(r.tokens + FULL, more, DROPPED * sizeof(*more));
        dgl_generate_result_finish(&r);
    }
    dgl_session_destroy(&s);
}

static void test_shift_is_a_choice(void **state)
{
    (void)state;
    struct dgl_generate_result r = tiny_generate(
        engine.session, dgl_generate_params(WITH_PROMPT, .max_tokens = -1, .ignore_eos = true));
    assert_int_equal(r.finish, DGL_FINISH_CONTEXT);
    assert_int_equal(r.num_shifted, 0);
    dgl_generate_result_finish(&r);
}

/* ---- work ------------------------------------------------------------------------------------ */

struct work {
    const char *name;
    struct dgl_sampling s;
    int32_t interval;
    uint64_t sampling_dispatches; /* per token */
};

static const struct work works[] = {
    {"greedy", {.temperature = 0}, 1, 2},
    {"greedy with a penalty", {.repeat_penalty = 1.2f, .repeat_last_n = 8}, 1, 3},
    {"top-k", {.temperature = 1, .top_k = 40}, 1, 2},
    {"no limit", {.temperature = 1}, 1, 7},
    {"greedy, interval 8", {.temperature = 0}, 8, 3},
    {"no limit with a penalty, interval 8",
     {.temperature = 1, .repeat_penalty = 1.2f, .repeat_last_n = 8},
     8,
     9},
    {"greedy with everything before it, interval 8",
     {BIASED, .presence_penalty = 0.3f, .repeat_last_n = -1, .dry_multiplier = 0.8f,
      .dry_penalty_last_n = -1},
     8,
     4},
};

static void test_steady_decode(void **state)
{
    const struct work *row = *state;
    const uint64_t tokens = 41, steps = tokens - 1; /* the first token uses the prompt's logits */
    struct dgl_generate_result r = sample(&row->s, row->interval); /* warms up */
    dgl_generate_result_finish(&r);
    r = tiny_generate(engine.session,
                      dgl_generate_params(WITH_PROMPT, .max_tokens = (int32_t)tokens,
                                          .ignore_eos = true, .sampling = row->s,
                                          .readback_interval = row->interval));
    /* Splitting the keys of decode attention costs a merge per layer. */
    const struct oplist *step = &plan_body(&engine.model->shard->engine->plan, PASS_DECODE)->ops;
    uint64_t merge = 0;
    for (size_t i = 0; i < step->count; i++)
        merge |= strcmp(step->ops[i].label, "attn_merge") == 0;
    uint64_t per_token = 1 + 2 * (5 + merge) + 1 + row->sampling_dispatches;
    assert_int_equal(r.decode.tokens, steps);
    assert_int_equal(r.decode.buffers_created, 0);
    assert_int_equal(r.decode.programs_linked, 0);
    assert_int_equal(r.decode.readback_bytes, 4 * steps);
    assert_int_equal(r.decode.readbacks, steps / (uint64_t)row->interval);
    assert_int_equal(r.decode.submits, r.decode.readbacks * tiny_readback_submits(&engine));
    assert_int_equal(r.decode.dispatches, steps * per_token);
    assert_int_equal(r.decode.upload_bytes, 0);
    dgl_generate_result_finish(&r);
}

/* Every operation of the decoder depends on the one before: one barrier each, and one before a
 * readback. */
static void test_barriers_per_token(void **state)
{
    (void)state;
    struct dgl_generate_result r = sample(&(struct dgl_sampling){0}, 1);
    dgl_generate_result_finish(&r);
    r = sample(&(struct dgl_sampling){0}, 1);
    assert_int_equal(r.decode.barriers, r.decode.dispatches + r.decode.readbacks);
    dgl_generate_result_finish(&r);
}

static void test_second_session_takes_from_the_pool(void **state)
{
    (void)state;
    struct dgl_counters before, after;
    struct dgl_session *s = tiny_session(&engine, 0);
    int32_t out[4];
    tiny_greedy(s, prompt, PROMPT, out, 4);
    dgl_session_destroy(&s);
    dgl_device_get_counters(engine.device, &before);
    s = tiny_session(&engine, 0);
    tiny_greedy(s, prompt, PROMPT, out, 4);
    dgl_device_get_counters(engine.device, &after);
    dgl_session_destroy(&s);
    assert_int_equal(after.buffers_created - before.buffers_created, 0);
    assert_int_equal(after.programs_linked - before.programs_linked, 0);
    assert_memory_equal(out, greedy, sizeof(out));
}

static void test_prefill_counters(void **state)
{
    (void)state;
    dgl_session_trim(engine.session, 0);
    struct dgl_generate_result r = tiny_generate(
        engine.session, dgl_generate_params(WITH_PROMPT, .max_tokens = DGL_TOKENS_NONE));
    assert_int_equal(r.prefill.tokens, PROMPT);
    assert_int_equal(r.prefill.readback_bytes, 0);
    assert_int_equal(r.prefill.readbacks, 0);
    assert_int_equal(r.prefill.submits, 1); /* a wait for the logits */
    assert_int_equal(r.decode.tokens, 0);
    assert_int_equal(r.decode.dispatches, 0);
    assert_true(r.prefill_ns > 0);
    dgl_generate_result_finish(&r);
}

/* All work of a generation is counted, exactly once. */
static void test_counters_add_up(void **state)
{
    (void)state;
    struct dgl_counters before, after;
    dgl_session_trim(engine.session, 0);
    dgl_device_get_counters(engine.device, &before);
    struct dgl_generate_result r = tiny_generate(
        engine.session, dgl_generate_params(WITH_PROMPT, .max_tokens = 12, .ignore_eos = true,
                                            .readback_interval = 8));
    dgl_device_get_counters(engine.device, &after);
    assert_int_equal(r.prefill.readbacks, 1);
    assert_int_equal(r.decode.readbacks, 2); /* 8 tokens, then 3 */
    assert_int_equal(r.prefill.readbacks + r.decode.readbacks, after.readbacks - before.readbacks);
    assert_int_equal(r.prefill.readback_bytes, 4);
    assert_int_equal(r.decode.readback_bytes, 4 * 11);
    assert_int_equal(r.prefill.tokens, PROMPT);
    assert_int_equal(r.decode.tokens, 11);
    assert_int_equal(r.prefill.submits + r.decode.submits, after.submits - before.submits);
    assert_int_equal(r.prefill.dispatches + r.decode.dispatches,
                     after.dispatches - before.dispatches);
    assert_int_equal(r.prefill.upload_bytes + r.decode.upload_bytes,
                     after.upload_bytes - before.upload_bytes);
    dgl_generate_result_finish(&r);
}

static void test_times(void **state)
{
    (void)state;
    struct dgl_generate_result r = sample(&(struct dgl_sampling){0}, 1);
    assert_true(r.first_token_ns >= r.prefill_ns);
    assert_true(r.decode_ns > 0);
    dgl_generate_result_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_id_at_every_place),
        cmocka_unit_test(test_stop_id_at_every_place_in_one_operation),
        cmocka_unit_test(test_one_operation_agrees),
        cmocka_unit_test(test_ignore_eos_runs_on),
        cmocka_unit_test(test_session_goes_on_after_stop_in_a_batch),
        cmocka_unit_test(test_cancel_by_callback),
        cmocka_unit_test(test_cancel_by_signal),
        cmocka_unit_test(test_cancel_by_thread),
        cmocka_unit_test(test_cancel_during_prompt),
        cmocka_unit_test(test_cancelled_sync_keeps_a_prefix),
        cmocka_unit_test(test_cancelled_anywhere_stays_consistent),
        cmocka_unit_test(test_penalties_are_those_of_the_twin),
        cmocka_unit_test(test_shift_drops_half),
        cmocka_unit_test(test_shift_is_a_choice),
        cmocka_unit_test(test_seeds_differ),
        cmocka_unit_test(test_top_k_of_one_is_greedy),
        cmocka_unit_test(test_other_fields_leave_greedy_alone),
        cmocka_unit_test(test_penalty_leaves_no_trace),
        cmocka_unit_test(test_logits_that_are_not_numbers),
        cmocka_unit_test(test_barriers_per_token),
        cmocka_unit_test(test_second_session_takes_from_the_pool),
        cmocka_unit_test(test_prefill_counters),
        cmocka_unit_test(test_counters_add_up),
        cmocka_unit_test(test_times),
    };
    if (dgl_kernels_create(NULL, dgl_kernels_params(.hints = fused_hints), &fused) != DGL_OK)
        return 1;
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    tiny_ids(prompt, PROMPT, 320, 21);
    tiny_greedy(engine.session, prompt, PROMPT, greedy, FULL);
    int failures = test_run_table("ending", test_ending, endings);
    failures += test_run_table("batches", test_stop_within_batches, batches);
    failures += test_run_table("refusal", test_refusal, refusals);
    failures += test_run_table("seed", test_seed_is_reproducible, samplings);
    failures += test_run_table("interval", test_intervals_agree, samplings);
    failures += test_run_table("session", test_session_does_not_matter, samplings);
    failures += test_run_table("steady decode", test_steady_decode, works);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    dgl_kernels_destroy(&fused);
    return failures;
}
