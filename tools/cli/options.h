/* Values of options, from the command line, the environment and the configuration file.
 * options_table.h declares the table of options, which parsing, help and completion use. */
#ifndef DGL_TOOLS_OPTIONS_H
#define DGL_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define OPTIONS_MAX_STRS  32
#define OPTIONS_MAX_ROWS  224 /* rows of the table */
#define OPTIONS_MAX_NOTES 16

/* Repeatable string option. NULL follows the last item. */
struct option_strs {
    const char *item[OPTIONS_MAX_STRS + 1];
    size_t count;
};

/* Source of an option's value. A later one in this list has priority. */
enum option_source {
    OPTION_DEFAULT,
    OPTION_FROM_CONFIG,
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_COMMAND_LINE,
};

struct dgl_json_doc;

/* Values of all options. The table lists the commands that use an option. */
struct options {
    /* model and device */
    const char *model, *device, *limits, *kv_type, *executor, *log_level;
    int32_t context;
    bool json, quiet, help;
    int32_t verbose;
    /* prompt and sampling */
    const char *prompt, *file, *ids;
    int32_t tokens;
    double temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    double dry_multiplier, dry_base, typical_p, top_n_sigma, xtc_probability, xtc_threshold;
    int32_t top_k, repeat_last_n, dry_allowed_length, dry_penalty_last_n;
    int32_t readback_interval, keep;
    int64_t seed;
    struct option_strs stop, dry_breakers, logit_bias;
    struct option_strs override_kv;
    const char *session;
    bool raw, context_shift;
    bool escapes, echo, ignore_eos, no_parse_special, model_defaults;
    /* kernels */
    struct option_strs kernel_dir, kernel_file;
    const char *kernel_config, *kernel_profile, *kernel_hints;
    /* kernels.json next to the configuration file, not an option; NULL if it is missing */
    const char *user_kernels;
    /* Path of that file, even if the file does not exist; NULL if there is no folder for it. */
    char *user_kernels_path;
    bool allow_pack_kernels, force_fused_q4k;
    const char *op; /* an operation, or a step of a plan */
    bool generated, quick, watch_kernels, unsafe_kernels, compile_only;
    int32_t time_limit;
    int32_t session_context; /* not an option: tokens of the session, 0 means the model's limit */
    const char *memory_limit, *known;
    const char *extra_hint; /* not an option: "hint=value", set by commands that try kernels */
    bool keep_faults;       /* not an option: set by commands that judge each kernel file */
    const char *hash_weights;
    bool no_tune;
    const char *compute_precision, *q4k_matmul, *f16_matmul, *attention_prefill, *attention_decode;
    /* single commands */
    const char *out, *texts, *quantize, *to_format, *hash, *shape, *trace, *against;
    const char *embed_type, *head_type, *experts_type, *q4k_layout;
    bool fast, fuse_gate_up, transpose_weights, text_only;
    const char *messages, *template, *template_name, *system;
    const char *grammar, *grammar_file, *json_schema, *json_schema_file, *regex;
    bool json_compact;
    struct tm now;
    bool now_given, add_generation_prompt, continue_final_message;
    bool all, force, jsonl, decode, pieces, skip_special, smoke, csv, profile, markdown, man;
    bool batch_invariant;
    bool md, sweep, matrix, tune_show, tune_reset;
    const char *plot, *types;
    const char *completion;
    int32_t prompt_tokens, depth, batch, ubatch, repetitions, warmup, threads, shard_mib, stride;
    int32_t seconds;
    /* serve */
    const char *host, *api_key, *api_key_file, *log_file, *pooling, *cors;
    int32_t port, parallel, queue, timeout, max_body, max_connections, drain_timeout,
        sse_ping_interval;
    struct option_strs alias, trust_proxy;
    const char *template_kwargs, *reasoning_format, *api_prefix;
    const char *max_request_memory, *share_prefix;
    int32_t max_client_connections, max_client_requests, max_client_tokens; /* 0: the default */
    bool insecure, no_page;
    /* bench serve */
    double rate, duration, slo_ttft, slo_itl;
    int32_t connections;
    const char *prompt_lengths, *answer_lengths;
    bool chat, no_ignore_eos;
    bool tokens_given;
    /* arguments that are not options and do not replace an option */
    const char *arg[3];
    int num_args;
    char *const *argv; /* [argc], all words after the command */
    int argc;

    uint8_t source[OPTIONS_MAX_ROWS]; /* enum option_source, by row of the table */
    /* given options of other programs that have no effect here, as they were spelled */
    const struct foreign_option *note[OPTIONS_MAX_NOTES];
    const char *note_spelling[OPTIONS_MAX_NOTES];
    int num_notes;
    /* Owns the texts of the configuration file; NULL if there is no file. */
    struct dgl_json_doc *config;
    char *config_hints; /* text of kernel hints that are an object in the file; free() */
};

struct command {
    const char *name;
    const char *usage;   /* "IN OUT [options]" */
    const char *summary; /* one line */
    const char *details; /* Markdown; NULL if the options say everything */
    int min_args, max_args;
    int (*run)(const struct options *opt); /* exit code */
    /* Returns false after an error line if options exclude each other. Opens no file or device.
     * NULL if there is nothing to check. */
    bool (*check)(const struct options *opt);
    /* Long name, without dashes, of the option that an argument replaces, or NULL. */
    const char *arg_means;
};

/* Fills *out with defaults and the values of the command line. Returns false after one error line
 * (exit code 2). Opens no file or device. */
bool options_parse(const struct command *command, int argc, char **argv, struct options *out);
/* Adds the values of the environment (DOPPLERGL_MODEL, DOPPLERGL_DEVICE) and of the configuration
 * file for options of `command` that the command line omits. The file is dopplergl/config.json in
 * XDG_CONFIG_HOME or ~/.config. Returns false after one error line (exit code 1). */
bool options_add_defaults(const struct command *command, struct options *out);
/* Prints a line for each value of the environment that `command` used. Call it after a failure.
 * `device`: the device could not be opened. Otherwise the choice of the device is not printed. */
void options_tell_environment(const struct command *command, const struct options *opt,
                              bool device);
void options_finish(struct options *opt);

#endif
