/* A model that is rebuilt after a device loss: tokens of sessions, answers and scores are as
 * without the loss, for every interrupted call. Also the refusals until then, and the state after a
 * failed rebuild. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "gl/gl_internal.h"
#include "tests/support/tiny_engine.h"

#define PROMPT 12
#define ANSWER 8
#define VOCAB  320

static char *dir;
static int32_t prompt[PROMPT];
/* Results of a device that is not lost: greedy, with penalties, and the logits after the prompt. */
static int32_t greedy[ANSWER], penalised[ANSWER];
static float *wanted_logits;

static const struct dgl_sampling penalties = {
    .repeat_penalty = 1.7f, .repeat_last_n = -1, .logit_bias = NULL};

static void open_engine(struct tiny_engine *e)
{
    gl_fail_reset();
    tiny_engine_open(e, &(struct tiny_engine_params){.path = dir});
    test_log_clear(&e->log);
}

static void rebuild(struct tiny_engine *e)
{
    gl_fail_reset();
    test_log_clear(&e->log);
    if (dgl_model_rebuild(e->model, NULL) != DGL_OK)
        fail_msg("%s", e->log.text);
    assert_int_equal(e->log.errors, 0);
    assert_false(dgl_device_is_lost(e->device));
}

static void lose(struct tiny_engine *e)
{
    struct dgl_session *s = tiny_session(e, 0);
    gl_fail.submits = 0;
    assert_int_equal(dgl_session_sync(s, prompt, PROMPT, NULL), DGL_ERR_DEVICE_LOST);
    dgl_session_destroy(&s);
    gl_fail_reset();
    assert_true(dgl_device_is_lost(e->device));
}

static void check_tokens(struct dgl_session *s, const struct dgl_sampling *sampling,
                         const int32_t *want)
{
    struct dgl_generate_result r =
        tiny_generate(s, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = ANSWER,
                                             .ignore_eos = true, .sampling = *sampling));
    assert_int_equal(r.num_tokens, ANSWER);
    for (int i = 0; i < ANSWER; i++)
        if (r.tokens[i] != want[i])
            fail_msg("token %d is %d, wanted %d", i, r.tokens[i], want[i]);
    dgl_generate_result_finish(&r);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Lost at the n-th list of dispatches of an answer. */
static void test_answer(void **state)
{
    (void)state;
    struct tiny_engine e;
    long losses = 0;
    open_engine(&e);
    tiny_greedy(e.session, prompt, PROMPT, (int32_t[ANSWER]){0}, ANSWER); /* all is compiled */
    for (long n = 0;; n += 3, losses++) {
        struct dgl_generate_result r = {.size = sizeof(r)};
        gl_fail_reset();
        test_log_clear(&e.log);
        dgl_session_trim(e.session, 0);
        gl_fail.submits = n;
        enum dgl_status status =
            dgl_generate(e.session,
                         dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = ANSWER,
                                             .ignore_eos = true, .readback_interval = 1),
                         &r);
        const bool tripped = gl_fail.tripped;
        const int32_t held = dgl_session_len(e.session);
        const size_t told = r.num_tokens;
        assert_memory_equal(r.tokens ? r.tokens : greedy, greedy, told * sizeof(*greedy));
        if (tripped)
            assert_non_null(r.text); /* of the tokens so far */
        dgl_generate_result_finish(&r);
        if (!tripped) {
            assert_int_equal(status, DGL_OK);
            break;
        }
        assert_int_equal(status, DGL_ERR_DEVICE_LOST);
        assert_int_equal(e.log.errors, 1);
        rebuild(&e);
        if (dgl_session_len(e.session) != held)
            fail_msg("list %ld: the session holds %d tokens, wanted %d", n,
                     dgl_session_len(e.session), held);
        /* The logits of the last token are available: those of the token reported after it. */
        if (told > 1) {
            float *logits = tiny_logits(e.session);
            int32_t best = 0;
            for (int32_t i = 1; i < VOCAB; i++)
                best = logits[i] > logits[best] ? i : best;
            assert_int_equal(best, greedy[told - 1]);
            free(logits);
        }
        check_tokens(e.session, &(struct dgl_sampling){0}, greedy);
    }
    assert_true(losses > 3);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* Every session is restored, including its sampler's breakers, and a model that was not lost is
 * unchanged. */
