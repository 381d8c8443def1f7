/* Many requests on one model: each gets the tokens that it gets alone, with any other requests.
 * Also order, cancelling in every state, refusals, faults. */
#include "tests/support/tiny_engine.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/seq/batch.h"
#include "tests/support/gl_fail.h"

#define CHUNK    8
#define CONTEXT  96
#define REQUESTS 8
#define MOST     64

/* One engine for all cases of the group, and ids that prompts are cut from. */
static struct tiny_engine engine;
static int32_t text[CONTEXT + 1]; /* one more than fits */

/* Everything that the callbacks of a request received. */
struct heard {
    uint64_t id;
    struct dgl_batch *batch;
    int32_t ids[MOST];
    float logprob[MOST], top[MOST], margin[MOST];
    size_t count;
    int finished; /* how often */
    enum dgl_status status;
    enum dgl_finish finish;
    size_t num_reused, num_prompt_ids, num_tokens;
    /* requested behaviour */
    size_t cancel_at;      /* token at which a callback returns false; 0 = never */
    struct heard *cancels; /* and another request, by name, with its own first token */
    struct heard *follows; /* submitted when this one ends */
    int *order;            /* counts requests that began */
    int place;             /* by their first token */
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct heard *h = priv;
    assert_true(h->count < MOST);
    assert_int_equal(h->finished, 0);
    h->ids[h->count] = token->chosen.id;
    h->logprob[h->count] = token->chosen.logprob;
    h->top[h->count] = token->num_top ? token->top[0].logprob : 0;
    h->margin[h->count] = token->num_top > 1 ? token->top[0].logprob - token->top[1].logprob : 0;
    if (h->count++ == 0 && h->order)
        h->place = ++*h->order;
    if (h->cancels)
        dgl_batch_cancel(h->batch, h->cancels->id);
    return h->cancel_at == 0 || h->count < h->cancel_at;
}

static void submit(struct dgl_batch *b, const struct dgl_request_params *p, struct heard *h);

static void hear_end(void *priv, const struct dgl_request_result *result)
{
    struct heard *h = priv;
    assert_int_equal(result->id, h->id);
    h->finished++;
    h->status = result->status;
    h->finish = result->finish;
    h->num_reused = result->num_reused;
    h->num_prompt_ids = result->num_prompt_ids;
    h->num_tokens = result->num_tokens;
    assert_int_equal(result->num_tokens, h->count);
    if (h->count)
        assert_memory_equal(result->tokens, h->ids, h->count * sizeof(*h->ids));
    assert_string_equal(result->text, ""); /* this model has no tokenizer */
    if (h->follows)
        submit(h->batch, dgl_request_params(.ids = text, .num_ids = 5, .max_tokens = 3),
               h->follows);
}

static enum dgl_status try_submit(struct dgl_batch *b, const struct dgl_request_params *p,
                                  struct heard *h)
{
    struct dgl_request_params mine = *p;
    h->batch = b;
    mine.token_cb = hear_token;
    mine.finish_cb = hear_end;
    mine.priv = h;
    return dgl_batch_submit(b, &mine, &h->id);
}

static void submit(struct dgl_batch *b, const struct dgl_request_params *p, struct heard *h)
{
    if (try_submit(b, p, h) != DGL_OK)
        fail_msg("submit: %s", engine.log.text);
    assert_int_not_equal(h->id, 0);
}

static struct dgl_batch *open_batch(int32_t sequences, int32_t queue)
{
    struct dgl_batch *b = NULL;
    if (dgl_batch_create(engine.model,
                         dgl_batch_params(.sequences = sequences, .queue = queue,
                                          .context = CONTEXT, .chunk = CHUNK),
                         &b) != DGL_OK)
        fail_msg("batch: %s", engine.log.text);
    return b;
}

