/* Sequences that decode together in one program of phases: the same tokens as with single
 * dispatches, while members start and end, after a trial, and if dispatches are given up. Works on
 * any device: one dispatch per row of the table, or one group that waits for no other. Also passes
 * in which a sequence has several rows. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/exec/phases.h"
#include "core/seq/batch.h"
#include "kernels/phase_control.h"
#include "tests/support/family.h"
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

/* The same with matmul_strips_subgroup; %d: subgroups of a group. */
#define STRIPS                                                                                     \
    "{\"variants\":{\"matmul/prefill/columns=8\":\"matmul_strips_subgroup\","                      \
    "\"matmul/prefill/columns=4\":\"matmul_strips_subgroup\","                                     \
    "\"matmul/prefill/columns=2\":\"matmul_strips_subgroup\","                                     \
    "\"attn_decode\":\"attn_decode\"},\"tunes\":{\"matmul_strips_subgroup.SUBGROUPS\":%d}}"

struct rows_case {
    const char *name, *path, *hints;
    struct dgl_sampling sampling;
    int invocations; /* of a group, for hints that need them; 0 means 32 */
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
    {.name = "strips, one dispatch",
     .path = "synthetic:story-llama:q4_k",
     .hints = STRIPS,
     .invocations = 128,
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
    return exec_phases_check(exec, recipe, memory, reason, NULL);
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

/* Completes hints of SUBGROUP() or STRIPS for this device and groups of `invocations`. */
static const char *subgroup_hints(const char *hints, int invocations)
{
    static char text[640];
    struct dgl_device *dev = NULL;
    assert_int_equal(dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev), DGL_OK);
    const uint32_t size = dgl_device_get_limits(dev)->subgroup_size;
    dgl_device_destroy(&dev);
    if (size < 8 || size > 32)
        SKIP("the device has no subgroups of 8 to 32");
    snprintf(text, sizeof(text), hints, invocations / (int)size);
    return text;
}

static void test_subgroup_rows(void **state)
{
    struct rows_case c = *(const struct rows_case *)*state;
    c.hints = subgroup_hints(c.hints, c.invocations ? c.invocations : 32);
    void *own = &c;
    test_rows(&own);
}

/* ---- several rows of one sequence ------------------------------------------------------------ */

#define SEQUENCES 3

struct mixed_case {
    const char *name, *path, *family, *hints;
    int32_t held[SEQUENCES], rows[SEQUENCES]; /* tokens evaluated before; rows of the pass */
    enum dgl_kv_type kv_type;
    bool windows, one_row;
    double nmse; /* most, to one row after the other; 0 means equal bytes */
};

static const struct mixed_case mixed_cases[] = {
    {"two rows of one", .hints = SMALL, .held = {18}, .rows = {2}, .kv_type = DGL_KV_F32},
    {"three sequences across pages", .hints = SMALL, .held = {62, 0, 7}, .rows = {4, 1, 3},
     .kv_type = DGL_KV_F16, .one_row = true},
    {"groups of the KV cache", .hints = SMALL, .held = {61, 30}, .rows = {3, 1},
     .kv_type = DGL_KV_F32, .windows = true},
    /* Queries and keys are normed by an operation of their own. */
    {"norms of queries and keys", .family = "qwen3", .hints = SMALL, .held = {11, 4},
     .rows = {2, 2}, .kv_type = DGL_KV_F32, .nmse = 1e-9},
};

static const struct mixed_case subgroup_mixed_cases[] = {
    {"subgroups", .path = "synthetic:story-llama:q4_k",
     .hints = SUBGROUP("\"attn_token\":\"attn_token_subgroup\""), .held = {62, 9, 4},
     .rows = {4, 1, 3}, .kv_type = DGL_KV_F16},
};

/* The model, a state of three sequences, and the sessions that hold their pages. */
struct mixed {
    const struct mixed_case *c;
    struct tiny_engine e;
    struct dgl_session *session[SEQUENCES];
    int32_t ids[SEQUENCES][CONTEXT], other[SEQUENCES][CONTEXT];
    struct pass_state state;
    int32_t vocab;
};

/* The sessions evaluate other tokens at the positions of the pass, so that the KV cache has wrong
 * rows there. */
static void spoil_rows(struct mixed *m)
{
    for (int i = 0; i < SEQUENCES; i++)
        if (m->c->rows[i]) {
            dgl_session_trim(m->session[i], m->c->held[i]);
            tiny_sync(m->session[i], m->other[i], (size_t)(m->c->held[i] + m->c->rows[i]));
        }
}

/* Runs rows [first, first + count) of the pass, and copies their logits. The rows of a sequence
 * descend: work groups run in any order, but one work group alone, and llvmpipe, start with the
 * first row. */
static void run_rows(struct mixed *m, struct exec_run *run, int32_t first, int32_t count,
                     float *logits)
{
    struct gl_device *gl = pass_state_dev(&m->state)->gl;
    const struct memory *memory = &m->state.memory;
    const struct gl_range at = memory->state[BUF_LOGITS], steps = memory->state[BUF_STEP];
    const uint64_t bytes = (uint64_t)m->vocab * sizeof(float);
    struct dgl_step_table *table = checked(dgl_new(struct dgl_step_table));
    int32_t n = 0;
    *table = (struct dgl_step_table){
        .rows = (uint32_t)count,
        .seqs = (uint32_t)m->state.slots,
        .ids_stride = (uint32_t)(memory->state[BUF_IDS].size / 4 / (uint64_t)m->state.slots)};
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        table->seq[i] = (struct dgl_step){.pos = (uint32_t)m->c->held[i],
                                          .tokens = (uint32_t)m->c->rows[i],
                                          .context = CONTEXT,
                                          .kv_first = 8 * i};
        for (int32_t k = 0; k < m->c->rows[i]; k++, n++)
            if (n >= first && n < first + count)
                table->row[n - first] = DGL_STEP_ROW(i, m->c->rows[i] - 1 - k);
    }
    assert_int_equal(gl_buffer_write(gl, steps.buffer, steps.offset, table, sizeof(*table)),
                     DGL_OK);
    free(table);
    assert_int_equal(exec_run_set_tokens(run, count), DGL_OK);
    assert_int_equal(exec_run_submit(run, 1, NULL), DGL_OK);
    assert_int_equal(gl_buffer_read(gl, at.buffer, at.offset, logits + first * (int64_t)m->vocab,
                                    (uint64_t)count * bytes),
                     DGL_OK);
}

