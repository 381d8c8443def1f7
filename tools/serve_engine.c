/* Requests become sequences of a batch: prompts are rendered and tokenized on the threads that read
 * them, all else is the engine's thread, which owns the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "tools/serve.h"
#include "tools/watch.h"

/* How long the engine sleeps with nothing to do: signals and the state of the device are looked at
 * this often. */
#define IDLE_MS 100

/* ---- exchanges ------------------------------------------------------------------------------- */

void serve_exchange_unref(struct serve_exchange *ex)
{
    if (atomic_fetch_sub(&ex->refs, 1) != 1)
        return;
    for (size_t i = 0; i < ex->num_choices; i++) {
        free(ex->choices[i].logprobs);
        dgl_buf_finish(&ex->choices[i].text);
    }
    free(ex->choices);
    free(ex->prompt_ids);
    free(ex->ends);
    serve_request_finish(&ex->request);
    dgl_buf_finish(&ex->body);
    dgl_buf_finish(&ex->out);
    pthread_mutex_destroy(&ex->lock);
    free(ex);
}

void serve_exchange_answer(struct serve_exchange *ex, int status)
{
    ex->status = status;
    ex->state = EXCHANGE_ANSWERED;
    ex->finished = true;
    serve_exchange_wake(ex);
}

void serve_exchange_refuse(struct serve_exchange *ex, const struct serve_error *error)
{
    dgl_buf_finish(&ex->out);
    ex->content_type = "application/json";
    ex->retry = error->status == 503;
    serve_error_write(error, &ex->out);
    serve_exchange_answer(ex, error->status);
}

/* ---- from a body to a job -------------------------------------------------------------------- */

static void keep_line(void *priv, enum dgl_log_level level, const char *text)
{
    if (level == DGL_LOG_ERROR)
        serve_refuse(priv, 400, NULL, "%s", text);
}

/* Adds ids that it consumes to those of the exchange. */
static bool add_ids(struct serve_exchange *ex, size_t *cap, size_t prompt, int32_t *ids,
                    size_t count)
{
    const size_t held = prompt ? ex->ends[prompt - 1] : 0;
    const bool ok = dgl_grow((void **)&ex->prompt_ids, cap, held + count + 1, sizeof(*ids));
    if (ok && count)
        memcpy(ex->prompt_ids + held, ids, count * sizeof(*ids));
    ex->ends[prompt] = held + count;
    dgl_free(ids);
    return ok;
}

/* The ids of all prompts. */
static bool make_ids(struct serve_exchange *ex, struct serve_error *error)
{
    struct serve *s = ex->server;
    const struct serve_request *r = &ex->request;
    const struct dgl_log log = {.write = keep_line, .priv = error, .level = DGL_LOG_ERROR};
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(s->engine.model);
    const int32_t context = s->metrics.batch.context;
    const size_t prompts = r->kind == SERVE_CHAT ? 1 : r->num_prompts;
    const char *name = r->kind == SERVE_CHAT        ? "messages"
                       : r->kind == SERVE_EMBEDDING ? "input"
                                                    : "prompt";
    size_t cap = 0;
    *error = (struct serve_error){0};
    ex->ends = dgl_new_array(size_t, prompts);
    for (size_t i = 0; i < prompts && ex->ends; i++) {
        int32_t *ids = NULL;
        size_t count = 0;
        enum dgl_status status = DGL_OK;
        if (r->kind != SERVE_CHAT && r->prompts[i].ids) {
            count = r->prompts[i].num_ids;
            ids = dgl_new_array(int32_t, count);
            if (ids)
                memcpy(ids, r->prompts[i].ids, count * sizeof(*ids));
        } else if (!tok) {
            return serve_refuse(error, 400, name, "the model has no tokenizer: give token ids");
        } else if (r->kind == SERVE_CHAT && !s->tmpl) {
            return serve_refuse(error, 400, name, "the model has no chat template");
        } else if (r->kind == SERVE_CHAT) {
            status = dgl_render_ids(&log, s->tmpl, tok,
                                    dgl_render_params(.messages = r->messages.p,
                                                      .messages_len = r->messages.len,
                                                      .add_generation_prompt = true),
                                    &ids, &count);
        } else {
            status =
                dgl_encode(&log, tok, r->prompts[i].text.p, r->prompts[i].text.len,
                           dgl_encode_params(.add_special = true, .source = name), &ids, &count);
        }
        if (status != DGL_OK && !error->status)
            serve_refuse(error, 500, NULL, "%s", dgl_status_str(status));
        if (status != DGL_OK) {
            snprintf(error->param, sizeof(error->param), "%s", name);
            return false;
        }
        if (!ids || !add_ids(ex, &cap, i, ids, count))
            return serve_refuse(error, 500, NULL, "out of memory for the request");
        if (count == 0)
            return serve_refuse(error, 400, name, "'%s' has no tokens", name);
        if (count > (size_t)context) {
            serve_refuse(error, 400, name, "'%s' has %zu tokens, the context holds %d", name, count,
                         context);
            error->code = "context_length_exceeded";
            return false;
        }
    }
    return ex->ends || serve_refuse(error, 500, NULL, "out of memory for the request");
}

