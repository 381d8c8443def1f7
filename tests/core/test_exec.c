/* Runs of an executor and their cache, on a recorder without a device. Also tests that the dispatch
 * executor handles a plan like the recorder does. */
#include "tests/support/kernel_sets.h"

#include <stdlib.h>

#include "core/exec/exec.h"
#include "core/seq/session.h"
#include "tests/support/planned.h"
#include "tests/support/recorder.h"
#include "tests/support/tiny_engine.h"

#define CONFIG "tests/models/configs/llama-3.2-1b.json"

/* A plan on a device in numbers, a recorder for it, and an empty cache. */
struct fixture {
    struct planned p;
    struct recorder recorder;
    struct exec_cache cache;
    struct memory memory; /* leads nowhere: a recorder keeps references */
};

static struct kernel_set *builtin;

static void fixture_open(struct fixture *f)
{
    *f = (struct fixture){0};
    planned_open(&f->p, &(struct shape_model_params){.config = CONFIG, .quantize = "q4_k_m"},
                 MADE_GPU, builtin);
    recorder_init(&f->recorder, &f->p.plan);
}

static void fixture_close(struct fixture *f)
{
    exec_cache_clear(&f->cache);
    assert_int_equal(f->recorder.live, 0);
    recorder_finish(&f->recorder);
    planned_close(&f->p);
}

static enum dgl_status get(struct fixture *f, struct recipe recipe, struct exec_run **out)
{
    return exec_cache_get(&f->cache, f->recorder.exec, recipe, &f->memory, out);
}

/* ---- recipes --------------------------------------------------------------------------------- */

enum recipe_kind { PART, SAMPLING, DECODE };

struct recipe_case {
    const char *name;
    enum recipe_kind kind;
    int value; /* enum sample_kind */
    bool adjusts;
    bool several;
    bool repeats;
    struct pass_shape want[6]; /* in order */
    size_t num_want;
};

static const struct recipe_case recipes[] = {
    {"a prompt", PART, 0, false, false, false, {PASS_PREFILL}, 1},
    {"one token", PART, 0, false, false, false, {PASS_DECODE}, 1},
    {"the head", PART, 0, false, false, false, {PASS_HEAD}, 1},
    {"hidden states", PART, 0, false, false, false, {PASS_HIDDEN}, 1},
    {"scores", PART, 0, false, false, false, {PASS_SCORE}, 1},
    {"greedy", SAMPLING, SAMPLE_GREEDY, false, false, false, {PASS_SAMPLE(SAMPLE_GREEDY)}, 1},
    {"adjustments, then greedy",
     SAMPLING,
     SAMPLE_GREEDY,
     true,
     false,
     false,
     {PASS_ADJUST, PASS_SAMPLE(SAMPLE_GREEDY)},
     2},
    {"top k", SAMPLING, SAMPLE_TOPK, false, false, false, {PASS_SAMPLE(SAMPLE_TOPK)}, 1},
    {"adjustments, then all",
     SAMPLING,
     SAMPLE_FULL,
     true,
     false,
     false,
     {PASS_ADJUST, PASS_SAMPLE(SAMPLE_FULL)},
     2},
    {"adjustments, then top k",
     SAMPLING,
     SAMPLE_TOPK,
     true,
     false,
     false,
     {PASS_ADJUST, PASS_SAMPLE(SAMPLE_TOPK)},
     2},
    {"a greedy step",
     DECODE,
     SAMPLE_GREEDY,
     false,
     false,
     true,
     {PASS_DECODE, PASS_HEAD, PASS_SAMPLE(SAMPLE_GREEDY)},
     3},
    {"one of several greedy steps",
     DECODE,
     SAMPLE_GREEDY,
     false,
     true,
     true,
     {PASS_DECODE, PASS_HEAD, PASS_SAMPLE(SAMPLE_GREEDY)}, /* which ends the batch too */
     3},
    {"a step of top k with adjustments",
     DECODE,
     SAMPLE_TOPK,
     true,
     false,
     true,
     {PASS_DECODE, PASS_HEAD, PASS_ADJUST, PASS_SAMPLE(SAMPLE_TOPK)},
     4},
    {"one of several steps of all with adjustments",
     DECODE,
     SAMPLE_FULL,
     true,
     true,
     true,
     {PASS_DECODE, PASS_HEAD, PASS_ADJUST, PASS_SAMPLE(SAMPLE_FULL), PASS_EARLY_EXIT},
     5},
};
#define NUM_RECIPES (sizeof(recipes) / sizeof(recipes[0]))

