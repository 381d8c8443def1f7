/* The rules of the public header that keep programs working with another library: structs carry
 * their size, NULL handles are refused, errors are found by the device, and a cancellation can
 * stay. */
#include "tests/support/tiny_engine.h"

#include <stddef.h>
#include <stdlib.h>

#include "core/base/sized.h"

static struct tiny_engine engine;
static int32_t prompt[8];

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A struct of a caller with another header. */
struct taken_row {
    const char *name;
    size_t size;     /* of the caller */
    int32_t context; /* in it */
    char beyond;     /* a byte after the library's fields */
    bool ok;
    int32_t want; /* context in the copy */
};
static const struct taken_row taken_rows[] = {
    {"the library's size", sizeof(struct dgl_session_params), 7, 0, true, 7},
    {"no size", 0, 7, 0, true, 7},
    {"no size, and what follows is no part of it", 0, 7, 1, true, 7},
    {"an older header without the field", offsetof(struct dgl_session_params, context), 7, 0, true,
     0},
    {"a newer header", sizeof(struct dgl_session_params) + 8, 7, 0, true, 7},
    {"a newer header whose field is set", sizeof(struct dgl_session_params) + 8, 7, 1, false, 0},
    {"a size without itself", 4, 7, 0, false, 0},
    {"an uninitialised size", (size_t)-1, 7, 0, false, 0},
};

static void test_taken(void **state)
{
    const struct taken_row *row = *state;
    struct {
        struct dgl_session_params p;
        char beyond[8];
    } caller = {.p = {.size = row->size, .context = row->context}, .beyond = {row->beyond}};
    struct dgl_session_params copy;
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    const bool ok = DGL_TAKE(&log.log, dgl_session_params, &caller.p, &copy);
    assert_int_equal(ok, row->ok);
    assert_int_equal(log.errors, !row->ok);
    if (!ok)
        assert_contains(log.text, "dgl_session_params");
    assert_int_equal(copy.context, row->want);
    if (ok)
        assert_int_equal(copy.size, sizeof(copy));
}

/* A result of an older header is filled as far as it goes, and the bytes after it stay. */
static void a_short_result_is_not_overrun(void **state)
{
    (void)state;
    union {
        struct dgl_generate_result r;
        char bytes[sizeof(struct dgl_generate_result)];
    } caller;
    const size_t size = offsetof(struct dgl_generate_result, prefill_ns);
    memset(&caller, 0x5a, sizeof(caller));
    caller.r.size = size;
    assert_int_equal(dgl_generate(engine.session,
                                  dgl_generate_params(.ids = prompt, .num_ids = 8, .max_tokens = 2),
                                  &caller.r),
                     DGL_OK);
    assert_int_equal(caller.r.size, size);
    assert_int_equal(caller.r.num_prompt_ids, 8);
    assert_int_equal(caller.r.num_tokens, 2);
    for (size_t i = size; i < sizeof(caller); i++)
        if (caller.bytes[i] != 0x5a)
            fail_msg("byte %zu of a result of %zu bytes is %d, want 90", i, size, caller.bytes[i]);
    free(caller.r.prompt_ids);
    free(caller.r.tokens);
    free(caller.r.text);
}

static void a_field_of_a_newer_header_is_refused(void **state)
{
    (void)state;
    struct dgl_sampling sampling = {0};
    test_log_clear(&engine.log);
    assert_int_equal(dgl_sampling_check(&engine.log.log, &sampling), DGL_OK);
    sampling.reserved[3] = 1;
    assert_int_equal(dgl_sampling_check(&engine.log.log, &sampling), DGL_ERR_INVALID_ARG);
    assert_contains(engine.log.text, "reserved[3]");
}

static void versions_agree(void **state)
{
    (void)state;
    assert_int_equal(dgl_api_version(), DGL_API_VERSION);
}

/* ---- NULL ------------------------------------------------------------------------------------ */

