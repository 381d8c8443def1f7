/* Sequences that decode together in one program of phases: the same tokens as with single
 * dispatches, while members start and end, after a trial, and if dispatches are given up. Works on
 * any device: one dispatch per row of the table, or one group that waits for no other. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/exec/phases.h"
#include "core/seq/batch.h"
#include "kernels/phase_control.h"
#include "tests/support/tiny_engine.h"

#define ANSWERS 7
#define LANES   5
#define MOST    24
#define CONTEXT 96

/* Kernels that compile quickly, many of them in one program, with groups of 128 invocations on
 * every device: the samplers of GPUs need as many. */
#define SMALL                                                                                      \
    "{\"variants\":{\"matmul/prefill\":\"matmul_prefill\",\"matmul/decode\":\"matmul_decode\","    \
    "\"attn_decode\":\"attn_decode\",\"attn_prefill\":\"attn_prefill\"},"                          \
    "\"tunes\":{\"matmul_prefill.ROWS\":16,\"matmul_prefill.TOKENS\":32,"                          \
    "\"matmul_prefill.THREAD_ROWS\":2,\"matmul_prefill.THREAD_TOKENS\":2,"                         \
    "\"attn_decode.HEADS_BLOCK\":1}}"

/* Those that GPUs get, with attention for keys; %d: subgroups along K, so that a group has 128
 * invocations. */
#define SUBGROUP(attention)                                                                        \
    "{\"variants\":{\"matmul/prefill/columns=8\":\"matmul_columns_subgroup\","                     \
    "\"matmul/prefill/columns=4\":\"matmul_columns_subgroup\","                                    \
    "\"matmul/prefill/columns=2\":\"matmul_columns_subgroup\"," attention "},"                     \
    "\"tunes\":{\"matmul_columns_subgroup.LONG\":0,\"matmul_columns_subgroup.K_PARTS\":%d,"        \
    "\"matmul_columns_subgroup.SETS\":4}}"

struct rows_case {
    const char *name, *path, *hints;
    struct dgl_sampling sampling;
    bool one_row;
    bool tries;   /* no result is stored: a trial decides */
    bool alone;   /* each in its lane, by separate steps */
    bool windows; /* a model with windows, whose KV cache has two groups */
    /* number of resident groups that the device reports; with more than one, barriers are given up
     */
    uint32_t groups;
};

static char *windows_dir;

static const struct rows_case cases[] = {
    {.name = "greedy, a dispatch per row", .hints = SMALL, .one_row = true, .groups = 1},
    {.name = "greedy, one dispatch", .hints = SMALL, .groups = 1},
    {.name = "groups of the KV cache",
     .hints = SMALL,
     .windows = true,
     .one_row = true,
     .groups = 1},
    {.name = "drawn, penalties",
     .hints = SMALL,
     .sampling = {.temperature = 0.9f,
                  .top_k = 20,
                  .repeat_penalty = 1.3f,
                  .repeat_last_n = 16,
                  .frequency_penalty = 0.3f,
                  .seed = 5},
     .one_row = true,
     .groups = 1},
    {.name = "drawn from all",
     .hints = SMALL,
     .sampling = {.temperature = 1.1f, .top_p = 0.9f, .seed = 8},
     .one_row = true,
     .groups = 1},
    {.name = "a trial", .hints = SMALL, .one_row = true, .tries = true, .groups = 1},
    {.name = "given up", .hints = SMALL, .groups = 4000},
    {.name = "given up in a trial", .hints = SMALL, .tries = true, .groups = 4000},
};

/* Lanes have one program, one table and the words of one dispatch in common. */
static const struct rows_case lane_cases[] = {
    {.name = "each alone, a dispatch per row",
     .hints = SMALL,
     .one_row = true,
     .alone = true,
     .groups = 1},
    {.name = "each alone, drawn",
     .hints = SMALL,
     .sampling = {.temperature = 0.9f, .top_k = 20, .repeat_penalty = 1.3f, .seed = 5},
     .alone = true,
     .groups = 1},
    {.name = "each alone, given up", .hints = SMALL, .alone = true, .groups = 4000},
};

static const struct rows_case subgroup_cases[] = {
    {.name = "subgroups, a dispatch per row",
     .path = "synthetic:story-llama:q4_k",
     .hints = SUBGROUP("\"attn_token\":\"attn_token_subgroup\""),
     .one_row = true,
     .groups = 1},
    {.name = "subgroups, one dispatch",
     .path = "synthetic:story-llama:q4_k",
     .hints = SUBGROUP("\"attn_decode\":\"attn_decode\""),
     .groups = 1},
};