static struct recipe recipe_of_case(const struct recipe_case *row)
{
    switch (row->kind) {
    case PART:
        return recipe_of(row->want[0]);
    case SAMPLING:
        return recipe_sampling((enum sample_kind)row->value, row->adjusts);
    case DECODE:
        break;
    }
    return recipe_decode((enum sample_kind)row->value, row->adjusts, row->several);
}

/* One step contains the operations of the parts in order, with their bindings, and with the
 * number of operations if one needs it. Two steps contain this twice. */
static void test_recipe(void **state)
{
    const struct recipe_case *row = *state;
    struct recipe recipe = recipe_of_case(row);
    struct fixture f;
    struct exec_run *run;
    size_t at = 0, counted = 0;
    bool counts = row->several;
    fixture_open(&f);
    assert_int_equal(recipe.repeats, row->repeats);
    assert_int_equal(get(&f, recipe, &run), DGL_OK);
    assert_int_equal(exec_run_submit(run, 2, NULL), DGL_OK);
    for (int step = 0; step < 2; step++) {
        for (size_t s = 0; s < row->num_want; s++) {
            const struct body *body = plan_body(&f.p.plan, row->want[s]);
            assert_true(body->ops.count > 0);
            counts |= body->ends_batch;
            for (size_t i = 0; i < body->ops.count; i++, at++) {
                const struct op *op = &body->ops.ops[i];
                assert_true(at < f.recorder.count);
                const struct recorded_op *rec = &f.recorder.ops[at];
                const struct kernel *kernel = body->use[i]->choice.kernel;
                uint32_t groups[3];
                if (strcmp(rec->label, op->label) != 0)
                    fail_msg("operation %zu is %s, wanted %s", at, rec->label, op->label);
                assert_ptr_equal(rec->use, body->use[i]);
                assert_int_equal(
                    kernel_use_groups(&f.p.device, rec->use, 1, op_weight_rows(op), groups),
                    DGL_OK);
                assert_memory_equal(rec->groups, groups, sizeof(groups));
                assert_int_equal(rec->num_refs, kernel->num_binds);
                for (uint32_t j = 0; j < kernel->num_binds; j++)
                    assert_memory_equal(&rec->refs[j],
                                        &op_find_bind(op, kernel->binds[j].name)->ref,
                                        sizeof(rec->refs[j]));
                for (uint32_t j = 0; j < kernel->num_params; j++) {
                    if (!op_find_param(op, kernel->params[j].name)->is_op_count)
                        continue;
                    assert_int_equal(rec->params[j], run->count);
                    counted++;
                }
            }
        }
    }
    assert_int_equal(f.recorder.count, at);
    assert_int_equal(run->count * 2, at);
    assert_int_equal(counted, counts ? 2 : 0);
    fixture_close(&f);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static const struct recorded_op *recorded(const struct recorder *r, const char *label)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->ops[i].label, label) == 0)
            return &r->ops[i];
    fail_msg("no %s was submitted", label);
    return NULL;
}

static void test_groups_follow_the_tokens(void **state)
{
    (void)state;
    static const int32_t passes[] = {5, 1, 64, 65, 512};
    struct fixture f;
    struct exec_run *run;
    fixture_open(&f);
    assert_int_equal(get(&f, recipe_of(PASS_PREFILL), &run), DGL_OK);
    assert_int_equal(run->tokens, 1);
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        int32_t tokens = passes[i];
        uint32_t before = f.recorder.regrouped;
        recorder_clear(&f.recorder);
        assert_int_equal(exec_run_set_tokens(run, tokens), DGL_OK);
        assert_int_equal(exec_run_set_tokens(run, tokens), DGL_OK); /* no work to do */
        assert_int_equal(f.recorder.regrouped, before + 1);
        assert_int_equal(exec_run_submit(run, 1, NULL), DGL_OK);
        assert_int_equal(run->tokens, tokens);
        assert_int_equal(recorded(&f.recorder, "attn_norm")->groups[0], tokens);
        for (size_t j = 0; j < run->count; j++) {
            const struct exec_op *e = &run->ops[j];
            uint32_t groups[3];
            assert_int_equal(
                kernel_use_groups(&f.p.device, e->use, tokens, op_weight_rows(e->op), groups),
                DGL_OK);
            assert_memory_equal(f.recorder.ops[j].groups, groups, sizeof(groups));
        }
    }
    fixture_close(&f);
}

