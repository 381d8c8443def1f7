/* From operations to dispatches: shapes in the plan, programs shared by equal requests, barriers,
 * group counts, split attention. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

#define PROMPT 100
/* Enough tokens for the programs of prefill, also on software renderers. */
#define ANSWERED 20
#define ANSWER   12

static char *dir;
static int32_t prompt[PROMPT];

static void open_engine(struct tiny_engine *e)
{
    tiny_engine_open(e, &(struct tiny_engine_params){.path = dir});
}

/* ---- shapes ---------------------------------------------------------------------------------- */

struct shape {
    const char *name, *op;
    enum dgl_phase phase;
    const char *shape; /* as shown */
};

static const struct shape shapes[] = {
    {"embedding", "embed", DGL_PHASE_DECODE, "H=64 bf16"},
    {"norm", "ffn_norm", DGL_PHASE_PREFILL, "H=64"},
    {"qkv", "qkv", DGL_PHASE_DECODE, "N=128 K=64 bf16"},
    {"qkv of prefill", "qkv", DGL_PHASE_PREFILL, "N=128 K=64 bf16"},
    {"rope_kv", "rope_kv", DGL_PHASE_PREFILL, "HEADS=4 KV_HEADS=2 HEAD_DIM=16 f16"},
    {"attention of prefill", "attn_prefill", DGL_PHASE_PREFILL,
     "HEADS=4 KV_HEADS=2 HEAD_DIM=16 f16"},
    {"o", "o", DGL_PHASE_DECODE, "N=64 K=64 bf16"},
    {"gate and up", "gate_up", DGL_PHASE_DECODE, "N=192 K=64 bf16"},
    {"down", "down", DGL_PHASE_DECODE, "N=64 K=96 bf16"},
    {"head", "head", DGL_PHASE_DECODE, "N=320 K=64 bf16"},
    {"sampling", "sample_max", DGL_PHASE_SAMPLE, "VOCAB=320"},
};

struct search {
    const struct shape *row;
    size_t found;
};

static bool compare_shape(void *priv, const struct dgl_plan_step *step)
{
    struct search *s = priv;
    if (strcmp(step->op, s->row->op) == 0 && step->phase == s->row->phase) {
        assert_string_equal(step->shape, s->row->shape);
        s->found++;
    }
    return true;
}

static void test_shape(void **state)
{
    struct tiny_engine e;
    struct search s = {.row = *state};
    gl_fail_reset();
    open_engine(&e);
    dgl_model_plan_iterate(e.model, compare_shape, &s);
    assert_true(s.found > 0);
    tiny_engine_close(&e);
}

/* As one operation if the device has subgroups, with up to two groups per unit. */
static void test_attention_shows_its_splits(void **state)
{
    (void)state;
    static const struct shape rows[] = {
        {NULL, "attn_decode", DGL_PHASE_DECODE, "HEADS=4 KV_HEADS=2 HEAD_DIM=16 SPLITS=8 f16"},
        {NULL, "attn_token", DGL_PHASE_DECODE, "HEADS=4 KV_HEADS=2 HEAD_DIM=16 SPLITS=16 f16"}};
    struct tiny_engine e;
    struct search s[] = {{.row = &rows[0]}, {.row = &rows[1]}};
    gl_fail.gpu_units = 16;
    open_engine(&e);
    for (int i = 0; i < 2; i++)
        dgl_model_plan_iterate(e.model, compare_shape, &s[i]);
    assert_int_equal(s[0].found + s[1].found, 2);
    assert_true(s[0].found == 0 || s[1].found == 0);
    tiny_engine_close(&e);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void test_layers_share_programs(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e);
    const struct plan *plan = &e.model->shard->engine->plan;
    const struct body *decode = plan_body(plan, PASS_DECODE);
    size_t per_layer = (decode->ops.count - 1) / 2;
    for (size_t i = 0; i < per_layer; i++)
        assert_ptr_equal(decode->use[1 + i], decode->use[1 + per_layer + i]);
    for (size_t i = 0; i < plan->kernels.count; i++) {
        assert_int_equal(plan->kernels.uses[i]->id, i);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(plan->kernels.uses[i], plan->kernels.uses[j]);
    }
    tiny_engine_close(&e);
}

