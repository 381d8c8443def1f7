/* Pages of the KV cache: their owners, growth of the cache, and the contents that move with it.
 * Answers do not depend on the places of pages. */
#include "core/memory/kv_cache.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/gl_fail.h"
#include "tests/support/tiny_engine.h"

static char *dir; /* a tiny model of a long context */

/* ---- pages ----------------------------------------------------------------------------------- */

#define LAYERS     3
#define PAGE_BYTES 256
#define SEQS       2

struct cache {
    struct tiny_engine e;
    struct gl_saved saved;
    struct kv_cache kv;
    struct kv_pages seq[SEQS];
};

/* `free_bytes`: on the device before there is a cache; 0 = unknown. */
static void cache_open(struct cache *c, uint64_t free_bytes)
{
    static const uint32_t most[SEQS] = {100, 20};
    *c = (struct cache){0};
    tiny_engine_open(&c->e, &(struct tiny_engine_params){.path = dir, .context = 64});
    test_log_clear(&c->e.log);
    assert_int_equal(device_enter(c->e.device, &c->saved), DGL_OK);
    const struct kv_layout layout = {1, {{.layers = LAYERS, .page_bytes = PAGE_BYTES}}};
    kv_cache_init(&c->kv, c->e.device, &layout, 0);
    for (uint32_t s = 0; s < SEQS; s++) {
        const uint64_t left = free_bytes ? free_bytes - c->kv.bytes : 0;
        assert_int_equal(kv_cache_join(&c->kv, most[s], left, &c->seq[s]), DGL_OK);
    }
}

static void cache_close(struct cache *c)
{
    for (uint32_t s = 0; s < SEQS; s++)
        kv_cache_leave(&c->kv, &c->seq[s]);
    assert_int_equal(c->kv.store[0].pages, 0);
    assert_int_equal(c->kv.bytes, 0);
    device_leave(c->e.device, &c->saved);
    tiny_engine_close(&c->e);
}

static uint64_t page_at(const struct cache *c, uint32_t layer, uint32_t seq, uint32_t i)
{
    assert_in_range(c->seq[seq].page[0][i], 0, c->kv.store[0].pages - 1);
    return c->kv.store[0].layer[layer].offset + c->seq[seq].page[0][i] * (uint64_t)PAGE_BYTES;
}

/* Writes a word that no other page contains to each page from `from` on. */
static void write_pages(const struct cache *c, uint32_t seq, uint32_t from)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t i = from; i < c->seq[seq].count; i++) {
            const uint32_t word = l << 24 | seq << 16 | i;
            assert_int_equal(gl_buffer_write(c->e.device->gl, c->kv.store[0].layer[l].buffer,
                                             page_at(c, l, seq, i), &word, 4),
                             DGL_OK);
        }
}

static void check_pages(const struct cache *c)
{
    for (uint32_t n = 0; n < LAYERS * SEQS; n++)
        for (uint32_t l = n / SEQS, s = n % SEQS, i = 0; i < c->seq[s].count; i++) {
            uint32_t word = 0;
            assert_int_equal(gl_buffer_read(c->e.device->gl, c->kv.store[0].layer[l].buffer,
                                            page_at(c, l, s, i), &word, 4),
                             DGL_OK);
            assert_int_equal(word, l << 24 | s << 16 | i);
        }
}

/* Gives the sequence so many pages. Pages of other sequences must not change. */
static void set_count(struct cache *c, uint32_t seq, uint32_t count)
{
    const uint32_t had = c->seq[seq].count;
    if (count < had)
        kv_cache_give(&c->kv, &c->seq[seq], count);
    else
        assert_int_equal(kv_cache_take(&c->kv, &c->seq[seq], count), DGL_OK);
    assert_int_equal(c->seq[seq].count, count);
    write_pages(c, seq, had);
    check_pages(c);
}

static void test_pages_are_taken_and_given(void **state)
{
    (void)state;
    /* Counts in this order, and the size of the cache in pages if the count moves it. */
    static const struct step {
        uint32_t seq, count;
        bool moves;
        uint32_t pages;
    } steps[] = {
        {0, 20, false, 64}, {1, 19, false, 64},   {0, 31, false, 64},  {1, 7, false, 64},
        {0, 57, false, 64}, {0, 58, true, 120},   {1, 20, false, 120}, {0, 3, false, 120},
        {1, 0, false, 120}, {0, 100, false, 120}, {1, 20, false, 120},
    };
    struct cache c;
    cache_open(&c, 0);
    assert_int_equal(c.kv.store[0].pages, 64); /* 2,048 positions of the first one, twice as many */
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        const struct step *step = &steps[i];
        const uint32_t serial = c.kv.serial;
        assert_int_equal(kv_cache_moves(&c.kv, &c.seq[step->seq], step->count), step->moves);
        set_count(&c, step->seq, step->count);
        assert_int_equal(c.kv.serial - serial, step->moves);
        assert_int_equal(c.kv.store[0].pages, step->pages);
        assert_int_equal(c.kv.bytes, (uint64_t)step->pages * PAGE_BYTES * LAYERS);
        assert_int_equal(c.kv.store[0].num_free, step->pages - c.seq[0].count - c.seq[1].count);
    }
    cache_close(&c);
}