/* More tokens than a dispatch has groups for: refused, and the run serves fewer afterwards. */
static void test_too_many_tokens(void **state)
{
    (void)state;
    struct fixture f;
    struct exec_run *run;
    fixture_open(&f);
    assert_int_equal(get(&f, recipe_of(PASS_PREFILL), &run), DGL_OK);
    assert_int_equal(exec_run_set_tokens(run, 4), DGL_OK);
    uint32_t before = f.recorder.regrouped;
    assert_int_equal(exec_run_set_tokens(run, INT32_MAX), DGL_ERR_KERNEL);
    assert_contains(f.p.log.text, "comes to 2147483647 with T=2147483647");
    assert_int_equal(f.recorder.regrouped, before);
    assert_int_equal(run->tokens, 0);
    assert_int_equal(exec_run_set_tokens(run, 4), DGL_OK);
    assert_int_equal(exec_run_submit(run, 1, NULL), DGL_OK);
    assert_int_equal(recorded(&f.recorder, "attn_norm")->groups[0], 4);
    fixture_close(&f);
}

/* ---- cache ----------------------------------------------------------------------------------- */

static void test_cache_has_a_run_per_recipe(void **state)
{
    (void)state;
    struct fixture f;
    struct exec_run *runs[NUM_RECIPES], *again;
    fixture_open(&f);
    for (size_t i = 0; i < NUM_RECIPES; i++) {
        assert_null(exec_cache_find(&f.cache, recipe_of_case(&recipes[i])));
        assert_int_equal(get(&f, recipe_of_case(&recipes[i]), &runs[i]), DGL_OK);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(runs[i], runs[j]);
    }
    for (size_t i = 0; i < NUM_RECIPES; i++) {
        assert_int_equal(get(&f, recipe_of_case(&recipes[i]), &again), DGL_OK);
        assert_ptr_equal(again, runs[i]);
        assert_ptr_equal(exec_cache_find(&f.cache, recipe_of_case(&recipes[i])), runs[i]);
    }
    assert_int_equal(f.cache.count, NUM_RECIPES);
    assert_int_equal(f.recorder.compiled, NUM_RECIPES);
    assert_int_equal(f.recorder.bound, NUM_RECIPES);
    assert_int_equal(f.recorder.exec->refs, 1 + NUM_RECIPES);
    exec_cache_clear(&f.cache);
    assert_int_equal(f.recorder.destroyed, NUM_RECIPES);
    assert_int_equal(f.recorder.live, 0);
    assert_int_equal(f.recorder.exec->refs, 1);
    assert_null(exec_cache_find(&f.cache, recipe_of_case(&recipes[0])));
    exec_cache_clear(&f.cache);
    assert_int_equal(f.recorder.destroyed, NUM_RECIPES);
    fixture_close(&f);
}

/* A run that is submitted after itself needs other barriers. */
static void test_repeating_is_part_of_the_recipe(void **state)
{
    (void)state;
    struct fixture f;
    struct exec_run *once, *repeated;
    struct recipe recipe = recipe_decode(SAMPLE_GREEDY, 0, false);
    fixture_open(&f);
    assert_int_equal(get(&f, recipe, &repeated), DGL_OK);
    recipe.repeats = false;
    assert_int_equal(get(&f, recipe, &once), DGL_OK);
    assert_ptr_not_equal(once, repeated);
    assert_int_equal(once->count, repeated->count);
    fixture_close(&f);
}

/* ---- faults ---------------------------------------------------------------------------------- */

struct fault {
    const char *name;
    bool compile, groups, bind;
    enum dgl_status status;
    const char *message;
};

static const struct fault faults[] = {
    {"compiling", true, false, false, DGL_ERR_KERNEL, "compiling fails"},
    {"grouping", false, true, false, DGL_ERR_KERNEL, ": wanted 1 to 0"},
    {"binding", false, false, true, DGL_ERR_NO_MEMORY, "binding fails"},
};

/* After a fault no object is left, no run is cached and other runs stay. Without the fault it
 * works. */
