/* Rules of the public header for all calls: the caller's EGL context, empty parameters, NULL logs,
 * NULL handles, one line per error. */
#include "tests/support/foreign.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "gl/gl_internal.h"
#include "tests/support/tiny_engine.h"

static struct tiny_engine engine;
static int32_t prompt[8];

/* ---- the caller's context -------------------------------------------------------------------- */

/* A call whose effect on the current context is tested; its result does not matter here. */
struct call {
    const char *name;
    void (*fn)(void);
};

static void call_device(void)
{
    struct dgl_device *dev = NULL;
    assert_int_equal(dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev), DGL_OK);
    dgl_device_destroy(&dev);
}

static void call_no_device(void)
{
    struct dgl_device *dev = NULL;
    assert_int_not_equal(dgl_device_create(NULL, dgl_device_params(.select = "nonsense"), &dev),
                         DGL_OK);
}

static bool ignore_row(void *priv, const struct dgl_device_info *info)
{
    (void)info;
    ++*(int *)priv;
    return true;
}

static void call_iterate(void)
{
    int rows = 0;
    assert_int_equal(dgl_device_iterate(NULL, ignore_row, &rows), DGL_OK);
    assert_true(rows > 0);
}

static void call_model(void)
{
    struct dgl_model *model = NULL;
    assert_int_equal(dgl_model_load(engine.device, dgl_model_params(.path = engine.path), &model),
                     DGL_OK);
    dgl_model_destroy(&model);
}

static void call_missing_model(void)
{
    struct dgl_model *model = NULL;
    assert_int_not_equal(
        dgl_model_load(engine.device, dgl_model_params(.path = "/nowhere/model"), &model), DGL_OK);
}

static void call_large_context(void)
{
    struct dgl_model *model = NULL;
    assert_int_not_equal(dgl_model_load(engine.device,
                                        dgl_model_params(.path = engine.path, .context = 5000),
                                        &model),
                         DGL_OK);
}

static void call_session(void)
{
    struct dgl_session *s = tiny_session(&engine, 0);
    dgl_session_destroy(&s);
}

static void call_bad_session(void)
{
    struct dgl_session *s = NULL;
    assert_int_not_equal(dgl_session_create(engine.model, dgl_session_params(.context = 9999), &s),
                         DGL_OK);
}

static void call_sync(void)
{
    dgl_session_trim(engine.session, 0);
    tiny_sync(engine.session, prompt, 8);
}

static void call_bad_sync(void)
{
    assert_int_not_equal(dgl_session_sync(engine.session, prompt, 0, NULL), DGL_OK);
}

static void call_generate(void)
{
    int32_t out[3];
    tiny_greedy(engine.session, prompt, 8, out, 3);
}

static void call_bad_generate(void)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    assert_int_not_equal(dgl_generate(engine.session, NULL, &r), DGL_OK);
    dgl_generate_result_finish(&r);
}

static void call_logits(void)
{
    float *logits = NULL;
    size_t rows = 0;
    assert_int_equal(dgl_logits(engine.session,
                                dgl_logits_params(.ids = prompt, .num_ids = 8, .all = true),
                                &logits, &rows),
                     DGL_OK);
    dgl_free(logits);
}

static void call_bad_logits(void)
{
    float *logits = NULL;
    size_t rows = 0;
    assert_int_not_equal(dgl_logits(engine.session, NULL, &logits, &rows), DGL_OK);
}

static void call_eval(void)
{
    float *logits = malloc((size_t)dgl_model_get_info(engine.model)->vocab * sizeof(float));
    assert_int_equal(dgl_session_eval(engine.session, dgl_eval_params(.ids = prompt, .num_ids = 8),
                                      logits, NULL),
                     DGL_OK);
    free(logits);
}

static void call_bad_eval(void)
{
    dgl_session_trim(engine.session, 0);
    assert_int_not_equal(dgl_session_eval(engine.session, NULL, NULL, NULL), DGL_OK);
}

static void call_embed(void)
{
    float *embedding = NULL;
    size_t rows = 0;
    assert_int_equal(
        dgl_embed(engine.session, dgl_embed_params(.ids = prompt, .num_ids = 8), &embedding, &rows),
        DGL_OK);
    dgl_free(embedding);
}

