/* Length of a pass, derived from the times of earlier passes: the arithmetic, and prompts on a GPU
 * whose speed the test sets (llvmpipe, tests/support/gl_fail.h, and a simulated clock). */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/seq/prefill.h"
#include "tests/support/tiny_engine.h"

#define PROMPT 60
#define VOCAB  320
#define ANSWER 4
#define MS     1000000ull

static char *dir;
static int32_t prompt[PROMPT];

/* ---- a slow GPU ------------------------------------------------------------------------------ */

static struct {
    uint64_t token_ns, pass_ns; /* time of a pass: pass_ns plus token_ns per token */
    uint64_t clock_ns;
    int32_t tokens;      /* of the list that is made ready */
    int32_t passes[128]; /* tokens of prefill passes */
    size_t num_passes;
} gpu;

uint64_t __wrap_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void)
{
    return gpu.clock_ns += 1000;
}

enum dgl_status __real_exec_run_set_tokens(struct exec_run *run, int32_t tokens);
enum dgl_status __wrap_exec_run_set_tokens(struct exec_run *run, int32_t tokens);
enum dgl_status __wrap_exec_run_set_tokens(struct exec_run *run, int32_t tokens)
{
    if (run->recipe.shapes.count == 1 && run->recipe.shapes.of[0].part == PART_LAYERS &&
        run->tokens != 0) { /* a body, which a pass is going to submit */
        gpu.tokens = tokens;
        assert_true(gpu.num_passes < sizeof(gpu.passes) / sizeof(gpu.passes[0]));
        gpu.passes[gpu.num_passes++] = tokens;
    }
    return __real_exec_run_set_tokens(run, tokens);
}

/* The first wait after a pass is the one for it. */
enum dgl_status __real_gl_finish(struct gl_device *dev);
enum dgl_status __wrap_gl_finish(struct gl_device *dev);
enum dgl_status __wrap_gl_finish(struct gl_device *dev)
{
    static int32_t drained; /* session_pass() waits for the queued work before it times */
    if (gpu.tokens > 0 && drained != gpu.tokens) {
        drained = gpu.tokens;
    } else if (gpu.tokens > 0) {
        gpu.clock_ns += gpu.pass_ns + gpu.token_ns * (uint64_t)gpu.tokens;
        gpu.tokens = drained = 0;
    }
    return __real_gl_finish(dev);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const struct row {
    const char *name;
    struct pace pace;
    int32_t most, held, want;
    bool software, scores;
} rows[] = {
    {"never on a processor", {.held = 0}, 512, 0, 512, true, false},
    {"unknown, a large model", {.held = 0}, 512, 0, 1, false, false},
    {"unknown, but few tokens", {.held = 0}, 4, 0, 4, false, false},
    {"nothing is safe after a loss", {.losses = 1}, 4, 0, 1, false, false},
    {"one token is fast", {{1, 100000}, 1024, 0, 0}, 512, 1, 512, false, false},
    {"one token takes a millisecond", {{1, MS}, 1024, 0, 0}, 512, 1, 64, false, false},
    {"half the budget after a loss", {{1, MS}, 1024, 0, 1}, 512, 1, 32, false, false},
    {"one token is too long", {{1, 300 * MS}, 1024, 0, 0}, 512, 1, 1, false, false},
    {"64 tokens took half of it", {{64, 50 * MS}, 1024, 0, 0}, 512, 64, 64, false, false},
    {"64 tokens took a fifth of it", {{64, 19 * MS}, 1024, 0, 0}, 512, 64, 256, false, false},
    {"64 tokens took more", {{64, 130 * MS}, 1024, 0, 0}, 512, 64, 32, false, false},
    {"attention grows", {{512, 50 * MS}, 1024, 0, 0}, 512, 1024, 512, false, false},
    {"to twice as much", {{512, 50 * MS}, 1024, 0, 0}, 512, 3000, 256, false, false},
    {"to eight times as much", {{512, 50 * MS}, 1024, 0, 0}, 512, 8192, 64, false, false},
    {"a head of four layers for each token", {{64, 19 * MS}, 1024, 0, 0}, 512, 64, 64, false, true},
    {"the most is no power of two", {{64, 24 * MS}, 1024, 0, 0}, 300, 64, 256, false, false},
    {"the most is small", {{64, 19 * MS}, 1024, 0, 0}, 60, 64, 60, false, false},
};

/* A model of 16 layers of 60 MB each and a head of 240 MB. */
struct made_plan {
    struct plan_device device;
    struct model_desc desc;
    struct op ops[2];
    struct body body[2], *bodies[2];
    struct plan plan;
};

static void make_plan(struct made_plan *m, bool software)
{
    *m = (struct made_plan){.device.on_host = software, .desc.layers = 16};
    m->ops[0].bytes = 16 * 60000000ull;
    m->ops[1].bytes = 240000000;
    for (int i = 0; i < 2; i++) {
        m->body[i] = (struct body){.shape = i ? PASS_HEAD : PASS_DECODE,
                                   .ops = {.ops = &m->ops[i], .count = 1}};
        m->bodies[i] = &m->body[i];
    }
    m->plan =
        (struct plan){.device = &m->device, .desc = &m->desc, .bodies = m->bodies, .num_bodies = 2};
}

static void test_tokens(void **state)
{
    struct made_plan m;
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        make_plan(&m, r->software);
        int32_t got = pace_tokens(&r->pace, &m.plan, r->most, r->held, r->scores);
        if (got != r->want)
            fail_msg("%s: %d tokens, wanted %d", r->name, got, r->want);
    }
}

