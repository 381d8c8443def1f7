/* The commands; each returns an exit code. */
#ifndef DGL_TOOLS_COMMANDS_H
#define DGL_TOOLS_COMMANDS_H

#include "tools/cli/options.h"

int command_generate(const struct options *opt);
int command_chat(const struct options *opt);
int command_serve(const struct options *opt);
int command_convert(const struct options *opt);
int command_inspect(const struct options *opt);
int command_models(const struct options *opt);
int command_cache(const struct options *opt);
int command_devices(const struct options *opt);
int command_selftest(const struct options *opt);
int command_template(const struct options *opt);
int command_tokenize(const struct options *opt);
int command_logits(const struct options *opt);
int command_perplexity(const struct options *opt);
int command_kernels(const struct options *opt);
int command_verify(const struct options *opt);
int command_tune(const struct options *opt);
int command_bench(const struct options *opt);
int command_version(const struct options *opt);
int command_help(const struct options *opt);

/* Returns false after an error line if options exclude each other. */
bool command_generate_check(const struct options *opt);
bool command_chat_check(const struct options *opt);
bool command_serve_check(const struct options *opt);
bool command_convert_check(const struct options *opt);
bool command_template_check(const struct options *opt);
bool command_cache_check(const struct options *opt);
bool command_tokenize_check(const struct options *opt);
bool command_logits_check(const struct options *opt);
bool command_perplexity_check(const struct options *opt);
bool command_kernels_check(const struct options *opt);
bool command_verify_check(const struct options *opt);
bool command_tune_check(const struct options *opt);
bool command_bench_check(const struct options *opt);
bool command_help_check(const struct options *opt);

/* A command line that shows what a command is for. */
struct command_example {
    const char *line; /* as typed, without "dopplergl " */
    const char *what; /* one line, begins with a verb */
};
/* All examples, in the order of the commands, ended by a row without a line. */
extern const struct command_example command_examples[];

/* Returns the part of a command's details about `--json`, which is their end, or NULL if they have
 * none. */
const char *command_json_details(const struct command *command);

/* All commands, ended by a row without a name. */
extern const struct command commands[];
/* Returns NULL if no command has that name. */
const struct command *command_find(const char *name);
/* Prints the error line about an unknown command. Returns EXIT_USAGE. */
int command_unknown(const char *name);
/* Prints usage and options of a command to standard output. Returns an exit code. */
int help_about(const struct command *command);

/* Print the files that the package installs, and docs/cli.md, from the tables of commands and
 * options. */
void help_markdown(void);
void help_man(void);
void help_completion(const char *shell); /* bash, zsh or fish */

#endif
