/* Compiling the kernels of a call: the time of it, the progress, cancellation, the figures that
 * include it, and the number of kernels for the bundled model's first prompt. The cache is off. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/memory/device.h"
#include "tests/support/process.h"
#include "tests/support/tiny_engine.h"

#define PROMPT      "Once upon a time"
#define LONG_PROMPT PROMPT " " PROMPT " " PROMPT " " PROMPT " " PROMPT

/* Calls of the progress callback. */
struct told {
    struct dgl_session *session; /* cancelled by dgl_session_cancel() after `stop_after` */
    uint64_t stop_after;         /* 0 = never */
    bool refuse;                 /* the callback cancels */
    uint64_t calls, done, total;
};

static bool take_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct told *told = priv;
    assert_string_equal(what, "kernels");
    assert_int_equal(done, told->calls ? told->done + 1 : 0);
    assert_true(done <= total);
    told->calls++;
    told->done = done;
    told->total = total;
    if (told->stop_after == 0 || done < told->stop_after)
        return true;
    if (told->session)
        dgl_session_cancel(told->session);
    return !told->refuse;
}

struct engine {
    struct test_log log;
    struct told told;
    struct dgl_device *device;
    struct dgl_model *model;
    struct dgl_session *session;
};

static int engine_setup(void **state)
{
    struct engine *e = checked(calloc(1, sizeof(*e)));
    *state = e;
    test_log_init(&e->log, DGL_LOG_WARN);
    if (dgl_device_create(&e->log.log, dgl_device_params(.select = "any", .cache_dir = ""),
                          &e->device) != DGL_OK ||
        dgl_model_load(e->device, dgl_model_params(.path = BUNDLED_MODEL), &e->model) != DGL_OK ||
        dgl_session_create(
            e->model, dgl_session_params(.progress_cb = take_progress, .progress_priv = &e->told),
            &e->session) != DGL_OK)
        fail_msg("%s", e->log.text);
    return 0;
}

static int engine_teardown(void **state)
{
    struct engine *e = *state;
    dgl_session_destroy(&e->session);
    dgl_model_destroy(&e->model);
    dgl_device_destroy(&e->device);
    free(e);
    return 0;
}

static struct dgl_generate_result generate(struct engine *e, const char *prompt, int32_t tokens)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    e->told.calls = e->told.done = e->told.total = 0;
    if (dgl_generate(e->session, dgl_generate_params(.prompt = prompt, .max_tokens = tokens), &r) !=
        DGL_OK)
        fail_msg("%s", e->log.text);
    return r;
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* A call stops after the kernel at hand; the next one is complete. */
static void test_cancel(void **state)
{
    struct engine *e = *state;
    const int32_t ids[] = {1, 2, 3};
    e->told = (struct told){.session = e->session, .stop_after = 1};
    struct dgl_generate_result r = generate(e, PROMPT, 2);
    assert_int_equal(r.finish, DGL_FINISH_CANCELLED);
    assert_int_equal(r.num_tokens, 0);
    assert_int_equal(r.prefill.programs_linked, 0);
    assert_int_equal(e->told.calls, 2);
    dgl_generate_result_finish(&r);

    e->told = (struct told){.refuse = true, .stop_after = 2};
    assert_int_equal(dgl_session_sync(e->session, ids, 3, NULL), DGL_ERR_CANCELLED);
    assert_int_equal(e->told.calls, 3);
    assert_int_equal(dgl_session_len(e->session), 0);

    struct dgl_smoke_result smoke = {.size = sizeof(smoke)};
    e->told = (struct told){.refuse = true, .stop_after = 1};
    assert_int_equal(dgl_verify_smoke(e->session, NULL, &smoke), DGL_ERR_CANCELLED);
    assert_int_equal(e->told.calls, 2);

    float *logits = NULL;
    size_t rows = 0;
    e->told = (struct told){.refuse = true, .stop_after = 1};
    test_log_clear(&e->log);
    assert_int_equal(
        dgl_logits(e->session, dgl_logits_params(.ids = ids, .num_ids = 1), &logits, &rows),
        DGL_ERR_CANCELLED);
    assert_null(logits);
    assert_int_equal(e->told.calls, 2);
    assert_int_equal(e->log.errors, 0); /* who cancels knows it */
}

/* The first answer of a new process. All kernels are compiled, to machine code, before the prompt
 * is evaluated, and only compile_ns contains that time. */
