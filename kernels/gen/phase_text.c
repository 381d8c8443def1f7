/* Rewrites the text of a kernel or lib as part of a larger program. Names of file scope get a
 * prefix. Elements of buffers and of shared memory become elements of larger ones. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/format/kernel_lexer.h"
#include "kernels/phases.h"

#define MAX_NESTING 64 /* nested brackets of elements */

const struct phase_name *phase_names_find(const struct phase_names *names, struct dgl_str word)
{
    for (size_t i = 0; i < names->count; i++)
        if (dgl_str_equal(names->names[i].name, word))
            return &names->names[i];
    return NULL;
}

void phase_names_add(struct phase_names *names, struct phase_name name)
{
    if (phase_names_find(names, name.name))
        return;
    if (!dgl_grow((void **)&names->names, &names->cap, names->count + 1, sizeof(name)))
        names->failed = true;
    else
        names->names[names->count++] = name;
}

void phase_names_finish(struct phase_names *names)
{
    free(names->names);
    *names = (struct phase_names){0};
}

static bool is_mark(const struct kernel_token *token, const char *marks)
{
    return token->kind == TOKEN_MARK && strchr(marks, token->text.p[0]);
}

/* Moves a part of the lexer's copy of the text to the same part of the text. */
static void relocate(const struct kernel_lexer *lexer, struct dgl_str text, struct dgl_str *part)
{
    size_t at = 0;
    if (!part->len || part->p < lexer->start || part->p >= lexer->end)
        return;
    while (at + part->len <= text.len && memcmp(text.p + at, part->p, part->len) != 0)
        at++;
    part->len = at + part->len <= text.len ? part->len : 0;
    part->p = text.p + at;
}

/* Returns the text up to the closing bracket. */
static struct dgl_str until_bracket(struct kernel_lexer lexer)
{
    struct kernel_token token = kernel_lexer_next(&lexer);
    const char *start = token.text.p;
    for (int depth = 1; token.kind != TOKEN_END; token = kernel_lexer_next(&lexer)) {
        depth += is_mark(&token, "[") - is_mark(&token, "]");
        if (depth == 0)
            break;
    }
    return (struct dgl_str){start, (size_t)(token.text.p - start)};
}

void phase_names_scan(struct phase_names *names, struct dgl_str text)
{
    struct kernel_lexer lexer;
    struct kernel_token before = {.kind = TOKEN_NEWLINE}, token;
    struct dgl_str type = {0}; /* of the list of declarations at hand */
    int depth = 0;             /* of brackets of all kinds */
    int conditions = 0;        /* open #if */
    bool directive = false, constant = false;
    if (!kernel_lexer_init(&lexer, text, 1)) {
        names->failed = true;
        return;
    }
    for (token = kernel_lexer_next(&lexer); token.kind != TOKEN_END;) {
        struct kernel_lexer ahead = lexer;
        struct kernel_token next = kernel_lexer_next(&ahead);
        while (next.kind == TOKEN_NEWLINE && !directive)
            next = kernel_lexer_next(&ahead);
        if (token.kind == TOKEN_NEWLINE)
            directive = false;
        else if (is_mark(&token, "#"))
            directive = true;
        else if (directive && dgl_str_eq(token.text, "define") && next.kind == TOKEN_WORD)
            phase_names_add(names, (struct phase_name){.name = next.text});
        else if (!directive && is_mark(&token, "([{"))
            depth++;
        else if (!directive && is_mark(&token, ")]}"))
            depth--;
        if (!directive && depth == 0)
            constant = (constant && !is_mark(&token, ";")) || dgl_str_eq(token.text, "const");
        if (directive && is_mark(&before, "#"))
            conditions += (token.text.len > 1 && memcmp(token.text.p, "if", 2) == 0) -
                          dgl_str_eq(token.text, "endif");
        /* A word after a type, or after the comma of a list of declarations. */
        bool declares =
            token.kind == TOKEN_WORD && !directive && depth == 0 &&
            (before.kind == TOKEN_WORD || is_mark(&before, ",]")) &&
            (is_mark(&next, "(;=[,") || (is_mark(&next, "{") && dgl_str_eq(before.text, "struct")));
        if (declares) {
            struct phase_name name = {.name = token.text};
            if (before.kind == TOKEN_WORD) {
                type = before.text;
                names->declarations++;
            }
            name.declaration = names->declarations;
            if (is_mark(&next, ";,[") && conditions == 0 && !constant)
                name.type = type;
            if (is_mark(&next, "["))
                name.count = until_bracket(ahead);
            phase_names_add(names, name);
        }
        if (token.kind != TOKEN_NEWLINE)
            before = token;
        token = kernel_lexer_next(&lexer);
    }
    /* Names must outlive the lexer: those of a text with continued lines are looked up in it. */
    for (size_t i = 0; lexer.spliced && i < names->count; i++) {
        relocate(&lexer, text, &names->names[i].name);
        relocate(&lexer, text, &names->names[i].type);
        relocate(&lexer, text, &names->names[i].count);
    }
    kernel_lexer_finish(&lexer);
}

