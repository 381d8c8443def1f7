/* Writes answers in the formats of OpenAI's interface: as one JSON object, or as server-sent
 * events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "tools/serve/serve.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* ---- parts ----------------------------------------------------------------------------------- */

static bool is_chat(const struct serve_exchange *ex)
{
    return ex->request.kind == SERVE_CHAT;
}

static void begin_object(const struct serve_exchange *ex, struct dgl_json_writer *w)
{
    const bool chunk = ex->request.stream && is_chat(ex);
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "id", ex->name);
    dgl_jw_field_cstr(w, "object",
                      chunk         ? "chat.completion.chunk"
                      : is_chat(ex) ? "chat.completion"
                                    : "text_completion");
    dgl_jw_field_i64(w, "created", ex->created);
    dgl_jw_field_cstr(w, "model", ex->server->model_name);
    dgl_jw_field_array(w, "choices");
}

/* ---- logprobs -------------------------------------------------------------------------------- */

/* Reads the bytes of a token after another one. They are empty if they are unknown. */
static void token_bytes(const struct serve_choice *c, int32_t id, struct dgl_buf *out)
{
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(c->exchange->server->engine.model);
    char *bytes = NULL;
    size_t len = 0;
    if (tok && dgl_token_bytes(NULL, tok, id, &bytes, &len) == DGL_OK)
        dgl_buf_append(out, bytes, len);
    dgl_free(bytes);
}

static bool is_text(struct dgl_str bytes)
{
    return dgl_utf8_valid_prefix(bytes.p, bytes.len) == bytes.len;
}

/* Appends the name of a token in answers of /v1/completions: its text. As in OpenAI's interface,
 * the name of a token that is a part of a character is "bytes:" and an escaped form of its bytes. A
 * token without text is named by its id, as vLLM does. */
static void name_token(const struct serve_choice *c, int32_t id, struct dgl_buf *out)
{
    struct dgl_buf bytes = {0};
    token_bytes(c, id, &bytes);
    if (bytes.len == 0) {
        dgl_buf_printf(out, "token_id:%d", id);
    } else if (is_text((struct dgl_str){bytes.p, bytes.len})) {
        dgl_buf_append(out, bytes.p, bytes.len);
    } else {
        dgl_buf_puts(out, "bytes:");
        for (size_t i = 0; i < bytes.len; i++) {
            const unsigned char byte = (unsigned char)bytes.p[i];
            if (byte >= ' ' && byte < 0x7f && byte != '\\')
                dgl_buf_putc(out, (char)byte);
            else
                dgl_buf_printf(out, "\\x%02x", byte);
        }
    }
    dgl_buf_finish(&bytes);
}

/* Counts the characters of the ids. *whole is false if the last character is incomplete. */
static size_t count_characters(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                               bool *whole)
{
    char *text = NULL;
    size_t len = 0, characters = 0;
    *whole = true;
    if (count > 0 && dgl_decode(NULL, tok, ids, count, true, &text, &len) == DGL_OK) {
        for (size_t i = 0; i < len; i++)
            characters += ((unsigned char)text[i] & 0xc0) != 0x80;
        *whole = len < 3 || memcmp(text + len - 3, REPLACEMENT, 3) != 0;
    }
    dgl_free(text);
    return characters;
}

/* Returns true if the last id continues a character that the ids before it left incomplete. The
 * text of the ids then changes its final U+FFFD, or does not become longer. */
static bool goes_on(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count)
{
    char *before = NULL, *all = NULL;
    size_t len = 0, all_len = 0;
    const bool ok = dgl_decode(NULL, tok, ids, count - 1, true, &before, &len) == DGL_OK &&
                    dgl_decode(NULL, tok, ids, count, true, &all, &all_len) == DGL_OK;
    const bool on = ok && (all_len <= len || memcmp(before, all, len) != 0);
    dgl_free(before);
    dgl_free(all);
    return on;
}

/* Tokens are decoded after the token before them, as in a text. */
size_t serve_reply_offset(struct serve_choice *c, int32_t id)
{
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(c->exchange->server->engine.model);
    struct serve_spelling *sp = &c->spelling;
    bool whole, any;
    if (!tok)
        return 0;
    const size_t held = sp->begun ? count_characters(tok, sp->ids, 1, &any) : 0,
                 pending = count_characters(tok, sp->ids, sp->num_ids, &any);
    sp->ids[sp->num_ids++] = id;
    const size_t all = count_characters(tok, sp->ids, sp->num_ids, &whole);
    size_t before = c->offset + (pending > held ? pending - held : 0);
    if (pending > held && goes_on(tok, sp->ids, sp->num_ids))
        before--;
    if (!whole && sp->num_ids < sizeof(sp->ids) / sizeof(sp->ids[0]))
        return before;
    if (all > held) {
        c->offset += all - held;
        sp->ids[0] = id;
        sp->begun = true;
    }
    sp->num_ids = sp->begun;
    return before;
}

