/* Options that the command line leaves open: from the environment and the configuration file.
 *
 * Every key of the file is checked, also those that the running command does not have: a misspelt
 * key would otherwise be found by the one command that needs it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/nearest.h"
#include "tools/cli/commands.h"
#include "tools/cli/console.h"
#include "tools/cli/options_table.h"

#define MAX_CONFIG ((size_t)1 << 20)

/* Inputs and outputs of one call, which are no settings. */
static const char calls[] =
    "prompt file ids output texts messages shape help markdown man completion";

/* A value of the file or the environment gives way to any of these on the command line. */
static const struct {
    const char *name, *others;
} alternatives[] = {
    {"model", "shape"},
    {"q4k-matmul", "force-fused-q4k"},
    {"force-fused-q4k", "q4k-matmul"},
    {"json", "csv"},
    {"csv", "json"},
    {"system", "messages"},
    {"template", "template-name"},
    {"template-name", "template"},
    {"quiet", "verbose log-level"},
    {"verbose", "quiet log-level"},
    {"log-level", "quiet verbose"},
};

struct defaults {
    const struct command *command;
    struct options *opt;
    struct console console;
    const char *path; /* of the file */
};

/* Returns true if a source of lower rank may still set the option. */
static bool is_open(const struct defaults *d, const struct option *o)
{
    if (option_source(o, d->opt) != OPTION_DEFAULT)
        return false;
    for (size_t i = 0; i < sizeof(alternatives) / sizeof(alternatives[0]); i++) {
        struct dgl_str rest = dgl_str_of(alternatives[i].others), name;
        while (strcmp(alternatives[i].name, o->name) == 0 && dgl_str_split(&rest, ' ', &name)) {
            const struct option *other = option_named(d->command, name);
            if (other && option_source(other, d->opt) == OPTION_FROM_COMMAND_LINE)
                return false;
        }
    }
    return true;
}

/* ---- environment ----------------------------------------------------------------------------- */

/* DOPPLERGL_KERNEL_DIR: a layer below the directories of the command line, not instead of them. */
static bool add_kernel_dir(struct defaults *d)
{
    const char *value = getenv("DOPPLERGL_KERNEL_DIR");
    const struct option *o = option_named(d->command, DGL_STR("kernel-dir"));
    struct option_strs *dirs = &d->opt->kernel_dir;
    if (!value || !value[0] || !o)
        return true;
    if (!option_store(o, "DOPPLERGL_KERNEL_DIR", value, d->opt))
        return false;
    memmove(&dirs->item[1], &dirs->item[0], (dirs->count - 1) * sizeof(dirs->item[0]));
    dirs->item[0] = value;
    if (option_source(o, d->opt) == OPTION_DEFAULT)
        option_set_source(o, OPTION_FROM_ENVIRONMENT, d->opt);
    return true;
}

static const struct {
    const char *variable, *option;
    bool secret; /* its value is never printed */
} from_environment[] = {
    {"DOPPLERGL_MODEL", "model", false},    {"DOPPLERGL_DEVICE", "device", false},
    {"DOPPLERGL_HOST", "host", false},      {"DOPPLERGL_PORT", "port", false},
    {"DOPPLERGL_API_KEY", "api-key", true}, {"DOPPLERGL_API_KEY_FILE", "api-key-file", false}};
enum { NUM_FROM_ENVIRONMENT = sizeof(from_environment) / sizeof(from_environment[0]) };

static bool add_environment(struct defaults *d)
{
    for (size_t i = 0; i < NUM_FROM_ENVIRONMENT; i++) {
        const char *value = getenv(from_environment[i].variable);
        const struct option *o = option_named(d->command, dgl_str_of(from_environment[i].option));
        if (!value || !value[0] || !o || !is_open(d, o))
            continue;
        if (!option_store(o, from_environment[i].variable, value, d->opt))
            return false;
        option_set_source(o, OPTION_FROM_ENVIRONMENT, d->opt);
    }
    return add_kernel_dir(d);
}

void options_tell_environment(const struct command *command, const struct options *opt, bool device)
{
    struct console console;
    const char *dir = getenv("DOPPLERGL_KERNEL_DIR");
    console_init(&console, opt);
    for (size_t i = 0; i < NUM_FROM_ENVIRONMENT; i++) {
        const struct option *o = option_named(command, dgl_str_of(from_environment[i].option));
        if (!o || option_source(o, opt) != OPTION_FROM_ENVIRONMENT ||
            (!device && strcmp(o->name, "device") == 0))
            continue;
        if (from_environment[i].secret)
            dgl_notice(&console.log, "--%s is by %s", o->name, from_environment[i].variable);
        else
            dgl_notice(&console.log, "--%s is '%s' by %s", o->name,
                       getenv(from_environment[i].variable), from_environment[i].variable);
    }
    if (dir && dir[0] && option_named(command, DGL_STR("kernel-dir")))
        dgl_notice(&console.log, "--kernel-dir has '%s' by DOPPLERGL_KERNEL_DIR", dir);
}

