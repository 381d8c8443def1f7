/* Makes a job of the body of a request. The thread that reads a body also renders and tokenizes its
 * prompts. Separate threads read large bodies. Requests that need no device
 * are answered here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "tools/cli/report.h"
#include "tools/serve/serve.h"

/* Largest body that an HTTP thread reads. That takes milliseconds; longer reading would delay the
 * streams that it sends. */
#define LARGE_BYTES 65536
#define END_TOKENS  8 /* last tokens of a chat's prompt, whose text is serve_exchange.prompt_end */

/* Largest size of the embeddings of one request, as floats. */
#define EMBEDDING_BYTES ((size_t)256 << 20)

/* Name of the main field of each kind of request. */
static const char *const field_of[] = {[SERVE_COMPLETION] = "prompt",
                                       [SERVE_CHAT] = "messages",
                                       [SERVE_EMBEDDING] = "input",
                                       [SERVE_TOKENIZE] = "content",
                                       [SERVE_DETOKENIZE] = "tokens"};

/* Returns true if a call failed for a reason that is not in the request. */
static bool is_fault(enum dgl_status status, const struct dgl_error *why)
{
    return status == DGL_ERR_NO_MEMORY || !why->text[0];
}

/* Refuses ids that are not tokens of the model. */
static bool check_ids(const struct serve_exchange *ex, struct serve_error *error)
{
    const struct serve_request *r = &ex->request;
    const int32_t vocab = dgl_model_get_info(ex->server->engine.model)->vocab;
    const char *name = field_of[r->kind];
    for (size_t i = 0; i < r->num_prompts; i++)
        for (size_t k = 0; k < r->prompts[i].num_ids; k++)
            if (r->prompts[i].ids[k] >= vocab)
                return serve_refuse(error, 400, name,
                                    "'%s' has the token %d, the vocabulary has ids 0 to %d", name,
                                    r->prompts[i].ids[k], vocab - 1);
    for (size_t i = 0; i < r->num_stop_ids; i++)
        if (r->stop_ids[i] >= vocab)
            return serve_refuse(error, 400, "stop_token_ids",
                                "'stop_token_ids' has the token %d, the vocabulary has ids 0 to %d",
                                r->stop_ids[i], vocab - 1);
    for (size_t i = 0; i < r->sampling.num_logit_bias; i++)
        if (r->sampling.logit_bias[i].id >= vocab)
            return serve_refuse(error, 400, "logit_bias",
                                "'logit_bias' has the token %d, the vocabulary has ids 0 to %d",
                                r->sampling.logit_bias[i].id, vocab - 1);
    return true;
}

/* Adds the biases of texts to those of ids. */
static bool name_biases(struct serve_exchange *ex, struct serve_error *error)
{
    struct serve_request *r = &ex->request;
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(ex->server->engine.model);
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    if (r->num_bias_texts == 0)
        return true;
    if (!tok)
        return serve_refuse(error, 400, "logit_bias",
                            "the model has no tokenizer: give token ids in 'logit_bias'");
    struct dgl_logit_bias *all = dgl_arena_alloc(&r->arena, DGL_LOGIT_BIAS_MAX * sizeof(*all));
    if (!all)
        return serve_refuse(error, 500, NULL, "out of memory for the request");
    size_t count = r->sampling.num_logit_bias;
    memcpy(all, r->sampling.logit_bias, count * sizeof(*all));
    for (size_t i = 0; i < r->num_bias_texts; i++) {
        const struct serve_bias *b = &r->bias_texts[i];
        int32_t *ids = NULL;
        size_t num_ids = 0;
        const enum dgl_status status = dgl_encode(
            &log, tok, b->text.p, b->text.len,
            dgl_encode_params(.no_parse_special = true, .source = "logit_bias"), &ids, &num_ids);
        for (size_t k = 0; k < num_ids && count + k < DGL_LOGIT_BIAS_MAX; k++)
            all[count + k] = (struct dgl_logit_bias){ids[k], b->bias};
        count += num_ids;
        dgl_free(ids);
        if (status != DGL_OK)
            return serve_refuse(error, is_fault(status, &why) ? 500 : 400, "logit_bias", "%s",
                                why.text[0] ? why.text : dgl_status_str(status));
        if (count > DGL_LOGIT_BIAS_MAX)
            return serve_refuse(error, 400, "logit_bias", "'logit_bias' has more than %d tokens",
                                DGL_LOGIT_BIAS_MAX);
    }
    r->sampling.logit_bias = all;
    r->sampling.num_logit_bias = count;
    return true;
}

static const char continue_advice[] =
    "; the answer continues the last message, which is an assistant's, unless "
    "'continue_final_message' is false";