static bool is_our_model(const struct serve *s, struct dgl_str name)
{
    return name.len == 0 || dgl_str_eq(name, s->model_name) ||
           (!s->opt->alias && dgl_str_eq(name, dgl_model_get_info(s->engine.model)->path));
}

/* /tokenize and /detokenize. */
static bool answer_tokens(struct serve_exchange *ex, struct serve_error *error)
{
    const struct serve_request *r = &ex->request;
    const struct dgl_log log = {.write = keep_line, .priv = error, .level = DGL_LOG_ERROR};
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(ex->server->engine.model);
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    int32_t *ids = NULL;
    char *text = NULL;
    size_t count = 0;
    bool ok = false;
    *error = (struct serve_error){0};
    if (!tok)
        return serve_refuse(error, 400, NULL, "the model has no tokenizer");
    dgl_jw_object(&w);
    if (r->kind == SERVE_TOKENIZE) {
        ok = dgl_encode(&log, tok, r->prompts->text.p, r->prompts->text.len,
                        dgl_encode_params(.add_special = r->add_special,
                                          .no_parse_special = !r->parse_special),
                        &ids, &count) == DGL_OK;
        dgl_jw_key(&w, "tokens");
        dgl_jw_array(&w);
        for (size_t i = 0; i < count; i++)
            dgl_jw_i64(&w, ids[i]);
        dgl_jw_end_array(&w);
    } else {
        ok = dgl_decode(&log, tok, r->prompts->ids, r->prompts->num_ids, false, &text, &count) ==
             DGL_OK;
        dgl_jw_key(&w, "content");
        dgl_jw_str(&w, (struct dgl_str){ok ? text : "", ok ? count : 0});
    }
    dgl_jw_end_object(&w);
    dgl_free(ids);
    dgl_free(text);
    if (ok)
        serve_exchange_answer(ex, 200);
    else if (!error->status)
        serve_refuse(error, 500, NULL, "the text cannot be read");
    return ok;
}

