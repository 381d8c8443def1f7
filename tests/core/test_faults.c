/* Faults in the middle of calls: every allocation fails once, buffers and programs are refused, the
 * device is lost, the call is cancelled. The call logs one line and leaves no objects. Older
 * objects work as before. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

#define PROMPT 12
#define ANSWER 6
#define VOCAB  320

static char *dir;
static char *own_kernel; /* norm_rms with a remark */
static int32_t prompt[PROMPT];
static int32_t greedy[ANSWER];

#define WITH_PROMPT .ids = prompt, .num_ids = PROMPT

static void open_engine(struct tiny_engine *e)
{
    tiny_engine_open(e, &(struct tiny_engine_params){.path = dir});
    test_log_clear(&e->log);
}

/* The session still answers correctly. */
static void check_answer(struct dgl_session *s)
{
    int32_t out[ANSWER];
    gl_fail_reset();
    tiny_greedy(s, prompt, PROMPT, out, ANSWER);
    assert_memory_equal(out, greedy, sizeof(greedy));
}

/* ---- calls that are tested ----------------------------------------------------------------------
 */

/* One call of the library that may fail. It leaves no objects, with any result. */
typedef enum dgl_status (*attempt)(struct tiny_engine *e);

static enum dgl_status try_load(struct tiny_engine *e)
{
    struct dgl_model *model = NULL;
    enum dgl_status status = dgl_model_load(e->device, dgl_model_params(.path = dir), &model);
    assert_true((status == DGL_OK) == (model != NULL));
    dgl_model_destroy(&model);
    return status;
}

static enum dgl_status try_session(struct tiny_engine *e)
{
    struct dgl_session *s = NULL;
    /* A chunk that no buffer in the pool is the size for. */
    enum dgl_status status = dgl_session_create(e->model, dgl_session_params(.chunk = 50), &s);
    assert_true((status == DGL_OK) == (s != NULL));
    dgl_session_destroy(&s);
    return status;
}

static enum dgl_status try_new_session(struct tiny_engine *e)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct dgl_session *s = NULL;
    enum dgl_status status = dgl_session_create(e->model, NULL, &s);
    if (status != DGL_OK)
        return status;
    gl_fail.session = s;
    status = dgl_generate(s,
                          dgl_generate_params(WITH_PROMPT, .max_tokens = ANSWER,
                                              .readback_interval = 4, .ignore_eos = true),
                          &r);
    if (status == DGL_OK)
        assert_memory_equal(r.tokens, greedy, sizeof(greedy));
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
    return status;
}

static enum dgl_status try_generate(struct tiny_engine *e)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    enum dgl_status status = dgl_generate(
        e->session, dgl_generate_params(WITH_PROMPT, .max_tokens = ANSWER, .ignore_eos = true), &r);
    if (status == DGL_OK && r.finish == DGL_FINISH_CANCELLED)
        status = DGL_ERR_CANCELLED;
    if (status == DGL_OK)
        assert_memory_equal(r.tokens, greedy, sizeof(greedy));
    dgl_generate_result_finish(&r);
    return status;
}

static enum dgl_status try_profile(struct tiny_engine *e)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct dgl_limits *limits = &e->device->plan.limits, before = *limits;
    limits->max_buffer_bytes = 1 << 20; /* of the copy that bandwidth is measured with */
    dgl_session_trim(e->session, 0);
    enum dgl_status status = dgl_generate(
        e->session,
        dgl_generate_params(WITH_PROMPT, .max_tokens = ANSWER, .ignore_eos = true, .profile = true),
        &r);
    *limits = before;
    if (status == DGL_OK && r.finish == DGL_FINISH_CANCELLED)
        status = DGL_ERR_CANCELLED;
    if (status == DGL_OK)
        assert_memory_equal(r.tokens, greedy, sizeof(greedy));
    dgl_generate_result_finish(&r);
    return status;
}