/* ---- configuration file ---------------------------------------------------------------------- */

static bool fail_type(const struct defaults *d, const struct option *o,
                      const struct dgl_json *value, const char *wanted)
{
    return console_refuse("%s: %s is %s, wanted %s", d->path, o->name,
                          dgl_json_type_name(dgl_json_type(value)), wanted);
}

/* The text of a string, borrowed from the document. */
static bool store_text(const struct defaults *d, const struct option *o,
                       const struct dgl_json *value, const char *wanted, struct options *out)
{
    char origin[512];
    if (!dgl_json_is(value, DGL_JSON_STRING))
        return fail_type(d, o, value, wanted);
    struct dgl_str text = dgl_json_str(value);
    if (memchr(text.p, '\0', text.len))
        return console_refuse("%s: %s has a U+0000, which no option can hold", d->path, o->name);
    snprintf(origin, sizeof(origin), "%s: %s", d->path, o->name);
    return option_store(o, origin, text.p, out);
}

static bool store_number(const struct defaults *d, const struct option *o,
                         const struct dgl_json *value, struct options *out)
{
    char origin[512];
    struct dgl_buf text = {0};
    int64_t whole;
    if (!dgl_json_is(value, DGL_JSON_NUMBER))
        return fail_type(d, o, value, "a number");
    snprintf(origin, sizeof(origin), "%s: %s", d->path, o->name);
    if (dgl_json_i64(value, &whole))
        dgl_buf_printf(&text, "%lld", (long long)whole);
    else
        dgl_buf_f64(&text, dgl_json_f64(value));
    bool ok = !text.failed;
    if (!ok)
        console_error("out of memory for %s", origin);
    else
        ok = option_store(o, origin, text.p, out);
    dgl_buf_finish(&text);
    return ok;
}

/* Kernel hints may be an object, as in --kernel-config, or its text. */
static bool store_hints(const struct defaults *d, const struct option *o,
                        const struct dgl_json *value, struct options *out)
{
    char origin[512];
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    if (!dgl_json_is(value, DGL_JSON_OBJECT))
        return store_text(d, o, value, "an object", out);
    snprintf(origin, sizeof(origin), "%s: %s", d->path, o->name);
    dgl_jw_value(&w, value);
    free(out->config_hints);
    out->config_hints = dgl_buf_take(&text);
    if (out->config_hints)
        return option_store(o, origin, out->config_hints, out);
    return console_refuse("out of memory for %s", origin);
}

static bool store_value(const struct defaults *d, const struct option *o,
                        const struct dgl_json *value, struct options *out)
{
    int64_t count;
    switch (o->type) {
    case TYPE_FLAG:
        if (!dgl_json_is(value, DGL_JSON_BOOL))
            return fail_type(d, o, value, "true or false");
        option_set_flag(o, dgl_json_bool(value), out);
        return true;
    case TYPE_COUNT: /* -v three times is the most that makes a difference */
        if (!dgl_json_i64(value, &count) || count < 0 || count > 3)
            return console_refuse("%s: %s is not a whole number from 0 to 3", d->path, o->name);
        for (; count > 0; count--)
            option_store(o, NULL, NULL, out);
        return true;
    case TYPE_I32:
    case TYPE_I64:
    case TYPE_F64:
        return store_number(d, o, value, out);
    case TYPE_HINTS:
        return store_hints(d, o, value, out);
    case TYPE_STRS:
    case TYPE_PATHS:
        if (!dgl_json_is(value, DGL_JSON_ARRAY))
            return store_text(d, o, value, "a string or a list of strings", out);
        for (const struct dgl_json *v = dgl_json_first(value); v; v = dgl_json_next(v))
            if (!store_text(d, o, v, "a list of strings", out))
                return false;
        return true;
    default:
        return store_text(d, o, value, "a string", out);
    }
}

static bool unknown_key(const struct defaults *d, struct dgl_str key)
{
    struct dgl_nearest nearest = {.word = key};
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++)
        dgl_nearest_try(&nearest, o->name);
    return console_refuse(
        "%s: there is no option %s%s%s%s; keys are the long options of `dopplergl "
        "COMMAND --help` without dashes",
        d->path, DGL_PRINTABLE_STR(key), nearest.best ? "; did you mean " : "",
        nearest.best ? nearest.best : "", nearest.best ? "?" : "");
}

