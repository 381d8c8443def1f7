/* Kernels that are compiled while weights are loaded, on a driver that compiles on its own threads
 * (here a driver that reports such threads). No call links a kernel after its first token. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

#define PROMPT  30
#define ANSWER  6
#define VOCAB   320
#define CONTEXT 48

static char *dir;
static int32_t prompt[PROMPT];
static int32_t greedy[ANSWER];

/* ---- a driver with compiler threads ---------------------------------------------------------- */

static bool aside;
static size_t begun; /* programs, since the test last looked */

bool __wrap_gl_compiles_aside(const struct gl_device *dev);
bool __wrap_gl_compiles_aside(const struct gl_device *dev)
{
    (void)dev;
    return aside;
}

enum dgl_status __real_gl_pendings_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          struct gl_pending **out);
enum dgl_status __wrap_gl_pendings_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          struct gl_pending **out);
enum dgl_status __wrap_gl_pendings_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          struct gl_pending **out)
{
    begun += count;
    return __real_gl_pendings_create(dev, params, count, out);
}

static int setup(void **state)
{
    aside = false;
    begun = 0;
    return gl_fail_setup(state);
}

static size_t waiting(const struct programs *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->begun_cap; i++)
        count += p->begun[i] != NULL;
    return count;
}

static void open_engine(struct tiny_engine *e, const struct dgl_kernels *kernels)
{
    tiny_engine_open(e, &(struct tiny_engine_params){.path = dir, .kernels = kernels});
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Loading starts the compilation of the kernels that every answer needs, without samplers. A call
 * takes the programs that it needs. */
static void test_load(void **state)
{
    (void)state;
    struct tiny_engine e;
    open_engine(&e, NULL);
    assert_int_equal(begun, 0); /* it would only have taken time */
    tiny_engine_close(&e);

    aside = true;
    open_engine(&e, NULL);
    const struct programs *programs = &e.model->shard->engine->programs;
    const struct plan *plan = &e.model->shard->engine->plan;
    const size_t count = begun;
    assert_true(count >= 5);
    assert_int_equal(waiting(programs), count);
    static const struct pass_shape lazy[] = {PASS_SAMPLE(SAMPLE_GREEDY), PASS_SAMPLE(SAMPLE_TOPK),
                                             PASS_SAMPLE(SAMPLE_FULL), PASS_ADJUST};
    for (size_t i = 0; i < sizeof(lazy) / sizeof(lazy[0]); i++) {
        uint32_t id = plan_body(plan, lazy[i])->use[0]->id;
        assert_true(id >= programs->begun_cap || !programs->begun[id]);
    }
    struct dgl_counters load, after;
    dgl_device_get_counters(e.device, &load);
    assert_int_equal(load.programs_linked, 0);
    int32_t out[ANSWER];
    tiny_greedy(e.session, prompt, PROMPT, out, ANSWER);
    assert_memory_equal(out, greedy, sizeof(out));
    dgl_device_get_counters(e.device, &after);
    assert_int_equal(begun, count); /* no program was started twice */
    assert_true(waiting(programs) < count);
    /* Those and the sampler's. */
    assert_true(after.programs_linked > count - waiting(programs));
    tiny_engine_close(&e); /* programs that were never taken are freed too */
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* The first answer of a batch starts the compilation of passes over several sequences once it
 * decodes. Those passes take the programs. */
static void test_company(void **state)
{
    (void)state;
    static const char hints[] = "{\"variants\":{\"matmul/columns=2\":\"matmul_prefill\"}}";
    for (int threads = 0; threads < 2; threads++) {
        struct tiny_engine e;
        struct dgl_kernels *kernels = NULL;
        struct dgl_batch *batch = NULL;
        size_t left = 1;
        aside = threads > 0;
        assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = hints), &kernels),
                         DGL_OK);
        open_engine(&e, kernels);
        assert_int_equal(
            dgl_batch_create(e.model, dgl_batch_params(.sequences = 4, .context = CONTEXT), &batch),
            DGL_OK);
        const struct programs *programs = &e.model->shard->engine->programs;
        const struct plan *plan = &e.model->shard->engine->plan;
        const struct shape_set bodies =
            shapes_add(shapes_of(plan_batch_shape(plan, 2)), plan_batch_shape(plan, 4));
        const size_t loading = begun;
        size_t written = 0;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(
                dgl_batch_submit(batch,
                                 dgl_request_params(.ids = prompt, .num_ids = PROMPT,
                                                    .max_tokens = 12, .ignore_eos = true),
                                 NULL),
                DGL_OK);
            for (int step = 0; i == 0 && begun == loading && step < 8; step++)
                assert_int_equal(dgl_batch_step(batch, &left), DGL_OK);
            written = i == 0 ? begun : written;
        }
        if (threads ? written <= loading : written != loading)
            fail_msg("threads %d: %zu programs begun by loading, %zu by the first answer", threads,
                     loading, written - loading);
        assert_false(exec_is_compiled(programs, plan, bodies));
        while (left > 0)
            assert_int_equal(dgl_batch_step(batch, &left), DGL_OK);
        assert_true(exec_is_compiled(programs, plan, bodies));
        assert_int_equal(begun, written); /* no program was started twice */
        dgl_batch_destroy(&batch);
        tiny_engine_close(&e);
        dgl_kernels_destroy(&kernels);
        assert_int_equal(e.log.errors, 0);
    }
}

