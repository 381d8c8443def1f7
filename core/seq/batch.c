/* Continuous batching, with a session per running request. A step queues some tokens of every
 * answer and one pass of a prompt. Only then it waits, so that the device has work while the host
 * reads ids.
 *
 * Several answers are decoded together (decoder.h), by matmuls over all of their rows. If a request
 * wants logits, or if the batch is invariant, an answer is decoded by the same programs as without
 * company. Lanes share the KV pages of common prefixes. */
#include "core/seq/batch_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

/* Answers outside of groups are queued in waves of this size, then read back. gl/ has 16 readbacks
 * in flight, and the groups use 8 of them. */
#define WAVE 6

/* ---- creation and destruction ---------------------------------------------------------------- */

static enum dgl_status check_range(const struct dgl_log *log, const char *name, int32_t value,
                                   int32_t most)
{
    return value >= 0 && value <= most ? DGL_OK
                                       : dgl_fail(log, DGL_ERR_INVALID_ARG,
                                                  "%s of a batch is %d: 1 to %d, 0 takes the "
                                                  "default",
                                                  name, value, most);
}

enum dgl_status batch_init(struct dgl_batch *b, const struct dgl_batch_params *p)
{
    struct dgl_model *m = b->model;
    const struct dgl_log *log = m->log;
    struct gl_saved saved = {0};
    enum dgl_status status;
    pthread_condattr_t monotonic;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->submission, &monotonic);
    pthread_condattr_destroy(&monotonic);
    TRY(check_range(log, "sequences", p->sequences, BATCH_MAX_SEQUENCES));
    TRY(check_range(log, "queue", p->queue, BATCH_MAX_QUEUE));
    TRY(check_range(log, "hold_ms", p->hold_ms, BATCH_MAX_HOLD_MS));
    if (!p->invariant && p->chunk == 0)
        b->hold_ns = p->hold_ms ? (uint64_t)p->hold_ms * 1000000u : PACE_BUDGET_NS;
    b->rebuilds = m->rebuilds;
    b->info.queue = p->queue ? p->queue : BATCH_QUEUE;
    b->lanes =
        dgl_new_array(struct batch_lane, (size_t)(p->sequences ? p->sequences : BATCH_SEQUENCES));
    if (!b->lanes)
        return dgl_fail_memory(log, "sequences", sizeof(*b->lanes));
    b->info.sequences = p->sequences ? p->sequences : BATCH_SEQUENCES;
    TRY(batch_pages_init(b, p));
    for (int32_t i = 0; i < b->info.sequences; i++)
        TRY(session_create(
            m,
            dgl_session_params(.context = b->info.context, .chunk = p->chunk,
                               .chunk_name = p->chunk_name, .share_prefix = !p->invariant,
                               .progress_cb = p->progress_cb, .progress_priv = p->progress_priv),
            &b->runs, &b->lanes[i].session));
    if (p->invariant)
        goto done;
    TRY(model_enter(m, &saved));
    /* Groups of neighbouring lanes. */
    for (int32_t first = 0; first + 1 < b->info.sequences && b->num_groups < PLAN_BATCH_GROUPS;) {
        struct decoder *group = NULL;
        status = decoder_create(b->lanes[first].session, b->info.sequences - first, &group);
        if (!group)
            break;
        b->groups[b->num_groups++] = group;
        for (int32_t i = first; i < first + group->slots; i++)
            b->lanes[i].group = group;
        first += group->slots;
    }
    device_leave(m->shard->dev, &saved);
done:
    return status;
}

static void request_free(struct batch_request *r)
{
    struct dgl_constraint *constraint = (struct dgl_constraint *)r->p.constraint;
    text_stream_finish(&r->g.stream);
    constraint_finish(&r->g.constraint);
    constraint_unref(&constraint);
    free(r->g.logits);
    generate_result_finish(&r->result);
    dgl_arena_finish(&r->arena);
    free(r);
}