/* The row of this command, else that of any: its values are checked alike. */
static const struct option *row_of(const struct command *command, struct dgl_str key)
{
    const struct option *o = option_named(command, key);
    for (const struct command *c = commands; !o && c->name; c++)
        o = option_named(c, key);
    return o;
}

static bool add_key(struct defaults *d, const struct dgl_json *value)
{
    struct dgl_str key = dgl_json_key(value);
    const struct option *o = row_of(d->command, key);
    bool known = o != NULL && option_is_for(o, d->command);
    if (!o)
        return unknown_key(d, key);
    if (option_has_word(DGL_STR(calls), ' ', key))
        return console_refuse("%s: %s belongs to one call, it cannot be a setting", d->path,
                              o->name);
    if (known && is_open(d, o)) {
        option_set_source(o, OPTION_FROM_CONFIG, d->opt);
        return store_value(d, o, value, d->opt);
    }
    /* Checked and not used. */
    struct options scratch = {0};
    bool ok = store_value(d, o, value, &scratch);
    free(scratch.config_hints);
    return ok;
}

static bool add_file(struct defaults *d)
{
    enum dgl_status status = dgl_json_load(&d->console.log, d->path, MAX_CONFIG, &d->opt->config);
    if (status != DGL_OK)
        return false;
    const struct dgl_json *root = dgl_json_root(d->opt->config);
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        return console_refuse("%s: is %s, wanted an object: {\"device\": \"any\"}", d->path,
                              dgl_json_type_name(dgl_json_type(root)));
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v))
        if (!add_key(d, v))
            return false;
    console_init(&d->console, d->opt);
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        const struct option *o = row_of(d->command, dgl_json_key(v));
        if (o && option_is_for(o, d->command) && option_source(o, d->opt) == OPTION_FROM_CONFIG)
            dgl_info(&d->console.log, "%s: %s", d->path, o->name);
    }
    return true;
}

/* Finds a file among the settings. The path is empty if there is no folder for settings. Returns
 * false after an error line that names the file as `what`. */
static bool find_file(const struct defaults *d, const char *name, const char *what,
                      struct dgl_buf *path, bool *exists)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    struct stat info;
    if (config && config[0] == '/')
        dgl_buf_printf(path, "%s/dopplergl/%s", config, name);
    else if (home && home[0] == '/')
        dgl_buf_printf(path, "%s/.config/dopplergl/%s", home, name);
    if (path->failed)
        return console_refuse("out of memory for the path of %s", what);
    *exists = path->len && lstat(path->p, &info) == 0;
    if (path->len && !*exists && errno != ENOENT && errno != ENOTDIR)
        dgl_warn(&d->console.log, "%s is not used: %s", path->p, strerror(errno));
    return true;
}

/* Kernel hints of the user for every call. They are read with the kernels, which then report a
 * broken link. */
static bool add_user_kernels(struct defaults *d)
{
    struct dgl_buf path = {0};
    bool exists;
    if (!option_named(d->command, DGL_STR("kernel-config")))
        return true;
    const bool ok = find_file(d, "kernels.json", "kernels.json", &path, &exists);
    if (ok && path.len)
        d->opt->user_kernels_path = dgl_buf_take(&path);
    d->opt->user_kernels = ok && exists ? d->opt->user_kernels_path : NULL;
    dgl_buf_finish(&path);
    return ok;
}

/* The XDG specification ignores relative paths, but the user meant something by them. */
static void warn_relative(const struct defaults *d)
{
    static const char *const variables[] = {"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
                                            "XDG_STATE_HOME"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);
        if (value && value[0] && value[0] != '/')
            dgl_warn(&d->console.log, "%s is not used: '%s' is no absolute path", variables[i],
                     DGL_PRINTABLE(value));
    }
}

bool options_add_defaults(const struct command *command, struct options *out)
{
    struct defaults d = {.command = command, .opt = out};
    struct dgl_buf path = {0};
    bool exists = false;
    console_init(&d.console, out);
    warn_relative(&d);
    bool ok = add_environment(&d) && add_user_kernels(&d) &&
              find_file(&d, "config.json", "the configuration file", &path, &exists);
    d.path = path.p;
    if (ok && exists)
        ok = add_file(&d);
    dgl_buf_finish(&path);
    return ok;
}

void options_finish(struct options *opt)
{
    dgl_json_destroy(&opt->config);
    free(opt->config_hints);
    free(opt->user_kernels_path);
}