static void test_sessions(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_counters before, after;
    open_engine(&e);
    struct dgl_session *other = tiny_session(&e, 2), *empty = tiny_session(&e, 0);
    check_tokens(e.session, &penalties, penalised);
    tiny_sync(other, prompt, PROMPT);
    dgl_device_get_counters(e.device, &before);
    assert_int_equal(dgl_model_rebuild(e.model, NULL), DGL_OK);
    dgl_device_get_counters(e.device, &after);
    assert_int_equal(after.upload_bytes, before.upload_bytes);
    assert_int_equal(after.dispatches, before.dispatches);

    lose(&e);
    rebuild(&e);
    assert_int_equal(dgl_session_len(e.session), PROMPT + ANSWER - 1);
    assert_int_equal(dgl_session_len(other), PROMPT);
    assert_int_equal(dgl_session_len(empty), 0);
    float *logits = tiny_logits(other);
    assert_at_most(tiny_nmse(logits, wanted_logits, VOCAB), 1e-9);
    free(logits);
    dgl_session_trim(e.session, 0);
    check_tokens(e.session, &penalties, penalised);
    check_tokens(other, &(struct dgl_sampling){0}, greedy);
    check_tokens(empty, &(struct dgl_sampling){0}, greedy);

    lose(&e); /* and again */
    rebuild(&e);
    check_tokens(other, &(struct dgl_sampling){0}, greedy);
    dgl_session_destroy(&empty);
    dgl_session_destroy(&other);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* A session whose calls are cancelled computes nothing in a rebuild either. It is empty afterwards,
 * and works once the cancellation is taken back. */
static void test_cancelled_session(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e);
    struct dgl_session *other = tiny_session(&e, 0);
    tiny_sync(e.session, prompt, PROMPT);
    tiny_sync(other, prompt, PROMPT);
    lose(&e);
    dgl_session_set_cancelled(e.session, true);
    rebuild(&e);
    assert_int_equal(dgl_session_len(e.session), 0);
    assert_int_equal(dgl_session_len(other), PROMPT);
    assert_int_equal(dgl_session_sync(e.session, prompt, PROMPT, NULL), DGL_ERR_CANCELLED);
    dgl_session_set_cancelled(e.session, false);
    check_tokens(e.session, &(struct dgl_sampling){0}, greedy);
    check_tokens(other, &(struct dgl_sampling){0}, greedy);
    dgl_session_destroy(&other);
    tiny_engine_close(&e);
}