static bool begin_job(struct serve_exchange *ex, enum serve_kind kind, struct serve_error *error)
{
    struct serve *s = ex->server;
    struct serve_request *r = &ex->request;
    const char *body = ex->body.p ? ex->body.p : "";
    uint64_t unique[2];
    if (!atomic_load(&s->ready) || atomic_load(&s->draining))
        return serve_refuse(error, 503, NULL,
                            atomic_load(&s->ready) ? "the server is stopping"
                                                   : "the model is being loaded");
    if (!serve_request_read(kind, &s->sampling, body, ex->body.len, r, error))
        return false;
    if (!is_our_model(s, r->model)) {
        serve_refuse(error, 404, "model", "the model '%.*s' does not exist, '%s' does",
                     (int)(r->model.len < 128 ? r->model.len : 128), r->model.p, s->model_name);
        error->code = "model_not_found";
        return false;
    }
    if (kind == SERVE_TOKENIZE || kind == SERVE_DETOKENIZE)
        return answer_tokens(ex, error);
    if (!make_ids(ex, error))
        return false;
    const size_t prompts = kind == SERVE_CHAT ? 1 : r->num_prompts;
    ex->num_choices = kind == SERVE_EMBEDDING ? 0 : prompts * (size_t)r->n;
    if (ex->num_choices > s->most_choices) {
        const size_t wanted = ex->num_choices;
        ex->num_choices = 0;
        return serve_refuse(error, 400, "n", "the request wants %zu answers, at most %zu can wait",
                            wanted, s->most_choices);
    }
    ex->choices = dgl_new_array(struct serve_choice, ex->num_choices);
    if (!ex->choices) {
        ex->num_choices = 0;
        return serve_refuse(error, 500, NULL, "out of memory for the request");
    }
    if (getrandom(unique, sizeof(unique), 0) != (ssize_t)sizeof(unique))
        unique[0] = unique[1] = dgl_now_ns();
    if (!r->seeded)
        r->sampling.seed = unique[1];
    snprintf(ex->name, sizeof(ex->name), "%s-%016llx", kind == SERVE_CHAT ? "chatcmpl" : "cmpl",
             (unsigned long long)unique[0]);
    ex->created = (int64_t)time(NULL);
    ex->state = EXCHANGE_WAITS;
    atomic_fetch_add(&ex->refs, 1);
    pthread_mutex_lock(&s->lock);
    *(s->last_job ? &s->last_job->next_job : &s->first_job) = ex;
    s->last_job = ex;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return true;
}

void serve_job_begin(struct serve_exchange *ex, enum serve_kind kind)
{
    struct serve_error error = {0};
    if (!begin_job(ex, kind, &error))
        serve_exchange_refuse(ex, &error);
}