/* Runs all rows of the pass: in one pass, or one row after the other if `apart`. */
static void run_all(struct mixed *m, struct exec *exec, struct pass_shape shape, bool apart,
                    float *logits)
{
    const struct plan *plan = &m->e.model->shard->engine->plan;
    struct gl_saved saved = {0};
    struct exec_run *run = NULL;
    int32_t rows = 0;
    spoil_rows(m);
    for (int i = 0; i < SEQUENCES; i++)
        rows += m->c->rows[i];
    assert_int_equal(device_enter(m->e.device, &saved), DGL_OK);
    if (exec_run_create(exec, recipe_of(plan_body(plan, shape)->shape), &m->state.memory, &run) !=
        DGL_OK)
        fail_msg("%s: run: %s", m->c->name, m->e.log.text);
    for (int32_t n = rows; n > 0; n -= apart ? 1 : rows)
        run_rows(m, run, apart ? n - 1 : 0, apart ? 1 : rows, logits);
    exec_run_destroy(&run);
    device_leave(m->e.device, &saved);
}

static void expect_logits(const struct mixed *m, const char *what, const float *got,
                          const float *want, double most)
{
    int32_t row = 0;
    for (int i = 0; i < SEQUENCES; i++)
        for (int32_t k = 0; k < m->c->rows[i]; k++, row++) {
            const float *a = got + row * (int64_t)m->vocab, *b = want + row * (int64_t)m->vocab;
            const double nmse = tiny_nmse(a, b, (size_t)m->vocab);
            if (!(nmse <= most))
                fail_msg("%s, %s: row %d of sequence %d: NMSE %g, logit 0 is %.9g, expected %.9g",
                         m->c->name, what, (int)k, i, nmse, (double)a[0], (double)b[0]);
        }
}

/* A pass whose rows belong to one or several sequences, any number of rows each: by the persistent
 * program, by dispatches, and one row after the other with the body for one row of a sequence. */
