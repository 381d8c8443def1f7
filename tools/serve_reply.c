/* Answers as OpenAI's interface has them: whole, and as server-sent events. */
#include <string.h>

#include "core/base/clock.h"
#include "tools/serve.h"

/* ---- parts ----------------------------------------------------------------------------------- */

static void put(struct dgl_json_writer *w, const char *key, const char *text)
{
    dgl_jw_key(w, key);
    dgl_jw_cstr(w, text);
}

static bool is_chat(const struct serve_exchange *ex)
{
    return ex->request.kind == SERVE_CHAT;
}

static void begin_object(const struct serve_exchange *ex, struct dgl_json_writer *w)
{
    const bool chunk = ex->request.stream && is_chat(ex);
    dgl_jw_object(w);
    put(w, "id", ex->name);
    put(w, "object",
        chunk         ? "chat.completion.chunk"
        : is_chat(ex) ? "chat.completion"
                      : "text_completion");
    dgl_jw_key(w, "created");
    dgl_jw_i64(w, ex->created);
    put(w, "model", ex->server->model_name);
    dgl_jw_key(w, "choices");
    dgl_jw_array(w);
}

static void write_usage(const struct serve_exchange *ex, struct dgl_json_writer *w)
{
    dgl_jw_key(w, "usage");
    dgl_jw_object(w);
    dgl_jw_key(w, "prompt_tokens");
    dgl_jw_u64(w, ex->prompt_tokens);
    dgl_jw_key(w, "completion_tokens");
    dgl_jw_u64(w, ex->tokens);
    dgl_jw_key(w, "total_tokens");
    dgl_jw_u64(w, ex->prompt_tokens + ex->tokens);
    dgl_jw_key(w, "prompt_tokens_details");
    dgl_jw_object(w);
    dgl_jw_key(w, "cached_tokens");
    dgl_jw_u64(w, ex->reused_tokens);
    dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}

/* ---- logprobs -------------------------------------------------------------------------------- */

/* The text of a token, to be released with dgl_free(). */
static struct dgl_str token_text(const struct serve_choice *c, int32_t id, char **owned)
{
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(c->exchange->server->engine.model);
    size_t len = 0;
    *owned = NULL;
    if (dgl_decode(NULL, tok, &id, 1, false, owned, &len) != DGL_OK)
        return DGL_STR("");
    return (struct dgl_str){*owned, len};
}

static void write_chat_token(const struct serve_choice *c, struct dgl_json_writer *w,
                             const struct dgl_choice *token, const struct serve_logprob *top)
{
    char *owned;
    const struct dgl_str text = token_text(c, token->id, &owned);
    dgl_jw_object(w);
    dgl_jw_key(w, "token");
    dgl_jw_str(w, text);
    dgl_jw_key(w, "logprob");
    dgl_jw_f64(w, (double)token->logprob);
    dgl_jw_key(w, "bytes");
    dgl_jw_array(w);
    for (size_t i = 0; i < text.len; i++)
        dgl_jw_i64(w, (unsigned char)text.p[i]);
    dgl_jw_end_array(w);
    if (top) {
        dgl_jw_key(w, "top_logprobs");
        dgl_jw_array(w);
        for (size_t i = 0; i < top->num_top; i++)
            write_chat_token(c, w, &top->top[i], NULL);
        dgl_jw_end_array(w);
    }
    dgl_jw_end_object(w);
    dgl_free(owned);
}

static void write_token_text(const struct serve_choice *c, struct dgl_json_writer *w, int32_t id,
                             bool key)
{
    char *owned;
    const struct dgl_str text = token_text(c, id, &owned);
    if (key)
        dgl_jw_key_str(w, text);
    else
        dgl_jw_str(w, text);
    dgl_free(owned);
}

static void write_top(const struct serve_choice *c, struct dgl_json_writer *w,
                      const struct serve_logprob *p)
{
    dgl_jw_object(w);
    for (size_t i = 0; i < p->num_top; i++) {
        write_token_text(c, w, p->top[i].id, true);
        dgl_jw_f64(w, (double)p->top[i].logprob);
    }
    dgl_jw_end_object(w);
}

