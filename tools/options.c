/* Options: the table, its parser and its help. */
#include "tools/options.h"

#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/str.h"
#include "tools/console.h"

/* Types that dgl_convert() can give a role. */
#define BLOCK_TYPES "f32|f16|bf16|q8_0|q6_k|q5_k|q4_k|q4_0|mxfp4"

/* The digits of a number that a macro names. */
#define DIGITS(macro)   DIGITS_OF(macro)
#define DIGITS_OF(text) #text

enum type {
    TYPE_FLAG,
    TYPE_COUNT,
    TYPE_STR,
    TYPE_STRS,
    TYPE_I32,
    TYPE_I64,
    TYPE_F64,
    TYPE_WORD,
    TYPE_DATE,
    TYPE_DEVICE,
    TYPE_HINTS
};

struct option {
    const char *commands; /* blank-separated; "*" = all */
    char letter;          /* 0 = none */
    const char *name;     /* without dashes */
    const char *arg;      /* NULL for flags */
    const char *help;
    enum type type;
    size_t offset;
    double min, max;   /* numbers */
    const char *words; /* TYPE_WORD: allowed, "a|b" */
    size_t given;      /* offset of a bool that records that it was given; 0 = none */
};

#define FIELD(name) offsetof(struct options, name)
#define ENGINE      "generate chat logits perplexity bench verify kernels"
#define WITH_MODEL  ENGINE " inspect tokenize template"
#define I32_MAX     2147483647.0