static void free_requests(struct batch_request *first)
{
    for (struct batch_request *r = first, *next; r; r = next) {
        next = r->next;
        request_free(r);
    }
}

void batch_destroy(struct dgl_batch *b)
{
    free_requests(b->first);
    free_requests(b->inbox);
    gl_mark_drop(b->model->shard->dev->gl, &b->prefill.mark);
    for (int32_t i = 0; i < b->num_groups; i++)
        decoder_destroy(&b->groups[i]);
    for (int32_t i = 0; b->lanes && i < b->info.sequences; i++)
        if (b->lanes[i].session)
            session_destroy(b->lanes[i].session);
    if (b->info.pages)
        kv_cache_release_pool(&b->model->shard->kv, b->info.pages, b->first_pages);
    free(b->lanes);
    pthread_cond_destroy(&b->submission);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- submitting ------------------------------------------------------------------------------ */

/* Copies an array of the caller to the arena. If memory runs out, returns NULL and clears *ok. */
static void *copy_array(struct dgl_arena *arena, const void *from, size_t bytes, bool *ok)
{
    void *copy = from ? dgl_arena_alloc(arena, bytes + 1) : NULL;
    if (copy)
        memcpy(copy, from, bytes);
    *ok = *ok && (copy || !from);
    return copy;
}

static const char *const *copy_texts(struct dgl_arena *arena, const char *const *texts,
                                     size_t count, bool *ok)
{
    const char **copy = copy_array(arena, texts, count * sizeof(*texts), ok);
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = dgl_arena_strndup(arena, texts[i], strlen(texts[i]));
        *ok = *ok && copy[i];
    }
    return copy;
}

static bool copy_params(struct batch_request *r, const struct dgl_request_params *p)
{
    struct dgl_sampling *s = &r->p.sampling;
    bool ok = true;
    r->p = *p;
    r->p.prompt = NULL;
    r->p.ids = NULL;
    r->p.constraint = p->constraint ? constraint_ref(p->constraint) : NULL;
    r->p.stop = copy_texts(&r->arena, p->stop, p->num_stop, &ok);
    r->p.stop_ids = copy_array(&r->arena, p->stop_ids, p->num_stop_ids * sizeof(*p->stop_ids), &ok);
    r->p.shown = copy_array(&r->arena, p->shown, p->num_shown * sizeof(*p->shown), &ok);
    s->dry_breakers = copy_texts(&r->arena, s->dry_breakers, s->num_dry_breakers, &ok);
    s->logit_bias =
        copy_array(&r->arena, s->logit_bias, s->num_logit_bias * sizeof(*s->logit_bias), &ok);
    return ok;
}

static bool tell_token(void *priv, int32_t id);

static bool tell_text(void *priv, const char *text, size_t len)
{
    struct batch_request *r = priv;
    return !r->p.text_cb || r->p.text_cb(r->p.priv, text, len);
}

static enum dgl_status check_room(const struct dgl_batch *b, size_t pending)
{
    const int32_t sequences = b->info.sequences, queue = b->info.queue;
    return pending < (size_t)sequences + (size_t)queue
               ? DGL_OK
               : dgl_fail(b->model->log, DGL_ERR_BUSY,
                          "%zu requests run and wait, as many as %d sequences and a queue of %d "
                          "hold: try again later",
                          pending, sequences, queue);
}

size_t batch_pending(struct dgl_batch *b)
{
    pthread_mutex_lock(&b->lock);
    const size_t pending = b->pending;
    pthread_mutex_unlock(&b->lock);
    return pending;
}

