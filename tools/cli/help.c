/* help and version: the tables of commands and options as text, as docs/cli.md and as JSON. */
#include <stdio.h>
#include <string.h>

#include "tools/cli/commands.h"
#include "tools/cli/console.h"
#include "tools/cli/options_table.h"
#include "tools/cli/report.h"

/* Width of the left column; longer options get a line of their own. */
#define LEFT 30

/* "-n, --n-predict N" */
static struct dgl_buf spell_option(const struct option *o)
{
    struct dgl_buf out = {0};
    if (o->letter)
        dgl_buf_printf(&out, "-%c, ", o->letter);
    dgl_buf_printf(&out, "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    if (out.failed)
        dgl_buf_finish(&out);
    return out;
}

/* A buffer to standard output. */
static void put_buf(struct dgl_buf *buf)
{
    if (buf->len)
        fwrite(buf->p, 1, buf->len, stdout);
    dgl_buf_finish(buf);
}

int help_about(const struct command *command)
{
    struct dgl_buf out = {0};
    const struct option *o;
    int examples = 0;
    dgl_buf_printf(&out, "usage: dopplergl %s", command->name);
    report_wrapped(&out, out.len, 11, command->usage);
    dgl_buf_printf(&out, "\n%s.\n\n", command->summary);
    const char *json = command_json_details(command);
    if (command->details && command->details != json) {
        struct dgl_buf before = {0};
        dgl_buf_append(&before, command->details,
                       json ? (size_t)(json - command->details) : strlen(command->details));
        dgl_buf_putc(&before, '\0');
        report_paragraphs(&out, before.p ? before.p : "");
        out.failed |= before.failed;
        dgl_buf_finish(&before);
        dgl_buf_putc(&out, '\n');
    }
    dgl_buf_puts(&out, "options:\n");
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (!option_is_for(o, command))
            continue;
        struct dgl_buf left = spell_option(o);
        if (left.len > LEFT)
            dgl_buf_printf(&out, "  %s\n  %-*s", left.p, LEFT, "");
        else
            dgl_buf_printf(&out, "  %-*s", LEFT, left.p ? left.p : o->name);
        report_wrapped(&out, LEFT + 2, LEFT + 3, o->help);
        dgl_buf_finish(&left);
    }
    for (const struct command_example *e = command_examples; e->line; e++)
        if (strncmp(e->line, command->name, strlen(command->name)) == 0 &&
            strchr(" ", e->line[strlen(command->name)])) {
            dgl_buf_puts(&out, examples++ ? "" : "\nexamples:\n");
            dgl_buf_printf(&out, "  dopplergl %s\n      %s\n", e->line, e->what);
        }
    if (json) {
        dgl_buf_putc(&out, '\n');
        report_paragraphs(&out, json);
    }
    return out_exit(out_buf(&out));
}

static void overview(void)
{
    printf("dopplergl %s: language models on OpenGL ES 3.1 compute\n\n"
           "usage: dopplergl COMMAND [options]\n\ncommands:\n",
           dgl_version());
    for (const struct command *c = commands; c->name; c++)
        printf("  %-12s %s\n", c->name, c->summary);
    printf("\n`dopplergl COMMAND --help` explains one.\n");
}

/* ---- docs/cli.md ----------------------------------------------------------------------------- */

/* "|" ends a cell, even in code. */
static void cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

/* Options of some commands, of all commands that run a model, and of all commands. */
enum group { GROUP_OWN, GROUP_KERNELS, GROUP_COMMON };

static enum group group_of(const struct option *o)
{
    return option_is_common(o) ? GROUP_COMMON : option_is_kernel(o) ? GROUP_KERNELS : GROUP_OWN;
}

/* Prints the options of one group as a table: those of one command, or of any command if it is
 * NULL. Returns false if there are none. */
static bool option_rows(const struct command *command, enum group group)
{
    const struct option *o;
    bool begun = false;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (group_of(o) != group || (command && !option_is_for(o, command)))
            continue;
        struct dgl_buf left = spell_option(o);
        if (!begun)
            printf("\n| option | meaning |\n| --- | --- |\n");
        begun = true;
        printf("| `");
        cell(left.p ? left.p : o->name);
        printf("` | ");
        cell(o->help);
        printf(" |\n");
        dgl_buf_finish(&left);
    }
    return begun;
}

