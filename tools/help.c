/* help and version: the tables of commands and options as text and as docs/cli.md. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/console.h"

/* Width of the left column; longer options get a line of their own. */
#define LEFT 30

static void print_option(void *priv, const char *left, const char *help, bool common)
{
    (void)priv;
    (void)common;
    if (strlen(left) > LEFT)
        printf("  %s\n  %-*s %s\n", left, LEFT, "", help);
    else
        printf("  %-*s %s\n", LEFT, left, help);
}

int help_about(const struct command *command)
{
    printf("usage: dopplergl %s %s\n\n%s.\n\n", command->name, command->usage, command->summary);
    if (command->details)
        printf("%s\n\n", command->details);
    printf("options:\n");
    options_iterate(command, print_option, NULL);
    return out_exit(out_flush());
}

static void overview(void)
{
    printf("dopplergl %s: language models on OpenGL ES 3.1 compute\n\n"
           "usage: dopplergl COMMAND [options]\n\ncommands:\n",
           dgl_version());
    for (const struct command *c = commands; c->name; c++)
        printf("  %-12s %s\n", c->name, c->summary);
    printf("\n`dopplergl COMMAND --help` explains one.\n");
}

/* ---- docs/cli.md ----------------------------------------------------------------------------- */

static void table_begin(void)
{
    printf("\n| option | meaning |\n| --- | --- |\n");
}

/* "|" ends a cell, even in code. */
static void cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

/* `priv` is a bool: rows that every command has, or the others. */
static void table_row(void *priv, const char *left, const char *help, bool common)
{
    const bool *wanted = priv;
    if (common != *wanted)
        return;
    printf("| `");
    cell(left);
    printf("` | ");
    cell(help);
    printf(" |\n");
}

static void count_own(void *priv, const char *left, const char *help, bool common)
{
    (void)left;
    (void)help;
    *(int *)priv += !common;
}

static void command_section(const struct command *c)
{
    bool common = false;
    int own = 0;
    printf("\n## %s\n\n%s.\n\n```\ndopplergl %s %s\n```\n", c->name, c->summary, c->name, c->usage);
    if (c->details)
        printf("\n%s\n", c->details);
    options_iterate(c, count_own, &own);
    if (own == 0)
        return;
    table_begin();
    options_iterate(c, table_row, &common);
}

static void markdown(void)
{
    bool common = true;
    printf("# Command line\n\nMade by `dopplergl help --markdown`; a test compares the two.\n\n"
           "Every command also takes these; those about the device do nothing where none is "
           "opened:\n");
    table_begin();
    options_iterate(command_find("version"), table_row, &common);
    printf("\nExit codes: 0 done; 1 failed, or a value that does not fit the model, file or "
           "device; 2 a flag or value that\ndoes not parse; 130 cancelled by SIGINT or SIGTERM. An "
           "error is one line on standard error that starts\n`dopplergl: error:`. Progress bars "
           "appear only on a terminal and have no colour where NO_COLOR is set.\n\n"
           "The bundled model is looked for in the folder that DOPPLERGL_DATA names, in the build "
           "tree beside the executable,\nand in PREFIX/share/dopplergl. Compiled kernels are kept "
           "in XDG_CACHE_HOME/dopplergl. `org/name` is looked for in\nHF_HOME/hub; nothing is "
           "ever downloaded.\n");
    for (const struct command *c = commands; c->name; c++)
        command_section(c);
}

/* ---- commands -------------------------------------------------------------------------------- */

int command_help(const struct options *opt)
{
    if (opt->markdown) {
        markdown();
    } else if (opt->num_args == 0) {
        overview();
    } else {
        const struct command *c = command_find(opt->arg[0]);
        if (c)
            return help_about(c);
        console_error("there is no command %s; `dopplergl help` lists them", opt->arg[0]);
        return EXIT_USAGE;
    }
    return out_exit(out_flush());
}

int command_version(const struct options *opt)
{
    if (opt->json)
        printf("{\"version\": \"%s\", \"api\": %d}\n", dgl_version(), DGL_API_VERSION);
    else
        printf("dopplergl %s (API %d)\n", dgl_version(), DGL_API_VERSION);
    return out_exit(out_flush());
}