static void test_nothing_is_compiled_before_it_is_needed(void **state)
{
    (void)state;
    struct tiny_engine e;
    int32_t out[2];
    open_engine(&e);
    struct dgl_counters before, after;
    dgl_device_get_counters(e.device, &before);
    tiny_sync(e.session, prompt, 5);
    dgl_device_get_counters(e.device, &after);
    assert_true(after.programs_linked > before.programs_linked);
    const struct engine *engine = e.model->shard->engine;
    const struct body *full = plan_body(&engine->plan, PASS_SAMPLE(SAMPLE_FULL));
    for (size_t i = 1; i < full->ops.count; i++)
        assert_null(engine->programs.program[full->use[i]->id]);
    tiny_greedy(e.session, prompt, 5, out, 2);
    dgl_device_get_counters(e.device, &before);
    tiny_greedy(e.session, prompt, 5, out, 2);
    dgl_device_get_counters(e.device, &after);
    assert_int_equal(after.programs_linked - before.programs_linked, 0);
    tiny_engine_close(&e);
}

/* ---- barriers -------------------------------------------------------------------------------- */

/* The operations of a greedy step, after three of them. */
static const struct exec_run *greedy_run(struct tiny_engine *e)
{
    int32_t out[3];
    open_engine(e);
    tiny_greedy(e->session, prompt, ANSWERED, out, 3);
    bool several = session_readback_interval(e->session) > 1;
    const struct exec_run *run = exec_cache_find(&e->session->state.runner.runs->dispatch,
                                                 recipe_decode(SAMPLE_GREEDY, 0, several));
    assert_non_null(run);
    return run;
}

/* Every operation of a layer reads the results of the previous operation. */
static void test_each_dependency_has_its_barrier(void **state)
{
    (void)state;
    struct tiny_engine e;
    const struct exec_run *run = greedy_run(&e);
    const struct gl_dispatch *list = exec_dispatch_list(run);
    for (size_t i = 0; i < run->count; i++)
        if (list[i].barrier == 0)
            fail_msg("no barrier before %s", run->ops[i].op->label);
    const struct exec_run *prefill = exec_cache_find(
        &e.session->state.runner.runs->dispatch,
        recipe_of(plan_pass_shape(&e.session->model->shard->engine->plan, ANSWERED)));
    assert_non_null(prefill);
    list = exec_dispatch_list(prefill);
    assert_int_equal(list[0].barrier, 0); /* not replayed after itself */
    for (size_t i = 1; i < prefill->count; i++)
        if (list[i].barrier == 0)
            fail_msg("no barrier before %s of prefill", prefill->ops[i].op->label);
    tiny_engine_close(&e);
}

static void test_every_bind_has_a_buffer(void **state)
{
    (void)state;
    struct tiny_engine e;
    const struct exec_run *run = greedy_run(&e);
    const struct gl_dispatch *list = exec_dispatch_list(run);
    for (size_t i = 0; i < run->count; i++) {
        const struct gl_dispatch *d = &list[i];
        assert_int_equal(d->num_storage, run->ops[i].use->choice.kernel->num_binds);
        for (int j = 0; j < d->num_storage; j++) {
            assert_non_null(d->storage[j].buffer);
            assert_true(d->storage[j].offset + d->storage[j].size <=
                        gl_buffer_size(d->storage[j].buffer));
            assert_int_equal(d->storage[j].offset % dgl_device_get_limits(e.device)->ssbo_align, 0);
        }
        assert_true(d->groups[0] > 0 && d->groups[1] > 0 && d->groups[2] > 0);
    }
    tiny_engine_close(&e);
}

/* ---- attention in parts ---------------------------------------------------------------------- */

struct split {
    const char *name;
    uint32_t units, splits;
    size_t prompt;
};

static const struct split splits[] = {
    {"2 parts of a long cache", 4, 2, PROMPT},
    {"8 parts of a long cache", 16, 8, PROMPT},
    {"32 parts of a long cache", 1000, 32, PROMPT},
    {"32 parts of three tokens", 1000, 32, 3},
    {"8 parts of one token", 16, 8, 1},
};

/* Logits after the prompt and an answer token by token. */
static float *decode_logits(size_t count, int32_t out[ANSWER], uint32_t *parts)
{
    struct tiny_engine e;
    open_engine(&e);
    *parts = e.model->shard->engine->plan.splits;
    tiny_greedy(e.session, prompt, count, out, ANSWER);
    float *logits = tiny_logits(e.session);
    tiny_engine_close(&e);
    return logits;
}