static enum dgl_status try_sync(struct tiny_engine *e)
{
    struct dgl_session *s = NULL;
    enum dgl_status status = dgl_session_create(e->model, NULL, &s);
    gl_fail.session = s;
    if (status == DGL_OK)
        status = dgl_session_sync(s, prompt, PROMPT, NULL);
    dgl_session_destroy(&s);
    return status;
}

static enum dgl_status try_logits(struct tiny_engine *e)
{
    struct dgl_session *s = NULL;
    float *logits = NULL;
    size_t rows = 0;
    enum dgl_status status = dgl_session_create(e->model, NULL, &s);
    gl_fail.session = s;
    if (status == DGL_OK)
        status = dgl_logits(s, dgl_logits_params(WITH_PROMPT, .all = true), &logits, &rows);
    assert_true((status == DGL_OK) == (logits != NULL));
    dgl_free(logits);
    dgl_session_destroy(&s);
    return status;
}

static enum dgl_status try_embed(struct tiny_engine *e)
{
    struct dgl_session *s = NULL;
    float *embedding = NULL;
    size_t rows = 0;
    enum dgl_status status = dgl_session_create(e->model, NULL, &s);
    gl_fail.session = s;
    if (status == DGL_OK)
        status = dgl_embed(s, dgl_embed_params(WITH_PROMPT), &embedding, &rows);
    assert_true((status == DGL_OK) == (embedding != NULL));
    dgl_free(embedding);
    dgl_session_destroy(&s);
    return status;
}

/* Text in, text out: with the tokenizer. */
static enum dgl_status try_text(struct tiny_engine *e)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    enum dgl_status status = dgl_generate(
        e->session, dgl_generate_params(.prompt = "the cat", .max_tokens = 3, .ignore_eos = true),
        &r);
    if (status == DGL_OK)
        assert_int_equal(r.num_tokens, 3);
    dgl_generate_result_finish(&r);
    return status;
}

static enum dgl_status try_perplexity(struct tiny_engine *e)
{
    const char *const texts[] = {"the cat", "on the mat"};
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    enum dgl_status status =
        dgl_perplexity(e->session, dgl_perplexity_params(.texts = texts, .num_texts = 2), &r);
    if (status == DGL_OK)
        assert_int_equal(r.tokens, 5 + 8);
    return status;
}

static enum dgl_status try_bench(struct tiny_engine *e)
{
    struct dgl_bench_result r = {.size = sizeof(r)};
    struct dgl_limits *limits = &e->device->plan.limits, before = *limits;
    limits->max_buffer_bytes = 1 << 20; /* of the copy that bandwidth is measured with */
    enum dgl_status status = dgl_bench(
        e->session,
        dgl_bench_params(.prompt_tokens = 4, .decode_tokens = 2, .repetitions = 1, .profile = true),
        &r);
    dgl_bench_result_finish(&r);
    *limits = before;
    return status;
}

static enum dgl_status try_eval(struct tiny_engine *e)
{
    struct dgl_session *s = NULL;
    float logits[VOCAB];
    enum dgl_status status = dgl_session_create(e->model, NULL, &s);
    gl_fail.session = s;
    if (status == DGL_OK)
        status = dgl_session_eval(s, dgl_eval_params(WITH_PROMPT), logits, NULL);
    dgl_session_destroy(&s);
    return status;
}

/* Saves a session to a file and loads it. */
static enum dgl_status try_session_file(struct tiny_engine *e)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/session", dir);
    dgl_session_trim(e->session, 0);
    enum dgl_status status = dgl_session_sync(e->session, prompt, PROMPT, NULL);
    if (status == DGL_OK)
        status = dgl_session_save(e->session, dgl_session_save_params(.path = path));
    if (status == DGL_OK)
        status = dgl_session_load(e->session, dgl_session_load_params(.path = path), NULL, NULL);
    assert_true(status != DGL_OK || dgl_session_len(e->session) == PROMPT);
    return status;
}

static enum dgl_status try_smoke(struct tiny_engine *e)
{
    struct dgl_smoke_result r = {.size = sizeof(r)};
    enum dgl_status status = dgl_verify_smoke(e->session, NULL, &r);
    assert_true(status == DGL_OK || !r.passed);
    return status;
}