/* A kernel that does not compile is reported by the call that needs it, with or without threads. */
static void test_broken_kernel(void **state)
{
    static const char text[] = "// Broken.\n//! NAME embed_rows\n//! OP embed\n//! VARIANT broken\n"
                               "//! LOCAL 1\n//! GROUPS 1\n//! BIND write float X\n"
                               "void body(uvec3 group)\n{\n    X[0] = undeclared_name;\n}\n";
    (void)state;
    char *folder = test_tmpdir();
    test_write_file(folder, "broken.comp", text, sizeof(text) - 1);
    for (int i = 0; i < 2; i++) {
        struct tiny_engine e;
        struct dgl_kernels *kernels = NULL;
        assert_int_equal(
            dgl_kernels_create(NULL,
                               dgl_kernels_params(.dirs = (const char *[]){folder}, .num_dirs = 1),
                               &kernels),
            DGL_OK);
        aside = i > 0;
        open_engine(&e, kernels);
        test_log_clear(&e.log);
        assert_refusal(&e.log, dgl_session_sync(e.session, prompt, PROMPT, NULL), DGL_ERR_KERNEL,
                       ((const char *const[]){"broken.comp:10", "undeclared_name", NULL}));
        assert_int_equal(waiting(&e.model->shard->engine->programs) > 0, aside);
        /* Its words once more, and other kernels mend it. */
        test_log_clear(&e.log);
        assert_int_equal(dgl_session_sync(e.session, prompt, PROMPT, NULL), DGL_ERR_KERNEL);
        assert_int_equal(e.log.errors, 1);
        assert_int_equal(dgl_model_set_kernels(e.model, NULL), DGL_OK);
        int32_t out[ANSWER];
        tiny_greedy(e.session, prompt, PROMPT, out, ANSWER);
        assert_memory_equal(out, greedy, sizeof(out));
        tiny_engine_close(&e);
        dgl_kernels_destroy(&kernels);
    }
    test_tmpdir_remove(folder);
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* Programs on their way go with the context. */
static void test_lost(void **state)
{
    (void)state;
    struct tiny_engine e;
    aside = true;
    open_engine(&e, NULL);
    const size_t count = begun;
    gl_fail.submits = 0;
    assert_int_equal(dgl_session_sync(e.session, prompt, PROMPT, NULL), DGL_ERR_DEVICE_LOST);
    gl_fail_reset();
    assert_int_equal(dgl_model_rebuild(e.model, NULL), DGL_OK);
    assert_int_equal(begun, 2 * count);
    int32_t out[ANSWER];
    tiny_greedy(e.session, prompt, PROMPT, out, ANSWER);
    assert_memory_equal(out, greedy, sizeof(out));
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static const char *const breakers[] = {"\n"};
static const struct dgl_logit_bias bias[] = {{7, 2.0f}};

/* Calls on a model that has not compiled any kernel. */
static const struct row {
    const char *name;
    struct dgl_generate_params params;
    int32_t prompt;
} rows[] = {
    {"greedy", {.max_tokens = 8}, PROMPT},
    {"a short prompt", {.max_tokens = 8}, 3},
    {"one token", {.max_tokens = 1}, PROMPT},
    {"top-k", {.max_tokens = 8, .sampling = {.temperature = 1, .top_k = 5}}, PROMPT},
    {"all tokens", {.max_tokens = 8, .sampling = {.temperature = 1}}, PROMPT},
    {"top-p", {.max_tokens = 8, .sampling = {.temperature = 1, .top_p = 0.7f}}, PROMPT},
    {"penalties",
     {.max_tokens = 8, .sampling = {.repeat_penalty = 1.2f, .repeat_last_n = 16}},
     PROMPT},
    {"all of them",
     {.max_tokens = 8,
      .sampling = {.temperature = 1,
                   .repeat_penalty = 1.2f,
                   .repeat_last_n = -1,
                   .dry_multiplier = 1,
                   .dry_penalty_last_n = -1,
                   .dry_breakers = breakers,
                   .logit_bias = bias,
                   .num_logit_bias = 1}},
     PROMPT},
    {"one token per readback", {.max_tokens = 8, .readback_interval = 1}, PROMPT},
    {"several per readback", {.max_tokens = 8, .readback_interval = 4}, PROMPT},
    {"a shift", {.max_tokens = 40, .context_shift = true, .keep = 2}, PROMPT},
    {"a shift after a short prompt", {.max_tokens = 90, .context_shift = true}, 3},
    {"a full context", {.max_tokens = 90}, PROMPT},
};

static void test_no_links_after_the_first_token(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tiny_engine e;
        struct dgl_generate_params params = rows[i].params;
        tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .context = CONTEXT});
        params.ids = prompt;
        params.num_ids = (size_t)rows[i].prompt;
        params.ignore_eos = true;
        struct dgl_generate_result r = tiny_generate(e.session, &params);
        const bool shifts = params.context_shift;
        if (r.prefill.programs_linked == 0 || r.decode.programs_linked != 0 ||
            shifts != (r.num_shifted > 0))
            fail_msg("%s: %llu programs linked up to the first token, wanted some, %llu after it, "
                     "wanted 0; %zu tokens shifted",
                     rows[i].name, (unsigned long long)r.prefill.programs_linked,
                     (unsigned long long)r.decode.programs_linked, r.num_shifted);
        dgl_generate_result_finish(&r);
        tiny_engine_close(&e);
    }
}