static void test_fault(void **state)
{
    const struct fault *row = *state;
    const struct recipe recipe = recipe_decode(SAMPLE_GREEDY, 0, false);
    struct fixture f;
    struct exec_run *head, *run;
    fixture_open(&f);
    assert_int_equal(get(&f, recipe_of(PASS_HEAD), &head), DGL_OK);
    const uint32_t max_groups = f.p.device.limits.max_groups[0];
    f.recorder.fail_compile = row->compile;
    f.recorder.fail_bind = row->bind;
    if (row->groups)
        f.p.device.limits.max_groups[0] = 0;
    run = head;
    assert_int_equal(get(&f, recipe, &run), row->status);
    assert_null(run);
    assert_int_equal(f.p.log.errors, 1);
    assert_contains(f.p.log.text, row->message);
    assert_int_equal(f.recorder.live, 1);
    assert_int_equal(f.recorder.destroyed, 1);
    assert_int_equal(f.recorder.exec->refs, 2);
    assert_int_equal(f.cache.count, 1);
    assert_null(exec_cache_find(&f.cache, recipe));
    assert_ptr_equal(exec_cache_find(&f.cache, recipe_of(PASS_HEAD)), head);
    f.recorder.fail_compile = f.recorder.fail_bind = false;
    f.p.device.limits.max_groups[0] = max_groups;
    assert_int_equal(get(&f, recipe, &run), DGL_OK);
    assert_int_equal(exec_run_submit(run, 1, NULL), DGL_OK);
    assert_int_equal(f.recorder.count, run->count);
    fixture_close(&f);
}

static void test_failing_submit(void **state)
{
    (void)state;
    struct fixture f;
    struct exec_run *run;
    fixture_open(&f);
    assert_int_equal(get(&f, recipe_of(PASS_HEAD), &run), DGL_OK);
    f.recorder.fail_submit = true;
    assert_int_equal(exec_run_submit(run, 1, NULL), DGL_ERR_DEVICE_LOST);
    assert_int_equal(f.recorder.count, 0);
    fixture_close(&f);
}

/* ---- profiles -------------------------------------------------------------------------------- */

struct told {
    size_t ops;
    uint64_t end_ns;
};

static void tell(void *priv, const struct dgl_event *event)
{
    struct told *told = priv;
    assert_int_equal(event->kind, DGL_EVENT_OP);
    assert_int_equal(event->duration_ns, 70);
    if (told->ops++ > 0)
        /* the time of the timer belongs to no operation */
        assert_int_equal(event->start_ns, told->end_ns + 30);
    told->end_ns = event->start_ns + event->duration_ns;
}

/* A profile uses the times that the executor reports, for any executor. */
static void test_profile_asks_the_executor(void **state)
{
    (void)state;
    struct fixture f;
    struct exec_run *run;
    struct told told = {0};
    uint64_t sum = 5, calls = 0, gpu_ns = 0, bytes = 0, want = 0;
    fixture_open(&f);
    struct dgl_device dev = {.log = f.p.plan.device->log, .trace = tell, .trace_priv = &told};
    struct profile profile = {.dev = &dev, .sums.timer_ns = 30};
    struct dgl_profile *sums = &profile.sums;
    assert_int_equal(get(&f, recipe_of(PASS_DECODE), &run), DGL_OK);
    f.recorder.gpu_ns = 100;
    struct profile_pass pass = {.phase = DGL_PHASE_DECODE, .sequences = 1, .held = 9};
    assert_int_equal(profile_run(&profile, run, &pass, &sum), DGL_OK);
    assert_int_equal(sum, 5 + 70 * run->count); /* without the cost of timers */
    assert_int_equal(told.ops, run->count);
    for (size_t i = 0; i < sums->num_entries; i++) {
        assert_true(sums->entries[i].timed);
        assert_int_equal(sums->entries[i].phase, DGL_PHASE_DECODE);
        calls += sums->entries[i].calls;
        gpu_ns += sums->entries[i].gpu_ns;
        bytes += sums->entries[i].bytes;
    }
    assert_int_equal(calls, run->count);
    assert_int_equal(gpu_ns, 70 * run->count);
    for (size_t i = 0; i < run->count; i++)
        want += run->ops[i].op->bytes;
    assert_int_equal(bytes,
                     want + (uint64_t)f.p.plan.desc->layers * plan_kv_layer_bytes(&f.p.plan, 9));
    /* One unknown time makes the sum unknown. */
    f.recorder.gpu_ns = 0;
    pass.held = 10;
    assert_int_equal(profile_run(&profile, run, &pass, &sum), DGL_OK);
    assert_int_equal(told.ops, run->count);
    for (size_t i = 0; i < sums->num_entries; i++)
        assert_true(!sums->entries[i].timed && sums->entries[i].gpu_ns == 0);
    profile_sums_finish(sums);
    fixture_close(&f);
}

