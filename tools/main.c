/* The `dopplergl` command: from argv to an entry of the table of commands. */
#include <string.h>

#include "tools/commands.h"
#include "tools/console.h"

int main(int argc, char **argv)
{
    struct options opt;
    process_prepare();
    if (argc < 2) {
        console_error("no command was given; `dopplergl help` lists them");
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = command_find(name);
    if (!command) {
        console_error("there is no command %s; `dopplergl help` lists them", name);
        return EXIT_USAGE;
    }
    if (!options_parse(command, argc - 2, argv + 2, &opt))
        return EXIT_USAGE;
    return opt.help ? help_about(command) : command->run(&opt);
}