/* Two copies of all reserved pages would not fit, so the cache has its full size from the
 * beginning. */
static void test_no_room_for_two_copies(void **state)
{
    (void)state;
    const uint64_t all = 120 * PAGE_BYTES * LAYERS;
    struct cache c;
    cache_open(&c, 2 * all);
    assert_int_equal(c.kv.store[0].pages, 64);
    cache_close(&c);
    cache_open(&c, 2 * all - 1);
    assert_int_equal(c.kv.store[0].pages, 120);
    cache_close(&c);
}

/* Layers are in as few buffers as bindings allow for the pages that exist. */
static void test_few_buffers(void **state)
{
    (void)state;
    struct cache c;
    gl_fail.max_ssbo_bytes = 2 * 120 * PAGE_BYTES;
    cache_open(&c, 0);
    const uint64_t division = kv_cache_division(&c.kv);
    assert_int_equal(c.kv.store[0].pages, 64);
    assert_int_equal(c.kv.store[0].num_buffers, 1);
    set_count(&c, 0, 30);
    assert_int_equal(kv_cache_division(&c.kv), division);
    set_count(&c, 0, 60);
    set_count(&c, 1, 20);
    assert_int_equal(c.kv.store[0].pages, 120);
    assert_int_equal(c.kv.store[0].num_buffers, 2);
    assert_true(kv_cache_division(&c.kv) != division);
    cache_close(&c);
}

