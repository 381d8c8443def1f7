/* A row of the option table in options.c, for parsing, help and completion. */
#ifndef DGL_TOOLS_OPTIONS_TABLE_H
#define DGL_TOOLS_OPTIONS_TABLE_H

#include "core/base/str.h"
#include "tools/cli/options.h"

enum option_type {
    TYPE_FLAG,
    TYPE_COUNT,
    TYPE_STR,  /* any text, also an empty one */
    TYPE_PATH, /* text that is not empty */
    TYPE_STRS,
    TYPE_PATHS,
    TYPE_I32,
    TYPE_I64,
    TYPE_F64,
    TYPE_WORD,
    TYPE_QUANT, /* a word; case is ignored */
    TYPE_IDS,
    TYPE_DATE,
    TYPE_DEVICE,
    TYPE_HINTS
};

struct option {
    const char *commands; /* blank-separated; "*" means all */
    char letter;          /* 0 if it has none */
    const char *name;     /* without dashes */
    const char *arg;      /* NULL for flags */
    const char *help;
    enum option_type type;
    size_t offset;     /* in struct options */
    double min, max;   /* range of a number */
    const char *words; /* TYPE_WORD, TYPE_QUANT: allowed words, "a|b" */
    /* Offset of a bool that records that it was given; 0 if there is no such bool. */
    size_t given;
};

/* A flag of llama.cpp or Hugging Face, for users of those programs. */
struct foreign_option {
    const char *commands;
    const char *spellings; /* with dashes, blank-separated */
    const char *means;     /* name of our option for it, or NULL */
    const char *arg;       /* if `means` is NULL: its value; "[a|b]": optional */
    const char *why;       /* why it has no effect here; if `refused`, the remedy */
    bool refused;
};

/* Rows in the order of the table; NULL after the last. */
const struct option *option_at(size_t i);
const struct foreign_option *foreign_option_at(size_t i);

bool option_is_for(const struct option *option, const struct command *command);
bool option_is_common(const struct option *option); /* of every command */
bool option_is_kernel(const struct option *option); /* of all commands that run a model */
/* Find an option of a command by long name or by letter. Return NULL if it has none. */
const struct option *option_named(const struct command *command, struct dgl_str name);
const struct option *option_lettered(const struct command *command, char letter);
/* Finds a flag of another program by its spelling, with dashes. Returns NULL if there is none. */
const struct foreign_option *foreign_option_spelled(const struct command *command,
                                                    struct dgl_str spelling);

/* Stores a value given as text. `origin` begins the error line: "--temp", "FILE: temp". */
bool option_store(const struct option *o, const char *origin, const char *value,
                  struct options *out);
void option_set_flag(const struct option *o, bool value, struct options *out);
/* Records the source of an option's value. */
void option_set_source(const struct option *o, enum option_source source, struct options *out);
enum option_source option_source(const struct option *o, const struct options *opt);

/* Options that choose kernels. */
#define OPTIONS_KERNEL_FILES "kernel-dir kernel-file allow-pack-kernels"
#define OPTIONS_KERNEL_HINTS "kernel-config kernel-hints"
#define OPTIONS_KERNEL_WORDS                                                                       \
    "kernel-profile compute-precision q4k-matmul force-fused-q4k f16-matmul attention-prefill "    \
    "attention-decode"
#define OPTIONS_KERNEL_LOADING "no-tune executor hash-weights"
#define OPTIONS_KERNEL                                                                             \
    OPTIONS_KERNEL_FILES " " OPTIONS_KERNEL_HINTS " " OPTIONS_KERNEL_WORDS                         \
                         " " OPTIONS_KERNEL_LOADING

/* Returns false after an error line if the command line sets any of `names` (separated by blanks),
 * which have no effect in this form of the command, for example "kernels list". Names of options
 * that `command` does not have are ignored. */
bool options_are_used(const struct options *opt, const char *command, const char *form,
                      const char *names);

/* Returns true if `word` is one of `words`. */
bool option_has_word(struct dgl_str words, char separator, struct dgl_str word);

#endif