/* Those that are pending, which are then out. */
static void write_logprobs(struct serve_choice *c, struct dgl_json_writer *w)
{
    const struct serve_request *r = &c->exchange->request;
    dgl_jw_key(w, "logprobs");
    if (!r->logprobs) {
        dgl_jw_null(w);
        return;
    }
    dgl_jw_object(w);
    if (is_chat(c->exchange)) {
        dgl_jw_key(w, "content");
        dgl_jw_array(w);
        for (size_t i = 0; i < c->num_logprobs; i++)
            write_chat_token(c, w, &c->logprobs[i].chosen, &c->logprobs[i]);
        dgl_jw_end_array(w);
        put(w, "refusal", NULL);
    } else {
        dgl_jw_key(w, "tokens");
        dgl_jw_array(w);
        for (size_t i = 0; i < c->num_logprobs; i++)
            write_token_text(c, w, c->logprobs[i].chosen.id, false);
        dgl_jw_end_array(w);
        dgl_jw_key(w, "token_logprobs");
        dgl_jw_array(w);
        for (size_t i = 0; i < c->num_logprobs; i++)
            dgl_jw_f64(w, (double)c->logprobs[i].chosen.logprob);
        dgl_jw_end_array(w);
        dgl_jw_key(w, "top_logprobs");
        dgl_jw_array(w);
        for (size_t i = 0; i < c->num_logprobs; i++)
            write_top(c, w, &c->logprobs[i]);
        dgl_jw_end_array(w);
    }
    dgl_jw_end_object(w);
    c->num_logprobs = 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void send_event(struct serve_exchange *ex)
{
    dgl_buf_puts(&ex->out, "\n\n");
    ex->told_ns = dgl_now_ns();
    serve_exchange_wake(ex);
}

/* An event about one choice: a beginning (text NULL, no finish), text, or the end. */
static void send_chunk(struct serve_choice *c, const char *text, size_t len, const char *finish)
{
    struct serve_exchange *ex = c->exchange;
    dgl_buf_puts(&ex->out, "data: ");
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    begin_object(ex, &w);
    dgl_jw_object(&w);
    dgl_jw_key(&w, "index");
    dgl_jw_i64(&w, c->index);
    if (is_chat(ex)) {
        dgl_jw_key(&w, "delta");
        dgl_jw_object(&w);
        if (!text && !finish)
            put(&w, "role", "assistant");
        if (!finish) {
            dgl_jw_key(&w, "content");
            dgl_jw_str(&w, (struct dgl_str){text ? text : "", len});
        }
        dgl_jw_end_object(&w);
    } else {
        dgl_jw_key(&w, "text");
        dgl_jw_str(&w, (struct dgl_str){text ? text : "", len});
    }
    write_logprobs(c, &w);
    put(&w, "finish_reason", finish);
    dgl_jw_end_object(&w);
    dgl_jw_end_array(&w);
    if (ex->request.include_usage)
        put(&w, "usage", NULL);
    dgl_jw_end_object(&w);
    send_event(ex);
}

void serve_reply_begin(struct serve_exchange *ex)
{
    for (size_t i = 0; i < ex->num_choices && is_chat(ex); i++)
        send_chunk(&ex->choices[i], NULL, 0, NULL);
}

void serve_reply_text(struct serve_choice *c, const char *text, size_t len)
{
    if (c->exchange->request.stream)
        send_chunk(c, text, len, NULL);
    else
        dgl_buf_append(&c->text, text, len);
}

void serve_reply_end(struct serve_choice *c)
{
    if (c->exchange->request.stream)
        send_chunk(c, NULL, 0, c->finish);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void write_choice(struct serve_choice *c, struct dgl_json_writer *w)
{
    const struct dgl_str text = {c->text.p ? c->text.p : "", c->text.len};
    dgl_jw_object(w);
    dgl_jw_key(w, "index");
    dgl_jw_i64(w, c->index);
    if (is_chat(c->exchange)) {
        dgl_jw_key(w, "message");
        dgl_jw_object(w);
        put(w, "role", "assistant");
        dgl_jw_key(w, "content");
        dgl_jw_str(w, text);
        put(w, "refusal", NULL);
        dgl_jw_end_object(w);
    } else {
        dgl_jw_key(w, "text");
        dgl_jw_str(w, text);
    }
    write_logprobs(c, w);
    put(w, "finish_reason", c->finish);
    dgl_jw_end_object(w);
}

void serve_reply_finish(struct serve_exchange *ex)
{
    const bool stream = ex->request.stream;
    if (stream && ex->request.include_usage)
        dgl_buf_puts(&ex->out, "data: ");
    if (!stream || ex->request.include_usage) {
        struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
        begin_object(ex, &w);
        for (size_t i = 0; i < ex->num_choices && !stream; i++)
            write_choice(&ex->choices[i], &w);
        dgl_jw_end_array(&w);
        write_usage(ex, &w);
        dgl_jw_end_object(&w);
    }
    if (!stream) {
        serve_exchange_answer(ex, 200);
        return;
    }
    if (ex->request.include_usage)
        dgl_buf_puts(&ex->out, "\n\n");
    dgl_buf_puts(&ex->out, "data: [DONE]");
    ex->finished = true;
    send_event(ex);
}

void serve_reply_fail(struct serve_exchange *ex, const struct serve_error *error)
{
    if (ex->state != EXCHANGE_STREAMS) {
        serve_exchange_refuse(ex, error);
        return;
    }
    dgl_buf_puts(&ex->out, "data: ");
    serve_error_write(error, &ex->out);
    ex->finished = true;
    send_event(ex);
}
