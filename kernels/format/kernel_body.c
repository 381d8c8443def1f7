/* Checks the GLSL of a kernel or lib. Comments are ignored. The checks refuse names that only the
 * generator may use, large macros, and preprocessor conditions on undeclared symbols. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/format/kernel_excerpt.h"
#include "kernels/format/kernel_lexer.h"
#include "kernels/format/kernel_parser.h"
#include "kernels/step.h"

static struct kernel_token next_word(struct kernel_lexer *lexer)
{
    struct kernel_token token;
    do
        token = kernel_lexer_next(lexer);
    while (token.kind == TOKEN_NEWLINE);
    return token;
}

/* Consumes "uvec3 NAME )", where the name is optional. Returns false and restores *lexer if the
 * text differs. */
static bool take_group(struct kernel_lexer *lexer)
{
    struct kernel_lexer at = *lexer;
    struct kernel_token token = next_word(&at);
    const bool of_group = dgl_str_eq(token.text, "uvec3");
    token = next_word(&at);
    if (token.kind == TOKEN_WORD)
        token = next_word(&at);
    if (!of_group || !dgl_str_eq(token.text, ")"))
        return false;
    *lexer = at;
    return true;
}

struct kernel_entry kernel_body_find(struct dgl_str text, uint32_t first_line, const char *function)
{
    struct kernel_entry entry = {.found = false};
    struct kernel_lexer lexer;
    struct kernel_token type = {.kind = TOKEN_NEWLINE}, name = type;
    if (!kernel_lexer_init(&lexer, text, first_line))
        return (struct kernel_entry){.failed = true};
    while (!entry.found) {
        struct kernel_token token = next_word(&lexer);
        if (token.kind == TOKEN_END)
            break;
        /* After these words a call follows, not a declaration. */
        const bool typed = dgl_str_eq(type.text, "]") ||
                           (type.kind == TOKEN_WORD && !dgl_str_eq(type.text, "return") &&
                            !dgl_str_eq(type.text, "else") && !dgl_str_eq(type.text, "do") &&
                            !dgl_str_eq(type.text, "define"));
        if (dgl_str_eq(token.text, "(") && dgl_str_eq(name.text, function) && typed) {
            entry.found = dgl_str_eq(type.text, "void") && take_group(&lexer);
            if (entry.found || !entry.line)
                entry.line = name.line;
        }
        type = name;
        name = token;
    }
    kernel_lexer_finish(&lexer);
    return entry;
}

/* The names that a text defines by #define, sorted. */
struct defines {
    struct dgl_str *names;
    size_t count, cap;
};

static int compare_names(const void *a, const void *b)
{
    return dgl_str_compare(*(const struct dgl_str *)a, *(const struct dgl_str *)b);
}

/* Collects them. The names point into the spliced text of `lexer`. */
static bool defines_find(struct kernel_lexer lexer, struct defines *out)
{
    struct kernel_token before[2] = {{.kind = TOKEN_NEWLINE}, {.kind = TOKEN_NEWLINE}};
    kernel_lexer_rewind(&lexer);
    for (;;) {
        struct kernel_token token = kernel_lexer_next(&lexer);
        if (token.kind == TOKEN_END)
            break;
        if (token.kind == TOKEN_WORD && dgl_str_eq(before[0].text, "#") &&
            dgl_str_eq(before[1].text, "define")) {
            if (!dgl_grow((void **)&out->names, &out->cap, out->count + 1, sizeof(*out->names)))
                return false;
            out->names[out->count++] = token.text;
        }
        before[0] = before[1];
        before[1] = token;
    }
    if (out->count)
        qsort(out->names, out->count, sizeof(*out->names), compare_names);
    return true;
}