static const struct kv_read {
    const char *name;
    int32_t window, rows, held, tokens; /* tokens: whose keys and values are read */
} kv_reads[] = {
    {"all", 0, 1, 9, 9},
    {"a window", 3, 1, 9, 3},
    {"a window not yet full", 8, 1, 5, 5},
    {"a pass", 0, 4, 9, 9},
    {"windows of a pass", 3, 4, 9, 6},
    {"windows of a first pass", 3, 4, 4, 4},
};

static void test_kv_read(void **state)
{
    const struct kv_read *row = *state;
    struct fixture f;
    fixture_open(&f);
    f.p.plan.desc->layer[1].window = row->window;
    assert_int_equal(plan_kv_read_bytes(&f.p.plan, 1, row->rows, row->held),
                     plan_kv_layer_bytes(&f.p.plan, row->tokens));
    fixture_close(&f);
}

/* When kernels are replaced, the engine is destroyed first. */
static void test_runs_outlive_their_plan(void **state)
{
    (void)state;
    struct fixture f;
    struct exec_run *run;
    fixture_open(&f);
    assert_int_equal(get(&f, recipe_of(PASS_HEAD), &run), DGL_OK);
    assert_int_equal(get(&f, recipe_of(PASS_DECODE), &run), DGL_OK);
    assert_int_equal(f.recorder.exec->refs, 3);
    exec_unref(&f.recorder.exec);
    assert_null(f.recorder.exec);
    planned_close(&f.p);
    assert_int_equal(f.recorder.destroyed, 0);
    exec_cache_clear(&f.cache);
    assert_int_equal(f.recorder.destroyed, 2);
    assert_int_equal(f.recorder.live, 0);
    recorder_finish(&f.recorder);
}

/* ---- the dispatch executor ------------------------------------------------------------------- */

/* Record by record: program, groups, ranges of the references, parameter blocks. */
static void compare_runs(const struct tiny_engine *e, const struct exec_run *run,
                         const struct recorder *rec)
{
    const struct gl_dispatch *list = exec_dispatch_list(run);
    const struct memory *memory = &e->session->state.memory;
    assert_int_equal(rec->count, run->count);
    for (size_t i = 0; i < run->count; i++) {
        const struct gl_dispatch *d = &list[i];
        const struct recorded_op *op = &rec->ops[i];
        uint32_t params[KERNEL_MAX_PARAMS];
        if (strcmp(run->ops[i].op->label, op->label) != 0)
            fail_msg("operation %zu is %s, recorded %s", i, run->ops[i].op->label, op->label);
        assert_ptr_equal(d->program, programs_get(&e->model->shard->engine->programs, op->use));
        if (memcmp(d->groups, op->groups, sizeof(op->groups)) != 0)
            fail_msg("%s: groups %u %u %u, recorded %u %u %u", op->label, d->groups[0],
                     d->groups[1], d->groups[2], op->groups[0], op->groups[1], op->groups[2]);
        assert_int_equal(d->num_storage, op->num_refs);
        for (uint32_t j = 0; j < op->num_refs; j++) {
            struct gl_range range = memory_resolve(memory, op->refs[j]);
            uint8_t access = op->use->choice.kernel->binds[j].access;
            assert_ptr_equal(d->storage[j].buffer, range.buffer);
            assert_int_equal(d->storage[j].offset, range.offset);
            assert_int_equal(d->storage[j].size, range.size);
            assert_int_equal(d->reads >> j & 1, (access & KERNEL_READ) != 0);
            assert_int_equal(d->writes >> j & 1, (access & KERNEL_WRITE) != 0);
        }
        assert_int_equal(gl_buffer_read(e->device->gl, d->uniform[0].buffer, d->uniform[0].offset,
                                        params, sizeof(params)),
                         DGL_OK);
        assert_memory_equal(params, op->params, op->num_params * sizeof(params[0]));
        assert_int_equal(d->indirect.buffer != NULL,
                         shapes_have(&run->recipe.shapes, PASS_EARLY_EXIT));
    }
}

