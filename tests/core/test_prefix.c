/* Shared pages of sequences: found only by all of their tokens, copied before a sequence writes to
 * them, released by the last one. Also sessions with a common prefix, and clones. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/seq/session.h"
#include "tests/support/gl_fail.h"

#define CONTEXT 512
#define PROMPT  200

static char *dir; /* a tiny model of that context */
static struct tiny_engine engine;
static int32_t text[CONTEXT], other[CONTEXT];

static int open_engine(void **state)
{
    (void)state;
    gl_fail_reset();
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = dir, .context = CONTEXT});
    dgl_session_destroy(&engine.session);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    struct dgl_counters c;
    dgl_device_get_counters(engine.device, &c);
    assert_int_equal(c.pages_used, 0);
    assert_int_equal(c.pages_shared, 0);
    assert_int_equal(engine.model->shard->kv.bytes, 0);
    tiny_engine_close(&engine);
    return 0;
}

static struct dgl_counters counters(void)
{
    struct dgl_counters c;
    dgl_device_get_counters(engine.device, &c);
    return c;
}

static struct dgl_session *session(bool shares)
{
    struct dgl_session *s = NULL;
    if (dgl_session_create(engine.model, dgl_session_params(.share_prefix = shares, .chunk = 48),
                           &s) != DGL_OK)
        fail_msg("session: %s", engine.log.text);
    return s;
}

/* ---- any sequence of events, compared with a list of written values ----------------------------
 */

#define SEQS   6
#define PAGES  24 /* of the pool */
#define LENGTH 5  /* pages of a sequence, at most */

/* A page of tokens is 64 times one symbol. */
struct written {
    int32_t symbols[LENGTH]; /* of the text up to the page's end */
    uint32_t count;          /* 0 = empty */
};

static void fill_ids(const int32_t *symbols, int32_t *ids)
{
    for (int i = 0; i < LENGTH * DGL_KV_PAGE; i++)
        ids[i] = symbols[i / DGL_KV_PAGE];
}

static void check_cache(const struct kv_cache *kv, const struct kv_pages *seqs)
{
    uint32_t used = 0, shared = 0;
    for (uint32_t p = 0; p < kv->store[0].pages; p++) {
        uint32_t refs = 0;
        for (int s = 0; s < SEQS; s++)
            for (uint32_t i = 0; i < seqs[s].count; i++)
                refs += seqs[s].page[0][i] == p;
        assert_int_equal(kv->store[0].page[p].refs, refs);
        assert_int_equal(kv->store[0].page[p].pooled_refs, refs);
        used += refs > 0;
        shared += refs > 1;
    }
    assert_int_equal(kv->store[0].pool_used, used);
    assert_int_equal(counters().pages_used, used);
    assert_int_equal(counters().pages_shared, shared);
    assert_int_equal(kv->store[0].num_free + kv->store[0].num_idle + used, kv->store[0].pages);
    assert_in_range(kv->store[0].pages, 0, PAGES);
}