/* A kernel that is compiled and must pass its known-answer tests. */
static enum dgl_status try_kernels(struct tiny_engine *e)
{
    struct dgl_kernels *kernels = NULL;
    const char *path = own_kernel;
    enum dgl_status status = dgl_kernels_create(
        &e->log.log, dgl_kernels_params(.files = &path, .num_files = 1), &kernels);
    assert_true((status == DGL_OK) == (kernels != NULL));
    if (status == DGL_OK)
        status = dgl_model_set_kernels(e->model, kernels);
    dgl_kernels_destroy(&kernels);
    return status;
}

static enum dgl_status try_synthetic(struct tiny_engine *e)
{
    struct dgl_model *model = NULL;
    enum dgl_status status = dgl_model_load(
        e->device, dgl_model_params(.path = "synthetic:story-llama:q4_k", .context = 64), &model);
    dgl_model_destroy(&model);
    return status;
}

/* ---- allocations ----------------------------------------------------------------------------- */

struct fault {
    const char *name;
    attempt attempt;
    long step; /* the failing calls: every step-th */
};

static const struct fault faults[] = {
    {"loading a model", try_load, 1},
    {"creating a session", try_session, 1},
    {"the first answer of a session", try_new_session, 1},
    {"an answer", try_generate, 1},
    {"a profile", try_profile, 3},
    {"a sync", try_sync, 1},
    {"an answer to a text", try_text, 1},
    {"perplexity of two texts", try_perplexity, 1},
    {"logits of all positions", try_logits, 1},
    {"an embedding", try_embed, 1},
    {"a session in a file", try_session_file, 1},
    {"a measurement", try_bench, 1},
    {"other kernels for a model", try_kernels, 7},
    {"loading a synthetic model", try_synthetic, 9},
};

