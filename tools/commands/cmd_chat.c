/* chat: a conversation at a terminal or from standard input, or one answer to a file of
 * messages. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/base/status.h"
#include "tools/chat/chat.h"
#include "tools/cli/commands.h"
#include "tools/cli/input.h"
#include "tools/cli/session.h"
#include "tools/cli/variables.h"
#include "tools/watch/watch.h"

/* ---- opening --------------------------------------------------------------------------------- */

bool command_chat_check(const struct options *opt)
{
    if (opt->template && opt->template_name)
        return console_refuse(
            "chat: --template and --template-name both choose the template, give one");
    if (opt->messages && opt->system)
        return console_refuse(
            "chat: --system does not go with --messages; put the message into the file");
    if (opt->messages && opt->session)
        return console_refuse(
            "chat: --session does not go with --messages, whose file is the conversation");
    if (opt->json && !opt->messages)
        return console_refuse("chat: --json prints one answer, so it needs --messages FILE.json");
    return variables_check(opt, "chat") && watch_check(opt) && generation_check(opt) == DGL_OK;
}

/* Renders a message, so that the form of answers is known: the template may begin an answer with
 * reasoning. A template that refuses the message has no such end. */
static enum dgl_status find_prompt_end(struct chat *c)
{
    size_t len;
    const enum dgl_status status =
        dgl_render(NULL, c->tmpl,
                   dgl_render_params(.messages = "[{\"role\": \"user\", \"content\": \"Hello\"}]",
                                     .add_generation_prompt = true),
                   &c->prompt_end, &len);
    c->engine.form_tmpl = c->tmpl;
    c->engine.form_prompt_end = c->prompt_end;
    return status == DGL_ERR_NO_MEMORY ? status : DGL_OK;
}

/* Opens the template before the engine, because it fails early and opens no device. */
static enum dgl_status open_all(struct chat *c, const char *model)
{
    struct console console;
    console_init(&console, c->opt);
    enum dgl_status status = DGL_OK;
    TRY(dgl_template_load(
        &console.log,
        dgl_template_params(.path = model, .override_kv = c->opt->override_kv.item,
                            .file = c->opt->template, .name = c->opt->template_name),
        &c->tmpl));
    TRY(engine_open(&c->engine, c->opt, model, true));
    TRY(dgl_chat_create(dgl_chat_params(.session = c->engine.session, .tmpl = c->tmpl,
                                        .context_shift = c->opt->context_shift),
                        &c->talk));
    TRY(find_prompt_end(c));
    if (c->opt->template_kwargs)
        TRY(chat_load_messages(c, "messages", DGL_STR("[]")));
    TRY(chat_params(c));
done:
    return status;
}

/* ---- talking --------------------------------------------------------------------------------- */

static int take_message(struct chat *c, struct dgl_str text)
{
    if (dgl_str_trim(text).len == 0 && !memchr(text.p ? text.p : "", '\0', text.len))
        return EXIT_OK;
    if (!input_is_utf8("chat: the message", text))
        return c->interactive ? EXIT_OK : EXIT_FAILED;
    bool slash = text.p[0] == '/', twice = slash && text.len > 1 && text.p[1] == '/';
    if (slash && !twice)
        return chat_command(c, text);
    text = (struct dgl_str){text.p + twice, text.len - twice};
    enum dgl_status status = dgl_chat_add(c->talk, "user", text.p, text.len);
    return status == DGL_OK ? turn_answer(c) : exit_code(status);
}

static int talk(struct chat *c)
{
    struct dgl_buf message = {0};
    int code = EXIT_OK;
    if (c->interactive)
        console_note(&c->engine.console, "%s: /help lists the commands, Ctrl-D ends the chat",
                     dgl_model_get_info(c->engine.model)->name);
    while (code == EXIT_OK && !c->quit) {
        enum line_status status = chat_input_read(&c->input, &message);
        if (status == LINE_END || (interrupted() && interrupted() != SIGINT))
            break;
        if (status == LINE_DROPPED)
            interrupt_forget();
        else
            code = take_message(c, (struct dgl_str){message.p, message.len});
    }
    if (code == EXIT_OK && (message.failed || c->input.line.failed))
        code = EXIT_FAILED;
    dgl_buf_finish(&message);
    return code == EXIT_OK && interrupted() ? EXIT_CANCELLED : code;
}

static int run_talk(struct chat *c)
{
    const char *system = c->opt->system;
    const bool kept = c->opt->session != NULL;
    enum dgl_status status = kept ? chat_take_session(c) : DGL_OK;
    if (status != DGL_OK)
        return exit_code(status);
    if (system && !input_is_utf8("chat: the text of --system", dgl_str_of(system)))
        return EXIT_FAILED;
    if (system && dgl_chat_set_system(c->talk, system, strlen(system)) != DGL_OK)
        return EXIT_FAILED;
    c->interactive = isatty(STDIN_FILENO);
    chat_input_init(&c->input);
    console_set_idle(watch_idle, c->watch);
    int code = kept && dgl_chat_is_open(c->talk) ? turn_answer(c) : EXIT_OK;
    if (code == EXIT_OK)
        code = talk(c);
    console_set_idle(NULL, NULL);
    chat_input_finish(&c->input);
    /* The session is written even if the chat failed. */
    if (kept && dgl_device_is_lost(c->engine.device))
        console_note(&c->engine.console, "session: not written, %s is as it was", c->opt->session);
    else if (kept)
        status = chat_put_session(c);
    return status != DGL_OK && code == EXIT_OK ? exit_code(status) : code;
}

int command_chat(const struct options *opt)
{
    struct chat c = {.opt = opt, .set = *opt};
    struct dgl_buf messages = {0};
    char bundled[MODEL_PATH_MAX];
    int code = EXIT_FAILED;
    screen_init(&c.screen, true, opt->raw);
    const char *model = model_path(opt, bundled);
    if (!model || !generation_lists_init(&c.lists, opt))
        goto done;
    if (opt->session && !opt->messages && !session_place_is_fit(opt->session))
        goto done;
    if (opt->messages && !input_slurp(opt->messages, &messages)) {
        code = interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
        goto done;
    }
    enum dgl_status status = open_all(&c, model);
    if (status != DGL_OK)
        code = exit_code(status);
    else if (!watch_create(&c.watch, &c.engine, opt))
        code = EXIT_FAILED;
    else if (opt->messages)
        code = turn_answer_file(&c, (struct dgl_str){messages.p, messages.len});
    else
        code = run_talk(&c);
done:
    watch_destroy(&c.watch);
    dgl_chat_destroy(&c.talk);
    engine_close(&c.engine);
    dgl_free(c.prompt_end);
    dgl_template_destroy(&c.tmpl);
    generation_lists_finish(&c.lists);
    screen_finish(&c.screen);
    dgl_buf_finish(&messages);
    return code;
}
