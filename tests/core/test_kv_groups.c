/* The KV cache in groups of layers: tokens, logits, dispatches and bytes are those of one group. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/seq/session.h"

#define CONTEXT  384
#define PROMPT   200
#define ANSWER   70
#define REQUESTS 3

static char *dir;  /* a tiny model of 4 layers, two with a window */
static char *path; /* of a session file */
static int32_t ids[CONTEXT];

struct row {
    const char *name;
    enum dgl_kv_type type;
};

/* Appends everything that a caller sees of the device's work to `seen`. */
static void note_logits(struct dgl_buf *seen, struct dgl_session *s)
{
    float *logits = tiny_logits(s);
    dgl_buf_append(seen, (const char *)logits, (size_t)s->model->info.vocab * sizeof(float));
    free(logits);
}

static void note_answer(struct dgl_buf *seen, struct dgl_session *s, const int32_t *prompt,
                        size_t count)
{
    struct dgl_generate_result r =
        tiny_generate(s, dgl_generate_params(.ids = prompt, .num_ids = count, .max_tokens = ANSWER,
                                             .ignore_eos = true));
    dgl_buf_append(seen, (const char *)r.tokens, r.num_tokens * sizeof(*r.tokens));
    dgl_generate_result_finish(&r);
    note_logits(seen, s);
}

static bool note_token(void *priv, const struct dgl_token *token)
{
    dgl_buf_append(priv, (const char *)&token->chosen.id, sizeof(token->chosen.id));
    return true;
}

static void run(const struct row *row, bool by_window, struct dgl_buf *seen)
{
    struct test_log log;
    struct dgl_device *device = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *s = NULL, *other = NULL;
    struct dgl_batch *batch = NULL;
    struct dgl_buf tokens[REQUESTS] = {{0}};
    struct dgl_counters counters;
    struct dgl_memory memory = {.size = sizeof(memory)};
    size_t left = 1;
    test_log_init(&log, DGL_LOG_WARN);
    assert_int_equal(dgl_device_create(&log.log, dgl_device_params(.select = "any"), &device),
                     DGL_OK);
    device->plan.kv_by_window = by_window;
    if (dgl_model_load(device,
                       dgl_model_params(.path = dir, .context = CONTEXT, .kv_type = row->type),
                       &model) != DGL_OK)
        fail_msg("%s", log.text);
    assert_int_equal(model->shard->kv.num_groups, by_window ? 2 : 1);
    dgl_session_estimate(model, NULL, &memory);
    memory.available_bytes = 0; /* other programs change it */
    dgl_buf_append(seen, (const char *)&memory, sizeof(memory));
    assert_int_equal(
        dgl_session_create(model, dgl_session_params(.chunk = 48, .share_prefix = true), &s),
        DGL_OK);
    tiny_scramble_pages(model);
    /* Passes of a prompt, decode, a rewind to before the windows, and a copy that shares pages. */
    note_answer(seen, s, ids, PROMPT);
    for (uint32_t g = 1; g < model->shard->kv.num_groups; g++)
        assert_int_not_equal(s->seq.pages.page[g][0], s->seq.pages.page[0][0]);
    note_answer(seen, s, ids, 130);
    assert_int_equal(dgl_session_clone(s, dgl_session_params(.share_prefix = true), &other),
                     DGL_OK);
    note_answer(seen, other, ids, 150);
    note_answer(seen, s, ids, 140);
    /* A file of rows. That of the run before has one group. */
    if (by_window) {
        assert_int_equal(dgl_session_load(other, dgl_session_load_params(.path = path), NULL, NULL),
                         DGL_ERR_INVALID_ARG);
        assert_contains(log.text, "in other groups of layers than the session");
        test_log_clear(&log);
    }
    assert_int_equal(dgl_session_save(s, dgl_session_save_params(.path = path)), DGL_OK);
    dgl_session_trim(other, 0);
    assert_int_equal(dgl_session_load(other, dgl_session_load_params(.path = path), NULL, NULL),
                     DGL_OK);
    note_logits(seen, other);
    tiny_sync(other, ids, 141);
    note_logits(seen, other);
    dgl_session_destroy(&other);
    /* Pages by their tokens, found in every group. */
    dgl_session_trim(s, 0);
    assert_int_equal(tiny_sync(s, ids, PROMPT), 2 * DGL_KV_PAGE); /* answers took the third page */
    note_logits(seen, s);
    dgl_session_destroy(&s);
    /* Several sequences of one pass, in a pool that is too small for all: one is preempted. */
    assert_int_equal(dgl_batch_create(model,
                                      dgl_batch_params(.sequences = REQUESTS, .chunk = 48,
                                                       .cache_tokens = 10 * DGL_KV_PAGE),
                                      &batch),
                     DGL_OK);
    tiny_scramble_pages(model);
    for (int i = 0; i < REQUESTS; i++)
        assert_int_equal(
            dgl_batch_submit(batch,
                             dgl_request_params(.ids = ids + 60 * i, .num_ids = 140,
                                                .max_tokens = 100, .ignore_eos = true,
                                                .token_cb = note_token, .priv = &tokens[i]),
                             NULL),
            DGL_OK);
    while (left > 0)
        assert_int_equal(dgl_batch_step(batch, &left), DGL_OK);
    dgl_batch_destroy(&batch);
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(tokens[i].len, 100 * sizeof(int32_t));
        dgl_buf_append(seen, tokens[i].p, tokens[i].len);
        dgl_buf_finish(&tokens[i]);
    }
    dgl_device_get_counters(device, &counters);
    /* Each linked program is launched once more. rope_kv has a program per group. */
    counters.dispatches -= counters.programs_linked;
    const uint64_t work[] = {counters.dispatches, counters.barriers, counters.tokens,
                             counters.pages_used, counters.pages_shared};
    dgl_buf_append(seen, (const char *)work, sizeof(work));
    assert_int_equal(model->shard->kv.bytes, 0);
    dgl_model_destroy(&model);
    dgl_device_destroy(&device);
    assert_int_equal(log.errors, 0);
}