static void call_bad_perplexity(void)
{
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    assert_int_not_equal(dgl_perplexity(engine.session, NULL, &r), DGL_OK);
}

static void call_bad_bench(void)
{
    struct dgl_bench_result r = {.size = sizeof(r)};
    assert_int_not_equal(dgl_bench(engine.session, dgl_bench_params(.depth = -1), &r), DGL_OK);
    dgl_bench_result_finish(&r);
}

static void call_kernels(void)
{
    assert_int_equal(dgl_model_set_kernels(engine.model, NULL), DGL_OK);
}

static void call_bad_kernels(void)
{
    struct dgl_kernels *k = NULL;
    const char *hint = "matmul=nonsense";
    assert_int_not_equal(
        dgl_kernels_create(NULL, dgl_kernels_params(.flags = &hint, .num_flags = 1), &k), DGL_OK);
}

static void call_questions(void)
{
    struct dgl_counters c;
    struct dgl_memory mem = {.size = sizeof(mem)};
    dgl_device_get_counters(engine.device, &c);
    dgl_session_estimate(engine.model, NULL, &mem);
    dgl_session_trim(engine.session, 0);
    assert_non_null(dgl_device_get_info(engine.device));
    assert_non_null(dgl_device_get_limits(engine.device));
    assert_false(dgl_device_is_lost(engine.device));
}

static const struct call calls[] = {
    {"opening a device", call_device},
    {"a device that is not there", call_no_device},
    {"listing devices", call_iterate},
    {"loading a model", call_model},
    {"a model that is not there", call_missing_model},
    {"a model with too large a context", call_large_context},
    {"a session", call_session},
    {"a refused session", call_bad_session},
    {"a sync", call_sync},
    {"a refused sync", call_bad_sync},
    {"an answer", call_generate},
    {"a refused answer", call_bad_generate},
    {"logits", call_logits},
    {"refused logits", call_bad_logits},
    {"tokens of one's own", call_eval},
    {"refused tokens of one's own", call_bad_eval},
    {"an embedding", call_embed},
    {"refused perplexity", call_bad_perplexity},
    {"a refused measurement", call_bad_bench},
    {"other kernels", call_kernels},
    {"refused kernels", call_bad_kernels},
    {"questions", call_questions},
};

static void test_no_context_stays_none(void **state)
{
    const struct call *row = *state;
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
    row->fn();
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
}

static void test_foreign_context_stays(void **state)
{
    const struct call *row = *state;
    struct gl_egl foreign = foreign_open();
    GLint program = -1;
    row->fn();
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    assert_ptr_equal(eglGetCurrentDisplay(), foreign.display);
    glGetIntegerv(GL_CURRENT_PROGRAM, &program);
    assert_int_equal(program, 0); /* nor was anything left in it */
    assert_int_equal(glGetError(), GL_NO_ERROR);
    gl_egl_close(&foreign);
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
}

/* The whole life of an engine inside somebody else's context. */
static void test_wrapped_context(void **state)
{
    (void)state;
    struct gl_egl foreign = foreign_open();
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *s = NULL;
    int32_t want[4], got[4];
    tiny_greedy(engine.session, prompt, 8, want, 4);
    assert_int_equal(dgl_device_create(NULL,
                                       dgl_device_params(.egl_display = foreign.display,
                                                         .egl_context = foreign.context),
                                       &dev),
                     DGL_OK);
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = engine.path), &model), DGL_OK);
    assert_int_equal(dgl_session_create(model, NULL, &s), DGL_OK);
    tiny_greedy(s, prompt, 8, got, 4);
    assert_memory_equal(got, want, sizeof(want));
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    dgl_session_destroy(&s);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    assert_non_null(glGetString(GL_VERSION)); /* it still works */
    gl_egl_close(&foreign);
}

/* ---- handles --------------------------------------------------------------------------------- */

static void test_destroying_nothing(void **state)
{
    (void)state;
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *s = NULL;
    struct dgl_kernels *k = NULL;
    struct dgl_tokenizer *tok = NULL;
    struct dgl_model_file *file = NULL;
    dgl_session_destroy(&s);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
    dgl_kernels_destroy(&k);
    dgl_tokenizer_destroy(&tok);
    dgl_model_file_destroy(&file);
    dgl_free(NULL);
}

