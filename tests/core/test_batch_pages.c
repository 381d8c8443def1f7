/* Pages of a batch. Common prefixes of prompts are computed once. A sequence has only the pages for
 * its tokens. If pages run out, the newest request releases its pages, loses no tokens and reports
 * none twice. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#include "core/seq/batch.h"
#include "tests/support/gl_fail.h"

#define CONTEXT 640
#define MOST    320 /* tokens of an answer */

static struct tiny_engine engine;
static char *dir;
static int32_t text[CONTEXT];

struct heard {
    int32_t ids[MOST];
    float margin[MOST]; /* between the two best logits; 1 if logprobs were not requested */
    size_t count, reused;
    int finished;
    enum dgl_status status;
    enum dgl_finish finish;
    uint64_t id;
    int *begun, place; /* by first tokens */
    size_t ends;       /* the callback cancels after this many tokens; 0 = never */
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct heard *h = priv;
    assert_true(h->count < MOST && h->finished == 0);
    if (h->count == 0 && h->begun)
        h->place = ++*h->begun;
    h->margin[h->count] =
        token->num_top == 2 ? token->top[0].logprob - token->top[1].logprob : 1.0f;
    h->ids[h->count++] = token->chosen.id;
    return h->count != h->ends;
}

static void hear_end(void *priv, const struct dgl_request_result *result)
{
    struct heard *h = priv;
    h->finished++;
    h->status = result->status;
    h->finish = result->finish;
    h->reused = result->num_reused;
    assert_int_equal(result->num_tokens, h->count);
    if (h->count)
        assert_memory_equal(result->tokens, h->ids, h->count * sizeof(*h->ids));
}

static void submit(struct dgl_batch *b, const struct dgl_request_params *p, struct heard *h)
{
    struct dgl_request_params mine = *p;
    mine.token_cb = hear_token;
    mine.finish_cb = hear_end;
    mine.priv = h;
    if (dgl_batch_submit(b, &mine, &h->id) != DGL_OK)
        fail_msg("submit: %s", engine.log.text);
}

static struct dgl_batch *open_batch(const struct dgl_batch_params *params)
{
    struct dgl_batch *b = NULL;
    if (dgl_batch_create(engine.model, params, &b) != DGL_OK)
        fail_msg("batch: %s", engine.log.text);
    return b;
}

/* Returns the most pages that were in use after a step. */
static uint32_t run_all(struct dgl_batch *b)
{
    size_t left = 1;
    uint32_t most = 0;
    for (int steps = 0; left > 0; steps++) {
        struct dgl_batch_info info = {.size = sizeof(info)};
        struct dgl_counters c;
        if (dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("step: %s", engine.log.text);
        dgl_batch_get_info(b, &info);
        dgl_device_get_counters(engine.device, &c);
        assert_int_equal(info.pages_used, c.pages_used);
        assert_in_range(info.pages_used, 0, info.pages);
        most = info.pages_used > most ? info.pages_used : most;
        assert_true(steps < 5000);
    }
    return most;
}

static void close_batch(struct dgl_batch **b)
{
    struct dgl_batch_info info = {.size = sizeof(info)};
    dgl_batch_get_info(*b, &info);
    assert_int_equal(info.pages_used, 0);
    assert_int_equal(info.running + info.waiting, 0);
    dgl_batch_destroy(b);
    assert_int_equal(engine.model->shard->kv.bytes, 0);
}

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
    tiny_engine_close(&engine);
    return 0;
}

/* ---- tokens computed and pages used ------------------------------------------------------------
 */

struct crowd {
    const char *name;
    int32_t sequences, chunk;
};
static const struct crowd crowds[] = {
    {"eight at once", 8, 0},
    {"eight at once, passes across pages", 8, 200},
    {"passes of less than a page", 3, 48},
    {"one after the other", 1, 0},
    {"all at once", 64, 0},
};

/* 64 requests with a common system prompt of 512 tokens: the evaluated tokens are at most 1.2 times
 * that prompt plus the tails. */
