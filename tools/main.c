/* The `dopplergl` command: which commands there are, help, and the way from argv to one of them. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/console.h"

const struct command commands[] = {
    {"generate", "(-p TEXT | -f FILE | --ids 1,2,3) [options]", "Continue a prompt", 0, 0,
     command_generate},
    {"convert", "IN OUT [options]", "Turn a model into a pack", 2, 2, command_convert},
    {"inspect", "[-m MODEL | MODEL] [options]", "Show what a model is made of", 0, 1,
     command_inspect},
    {"verify", "[-m MODEL | MODEL] [options]", "Check every hash of a pack", 0, 1, command_verify},
    {"devices", "[options]", "List the devices and why each is or is not used", 0, 0,
     command_devices},
    {"tokenize", "[-m MODEL|tokenizer.json] [options]", "Text to token ids and back", 0, 0,
     command_tokenize},
    {"logits", "--ids 1,2,3 -o OUT.safetensors [options]", "Write the logits of a prompt", 0, 0,
     command_logits},
    {"perplexity", "--texts FILE.json [options]", "Measure how well a model predicts texts", 0, 0,
     command_perplexity},
    {"bench", "[-m MODEL | --shape NAME[:quant]] [options]", "Measure speed", 0, 0, command_bench},
    {"kernels", "list | show NAME | explain [options]", "Show kernels and why each was chosen", 1,
     2, command_kernels},
    {"version", "[options]", "Print the version", 0, 0, command_version},
    {"help", "[COMMAND]", "Explain a command", 0, 1, command_help},
    {0},
};

static const struct command *find_command(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

static void overview(FILE *file)
{
    fprintf(file,
            "dopplergl %s: language models on OpenGL ES 3.1 compute\n\n"
            "usage: dopplergl COMMAND [options]\n\ncommands:\n",
            dgl_version());
    for (const struct command *c = commands; c->name; c++)
        fprintf(file, "  %-12s %s\n", c->name, c->summary);
    fprintf(file, "\n`dopplergl COMMAND --help` explains one.\n");
}

static void markdown(void)
{
    printf("# Command line\n\nMade by `dopplergl help --markdown`; a test compares the two.\n\n"
           "Every command also takes:\n\n| option | meaning |\n| --- | --- |\n");
    options_help_common(stdout);
    printf(
        "\nExit codes: 0 done; 1 failed, or a value that does not fit the model, file or device; "
        "2 a flag or value that\ndoes not parse; 130 cancelled by SIGINT or SIGTERM. Errors are "
        "one line on standard error, starting\n`dopplergl: error:`. Progress bars appear only on "
        "a terminal; NO_COLOR is honoured.\n");
    for (const struct command *c = commands; c->name; c++)
        options_help(stdout, c, true);
}

int command_help(const struct options *opt)
{
    if (opt->markdown) {
        markdown();
    } else if (opt->num_args == 0) {
        overview(stdout);
    } else {
        const struct command *c = find_command(opt->arg[0]);
        if (!c) {
            console_error("there is no command %s; `dopplergl help` lists them", opt->arg[0]);
            return EXIT_USAGE;
        }
        options_help(stdout, c, false);
    }
    return out_flush() ? EXIT_OK : EXIT_FAILED;
}

int command_version(const struct options *opt)
{
    if (opt->json)
        printf("{\"version\":\"%s\",\"api\":%d}\n", dgl_version(), DGL_API_VERSION);
    else
        printf("dopplergl %s (API %d)\n", dgl_version(), DGL_API_VERSION);
    return out_flush() ? EXIT_OK : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct options opt;
    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = find_command(name);
    if (!command) {
        console_error("there is no command %s; `dopplergl help` lists them", name);
        return EXIT_USAGE;
    }
    if (!options_parse(command, argc - 2, argv + 2, &opt))
        return EXIT_USAGE;
    if (opt.help) {
        options_help(stdout, command, false);
        return out_flush() ? EXIT_OK : EXIT_FAILED;
    }
    return command->run(&opt);
}