/* Lets call number 0, `step`, 2 * `step` ... of one kind fail until one attempt gets through. */
static void check_fault(const struct fault *row, long *counter, enum dgl_status want)
{
    struct tiny_engine e;
    open_engine(&e);
    gl_fail_reset();
    for (int i = 0; i < 2; i++) /* pool, programs and cache are warm */
        assert_int_equal(row->attempt(&e), DGL_OK);
    int64_t buffers = gl_fail.live_buffers;
    long failed = 0;
    for (long n = 0;; n += row->step) {
        gl_fail_reset();
        test_log_clear(&e.log);
        *counter = n;
        enum dgl_status status = row->attempt(&e);
        bool tripped = gl_fail.tripped;
        gl_fail_reset();
        if (!tripped) {
            assert_int_equal(status, DGL_OK);
            break;
        }
        /* Optional results may be missing: a cache file, a line of the log. */
        if (status == DGL_OK)
            continue;
        failed++;
        if (status != want || e.log.errors != 1)
            fail_msg("%s, call %ld failed: %s, %d lines: %s", row->name, n, dgl_status_str(status),
                     e.log.errors, e.log.text);
    }
    assert_true(failed > 0);
    assert_int_equal(row->attempt(&e), DGL_OK);
    printf("# %s: %ld faults\n", row->name, failed);
    assert_int_equal(gl_fail.live_buffers, buffers); /* no tokens were lost */
    check_answer(e.session);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static void test_allocation(void **state)
{
    check_fault(*state, &gl_fail.allocations, DGL_ERR_NO_MEMORY);
}

/* ---- cancellation ---------------------------------------------------------------------------- */

static const struct fault cancels[] = {
    {"an answer that is cancelled", try_generate, 1},
    {"a profile that is cancelled", try_profile, 2},
    {"a sync that is cancelled", try_sync, 1},
    {"tokens that are cancelled", try_eval, 1},
    {"logits that are cancelled", try_logits, 1},
    {"an embedding that is cancelled", try_embed, 1},
    {"perplexity that is cancelled", try_perplexity, 1},
    {"a measurement that is cancelled", try_bench, 1},
    {"a smoke test that is cancelled", try_smoke, 3},
};

/* Cancelled between two dispatches of each list of the call: the call ends there, without an error.
 */
static void test_cancel(void **state)
{
    const struct fault *row = *state;
    struct tiny_engine e;
    open_engine(&e);
    gl_fail_reset();
    for (int i = 0; i < 2; i++)
        assert_int_equal(row->attempt(&e), DGL_OK);
    int64_t buffers = gl_fail.live_buffers;
    long cancelled = 0;
    for (long n = 0;; n += row->step, cancelled++) {
        gl_fail_reset();
        test_log_clear(&e.log);
        gl_fail.session = e.session;
        gl_fail.cancels = n;
        enum dgl_status status = row->attempt(&e);
        bool tripped = gl_fail.tripped;
        gl_fail_reset();
        if (status != (tripped ? DGL_ERR_CANCELLED : DGL_OK) || e.log.errors != 0)
            fail_msg("%s, list %ld: %s, %d lines: %s", row->name, n, dgl_status_str(status),
                     e.log.errors, e.log.text);
        if (!tripped)
            break;
    }
    assert_true(cancelled > 0);
    printf("# %s: in %ld places\n", row->name, cancelled);
    assert_int_equal(gl_fail.live_buffers, buffers);
    check_answer(e.session);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static void test_open_device(void **state)
{
    (void)state;
    gl_fail_reset();
    for (long n = 0;; n++) {
        struct dgl_device *dev = NULL;
        gl_fail.allocations = n;
        enum dgl_status status = dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev);
        bool tripped = gl_fail.tripped;
        gl_fail_reset();
        assert_true((status == DGL_OK) == (dev != NULL));
        if (status != DGL_OK && status != DGL_ERR_NO_MEMORY && status != DGL_ERR_NO_DEVICE)
            fail_msg("allocation %ld failed: %s", n, dgl_status_str(status));
        dgl_device_destroy(&dev);
        if (!tripped)
            break;
    }
}

/* ---- buffers and programs -------------------------------------------------------------------- */

/* The pool is emptied first: every buffer must be created. */
static const struct fault buffer_faults[] = {
    {"loading a model without buffers", try_load, 1},
    {"loading a synthetic model without buffers", try_synthetic, 1},
    {"a measurement without buffers", try_bench, 1},
};

static void test_buffer(void **state)
{
    check_fault(*state, &gl_fail.buffers, DGL_ERR_NO_MEMORY);
}

static void test_session_buffers(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e);
    for (long n = 0;; n++) {
        struct dgl_session *s = NULL;
        gl_fail_reset();
        test_log_clear(&e.log);
        gl_fail.buffers = n;
        /* Each attempt has another chunk, for which the pool has no buffers. */
        enum dgl_status status =
            dgl_session_create(e.model, dgl_session_params(.chunk = 1 + (int32_t)n * 2), &s);
        bool tripped = gl_fail.tripped;
        gl_fail_reset();
        dgl_session_destroy(&s);
        if (!tripped) {
            assert_int_equal(status, DGL_OK);
            break;
        }
        assert_int_equal(status, DGL_ERR_NO_MEMORY);
        assert_int_equal(e.log.errors, 1);
    }
    check_answer(e.session);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* A session with longer passes than the others replaces the workspace's buffers. If a new buffer
 * cannot be allocated, the other sessions continue. */
static void test_workspace_that_cannot_grow(void **state)
{
    (void)state;
    struct tiny_engine e;
    long failed = 0;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .chunk = 2});
    check_answer(e.session);
    for (long n = 0;; n++, failed++) {
        struct dgl_session *s = NULL;
        gl_fail_reset();
        gl_fail.buffers = n;
        enum dgl_status status =
            dgl_session_create(e.model, dgl_session_params(.chunk = 64 + (int32_t)n), &s);
        bool tripped = gl_fail.tripped;
        gl_fail_reset();
        dgl_session_destroy(&s);
        check_answer(e.session);
        if (!tripped) {
            assert_int_equal(status, DGL_OK);
            break;
        }
        assert_int_equal(status, DGL_ERR_NO_MEMORY);
    }
    assert_true(failed > 3);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static const struct fault program_faults[] = {
    {"the first answer with a program that does not compile", try_new_session, 1},
    {"logits with a program that does not compile", try_logits, 1},
    {"a measurement with a program that does not compile", try_bench, 1},
    {"a synthetic model with a program that does not compile", try_synthetic, 1},
};