static void run_all(struct dgl_batch *b)
{
    size_t left = 1;
    for (int steps = 0; left > 0; steps++) {
        if (dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("step: %s", engine.log.text);
        assert_true(steps < 2000);
    }
}

/* ---- the same answer with any other requests --------------------------------------------------
 */

#define BIAS                                                                                       \
    (const struct dgl_logit_bias[])                                                                \
    {                                                                                              \
        {5, 2.0f},                                                                                 \
        {                                                                                          \
            9, -3.0f                                                                               \
        }                                                                                          \
    }

/* Prompts shorter than a pass, as long as a pass, and longer; every kind of sampling. */
static const struct dgl_request_params requests[REQUESTS] = {
    {.ids = text, .num_ids = 1, .max_tokens = 20, .ignore_eos = true},
    {.ids = text + 3, .num_ids = 8, .max_tokens = 12, .ignore_eos = true},
    {.ids = text + 1, .num_ids = 30, .max_tokens = 9, .sampling = {.temperature = 1, .seed = 3}},
    {.ids = text, .num_ids = 90, .ignore_eos = true}, /* until the context is full */
    {.ids = text + 2,
     .num_ids = 17,
     .max_tokens = 10,
     .sampling = {.temperature = 0.7f, .top_k = 20, .top_p = 0.9f, .seed = 11}},
    {.ids = text + 2,
     .num_ids = 17,
     .max_tokens = 10,
     .ignore_eos = true,
     .logprobs = true,
     .top_logprobs = 3},
    {.ids = text + 7,
     .num_ids = 12,
     .max_tokens = 16,
     .ignore_eos = true,
     .sampling = {.temperature = 1.2f,
                  .repeat_penalty = 1.3f,
                  .repeat_last_n = 16,
                  .logit_bias = BIAS,
                  .num_logit_bias = 2,
                  .seed = 5}},
    {.ids = text, .num_ids = 24, .max_tokens = DGL_TOKENS_NONE},
};
static struct heard alone[REQUESTS];

static int learn_alone(void **state)
{
    (void)state;
    tiny_engine_open(&engine, &(struct tiny_engine_params){.context = CONTEXT});
    tiny_ids(text, CONTEXT, dgl_model_get_info(engine.model)->vocab, 17);
    for (int i = 0; i < REQUESTS; i++) {
        struct dgl_batch *b = open_batch(1, 1);
        submit(b, &requests[i], &alone[i]);
        run_all(b);
        dgl_batch_destroy(&b);
        assert_int_equal(alone[i].finished, 1);
        assert_int_equal(alone[i].status, DGL_OK);
    }
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    tiny_engine_close(&engine);
    return 0;
}

static void assert_as_alone(const struct heard *h, int request)
{
    const struct heard *want = &alone[request];
    assert_int_equal(h->finished, 1);
    assert_int_equal(h->status, DGL_OK);
    assert_string_equal(dgl_finish_str(h->finish), dgl_finish_str(want->finish));
    if (h->count != want->count)
        fail_msg("request %d: %zu tokens, alone %zu", request, h->count, want->count);
    for (size_t i = 0; i < want->count; i++) {
        if (h->ids[i] != want->ids[i])
            fail_msg("request %d, token %zu: %d, alone %d", request, i, h->ids[i], want->ids[i]);
        if (memcmp(&h->logprob[i], &want->logprob[i], 4) || memcmp(&h->top[i], &want->top[i], 4))
            fail_msg("request %d, token %zu: logprobs %a, %a, alone %a, %a", request, i,
                     (double)h->logprob[i], (double)h->top[i], (double)want->logprob[i],
                     (double)want->top[i]);
    }
}

struct company {
    const char *name;
    int32_t sequences;
    int order[12]; /* of requests; -1 behind the last */
    int apart;     /* steps between two submits */
};
static const struct company companies[] = {
    {"one after the other", 1, {0, 1, 2, 3, 4, 5, 6, 7, -1}, 0},
    {"two at once", 2, {7, 6, 5, 4, 3, 2, 1, 0, -1}, 0},
    {"three at once", 3, {3, 0, 3, 5, 1, 2, 6, 4, -1}, 0},
    {"all at once", 10, {0, 1, 2, 3, 4, 5, 6, 7, 5, 3, -1}, 0},
    {"one comes after another", 4, {3, 5, 1, 6, 0, 2, 4, -1}, 3},
    {"the same again", 2, {4, 4, 3, 3, 2, 2, -1}, 0},
};

static void test_company(void **state)
{
    const struct company *row = *state;
    struct dgl_batch *b = open_batch(row->sequences, 0);
    static struct heard heard[12];
    struct dgl_batch_info info = {.size = sizeof(info)};
    size_t tokens = 0, count = 0;
    memset(heard, 0, sizeof(heard));
    for (; row->order[count] >= 0; count++) {
        submit(b, &requests[row->order[count]], &heard[count]);
        for (int i = 0; i < row->apart; i++)
            assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    }
    run_all(b);
    for (size_t i = 0; i < count; i++) {
        assert_as_alone(&heard[i], row->order[i]);
        tokens += heard[i].count;
    }
    dgl_batch_get_info(b, &info);
    assert_int_equal(info.running + info.waiting, 0);
    assert_int_equal(info.submitted, count);
    assert_int_equal(info.finished, count);
    assert_int_equal(info.decoded_tokens, tokens);
    dgl_batch_destroy(&b);
}

/* The loop of a session generates the same tokens. */
static void generates_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct dgl_generate_result r = tiny_generate(
            engine.session,
            dgl_generate_params(.ids = requests[i].ids, .num_ids = requests[i].num_ids,
                                .max_tokens = requests[i].max_tokens, .ignore_eos = true));
        assert_int_equal(r.num_tokens, alone[i].count);
        assert_memory_equal(r.tokens, alone[i].ids, r.num_tokens * sizeof(*r.tokens));
        dgl_generate_result_finish(&r);
    }
}