static void test_first_answer(void **state)
{
    struct engine *e = *state;
    e->told = (struct told){0};
    struct dgl_generate_result r = generate(e, PROMPT, 1);
    const uint64_t first_kernels = r.prefill.programs_linked;
    assert_int_equal(e->told.done, e->told.total);
    assert_int_equal(e->told.total, first_kernels);
    assert_int_equal(r.decode.programs_linked, 0);
    assert_at_most((double)first_kernels, 12);
    if (strncmp(dgl_device_get_info(e->device)->renderer, "llvmpipe", 8) == 0) {
        /* Compiling the kernels takes a hundred times as long as running them. */
        assert_at_most((double)r.first_token_ns, (double)r.compile_ns / 10);
    }
    dgl_generate_result_finish(&r);

    /* Missing kernels are compiled before the prompt is evaluated. The software renderer evaluated
     * the short prompt with the decode programs, and needs the prefill programs for a longer one.
     */
    const bool software = dgl_device_get_info(e->device)->software;
    if (software) {
        r = generate(e, PROMPT, 2);
        assert_int_equal(r.prefill.programs_linked, 0);
        dgl_generate_result_finish(&r);
    }
    r = generate(e, software ? LONG_PROMPT : PROMPT, 2);
    assert_true(r.prefill.programs_linked > 0);
    assert_int_equal(e->told.total, r.prefill.programs_linked);
    assert_int_equal(r.decode.programs_linked, 0);
    assert_true(r.compile_ns > 0);
    if (strncmp(dgl_device_get_info(e->device)->renderer, "llvmpipe", 8) == 0)
        assert_at_most((double)r.decode_ns, (double)r.compile_ns / 10);
    dgl_generate_result_finish(&r);

    r = generate(e, PROMPT, 2);
    assert_int_equal(r.prefill.programs_linked, 0);
    assert_int_equal(r.compile_ns, 0);
    assert_int_equal(e->told.calls, 0);
    dgl_generate_result_finish(&r);
}

/* ---- kernels check --compile-only ------------------------------------------------------------ */

struct compiled {
    char hash[64][65];
    const char *known[64];
    size_t count;
    int phases;
};

static bool take_text(void *priv, const struct dgl_compiled_text *text)
{
    struct compiled *c = priv;
    if (strcmp(text->op, "phases") == 0) {
        c->phases++;
        assert_false(text->planned);
        return true;
    }
    assert_true(text->planned);
    if (text->verdict == DGL_COMPILE_KNOWN)
        return true;
    assert_true(c->count < 64);
    snprintf(c->hash[c->count], 65, "%s", text->sha256);
    c->known[c->count] = c->hash[c->count];
    c->count++;
    return true;
}

/* The persistent programs are compiled if the persistent executor is requested, but not together
 * with the first kernels of `auto`. Software renderers have no persistent programs, so the test
 * presents the renderer as hardware. */
static void test_persistent_programs(void **state)
{
    struct engine *e = *state;
    struct compiled c = {.count = 0};
    struct dgl_device *dev = NULL;
    static const enum dgl_executor executors[] = {DGL_EXECUTOR_AUTO, DGL_EXECUTOR_PERSISTENT};
    if (!dgl_device_get_info(e->device)->software)
        SKIP("a GPU is measured here, not a software renderer");
    if (dgl_device_create(
            &e->log.log,
            dgl_device_params(.select = "any", .cache_dir = "", .compiler = process_program()),
            &dev) != DGL_OK)
        fail_msg("%s", e->log.text);
    dev->info.software = false;
    for (int i = 0; i < 2; i++) {
        /* The verdict on a persistent program does not matter: a second is enough. */
        if (dgl_kernels_compile(
                dev, dgl_kernels_compile_params(.path = BUNDLED_MODEL, .executor = executors[i],
                                                .seconds = i == 0 ? 0 : 1, .known = c.known,
                                                .num_known = c.count, .cb = take_text,
                                                .priv = &c)) != DGL_OK)
            fail_msg("%s", e->log.text);
        assert_true(c.count > 5);
        assert_int_equal(c.phases > 0, i == 1);
    }
    dev->info.software = true;
    dgl_device_destroy(&dev);
}

int main(void)
{
    /* Mesa's own cache, which has llvmpipe's machine code. */
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
    setenv("MESA_GLSL_CACHE_DISABLE", "true", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_first_answer),
        cmocka_unit_test(test_persistent_programs),
    };
    return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
