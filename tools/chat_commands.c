/* Commands of a chat: lines that begin with a slash. Their output goes to standard error, so that
 * standard output holds answers and nothing else. */
#include <stdio.h>
#include <string.h>

#include "tools/chat.h"

struct chat_verb {
    const char *name, *arg, *help; /* arg NULL: takes none */
    int (*run)(struct chat *c, const char *arg);
};

static int run_reset(struct chat *c, const char *arg)
{
    (void)arg;
    talk_reset(&c->talk);
    c->answers = 0;
    console_note(&c->engine.console, "a new conversation%s",
                 talk_system(&c->talk) ? ", with the system message" : "");
    return EXIT_OK;
}

static bool needs_file(const char *verb, const char *arg)
{
    if (!*arg)
        console_error("/%s needs the name of a file", verb);
    return *arg != '\0';
}

static int run_save(struct chat *c, const char *arg)
{
    if (needs_file("save", arg) && talk_save(&c->engine.console.log, &c->talk, arg) == DGL_OK)
        console_note(&c->engine.console, "%zu messages written to %s", c->talk.count, arg);
    return EXIT_OK;
}

static int run_load(struct chat *c, const char *arg)
{
    if (!needs_file("load", arg) ||
        talk_load(&c->engine.console.log, arg, dgl_model_tokenizer(c->engine.model), &c->talk) !=
            DGL_OK)
        return EXIT_OK;
    c->answers = 0;
    console_note(&c->engine.console, "%zu messages read from %s", c->talk.count, arg);
    return talk_is_open(&c->talk) ? chat_answer(c) : EXIT_OK;
}

static int run_system(struct chat *c, const char *arg)
{
    const struct chat_message *system = talk_system(&c->talk);
    if (!*arg) {
        console_say("system message: %s", system ? system->content : "none");
        return EXIT_OK;
    }
    if (!talk_set_system(&c->talk, dgl_str_of(arg))) {
        console_error("out of memory for the system message");
        return EXIT_FAILED;
    }
    console_note(&c->engine.console, "system message set");
    return EXIT_OK;
}

static int run_stats(struct chat *c, const char *arg)
{
    const struct chat_figures *f = &c->last;
    (void)arg;
    if (c->answers)
        console_say("last answer: %zu tokens, %.1f tok/s, %s | prompt: %zu tokens, %zu reused, "
                    "%.1f tok/s",
                    f->tokens, f->decode_tps, dgl_finish_str(f->finish), f->prompt, f->reused,
                    f->prefill_tps);
    else
        console_say("no answer yet in this conversation");
    /* The cache may still hold the beginning of an earlier conversation. */
    console_say("context: %d of %d tokens used | %zu messages, %zu answers",
                c->answers ? dgl_session_len(c->engine.session) : 0,
                dgl_model_get_info(c->engine.model)->context, c->talk.count, c->answers);
    return EXIT_OK;
}

static int run_model(struct chat *c, const char *arg)
{
    const struct dgl_model_info *m = dgl_model_get_info(c->engine.model);
    const struct dgl_device_info *d = dgl_device_get_info(c->engine.device);
    (void)arg;
    console_say("model: %s (%s, %s, %.3g million parameters) from %s", m->name, m->family,
                m->quantization, (double)m->parameters * 1e-6, m->path);
    console_say("context: %d tokens, the model's limit is %d | device: %s", m->context,
                m->context_max, d->renderer);
    console_say("template: %s", c->opt->template        ? c->opt->template
                                : c->opt->template_name ? c->opt->template_name
                                                        : "the model's");
    return EXIT_OK;
}

static int run_quit(struct chat *c, const char *arg)
{
    (void)arg;
    c->quit = true;
    return EXIT_OK;
}

static int run_help(struct chat *c, const char *arg);

static const struct chat_verb verbs[] = {
    {"help", NULL, "this list", run_help},
    {"reset", NULL, "begin a new conversation; the system message stays", run_reset},
    {"save", "FILE", "write the conversation to a file, as JSON", run_save},
    {"load", "FILE", "go on with the conversation of a file", run_load},
    {"system", "TEXT", "set the system message; without TEXT, show it", run_system},
    {"stats", NULL, "speed of the last answer, context used, prefix reused", run_stats},
    {"model", NULL, "what is running, and where", run_model},
    {"quit", NULL, "end the chat", run_quit},
    {0},
};

static int run_help(struct chat *c, const char *arg)
{
    (void)c;
    (void)arg;
    for (const struct chat_verb *v = verbs; v->name; v++) {
        char left[32];
        snprintf(left, sizeof(left), "/%s%s%s", v->name, v->arg ? " " : "", v->arg ? v->arg : "");
        console_say("  %-14s %s", left, v->help);
    }
    console_say(
        "A line that ends with \\ goes on in the next one; \"\"\" begins a message of "
        "several lines and ends it; what is pasted is one message, whatever lines it has. // "
        "begins a message with a slash.");
    console_say("Ctrl-C stops an answer or drops what was typed; Ctrl-D ends the chat.");
    return EXIT_OK;
}

int chat_command(struct chat *c, struct dgl_str line)
{
    struct dgl_str name = {line.p + 1, 0};
    while (1 + name.len < line.len && !strchr(" \t\n", name.p[name.len]))
        name.len++;
    const char *arg = name.p + name.len;
    arg += strspn(arg, " \t\n");
    for (const struct chat_verb *v = verbs; v->name; v++) {
        if (!dgl_str_eq(name, v->name))
            continue;
        if (v->arg || !*arg)
            return v->run(c, arg);
        console_error("/%s takes nothing, got \"%s\"", v->name, arg);
        return EXIT_OK;
    }
    console_error("there is no /%.*s; /help lists the commands, // begins a message with a slash",
                  (int)name.len, name.p);
    return EXIT_OK;
}
