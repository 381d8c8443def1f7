/* Soak test of dgl_batch: requests are cancelled in callbacks, by id, and from another thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/soak/soak.h"
#include "tests/support/tiny_engine.h"

enum { CANCEL_NEVER, CANCEL_BY_CALLBACK, CANCEL_BY_ID, CANCEL_BY_THREAD };

/* A slot for a request in flight. */
struct flight {
    struct soak *soak;
    uint64_t id; /* 0 if the slot is free */
    int request, cancel;
    size_t cancel_at;
    int32_t ids[SOAK_MOST_TOKENS];
    float margin[SOAK_MOST_TOKENS]; /* margins of the reference */
    size_t count;
    bool ended;
};

struct soak {
    struct tiny_engine engine;
    bool invariant; /* requires exact equality, for sampled requests too */
    struct dgl_batch *batch;
    struct soak_request request[SOAK_REQUESTS];
    struct flight alone[SOAK_REQUESTS];
    struct flight flight[SOAK_IN_FLIGHT];
    size_t finished, cancelled, exact, until_margin;
    _Atomic uint64_t to_cancel; /* id for the other thread; 0: no request, 1: end the thread */
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct flight *f = priv;
    if (f->count >= SOAK_MOST_TOKENS)
        fail_msg("request %d: more than %d tokens", f->request, SOAK_MOST_TOKENS);
    f->ids[f->count] = token->chosen.id;
    if (token->num_top > 1)
        f->margin[f->count] = token->top[0].logprob - token->top[1].logprob;
    f->count++;
    if (f->cancel != CANCEL_NEVER && f->count == f->cancel_at) {
        if (f->cancel == CANCEL_BY_ID)
            dgl_batch_cancel(f->soak->batch, f->id);
        else if (f->cancel == CANCEL_BY_THREAD)
            atomic_store(&f->soak->to_cancel, f->id);
    }
    return f->cancel != CANCEL_BY_CALLBACK || f->count < f->cancel_at;
}

/* Runs every sequence to the end of its context, all at once. */
static void fill_contexts(struct soak *soak)
{
    size_t left = 1;
    for (int i = 0; i < SOAK_PARALLEL; i++)
        if (dgl_batch_submit(soak->batch, dgl_request_params(.prompt = "Once", .ignore_eos = true),
                             NULL) != DGL_OK)
            fail_msg("submit: %s", soak->engine.log.text);
    while (left > 0)
        if (dgl_batch_step(soak->batch, &left) != DGL_OK)
            fail_msg("step: %s", soak->engine.log.text);
}

/* Compares an answer with its reference: the whole text, or up to the first small margin. */
static void judge(struct flight *f, const struct dgl_request_result *r)
{
    struct soak *soak = f->soak;
    const struct flight *want = &soak->alone[f->request];
    if (r->finish == DGL_FINISH_CANCELLED) {
        soak->cancelled++;
        return;
    }
    soak->finished++;
    for (size_t i = 0; i < want->count; i++) {
        if (!soak->invariant && want->margin[i] < SOAK_MARGIN) {
            soak->until_margin++;
            return;
        }
        if (i >= f->count || f->ids[i] != want->ids[i])
            fail_msg("request %d, token %zu of %zu: %d, alone %d of %zu, which led by %g",
                     f->request, i, f->count, i < f->count ? f->ids[i] : -1, want->ids[i],
                     want->count, (double)want->margin[i]);
    }
    assert_int_equal(f->count, want->count);
    soak->exact++;
}

static void hear_end(void *priv, const struct dgl_request_result *r)
{
    struct flight *f = priv;
    if (r->status != DGL_OK || f->ended)
        fail_msg("request %d: %s, %s: %s", f->request, dgl_status_str(r->status),
                 f->ended ? "ended twice" : "", f->soak->engine.log.text);
    assert_int_equal(r->id, f->id);
    f->ended = true;
    if (f->cancel == CANCEL_NEVER)
        assert_int_not_equal(r->finish, DGL_FINISH_CANCELLED);
    if (f >= f->soak->flight && f < f->soak->flight + SOAK_IN_FLIGHT)
        judge(f, r);
    f->id = 0;
}

static void submit(struct soak *soak, struct flight *f, bool margins)
{
    const struct soak_request *r = &soak->request[f->request];
    const struct dgl_sampling draw = {.temperature = 0.9f, .top_p = 0.95f, .seed = r->seed};
    f->soak = soak;
    f->count = 0;
    f->ended = false;
    if (dgl_batch_submit(soak->batch,
                         dgl_request_params(.prompt = r->prompt, .max_tokens = r->max_tokens,
                                            .stop = &r->stop, .num_stop = r->stop != NULL,
                                            .sampling = r->seed ? draw : (struct dgl_sampling){0},
                                            .ignore_eos = f->request % 2 == 0, .logprobs = margins,
                                            .top_logprobs = margins ? 2 : 0, .token_cb = hear_token,
                                            .finish_cb = hear_end, .priv = f),
                         &f->id) != DGL_OK)
        fail_msg("submit: %s", soak->engine.log.text);
}

