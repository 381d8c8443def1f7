/* Passes over rows of several sequences: prompts and single tokens together sample the same tokens
 * as separate passes do. */
#include "core/seq/prefill.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "tests/support/tiny_engine.h"

#define CONTEXT   256
#define SEQUENCES 3

static struct tiny_engine engine;

static const struct row {
    const char *name;
    int32_t held[SEQUENCES], tokens[SEQUENCES]; /* evaluated before; rows of the pass */
} rows[] = {
    {"three prompts", {0, 0, 0}, {40, 7, 64}},
    {"a prompt with two decode rows", {12, 0, 33}, {1, 70, 1}},
    {"decode rows alone", {12, 65, 130}, {1, 1, 1}},
    {"parts of prompts", {20, 64, 3}, {30, 65, 128}},
};

static void test_pass(void **state)
{
    const struct row *c = *state;
    struct dgl_session *session[SEQUENCES], *alone = tiny_session(&engine, CONTEXT);
    struct pass_state *mixed = dgl_calloc(1, sizeof(*mixed));
    struct gl_saved saved = {0};
    struct exec_run *body;
    const struct dgl_sampling greedy = {0};
    const int32_t vocab = engine.model->info.vocab;
    int32_t ids[SEQUENCES][CONTEXT], want[SEQUENCES], got[SEQUENCES];
    float *logits = dgl_calloc((size_t)vocab, sizeof(*logits));
    assert_non_null(mixed);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        const size_t count = (size_t)(c->held[i] + c->tokens[i]);
        tiny_ids(ids[i], CONTEXT, vocab, 7 + (uint64_t)i);
        tiny_greedy(alone, ids[i], count, &want[i], 1);
        session[i] = tiny_session(&engine, CONTEXT);
        if (c->held[i])
            tiny_sync(session[i], ids[i], (size_t)c->held[i]);
    }
    tiny_sync(alone, ids[0], 1); /* the sampler may change logits */
    tiny_sync(alone, ids[SEQUENCES - 1],
              (size_t)(c->held[SEQUENCES - 1] + c->tokens[SEQUENCES - 1]));
    float *separate = tiny_logits(alone);

    assert_int_equal(device_enter(engine.device, &saved), DGL_OK);
    mixed->slots = SEQUENCES;
    mixed->context = CONTEXT;
    mixed->ubatch = 2 * CONTEXT;
    assert_int_equal(pass_state_init(mixed, engine.model, NULL, NULL), DGL_OK);
    assert_int_equal(pass_state_make(mixed), DGL_OK);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        const int32_t filled = (c->tokens[i] + PASS_TILE - 1) / PASS_TILE * PASS_TILE;
        assert_int_equal(session_reserve(session[i], c->held[i] + filled), DGL_OK);
        struct kv_pages pages = session[i]->seq.pages;
        pages.num_known = 0;
        assert_int_equal(pass_state_write_pages(mixed, 8 * (uint32_t)i, &pages), DGL_OK);
    }
    assert_int_equal(pass_state_follow(mixed), DGL_OK);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        struct dgl_step step = {.pos = (uint32_t)c->held[i],
                                .tokens = (uint32_t)c->tokens[i],
                                .context = CONTEXT,
                                .flags = DGL_STEP_IGNORE_EOS,
                                .kv_first = 8 * (uint32_t)i};
        const struct pass_row row = {
            .seq = (uint32_t)i, .flags = ROW_LOGITS | ROW_SAMPLE, .sampler = SAMPLE_GREEDY};
        sampling_to_step(&greedy, &step);
        assert_int_equal(pass_state_write(mixed, BUF_IDS, i, 0, ids[i],
                                          (uint64_t)(c->held[i] + c->tokens[i]) * 4),
                         DGL_OK);
        assert_int_equal(pass_state_add(mixed, &step, &row), DGL_OK);
    }
    assert_int_equal(pass_state_body(mixed, &body), DGL_OK);
    assert_int_equal(runner_submit(&mixed->runner, body, DGL_PHASE_PREFILL, CONTEXT), DGL_OK);
    assert_int_equal(pass_state_queue_results(mixed, CONTEXT), DGL_OK);
    for (int32_t i = 0; i < SEQUENCES; i++)
        assert_int_equal(pass_state_read(mixed, BUF_IDS, i,
                                         (uint64_t)(c->held[i] + c->tokens[i]) * 4, &got[i], 4),
                         DGL_OK);
    assert_int_equal(pass_state_read(mixed, BUF_LOGITS, 0, 0, logits, (uint64_t)vocab * 4), DGL_OK);
    /* A pass that has no room is refused. */
    assert_int_equal(pass_state_add(mixed, &(struct dgl_step){.tokens = 512}, &mixed->rows[0]),
                     DGL_ERR_UNSUPPORTED);
    pass_state_finish(mixed);
    device_leave(engine.device, &saved);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        if (got[i] != want[i])
            fail_msg("%s, sequence %d: token %d, want %d", c->name, (int)i, (int)got[i],
                     (int)want[i]);
        dgl_session_destroy(&session[i]);
    }
    const double nmse = tiny_nmse(logits, separate, (size_t)vocab);
    printf("# %s: logits of the last row differ by %g\n", c->name, nmse);
    assert_true(nmse < 1e-9);
    dgl_session_destroy(&alone);
    free(separate);
    free(logits);
    free(mixed);
}

int main(void)
{
    struct tiny_llama sizes = tiny_llama_default();
    sizes.context = CONTEXT;
    tiny_engine_open(&engine, &(struct tiny_engine_params){.sizes = &sizes, .context = CONTEXT});
    int failures = test_run_table("mixed passes", test_pass, rows);
    tiny_engine_close(&engine);
    return failures;
}
