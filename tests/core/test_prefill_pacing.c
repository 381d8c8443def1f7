/* Delays of answers by prompts: the length of prompt passes, on a device whose speed the test sets
 * (a simulated clock; a pass ends when the batch waits for it). */
#include "tests/support/tiny_engine.h"

#include "core/seq/batch.h"

#define CONTEXT 640
#define PROMPT  500
#define MS      1000000ull

static struct tiny_engine engine;
static int32_t text[CONTEXT];

/* ---- a device -------------------------------------------------------------------------------- */

static struct {
    uint64_t pass_ns, token_ns; /* time of a pass: pass_ns plus token_ns per token */
    uint64_t clock_ns;
    int32_t queued[4], num_queued; /* tokens of passes that were not waited for */
    int32_t most_queued;
    int32_t tokens; /* of the last pass */
} gpu;

uint64_t __wrap_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void)
{
    return gpu.clock_ns += 100;
}

enum dgl_status __real_session_pass(struct dgl_session *s, int32_t tokens, uint32_t flags);
enum dgl_status __wrap_session_pass(struct dgl_session *s, int32_t tokens, uint32_t flags);
enum dgl_status __wrap_session_pass(struct dgl_session *s, int32_t tokens, uint32_t flags)
{
    assert_true(gpu.num_queued < 4);
    gpu.queued[gpu.num_queued++] = gpu.tokens = tokens;
    if (gpu.num_queued > gpu.most_queued)
        gpu.most_queued = gpu.num_queued;
    return __real_session_pass(s, tokens, flags);
}

bool __wrap_gl_mark_is_reached(struct gl_device *dev, struct gl_mark *mark);
bool __wrap_gl_mark_is_reached(struct gl_device *dev, struct gl_mark *mark)
{
    (void)dev;
    return mark->fence == NULL;
}

enum dgl_status __real_gl_mark_wait(struct gl_device *dev, struct gl_mark *mark);
enum dgl_status __wrap_gl_mark_wait(struct gl_device *dev, struct gl_mark *mark);
enum dgl_status __wrap_gl_mark_wait(struct gl_device *dev, struct gl_mark *mark)
{
    assert_true(gpu.num_queued > 0);
    gpu.clock_ns += gpu.pass_ns + gpu.token_ns * (uint64_t)gpu.queued[0];
    memmove(gpu.queued, gpu.queued + 1, sizeof(gpu.queued) - sizeof(gpu.queued[0]));
    gpu.num_queued--;
    return __real_gl_mark_wait(dev, mark);
}

/* ---- prompts beside an answer ---------------------------------------------------------------- */

struct heard {
    size_t count;
    int finished;
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct heard *h = priv;
    (void)token;
    h->count++;
    return true;
}

static void hear_end(void *priv, const struct dgl_request_result *result)
{
    struct heard *h = priv;
    assert_int_equal(result->status, DGL_OK);
    h->finished++;
}

static uint64_t submit(struct dgl_batch *b, const int32_t *ids, size_t count, int32_t max_tokens,
                       struct heard *h)
{
    uint64_t id = 0;
    *h = (struct heard){.count = 0};
    assert_int_equal(
        dgl_batch_submit(b,
                         dgl_request_params(.ids = ids, .num_ids = count, .max_tokens = max_tokens,
                                            .ignore_eos = true, .token_cb = hear_token,
                                            .finish_cb = hear_end, .priv = h),
                         &id),
        DGL_OK);
    return id;
}

struct reading {
    const char *name;
    uint64_t pass_us, token_us;
    struct dgl_batch_params params;
    int32_t want; /* tokens of a pass while an answer is in progress */
    double most_ms;
};
static const struct reading readings[] = {
    {"a token takes 1 ms", 0, 1000, {0}, 64, 64},
    {"a token takes 0.1 ms", 0, 100, {0}, 512, 52},
    {"a token takes 3 ms", 0, 3000, {0}, 32, 96},
    {"a token takes 10 ms", 0, 10000, {0}, 16, 160},
    {"a pass takes 80 ms and more", 80000, 500, {0}, 16, 88},
    {"20 ms are asked for", 0, 1000, {.hold_ms = 20}, 16, 16},
    {"300 ms are asked for", 0, 1000, {.hold_ms = 300}, 256, 256},
    {"passes of a number that is asked for", 0, 10000, {.chunk = 64}, 64, 640},
    {"the same bits in any company", 0, 10000, {.invariant = true}, 512, 5120},
};