static void test_crowd(void **state)
{
    enum { REQUESTS = 64, SYSTEM = 512, TAIL = 16 };
    const struct crowd *row = *state;
    static struct heard heard[REQUESTS];
    int32_t ids[SYSTEM + TAIL];
    struct dgl_counters before, after;
    struct dgl_batch_info info = {.size = sizeof(info)};
    struct dgl_batch *b =
        open_batch(dgl_batch_params(.sequences = row->sequences, .chunk = row->chunk));
    memset(heard, 0, sizeof(heard));
    memcpy(ids, text, sizeof(ids));
    dgl_device_get_counters(engine.device, &before);
    for (int i = 0; i < REQUESTS; i++) {
        ids[SYSTEM] = i % 50 + 4;
        ids[SYSTEM + 1] = i / 50 + 4;
        submit(b,
               dgl_request_params(.ids = ids, .num_ids = SYSTEM + TAIL, .max_tokens = 2,
                                  .ignore_eos = true),
               &heard[i]);
    }
    const uint32_t most = run_all(b);
    dgl_device_get_counters(engine.device, &after);
    dgl_batch_get_info(b, &info);
    const uint64_t answers = info.decoded_tokens, work = after.tokens - before.tokens - answers;
    const uint64_t least = SYSTEM + REQUESTS * TAIL;
    print_message("# %s: %llu tokens of prompts evaluated, %llu are different; %u pages\n",
                  row->name, (unsigned long long)work, (unsigned long long)least, most);
    assert_int_equal(info.prompt_tokens, REQUESTS * (SYSTEM + TAIL));
    assert_int_equal(info.preempted, 0);
    assert_int_equal(answers, REQUESTS * 2);
    assert_at_most((double)work, 1.2 * (double)least);
    assert_at_most((double)(info.prompt_tokens - info.reused_tokens), 1.2 * (double)least);
    assert_int_equal(after.prefix_hit_tokens - before.prefix_hit_tokens, info.reused_tokens);
    assert_at_most(most, SYSTEM / 64 + row->sequences * 2);
    for (int i = 0; i < REQUESTS; i++)
        assert_int_equal(heard[i].status, DGL_OK);
    close_batch(&b);
}

/* 64 sequences of 100 tokens. */
static void pages_are_those_of_the_tokens(void **state)
{
    (void)state;
    static struct heard heard[64];
    int32_t ids[70];
    struct dgl_batch *b = open_batch(dgl_batch_params(.sequences = 64));
    memset(heard, 0, sizeof(heard));
    for (int i = 0; i < 64; i++) {
        memcpy(ids, text + i, sizeof(ids));
        submit(b,
               dgl_request_params(.ids = ids, .num_ids = 70, .max_tokens = 30, .ignore_eos = true),
               &heard[i]);
    }
    const uint32_t most = run_all(b);
    assert_at_most(most * 64.0, 64 * (100 + 64));
    print_message("# %u pages at most\n", most);
    assert_true(most >= 20);
    close_batch(&b);
}

/* ---- when pages run out ---------------------------------------------------------------------- */

#define REQUESTS 6
/* Stop ids cannot end them, but the batch does not know this in advance. */
static const struct dgl_logit_bias never[] = {{1, -1e9f}, {2, -1e9f}};
#define NEVER .logit_bias = never, .num_logit_bias = 2
static const struct dgl_request_params requests[REQUESTS] = {
    {.ids = text, .num_ids = 40, .max_tokens = 150, .sampling = {NEVER}},
    {.ids = text + 1,
     .num_ids = 30,
     .max_tokens = 160,
     .sampling = {.temperature = 1, .seed = 3, NEVER}},
    {.ids = text + 2,
     .num_ids = 90,
     .max_tokens = 110,
     .sampling = {.temperature = 0.8f,
                  .top_k = 20,
                  .repeat_penalty = 1.2f,
                  .repeat_last_n = 64,
                  .seed = 11,
                  NEVER}},
    {.ids = text, .num_ids = 45, .max_tokens = 150, .logprobs = true, .sampling = {NEVER}},
    {.ids = text + 4, .num_ids = 1, .max_tokens = 180, .sampling = {NEVER}},
    {.ids = text + 5, .num_ids = 20, .max_tokens = DGL_TOKENS_NONE},
};
static struct heard alone[REQUESTS];

