/* The command's main() within a test program. */
#include "tests/support/self_command.h"

#include <unistd.h>

#include "tests/support/process.h"
#include "tools/cli/commands.h"
#include "tools/cli/console.h"
#include "tools/cli/options_table.h"

int self_command_run(int argc, char **argv)
{
    struct options opt;
    process_prepare();
    const struct command *command = command_find(argv[1]);
    if (!command || !options_parse(command, argc - 2, argv + 2, &opt))
        return EXIT_USAGE;
    int code = console_end(command->run(&opt));
    options_finish(&opt);
    return code;
}

const char *self_command_program(void)
{
    static char path[4096];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = '\0';
    return path;
}
