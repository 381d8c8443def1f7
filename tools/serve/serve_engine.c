/* The engine thread, which owns the device. Jobs become sequences of a batch; their tokens and
 * texts become answers. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "tools/serve/serve.h"
#include "tools/watch/watch.h"

/* Sleep of the idle engine. Signals and the state of the device are checked this often. */
#define IDLE_MS 100
/* Idle time after which freed memory is returned to the system. */
#define TRIM_NS 1000000000ull

/* ---- exchanges ------------------------------------------------------------------------------- */

void serve_exchange_unref(struct serve_exchange *ex)
{
    if (atomic_fetch_sub(&ex->refs, 1) != 1)
        return;
    serve_log_write(ex);
    for (size_t i = 0; i < ex->num_choices; i++) {
        struct serve_choice *c = &ex->choices[i];
        free(c->logprobs);
        dgl_reply_destroy(&c->reply);
        dgl_buf_finish(&c->text);
        dgl_buf_finish(&c->reasoning);
        for (size_t k = 0; c->calls && k < c->num_calls; k++) {
            free(c->calls[k].name);
            free(c->calls[k].arguments);
        }
        free(c->calls);
    }
    free(ex->choices);
    free(ex->prompt_ids);
    free(ex->ends);
    dgl_free(ex->prompt_end);
    dgl_constraint_destroy(&ex->constraint);
    dgl_pool_finish(&ex->embed.pool);
    free(ex->embed.rows);
    serve_request_finish(&ex->request);
    dgl_buf_finish(&ex->body);
    dgl_buf_finish(&ex->out);
    serve_share_keep(ex, 0);
    serve_share_leave(ex);
    pthread_mutex_destroy(&ex->lock);
    free(ex);
}

#define NO_MEMORY                                                                                  \
    "{\"error\":{\"message\":\"out of memory for the answer\",\"type\":\"server_error\","          \
    "\"param\":null,\"code\":null}}"
const char serve_no_memory[] = NO_MEMORY;
const char serve_no_memory_event[] = "data: " NO_MEMORY "\n\n";

void serve_exchange_answer(struct serve_exchange *ex, int status)
{
    ex->fixed = ex->out.failed || dgl_memory_take_failures() > 0 ? serve_no_memory : NULL;
    if (ex->fixed) {
        ex->content_type = "application/json";
        status = 500;
    }
    ex->status = status;
    ex->state = EXCHANGE_ANSWERED;
    ex->finished = true;
    serve_exchange_wake(ex);
}

void serve_exchange_refuse(struct serve_exchange *ex, const struct serve_error *error)
{
    struct serve_error named = *error;
    named.request_id = ex->id;
    serve_log_note_error(ex, error);
    dgl_buf_finish(&ex->out);
    ex->content_type = "application/json";
    ex->retry = error->status == 503 || error->status == 429;
    serve_error_write(&named, &ex->out);
    serve_exchange_answer(ex, error->status);
}

/* ---- the jobs at hand ------------------------------------------------------------------------ */

/* Removes a finished job. Counts the tokens of answers whose end the batch has not reported. */
static void end_job(struct serve_exchange *ex)
{
    struct serve_exchange **link = &ex->server->running;
    pthread_mutex_lock(&ex->lock);
    if (ex->request.kind == SERVE_EMBEDDING)
        serve_embed_end(ex);
    for (size_t i = 0; i < ex->num_choices; i++) {
        const struct serve_choice *c = &ex->choices[i];
        const size_t prompt = i / (size_t)ex->request.n;
        if (!c->id)
            continue;
        ex->tokens += c->num_tokens;
        if (i % (size_t)ex->request.n == 0)
            ex->prompt_tokens += ex->ends[prompt] - (prompt ? ex->ends[prompt - 1] : 0);
    }
    pthread_mutex_unlock(&ex->lock);
    while (*link != ex)
        link = &(*link)->next_job;
    *link = ex->next_job;
    pthread_mutex_lock(&ex->server->lock);
    serve_share_give(ex);
    pthread_mutex_unlock(&ex->server->lock);
    serve_exchange_unref(ex);
}

void serve_engine_drop(struct serve *s)
{
    while (s->running)
        end_job(s->running);
    for (struct serve_exchange *ex = s->first_job, *next; ex; ex = next) {
        next = ex->next_job;
        serve_exchange_unref(ex);
    }
    s->first_job = s->last_job = NULL;
}

/* ---- callbacks of the batch ------------------------------------------------------------------ */

/* Counts a token, and keeps its logprobs if they are requested. Returns false if the answer is to
 * end: its client left, it was finished, or memory ran out. */