static void test_notes(void **state)
{
    struct made_plan m;
    struct pace p = {0};
    (void)state;
    make_plan(&m, false);
    pace_note(&p, &m.plan, 1, 1, 160 * MS); /* of 16 layers */
    assert_int_equal(p.layer.ns, 10 * MS);
    assert_int_equal(p.head_ns, 40 * MS); /* a quarter of the bytes of the layers */
    assert_int_equal(pace_tokens(&p, &m.plan, 512, 1, false), 8);
    pace_note(&p, &m.plan, 8, 9, 320 * MS);
    assert_int_equal(pace_tokens(&p, &m.plan, 512, 9, false), 32);
    pace_note(&p, &m.plan, 32, 41, 640 * MS);
    assert_int_equal(pace_tokens(&p, &m.plan, 512, 41, false), 64);
    /* The last, short pass of a prompt changes no estimate and is not too long. */
    pace_note(&p, &m.plan, 3, 44, 300 * MS);
    assert_int_equal(p.layer.tokens, 32);
    assert_int_equal(pace_tokens(&p, &m.plan, 512, 44, false), 64);
    assert_int_equal(p.head_ns, 40 * MS);
    /* Another program uses the device: passes become shorter at once, and later longer again. */
    pace_note(&p, &m.plan, 16, 60, 3000 * MS);
    assert_int_equal(pace_tokens(&p, &m.plan, 512, 60, false), 8);
    pace_note(&p, &m.plan, 8, 68, 80 * MS);
    assert_int_equal(pace_tokens(&p, &m.plan, 512, 68, false), 128);
}

static void test_steps(void **state)
{
    static const struct {
        uint64_t step_ns, limit_ns;
        int32_t most, want;
    } table[] = {{0, 10 * MS, 8, 8},       {MS, 10 * MS, 8, 8},      {3 * MS, 10 * MS, 8, 3},
                 {10 * MS, 10 * MS, 8, 1}, {MS * MS, 10 * MS, 8, 1}, {1, UINT64_MAX, 8, 8}};
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(pace_steps(table[i].step_ns, table[i].limit_ns, table[i].most),
                         table[i].want);
}

/* ---- prompts --------------------------------------------------------------------------------- */

static void open_slow(struct tiny_engine *e, uint64_t pass_ns, uint64_t token_ns)
{
    gl_fail_reset();
    gl_fail.gpu_units = 4;
    tiny_engine_open(e, &(struct tiny_engine_params){.path = dir});
    e->model->shard->pace.losses =
        1; /* no work is small enough to be run untimed; half the budget */
    memset(&gpu, 0, sizeof(gpu));
    gpu.pass_ns = pass_ns;
    gpu.token_ns = token_ns;
}