/* Counters after the first window: the first progress call comes then. */
struct windows {
    struct dgl_device *device;
    struct dgl_counters first, last;
    uint64_t calls;
};

static bool take_window(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct windows *w = priv;
    (void)what;
    (void)done;
    (void)total;
    dgl_device_get_counters(w->device, w->calls++ ? &w->last : &w->first);
    return true;
}

static void test_scores(void **state)
{
    char text[121];
    const char *texts[] = {text};
    struct tiny_engine e;
    struct dgl_perplexity_result ppl = {.size = sizeof(ppl)};
    struct dgl_counters before, after;
    float *logits = checked(calloc(VOCAB, sizeof(*logits)));
    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .context = CONTEXT});
    struct windows w = {.device = e.device};
    if (dgl_perplexity(e.session,
                       dgl_perplexity_params(.texts = texts, .num_texts = 1, .windows = true,
                                             .progress_cb = take_window, .progress_priv = &w),
                       &ppl) != DGL_OK)
        fail_msg("%s", e.log.text);
    assert_true(w.calls > 2);
    assert_true(w.first.programs_linked > 0);
    assert_int_equal(w.last.programs_linked, w.first.programs_linked);
    for (int i = 0; i < 2; i++) {
        dgl_device_get_counters(e.device, &before);
        dgl_session_trim(e.session, 0);
        assert_int_equal(
            dgl_session_eval(e.session, dgl_eval_params(.ids = prompt, .num_ids = 1), logits, NULL),
            DGL_OK);
        dgl_device_get_counters(e.device, &after);
    }
    assert_int_equal(after.programs_linked, before.programs_linked);
    free(logits);
    tiny_engine_close(&e);
}

static int group_setup(void **state)
{
    struct tiny_engine e;
    (void)state;
    dir = test_tmpdir();
    make_tiny_llama(dir, 11, NULL);
    tiny_tokenizer_write(dir);
    tiny_ids(prompt, PROMPT, VOCAB, 5);
    open_engine(&e, NULL);
    tiny_greedy(e.session, prompt, PROMPT, greedy, ANSWER);
    tiny_engine_close(&e);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    test_tmpdir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_load, setup),
        cmocka_unit_test_setup(test_company, setup),
        cmocka_unit_test_setup(test_broken_kernel, setup),
        cmocka_unit_test_setup(test_lost, setup),
        cmocka_unit_test_setup(test_no_links_after_the_first_token, setup),
        cmocka_unit_test_setup(test_scores, setup),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
