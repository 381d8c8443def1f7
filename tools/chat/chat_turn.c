/* One turn of a chat: the answer is written to standard output and added to the conversation, and
 * notes about it are printed. */
#include <string.h>

#include "tools/chat/chat.h"
#include "tools/cli/report.h"
#include "tools/cli/turn.h"
#include "tools/cli/typing.h"
#include "tools/cli/variables.h"

/* ---- one generation -------------------------------------------------------------------------- */

static bool print_text(void *priv, const char *text, size_t len)
{
    struct chat *c = priv;
    c->output_lost = !screen_write(&c->screen, text, len);
    return !c->output_lost;
}

/* A signal between two calls of the library would be forgotten by it. */
static bool keep_going(void *priv, int32_t id)
{
    const struct chat *c = priv;
    (void)id;
    watch_poll(c->watch);
    return !interrupted();
}

/* `print`: the answer is printed. */
static void prepare(struct chat *c, bool print, struct dgl_generate_params *out)
{
    *out = c->params;
    out->priv = c;
    out->text_cb = print ? print_text : NULL;
    out->token_cb = keep_going;
    c->screen.at_newline = true;
}

enum dgl_status chat_params(struct chat *c)
{
    if (!c->set.tokens_given)
        c->set.tokens = -1;
    return generation_params(&c->engine, &c->set, &c->lists, &c->params);
}

/* Restores the session after the device was lost. The conversation is evaluated again. */
static enum dgl_status open_again(struct chat *c)
{
    const struct console *console = &c->engine.console;
    if (c->output_lost || !screen_end(&c->screen) ||
        (!c->screen.at_newline && !(out_write("\n", 1) && out_flush())))
        return DGL_ERR_IO;
    console_note(console, "(the device was lost: it is opened again, and the answer begins anew)");
    c->screen.at_newline = true;
    return dgl_model_rebuild(c->engine.model,
                             dgl_rebuild_params(CONSOLE_PROGRESS(&c->engine.console)));
}

/* ---- in a conversation ----------------------------------------------------------------------- */

/* Prints why the answer ended, and how many messages left the model's context. */
static int end_answer(struct chat *c, const struct dgl_generate_result *r, size_t hidden_before)
{
    const struct dgl_model_info *info = dgl_model_get_info(c->engine.model);
    size_t hidden = dgl_chat_num_hidden(c->talk);
    bool ok = !c->output_lost && screen_end(&c->screen);
    if (!ok || (!c->screen.at_newline && !(out_write("\n", 1) && out_flush())))
        return out_exit(false);
    c->last = (struct chat_figures){.prompt = r->num_prompt_ids,
                                    .reused = r->num_reused,
                                    .tokens = r->num_tokens,
                                    .prefill_tps = generation_prefill_tps(r),
                                    .decode_tps = generation_decode_tps(r),
                                    .finish = r->finish};
    c->answered = true;
    const struct console *console = &c->engine.console;
    if (r->finish == DGL_FINISH_CANCELLED && c->interactive)
        console_note(console, r->num_tokens
                                  ? "(stopped)"
                                  : "(stopped before it began: the message is taken back)");
    else if (r->finish == DGL_FINISH_LENGTH)
        console_note(console, "(cut off after %zu tokens: -n)", r->num_tokens);
    else if (r->finish == DGL_FINISH_CONTEXT)
        console_note(
            console,
            "(the context of %d tokens is full: /reset begins anew%s, --context-shift lets "
            "the oldest go)",
            info->context,
            info->context < info->context_max ? ", a larger -c gives more room" : "");
    if (hidden != hidden_before)
        console_note(console,
                     "(the context is full: the model no longer sees the oldest %zu messages)",
                     hidden);
    if (r->num_shifted)
        console_note(
            console,
            "(the context is full: the model no longer sees %zu tokens before the answer's "
            "last ones)",
            r->num_shifted);
    if (r->num_tokens == 0)
        dgl_chat_trim(c->talk, dgl_chat_num_messages(c->talk) - 1);
    if (c->interactive)
        interrupt_forget();
    return interrupted() ? EXIT_CANCELLED : EXIT_OK;
}

