/* help and version: the tables of commands and options as text and as docs/cli.md. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/console.h"

/* Width of the left column; longer options get a line of their own. */
#define LEFT 30

static void print_option(void *priv, enum option_group group, const char *left, const char *help)
{
    (void)priv;
    (void)group;
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

/* "|" ends a cell, even in code. */
static void cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

/* The rows of one group, with the head of the table before the first. */
struct option_table {
    enum option_group group;
    bool begun;
};

static void table_row(void *priv, enum option_group group, const char *left, const char *help)
{
    struct option_table *t = priv;
    if (group != t->group)
        return;
    if (!t->begun)
        printf("\n| option | meaning |\n| --- | --- |\n");
    t->begun = true;
    printf("| `");
    cell(left);
    printf("` | ");
    cell(help);
    printf(" |\n");
}

static void note_kernels(void *priv, enum option_group group, const char *left, const char *help)
{
    (void)left;
    (void)help;
    *(bool *)priv |= group == OPTION_KERNELS;
}

static void command_section(const struct command *c)
{
    struct option_table own = {.group = OPTION_OWN};
    bool kernels = false;
    printf("\n## %s\n\n%s.\n\n```\ndopplergl %s %s\n```\n", c->name, c->summary, c->name, c->usage);
    if (c->details)
        printf("\n%s\n", c->details);
    options_iterate(c, table_row, &own);
    options_iterate(c, note_kernels, &kernels);
    if (kernels)
        printf("\nAnd the options that choose kernels, above.\n");
}

static void markdown(void)
{
    struct option_table common = {.group = OPTION_COMMON}, kernels = {.group = OPTION_KERNELS};
    printf("# Command line\n\nMade by `dopplergl help --markdown`; a test compares the two.\n\n"
           "Every command takes these; those about the device do nothing where none is opened:\n");
    options_iterate(NULL, table_row, &common);
    printf("\nCommands that run a model also take options that choose kernels "
           "([kernels.md](kernels.md)):\n");
    options_iterate(NULL, table_row, &kernels);
    printf("\nExit codes: 0 done; 1 failed, or a value that does not fit the model, file or "
           "device; 2 a flag or value that\ndoes not parse; 130 cancelled by SIGINT, SIGTERM or "
           "SIGHUP. An error is one line on standard error that\nstarts `dopplergl: error:`. "
           "Progress bars appear only on a terminal and have no colour where NO_COLOR is set.\n\n"
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
