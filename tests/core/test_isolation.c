/* Threads with a device each, and processes forked from a process with a device. The threads
 * compute side by side. The processes get a one-line error and do not hang in the driver. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tiny_engine.h"

#define ANSWER 12

static struct tiny_engine engine;
static const char prompt[] = "Once upon a time";
static int32_t want[ANSWER];

/* ---- threads --------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    enum dgl_status status;
    int same, other; /* answers of the main thread's device, and of other devices */
};

/* No assertions here: they would leave the thread by longjmp(). */
static void *work(void *priv)
{
    struct worker *w = priv;
    struct dgl_device *device = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    for (int round = 0; round < 2 && w->status == DGL_OK; round++) {
        w->status = dgl_device_create(NULL, dgl_device_params(.select = "any"), &device);
        if (w->status == DGL_OK)
            w->status = dgl_model_load(
                device, dgl_model_params(.path = BUNDLED_MODEL, .context = 64), &model);
        if (w->status == DGL_OK)
            w->status = dgl_session_create(model, NULL, &session);
        for (int i = 0; i < 3 && w->status == DGL_OK; i++) {
            struct dgl_generate_result r = {.size = sizeof(r)};
            w->status = dgl_generate(
                session, dgl_generate_params(.prompt = prompt, .max_tokens = ANSWER), &r);
            bool same = r.num_tokens == ANSWER && memcmp(r.tokens, want, sizeof(want)) == 0;
            w->same += same;
            w->other += !same;
            dgl_generate_result_finish(&r);
            dgl_session_trim(session, 0);
        }
        dgl_session_destroy(&session);
        dgl_model_destroy(&model);
        dgl_device_destroy(&device);
    }
    return NULL;
}

static void test_threads_with_a_device_each(void **state)
{
    (void)state;
    struct worker workers[2] = {{0}};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].status, DGL_OK);
        assert_int_equal(workers[i].same, 6);
        assert_int_equal(workers[i].other, 0);
    }
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* In the child: the call fails, with one line that names both processes. */
static bool refused(const char *name, enum dgl_status status)
{
    char parent[40];
    struct test_log *t = &engine.log;
    snprintf(parent, sizeof(parent), "forked from process %ld", (long)getppid());
    bool ok = status == DGL_ERR_NO_DEVICE && t->errors == 1 && strstr(t->text, parent) != NULL;
    if (!ok)
        printf("# %s: %s, %d lines: %s\n", name, dgl_status_str(status), t->errors, t->text);
    test_log_clear(t);
    return ok;
}

static bool take_row(void *priv, const struct dgl_device_info *info)
{
    (void)priv;
    (void)info;
    return true;
}

static int child(void)
{
    struct dgl_device *device = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    struct dgl_generate_result r = {.size = sizeof(r)};
    const struct dgl_log *log = &engine.log.log;
    bool ok = true;
    alarm(60); /* a driver that waits for its threads would never return */
    ok &= refused("generate",
                  dgl_generate(engine.session, dgl_generate_params(.prompt = prompt), &r));
    dgl_generate_result_finish(&r);
    ok &= refused("session", dgl_session_create(engine.model, NULL, &session));
    ok &= refused("model",
                  dgl_model_load(engine.device, dgl_model_params(.path = BUNDLED_MODEL), &model));
    ok &= refused("device", dgl_device_create(log, dgl_device_params(.select = "any"), &device));
    ok &= refused("iterate", dgl_device_iterate(log, take_row, NULL));
    tiny_engine_close(&engine); /* destroys all three */
    ok &= engine.log.errors == 0;
    fflush(stdout);
    return ok ? 0 : 1;
}

static void test_fork(void **state)
{
    (void)state;
    int result = -1;
    struct dgl_generate_result r = {.size = sizeof(r)};
    test_log_clear(&engine.log);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child());
    assert_int_equal(waitpid(pid, &result, 0), pid);
    assert_int_equal(result, 0);
    dgl_session_trim(engine.session, 0); /* the parent goes on */
    r = tiny_generate(engine.session, dgl_generate_params(.prompt = prompt, .max_tokens = ANSWER));
    assert_memory_equal(r.tokens, want, sizeof(want));
    dgl_generate_result_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_with_a_device_each),
        cmocka_unit_test(test_fork),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = 64});
    struct dgl_generate_result r =
        tiny_generate(engine.session, dgl_generate_params(.prompt = prompt, .max_tokens = ANSWER));
    if (r.num_tokens == ANSWER)
        memcpy(want, r.tokens, sizeof(want));
    dgl_generate_result_finish(&r);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