static bool take_token(void *priv, const struct dgl_token *token)
{
    struct serve_choice *c = priv;
    struct serve_exchange *ex = c->exchange;
    const uint64_t now = dgl_now_ns();
    const bool first = c->last_ns == 0;
    dgl_memory_take_failures(); /* only those of this answer count */
    serve_metrics_add(&ex->server->metrics, first ? HISTOGRAM_FIRST_TOKEN : HISTOGRAM_NEXT_TOKEN,
                      (double)(now - (first ? ex->body_ns : c->last_ns)) * 1e-9);
    c->last_ns = now;
    c->num_tokens++;
    pthread_mutex_lock(&ex->lock);
    if (ex->facts.first_token_ns == 0)
        ex->facts.first_token_ns = now;
    bool ok = !ex->gone && !ex->finished;
    if (ok && ex->request.logprobs) {
        ok = dgl_grow((void **)&c->logprobs, &c->cap_logprobs, c->num_logprobs + 1,
                      sizeof(*c->logprobs));
        if (ok) {
            struct serve_logprob *p = &c->logprobs[c->num_logprobs++];
            p->chosen = token->chosen;
            p->num_top = token->num_top;
            p->offset =
                ex->request.kind == SERVE_CHAT ? 0 : serve_reply_offset(c, token->chosen.id);
            memcpy(p->top, token->top, token->num_top * sizeof(*p->top));
        }
    }
    if (dgl_memory_take_failures() > 0 && !ex->finished) {
        serve_reply_fail(ex, 500, "out of memory for the answer");
        ok = false;
    }
    pthread_mutex_unlock(&ex->lock);
    return ok;
}

/* A part of a chat's answer; the lock is held. */
static bool take_part(void *priv, const struct dgl_reply_part *part)
{
    struct serve_choice *c = priv;
    if (!serve_reply_part(c, part)) {
        serve_reply_fail(c->exchange, 500, "out of memory for the answer");
        return false;
    }
    c->enough = part->kind == DGL_REPLY_CALL && !c->exchange->request.parallel_calls;
    return !c->enough;
}

static bool take_text(void *priv, const char *text, size_t len)
{
    struct serve_choice *c = priv;
    struct serve_exchange *ex = c->exchange;
    dgl_memory_take_failures();
    pthread_mutex_lock(&ex->lock);
    bool ok = !ex->gone && !ex->finished;
    if (ok && c->reply)
        ok = dgl_reply_push(c->reply, text, len) == DGL_OK;
    else if (ok)
        serve_reply_text(c, text, len);
    if (dgl_memory_take_failures() > 0 && !ex->finished)
        serve_reply_fail(ex, 500, "out of memory for the answer");
    ok = ok && !ex->finished && !ex->out.failed;
    pthread_mutex_unlock(&ex->lock);
    return ok;
}