enum dgl_status batch_submit(struct dgl_batch *b, const struct dgl_request_params *p, uint64_t *id)
{
    const struct dgl_session *s = b->lanes[0].session;
    const struct dgl_log *log = b->model->log;
    const struct dgl_generate_params how = {.max_tokens = p->max_tokens,
                                            .sampling = p->sampling,
                                            .stop = p->stop,
                                            .num_stop = p->num_stop,
                                            .stop_ids = p->stop_ids,
                                            .num_stop_ids = p->num_stop_ids,
                                            .ignore_eos = p->ignore_eos,
                                            .shown = p->shown,
                                            .num_shown = p->num_shown,
                                            .constraint = p->constraint};
    struct token_ids ids = {0};
    struct batch_request *r = NULL;
    if (id)
        *id = 0;
    enum dgl_status status;
    TRY(generation_check_params(log, &how, b->info.context));
    if (p->top_logprobs < 0 || p->top_logprobs > DGL_TOP_LOGPROBS_MAX ||
        (p->top_logprobs && !p->logprobs))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "top_logprobs is %d: 0 to %d, and more than 0 with logprobs",
                        p->top_logprobs, DGL_TOP_LOGPROBS_MAX);
    TRY(check_room(b, batch_pending(b)));
    TRY(session_prompt_ids(s, PROMPT_OF(p), &ids));
    TRY(session_check_ids(s, "the prompt", ids.ids, ids.count));
    r = dgl_new(struct batch_request);
    TRY(r && copy_params(r, p) ? DGL_OK : dgl_fail_memory(log, "request", sizeof(*r)));
    if (p->logprobs) {
        r->g.logits = dgl_new_array(float, (size_t)b->model->info.vocab);
        TRY(r->g.logits ? DGL_OK
                        : dgl_fail_memory(log, "logits", (uint64_t)b->model->info.vocab * 4));
    }
    r->how = how;
    r->how.sampling = r->p.sampling;
    r->how.stop = r->p.stop;
    r->how.stop_ids = r->p.stop_ids;
    r->how.shown = r->p.shown;
    r->how.token_cb = tell_token;
    r->how.text_cb = tell_text;
    r->how.priv = r;
    r->g.p = &r->how;
    r->g.r = &r->result;
    r->g.no_reuse = p->no_reuse;
    /* The last token of an answer needs no position. */
    TRY(generation_init(&r->g, b->model, b->info.context - (int32_t)ids.count + 1));
    r->result.prompt_ids = ids.ids;
    r->result.num_prompt_ids = ids.count;
    ids.ids = NULL;
    r->batch = b;
    r->submit_ns = dgl_now_ns();
    /* Other threads may have filled the queue since the first check. */
    pthread_mutex_lock(&b->lock);
    status = check_room(b, b->pending);
    if (status == DGL_OK) {
        r->id = ++b->submitted;
        if (id)
            *id = r->id;
        *(b->inbox_last ? &b->inbox_last->next : &b->inbox) = r;
        b->inbox_last = r;
        b->pending++;
        r = NULL;
        pthread_cond_broadcast(&b->submission);
    }
    pthread_mutex_unlock(&b->lock);
done:
    free(ids.ids);
    if (r)
        request_free(r);
    return status;
}

void batch_cancel(struct dgl_batch *b, uint64_t id)
{
    pthread_mutex_lock(&b->lock);
    struct batch_request *const lists[] = {b->first, b->inbox};
    for (size_t i = 0; i < 2; i++)
        for (struct batch_request *r = lists[i]; r; r = r->next)
            if (r->id == id) {
                atomic_store(&r->cancelled, true);
                if (r->lane)
                    runner_cancel(&r->lane->session->state.runner);
            }
    pthread_mutex_unlock(&b->lock);
}

void batch_wait(struct dgl_batch *b, uint64_t timeout_ns, size_t *left)
{
    const uint64_t now = dgl_now_ns();
    const uint64_t end =
        timeout_ns && timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    const struct timespec until = {.tv_sec = (time_t)(end / 1000000000u),
                                   .tv_nsec = (long)(end % 1000000000u)};
    int error = 0;
    pthread_mutex_lock(&b->lock);
    while (b->pending == 0 && !b->woken && error == 0)
        error = end == UINT64_MAX ? pthread_cond_wait(&b->submission, &b->lock)
                                  : pthread_cond_timedwait(&b->submission, &b->lock, &until);
    b->woken = false;
    *left = b->pending;
    pthread_mutex_unlock(&b->lock);
}