static const struct option table[] = {
    {WITH_MODEL, 'm', "model", "MODEL",
     "pack, Hugging Face folder, GGUF file, or org/name in the local Hub cache (default: the "
     "bundled model)",
     TYPE_STR, FIELD(model), 0, 0, NULL, 0},
    {"generate", 'p', "prompt", "TEXT", "prompt, byte for byte", TYPE_STR, FIELD(prompt), 0, 0,
     NULL, 0},
    {"generate", 'f', "file", "FILE", "prompt from a file, byte for byte; - is standard input",
     TYPE_STR, FIELD(file), 0, 0, NULL, 0},
    {"tokenize", 'p', "prompt", "TEXT", "text to tokenize (default: standard input)", TYPE_STR,
     FIELD(prompt), 0, 0, NULL, 0},
    {"generate logits", 0, "ids", "1,2,3", "prompt as token ids", TYPE_STR, FIELD(ids), 0, 0, NULL,
     0},
    {"generate", 'n', "n-predict", "N",
     "tokens to generate: -1 until a stop, 0 evaluates the prompt only (default: 128)", TYPE_I32,
     FIELD(tokens), -1, I32_MAX, NULL, FIELD(tokens_given)},
    {"chat", 'n', "n-predict", "N", "tokens of an answer at most; -1 until it ends (default: -1)",
     TYPE_I32, FIELD(tokens), -1, I32_MAX, NULL, FIELD(tokens_given)},
    {"chat", 'e', "escapes", NULL, "expand `\\n \\r \\t \\' \\\" \\\\ \\xHH` in --stop", TYPE_FLAG,
     FIELD(escapes), 0, 0, NULL, 0},
    {"generate", 'e', "escapes", NULL,
     "expand `\\n \\r \\t \\' \\\" \\\\ \\xHH` in the prompt and in --stop; any other backslash "
     "stays as it is",
     TYPE_FLAG, FIELD(escapes), 0, 0, NULL, 0},
    {"generate", 0, "echo", NULL, "print the prompt too", TYPE_FLAG, FIELD(echo), 0, 0, NULL, 0},
    {"generate chat", 0, "temp", "T", "temperature; 0 is greedy (default: 0.8)", TYPE_F64,
     FIELD(temp), 0, 1000, NULL, FIELD(temp_given)},
    {"generate chat", 0, "top-k", "K",
     "keep the K best tokens, at most 128; 0 is off (default: 40)", TYPE_I32, FIELD(top_k), 0,
     I32_MAX, NULL, FIELD(top_k_given)},
    {"generate chat", 0, "top-p", "P",
     "keep the best tokens up to this probability; 1 is off (default: 0.95)", TYPE_F64,
     FIELD(top_p), 0, 1, NULL, FIELD(top_p_given)},
    {"generate chat", 0, "min-p", "P",
     "keep tokens with at least this share of the best one's probability; 0 is off (default: 0.05)",
     TYPE_F64, FIELD(min_p), 0, 1, NULL, FIELD(min_p_given)},
    {"generate chat", 0, "repeat-penalty", "R", "penalty of recent tokens; 1 is off (default: 1.0)",
     TYPE_F64, FIELD(repeat_penalty), 0.01, 100, NULL, FIELD(repeat_penalty_given)},
    {"generate chat", 0, "repeat-last-n", "N",
     "how many tokens count as recent, at most 1024 and never -1 for all as in llama.cpp; 0 is off "
     "(default: 64)",
     TYPE_I32, FIELD(repeat_last_n), 0, 1024, NULL, 0},
    {"generate chat", 's', "seed", "N", "random seed; -1 takes a new one (default: -1)", TYPE_I64,
     FIELD(seed), -1, 9007199254740991.0, NULL, 0},
    {"generate chat", 0, "stop", "TEXT", "end the answer before this text; may be repeated",
     TYPE_STRS, FIELD(stop), 0, 0, NULL, 0},
    {"generate chat", 0, "ignore-eos", NULL, "do not end at a stop token", TYPE_FLAG,
     FIELD(ignore_eos), 0, 0, NULL, 0},
    {"generate chat", 0, "model-defaults", NULL,
     "sampling values of the model's generation_config.json where no flag says otherwise",
     TYPE_FLAG, FIELD(model_defaults), 0, 0, NULL, 0},
    {"generate chat", 0, "readback-interval", "N",
     "tokens per readback, 1 to " DIGITS(
         DGL_READBACK_INTERVAL_MAX) " (default: 1 on software, " DIGITS(DGL_READBACK_INTERVAL) " on"
                                                                                               " ha"
                                                                                               "rdw"
                                                                                               "are"
                                                                                               ")",
     TYPE_I32, FIELD(readback_interval), 1, DGL_READBACK_INTERVAL_MAX, NULL, 0},
    {"generate perplexity tokenize", 0, "no-parse-special", NULL,
     "special tokens in the text are plain text", TYPE_FLAG, FIELD(no_parse_special), 0, 0, NULL,
     0},

    {"logits", 0, "all", NULL, "every position, not only the last", TYPE_FLAG, FIELD(all), 0, 0,
     NULL, 0},
    {"logits", 'o', "output", "FILE", "safetensors file to write", TYPE_STR, FIELD(out), 0, 0, NULL,
     0},
    {"perplexity", 0, "texts", "FILE.json", "JSON array of strings", TYPE_STR, FIELD(texts), 0, 0,
     NULL, 0},
    {"tokenize", 0, "jsonl", NULL,
     "read `{\"text\":…}` lines, write `{\"ids\":[…],\"ids_special\":[…]}` lines", TYPE_FLAG,
     FIELD(jsonl), 0, 0, NULL, 0},
    {"tokenize", 0, "decode", NULL,
     "read `{\"ids\":[…]}` lines, write `{\"text\":…}` lines, with or without --jsonl", TYPE_FLAG,
     FIELD(decode), 0, 0, NULL, 0},
    {"tokenize", 0, "pieces", NULL, "show what each id stands for", TYPE_FLAG, FIELD(pieces), 0, 0,
     NULL, 0},
    {"tokenize", 0, "skip-special", NULL, "leave special tokens out of decoded text", TYPE_FLAG,
     FIELD(skip_special), 0, 0, NULL, 0},

    {"chat", 0, "messages", "FILE.json",
     "answer these messages and end: a JSON array, or an object with `messages` and further "
     "variables; - is standard input",
     TYPE_STR, FIELD(messages), 0, 0, NULL, 0},
    {"chat", 0, "system", "TEXT", "system message to begin with", TYPE_STR, FIELD(system), 0, 0,
     NULL, 0},
    {"template", 0, "messages", "FILE.json",
     "JSON array of messages, or an object with `messages` and further variables; - is standard "
     "input",
     TYPE_STR, FIELD(messages), 0, 0, NULL, 0},
    {"template chat", 0, "template", "FILE", "a Jinja template in place of the model's", TYPE_STR,
     FIELD(template), 0, 0, NULL, 0},
    {"template chat", 0, "template-name", "NAME",
     "which of the model's templates (default: `default`, or `tool_use` where there is one and "
     "tools are given)",
     TYPE_STR, FIELD(template_name), 0, 0, NULL, 0},
    {"template", 0, "add-generation-prompt", NULL, "end with what begins an answer", TYPE_FLAG,
     FIELD(add_generation_prompt), 0, 0, NULL, 0},
    {"template", 0, "now", "DATE",
     "2025-06-15 or 2025-06-15T12:30:00, for templates that tell the date (default: the local "
     "time)",
     TYPE_DATE, FIELD(now), 0, 0, NULL, FIELD(now_given)},

    {"convert", 0, "to", "FORMAT", "rdrr, a pack, or gguf, one file (default: rdrr)", TYPE_WORD,
     FIELD(to_format), 0, 0, "rdrr|gguf", 0},
    {"convert", 0, "quantize", "TYPE",
     "f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m or mxfp4 (default: as stored)", TYPE_WORD,
     FIELD(quantize), 0, 0, "f32|f16|bf16|q8_0|q6_k|q5_k_m|q4_k_m|mxfp4", 0},
    {"convert", 0, "embed", "TYPE",
     "the embedding's type instead: f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0 or mxfp4",
     TYPE_WORD, FIELD(embed_type), 0, 0, BLOCK_TYPES, 0},
    {"convert", 0, "head", "TYPE", "the output head's type instead, where it is not the embedding",
     TYPE_WORD, FIELD(head_type), 0, 0, BLOCK_TYPES, 0},
    {"convert", 0, "experts", "TYPE", "the experts' type instead", TYPE_WORD, FIELD(experts_type),
     0, 0, BLOCK_TYPES, 0},
    {"convert", 0, "q4k-layout", "NAME",
     "how matrices in q4_k are cut into blocks: row (default); column and flat are for other "
     "engines, this one uses such tensors as f16",
     TYPE_WORD, FIELD(q4k_layout), 0, 0, "row|column|flat", 0},
    {"convert", 0, "fuse-gate-up", NULL, "store gate and up of a layer as one tensor", TYPE_FLAG,
     FIELD(fuse_gate_up), 0, 0, NULL, 0},
    {"convert", 0, "transpose-weights", NULL, "store linear layers in floats by columns", TYPE_FLAG,
     FIELD(transpose_weights), 0, 0, NULL, 0},
    {"convert", 0, "text-only", NULL,
     "of a model that also sees, store the text model under its own names with its own config",
     TYPE_FLAG, FIELD(text_only), 0, 0, NULL, 0},
    {"convert", 0, "fast", NULL, "quantise without the search for the best codes", TYPE_FLAG,
     FIELD(fast), 0, 0, NULL, 0},
    {"convert", 0, "hash", "NAME", "sha256 or blake3 (default: sha256)", TYPE_WORD, FIELD(hash), 0,
     0, "sha256|blake3", 0},
    {"convert", 0, "shard-size", "MIB", "size of a shard (default: 64)", TYPE_I32, FIELD(shard_mib),
     1, 1024, NULL, 0},
    {"convert", 't', "threads", "N", "host threads (default: one per processor)", TYPE_I32,
     FIELD(threads), 1, 1024, NULL, 0},
    {"convert", 0, "force", NULL, "replace an existing OUT", TYPE_FLAG, FIELD(force), 0, 0, NULL,
     0},

    {"verify", 0, "smoke", NULL, "also run a fixed prompt and judge the answer", TYPE_FLAG,
     FIELD(smoke), 0, 0, NULL, 0},

    {"bench", 0, "shape", "NAME[:quant]",
     "synthetic weights of a published shape, made on the GPU, instead of a model", TYPE_STR,
     FIELD(shape), 0, 0, NULL, 0},
    {"bench", 0, "prompt-tokens", "N", "tokens of the prefill run (default: 512)", TYPE_I32,
     FIELD(prompt_tokens), 1, I32_MAX, NULL, 0},
    {"bench", 'n', "n-predict", "N", "tokens of the decode run (default: 128)", TYPE_I32,
     FIELD(tokens), 1, I32_MAX, NULL, FIELD(tokens_given)},
    {"bench", 'd', "depth", "N", "tokens already in the KV cache (default: 0)", TYPE_I32,
     FIELD(depth), 0, I32_MAX, NULL, 0},
    {"bench", 0, "batch", "N", "prefill tokens per pass (default: chosen for the device)", TYPE_I32,
     FIELD(batch), 1, 65536, NULL, 0},
    {"bench", 'r', "repetitions", "N", "counted runs, 1 to 64 (default: 3)", TYPE_I32,
     FIELD(repetitions), 1, 64, NULL, 0},
    {"bench", 0, "profile", NULL, "GPU time per operation in an extra run", TYPE_FLAG,
     FIELD(profile), 0, 0, NULL, 0},
    {"bench", 0, "csv", NULL, "comma-separated output", TYPE_FLAG, FIELD(csv), 0, 0, NULL, 0},

    {ENGINE, 0, "kernel-dir", "DIR",
     "kernel files that replace or join the built-in ones; may be repeated", TYPE_STRS,
     FIELD(kernel_dir), 0, 0, NULL, 0},
    {ENGINE, 0, "kernel-file", "FILE", "a single kernel file; may be repeated", TYPE_STRS,
     FIELD(kernel_file), 0, 0, NULL, 0},
    {ENGINE, 0, "kernel-config", "FILE", "kernel hints from a JSON file", TYPE_STR,
     FIELD(kernel_config), 0, 0, NULL, 0},
    {ENGINE, 0, "kernel-profile", "NAME", "named set of hints: fast, safe, debug, fused, apple",
     TYPE_WORD, FIELD(kernel_profile), 0, 0, "fast|safe|debug|fused|apple", 0},
    {ENGINE, 0, "kernel-hints", "JSON", "kernel hints as a JSON object", TYPE_HINTS,
     FIELD(kernel_hints), 0, 0, NULL, 0},
    {ENGINE, 0, "compute-precision", "WORD", "hint computePrecision: auto, f16, f32", TYPE_WORD,
     FIELD(compute_precision), 0, 0, "auto|f16|f32", 0},
    {ENGINE, 0, "q4k-matmul", "WORD",
     "hint q4kMatmul: auto, fused_q4k, dequant_f16, dequant_f32, gemv_subgroup", TYPE_WORD,
     FIELD(q4k_matmul), 0, 0, "auto|fused_q4k|dequant_f16|dequant_f32|gemv_subgroup", 0},
    {ENGINE, 0, "f16-matmul", "WORD", "hint f16Matmul: auto, gemv_subgroup", TYPE_WORD,
     FIELD(f16_matmul), 0, 0, "auto|gemv_subgroup", 0},
    {ENGINE, 0, "attention-prefill", "WORD",
     "hint attentionPrefill: auto, tiled_large, tiled_small, streaming", TYPE_WORD,
     FIELD(attention_prefill), 0, 0, "auto|tiled_large|tiled_small|streaming", 0},
    {ENGINE, 0, "attention-decode", "WORD",
     "hint attentionDecode: auto, tiled_large, tiled_small, streaming", TYPE_WORD,
     FIELD(attention_decode), 0, 0, "auto|tiled_large|tiled_small|streaming", 0},

    {"help", 0, "markdown", NULL, "the text of docs/cli.md", TYPE_FLAG, FIELD(markdown), 0, 0, NULL,
     0},
    {"*", 0, "device", "any|software|PATH|N",
     "a render node, a row of `devices`, or whether software is welcome (default: the first "
     "hardware device)",
     TYPE_DEVICE, FIELD(device), 0, 0, NULL, 0},
    {"*", 0, "limits", "min", "clamp the device to the GLES 3.1 minimums", TYPE_WORD, FIELD(limits),
     0, 0, "min", 0},
    {"*", 0, "kv-type", "f16|f32", "type of the KV cache (default: f16)", TYPE_WORD, FIELD(kv_type),
     0, 0, "f16|f32", 0},
    {"*", 'c', "ctx-size", "N",
     "context length in tokens; 0 is the model's, lowered to what fits (default: 0)", TYPE_I32,
     FIELD(context), 0, I32_MAX, NULL, 0},
    {"*", 0, "json", NULL, "machine-readable output", TYPE_FLAG, FIELD(json), 0, 0, NULL, 0},
    {"*", 'q', "quiet", NULL, "errors only on standard error", TYPE_FLAG, FIELD(quiet), 0, 0, NULL,
     0},
    {"*", 'v', "verbose", NULL, "more on standard error; -vv even more", TYPE_COUNT, FIELD(verbose),
     0, 0, NULL, 0},
    {"*", 0, "log-level", "LEVEL", "none, error, warn, notice, info, debug or trace", TYPE_WORD,
     FIELD(log_level), 0, 0, "none|error|warn|notice|info|debug|trace", 0},
    {"*", 'h', "help", NULL, "this text", TYPE_FLAG, FIELD(help), 0, 0, NULL, 0},
};