static void test_events(void **state)
{
    (void)state;
    struct kv_cache *kv = &engine.model->shard->kv;
    struct kv_pages seqs[SEQS];
    int32_t symbols[SEQS][LENGTH] = {{0}}, ids[LENGTH * DGL_KV_PAGE];
    struct written written[PAGES] = {{{0}, 0}};
    struct gl_saved saved;
    uint32_t seed = 1, adopted = 0, refused = 0, gone = 0;
    assert_int_equal(device_enter(engine.device, &saved), DGL_OK);
    assert_int_equal(kv_cache_reserve_pool(kv, PAGES, 4, 0), DGL_OK);
    for (int s = 0; s < SEQS; s++)
        assert_int_equal(kv_cache_join_pooled(kv, LENGTH, &seqs[s]), DGL_OK);
    for (int round = 0; round < 3000; round++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t s = (seed >> 8) % SEQS, what = seed >> 16 & 7;
        struct kv_pages *seq = &seqs[s];
        if (what < 2) { /* an end */
            kv_cache_give(kv, seq, what == 0 ? 0 : seq->count / 2);
            continue;
        }
        if (what == 2 && round % 64 == 0) {
            kv_prefix_evict_all(kv);
            continue;
        }
        /* a new text of few symbols, so that many texts have a common prefix */
        if (seq->count == 0)
            for (uint32_t i = 0; i < LENGTH; i++)
                symbols[s][i] = (int32_t)(seed >> (10 + 2 * i) & 3);
        fill_ids(symbols[s], ids);
        /* First the known pages of its tokens, then new pages. */
        const uint32_t had = seq->count;
        const uint32_t found =
            kv_prefix_reuse(kv, seq, ids, (int32_t)had * DGL_KV_PAGE, LENGTH * DGL_KV_PAGE);
        adopted += found;
        for (uint32_t i = had; i < had + found; i++) {
            const struct written *w = &written[seq->page[0][i]];
            assert_int_equal(w->count, i + 1);
            assert_memory_equal(w->symbols, symbols[s], (i + 1) * sizeof(int32_t));
        }
        const uint32_t from = seq->count, to = from < LENGTH ? from + 1 : LENGTH;
        const uint32_t lacks = kv_cache_lacks(kv, seq, to);
        test_log_clear(&engine.log);
        enum dgl_status status = kv_cache_take(kv, seq, to);
        assert_int_equal(status, lacks ? DGL_ERR_NO_MEMORY : DGL_OK);
        assert_int_equal(engine.log.errors, lacks > 0);
        refused += lacks > 0;
        for (uint32_t i = from; i < seq->count; i++) {
            struct written *w = &written[seq->page[0][i]];
            gone += w->count > 0;
            w->count = i + 1;
            memcpy(w->symbols, symbols[s], (i + 1) * sizeof(int32_t));
        }
        kv_prefix_note(kv, seq, ids, (int32_t)from * DGL_KV_PAGE,
                       (int32_t)seq->count * DGL_KV_PAGE);
        check_cache(kv, seqs);
    }
    print_message("# %u pages adopted, %u refused, %u written again\n", adopted, refused, gone);
    assert_true(adopted > 100 && refused > 20 && gone > 100);
    test_log_clear(&engine.log);
    for (int s = 0; s < SEQS; s++)
        kv_cache_leave(kv, &seqs[s]);
    kv_cache_release_pool(kv, PAGES, 4);
    device_leave(engine.device, &saved);
}

/* Texts that differ in one token, or whose prefixes do, are never mistaken for each other, for any
 * hashes: here all texts are in one bucket. */
static void test_one_bucket(void **state)
{
    (void)state;
    struct kv_cache *kv = &engine.model->shard->kv;
    struct kv_pages a = {0}, b = {0};
    int32_t ids[2 * DGL_KV_PAGE], like[2 * DGL_KV_PAGE];
    struct gl_saved saved;
    assert_int_equal(device_enter(engine.device, &saved), DGL_OK);
    assert_int_equal(kv_cache_reserve_pool(kv, 4, 4, 0), DGL_OK);
    assert_int_equal(kv_cache_join_pooled(kv, 2, &a), DGL_OK);
    assert_int_equal(kv_cache_join_pooled(kv, 2, &b), DGL_OK);
    memcpy(ids, text, sizeof(ids));
    assert_int_equal(kv_cache_take(kv, &a, 2), DGL_OK);
    kv_prefix_note(kv, &a, ids, 0, 2 * DGL_KV_PAGE);
    const uint32_t pages = kv->store[0].pages;
    kv->store[0].pages = 1; /* as many buckets */
    kv->store[0].page[a.page[0][0]].next = a.page[0][1];
    kv->store[0].page[a.page[0][1]].next = KV_NO_PAGE;
    kv->store[0].bucket[0] = a.page[0][0];
    for (int i = 0; i < 2 * DGL_KV_PAGE; i++) {
        memcpy(like, ids, sizeof(like));
        like[i] ^= 1 << i % 31;
        assert_int_equal(kv_prefix_find(kv, &b, like, 0, 2 * DGL_KV_PAGE), i / DGL_KV_PAGE);
    }
    assert_int_equal(kv_prefix_find(kv, &b, ids + DGL_KV_PAGE, 0, DGL_KV_PAGE), 0);
    assert_int_equal(kv_prefix_find(kv, &b, ids, 0, 2 * DGL_KV_PAGE), 2);
    kv->store[0].pages = pages;
    kv_prefix_rehash(&kv->store[0]);
    kv_cache_leave(kv, &a);
    kv_cache_leave(kv, &b);
    kv_cache_release_pool(kv, 4, 4);
    device_leave(engine.device, &saved);
}