static void test_failures_leave_null(void **state)
{
    (void)state;
    void *garbage = &engine;
    struct dgl_device *dev = garbage;
    struct dgl_model *model = garbage;
    struct dgl_session *s = garbage;
    struct dgl_kernels *k = garbage;
    struct dgl_tokenizer *tok = garbage;
    struct dgl_model_file *file = garbage;
    const char *flag = "nonsense=1";
    dgl_device_create(NULL, dgl_device_params(.select = "nonsense"), &dev);
    dgl_model_load(engine.device, dgl_model_params(.path = "/nowhere"), &model);
    dgl_session_create(engine.model, dgl_session_params(.context = -1), &s);
    dgl_kernels_create(NULL, dgl_kernels_params(.flags = &flag, .num_flags = 1), &k);
    dgl_tokenizer_load(NULL, "/nowhere", &tok);
    dgl_inspect(NULL, dgl_inspect_params(.path = "/nowhere"), &file);
    assert_null(dev);
    assert_null(model);
    assert_null(s);
    assert_null(k);
    assert_null(tok);
    assert_null(file);
}

static void test_finishing_twice(void **state)
{
    (void)state;
    struct dgl_generate_result g = tiny_generate(
        engine.session, dgl_generate_params(.ids = prompt, .num_ids = 8, .max_tokens = 2));
    dgl_generate_result_finish(&g);
    dgl_generate_result_finish(&g);
    struct dgl_bench_result b = {0};
    dgl_bench_result_finish(&b);
    dgl_bench_result_finish(&b);
}

/* ---- parameters and results ------------------------------------------------------------------ */

static void test_empty_parameters_are_the_defaults(void **state)
{
    (void)state;
    static const struct dgl_session_params zero;
    struct dgl_session *a = NULL, *b = NULL;
    assert_int_equal(dgl_session_create(engine.model, NULL, &a), DGL_OK);
    assert_int_equal(dgl_session_create(engine.model, &zero, &b), DGL_OK);
    tiny_sync(a, prompt, 8);
    tiny_sync(b, prompt, 8);
    float *x = tiny_logits(a), *y = tiny_logits(b);
    assert_memory_equal(x, y, 320 * sizeof(float));
    free(x);
    free(y);
    dgl_session_destroy(&a);
    dgl_session_destroy(&b);
}

struct required {
    const char *name;
    enum dgl_status (*fn)(void);
    const char *word;
};

static enum dgl_status load_null(void)
{
    struct dgl_model *model = NULL;
    return dgl_model_load(engine.device, NULL, &model);
}

static enum dgl_status load_empty(void)
{
    struct dgl_model *model = NULL;
    return dgl_model_load(engine.device, dgl_model_params(.path = ""), &model);
}

static enum dgl_status generate_null(void)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    enum dgl_status status = dgl_generate(engine.session, NULL, &r);
    dgl_generate_result_finish(&r);
    return status;
}

static enum dgl_status logits_null(void)
{
    float *logits = NULL;
    size_t rows = 0;
    return dgl_logits(engine.session, NULL, &logits, &rows);
}

static enum dgl_status eval_null(void)
{
    dgl_session_trim(engine.session, 0);
    return dgl_session_eval(engine.session, NULL, NULL, NULL);
}

static enum dgl_status embed_null(void)
{
    float *embedding = NULL;
    size_t rows = 0;
    return dgl_embed(engine.session, NULL, &embedding, &rows);
}

static enum dgl_status perplexity_null(void)
{
    struct dgl_perplexity_result r = {.size = sizeof(r)};
    return dgl_perplexity(engine.session, NULL, &r);
}

static enum dgl_status verify_null(void)
{
    struct dgl_verify_result r = {.size = sizeof(r)};
    return dgl_verify(&engine.log.log, NULL, &r);
}

static enum dgl_status convert_null(void)
{
    struct dgl_convert_result r = {.size = sizeof(r)};
    return dgl_convert(&engine.log.log, NULL, &r);
}

static enum dgl_status convert_check_null(void)
{
    return dgl_convert_check(&engine.log.log, NULL);
}

static enum dgl_status convert_threads(void)
{
    return dgl_convert_check(&engine.log.log,
                             dgl_convert_params(.in = engine.path, .out = "x", .threads = -1));
}