/* Refuses fields that the template would ignore. */
static bool check_template(const struct serve *s, const struct serve_request *r,
                           struct serve_error *error)
{
    if (r->num_functions > 0 && !dgl_template_reads(s->tmpl, "tools"))
        return serve_refuse(error, 400, "tools",
                            "the model's chat template does not read 'tools', so the model cannot "
                            "know them: describe them in a message, or start the server with "
                            "another --template");
    if (r->effort && !dgl_template_reads(s->tmpl, "reasoning_effort") &&
        (strcmp(r->effort, "none") != 0 || !dgl_template_reads(s->tmpl, "enable_thinking")))
        return serve_refuse(error, 400, "reasoning_effort",
                            "the model's chat template does not read 'reasoning_effort'%s",
                            dgl_template_reads(s->tmpl, "enable_thinking")
                                ? ": give \"none\", or enable_thinking in 'chat_template_kwargs'"
                                : "");
    return true;
}

static bool make_ids(struct serve_exchange *ex, struct serve_error *error)
{
    struct serve *s = ex->server;
    const struct serve_request *r = &ex->request;
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(s->engine.model);
    const int32_t context = s->context;
    const size_t prompts = r->kind == SERVE_CHAT ? 1 : r->num_prompts;
    const char *name = field_of[r->kind];
    size_t cap = 0;
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
            if (!check_template(s, r, error))
                return false;
            status = dgl_render_ids(
                &log, s->tmpl, tok,
                dgl_render_params(.messages = r->messages.p, .messages_len = r->messages.len,
                                  .add_generation_prompt = r->add_generation_prompt,
                                  .continue_final_message = r->continues != NULL,
                                  .map_developer = true),
                &ids, &count);
        } else {
            status =
                dgl_encode(&log, tok, r->prompts[i].text.p, r->prompts[i].text.len,
                           dgl_encode_params(.add_special = true, .source = name), &ids, &count);
        }
        if (status != DGL_OK)
            return serve_refuse(error, is_fault(status, &why) ? 500 : 400, name, "%s%s",
                                why.text[0] ? why.text : dgl_status_str(status),
                                r->continue_implied ? continue_advice : "");
        const int32_t bos = dgl_model_get_info(s->engine.model)->bos_id;
        if (ids && count == 0 && bos >= 0) /* as dgl_generate() does */
            ids[count++] = bos;
        const size_t held = i ? ex->ends[i - 1] : 0;
        const bool ok =
            ids && dgl_grow((void **)&ex->prompt_ids, &cap, held + count + 1, sizeof(*ids));
        if (ok && count)
            memcpy(ex->prompt_ids + held, ids, count * sizeof(*ids));
        ex->ends[i] = held + count;
        dgl_free(ids);
        if (!ok)
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

/* Compiles the required form of the answer. */
static bool make_constraint(struct serve_exchange *ex, struct serve_error *error)
{
    const struct serve *s = ex->server;
    const struct serve_shape *shape = &ex->request.shape;
    const bool chat = ex->request.kind == SERVE_CHAT;
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    if (!shape->param)
        return true;
    /* Clients that name a function read one call, as with vLLM. */
    const bool several = ex->request.parallel_calls && !shape->function;
    const enum dgl_status status = dgl_constraint_create(
        s->engine.model,
        dgl_constraint_params(.kind = shape->kind, .text = shape->text.p, .len = shape->text.len,
                              .name = shape->param, .tmpl = chat ? s->tmpl : NULL,
                              .prompt_end = ex->prompt_end, .function = shape->function,
                              .several = several, .strict = shape->strict,
                              .tools = shape->tools.len ? shape->tools.p : NULL, .log = &log),
        &ex->constraint);
    return status == DGL_OK || serve_refuse(error, is_fault(status, &why) ? 500 : 400, shape->param,
                                            "%s", why.text[0] ? why.text : dgl_status_str(status));
}

/* /tokenize and /detokenize. */
static bool answer_tokens(struct serve_exchange *ex, struct serve_error *error)
{
    const struct serve_request *r = &ex->request;
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(ex->server->engine.model);
    int32_t *ids = NULL;
    char *text = NULL;
    size_t count = 0;
    enum dgl_status status;
    if (!tok)
        return serve_refuse(error, 400, NULL, "the model has no tokenizer");
    struct dgl_json_writer w = report_object(&ex->out);
    if (r->kind == SERVE_TOKENIZE) {
        status = dgl_encode(
            &log, tok, r->prompts->text.p, r->prompts->text.len,
            dgl_encode_params(.add_special = r->add_special, .no_parse_special = !r->parse_special),
            &ids, &count);
        report_ids(&w, "tokens", ids, count);
    } else {
        status = dgl_decode(&log, tok, r->prompts->ids, r->prompts->num_ids, false, &text, &count);
        dgl_jw_field_str(
            &w, "content",
            (struct dgl_str){status == DGL_OK ? text : "", status == DGL_OK ? count : 0});
    }
    dgl_jw_end_object(&w);
    dgl_free(ids);
    dgl_free(text);
    if (status != DGL_OK)
        return serve_refuse(error, is_fault(status, &why) ? 500 : 400, NULL, "%s",
                            why.text[0] ? why.text : "the text cannot be read");
    serve_exchange_answer(ex, 200);
    return true;
}