/* Sequences with equal tokens but different roots share no page. */
static void test_roots(void **state)
{
    (void)state;
    static const struct root {
        enum dgl_kv_type type;
        uint64_t adapters, images;
    } roots[] = {{DGL_KV_F16, 0, 0}, {DGL_KV_F32, 0, 0}, {DGL_KV_F16, 1, 0},
                 {DGL_KV_F16, 2, 0}, {DGL_KV_F16, 0, 1}, {DGL_KV_F32, 1, 1}};
    enum { ROOTS = sizeof(roots) / sizeof(*roots) };
    struct kv_cache *kv = &engine.model->shard->kv;
    struct kv_pages of[ROOTS], reader;
    struct gl_saved saved;
    int32_t ids[2 * DGL_KV_PAGE];
    memcpy(ids, text, sizeof(ids));
    assert_int_equal(device_enter(engine.device, &saved), DGL_OK);
    assert_int_equal(kv_cache_reserve_pool(kv, 2 * ROOTS, 4, 0), DGL_OK);
    assert_int_equal(kv_cache_join_pooled(kv, 2, &reader), DGL_OK);
    assert_true(reader.root == kv_prefix_root(engine.model->shard->engine->plan.kv_type, 0, 0));
    for (int r = 0; r < ROOTS; r++) {
        assert_int_equal(kv_cache_join_pooled(kv, 2, &of[r]), DGL_OK);
        of[r].root = kv_prefix_root(roots[r].type, roots[r].adapters, roots[r].images);
        assert_int_equal(kv_prefix_find(kv, &of[r], ids, 0, 2 * DGL_KV_PAGE), 0);
        assert_int_equal(kv_cache_take(kv, &of[r], 2), DGL_OK);
        kv_prefix_note(kv, &of[r], ids, 0, 2 * DGL_KV_PAGE);
    }
    for (int r = 0; r < ROOTS; r++) {
        reader.root = of[r].root;
        assert_int_equal(kv_prefix_held(kv, reader.root, ids, 2 * DGL_KV_PAGE), 2);
        assert_int_equal(kv_prefix_reuse(kv, &reader, ids, 0, 2 * DGL_KV_PAGE), 2);
        for (int i = 0; i < 2; i++)
            assert_int_equal(reader.page[0][i], of[r].page[0][i]);
        kv_cache_give(kv, &reader, 0);
    }
    assert_int_equal(kv_prefix_held(kv, kv_prefix_root(DGL_KV_F32, 0, 1), ids, 2 * DGL_KV_PAGE), 0);
    kv_cache_leave(kv, &reader);
    for (int r = 0; r < ROOTS; r++)
        kv_cache_leave(kv, &of[r]);
    kv_cache_release_pool(kv, 2 * ROOTS, 4);
    device_leave(engine.device, &saved);
}

/* ---- sessions with a common prefix -------------------------------------------------------------
 */

struct beginning {
    const char *name;
    int32_t same, count; /* tokens in common with the first session; tokens */
    int32_t reused;
};
static const struct beginning beginnings[] = {
    {"nothing in common", 0, PROMPT, 0},
    {"less than a page", 63, PROMPT, 0},
    {"a page", 64, PROMPT, 64},
    {"a page and a token", 65, PROMPT, 64},
    {"two pages but one", 127, PROMPT, 64},
    {"two pages", 128, PROMPT, 128},
    {"all of it", PROMPT, PROMPT, 192},
    {"a page is all of it", 64, 64, 0},
    {"more than it", PROMPT, 300, 192},
};