static void write_chat_token(const struct serve_choice *c, struct dgl_json_writer *w,
                             const struct dgl_choice *token, const struct serve_logprob *top)
{
    struct dgl_buf bytes = {0}, text = {0};
    token_bytes(c, token->id, &bytes);
    dgl_utf8_append_lossy(&text, bytes.p ? bytes.p : "", bytes.len);
    dgl_jw_object(w);
    dgl_jw_field_str(w, "token", (struct dgl_str){text.p ? text.p : "", text.len});
    dgl_jw_field_f64(w, "logprob", (double)token->logprob);
    dgl_jw_field_array(w, "bytes");
    for (size_t i = 0; i < bytes.len; i++)
        dgl_jw_i64(w, (unsigned char)bytes.p[i]);
    dgl_jw_end_array(w);
    if (top) {
        dgl_jw_field_array(w, "top_logprobs");
        for (size_t i = 0; i < top->num_top; i++)
            write_chat_token(c, w, &top->top[i], NULL);
        dgl_jw_end_array(w);
    }
    dgl_jw_end_object(w);
    dgl_buf_finish(&bytes);
    dgl_buf_finish(&text);
}

static void write_name(const struct serve_choice *c, struct dgl_json_writer *w, int32_t id)
{
    struct dgl_buf name = {0};
    name_token(c, id, &name);
    dgl_jw_str(w, (struct dgl_str){name.p ? name.p : "", name.len});
    dgl_buf_finish(&name);
}

/* Writes the best tokens, and the chosen one even if it is not one of them, as OpenAI does. The key
 * of a token is its name. If tokens share a name, only the chosen one, or else the best, has it.
 * The keys of the others are their ids. */
static void write_top(const struct serve_choice *c, struct dgl_json_writer *w,
                      const struct serve_logprob *p)
{
    struct dgl_choice all[DGL_TOP_LOGPROBS_MAX + 1];
    struct dgl_buf names[DGL_TOP_LOGPROBS_MAX + 1] = {{0}};
    size_t count = p->num_top, chosen = 0;
    memcpy(all, p->top, count * sizeof(*all));
    while (chosen < count && all[chosen].id != p->chosen.id)
        chosen++;
    if (chosen == count && count > 0)
        all[count++] = p->chosen;
    for (size_t i = 0; i < count; i++)
        name_token(c, all[i].id, &names[i]);
    dgl_jw_object(w);
    for (size_t i = 0; i < count; i++) {
        bool taken = false;
        for (size_t k = 0; k < count; k++)
            taken |= (k < i || k == chosen) && i != chosen && k != i &&
                     names[k].len == names[i].len && names[i].len > 0 &&
                     memcmp(names[k].p, names[i].p, names[i].len) == 0;
        char id[32];
        snprintf(id, sizeof(id), "token_id:%d", all[i].id);
        dgl_jw_key_str(w, taken || !names[i].p ? dgl_str_of(id)
                                               : (struct dgl_str){names[i].p, names[i].len});
        dgl_jw_f64(w, (double)all[i].logprob);
    }
    dgl_jw_end_object(w);
    for (size_t i = 0; i < count; i++)
        dgl_buf_finish(&names[i]);
}

/* Writes the pending logprobs, and removes them. */
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
        dgl_jw_field_array(w, "content");
        for (size_t i = 0; i < c->num_logprobs; i++)
            write_chat_token(c, w, &c->logprobs[i].chosen, &c->logprobs[i]);
        dgl_jw_end_array(w);
        dgl_jw_field_cstr(w, "refusal", NULL);
    } else {
        dgl_jw_field_array(w, "tokens");
        for (size_t i = 0; i < c->num_logprobs; i++)
            write_name(c, w, c->logprobs[i].chosen.id);
        dgl_jw_end_array(w);
        dgl_jw_field_array(w, "token_logprobs");
        for (size_t i = 0; i < c->num_logprobs; i++)
            dgl_jw_f64(w, (double)c->logprobs[i].chosen.logprob);
        dgl_jw_end_array(w);
        dgl_jw_field_array(w, "top_logprobs");
        for (size_t i = 0; i < c->num_logprobs; i++)
            write_top(c, w, &c->logprobs[i]);
        dgl_jw_end_array(w);
        dgl_jw_field_array(w, "text_offset");
        for (size_t i = 0; i < c->num_logprobs; i++)
            dgl_jw_u64(w, c->logprobs[i].offset);
        dgl_jw_end_array(w);
    }
    dgl_jw_end_object(w);
    c->num_logprobs = 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Ends an event. If memory ran out for it, the stream ends with an error in its place. */