void batch_wake(struct dgl_batch *b)
{
    pthread_mutex_lock(&b->lock);
    b->woken = true;
    pthread_cond_broadcast(&b->submission);
    pthread_mutex_unlock(&b->lock);
}

void batch_get_info(struct dgl_batch *b, struct dgl_batch_info *out)
{
    *out = b->info;
    pthread_mutex_lock(&b->lock);
    out->waiting = b->pending - b->info.running;
    out->submitted = b->submitted;
    pthread_mutex_unlock(&b->lock);
    out->pages_used = kv_cache_pool_used(&b->model->shard->kv);
    out->cache_bytes = b->model->shard->kv.bytes;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Finds the `count` likeliest tokens, best first. If two are equal, the lower id comes first. */
static void find_top(const float *logits, int32_t vocab, struct dgl_choice *top, int32_t count)
{
    int32_t held = 0;
    for (int32_t id = 0; id < vocab; id++) {
        int32_t at = held;
        if (held == count && !(logits[id] > top[held - 1].logprob))
            continue;
        for (at = held < count ? held : count - 1; at > 0 && logits[id] > top[at - 1].logprob; at--)
            top[at] = top[at - 1];
        top[at] = (struct dgl_choice){id, logits[id]};
        held += held < count;
    }
}

static bool tell_token(void *priv, int32_t id)
{
    struct batch_request *r = priv;
    const int32_t vocab = r->lane->session->model->info.vocab;
    struct dgl_token token = {.chosen.id = id};
    if (r->first_ns == 0)
        r->first_ns = dgl_now_ns();
    r->batch->info.decoded_tokens++;
    if (!r->p.token_cb)
        return true;
    if (r->g.logits) {
        token.chosen.logprob = (float)(0.0 - logits_nll(r->g.logits, vocab, id)); /* not -0 */
        token.top = r->top;
        token.num_top = (size_t)(r->p.top_logprobs < vocab ? r->p.top_logprobs : vocab);
        if (token.num_top > 0)
            find_top(r->g.logits, vocab, r->top, (int32_t)token.num_top);
        const double base = (double)token.chosen.logprob - (double)r->g.logits[id];
        for (size_t i = 0; i < token.num_top; i++)
            r->top[i].logprob = (float)((double)r->top[i].logprob + base);
    }
    return r->p.token_cb(r->p.priv, &token);
}

/* Removes a request that ended from the batch, and calls finish_cb. */
static void finish_request(struct dgl_batch *b, struct batch_request *r, enum dgl_status status)
{
    struct batch_request **link = &b->first, *before = NULL;
    const bool ran = r->lane != NULL;
    if (ran)
        status = generation_finish(&r->g, status);
    else
        r->result.finish = DGL_FINISH_CANCELLED;
    if (r->result.num_tokens > 0)
        batch_pages_learn(r);
    if (ran)
        batch_pages_leave(r);
    pthread_mutex_lock(&b->lock);
    b->pending--;
    for (; *link != r; link = &(*link)->next)
        before = *link;
    *link = r->next;
    if (b->last == r)
        b->last = before;
    pthread_mutex_unlock(&b->lock);
    if (status != DGL_OK)
        b->info.failed++;
    else if (r->result.finish == DGL_FINISH_CANCELLED)
        b->info.cancelled++;
    else
        b->info.finished++;
    const uint64_t now = dgl_now_ns(), begun = ran ? r->start_ns : now;
    const struct dgl_request_result result = {
        .id = r->id,
        .status = status,
        .finish = r->result.finish,
        .num_prompt_ids = r->result.num_prompt_ids,
        .num_reused = r->result.num_reused,
        .tokens = r->result.tokens,
        .num_tokens = r->result.num_tokens,
        .text = r->result.text ? r->result.text : "",
        .text_len = r->result.text_len,
        .wait_ns = begun - r->submit_ns,
        .first_token_ns = r->first_ns ? r->first_ns - begun : 0,
        .decode_ns = r->first_ns ? now - r->first_ns : 0,
    };
    if (r->p.finish_cb)
        r->p.finish_cb(r->p.priv, &result);
    request_free(r);
}

/* ---- times of prompt passes ------------------------------------------------------------------ */

/* A pass over a prompt is kept short enough that answers wait for it no longer than a given time.
 * The estimate uses the times of earlier passes, measured by fences. A second pass may be queued
 * while one runs, but no third, so a new request waits for two passes at most. */

/* A shorter pass costs as much as one over this many tokens. */
#define PREFILL_LEAST 16

/* Notes that the queued pass begins no earlier than now, because the host has waited for work that
 * was queued before it. */
static void prefill_seen(struct dgl_batch *b)
{
    b->prefill.seen_ns = device_work_ns(b->model->shard->dev);
    for (int32_t i = 0; i < b->num_groups; i++)
        b->groups[i]->read_ns = dgl_now_ns();
}

/* Notes the time of the finished pass. If `exact` is false, that time is an upper limit. */
static void prefill_note(struct dgl_batch *b, bool exact)
{
    const uint64_t now = device_work_ns(b->model->shard->dev);
    struct prefill_pacing *p = &b->prefill;
    const uint64_t begun = p->seen_ns > p->begun_ns ? p->seen_ns : p->begun_ns;
    const uint64_t ns = now > begun ? now - begun : 1;
    pace_estimate_note(&p->pass, p->queued, ns, b->hold_ns, exact);
    p->queued = 0;
    prefill_seen(b);
}

/* Waits for the queued pass, if any. */
static enum dgl_status prefill_wait(struct dgl_batch *b)
{
    struct gl_device *gl = b->model->shard->dev->gl;
    if (!b->prefill.queued)
        return DGL_OK;
    gl_device_set_stop(gl, NULL);
    enum dgl_status status = gl_mark_wait(gl, &b->prefill.mark);
    if (status == DGL_OK)
        prefill_note(b, true);
    b->prefill.queued = 0;
    return status;
}

/* Call it after queueing a pass. Waits for the previous pass. `begun_ns` is the device_work_ns()
 * before the pass was queued. */
static enum dgl_status prefill_queued(struct dgl_batch *b, int32_t tokens, uint64_t begun_ns)
{
    struct prefill_pacing *p = &b->prefill;
    struct gl_device *gl = b->model->shard->dev->gl;
    struct gl_mark mark = {0};
    enum dgl_status status = gl_mark_set(gl, &mark);
    if (status == DGL_OK)
        status = prefill_wait(b);
    if (status != DGL_OK) {
        gl_mark_drop(gl, &mark);
        return status;
    }
    assert(p->queued == 0);
    p->mark = mark;
    p->queued = tokens;
    p->begun_ns = begun_ns;
    if (gl_mark_is_reached(gl, &p->mark)) /* some drivers compute during the call */
        prefill_note(b, true);
    return DGL_OK;
}

/* ---- turns of requests ----------------------------------------------------------------------- */

/* Makes a lane evaluate all tokens that its request has so far. */
static void begin_reading(struct batch_lane *lane, struct batch_request *r)
{
    decoder_own(lane->session, &r->g);
    lane->session->seq.scope = r->p.prefix_scope;
    lane->session->seq.pages.root = batch_request_root(r);
    r->writes = r->begun = false;
}

/* Appends the requests that were submitted since the last step to the list. */
static void take_inbox(struct dgl_batch *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->inbox) {
        *(b->last ? &b->last->next : &b->first) = b->inbox;
        b->last = b->inbox_last;
    }
    b->inbox = b->inbox_last = NULL;
    pthread_mutex_unlock(&b->lock);
}