static void test_beginning(void **state)
{
    const struct beginning *row = *state;
    int32_t ids[CONTEXT];
    for (int gone = 0; gone < 2; gone++) {
        struct dgl_session *first = session(true), *second, *alone = session(false);
        tiny_sync(first, text, PROMPT);
        second = session(true);
        if (gone)
            dgl_session_destroy(&first);
        memcpy(ids, text, sizeof(ids));
        memcpy(ids + row->same, other, (size_t)(row->count - row->same) * sizeof(*ids));
        const struct dgl_counters before = counters();
        assert_int_equal(tiny_sync(second, ids, (size_t)row->count), row->reused);
        const struct dgl_counters after = counters();
        assert_int_equal(after.prefix_hit_tokens - before.prefix_hit_tokens, row->reused);
        assert_int_equal(after.tokens - before.tokens, row->count - row->reused);
        assert_int_equal(after.pages_shared, gone ? 0 : row->reused / DGL_KV_PAGE);
        assert_int_equal(tiny_sync(alone, ids, (size_t)row->count), 0);
        float *got = tiny_logits(second), *want = tiny_logits(alone);
        const double nmse = tiny_nmse(got, want, (size_t)engine.model->info.vocab);
        if (!(nmse < 1e-9))
            fail_msg("logits: NMSE %g, at most 1e-9", nmse);
        free(got);
        free(want);
        dgl_session_destroy(&first);
        dgl_session_destroy(&second);
        dgl_session_destroy(&alone);
    }
}

/* Pages computed by other kernels are not shared. */
static void test_other_kernels(void **state)
{
    (void)state;
    struct dgl_session *first = session(true), *second = session(true);
    tiny_sync(first, text, PROMPT);
    assert_int_equal(dgl_model_set_kernels(engine.model, NULL), DGL_OK);
    assert_int_equal(tiny_sync(second, text, PROMPT), 0);
    dgl_session_trim(first, 100);
    tiny_sync(first, text, 300); /* begun by the old ones: it is not known */
    dgl_session_trim(second, 0);
    assert_int_equal(tiny_sync(second, text, 300), 192);
    dgl_session_destroy(&first);
    dgl_session_destroy(&second);
}

/* Experts, sinks, and layers with a window: a page contains all layers. */
static void test_windows(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_session *s[3] = {NULL};
    gl_fail_reset();
    tiny_engine_open(
        &e, &(struct tiny_engine_params){.path = "synthetic:tiny-gpt-oss:f32", .context = CONTEXT});
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            dgl_session_create(e.model, dgl_session_params(.share_prefix = i < 2), &s[i]), DGL_OK);
    assert_int_equal(tiny_sync(s[0], text, 400), 0);
    assert_int_equal(tiny_sync(s[1], text, 420), 384);
    assert_int_equal(tiny_sync(s[2], text, 420), 0);
    float *got = tiny_logits(s[1]), *want = tiny_logits(s[2]);
    const double nmse = tiny_nmse(got, want, (size_t)dgl_model_get_info(e.model)->vocab);
    if (!(nmse < 1e-9))
        fail_msg("logits: NMSE %g, at most 1e-9", nmse);
    free(got);
    free(want);
    for (int i = 0; i < 3; i++)
        dgl_session_destroy(&s[i]);
    tiny_engine_close(&e);
}

/* ---- clones ---------------------------------------------------------------------------------- */

struct copying {
    const char *name;
    /* tokens of the session; it is trimmed to this number before it is cloned */
    int32_t held, trimmed;
    bool ends;       /* before its clone continues */
    uint32_t shared; /* pages, when the clone is made */
};
static const struct copying clones[] = {
    {"nothing is held", 0, 0, false, 0},
    {"in the first page", 17, 17, false, 1},
    {"at the end of a page", 128, 128, false, 2},
    {"in the third page", 150, 150, false, 3},
    {"it is cut within what is shared", 150, 70, false, 3},
    {"it ends before its clone", 150, 150, true, 3},
};