static void send_event(struct serve_exchange *ex)
{
    dgl_buf_puts(&ex->out, "\n\n");
    if (ex->fixed || ex->out.failed || dgl_memory_take_failures() > 0) {
        struct serve_error error;
        serve_refuse(&error, 500, NULL, "out of memory for the answer");
        serve_log_note_error(ex, &error);
        ex->out.len = ex->whole;
        ex->fixed = serve_no_memory_event;
        ex->finished = true;
    }
    ex->whole = ex->out.len;
    ex->told_ns = dgl_now_ns();
    serve_exchange_wake(ex);
}

/* Contents of one event of a choice. The first event is all zero. */
struct delta {
    struct dgl_str text, reasoning;
    const struct serve_call *call;
    size_t call_index;
    bool ends;
};

static void write_call(struct dgl_json_writer *w, const struct serve_call *call)
{
    dgl_jw_field_cstr(w, "id", call->id);
    dgl_jw_field_cstr(w, "type", "function");
    dgl_jw_field_object(w, "function");
    dgl_jw_field_cstr(w, "name", call->name);
    dgl_jw_field_cstr(w, "arguments", call->arguments);
    dgl_jw_end_object(w);
}

static void write_delta(struct dgl_json_writer *w, const struct delta *d)
{
    dgl_jw_field_object(w, "delta");
    if (d->call) {
        dgl_jw_field_array(w, "tool_calls");
        dgl_jw_object(w);
        dgl_jw_field_u64(w, "index", d->call_index);
        write_call(w, d->call);
        dgl_jw_end_object(w);
        dgl_jw_end_array(w);
    } else if (d->reasoning.len > 0) {
        dgl_jw_field_str(w, "reasoning_content", d->reasoning);
    } else if (!d->ends) {
        if (!d->text.p)
            dgl_jw_field_cstr(w, "role", "assistant");
        dgl_jw_field_str(w, "content", (struct dgl_str){d->text.p ? d->text.p : "", d->text.len});
    }
    dgl_jw_end_object(w);
}

static void send_chunk(struct serve_choice *c, const struct delta *d)
{
    struct serve_exchange *ex = c->exchange;
    dgl_buf_puts(&ex->out, "data: ");
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    begin_object(ex, &w);
    dgl_jw_object(&w);
    dgl_jw_field_i64(&w, "index", c->index);
    if (is_chat(ex)) {
        write_delta(&w, d);
    } else {
        dgl_jw_field_str(&w, "text", (struct dgl_str){d->text.p ? d->text.p : "", d->text.len});
    }
    write_logprobs(c, &w);
    dgl_jw_field_cstr(&w, "finish_reason", d->ends ? c->finish : NULL);
    dgl_jw_end_object(&w);
    dgl_jw_end_array(&w);
    if (ex->request.include_usage)
        dgl_jw_field_cstr(&w, "usage", NULL);
    dgl_jw_end_object(&w);
    send_event(ex);
}

void serve_reply_begin(struct serve_exchange *ex)
{
    for (size_t i = 0; i < ex->num_choices && is_chat(ex); i++)
        send_chunk(&ex->choices[i], &(struct delta){0});
}

void serve_reply_text(struct serve_choice *c, const char *text, size_t len)
{
    if (c->exchange->request.stream)
        send_chunk(c, &(struct delta){.text = {text, len}});
    else
        dgl_buf_append(&c->text, text, len);
}

