/* generate: prints the continuation of a prompt to standard output, token by token, and its figures
 * to standard error. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "tools/cli/commands.h"
#include "tools/cli/generation.h"
#include "tools/cli/input.h"
#include "tools/cli/profile.h"
#include "tools/cli/report.h"
#include "tools/cli/screen.h"
#include "tools/cli/session.h"
#include "tools/watch/watch.h"

struct generate {
    struct engine engine;
    struct dgl_generate_params params;
    struct dgl_generate_result result;
    struct dgl_buf prompt;
    struct id_list ids;
    struct generation_lists lists;
    struct screen screen;
    bool echo; /* the prompt is still to be printed */
    bool output_lost;
    struct watch *watch;
    struct session_note note; /* with --session */
    bool goes_on;             /* there is no prompt: the session's text is continued */
};

/* Prints the prompt as it was given, or the text of its ids. Called after the library has accepted
 * the prompt. */
static bool echo_prompt(struct generate *g)
{
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(g->engine.model);
    char *text = NULL;
    size_t len = 0;
    bool ok = true;
    g->echo = false;
    if (g->params.prompt)
        return screen_write(&g->screen, g->params.prompt, g->params.prompt_len);
    if (tok)
        ok = dgl_decode(&g->engine.console.log, tok, g->ids.ids, g->ids.count, false, &text,
                        &len) == DGL_OK &&
             screen_write(&g->screen, text, len);
    dgl_free(text);
    return ok;
}

static bool print_text(void *priv, const char *text, size_t len)
{
    struct generate *g = priv;
    bool ok = !g->echo || echo_prompt(g);
    g->output_lost = !ok || !screen_write(&g->screen, text, len);
    return !g->output_lost;
}

/* The library forgets a signal that arrives after the session was opened and before the call. So
 * this callback checks for one. */
static bool keep_going(void *priv, int32_t id)
{
    struct generate *g = priv;
    (void)id;
    watch_poll(g->watch);
    return !interrupted();
}

/* ---- prompt ---------------------------------------------------------------------------------- */

bool command_generate_check(const struct options *opt)
{
    int prompts = !!opt->prompt + !!opt->file + !!opt->ids;
    if (prompts > 1 || (prompts == 0 && !input_is_piped() && !opt->session))
        return console_refuse(
            "generate: give exactly one of -p TEXT (or TEXT alone), -f FILE and --ids, or "
            "pipe the prompt in");
    return watch_check(opt) && generation_check(opt) == DGL_OK;
}