/* Logits are those of dgl_logits(). */
static void logprobs_are_those_of_the_logits(void **state)
{
    (void)state;
    const struct dgl_request_params *p = &requests[5];
    const int32_t vocab = dgl_model_get_info(engine.model)->vocab;
    float *logits = NULL;
    size_t rows = 0;
    assert_int_equal(dgl_logits(engine.session,
                                dgl_logits_params(.ids = p->ids, .num_ids = p->num_ids), &logits,
                                &rows),
                     DGL_OK);
    double best = logits_nll(logits, vocab, alone[5].ids[0]);
    assert_near((double)alone[5].logprob[0], -best, 1e-4);
    for (int32_t id = 0; id < vocab; id++)
        if (logits_nll(logits, vocab, id) < best)
            best = logits_nll(logits, vocab, id);
    assert_near((double)alone[5].top[0], -best, 1e-4);
    dgl_free(logits);
}

/* Tokens of an earlier request are reused in whole pages and do not change the results. */
static void beginnings_are_kept(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(2, 0);
    struct heard first = {0}, again = {0}, other = {0};
    kv_prefix_evict_all(&engine.model->shard->kv);
    submit(b, &requests[3], &first);
    run_all(b);
    submit(b, &requests[3], &again);
    submit(b, &requests[1], &other);
    run_all(b);
    assert_as_alone(&first, 3);
    assert_as_alone(&again, 3);
    assert_as_alone(&other, 1);
    assert_int_equal(first.num_reused, 0);
    assert_int_equal(again.num_reused, 64);
    assert_int_equal(again.num_prompt_ids, 90);
    assert_int_equal(other.num_reused, 0);
    dgl_batch_destroy(&b);
}

/* Pages of a request are found only by requests of its scope, also if the device was opened again
 * while the request was read or answered. The request's pages are then made anew. */
struct scoped {
    const char *name;
    size_t
        lost_at; /* token of the first request after which the device is lost; 0 = in its prompt */
    bool lost;
};
static const struct scoped scopes[] = {{"a scope", 0, false},
                                       {"a scope, and a loss in the prompt", 0, true},
                                       {"a scope, and a loss in the answer", 2, true}};