static void test_mixed(void **state)
{
    const struct mixed_case *c = *state;
    struct mixed *m = checked(dgl_new(struct mixed));
    struct dgl_kernels *kernels = NULL;
    struct gl_saved saved = {0};
    struct exec *phases = NULL;
    float *logits[4];
    m->c = c;
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = c->hints), &kernels),
                     DGL_OK);
    tiny_engine_open(&m->e, &(struct tiny_engine_params){.path = c->windows  ? windows_dir
                                                                 : c->family ? family_dir(c->family)
                                                                             : c->path,
                                                         .kv_by_window = c->windows,
                                                         .context = CONTEXT,
                                                         .kv_type = c->kv_type,
                                                         .kernels = kernels});
    m->vocab = dgl_model_get_info(m->e.model)->vocab;
    tiny_scramble_pages(m->e.model);
    for (int i = 0; i < SEQUENCES; i++) {
        m->session[i] = tiny_session(&m->e, 0);
        tiny_ids(m->ids[i], CONTEXT, m->vocab, 12 + (uint64_t)i);
        tiny_ids(m->other[i], CONTEXT, m->vocab, 112 + (uint64_t)i);
        memcpy(m->other[i], m->ids[i], (size_t)c->held[i] * sizeof(int32_t));
    }
    spoil_rows(m);
    struct engine *engine = m->e.model->shard->engine;
    m->state = (struct pass_state){
        .slots = PLAN_PHASE_ROWS, .context = CONTEXT, .ubatch = PLAN_PHASE_ROWS};
    assert_int_equal(device_enter(m->e.device, &saved), DGL_OK);
    assert_int_equal(plan_add_batch(&engine->plan), DGL_OK);
    assert_int_equal(plan_list(&engine->plan, PASS_MIXED(1)), DGL_OK);
    assert_int_equal(pass_state_init(&m->state, m->e.model, NULL, NULL), DGL_OK);
    assert_int_equal(pass_state_make(&m->state), DGL_OK);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct kv_pages pages = m->session[i]->seq.pages;
        pages.num_known = 0;
        assert_int_equal(pass_state_write_pages(&m->state, 8 * i, &pages), DGL_OK);
        assert_int_equal(
            pass_state_write(&m->state, BUF_IDS, (int32_t)i, 0, m->ids[i], sizeof(m->ids[i])),
            DGL_OK);
    }
    assert_int_equal(exec_phases_create(m->e.device, &engine->plan,
                                        &(struct exec_phases_params){
                                            .one_row = c->one_row, .groups = 1, .max_spins = 100},
                                        &phases),
                     DGL_OK);
    device_leave(m->e.device, &saved);
    for (int i = 0; i < 4; i++)
        logits[i] = checked(dgl_new_array(float, PLAN_PHASE_ROWS *(size_t)m->vocab));
    int32_t rows = c->rows[0] + c->rows[1] + c->rows[2], last = 0;
    const int log2 = rows > 4 ? 3 : rows > 2 ? 2 : 1;
    run_all(m, phases, PASS_MIXED(log2), false, logits[0]);
    run_all(m, phases, PASS_MIXED(log2), true, logits[1]);
    run_all(m, engine->exec, PASS_MIXED(log2), false, logits[2]);
    run_all(m, engine->exec, PASS_BATCH(log2), true, logits[3]);
    expect_logits(m, "the program, all rows and one after the other", logits[0], logits[1], 0);
    expect_logits(m, "dispatches, all rows and one after the other", logits[2], logits[3], c->nmse);
    /* The kernels of the program have more invocations, which add up scores in another order. */
    expect_logits(m, "the program and dispatches", logits[0], logits[2], 1e-9);
    for (int i = 0; i < SEQUENCES && c->rows[i]; i++) { /* other kernels evaluate prompts */
        tiny_sync(m->session[i], m->ids[i], (size_t)(c->held[i] + c->rows[i]));
        float *prompt = tiny_logits(m->session[i]);
        const double nmse =
            tiny_nmse(logits[0] + last * (int64_t)m->vocab, prompt, (size_t)m->vocab);
        last += c->rows[i];
        if (!(nmse < 1e-6))
            fail_msg("%s: sequence %d differs from its prompt by %g", c->name, i, nmse);
        free(prompt);
    }
    for (int i = 0; i < 4; i++)
        free(logits[i]);
    assert_int_equal(device_enter(m->e.device, &saved), DGL_OK);
    exec_unref(&phases);
    pass_state_finish(&m->state);
    device_leave(m->e.device, &saved);
    for (int i = 0; i < SEQUENCES; i++)
        dgl_session_destroy(&m->session[i]);
    assert_int_equal(m->e.log.errors, 0);
    tiny_engine_close(&m->e);
    dgl_kernels_destroy(&kernels);
    free(m);
}

static void test_subgroup_mixed(void **state)
{
    struct mixed_case c = *(const struct mixed_case *)*state;
    c.hints = subgroup_hints(c.hints, 32);
    void *own = &c;
    test_mixed(&own);
}

int main(void)
{
    const struct tiny_llama sizes = tiny_llama_default();
    windows_dir = test_tmpdir();
    tiny_windows_write(windows_dir, &sizes, 20);
    int failed = test_run_table_sample("mixed", test_mixed, mixed_cases, 2);
    failed += test_run_table("mixed by subgroups", test_subgroup_mixed, subgroup_mixed_cases);
    failed += test_run_table_sample("rows", test_rows, cases, 3);
    failed += test_run_table("lanes", test_rows, lane_cases);
    failed += test_run_table("subgroups", test_subgroup_rows, subgroup_cases);
    test_tmpdir_remove(windows_dir);
    return failed;
}
