/* Device memory of a model and its sessions: the estimate, refusals, lowered values, and weights
 * larger than one binding. Limits are faked at link time. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

#define PROMPT 12
#define ANSWER 16

/* The tiny model has 2 layers of 2 KV heads of 16, keys and values, in f16. */
#define KV_TOKEN 256
#define KV_PAGE  ((int64_t)DGL_KV_PAGE * KV_TOKEN)

/* The model folder that all cases load. */
static char *dir;
static int32_t prompt[PROMPT];

/* A device alone; its log in `log`. */
static struct dgl_device *open_device(struct test_log *log)
{
    struct dgl_device *dev = NULL;
    test_log_init(log, DGL_LOG_INFO);
    assert_int_equal(dgl_device_create(&log->log, dgl_device_params(.select = "any"), &dev),
                     DGL_OK);
    test_log_clear(log);
    return dev;
}

/* The estimate for a session with the default context and chunk, if there is enough memory. */
static struct dgl_memory plenty(void)
{
    struct tiny_engine e;
    struct dgl_memory mem = {.size = sizeof(mem)};
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    dgl_session_estimate(e.model, NULL, &mem);
    tiny_engine_close(&e);
    return mem;
}

/* ---- the estimate ---------------------------------------------------------------------------- */

static void test_estimate_of_default(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_memory mem = {.size = sizeof(mem)};
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    dgl_session_estimate(e.model, NULL, &mem);
    assert_int_equal(mem.context, 128);
    assert_int_equal(mem.context_fit, 128);
    assert_int_equal(mem.kv_bytes, 128 * KV_TOKEN);
    assert_int_equal(mem.weight_bytes, dgl_model_get_info(e.model)->weight_bytes);
    assert_int_equal(mem.weight_bytes, e.model->shard->engine->weights.bytes);
    tiny_engine_close(&e);
}

static void test_estimate_scales_with_context(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_memory mem = {.size = sizeof(mem)};
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    dgl_session_estimate(e.model, dgl_session_params(.context = 50), &mem);
    assert_int_equal(mem.context, 50);
    assert_int_equal(mem.context_fit, 50);
    assert_int_equal(mem.kv_bytes, KV_PAGE); /* as many as a page holds */
    tiny_engine_close(&e);
}

static void test_estimate_of_f32_cache(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_memory mem = {.size = sizeof(mem)};
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .kv_type = DGL_KV_F32});
    dgl_session_estimate(e.model, NULL, &mem);
    assert_int_equal(mem.kv_bytes, 2 * 128 * KV_TOKEN);
    tiny_engine_close(&e);
}

/* A pass is never longer than the context. */
static void test_chunk_beyond_the_context_costs_nothing(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_memory whole = {0}, beyond = {0};
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    dgl_session_estimate(e.model, dgl_session_params(.chunk = 128), &whole);
    dgl_session_estimate(e.model, dgl_session_params(.chunk = 512), &beyond);
    assert_int_equal(whole.scratch_bytes, beyond.scratch_bytes);
    tiny_engine_close(&e);
}

static void test_chunk_counts(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_memory small = {0}, large = {0};
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    dgl_session_estimate(e.model, dgl_session_params(.chunk = 8), &small);
    dgl_session_estimate(e.model, dgl_session_params(.chunk = 16), &large);
    assert_true(large.scratch_bytes > small.scratch_bytes);
    assert_int_equal(large.kv_bytes, small.kv_bytes);
    tiny_engine_close(&e);
}

/* Weights as estimated, cache and scratch as estimated: to the byte. */
static void test_estimate_is_what_is_allocated(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    struct dgl_memory mem = {.size = sizeof(mem)};
    struct dgl_device *dev = open_device(&log);
    int64_t before = gl_fail.live_bytes;
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = dir), &model), DGL_OK);
    dgl_session_estimate(model, dgl_session_params(.chunk = 32), &mem);
    assert_int_equal(gl_fail.live_bytes - before, (int64_t)mem.weight_bytes);
    before = gl_fail.live_bytes;
    assert_int_equal(dgl_session_create(model, dgl_session_params(.chunk = 32), &session), DGL_OK);
    assert_int_equal(gl_fail.live_bytes - before, (int64_t)(mem.kv_bytes + mem.scratch_bytes));
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* The cache has pages for the contexts of the sessions, for any context of the model. */
static void test_cache_follows_the_sessions(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_session *s = NULL;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    assert_int_equal(e.model->shard->kv.bytes, 2 * KV_PAGE);
    int64_t before = gl_fail.live_bytes;
    assert_int_equal(dgl_session_create(e.model, dgl_session_params(.context = 50), &s), DGL_OK);
    assert_int_equal(e.model->shard->kv.bytes, 3 * KV_PAGE);
    uint64_t adjust = 4ull * oplist_adjust_words((uint32_t)e.model->info.vocab);
    assert_int_equal(gl_fail.live_bytes - before, KV_PAGE + (int64_t)s->state.memory.arena.bytes);
    assert_true(s->state.memory.arena.bytes < 81920 + adjust);
    dgl_session_destroy(&s);
    dgl_session_destroy(&e.session);
    assert_int_equal(e.model->shard->kv.bytes, 0);
    tiny_engine_close(&e);
}