/* The model keeps its programs, so each attempt uses a model without programs. */
static void test_program(void **state)
{
    const struct fault *row = *state;
    long failed = 0;
    for (long n = 0; n < 40; n++) {
        struct tiny_engine e;
        gl_fail_reset();
        open_engine(&e);
        gl_fail.programs = n;
        enum dgl_status status = row->attempt(&e);
        bool tripped = gl_fail.tripped;
        gl_fail_reset();
        if (tripped) {
            failed++;
            assert_int_equal(status, DGL_ERR_KERNEL);
            assert_int_equal(e.log.errors, 1);
            assert_int_equal(row->attempt(&e), DGL_OK); /* the fault was not remembered */
            check_answer(e.session);
        }
        tiny_engine_close(&e);
        assert_int_equal(gl_fail.live_buffers, 0);
        if (!tripped)
            break;
    }
    assert_true(failed > 0);
}

static void test_swap_with_a_program_that_does_not_compile(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e);
    check_answer(e.session);
    uint32_t serial = e.model->shard->engine_serial;
    gl_fail.programs = 0;
    assert_int_equal(try_kernels(&e), DGL_ERR_KERNEL);
    assert_int_equal(e.log.errors, 1);
    assert_int_equal(e.model->shard->engine_serial, serial);
    check_answer(e.session);
    tiny_engine_close(&e);
}

/* ---- a device that is lost ------------------------------------------------------------------- */

/* Every call on a lost device fails at once, with one line. */
static void check_lost(struct tiny_engine *e)
{
    struct dgl_session *s = NULL;
    struct dgl_model *model = NULL;
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct dgl_perplexity_result ppl = {.size = sizeof(ppl)};
    struct dgl_bench_result bench = {.size = sizeof(bench)};
    float *logits = NULL;
    size_t rows = 0;
    gl_fail_reset();
    assert_true(dgl_device_is_lost(e->device));
#define LOST(call)                                                                                 \
    test_log_clear(&e->log);                                                                       \
    assert_int_equal((call), DGL_ERR_DEVICE_LOST);                                                 \
    assert_int_equal(e->log.errors, 1)
    LOST(dgl_session_create(e->model, NULL, &s));
    assert_null(s);
    LOST(dgl_model_load(e->device, dgl_model_params(.path = dir), &model));
    assert_null(model);
    LOST(dgl_session_sync(e->session, prompt, PROMPT, NULL));
    LOST(dgl_generate(e->session, dgl_generate_params(WITH_PROMPT, .max_tokens = 2), &r));
    dgl_generate_result_finish(&r);
    LOST(dgl_logits(e->session, dgl_logits_params(WITH_PROMPT), &logits, &rows));
    LOST(dgl_session_eval(e->session, dgl_eval_params(WITH_PROMPT), NULL, NULL));
    LOST(dgl_embed(e->session, dgl_embed_params(WITH_PROMPT), &logits, &rows));
    LOST(dgl_perplexity(e->session, NULL, &ppl));
    LOST(dgl_bench(e->session, NULL, &bench));
    dgl_bench_result_finish(&bench);
    LOST(dgl_model_set_kernels(e->model, NULL));
#undef LOST
}

static void test_lost_during_prompt(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e);
    gl_fail.submits = 0;
    assert_int_equal(dgl_session_sync(e.session, prompt, PROMPT, NULL), DGL_ERR_DEVICE_LOST);
    assert_int_equal(e.log.errors, 1);
    check_lost(&e);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
    open_engine(&e); /* a new device works */
    check_answer(e.session);
    tiny_engine_close(&e);
}