enum meanwhile { NOTHING, A_LOSS, A_CANCEL, OTHER_KERNELS };
struct shortage {
    const char *name;
    int32_t sequences, cache_tokens;
    enum meanwhile meanwhile;
    bool waits; /* some gives up */
    bool apart; /* dgl_batch_params.invariant: the same tokens to the last */
};
static const struct shortage shortages[] = {
    {"pages for all", 6, 0, NOTHING, false, true},
    {"pages for all, together", 6, 0, NOTHING, false, false},
    {"pages for two", 6, 448, NOTHING, true, false},
    {"pages for one", 6, 256, NOTHING, true, false},
    {"pages for one, two at once", 2, 256, NOTHING, true, false},
    {"the device is lost meanwhile", 6, 256, A_LOSS, true, false},
    {"one that gave up is cancelled", 6, 256, A_CANCEL, true, false},
    {"other kernels come", 6, 256, OTHER_KERNELS, true, false},
};

/* One that runs no more and has tokens. */
static struct heard *find_waiting(const struct dgl_batch *b, struct heard *heard)
{
    for (const struct batch_request *r = b->first; r; r = r->next)
        for (int i = 0; i < REQUESTS; i++)
            if (!r->lane && heard[i].id == r->id && heard[i].count > 0)
                return &heard[i];
    return NULL;
}

static void test_shortage(void **state)
{
    const struct shortage *row = *state;
    static struct heard heard[REQUESTS];
    struct heard *cancelled = NULL;
    struct dgl_batch_info info = {.size = sizeof(info)};
    struct dgl_batch *b =
        open_batch(dgl_batch_params(.sequences = row->sequences, .context = 256,
                                    .cache_tokens = row->cache_tokens, .invariant = row->apart));
    memset(heard, 0, sizeof(heard));
    b->answer_tokens = 1; /* so that pages run out */
    for (int i = 0; i < REQUESTS; i++)
        submit(b, &requests[i], &heard[i]);
    if (row->meanwhile != NOTHING) {
        for (int steps = 0; !(cancelled = find_waiting(b, heard)); steps++) {
            assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
            assert_true(steps < 2000);
        }
        if (row->meanwhile == A_CANCEL)
            dgl_batch_cancel(b, cancelled->id);
        if (row->meanwhile == OTHER_KERNELS)
            assert_int_equal(dgl_model_set_kernels(engine.model, NULL), DGL_OK);
        if (row->meanwhile == A_LOSS) {
            gl_fail.submits = 1;
            enum dgl_status status = DGL_OK;
            for (int steps = 0; status == DGL_OK; steps++) {
                assert_true(steps < 100);
                status = dgl_batch_step(b, NULL);
            }
            assert_int_equal(status, DGL_ERR_DEVICE_LOST);
            gl_fail_reset();
            assert_int_equal(dgl_model_rebuild(engine.model, NULL), DGL_OK);
        }
    }
    run_all(b);
    dgl_batch_get_info(b, &info);
    print_message("# %s: %llu times, of %u pages\n", row->name, (unsigned long long)info.preempted,
                  info.pages);
    assert_int_equal(info.preempted > 0, row->waits);
    for (int i = 0; i < REQUESTS; i++) {
        const struct heard *h = &heard[i];
        const bool is_cancelled = row->meanwhile == A_CANCEL && h == cancelled;
        assert_int_equal(h->finished, 1);
        assert_int_equal(h->status, DGL_OK);
        assert_string_equal(dgl_finish_str(h->finish),
                            is_cancelled ? "cancelled" : dgl_finish_str(alone[i].finish));
        if (!is_cancelled)
            assert_int_equal(h->count, alone[i].count);
        /* Draws close to a limit may differ in a batch, so only greedy answers are compared. */
        for (size_t n = 0; n < h->count; n++) {
            if (!row->apart &&
                (alone[i].margin[n] < 0.02f || requests[i].sampling.temperature != 0))
                break;
            if (h->ids[n] != alone[i].ids[n])
                fail_msg("request %d, token %zu: %d, alone %d", i, n, h->ids[n], alone[i].ids[n]);
        }
    }
    close_batch(&b);
    test_log_clear(&engine.log);
}

static void learn_alone(void)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct dgl_batch *b = open_batch(dgl_batch_params(.sequences = 1, .context = 256));
        struct dgl_request_params p = requests[i];
        p.logprobs = p.logprobs || p.sampling.temperature == 0;
        p.top_logprobs = p.logprobs ? 2 : 0;
        submit(b, &p, &alone[i]);
        run_all(b);
        assert_int_equal(alone[i].status, DGL_OK);
        close_batch(&b);
    }
}

