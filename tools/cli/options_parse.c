/* Options of the command line: values, spellings, and the error line. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/clock.h"
#include "core/base/nearest.h"
#include "tools/cli/commands.h"
#include "tools/cli/console.h"
#include "tools/cli/input.h"
#include "tools/cli/options_table.h"

static const struct options defaults = {
    .tokens = 128,
    .temp = 0.8,
    .top_k = 40,
    .top_p = 0.95,
    .min_p = 0.05,
    .repeat_penalty = 1.0,
    .repeat_last_n = 64,
    .port = 8080,
    .timeout = 600,
    .max_body = 8 << 20,
    .max_connections = 512,
    .drain_timeout = 30,
    .sse_ping_interval = 10,
    .typical_p = 1,
    .xtc_threshold = 0.1,
    .dry_base = 1.75,
    .dry_allowed_length = 2,
    .dry_penalty_last_n = -1,
    .seed = -1,
    .batch = 1,
    .warmup = 1,
    .rate = 1,
    .duration = 30,
    .connections = 256,
    .prompt_lengths = "128",
    .answer_lengths = "64",
    .slo_ttft = 1000,
    .slo_itl = 100,
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Names our option if the number was probably meant for the flag of another program. */
static const char *meant_elsewhere(const struct option *o)
{
    const bool of_bench = option_has_word(dgl_str_of(o->commands), ' ', DGL_STR("bench"));
    return of_bench && strcmp(o->name, "batch") == 0 ? "; prefill tokens per pass are --ubatch"
                                                     : "";
}

static bool bad_value(const struct option *o, const char *origin, const char *value)
{
    if (o->type == TYPE_DATE)
        return console_refuse("%s %s: wanted a date, 2025-06-15 or 2025-06-15T12:30:00", origin,
                              value);
    if (o->type == TYPE_DEVICE)
        return console_refuse(
            "%s '%s': wanted any, software, the path of a render node, or a row of "
            "`dopplergl devices`",
            origin, value);
    if (o->type == TYPE_PATH || o->type == TYPE_PATHS)
        return console_refuse("%s '': wanted %s, which cannot be empty", origin, o->arg);
    if (o->type == TYPE_WORD)
        return console_refuse("%s %s: wanted one of %s", origin, value, o->words);
    if (o->type == TYPE_F64)
        return console_refuse("%s %s: wanted a number from %g to %g", origin, value, o->min,
                              o->max);
    return console_refuse("%s %s: wanted a whole number from %.0f to %.0f%s", origin, value, o->min,
                          o->max, meant_elsewhere(o));
}

static bool store_number(const struct option *o, const char *origin, const char *value, void *field)
{
    int64_t whole;
    double real;
    struct dgl_str text = dgl_str_of(value);
    if (o->type == TYPE_F64) {
        if (!dgl_parse_f64(text, &real) || real < o->min || real > o->max)
            return bad_value(o, origin, value);
        *(double *)field = real;
        return true;
    }
    if (!dgl_parse_i64(text, (int64_t)o->min, (int64_t)o->max, &whole))
        return bad_value(o, origin, value);
    if (o->type == TYPE_I64)
        *(int64_t *)field = whole;
    else
        *(int32_t *)field = (int32_t)whole;
    return true;
}

void option_set_flag(const struct option *o, bool value, struct options *out)
{
    void *field = (char *)out + o->offset;
    if (o->type == TYPE_COUNT)
        *(int32_t *)field = value;
    else
        *(bool *)field = value;
}

