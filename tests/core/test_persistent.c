/* The whole persistent executor on any device: with one work group a dispatch of all phases and
 * several tokens needs no other, so that software renderers run it too. */
#include "tests/support/tiny_engine.h"

#include "core/exec/phases.h"
#include "core/seq/session.h"

#define PROMPT 5

static struct tiny_engine engine;
static int32_t prompt[PROMPT];
static struct persistent_ops ops; /* the executor's own, but for the probe */

/* Kernels that are quick to compile, all of a step in one program. llvmpipe ends the loops of an
 * invocation after 65,535 rounds: two tokens are what these take. */
static const char small[] =
    "{\"variants\":{\"matmul/decode\":\"matmul_decode\",\"attn_decode\":\"attn_decode\"}}";
#define INTERVAL 2

/* A GPU is asked; a software renderer gets the one group that cannot wait for others. */
static enum dgl_status probe_one(struct exec_run *run, struct residency *out)
{
    (void)run;
    *out = (struct residency){.groups = 1};
    return DGL_OK;
}

static int set_up(void **state)
{
    (void)state;
    struct dgl_kernels *kernels = NULL;
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = small), &kernels),
                     DGL_OK);
    tiny_engine_open(&engine, &(struct tiny_engine_params){.kernels = kernels});
    dgl_kernels_destroy(&kernels);
    tiny_ids(prompt, PROMPT, 320, 7);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_engine_close(&engine);
    return 0;
}

static void use(enum dgl_executor wanted)
{
    struct engine *e = engine.model->engine;
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
    engine.model->engine_serial++;
}

/* A forced answer: the program is compiled aside, taken, and gives the tokens of dispatches. */
static void test_tokens(void **state)
{
    (void)state;
    struct dgl_generate_result r[2];
    struct dgl_executor_info info;
    for (int i = 0; i < 2; i++) {
        use(i ? DGL_EXECUTOR_PERSISTENT : DGL_EXECUTOR_DISPATCH);
        dgl_session_trim(engine.session, 0);
        r[i] = tiny_generate(
            engine.session, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = 14,
                                                .ignore_eos = true, .readback_interval = INTERVAL));
    }
    dgl_model_executor(engine.model, &info);
    assert_string_equal(info.name, "persistent");
    assert_int_equal(r[1].decode.dispatches, (13 + INTERVAL - 1) / INTERVAL);
    tiny_same_tokens(&r[0], &r[1]);
    dgl_generate_result_finish(&r[0]);
    dgl_generate_result_finish(&r[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokens)};
    return cmocka_run_group_tests_name("persistent", tests, set_up, tear_down);
}