/* Tokens of each pass, as text. */
static char *passes(void)
{
    struct dgl_buf text = {0};
    for (size_t i = 0; i < gpu.num_passes; i++)
        dgl_buf_printf(&text, "%s%d", i ? " " : "", gpu.passes[i]);
    dgl_buf_puts(&text, "");
    gpu.num_passes = 0;
    return dgl_buf_take(&text);
}

#define assert_passes(wanted)                                                                      \
    do {                                                                                           \
        char *got_passes = passes();                                                               \
        assert_string_equal(got_passes, wanted);                                                   \
        free(got_passes);                                                                          \
    } while (0)

/* Two layers: 50 ms for a layer are 100 ms for a pass. */
static void test_prompt(void **state)
{
    struct tiny_engine e;
    struct dgl_pass_info info = {.size = sizeof(info)};
    int32_t got[ANSWER], want[ANSWER];
    (void)state;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    tiny_sync(e.session, prompt, PROMPT);
    float *logits = tiny_logits(e.session);
    tiny_greedy(e.session, prompt, PROMPT, want, ANSWER);
    tiny_engine_close(&e);

    /* Slow: 10 ms and 6 ms per token. 1: 16 ms, 6 fit; 4: 34 ms, 11 fit; 8: 58 ms, 13 fit. */
    open_slow(&e, 10 * MS, 6 * MS);
    tiny_sync(e.session, prompt, PROMPT);
    assert_passes("1 4 8 8 8 8 8 8 7");
    float *slow = tiny_logits(e.session);
    assert_at_most(tiny_nmse(slow, logits, VOCAB), 1e-9);
    free(slow);
    dgl_session_passes(e.session, &info);
    assert_int_equal(info.most, e.session->state.ubatch);
    assert_int_equal(info.tokens, 8);
    assert_int_equal(info.timed_tokens, 8);
    assert_int_equal(info.layer_ns / 100000, 290);
    assert_true(info.head_ns > 0);
    /* Remembered for the next prompt, and by another session. */
    dgl_session_trim(e.session, 0);
    tiny_sync(e.session, prompt, 20);
    assert_passes("8 12"); /* which fit */
    struct dgl_session *other = tiny_session(&e, 0);
    gpu.num_passes = 0;
    tiny_sync(other, prompt, 10);
    assert_passes("10");
    dgl_session_destroy(&other);
    /* Not if the caller set a chunk. */
    other = tiny_session(&e, 30);
    gpu.num_passes = 0;
    tiny_sync(other, prompt, PROMPT);
    assert_passes("30 30");
    dgl_session_passes(other, &info);
    assert_int_equal(info.most, 30);
    assert_int_equal(info.tokens, 30);
    dgl_session_destroy(&other);
    /* Other kernels may be faster. */
    assert_int_equal(dgl_model_set_kernels(e.model, NULL), DGL_OK);
    gpu.pass_ns = gpu.token_ns = 1000;
    dgl_session_trim(e.session, 0);
    gpu.num_passes = 0;
    tiny_greedy(e.session, prompt, PROMPT, got, ANSWER);
    assert_memory_equal(got, want, sizeof(got));
    char *list = passes();
    assert_memory_equal(list, "1 59", 4);
    free(list);
    free(logits);
    tiny_engine_close(&e);
}