static enum dgl_status render_null(void)
{
    char *text = NULL;
    size_t len = 0;
    return dgl_render(&engine.log.log, NULL, NULL, &text, &len);
}

static enum dgl_status eval_without_ids(void)
{
    return dgl_session_eval(engine.session, dgl_eval_params(.num_ids = 1), NULL, NULL);
}

static enum dgl_status generate_with(const struct dgl_generate_params *params)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    enum dgl_status status = dgl_generate(engine.session, params, &r);
    dgl_generate_result_finish(&r);
    return status;
}

static enum dgl_status stop_null(void)
{
    return generate_with(dgl_generate_params(.ids = prompt, .num_ids = 8, .num_stop = 1));
}

static enum dgl_status stop_holds_null(void)
{
    const char *stop[] = {"a", NULL};
    return generate_with(
        dgl_generate_params(.ids = prompt, .num_ids = 8, .stop = stop, .num_stop = 2));
}

static enum dgl_status load_kv_type(void)
{
    struct dgl_model *model = NULL;
    return dgl_model_load(engine.device,
                          dgl_model_params(.path = engine.path, .kv_type = (enum dgl_kv_type)2),
                          &model);
}

static enum dgl_status load_hash_weights(void)
{
    struct dgl_model *model = NULL;
    return dgl_model_load(
        engine.device,
        dgl_model_params(.path = engine.path, .hash_weights = (enum dgl_hash_weights)3), &model);
}

static enum dgl_status device_without_place(void)
{
    return dgl_device_create(&engine.log.log, NULL, NULL);
}

static enum dgl_status kernels_without_place(void)
{
    return dgl_kernels_create(&engine.log.log, NULL, NULL);
}

static enum dgl_status tokenizer_without_place(void)
{
    return dgl_tokenizer_load(&engine.log.log, engine.path, NULL);
}

static enum dgl_status template_without_place(void)
{
    return dgl_template_load(&engine.log.log, dgl_template_params(.path = engine.path), NULL);
}

static enum dgl_status model_without_place(void)
{
    return dgl_model_load(engine.device, dgl_model_params(.path = engine.path), NULL);
}

static enum dgl_status session_without_place(void)
{
    return dgl_session_create(engine.model, NULL, NULL);
}

static enum dgl_status inspect_without_place(void)
{
    return dgl_inspect(&engine.log.log, dgl_inspect_params(.path = engine.path), NULL);
}

static const struct required requireds[] = {
    {"a device without a place", device_without_place, "dgl_device_create: out is NULL"},
    {"kernels without a place", kernels_without_place, "dgl_kernels_create: out is NULL"},
    {"a tokenizer without a place", tokenizer_without_place, "dgl_tokenizer_load: out is NULL"},
    {"a template without a place", template_without_place, "dgl_template_load: out is NULL"},
    {"a model without a place", model_without_place, "dgl_model_load: out is NULL"},
    {"a session without a place", session_without_place, "dgl_session_create: out is NULL"},
    {"an inspection without a place", inspect_without_place, "dgl_inspect: out is NULL"},
    {"a model without parameters", load_null, "path"},
    {"a model with an empty path", load_empty, "path"},
    {"an answer without parameters", generate_null, "prompt"},
    {"logits without parameters", logits_null, "empty"},
    {"tokens of one's own without parameters", eval_null, "at least one token"},
    {"an embedding without parameters", embed_null, "prompt"},
    {"a verification without parameters", verify_null, "path"},
    {"a conversion without parameters", convert_null, "input and output"},
    {"a check of a conversion without parameters", convert_check_null, "input and output"},
    {"a rendering without a template", render_null, "NULL"},
    {"a negative number of threads", convert_threads, "threads is -1"},
    {"a number of tokens without them", eval_without_ids, "the ids is empty"},
    {"a number of stop strings without them", stop_null, "stop[0] is missing"},
    {"a stop string that is NULL", stop_holds_null, "stop[1] is missing"},
    {"a type of the cache that does not exist", load_kv_type, "kv_type is 2"},
    {"a rule for hashes that does not exist", load_hash_weights, "hash_weights 3"},
    {"perplexity without a tokenizer", perplexity_null, "tokenizer"},
};