static void take_end(void *priv, const struct dgl_request_result *result)
{
    struct serve_choice *c = priv;
    struct serve_exchange *ex = c->exchange;
    dgl_memory_take_failures();
    pthread_mutex_lock(&ex->lock);
    c->id = 0;
    c->ended = true;
    ex->num_ended++;
    const bool over = ex->num_ended == ex->num_choices;
    /* Before the answer, so that the client's next request finds the places free. */
    pthread_mutex_lock(&ex->server->lock);
    serve_share_end(ex);
    if (over)
        serve_share_give(ex);
    pthread_mutex_unlock(&ex->server->lock);
    if (c->index % ex->request.n == 0) {
        ex->prompt_tokens += result->num_prompt_ids;
        ex->reused_tokens += result->num_reused;
    }
    ex->tokens += result->num_tokens;
    const uint64_t wait_ns = c->submit_ns - ex->facts.job_ns + result->wait_ns;
    if (wait_ns < ex->facts.wait_ns)
        ex->facts.wait_ns = wait_ns;
    serve_metrics_add(&ex->server->metrics, HISTOGRAM_QUEUE, (double)wait_ns * 1e-9);
    serve_metrics_add(&ex->server->metrics, HISTOGRAM_PROMPT_TOKENS,
                      (double)result->num_prompt_ids);
    serve_metrics_add(&ex->server->metrics, HISTOGRAM_ANSWER_TOKENS, (double)result->num_tokens);
    serve_metrics_add(&ex->server->metrics, HISTOGRAM_ANSWER,
                      (double)(dgl_now_ns() - ex->body_ns) * 1e-9);
    if (!ex->gone && !ex->finished && result->status == DGL_OK && c->reply && !c->enough)
        dgl_reply_end(c->reply);
    const bool heard = !ex->gone && !ex->finished;
    if (heard && result->status == DGL_ERR_INVALID_ARG && ex->constraint) {
        serve_reply_fail(ex, 400,
                         "the answer cannot continue in the required form: it is too ambiguous, "
                         "too deep, or no allowed token can be drawn; the server's log says more");
    } else if (heard && result->status != DGL_OK) {
        serve_reply_fail(ex, 500, "the answer failed: %s; the server's log says more",
                         dgl_status_str(result->status));
    } else if (heard && c->text.failed) {
        serve_reply_fail(ex, 500, "out of memory for the answer");
    } else if (heard && result->finish == DGL_FINISH_CANCELLED && !c->enough) {
        serve_reply_fail(ex, 503, "the server is stopping");
    } else if (heard) {
        c->finish = result->finish == DGL_FINISH_LENGTH || result->finish == DGL_FINISH_CONTEXT
                        ? "length"
                    : c->num_calls > 0 ? "tool_calls"
                                       : "stop";
        serve_reply_end(c);
        if (over)
            serve_reply_finish(ex);
    }
    pthread_mutex_unlock(&ex->lock);
    if (over)
        end_job(ex);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Checks a request before its first choice is submitted, so that an invalid one gets an error
 * status and not a stream. Begins the stream. */
static void begin_job(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    const struct serve_request *r = &ex->request;
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    const enum dgl_status status = dgl_sampling_check(&log, &r->sampling);
    if (status != DGL_OK) {
        serve_reply_fail_call(ex, status, &why);
        return;
    }
    for (size_t i = 0; i < ex->num_choices; i++) {
        struct serve_choice *c = &ex->choices[i];
        c->exchange = ex;
        c->index = (int32_t)i;
        if (r->kind == SERVE_CHAT &&
            dgl_reply_create(
                &s->engine.console.log, /* borrowed by the parser */
                dgl_reply_params(.tmpl = s->tmpl, .prompt_end = ex->prompt_end,
                                 .continues = r->continues, .calls = r->num_functions > 0,
                                 .functions = r->functions, .num_functions = r->num_functions,
                                 .keep_reasoning = r->keep_reasoning, .part_cb = take_part,
                                 .priv = c),
                &c->reply) != DGL_OK) {
            serve_reply_fail(ex, 500, "out of memory for the answer");
            return;
        }
    }
    if (r->stream) {
        ex->state = EXCHANGE_STREAMS;
        ex->status = 200;
        ex->content_type = "text/event-stream";
        serve_reply_begin(ex);
        serve_exchange_wake(ex);
    }
}

/* Submits the next choice of a job to the batch. */
static void start_choice(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    const struct serve_request *r = &ex->request;
    struct dgl_error why = {""};
    dgl_memory_take_failures();
    pthread_mutex_lock(&ex->lock);
    if (ex->gone || ex->finished) {
        ex->abandoned = true;
        pthread_mutex_unlock(&ex->lock);
        return;
    }
    struct serve_choice *c = &ex->choices[ex->num_started];
    const size_t prompt = ex->num_started / (size_t)r->n, first = prompt ? ex->ends[prompt - 1] : 0;
    struct dgl_sampling sampling = r->sampling;
    sampling.seed += ex->num_started % (size_t)r->n;
    s->engine.console.log.error = &why;
    const enum dgl_status status = dgl_batch_submit(
        s->batch,
        dgl_request_params(.ids = ex->prompt_ids + first, .num_ids = ex->ends[prompt] - first,
                           .max_tokens = r->max_tokens, .prefix_scope = ex->scope,
                           .sampling = sampling, .stop = r->stop, .num_stop = r->num_stop,
                           .stop_ids = r->stop_ids, .num_stop_ids = r->num_stop_ids,
                           .no_reuse = !r->cache_prompt, .ignore_eos = r->ignore_eos,
                           .shown = s->shown, .num_shown = r->kind == SERVE_CHAT ? s->num_shown : 0,
                           .logprobs = r->logprobs, .top_logprobs = r->top_logprobs,
                           .constraint = ex->constraint, .token_cb = take_token,
                           .text_cb = take_text, .finish_cb = take_end, .priv = c),
        &c->id);
    s->engine.console.log.error = NULL;
    c->submit_ns = dgl_now_ns();
    if (status == DGL_OK)
        ex->num_started++;
    else
        serve_reply_fail_call(ex, status, &why);
    ex->abandoned = status != DGL_OK;
    pthread_mutex_unlock(&ex->lock);
    if (status == DGL_OK) {
        pthread_mutex_lock(&s->lock);
        serve_share_start(ex);
        pthread_mutex_unlock(&s->lock);
    }
}

/* Takes new jobs over from the HTTP threads. */
static void take_jobs(struct serve *s, bool wait)
{
    struct timespec until;
    pthread_mutex_lock(&s->lock);
    if (wait && !s->first_job) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += IDLE_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->wake, &s->lock, &until);
    }
    struct serve_exchange *ex = s->first_job;
    s->first_job = s->last_job = NULL;
    pthread_mutex_unlock(&s->lock);
    for (struct serve_exchange *next; ex; ex = next) {
        next = ex->next_job;
        ex->next_job = s->running;
        s->running = ex;
        atomic_store(&s->beat_ns, dgl_now_ns());
        dgl_memory_take_failures();
        pthread_mutex_lock(&ex->lock);
        if (!ex->gone && ex->request.kind != SERVE_EMBEDDING)
            begin_job(ex);
        pthread_mutex_unlock(&ex->lock);
    }
}