static bool add_call(struct serve_choice *c, const struct dgl_reply_part *part)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    struct serve_call call = {.name = dgl_strdup(part->name),
                              .arguments = dgl_strndup(part->text, part->len)};
    const bool stream = c->exchange->request.stream;
    bool ok = call.name && call.arguments;
    uint64_t bits;
    if (part->id && strlen(part->id) < sizeof(call.id)) {
        memcpy(call.id, part->id, strlen(part->id) + 1);
    } else {
        /* Nine letters and digits: Mistral's templates require such ids. */
        if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
            bits = dgl_now_ns();
        for (int i = 0; i < 9; i++, bits /= 62)
            call.id[i] = digits[bits % 62];
    }
    if (ok && stream)
        send_chunk(c, &(struct delta){.call = &call, .call_index = c->num_calls});
    else if (ok)
        ok = dgl_grow((void **)&c->calls, &c->cap_calls, c->num_calls + 1, sizeof(*c->calls));
    if (ok && !stream)
        c->calls[c->num_calls] = call;
    if (!ok || stream) {
        free(call.name);
        free(call.arguments);
    }
    c->num_calls += ok;
    return ok;
}

bool serve_reply_part(struct serve_choice *c, const struct dgl_reply_part *part)
{
    if (part->kind == DGL_REPLY_CALL)
        return add_call(c, part);
    if (part->kind == DGL_REPLY_CONTENT)
        serve_reply_text(c, part->text, part->len);
    else if (c->exchange->request.stream)
        send_chunk(c, &(struct delta){.reasoning = {part->text, part->len}});
    else
        dgl_buf_append(&c->reasoning, part->text, part->len);
    return !c->text.failed && !c->reasoning.failed;
}

void serve_reply_end(struct serve_choice *c)
{
    if (c->exchange->request.stream)
        send_chunk(c, &(struct delta){.ends = true});
}

/* ---- the end --------------------------------------------------------------------------------- */

static void write_choice(struct serve_choice *c, struct dgl_json_writer *w)
{
    const struct dgl_str text = {c->text.p ? c->text.p : "", c->text.len};
    dgl_jw_object(w);
    dgl_jw_field_i64(w, "index", c->index);
    if (is_chat(c->exchange)) {
        dgl_jw_field_object(w, "message");
        dgl_jw_field_cstr(w, "role", "assistant");
        dgl_jw_key(w, "content");
        if (c->num_calls > 0 && text.len == 0)
            dgl_jw_null(w);
        else
            dgl_jw_str(w, text);
        if (c->reasoning.len > 0) {
            dgl_jw_field_str(w, "reasoning_content",
                             (struct dgl_str){c->reasoning.p, c->reasoning.len});
        }
        if (c->num_calls > 0) {
            dgl_jw_field_array(w, "tool_calls");
            for (size_t i = 0; i < c->num_calls; i++) {
                dgl_jw_object(w);
                write_call(w, &c->calls[i]);
                dgl_jw_end_object(w);
            }
            dgl_jw_end_array(w);
        }
        dgl_jw_field_cstr(w, "refusal", NULL);
        dgl_jw_end_object(w);
    } else {
        dgl_jw_field_str(w, "text", text);
    }
    write_logprobs(c, w);
    dgl_jw_field_cstr(w, "finish_reason", c->finish);
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
        dgl_jw_field_object(&w, "usage");
        dgl_jw_field_u64(&w, "prompt_tokens", ex->prompt_tokens);
        dgl_jw_field_u64(&w, "completion_tokens", ex->tokens);
        dgl_jw_field_u64(&w, "total_tokens", ex->prompt_tokens + ex->tokens);
        dgl_jw_field_object(&w, "prompt_tokens_details");
        dgl_jw_field_u64(&w, "cached_tokens", ex->reused_tokens);
        dgl_jw_end_object(&w);
        dgl_jw_end_object(&w);
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

void serve_reply_fail(struct serve_exchange *ex, int status, const char *fmt, ...)
{
    struct serve_error error;
    char text[sizeof(error.message)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    serve_refuse(&error, status, NULL, "%s", text);
    if (ex->state != EXCHANGE_STREAMS) {
        serve_exchange_refuse(ex, &error);
        return;
    }
    serve_log_note_error(ex, &error);
    error.request_id = ex->id;
    dgl_memory_take_failures(); /* this error reports them */
    dgl_buf_puts(&ex->out, "data: ");
    serve_error_write(&error, &ex->out);
    ex->finished = true;
    send_event(ex);
}

void serve_reply_fail_call(struct serve_exchange *ex, enum dgl_status status,
                           const struct dgl_error *why)
{
    serve_reply_fail(ex,
                     status == DGL_ERR_BUSY          ? 503
                     : status == DGL_ERR_INVALID_ARG ? 400
                                                     : 500,
                     "%s", why->text[0] ? why->text : dgl_status_str(status));
}
