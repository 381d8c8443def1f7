/* Commands of a chat: lines that begin with a slash. Their output is written to standard error, so
 * that standard output contains only answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/printable.h"
#include "tools/chat/chat.h"
#include "tools/cli/commands.h"
#include "tools/cli/options_table.h"

#define MAX_FILE ((size_t)256 << 20)

struct chat_verb {
    const char *name, *arg, *help; /* arg NULL: no argument; help NULL: not listed */
    int (*run)(struct chat *c, const char *arg);
};

/* ---- the conversation ------------------------------------------------------------------------ */

static int run_reset(struct chat *c, const char *arg)
{
    (void)arg;
    dgl_chat_reset(c->talk);
    c->answered = c->held = false;
    console_note(&c->engine.console, "a new conversation%s",
                 dgl_chat_num_messages(c->talk) ? ", with the system message" : "");
    return EXIT_OK;
}

/* With --session, a verb without a name uses the session's file and sets *session. */
static bool needs_file(const struct chat *c, const char *verb, const char *arg, bool *session)
{
    *session = !*arg && c->opt->session;
    if (!*arg && !*session)
        console_error("/%s needs the name of a file", verb);
    return *arg || *session;
}

static int run_save(struct chat *c, const char *arg)
{
    const struct dgl_log *log = &c->engine.console.log;
    char *json = NULL;
    size_t len;
    bool session;
    if (!needs_file(c, "save", arg, &session))
        return EXIT_OK;
    if (session) {
        chat_put_session(c);
        return EXIT_OK;
    }
    if (dgl_chat_save(c->talk, &json, &len) != DGL_OK)
        return EXIT_OK;
    if (dgl_atomic_store(log, arg, json, len) == DGL_OK)
        console_note(&c->engine.console, "%zu message%s written to %s",
                     dgl_chat_num_messages(c->talk), dgl_chat_num_messages(c->talk) == 1 ? "" : "s",
                     arg);
    dgl_free(json);
    return EXIT_OK;
}

static int run_load(struct chat *c, const char *arg)
{
    char *json = NULL;
    size_t len;
    bool session;
    if (!needs_file(c, "load", arg, &session))
        return EXIT_OK;
    if (session)
        return chat_take_session(c) == DGL_OK && dgl_chat_is_open(c->talk) ? turn_answer(c)
                                                                           : EXIT_OK;
    if (dgl_file_slurp(&c->engine.console.log, arg, MAX_FILE, &json, &len) != DGL_OK)
        return EXIT_OK;
    enum dgl_status status = chat_load_messages(c, arg, (struct dgl_str){json, len});
    free(json);
    if (status != DGL_OK)
        return EXIT_OK;
    c->answered = c->held = false;
    console_note(&c->engine.console, "%zu message%s read from %s", dgl_chat_num_messages(c->talk),
                 dgl_chat_num_messages(c->talk) == 1 ? "" : "s", arg);
    return dgl_chat_is_open(c->talk) ? turn_answer(c) : EXIT_OK;
}

static int run_system(struct chat *c, const char *arg)
{
    struct dgl_message first = {.role = ""};
    if (dgl_chat_num_messages(c->talk))
        dgl_chat_message(c->talk, 0, &first);
    if (!*arg) {
        console_say("system message: %s",
                    strcmp(first.role, "system") == 0 ? first.content : "none");
        return EXIT_OK;
    }
    if (dgl_chat_set_system(c->talk, arg, strlen(arg)) != DGL_OK)
        return EXIT_FAILED;
    console_note(&c->engine.console, "system message set");
    return EXIT_OK;
}

static int run_undo(struct chat *c, const char *arg)
{
    (void)arg;
    size_t taken = dgl_chat_undo(c->talk), left = dgl_chat_num_messages(c->talk);
    if (taken)
        console_note(&c->engine.console, "%zu message%s taken back, %zu left", taken,
                     taken == 1 ? "" : "s", left);
    else
        console_say("there is nothing to take back");
    return EXIT_OK;
}