static void test_dispatches_are_the_recorded(void **state)
{
    (void)state;
    static const int32_t ids[] = {5, 6, 7};
    struct tiny_engine e;
    struct recorder rec;
    struct exec_cache cache = {0};
    struct gl_saved saved = {0};
    float *logits = NULL;
    size_t rows;
    tiny_engine_open(&e, &(struct tiny_engine_params){0});
    /* Creates the buffer for all logits. */
    assert_int_equal(dgl_logits(e.session, dgl_logits_params(.ids = ids, .num_ids = 3, .all = true),
                                &logits, &rows),
                     DGL_OK);
    dgl_free(logits);
    recorder_init(&rec, &e.model->shard->engine->plan);
    assert_int_equal(session_enter(e.session, &saved), DGL_OK);
    for (size_t i = 0; i < NUM_RECIPES; i++) {
        struct recipe recipe = recipe_of_case(&recipes[i]);
        bool prompt = shapes_have(&recipe.shapes, PASS_PREFILL) ||
                      shapes_have(&recipe.shapes, PASS_HIDDEN) ||
                      shapes_have(&recipe.shapes, PASS_SCORE);
        struct exec_run *run, *recorded_run;
        assert_int_equal(runner_run(&e.session->state.runner, recipe, &run), DGL_OK);
        assert_int_equal(
            exec_cache_get(&cache, rec.exec, recipe, &e.session->state.memory, &recorded_run),
            DGL_OK);
        for (int32_t tokens = 1; tokens <= (prompt ? 50 : 1); tokens += 7) {
            assert_int_equal(exec_run_set_tokens(run, tokens), DGL_OK);
            assert_int_equal(exec_run_set_tokens(recorded_run, tokens), DGL_OK);
            recorder_clear(&rec);
            assert_int_equal(exec_run_submit(recorded_run, 1, NULL), DGL_OK);
            compare_runs(&e, run, &rec);
        }
    }
    device_leave(e.device, &saved);
    exec_cache_clear(&cache);
    recorder_finish(&rec);
    tiny_engine_close(&e);
}

/* A run that is moved to another sequence equals the run that is made for it, record by record.
 * Both create no buffer: the parameters exist. */
static void test_moved_is_made(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_session *other;
    struct exec_cache cache = {0};
    struct gl_saved saved = {0};
    struct dgl_counters before, after;
    tiny_engine_open(&e, &(struct tiny_engine_params){0});
    other = tiny_session(&e, 0);
    assert_true(memory_is_like(&e.session->state.memory, &other->state.memory));
    assert_int_equal(session_enter(e.session, &saved), DGL_OK);
    for (size_t i = 0; i < NUM_RECIPES; i++) {
        const struct recipe recipe = recipe_of_case(&recipes[i]);
        struct exec_run *run, *made;
        if (shapes_have(&recipe.shapes, PASS_SCORE)) /* whose logits have no buffer yet */
            continue;
        assert_int_equal(runner_run(&e.session->state.runner, recipe, &run), DGL_OK);
        dgl_device_get_counters(e.device, &before);
        assert_int_equal(exec_cache_get(&cache, e.model->shard->engine->exec, recipe,
                                        &other->state.memory, &made),
                         DGL_OK);
        dgl_device_get_counters(e.device, &after);
        assert_int_equal(after.buffers_created, before.buffers_created);
        assert_ptr_not_equal(run, made);
        assert_memory_not_equal(exec_dispatch_list(run), exec_dispatch_list(made),
                                run->count * sizeof(struct gl_dispatch));
        exec_run_move(run, &other->state.memory);
        assert_memory_equal(exec_dispatch_list(run), exec_dispatch_list(made),
                            run->count * sizeof(struct gl_dispatch));
    }
    device_leave(e.device, &saved);
    exec_cache_clear(&cache);
    dgl_session_destroy(&other);
    tiny_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_follow_the_tokens),
        cmocka_unit_test(test_too_many_tokens),
        cmocka_unit_test(test_cache_has_a_run_per_recipe),
        cmocka_unit_test(test_repeating_is_part_of_the_recipe),
        cmocka_unit_test(test_failing_submit),
        cmocka_unit_test(test_profile_asks_the_executor),
        cmocka_unit_test(test_runs_outlive_their_plan),
        cmocka_unit_test(test_dispatches_are_the_recorded),
        cmocka_unit_test(test_moved_is_made),
    };
    builtin = loaded_set(NULL);
    int failures = test_run_table("recipes", test_recipe, recipes);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("faults", test_fault, faults);
    failures += test_run_table("keys and values read", test_kv_read, kv_reads);
    kernel_set_destroy(&builtin);
    return failures;
}