static void test_required(void **state)
{
    const struct required *row = *state;
    test_log_clear(&engine.log);
    assert_int_equal(row->fn(), DGL_ERR_INVALID_ARG);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, row->word);
    assert_ptr_equal(strchr(engine.log.text, '\n'),
                     engine.log.text + engine.log.len - 1); /* one line */
}

struct model_defaults {
    const char *name;
    const char *config; /* generation_config.json, or NULL */
    struct dgl_sampling want;
    const char *error; /* a word of it; *sampling stays */
};

#define PRESET .temperature = 0.25f, .top_k = 7, .min_p = 0.125f, .seed = 5

static const struct model_defaults model_defaults[] = {
    {"sampling of a model without the file", NULL, {PRESET}, NULL},
    {"sampling of a model that says nothing", "{}", {PRESET}, NULL},
    {"sampling of a model that says some",
     "{\"temperature\": 0.5, \"top_p\": 0.75, \"repetition_penalty\": 1.5}",
     {.temperature = 0.5f,
      .top_k = 7,
      .top_p = 0.75f,
      .min_p = 0.125f,
      .repeat_penalty = 1.5f,
      .seed = 5},
     NULL},
    {"sampling of a model that wants none",
     "{\"do_sample\": false, \"temperature\": 0.5, \"top_k\": 50}",
     {.top_k = 50, .min_p = 0.125f, .seed = 5},
     NULL},
    {"sampling of more tokens than can be kept",
     "{\"top_k\": 200, \"top_p\": 0}",
     {.temperature = 0.25f,
      .top_k = 128,
      .top_p = DGL_PROBABILITY_ZERO,
      .min_p = 0.125f,
      .seed = 5},
     NULL},
    {"sampling with a word for a number",
     "{\"top_p\": \"all\", \"temperature\": 0.5}",
     {PRESET},
     "top_p"},
};

static void test_model_sampling(void **state)
{
    const struct model_defaults *row = *state;
    struct dgl_sampling got = {PRESET};
    struct dgl_model *model = NULL;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "generation_config.json");
    make_tiny_llama(dir, 11, NULL);
    remove(path);
    if (row->config)
        test_write_file(dir, "generation_config.json", row->config, strlen(row->config));
    assert_int_equal(dgl_model_load(engine.device, dgl_model_params(.path = dir), &model), DGL_OK);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_model_sampling(model, &got), row->error ? DGL_ERR_FORMAT : DGL_OK);
    assert_int_equal(engine.log.errors, row->error ? 1 : 0);
    if (row->error) {
        assert_contains(engine.log.text, path);
        assert_contains(engine.log.text, row->error);
    }
    assert_float_equal(got.temperature, row->want.temperature, 0);
    assert_int_equal(got.top_k, row->want.top_k);
    assert_float_equal(got.top_p, row->want.top_p, 0);
    assert_float_equal(got.min_p, row->want.min_p, 0);
    assert_float_equal(got.repeat_penalty, row->want.repeat_penalty, 0);
    assert_int_equal(got.seed, row->want.seed);
    dgl_model_destroy(&model);
    free(path);
    test_tmpdir_remove(dir);
}

static void test_null_log(void **state)
{
    (void)state;
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *s = NULL;
    struct dgl_generate_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev), DGL_OK);
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = "/nowhere"), &model), DGL_ERR_IO);
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = engine.path), &model), DGL_OK);
    assert_int_equal(dgl_session_create(model, dgl_session_params(.context = 9999), &s),
                     DGL_ERR_INVALID_ARG);
    assert_int_equal(dgl_session_create(model, NULL, &s), DGL_OK);
    assert_int_equal(dgl_generate(s, NULL, &r), DGL_ERR_INVALID_ARG);
    dgl_generate_result_finish(&r);
    assert_int_equal(
        dgl_generate(s, dgl_generate_params(.ids = prompt, .num_ids = 8, .max_tokens = 2), &r),
        DGL_OK);
    assert_string_equal(r.text, "");
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
}

static void test_log_without_callback(void **state)
{
    (void)state;
    static const struct dgl_log log = {.level = DGL_LOG_TRACE};
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    assert_int_equal(dgl_device_create(&log, dgl_device_params(.select = "any"), &dev), DGL_OK);
    assert_int_not_equal(dgl_model_load(dev, NULL, &model), DGL_OK);
    dgl_device_destroy(&dev);
}