/* If a move of the cache fails at any point, all pages stay in place. */
static void test_a_move_that_fails(void **state)
{
    (void)state;
    long *const faults[] = {&gl_fail.allocations, &gl_fail.buffers};
    for (size_t f = 0; f < sizeof(faults) / sizeof(*faults); f++) {
        struct cache c;
        int failed = 0;
        cache_open(&c, 0);
        set_count(&c, 0, 50);
        set_count(&c, 1, 10);
        for (enum dgl_status status = DGL_ERR_NO_MEMORY; status != DGL_OK; failed++) {
            const struct kv_cache before = c.kv;
            const int64_t bytes = gl_fail.live_bytes;
            assert_in_range(failed, 0, 20);
            *faults[f] = failed;
            status = kv_cache_take(&c.kv, &c.seq[0], 80);
            gl_fail_reset();
            if (status == DGL_OK)
                break;
            assert_int_equal(status, DGL_ERR_NO_MEMORY);
            assert_memory_equal(&before, &c.kv, sizeof(before));
            assert_int_equal(c.seq[0].count, 50);
            assert_int_equal(gl_fail.live_bytes, bytes);
            assert_int_equal(c.e.log.errors, 1);
            test_log_clear(&c.e.log);
            check_pages(&c);
        }
        assert_true(failed > 0);
        assert_int_equal(c.seq[0].count, 80);
        write_pages(&c, 0, 50);
        check_pages(&c);
        cache_close(&c);
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

#define CONTEXT 4096
#define PROMPT  1790 /* less than 2,048 with the reserve for an answer of unknown length */
#define ANSWER  270  /* more than the reserve */

static int32_t prompt[PROMPT], want[ANSWER];

enum meanwhile { NOTHING, SESSION_COMES, BUFFERS_FAIL };

struct listener {
    struct tiny_engine *e;
    struct dgl_session *other;
    enum meanwhile meanwhile;
    int tokens;
    uint32_t moves, serial;
};

static bool hear(void *priv, int32_t id)
{
    struct listener *l = priv;
    (void)id;
    l->tokens++;
    if (l->meanwhile == SESSION_COMES && l->tokens == 10) {
        l->other = tiny_session(l->e, 0);
        tiny_sync(l->other, prompt, 100);
    }
    if (l->meanwhile == SESSION_COMES && l->tokens == 40)
        dgl_session_destroy(&l->other);
    if (l->meanwhile == BUFFERS_FAIL)
        gl_fail.buffers = 0;
    l->moves += l->e->model->shard->kv.serial != l->serial;
    l->serial = l->e->model->shard->kv.serial;
    return l->tokens < ANSWER;
}

static enum dgl_status generate(struct listener *l, struct dgl_generate_result *r)
{
    l->serial = l->e->model->shard->kv.serial;
    return dgl_generate(l->e->session,
                        dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .ignore_eos = true,
                                            .readback_interval = 16, .token_cb = hear, .priv = l),
                        r);
}

struct answer {
    const char *name;
    bool few_bytes; /* memory for little more than one copy */
    bool share;     /* another session uses pages between those of the prompt */
    enum meanwhile meanwhile;
    uint32_t moves; /* during the answer */
};

static const struct answer answers[] = {
    {"pages from the beginning", true, false, NOTHING, 0},
    {"the cache moves", false, false, NOTHING, 1},
    {"pages of two sessions in turn", false, true, NOTHING, 0}, /* the other one moved it */
    {"another session comes and goes", false, false, SESSION_COMES, 1},
};

static void test_answer(void **state)
{
    const struct answer *row = *state;
    struct tiny_engine e;
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct dgl_session *other = NULL;
    gl_fail_reset();
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .context = CONTEXT});
    struct dgl_memory mem = {.size = sizeof(mem)};
    dgl_session_estimate(e.model, NULL, &mem);
    assert_int_equal(e.model->shard->kv.bytes, mem.kv_bytes / 2);
    if (row->few_bytes) {
        tiny_engine_close(&e);
        gl_fail.memory_free_bytes = mem.weight_bytes + mem.scratch_bytes + mem.kv_bytes / 2 * 3;
        tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .context = CONTEXT});
        assert_int_equal(e.model->shard->kv.bytes, mem.kv_bytes);
    }
    if (row->share) {
        other = tiny_session(&e, 0);
        for (int i = 1; i < 4; i++) {
            tiny_sync(e.session, prompt, 300u * (size_t)i);
            tiny_sync(other, prompt + i, 100u * (size_t)i);
        }
    }
    struct listener l = {.e = &e, .meanwhile = row->meanwhile};
    assert_int_equal(generate(&l, &r), DGL_OK);
    assert_int_equal(r.num_tokens, ANSWER);
    if (row->few_bytes) /* the first row */
        memcpy(want, r.tokens, sizeof(want));
    assert_memory_equal(r.tokens, want, sizeof(want));
    assert_int_equal(l.moves, row->moves);
    /* Exactly the pages of the session's tokens. */
    const uint32_t held = (uint32_t)dgl_session_len(e.session);
    assert_int_equal(e.session->seq.pages.count, (held + DGL_KV_PAGE - 1) / DGL_KV_PAGE);
    dgl_session_trim(e.session, DGL_KV_PAGE + 1);
    assert_int_equal(e.session->seq.pages.count, 2);
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&other);
    tiny_engine_close(&e);
}

/* Pages run out in the middle of an answer: it ends with an error, the next one is whole. */
static void test_growth_that_fails(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct listener l = {.e = &e, .meanwhile = BUFFERS_FAIL};
    gl_fail_reset();
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir, .context = CONTEXT});
    test_log_clear(&e.log);
    assert_int_equal(generate(&l, &r), DGL_ERR_NO_MEMORY);
    assert_int_equal(e.log.errors, 1);
    assert_in_range(l.tokens, 2048 - PROMPT - 16, 2048 - PROMPT + 1);
    dgl_generate_result_finish(&r);
    gl_fail_reset();
    l = (struct listener){.e = &e};
    assert_int_equal(generate(&l, &r), DGL_OK);
    assert_memory_equal(r.tokens, want, sizeof(want));
    dgl_generate_result_finish(&r);
    tiny_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest pages[] = {
        cmocka_unit_test_setup(test_pages_are_taken_and_given, gl_fail_setup),
        cmocka_unit_test_setup(test_no_room_for_two_copies, gl_fail_setup),
        cmocka_unit_test_setup(test_few_buffers, gl_fail_setup),
        cmocka_unit_test_setup(test_a_move_that_fails, gl_fail_setup),
    };
    const struct CMUnitTest faults[] = {
        cmocka_unit_test_setup(test_growth_that_fails, gl_fail_setup),
    };
    struct tiny_llama sizes = tiny_llama_default();
    sizes.context = CONTEXT;
    dir = test_tmpdir();
    tiny_llama_write(dir, &sizes);
    tiny_ids(prompt, PROMPT, sizes.vocab, 22);
    int failures = cmocka_run_group_tests(pages, NULL, NULL);
    failures += test_run_table("answers", test_answer, answers);
    failures += cmocka_run_group_tests(faults, NULL, NULL);
    test_tmpdir_remove(dir);
    return failures;
}