bool option_store(const struct option *o, const char *origin, const char *value,
                  struct options *out)
{
    static const char hints[] = "--kernel-hints";
    struct dgl_error error = {""};
    void *field = (char *)out + o->offset;
    uint64_t row;
    bool named;
    if (o->given)
        *(bool *)((char *)out + o->given) = true;
    switch (o->type) {
    case TYPE_FLAG:
        option_set_flag(o, true, out);
        return true;
    case TYPE_COUNT:
        ++*(int32_t *)field;
        return true;
    case TYPE_WORD:
        *(const char **)field = value;
        return option_has_word(dgl_str_of(o->words), '|', dgl_str_of(value)) ||
               bad_value(o, origin, value);
    case TYPE_QUANT: /* dgl_convert_check() refuses unknown types */
    case TYPE_STR:
        *(const char **)field = value;
        return true;
    case TYPE_PATH:
        *(const char **)field = value;
        return value[0] || bad_value(o, origin, value);
    case TYPE_IDS:
        *(const char **)field = value;
        return ids_are_numbers(origin, value);
    case TYPE_DEVICE:
        *(const char **)field = value;
        /* The library checks whether the device exists. */
        return option_has_word(DGL_STR("any|software"), '|', dgl_str_of(value)) ||
               value[0] == '/' || dgl_parse_u64(dgl_str_of(value), INT32_MAX, &row) ||
               bad_value(o, origin, value);
    case TYPE_HINTS:
        *(const char **)field = value;
        if (dgl_kernels_check_hints(&(const struct dgl_log){.error = &error}, value) == DGL_OK)
            return true;
        /* The library names the flag; `origin` may also be a file of settings. */
        named = dgl_str_starts(dgl_str_of(error.text), hints);
        return console_refuse("%s%s%s", origin, named ? "" : ": ",
                              error.text + (named ? strlen(hints) : 0));
    case TYPE_DATE:
        return dgl_parse_date(dgl_str_of(value), field) || bad_value(o, origin, value);
    case TYPE_STRS:
    case TYPE_PATHS: {
        struct option_strs *list = field;
        if (o->type == TYPE_PATHS && !value[0])
            return bad_value(o, origin, value);
        if (list->count == OPTIONS_MAX_STRS)
            return console_refuse("%s may be given at most %d times", origin, OPTIONS_MAX_STRS);
        list->item[list->count++] = value;
        return true;
    }
    default:
        return store_number(o, origin, value, field);
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* The walk over argv. */
struct cursor {
    const struct command *command;
    char **argv;
    int argc, at;
};

/* A letter that takes a value with the value in one word, -n5: never taken apart, since -ngl and
 * -cnv would be -n gl and -c nv. */
static bool is_attached(const struct cursor *c, const char *arg)
{
    const struct option *o = option_lettered(c->command, arg[1]);
    return o && o->arg && arg[2] && strchr("0123456789-=", arg[2]);
}

/* Returns the command that has an option of that name, or NULL. */
static const struct command *owner_of(struct dgl_str name)
{
    for (const struct command *other = commands; other->name; other++)
        if (option_named(other, name))
            return other;
    return NULL;
}

static bool unknown(const struct cursor *c, const char *arg)
{
    struct dgl_str word = {arg, strcspn(arg, "=")};
    struct dgl_str bare = {arg + strspn(arg, "-"), word.len - strspn(arg, "-")};
    const struct command *owner = owner_of(bare);
    struct dgl_buf hint = {0};
    struct dgl_nearest nearest = {.word = bare};
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++)
        if (option_is_for(o, c->command))
            dgl_nearest_try(&nearest, o->name);
    if (is_attached(c, arg))
        dgl_buf_printf(&hint, "; did you mean -%c %s?", arg[1], arg + 2 + (arg[2] == '='));
    else if (nearest.best)
        dgl_buf_printf(&hint, "; did you mean --%s?", nearest.best);
    else if (owner)
        dgl_buf_printf(&hint, "; it is an option of %s;", owner->name);
    console_error("%s: unknown option %s%s `dopplergl %s --help` lists the options",
                  c->command->name, arg, hint.p ? hint.p : ";", c->command->name);
    dgl_buf_finish(&hint);
    return false;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* `attached` is the text after "=", or NULL. `foreign` is the spelling of another program, with its
 * dashes, or empty if the option is ours. */
static bool take(struct cursor *c, const struct option *o, struct dgl_str foreign,
                 const char *attached, struct options *out)
{
    const char *value = attached;
    char origin[80];
    if (foreign.len)
        snprintf(origin, sizeof(origin), "%.*s", (int)foreign.len, foreign.p);
    else
        snprintf(origin, sizeof(origin), "--%s", o->name);
    if (o->arg && !value) {
        if (c->at + 1 >= c->argc)
            return console_refuse("%s needs a value: %s", origin, o->arg);
        value = c->argv[++c->at];
    }
    if (!o->arg && value)
        return console_refuse("%s takes no value, got %s", origin, value);
    option_set_source(o, OPTION_FROM_COMMAND_LINE, out);
    return option_store(o, origin, value, out);
}

/* A flag of another program. */
static bool take_foreign(struct cursor *c, const struct foreign_option *f, struct dgl_str spelled,
                         const char *attached, struct options *out)
{
    if (f->means)
        return take(c, option_named(c->command, dgl_str_of(f->means)), spelled, attached, out);
    if (f->refused)
        return console_refuse("%s: %.*s: %s", c->command->name, (int)spelled.len, spelled.p,
                              f->why);
    const char *next = c->at + 1 < c->argc ? c->argv[c->at + 1] : NULL;
    bool optional = f->arg && f->arg[0] == '[';
    if (attached && !f->arg)
        return console_refuse("%.*s takes no value, got %s", (int)spelled.len, spelled.p, attached);
    if (f->arg && !optional && !attached && !next)
        return console_refuse("%.*s needs a value: %s", (int)spelled.len, spelled.p, f->arg);
    struct dgl_str words = dgl_str_of(f->arg);
    if (optional)
        words = (struct dgl_str){words.p + 1, words.len - 2};
    if (f->arg && !attached &&
        (!optional || (next && option_has_word(words, '|', dgl_str_of(next)))))
        c->at++;
    for (int i = 0; i < out->num_notes; i++)
        if (out->note[i] == f)
            return true;
    if (out->num_notes < OPTIONS_MAX_NOTES) {
        out->note[out->num_notes] = f;
        out->note_spelling[out->num_notes++] = spelled.p;
    }
    return true;
}

/* Parses -q, and runs of flags such as -qv. A letter with a value must be alone. */
static bool take_letters(struct cursor *c, const char *arg, struct options *out)
{
    for (const char *p = arg + 1; *p; p++) {
        const struct option *o = option_lettered(c->command, *p);
        if (!o || (o->arg && strlen(arg) > 2))
            return unknown(c, arg);
    }
    for (const char *p = arg + 1; *p; p++) {
        if (!take(c, option_lettered(c->command, *p), DGL_STR(""), NULL, out))
            return false;
    }
    return true;
}

static bool take_option(struct cursor *c, const char *arg, struct options *out)
{
    struct dgl_str word = {arg, strcspn(arg, "=")};
    const char *attached = arg[word.len] ? arg + word.len + 1 : NULL;
    const struct foreign_option *f = foreign_option_spelled(c->command, word);
    if (f)
        return take_foreign(c, f, word, attached, out);
    if (arg[1] != '-')
        return take_letters(c, arg, out);
    const struct option *o = option_named(c->command, (struct dgl_str){word.p + 2, word.len - 2});
    if (o)
        return take(c, o, DGL_STR(""), attached, out);
    /* --no-json undoes `"json": true` of the configuration file. */
    o = dgl_str_starts(word, "--no-")
            ? option_named(c->command, (struct dgl_str){word.p + 5, word.len - 5})
            : NULL;
    if (!o || (o->type != TYPE_FLAG && o->type != TYPE_COUNT) || attached)
        return unknown(c, arg);
    option_set_flag(o, false, out);
    option_set_source(o, OPTION_FROM_COMMAND_LINE, out);
    return true;
}

/* Stores an argument that replaces an option: `generate TEXT` is `generate -p TEXT`. */
static bool take_argument_as_option(const struct command *command, struct options *out)
{
    const struct option *o = option_named(command, dgl_str_of(command->arg_means));
    assert(o && command->max_args == 1);
    if (option_source(o, out) == OPTION_FROM_COMMAND_LINE)
        return console_refuse("%s: name one %s: '%s' or --%s", command->name, o->name, out->arg[0],
                              o->name);
    option_set_source(o, OPTION_FROM_COMMAND_LINE, out);
    return option_store(o, command->name, out->arg[0], out);
}

bool options_are_used(const struct options *opt, const char *command, const char *form,
                      const char *names)
{
    struct dgl_str rest = dgl_str_of(names), name;
    while (dgl_str_split(&rest, ' ', &name)) {
        const struct option *o = option_named(command_find(command), name);
        /* Without a model there are no keys to correct. */
        if (dgl_str_eq(name, "model") && !options_are_used(opt, command, form, "override-kv"))
            return false;
        if (o && option_source(o, opt) == OPTION_FROM_COMMAND_LINE)
            return console_refuse("--%s does nothing for `%s`", o->name, form);
    }
    return true;
}

bool options_parse(const struct command *command, int argc, char **argv, struct options *out)
{
    struct cursor c = {command, argv, argc, 0};
    bool plain = false;
    *out = defaults;
    out->argv = argv;
    out->argc = argc;
    for (; c.at < argc; c.at++) {
        const char *arg = argv[c.at];
        if (!plain && strcmp(arg, "--") == 0) {
            plain = true;
        } else if (!plain && arg[0] == '-' && arg[1]) {
            if (!take_option(&c, arg, out))
                return false;
        } else if (out->num_args == command->max_args) {
            return console_refuse("%s: unexpected argument %s; usage: dopplergl %s %s",
                                  command->name, arg, command->name, command->usage);
        } else {
            out->arg[out->num_args++] = arg;
        }
    }
    if (out->help)
        return true;
    if (out->num_args < command->min_args)
        return console_refuse("%s: too few arguments; usage: dopplergl %s %s", command->name,
                              command->name, command->usage);
    if (command->arg_means && out->num_args > 0 && !take_argument_as_option(command, out))
        return false;
    if (out->force_fused_q4k && out->q4k_matmul && strcmp(out->q4k_matmul, "fused_q4k") != 0)
        return console_refuse("--force-fused-q4k and --q4k-matmul %s contradict each other",
                              out->q4k_matmul);
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    if (dgl_override_kv_check(&log, out->override_kv.item) != DGL_OK)
        return console_refuse("--%s", why.text);
    return !command->check || command->check(out);
}