/* A request that waits for many pages is not overtaken by requests that need few. */
static void nobody_overtakes(void **state)
{
    (void)state;
    static struct heard heard[5];
    int begun = 0;
    struct dgl_batch *b =
        open_batch(dgl_batch_params(.sequences = 5, .context = 256, .cache_tokens = 256));
    memset(heard, 0, sizeof(heard));
    for (int i = 0; i < 5; i++) {
        heard[i].begun = &begun;
        submit(b,
               dgl_request_params(.ids = text + i, .num_ids = i == 1 ? 240 : 20, .max_tokens = 8,
                                  .ignore_eos = true),
               &heard[i]);
    }
    run_all(b);
    assert_int_equal(heard[0].place, 1);
    assert_int_equal(heard[1].place, 2);
    close_batch(&b);
}

/* Answers that together are longer than the cache. */
struct rush {
    const char *name;
    int32_t requests, sequences, cache_tokens;
    int32_t prompt, answer; /* tokens of each; 0 = any number up to 300 */
    int32_t max_tokens;     /* as in the request; 0 = not set */
    bool known;             /* max_tokens is the exact length: the answer cannot end otherwise */
    float expected;         /* mean length of earlier answers, tokens; 0 = no earlier answers */
    double most;            /* evaluated tokens divided by distinct tokens */
    uint64_t waits;         /* maximum number of times that requests release their pages */
};
static const struct rush rushes[] = {
    {"lengths that are known", 6, 6, 640, 70, 220, 0, true, 0, 1.05, 1},
    {"as long as expected", 6, 6, 640, 70, 160, 0, false, 0, 1.05, 1},
    {"longer than expected", 6, 6, 640, 70, 220, 0, false, 1, 1.12, 1},
    {"longer than expected, of long prompts", 6, 6, 704, 200, 220, 0, false, 1, 1.1, 2},
    {"much shorter than they may be", 12, 12, 1024, 70, 20, 500, false, 0, 1.0, 0},
    {"of any length", 12, 12, 768, 0, 0, 0, false, 0, 1.05, 1},
};

/* Most requests that start also end, none waits forever, and few tokens are evaluated twice. Passes
 * have a fixed length, so the results do not depend on time. */
static void test_rush(void **state)
{
    enum { MOST_REQUESTS = 12 };
    const struct rush *row = *state;
    static struct heard heard[MOST_REQUESTS];
    int32_t ids[CONTEXT];
    int begun = 0;
    uint64_t least = 0;
    struct dgl_counters before, after;
    struct dgl_batch_info info = {.size = sizeof(info)};
    struct dgl_batch *b =
        open_batch(dgl_batch_params(.sequences = row->sequences, .context = CONTEXT,
                                    .cache_tokens = row->cache_tokens, .chunk = 128));
    memset(heard, 0, sizeof(heard));
    if (row->expected > 0)
        b->answer_tokens = row->expected;
    dgl_device_get_counters(engine.device, &before);
    for (int i = 0; i < row->requests; i++) {
        const int32_t prompt = row->prompt ? row->prompt : 1 + i * 97 % 300;
        const int32_t answer = row->answer ? row->answer : 1 + i * 173 % 300;
        memcpy(ids, text, sizeof(ids));
        ids[0] = i + 4;
        heard[i].begun = &begun;
        heard[i].ends = (size_t)answer;
        least += (uint64_t)(prompt + answer - 1);
        submit(b,
               dgl_request_params(.ids = ids, .num_ids = (size_t)prompt,
                                  .max_tokens = row->known ? answer : row->max_tokens,
                                  .ignore_eos = row->known, .sampling = {NEVER}),
               &heard[i]);
    }
    run_all(b);
    dgl_device_get_counters(engine.device, &after);
    dgl_batch_get_info(b, &info);
    const uint64_t work = after.tokens - before.tokens;
    print_message("# %s: %llu tokens evaluated, %llu are different; %llu times of %u pages\n",
                  row->name, (unsigned long long)work, (unsigned long long)least,
                  (unsigned long long)info.preempted, info.pages);
    for (int i = 0; i < row->requests; i++) {
        assert_int_equal(heard[i].finished, 1);
        assert_int_equal(heard[i].status, DGL_OK);
        assert_int_equal(heard[i].count, heard[i].ends);
        /* In order of arrival, except for requests that run at the same time. */
        assert_in_range(heard[i].place + row->sequences, i + 2, i + 2 * row->sequences);
    }
    assert_at_most((double)work, row->most * (double)least);
    assert_at_most((double)info.preempted, (double)row->waits);
    close_batch(&b);
}