/* The engine is done with a job. */
static void end_job(struct serve_exchange *ex)
{
    struct serve_exchange **link = &ex->server->running;
    while (*link != ex)
        link = &(*link)->next_job;
    *link = ex->next_job;
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

/* ---- what the batch tells -------------------------------------------------------------------- */

static bool take_token(void *priv, const struct dgl_token *token)
{
    struct serve_choice *c = priv;
    struct serve_exchange *ex = c->exchange;
    const uint64_t now = dgl_now_ns();
    const bool first = c->last_ns == 0;
    serve_metrics_token(&ex->server->metrics, first,
                        (double)(now - (first ? ex->start_ns : c->last_ns)) * 1e-9);
    c->last_ns = now;
    pthread_mutex_lock(&ex->lock);
    bool ok = !ex->gone && !ex->finished;
    if (ok && ex->request.logprobs) {
        ok = dgl_grow((void **)&c->logprobs, &c->cap_logprobs, c->num_logprobs + 1,
                      sizeof(*c->logprobs));
        if (ok) {
            struct serve_logprob *p = &c->logprobs[c->num_logprobs++];
            p->chosen = token->chosen;
            p->num_top = token->num_top;
            memcpy(p->top, token->top, token->num_top * sizeof(*p->top));
        }
    }
    pthread_mutex_unlock(&ex->lock);
    return ok;
}

static bool take_text(void *priv, const char *text, size_t len)
{
    struct serve_choice *c = priv;
    struct serve_exchange *ex = c->exchange;
    pthread_mutex_lock(&ex->lock);
    const bool ok = !ex->gone && !ex->finished;
    if (ok)
        serve_reply_text(c, text, len);
    pthread_mutex_unlock(&ex->lock);
    return ok;
}

static void take_end(void *priv, const struct dgl_request_result *result)
{
    struct serve_choice *c = priv;
    struct serve_exchange *ex = c->exchange;
    struct serve_error error;
    pthread_mutex_lock(&ex->lock);
    c->id = 0;
    c->ended = true;
    ex->num_ended++;
    if (c->index % ex->request.n == 0) {
        ex->prompt_tokens += result->num_prompt_ids;
        ex->reused_tokens += result->num_reused;
    }
    ex->tokens += result->num_tokens;
    const bool heard = !ex->gone && !ex->finished;
    if (heard && result->status != DGL_OK) {
        serve_refuse(&error, 500, NULL, "the answer failed: %s; the server's log says more",
                     dgl_status_str(result->status));
        serve_reply_fail(ex, &error);
    } else if (heard && result->finish == DGL_FINISH_CANCELLED) {
        serve_refuse(&error, 503, NULL, "the server is stopping");
        serve_reply_fail(ex, &error);
    } else if (heard) {
        c->finish = result->finish == DGL_FINISH_LENGTH || result->finish == DGL_FINISH_CONTEXT
                        ? "length"
                        : "stop";
        serve_reply_end(c);
        if (ex->num_ended == ex->num_choices)
            serve_reply_finish(ex);
    }
    const bool over = ex->num_ended == ex->num_choices;
    pthread_mutex_unlock(&ex->lock);
    if (over)
        end_job(ex);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* The first error line of what the log said, as the refusal of a call. */
static void refuse_by_log(struct serve_exchange *ex, enum dgl_status status,
                          const struct dgl_buf *said)
{
    struct dgl_str rest = {said->p ? said->p : "", said->len}, line, text = DGL_STR("");
    struct serve_error error;
    while (text.len == 0 && dgl_str_split(&rest, '\n', &line))
        if (line.len > 1 && line.p[0] == CONSOLE_CAPTURED_ERROR)
            text = (struct dgl_str){line.p + 1, line.len - 1};
    if (text.len == 0)
        text = dgl_str_of(dgl_status_str(status));
    serve_refuse(&error,
                 status == DGL_ERR_BUSY          ? 503
                 : status == DGL_ERR_INVALID_ARG ? 400
                                                 : 500,
                 NULL, "%.*s", (int)text.len, text.p);
    serve_reply_fail(ex, &error);
}

static enum dgl_status submit_choice(struct serve_exchange *ex, size_t i)
{
    const struct serve_request *r = &ex->request;
    const size_t prompt = i / (size_t)r->n, first = prompt ? ex->ends[prompt - 1] : 0;
    struct dgl_sampling sampling = r->sampling;
    sampling.seed += i % (size_t)r->n;
    return dgl_batch_submit(
        ex->server->batch,
        dgl_request_params(.ids = ex->prompt_ids + first, .num_ids = ex->ends[prompt] - first,
                           .max_tokens = r->max_tokens, .sampling = sampling, .stop = r->stop,
                           .num_stop = r->num_stop, .ignore_eos = r->ignore_eos,
                           .logprobs = r->logprobs, .top_logprobs = r->top_logprobs,
                           .token_cb = take_token, .text_cb = take_text, .finish_cb = take_end,
                           .priv = &ex->choices[i]),
        &ex->choices[i].id);
}

/* All choices or none: those before one that is refused are taken back. */
static void start_job(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    struct dgl_buf said = {0};
    enum dgl_status status = DGL_OK;
    size_t submitted = 0;
    s->engine.console.capture = &said;
    for (; submitted < ex->num_choices && status == DGL_OK; submitted += status == DGL_OK) {
        ex->choices[submitted].exchange = ex;
        ex->choices[submitted].index = (int32_t)submitted;
        status = submit_choice(ex, submitted);
    }
    s->engine.console.capture = NULL;
    if (status == DGL_OK && ex->request.stream) {
        ex->state = EXCHANGE_STREAMS;
        ex->status = 200;
        ex->content_type = "text/event-stream";
        serve_reply_begin(ex);
        serve_exchange_wake(ex);
    } else if (status != DGL_OK) {
        refuse_by_log(ex, status, &said);
        ex->num_ended = ex->num_choices - submitted;
        for (size_t i = 0; i < submitted; i++)
            dgl_batch_cancel(s->batch, ex->choices[i].id);
    }
    dgl_buf_finish(&said);
}

static enum dgl_status write_embeddings(struct serve_exchange *ex, struct dgl_json_writer *w)
{
    struct serve *s = ex->server;
    const size_t width = (size_t)dgl_model_get_info(s->engine.model)->hidden;
    const bool last = s->opt->pooling && strcmp(s->opt->pooling, "last") == 0;
    enum dgl_status status = DGL_OK;
    dgl_jw_object(w);
    dgl_jw_key(w, "object");
    dgl_jw_cstr(w, "list");
    dgl_jw_key(w, "data");
    dgl_jw_array(w);
    for (size_t i = 0; i < ex->request.num_prompts && status == DGL_OK; i++) {
        const size_t first = i ? ex->ends[i - 1] : 0;
        struct dgl_buf text = {0};
        float *row = NULL;
        size_t rows;
        status = dgl_embed(s->embedder,
                           dgl_embed_params(.ids = ex->prompt_ids + first,
                                            .num_ids = ex->ends[i] - first,
                                            .pooling = last ? DGL_POOLING_LAST : DGL_POOLING_MEAN,
                                            .normalize = true),
                           &row, &rows);
        dgl_jw_object(w);
        dgl_jw_key(w, "object");
        dgl_jw_cstr(w, "embedding");
        dgl_jw_key(w, "index");
        dgl_jw_u64(w, i);
        dgl_jw_key(w, "embedding");
        if (ex->request.base64) {
            if (row)
                dgl_buf_base64(&text, row, width * sizeof(*row));
            dgl_jw_cstr(w, text.p);
        } else {
            dgl_jw_array(w);
            for (size_t k = 0; k < width && row; k++)
                dgl_jw_f64(w, (double)row[k]);
            dgl_jw_end_array(w);
        }
        dgl_jw_end_object(w);
        dgl_buf_finish(&text);
        dgl_free(row);
    }
    dgl_jw_end_array(w);
    ex->prompt_tokens = ex->ends[ex->request.num_prompts - 1];
    dgl_jw_key(w, "model");
    dgl_jw_cstr(w, s->model_name);
    dgl_jw_key(w, "usage");
    dgl_jw_object(w);
    dgl_jw_key(w, "prompt_tokens");
    dgl_jw_u64(w, ex->prompt_tokens);
    dgl_jw_key(w, "total_tokens");
    dgl_jw_u64(w, ex->prompt_tokens);
    dgl_jw_end_object(w);
    dgl_jw_end_object(w);
    return status;
}

/* Between two steps, the lock of the exchange held. */
static enum dgl_status answer_embeddings(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    struct dgl_buf said = {0};
    enum dgl_status status = DGL_OK;
    s->engine.console.capture = &said;
    if (!s->embedder)
        status = dgl_session_create(
            s->engine.model,
            dgl_session_params(.context = s->metrics.batch.context, .chunk = s->opt->ubatch),
            &s->embedder);
    if (status == DGL_OK)
        status = write_embeddings(ex, &w);
    s->engine.console.capture = NULL;
    if (status == DGL_OK)
        serve_exchange_answer(ex, 200);
    else
        refuse_by_log(ex, status, &said);
    dgl_buf_finish(&said);
    return status;
}

static enum dgl_status take_jobs(struct serve *s, bool wait)
{
    enum dgl_status status = DGL_OK;
    struct timespec until;
    pthread_mutex_lock(&s->lock);
    if (wait && !s->first_job) {
        clock_gettime(CLOCK_REALTIME, &until);
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
        pthread_mutex_lock(&ex->lock);
        bool over = true;
        if (!ex->gone && ex->request.kind == SERVE_EMBEDDING) {
            status = answer_embeddings(ex);
        } else if (!ex->gone) {
            start_job(ex);
            over = ex->num_ended == ex->num_choices;
        }
        pthread_mutex_unlock(&ex->lock);
        if (over)
            end_job(ex);
    }
    return status == DGL_ERR_DEVICE_LOST ? status : DGL_OK;
}

/* ---- the engine's thread --------------------------------------------------------------------- */

static void tell_health(struct serve *s, const char *why)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->unwell, sizeof(s->unwell), "%s", why);
    pthread_mutex_unlock(&s->lock);
}