static void test_available_shrinks(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_memory before = {0}, after = {0};
    gl_fail.memory_free_bytes = 1 << 30;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    dgl_session_estimate(e.model, NULL, &before);
    struct dgl_session *second = tiny_session(&e, 0);
    dgl_session_estimate(e.model, NULL, &after);
    /* The workspace is shared: another session only needs its cache and its state. */
    uint64_t own = 2 * KV_PAGE + second->state.memory.arena.bytes;
    assert_int_equal(before.available_bytes - after.available_bytes, own);
    dgl_session_destroy(&second);
    dgl_session_destroy(&e.session);
    dgl_session_estimate(e.model, NULL, &after);
    assert_int_equal(after.available_bytes, 1 << 30);
    tiny_engine_close(&e);
}

static void test_unknown_memory_refuses_nothing(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_memory mem = {.size = sizeof(mem)};
    gl_fail.memory_unknown = true;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    dgl_session_estimate(e.model, NULL, &mem);
    assert_int_equal(mem.available_bytes, 0);
    assert_int_equal(mem.context_fit, 128);
    tiny_engine_close(&e);
}

/* ---- too much -------------------------------------------------------------------------------- */

static uint64_t room_for(int32_t tokens)
{
    struct dgl_memory mem = plenty();
    return mem.weight_bytes + mem.scratch_bytes + (uint64_t)tokens * KV_TOKEN;
}

static void test_default_context_is_lowered(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    int32_t out[4];
    uint64_t room = room_for(100);
    gl_fail.memory_free_bytes = room;
    struct dgl_device *dev = open_device(&log);
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = dir), &model), DGL_OK);
    int32_t context = dgl_model_get_info(model)->context;
    assert_int_equal(context, 64);
    assert_contains(log.text, "lowered from 128 to");
    assert_int_equal(dgl_session_create(model, NULL, &session), DGL_OK);
    tiny_greedy(session, prompt, PROMPT, out, 4);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
}

struct refusal {
    const char *name;
    uint64_t tokens; /* that fit beside weights and scratch; UINT64_MAX: half of the weights fit */
    int32_t context; /* asked for */
    enum dgl_status status;
    const char *words[6];
};

static const struct refusal refusals[] = {
    {"an explicit context that does not fit",
     100,
     128,
     DGL_ERR_NO_MEMORY,
     {"weights ", "KV cache 32 KiB for 128", "scratch ", "available ", "-c 64"}},
    {"the default when not even one page fits",
     0,
     0,
     DGL_ERR_NO_MEMORY,
     {"weights ", "KV cache ", "scratch ", "available ", "no context fits"}},
    {"weights that do not fit", UINT64_MAX, 0, DGL_ERR_NO_MEMORY, {"weights ", "available "}},
    {"a context beyond the model's", 1000, 129, DGL_ERR_INVALID_ARG, {"129", "128"}},
    {"a negative context", 1000, -1, DGL_ERR_INVALID_ARG, {"-1"}},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct test_log log;
    struct dgl_model *model = NULL;
    struct dgl_memory mem = plenty();
    uint64_t room = mem.weight_bytes / 2;
    if (row->tokens != UINT64_MAX) /* 0: a little less than needed without any */
        room = mem.weight_bytes + mem.scratch_bytes + row->tokens * KV_TOKEN;
    if (row->tokens == 0)
        room -= 4096;
    gl_fail_reset();
    gl_fail.memory_free_bytes = room;
    struct dgl_device *dev = open_device(&log);
    int64_t before = gl_fail.live_buffers;
    assert_int_equal(
        dgl_model_load(dev, dgl_model_params(.path = dir, .context = row->context), &model),
        row->status);
    assert_null(model);
    assert_int_equal(log.errors, 1);
    for (size_t i = 0; i < 6 && row->words[i]; i++)
        assert_contains(log.text, row->words[i]);
    assert_int_equal(gl_fail.live_buffers, before); /* refused before anything was allocated */
    dgl_device_destroy(&dev);
    gl_fail_reset();
}