/* The context is the device's: another model on it is lost too, until it is rebuilt or freed. */
static void test_other_models(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_model *second = NULL, *third = NULL;
    struct dgl_session *s = NULL, *unused = NULL;
    open_engine(&e);
    assert_int_equal(dgl_model_load(e.device, dgl_model_params(.path = dir), &second), DGL_OK);
    assert_int_equal(dgl_model_load(e.device, dgl_model_params(.path = dir), &third), DGL_OK);
    assert_int_equal(dgl_session_create(second, NULL, &s), DGL_OK);
    assert_int_equal(dgl_session_create(third, NULL, &unused), DGL_OK);
    tiny_sync(s, prompt, PROMPT);
    lose(&e);
    rebuild(&e);
    const struct {
        const char *what;
        enum dgl_status status;
    } refused[] = {
        {"sync", dgl_session_sync(s, prompt, PROMPT, NULL)},
        {"kernels", dgl_model_set_kernels(second, NULL)},
        {"session", dgl_session_create(second, NULL, &(struct dgl_session *){NULL})},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (refused[i].status != DGL_ERR_DEVICE_LOST)
            fail_msg("%s: %s, wanted %s", refused[i].what, dgl_status_str(refused[i].status),
                     dgl_status_str(DGL_ERR_DEVICE_LOST));
    assert_int_equal(e.log.errors, 3);
    check_tokens(e.session, &(struct dgl_sampling){0}, greedy);
    /* Freed without a rebuild: names of the new context stay whole. */
    dgl_session_destroy(&unused);
    dgl_model_destroy(&third);
    check_tokens(e.session, &(struct dgl_sampling){0}, greedy);
    assert_int_equal(dgl_model_rebuild(second, NULL), DGL_OK);
    assert_int_equal(dgl_session_len(s), PROMPT);
    check_tokens(s, &(struct dgl_sampling){0}, greedy);
    check_tokens(e.session, &(struct dgl_sampling){0}, greedy);
    dgl_session_destroy(&s);
    dgl_model_destroy(&second);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static bool stop(void *priv, const char *what, uint64_t done, uint64_t total)
{
    (void)priv;
    (void)what;
    (void)total;
    return done == 0;
}

/* For every failure during a rebuild, the next attempt restores all objects, and freeing is
 * possible in between. */
static void check_failing(long *counter, enum dgl_status want)
{
    long failed = 0;
    for (long n = 0;; n += 1 + n / 4) {
        struct tiny_engine e;
        open_engine(&e);
        struct dgl_session *other = tiny_session(&e, 2);
        tiny_sync(e.session, prompt, PROMPT);
        tiny_sync(other, prompt, PROMPT - 1);
        lose(&e);
        test_log_clear(&e.log);
        *counter = n;
        enum dgl_status status = dgl_model_rebuild(e.model, NULL);
        const bool tripped = gl_fail.tripped;
        gl_fail_reset();
        if (status != DGL_OK && (!tripped || status != want || e.log.errors != 1))
            fail_msg("call %ld: %s, wanted %s, %d errors: %s", n, dgl_status_str(status),
                     dgl_status_str(want), e.log.errors, e.log.text);
        failed += status != DGL_OK;
        assert_true(dgl_session_len(e.session) <= PROMPT && dgl_session_len(other) < PROMPT);
        if (status != DGL_OK && n % 2 == 0) {
            rebuild(&e);
            check_tokens(e.session, &(struct dgl_sampling){0}, greedy);
            check_tokens(other, &(struct dgl_sampling){0}, greedy);
        }
        dgl_session_destroy(&other);
        tiny_engine_close(&e);
        assert_int_equal(gl_fail.live_buffers, 0);
        if (!tripped)
            break;
    }
    printf("# %ld failures\n", failed);
    assert_true(failed > 1);
}

static void test_failing_buffers(void **state)
{
    (void)state;
    check_failing(&gl_fail.buffers, DGL_ERR_NO_MEMORY);
}

static void test_failing_submits(void **state)
{
    (void)state;
    check_failing(&gl_fail.submits, DGL_ERR_DEVICE_LOST);
}

static void test_cancelled(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e);
    tiny_sync(e.session, prompt, PROMPT);
    lose(&e);
    assert_int_equal(dgl_model_rebuild(e.model, dgl_rebuild_params(.progress_cb = stop)),
                     DGL_ERR_CANCELLED);
    assert_int_equal(dgl_session_sync(e.session, prompt, PROMPT, NULL), DGL_ERR_DEVICE_LOST);
    rebuild(&e);
    check_tokens(e.session, &(struct dgl_sampling){0}, greedy);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static void end_request(void *priv, const struct dgl_request_result *result)
{
    int *right = priv;
    assert_int_equal(result->status, DGL_OK);
    assert_int_equal(result->num_tokens, ANSWER);
    for (int i = 0; i < ANSWER; i++)
        if (result->tokens[i] != greedy[i])
            fail_msg("token %d is %d, wanted %d", i, result->tokens[i], greedy[i]);
    (*right)++;
}

/* A session notices that the device was lost, before or while a batch decodes two requests. The
 * batch goes on after the model was rebuilt. */
static void test_batch(void **state)
{
    (void)state;
    for (int steps = 0; steps < 12; steps++) {
        struct tiny_engine e;
        struct dgl_batch *b = NULL;
        int right = 0;
        size_t left = 1;
        open_engine(&e);
        assert_int_equal(dgl_batch_create(e.model, dgl_batch_params(.sequences = 2), &b), DGL_OK);
        struct dgl_session *other = tiny_session(&e, 0);
        tiny_sync(other, prompt, PROMPT);
        for (int i = 0; i < 2; i++)
            assert_int_equal(
                dgl_batch_submit(b,
                                 dgl_request_params(.ids = prompt, .num_ids = PROMPT,
                                                    .max_tokens = ANSWER, .ignore_eos = true,
                                                    .finish_cb = end_request, .priv = &right),
                                 NULL),
                DGL_OK);
        for (int i = 0; i < steps && left > 0; i++)
            assert_int_equal(dgl_batch_step(b, &left), DGL_OK);
        lose(&e);
        rebuild(&e);
        for (left = 1; left > 0;)
            if (dgl_batch_step(b, &left) != DGL_OK)
                fail_msg("after %d steps: %s", steps, e.log.text);
        assert_int_equal(right, 2);
        dgl_session_destroy(&other);
        dgl_batch_destroy(&b);
        tiny_engine_close(&e);
        assert_int_equal(gl_fail.live_buffers, 0);
    }
}

/* The device is lost while a batch is idle. The rebuild allocates the KV cache that the batch has
 * reserved: a session that is restored before the batch does so (`first`), or the batch itself.
 * Then it decodes two requests together, for the first time. */
static void lose_idle_batch(bool first)
{
    struct tiny_engine e;
    struct dgl_batch *b = NULL;
    struct dgl_session *other = NULL;
    int right = 0;
    size_t left = 1;
    open_engine(&e);
    dgl_session_destroy(&e.session);
    assert_int_equal(dgl_batch_create(e.model, dgl_batch_params(.sequences = 2), &b), DGL_OK);
    const uint64_t bytes = e.model->shard->kv.bytes;
    assert_true(bytes > 0);
    if (first)
        other = tiny_session(&e, 0);
    lose(&e);
    rebuild(&e);
    const uint64_t again = e.model->shard->kv.bytes;
    if (first ? again <= bytes : again != bytes)
        fail_msg("%llu bytes of KV cache after the rebuild, %llu for the batch before",
                 (unsigned long long)again, (unsigned long long)bytes);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            dgl_batch_submit(b,
                             dgl_request_params(.ids = prompt, .num_ids = PROMPT,
                                                .max_tokens = ANSWER, .ignore_eos = true,
                                                .finish_cb = end_request, .priv = &right),
                             NULL),
            DGL_OK);
    while (left > 0)
        if (dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("%s", e.log.text);
    assert_int_equal(right, 2);
    dgl_session_destroy(&other);
    dgl_batch_destroy(&b);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static void test_batch_alone(void **state)
{
    (void)state;
    lose_idle_batch(false);
}

static void test_batch_after_session(void **state)
{
    (void)state;
    lose_idle_batch(true);
}

/* The owner of the context creates another one. */
static void test_foreign_context(void **state)
{
    (void)state;
    struct tiny_engine e, own;
    open_engine(&own);
    open_engine(&e);
    /* Its context, wrapped. */
    struct dgl_device *wrapped = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *s = NULL;
    assert_int_equal(
        dgl_device_create(&e.log.log,
                          dgl_device_params(.egl_display = own.device->gl->egl.display,
                                            .egl_context = own.device->gl->egl.context),
                          &wrapped),
        DGL_OK);
    assert_int_equal(dgl_model_load(wrapped, dgl_model_params(.path = dir), &model), DGL_OK);
    assert_int_equal(dgl_session_create(model, NULL, &s), DGL_OK);
    gl_fail.submits = 0;
    assert_int_equal(dgl_session_sync(s, prompt, PROMPT, NULL), DGL_ERR_DEVICE_LOST);
    gl_fail_reset();
    test_log_clear(&e.log);
    assert_refusal(&e.log, dgl_model_rebuild(model, NULL), DGL_ERR_UNSUPPORTED,
                   ((const char *const[]){"context is the caller's", NULL}));
    dgl_session_destroy(&s);
    dgl_model_destroy(&model);
    dgl_device_destroy(&wrapped);
    check_tokens(own.session, &(struct dgl_sampling){0}, greedy);
    tiny_engine_close(&e);
    tiny_engine_close(&own);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static int group_setup(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct tiny_llama sizes = tiny_llama_default();
    dir = test_tmpdir();
    tiny_llama_write(dir, &sizes);
    tiny_ids(prompt, PROMPT, VOCAB, 3);
    open_engine(&e);
    tiny_greedy(e.session, prompt, PROMPT, greedy, ANSWER);
    struct dgl_generate_result r = tiny_generate(
        e.session, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = ANSWER,
                                       .ignore_eos = true, .sampling = penalties));
    memcpy(penalised, r.tokens, sizeof(penalised));
    dgl_generate_result_finish(&r);
    tiny_sync(e.session, prompt, PROMPT);
    wanted_logits = tiny_logits(e.session);
    tiny_engine_close(&e);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    test_tmpdir_remove(dir);
    free(wanted_logits);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_answer, gl_fail_setup),
        cmocka_unit_test_setup(test_sessions, gl_fail_setup),
        cmocka_unit_test_setup(test_cancelled_session, gl_fail_setup),
        cmocka_unit_test_setup(test_other_models, gl_fail_setup),
        cmocka_unit_test_setup(test_failing_buffers, gl_fail_setup),
        cmocka_unit_test_setup(test_failing_submits, gl_fail_setup),
        cmocka_unit_test_setup(test_cancelled, gl_fail_setup),
        cmocka_unit_test_setup(test_batch, gl_fail_setup),
        cmocka_unit_test_setup(test_batch_alone, gl_fail_setup),
        cmocka_unit_test_setup(test_batch_after_session, gl_fail_setup),
        cmocka_unit_test_setup(test_foreign_context, gl_fail_setup),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