static int read_prompt(struct generate *g, const struct options *opt)
{
    struct console console;
    const char *file = opt->file ? opt->file : "-";
    if (opt->ids)
        return ids_parse(opt->ids, &g->ids);
    g->goes_on = opt->session && !opt->prompt && !opt->file && !input_is_piped();
    if (g->goes_on)
        return EXIT_OK;
    if (!opt->prompt && !opt->file && !input_comes_soon()) { /* perhaps an inherited pipe */
        console_init(&console, opt);
        dgl_notice(&console.log, "waiting for the prompt from standard input");
    }
    if (opt->prompt)
        dgl_buf_puts(&g->prompt, opt->prompt);
    else if (!input_slurp(file, &g->prompt))
        return interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
    g->goes_on = opt->session && !opt->prompt && !opt->file && g->prompt.len == 0;
    if (!opt->prompt && !opt->file && g->prompt.len == 0 && !opt->session)
        return console_fail(
            "generate: standard input is empty: pipe the prompt in, or give -p TEXT, "
            "-f FILE or --ids");
    if (opt->escapes)
        g->prompt.len = input_unescape(g->prompt.p, g->prompt.len);
    if (g->prompt.failed)
        return console_fail("out of memory for the prompt");
    const char *name = opt->prompt              ? "generate: the prompt"
                       : strcmp(file, "-") == 0 ? "generate: standard input"
                                                : file;
    struct dgl_str text = {g->prompt.p ? g->prompt.p : "", g->prompt.len};
    return input_is_utf8(name, text) ? EXIT_OK : EXIT_FAILED;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Loads the session of the file, if it exists. Without a prompt, the pending tokens of the session
 * are the prompt, and the random draws continue. */
static enum dgl_status take_session(struct generate *g, const struct options *opt)
{
    const struct dgl_log *log = &g->engine.console.log;
    const struct session_note *note = &g->note;
    bool found = false;
    enum dgl_status status = session_read(&g->engine, opt->session, &g->note, &found);
    if (status != DGL_OK || !g->goes_on)
        return status;
    const size_t held = (size_t)dgl_session_len(g->engine.session);
    g->ids.count = held + note->num_pending;
    if (g->ids.count == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s %s: give a prompt (-p TEXT, -f FILE or --ids) to begin with",
                        opt->session, found ? "holds no tokens" : "is not there yet");
    g->ids.ids = dgl_new_array(int32_t, g->ids.count);
    if (!g->ids.ids)
        return dgl_fail_memory(log, "ids", g->ids.count * sizeof(int32_t));
    if (held)
        memcpy(g->ids.ids, dgl_session_ids(g->engine.session), held * sizeof(int32_t));
    if (note->num_pending)
        memcpy(g->ids.ids + held, note->pending, note->num_pending * sizeof(int32_t));
    g->params.sampling.draws = note->draws;
    if (opt->seed < 0)
        g->params.sampling.seed = note->seed;
    return DGL_OK;
}

/* Writes the session. The last token of an answer, and the rest of a prompt that was cut short, are
 * not evaluated yet: they are stored as pending. */
static enum dgl_status put_session(struct generate *g, const char *path)
{
    const struct dgl_generate_result *r = &g->result;
    const size_t held = (size_t)dgl_session_len(g->engine.session);
    const bool answered = r->num_tokens > 0;
    struct session_note note = {.command = "generate", .seed = g->params.sampling.seed};
    note.draws = g->params.sampling.draws + (uint32_t)r->num_tokens;
    note.pending = answered ? &r->tokens[r->num_tokens - 1] : r->prompt_ids + held;
    note.num_pending = answered ? 1 : r->num_prompt_ids - held;
    return session_write(&g->engine, path, &note);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void note_profile(const struct generate *g)
{
    struct dgl_buf table = {0};
    profile_table(&table, &g->result.profile, 1);
    for (char *line = table.failed ? NULL : table.p, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        console_note(&g->engine.console, "%s", line);
    }
    dgl_buf_finish(&table);
}

static int generate_run(struct generate *g, const struct options *opt)
{
    enum dgl_status status = engine_open(&g->engine, opt, NULL, true);
    if (status != DGL_OK)
        return exit_code(status);
    if (!opt->json && !dgl_model_tokenizer(g->engine.model))
        dgl_warn(&g->engine.console.log, "%s has no tokenizer: no text is printed, --json has ids",
                 dgl_model_get_info(g->engine.model)->path);
    if (!watch_create(&g->watch, &g->engine, opt))
        return EXIT_FAILED;
    status = generation_params(&g->engine, opt, &g->lists, &g->params);
    if (status == DGL_OK && opt->session)
        status = take_session(g, opt);
    g->params.priv = g;
    g->params.text_cb = opt->json ? NULL : print_text;
    g->params.token_cb = keep_going;
    if (opt->ids || g->goes_on) {
        g->params.ids = g->ids.ids;
        g->params.num_ids = g->ids.count;
    } else {
        g->params.prompt = g->prompt.p ? g->prompt.p : "";
        g->params.prompt_len = g->prompt.len;
    }
    g->params.profile = opt->profile || opt->trace;
    g->echo = opt->echo && !opt->json;
    if (status == DGL_OK)
        status = dgl_generate(g->engine.session, &g->params, &g->result);
    const bool lost = status == DGL_ERR_DEVICE_LOST && g->result.num_tokens > 0;
    if (status != DGL_OK && !lost)
        return exit_code(status);
    bool ok = !g->output_lost && (!g->echo || echo_prompt(g)) && screen_end(&g->screen);
    if (ok && opt->json) {
        struct dgl_buf out = {0};
        struct dgl_json_writer w = report_object(&out);
        generation_report(&w, &g->engine, &g->result);
        profile_json(&w, &g->result.profile, g->params.profile);
        report_end(&w);
        ok = out_buf(&out);
    } else if (ok) {
        ok = out_end_line();
    }
    enum dgl_status written = DGL_OK;
    if (opt->session && !lost)
        written = put_session(g, opt->session);
    if (lost && opt->session)
        console_note(&g->engine.console, "session: not written, %s is as it was", opt->session);
    if (lost)
        console_note(
            &g->engine.console,
            "the answer ends after %zu token%s: the device was lost (\"The device was lost\" "
            "in docs/troubleshooting.md)",
            g->result.num_tokens, g->result.num_tokens == 1 ? "" : "s");
    if (!ok)
        return out_exit(false);
    if (lost)
        return exit_code(status);
    generation_note(&g->engine, &g->result, g->params.sampling.seed);
    if (g->params.profile && !opt->json)
        note_profile(g);
    if (trace_commit(&g->engine.trace) != DGL_OK)
        return EXIT_FAILED;
    if (written != DGL_OK)
        return exit_code(written);
    return g->result.finish == DGL_FINISH_CANCELLED ? EXIT_CANCELLED : EXIT_OK;
}

int command_generate(const struct options *opt)
{
    struct generate g = {.note.command = "generate"};
    screen_init(&g.screen, false, opt->raw);
    int code = opt->session && !session_place_is_fit(opt->session) ? EXIT_FAILED : EXIT_OK;
    if (code == EXIT_OK)
        code = read_prompt(&g, opt);
    if (!generation_lists_init(&g.lists, opt) && code == EXIT_OK)
        code = EXIT_FAILED;
    if (code == EXIT_OK) {
        code = generate_run(&g, opt);
        watch_destroy(&g.watch);
        dgl_generate_result_finish(&g.result);
        engine_close(&g.engine);
    }
    dgl_buf_finish(&g.prompt);
    free(g.ids.ids);
    session_note_finish(&g.note);
    generation_lists_finish(&g.lists);
    screen_finish(&g.screen);
    return code;
}