/* Answers the last message again. The old seed would give the old answer. */
static int run_retry(struct chat *c, const char *arg)
{
    (void)arg;
    if (!dgl_chat_retry(c->talk)) {
        console_say("there is no message to answer");
        return EXIT_OK;
    }
    c->params.sampling.seed++;
    if (c->params.sampling.temperature == 0)
        console_note(&c->engine.console,
                     "(greedy: the answer will be the same; /set temp 0.8 draws)");
    return turn_answer(c);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Options that /set accepts, apart from n-predict. */
static const char settable[] = "temp top-k top-p min-p repeat-penalty presence-penalty "
                               "frequency-penalty repeat-last-n dry-multiplier dry-base "
                               "dry-allowed-length dry-penalty-last-n seed n-predict";

static void say_setting(const struct chat *c, const struct option *o)
{
    const void *field = (const char *)&c->set + o->offset;
    struct dgl_buf value = {0};
    if (o->type == TYPE_F64)
        dgl_buf_f64(&value, *(const double *)field);
    else
        dgl_buf_printf(&value, "%lld",
                       o->type == TYPE_I64 ? (long long)*(const int64_t *)field
                                           : (long long)*(const int32_t *)field);
    console_say("  %-20s %s", o->name, value.p ? value.p : "");
    dgl_buf_finish(&value);
}

static int run_set(struct chat *c, const char *arg)
{
    const struct command *command = command_find("chat");
    struct dgl_str name = {arg, strcspn(arg, " \t\n=")};
    const char *value = arg + name.len + strspn(arg + name.len, " \t\n=");
    const struct option *o = option_named(command, name);
    struct options before = c->set;
    uint64_t seed = c->params.sampling.seed;
    char origin[80];
    if (!*arg) {
        struct dgl_str rest = dgl_str_of(settable);
        while (dgl_str_split(&rest, ' ', &name))
            say_setting(c, option_named(command, name));
        return EXIT_OK;
    }
    if (!o || !option_has_word(dgl_str_of(settable), ' ', name)) {
        console_error("/set has no option %s; /set alone lists the options",
                      DGL_PRINTABLE_STR(name));
        return EXIT_OK;
    }
    if (!*value) {
        say_setting(c, o);
        return EXIT_OK;
    }
    snprintf(origin, sizeof(origin), "/set %s", o->name);
    if (option_store(o, origin, value, &c->set) && chat_params(c) == DGL_OK) {
        /* Another value is no reason for another seed. */
        if (!dgl_str_eq(name, "seed"))
            c->params.sampling.seed = seed;
        say_setting(c, o);
        return EXIT_OK;
    }
    c->set = before;
    return EXIT_OK;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Returns ", 12.3 tok/s", or "" if there is no measurement. */
static const char *rate(char out[32], double tps)
{
    out[0] = '\0';
    if (tps > 0)
        snprintf(out, 32, ", %.1f tok/s", tps);
    return out;
}

static int run_stats(struct chat *c, const char *arg)
{
    const struct chat_figures *f = &c->last;
    const size_t messages = dgl_chat_num_messages(c->talk);
    size_t answers = 0;
    char decode[32], prefill[32];
    (void)arg;
    for (size_t i = 0; i < messages; i++) {
        struct dgl_message m = {.size = sizeof(m)};
        dgl_chat_message(c->talk, i, &m);
        answers += strcmp(m.role, "assistant") == 0;
    }
    if (c->answered)
        console_say("last answer: %zu token%s%s, %s | prompt: %zu token%s, %zu reused%s", f->tokens,
                    f->tokens == 1 ? "" : "s", rate(decode, f->decode_tps),
                    dgl_finish_str(f->finish), f->prompt, f->prompt == 1 ? "" : "s", f->reused,
                    rate(prefill, f->prefill_tps));
    else
        console_say("no answer yet in this conversation%s", answers ? " since it was read" : "");
    /* The cache may still hold the beginning of an earlier conversation. */
    console_say("context: %d of %d tokens used | %zu message%s, %zu answer%s",
                c->held ? dgl_session_len(c->engine.session) : 0,
                dgl_model_get_info(c->engine.model)->context, messages, messages == 1 ? "" : "s",
                answers, answers == 1 ? "" : "s");
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
    {"save", "FILE",
     "write the conversation to a file, as JSON; without FILE, to that of --session", run_save},
    {"load", "FILE", "continue the conversation of a file; without FILE, of that of --session",
     run_load},
    {"system", "TEXT", "set the system message; without TEXT, show it", run_system},
    {"undo", NULL, "take back the last message and its answer", run_undo},
    {"retry", NULL, "another answer to the last message, with the next seed", run_retry},
    {"set", "NAME VALUE", "set an option of sampling; without VALUE or NAME, show it or all",
     run_set},
    {"stats", NULL, "speed of the last answer, context used, prefix reused", run_stats},
    {"model", NULL, "the model, its context, device and template", run_model},
    {"quit", NULL, "end the chat; also /exit and /bye", run_quit},
    {"exit", NULL, NULL, run_quit},
    {"bye", NULL, NULL, run_quit},
    {0},
};

static int run_help(struct chat *c, const char *arg)
{
    (void)c;
    (void)arg;
    for (const struct chat_verb *v = verbs; v->name; v++) {
        char left[32];
        if (!v->help)
            continue;
        snprintf(left, sizeof(left), "/%s%s%s", v->name, v->arg ? " " : "", v->arg ? v->arg : "");
        console_say("  %-16s %s", left, v->help);
    }
    console_say(
        "A line that ends with \\ continues in the next one; \"\"\" begins and ends a message of "
        "several lines. Pasted text is one message, even with several lines. // begins a message "
        "with a slash.");
    console_say("Text that is typed during an answer is not shown and begins the next message.");
    console_say("Ctrl-C stops an answer or drops the typed line; Ctrl-D ends the chat.");
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