/* ---- the executor ---------------------------------------------------------------------------- */

static uint32_t resident; /* of the case */
static int cleared;

static enum dgl_status rows_check(struct exec *exec, struct recipe recipe,
                                  const struct memory *memory, char reason[PERSISTENT_REASON],
                                  char key[65])
{
    key[0] = '\0';
    return exec_phases_check(exec, recipe, memory, reason, NULL, NULL);
}

static enum dgl_status rows_probe(struct exec_run *run, struct residency *out)
{
    (void)run;
    *out = (struct residency){.groups = resident};
    return DGL_OK;
}

static enum dgl_status rows_clear(struct exec_run *run)
{
    const struct dgl_phase_control zero = {0};
    const struct gl_range at = exec_phases_control(run);
    cleared++;
    return gl_buffer_write(exec_phases_device(run->exec)->gl, at.buffer, at.offset, &zero,
                           sizeof(zero));
}

static const struct persistent_ops rows_ops = {.check = rows_check,
                                               .begin = exec_phases_begin,
                                               .is_ready = exec_phases_is_ready,
                                               .probe = rows_probe,
                                               .set_groups = exec_phases_set_groups,
                                               .clear = rows_clear};

/* Passes over several sequences get it and one alone decodes by dispatches, or `alone` the other
 * way. */
static void install(struct tiny_engine *e, const struct rows_case *c)
{
    struct engine *engine = e->model->shard->engine;
    resident = c->groups;
    cleared = 0;
    assert_int_equal(exec_phases_create(e->device, &engine->plan,
                                        &(struct exec_phases_params){
                                            .one_row = c->one_row, .groups = 1, .max_spins = 100},
                                        &engine->persistent.exec),
                     DGL_OK);
    engine->persistent.ops = &rows_ops;
    memset(engine->choice, 0, sizeof(engine->choice));
    for (int i = 0; i < ENGINE_KINDS && !c->alone; i++)
        engine->choice[i].state = ENGINE_DISPATCH;
    const int first = c->alone ? 0 : ENGINE_KINDS, end = c->alone ? ENGINE_KINDS : ENGINE_CHOICES;
    for (int i = first; i < end && !c->tries; i++)
        engine->choice[i].record = (struct exec_record){
            .verdict = EXEC_FASTER, .groups = c->groups, .dispatch_ns = 2, .persistent_ns = 1};
}

/* ---- answers --------------------------------------------------------------------------------- */

struct heard {
    int32_t ids[MOST];
    size_t count;
    int ended;
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct heard *h = priv;
    assert_true(h->count < MOST);
    h->ids[h->count++] = token->chosen.id;
    return true;
}

static void hear_end(void *priv, const struct dgl_request_result *result)
{
    struct heard *h = priv;
    assert_int_equal(result->status, DGL_OK);
    h->ended++;
}

/* Answers of several lengths in fewer lanes. Returns the number of calls in which the executor
 * stepped several sequences. */