static void command_section(const struct command *c)
{
    const struct option *o;
    bool kernels = false;
    struct dgl_buf details = {0};
    printf("\n## %s\n\n%s.\n\n```\n", c->name, c->summary);
    dgl_buf_printf(&details, "dopplergl %s", c->name);
    report_wrapped(&details, details.len, 4, c->usage);
    put_buf(&details);
    printf("```\n");
    if (c->details) {
        dgl_buf_putc(&details, '\n');
        report_paragraphs(&details, c->details);
        put_buf(&details);
    }
    option_rows(c, GROUP_OWN);
    for (size_t i = 0; (o = option_at(i)); i++)
        kernels |= option_is_kernel(o) && option_is_for(o, c);
    if (kernels)
        printf("\nAnd the options that choose kernels, above.\n");
}

/* Prints the flags of llama.cpp and Hugging Face with their meaning here. */
static void foreign_section(void)
{
    const struct foreign_option *f;
    struct dgl_buf text = {0};
    putchar('\n');
    report_paragraphs(
        &text,
        "## Flags of other programs\n\n"
        "This table lists the supported flags of llama.cpp and Hugging Face. If a flag has no "
        "effect, one line on standard error reports it, unless `-q` is given. A refused flag "
        "ends the command with exit code 2 and the advice below.");
    put_buf(&text);
    printf("\n| flag | of | here |\n| --- | --- | --- |\n");
    for (size_t i = 0; (f = foreign_option_at(i)); i++) {
        struct dgl_str rest = dgl_str_of(f->spellings), part;
        const char *between = "| ";
        while (dgl_str_split(&rest, ' ', &part)) {
            printf("%s`%.*s`", between, (int)part.len, part.p);
            between = " ";
        }
        printf(" | %s | ", f->commands);
        if (f->means)
            printf("`--%s`", f->means);
        else
            printf("%s", f->refused ? "refused: " : "no effect: ");
        cell(f->why ? f->why : "");
        printf(" |\n");
    }
}