static void test_second_session_that_does_not_fit(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_session *second = NULL;
    gl_fail.memory_free_bytes = room_for(128) + 1000;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    int64_t before = gl_fail.live_buffers;
    test_log_clear(&e.log);
    assert_int_equal(dgl_session_create(e.model, NULL, &second), DGL_ERR_NO_MEMORY);
    assert_null(second);
    assert_int_equal(e.log.errors, 1);
    assert_contains(e.log.text, "available");
    assert_int_equal(gl_fail.live_buffers, before);
    dgl_session_destroy(&e.session);
    assert_int_equal(dgl_session_create(e.model, NULL, &second), DGL_OK);
    dgl_session_destroy(&second);
    tiny_engine_close(&e);
}

static void test_context_is_limited_by_a_binding(void **state)
{
    (void)state;
    struct tiny_engine e;
    gl_fail.max_ssbo_bytes = 8192; /* 64 tokens of one layer */
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    assert_int_equal(dgl_model_get_info(e.model)->context, 64);
    dgl_session_destroy(&e.session);
    dgl_model_destroy(&e.model);
    test_log_clear(&e.log);
    assert_int_equal(
        dgl_model_load(e.device, dgl_model_params(.path = dir, .context = 65), &e.model),
        DGL_ERR_NO_MEMORY);
    assert_contains(e.log.text, "per layer's cache 8 KiB");
    assert_contains(e.log.text, "-c 64");
    tiny_engine_close(&e);
}

static void test_row_beyond_a_binding(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_model *model = NULL;
    gl_fail.max_ssbo_bytes = 128;
    struct dgl_device *dev = open_device(&log);
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = dir), &model),
                     DGL_ERR_UNSUPPORTED);
    assert_null(model);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, "128 bytes");
    dgl_device_destroy(&dev);
}

/* ---- bands ----------------------------------------------------------------------------------- */

struct banding {
    const char *name;
    enum dgl_dtype dtype;
    bool tied;
    uint64_t max_ssbo, max_buffer; /* 0 = the device's */
    uint32_t embed_bands;          /* expected */
};

static const struct banding bandings[] = {
    {"bf16 in bands of 256 rows", DGL_BF16, true, 32768, 0, 2},
    {"bf16 in bands of 64 rows", DGL_BF16, true, 8192, 0, 5},
    {"bf16 in bands of 32 rows", DGL_BF16, true, 4096, 0, 10},
    {"f32 in bands of 32 rows, head of its own", DGL_F32, false, 8192, 0, 10},
    {"f16 in bands of 43 rows", DGL_F16, true, 5504, 0, 8},
    {"buffers of 48 KiB", DGL_BF16, true, 0, 49152, 1},
    {"buffers smaller than a matrix", DGL_BF16, true, 0, 24576, 2},
    {"bands and small buffers", DGL_F32, true, 8192, 16384, 10},
};

/* Logits and answer of a model under the limits in force. */
static void answer(const char *path, int32_t out[ANSWER], float **logits, uint32_t *embed_bands)
{
    struct tiny_engine e;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = path, .context = 30});
    *embed_bands = e.model->shard->engine->weights.embed.num_bands;
    tiny_sync(e.session, prompt, PROMPT);
    *logits = tiny_logits(e.session);
    tiny_greedy(e.session, prompt, PROMPT, out, ANSWER);
    tiny_engine_close(&e);
}

static void test_bands(void **state)
{
    const struct banding *row = *state;
    struct tiny_llama sizes = tiny_llama_default();
    char *path = test_tmpdir();
    int32_t want[ANSWER], got[ANSWER];
    float *want_logits, *got_logits;
    uint32_t bands;
    sizes.dtype = row->dtype;
    sizes.tied = row->tied;
    sizes.kv_heads = 1; /* pages of 4 KiB */
    tiny_llama_write(path, &sizes);
    gl_fail_reset();
    answer(path, want, &want_logits, &bands);
    assert_int_equal(bands, 1);
    gl_fail.max_ssbo_bytes = row->max_ssbo;
    gl_fail.max_buffer_bytes = row->max_buffer;
    answer(path, got, &got_logits, &bands);
    gl_fail_reset();
    assert_int_equal(bands, row->embed_bands);
    assert_at_most(tiny_nmse(got_logits, want_logits, 320), 1e-12);
    assert_memory_equal(got, want, sizeof(want));
    free(want_logits);
    free(got_logits);
    test_tmpdir_remove(path);
}

