/* Timing of sequences that decode together. All prompts are evaluated before any sequence decodes.
 * Only steps that include all sequences are timed. The first tokens are excluded, because programs
 * are compiled for them, and so are the steps in which clocks rise. No sequence ends before the
 * last timed step. */
#include "core/measure/bench_batch.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/seq/batch.h"

/* Duration of full steps before timing. Prompts that are evaluated in sequence are little work, so
 * a GPU lowers its clocks and needs time to raise them (on an H100 the first 0.2 s of 64 sequences
 * were up to three times slower). */
#define CLOCKS_NS 300000000ull

struct bench_batch {
    struct dgl_session *session;
    struct dgl_batch *batch;
    int32_t sequences, prompt; /* tokens of each prompt */
    int32_t decode_tokens;     /* of each sequence */
    int32_t warm_tokens;       /* of each before them, at most */
    uint64_t *request;         /* [sequences] */
    int32_t *ids;              /* [sequences * prompt] */
    /* of the repetition at hand */
    int32_t begun, ended;
    uint64_t tokens;
    enum dgl_status failure; /* of a request */
    struct bench_batch_run *run;
};

/* Callback state of one request. The first token is not counted. */
struct listener {
    struct bench_batch *b;
    bool begun, first;
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct listener *l = priv;
    (void)token;
    l->b->begun += !l->begun;
    l->begun = true;
    l->b->tokens++;
    return true;
}

static void hear_end(void *priv, const struct dgl_request_result *result)
{
    struct listener *l = priv;
    struct bench_batch_run *run = l->b->run;
    l->b->ended++;
    if (result->status != DGL_OK && l->b->failure == DGL_OK)
        l->b->failure = result->status;
    if (!l->first)
        return;
    run->ids = dgl_new_array(int32_t, result->num_tokens ? result->num_tokens : 1);
    run->text = strdup(result->text);
    if (!run->ids || !run->text) {
        l->b->failure = DGL_ERR_NO_MEMORY;
        return;
    }
    run->num_ids = result->num_tokens;
    memcpy(run->ids, result->tokens, result->num_tokens * sizeof(*run->ids));
}

enum dgl_status bench_batch_create(struct dgl_session *s, const struct dgl_bench_params *p,
                                   struct bench_batch **out)
{
    struct dgl_model *m = s->model;
    const int32_t prompt = p->depth > 0 ? p->depth : 1;
    /* Steps that are queued at both ends of the timed window. */
    const int64_t ahead = 4 * (int64_t)session_readback_interval(s) + 4 * DECODER_MAX_STEPS;
    const int64_t least = (int64_t)prompt + 2 * (int64_t)p->decode_tokens + ahead + 1;
    int64_t context = least + (m->shard->dev->info.software ? 0 : 2 * (int64_t)p->decode_tokens);
    context = context < m->info.context ? context : m->info.context;
    const size_t count = (size_t)p->batch * (size_t)prompt;
    struct bench_batch *b = dgl_new(struct bench_batch);
    enum dgl_status status = DGL_ERR_NO_MEMORY;
    if (b) {
        b->session = s;
        b->sequences = p->batch;
        b->prompt = prompt;
        b->decode_tokens = p->decode_tokens;
        b->warm_tokens = context > least ? (int32_t)(context - least) : 0;
        b->request = dgl_new_array(uint64_t, (size_t)p->batch);
        b->ids = dgl_new_array(int32_t, count);
    }
    if (!b || !b->request || !b->ids) {
        status = dgl_fail_memory(m->log, "prompts of a batch", count * sizeof(*b->ids));
        goto failed;
    }
    /* Prompts with different first tokens, so that no prefix is shared. */
    for (size_t i = 0; i < count; i++)
        b->ids[i] =
            (int32_t)((uint32_t)(i + i / (size_t)prompt) * 2654435761u % (uint32_t)m->info.vocab);
    b->batch = dgl_new(struct dgl_batch);
    if (!b->batch) {
        status = dgl_fail_memory(m->log, "batch", sizeof(*b->batch));
        goto failed;
    }
    b->batch->model = m;
    status = batch_init(
        b->batch,
        dgl_batch_params(.sequences = p->batch, .queue = p->batch, .context = (int32_t)context,
                         .chunk = s->state.ubatch, .invariant = p->batch_invariant,
                         .progress_cb = p->progress_cb, .progress_priv = p->progress_priv));
    if (status != DGL_OK)
        goto failed;
    batch_read_first(b->batch);
    /* A group must not be timed while it waits for a compiler. */
    for (int32_t i = 0; i < b->batch->num_groups; i++)
        b->batch->groups[i]->state->runner.wait_executor = true;
    *out = b;
    return DGL_OK;

failed:
    bench_batch_destroy(&b);
    return status;
}

void bench_batch_destroy(struct bench_batch **batch)
{
    struct bench_batch *b = *batch;
    *batch = NULL;
    if (!b)
        return;
    if (b->batch)
        batch_destroy(b->batch);
    free(b->request);
    free(b->ids);
    free(b);
}

