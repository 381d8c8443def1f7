/* The commands; each returns an exit code. */
#ifndef DGL_TOOLS_COMMANDS_H
#define DGL_TOOLS_COMMANDS_H

#include "tools/options.h"

int command_generate(const struct options *opt);
int command_chat(const struct options *opt);
int command_convert(const struct options *opt);
int command_inspect(const struct options *opt);
int command_devices(const struct options *opt);
int command_template(const struct options *opt);
int command_tokenize(const struct options *opt);
int command_logits(const struct options *opt);
int command_perplexity(const struct options *opt);
int command_kernels(const struct options *opt);
int command_verify(const struct options *opt);
int command_bench(const struct options *opt);
int command_version(const struct options *opt);
int command_help(const struct options *opt);

/* All of them, ended by a row without a name. */
extern const struct command commands[];
/* NULL when there is none of that name. */
const struct command *command_find(const char *name);
/* Usage and options of a command to standard output; an exit code. */
int help_about(const struct command *command);

#endif