static void test_scope(void **state)
{
    const struct scoped *row = *state;
    static const uint64_t scope[] = {5, 5, 7, 0};
    static const size_t reused[] = {0, 64, 0, 0};
    struct dgl_batch *b = open_batch(1, 0);
    struct dgl_request_params p = requests[3];
    kv_prefix_evict_all(&engine.model->shard->kv);
    for (int i = 0; i < 4; i++) {
        struct heard h = {0};
        size_t left = 1;
        bool lost = i > 0 || !row->lost, armed = lost;
        p.prefix_scope = scope[i];
        submit(b, &p, &h);
        while (left > 0) {
            if (!armed && h.count >= row->lost_at) {
                gl_fail.submits = row->lost_at ? 0 : 4;
                armed = true;
            }
            const enum dgl_status status = dgl_batch_step(b, &left);
            if (status == DGL_ERR_DEVICE_LOST && !lost) {
                lost = true;
                gl_fail_reset();
                assert_int_equal(dgl_model_rebuild(engine.model, NULL), DGL_OK);
            } else if (status != DGL_OK) {
                fail_msg("%s: %s", row->name, engine.log.text);
            }
        }
        assert_true(lost);
        assert_int_equal(h.finished, 1);
        if (h.num_reused != reused[i])
            fail_msg("%s: request %d of the scope %llu reused %zu tokens, wanted %zu", row->name, i,
                     (unsigned long long)scope[i], h.num_reused, reused[i]);
    }
    dgl_batch_destroy(&b);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* While the passes of a long prompt are evaluated, the other requests get tokens in every step. */
static void a_long_prompt_stops_nobody(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(3, 0);
    struct heard writer = {0}, longest = {0}, second = {0};
    submit(b, dgl_request_params(.ids = text, .num_ids = 4, .max_tokens = 60, .ignore_eos = true),
           &writer);
    while (writer.count == 0)
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    submit(b, &requests[3], &longest);
    submit(b, &requests[2], &second);
    for (int step = 0; longest.count == 0; step++) {
        const size_t before = writer.count;
        const bool over = writer.finished;
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
        /* On hardware a step may bring several tokens, so these answers may end before the prompt.
         */
        assert_true(over || writer.count > before);
        assert_true(step < 3 || writer.count > 3);
        /* 30 tokens need 4 passes, which alternate with those of the long prompt. */
        assert_true(step < 8 || second.count > 0);
        assert_true(step < 16);
    }
    dgl_batch_destroy(&b);
}

static void who_came_first_runs_first(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(2, 0);
    struct heard heard[6] = {0};
    int order = 0;
    for (int i = 0; i < 6; i++) {
        heard[i].order = &order;
        submit(b, dgl_request_params(.ids = text, .num_ids = 6, .max_tokens = 4 + i), &heard[i]);
    }
    run_all(b);
    for (int i = 0; i < 6; i++)
        assert_int_equal(heard[i].place, i + 1);
    dgl_batch_destroy(&b);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

enum { WAITING, READING, WRITING, CALLBACK, FROM_OTHER, OVER };
struct cancelling {
    const char *name;
    int when;
    size_t tokens; /* that it still gets */
};
static const struct cancelling cancellings[] = {
    {"while it waits", WAITING, 0},           {"while its prompt is read", READING, 0},
    {"while it writes", WRITING, 1},          {"by its own callback", CALLBACK, 2},
    {"by another's callback", FROM_OTHER, 0}, {"when it is over", OVER, 60},
};

static void test_cancel(void **state)
{
    const struct cancelling *row = *state;
    struct dgl_batch *b = open_batch(row->when == WAITING ? 1 : 3, 0);
    struct heard beside = {0}, it = {0}, after = {0};
    struct dgl_batch_info info = {.size = sizeof(info)};
    if (row->when == FROM_OTHER)
        beside.cancels = &it;
    if (row->when == CALLBACK)
        it.cancel_at = 2;
    submit(b, &requests[0], &beside);
    submit(b,
           dgl_request_params(.ids = text, .num_ids = row->when == READING ? 90 : 20,
                              .max_tokens = 60, .ignore_eos = true),
           &it);
    submit(b, &requests[4], &after);
    for (int i = 0; row->when == READING && i < 3; i++)
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    while (row->when == WRITING && it.count == 0)
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    if (row->when == OVER)
        run_all(b);
    if (row->when != CALLBACK && row->when != FROM_OTHER)
        dgl_batch_cancel(b, it.id);
    dgl_batch_cancel(b, 0);
    dgl_batch_cancel(b, UINT64_MAX);
    run_all(b);
    assert_int_equal(it.finished, 1);
    assert_int_equal(it.count, row->tokens);
    assert_int_equal(it.status, DGL_OK);
    assert_string_equal(dgl_finish_str(it.finish), row->when == OVER ? "length" : "cancelled");
    assert_as_alone(&beside, 0);
    assert_as_alone(&after, 4);
    dgl_batch_get_info(b, &info);
    assert_int_equal(info.cancelled, row->when != OVER);
    dgl_batch_destroy(&b);
}

static void *cancel_all(void *priv)
{
    struct heard *heard = priv;
    for (int i = 0; i < 6; i++)
        dgl_batch_cancel(heard[i].batch, heard[i].id);
    return NULL;
}

/* Submits four requests, then ends the loop of the thread that steps. */
struct submitter {
    struct dgl_batch *batch;
    struct heard heard[4];
    int first; /* of `requests` */
    bool refused, accepted;
};

static void *submit_four(void *priv)
{
    struct submitter *s = priv;
    uint64_t id;
    for (int i = 0; i < 4; i++) {
        /* A refusal logs a line while the other thread works. */
        s->accepted |= dgl_batch_submit(s->batch, dgl_request_params(.max_tokens = 1), &id) !=
                       DGL_ERR_INVALID_ARG;
        s->refused |= try_submit(s->batch, &requests[s->first + i], &s->heard[i]) != DGL_OK;
    }
    return NULL;
}

/* Two threads submit while a third one steps and sleeps if it has no work. */
static void other_threads_submit(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(3, 0);
    struct submitter submitters[2] = {{.batch = b, .first = 0}, {.batch = b, .first = 4}};
    struct dgl_batch_info info = {.size = sizeof(info)};
    pthread_t threads[2];
    size_t left = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_four, &submitters[i]), 0);
    for (uint64_t ended = 0; ended < REQUESTS;) {
        assert_int_equal(dgl_batch_wait(b, 0, &left), DGL_OK);
        assert_int_not_equal(left, 0);
        assert_int_equal(dgl_batch_step(b, &left), DGL_OK);
        dgl_batch_get_info(b, &info);
        ended = info.finished + info.failed + info.cancelled;
        assert_true(info.submitted <= REQUESTS);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(info.submitted, REQUESTS);
    assert_int_equal(info.waiting + info.running, 0);
    for (int i = 0; i < REQUESTS; i++) {
        assert_false(submitters[i / 4].refused || submitters[i / 4].accepted);
        assert_as_alone(&submitters[i / 4].heard[i % 4], (size_t)i);
    }
    dgl_batch_destroy(&b);
}

static void *wake(void *priv)
{
    dgl_batch_wake(priv);
    return NULL;
}

/* A wait ends with a request, after its time, or when it is woken, also in advance. */
static void waiting_ends(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(1, 0);
    struct heard h = {0};
    pthread_t thread;
    size_t left = 7;
    assert_int_equal(dgl_batch_wait(b, 1000000, &left), DGL_OK);
    assert_int_equal(left, 0);
    dgl_batch_wake(b);
    assert_int_equal(dgl_batch_wait(b, 0, &left), DGL_OK);
    assert_int_equal(pthread_create(&thread, NULL, wake, b), 0);
    assert_int_equal(dgl_batch_wait(b, 0, &left), DGL_OK);
    pthread_join(thread, NULL);
    assert_int_equal(left, 0);
    submit(b, &requests[0], &h);
    assert_int_equal(dgl_batch_wait(b, 0, &left), DGL_OK);
    assert_int_equal(left, 1);
    dgl_batch_cancel(b, h.id); /* before a step took it up */
    run_all(b);
    assert_int_equal(h.finished, 1);
    assert_string_equal(dgl_finish_str(h.finish), "cancelled");
    dgl_batch_destroy(&b);
}

/* Another thread cancels at any time: each request gets one finish_cb, and later requests are not
 * affected. */
static void another_thread_cancels(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(3, 0);
    for (int round = 0; round < 4; round++) {
        struct heard heard[6] = {0}, after = {0};
        pthread_t thread;
        for (int i = 0; i < 6; i++)
            submit(b, &requests[i % REQUESTS], &heard[i]);
        assert_int_equal(pthread_create(&thread, NULL, cancel_all, heard), 0);
        run_all(b);
        pthread_join(thread, NULL);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(heard[i].finished, 1);
            assert_int_equal(heard[i].status, DGL_OK);
            assert_true(heard[i].count <= alone[i].count);
            if (heard[i].count)
                assert_memory_equal(heard[i].ids, alone[i].ids, heard[i].count * 4);
        }
        submit(b, &requests[1], &after);
        run_all(b);
        assert_as_alone(&after, 1);
    }
    dgl_batch_destroy(&b);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void a_callback_submits(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(1, 1);
    struct heard first = {0}, second = {0};
    first.follows = &second;
    submit(b, &requests[0], &first);
    run_all(b);
    assert_int_equal(second.finished, 1);
    assert_int_equal(second.count, 3);
    dgl_batch_destroy(&b);
}

static bool step_inside(void *priv, const struct dgl_token *token)
{
    struct heard *h = priv;
    (void)token;
    h->status = dgl_batch_step(h->batch, NULL);
    return false;
}

static void a_step_in_a_step_is_refused(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(1, 1);
    struct heard h = {.batch = b};
    test_log_clear(&engine.log);
    assert_int_equal(dgl_batch_submit(b,
                                      dgl_request_params(.ids = text, .num_ids = 3,
                                                         .token_cb = step_inside, .priv = &h),
                                      NULL),
                     DGL_OK);
    run_all(b);
    const char *const parts[] = {"dgl_batch_step()", "callback"};
    assert_refusal(&engine.log, h.status, DGL_ERR_INVALID_ARG, parts);
    test_log_clear(&engine.log);
    dgl_batch_destroy(&b);
}

static void dropped_in_every_state(void **state)
{
    (void)state;
    for (int steps = 0; steps < 8; steps++) {
        struct dgl_batch *b = open_batch(2, 0);
        struct heard heard[4] = {0};
        for (int i = 0; i < 4; i++)
            submit(b, &requests[i + 2], &heard[i]);
        for (int i = 0; i < steps; i++)
            assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
        dgl_batch_destroy(&b);
        assert_null(b);
        assert_int_equal(heard[1].finished, 0);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    struct dgl_request_params params;
    enum dgl_status status;
    const char *parts[3];
};
static const struct refusal refusals[] = {
    {"no prompt", {0}, DGL_ERR_INVALID_ARG, {"text or as ids"}},
    {"no ids", {.ids = text}, DGL_ERR_INVALID_ARG, {"the prompt is empty"}},
    {"text without a tokenizer", {.prompt = "a"}, DGL_ERR_INVALID_ARG, {"no tokenizer"}},
    {"longer than any sequence",
     {.ids = text, .num_ids = CONTEXT + 1},
     DGL_ERR_INVALID_ARG,
     {"97 tokens", "holds 96"}},
    {"an id of no token",
     {.ids = (const int32_t[]){1, 320}, .num_ids = 2},
     DGL_ERR_INVALID_ARG,
     {"token 1", "320", "319"}},
    {"a negative number of tokens",
     {.ids = text, .num_ids = 1, .max_tokens = -3},
     DGL_ERR_INVALID_ARG,
     {"max_tokens is -3"}},
    {"a temperature below zero",
     {.ids = text, .num_ids = 1, .sampling.temperature = -1},
     DGL_ERR_INVALID_ARG,
     {"temperature"}},
    {"a stop string that is missing",
     {.ids = text, .num_ids = 1, .num_stop = 1},
     DGL_ERR_INVALID_ARG,
     {"stop[0]"}},
    {"too many logprobs",
     {.ids = text, .num_ids = 1, .logprobs = true, .top_logprobs = 21},
     DGL_ERR_INVALID_ARG,
     {"top_logprobs is 21", "20"}},
    {"top logprobs alone",
     {.ids = text, .num_ids = 1, .top_logprobs = 1},
     DGL_ERR_INVALID_ARG,
     {"top_logprobs is 1", "with logprobs"}},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct dgl_batch *b = open_batch(1, 1);
    uint64_t id = 7;
    size_t left = 7;
    test_log_clear(&engine.log);
    enum dgl_status status = dgl_batch_submit(b, &row->params, &id);
    assert_refusal(&engine.log, status, row->status, row->parts);
    assert_int_equal(id, 0);
    assert_int_equal(dgl_batch_step(b, &left), DGL_OK);
    assert_int_equal(left, 0);
    test_log_clear(&engine.log);
    dgl_batch_destroy(&b);
}

static void a_full_queue_is_busy(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(1, 2);
    struct heard heard[4] = {0};
    submit(b, &requests[0], &heard[0]);
    assert_int_equal(dgl_batch_step(b, NULL), DGL_OK); /* now it runs */
    submit(b, &requests[1], &heard[1]);
    submit(b, &requests[2], &heard[2]);
    test_log_clear(&engine.log);
    const char *const parts[] = {"3 requests run and wait", "1 sequences and a queue of 2"};
    assert_refusal(&engine.log, try_submit(b, &requests[0], &heard[3]), DGL_ERR_BUSY, parts);
    test_log_clear(&engine.log);
    run_all(b);
    assert_int_equal(heard[3].finished, 0);
    submit(b, &requests[0], &heard[3]);
    run_all(b);
    assert_as_alone(&heard[3], 0);
    dgl_batch_destroy(&b);
}

struct bad_batch {
    const char *name;
    struct dgl_batch_params params;
    const char *parts[2];
};
static const struct bad_batch bad_batches[] = {
    {"sequences below 0", {.sequences = -1}, {"sequences", "-1"}},
    {"too many sequences", {.sequences = 257}, {"257", "256"}},
    {"a queue below 0", {.queue = -1}, {"queue", "-1"}},
    {"too long a queue", {.queue = 65537}, {"65537", "65536"}},
    {"more context than granted", {.context = CONTEXT + 1}, {"97", "96"}},
    {"a chunk below 0", {.chunk = -1}, {"chunk -1"}},
};

static void test_bad_batch(void **state)
{
    const struct bad_batch *row = *state;
    struct dgl_batch *b = (void *)&engine;
    test_log_clear(&engine.log);
    enum dgl_status status = dgl_batch_create(engine.model, &row->params, &b);
    assert_refusal(&engine.log, status, DGL_ERR_INVALID_ARG, row->parts);
    assert_null(b);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_batch_create(engine.model, NULL, NULL), DGL_ERR_INVALID_ARG);
    test_log_clear(&engine.log);
}

/* ---- faults and the steady state ------------------------------------------------------------- */

/* After every lane has run every kind of request, steps allocate and compile no more. */
static void nothing_is_made_in_the_steady_state(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(3, 0);
    struct dgl_counters before, after;
    for (int round = 0; round < 2; round++) {
        dgl_device_get_counters(engine.device, &before);
        for (int i = 0; i < REQUESTS; i++) {
            struct heard heard[3] = {0};
            for (int lane = 0; lane < 3; lane++)
                submit(b, &requests[i], &heard[lane]);
            run_all(b);
        }
        dgl_device_get_counters(engine.device, &after);
    }
    assert_int_equal(after.buffers_created - before.buffers_created, 0);
    assert_int_equal(after.programs_linked - before.programs_linked, 0);
    dgl_batch_destroy(&b);
}

static bool count_decoding(void *priv, const struct dgl_plan_step *step)
{
    int *count = priv;
    assert_int_equal(step->tokens, 3);
    *count += step->phase == DGL_PHASE_DECODE;
    return true;
}

/* The plan of passes over several sequences matches the dispatches that run. */
static void passes_are_as_explained(void **state)
{
    (void)state;
    struct dgl_batch *b = open_batch(3, 0);
    struct heard heard[3] = {0};
    struct dgl_counters before, after;
    int steps = 0;
    assert_int_equal(dgl_model_plan_batch(engine.model, 3, count_decoding, &steps), DGL_OK);
    assert_true(steps > 10);
    steps +=
        (int)plan_body(&engine.model->shard->engine->plan, PASS_SAMPLE(SAMPLE_GREEDY))->ops.count;
    for (int i = 0; i < 3; i++)
        submit(b,
               dgl_request_params(.ids = text, .num_ids = 2, .max_tokens = 60, .ignore_eos = true),
               &heard[i]);
    while (heard[0].count == 0 || heard[1].count == 0 || heard[2].count == 0)
        assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    assert_int_equal(dgl_batch_step(b, NULL), DGL_OK); /* compiles */
    dgl_device_get_counters(engine.device, &before);
    assert_int_equal(dgl_batch_step(b, NULL), DGL_OK);
    dgl_device_get_counters(engine.device, &after);
    const int dispatches = (int)(after.dispatches - before.dispatches);
    /* Whole passes, and the report of them. */
    if (dispatches < steps || (dispatches - 1) % steps != 0)
        fail_msg("%d dispatches, told were passes of %d and a report", dispatches, steps);
    dgl_batch_destroy(&b);
    const char *const parts[] = {"65 sequences", "1 to 64"};
    test_log_clear(&engine.log);
    assert_refusal(&engine.log, dgl_model_plan_batch(engine.model, 65, count_decoding, &steps),
                   DGL_ERR_INVALID_ARG, parts);
    test_log_clear(&engine.log);
}

struct fault {
    const char *name;
    long *counter;
    bool lost; /* the device goes with it */
};
static const struct fault faults[] = {
    {"out of memory", &gl_fail.allocations, false},
    {"a readback fails", &gl_fail.readbacks, false},
    {"the device is lost", &gl_fail.submits, true},
};

/* A fault at any time ends only the requests that it concerns. After a device loss all requests
 * continue. */
static void test_fault(void **state)
{
    const struct fault *row = *state;
    for (long at = 0; at < 60; at = at * 3 / 2 + 1) {
        struct dgl_batch *b = open_batch(2, 0);
        struct heard heard[3] = {0};
        size_t left = 0, done = 0;
        gl_fail_reset();
        *row->counter = at;
        for (int i = 0; i < 3; i++)
            done += try_submit(b, &requests[i + 4], &heard[i]) != DGL_OK;
        for (int steps = 0; steps == 0 || left > 0; steps++) {
            enum dgl_status status = dgl_batch_step(b, &left);
            assert_true(steps < 500);
            if (status == DGL_OK)
                continue;
            assert_true(row->lost);
            assert_int_equal(status, DGL_ERR_DEVICE_LOST);
            gl_fail_reset();
            if (dgl_model_rebuild(engine.model, NULL) != DGL_OK)
                fail_msg("rebuild: %s", engine.log.text);
        }
        gl_fail_reset();
        for (int i = 0; i < 3; i++) {
            if (heard[i].id == 0)
                continue;
            assert_int_equal(heard[i].finished, 1);
            if (heard[i].status == DGL_OK && !row->lost)
                assert_as_alone(&heard[i], i + 4);
            done += heard[i].status != DGL_OK;
            /* Text reported before the loss is not reported again. The rest may differ only between
             * almost equal logits. */
            if (row->lost) {
                assert_int_equal(heard[i].status, DGL_OK);
                assert_int_equal(heard[i].count, alone[i + 4].count);
            }
            /* Greedy, the same as long as it is clear. */
            for (size_t n = 0; row->lost && i == 1 && n < heard[i].count; n++) {
                if (alone[i + 4].margin[n] < 0.02f)
                    break;
                if (heard[i].ids[n] != alone[i + 4].ids[n])
                    fail_msg("lost at %ld, token %zu: %d, alone %d", at, n, heard[i].ids[n],
                             alone[i + 4].ids[n]);
            }
        }
        assert_true(done <= 1);
        test_log_clear(&engine.log);
        dgl_batch_destroy(&b);
        assert_int_equal(dgl_device_is_lost(engine.device), false);
    }
}

/* Creating a batch fails at every allocation and leaves no objects. Allocations for the records of
 * persistent dispatches may fail: hardware works without them. */
static void making_fails_everywhere(void **state)
{
    (void)state;
    const struct dgl_batch_params *params = dgl_batch_params(.sequences = 2, .context = 32);
    struct dgl_batch *b = NULL;
    bool failed = true;
    assert_int_equal(dgl_batch_create(engine.model, params, &b), DGL_OK);
    dgl_batch_destroy(&b);
    const int64_t buffers = gl_fail.live_buffers;
    for (long at = 0; failed; at++) {
        gl_fail_reset();
        gl_fail.allocations = at;
        enum dgl_status status = dgl_batch_create(engine.model, params, &b);
        failed = gl_fail.tripped;
        gl_fail_reset();
        if (failed && status == DGL_OK && !engine.model->shard->dev->info.software) {
            struct heard h = {0};
            submit(b, &requests[1], &h);
            run_all(b);
            assert_as_alone(&h, 1);
        } else {
            assert_int_equal(status, failed ? DGL_ERR_NO_MEMORY : DGL_OK);
        }
        dgl_batch_destroy(&b);
        assert_int_equal(gl_fail.live_buffers, buffers);
        assert_true(at < 500);
        test_log_clear(&engine.log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generates_the_same),
        cmocka_unit_test(logprobs_are_those_of_the_logits),
        cmocka_unit_test(beginnings_are_kept),
        cmocka_unit_test(a_long_prompt_stops_nobody),
        cmocka_unit_test(who_came_first_runs_first),
        cmocka_unit_test(another_thread_cancels),
        cmocka_unit_test(other_threads_submit),
        cmocka_unit_test(waiting_ends),
        cmocka_unit_test(a_callback_submits),
        cmocka_unit_test(a_step_in_a_step_is_refused),
        cmocka_unit_test(dropped_in_every_state),
        cmocka_unit_test(a_full_queue_is_busy),
        cmocka_unit_test(nothing_is_made_in_the_steady_state),
        cmocka_unit_test(passes_are_as_explained),
        cmocka_unit_test(making_fails_everywhere),
    };
    void *none = NULL;
    learn_alone(&none);
    int failures = cmocka_run_group_tests_name("batch", tests, NULL, NULL);
    failures += test_run_table("batch: scope", test_scope, scopes);
    failures += test_run_table("batch: company", test_company, companies);
    failures += test_run_table("batch: cancel", test_cancel, cancellings);
    failures += test_run_table("batch: refusal", test_refusal, refusals);
    failures += test_run_table("batch: bad parameters", test_bad_batch, bad_batches);
    failures += test_run_table("batch: fault", test_fault, faults);
    close_engine(&none);
    return failures;
}