static void groups_are_like_one(void **state)
{
    const struct row *row = *state;
    struct dgl_buf one = {0}, several = {0};
    run(row, false, &one);
    run(row, true, &several);
    assert_false(one.failed || several.failed);
    assert_int_equal(one.len, several.len);
    for (size_t i = 0; i < one.len; i++)
        if (one.p[i] != several.p[i])
            fail_msg("byte %zu of %zu is %02x, with one group %02x", i, one.len,
                     (unsigned char)several.p[i], (unsigned char)one.p[i]);
    dgl_buf_finish(&one);
    dgl_buf_finish(&several);
}

static const struct row rows[] = {
    {"f16", DGL_KV_F16},
    {"f32", DGL_KV_F32},
};

/* Groups of a description, and their entries of the page table. */
static void test_layout(void **state)
{
    (void)state;
    static const struct {
        int32_t windows[6];
        bool by_window;
        uint32_t groups, entries;
        int32_t window[KV_MAX_GROUPS];
        uint32_t layers[KV_MAX_GROUPS];
    } cases[] = {
        {{0, 0, 0, 0, 0, 0}, true, 1, 8192, {0}, {6}},
        {{8, 0, 8, 8, 0, 8}, false, 1, 8192, {0}, {6}},
        {{8, 9, 8, 8, 9, 8}, false, 1, 8192, {9}, {6}},
        {{8, 0, 8, 8, 0, 8}, true, 2, 4096, {0, 8}, {2, 4}},
        {{8, 8, 8, 8, 8, 8}, true, 1, 8192, {8}, {6}},
        {{8, 9, 8, 0, 9, 8}, true, 3, 2730, {0, 8, 9}, {1, 3, 2}},
        {{1, 2, 3, 0, 4, 0}, true, 1, 8192, {0}, {6}}, /* more windows than groups */
    };
    uint32_t identity[sizeof(cases) / sizeof(*cases)];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct layer_desc layers[6] = {{0}};
        const struct model_desc desc = {
            .layers = 6, .kv_heads = 2, .head_dim = 16, .layer = layers};
        struct kv_layout l;
        for (int n = 0; n < 6; n++)
            layers[n].window = cases[i].windows[n];
        kv_layout_init(&l, &desc, DGL_KV_F32, cases[i].by_window);
        assert_int_equal(l.num_groups, cases[i].groups);
        assert_int_equal(kv_layout_entries(&l), cases[i].entries);
        for (uint32_t g = 0; g < l.num_groups; g++) {
            assert_int_equal(l.group[g].window, cases[i].window[g]);
            assert_int_equal(l.group[g].layers, cases[i].layers[g]);
            assert_int_equal(l.group[g].page_bytes, 2 * 2 * 16 * 64 * 4);
        }
        assert_int_equal(kv_layout_page_bytes(&l), 6 * 2 * 2 * 16 * 64 * 4);
        identity[i] = kv_layout_identity(&l);
        assert_int_equal(identity[i] & 0xff, DGL_KV_F32);
        assert_int_equal(identity[i] == DGL_KV_F32, l.num_groups == 1);
        for (size_t n = 0; n < i && l.num_groups > 1; n++)
            assert_int_not_equal(identity[i], identity[n]);
    }
}

int main(void)
{
    const struct CMUnitTest layout[] = {cmocka_unit_test(test_layout)};
    struct tiny_llama sizes = tiny_llama_default();
    sizes.layers = 4;
    sizes.context = CONTEXT;
    dir = test_tmpdir();
    tiny_windows_write(dir, &sizes, 80);
    tiny_tokenizer_write(dir);
    path = dgl_path_join(dir, "session");
    tiny_ids(ids, CONTEXT, sizes.vocab, 31);
    int failures = cmocka_run_group_tests(layout, NULL, NULL);
    failures += test_run_table("groups", groups_are_like_one, rows);
    free(path);
    test_tmpdir_remove(dir);
    return failures;
}