/* Scores and embeddings go by it too. */
static void test_scores(void **state)
{
    struct tiny_engine e;
    float *logits = NULL, *want = NULL, *embedding = NULL;
    size_t count = 0;
    (void)state;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    assert_int_equal(dgl_logits(e.session,
                                dgl_logits_params(.ids = prompt, .num_ids = PROMPT, .all = true),
                                &want, &count),
                     DGL_OK);
    tiny_engine_close(&e);
    open_slow(&e, 10 * MS, 6 * MS);
    assert_int_equal(dgl_logits(e.session,
                                dgl_logits_params(.ids = prompt, .num_ids = PROMPT, .all = true),
                                &logits, &count),
                     DGL_OK);
    assert_int_equal(count, PROMPT);
    assert_at_most(tiny_nmse(logits, want, PROMPT * VOCAB), 1e-9);
    char *list = passes();
    assert_memory_equal(list, "1 ", 2);
    assert_null(strstr(list, "60"));
    free(list);
    assert_int_equal(dgl_embed(e.session, dgl_embed_params(.ids = prompt, .num_ids = PROMPT),
                               &embedding, &count),
                     DGL_OK);
    assert_passes("8 8 8 8 8 8 12");
    dgl_free(embedding);
    dgl_free(logits);
    dgl_free(want);
    tiny_engine_close(&e);
}

/* A head that takes long for one token is reported once. */
static void test_head(void **state)
{
    struct tiny_engine e;
    (void)state;
    open_slow(&e, 2000 * MS, 0);
    tiny_sync(e.session, prompt, 3);
    assert_passes("1 1 1");
    assert_contains(e.log.text, "the head is one dispatch of about");
    test_log_clear(&e.log);
    dgl_session_trim(e.session, 0);
    tiny_sync(e.session, prompt, 3);
    assert_int_equal(e.log.len, 0);
    tiny_engine_close(&e);
}

/* Returns how many requests of a batch of four run at the same time. All four must be answered. */
static size_t most_at_once(uint64_t token_ns)
{
    struct tiny_engine e;
    struct dgl_batch *batch = NULL;
    struct dgl_batch_info info = {.size = sizeof(info)};
    size_t left = 1, most = 0;
    open_slow(&e, 0, token_ns);
    assert_int_equal(dgl_batch_create(e.model, dgl_batch_params(.sequences = 4), &batch), DGL_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            dgl_batch_submit(batch,
                             dgl_request_params(.ids = prompt, .num_ids = 3, .max_tokens = ANSWER,
                                                .ignore_eos = true),
                             NULL),
            DGL_OK);
    while (left > 0) {
        gpu.num_passes = 0;
        assert_int_equal(dgl_batch_step(batch, &left), DGL_OK);
        dgl_batch_get_info(batch, &info);
        most = info.running > most ? info.running : most;
    }
    assert_int_equal(info.finished, 4);
    dgl_batch_destroy(&batch);
    tiny_engine_close(&e);
    return most;
}

/* A pass has at most the rows that the device computes within the time limit of a dispatch: 50 ms
 * here, with two layers. The first request starts before anything was timed. */
static void test_batch(void **state)
{
    (void)state;
    assert_int_equal(most_at_once(100 * MS), 1);
    assert_int_equal(most_at_once(40 * MS), 2);
    assert_int_equal(most_at_once(1 * MS), 4);
}

/* Software renderers have no watchdog, so long passes are allowed. */
static void test_software(void **state)
{
    struct tiny_engine e;
    (void)state;
    open_slow(&e, 2000 * MS, 100 * MS);
    tiny_engine_close(&e);
    gl_fail_reset();
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    if (!e.model->shard->engine->plan.device->on_host) {
        tiny_engine_close(&e);
        skip();
    }
    e.model->shard->pace.losses = 1;
    gpu.num_passes = 0;
    tiny_sync(e.session, prompt, PROMPT);
    assert_passes("60");
    tiny_engine_close(&e);
}

static int group_setup(void **state)
{
    (void)state;
    dir = test_tmpdir();
    make_tiny_llama(dir, 11, NULL);
    tiny_ids(prompt, PROMPT, VOCAB, 5);
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
        cmocka_unit_test_setup(test_tokens, gl_fail_setup),
        cmocka_unit_test_setup(test_notes, gl_fail_setup),
        cmocka_unit_test(test_steps),
        cmocka_unit_test_setup(test_prompt, gl_fail_setup),
        cmocka_unit_test_setup(test_scores, gl_fail_setup),
        cmocka_unit_test_setup(test_head, gl_fail_setup),
        cmocka_unit_test_setup(test_batch, gl_fail_setup),
        cmocka_unit_test_setup(test_software, gl_fail_setup),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