static struct dgl_batch *open_batch(struct soak *soak, int32_t sequences)
{
    struct dgl_batch *b = NULL;
    if (dgl_batch_create(soak->engine.model,
                         dgl_batch_params(.sequences = sequences, .queue = SOAK_IN_FLIGHT,
                                          .context = SOAK_CONTEXT, .invariant = soak->invariant),
                         &b) != DGL_OK)
        fail_msg("batch: %s", soak->engine.log.text);
    return b;
}

static void *cancel_aside(void *priv)
{
    struct soak *soak = priv;
    for (uint64_t id = 0; id != 1;) {
        id = atomic_exchange(&soak->to_cancel, 0);
        if (id > 1)
            dgl_batch_cancel(soak->batch, id);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

static void launch(struct soak *soak, struct flight *f)
{
    f->request = (int)soak_random(SOAK_REQUESTS);
    f->cancel = soak_random(3) ? CANCEL_NEVER : CANCEL_BY_CALLBACK + (int)soak_random(3);
    f->cancel_at = 1 + soak_random((uint32_t)soak->request[f->request].max_tokens);
    submit(soak, f, false);
    /* Cancel some requests while they are queued. */
    if (f->cancel == CANCEL_BY_ID && soak_random(4) == 0)
        dgl_batch_cancel(soak->batch, f->id);
}

static void run_part(bool invariant, double share)
{
    static struct soak soak;
    static struct soak_memory memory;
    const char *what = invariant ? "batch, invariant" : "batch";
    struct dgl_batch_info info = {.size = sizeof(info)};
    pthread_t thread;
    size_t left = 1;
    memset(&soak, 0, sizeof(soak));
    memset(&memory, 0, sizeof(memory));
    soak.invariant = invariant;
    tiny_engine_open(&soak.engine,
                     &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = SOAK_CONTEXT});
    soak_make_requests(soak.request, !invariant);
    soak.batch = open_batch(&soak, 1);
    for (int i = 0; i < SOAK_REQUESTS; i++) {
        soak.alone[i].request = i;
        submit(&soak, &soak.alone[i], !invariant);
        for (left = 1; left > 0;)
            assert_int_equal(dgl_batch_step(soak.batch, &left), DGL_OK);
    }
    dgl_batch_destroy(&soak.batch);
    soak.batch = open_batch(&soak, SOAK_PARALLEL);
    fill_contexts(&soak);
    assert_int_equal(pthread_create(&thread, NULL, cancel_aside, &soak), 0);
    memory.pid = getpid();
    bool more = true;
    for (left = 1; left > 0;) {
        for (int i = 0; more && i < SOAK_IN_FLIGHT; i++)
            if (soak.flight[i].id == 0)
                launch(&soak, &soak.flight[i]);
        if (dgl_batch_step(soak.batch, &left) != DGL_OK)
            fail_msg("step: %s", soak.engine.log.text);
        if (soak.finished + soak.cancelled >= SOAK_WARM)
            more = soak_memory_look(&memory, share);
    }
    atomic_store(&soak.to_cancel, 1);
    pthread_join(thread, NULL);
    dgl_batch_get_info(soak.batch, &info);
    assert_int_equal(info.running, 0);
    assert_int_equal(info.waiting, 0);
    assert_int_equal(info.pages_used, 0);
    assert_int_equal(info.failed, 0);
    assert_int_equal(info.submitted, info.finished + info.cancelled);
    assert_int_equal(info.finished, soak.finished + SOAK_PARALLEL);
    assert_int_equal(info.cancelled, soak.cancelled);
    dgl_batch_destroy(&soak.batch);
    printf("# soak: %s: %zu finished (%zu compared to the end, %zu up to a small margin), %zu "
           "cancelled\n",
           what, soak.finished, soak.exact, soak.until_margin, soak.cancelled);
    assert_true(soak.exact > 0 && soak.cancelled > 0);
    soak_memory_judge(&memory, what);
    tiny_engine_close(&soak.engine);
}

/* Requires exact equality, for sampled requests too. */
void soak_batch_invariant(void **state)
{
    (void)state;
    run_part(true, 0.1);
}

void soak_batch(void **state)
{
    (void)state;
    run_part(false, 0.1);
}
