/* The `dopplergl` command: from argv to an entry of the table of commands. */
#include <string.h>

#include "core/base/log.h"
#include "tools/cli/commands.h"
#include "tools/cli/console.h"
#include "tools/cli/engine.h"
#include "tools/cli/options_table.h"

int main(int argc, char **argv)
{
    struct options opt;
    const int compiled = dgl_compiler_main(argc, argv);
    if (compiled >= 0)
        return compiled;
    process_prepare();
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = command_find(name);
    if (!command)
        return command_unknown(name);
    if (!options_parse(command, argc > 2 ? argc - 2 : 0, argv + 2, &opt))
        return EXIT_USAGE;
    if (opt.help)
        return help_about(command);
    /* A fault of the configuration file does not keep its explanation away. */
    int code = EXIT_FAILED;
    if (command->run == command_help || command->run == command_version ||
        options_add_defaults(command, &opt)) {
        const struct option *hints = option_named(command, DGL_STR("kernel-hints"));
        struct console console;
        console_init(&console, &opt);
        for (int i = 0; i < opt.num_notes; i++)
            dgl_notice(&console.log, "%.*s has no effect: %s",
                       (int)strcspn(opt.note_spelling[i], "="), opt.note_spelling[i],
                       opt.note[i]->why);
        if (hints && option_source(hints, &opt) == OPTION_FROM_COMMAND_LINE &&
            !engine_check_hints(&opt))
            code = EXIT_USAGE;
        else
            code = console_end(command->run(&opt));
    }
    if (code == EXIT_FAILED)
        options_tell_environment(command, &opt, engine_lacks_device());
    if (code == EXIT_CANCELLED)
        console_cancelled(&opt);
    options_finish(&opt);
    engine_exit(code);
}