/* Assigns free lanes to waiting requests, oldest first, while pages are free and the device is fast
 * enough. No request overtakes another. */
static void admit(struct dgl_batch *b)
{
    const struct shard *shard = b->model->shard;
    bool full = false;
    for (struct batch_request *r = b->first, *next; r; r = next) {
        next = r->next;
        if (r->lane)
            continue;
        if (atomic_load(&r->cancelled)) {
            finish_request(b, r, DGL_OK);
            continue;
        }
        struct batch_lane *lane = NULL;
        const int32_t rows = (int32_t)b->info.running + 1;
        int32_t held = 0;
        for (int32_t i = b->info.sequences; i-- > 0;)
            if (!b->lanes[i].request)
                lane = &b->lanes[i];
            else if (b->lanes[i].session->seq.len > held)
                held = b->lanes[i].session->seq.len;
        /* On a slow device, more rows could make a dispatch of a pass too long. */
        full = full || !lane || !batch_pages_admit(b, r) ||
               pace_sequences(&shard->pace, &shard->engine->plan, rows, held) < rows;
        if (full)
            continue; /* later requests may have been cancelled */
        struct dgl_session *s = lane->session;
        begin_reading(lane, r);
        r->g.interval = r->p.constraint ? 1 : session_readback_interval(s);
        r->start_ns = dgl_now_ns();
        pthread_mutex_lock(&b->lock);
        r->lane = lane;
        lane->request = r;
        atomic_store(&s->state.runner.cancel, atomic_load(&r->cancelled));
        pthread_mutex_unlock(&b->lock);
        b->info.running++;
    }
}

