/* The man page dopplergl(1) in roff, from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "core/dopplergl.h"
#include "tools/cli/commands.h"
#include "tools/cli/options_table.h"

/* Text of the tables, which is Markdown: code in bold, a link as its words. A line of roff must not
 * begin with a dot or an apostrophe, and a dash that belongs to an option is not a hyphen. */
static void put_part(const char *text, const char *stop)
{
    bool begin = true, code = false;
    for (; text != stop && *text; begin = *text == '\n', text++) {
        const char *end = *text == '[' ? strstr(text, "](") : NULL;
        const char *close = end ? strchr(end, ')') : NULL;
        if (close && !code) {
            printf("%.*s", (int)(end - text - 1), text + 1);
            text = close;
            continue;
        }
        if (begin && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '`') {
            code = !code;
            fputs(code ? "\\fB" : "\\fR", stdout);
        } else if (*text == '\\') {
            fputs("\\e", stdout);
        } else if (*text == '-') {
            fputs("\\-", stdout);
        } else if (*text == '\n' && text[1] == '\n') {
            fputs("\n.PP", stdout);
        } else {
            putchar(*text);
        }
    }
}

static void put_text(const char *text)
{
    put_part(text, NULL);
}

static void put_option(const struct option *o)
{
    printf(".TP\n");
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    printf("\\fB\\-\\-");
    put_text(o->name);
    printf("\\fR");
    if (o->arg) {
        printf(" \\fI");
        put_text(o->arg);
        printf("\\fR");
    }
    printf("\n");
    put_text(o->help);
    printf("\n");
}

static void put_command(const struct command *c)
{
    const struct option *o;
    printf(".SS ");
    put_text(c->name);
    printf("\n\\fBdopplergl ");
    put_text(c->name);
    printf("\\fR ");
    put_text(c->usage);
    printf("\n.PP\n");
    put_text(c->summary);
    printf(".\n");
    const char *json = command_json_details(c);
    if (c->details && c->details != json) {
        put_part(c->details, json ? json - 2 : NULL); /* without the blank line before it */
        printf("\n");
    }
    for (size_t i = 0; (o = option_at(i)); i++)
        if (!option_is_common(o) && !option_is_kernel(o) && option_is_for(o, c))
            put_option(o);
}

void help_man(void)
{
    static const struct {
        const char *heading, *text;
    } sections[] = {
        {"ENVIRONMENT",
         "`DOPPLERGL_MODEL` and `DOPPLERGL_DEVICE` replace `--model` and `--device` if these are "
         "not given. `DOPPLERGL_HOST`, `DOPPLERGL_PORT`, `DOPPLERGL_API_KEY` and "
         "`DOPPLERGL_API_KEY_FILE` replace those options of serve. `DOPPLERGL_KERNEL_DIR` is one "
         "more `--kernel-dir`, with lower priority than those of the command line. "
         "`DOPPLERGL_DATA` names the folder that contains `models/` with the bundled model. "
         "`HF_HUB_CACHE`, else `hub` in `HF_HOME`, is the Hub cache, in which `org/name` is "
         "searched. `NO_COLOR` turns colours off. `XDG_CONFIG_HOME`, `XDG_CACHE_HOME` and "
         "`XDG_STATE_HOME` move the files below."},
        {"FILES",
         "`~/.config/dopplergl/config.json` contains settings: a JSON object whose keys are long "
         "options without dashes. A flag prevails over the environment, and the environment over "
         "the file.\n\n"
         "`~/.config/dopplergl/kernels.json` contains kernel hints in the format of "
         "`--kernel-config`.\n\n"
         "`~/.cache/dopplergl` contains compiled kernels.\n\n"
         "`~/.local/state/dopplergl/chat_history` contains the typed messages of chats."},
        {"EXIT STATUS",
         "0: done. 1: failed, or something does not fit the model, file or device. 2: the command "
         "line is wrong; no file or device was opened. 130: cancelled by SIGINT, SIGTERM or "
         "SIGHUP. "
         "An error is one line on standard error that starts `dopplergl: error:`."},
    };
    const struct option *o;
    printf(".\\\" Made by `dopplergl help --man`.\n"
           ".TH DOPPLERGL 1 \"\" \"dopplergl %s\" \"User Commands\"\n"
           ".SH NAME\ndopplergl \\- run language models on OpenGL ES 3.1 compute\n"
           ".SH SYNOPSIS\n\\fBdopplergl\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n"
           ".SH DESCRIPTION\n",
           dgl_version());
    put_text("Runs language models on the compute shaders of OpenGL ES 3.1, on render nodes and "
             "without a display. `dopplergl COMMAND --help` explains one command.");
    printf("\n.SH COMMANDS\n");
    for (const struct command *c = commands; c->name; c++)
        put_command(c);
    printf(".SH OPTIONS OF EVERY COMMAND\n");
    for (size_t i = 0; (o = option_at(i)); i++)
        if (option_is_common(o))
            put_option(o);
    printf(".SH OPTIONS OF COMMANDS THAT RUN A MODEL\n");
    for (size_t i = 0; (o = option_at(i)); i++)
        if (option_is_kernel(o))
            put_option(o);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        printf(".SH \"%s\"\n", sections[i].heading);
        put_text(sections[i].text);
        printf("\n");
    }
    printf(".SH EXAMPLES\n");
    for (const struct command_example *e = command_examples; e->line; e++) {
        printf(".TP\n\\fBdopplergl ");
        put_text(e->line);
        printf("\\fR\n");
        put_text(e->what);
        printf("\n");
    }
    printf(".SH \"JSON FIELDS\"\n");
    for (const struct command *c = commands; c->name; c++) {
        const char *json = command_json_details(c);
        if (!json)
            continue;
        printf(".SS ");
        put_text(c->name);
        printf(" \\-\\-json\n");
        put_text(json);
        printf("\n");
    }
}
