/* One turn of a chat: the conversation as ids, the answer to standard output and, with its ids,
 * back into the conversation, so that the session's cache is the beginning of the next turn. */
#include <string.h>

#include "tools/chat.h"
#include "tools/report.h"

/* ---- printing -------------------------------------------------------------------------------- */

/* A terminal obeys control characters, and an answer is not to give it orders: all but newline and
 * tab are shown as '?', those of two bytes (U+0080 to U+009F) too. */
static bool print_plain(struct chat *c, const char *text, size_t len)
{
    size_t from = 0;
    bool ok = true;
    for (size_t i = 0; i < len && ok; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool pair = byte == 0xC2 && i + 1 < len && (unsigned char)text[i + 1] < 0xA0;
        if (!pair && byte != 0x7F && (byte >= 0x20 || byte == '\n' || byte == '\t'))
            continue;
        ok = out_write(text + from, i - from) && out_write("?", 1);
        i += pair;
        from = i + 1;
    }
    c->at_newline = len ? text[len - 1] == '\n' : c->at_newline;
    return ok && (from >= len || out_write(text + from, len - from));
}

static bool print_text(void *priv, const char *text, size_t len)
{
    struct chat *c = priv;
    bool ok = c->terminal ? print_plain(c, text, len) : out_write(text, len);
    if (!c->terminal && len)
        c->at_newline = text[len - 1] == '\n';
    c->output_lost = !ok || !out_flush();
    return !c->output_lost;
}

/* A signal between two calls of the library would be forgotten by it. */
static bool keep_going(void *priv, int32_t id)
{
    (void)priv;
    (void)id;
    return !interrupted();
}

/* ---- one generation -------------------------------------------------------------------------- */

static enum dgl_status generate(struct chat *c, const int32_t *ids, size_t count, bool print,
                                struct dgl_generate_result *result)
{
    struct dgl_generate_params params = c->params;
    params.ids = ids;
    params.num_ids = count;
    params.priv = c;
    params.text_cb = print ? print_text : NULL;
    params.token_cb = keep_going;
    c->at_newline = true;
    return dgl_generate(c->engine.session, &params, result);
}

/* ---- in a conversation ----------------------------------------------------------------------- */

/* Tells why the answer ended and adds it to the conversation. */
static int end_answer(struct chat *c, const struct dgl_generate_result *r)
{
    const struct dgl_model_info *info = dgl_model_get_info(c->engine.model);
    if (c->output_lost || (!c->at_newline && !(out_write("\n", 1) && out_flush())))
        return out_exit(false);
    c->last = (struct chat_figures){.prompt = r->num_prompt_ids,
                                    .reused = r->num_reused,
                                    .tokens = r->num_tokens,
                                    .prefill_tps = generation_prefill_tps(r),
                                    .decode_tps = generation_decode_tps(r),
                                    .finish = r->finish};
    c->answers++;
    const struct console *console = &c->engine.console;
    if (r->finish == DGL_FINISH_CANCELLED && c->interactive)
        console_note(console, r->num_tokens
                                  ? "(stopped)"
                                  : "(stopped before it began: the message is taken back)");
    else if (r->finish == DGL_FINISH_LENGTH)
        console_note(console, "(cut off after %zu tokens: -n)", r->num_tokens);
    else if (r->finish == DGL_FINISH_CONTEXT)
        console_note(console, "(the context of %d tokens is full: /reset begins anew%s)",
                     info->context,
                     info->context < info->context_max ? ", a larger -c gives more room" : "");
    if (r->num_tokens == 0) {
        talk_drop_last(&c->talk);
    } else {
        /* The id that ended the answer is the template's to write. A stop string is not part of the
         * text, so that the ids are not its ids. */
        size_t count = r->finish == DGL_FINISH_STOP  ? 0
                       : r->finish == DGL_FINISH_EOS ? r->num_tokens - 1
                                                     : r->num_tokens;
        struct dgl_str text = {r->text, r->text_len};
        if (!talk_add(&c->talk, "assistant", text, r->tokens, count)) {
            console_error("out of memory for an answer of %zu tokens", r->num_tokens);
            return EXIT_FAILED;
        }
    }
    if (c->interactive)
        interrupt_forget();
    return interrupted() ? EXIT_CANCELLED : EXIT_OK;
}

int chat_answer(struct chat *c)
{
    const struct dgl_model_info *info = dgl_model_get_info(c->engine.model);
    struct dgl_generate_result result = {0};
    int32_t *ids = NULL;
    size_t count;
    int code;
    enum dgl_status status = talk_render(&c->engine.console.log, &c->talk, c->tmpl,
                                         dgl_model_tokenizer(c->engine.model), &ids, &count);
    if (status == DGL_OK && count > (size_t)info->context) {
        console_error(
            "the conversation has %zu tokens, but the context only %d; /reset begins a new one%s "
            "(the model's limit is %d)",
            count, info->context,
            info->context < info->context_max ? ", and -c gives more room" : "", info->context_max);
        status = DGL_ERR_CONTEXT_FULL;
    }
    if (status == DGL_OK)
        status = generate(c, ids, count, true, &result);
    if (status == DGL_OK) {
        code = end_answer(c, &result);
    } else {
        /* An error that the next message may mend does not end a chat at a terminal. */
        bool mendable = status == DGL_ERR_INVALID_ARG || status == DGL_ERR_CONTEXT_FULL;
        talk_drop_last(&c->talk);
        code = c->interactive && mendable ? EXIT_OK : exit_code(status);
    }
    dgl_generate_result_finish(&result);
    dgl_free(ids);
    return code;
}

/* ---- for a file ------------------------------------------------------------------------------ */

/* The object of generate --json with the answer as a message. */
static bool print_json(const struct chat *c, const struct dgl_generate_result *r)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_object(&w);
    generation_report(&w, &c->engine, r);
    dgl_jw_key(&w, "message");
    dgl_jw_object(&w);
    report_text(&w, "role", "assistant");
    dgl_jw_key(&w, "content");
    dgl_jw_str(&w, (struct dgl_str){r->text, r->text_len});
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

static int end_file(struct chat *c, const struct dgl_generate_result *r)
{
    bool ok = !c->output_lost;
    if (ok && c->opt->json)
        ok = print_json(c, r);
    else if (ok && c->terminal && !c->at_newline)
        ok = out_write("\n", 1) && out_flush();
    if (!ok)
        return out_exit(false);
    generation_note(&c->engine, r, c->params.sampling.seed);
    return r->finish == DGL_FINISH_CANCELLED ? EXIT_CANCELLED : EXIT_OK;
}

int chat_answer_file(struct chat *c, const char *messages, size_t len)
{
    struct dgl_generate_result result = {0};
    int32_t *ids = NULL;
    size_t count;
    enum dgl_status status = dgl_render_ids(
        &c->engine.console.log, c->tmpl, dgl_model_tokenizer(c->engine.model),
        dgl_render_params(.messages = messages, .messages_len = len,
                          .messages_name = c->opt->messages, .add_generation_prompt = true),
        &ids, &count);
    if (status == DGL_OK)
        status = generate(c, ids, count, !c->opt->json, &result);
    int code = status == DGL_OK ? end_file(c, &result) : exit_code(status);
    dgl_generate_result_finish(&result);
    dgl_free(ids);
    return code;
}