static void test_chunk_fits_a_binding(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_session *s = NULL;
    gl_fail.max_ssbo_bytes = 16384; /* 32 rows of qkv */
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    assert_int_equal(e.session->state.ubatch, 32);
    test_log_clear(&e.log);
    assert_int_equal(dgl_session_create(e.model, dgl_session_params(.chunk = 33), &s),
                     DGL_ERR_INVALID_ARG);
    assert_contains(e.log.text, "33");
    assert_contains(e.log.text, "1 to 32");
    tiny_engine_close(&e);
}

/* ---- progress -------------------------------------------------------------------------------- */

struct heard {
    uint64_t last, total;
    int calls, cancel_at;
};

static bool hear(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct heard *h = priv;
    assert_string_equal(what, "bytes");
    assert_true(done >= h->last && done <= total);
    h->last = done;
    h->total = total;
    return ++h->calls != h->cancel_at;
}

static void test_progress_reaches_its_total(void **state)
{
    (void)state;
    struct test_log log;
    struct heard h = {0};
    struct dgl_model *model = NULL;
    struct dgl_device *dev = open_device(&log);
    assert_int_equal(
        dgl_model_load(dev, dgl_model_params(.path = dir, .progress_cb = hear, .progress_priv = &h),
                       &model),
        DGL_OK);
    assert_true(h.calls > 10);
    assert_int_equal(h.last, h.total);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
}

static void test_progress_cancels(void **state)
{
    (void)state;
    for (int at = 1; at < 12; at += 5) {
        struct test_log log;
        struct heard h = {.cancel_at = at};
        struct dgl_model *model = NULL;
        struct dgl_device *dev = open_device(&log);
        assert_int_equal(
            dgl_model_load(dev,
                           dgl_model_params(.path = dir, .progress_cb = hear, .progress_priv = &h),
                           &model),
            DGL_ERR_CANCELLED);
        assert_null(model);
        assert_int_equal(h.calls, at);
        assert_int_equal(gl_fail.live_buffers, 0);
        dgl_device_destroy(&dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_estimate_of_default, gl_fail_setup),
        cmocka_unit_test_setup(test_estimate_scales_with_context, gl_fail_setup),
        cmocka_unit_test_setup(test_estimate_of_f32_cache, gl_fail_setup),
        cmocka_unit_test_setup(test_chunk_counts, gl_fail_setup),
        cmocka_unit_test_setup(test_chunk_beyond_the_context_costs_nothing, gl_fail_setup),
        cmocka_unit_test_setup(test_estimate_is_what_is_allocated, gl_fail_setup),
        cmocka_unit_test_setup(test_cache_follows_the_sessions, gl_fail_setup),
        cmocka_unit_test_setup(test_available_shrinks, gl_fail_setup),
        cmocka_unit_test_setup(test_unknown_memory_refuses_nothing, gl_fail_setup),
        cmocka_unit_test_setup(test_default_context_is_lowered, gl_fail_setup),
        cmocka_unit_test_setup(test_second_session_that_does_not_fit, gl_fail_setup),
        cmocka_unit_test_setup(test_context_is_limited_by_a_binding, gl_fail_setup),
        cmocka_unit_test_setup(test_row_beyond_a_binding, gl_fail_setup),
        cmocka_unit_test_setup(test_chunk_fits_a_binding, gl_fail_setup),
        cmocka_unit_test_setup(test_progress_reaches_its_total, gl_fail_setup),
        cmocka_unit_test_setup(test_progress_cancels, gl_fail_setup),
    };
    struct tiny_llama sizes = tiny_llama_default();
    dir = test_tmpdir();
    tiny_llama_write(dir, &sizes);
    tiny_ids(prompt, PROMPT, 320, 21);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("refusal", test_refusal, refusals);
    failures += test_run_table("bands", test_bands, bandings);
    test_tmpdir_remove(dir);
    return failures;
}