static const struct options defaults = {
    .tokens = 128,
    .temp = 0.8,
    .top_k = 40,
    .top_p = 0.95,
    .min_p = 0.05,
    .repeat_penalty = 1.0,
    .repeat_last_n = 64,
    .seed = -1,
};

/* `words` holds `word` between separators. */
static bool has_word(const char *words, char separator, const char *word)
{
    struct dgl_str rest = dgl_str_of(words), part;
    while (dgl_str_split(&rest, separator, &part))
        if (dgl_str_eq(part, word))
            return true;
    return false;
}

static bool applies(const struct option *option, const struct command *command)
{
    return strcmp(option->commands, "*") == 0 || has_word(option->commands, ' ', command->name);
}

static const struct option *find(const struct command *command, const char *name, size_t len,
                                 char letter)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct option *o = &table[i];
        if (!applies(o, command))
            continue;
        if (letter ? o->letter == letter : strlen(o->name) == len && !strncmp(o->name, name, len))
            return o;
    }
    return NULL;
}

static bool bad_value(const struct option *o, const char *value)
{
    if (o->type == TYPE_DATE)
        console_error("--%s %s: wanted a date, 2025-06-15 or 2025-06-15T12:30:00", o->name, value);
    else if (o->type == TYPE_DEVICE)
        console_error("--%s '%s': wanted any, software, the path of a render node, or a row of "
                      "`dopplergl devices`",
                      o->name, value);
    else if (o->type == TYPE_WORD)
        console_error("--%s %s: wanted one of %s", o->name, value, o->words);
    else if (o->type == TYPE_F64)
        console_error("--%s %s: wanted a number from %g to %g", o->name, value, o->min, o->max);
    else
        console_error("--%s %s: wanted a whole number from %.0f to %.0f", o->name, value, o->min,
                      o->max);
    return false;
}