/* Ends a request if its turn failed or completed it. Returns only DGL_ERR_DEVICE_LOST to the
 * caller. */
static enum dgl_status settle(struct dgl_batch *b, struct batch_request *r, enum dgl_status status)
{
    if (status == DGL_ERR_DEVICE_LOST)
        return status;
    if (status != DGL_OK || r->g.done)
        finish_request(b, r, status);
    return DGL_OK;
}

/* Returns the lane's request if it reads or writes as given, else NULL. From here on the device
 * stops if the request is cancelled. */
static struct batch_request *at_turn(struct dgl_batch *b, int32_t lane, bool writes)
{
    struct batch_request *r = b->lanes[lane].request;
    if (!r || r->writes != writes)
        return NULL;
    gl_device_set_stop(b->model->shard->dev->gl, &b->lanes[lane].session->state.runner.cancel);
    return r;
}

/* Queues one pass of a prompt, if its pages are available. */
static enum dgl_status read_on(struct batch_request *r)
{
    struct dgl_session *s = r->lane->session;
    struct dgl_batch *b = r->batch;
    struct dgl_batch_info *info = &b->info;
    const int32_t count = batch_request_tokens(r);
    int32_t adopted = 0;
    enum dgl_status status = DGL_OK;
    TRY(pass_state_follow(&s->state));
    if (!r->begun) {
        const bool first = r->g.start_ns == 0;
        info->prompt_tokens += first ? r->result.num_prompt_ids : 0;
        TRY(generation_begin(&r->g));
        r->begun = true;
        info->reused_tokens += first ? r->result.num_reused : 0;
    }
    /* Reuse the pages that other requests have evaluated since the last pass. */
    if (s->seq.len < count && !r->g.no_reuse)
        TRY(session_adopt(s, count, &adopted));
    if (r->result.num_tokens == 0) {
        r->result.num_reused += (size_t)adopted;
        info->reused_tokens += (uint64_t)adopted;
    }
    const int32_t held = s->seq.len,
                  end = held + s->state.ubatch < count ? held + s->state.ubatch : count;
    if (held < count && !batch_pages_waits(r) && batch_pages_make_room(r, end)) {
        const uint64_t begun_ns = device_work_ns(session_dev(s));
        int32_t most = s->state.ubatch;
        bool alone = true; /* no answer waits for the pass */
        for (int32_t i = 0; i < b->info.sequences; i++)
            alone = alone && !(b->lanes[i].request && b->lanes[i].request->writes);
        if (b->hold_ns > 0 && most > PREFILL_LEAST && !alone)
            most = pace_fit(&b->prefill.pass, (double)b->hold_ns, PREFILL_LEAST, most);
        r->g.may_step = b->hold_ns > 0 && alone;
        TRY(generation_pass(&r->g, most));
        if (!r->g.drawn)
            TRY(gl_flush(session_dev(s)->gl));
        TRY(prefill_queued(b, s->seq.len - held, begun_ns));
    }
done:
    return status;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Returns true if the lane's answer may be decoded together with others. */
static bool is_member(const struct batch_lane *lane)
{
    const struct batch_request *r = lane->request;
    return r && r->writes && lane->group &&
           (r->g.decoder == lane->group || decoder_admits(lane->group, &r->g));
}

/* Takes the oldest steps of a decoder and passes the ids to the answers. If a decoder with one slot
 * fails, its request ends. */
static enum dgl_status take(struct dgl_batch *b, struct decoder *d)
{
    struct decoder_news news[DGL_STEP_SEQS];
    struct batch_request *alone = d->slots == 1 ? d->slot[0].g->p->priv : NULL;
    int32_t count = 0;
    gl_device_set_stop(b->model->shard->dev->gl, alone ? &d->state->runner.cancel : NULL);
    enum dgl_status status = decoder_take(d, news, &count);
    prefill_seen(b);
    if (alone && status != DGL_OK)
        return settle(b, alone, status);
    for (int32_t i = 0; i < count && status == DGL_OK; i++)
        status = settle(b, news[i].g->p->priv, generation_accept(&news[i]));
    return status;
}

/* Queues the next steps of all groups. Before that, moves answers into a group if two or more can
 * be decoded together, else out of it. */
static enum dgl_status push_groups(struct dgl_batch *b)
{
    enum dgl_status status = DGL_OK;
    gl_device_set_stop(b->model->shard->dev->gl, NULL);
    for (int32_t i = 0; i < b->num_groups; i++) {
        struct decoder *group = b->groups[i];
        int32_t count = 0;
        for (int32_t k = 0; k < b->info.sequences; k++)
            count += b->lanes[k].group == group && is_member(&b->lanes[k]);
        if (count > 0)
            TRY(decoder_begin(group));
        for (int32_t k = 0; k < b->info.sequences; k++) {
            struct batch_lane *lane = &b->lanes[k];
            if (lane->group != group || !is_member(lane))
                continue;
            struct generation *g = &lane->request->g;
            struct decoder *from = g->decoder;
            const bool joined = from == group;
            if (joined == (count >= 2 && (!joined || decoder_keeps(g))))
                continue;
            while (from->count > 0 && lane->request)
                TRY(take(b, from));
            if (!is_member(lane))
                continue;
            b->draws = shapes_join(b->draws, generation_draw(g).shapes);
            TRY(settle(b, lane->request, decoder_join(joined ? &lane->session->own : group, g)));
        }
        /* Each group is prepared for the members of all groups, as requests may later run in any
         * group. */
        for (int32_t k = 0; k < b->num_groups && b->draws.count; k++)
            if (b->groups[k]->count == 0 || pass_state_is_current(b->groups[k]->state))
                TRY(decoder_prepare(b->groups[k], b->draws));
        for (int32_t k = 0; k < b->info.sequences; k++)
            if (b->lanes[k].request && b->lanes[k].request->g.decoder == group)
                batch_pages_make_room(b->lanes[k].request, b->lanes[k].session->seq.len +
                                                               group->steps + DECODER_MAX_STEPS);
        gl_device_set_stop(b->model->shard->dev->gl, NULL);
        if (group->members > 0 && decoder_can_push(group))
            TRY(decoder_push(group));
    }
done:
    return status;
}

/* ---- the whole batch ------------------------------------------------------------------------- */

/* Queues some steps of every answer and one pass of a prompt. Then waits for the steps. */
enum dgl_status batch_step(struct dgl_batch *b)
{
    const int32_t lanes = b->info.sequences;
    struct gl_device *gl = b->model->shard->dev->gl;
    int32_t reads = -1; /* lane whose prompt is read in this step */
    struct batch_request *r;
    enum dgl_status status = DGL_OK;
    assert(!b->stepping);
    b->stepping = true;
    if (b->rebuilds != b->model->rebuilds) { /* the device has no state of the requests */
        gl_mark_drop(gl, &b->prefill.mark);
        b->prefill.queued = 0;
        for (int32_t i = 0; i < b->num_groups; i++)
            decoder_drop(b->groups[i]);
        for (int32_t i = 0; i < lanes; i++) {
            struct batch_lane *lane = &b->lanes[i];
            if (!lane->request)
                continue;
            decoder_drop(&lane->session->own);
            decoder_leave(&lane->request->g);
            begin_reading(lane, lane->request);
        }
        b->rebuilds = b->model->rebuilds;
    }
    for (int32_t i = 0; i < lanes; i++)
        if ((r = b->lanes[i].request) && atomic_load(&r->cancelled))
            finish_request(b, r, DGL_ERR_CANCELLED);
    take_inbox(b);
    admit(b);
    for (int32_t i = 0; i < lanes && reads < 0; i++) {
        const int32_t lane = (b->turn + i) % lanes;
        if ((r = b->lanes[lane].request) && !r->writes && !batch_pages_waits(r))
            reads = lane;
    }
    b->turn = reads >= 0 ? (reads + 1) % lanes : b->turn;
    const bool waits = b->reads_first && reads >= 0; /* answers wait for prompts */
    if (b->prefill.queued && gl_mark_is_reached(gl, &b->prefill.mark))
        prefill_note(b, false);
    if (!waits)
        TRY(push_groups(b));
    for (int32_t first = 0; first < lanes; first += WAVE) {
        if (first > 0) /* finish the pass before the next wave is queued */
            TRY(prefill_wait(b));
        const int32_t end = lanes - first < WAVE ? lanes : first + WAVE;
        for (int32_t i = first; i < end && !waits; i++) {
            struct dgl_session *s = b->lanes[i].session;
            r = at_turn(b, i, true);
            if (r && r->g.decoder == &s->own &&
                batch_pages_make_room(r, s->seq.len + s->own.steps + r->g.interval + 1))
                TRY(settle(b, r, generation_advance(&r->g)));
        }
        const uint64_t pass = b->prefill.begun_ns;
        if (first == 0 && reads >= 0 && (r = at_turn(b, reads, false)))
            TRY(settle(b, r, read_on(r)));
        if (b->prefill.begun_ns == pass)
            TRY(prefill_wait(b));
        for (int32_t i = first; i < end; i++)
            if (at_turn(b, i, true) && b->lanes[i].session->own.count > 0)
                TRY(take(b, &b->lanes[i].session->own));
    }
    for (int32_t i = 0; i < b->num_groups; i++)
        if (b->groups[i]->count > 0)
            TRY(take(b, b->groups[i]));
    if (reads >= 0 && (r = at_turn(b, reads, false)) &&
        r->lane->session->seq.len == batch_request_tokens(r)) {
        r->writes = true;
        status = pass_state_follow(&r->lane->session->state);
        if (status == DGL_OK && r->g.max_tokens > 0)
            status = generation_sample_first(&r->g);
        else
            generation_end(&r->g, DGL_FINISH_LENGTH);
        TRY(settle(b, r, status));
        TRY(prefill_wait(b));
    }
done:
    b->stepping = false;
    return status;
}

void batch_read_first(struct dgl_batch *b)
{
    b->reads_first = true;
    for (int32_t i = 0; i < b->num_groups; i++)
        b->groups[i]->least = b->groups[i]->slots;
}