static void test_reading(void **state)
{
    const struct reading *row = *state;
    struct dgl_batch_params params = row->params;
    struct dgl_batch *b = NULL;
    struct heard writer, reader;
    const uint64_t clock_ns = gpu.clock_ns;
    const int32_t usual = row->params.chunk ? row->params.chunk
                                            : plan_default_rows(&engine.model->shard->engine->plan);
    const int32_t want = row->want < usual ? row->want : usual;
    kv_prefix_evict_all(&engine.model->shard->kv); /* nothing of the prompts is known */
    memset(&gpu, 0, sizeof(gpu));
    gpu.clock_ns = clock_ns; /* time does not go backwards */
    gpu.pass_ns = row->pass_us * 1000;
    gpu.token_ns = row->token_us * 1000;
    params.sequences = 2;
    params.context = CONTEXT;
    assert_int_equal(dgl_batch_create(engine.model, &params, &b), DGL_OK);
    const uint64_t id = submit(b, text + 7, 20, 600, &writer);
    while (writer.count == 0)
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    submit(b, text, PROMPT, 1, &reader);
    for (int32_t left = PROMPT; left > 0; left -= gpu.tokens) {
        const uint64_t before = gpu.clock_ns;
        const size_t count = writer.count;
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
        const double ms = (double)(gpu.clock_ns - before) * 1e-6;
        const bool last = gpu.tokens == left;
        assert_int_equal(writer.finished, 0);
        assert_true(writer.count > count);
        if (gpu.tokens != want && !(gpu.tokens < want && last))
            fail_msg("%d tokens with %d left, wanted %d", gpu.tokens, left, want);
        /* The last step also waits for its own pass, because it returns that token. */
        if (ms > (last ? 2 : 1) * row->most_ms + 1)
            fail_msg("a step of %.2f ms, wanted %.2f at most", ms, row->most_ms);
    }
    dgl_batch_cancel(b, id);
    /* Alone, a prompt is evaluated in passes of full length, of which two are queued. */
    for (size_t more = 1; more > 0;)
        assert_int_equal(dgl_batch_step(b, &more), DGL_OK);
    assert_int_equal(writer.finished + reader.finished, 2);
    submit(b, text + 100, PROMPT, 1, &reader);
    for (int32_t left = PROMPT; left > 0; left -= gpu.tokens) {
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
        assert_int_equal(gpu.tokens, left < usual ? left : usual);
    }
    assert_in_range(gpu.most_queued, 1, 2);
    dgl_batch_destroy(&b);
}

static int open_engine(void **state)
{
    struct tiny_llama sizes = tiny_llama_default();
    char *dir = test_tmpdir();
    (void)state;
    sizes.context = CONTEXT;
    tiny_llama_write(dir, &sizes);
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = dir, .context = CONTEXT});
    test_tmpdir_remove(dir);
    tiny_ids(text, CONTEXT, sizes.vocab, 9);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    tiny_engine_close(&engine);
    return 0;
}

static void bad_times_are_refused(void **state)
{
    static const struct {
        int32_t hold_ms;
        const char *parts[2];
    } rows[] = {{-1, {"hold_ms", "-1"}}, {60001, {"hold_ms", "60000"}}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dgl_batch *b = NULL;
        test_log_clear(&engine.log);
        assert_refusal(
            &engine.log,
            dgl_batch_create(engine.model, dgl_batch_params(.hold_ms = rows[i].hold_ms), &b),
            DGL_ERR_INVALID_ARG, rows[i].parts);
        assert_null(b);
    }
    test_log_clear(&engine.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_times_are_refused)};
    open_engine(NULL);
    int failures = test_run_table("batch: reads", test_reading, readings);
    failures += cmocka_run_group_tests_name("batch: times", tests, NULL, NULL);
    close_engine(NULL);
    return failures;
}