/* Ends the jobs that were refused or whose clients left, if none of their choices is in the batch.
 * Returns the number of choices that still wait for a place there. */
static size_t drop_jobs(struct serve *s)
{
    size_t waiting = 0;
    for (struct serve_exchange *ex = s->running, *next; ex; ex = next) {
        next = ex->next_job;
        pthread_mutex_lock(&ex->lock);
        const bool wanted = !ex->gone && !ex->finished;
        const size_t unstarted = ex->num_choices - ex->num_started;
        const bool over = !wanted && ex->num_started == ex->num_ended;
        pthread_mutex_unlock(&ex->lock);
        waiting += wanted ? unstarted : 0;
        if (!over)
            continue;
        s->unstarted += unstarted;
        end_job(ex);
    }
    return waiting;
}

/* Returns the job whose next choice is to be started, or NULL. */
static struct serve_exchange *next_job(struct serve *s)
{
    struct serve_exchange *best = NULL;
    pthread_mutex_lock(&s->lock);
    /* The newest job is the first of the list. */
    for (struct serve_exchange *ex = s->running; ex; ex = ex->next_job) {
        if (ex->num_started < ex->num_choices && !ex->abandoned &&
            (!best || !serve_share_before(best, ex)))
            best = ex;
    }
    pthread_mutex_unlock(&s->lock);
    return best;
}

/* Fills the batch. Choices wait here and not there, so that their order is fair and a waiting
 * choice needs no memory of its own. Returns the number of choices that wait. */
static size_t start_jobs(struct serve *s)
{
    struct dgl_batch_info info = {.size = sizeof(info)};
    struct serve_exchange *ex = NULL;
    do {
        dgl_batch_get_info(s->batch, &info);
        ex = info.running + info.waiting < (size_t)info.sequences ? next_job(s) : NULL;
        if (ex)
            start_choice(ex);
    } while (ex);
    return drop_jobs(s);
}

/* Returns the request for embeddings that is computed next, or NULL. A prompt that was begun is
 * finished first. */
static struct serve_exchange *next_embedding(struct serve *s)
{
    struct serve_exchange *best = NULL;
    pthread_mutex_lock(&s->lock);
    for (struct serve_exchange *ex = s->running; ex; ex = ex->next_job) {
        if (ex->request.kind != SERVE_EMBEDDING)
            continue;
        if (ex->embed.done > 0) {
            best = ex;
            break;
        }
        if (!best || !serve_share_before(best, ex))
            best = ex;
    }
    pthread_mutex_unlock(&s->lock);
    return best;
}

/* ---- the engine's thread --------------------------------------------------------------------- */

static void tell_health(struct serve *s, const char *why)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->unwell, sizeof(s->unwell), "%s", why);
    pthread_mutex_unlock(&s->lock);
}

/* Reads kernel files and hints again after SIGHUP. On failure the old ones stay in use. With a
 * watch, each file is handled as if it had been edited. */
static void reload_kernels(struct serve *s, struct watch *watch)
{
    struct engine *e = &s->engine;
    struct dgl_kernels *before = e->kernels;
    if (watch) {
        watch_reread(watch);
        console_note(&e->console, "kernels were read again");
        return;
    }
    if (engine_open_kernels(e, s->opt) == DGL_OK &&
        dgl_model_set_kernels(e->model, e->kernels) == DGL_OK) {
        dgl_kernels_destroy(&before);
        console_note(&e->console, "kernels were read again");
        return;
    }
    if (e->kernels != before)
        dgl_kernels_destroy(&e->kernels);
    e->kernels = before;
    console_error("the kernels stay as they were");
}