static int answer_all(struct tiny_engine *e, const struct rows_case *c, struct heard heard[ANSWERS])
{
    int32_t text[40];
    struct dgl_batch *b = NULL;
    size_t left = 1;
    int persistent = 0;
    tiny_ids(text, 40, dgl_model_get_info(e->model)->vocab, 11);
    memset(heard, 0, ANSWERS * sizeof(*heard));
    if (dgl_batch_create(e->model,
                         dgl_batch_params(.sequences = LANES, .queue = ANSWERS, .context = CONTEXT,
                                          .invariant = c->alone),
                         &b) != DGL_OK)
        fail_msg("batch: %s", e->log.text);
    assert_int_equal(b->num_groups, c->alone ? 0 : 1);
    tiny_scramble_pages(e->model);
    /* Drivers compile in the background, and answers are short. */
    for (int i = 0; i < LANES; i++)
        b->lanes[i].session->state.runner.wait_executor = c->groups > 0;
    if (!c->alone)
        b->groups[0]->state->runner.wait_executor = c->groups > 0;
    for (int i = 0; i < ANSWERS; i++)
        assert_int_equal(
            dgl_batch_submit(b,
                             dgl_request_params(.ids = text + i, .num_ids = (size_t)(3 + 4 * i),
                                                .max_tokens = MOST - 3 * i, .ignore_eos = true,
                                                .sampling = c->sampling, .token_cb = hear_token,
                                                .finish_cb = hear_end, .priv = &heard[i]),
                             NULL),
            DGL_OK);
    for (int steps = 0; left > 0; steps++) {
        if (dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("step: %s", e->log.text);
        const struct engine_choice *choice =
            c->alone ? e->model->shard->engine->last : b->groups[0]->choice;
        persistent += choice && choice->state == ENGINE_PERSISTENT;
        if (choice && choice->state == ENGINE_DISPATCH && !c->tries && c->groups == 1)
            fail_msg("by dispatches: %s", choice->reason);
        assert_true(steps < 2000);
    }
    for (int i = 0; i < ANSWERS; i++)
        assert_int_equal(heard[i].ended, 1);
    assert_int_equal(b->runs.persistent.count, c->alone && c->groups ? 1 : 0);
    dgl_batch_destroy(&b);
    return persistent;
}

static void test_rows(void **state)
{
    const struct rows_case *c = *state;
    static struct heard wanted[ANSWERS], got[ANSWERS];
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = c->hints), &kernels),
                     DGL_OK);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = c->windows ? windows_dir : c->path,
                                                      .kv_by_window = c->windows,
                                                      .context = CONTEXT,
                                                      .kv_type = DGL_KV_F32,
                                                      .kernels = kernels});
    answer_all(&e, &(struct rows_case){.sampling = c->sampling, .alone = c->alone}, wanted);
    install(&e, c);
    const int persistent = answer_all(&e, c, got);
    printf("# %d calls by programs of phases\n", persistent);
    for (int i = 0; i < ANSWERS; i++) {
        assert_int_equal(got[i].count, wanted[i].count);
        for (size_t k = 0; k < got[i].count; k++)
            if (got[i].ids[k] != wanted[i].ids[k])
                fail_msg("answer %d, token %zu: %d, by dispatches %d", i, k, got[i].ids[k],
                         wanted[i].ids[k]);
    }
    if (c->groups == 1 && !c->tries)
        assert_true(persistent > 4); /* calls, each of up to 8 steps */
    if (c->groups == 1 && c->alone)
        assert_true(e.model->shard->engine->last->state == ENGINE_PERSISTENT);
    if (c->groups > 1) {
        assert_true(cleared > 0);
        if (!c->tries)
            assert_contains(e.log.text, "computed again by single dispatches");
        assert_int_equal(persistent, 0);
    }
    assert_int_equal(e.log.errors, 0);
    tiny_engine_close(&e);
    dgl_kernels_destroy(&kernels);
}

static void test_subgroup_rows(void **state)
{
    struct dgl_device *dev = NULL;
    assert_int_equal(dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev), DGL_OK);
    const uint32_t size = dgl_device_get_limits(dev)->subgroup_size;
    dgl_device_destroy(&dev);
    if (size < 8 || size > 32)
        SKIP("the device has no subgroups of 8 to 32");
    struct rows_case c = *(const struct rows_case *)*state;
    char hints[640];
    snprintf(hints, sizeof(hints), c.hints, 32 / (int)size);
    c.hints = hints;
    void *own = &c;
    test_rows(&own);
}

/* ---- rows of one sequence -------------------------------------------------------------------- */

/* Runs one step over `rows` rows of a sequence, the first at position `pos`. Copies the logits of
 * the last of them. */
static void run_pass(struct pass_state *state, struct exec_run *run, int32_t pos, int32_t rows,
                     float *logits)
{
    struct gl_device *gl = pass_state_dev(state)->gl;
    const struct memory *memory = &state->memory;
    const struct gl_range at = memory->state[BUF_LOGITS], steps = memory->state[BUF_STEP];
    const uint64_t bytes = (uint64_t)state->model->info.vocab * sizeof(float);
    struct dgl_step_table *table = checked(dgl_new(struct dgl_step_table));
    *table = (struct dgl_step_table){
        .rows = (uint32_t)rows,
        .seqs = (uint32_t)state->slots,
        .ids_stride = (uint32_t)(memory->state[BUF_IDS].size / (uint64_t)state->slots / 4),
        .seq = {{.pos = (uint32_t)pos, .tokens = (uint32_t)rows, .context = CONTEXT}}};
    for (int32_t i = 0; i < rows; i++)
        table->row[i] = DGL_STEP_ROW(0, i);
    assert_int_equal(gl_buffer_write(gl, steps.buffer, steps.offset, table, sizeof(*table)),
                     DGL_OK);
    free(table);
    assert_int_equal(exec_run_set_tokens(run, rows), DGL_OK);
    assert_int_equal(exec_run_submit(run, 1, NULL), DGL_OK);
    assert_int_equal(
        gl_buffer_read(gl, at.buffer, at.offset + (uint64_t)(rows - 1) * bytes, logits, bytes),
        DGL_OK);
}