static void test_clone(void **state)
{
    const struct copying *row = *state;
    enum { ANSWER = 40 };
    int32_t want[2][ANSWER], got[ANSWER], ids[2][CONTEXT];
    struct dgl_session *s = session(false), *clone = NULL, *alone = session(false);
    const size_t cut = (size_t)row->trimmed + 5, whole = (size_t)row->held + 5;
    memcpy(ids[0], text, sizeof(text));
    memcpy(ids[1], text, sizeof(text));
    memcpy(ids[0] + row->trimmed, other, 5 * sizeof(int32_t));
    memcpy(ids[1] + row->held, other + 5, 5 * sizeof(int32_t));
    tiny_greedy(alone, ids[0], cut, want[0], ANSWER);
    tiny_greedy(alone, ids[1], whole, want[1], ANSWER);
    dgl_session_destroy(&alone);
    if (row->held)
        tiny_sync(s, text, (size_t)row->held);
    const struct dgl_counters before = counters();
    assert_int_equal(dgl_session_clone(s, NULL, &clone), DGL_OK);
    const struct dgl_counters after = counters();
    assert_int_equal(after.tokens, before.tokens);
    assert_int_equal(after.pages_used, before.pages_used);
    assert_int_equal(after.pages_shared, row->shared);
    assert_int_equal(dgl_session_len(clone), row->held);
    if (row->held) { /* its logits came with it */
        float *a = tiny_logits(s), *b = tiny_logits(clone);
        assert_memory_equal(a, b, (size_t)engine.model->info.vocab * sizeof(float));
        free(a);
        free(b);
    }
    dgl_session_trim(s, row->trimmed);
    if (row->ends) {
        dgl_session_destroy(&s);
    } else {
        tiny_greedy(s, ids[0], cut, got, ANSWER);
        assert_memory_equal(got, want[0], sizeof(got));
    }
    tiny_greedy(clone, ids[1], whole, got, ANSWER);
    assert_memory_equal(got, want[1], sizeof(got));
    if (!row->ends) {
        tiny_greedy(s, ids[0], cut, got, ANSWER);
        assert_memory_equal(got, want[0], sizeof(got));
    }
    dgl_session_destroy(&s);
    dgl_session_destroy(&clone);
}

static void test_clone_is_refused(void **state)
{
    (void)state;
    struct dgl_session *s = session(false), *clone = NULL;
    const char *const parts[] = {"100", "150"};
    tiny_sync(s, text, 150);
    test_log_clear(&engine.log);
    enum dgl_status status = dgl_session_clone(s, dgl_session_params(.context = 100), &clone);
    assert_refusal(&engine.log, status, DGL_ERR_INVALID_ARG, parts);
    assert_null(clone);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_session_clone(s, NULL, NULL), DGL_ERR_INVALID_ARG);
    test_log_clear(&engine.log);
    /* If any allocation fails, the session can continue. */
    int failed = 0;
    for (enum dgl_status got = DGL_ERR_NO_MEMORY; got != DGL_OK; failed++) {
        assert_in_range(failed, 0, 60);
        gl_fail.allocations = failed;
        got = dgl_session_clone(s, NULL, &clone);
        gl_fail_reset();
        assert_int_equal(got == DGL_OK, clone != NULL);
        test_log_clear(&engine.log);
        assert_int_equal(dgl_session_len(s), 150);
    }
    assert_true(failed > 3);
    assert_int_equal(counters().pages_used, 3);
    dgl_session_destroy(&s);
    dgl_session_destroy(&clone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_one_bucket),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_other_kernels),
        cmocka_unit_test(test_clone_is_refused),
        cmocka_unit_test(test_windows),
    };
    struct tiny_llama sizes = tiny_llama_default();
    sizes.context = CONTEXT;
    dir = test_tmpdir();
    tiny_llama_write(dir, &sizes);
    tiny_ids(text, CONTEXT, sizes.vocab, 5);
    tiny_ids(other, CONTEXT, sizes.vocab, 6);
    for (int i = 0; i < CONTEXT; i++) /* differs everywhere */
        other[i] = other[i] == text[i] ? other[i] - 1 : other[i];
    int failures = cmocka_run_group_tests(tests, open_engine, close_engine);
    open_engine(NULL);
    failures += test_run_table("beginnings", test_beginning, beginnings);
    failures += test_run_table("clones", test_clone, clones);
    close_engine(NULL);
    test_tmpdir_remove(dir);
    return failures;
}