/* Refuses all waiting requests with the reason. No request is answered afterwards. */
static void fail_all(struct serve *s, const char *why)
{
    tell_health(s, why);
    atomic_store(&s->draining, true);
    pthread_mutex_lock(&s->lock);
    s->over = true; /* the HTTP threads refuse new jobs from now on */
    pthread_mutex_unlock(&s->lock);
    take_jobs(s, false);
    while (s->running) {
        struct serve_exchange *ex = s->running;
        pthread_mutex_lock(&ex->lock);
        if (!ex->gone && !ex->finished)
            serve_reply_fail(ex, 503, "%s", why);
        pthread_mutex_unlock(&ex->lock);
        end_job(ex);
    }
}

/* Opens a lost device again, once in a row. If that fails, the server must end. */
static bool rebuild(struct serve *s)
{
    tell_health(s, "the device was lost and is being opened again");
    dgl_warn(&s->engine.console.log, "the device was lost: opening it again");
    if (dgl_model_rebuild(s->engine.model, NULL) != DGL_OK)
        return false;
    tell_health(s, "");
    return true;
}

/* Returns freed memory to the system once after work. Bodies of requests were allocated on several
 * threads, and the C library keeps such memory otherwise. */
static void trim_memory(bool idle, uint64_t *since_ns)
{
    const uint64_t now = dgl_now_ns();
    if (!idle) {
        *since_ns = now;
    } else if (*since_ns && now - *since_ns > TRIM_NS) {
        malloc_trim(0);
        *since_ns = 0;
    }
}

int serve_engine_run(struct serve *s)
{
    const uint64_t drain_ns = (uint64_t)s->opt->drain_timeout * 1000000000u;
    struct watch *watch = NULL;
    struct dgl_batch_info info = {.size = sizeof(info)};
    uint64_t drain_until = 0, trim = dgl_now_ns();
    size_t left = 0, waiting = 0;
    int hangups = 0, code = EXIT_OK, lost = 0;
    if (!watch_create(&watch, &s->engine, s->opt))
        return EXIT_FAILED;
    while (true) {
        take_jobs(s, left + waiting == 0 && !next_embedding(s));
        waiting = start_jobs(s);
        atomic_store(&s->beat_ns, left > 0 ? dgl_now_ns() : 0);
        enum dgl_status status = dgl_batch_step(s->batch, &left);
        struct serve_exchange *embeds = next_embedding(s);
        if (status == DGL_OK && embeds) {
            bool over = false;
            atomic_store(&s->beat_ns, dgl_now_ns());
            pthread_mutex_lock(&s->lock);
            embeds->tenant->turn = ++s->shares.turn;
            pthread_mutex_unlock(&s->lock);
            status = serve_embed_step(embeds, &over);
            if (over)
                end_job(embeds);
        }
        lost = status == DGL_ERR_DEVICE_LOST ? lost + 1 : 0;
        if (status != DGL_OK && (lost == 0 || lost > 2 || !rebuild(s))) {
            fail_all(s, "the device does not answer any more");
            code = EXIT_FAILED;
            break;
        }
        atomic_store(&s->beat_ns, left > 0 ? dgl_now_ns() : 0);
        dgl_batch_get_info(s->batch, &info);
        info.waiting += waiting;
        info.cancelled += s->unstarted;
        serve_metrics_batch(&s->metrics, &info);
        trim_memory(left + waiting == 0 && !next_embedding(s), &trim);
        if (left > 0)
            watch_poll(watch);
        else
            watch_idle(watch);
        if (serve_hangups() != hangups) {
            hangups = serve_hangups();
            serve_log_reopen(s);
            reload_kernels(s, watch);
        }
        if (serve_signals() == 0)
            continue;
        const uint64_t now = dgl_now_ns();
        if (drain_until == 0) {
            drain_until = now + drain_ns;
            atomic_store(&s->draining, true);
            serve_http_quiesce(s);
            serve_notify("STOPPING=1\nSTATUS=finishing requests");
            console_note(&s->engine.console, "stopping: %zu request%s at hand, finished first",
                         atomic_load(&s->active), atomic_load(&s->active) == 1 ? "" : "s");
        }
        if (serve_signals() > 1) {
            code = EXIT_CANCELLED;
            break;
        }
        if (atomic_load(&s->active) == 0 || now >= drain_until)
            break;
    }
    if (code == EXIT_OK) /* answers may be left if the time ran out */
        fail_all(s, "the server is stopping");
    watch_destroy(&watch);
    return code;
}