/* ---- requests that do not fit ------------------------------------------------------------------
 */

struct refusal {
    const char *name;
    struct dgl_batch_params params;
    enum dgl_status status;
    const char *parts[4];
};
static const struct refusal refusals[] = {
    {"a context of more pages than there are",
     {.sequences = 2, .context = 300, .cache_tokens = 200},
     DGL_ERR_NO_MEMORY,
     {"300 tokens", "5 pages", "4 beside", "256"}},
    {"less than no tokens",
     {.sequences = 2, .cache_tokens = -1},
     DGL_ERR_INVALID_ARG,
     {"cache_tokens", "-1"}},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct dgl_batch *b = NULL;
    test_log_clear(&engine.log);
    enum dgl_status status = dgl_batch_create(engine.model, &row->params, &b);
    assert_refusal(&engine.log, status, row->status, row->parts);
    assert_null(b);
    test_log_clear(&engine.log);
}

/* If no context is requested, the context is limited by the pages. */
static void a_context_is_lowered(void **state)
{
    (void)state;
    struct dgl_batch_info info = {.size = sizeof(info)};
    struct dgl_batch *b = open_batch(dgl_batch_params(.sequences = 2, .cache_tokens = 200));
    dgl_batch_get_info(b, &info);
    assert_int_equal(info.context, 256);
    assert_int_equal(info.pages, 4);
    close_batch(&b);
    b = open_batch(dgl_batch_params(.sequences = 2, .cache_tokens = 256, .invariant = true));
    dgl_batch_get_info(b, &info);
    assert_int_equal(info.context, 128); /* all of it for each */
    close_batch(&b);
    test_log_clear(&engine.log);
}

struct room {
    const char *name;
    int32_t sequences;
    bool apart;
};
static const struct room rooms[] = {
    {"one", 1, false}, {"two", 2, false}, {"six", 6, false}, {"six apart", 6, true}};

/* The estimate covers all memory of sequences beside the pages: the memory of each sequence and the
 * memory that they share. With that memory plus some pages, a batch gets exactly these pages. */
static void test_room(void **state)
{
    const struct room *row = *state;
    const struct plan *plan = &engine.model->shard->engine->plan;
    const uint64_t held = engine.device->held_bytes;
    const struct plan_batch all = {.context = CONTEXT,
                                   .sequences = row->sequences,
                                   .rows = plan_default_rows(plan),
                                   .groups = !row->apart};
    const struct dgl_batch_params *params =
        dgl_batch_params(.sequences = row->sequences, .invariant = row->apart);
    struct dgl_batch_info info = {.size = sizeof(info)};
    uint64_t own;
    gl_fail_reset();
    struct dgl_batch *b = open_batch(params);
    const uint64_t counted = plan_batch_total(plan, &all, &own);
    const struct kv_cache *kv = &engine.model->shard->kv;
    const uint64_t page = kv->page_bytes;
    assert_int_equal(engine.device->held_bytes - held - kv->bytes, counted);
    assert_true(own < counted);
    close_batch(&b);
    assert_int_equal(engine.device->held_bytes, held);
    for (uint64_t pages = 6; pages < 8; pages++) {
        gl_fail.memory_free_bytes = held + counted + pages * page + page - 1;
        b = open_batch(params);
        dgl_batch_get_info(b, &info);
        assert_int_equal(info.pages, pages);
        close_batch(&b);
    }
    gl_fail_reset();
    test_log_clear(&engine.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_those_of_the_tokens),
        cmocka_unit_test(nobody_overtakes),
        cmocka_unit_test(a_context_is_lowered),
    };
    struct tiny_llama sizes = tiny_llama_default();
    sizes.context = CONTEXT;
    dir = test_tmpdir();
    tiny_llama_write(dir, &sizes);
    tiny_ids(text, CONTEXT, sizes.vocab, 9);
    int failures = cmocka_run_group_tests(tests, open_engine, close_engine);
    open_engine(NULL);
    failures += test_run_table("crowds", test_crowd, crowds);
    learn_alone();
    failures += test_run_table("shortages", test_shortage, shortages);
    failures += test_run_table("rushes", test_rush, rushes);
    failures += test_run_table("refusals", test_refusal, refusals);
    failures += test_run_table("rooms", test_room, rooms);
    close_engine(NULL);
    test_tmpdir_remove(dir);
    return failures;
}