static void test_lost_while_decoding(void **state)
{
    (void)state;
    for (long n = 1; n < 8; n += 2) {
        struct tiny_engine e;
        struct dgl_generate_result r = {.size = sizeof(r)};
        open_engine(&e);
        /* Hardware queues a token before it reads the one before. */
        const bool software = dgl_device_get_info(e.device)->software;
        const long unread = !software && n > 3;
        /* The prompt (token by token if short prompts use decode), the head, sampling, then tokens.
         */
        gl_fail.submits = n + (software ? PROMPT - 1 : 0);
        assert_int_equal(
            dgl_generate(e.session,
                         dgl_generate_params(WITH_PROMPT, .max_tokens = 20, .ignore_eos = true,
                                             .readback_interval = 1),
                         &r),
            DGL_ERR_DEVICE_LOST);
        /* the tokens that were read back are reported */
        assert_int_equal(r.num_tokens, n > 2 ? n - 2 - unread : 0);
        if (n > 2)
            assert_memory_equal(r.tokens, greedy, r.num_tokens * sizeof(*greedy));
        dgl_generate_result_finish(&r);
        check_lost(&e);
        tiny_engine_close(&e);
        assert_int_equal(gl_fail.live_buffers, 0);
    }
}

static void test_readback_that_fails(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e);
    for (long n = 0; n < 4; n++) {
        struct dgl_generate_result r = {.size = sizeof(r)};
        gl_fail_reset();
        test_log_clear(&e.log);
        gl_fail.readbacks = n;
        assert_int_equal(
            dgl_generate(e.session,
                         dgl_generate_params(WITH_PROMPT, .max_tokens = ANSWER, .ignore_eos = true,
                                             .readback_interval = 1),
                         &r),
            DGL_ERR_GPU);
        assert_int_equal(e.log.errors, 1);
        assert_int_equal(r.num_tokens, n);
        dgl_generate_result_finish(&r);
        assert_false(dgl_device_is_lost(e.device));
        check_answer(e.session); /* the session contains the tokens that it reports */
    }
    tiny_engine_close(&e);
}

static void write_kernel(void)
{
    static const char remark[] = "// Another summary.\n";
    struct dgl_kernels *builtin = NULL;
    struct dgl_buf text = {0};
    assert_int_equal(dgl_kernels_create(NULL, NULL, &builtin), DGL_OK);
    dgl_buf_puts(&text, remark);
    dgl_buf_puts(&text, dgl_kernels_source(builtin, "norm_rms", NULL));
    test_write_file(dir, "norm_rms.comp", text.p, text.len);
    own_kernel = dgl_path_join(dir, "norm_rms.comp");
    dgl_buf_finish(&text);
    dgl_kernels_destroy(&builtin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_open_device, gl_fail_setup),
        cmocka_unit_test_setup(test_session_buffers, gl_fail_setup),
        cmocka_unit_test_setup(test_workspace_that_cannot_grow, gl_fail_setup),
        cmocka_unit_test_setup(test_swap_with_a_program_that_does_not_compile, gl_fail_setup),
        cmocka_unit_test_setup(test_lost_during_prompt, gl_fail_setup),
        cmocka_unit_test_setup(test_lost_while_decoding, gl_fail_setup),
        cmocka_unit_test_setup(test_readback_that_fails, gl_fail_setup),
    };
    struct tiny_llama sizes = tiny_llama_default();
    struct tiny_engine e;
    dir = test_tmpdir();
    tiny_llama_write(dir, &sizes);
    tiny_tokenizer_write(dir);
    tiny_ids(prompt, PROMPT, VOCAB, 21);
    write_kernel();
    open_engine(&e);
    tiny_greedy(e.session, prompt, PROMPT, greedy, ANSWER);
    tiny_engine_close(&e);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("allocations", test_allocation, faults);
    failures += test_run_table("buffers", test_buffer, buffer_faults);
    failures += test_run_table("programs", test_program, program_faults);
    failures += test_run_table("cancellation", test_cancel, cancels);
    free(own_kernel);
    test_tmpdir_remove(dir);
    return failures;
}