static void test_split(void **state)
{
    const struct split *row = *state;
    int32_t want[ANSWER], got[ANSWER];
    uint32_t parts;
    gl_fail_reset();
    float *whole = decode_logits(row->prompt, want, &parts);
    gl_fail.gpu_units = row->units;
    float *split = decode_logits(row->prompt, got, &parts);
    gl_fail_reset();
    assert_int_equal(parts, row->splits);
    assert_memory_equal(got, want, sizeof(want));
    assert_at_most(tiny_nmse(split, whole, 320), 1e-7);
    free(whole);
    free(split);
}

static void test_intervals_agree_in_parts(void **state)
{
    (void)state;
    struct tiny_engine e;
    gl_fail.gpu_units = 16;
    open_engine(&e);
    struct dgl_generate_result a =
        tiny_generate(e.session, dgl_generate_params(.ids = prompt, .num_ids = 20, .max_tokens = 30,
                                                     .ignore_eos = true, .readback_interval = 1));
    struct dgl_generate_result b =
        tiny_generate(e.session, dgl_generate_params(.ids = prompt, .num_ids = 20, .max_tokens = 30,
                                                     .ignore_eos = true, .readback_interval = 8));
    tiny_same_tokens(&a, &b);
    dgl_generate_result_finish(&a);
    dgl_generate_result_finish(&b);
    tiny_engine_close(&e);
}

/* A measurement decodes by the recipe of generation: on hardware too, where it has several
 * steps. */
static void test_bench_runs_the_recipe_of_generation(void **state)
{
    (void)state;
    for (int software = 0; software < 2; software++) {
        struct tiny_engine e;
        struct dgl_bench_result r = {.size = sizeof(r)};
        open_engine(&e);
        e.device->info.software = software;
        assert_int_equal(
            dgl_bench(e.session,
                      dgl_bench_params(.prompt_tokens = 4, .decode_tokens = 10, .repetitions = 1),
                      &r),
            DGL_OK);
        dgl_bench_result_finish(&r);
        const struct exec_cache *runs = &e.session->state.runner.runs->dispatch;
        const struct exec_run *several =
            exec_cache_find(runs, recipe_decode(SAMPLE_GREEDY, 0, true));
        const struct exec_run *one = exec_cache_find(runs, recipe_decode(SAMPLE_GREEDY, 0, false));
        assert_true((several != NULL) == !software);
        assert_true((one != NULL) == (software != 0));
        tiny_engine_close(&e);
    }
}

/* Hardware reads several ids back at a time by default. */
static void test_default_interval_of_hardware(void **state)
{
    (void)state;
    struct tiny_engine e;
    int32_t out[20];
    gl_fail.gpu_units = 16;
    open_engine(&e);
    e.device->info.software = false;
    tiny_greedy(e.session, prompt, 5, out, 20);
    const struct exec_cache *runs = &e.session->state.runner.runs->dispatch;
    assert_non_null(exec_cache_find(runs, recipe_decode(SAMPLE_GREEDY, 0, true)));
    assert_null(exec_cache_find(runs, recipe_decode(SAMPLE_GREEDY, 0, false)));
    tiny_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_attention_shows_its_splits, gl_fail_setup),
        cmocka_unit_test_setup(test_layers_share_programs, gl_fail_setup),
        cmocka_unit_test_setup(test_nothing_is_compiled_before_it_is_needed, gl_fail_setup),
        cmocka_unit_test_setup(test_each_dependency_has_its_barrier, gl_fail_setup),
        cmocka_unit_test_setup(test_every_bind_has_a_buffer, gl_fail_setup),
        cmocka_unit_test_setup(test_intervals_agree_in_parts, gl_fail_setup),
        cmocka_unit_test_setup(test_default_interval_of_hardware, gl_fail_setup),
        cmocka_unit_test_setup(test_bench_runs_the_recipe_of_generation, gl_fail_setup),
    };
    struct tiny_llama sizes = tiny_llama_default();
    dir = test_tmpdir();
    tiny_llama_write(dir, &sizes);
    tiny_ids(prompt, PROMPT, 320, 21);
    int failures = test_run_table("shapes", test_shape, shapes);
    failures += test_run_table("splits", test_split, splits);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    test_tmpdir_remove(dir);
    return failures;
}
