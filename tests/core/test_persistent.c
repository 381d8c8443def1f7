/* The whole persistent executor on any device. A dispatch of all phases and several tokens with one
 * work group waits for no other group, so software renderers can run it too. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/exec/phases.h"
#include "core/seq/session.h"

#define PROMPT     5
#define ANSWER     14
#define MORE       2
#define PART_BYTES (1u << 17)

static struct tiny_engine engine;
static int32_t prompt[PROMPT];
static struct persistent_ops ops; /* the executor's own, except for the probe */

/* Kernels that compile quickly, all of a step in one program. llvmpipe ends the loops of an
 * invocation after 65,535 rounds; these kernels reach that with two tokens. */
static const char small[] =
    "{\"variants\":{\"matmul/decode\":\"matmul_decode\",\"attn_decode\":\"attn_decode\"}}";
#define INTERVAL 2

/* A GPU runs the real probe. A software renderer gets one group, which never waits for another. */
static enum dgl_status probe_one(struct exec_run *run, struct residency *out)
{
    (void)run;
    *out = (struct residency){.groups = 1};
    return DGL_OK;
}

static void open_engine(const struct tiny_engine_params *params)
{
    struct tiny_engine_params p = *params;
    struct dgl_kernels *kernels = NULL;
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = small), &kernels),
                     DGL_OK);
    p.kernels = kernels;
    tiny_engine_open(&engine, &p);
    dgl_kernels_destroy(&kernels);
    tiny_ids(prompt, PROMPT, 320, 7);
}

static int tear_down(void **state)
{
    (void)state;
    tiny_engine_close(&engine);
    return 0;
}

static void use(enum dgl_executor wanted)
{
    struct engine *e = engine.model->shard->engine;
    exec_unref(&e->persistent.exec);
    assert_int_equal(persistent_create(engine.device, &e->plan, true, &e->persistent), DGL_OK);
    ops = *e->persistent.ops;
    if (engine.device->info.software)
        ops.probe = probe_one;
    e->persistent.ops = &ops;
    e->wanted = wanted;
    if (wanted == DGL_EXECUTOR_DISPATCH)
        exec_unref(&e->persistent.exec);
    memset(e->choice, 0, sizeof(e->choice));
    e->last = NULL;
    engine.model->shard->engine_serial++;
}

static struct dgl_generate_result answer_to(const int32_t *ids, size_t count)
{
    return tiny_generate(engine.session,
                         dgl_generate_params(.ids = ids, .num_ids = count, .max_tokens = ANSWER,
                                             .ignore_eos = true, .readback_interval = INTERVAL));
}

static struct dgl_generate_result answer(void)
{
    dgl_session_trim(engine.session, 0);
    return answer_to(prompt, PROMPT);
}

/* Continues the conversation. If `faster` is set, persistent dispatches appear so fast that steps
 * also read prompts. */
static struct dgl_generate_result go_on(const struct dgl_generate_result *first, bool faster)
{
    struct exec_record *record =
        &engine_choice(engine.model->shard->engine, recipe_decode(SAMPLE_GREEDY, 0, true))->record;
    int32_t ids[PROMPT + ANSWER + MORE];
    record->dispatch_ns = faster ? 10 * record->persistent_ns + 10 : 0;
    record->persistent_ns += faster;
    memcpy(ids, prompt, sizeof(prompt));
    memcpy(ids + PROMPT, first->tokens, ANSWER * sizeof(*ids));
    memcpy(ids + PROMPT + ANSWER, prompt, MORE * sizeof(*ids));
    return answer_to(ids, PROMPT + ANSWER + MORE);
}

/* If the driver compiles in the background, single dispatches answer until it is done. */
static void wait_for_program(void)
{
    struct dgl_executor_info info = {0};
    for (int i = 0; i < 6000; i++) {
        struct dgl_generate_result r = answer();
        dgl_generate_result_finish(&r);
        dgl_model_executor(engine.model, &info);
        if (!strstr(info.reason, "is being compiled"))
            return;
        usleep(10000);
    }
    fail_msg("still: %s", info.reason);
}

/* An answer with the persistent executor forced: the program is compiled in the background and
 * used, and the tokens equal those of single dispatches, also if its steps evaluate the end of a
 * prompt. Returns the number of dispatches of the answer. */
static uint64_t compare(void)
{
    struct dgl_generate_result r[2] = {0}, next[2] = {0};
    struct dgl_executor_info info = {.size = sizeof(info)};
    for (int i = 0; i < 2; i++) {
        use(i ? DGL_EXECUTOR_PERSISTENT : DGL_EXECUTOR_DISPATCH);
        if (i)
            wait_for_program();
        r[i] = answer();
        next[i] = go_on(&r[i], i == 1);
        assert_int_equal(next[i].prefill.tokens, 1 + MORE);
    }
    dgl_model_executor(engine.model, &info);
    printf("# %s\n", info.reason);
    assert_string_equal(info.name, "persistent");
    tiny_same_tokens(&r[0], &r[1]);
    tiny_same_tokens(&next[0], &next[1]);
    const uint64_t dispatches = r[1].decode.dispatches, steps = ANSWER - 1;
    const uint64_t parts = dispatches >= steps ? dispatches / steps : 1;
    assert_int_equal(next[1].prefill.dispatches, (1 + MORE) * parts);
    assert_int_equal(next[1].prefill.readbacks, 1);
    assert_at_most((double)next[1].prefill.submits, 3);
    for (int i = 0; i < 2; i++) {
        dgl_generate_result_finish(&r[i]);
        dgl_generate_result_finish(&next[i]);
    }
    return dispatches;
}

static void test_tokens(void **state)
{
    (void)state;
    struct dgl_executor_info info = {.size = sizeof(info)};
    open_engine(&(struct tiny_engine_params){0});
    assert_int_equal(compare(), (ANSWER - 1 + INTERVAL - 1) / INTERVAL);
    dgl_model_executor(engine.model, &info);
    assert_null(strstr(info.reason, "a token takes"));
}

/* More buffers than a dispatch can bind: each token needs several dispatches, which is reported. */
static void test_parts(void **state)
{
    (void)state;
    struct dgl_executor_info info = {.size = sizeof(info)};
    struct tiny_llama sizes = tiny_llama_default();
    sizes.intermediate = 512; /* the gates of a layer fill a buffer */
    open_engine(
        &(struct tiny_engine_params){.sizes = &sizes, .bindings = 8, .binding_bytes = PART_BYTES});
    const uint64_t dispatches = compare();
    dgl_model_executor(engine.model, &info);
    const char *told = strstr(info.reason, "a token takes ");
    assert_non_null(told);
    const int parts = atoi(told + strlen("a token takes "));
    assert_true(parts > 1);
    assert_int_equal(dispatches, (ANSWER - 1) * parts);
    assert_contains(info.reason, "storage bindings and 8 can be had");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_tokens, tear_down),
                                       cmocka_unit_test_teardown(test_parts, tear_down)};
    return cmocka_run_group_tests_name("persistent", tests, NULL, NULL);
}