int turn_answer(struct chat *c)
{
    struct dgl_generate_params params;
    struct dgl_generate_result result = {.size = sizeof(result)};
    size_t hidden = dgl_chat_num_hidden(c->talk);
    int code;
    prepare(c, true, &params);
    if (c->interactive)
        typing_hold();
    enum dgl_status status = dgl_chat_answer(c->talk, &params, &result);
    if (status == DGL_ERR_DEVICE_LOST) { /* once: a second time it is this work that does it */
        dgl_generate_result_finish(&result);
        status = open_again(c);
        if (status == DGL_OK)
            status = dgl_chat_answer(c->talk, &params, &result);
    }
    if (c->interactive)
        typing_release();
    if (status == DGL_OK) {
        c->held = true;
        code = end_answer(c, &result, hidden);
    } else {
        /* An error that the next message may mend does not end a chat at a terminal. */
        bool mendable = status == DGL_ERR_INVALID_ARG || status == DGL_ERR_CONTEXT_FULL;
        dgl_chat_trim(c->talk, dgl_chat_num_messages(c->talk) - 1);
        code = c->interactive && mendable ? EXIT_OK : exit_code(status);
        if (c->interactive && status == DGL_ERR_CONTEXT_FULL)
            console_note(&c->engine.console,
                         "(the message is taken back; /undo makes room, /reset begins anew)");
    }
    dgl_generate_result_finish(&result);
    return code;
}

/* ---- for a file ------------------------------------------------------------------------------ */

static int end_file(struct chat *c, const struct dgl_generate_result *r)
{
    bool ok = !c->output_lost && screen_end(&c->screen);
    if (ok && c->opt->json) { /* the object of generate --json with the answer as a message */
        struct dgl_buf out = {0};
        struct dgl_json_writer w = report_object(&out);
        generation_report(&w, &c->engine, r);
        dgl_jw_field_object(&w, "message");
        dgl_jw_field_cstr(&w, "role", "assistant");
        dgl_jw_field_str(&w, "content", (struct dgl_str){r->text, r->text_len});
        dgl_jw_end_object(&w);
        report_end(&w);
        ok = out_buf(&out);
    } else if (ok && c->screen.terminal && !c->screen.at_newline) {
        ok = out_write("\n", 1) && out_flush();
    }
    if (!ok)
        return out_exit(false);
    generation_note(&c->engine, r, c->params.sampling.seed);
    return r->finish == DGL_FINISH_CANCELLED ? EXIT_CANCELLED : EXIT_OK;
}

int turn_answer_file(struct chat *c, struct dgl_str file)
{
    const struct dgl_log *log = &c->engine.console.log;
    struct dgl_generate_params params;
    struct dgl_buf messages = {0};
    struct dgl_generate_result result = {0};
    int32_t *ids = NULL;
    size_t count;
    struct dgl_json_doc *doc = NULL;
    struct turn turn = {.new_answer = true};
    if (dgl_json_parse(NULL, "messages", file.p, file.len, &doc) == DGL_OK)
        turn = turn_read(dgl_json_root(doc));
    dgl_json_destroy(&doc);
    enum dgl_status status = variables_add(log, c->opt, file, &messages);
    if (status == DGL_OK)
        status = dgl_render_ids(
            log, c->tmpl, dgl_model_tokenizer(c->engine.model),
            dgl_render_params(.messages = messages.p, .messages_len = messages.len,
                              .messages_name = c->opt->messages,
                              .add_generation_prompt = turn.new_answer,
                              .continue_final_message = turn.continues, .map_developer = true),
            &ids, &count);
    prepare(c, !c->opt->json, &params);
    params.ids = ids;
    params.num_ids = count;
    params.context_shift = c->opt->context_shift;
    if (status == DGL_OK)
        status = dgl_generate(c->engine.session, &params, &result);
    if (status == DGL_ERR_DEVICE_LOST) {
        dgl_generate_result_finish(&result);
        status = open_again(c);
        if (status == DGL_OK)
            status = dgl_generate(c->engine.session, &params, &result);
    }
    int code = status == DGL_OK ? end_file(c, &result) : exit_code(status);
    dgl_generate_result_finish(&result);
    dgl_buf_finish(&messages);
    dgl_free(ids);
    return code;
}
