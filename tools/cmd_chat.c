/* chat: a conversation at a terminal or from standard input, or one answer to a file of
 * messages. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tools/chat.h"
#include "tools/commands.h"
#include "tools/input.h"

/* ---- opening --------------------------------------------------------------------------------- */

bool command_chat_check(const struct options *opt)
{
    if (opt->template && opt->template_name)
        console_error("chat: --template and --template-name both choose the template, give one");
    else if (opt->messages && opt->system)
        console_error("chat: --system does not go with --messages; put the message into the file");
    else if (opt->json && !opt->messages)
        console_error("chat: --json prints one answer, so it needs --messages FILE.json");
    else
        return generation_check(opt) == DGL_OK;
    return false;
}

/* The template first: it opens no device and fails at once. */
static enum dgl_status open_all(struct chat *c, const char *model)
{
    struct console console;
    console_init(&console, c->opt);
    enum dgl_status status = dgl_template_load(
        &console.log,
        dgl_template_params(.path = model, .file = c->opt->template, .name = c->opt->template_name),
        &c->tmpl);
    if (status == DGL_OK)
        status = engine_open(&c->engine, c->opt, model, true);
    if (status == DGL_OK && !dgl_model_tokenizer(c->engine.model))
        status = dgl_fail(&console.log, DGL_ERR_INVALID_ARG,
                          "%s has no tokenizer: there is nothing to chat with", model);
    if (status == DGL_OK)
        status = generation_params(&c->engine, c->opt, &c->stop, &c->params);
    if (!c->opt->tokens_given)
        c->params.max_tokens = -1;
    return status;
}

/* ---- talking --------------------------------------------------------------------------------- */

static bool is_blank(struct dgl_str text)
{
    return dgl_str_trim(text).len == 0 && memchr(text.p ? text.p : "", '\0', text.len) == NULL;
}

static int take_message(struct chat *c, struct dgl_str text)
{
    if (is_blank(text))
        return EXIT_OK;
    if (!input_is_utf8("chat: the message", text))
        return c->interactive ? EXIT_OK : EXIT_FAILED;
    bool slash = text.p[0] == '/', twice = slash && text.len > 1 && text.p[1] == '/';
    if (slash && !twice)
        return chat_command(c, text);
    text = (struct dgl_str){text.p + twice, text.len - twice};
    if (talk_add(&c->talk, "user", text, NULL, 0))
        return chat_answer(c);
    console_error("out of memory for a message of %zu bytes", text.len);
    return EXIT_FAILED;
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
    if (system && !input_is_utf8("chat: the text of --system", dgl_str_of(system)))
        return EXIT_FAILED;
    if (system && !talk_set_system(&c->talk, dgl_str_of(system))) {
        console_error("out of memory for --system");
        return EXIT_FAILED;
    }
    c->interactive = isatty(STDIN_FILENO);
    chat_input_init(&c->input);
    int code = talk(c);
    chat_input_finish(&c->input);
    return code;
}

int command_chat(const struct options *opt)
{
    struct chat c = {.opt = opt, .terminal = isatty(STDOUT_FILENO)};
    struct dgl_buf messages = {0};
    char bundled[MODEL_PATH_MAX];
    int code = EXIT_FAILED;
    const char *model = model_path(opt, bundled);
    if (!model || !stop_strings_init(&c.stop, opt))
        goto done;
    if (opt->messages && !input_slurp(opt->messages, &messages)) {
        code = interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
        goto done;
    }
    dgl_buf_puts(&messages, "");
    enum dgl_status status = open_all(&c, model);
    if (status != DGL_OK)
        code = exit_code(status);
    else if (opt->messages)
        code = chat_answer_file(&c, messages.p, messages.len);
    else
        code = run_talk(&c);
done:
    talk_finish(&c.talk);
    engine_close(&c.engine);
    dgl_template_destroy(&c.tmpl);
    stop_strings_finish(&c.stop);
    dgl_buf_finish(&messages);
    return code;
}