/* SIGHUP: kernel files and hints anew. On failure the old ones stay; with a watch each file is
 * judged and answered as if it had been edited. */
static void reload_kernels(struct serve *s, struct watch *watch)
{
    struct engine *e = &s->engine;
    struct dgl_kernels *before = e->kernels;
    if (watch) {
        watch_reread(watch);
        console_note(&e->console, "kernels were read again");
        return;
    }
    enum dgl_status status = engine_open_kernels(e, s->opt);
    if (status == DGL_OK)
        status = dgl_model_set_kernels(e->model, e->kernels);
    if (status == DGL_OK) {
        dgl_kernels_destroy(&before);
        console_note(&e->console, "kernels were read again");
        return;
    }
    if (e->kernels != before)
        dgl_kernels_destroy(&e->kernels);
    e->kernels = before;
    console_error("the kernels stay as they were");
}

/* A lost device comes back once in a row; should that fail, nothing is left to serve with. */
static bool rebuild(struct serve *s)
{
    tell_health(s, "the device was lost and is being opened again");
    dgl_warn(&s->engine.console.log, "the device was lost: opening it again");
    if (dgl_model_rebuild(s->engine.model, NULL) != DGL_OK)
        return false;
    tell_health(s, "");
    return true;
}

/* Time is up: who still waits is told. */
static void end_all(struct serve *s)
{
    size_t left = 1;
    pthread_mutex_lock(&s->lock);
    for (struct serve_exchange *ex = s->exchanges; ex; ex = ex->next) {
        if (pthread_mutex_trylock(&ex->lock) != 0) /* its body is being read */
            continue;
        for (size_t i = 0; i < ex->num_choices; i++)
            if (ex->choices[i].id)
                dgl_batch_cancel(s->batch, ex->choices[i].id);
        pthread_mutex_unlock(&ex->lock);
    }
    pthread_mutex_unlock(&s->lock);
    while (left > 0 && dgl_batch_step(s->batch, &left) == DGL_OK)
        continue;
}