static bool is_step_index(struct dgl_str name)
{
#define X(glsl, c, field)                                                                          \
    if (dgl_str_eq(name, "STEP_" #field))                                                          \
        return true;
    DGL_STEP_FIELDS(X)
#undef X
    return false;
}

static bool kernel_declares(const struct kernel *kernel, struct dgl_str name)
{
    static const char *const always[] = {"defined", "GL_ES",   "__VERSION__",
                                         "LOCAL_X", "LOCAL_Y", "LOCAL_Z"};
    for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
        if (dgl_str_eq(name, always[i]))
            return true;
    return KERNEL_IS_NAMED(kernel->consts, kernel->num_consts, name) ||
           KERNEL_IS_NAMED(kernel->tunes, kernel->num_tunes, name) ||
           KERNEL_IS_NAMED(kernel->flags, kernel->num_flags, name) ||
           KERNEL_IS_NAMED(kernel->decls.lets, kernel->decls.num_lets, name) ||
           kernel_is_named(kernel->extensions[0], sizeof(kernel->extensions[0]),
                           kernel->num_extensions, name) ||
           (kernel->writes_step && is_step_index(name));
}

/* Consumes the name and parameters after "#define". Returns false if the macro has more than
 * KERNEL_MAX_MACRO_PARAMS parameters. */
static bool macro_is_small(struct kernel_lexer *lexer)
{
    struct kernel_lexer at = *lexer;
    struct kernel_token name = kernel_lexer_next(&at), token = kernel_lexer_next(&at);
    uint32_t commas = 0;
    if (name.kind != TOKEN_WORD || !dgl_str_eq(token.text, "(") ||
        token.text.p != name.text.p + name.text.len)
        return true;
    while (token.kind != TOKEN_END && token.kind != TOKEN_NEWLINE && !dgl_str_eq(token.text, ")")) {
        commas += dgl_str_eq(token.text, ",");
        token = kernel_lexer_next(&at);
    }
    *lexer = at;
    return commas < KERNEL_MAX_MACRO_PARAMS;
}

/* Reports an error at a token of a text. */
static enum dgl_status fail_at(const struct dgl_log *log, const struct kernel_place *whole,
                               const struct kernel_token *token, const char *fmt, ...)
    DGL_PRINTF(4, 5);
static enum dgl_status fail_at(const struct dgl_log *log, const struct kernel_place *whole,
                               const struct kernel_token *token, const char *fmt, ...)
{
    struct kernel_place place = *whole;
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    place.line = token->line;
    place.word = token->text;
    return kernel_fail_at(log, &place, text);
}

/* The open conditions of a text. */
struct conditions {
    struct kernel_token open[32]; /* the outer ones */
    uint32_t depth;
};

/* Counts an opened or closed condition. `token` follows a # at the start of a line. */
static enum dgl_status count_condition(const struct dgl_log *log, const struct kernel_place *whole,
                                       const struct kernel_token *token, struct conditions *c)
{
    const bool end = dgl_str_eq(token->text, "endif");
    if (dgl_str_eq(token->text, "if") || dgl_str_eq(token->text, "ifdef") ||
        dgl_str_eq(token->text, "ifndef")) {
        if (c->depth < sizeof(c->open) / sizeof(c->open[0]))
            c->open[c->depth] = *token;
        c->depth++;
    } else if (c->depth == 0 &&
               (end || dgl_str_eq(token->text, "else") || dgl_str_eq(token->text, "elif"))) {
        return fail_at(log, whole, token, "#%.*s without #if", (int)token->text.len, token->text.p);
    }
    c->depth -= end;
    return DGL_OK;
}

/* Checks the end of the text: an open comment or condition would swallow the texts after it. */
static enum dgl_status check_closed(const struct dgl_log *log, const struct kernel_place *whole,
                                    const struct kernel_lexer *lexer, const struct conditions *c)
{
    const size_t cap = sizeof(c->open) / sizeof(c->open[0]);
    if (lexer->open_comment)
        return fail_at(
            log, whole,
            &(const struct kernel_token){.line = lexer->open_comment, .text = DGL_STR("/*")},
            "the comment that begins here is never closed");
    if (c->depth == 0)
        return DGL_OK;
    const struct kernel_token *open = &c->open[c->depth < cap ? c->depth - 1 : cap - 1];
    return fail_at(log, whole, open, "#%.*s without #endif", (int)open->text.len, open->text.p);
}

enum dgl_status kernel_body_check(const struct dgl_log *log, const char *path, struct dgl_str text,
                                  uint32_t first_line, const struct kernel *kernel,
                                  const struct kernel_decls *lib)
{
    const struct kernel_place whole = {.path = path, .text = text, .first_line = first_line};
    static const char *const forbidden[][2] = {
        {"gl_WorkGroupID", "use the parameter of body(uvec3 group)"},
        {"gl_NumWorkGroups", "make the count a CONST or a PARAM"},
        {"gl_GlobalInvocationID", "use group and gl_LocalInvocationID"},
        {"main", "the generator writes main(); write void body(uvec3 group)"},
        {"buffer", "declare it with //! BIND access type name"},
        {"uniform", "declare it with //! PARAM type name"},
        {"layout", "declare buffers, parameters and the local size with //! BIND, PARAM and LOCAL"},
        {"shared", "declare it with //! SHARED type name[elements]"},
    };
    static const char *const directives[] = {"version", "line", "extension"};
    struct kernel_lexer lexer;
    struct defines defines = {0};
    struct conditions conditions = {.depth = 0};
    bool condition = false, line_start = true, have_defines = false;
    enum dgl_status status = DGL_OK;
    if (!kernel_lexer_init(&lexer, text, first_line))
        return dgl_fail_memory(log, path, text.len);
    while (status == DGL_OK) {
        struct kernel_token token = kernel_lexer_next(&lexer);
        if (token.kind == TOKEN_END)
            break;
        if (token.kind == TOKEN_NEWLINE) {
            condition = false;
            line_start = true;
            continue;
        }
        bool directive = line_start && dgl_str_eq(token.text, "#");
        line_start = false;
        if (directive) {
            struct kernel_lexer before = lexer;
            token = kernel_lexer_next(&lexer);
            for (size_t i = 0; i < sizeof(directives) / sizeof(*directives); i++)
                if (dgl_str_eq(token.text, directives[i]))
                    status = fail_at(
                        log, &whole, &token, "#%s may not appear here: the generator writes it%s",
                        directives[i],
                        dgl_str_eq(token.text, "extension") ? " for each //! EXTENSION" : "");
            if (dgl_str_eq(token.text, "include"))
                status = fail_at(log, &whole, &token,
                                 "#include may not appear here: kernels share texts by //! LIB");
            condition = dgl_str_eq(token.text, "if") || dgl_str_eq(token.text, "ifdef") ||
                        dgl_str_eq(token.text, "ifndef") || dgl_str_eq(token.text, "elif");
            if (status == DGL_OK)
                status = count_condition(log, &whole, &token, &conditions);
            if (status == DGL_OK && dgl_str_eq(token.text, "define") && !macro_is_small(&lexer))
                status = fail_at(log, &whole, &token, "a macro has at most %d parameters, not more",
                                 KERNEL_MAX_MACRO_PARAMS);
            if (token.kind != TOKEN_WORD)
                lexer = before;
            continue;
        }
        if (dgl_str_eq(token.text, "#")) {
            struct kernel_token next = kernel_lexer_next(&lexer);
            if (dgl_str_eq(next.text, "#"))
                status = fail_at(log, &whole, &token,
                                 "## may not appear here: GLSL ES has no operator of the "
                                 "preprocessor that joins words");
            token = next;
            line_start = token.kind == TOKEN_NEWLINE;
            condition &= !line_start;
        }
        if (token.kind != TOKEN_WORD)
            continue;
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(*forbidden) && status == DGL_OK; i++)
            if (dgl_str_eq(token.text, forbidden[i][0]))
                status = fail_at(log, &whole, &token, "%s may not appear here: %s", forbidden[i][0],
                                 forbidden[i][1]);
        if (status != DGL_OK || !condition || !kernel || kernel_declares(kernel, token.text) ||
            (lib && KERNEL_IS_NAMED(lib->lets, lib->num_lets, token.text)))
            continue;
        if (!have_defines && !defines_find(lexer, &defines))
            status = dgl_fail_memory(log, path, text.len);
        have_defines = true;
        if (status == DGL_OK &&
            !(defines.count && bsearch(&token.text, defines.names, defines.count,
                                       sizeof(token.text), compare_names)))
            status = fail_at(log, &whole, &token,
                             "kernel %s does not declare the symbol %.*s: add CONST, TUNE, LET or "
                             "a WHEN line with that word",
                             kernel->name, (int)token.text.len, token.text.p);
    }
    if (status == DGL_OK)
        status = check_closed(log, &whole, &lexer, &conditions);
    free(defines.names);
    kernel_lexer_finish(&lexer);
    return status;
}