static bool store_number(const struct option *o, const char *value, void *field)
{
    int64_t whole;
    double real;
    struct dgl_str text = dgl_str_of(value);
    if (o->type == TYPE_F64) {
        if (!dgl_parse_f64(text, &real) || real < o->min || real > o->max)
            return bad_value(o, value);
        *(double *)field = real;
        return true;
    }
    if (!dgl_parse_i64(text, (int64_t)o->min, (int64_t)o->max, &whole))
        return bad_value(o, value);
    if (o->type == TYPE_I64)
        *(int64_t *)field = whole;
    else
        *(int32_t *)field = (int32_t)whole;
    return true;
}

static void write_error(void *priv, enum dgl_log_level level, const char *text)
{
    (void)priv;
    (void)level;
    console_error("%s", text);
}

static bool store(const struct option *o, const char *value, struct options *out)
{
    const struct dgl_log errors = {.write = write_error, .level = DGL_LOG_ERROR};
    void *field = (char *)out + o->offset;
    uint64_t row;
    if (o->given)
        *(bool *)((char *)out + o->given) = true;
    switch (o->type) {
    case TYPE_FLAG:
        *(bool *)field = true;
        return true;
    case TYPE_COUNT:
        ++*(int32_t *)field;
        return true;
    case TYPE_WORD:
        if (!has_word(o->words, '|', value))
            return bad_value(o, value);
        *(const char **)field = value;
        return true;
    case TYPE_STR:
        *(const char **)field = value;
        return true;
    case TYPE_DEVICE:
        *(const char **)field = value;
        /* Which devices there are is the library's to say. */
        return has_word("any|software", '|', value) || value[0] == '/' ||
               dgl_parse_u64(dgl_str_of(value), INT32_MAX, &row) || bad_value(o, value);
    case TYPE_HINTS:
        *(const char **)field = value;
        return dgl_kernels_check_hints(&errors, value) == DGL_OK;
    case TYPE_DATE:
        return dgl_parse_date(dgl_str_of(value), field) || bad_value(o, value);
    case TYPE_STRS: {
        struct option_strs *list = field;
        if (list->count == OPTIONS_MAX_STRS) {
            console_error("--%s may be given at most %d times", o->name, OPTIONS_MAX_STRS);
            return false;
        }
        list->item[list->count++] = value;
        return true;
    }
    default:
        return store_number(o, value, field);
    }
}

