/* The one table of options: parsing, --help and docs/cli.md come from it. */
#ifndef DGL_TOOLS_OPTIONS_H
#define DGL_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define OPTIONS_MAX_STRS 32

/* Repeatable string option. */
struct option_strs {
    const char *item[OPTIONS_MAX_STRS];
    size_t count;
};

/* Every option's value; which ones a command looks at is in the table. */
struct options {
    /* model and device */
    const char *model, *device, *limits, *kv_type, *log_level;
    int32_t context;
    bool json, quiet, help;
    int32_t verbose;
    /* prompt and sampling */
    const char *prompt, *file, *ids;
    int32_t tokens;
    double temp, top_p, min_p, repeat_penalty;
    int32_t top_k, repeat_last_n, readback_interval;
    int64_t seed;
    struct option_strs stop;
    bool escapes, echo, ignore_eos, no_parse_special, model_defaults;
    /* kernels */
    struct option_strs kernel_dir, kernel_file;
    const char *kernel_config, *kernel_profile, *kernel_hints;
    const char *compute_precision, *q4k_matmul, *f16_matmul, *attention_prefill, *attention_decode;
    /* single commands */
    const char *out, *texts, *quantize, *to_format, *hash, *shape;
    const char *embed_type, *head_type, *experts_type, *q4k_layout;
    bool fast, fuse_gate_up, transpose_weights, text_only;
    const char *messages, *template, *template_name, *system;
    struct tm now;
    bool now_given, add_generation_prompt;
    bool all, force, jsonl, decode, pieces, skip_special, smoke, csv, profile, markdown;
    int32_t prompt_tokens, depth, batch, repetitions, threads, shard_mib;
    bool tokens_given, temp_given, top_k_given, top_p_given, min_p_given;
    bool repeat_penalty_given;
    /* arguments that are no options */
    const char *arg[3];
    int num_args;
};

struct command {
    const char *name;
    const char *usage;   /* "IN OUT [options]" */
    const char *summary; /* one line */
    const char *details; /* Markdown; NULL = nothing beyond the options */
    int min_args, max_args;
    int (*run)(const struct options *opt); /* exit code */
};

/* Fills *out with defaults and the values of the command line. False: one error line is on standard
 * error, exit code 2. */
bool options_parse(const struct command *command, int argc, char **argv, struct options *out);
enum option_group {
    OPTION_OWN,     /* of this command and perhaps some others */
    OPTION_KERNELS, /* of commands that choose kernels */
    OPTION_COMMON,  /* of every command */
};
/* The options of a command, or of all when it is NULL, one call each in the order of the table;
 * `left` is "-n, --n-predict N". */
void options_iterate(const struct command *command,
                     void (*cb)(void *priv, enum option_group group, const char *left,
                                const char *help),
                     void *priv);

#endif