bool phase_text_has_bare(struct dgl_str text, const char *name)
{
    struct kernel_lexer lexer;
    bool bare = false;
    if (!kernel_lexer_init(&lexer, text, 1))
        return false; /* phase_text_rewrite() reports that memory ran out */
    struct kernel_token before = {.kind = TOKEN_NEWLINE}, token = kernel_lexer_next(&lexer);
    while (token.kind != TOKEN_END && !bare) {
        struct kernel_token next = kernel_lexer_next(&lexer);
        bare = token.kind == TOKEN_WORD && dgl_str_eq(token.text, name) && !is_mark(&before, ".") &&
               !is_mark(&next, "[");
        before = token;
        token = next;
    }
    kernel_lexer_finish(&lexer);
    return bare;
}

/* An open bracket: an element of a replaced array, with its closing text, or any other. */
struct nesting {
    const char *close;
};

bool phase_text_rewrite(const struct phase_names *names, struct dgl_str text, struct dgl_buf *out,
                        struct dgl_str *bad)
{
    struct kernel_lexer lexer;
    struct kernel_token before = {.kind = TOKEN_NEWLINE};
    struct nesting open[MAX_NESTING];
    const char *end = NULL; /* end of the previous token, to keep blanks between tokens */
    int depth = 0, struct_depth = -1, braces = 0, parens = 0;
    bool in_struct = false, directive = false, ok = true;
    *bad = (struct dgl_str){0};
    if (!kernel_lexer_init(&lexer, text, 1)) {
        out->failed = true;
        return false;
    }
    for (struct kernel_token token = kernel_lexer_next(&lexer); token.kind != TOKEN_END && ok;
         token = kernel_lexer_next(&lexer)) {
        struct kernel_lexer ahead = lexer;
        struct kernel_token next = kernel_lexer_next(&ahead);
        if (end && token.text.p > end && token.kind != TOKEN_NEWLINE)
            dgl_buf_putc(out, ' ');
        end = token.text.p + token.text.len;
        if (token.kind == TOKEN_WORD && dgl_str_eq(token.text, "struct")) {
            in_struct = true;
            struct_depth = -1;
        }
        directive = is_mark(&token, "#") || (directive && token.kind != TOKEN_NEWLINE);
        braces += is_mark(&token, "{") - is_mark(&token, "}");
        parens += is_mark(&token, "(") - is_mark(&token, ")");
        if (in_struct && is_mark(&token, "{"))
            struct_depth = braces;
        if (in_struct && is_mark(&token, "}"))
            in_struct = struct_depth >= 0 && braces >= struct_depth;
        /* Omits a declaration that the head of the program has. Lines keep their numbers. */
        const struct phase_name *declared = token.kind == TOKEN_WORD && !directive && braces == 0 &&
                                                    parens == 0 && next.kind == TOKEN_WORD
                                                ? phase_names_find(names, next.text)
                                                : NULL;
        if (declared && declared->elsewhere) {
            for (; token.kind != TOKEN_END && !is_mark(&token, ";");
                 token = kernel_lexer_next(&lexer))
                if (token.kind == TOKEN_NEWLINE)
                    dgl_buf_append(out, token.text.p, token.text.len);
            before = token;
            end = token.text.p + token.text.len;
            continue;
        }
        bool field = is_mark(&before, ".") || (in_struct && struct_depth >= 0 &&
                                               braces >= struct_depth && is_mark(&next, ";,["));
        const struct phase_name *name =
            token.kind == TOKEN_WORD && !field ? phase_names_find(names, token.text) : NULL;
        before = token;
        if (is_mark(&token, "[")) {
            ok = depth < MAX_NESTING;
            if (ok)
                open[depth++].close = NULL;
        } else if (is_mark(&token, "]") && depth > 0 && open[--depth].close) {
            dgl_buf_puts(out, open[depth].close);
            continue;
        }
        if (name && name->open) {
            dgl_buf_puts(out, name->open);
            if (!name->close)
                continue;
            ok = is_mark(&next, "[") && depth < MAX_NESTING;
            if (!ok) {
                *bad = name->name;
                break;
            }
            open[depth++].close = name->close;
            lexer = ahead;
            before = next;
            end = next.text.p + next.text.len;
            continue;
        }
        if (name)
            dgl_buf_puts(out, names->prefix);
        dgl_buf_append(out, token.text.p, token.text.len);
    }
    kernel_lexer_finish(&lexer);
    return ok;
}
