/* Completions for bash, zsh and fish, from the tables of commands and options. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/commands.h"
#include "tools/cli/options_table.h"

/* Text with a backslash before each character of `escaped`, and without code marks; `quote` is how
 * a single quote is written inside of single quotes. */
static void put(const char *text, const char *escaped, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs(quote, stdout);
        else if (strchr(escaped, *text))
            printf("\\%c", *text);
        else if (*text != '`')
            putchar(*text == '\n' ? ' ' : *text);
    }
}

/* "a|b" as "a b". */
static void put_words(const char *words)
{
    for (; *words; words++)
        putchar(*words == '|' ? ' ' : *words);
}

static bool is_path(const struct option *o)
{
    return o->type == TYPE_PATH || o->type == TYPE_PATHS;
}

/* The words that an argument may be, from the usage: those in small letters outside of brackets. */
static void put_argument_words(const struct command *c)
{
    struct dgl_str rest = dgl_str_of(c->usage), word;
    int depth = 0;
    while (dgl_str_split(&rest, ' ', &word)) {
        if (depth == 0 && word.len && word.p[0] >= 'a' && word.p[0] <= 'z')
            printf("%.*s ", (int)word.len, word.p);
        for (size_t i = 0; i < word.len; i++)
            depth +=
                (word.p[i] == '[' || word.p[i] == '(') - (word.p[i] == ']' || word.p[i] == ')');
    }
    if (c->run == command_help)
        for (const struct command *other = commands; other->name; other++)
            printf("%s ", other->name);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_values(const struct command *c)
{
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (!o->arg || !option_is_for(o, c))
            continue;
        printf("    '%s --%s'", c->name, o->name);
        if (o->letter)
            printf(" | '%s -%c'", c->name, o->letter);
        printf(") ");
        if (o->words) {
            printf("words='");
            put_words(o->words);
            printf("' ;;\n");
        } else if (o->type == TYPE_DEVICE) {
            printf("words='any software' files=1 ;;\n");
        } else {
            printf("%s ;;\n", is_path(o) ? "files=1" : "return");
        }
    }
}

static void bash(void)
{
    const struct option *o;
    printf("# Completions of dopplergl for bash, made by `dopplergl help --completion bash`.\n"
           "_dopplergl()\n{\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local command=${COMP_WORDS[1]} words='' files=''\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        command=''\n        words='");
    for (const struct command *c = commands; c->name; c++)
        printf("%s ", c->name);
    printf("'\n    fi\n    case \"$command $previous\" in\n");
    for (const struct command *c = commands; c->name; c++)
        bash_values(c);
    printf("    *)\n        case \"$command\" in\n");
    for (const struct command *c = commands; c->name; c++) {
        printf("        %s) files=1 words='", c->name);
        put_argument_words(c);
        printf("'\n            [ \"${current#-}\" = \"$current\" ] || words='");
        for (size_t i = 0; (o = option_at(i)); i++)
            if (option_is_for(o, c))
                printf("--%s ", o->name);
        printf("' ;;\n");
    }
    printf("        esac ;;\n    esac\n"
           "    [ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "    if [ -n \"$files\" ] && [ \"${#COMPREPLY[@]}\" -eq 0 ]; then\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        COMPREPLY=($(compgen -f -- \"$current\"))\n    fi\n}\n"
           "complete -F _dopplergl dopplergl\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

#define ZSH_QUOTE "'\\''"

static void zsh_option(const struct option *o)
{
    bool again = o->type == TYPE_STRS || o->type == TYPE_PATHS || o->type == TYPE_COUNT;
    const char *equals = o->arg ? "=" : "";
    printf("            ");
    if (o->letter && again)
        printf("'*'{-%c,--%s%s}", o->letter, o->name, equals);
    else if (o->letter)
        printf("'(-%c --%s)'{-%c,--%s%s}", o->letter, o->name, o->letter, o->name, equals);
    else
        printf("'%s--%s%s'", again ? "*" : "", o->name, equals);
    printf("'[");
    put(o->help, "[]:\\", ZSH_QUOTE);
    printf("]");
    if (o->arg) {
        printf(":");
        put(o->arg, "[]:\\", ZSH_QUOTE);
        printf(":");
        if (o->words) {
            printf("(");
            put_words(o->words);
            printf(")");
        } else if (o->type == TYPE_DEVICE) {
            printf("(any software)");
        } else if (is_path(o)) {
            printf("_files");
        }
    }
    printf("' \\\n");
}

static void zsh(void)
{
    const struct option *o;
    printf("#compdef dopplergl\n"
           "# Completions of dopplergl for zsh, made by `dopplergl help --completion zsh`.\n"
           "_dopplergl()\n{\n    local command\n    local -a commands\n    commands=(\n");
    for (const struct command *c = commands; c->name; c++) {
        printf("        '%s:", c->name);
        put(c->summary, ":\\", ZSH_QUOTE);
        printf("'\n");
    }
    printf("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
           "        return\n    fi\n    command=$words[2]\n    shift words\n    ((CURRENT--))\n"
           "    case $command in\n");
    for (const struct command *c = commands; c->name; c++) {
        printf("    %s)\n        _arguments \\\n", c->name);
        for (size_t i = 0; (o = option_at(i)); i++)
            if (option_is_for(o, c))
                zsh_option(o);
        printf("            '*:argument:{compadd -- ");
        put_argument_words(c);
        printf("; _files}'\n        ;;\n");
    }
    printf("    esac\n}\n_dopplergl \"$@\"\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_option(const struct option *o, const struct command *c)
{
    if (c)
        printf("complete -c dopplergl -n '__fish_seen_subcommand_from %s'", c->name);
    else
        printf("complete -c dopplergl -n 'not __fish_use_subcommand'");
    if (o->letter)
        printf(" -s %c", o->letter);
    printf(" -l %s", o->name);
    if (o->arg)
        printf(is_path(o) ? " -r -F" : " -x");
    if (o->words || o->type == TYPE_DEVICE) {
        printf(" -a '");
        put_words(o->words ? o->words : "any|software");
        printf("'");
    }
    printf(" -d '");
    put(o->help, "\\", "\\'");
    printf("'\n");
}

static void fish(void)
{
    const struct option *o;
    printf("# Completions of dopplergl for fish, made by `dopplergl help --completion fish`.\n");
    for (const struct command *c = commands; c->name; c++) {
        printf("complete -c dopplergl -n __fish_use_subcommand -f -a %s -d '", c->name);
        put(c->summary, "\\", "\\'");
        printf("'\n");
    }
    for (size_t i = 0; (o = option_at(i)); i++)
        if (option_is_common(o))
            fish_option(o, NULL);
    for (const struct command *c = commands; c->name; c++) {
        printf("complete -c dopplergl -n '__fish_seen_subcommand_from %s' -a '", c->name);
        put_argument_words(c);
        printf("'\n");
        for (size_t i = 0; (o = option_at(i)); i++)
            if (!option_is_common(o) && option_is_for(o, c))
                fish_option(o, c);
    }
}

void help_completion(const char *shell)
{
    if (strcmp(shell, "bash") == 0) {
        bash();
    } else if (strcmp(shell, "zsh") == 0) {
        zsh();
    } else {
        assert(strcmp(shell, "fish") == 0);
        fish();
    }
}