static void null_handles_are_refused(void **state)
{
    (void)state;
    struct dgl_model *model = NULL;
    struct dgl_session *s = NULL;
    struct dgl_batch *b = NULL;
    struct dgl_chat *chat = NULL;
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct dgl_bench_result *bench = calloc(1, sizeof(*bench));
    struct dgl_tune_result tune = {.size = sizeof(tune)};
    struct dgl_smoke_result smoke = {.size = sizeof(smoke)};
    struct dgl_perplexity_result ppl = {.size = sizeof(ppl)};
    struct dgl_memory memory = {.size = sizeof(memory)};
    struct dgl_counters counters;
    struct dgl_device_facts facts = {.size = sizeof(facts)};
    struct dgl_device_speed speed = {.size = sizeof(speed)};
    struct dgl_executor_info executor = {.size = sizeof(executor)};
    struct dgl_pass_info passes = {.size = sizeof(passes)};
    struct dgl_batch_info info = {.size = sizeof(info)};
    struct dgl_message message = {.size = sizeof(message)};
    struct dgl_tensor_info tensor = {.size = sizeof(tensor)};
    struct dgl_template_info tmpl = {.size = sizeof(tmpl)};
    struct dgl_sampling sampling = {0};
    struct dgl_error error;
    float *floats = NULL;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    bool ready;
    const struct {
        const char *name;
        enum dgl_status status;
    } calls[] = {
        {"dgl_device_error", dgl_device_error(NULL, &error)},
        {"dgl_device_get_counters", dgl_device_get_counters(NULL, &counters)},
        {"dgl_device_get_facts", dgl_device_get_facts(NULL, &facts)},
        {"dgl_device_measure", dgl_device_measure(NULL, &speed)},
        {"dgl_kernels_check", dgl_kernels_check(NULL, NULL)},
        {"dgl_kernels_bench", dgl_kernels_bench(NULL, NULL)},
        {"dgl_kernels_compile", dgl_kernels_compile(NULL, NULL)},
        {"dgl_selftest", dgl_selftest(NULL, NULL)},
        {"dgl_tuned_iterate", dgl_tuned_iterate(NULL, NULL, NULL)},
        {"dgl_tuned_reset", dgl_tuned_reset(NULL)},
        {"dgl_model_load", dgl_model_load(NULL, dgl_model_params(.path = "x"), &model)},
        {"dgl_model_sampling", dgl_model_sampling(NULL, &sampling)},
        {"dgl_model_set_kernels", dgl_model_set_kernels(NULL, NULL)},
        {"dgl_model_prepare_kernels", dgl_model_prepare_kernels(NULL, NULL, &ready)},
        {"dgl_model_rebuild", dgl_model_rebuild(NULL, NULL)},
        {"dgl_model_executor", dgl_model_executor(NULL, &executor)},
        {"dgl_model_plan_batch", dgl_model_plan_batch(NULL, 1, NULL, NULL)},
        {"dgl_plan_source", dgl_plan_source(NULL, NULL, &text, &n)},
        {"dgl_session_create", dgl_session_create(NULL, NULL, &s)},
        {"dgl_session_clone", dgl_session_clone(NULL, NULL, &s)},
        {"dgl_session_estimate", dgl_session_estimate(NULL, NULL, &memory)},
        {"dgl_session_passes", dgl_session_passes(NULL, &passes)},
        {"dgl_session_sync", dgl_session_sync(NULL, prompt, 8, NULL)},
        {"dgl_session_eval", dgl_session_eval(NULL, NULL, NULL, NULL)},
        {"dgl_session_save", dgl_session_save(NULL, dgl_session_save_params(.path = "x"))},
        {"dgl_session_load", dgl_session_load(NULL, NULL, NULL, NULL)},
        {"dgl_generate", dgl_generate(NULL, NULL, &r)},
        {"dgl_generate without a result", dgl_generate(engine.session, NULL, NULL)},
        {"dgl_logits", dgl_logits(NULL, NULL, &floats, &n)},
        {"dgl_embed", dgl_embed(NULL, NULL, &floats, &n)},
        {"dgl_perplexity", dgl_perplexity(NULL, NULL, &ppl)},
        {"dgl_bench", dgl_bench(NULL, NULL, bench)},
        {"dgl_tune", dgl_tune(NULL, NULL, &tune)},
        {"dgl_verify_smoke", dgl_verify_smoke(NULL, NULL, &smoke)},
        {"dgl_batch_create", dgl_batch_create(NULL, NULL, &b)},
        {"dgl_batch_submit", dgl_batch_submit(NULL, NULL, NULL)},
        {"dgl_batch_step", dgl_batch_step(NULL, NULL)},
        {"dgl_batch_wait", dgl_batch_wait(NULL, 1, NULL)},
        {"dgl_batch_get_info", dgl_batch_get_info(NULL, &info)},
        {"dgl_chat_create", dgl_chat_create(NULL, &chat)},
        {"dgl_chat_add", dgl_chat_add(NULL, "user", "x", 1)},
        {"dgl_chat_set_system", dgl_chat_set_system(NULL, "x", 1)},
        {"dgl_chat_message", dgl_chat_message(NULL, 0, &message)},
        {"dgl_chat_answer", dgl_chat_answer(NULL, NULL, &r)},
        {"dgl_chat_save", dgl_chat_save(NULL, &text, &n)},
        {"dgl_chat_load", dgl_chat_load(NULL, NULL, "[]", 2)},
        {"dgl_encode", dgl_encode(NULL, NULL, "x", 1, NULL, &ids, &n)},
        {"dgl_decode", dgl_decode(NULL, NULL, prompt, 8, false, &text, &n)},
        {"dgl_decode_pieces", dgl_decode_pieces(NULL, NULL, prompt, 8, &n, &text, &n)},
        {"dgl_render", dgl_render(NULL, NULL, NULL, &text, &n)},
        {"dgl_render_ids", dgl_render_ids(NULL, NULL, NULL, NULL, &ids, &n)},
        {"dgl_reply_push", dgl_reply_push(NULL, "x", 1)},
        {"dgl_reply_end", dgl_reply_end(NULL)},
        {"dgl_model_file_tensor", dgl_model_file_tensor(NULL, 0, &tensor)},
        {"dgl_model_file_template", dgl_model_file_template(NULL, 0, &tmpl)},
        {"dgl_model_file_estimate", dgl_model_file_estimate(NULL, NULL, NULL, &memory)},
        {"dgl_kernels_overrides", dgl_kernels_overrides(NULL, NULL, NULL, NULL)},
        {"dgl_kernels_template", dgl_kernels_template(NULL, NULL, NULL, "x", "norm", &text, &n)},
        {"dgl_kernels_check_shape", dgl_kernels_check_shape(NULL, NULL, "x", "")},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (calls[i].status != DGL_ERR_INVALID_ARG)
            fail_msg("%s(NULL) is %d (%s), want %d", calls[i].name, calls[i].status,
                     dgl_status_str(calls[i].status), DGL_ERR_INVALID_ARG);
    assert_null(dgl_device_get_info(NULL));
    assert_null(dgl_device_get_limits(NULL));
    assert_null(dgl_model_get_info(NULL));
    assert_null(dgl_model_tokenizer(NULL));
    assert_null(dgl_model_generation_config(NULL, &n));
    assert_null(dgl_session_ids(NULL));
    assert_null(dgl_token_spelling(NULL, 0, &n));
    assert_null(dgl_model_file_skipped(NULL, 0));
    assert_int_equal(dgl_session_len(NULL), 0);
    assert_int_equal(dgl_chat_num_messages(NULL), 0);
    assert_int_equal(dgl_model_file_num_tensors(NULL), 0);
    assert_false(dgl_device_is_lost(NULL));
    dgl_session_cancel(NULL);
    dgl_session_set_cancelled(NULL, true);
    dgl_session_trim(NULL, 0);
    dgl_batch_cancel(NULL, 1);
    dgl_batch_wake(NULL);
    dgl_generate_result_finish(NULL);
    dgl_tune_result_finish(NULL);
    free(bench);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const struct dgl_log silent = {.level = DGL_LOG_NONE};

/* Each log, and whether its own `error` gets the line, too. */
struct log_row {
    const char *name;
    const struct dgl_log *log;
};
static const struct log_row log_rows[] = {{"no log", NULL}, {"a silent log", &silent}};

static void test_error_by_device(void **state)
{
    const struct log_row *row = *state;
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    struct dgl_error why = {"x"};
    assert_int_equal(dgl_device_create(row->log, dgl_device_params(.select = "any"), &dev), DGL_OK);
    assert_int_equal(dgl_device_error(dev, &why), DGL_OK);
    assert_string_equal(why.text, "");
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = "/nowhere"), &model), DGL_ERR_IO);
    assert_int_equal(dgl_device_error(dev, &why), DGL_OK);
    assert_contains(why.text, "/nowhere");
    assert_int_equal(dgl_model_load(dev, NULL, &model), DGL_ERR_INVALID_ARG);
    dgl_device_error(dev, &why);
    assert_contains(why.text, "no model path");
    dgl_device_destroy(&dev);
}