static void test_words(void **state)
{
    (void)state;
    for (int status = 0; status >= DGL_ERR_BUSY; status--)
        assert_true(strlen(dgl_status_str((enum dgl_status)status)) > 1);
    assert_non_null(dgl_status_str((enum dgl_status) - 99));
    assert_string_equal(dgl_finish_str(DGL_FINISH_EOS), "eos");
    assert_string_equal(dgl_finish_str(DGL_FINISH_STOP), "stop");
    assert_string_equal(dgl_finish_str(DGL_FINISH_LENGTH), "length");
    assert_string_equal(dgl_finish_str(DGL_FINISH_CONTEXT), "context");
    assert_string_equal(dgl_finish_str(DGL_FINISH_CANCELLED), "cancelled");
    assert_non_null(dgl_finish_str((enum dgl_finish)99));
    int major = -1, minor = -1, patch = -1;
    assert_int_equal(sscanf(dgl_version(), "%d.%d.%d", &major, &minor, &patch), 3);
}

static void test_info(void **state)
{
    (void)state;
    const struct dgl_model_info *info = dgl_model_get_info(engine.model);
    size_t len = 0;
    assert_string_equal(info->path, engine.path);
    assert_string_equal(info->family, "llama");
    assert_string_equal(info->quantization, "bf16");
    assert_int_equal(info->vocab, 320);
    assert_int_equal(info->layers, 2);
    assert_int_equal(info->context, 128);
    assert_int_equal(info->context_max, 128);
    assert_int_equal(info->num_stop_ids, 2); /* 2 is in generation_config.json only */
    assert_int_equal(info->stop_ids[0].id, 1);
    assert_string_equal(info->stop_ids[1].origin, "generation_config.json");
    assert_false(info->has_tokenizer);
    assert_null(dgl_model_tokenizer(engine.model));
    assert_non_null(dgl_model_generation_config(engine.model, &len));
    assert_true(len > 0);
}

static void test_two_devices_are_independent(void **state)
{
    (void)state;
    struct tiny_engine other;
    int32_t want[4], got[4];
    tiny_engine_open(&other, &(struct tiny_engine_params){.path = engine.path});
    for (size_t i = 4; i < 8; i++) {
        tiny_greedy(engine.session, prompt, i, want, 4);
        tiny_greedy(other.session, prompt, i, got, 4);
        assert_memory_equal(got, want, sizeof(want));
    }
    tiny_engine_close(&other);
}

/* tests/fuzz/fuzz_api.c calls every function and checks that each failure logs exactly one line. */
static void every_function_that_can_fail_is_fuzzed(void **state)
{
    static const char start[] = "\nenum dgl_status dgl_";
    char *header = NULL, *target = NULL;
    size_t len = 0, functions = 0;
    (void)state;
    assert_int_equal(dgl_file_slurp(NULL, "core/dopplergl.h", 1 << 20, &header, &len), DGL_OK);
    assert_int_equal(dgl_file_slurp(NULL, "tests/fuzz/fuzz_api.c", 1 << 20, &target, &len), DGL_OK);
    for (const char *p = header; (p = strstr(p, start)); functions++) {
        char call[80];
        p += strlen("\nenum dgl_status ");
        snprintf(call, sizeof(call), "%.*s(", (int)strcspn(p, "("), p);
        if (!strstr(target, call))
            fail_msg("%s) is not called by tests/fuzz/fuzz_api.c", call);
    }
    assert_true(functions >= 26);
    free(header);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_that_can_fail_is_fuzzed),
        cmocka_unit_test(test_wrapped_context),
        cmocka_unit_test(test_destroying_nothing),
        cmocka_unit_test(test_failures_leave_null),
        cmocka_unit_test(test_finishing_twice),
        cmocka_unit_test(test_empty_parameters_are_the_defaults),
        cmocka_unit_test(test_null_log),
        cmocka_unit_test(test_log_without_callback),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_two_devices_are_independent),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    tiny_ids(prompt, 8, 320, 21);
    int failures = test_run_table("no context", test_no_context_stays_none, calls);
    failures += test_run_table("foreign context", test_foreign_context_stays, calls);
    failures += test_run_table("required", test_required, requireds);
    failures += test_run_table("model defaults", test_model_sampling, model_defaults);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