int serve_engine_run(struct serve *s)
{
    const uint64_t drain_ns = (uint64_t)s->opt->drain_timeout * 1000000000u;
    struct watch *watch = NULL;
    struct dgl_batch_info info;
    uint64_t drain_until = 0;
    size_t left = 0;
    int hangups = 0, code = EXIT_OK, lost = 0;
    if (!watch_create(&watch, &s->engine, s->opt))
        return EXIT_FAILED;
    while (true) {
        enum dgl_status status = take_jobs(s, left == 0);
        if (status == DGL_OK) {
            atomic_store(&s->beat_ns, left > 0 ? dgl_now_ns() : 0);
            status = dgl_batch_step(s->batch, &left);
        }
        lost = status == DGL_ERR_DEVICE_LOST ? lost + 1 : 0;
        if (status != DGL_OK && (lost == 0 || lost > 2 || !rebuild(s))) {
            tell_health(s, "the device does not answer any more");
            code = EXIT_FAILED;
            break;
        }
        atomic_store(&s->beat_ns, left > 0 ? dgl_now_ns() : 0);
        dgl_batch_get_info(s->batch, &info);
        serve_metrics_batch(&s->metrics, &info);
        if (left > 0)
            watch_poll(watch);
        else
            watch_idle(watch);
        if (serve_hangups() != hangups) {
            hangups = serve_hangups();
            reload_kernels(s, watch);
        }
        if (serve_signals() == 0)
            continue;
        const uint64_t now = dgl_now_ns();
        if (drain_until == 0) {
            drain_until = now + drain_ns;
            atomic_store(&s->draining, true);
            serve_http_quiesce(s);
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
    if (code == EXIT_OK)
        end_all(s);
    watch_destroy(&watch);
    return code;
}