/* The caller's log still gets the lines, and may change its level at any time. */
static void the_log_of_the_caller_is_followed(void **state)
{
    (void)state;
    struct dgl_model *model = NULL;
    struct dgl_error mine = {""}, why;
    engine.log.log.error = &mine;
    assert_int_equal(dgl_model_load(engine.device, NULL, &model), DGL_ERR_INVALID_ARG);
    engine.log.log.error = NULL;
    dgl_device_error(engine.device, &why);
    assert_contains(mine.text, "no model path");
    assert_string_equal(mine.text, why.text);
    assert_non_null(dgl_log_stderr());
    assert_int_equal(dgl_log_stderr()->level, DGL_LOG_WARN);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static enum dgl_finish finish_of(void)
{
    struct dgl_generate_result r =
        tiny_generate(engine.session, dgl_generate_params(.ids = prompt, .num_ids = 8,
                                                          .max_tokens = 3, .ignore_eos = true));
    const enum dgl_finish finish = r.finish;
    dgl_generate_result_finish(&r);
    return finish;
}

struct cancel_row {
    const char *name;
    void (*before)(void);
    const char *first, *second; /* how the next two calls end */
};
static void cancel_once(void)
{
    dgl_session_cancel(engine.session);
}
static void cancel_and_stay(void)
{
    dgl_session_set_cancelled(engine.session, true);
}
static void take_back(void)
{
    dgl_session_set_cancelled(engine.session, true);
    dgl_session_set_cancelled(engine.session, false);
}
static const struct cancel_row cancel_rows[] = {
    {"a cancellation before a call has no effect", cancel_once, "length", "length"},
    {"one that stays ends every call", cancel_and_stay, "cancelled", "cancelled"},
    {"one that was taken back has no effect", take_back, "length", "length"},
};

static void test_cancel(void **state)
{
    const struct cancel_row *row = *state;
    dgl_session_trim(engine.session, 0);
    row->before();
    const char *first = dgl_finish_str(finish_of()), *second = dgl_finish_str(finish_of());
    dgl_session_set_cancelled(engine.session, false);
    assert_string_equal(first, row->first);
    assert_string_equal(second, row->second);
    assert_string_equal(dgl_finish_str(finish_of()), "length");
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The calls below fail because their handles are NULL. Each must clear the places that the caller
 * initialised with other values. */
#define REFUSED(call)                                                                              \
    if ((call) != DGL_ERR_INVALID_ARG)                                                             \
    fail_msg("%s is not refused", #call)
#define CLEARS_HANDLE(type, call)                                                                  \
    do {                                                                                           \
        type *out = (type *)(void *)prompt;                                                        \
        REFUSED(call);                                                                             \
        if (out)                                                                                   \
            fail_msg("%s leaves %p", #call, (void *)out);                                          \
    } while (0)
#define CLEARS_ARRAY(type, call)                                                                   \
    do {                                                                                           \
        type *array = (type *)(void *)prompt;                                                      \
        size_t count = 7;                                                                          \
        REFUSED(call);                                                                             \
        if (array || count)                                                                        \
            fail_msg("%s leaves %p and %zu", #call, (void *)array, count);                         \
    } while (0)
#define CLEARS_NUMBER(type, call)                                                                  \
    do {                                                                                           \
        type number = 1;                                                                           \
        REFUSED(call);                                                                             \
        if (number)                                                                                \
            fail_msg("%s leaves a value", #call);                                                  \
    } while (0)
/* `first` is the number of bytes that stay: those of the size, if the struct has one. */
#define CLEARS_STRUCT(type, first, call)                                                           \
    do {                                                                                           \
        struct type result, *out = &result;                                                        \
        const size_t size = sizeof(result);                                                        \
        memset(out, 0x5a, size);                                                                   \
        memcpy(out, &size, (first));                                                               \
        REFUSED(call);                                                                             \
        for (size_t i = (first); i < size; i++)                                                    \
            if (((const char *)out)[i])                                                            \
                fail_msg("%s leaves byte %zu of %zu", #call, i, size);                             \
    } while (0)
#define CLEARS_RESULT(type, call) CLEARS_STRUCT(type, sizeof(size_t), call)

static void refused_calls_clear_handles(void **state)
{
    (void)state;
    CLEARS_HANDLE(struct dgl_tokenizer, dgl_tokenizer_load(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_tokenizer, dgl_tokenizer_open(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_template, dgl_template_load(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_reply, dgl_reply_create(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_model, dgl_model_load(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_session, dgl_session_create(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_session, dgl_session_clone(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_chat, dgl_chat_create(NULL, &out));
    CLEARS_HANDLE(struct dgl_batch, dgl_batch_create(NULL, NULL, &out));
    CLEARS_HANDLE(struct dgl_model_file, dgl_inspect(NULL, NULL, &out));
}

static void refused_calls_clear_arrays(void **state)
{
    (void)state;
    CLEARS_ARRAY(int32_t, dgl_encode(NULL, NULL, "a", 1, NULL, &array, &count));
    CLEARS_ARRAY(char, dgl_decode(NULL, NULL, prompt, 1, false, &array, &count));
    CLEARS_ARRAY(char, dgl_decode_pieces(NULL, NULL, prompt, 1, NULL, &array, &count));
    CLEARS_ARRAY(char, dgl_token_bytes(NULL, NULL, 1, &array, &count));
    CLEARS_ARRAY(char, dgl_render(NULL, NULL, NULL, &array, &count));
    CLEARS_ARRAY(int32_t, dgl_render_ids(NULL, NULL, NULL, NULL, &array, &count));
    CLEARS_ARRAY(char, dgl_kernels_template(NULL, NULL, NULL, NULL, NULL, &array, &count));
    CLEARS_ARRAY(char, dgl_plan_source(NULL, NULL, &array, &count));
    CLEARS_ARRAY(char, dgl_session_load(NULL, NULL, &array, &count));
    CLEARS_ARRAY(char, dgl_chat_save(NULL, &array, &count));
    CLEARS_ARRAY(float, dgl_logits(NULL, NULL, &array, &count));
    CLEARS_ARRAY(float, dgl_embed(NULL, NULL, &array, &count));
    CLEARS_NUMBER(size_t, dgl_decode(NULL, NULL, prompt, 1, false, NULL, &number));
    CLEARS_NUMBER(size_t, dgl_logits(NULL, NULL, NULL, &number));
    CLEARS_NUMBER(size_t, dgl_session_sync(NULL, NULL, 0, &number));
    CLEARS_NUMBER(size_t, dgl_batch_step(NULL, &number));
    CLEARS_NUMBER(size_t, dgl_batch_wait(NULL, 0, &number));
    CLEARS_NUMBER(uint64_t, dgl_batch_submit(NULL, NULL, &number));
    CLEARS_NUMBER(bool, dgl_model_prepare_kernels(NULL, NULL, &number));
}

static void refused_calls_clear_results(void **state)
{
    (void)state;
    CLEARS_STRUCT(dgl_error, 0, dgl_device_error(NULL, out));
    CLEARS_STRUCT(dgl_counters, 0, dgl_device_get_counters(NULL, out));
    CLEARS_RESULT(dgl_device_facts, dgl_device_get_facts(NULL, out));
    CLEARS_RESULT(dgl_device_speed, dgl_device_measure(NULL, out));
    CLEARS_RESULT(dgl_executor_info, dgl_model_executor(NULL, out));
    CLEARS_RESULT(dgl_memory, dgl_session_estimate(NULL, NULL, out));
    CLEARS_RESULT(dgl_memory, dgl_model_file_estimate(NULL, NULL, NULL, out));
    CLEARS_RESULT(dgl_pass_info, dgl_session_passes(NULL, out));
    CLEARS_RESULT(dgl_generate_result, dgl_generate(NULL, NULL, out));
    CLEARS_RESULT(dgl_message, dgl_chat_message(NULL, 0, out));
    CLEARS_RESULT(dgl_generate_result, dgl_chat_answer(NULL, NULL, out));
    CLEARS_RESULT(dgl_batch_info, dgl_batch_get_info(NULL, out));
    CLEARS_RESULT(dgl_perplexity_result, dgl_perplexity(NULL, NULL, out));
    CLEARS_RESULT(dgl_tensor_info, dgl_model_file_tensor(NULL, 0, out));
    CLEARS_RESULT(dgl_template_info, dgl_model_file_template(NULL, 0, out));
    CLEARS_RESULT(dgl_verify_result, dgl_verify(NULL, NULL, out));
    CLEARS_RESULT(dgl_smoke_result, dgl_verify_smoke(NULL, NULL, out));
    CLEARS_RESULT(dgl_convert_result, dgl_convert(NULL, NULL, out));
    CLEARS_RESULT(dgl_bench_result, dgl_bench(NULL, NULL, out));
    CLEARS_RESULT(dgl_tune_result, dgl_tune(NULL, NULL, out));
}

/* As free(NULL). */
static void no_handle_may_be_destroyed(void **state)
{
    (void)state;
    dgl_device_destroy(NULL);
    dgl_kernels_destroy(NULL);
    dgl_tokenizer_destroy(NULL);
    dgl_template_destroy(NULL);
    dgl_reply_destroy(NULL);
    dgl_model_destroy(NULL);
    dgl_session_destroy(NULL);
    dgl_chat_destroy(NULL);
    dgl_batch_destroy(NULL);
    dgl_model_file_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_result_is_not_overrun),
        cmocka_unit_test(a_field_of_a_newer_header_is_refused),
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(null_handles_are_refused),
        cmocka_unit_test(the_log_of_the_caller_is_followed),
        cmocka_unit_test(refused_calls_clear_handles),
        cmocka_unit_test(refused_calls_clear_arrays),
        cmocka_unit_test(refused_calls_clear_results),
        cmocka_unit_test(no_handle_may_be_destroyed),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    tiny_ids(prompt, 8, 320, 21);
    int failures = test_run_table("struct of a caller", test_taken, taken_rows);
    failures += test_run_table("error by device", test_error_by_device, log_rows);
    failures += test_run_table("cancel", test_cancel, cancel_rows);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