/* A persistent pass with two rows of one sequence has the logits of two passes with one row each.
 * The keys and values of both rows are in the cache before, because attention does not wait for
 * another row of its pass. */
static void test_one_sequence(void **state)
{
    enum { TOKENS = 20 };
    (void)state;
    int32_t ids[TOKENS];
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    struct gl_saved saved = {0};
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = SMALL), &kernels),
                     DGL_OK);
    tiny_engine_open(&e, &(struct tiny_engine_params){
                             .context = CONTEXT, .kv_type = DGL_KV_F32, .kernels = kernels});
    const int32_t vocab = dgl_model_get_info(e.model)->vocab;
    tiny_ids(ids, TOKENS, vocab, 12);
    tiny_sync(e.session, ids, TOKENS);
    struct plan *plan = &e.model->shard->engine->plan;
    struct pass_state two = {.slots = 2, .context = CONTEXT, .ubatch = 2};
    assert_int_equal(device_enter(e.device, &saved), DGL_OK);
    assert_int_equal(plan_add_batch(plan), DGL_OK);
    assert_int_equal(pass_state_init(&two, e.model, NULL, NULL), DGL_OK);
    assert_int_equal(pass_state_make(&two), DGL_OK);
    struct kv_pages pages = e.session->seq.pages;
    pages.num_known = 0;
    assert_int_equal(pass_state_write_pages(&two, 0, &pages), DGL_OK);
    assert_int_equal(pass_state_write(&two, BUF_IDS, 0, 0, ids, sizeof(ids)), DGL_OK);
    float *logits[3];
    for (int i = 0; i < 3; i++)
        logits[i] = checked(dgl_new_array(float, (size_t)vocab));
    const struct exec_phases_params params = {.groups = 1, .max_spins = 100};
    struct exec *exec = NULL;
    struct exec_run *run = NULL;
    assert_int_equal(exec_phases_create(e.device, plan, &params, &exec), DGL_OK);
    if (exec_run_create(exec, recipe_of(plan_batch_shape(plan, 2)), &two.memory, &run) != DGL_OK)
        fail_msg("run: %s", e.log.text);
    run_pass(&two, run, TOKENS - 2, 1, logits[0]);
    run_pass(&two, run, TOKENS - 1, 1, logits[1]);
    run_pass(&two, run, TOKENS - 2, 2, logits[2]);
    if (memcmp(logits[0], logits[1], (size_t)vocab * sizeof(float)) == 0)
        fail_msg("both positions have the same logits, first %g", (double)logits[0][0]);
    for (int32_t i = 0; i < vocab; i++)
        if (logits[2][i] != logits[1][i])
            fail_msg("logit %d: %.9g in one pass, %.9g in two", (int)i, (double)logits[2][i],
                     (double)logits[1][i]);
    exec_run_destroy(&run);
    exec_unref(&exec);
    for (int i = 0; i < 3; i++)
        free(logits[i]);
    pass_state_finish(&two);
    device_leave(e.device, &saved);
    tiny_engine_close(&e);
    dgl_kernels_destroy(&kernels);
}

int main(void)
{
    const struct CMUnitTest alone[] = {cmocka_unit_test(test_one_sequence)};
    const struct tiny_llama sizes = tiny_llama_default();
    windows_dir = test_tmpdir();
    tiny_windows_write(windows_dir, &sizes, 20);
    int failed = cmocka_run_group_tests_name("one sequence", alone, NULL, NULL);
    failed += test_run_table_sample("rows", test_rows, cases, 3);
    failed += test_run_table("lanes", test_rows, lane_cases);
    failed += test_run_table("subgroups", test_subgroup_rows, subgroup_cases);
    test_tmpdir_remove(windows_dir);
    return failed;
}