void help_markdown(void)
{
    struct dgl_buf text = {0};
    printf("# Command line\n\n"
           "Made by `dopplergl help --markdown`; a test compares the two.\n\n"
           "Every command has these options. If a command opens no device, the options for the "
           "device have no effect:\n");
    option_rows(NULL, GROUP_COMMON);
    printf("\nCommands that run a model also take options that choose kernels "
           "([kernels.md](kernels.md)):\n");
    option_rows(NULL, GROUP_KERNELS);
    putchar('\n');
    report_paragraphs(
        &text,
        "A value is the next word, or follows `=` after a long name: `-n 5`, `--n-predict 5`, "
        "`--n-predict=5`, never `-n5`. Letters without values may share a dash: `-qv`. "
        "`--no-NAME` turns off a flag that the configuration file turns on.\n\n"
        "Exit codes:\n\n"
        "- 0: done\n\n"
        "- 1: a failure, or an error that shows only if the model, a file or the device is "
        "read\n\n"
        "- 2: an error in the command line itself, reported before any file or device is "
        "opened\n\n"
        "- 130: cancelled by SIGINT, SIGTERM or SIGHUP\n\n"
        "An error is one line on standard error that starts `dopplergl: error:`. Progress bars "
        "appear only on a terminal, after half a second, and have no colour if NO_COLOR is "
        "set.\n\n"
        "DopplerGL searches for the bundled model in the folder that DOPPLERGL_DATA names, in the "
        "build "
        "tree beside the executable, and in PREFIX/share/dopplergl. Compiled kernels are stored "
        "in XDG_CACHE_HOME/dopplergl. `org/name` is looked up in the Hub cache (models, below); "
        "files are never downloaded.\n\n"
        "## Settings\n\n"
        "If an option is not on the command line, its value comes from the first of these that "
        "has it:\n\n"
        "- the environment: DOPPLERGL_MODEL (`--model`) and DOPPLERGL_DEVICE (`--device`); for "
        "`serve` also DOPPLERGL_HOST, DOPPLERGL_PORT, DOPPLERGL_API_KEY and "
        "DOPPLERGL_API_KEY_FILE\n\n"
        "- the configuration file, `$XDG_CONFIG_HOME/dopplergl/config.json` or "
        "`~/.config/dopplergl/config.json`\n\n"
        "- the defaults on this page\n\n"
        "The configuration file is one JSON object:\n\n"
        "```json\n{\"device\": \"any\", \"model\": \"/data/models/qwen3-0.6b\", \"temp\": 0.6, "
        "\"verbose\": 1, \"stop\": [\"###\"]}\n```\n\n"
        "Its keys are the long names of options, for all commands that have them; values are "
        "strings, numbers, `true` and `false` for flags, lists for options that may be repeated. "
        "An unknown key, a wrong type and a value out of range are errors (exit code 1) that "
        "name the file and the key. Inputs and outputs of one call (`prompt file ids output "
        "texts messages shape`) are no settings. A path in the file is relative to the folder in "
        "which the command runs. `-v` lists the keys that were used.\n\n"
        "DOPPLERGL_KERNEL_DIR is one more `--kernel-dir`, with lower priority than those of the "
        "command line. `kernels.json` beside `config.json` contains kernel hints in the format "
        "of `--kernel-config`.\n");
    put_buf(&text);
    foreign_section();
    for (const struct command *c = commands; c->name; c++)
        command_section(c);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void option_json(struct dgl_json_writer *w, const struct option *o)
{
    static const char *const types[] = {
        [TYPE_FLAG] = "flag",   [TYPE_COUNT] = "count", [TYPE_STR] = "text",
        [TYPE_PATH] = "path",   [TYPE_STRS] = "texts",  [TYPE_PATHS] = "paths",
        [TYPE_I32] = "integer", [TYPE_I64] = "integer", [TYPE_F64] = "number",
        [TYPE_WORD] = "word",   [TYPE_QUANT] = "word",  [TYPE_IDS] = "ids",
        [TYPE_DATE] = "date",   [TYPE_HINTS] = "hints", [TYPE_DEVICE] = "device",
    };
    char letter[2] = {o->letter, '\0'};
    bool number = o->type == TYPE_I32 || o->type == TYPE_I64 || o->type == TYPE_F64;
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "name", o->name);
    dgl_jw_field_cstr(w, "letter", o->letter ? letter : NULL);
    dgl_jw_field_cstr(w, "argument", o->arg);
    dgl_jw_field_cstr(w, "type", types[o->type]);
    if (number) {
        dgl_jw_field_f64(w, "min", o->min);
        dgl_jw_field_f64(w, "max", o->max);
    }
    dgl_jw_field_cstr(w, "words", o->words);
    dgl_jw_field_cstr(w, "help", o->help);
    dgl_jw_end_object(w);
}

static bool help_json(void)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    const struct option *o;
    dgl_jw_array(&w);
    for (const struct command *c = commands; c->name; c++) {
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "name", c->name);
        dgl_jw_field_cstr(&w, "usage", c->usage);
        dgl_jw_field_cstr(&w, "summary", c->summary);
        dgl_jw_field_array(&w, "options");
        for (size_t i = 0; (o = option_at(i)); i++)
            if (option_is_for(o, c))
                option_json(&w, o);
        dgl_jw_end_array(&w);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

/* ---- commands -------------------------------------------------------------------------------- */

bool command_help_check(const struct options *opt)
{
    int forms = opt->markdown + opt->man + !!opt->completion + opt->json + (opt->num_args > 0);
    if (forms > 1)
        console_error("help: give one of COMMAND, --markdown, --man, --completion and --json");
    else if (opt->num_args > 0 && !command_find(opt->arg[0]))
        command_unknown(opt->arg[0]);
    else
        return true;
    return false;
}

int command_help(const struct options *opt)
{
    if (opt->num_args > 0)
        return help_about(command_find(opt->arg[0]));
    if (opt->json)
        return out_exit(help_json());
    if (opt->markdown)
        help_markdown();
    else if (opt->man)
        help_man();
    else if (opt->completion)
        help_completion(opt->completion);
    else
        overview();
    return out_exit(out_flush());
}

int command_version(const struct options *opt)
{
    if (opt->json)
        printf("{\"version\": \"%s\", \"api\": %d}\n", dgl_version(), DGL_API_VERSION);
    else
        printf("dopplergl %s (API %d)\n", dgl_version(), DGL_API_VERSION);
    return out_exit(out_flush());
}