/* The walk over argv. */
struct cursor {
    const struct command *command;
    char **argv;
    int argc, at;
};

static bool unknown(const struct cursor *c, const char *arg)
{
    console_error("%s: unknown option %s; `dopplergl %s --help` lists what there is",
                  c->command->name, arg, c->command->name);
    return false;
}

static bool take(struct cursor *c, const struct option *o, const char *attached,
                 struct options *out)
{
    const char *value = attached;
    if (o->arg && !value) {
        if (c->at + 1 >= c->argc) {
            console_error("--%s needs a value: %s", o->name, o->arg);
            return false;
        }
        value = c->argv[++c->at];
    }
    if (!o->arg && value) {
        console_error("--%s takes no value, got %s", o->name, value);
        return false;
    }
    return store(o, value, out);
}

/* -n 5, -n5, and runs of flags: -qv. */
static bool parse_short(struct cursor *c, const char *arg, struct options *out)
{
    for (const char *p = arg + 1; *p; p++) {
        const struct option *o = find(c->command, NULL, 0, *p);
        if (!o)
            return unknown(c, arg);
        if (o->arg)
            return take(c, o, p[1] ? p + 1 : NULL, out);
        if (!take(c, o, NULL, out))
            return false;
    }
    return true;
}

bool options_parse(const struct command *command, int argc, char **argv, struct options *out)
{
    struct cursor c = {command, argv, argc, 0};
    bool plain = false;
    *out = defaults;
    for (; c.at < argc; c.at++) {
        const char *arg = argv[c.at];
        if (!plain && strcmp(arg, "--") == 0) {
            plain = true;
            continue;
        }
        if (plain || arg[0] != '-' || !arg[1]) {
            if (out->num_args == command->max_args) {
                console_error("%s: unexpected argument %s; usage: dopplergl %s %s", command->name,
                              arg, command->name, command->usage);
                return false;
            }
            out->arg[out->num_args++] = arg;
        } else if (arg[1] == '-') {
            const char *equals = strchr(arg, '=');
            size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
            const struct option *o = find(command, arg + 2, len - 2, 0);
            if (!(o ? take(&c, o, equals ? equals + 1 : NULL, out) : unknown(&c, arg)))
                return false;
        } else if (!parse_short(&c, arg, out)) {
            return false;
        }
    }
    if (!out->help && out->num_args < command->min_args) {
        console_error("%s: too few arguments; usage: dopplergl %s %s", command->name, command->name,
                      command->usage);
        return false;
    }
    return true;
}

/* ---- help ------------------------------------------------------------------------------------ */

void options_iterate(const struct command *command,
                     void (*cb)(void *priv, enum option_group group, const char *left,
                                const char *help),
                     void *priv)
{
    char left[80], letter[8];
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct option *o = &table[i];
        if (command && !applies(o, command))
            continue;
        letter[0] = '\0';
        if (o->letter)
            snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->arg ? " " : "",
                 o->arg ? o->arg : "");
        enum option_group group = strcmp(o->commands, "*") == 0      ? OPTION_COMMON
                                  : strcmp(o->commands, ENGINE) == 0 ? OPTION_KERNELS
                                                                     : OPTION_OWN;
        cb(priv, group, left, o->help);
    }
}