/* Frees everything that is not needed once the ids of the prompts are made, because the request may
 * wait long. Charges what the answer needs. */
static bool release(struct serve_exchange *ex, struct serve_error *error)
{
    const struct serve_request *r = &ex->request;
    const struct serve *s = ex->server;
    const size_t prompts = r->num_prompts ? r->num_prompts : 1;
    const int32_t hidden = dgl_model_get_info(s->engine.model)->hidden;
    uint64_t kept = ex->ends ? ex->ends[prompts - 1] * sizeof(*ex->prompt_ids) : 0;
    kept += ex->num_choices * sizeof(*ex->choices);
    if (r->kind == SERVE_EMBEDDING && ex->ends) /* the vectors, and their text */
        kept += prompts * (size_t)(r->dimensions ? r->dimensions : hidden) * 24;
    dgl_buf_finish(&ex->body);
    serve_request_release(&ex->request);
    serve_share_keep(ex, kept);
    return kept <= ex->charged || serve_share_charge(ex, kept - ex->charged) ||
           serve_share_refuse_bytes(s, kept, error);
}

/* Refuses embeddings that the model or the memory does not have. */
static bool check_embeddings(const struct serve_exchange *ex, struct serve_error *error)
{
    const struct serve *s = ex->server;
    const struct serve_request *r = &ex->request;
    const struct dgl_model_info *info = dgl_model_get_info(s->engine.model);
    if (info->pooling_fault && !s->opt->pooling)
        return serve_refuse(error, 400, "model",
                            "the embeddings of '%s' are not supported: %s (serve --pooling does "
                            "without it)",
                            s->model_name, info->pooling_fault);
    if (r->dimensions > info->hidden)
        return serve_refuse(error, 400, "dimensions",
                            "'dimensions' is %d, the model's embeddings have %d values",
                            r->dimensions, info->hidden);
    const size_t width = (size_t)(r->dimensions ? r->dimensions : info->hidden);
    if (r->num_prompts > EMBEDDING_BYTES / sizeof(float) / width)
        return serve_refuse(error, 400, "input",
                            "'input' has %zu elements with embeddings of %zu values, at most %zu "
                            "in one request",
                            r->num_prompts, width, EMBEDDING_BYTES / sizeof(float) / width);
    return true;
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
    const uint64_t cost = serve_request_cost(body, ex->body.len);
    if (!serve_share_charge(ex, cost))
        return serve_share_refuse_bytes(s, cost, error);
    if (!serve_request_read(kind, &s->defaults, body, ex->body.len, r, error))
        return false;
    if (r->model.len > 0 && !serve_has_name(s, r->model) &&
        (s->opt->alias.count > 0 ||
         !dgl_str_eq(r->model, dgl_model_get_info(s->engine.model)->path))) {
        serve_refuse(error, 404, "model", "the model '%.*s' does not exist, '%s' does",
                     (int)(r->model.len < 128 ? r->model.len : 128), r->model.p, s->model_name);
        error->code = "model_not_found";
        return false;
    }
    if (!check_ids(ex, error) || !name_biases(ex, error))
        return false;
    if (kind == SERVE_TOKENIZE || kind == SERVE_DETOKENIZE)
        return answer_tokens(ex, error);
    if (kind == SERVE_EMBEDDING && !check_embeddings(ex, error))
        return false;
    if (kind != SERVE_EMBEDDING && dgl_model_get_info(s->engine.model)->no_head)
        return serve_refuse(error, 400, "model",
                            "the model '%s' has no lm_head.weight, so it gives no answers: use "
                            "/v1/embeddings",
                            s->model_name);
    if (!make_ids(ex, error))
        return false;
    if (r->unknown[0])
        console_note(&s->engine.console, "%s: ignored fields: %s", ex->path, r->unknown);
    if (kind == SERVE_CHAT) { /* reasoning may begin in the last tokens of the prompt */
        const size_t count = ex->ends[0], from = count > END_TOKENS ? count - END_TOKENS : 0;
        size_t len;
        if (dgl_decode(NULL, dgl_model_tokenizer(s->engine.model), ex->prompt_ids + from,
                       count - from, false, &ex->prompt_end, &len) != DGL_OK)
            return serve_refuse(error, 500, NULL, "out of memory for the request");
    }
    const size_t prompts = kind == SERVE_CHAT ? 1 : r->num_prompts;
    ex->num_choices = kind == SERVE_EMBEDDING ? 0 : prompts * (size_t)r->n;
    const size_t most = s->shares.most_tenant_answers < s->shares.most_answers
                            ? s->shares.most_tenant_answers
                            : s->shares.most_answers;
    if (ex->num_choices > most) {
        const size_t wanted = ex->num_choices;
        ex->num_choices = 0;
        return serve_refuse(error, 400, r->n > 1 ? "n" : "prompt",
                            "the request wants %zu answers, at most %zu can wait", wanted, most);
    }
    if (!make_constraint(ex, error)) {
        ex->num_choices = 0;
        return false;
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
    ex->scope = serve_share_scope(ex, unique[0]);
    if (dgl_memory_take_failures() > 0)
        return serve_refuse(error, 500, NULL, "out of memory for the request");
    if (!release(ex, error))
        return false;
    pthread_mutex_lock(&s->lock);
    const bool over = s->over,
               taken = !over && serve_share_take(ex, ex->num_choices ? ex->num_choices : 1,
                                                 ex->ends[prompts - 1] * (size_t)r->n, error);
    if (taken) {
        ex->state = EXCHANGE_WAITS;
        ex->facts.job_ns = dgl_now_ns();
        atomic_fetch_add(&ex->refs, 1);
        *(s->last_job ? &s->last_job->next_job : &s->first_job) = ex;
        s->last_job = ex;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return taken || (over ? serve_refuse(error, 503, NULL, "the server is stopping") : false);
}

/* Decompresses the body if it is compressed, and charges it to the request. */
static bool unzip(struct serve_exchange *ex, struct serve_error *error)
{
    struct serve *s = ex->server;
    if (!ex->gzip)
        return true;
    /* While the buffer grows, it may have twice the bytes of the largest body. */
    const uint64_t before = ex->charged, most = 2 * (uint64_t)s->opt->max_body;
    if (!serve_share_charge(ex, most))
        return serve_share_refuse_bytes(s, most, error);
    if (!serve_gzip_read(&ex->body, (size_t)s->opt->max_body, error))
        return false;
    serve_share_keep(ex, before + ex->body.cap);
    return true;
}

static void read_body(struct serve_exchange *ex)
{
    struct serve_error error = {0};
    dgl_memory_take_failures();
    const bool begun = unzip(ex, &error) && begin_job(ex, ex->kind, &error);
    if (begun && ex->state == EXCHANGE_WAITS) /* the engine has it */
        return;
    dgl_buf_finish(&ex->body);
    serve_request_release(&ex->request);
    serve_share_keep(ex, ex->out.cap);
    if (!begun)
        serve_exchange_refuse(ex, &error);
}

void serve_job_begin(struct serve_exchange *ex, enum serve_kind kind)
{
    struct serve *s = ex->server;
    ex->kind = kind;
    if (!serve_share_join(ex)) {
        serve_reply_fail(ex, 500, "out of memory for the request");
        return;
    }
    if (ex->body.len <= LARGE_BYTES && !ex->gzip) { /* a small gzip may have a large body */
        read_body(ex);
        return;
    }
    ex->state = EXCHANGE_WAITS;
    atomic_fetch_add(&ex->refs, 1);
    pthread_mutex_lock(&s->lock);
    *(s->last_large ? &s->last_large->next_job : &s->first_large) = ex;
    s->last_large = ex;
    pthread_cond_signal(&s->large);
    pthread_mutex_unlock(&s->lock);
}

/* Waits for a large body, preferably of a tenant that no other thread reads for. Returns NULL if
 * none is left and the thread must end. */
static struct serve_exchange *take_large(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->first_large && !s->reads_no_more)
        pthread_cond_wait(&s->large, &s->lock);
    struct serve_exchange *best = NULL, *before = NULL;
    for (struct serve_exchange *ex = s->first_large, *last = NULL; ex; last = ex, ex = ex->next_job)
        if (!best || ex->tenant->reading < best->tenant->reading) {
            best = ex;
            before = last;
        }
    if (best) {
        *(before ? &before->next_job : &s->first_large) = best->next_job;
        if (s->last_large == best)
            s->last_large = before;
        best->next_job = NULL;
        best->tenant->reading++;
    }
    pthread_mutex_unlock(&s->lock);
    return best;
}

void *serve_job_read_large(void *priv)
{
    struct serve *s = priv;
    for (struct serve_exchange *ex = take_large(s); ex; ex = take_large(s)) {
        pthread_mutex_lock(&ex->lock);
        if (!ex->gone && !atomic_load(&s->stopping))
            read_body(ex);
        pthread_mutex_unlock(&ex->lock);
        pthread_mutex_lock(&s->lock);
        ex->tenant->reading--;
        pthread_mutex_unlock(&s->lock);
        serve_exchange_unref(ex);
    }
    return NULL;
}