bool bench_batch_shares_passes(const struct bench_batch *b)
{
    return b->batch->num_groups > 0;
}

void bench_batch_executor(const struct bench_batch *b, struct dgl_executor_info *out)
{
    decoder_executor(b->batch->groups[0], out);
}

/* Returns DGL_ERR_CANCELLED also if the session was cancelled. */
static enum dgl_status step(struct bench_batch *b)
{
    enum dgl_status status = batch_step(b->batch);
    gl_device_set_stop(session_dev(b->session)->gl, &b->session->state.runner.cancel);
    if (status == DGL_ERR_DEVICE_LOST)
        batch_lose(b->batch);
    if (status == DGL_OK)
        status = b->failure;
    return status == DGL_OK && session_is_cancelled(b->session) ? DGL_ERR_CANCELLED : status;
}

static void set_profile(struct bench_batch *b, struct profile *profile)
{
    for (int32_t i = 0; i < b->batch->num_groups; i++)
        b->batch->groups[i]->state->runner.profile = profile;
}

/* Runs one repetition. The profile of its window is added to `profile`, which may be NULL. */
static enum dgl_status repeat(struct bench_batch *b, int32_t each_tokens, struct profile *profile,
                              struct bench_batch_run *run)
{
    struct dgl_device *dev = session_dev(b->session);
    const uint64_t wanted = (uint64_t)b->sequences * (uint64_t)each_tokens;
    struct listener *listeners = dgl_new_array(struct listener, (size_t)b->sequences);
    const uint64_t submits = device_counters(dev).submits;
    enum dgl_status status = DGL_OK;
    *run = (struct bench_batch_run){0};
    run->step_ms = dgl_new_array(double, wanted);
    if (!listeners || !run->step_ms)
        TRY(dgl_fail_memory(dev->log, "times of steps", wanted * sizeof(double)));
    b->run = run;
    b->begun = b->ended = 0;
    b->failure = DGL_OK;
    for (int32_t i = 0; i < b->sequences; i++) {
        listeners[i] = (struct listener){.b = b, .first = i == 0};
        TRY(batch_submit(b->batch,
                         dgl_request_params(.ids = b->ids + (size_t)i * (size_t)b->prompt,
                                            .num_ids = (size_t)b->prompt, .ignore_eos = true,
                                            .token_cb = hear_token, .finish_cb = hear_end,
                                            .priv = &listeners[i]),
                         &b->request[i]));
    }
    while (b->begun < b->sequences && b->ended == 0)
        TRY(step(b));
    b->tokens = 0;
    while (b->tokens == 0 && b->ended == 0)
        TRY(step(b));
    const uint64_t warm_ns = dgl_now_ns() + CLOCKS_NS;
    const uint64_t warm = (uint64_t)b->sequences * (uint64_t)b->warm_tokens;
    while (b->tokens < warm && b->ended == 0 && dgl_now_ns() < warm_ns)
        TRY(step(b));
    const struct dgl_counters before = device_counters(dev);
    run->submits_before = before.submits - submits;
    b->tokens = 0;
    set_profile(b, profile);
    while (b->ended == 0 && run->tokens < wanted) {
        const uint64_t start = dgl_now_ns(), tokens = b->tokens;
        while (b->ended == 0 && b->tokens == tokens)
            TRY(step(b));
        const uint64_t ns = dgl_now_ns() - start;
        if (b->ended > 0)
            break;
        const double each = (double)(b->tokens - tokens) / b->sequences;
        run->step_ms[run->num_steps++] = (double)ns * 1e-6 / each;
        run->tokens = b->tokens;
        run->ns += ns;
    }
    run->counters = counters_since(dev, &before);
    if (run->tokens == 0)
        TRY(dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                     "bench: a context of %d has no room in which %d sequences decode "
                     "together: raise -c",
                     b->session->model->info.context, b->sequences));

done:
    set_profile(b, NULL);
    /* Also after a failure: these listeners must not be called later. */
    for (int32_t i = 0; listeners && i < b->sequences; i++)
        batch_cancel(b->batch, b->request[i]);
    gl_device_set_stop(dev->gl, NULL);
    while (listeners && !gl_device_is_lost(dev->gl))
        if (batch_step(b->batch) != DGL_OK || b->batch->info.running + b->batch->info.waiting == 0)
            break;
    gl_device_set_stop(dev->gl, NULL);
    free(listeners);
    return status;
}

enum dgl_status bench_batch_run(struct bench_batch *b, struct bench_batch_run *run)
{
    return repeat(b, b->decode_tokens, NULL, run);
}

enum dgl_status bench_batch_profile(struct bench_batch *b, struct profile *profile, int32_t tokens)
{
    struct bench_batch_run run;
    enum dgl_status status = repeat(b, tokens, profile, &run);
    bench_batch_run_finish(&run);
    return status;
}

void bench_batch_run_finish(struct bench_batch_run *run)
{
    free(run->step_ms);
    free(run->ids);
    free(run->text);
    *run = (struct bench_batch_run){0};
}
